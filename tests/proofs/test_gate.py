"""The gate: what a claim must show for each word, and who may make claims at all."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.sources import naming
from numpy.testing import assert_allclose

import tiebreak as tb
from tiebreak.proofs import gate
from tiebreak.proofs.gate import Ended, LevelClaim, ResultClaim, judge

SOURCE = Path(tb.__file__).parent
FIT = tb.LeastSquares([[1.0, 1.0]], [2.0])
PROBLEM = tb.Problem(lower=FIT, upper=tb.SquaredNorm(), domain=tb.Box(0.0, 5.0))
X = np.array([1.0, 1.0])
PROVED = LevelClaim(1e-9, 1e-9, 1e-4), LevelClaim(1e-9, 1e-9, 1e-4)
GAPS = LevelClaim(1e-9, 1e-9, 1e-4), LevelClaim(1e-9, math.inf, 1e-4)
LOW = LevelClaim(1e-9, 1e-9, 1e-4), LevelClaim(-1.0, math.inf, 1e-4)

EVERY_REASON = (
    gate.MET, gate.ANSWER, gate.RULE, gate.DOUBT, gate.FALLS, gate.EMPTY, gate.BROKEN,
    "max_iter", "max_time", "stopped",
)  # fmt: skip


def word(why, levels=PROVED, x=X, problem=PROBLEM, **more):
    return judge(ResultClaim(problem, x, Ended(why, "so"), levels, **more)).status


@pytest.mark.parametrize("why", [gate.MET, gate.ANSWER, gate.RULE, gate.DOUBT, "max_iter"])
def test_certified_is_what_is_proved_from_both_sides_however_the_run_ended(why):
    assert word(why) == "certified"
    assert word(why, readings="two") == "certified"


def test_what_is_proved_from_one_side_is_solved_or_less():
    assert word(gate.MET, GAPS) == "solved"
    assert word(gate.ANSWER, GAPS) == "solved"
    assert word(gate.MET, GAPS, criterion="weak") == "certified"
    assert word(gate.MET, LOW, criterion="weak") == "certified"
    assert word(gate.DOUBT, GAPS) == "undetermined"
    assert word(gate.ANSWER, GAPS, readings="two") == "undetermined"
    for limit in ("max_iter", "max_time", "stopped"):
        assert word(limit, GAPS) == limit


def test_a_point_that_is_proved_to_be_too_low_is_no_answer():
    assert word(gate.ANSWER, LOW) == "failed"
    assert word(gate.MET, LOW) == "failed"
    assert word(gate.RULE, LOW) == "solved"  # its own tolerance, which it names


@pytest.mark.parametrize("why", EVERY_REASON)
def test_no_success_outside_of_the_set_or_where_x_is_not_finite(why):
    for x in ([1.0, -1e-6], [1.0, 5.0 + 1e-6], [math.nan, 1.0], [math.inf, 1.0]):
        assert word(why, x=np.array(x)) not in gate.SUCCESSES


def test_no_success_for_a_point_of_another_shape():
    for x in (np.ones(3), np.ones((2, 1)), np.ones(())):
        assert word(gate.ANSWER, x=x) == "failed"


def test_the_points_of_a_tradeoff_pass_too(monkeypatch):
    """The solver of the chain says "solved" of a point outside of Z."""
    from tiebreak.driver import tradeoff

    plan = tb.Levels(tb.Linear([1.0, 2.0]), tb.SquaredNorm(center=[0.0, 1.0]), domain=tb.Simplex())
    true_chain = tradeoff.chain
    assert len(tb.tradeoff(plan, [0.1]).points) == 1

    def outside(*arguments):
        found = true_chain(*arguments)
        return found._replace(z=found.z - 1e-5)  # level 1 is no worse there

    monkeypatch.setattr(tradeoff, "chain", outside)
    with pytest.raises(ValueError, match=r"^tradeoff: slack 0: x violates .* it is not in the dom"):
        tb.tradeoff(plan, [0.1])


def test_a_constraint_is_measured_by_its_own_terms():
    """A row far away is no excuse for another one; n units of the precision of x are."""
    rows = tb.Polyhedron([[1.0, 0.0], [0.0, 1.0]], [1e9, 1.0])
    problem = tb.Problem(lower=FIT, upper=tb.SquaredNorm(), domain=rows)
    assert word(gate.ANSWER, x=np.array([0.0, 1.0 + 1e-12]), problem=problem) == "certified"
    assert word(gate.ANSWER, x=np.array([0.0, 1.0 + 1e-6]), problem=problem) == "failed"
    assert word(gate.ANSWER, x=np.array([1e9, 1.0 + 1e-7]), problem=problem) == "certified"
    for Z, x in (
        (tb.Simplex(1e9), [1e9 + 1.0, -1.0]),
        (tb.Monotone(), [1.0 + 1e-8, 1.0]),
        (tb.Box([0.0, 0.0], [1e9, 1.0]), [1.0, 1.0 + 1e-8]),
        (tb.Ball(1.0) & tb.Polyhedron([[1.0, 0.0]], [1e9]), [1.0 + 1e-8, 0.0]),
        (tb.SecondOrderCone(np.eye(2), d=1.0), [1.0 + 1e-8, 0.0]),
    ):
        problem = tb.Problem(lower=FIT, upper=tb.SquaredNorm(), domain=Z)
        assert word(gate.ANSWER, x=np.array(x), problem=problem) == "failed", Z


def test_a_no_needs_a_direction_or_multipliers():
    separable = tb.Logistic([[1.0, 0.0], [2.0, 0.0]], [1, 1])
    free = tb.Problem(lower=separable, upper=tb.SquaredNorm())
    in_box = tb.Problem(lower=separable, upper=tb.SquaredNorm(), domain=tb.Box(-1.0, 1.0))
    right, wrong = (0, np.array([1.0, 0.0])), (0, np.array([-1.0, 0.0]))
    assert word(gate.FALLS, problem=free, fall=right) == "unbounded"
    assert word(gate.FALLS, problem=free, fall=wrong) == "undetermined"
    assert word(gate.FALLS, problem=free) == "undetermined"
    assert word(gate.FALLS, problem=in_box, x=0.0 * X, fall=right) == "undetermined"
    assert word(gate.EMPTY, is_shown=True) == "infeasible"
    assert word(gate.EMPTY) == "undetermined"


def test_the_word_of_a_method_from_outside_is_a_hope():
    assert Ended.of("solved", "").why == gate.ANSWER
    assert Ended.of("certified", "").why == gate.ANSWER
    assert Ended.of("unbounded", "").why == gate.DOUBT
    assert Ended.of(gate.RULE, "").why == gate.RULE


def test_what_is_assumed_stands_in_the_first_line():
    problem = tb.Problem(lower=FIT, upper=tb.SquaredNorm(), radius=3.0)
    result = tb.solve(problem)
    assert result.status == "certified"
    assert "assuming radius=3.0" in str(result).splitlines()[0]
    weak = tb.solve(tb.Problem(lower=FIT, upper=tb.SquaredNorm(), domain=tb.Ball(5.0)),
                    "agm-bio", rtol=1e-2, criterion="weak")  # fmt: skip
    assert weak.status == "certified"
    assert weak.upper_error <= weak.tolerance[0] or "weak" in str(weak).splitlines()[0]


def test_certify_has_a_status_too():
    problem = tb.Problem(lower=FIT, upper=tb.SquaredNorm(), domain=tb.Space())
    assert tb.certify(problem, [1.0, 1.0]).status == "certified"
    assert tb.certify(problem, [2.0, 0.0], max_iter=100).status != "certified"
    inside = tb.Problem(lower=FIT, upper=tb.SquaredNorm(), domain=tb.Box(0.0, 5.0))
    outside = tb.certify(inside, [3.0, -1.0], max_iter=100)
    assert outside.status == "failed"
    assert "x violates the bound of x[1]" in outside.message


# -- who may say what ------------------------------------------------------------------------------


def trees(word):
    for path, tree in naming(SOURCE, word):
        yield path.relative_to(SOURCE).as_posix(), tree


def test_intervals_are_made_by_the_provers_alone_and_say_on_what_they_rest():
    makers: dict[str, int] = {}
    for name, tree in trees("Intervals"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Intervals":
                makers[name] = makers.get(name, 0) + 1
                ends = node.args[0] if node.args else None
                bounds_above = isinstance(ends, ast.Tuple) and "inf" not in ast.dump(ends.elts[1])
                says = len(node.args) > 4 or any(k.arg == "rests" for k in node.keywords)
                assert says or not bounds_above, (name, node.lineno)
    assert set(makers) == {
        "conic/method.py",
        "exact/bounds/intervals.py",
        "exact/bounds/rescaled.py",
        "exact/bounds/tall_bounds.py",
        "exact/bounds/wide_bounds.py",
        "proofs/accumulator.py",
        "proofs/evidence.py",
        "proofs/operator_dual.py",
        "proofs/quadratic_dual.py",
    }


def test_statuses_are_given_by_the_gate_alone():
    """Results are made with a status that came from `judge`, or before any work with a limit."""
    makers = {}
    for name, tree in trees("status="):
        for node in ast.walk(tree):
            kind = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            for keyword in node.keywords if kind in ("Result", "LevelsResult", "replace") else ():
                if keyword.arg == "status":
                    makers.setdefault(name, set()).add(ast.unparse(keyword.value))
    words = {value for values in makers.values() for value in values}
    assert not any(repr(status) in value for status in gate.STATUSES for value in words), makers


def test_the_upper_end_of_an_interval_is_at_least_f_at_a_minimiser():
    result = tb.solve(PROBLEM)
    assert result.upper_optimum[0] <= 1.0 <= result.upper_optimum[1]
    assert "minimiser" in result.certificate.rests
    assert_allclose(result.x, X, atol=1e-12)


def test_a_value_of_g_far_below_its_least_value_is_not_within_the_tolerance():
    below = LevelClaim(-1.0, -1.0, 1e-4)
    assert word(gate.DOUBT, (below, PROVED[1])) == "undetermined"
    assert word(gate.DOUBT, (below, PROVED[1]), criterion="weak") == "undetermined"
    fit, upper = tb.SquaredNorm(center=[0.0, 1.5e6]), tb.Linear([0.0, 1.0])
    problem = tb.Problem(lower=fit, upper=upper, domain=tb.Box(1e6, 2e6))
    for off, status in ((0.0, "certified"), (9e-4, "undetermined")):  # still in Z: 1e-9 of |x|
        proof = tb.certify(problem, [1e6 - off, 1.5e6], rtol=0.0, atol=(10.0, 1.0))
        assert proof.status == status
