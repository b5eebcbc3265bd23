"""The tolerances of `exact`, `conic` and `proofs`, each with its derivation, in one place.

No bound on a value rests on them: bounds count their own rounding errors, and what these numbers
propose is checked by those. They decide what is tried, what counts as zero on the way, and when an
answer is called doubtful. Three words do rest on them, because they are about numbers that are
known up to rounding only: that a set is empty (`met`, `accurate`, `clear_units`), how small a gap
of many levels can be asked for (`clear_units`), and what an estimate assumes (`assumed`). How far
outside of Z a feasible point may be is not among them: see `proofs/gate.py`.
`benchmarks/tolerances.py` measures what happens if one of them is ten times larger or smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """Relative to the terms of what is compared, except where an attribute says otherwise.

    Attributes:
        few_units: Units of rounding that a handful of operations leave; no step can reduce a
            residual that is smaller.
        clear_units: Units of rounding that a factorisation does not reach; what is larger by this
            factor than its rounding error is surely not zero.
        met: Equations and bounds hold if they are missed by no more than this. Some thousand units
            of rounding: what a few solves with triangular matrices leave.
        touching: The same after a solve with a matrix of condition 1/`independent`, which
            multiplies rounding by that: EPS/`independent`, rounded.
        accurate: The conditions of optimality hold to this, or there is no answer. A unit vector
            that a solver of nine digits moves by less is not moved.
        half: Half of the digits: an error of this size has a square that is rounding.
        solver: What a solver with its usual tolerances means by zero (HiGHS: 1e-7).
        faint: What a solver of eight digits sees with two of them; smaller multipliers and slopes
            may as well be zero.
        small_change: Newton's method doubles the digits: after a relative step of this size the
            next one is below `met`.
        independent: Rows that are further than this from all combinations of the others are
            independent; a matrix of them has a condition of at most its inverse.
        away: The fourth root of rounding. Points that are further than this from the edge of a
            cone are not on it: the surface is curved, so a distance is known to half the digits of
            its square.
        percent: An error of one per cent leaves a bound that is worth having, and room of one per
            cent of its terms shows that an inequality does not bind.
        apart: The larger of two complementary numbers is known to be positive if it is this many
            times the smaller; an interior-point method ends with a million where it is clear.
        far: Lengths that are larger by this factor are far away: of a solver's eight digits five
            are left for all others.
        alike: Units that differ by less are left as they are: the square root of `clear_units`, so
            that what is clear stays clear.
        nothing: Entries below this part of a length are zero. It is rounding of rounding: no sum
            of numbers of ordinary size notices them.
        assumed: An estimate assumes that no solution is longer than this many times the answer.
        settled: A gap or a residual has settled if less than this share of it goes in one round.
        refinements: Rounds of iterative refinement; each gains the digits of one solution, and
            four gain all of them. As many that do not halve an error show that it is rounding.
        newton_steps: Steps of Newton's method before it is given up. Ten are usual; a margin that
            grows without end gains one in each.
        sweeps: Rounds of a fixed-point iteration that gains a factor of two or more in each.
        tall: Rows per column from which a factorisation of the rows first is cheaper.
    """

    few_units: float = 16.0
    clear_units: float = 1e3
    met: float = 1e-12
    touching: float = 1e-10
    accurate: float = 1e-9
    half: float = 1e-8
    solver: float = 1e-7
    faint: float = 1e-6
    small_change: float = 1e-6
    independent: float = 1e-6
    away: float = 1e-4
    percent: float = 1e-2
    apart: float = 1e2
    far: float = 1e3
    alike: float = 2.0**5
    nothing: float = 1e-24
    assumed: float = 10.0
    settled: float = 1e-3
    refinements: int = 4
    newton_steps: int = 100
    sweeps: int = 20
    tall: float = 2.0

    @property
    def ladder(self) -> tuple[float, ...]:
        """From rounding up, two digits at a time: for what is tried until it is enough."""
        return self.met, self.touching, self.half, self.faint, self.away

    @property
    def rounding(self) -> float:
        """A few units of rounding, relative."""
        return self.few_units * math.ulp(1.0)

    @property
    def clear(self) -> float:
        """What is surely more than rounding, relative."""
        return self.clear_units * math.ulp(1.0)


TOL = Tolerances()
