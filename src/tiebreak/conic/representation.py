"""Functions, penalties and sets of tiebreak as pieces of a conic program.

Squares stay squares; everything else that is not linear gets auxiliary variables, whose least cost
for a given x is the function's value at x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tiebreak.conic.builder import Builder
from tiebreak.conic.program import ConicProgram
from tiebreak.functions.base import Function
from tiebreak.functions.callables import Smooth
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses.huber import Huber
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.penalties.composite import split
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.conic_form import Affine, Cost, Misfit, constants
from tiebreak.linalg.host import host, power_of_two
from tiebreak.linalg.matrices import Matrix, Operator
from tiebreak.linalg.matrices.repeated import Repeated
from tiebreak.linalg.refusals import Refusal
from tiebreak.linalg.spectra import EPS
from tiebreak.sets import Domain, Set, described
from tiebreak.sets.descriptions import bounds_on

RANK_SLACK = 8.0  # eigenvalues of Q up to so many units of rounding per variable are taken as 0


def compile_levels(
    objectives: Sequence[Function | Penalty],
    domain: Domain,
    n: int,
    radius: float | None = None,
    owner: str = "Levels",
) -> ConicProgram:
    """Objectives in the order of their priority on a set in R^n, as a conic program.

    Args:
        radius: |x| <= radius for some solution, if that is known; it bounds ``reach`` and is no
            constraint.
        owner: who refuses, in one sentence (a `Refusal`), what cones cannot represent.
    """
    sets = [*described(domain).parts]
    for i, h in enumerate(objectives):
        restriction = split(h)[1].terms.domain
        if described(restriction).is_space:
            continue
        if i > 0:  # there it would restrict the levels before it too
            got = f"the indicator of {type(restriction).__name__}"
            raise Refusal(owner, f"level {i + 1}", "must have no set of its own", got)
        sets += described(restriction).parts
    for part in sets:
        if not part.is_conic:
            needed = "must be a set that cones can represent, such as Ball, Box or Polyhedron"
            nameless = type(part) is Set  # it stands for one that says nothing of itself
            raise Refusal(owner, "domain", needed, type(domain if nameless else part).__name__)
        part.check(n)
    lower, upper, reach = bounds_on(sets, n)
    builder = Builder(lower, upper, min(reach, math.inf if radius is None else float(radius)))
    for part in sets:
        builder.owner = type(part).__name__
        part.conic_form(builder)
    levels = [_Level(builder, owner, f"level {i + 1}") for i in range(len(objectives))]
    for level, h in zip(levels, objectives, strict=True):
        level.add(h)

    def evaluate(number: int, z: Host) -> float:
        h = objectives[number]
        prototype = h.prototype if isinstance(h, Function) else None
        return float(h.value(z[:n] if prototype is None else arrays.like(z[:n], prototype)))

    program = builder.program(level.cost for level in levels)
    return replace(program, evaluate=evaluate, owners=builder.owners)


class _Level:
    """One objective: its cost, and constraints on the auxiliary variables that it needs."""

    def __init__(self, builder: Builder, owner: str, name: str) -> None:
        self.builder, self.cost = builder, Cost()
        self._owner, self._name = owner, name

    def _refusal(self, got: str) -> Refusal:
        needed = "must be made of functions that cones can represent"
        return Refusal(self._owner, self._name, needed, got)

    def add(self, h: Function | Penalty) -> None:
        """A function of x."""
        smooth, penalty = split(h if isinstance(h, Penalty) else h.bare)
        if smooth.dimension not in (None, self.builder.n):
            needed = f"must have one variable for each of the {self.builder.n}"
            raise Refusal(self._owner, self._name, needed, f"{smooth.dimension}")
        for weight, part in summands(smooth):
            self._smooth(part.bare, weight)
        penalty.check(self.builder.n)
        if not penalty.add_to_conic(self.builder, self.cost):
            raise self._refusal(f"the penalty {penalty.label}")

    # --- smooth functions -------------------------------------------------------------------------

    def _smooth(self, h: Function, weight: float) -> None:
        for kind, add in self._kinds:
            if isinstance(h, kind):
                add(self, h, weight)
                return
        name = type(h).__name__
        raise self._refusal(f"{name}, known by its callables" if isinstance(h, Smooth) else name)

    def _entries(self, h: Function, matrix: Matrix | None) -> Any:
        """The entries of its matrix in float64: NumPy, or SciPy's CSR."""
        assert matrix is not None
        if isinstance(matrix, Repeated):
            from scipy.sparse import block_diag, csr_array

            block = csr_array(self._entries(h, matrix.block))
            return csr_array(block_diag([block] * matrix.copies, format="csr"))
        if matrix.is_sparse:
            from scipy.sparse import csr_array

            return csr_array(matrix.entries).astype(np.float64)
        if not matrix.is_explicit:
            kind = "a linear operator" if isinstance(matrix, Operator) else "rows not in memory"
            raise self._refusal(f"{type(h).__name__} of {kind}, whose entries are not known")
        return matrix.dense()

    def _rows(self, h: LinearLoss, weight: float) -> tuple[Any, Host, Host]:
        """Matrix, target and weights of the rows of a loss that count."""
        matrix, target = self._entries(h, h.matrix), host(h.target)
        w = np.ones(len(target)) if h.weights is None else host(h.weights)
        return matrix, target, weight * h.scale * w

    def _flat(self, h: Flat, weight: float) -> None:
        pass

    def _linear(self, h: Linear, weight: float) -> None:
        self.cost.add(weight * host(h.c), self.builder.x)

    def _squared_norm(self, h: SquaredNorm, weight: float) -> None:
        center = 0.0 if h.center is None else host(h.center)
        self.cost.add_squares(weight * host(h.weight), self.builder.x - center)

    def _quadratic(self, h: Quadratic, weight: float) -> None:
        matrix = self._entries(h, h.matrix)
        epsilon = max(arrays.epsilon(h.matrix.prototype), h.data_epsilon)
        c = host(h.c)
        root, shift = completed_square(matrix, c, epsilon)
        if shift is None:
            self.cost.add(weight * c, self.builder.x)
            shift = np.zeros(root.shape[0])
        self.cost.add_squares(weight, self.builder.of_x(root, shift))
        self.cost.constant += weight * (h.constant - 0.5 * float(shift @ shift))
        self.cost.misfits.append(_misfit(matrix, c, root, shift, weight, h.constant))

    def _least_squares(self, h: LeastSquares, weight: float) -> None:
        matrix, b, w = self._rows(h, weight)
        self.cost.add_squares(w, self.builder.of_x(matrix, -b))

    def _huber(self, h: Huber, weight: float) -> None:
        """The least ½(r - p + m)² + delta (p + m) over p, m >= 0: outliers are p - m."""
        matrix, b, w = self._rows(h, weight)
        counts = w > 0.0
        residual, w = self.builder.of_x(matrix, -b).some(counts), w[counts]
        most = np.maximum(self.builder.bound(residual) - h.delta, 0.0)
        above, below = (self.builder.variables(len(w), most) for _ in range(2))
        for part in (above, below):
            self.builder.nonnegative(part)
            self.cost.add(w * h.delta, part)
        self.cost.add_squares(w, residual - above + below)

    def _logistic(self, h: Logistic, weight: float) -> None:
        matrix, y, w = self._rows(h, weight)
        margins = self.builder.of_x(matrix).scaled(-y)
        self._log_sum_exp(w, [margins])

    def _multinomial(self, h: Multinomial, weight: float) -> None:
        matrix, y, w = self._rows(h, weight)
        products, rows = self.builder.of_x(matrix), np.arange(len(y))
        own = y.astype(np.int64)
        margins = []
        for k in range(h.classes - 1):
            other = k + (k >= own)  # the k-th of the classes that are not y
            places = other * len(y) + rows, own * len(y) + rows
            margins.append(products.some(places[0]) - products.some(places[1]))
        self._log_sum_exp(w, margins)

    def _log_sum_exp(self, weights: Host, margins: Sequence[Affine]) -> None:
        """weights_i log(1 + sum over the margins m of exp m_i).

        It is the least s with exp(m_i - s) <= p_i for every m and exp(-s) <= 1 - sum of the p.
        """
        counts, builder = weights > 0.0, self.builder
        margins, w = [some.some(counts) for some in margins], weights[counts]
        sizes = np.max([builder.bound(some) for some in margins], axis=0)
        s = builder.variables(len(w), sizes + math.log(len(margins) + 1))
        rest = constants(np.ones(len(w)))
        for some in margins:
            p = builder.variables(len(w), 1.0)
            builder.exponential(some - s, p)
            rest = rest - p
        builder.exponential(-1.0 * s, rest)
        self.cost.add(w, s)

    def _poisson(self, h: Poisson, weight: float) -> None:
        matrix, y, w = self._rows(h, weight)
        counts = w > 0.0
        t, y, w = self.builder.of_x(matrix).some(counts), y[counts], w[counts]
        with np.errstate(over="ignore"):
            most = np.exp(self.builder.bound(t))
        means = self.builder.variables(len(w), most)
        self.builder.exponential(t, means)
        self.cost.add(w, means)
        self.cost.add(-w * y, t)
        self.cost.constant += float(w @ (y * np.log(np.where(y > 0.0, y, 1.0)) - y))

    _kinds: ClassVar[tuple[tuple[type[Function], Callable[[_Level, Any, float], None]], ...]] = (
        (LeastSquares, _least_squares),
        (Logistic, _logistic),
        (Multinomial, _multinomial),
        (Poisson, _poisson),
        (Huber, _huber),
        (SquaredNorm, _squared_norm),
        (Quadratic, _quadratic),
        (Linear, _linear),
        (Flat, _flat),
    )


