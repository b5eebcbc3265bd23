"""A subclass of every public function, penalty and set that overrides something: right or refused.

What the library knows of a class does not hold for a subclass with a value, a gradient, a prox or
a projection of its own.
"""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import tiebreak as tb

METHODS = ("auto", "exact", "conic", "adaptive")
RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((6, 2))
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
COUNTS = np.array([0.0, 1.0, 2.0, 0.0, 3.0, 1.0])
BEND = 5.0


def answer(problem, method):
    """The result where there is one, None where the problem is refused."""
    try:
        return tb.solve(problem, method, max_iter=100)
    except (ValueError, TypeError):
        return None


def check(problem, result, f_star, g_star):
    """No interval misses, no success is wrong, no value is that of another function."""
    if result is None:
        return
    for (low, high), truth in ((result.upper_optimum, f_star), (result.lower_optimum, g_star)):
        slack = 1e-7 * max(1.0, abs(truth))
        assert low <= truth + slack, (low, truth)
        assert high >= truth - slack, (high, truth)
    if not result.success:
        return
    for value, h in ((result.upper_value, problem.upper), (result.lower_value, problem.lower)):
        assert math.isclose(value, h.value(result.x), rel_tol=1e-9, abs_tol=1e-12)
    upper, lower = result.tolerance
    assert abs(problem.upper.value(result.x) - f_star) <= 2.0 * upper + 1e-7
    assert problem.lower.value(result.x) - g_star <= 2.0 * lower + 1e-7


def right_or_refused(test):
    """The test, which may also end where the problem is refused, in one sentence."""

    @functools.wraps(test)
    def checked(*args, **kwargs):
        try:
            test(*args, **kwargs)
        except TypeError as refusal:
            assert re.search(r"must|overrid", str(refusal)), refusal  # noqa: PT017
            assert "\n" not in str(refusal)  # noqa: PT017

    return checked


# -- functions ------------------------------------------------------------------------------------


def bent(kind):
    """The class with BEND/2 |x|² more, in value and gradient."""

    class Bent(kind):
        def value(self, x):
            return super().value(x) + 0.5 * BEND * float(x @ x)

        def gradient(self, x):
            return super().gradient(x) + BEND * x

    return Bent


