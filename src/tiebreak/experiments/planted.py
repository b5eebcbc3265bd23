"""Problems with a planted answer, for `tiebreak race` and decide.py: five fixed, the rest random.

We choose x* first, with margins and slopes of every loss at x*, and then matrices such that the
optimality conditions hold. Let N be the normal cone of Z at x*, P the set of subgradients of g's
penalty at x*, and A a matrix such that g is strictly convex as a function of A x. Then the
conditions are

    lower level   -grad g1(x*) = s + nu,   s in P, nu in N,
    upper level   -grad f(x*) = A'lambda + c nu + n,   n in N:

Another minimiser x of g has A(x - x*) = 0 and <nu, x - x*> = 0, hence f(x) >= f(x*). Each builder
takes a random generator, and `checked` rejects problems for which these conditions do not hold up
to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiebreak.catalog.built import Answer
from tiebreak.functions import L1, Function, Huber, LeastSquares, Logistic, Smooth, SquaredNorm
from tiebreak.problem import ErrorBound, Problem
from tiebreak.sets import Ball, Box, Domain, Monotone, Simplex, Space

Vector = np.ndarray[Any, Any]
Matrix = Any  # a NumPy or scipy.sparse array
Generator = np.random.Generator


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with a planted answer.

    Args:
        name, what: the name in the table, and a one-line description.
        make: builds the problem from scratch, so that no method profits from another's results.
        answer: f*, g*, x*.
        callables: which levels (upper, lower) are given as plain callables.
        ties: the dimension of the set of lower minimisers, None if unknown.
        order: the order r of the error bound of g on Z, None if unknown.
        is_structured: does Exact accept the problem?
    """

    name: str
    what: str
    make: Callable[[], Problem]
    answer: Answer
    callables: tuple[bool, bool] = (False, False)
    ties: int | None = None
    order: float | None = None
    is_structured: bool = False

    @property
    def variables(self) -> int:
        assert self.answer.solution is not None
        return int(self.answer.solution.shape[0])

    def problem(self, informed: bool) -> Problem:
        """Return the problem for a method; callables have constants only if ``informed``."""
        plain = self.make()
        levels = zip((plain.upper, plain.lower), self.callables, strict=True)
        upper, lower = (_hidden(h, informed) if hide else h for h, hide in levels)
        return Problem(upper=upper, lower=lower, domain=plain.domain)

    def with_order(self, problem: Problem) -> Problem:
        """Return the problem with the order of its error bound, if known, for Theorem 2.

        The theorem's gamma depends only on the order, so we give a modulus that is small enough to
        be valid.
        """
        if self.order is None or not problem.is_smooth:
            return problem
        slope = float(np.linalg.norm(problem.upper.gradient(self.answer.solution)))
        return replace(problem, error_bound=ErrorBound(self.order, 1e-20, slope))


def _hidden(h: Function, informed: bool) -> Function:
    """Return the function as two plain callables, with its Lipschitz constant if ``informed``."""
    return Smooth(h.value, h.gradient, h.lipschitz if informed else None)


# --- planting -------------------------------------------------------------------------------------


def spectrum(rng: Generator, rows: int, columns: int, condition: float, rank: int = 0) -> Vector:
    """Return a dense matrix with ``rank`` singular values from 1 down to 1/condition."""
    rank = rank or min(rows, columns)
    U = np.linalg.qr(rng.standard_normal((rows, rank)))[0]
    V = np.linalg.qr(rng.standard_normal((columns, rank)))[0]
    return np.asarray(U * np.geomspace(1.0, 1.0 / condition, rank) @ V.T)


def fitted(A: Vector, x: Vector, image: Vector, dual: Vector, slope: Vector) -> Vector:
    """Return the M nearest A with Mx = image, M'dual = slope, if <dual, image> = <slope, x>."""
    off, miss = image - A @ x, slope - A.T @ dual
    xx, dd = float(x @ x), float(dual @ dual)
    both = np.outer(dual, x) * (float(dual @ off) / (dd * xx))
    return np.asarray(A + np.outer(off, x) / xx + np.outer(dual, miss) / dd - both)


