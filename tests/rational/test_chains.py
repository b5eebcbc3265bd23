"""Chains of levels proved to all digits: what is claimed, and what is not."""

from __future__ import annotations

from fractions import Fraction

import array_api_strict as xps
import numpy as np
import pytest

import tiebreak as tb
from tiebreak.rational import arithmetic, certificate

COST = np.array([20.0, 20, 20, 35, 35, 35])
CO2 = np.array([0.9, 0.4, 0.4, 0.4, 0.4, 0.6])
NOW = np.array([40.0, 30, 0, 0, 20, 10])
DEMAND = tb.Box(0.0, 60.0) & tb.Polyhedron(A_eq=np.ones((1, 6)), b_eq=[220.0])


def plan(slack=0.0, domain=DEMAND, last=None):
    return tb.Levels(
        tb.Level(tb.Linear(COST), name="cost"),
        tb.Level(tb.Linear(CO2), name="CO2", slack=slack),
        tb.Level(last or tb.SquaredNorm(center=NOW), name="change"),
        domain=domain,
    )


@pytest.mark.parametrize("has_flint", [True, False])
def test_a_plan_with_three_priorities_is_proved_to_rounding(has_flint, monkeypatch):
    if not has_flint:
        monkeypatch.setattr(arithmetic, "flint", lambda: None)
    result = tb.solve(plan(tb.Slack(relative=0.01)))
    assert result.status == "certified"
    for level in result.levels.values():
        assert level.word == "proved"
        assert level.best[1] - level.best[0] <= 1e-15 * max(abs(level.value), 1.0) * 4
    assert result.levels["CO2"].price == pytest.approx(55.75)


@pytest.mark.parametrize(
    "slack", [0.0, 0.5, tb.Slack(relative=0.02), tb.Slack(share=0.01), tb.Slack(0.1, 0.01)]
)
def test_the_answer_is_that_of_the_conic_solver(slack):
    levels = plan(slack)
    exact, conic = tb.solve(levels, x0=NOW), tb.solve(levels, "conic", x0=NOW)
    assert exact.status == "certified"
    np.testing.assert_allclose(exact.x, conic.x, atol=1e-6)
    for name, level in exact.levels.items():
        assert level.value == pytest.approx(conic.levels[name].value, abs=1e-6)
        assert level.dimension == conic.levels[name].dimension


def test_multipliers_prove_each_level_in_fractions():
    proof = certificate(plan())
    assert proof is not None
    first = proof.levels[0]
    assert sum(c * v for c, v in zip(map(Fraction, COST), first.x, strict=True)) == 5000
    given = DEMAND.linear_rows(6)
    rows = [*np.asarray(given.A.toarray() if hasattr(given.A, "toarray") else given.A)]
    total = [Fraction(c) for c in COST]
    for row, v in zip([*rows, np.ones(6)], [*first.rows, *first.equal], strict=True):
        total = [t + v * Fraction(float(a)) for t, a in zip(total, row, strict=True)]
    assert not any(total)
    assert min(first.rows) >= 0


def test_a_rounded_singular_form_is_never_certified():
    draw, seen = np.random.default_rng(3), 0
    for _ in range(12):
        C = draw.standard_normal((2, 6))
        Q = C.T @ C
        numbers, _ = arithmetic.as_integers(Q.ravel().tolist())
        if arithmetic.is_semidefinite([numbers[6 * i : 6 * i + 6] for i in range(6)]):
            continue
        seen += 1
        levels = tb.Levels(
            tb.Quadratic(Q), tb.Linear(CO2), tb.SquaredNorm(), domain=tb.Box(-1.0, 1.0)
        )
        assert certificate(levels) is None
        assert tb.solve(levels).status != "certified"
    assert seen


def test_a_semidefinite_form_is_taken_as_it_is():
    form = tb.Quadratic([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]], [-1.0, -1, 0], constant=2.5)
    levels = tb.Levels(form, tb.Linear([1.0, 0, 0]), tb.SquaredNorm(), domain=tb.Box(-1.0, 3.0))
    result = tb.solve(levels)
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, [-1.0, 2.0, 0.0])
    assert result.levels["level 1"].best == (2.0, 2.0)


def test_weights_and_sums_are_not_rounded():
    # 0.1 * 3 would round up, and the tie between the first two variables would be gone.
    costs = 0.1 * tb.Linear([3.0, 3.0, 4.0]) + 0.2 * (3.0 * tb.Linear([1.0, 1.0, 1.0]))
    fit = tb.LeastSquares([[1.0, -1.0, 0.0]], [0.5], weights=[0.3])
    levels = tb.Levels(costs, fit, tb.Linear([1.0, 0, 0]), domain=tb.Simplex())
    result = tb.solve(levels)
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, [0.75, 0.25, 0.0])
    assert result.levels["level 1"].dimension == 1


def test_a_mean_of_three_rows_is_a_third_and_not_the_float_next_to_it():
    fit = tb.LeastSquares([[0.0, -1.0], [0.0, 1.0], [2.0, 2.0]], [1.0, 1.0, -2.0], mean=True)
    levels = tb.Levels(fit, tb.LeastSquares([[-2.0, -2.0]], [2.0]), tb.SquaredNorm())
    result = tb.solve(levels)
    low, high = result.levels["level 1"].best
    assert result.status == "certified"
    assert Fraction(low) <= Fraction(1, 3) <= Fraction(high)