def _misfit(Q: Any, c: Host, root: Any, shift: Host, weight: float, constant: float) -> Misfit:
    """How far ½|root x + shift|² - ½|shift|² may be from ½x'Qx + <c, x>, of a small Q."""
    sizes, unit = abs(root), EPS * (len(c) + 8)
    square = abs(root.T @ root - Q) + unit * (sizes.T @ sizes + abs(Q))
    falls = np.zeros_like(c) if shift.any() else c  # then c is a linear part of its own
    linear = np.abs(root.T @ shift + falls - c) + unit * (sizes.T @ np.abs(shift) + np.abs(c))
    rest = unit * (float(shift @ shift) + abs(constant))
    return Misfit(2.0 * weight * square, 2.0 * weight * linear, 2.0 * weight * rest)


def completed_square(Q: Any, c: Host, epsilon: float) -> tuple[Any, Host | None]:
    """F and s with ½x'Qx + <c, x> = ½|F x + s|² - ½|s|², F with as many rows as Q's rank.

    Q is symmetric and positive semidefinite. In units of the variables in which its diagonal is
    about 1, for rank has no units; what is within the rounding errors of the data (``epsilon``) is
    taken as 0. s is None where c falls in a direction in which F x stays as it is.
    """
    from scipy.sparse import csr_array, diags_array

    diagonal = np.maximum(np.asarray(Q.diagonal(), dtype=np.float64), 0.0)
    used, roots = diagonal > 0.0, np.sqrt(diagonal)
    falls = bool(c[~used].any())
    if (csr_array(Q) - diags_array(diagonal)).count_nonzero() == 0:
        return diags_array(roots).tocsr()[np.flatnonzero(used)], (
            None if falls else c[used] / roots[used]
        )
    units = power_of_two(diagonal, 0.5)
    scaled = (Q.toarray() if arrays.is_sparse(Q) else Q) / units / units[:, None]
    deadline.check(0.5 * deadline.svd_work(*scaled.shape))
    values, vectors = np.linalg.eigh(scaled)
    slack = RANK_SLACK * len(c) * epsilon
    kept = values > slack * float(np.max(np.abs(values), initial=0.0))
    roots, basis = np.sqrt(values[kept]), np.where(used, vectors.T[kept], 0.0)
    wanted = c / units
    found = basis @ wanted
    falls = falls or arrays.norm(basis.T @ found - wanted) > slack * arrays.norm(wanted)
    return roots[:, None] * basis * units, None if falls else found / roots