def squares(A: Vector, x: Vector, dual: Vector, slope: Vector) -> tuple[Vector, Vector]:
    """Return a matrix M near A and a vector b such that Mx - b = dual and M'dual = slope."""
    image = A @ x
    image += dual * ((float(slope @ x) - float(dual @ image)) / float(dual @ dual))
    A = fitted(A, x, image, dual, slope)
    return A, A @ x - dual


def checked(
    name: str,
    what: str,
    make: Callable[[], Problem],
    x: Vector,
    below: Vector,
    above: Vector,
    **more: Any,
) -> Case:
    """Return the case, after checking that grad g1(x*) is ``below`` and grad f(x*) is ``above``."""
    problem = make()
    _, smooth = problem.smooth_parts
    pairs = ((problem.upper, problem.upper, above), (problem.lower, smooth, below))
    for level, h, wanted in pairs:
        miss = float(np.linalg.norm(h.gradient(x) - wanted)) * float(np.linalg.norm(x))
        if not miss <= 1e-11 * max(abs(level.value(np.zeros(len(x)))), abs(level.value(x))):
            raise ArithmeticError(f"{name}: the optimality conditions fail by {miss:.2g}")
    if not problem.domain.contains(x, 1e-12 * float(np.linalg.norm(x))):
        raise ArithmeticError(f"{name}: x* lies outside the domain")
    answer = Answer(problem.upper.value(x), problem.lower.value(x), x)
    return Case(name, what, make, answer, **more)


# -- five fixed problems ---------------------------------------------------------------------------


