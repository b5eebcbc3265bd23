"""What a user would do without tiebreak: two stages by hand, with CVXPY and Clarabel or with SciPy.

    minimise g over Z;   minimise f over Z subject to g <= g* + delta max(|g*|, |g(x0)|)

or, for a loss of Ax, the second stage subject to Ax = Ax_g (the image held: `image_held`).
Each runs in its own process, which can be ended when its time is up. The clock covers everything
that a user waits for: building the model and both stages, but not the imports.
"""

from __future__ import annotations

import importlib
import multiprocessing
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

import tiebreak as tb
from tiebreak.experiments.planted import Vector
from tiebreak.functions.base import Function, SmoothFunction
from tiebreak.functions.elementary import Flat, Linear, SquaredNorm
from tiebreak.functions.penalties.composite import Composite
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.functions.sums import Scaled, Sum

SMALL = 128  # trust-constr runs up to this many variables
GRACE = 1.0  # seconds beyond its budget after which a process is ended


class Outcome(NamedTuple):
    """How a rival ended: seconds, gradients (None: not counted), x (None: no answer)."""

    seconds: float
    gradients: int | None
    x: Vector | None
    words: str


class Posed(Protocol):
    """A problem that can be rebuilt, and the number of its variables."""

    @property
    def variables(self) -> int: ...

    @property
    def make(self) -> Callable[[], tb.Problem]: ...


Task = Callable[[Any, float], Outcome]


def limited(task: Task, case: Posed, budget: float) -> Outcome:
    """The outcome of ``task(case, budget)``, or none once the time is over."""
    context, began = multiprocessing.get_context("fork"), time.perf_counter()
    ours, theirs = context.Pipe(duplex=False)

    def work() -> None:
        warnings.simplefilter("ignore")  # the outcome is measured, whatever they warn of
        try:
            theirs.send(task(case, budget))
        except Exception as error:  # a rival's failure is an outcome of the race
            seconds = time.perf_counter() - began
            theirs.send(Outcome(seconds, None, None, f"{type(error).__name__}: {error}"))

    process = context.Process(target=work, daemon=True)
    with warnings.catch_warnings():  # Python 3.12 warns of threads, here those of BLAS, which rest
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    try:
        if ours.poll(budget + GRACE):
            outcome: Outcome = ours.recv()
            return outcome
        return Outcome(time.perf_counter() - began, None, None, "out of time")
    except EOFError:
        return Outcome(time.perf_counter() - began, None, None, "its process died")
    finally:
        process.terminate()
        process.join()


def missing(module: str) -> bool:
    """Is a module not there?  (And if it is, it is imported now, before any clock starts.)"""
    try:
        importlib.import_module(module)
    except ImportError:
        return True
    return False


# --- CVXPY with Clarabel --------------------------------------------------------------------------


def conic(delta: float) -> Task:
    """Two stages with CVXPY and Clarabel, their tolerances left alone."""

    def task(case: Posed, budget: float) -> Outcome:
        cp = importlib.import_module("cvxpy")
        problem = case.make()
        start = problem.start(np.zeros(case.variables))
        began = time.perf_counter()
        x = cp.Variable(case.variables)
        f, g = (_expression(cp, h, x) for h in (problem.upper, problem.lower))
        inside = _constraints(cp, problem.domain, x)
        words = []
        for stage in (1, 2):
            if stage == 1:
                model = cp.Problem(cp.Minimize(g), inside)
            else:
                scale = max(abs(float(model.value)), abs(problem.lower.value(start)))
                level = float(model.value) + delta * scale
                model = cp.Problem(cp.Minimize(f), [*inside, g <= level])
            left = budget - (time.perf_counter() - began)
            model.solve(solver=cp.CLARABEL, time_limit=max(left, 1e-3))
            words.append(f"stage {stage} {model.status}")
            if x.value is None:
                break
        seconds = time.perf_counter() - began
        return Outcome(seconds, None, x.value if stage == 2 else None, ", ".join(words))

    return task


def image_held(tolerance: float | None, clock: Callable[[], float] = time.perf_counter) -> Task:
    """Two stages with CVXPY and Clarabel: g = phi(Ax) over Z, then f over Z with Ax held.

    Of the rows of A as many as its rank, by an SVD of the columns scaled to length 1. ``tolerance``
    takes the place of Clarabel's own; seconds are those of the clock.
    """
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
    options = {} if tolerance is None else dict.fromkeys(names, tolerance)

    def task(case: Posed, budget: float) -> Outcome:
        cp = importlib.import_module("cvxpy")
        began, first = time.perf_counter(), clock()
        problem = case.make()
        x = cp.Variable(case.variables)
        f, g = (_expression(cp, h, x) for h in (problem.upper, problem.lower))
        inside = _constraints(cp, problem.domain, x)
        loss: Any = problem.lower
        A, words, model = loss.matrix.entries, [], cp.Problem(cp.Minimize(g), inside)
        for stage in (1, 2):
            if stage == 2:
                lengths = np.linalg.norm(A, axis=0)
                scale = np.where(lengths > 0.0, 1.0 / np.maximum(lengths, 1e-300), 1.0)
                _, sigma, rows = np.linalg.svd(A * scale, full_matrices=False)
                rows = rows[sigma > max(A.shape) * 2.2e-16 * sigma[0]] / scale
                held = rows @ (x - x.value) == 0.0
                model = cp.Problem(cp.Minimize(f), [*inside, held])
            left = budget - (time.perf_counter() - began)
            model.solve(solver=cp.CLARABEL, time_limit=max(left, 1e-3), **options)
            words.append(f"stage {stage} {model.status}")
            if x.value is None:
                break
        return Outcome(clock() - first, None, x.value if stage == 2 else None, ", ".join(words))

    return task


