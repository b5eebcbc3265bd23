"""Who works next: forecasts against a planted decay, budgets, warm starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

import tiebreak as tb
from tiebreak.auto import selection
from tiebreak.auto.candidates import Candidate, Runner
from tiebreak.auto.portfolio import Portfolio
from tiebreak.exact.method import Exact
from tiebreak.linalg import deadline
from tiebreak.proofs.recession.watch import RecessionWatch

STEPS = Candidate(tb.AdaptiveAGMBiO())


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_a_forecast_is_where_a_planted_power_law_meets_the_tolerance(power):
    """error = (total/bill)^power: at every bill, total - bill is left."""
    total, runner = 1e9, Runner()
    for bill in np.geomspace(1.0, 1e6, 200):
        runner = runner._replace(spent=float(bill)).measured((total / bill) ** power)
    assert runner.forecast(STEPS) == pytest.approx(total - runner.spent, rel=1e-9)


def test_without_a_measure_as_much_again_is_expected():
    candidate = STEPS._replace(least=100.0)
    assert Runner().forecast(candidate) == 100.0
    assert Runner(spent=30.0).forecast(candidate) == 70.0
    assert Runner(spent=500.0).forecast(candidate) == 500.0
    assert Runner(note="failed").forecast(candidate) == math.inf
    stalled = Runner()
    for bill in (1e3, 2e3, 4e3, 8e3):
        stalled = stalled._replace(spent=bill).measured(7.0)
    assert stalled.forecast(candidate) == math.inf


def test_work_is_counted_and_a_budget_ends_it():
    with deadline.metered(allowed=100.0) as meter:
        deadline.check(60.0 / deadline.IN_CACHE)
        deadline.spend(30.0)
        with pytest.raises(deadline.OverBudget):
            deadline.check(20.0 / deadline.IN_CACHE)
        assert meter.spent == 90.0
    deadline.check(1e30)  # nobody counts


def problem(seed=0, share=0.0, n=20):
    rng = np.random.default_rng(seed)
    A, b, move = rng.standard_normal((8, n)), rng.standard_normal(8), rng.standard_normal(8)
    f = tb.LeastSquares(rng.standard_normal((30, n)), rng.standard_normal(30))
    lower = tb.LeastSquares(A, b + share * move)
    return tb.Problem(upper=tb.Smooth(f.value, f.gradient, lower_bound=0.0), lower=lower,
                      domain=tb.Ball(5.0))  # fmt: skip


def test_a_direct_method_beyond_its_budget_waits_and_gets_there_in_the_end():
    rng = np.random.default_rng(1)
    built = tb.Problem(
        upper=tb.SquaredNorm(),
        lower=tb.LeastSquares(rng.standard_normal((20, 40)), rng.standard_normal(20)),
        domain=tb.Box(-0.2, 0.2),
    )
    exact = Candidate(Exact(), "exact", least=1.0, is_direct=True, refines=True)
    first = Candidate(tb.AdaptiveAGMBiO(), least=2.0, refines=True)
    result = tb.solve(built, Portfolio((exact, first)), rtol=1e-12, max_iter=2000)
    assert result.method.startswith("exact; then adaptive AGM-BiO")
    assert result.nit > 1
    truth = tb.solve(built, "exact")
    assert result.upper_value == pytest.approx(truth.upper_value, rel=1e-9)


class Worse(Exact):
    """The exact method at a point that is not good enough below, so that it is no answer."""

    def step(self, problem, state):
        after = super().step(problem, state)
        return after._replace(lower_value=after.lower_value + 1.0)


def test_two_readings_of_the_rank_stay_in_doubt_though_their_point_is_no_answer():
    """The guard alone must not certify what depends on a rank that rounding decides."""
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
    A = (U * 10.0 ** -np.linspace(0.0, 15.0, 20)) @ V.T
    built = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ np.ones(20)), domain=tb.Ball(10.0)
    )
    exact = Candidate(Worse(), "exact", is_direct=True, refines=True)
    steps = Candidate(tb.AdaptiveAGMBiO(), least=1.0)
    result = tb.solve(built, Portfolio((exact, steps)), rtol=1e-2, max_iter=500)
    assert "ended without an answer" in result.method
    assert result.status == "undetermined"
    assert "if that one is 0" in result.message


@pytest.mark.parametrize("is_astray", [False, True])
def test_the_next_one_begins_at_the_best_point_but_not_far_away(is_astray):
    rng = np.random.default_rng(0)
    A, x0 = rng.standard_normal((5, 10)), rng.standard_normal(10)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, np.ones(5)))
    exact = Candidate(Exact(), "exact", is_direct=True, refines=True)
    portfolio = Portfolio((exact, Candidate(tb.AdaptiveAGMBiO(), least=1.0)))
    state = portfolio.init(problem, x0)
    at = x0 + 1e6 if is_astray else np.linalg.lstsq(A, np.ones(5))[0]
    state = state.with_runner(0, inner=state.runners[0].inner._replace(x=at))
    state = state._replace(at=1, allowed=1e-3)
    begun = portfolio._first_state(problem, state)
    np.testing.assert_array_equal(begun.x, x0 if is_astray else at)


def test_the_same_call_twice_gives_the_same_bits():
    one, two = (tb.solve(problem(3), x0=np.zeros(20)) for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)
    assert (one.nit, one.method, one.status) == (two.nit, two.method, two.status)


# --- warm starts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_warm_start_on_the_same_problem_ends_at_once(seed):
    built = problem(seed)
    first = tb.solve(built, x0=np.zeros(20))
    again = tb.solve(built, x0=first)
    assert first.success
    assert again.status == first.status
    assert again.nit <= 3
    assert again.tolerance == pytest.approx(first.tolerance, rel=1e-6)
    assert again.upper_value == pytest.approx(first.upper_value, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_neighbour_is_solved_as_well_and_at_half_the_cost(seed):
    first = tb.solve(problem(seed), x0=np.zeros(20))
    near = problem(seed, share=0.01)
    cold, warm = tb.solve(near, x0=np.zeros(20)), tb.solve(near, x0=first)
    assert warm.success
    assert cold.status == warm.status
    assert warm.upper_value == pytest.approx(cold.upper_value, rel=1e-8)
    assert warm.trace[-1].lower_gradients <= 0.5 * cold.trace[-1].lower_gradients


@pytest.mark.sample(3)
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_former_problem_in_other_units_does_not_change_what_is_asked(unit):
    built = problem(1)
    cold = tb.solve(built, x0=np.zeros(20))
    other = tb.Problem(upper=unit * built.upper, lower=unit * built.lower, domain=built.domain)
    warm = tb.solve(built, x0=tb.solve(other, x0=np.zeros(20)))
    assert warm.tolerance == pytest.approx(cold.tolerance, rel=1e-6)
    assert warm.success
    assert warm.upper_value == pytest.approx(cold.upper_value, rel=1e-8)


def test_what_was_proved_is_not_believed_of_functions_that_have_changed():
    center = np.zeros(3)
    built = tb.Problem(
        upper=tb.Smooth(lambda x: 0.5 * float((x - center) @ (x - center)), lambda x: x - center),
        lower=tb.LeastSquares([[1.0, 1.0, 1.0]], [3.0]),
        domain=tb.Ball(10.0),
    )
    first = tb.solve(built, x0=np.zeros(3))
    assert first.success
    assert first.upper_value == pytest.approx(1.5, rel=1e-3)
    center[0] = 1.5  # f* = 3/8 now, below all that was proved; at (1, 1, 1), f differs from before
    again = tb.solve(built, x0=first)
    assert again.upper_optimum[0] <= 3.0 / 8.0 <= again.upper_optimum[1]
    assert again.upper_value == pytest.approx(3.0 / 8.0, rel=1e-3)


@pytest.mark.parametrize("kind", ["callable", "operator"])
@pytest.mark.parametrize("method", ["auto", "agm-bio"])
def test_former_bounds_are_not_believed_where_a_change_may_go_unnoticed(kind, method):
    """f = (<c, x> - 1)²/2 at (2, 0) is the same for both c, but the second c allows f = 0."""
    c = np.array([1.0, 0.0])
    f = tb.Smooth(lambda x: 0.5 * float(c @ x - 1.0) ** 2, lambda x: (c @ x - 1.0) * c, 2.0)
    if kind == "operator":
        row = LinearOperator((1, 2), lambda x: c[None] @ x, lambda y: c * y[0], dtype=np.float64)
        f = tb.LeastSquares(row, [1.0])
    lower = tb.LeastSquares([[1.0, 0.0]], [2.0])
    built = tb.Problem(upper=f, lower=lower, domain=tb.Ball(5.0))
    first = tb.solve(built)
    assert first.upper_value == pytest.approx(0.5, rel=1e-3)
    c[1] = 1.0
    again = tb.solve(built, method, x0=first, max_iter=300)
    assert again.status != "failed"
    assert again.upper_optimum[0] <= 0.0
    assert again.upper_value < 0.1


def test_a_result_of_other_length_or_of_another_method_is_a_start_all_the_same():
    built = problem(0)
    exactly = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=built.lower), "exact")
    assert exactly.multipliers is None
    assert tb.solve(built, x0=exactly).success
    assert tb.solve(built, "adaptive", x0=tb.solve(built, x0=np.zeros(20)), max_iter=5).nit <= 5
    with pytest.raises(ValueError, match="x0"):
        tb.solve(problem(0, n=21), x0=exactly)


# --- many rows ------------------------------------------------------------------------------------


def tall(rows=20_000, n=4):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((rows, n - 1)) @ rng.standard_normal((n - 1, n))
    y = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    return tb.Problem(upper=tb.SquaredNorm(center=np.ones(n)), lower=tb.Logistic(A, y))


def test_an_exact_point_of_tall_data_on_an_open_set_is_followed_by_no_proof():
    """No minorant bounds a logistic loss from below on R^n."""
    found = tb.solve(tall())
    assert found.status == "solved"
    assert "for the proof" not in found.method
    assert found.trace[-1].passes == tb.solve(tall(), "exact").trace[-1].passes


def test_an_answer_without_its_proof_is_asked_once_whether_its_level_falls(monkeypatch):
    """At the end: that a minimiser is near takes less work than a direction of the rows."""
    steps, check = [], RecessionWatch.check

    def noted(self, step, *others):
        steps.append(step)
        return check(self, step, *others)

    monkeypatch.setattr(RecessionWatch, "check", noted)
    counts = []
    for method in ("exact", "auto"):
        steps.clear()
        assert tb.solve(tall(), method).status == "solved"
        counts.append(len(steps))
    assert counts[1] == counts[0]


def test_steps_on_slices_are_a_candidate_only_if_they_are_less_work_than_a_factorisation():
    assert not any(
        isinstance(c.method, tb.BregmanSVRG) for c in selection.choose(tall()).candidates
    )
    (slices,) = selection._by_slices(tall(), [])
    more, less = (Candidate(Exact(), least=share * slices.least) for share in (2.0, 0.5))
    assert selection._by_slices(tall(), [more]) == [slices]
    assert selection._by_slices(tall(), [less]) == []
