"""The tolerances of `exact`, `conic` and `proofs`, each with its derivation, in one place.

No proved bound depends on them: bounds account for their own rounding errors, and verify what these
tolerances suggest. The tolerances decide what is tried, which intermediate numbers count as zero,
and when an answer is called doubtful. Three statements do depend on tolerances, because they
concern numbers that are only known up to rounding: that a set is empty (`met`, `accurate`,
`clear_units`), how small a gap can be requested for many levels (`clear_units`), and what an
estimate assumes (`assumed`). The distance by which a feasible point may lie outside Z is not among
these tolerances: see `proofs/gate.py`. `benchmarks/tolerances.py` measures what happens if one of
them is ten times larger or smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """Tolerances, relative to the terms of the numbers compared unless noted otherwise.

    Attributes:
        few_units: How many machine epsilons of error a handful of operations accumulate; smaller
            residuals cannot be reduced further.
        clear_units: More machine epsilons of error than a factorisation causes; a number that
            exceeds its rounding error by this factor is certainly not zero.
        met: Equations and bounds hold if they are violated by no more than this: a few thousand
            machine epsilons, as many as a few triangular solves accumulate.
        touching: Like `met`, but after a solve with a matrix whose condition number 1/`independent`
            multiplies rounding errors. The value is EPS/`independent`, rounded.
        accurate: The optimality conditions must hold to this accuracy, or there is no answer. A
            solver accurate to nine digits cannot detect a smaller change of a unit vector.
        half: Half of the digits: the square of an error of this size is a rounding error.
        solver: Smaller numbers count as zero for a solver with its usual tolerances (HiGHS: 1e-7).
        faint: A solver accurate to eight digits finds two digits of a number of this size; smaller
            multipliers and slopes may as well be zero.
        small_change: Newton's method doubles the number of correct digits: after a relative step of
            this size, the next step is below `met`.
        independent: Rows whose distance from all combinations of the others exceeds this are
            independent; a matrix of such rows has a condition number of at most 1/`independent`.
        away: The fourth root of machine epsilon. Points at a greater distance from the boundary of
            a cone are not on it: the surface is curved, so a distance has only half as many correct
            digits as its square.
        percent: A bound with an error of one per cent is still useful, and an inequality with a
            slack of one per cent of its terms does not bind.
        apart: The larger of two complementary numbers is known to be positive if it is this many
            times the smaller; in clear cases, the ratio in an interior-point method reaches a
            million.
        far: A length that exceeds the others by this factor counts as far away: it leaves five of a
            solver's eight digits for the others.
        alike: Units that differ by less than this factor are left as they are. The factor is the
            square root of `clear_units`, so clear decisions stay clear.
        nothing: Entries below this fraction of a length are set to zero: they do not change sums of
            numbers of ordinary size.
        assumed: An estimate assumes that no solution has more than this many times the norm of the
            answer.
        settled: A gap or a residual has settled if one round reduces it by less than this share.
        refinements: Rounds of iterative refinement: each round gains as many correct digits as one
            solve gives, and four rounds reach full precision. If that many rounds do not halve an
            error, it is a rounding error.
        newton_steps: Steps of Newton's method before we give up. Ten are usual; a margin that grows
            without bound grows by one in each step.
        sweeps: Rounds allowed for a fixed-point iteration, if each round should at least halve the
        error.
        tall: With at least this many rows per column, it is cheaper to factorise the rows first.
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
    def rounding(self) -> float:
        """A few machine epsilons, as a relative size."""
        return self.few_units * math.ulp(1.0)

    @property
    def clear(self) -> float:
        """A relative size that certainly exceeds rounding errors."""
        return self.clear_units * math.ulp(1.0)


TOL = Tolerances()
