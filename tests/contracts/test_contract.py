"""Every method keeps the contract of algorithms/base.py, and nobody asks for more than it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.sources import naming

import tiebreak as tb
from tiebreak.algorithms.base import Method, StateReport
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.auto.selection import choose
from tiebreak.driver.registry import METHODS
from tiebreak.experiments.table import CutAt
from tiebreak.linalg.refusals import Refusal
from tiebreak.proofs.certificate import Proved
from tiebreak.proofs.evidence import Intervals, StepEvidence
from tiebreak.proofs.gate import RULE, Ended

A = np.random.default_rng(0).standard_normal((4, 7))
PROBLEM = tb.Problem(
    upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, np.ones(4)), domain=tb.Ball(2.0)
)
OTHERS = {
    "without constants": tb.Problem(
        upper=tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x), lower=PROBLEM.lower
    ),
    "penalties": tb.Problem(upper=tb.L1(), lower=PROBLEM.lower + tb.L1()),
    "no joint prox": tb.Problem(
        upper=tb.L2(), lower=PROBLEM.lower + tb.L1(), domain=tb.Box(-1.0, 2.0)
    ),
    "unbounded": tb.Problem(upper=tb.SquaredNorm(), lower=PROBLEM.lower),
}
EVERY: dict[str, Method] = {
    **{name: kind() for name, kind in METHODS.items()},
    "auto": choose(PROBLEM),
    "bregman": BregmanIteration(),
    "cut at": CutAt(0.0),
}


@pytest.fixture(params=EVERY)
def method(request: pytest.FixtureRequest) -> Method:
    return EVERY[request.param]


def test_a_method_is_a_frozen_dataclass_with_the_declared_members(method):
    assert isinstance(method, Method)
    assert dataclasses.is_dataclass(method)
    assert type(method).__dataclass_params__.frozen
    for name in ("name", "paper", "assumptions", "guarantee", "remedy"):
        assert isinstance(inspect.getattr_static(method, name), str)
    assert isinstance(inspect.getattr_static(method, "adapts"), bool)
    assert method.adapts == (type(method).adapt is not Method.adapt)
    for name, declared in inspect.getmembers(Method, inspect.isfunction):
        given = list(inspect.signature(inspect.getattr_static(type(method), name)).parameters)
        assert given == list(inspect.signature(declared).parameters)


def test_states_and_reports_are_what_the_loop_asks_for(method):
    planned = method.planned(3)
    assert type(planned) is type(method)
    state = planned.init(PROBLEM, np.zeros(7))
    for _ in range(3):
        before = state
        state = planned.step(PROBLEM, state)
        assert state is not before
        assert state.x.shape == (7,)
        assert np.isfinite([state.upper_value, state.lower_value]).all()
        assert isinstance(state.evidence, StepEvidence)
        report = planned.report(state)
        assert isinstance(report, StateReport)
        assert all(isinstance(words, str) for words in (*report.finished, *report.answer))
        if report.findings is not None:
            assert all(len(pair) == 2 for pair in report.findings.lines())
        if report.finished[0]:
            break
    assert planned.history(PROBLEM, state)
    assert planned.describe(PROBLEM)


@pytest.mark.parametrize("problem", [PROBLEM, *OTHERS.values()], ids=["ball", *OTHERS])
def test_check_returns_none_or_a_refusal_that_solve_raises_as_one_sentence(method, problem):
    refusal = method.check(problem)
    if refusal is None:
        return
    assert isinstance(refusal, Refusal)
    assert refusal.owner
    assert refusal.argument
    assert refusal.sentence.startswith(f"{refusal.owner}: {refusal.argument} {refusal.needed}")
    assert refusal.got in refusal.sentence
    assert str(pickle.loads(pickle.dumps(refusal))) == refusal.sentence
    with pytest.raises(ValueError) as raised:  # noqa: PT011 -- the sentence is compared below
        tb.solve(problem, method)
    assert str(raised.value) == refusal.sentence
    assert type(raised.value) is ValueError


def test_some_method_refuses_each_of_the_other_problems():
    for problem in OTHERS.values():
        assert any(method.check(problem) for method in EVERY.values())


def test_nothing_is_looked_for_by_name_in_the_loop_in_auto_and_in_the_races():
    source = Path(tb.__file__).parent
    found = []
    for package in ("driver", "auto", "experiments"):
        for path, tree in naming(source / package, "getattr(", "hasattr("):
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                if node.func.id not in ("getattr", "hasattr") or len(node.args) < 2:
                    continue
                name = node.args[1]
                if isinstance(name, ast.Constant) and not str(name.value).startswith("_"):
                    found.append(f"{path.name}:{node.lineno}: {name.value}")
    assert not found


# --- a method of one's own -----------------------------------------------------------------------


class Place(NamedTuple):
    """The four members of every state."""

    x: Any
    upper_value: float
    lower_value: float
    evidence: StepEvidence


class Descent(Method):
    """Projected gradient steps on g alone: the four functions that a method has to have."""

    def check(self, problem):
        if np.isfinite(problem.lower.lipschitz):
            return None
        return Refusal("Descent", "lower", "must have a known Lipschitz constant", "none")

    def describe(self, problem):
        return "projected gradient steps on g"

    def init(self, problem, x0):
        return self._at(problem, x0, StepEvidence())

    def step(self, problem, state):
        (point,) = problem.forward(state.x)
        (g,), _ = problem.lower.evaluate([point.g])
        x = problem.domain.project(state.x - g.slope / problem.lower.lipschitz)
        return self._at(problem, x, StepEvidence(lower=((1.0, g),), values=((g.value, g.at, g),)))

    def _at(self, problem, x, evidence):
        return Place(x, problem.upper.value(x), problem.lower.value(x), evidence)


def test_a_method_of_four_functions_is_solved_raced_and_certified_like_ours():
    seen = []
    result = tb.solve(PROBLEM, Descent(), max_iter=300, callback=lambda now: seen.append(now.nit))
    assert result.status == "max_iter"
    assert result.method == "projected gradient steps on g"
    assert result.findings is None
    assert seen == list(range(301))
    assert result.lower_value < 1e-6
    assert 0.0 <= result.lower_gap < 1.0
    assert "hardly shrinks" in result.message or "steps are needed" in result.message
    table = tb.compare(PROBLEM, methods=["agm-bio", ("mine", Descent())], max_iter=20)
    assert {row.method for row in table.rows} == {"agm-bio", "mine"}
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=OTHERS["without constants"].upper)
    with pytest.raises(ValueError, match=r"^Descent: lower must have a known .*, got none$"):
        tb.solve(problem, Descent(), x0=np.zeros(7))


@pytest.mark.parametrize("calls", range(1, 9))
def test_an_interrupted_step_of_a_foreign_method_changes_nothing(calls):
    points, left = [], []

    def value(x):
        if left:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return float(x @ x) / 2

    def see(now):
        points.append(now.x)
        if now.nit == 3:
            left.append(calls)

    lower = tb.LeastSquares([[1.0, 2.0], [3.0, 1.0]], [1.0, 1.0])
    upper = tb.Smooth(value, lambda x: x, lipschitz=1.0)
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0))
    result = tb.solve(problem, Descent(), x0=[1.0, 1.0], max_iter=20, callback=see)
    assert result.status == "stopped"
    np.testing.assert_array_equal(result.x, points[result.nit])


def test_a_report_on_levels_says_that_a_claim_has_not_been_checked():
    class Boastful(Descent):
        def _at(self, problem, x, evidence):
            evidence = evidence._replace(intervals=Intervals((0.0, 0.0), 0.0))
            return super()._at(problem, x, evidence)

    levels = tb.Levels(PROBLEM.lower, PROBLEM.upper, domain=PROBLEM.domain)
    result = tb.solve(levels, Boastful(), max_iter=3)
    assert "have not been checked and prove nothing here" in str(result)


def test_what_a_method_says_about_its_state_counts():
    class Stopping(Descent):
        def report(self, state):
            has_ended = state.lower_value < 1e-3
            return StateReport(("solved", "g is small") if has_ended else ("", ""))

    class Convinced(Descent):
        def report(self, state):
            return StateReport(Ended(RULE if state.lower_value < 1e-3 else "", "g is small"))

    first, second = (tb.solve(PROBLEM, method()) for method in (Stopping, Convinced))
    assert first.nit == second.nit
    assert second.status == "solved"
    assert second.reason == "g is small"

    class Adapting(Descent):
        adapts = True
        heard: list[Proved] = []  # noqa: RUF012 -- of the class, to be read after the run

        def adapt(self, state, proved):
            self.heard.append(proved)
            return state

    tb.solve(PROBLEM, Adapting(), max_iter=10)
    assert Adapting.heard


def test_what_is_no_method_gets_one_sentence():
    class Unrelated:
        check = describe = init = step = None

    for value in (Unrelated(), tb.AGMBiO, 3):
        with pytest.raises(TypeError, match=r"^solve: method must be a name or an object such as"):
            tb.solve(PROBLEM, value)

    class Unfinished(Method):
        def check(self, problem):
            return None

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()