def test_what_is_left_open_has_the_least_norm():
    levels = tb.Levels(
        tb.Linear([1.0, 0, 0, 0]), tb.Linear([0, 1.0, 0, 0]), tb.Linear([0, 0, 0.0, 0]),
        domain=tb.Box(1.0, 2.0) & tb.Polyhedron(A=[[0, 0, -1.0, -1.0]], b=[-2.5]),
    )  # fmt: skip
    result = tb.solve(levels)
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, [1.0, 1.0, 1.25, 1.25])
    assert "least norm" in result.note


def priced(first, wish, last=(1.0, 0, 0)):
    change = tb.SquaredNorm(center=wish)
    return tb.Levels(tb.Linear(first), change, tb.Linear(last), domain=tb.Simplex())


@pytest.mark.parametrize("unit", [1.0, 1e-200, 7e30])
def test_a_tie_that_rounding_has_undone_is_a_tie(unit):
    levels = priced(np.array([0.1 * 3, 0.3, 1.0]) * unit, [1.0, 0, 0])
    assert certificate(levels) is None
    np.testing.assert_allclose(tb.solve(levels).x, [1.0, 0, 0], atol=1e-6)


def test_a_tie_that_rounding_has_undone_does_no_harm_where_the_answer_is_the_same():
    result = tb.solve(priced([0.1 * 3, 0.3, 1.0], [0, 1.0, 0]))
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, [0, 1.0, 0])


def test_equal_costs_are_a_tie():
    result = tb.solve(priced([0.3, 0.3, 1.0], [1.0, 0, 0]))
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, [1.0, 0, 0])
    assert result.levels["level 1"].dimension == 1


def test_costs_that_differ_by_more_than_rounding_are_none():
    result = tb.solve(priced([0.3 + 1e-13, 0.3, 1.0], [1.0, 0, 0]))
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, [0, 1.0, 0])


def test_a_cost_that_is_a_row_up_to_rounding_is_a_tie():
    rows = tb.Polyhedron([[-0.3, -0.3, -0.1]], [-0.9])
    levels = tb.Levels(
        tb.Linear([0.1 * 3, 0.3, 1.0]), tb.Linear([0.0, 1.0, 0.0]), tb.SquaredNorm(),
        domain=tb.Box(0.0, 5.0) & rows,
    )  # fmt: skip
    assert certificate(levels) is None


@pytest.mark.parametrize(
    "levels",
    [
        plan(domain=tb.Ball(100.0)),
        plan(last=tb.L1()),
        plan(domain=DEMAND, last=tb.Logistic(np.eye(6), [1, -1, 1, -1, 1, -1])),
        tb.Levels(  # the second falls without end
            tb.LeastSquares([[1.0, 0.0]], [1.0]), tb.Linear([0.0, 1.0]), tb.SquaredNorm(),
            domain=tb.Polyhedron([[0.0, 1.0]], [3.0]),
        ),
        tb.Levels(tb.Level(tb.SquaredNorm(), slack=0.1), tb.Linear([1.0, 2.0])),
        plan(domain=DEMAND & tb.Polyhedron(A_eq=[[1 / 3] * 6], b_eq=[220 / 3])),  # by rounding
        plan(domain=tb.Box(0.0, 1.0) & tb.Polyhedron(A_eq=np.ones((1, 6)), b_eq=[220.0])),  # empty
        tb.Levels(  # independent by rounding alone
            tb.LeastSquares([[0.1, 0.3], [0.2, 0.1 * 6]], [1.0, 2.5]),
            tb.Linear([1.0, 0.0]), tb.SquaredNorm(), domain=tb.Box(-9.0, 9.0),
        ),
    ],
)  # fmt: skip
def test_nothing_is_claimed_beyond_what_is_exact(levels):
    assert certificate(levels) is None
    assert tb.solve(levels).method != "rational arithmetic, an exact active set"


def test_an_empty_set_is_infeasible_as_before():
    box = tb.Box(0.0, 1.0) & tb.Polyhedron(A_eq=np.ones((1, 6)), b_eq=[220.0])
    assert tb.solve(plan(domain=box)).status == "infeasible"


@pytest.mark.parametrize("unit", [1e-300, 1e-30, 1e30, 1e150])
def test_units_change_nothing(unit):
    levels = tb.Levels(
        tb.Linear(unit * COST), tb.Linear(CO2), tb.SquaredNorm(center=NOW), domain=DEMAND
    )
    result = tb.solve(levels)
    assert result.status == "certified"
    np.testing.assert_allclose(result.x, tb.solve(plan()).x, rtol=1e-15)


def test_numbers_of_too_many_digits_are_left_to_the_solver():
    wild = COST * 10.0 ** np.array([-300, 0, 0, 0, 0, 300])
    assert certificate(tb.Levels(tb.Linear(wild), tb.Linear(CO2), domain=DEMAND)) is None