def _expression(cp: Any, h: Function | Penalty, x: Any) -> Any:
    """h(x) as CVXPY writes it."""
    if isinstance(h, Composite):
        return _expression(cp, h.smooth, x) + _expression(cp, h.penalty, x)
    if isinstance(h, Scaled):
        return h.weight * _expression(cp, h.function, x)
    if isinstance(h, Sum):
        return _expression(cp, h.first, x) + _expression(cp, h.second, x)
    if isinstance(h, tb.LeastSquares):
        return 0.5 * h.scale * cp.sum_squares(h.matrix.entries @ x - h.b)
    if isinstance(h, tb.Logistic):
        return h.scale * cp.sum(cp.logistic(-cp.multiply(h.y, h.matrix.entries @ x)))
    if isinstance(h, tb.Huber):
        return 0.5 * h.scale * cp.sum(cp.huber(h.matrix.entries @ x - h.b, h.delta))
    if isinstance(h, SquaredNorm):
        return 0.5 * h.weight * cp.sum_squares(x if h.center is None else x - h.center)
    if isinstance(h, Linear):
        return h.c @ x
    if isinstance(h, Flat):
        return 0.0
    if isinstance(h, tb.L1):
        return h.weight * cp.norm1(x)
    if isinstance(h, tb.GroupL2):
        labels = h.groups.labels
        where = [np.flatnonzero(labels == group) for group in range(int(labels.max()) + 1)]
        return h.weight * sum(cp.norm(x[members]) for members in where)
    raise TypeError(f"no CVXPY expression for {type(h).__name__}")


def _constraints(cp: Any, domain: Any, x: Any) -> list[Any]:
    """Z as CVXPY writes it."""
    if isinstance(domain, tb.Space):
        return []
    if isinstance(domain, tb.Ball):
        return [cp.norm(x if domain.center is None else x - domain.center) <= domain.radius]
    if isinstance(domain, tb.Box):
        sides = ((x >= domain.lower, domain.lower), (x <= domain.upper, domain.upper))
        return [side for side, bound in sides if np.isfinite(bound).all()]
    if isinstance(domain, tb.L1Ball):
        return [cp.norm1(x) <= domain.radius]
    if isinstance(domain, tb.Halfspace):
        return [domain.normal @ x <= domain.offset]
    if isinstance(domain, tb.Simplex):
        return [x >= 0.0, cp.sum(x) == domain.total]
    if isinstance(domain, tb.Monotone):
        return [cp.diff(x) >= 0.0]
    raise TypeError(f"no CVXPY constraints for {type(domain).__name__}")


# --- SciPy's trust-constr -------------------------------------------------------------------------


class Counted:
    """A function that counts its gradients."""

    def __init__(self, function: SmoothFunction) -> None:
        self.value, self.function, self.gradients = function.value, function, 0

    def gradient(self, x: Vector) -> Vector:
        self.gradients += 1
        return np.asarray(self.function.gradient(x))


def trust_constr(case: Posed, budget: float) -> Outcome:
    """Two stages with SciPy's trust-constr, delta = 1e-8; gradients given, Hessians by BFGS."""
    from scipy import optimize

    problem = case.make()
    start = np.asarray(problem.start(np.zeros(case.variables)))
    f, g = (Counted(h) for h in problem.smooth_parts)
    began = time.perf_counter()

    def late(*_: object) -> bool:
        return time.perf_counter() - began > budget

    def run(h: Counted, x0: Vector, constraints: list[Any]) -> Any:
        return optimize.minimize(
            h.value, x0, jac=h.gradient, hess=optimize.BFGS(), method="trust-constr",
            bounds=bounds, constraints=constraints, callback=late, options={"maxiter": 10_000},
        )  # fmt: skip

    bounds, inside = _for_scipy(optimize, problem.domain, len(start))
    first = run(g, start, inside)
    level = first.fun + 1e-8 * max(abs(first.fun), abs(g.value(start)))
    cut = optimize.NonlinearConstraint(
        g.value, -np.inf, level, jac=g.gradient, hess=optimize.BFGS()
    )
    second = run(f, first.x, [*inside, cut])
    seconds = time.perf_counter() - began
    return Outcome(
        seconds, f.gradients + g.gradients, second.x, "out of time" if late() else "ended"
    )


def _for_scipy(optimize: Any, domain: Any, n: int) -> tuple[Any, list[Any]]:
    """Z as bounds and constraints of scipy.optimize."""
    if isinstance(domain, tb.Space):
        return None, []
    if isinstance(domain, tb.Ball):
        center = np.zeros(n) if domain.center is None else np.asarray(domain.center)
        return None, [
            optimize.NonlinearConstraint(
                lambda x: float((x - center) @ (x - center)), -np.inf, domain.radius**2,
                jac=lambda x: 2.0 * (x - center), hess=lambda x, v: 2.0 * v[0] * np.eye(n),
            )
        ]  # fmt: skip
    if isinstance(domain, tb.Box):
        return optimize.Bounds(domain.lower, domain.upper), []
    if isinstance(domain, tb.Simplex):
        total = optimize.LinearConstraint(np.ones((1, n)), domain.total, domain.total)
        return optimize.Bounds(0.0, np.inf), [total]
    if isinstance(domain, tb.Monotone):
        steps = np.eye(n)[1:] - np.eye(n)[:-1]
        return None, [optimize.LinearConstraint(steps, 0.0, np.inf)]
    raise TypeError(f"no SciPy constraints for {type(domain).__name__}")