FUNCTIONS = {
    "LeastSquares": lambda k: k(ROWS, SIGNS),
    "Huber": lambda k: k(ROWS, COUNTS, 0.5),
    "Logistic": lambda k: k(ROWS, SIGNS),
    "SquaredHinge": lambda k: k(ROWS, SIGNS),
    "Poisson": lambda k: k(ROWS, COUNTS),
    "Quadratic": lambda k: k(np.diag([1.0, 0.0]), np.array([-1.0, 0.0])),
    "SquaredNorm": lambda k: k(2.0, np.array([1.0, -2.0])),
    "Linear": lambda k: k(np.array([1.0, -2.0])),
    "Smooth": lambda k: k(lambda x: float(x @ x), lambda x: 2.0 * x, lipschitz=2.0),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_bent_function_below(name, method):
    g = FUNCTIONS[name](bent(getattr(tb, name)))
    f = tb.SquaredNorm(center=np.array([3.0, 1.0]))
    best = minimize(g.value, np.zeros(2), jac=g.gradient, method="BFGS", options={"gtol": 1e-9})
    problem = tb.Problem(lower=g, upper=f, domain=tb.Ball(20.0))
    check(problem, answer(problem, method), f.value(best.x), best.fun)


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_bent_function_above(name, method):
    f = FUNCTIONS[name](bent(getattr(tb, name)))
    g = tb.LeastSquares([[1.0, 2.0]], [2.0])
    on_line = minimize_scalar(lambda t: f.value(np.array([2.0 - 2.0 * t, t])), tol=1e-12)
    problem = tb.Problem(lower=g, upper=f, domain=tb.Ball(20.0))
    check(problem, answer(problem, method), on_line.fun, 0.0)


def test_a_bent_multinomial():
    labels = np.array([0, 1, 2, 0, 1, 2])
    g = bent(tb.Multinomial)(ROWS, labels)
    f = tb.SquaredNorm(center=np.ones(6))
    best = minimize(g.value, np.zeros(6), jac=g.gradient, method="BFGS", options={"gtol": 1e-9})
    problem = tb.Problem(lower=g, upper=f, domain=tb.Ball(20.0))
    for method in METHODS:
        check(problem, answer(problem, method), f.value(best.x), best.fun)


# -- penalties ------------------------------------------------------------------------------------


def doubled(kind):
    """The class with twice its value, and the prox of that."""

    class Doubled(kind):
        def value(self, x):
            return 2.0 * super().value(x)

        def prox(self, x, step):
            return super().prox(x, 2.0 * step)

    return Doubled


PENALTIES = {
    "L1": lambda k: k(0.5),
    "L2": lambda k: k(0.5),
    "ElasticNet": lambda k: k(0.5, 0.25),
    "GroupL2": lambda k: k([0, 0, 1], 0.5),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PENALTIES)
@right_or_refused
def test_a_doubled_penalty_below(name, method):
    kind, make = getattr(tb, name), PENALTIES[name]
    b = np.array([2.0, 0.3, -3.0])
    x = make(kind).prox(b, 2.0)
    problem = tb.Problem(
        lower=tb.LeastSquares(np.eye(3), b) + make(doubled(kind)),
        upper=tb.SquaredNorm(center=np.ones(3)),
    )
    result = answer(problem, method)
    check(
        problem, result, problem.upper.value(x), 0.5 * (x - b) @ (x - b) + 2 * make(kind).value(x)
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [*PENALTIES, "TotalVariation"])
@right_or_refused
def test_a_doubled_penalty_above(name, method):
    kind = getattr(tb, name)
    make = PENALTIES.get(name, lambda k: k(0.5))
    g = tb.LeastSquares([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [2.0, -1.0])
    middle = minimize_scalar(lambda t: make(kind).value(np.array([2.0, t, -1.0])), tol=1e-12)
    problem = tb.Problem(lower=g, upper=make(doubled(kind)))
    check(problem, answer(problem, method), 2.0 * middle.fun, 0.0)


class Soft(tb.Zero):
    """Zero that is not: the l1 norm."""

    def value(self, x):
        return float(np.sum(np.abs(x)))

    def prox(self, x, step):
        return tb.L1(1.0).prox(x, step)


class Small(tb.Indicator):
    """The indicator of half the set."""

    def value(self, x):
        return super().value(2.0 * x)

    def prox(self, x, step):
        return 0.5 * super().prox(2.0 * x, step)


@pytest.mark.parametrize("method", METHODS)
@right_or_refused
def test_zero_and_indicator(method):
    b, f = np.array([2.0, 0.3, -3.0]), tb.SquaredNorm(center=np.ones(3))
    for penalty, x in (
        (Soft(), np.array([1.0, 0.0, -2.0])),
        (Small(tb.Box(-1.0, 1.0)), np.array([0.5, 0.3, -0.5])),
    ):
        problem = tb.Problem(lower=tb.LeastSquares(np.eye(3), b) + penalty, upper=f)
        best = 0.5 * (x - b) @ (x - b) + penalty.value(x)
        check(problem, answer(problem, method), f.value(x), best)


# -- sets -----------------------------------------------------------------------------------------

SHIFT = np.array([0.5, -0.25])


def shifted(kind):
    """The class of the sets moved by SHIFT: what is asked of a point is asked of x - SHIFT."""

    class Shifted(kind):
        def project(self, x):
            return super().project(x - SHIFT) + SHIFT

        def contains(self, x, tol=1e-9):
            return super().contains(x - SHIFT, tol)

    return Shifted


SETS = {
    "Ball": lambda k: k(1.0),
    "Box": lambda k: k(0.0, 1.0),
    "Orthant": lambda k: k(),
    "Simplex": lambda k: k(1.0),
    "L1Ball": lambda k: k(1.0),
    "Monotone": lambda k: k(),
    "Halfspace": lambda k: k(np.array([1.0, 1.0]), 1.0),
}
CONSTRAINTS = {  # a class with the same sets as one that projects
    "Polyhedron": (lambda k: k(np.array([[1.0, 1.0]]), np.array([1.0])), SETS["Halfspace"]),
    "SecondOrderCone": (lambda k: k(np.eye(2), d=1.0), SETS["Ball"]),
}
BASES = {"Polyhedron": tb.Halfspace, "SecondOrderCone": tb.Ball}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [*SETS, *CONSTRAINTS])
@right_or_refused
def test_a_shifted_set(name, method):
    kind, target = getattr(tb, name), np.array([2.0, -3.0])
    if name in SETS:
        domain, plain = SETS[name](shifted(kind)), SETS[name](kind)
    else:
        domain = CONSTRAINTS[name][0](shifted(kind))
        plain = CONSTRAINTS[name][1](BASES[name])
    x = plain.project(target - SHIFT) + SHIFT
    problem = tb.Problem(
        lower=tb.SquaredNorm(center=target), upper=tb.Linear([1.0, 2.0]), domain=domain
    )
    result = answer(problem, method)
    check(problem, result, problem.upper.value(x), problem.lower.value(x))


@pytest.mark.parametrize("method", METHODS)
@right_or_refused
def test_an_intersection_and_a_space(method):
    target, f = np.array([2.0, -3.0]), tb.Linear([1.0, 2.0])

    class Moved(tb.Intersection):
        def contains(self, x, tol=1e-9):
            return super().contains(x - SHIFT, tol)

    class Line(tb.Space):
        def project(self, x):
            return np.array([x[0], 0.0])

        def contains(self, x, tol=1e-9):
            return abs(float(x[1])) <= tol

    both = tb.Box(-1.0, 1.0) & tb.Halfspace([1.0, 1.0], 5.0)
    for domain, x in ((Moved(*both.sets), np.array([1.5, -1.25])), (Line(), np.array([2.0, 0.0]))):
        problem = tb.Problem(lower=tb.SquaredNorm(center=target), upper=f, domain=domain)
        check(problem, answer(problem, method), f.value(x), problem.lower.value(x))