@pytest.mark.parametrize("n", [1, 2])
def test_few_variables_and_equations_alone(n):
    rows = tb.Polyhedron(A_eq=np.ones((1, n)), b_eq=[3.0])
    levels = tb.Levels(tb.Linear(np.ones(n)), tb.SquaredNorm(), tb.Linear(np.ones(n)), domain=rows)
    result = tb.solve(levels)
    assert result.status == "certified"
    np.testing.assert_array_equal(result.x, np.full(n, 3.0 / n))


def test_single_precision_and_sparse_rows_are_numbers_too():
    from scipy.sparse import csr_array

    rows = tb.Polyhedron(A_eq=csr_array(np.ones((1, 6))), b_eq=[220.0])
    levels = tb.Levels(
        tb.Linear(COST.astype(np.float32)),
        tb.LeastSquares(csr_array(np.eye(6, dtype=np.float32)[:3]), NOW[:3].astype(np.float32)),
        tb.Linear(CO2),
        domain=tb.Box(0.0, 60.0) & rows,
    )
    assert tb.solve(levels).status == "certified"


def test_a_multiple_of_rounded_rows_is_rounded_too():
    """The rows depend on each other up to their rounding in float32, before b made them float64."""
    rows = np.array([[1, 2], [2, 4.0000005]], dtype=np.float32)
    loss = tb.LeastSquares(rows, [3.0, 6.1])
    for lower in (loss, 0.5 * loss, loss + tb.Linear([0.0, 0.0])):
        result = tb.solve(tb.Levels(lower, tb.SquaredNorm(), tb.SquaredNorm([1.0, 2.0])))
        assert result.status != "certified"


def test_two_levels_are_proved_too():
    levels = tb.Levels(tb.Linear(COST), tb.SquaredNorm(center=NOW), domain=DEMAND)
    result = tb.solve(levels)
    assert result.status == "certified"
    assert result.levels["level 2"].word == "proved"


def test_two_levels_are_proved_from_a_warm_start_too():
    thirds = tb.Box(0.0, 3.0) & tb.Polyhedron(A_eq=np.ones((1, 3)) / 3.0, b_eq=[0.7])
    levels = tb.Levels(tb.Linear([0.0, 1, 2]), tb.SquaredNorm(center=[1, 0, 0]), domain=thirds)
    former = tb.solve(levels.problem())
    assert former.status == "solved"
    result = tb.solve(levels, x0=former)
    assert result.status == "certified"
    np.testing.assert_allclose(result.x, [2.1, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    ("slack", "t"), [(0.0, 0.2), (tb.Slack(share=0.1), (1 - np.sqrt(2 * 0.2)) / 5)]
)
def test_data_and_start_may_come_from_another_library(slack, t):
    """x is t times (1, 2): the fit is (1 - 5 t)²/2, and it is 2 at x0."""

    def solved(xp):
        fit = tb.LeastSquares(xp.asarray([[1.0, 2.0]]), xp.asarray([1.0]))
        levels = (tb.Level(fit, slack=slack), tb.SquaredNorm(), tb.Linear(xp.asarray([1.0, 0.0])))
        return tb.solve(tb.Levels(*levels, domain=tb.Box(0.0, 1.0)), x0=xp.asarray([1.0, 1.0]))

    there, here = solved(xps), solved(np)
    assert there.status == here.status
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_allclose(there.x, [t, 2 * t], rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_a_slack_may_be_any_number(kind):
    exact, same = tb.solve(plan(tb.Slack(absolute=kind(2)))), tb.solve(plan(2.0))
    assert exact.method == same.method
    assert exact.levels["CO2"].slack == 2.0
    np.testing.assert_array_equal(exact.x, same.x)


def test_a_time_limit_is_heeded():
    draw = np.random.default_rng(0)
    A = draw.standard_normal((90, 60))
    at = draw.standard_normal(60)
    rows = tb.Polyhedron(A, A @ at)
    pull = -(A.T @ (draw.random(90) < 0.2).astype(float))
    levels = tb.Levels(
        tb.Linear(pull), tb.SquaredNorm(), tb.Linear(at), domain=tb.Box(-9, 9) & rows
    )
    result = tb.solve(levels, max_time=0.3)
    assert result.time < 1.5


def test_ctrl_c_ends_the_call(monkeypatch):
    from tiebreak.linalg import deadline
    from tiebreak.rational import active_set

    def interrupted(*_):
        raise deadline.Interrupted("Ctrl-C")

    monkeypatch.setattr(active_set, "minimise", interrupted)
    assert tb.solve(plan()).status == "stopped"


class Half(tb.Slack):
    """A rule of one's own: half of the value at the start."""

    def __call__(self, best, before):
        return 0.5 * before


def test_a_slack_of_ones_own_is_what_it_says():
    cost = tb.Level(tb.Linear([1.0, 2.0]), slack=Half(relative=1.0))
    levels = tb.Levels(cost, tb.Linear([1.0, 0.0]), domain=tb.Simplex())
    result = tb.solve(levels, x0=[0.0, 1.0])
    assert result.levels["level 1"].slack == 1.0
    assert result.x.tolist() == [0.0, 1.0]
