"""Lower bounds on f* from multipliers of the rows of g, a sum of squares and a linear term."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.curvature_bounds import combined
from tiebreak.exact.bounds.evaluations import EvaluationWithErrors, least_with_slope
from tiebreak.exact.bounds.feasible_points import multiples_of_rows
from tiebreak.exact.bounds.loss_bounds import L1Dual
from tiebreak.exact.polyhedra import PolyhedralRows, whole_space
from tiebreak.functions import Parts
from tiebreak.functions.parts.parts import product_error
from tiebreak.linalg import EPS, Host, rounding_unit
from tiebreak.linalg.host import norm, total
from tiebreak.problem import Problem


class RowMultipliers(NamedTuple):
    """Lower bounds on f* from multipliers of the rows of g = ½|Rx - s|² + <c, x>.

    ``unmet`` bounds ½|R delta|² and |g(x*) - g(x)|; the ``normal`` of Z at x helps to balance f's
    slope. ``rows`` are the rows of Z if Z is a polyhedron.
    """

    problem: Problem
    x: Host
    parts: Parts
    normal: Host
    unmet: float
    rows: PolyhedralRows | None

    def below(self, f: EvaluationWithErrors) -> float:
        """f* >= f(x) + min_Z <grad f(x) + R'y + nu c, z - x> - |y| |R delta| - |nu <c, delta>|.

        The bound holds for every y and nu. |R delta| <= sqrt(2 unmet), and <c, delta> is the change
        of g minus the change of its squares.
        """
        if not math.isfinite(self.unmet):
            return -math.inf
        y, nu, of_equations = self._weights(-f.slope - self.normal)
        slope, error = self._combination(y, nu, f.slope)
        unit = rounding_unit(EPS, len(y) + len(of_equations) + 1, len(self.x))
        least = least_with_slope(self.problem, self.x, f, slope, error + f.slope_error, unit)
        return least - self._price(y, nu)

    def below_l1(self, sign: Host, high: float) -> float:
        """f* >= t (<y, R x> + nu <c, x> - max_Z <q, z> - price), t |R'y + nu c - q|_inf <= weight.

        The bound holds for f = weight |x|_1 and every y, nu, q and t >= 0, because s = t (R'y + nu
        c - q) has <s, x*> <= f*, and the right-hand side is at most <s, x*>. q is a normal of Z,
        ``sign`` a subgradient of |x|_1, and ``high`` at least f*. If f has a center, the bound
        holds for x - center, and <q, center> is added.
        """
        if not math.isfinite(self.unmet):
            return 0.0
        x, rows = self.x, self.rows
        # an l1 ball contains all points of smaller l1 norm
        if rows is None or rows.lift is not None:
            rows = whole_space(len(x))
        y, nu, of_equations = self._weights(sign + self.normal)
        q, most, terms = multiples_of_rows(rows, self.normal - rows.equal.T @ of_equations, x)
        unit, dual = rounding_unit(EPS, len(x)), L1Dual.of(self.problem, len(x))
        s, error = self._combination(y, nu, np.zeros(len(x)))
        gain = float(s @ (x - dual.center)) - (unit * norm(s) + error) * dual.length(x) - most
        gain += float(q @ dual.center) - unit * terms * norm(dual.center)
        dual = dual.within(self.parts.curvature(x), x, math.sqrt(2.0 * self.unmet), high)
        error += unit * (norm(s) + terms)
        return dual.below(gain - self._price(y, nu), s - q, error)

    def _weights(self, target: Host) -> tuple[Host, float, Host]:
        """Return y, nu and weights w of Z's equations E; R'y + nu c + E'w is near the target."""
        R, is_linear = self.parts.curvature(self.x), self.problem.domain.is_linear
        equal = self.rows.equal if self.rows is not None and is_linear else R[:0]
        rows = np.vstack([R, self.parts.c, equal])
        lengths = np.sqrt(np.sum(rows * rows, axis=1))
        lengths[: len(R)] = norm(R)  # one length for all rows of R keeps |y| small
        lengths[lengths == 0.0] = 1.0
        weights = combined(rows / lengths[:, None], target) / lengths
        return weights[: len(R)], float(weights[len(R)]), weights[len(R) + 1 :]

    def _combination(self, y: Host, nu: float, more: Host) -> tuple[Host, float]:
        """Return R'y + nu c + more, computed in twice the precision, and a bound on its error."""
        terms, size, done = [(more[:, None], 0)], norm(more), 0
        for part in self.parts.squares:
            mine = part.roots * y[done : done + len(part.rows)]
            terms.append(part.sliced.terms(mine, transposed=True))
            size, done = size + part.norm * norm(mine), done + len(part.rows)
        terms.append(((nu * self.parts.c)[:, None], 0))
        size += abs(nu) * norm(self.parts.c)
        vector = total(terms)
        is_plain = any(part.sliced.is_plain for part in self.parts.squares)
        error = product_error(norm(vector), (len(y), len(more)), size, is_plain)
        return vector, error + 4.0 * EPS * abs(nu) * norm(self.parts.c)

    def _price(self, y: Host, nu: float) -> float:
        """Bound |<y, R delta>| + |nu <c, delta>|."""
        x, change = self.x, math.sqrt(2.0 * self.unmet)
        unit = rounding_unit(EPS, len(y), len(x))
        residual = sum(
            norm(part.roots * (part.rows @ x - part.target))
            + math.sqrt(part.weight) * (unit * (norm(part.rows) * norm(x) + norm(part.target)))
            for part in self.parts.squares
        )
        along_c = self.unmet + residual * change + 0.5 * change * change
        return (norm(y) * change + abs(nu) * along_c) * (1.0 + unit)
