"""A method from outside the package whose evidence is wrong is never certified."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.algorithms.base import Method, StateReport, StepEvidence
from tiebreak.functions.base import Minorant
from tiebreak.proofs.evidence import Intervals


class State(NamedTuple):
    k: int
    x: Any
    upper_value: float
    lower_value: float
    evidence: StepEvidence


def minorants(problem, x, at):
    """Of both levels at one point, with the name of another."""
    return (Minorant(at, h.value(x), h.gradient(x)) for h in (problem.upper, problem.lower))


class Liar(Method):
    """It stays where it is, and says what it likes."""

    name = "liar"

    def __init__(self, lie: str) -> None:
        self.lie = lie

    def check(self, problem):
        return None

    def describe(self, problem):
        return f"liar: {self.lie}"

    def init(self, problem, x0):
        return self._at(problem, 0, x0)

    def step(self, problem, state):
        return self._at(problem, state.k + 1, state.x)

    def _at(self, problem, k, x):
        if self.lie == "a point outside":
            x = x + 10.0
        elif self.lie == "a point far below":
            x = x - 1.0
        f, g = minorants(problem, x, x)
        f_value, g_value = f.value, g.value
        weights, intervals = (1.0, 1.0, 1.0), None
        if self.lie == "slopes of zero":
            f, g = (h._replace(slope=np.zeros_like(x)) for h in (f, g))
        elif self.lie == "intervals":
            intervals = Intervals((f_value, f_value), g_value, "", True)
        elif self.lie == "values of zero":
            f_value = g_value = 0.0
        elif self.lie == "another point's minorants":
            f, g = minorants(problem, x + 1.0, x)
        elif self.lie == "negative weights":
            weights = (-1.0, -5.0, -1.0)
        evidence = StepEvidence(
            upper=((weights[0], f),),
            cuts=((weights[1], g),),
            lower=((weights[2], g),),
            values=((g_value, x, g),),
        )
        if intervals is not None:
            evidence = evidence._replace(intervals=intervals)
        return State(k, x, f_value, g_value, evidence)

    def report(self, state):
        is_end = self.lie == "a point outside" and state.k > 2
        return StateReport(finished=("solved", "I say so")) if is_end else StateReport()


LIES = (
    "slopes of zero",
    "intervals",
    "values of zero",
    "another point's minorants",
    "negative weights",
    "a point outside",
)
DOMAINS = {"ball": tb.Ball(5.0), "box": tb.Box(-4.0, 4.0), "space": tb.Space()}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("lie", LIES)
def test_wrong_evidence_proves_nothing(lie, domain):
    problem = tb.Problem(
        lower=tb.LeastSquares([[1.0, 1.0, 0.0]], [2.0]),
        upper=tb.SquaredNorm(center=[3.0, 0.0, 1.0]),
        domain=DOMAINS[domain],
    )  # whose solution is (2.5, -0.5, 1), with f* = 0.25 and g* = 0
    start = np.full(3, 0.3)
    try:
        result = tb.solve(problem, Liar(lie), x0=start, max_iter=50)
    except (ValueError, TypeError):
        return
    assert not result.proved
    for value, (low, high) in ((0.25, result.upper_optimum), (0.0, result.lower_optimum)):
        assert low <= value <= high
    for value, h in ((result.upper_value, problem.upper), (result.lower_value, problem.lower)):
        assert math.isclose(value, h.value(result.x), rel_tol=1e-12)
    if result.success:
        assert problem.domain.contains(result.x)


def test_a_value_at_a_point_outside_is_no_bound_however_fast_g_rises():
    """Without a Lipschitz constant nothing says how much larger g is in the domain."""
    lower = tb.Smooth(
        lambda x: float(np.exp(10.0 * x[0])),
        lambda x: 10.0 * np.exp(10.0 * x),
        lower_bound=0.0,
    )
    problem = tb.Problem(lower=lower, upper=tb.SquaredNorm(), domain=tb.Box(1.0, 11.0))
    result = tb.solve(problem, Liar("a point far below"), x0=[1.0], max_iter=3)
    low, high = result.lower_optimum
    assert low <= math.exp(10.0) <= high