def ball(rng: Generator, rows: int = 801, columns: int = 730, rank: int = 500) -> Case:
    """Return a rank-deficient validation problem in a ball, with x* on the sphere."""
    A = 100.0 * spectrum(rng, rows, columns, 30.0, rank)
    x = rng.standard_normal(columns) / math.sqrt(columns)
    noise = rng.standard_normal(rows)
    U = np.linalg.svd(A, full_matrices=False)[0][:, :rank]
    noise -= U @ (U.T @ noise)
    noise -= U @ (U.T @ noise)
    b = A @ x + noise
    slope = A.T @ rng.standard_normal(rows) / 100.0 - 0.5 * x
    B, dual = 10.0 * spectrum(rng, rows // 3, columns, 30.0), 0.1 * rng.standard_normal(rows // 3)
    B, c = squares(B, x, dual, slope)

    def make() -> Problem:
        radius = float(np.linalg.norm(x))
        return Problem(upper=LeastSquares(B, c), lower=LeastSquares(A, b), domain=Ball(radius))

    what = f"least squares twice, {rows} x {columns} below, rank {rank}, ball that binds"
    ties = columns - rank
    return checked("ball", what, make, x, 0.0 * x, slope, ties=ties, order=2.0, is_structured=True)


def unique(rng: Generator, rows: int = 300, columns: int = 100, condition: float = 1e3) -> Case:
    """Return an ill-conditioned problem on R^n, which first-order methods do not solve."""
    A = spectrum(rng, rows, columns, condition)
    x = 10.0 * rng.standard_normal(columns)
    U = np.linalg.svd(A, full_matrices=False)[0]
    noise = rng.standard_normal(rows)
    noise -= U @ (U.T @ noise)
    noise -= U @ (U.T @ noise)
    b, B = A @ x + noise, spectrum(rng, 2 * columns, columns, 10.0)
    c = B @ x + rng.standard_normal(2 * columns)

    def make() -> Problem:
        return Problem(upper=1e3 * LeastSquares(B, c), lower=LeastSquares(A, b))

    what = f"least squares twice, {rows} x {columns} below, condition {condition:g}, R^n"
    above = 1e3 * (B.T @ (B @ x - c))
    return checked("unique", what, make, x, 0.0 * x, above, ties=0, is_structured=True)


def simplex(rng: Generator, n: int = 10, rows: int = 3) -> Case:
    """Return a problem of ten variables on a simplex, four of them 0 at x*."""
    x = np.zeros(n)
    x[: n - 4] = rng.dirichlet(np.full(n - 4, 3.0))

    def normal() -> Vector:
        return rng.standard_normal() - np.where(x == 0.0, rng.uniform(0.1, 1.0, n), 0.0)

    nu = normal()
    A, b = squares(rng.standard_normal((rows, n)), x, rng.standard_normal(rows), -nu)
    slope = A.T @ rng.standard_normal(rows) - normal()
    B, c = squares(rng.standard_normal((n + 2, n)), x, rng.standard_normal(n + 2), slope)

    def make() -> Problem:
        return Problem(upper=LeastSquares(B, c), lower=LeastSquares(A, b), domain=Simplex(1.0))

    what = f"least squares twice, {n} variables, simplex with 4 of them at 0"
    ties, order = 6 - rows, 2.0  # the simplex's sum is one of the rows
    return checked("simplex", what, make, x, -nu, slope, ties=ties, order=order, is_structured=True)


def sums(rng: Generator, columns: int = 400) -> Case:
    """Return logistic loss plus least squares on both levels, with a box that binds."""
    side = rng.choice([-1.0, 0.0, 0.0, 1.0], columns)
    x = np.where(side == 0.0, rng.uniform(-0.8, 0.8, columns), side)

    def normal() -> Vector:
        return np.asarray(side * rng.uniform(0.01, 0.1, columns))

    first = 0.3 * rng.standard_normal((80, columns)) / math.sqrt(columns)
    second, dual, nu = spectrum(rng, 60, columns, 5.0), rng.standard_normal(60), normal()
    labels = rng.choice([-1.0, 1.0], 80)
    second, b = squares(second, x, dual, -nu - Logistic(first, labels).gradient(x))
    slope = first.T @ rng.standard_normal(80) + second.T @ rng.standard_normal(60) - normal()
    third, marks = rng.standard_normal((300, columns)), rng.choice([-1.0, 1.0], 300)
    rest = (slope - Logistic(third, marks).gradient(x)) / 0.1
    fourth, c = squares(spectrum(rng, 200, columns, 10.0), x, rng.standard_normal(200), rest)

    def make() -> Problem:
        return Problem(
            upper=Logistic(third, marks) + 0.1 * LeastSquares(fourth, c),
            lower=Logistic(first, labels) + LeastSquares(second, b),
            domain=Box(-1.0, 1.0),
        )

    what = f"logistic + least squares, twice, {columns} variables, box that binds"
    return checked("sums", what, make, x, -nu, slope, order=2.0, is_structured=True)


def isotonic(rng: Generator, n: int = 300, rows: int = 120) -> Case:
    """Return robust isotonic regression: g is Huber's loss, and f is the distance from a guess.

    A tenth of the residuals are outliers, where Huber's loss is linear and allows more minimisers.
    """
    x = np.sort(rng.integers(-20, 21, n)) / 4.0
    steps = (np.eye(n)[:-1] - np.eye(n)[1:])[np.diff(x) == 0.0]

    def normal() -> Vector:
        return np.asarray(rng.uniform(0.0, 0.3, len(steps)) @ steps)

    residual = rng.uniform(-0.9, 0.9, rows)
    residual[: rows // 10] = rng.choice([-3.0, 5.0], rows // 10)
    dual, nu = np.clip(residual, -1.0, 1.0), normal()
    A = spectrum(rng, rows, n, 10.0)
    image = A @ x
    image -= dual * (float(dual @ image) / float(dual @ dual))
    A = fitted(A, x, image, dual, -nu)
    bent = A[rows // 10 :]
    slope = 0.1 * (bent.T @ rng.standard_normal(len(bent)) - normal())
    center, b = x - slope / 1e-2, A @ x - residual

    def make() -> Problem:
        lower = Huber(A, b, delta=1.0)
        return Problem(upper=SquaredNorm(1e-2, center), lower=lower, domain=Monotone())

    what = f"isotonic: Huber's loss as callables below, {rows} x {n}, norm above"
    return checked("isotonic", what, make, x, -nu, slope, callables=(False, True))


SEEDS: dict[str, tuple[Callable[[Generator], Case], int]] = {
    "ball": (ball, 0),
    "unique": (unique, 1),
    "simplex": (simplex, 3),
    "sums": (sums, 7),
    "isotonic": (isotonic, 10),
}


def planted(name: str) -> Case:
    """Return the problem that has the given name."""
    make, seed = SEEDS[name]
    return make(np.random.default_rng(seed))


# -- drawn from a seed, so that no method can be tuned for them -----------------------------------


def drawn(seed: int, number: int) -> Case:
    """Return a problem whose size, condition, domain, losses and units come from the seed."""
    rng = np.random.default_rng([seed, number])
    n = round(10.0 ** rng.uniform(1.3, 2.9))
    rows = max(3, round(n * rng.uniform(0.2, 0.8)))
    condition = 10.0 ** rng.uniform(0.2, 2.0)
    size, unit_f, unit_g = 10.0 ** rng.uniform(-2.0, 2.0, 3)
    domain, x, normal = _domain(rng, n, size)
    penalty = number == 3  # one problem has a penalty in g, but no domain
    if penalty:
        domain, x, normal = Space(), x * (rng.random(n) < 0.3), lambda: np.zeros(n)
        x[0] = size
    # The lower level is least squares with a nonzero residual, perhaps plus a penalty.
    weight = 0.1 / size
    s = np.where(x == 0.0, rng.uniform(-0.8, 0.8, n), np.sign(x))
    s *= weight if penalty else 0.0
    nu = normal()
    spread = spectrum(rng, rows, n, condition) / size
    A, b = squares(spread, x, 0.3 * rng.standard_normal(rows) + 0.1 * (spread @ x), -nu - s)
    # The upper level is least squares, plus a logistic loss in half of the problems.
    slope = A.T @ rng.standard_normal(rows) - normal()
    above: list[Callable[[], Any]] = []
    rest = slope
    if not_quadratic := bool(rng.random() < 0.5):
        C, y = rng.standard_normal((n, n)) / size, rng.choice([-1.0, 1.0], n)
        above.append(lambda: Logistic(C, y))
        rest = slope - Logistic(C, y).gradient(x)
    m = round(n * rng.uniform(1.0, 1.5))
    B, c = squares(
        spectrum(rng, m, n, condition**0.5) / size, x, 0.3 * rng.standard_normal(m), rest
    )
    above.append(lambda: LeastSquares(B, c))

    def make() -> Problem:
        g = unit_g * LeastSquares(A, b)
        return Problem(
            upper=unit_f * sum(part() for part in above),
            lower=g + L1(unit_g * weight) if penalty else g,
            domain=domain,
        )

    hidden = (bool(rng.random() < 0.5), bool(rng.random() < 0.5) and not penalty)
    what = (
        f"drawn: {'logistic + ' if not_quadratic else ''}least squares above, least squares "
        f"{'+ L1 ' if penalty else ''}below, {rows} x {n}, condition {condition:.0f}, "
        f"{type(domain).__name__}, callables {'yes' if any(hidden) else 'no'}"
    )
    structured = not (any(hidden) or penalty or not_quadratic)
    return checked(
        f"drawn {number}", what, make, x, unit_g * (-nu - s), unit_f * slope,
        callables=hidden, order=None if penalty else 2.0, is_structured=structured,
    )  # fmt: skip


def _domain(rng: Generator, n: int, size: float) -> tuple[Domain, Vector, Callable[[], Vector]]:
    """Return a domain, x* with entries up to ``size``, and a sampler of the normal cone at x*."""
    kind = rng.choice(["Ball", "Box", "Simplex"])
    x = size * rng.uniform(0.1, 1.0, n)
    if kind == "Ball":
        x *= rng.choice([-1.0, 1.0], n)
        radius, binds = float(np.linalg.norm(x)), bool(rng.random() < 0.5)
        outward = x / radius if binds else 0.0 * x
        ball = Ball(radius if binds else 2.0 * radius)
        return ball, x, lambda: np.asarray(rng.uniform(0.1, 1.0) / size * outward)
    zero = rng.random(n) < 0.4
    zero[0] = False
    x[zero] = 0.0

    def cone(lift: float = 0.0) -> Vector:
        return np.asarray((lift - np.where(zero, rng.uniform(0.01, 0.2, n), 0.0)) / size)

    if kind == "Simplex":
        return Simplex(float(np.sum(x))), x, lambda: cone(0.1 * rng.standard_normal())
    return Box(0.0, 2.0 * size), x, cone
