"""Both levels in units that minimise the effect of rounding, with the rank of the lower level."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tiebreak.exact.basis_pursuit import L1Norm
from tiebreak.exact.polyhedra import PolyhedralRows, exact_rows
from tiebreak.functions import LeastSquaresPart, Parts
from tiebreak.linalg import TOL, Host, Rank, decide_rank, equilibrate
from tiebreak.linalg.host import norm
from tiebreak.problem import Problem
from tiebreak.sets import Space

# If units differ by this factor, slopes of f differ by its square, so rounding errors of the large
# slopes are about 1e-8 times the small slopes.
UNLIKE = 2.0**13


class ScaledProblem:
    """A problem over Z in NumPy: f is quadratic or |x|_1, and g = phi(Ax) + <c, x>.

    If Z bounds each variable separately, or not at all, the variables are rescaled, x = units u, so
    that g's columns have similar sizes. The units are powers of two, so nothing is rounded. Other
    sets couple the variables, which then keep the given units; in that case rescaled columns are
    used only to decide the rank.

    Args:
        problem: the problem as given; Z is its domain.
        f: the scaled upper level, which has no parts if it is |x|_1.
        g: the scaled lower level.
        rows: the rows of g before scaling.
        epsilon: the machine epsilon of the data.
        l1: the weights and center if f is a sum of weights_j |x_j - center_j|; the largest weight
            is 1.
        counted: weights of the variables in the norm that chooses among f's minimisers, or all 1.
        Z: the exact rows of the domain, if known.
    """

    def __init__(
        self,
        problem: Problem,
        f: Parts,
        g: Parts,
        rows: Host,
        epsilon: float,
        l1: L1Norm | None = None,
        counted: Host | None = None,
        Z: PolyhedralRows | None = None,
    ) -> None:
        self.counted: Host = np.ones(f.n) if counted is None else np.sqrt(counted)
        self.problem, self.n, self.epsilon, self.l1, self.Z = problem, f.n, epsilon, l1, Z
        self.domain = domain = problem.domain
        self.is_bounded: bool = math.isfinite(domain.diameter_in(f.n))
        self._f, self._g, self.rows_in_x = f, g, rows
        self.row_factors, columns = equilibrate(rows)
        self.units, units = np.ones(f.n), _units(columns, rows, f)
        if not np.any(units != 1.0) or domain.in_units(units) is not None:
            self.units, columns = units, self.units
        self.is_rescaled: bool = bool(np.any(self.units != 1.0))
        self.f, self.g, self.exponent = f, g, 0
        if self.is_rescaled:
            f, g = f.stretched(self.units), g.stretched(self.units)
            self.f, self.g, self.exponent = f.scaled, g.scaled, f.exponent
        self.rows: Host = rows * self.units
        self.rank: Rank = decide_rank(self.rows, epsilon, (self.row_factors, columns))
        # The weights of |u_j - center_j/units_j|, up to a factor, and the divisors that convert a
        # slope to the units of x.
        prices = self.units if l1 is None else l1.weights * self.units
        self.prices, self.slope_units = prices / np.max(prices), self.units / np.max(prices)

    def on_space(self) -> ScaledProblem:
        """Return the same problem with Z = R^n."""
        free = replace(self.problem, domain=Space())
        same = self._f, self._g, self.rows_in_x, self.epsilon, self.l1, self.counted**2
        return ScaledProblem(free, *same)

    def polyhedron(self) -> PolyhedralRows:
        """Return Z, which is not a ball, in the units of u."""
        Z = self.Z or exact_rows(self.domain, self.n)
        return Z.stretched(self.units) if self.is_rescaled else Z.of_length_one()

    def norm_of_x(self, lift: Host | None = None) -> Parts:
        """Return ½|x|² as a function of u, or of the variables that are lifted to u."""
        weights = self.counted * self.units
        rows = np.diag(weights) if lift is None else weights[:, None] * lift
        return Parts(rows.shape[1], (LeastSquaresPart(1.0, rows, np.zeros(self.n)),)).scaled

    def basis(self, doubtful: bool) -> Host:
        """Return the directions in which g varies, as columns."""
        return self.rank.basis[:, : self.rank.high if doubtful else self.rank.low]

    def factors(self, rank: int) -> tuple[Host, Host] | None:
        """Return singular values and vectors of g's curvature if the rank decision gives them."""
        if len(self.g.parts) != 1 or not self.g.is_squares or not self.rank.is_plain:
            return None
        (part,), sigma = self.g.squares, np.zeros(self.n)
        if part.w is not None:  # the rank is decided without the weights
            return None
        sigma[:rank] = math.sqrt(part.weight) * norm(part.rows) * self.rank.sigma[:rank]
        return sigma, self.rank.basis.T

    @property
    def needs_grading(self) -> bool:
        """Must directions be sorted by how much f varies along them, because units differ a lot?"""
        return bool(np.max(self.units) > UNLIKE * np.min(self.units))


def _units(columns: Host, rows: Host, f: Parts) -> Host:
    """Return the units of the columns; columns that g ignores get units from f."""
    sizes, in_g = f.sizes(), rows.any(axis=0)
    in_both, in_f_alone = in_g & (sizes > 0.0), ~in_g & (sizes > 0.0)
    units = np.where(in_g, columns, np.median(columns[in_g]) if in_g.any() else 1.0)
    if in_f_alone.any():
        products = columns[in_both] * sizes[in_both]
        scale = np.median(np.log2(products)) if in_both.any() else 0.0
        exponents = np.round(scale - np.log2(sizes[in_f_alone]))
        if np.any(columns != 1.0) or np.max(np.abs(exponents)) > math.log2(TOL.alike):
            units[in_f_alone] = np.exp2(exponents)
    return units
