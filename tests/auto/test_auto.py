"""method="auto": the methods it takes, what they reach, and what happens where one ends."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from planted import smooth as planted
from planted.structured import COMBINATIONS, instance

import tiebreak as tb
from tiebreak.algorithms.base import Method
from tiebreak.auto import selection
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.auto.candidates import Candidate
from tiebreak.auto.portfolio import STEP, Portfolio
from tiebreak.exact.method import Exact

STEPS = tb.AGMBiO(gamma=0.01)


def least_squares(m=6, n=10, rows=8, seed=0, domain=None):
    rng = np.random.default_rng(seed)
    return tb.Problem(
        upper=tb.LeastSquares(rng.standard_normal((rows, n)), rng.standard_normal(rows)),
        lower=tb.LeastSquares(rng.standard_normal((m, n)), rng.standard_normal(m)),
        domain=domain or tb.Space(),
    )


def without_gap():
    """Singular values that fall evenly to 1e-15: no rank."""
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
    A = (U * 10.0 ** -np.linspace(0.0, 15.0, 20)) @ V.T
    return tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, A @ np.ones(20)), domain=tb.Ball(10.0)
    )


def unstructured():
    """x1 + x2 = 1 with the smallest norm, by callables: the answer is (1/2, 1/2)."""
    return tb.Problem(
        upper=tb.Smooth(lambda x: float(x @ x) / 2, lambda x: x, lipschitz=1.0),
        lower=tb.LeastSquares([[1.0, 1.0]], [1.0]),
        domain=tb.Ball(2.0),
    )


# --- the exact method ----------------------------------------------------------------------------


def test_planted_problems_on_every_domain_are_solved_to_1e_9(count):
    number, worst = count(16, 640), 0.0
    statuses: dict[str, int] = {}
    for seed in [81 * i % (2 * len(COMBINATIONS)) for i in range(number)]:
        p, _ = instance(seed)
        result = tb.solve(p.problem(), x0=p.x0)
        assert result.method.startswith("auto: exact, by direct factorisation"), p.kind
        assert result.success, (seed, p.kind, result.message)
        scale = max(p.f_scale, p.L_f * p.unit**2, np.linalg.norm(p.grad_f(p.x_star)) * p.unit)
        error = abs(p.f(result.x) - p.f_star) / scale
        assert error <= 1e-9, (seed, p.kind)
        worst = max(worst, error)
        low, high = result.upper_optimum
        assert low - 1e-12 * scale <= p.f_star <= high + 1e-12 * scale
        statuses[result.status] = statuses.get(result.status, 0) + 1
    print(f"\nauto on {number} planted problems: worst error of f {worst:.1e}, {statuses}")


def test_the_report_names_the_road_and_a_single_minimiser():
    result = tb.solve(least_squares(m=12))
    assert result.method == "auto: exact, by direct factorisation (least squares below, 12 x 10)"
    assert "a single minimiser, so the upper level has no choice" in str(result)
    sparse = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(np.eye(2, 3), np.ones(2)))
    assert tb.solve(sparse).method.startswith(
        "auto: exact, by direct factorisation (least squares below, 2"
    )
    both = 2 * tb.LeastSquares(np.eye(3), np.ones(3)) + tb.Logistic(np.eye(2, 3), [1.0, -1.0])
    said = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=both)).method
    sizes = "least squares + logistic loss below, 3 x 3, 2 x 3"
    assert said == f"auto: exact, by direct factorisation ({sizes})"


def test_no_minimum_is_said_with_its_direction():
    problem = tb.Problem(upper=tb.Linear([0.0, 1.0]), lower=tb.LeastSquares([[1.0, 0.0]], [1.0]))
    result = tb.solve(problem)
    assert result.status == "unbounded"
    assert "it decreases along the direction x[1] -1" in result.message


def test_where_no_prox_is_known_there_is_the_exact_road():
    problem = tb.Problem(
        upper=tb.L1(), lower=tb.LeastSquares([[1.0, 2.0]], [1.5]), domain=tb.Simplex()
    )
    result = tb.solve(problem)
    assert result.status == "certified"
    assert result.upper_error <= result.tolerance[0]  # no first-order method here could prove that
    assert result.method.startswith(
        "auto: exact, by direct factorisation (least squares below, 1 x 2)"
    )
    assert abs(result.upper_value - 1.0) <= 1e-12
    assert result.upper_gap <= result.tolerance[0]
    assert result.lower_gap <= result.tolerance[1]  # though g(x0) = 0


DOMAIN_IN_UNITS = {
    "Space": lambda s: tb.Space(),
    "Ball": lambda s: tb.Ball(0.5 * s),
    "Box": lambda s: tb.Box(-0.3 * s, 0.3 * s),
    "Orthant": lambda s: tb.Orthant(),
    "Simplex": lambda s: tb.Simplex(0.7 * s),
    "L1Ball": lambda s: tb.L1Ball(0.7 * s),
    "Monotone": lambda s: tb.Monotone(),
    "Halfspace": lambda s: tb.Halfspace(np.ones(5), -0.2 * s),
}


@functools.cache
def solved_in_units(domain, f, g, x):
    """A least-squares problem with f, g and x in other units."""
    rng = np.random.default_rng(5)
    A, b = rng.standard_normal((3, 5)), rng.standard_normal(3)
    V, w = rng.standard_normal((7, 5)), rng.standard_normal(7)
    problem = tb.Problem(
        upper=f * tb.LeastSquares(V / x, w),
        lower=g * tb.LeastSquares(A / x, b),
        domain=DOMAIN_IN_UNITS[domain](x),
    )
    return tb.solve(problem)


@pytest.mark.sample(6)
@pytest.mark.parametrize("what", ["f", "g", "x"])
@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("domain", planted.DOMAINS)
def test_units_change_neither_the_road_nor_the_accuracy(domain, what, size):
    plain = solved_in_units(domain, 1.0, 1.0, 1.0)
    f, g, x = (size if letter == what else 1.0 for letter in "fgx")
    other = solved_in_units(domain, f, g, x)
    assert (other.method, other.status) == (plain.method, plain.status)
    # A proof that gets nowhere is given up a round sooner or later by rounding.
    assert other.nit == plain.nit or not plain.proved
    assert other.upper_value / f == pytest.approx(plain.upper_value, rel=1e-9)
    np.testing.assert_allclose(other.x / x, plain.x, rtol=1e-7, atol=1e-9)


# --- from method to method ------------------------------------------------------------------------


def test_a_rank_that_is_not_determined_ends_with_both_readings():
    result = tb.solve(without_gap(), rtol=1e-3, max_iter=3000)
    assert result.method.startswith(
        "auto: exact, by direct factorisation (least squares below, 20 x 20)"
    )
    assert "; then Bregman iteration, for the proof" in result.method
    assert result.nit > 1
    assert result.status == "undetermined"
    assert "rank not determined" in result.message
    assert "if that one is 0" in result.message  # and both readings
    assert result.upper_optimum[0] <= 0.5 * 20  # x = 1 is a lower minimiser
    assert result.lower_optimum[0] <= 0.0 <= result.lower_optimum[1]
    assert result.dimension is None


def test_what_has_no_structure_goes_the_first_order_road():
    result = tb.solve(unstructured(), x0=[0.0, 0.0], rtol=1e-3)
    assert result.status == "certified"
    assert result.method == "auto: Bregman iteration because there is no exact method with Smooth"
    low, high = result.upper_optimum
    assert low <= 0.25 <= high
    assert abs(result.upper_value - 0.25) <= 1e-9  # far better than asked


def test_a_direct_method_begins_after_as_much_work_of_others_as_it_costs_at_least(monkeypatch):
    problem = least_squares(domain=tb.Ball(1.0))
    exact = tb.solve(problem, "exact")
    assert [type(c.method).__name__ for c in selection.choose(problem).candidates] == [
        "BregmanIteration", "PrimalDual", "AdaptiveAGMBiO", "Exact"
    ]  # fmt: skip
    steps, direct = (
        Candidate(tb.AdaptiveAGMBiO(), refines=True),
        selection.choose(problem).candidates[-1],
    )
    for work in (0.0, 50.0, 200.0):
        portfolio = Portfolio((steps, direct._replace(least=work * STEP)))
        result = tb.solve(problem, portfolio, rtol=0.0, max_iter=10_000)
        assert result.status == "solved"
        assert "exact, by direct factorisation" in result.method
        np.testing.assert_allclose(result.x, exact.x, rtol=1e-7, atol=1e-9)
        reached = [row.iteration for row in result.trace if row.upper_value == result.upper_value]
        assert 0.25 * work <= reached[0] <= work + 20.0  # a step is a little more than STEP


class Broken(Method):
    """An exact method that fails in one way or another."""

    name, paper, assumptions, guarantee = "broken", "", "", ""

    def __init__(self, how):
        self.how = how

    def check(self, problem):
        pass

    def describe(self, problem):
        return "broken"

    def init(self, problem, x0):
        return Exact().init(problem, x0)

    def step(self, problem, state):
        if isinstance(self.how, Exception):
            raise self.how
        return state._replace(upper_value=self.how, x=state.x + math.nan)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        (np.linalg.LinAlgError("SVD did not converge"), "failed (SVD did not converge)"),
        (ImportError("needs clarabel: pip install it"), "failed (needs clarabel: pip install it)"),
        (math.nan, "ended without an answer: a value that is not finite"),
    ],
)
def test_a_road_that_fails_leads_on_and_the_report_says_so(how, said):
    broken = Candidate(Broken(how), "exact, by direct factorisation", is_direct=True)
    portfolio = Portfolio((broken, Candidate(STEPS, least=1.0)))
    problem = least_squares(domain=tb.Ball(1.0))
    result = tb.solve(problem, portfolio, rtol=1e-2)
    assert result.success
    assert result.method.startswith(f"exact, by direct factorisation, which {said}; then AGM-BiO")
    after, plain = (
        tb.solve(problem, method, rtol=0.0, max_iter=steps).x
        for method, steps in ((portfolio, 42), (STEPS, 40))  # one fails, one begins
    )
    np.testing.assert_array_equal(after, plain)
    alone = Portfolio((broken,))
    if isinstance(how, ImportError):
        with pytest.raises(ImportError):
            tb.solve(problem, alone)
    else:
        assert tb.solve(problem, alone).status == "failed"


def test_what_was_proved_before_a_polish_is_not_lost_at_the_end_of_steps_or_time(
    monkeypatch, clock, count
):
    """Wherever max_iter or max_time strikes after the first proof, the run ends as certified."""
    refines = Candidate(BregmanIteration(), least=1e3 * STEP, refines=True)
    portfolio = Portfolio((Candidate(tb.AdaptiveAGMBiO(), least=500.0 * STEP), refines))
    options = {"x0": [0.0, 0.0], "rtol": 1e-3}
    for criterion in ("weak", "absolute")[: count(1, 2)]:
        whole = tb.solve(unstructured(), portfolio, **options, criterion=criterion)
        assert "Bregman" in whole.method
        ends = [
            tb.solve(unstructured(), portfolio, **options, max_iter=steps, criterion=criterion)
            for steps in range(whole.nit + 1)
        ]
        proved = next(steps for steps, result in enumerate(ends) if result.proved)
        for result in ends[proved:]:
            assert result.status == "certified", result.nit
            assert result.upper_gap <= result.tolerance[0]
            assert result.lower_gap <= result.tolerance[1]
            assert result.trace[-1].upper_value == pytest.approx(result.upper_value)
            low, high = result.upper_optimum
            assert low <= 0.25 <= high
            if criterion == "absolute":
                assert abs(result.upper_value - 0.25) <= 2 * result.tolerance[0]
        if criterion == "weak":  # with both gaps, at the latest
            rows = (row for row in whole.trace if row.upper_gap <= 1e-3 * row.upper_value)
            assert proved <= next(row.iteration for row in rows if row.lower_gap <= 1e-3 * 0.5) + 1
            assert whole.nit > proved + 5
    # A refinement whose point is never proved: time strikes while it is at work.
    monkeypatch.setattr("tiebreak.auto.portfolio.AGAIN", 1e6)
    monkeypatch.setattr(
        BregmanIteration, "step", lambda self, problem, state: clock.wait(0.01) or state
    )
    limits = {"max_time": 0.5, "max_iter": 10**6}
    result = tb.solve(unstructured(), portfolio, **options, **limits, criterion="weak")
    assert result.status == "certified"
    assert result.time >= 0.5


def test_an_exact_answer_without_a_proof_gets_one_by_multipliers():
    rng = np.random.default_rng(3)
    x = np.append(rng.dirichlet(np.full(6, 3.0)), np.zeros(4))
    problem = tb.Problem(
        upper=tb.LeastSquares(rng.standard_normal((12, 10)), rng.standard_normal(12)),
        lower=tb.LeastSquares(A := rng.standard_normal((3, 10)), A @ x + 0.1),
        domain=tb.Simplex(1.0),
    )
    result = tb.solve(problem)
    assert result.status == "certified"
    assert result.method.startswith(
        "auto: exact, by direct factorisation (least squares below, 3 x 10)"
    )


def test_cones_take_their_turn_where_there_is_no_exact_method():
    # The l1 norm in a ball: thousands of first-order steps, and one of an interior-point method.
    rng = np.random.default_rng(3)
    A = rng.integers(-3, 4, (22, 59)).astype(float)
    planted = np.zeros(59)
    planted[:4] = [1.0, 2.0, -3.0, 4.0]
    lower = tb.LeastSquares(A, A @ planted)
    result = tb.solve(tb.Problem(upper=tb.L1(), lower=lower, domain=tb.Ball(8.0)))
    assert result.status == "certified"
    np.testing.assert_allclose(result.x, planted, atol=1e-8)


def test_the_refusal_of_a_polyhedron_names_no_method_that_refuses_it_too():
    fit = tb.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x, lipschitz=2.0)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=fit, domain=tb.Polyhedron([[1.0, 1.0]], [1]))
    with pytest.raises(
        ValueError, match="cheap projection, got Polyhedron; there is no exact method"
    ):
        tb.solve(problem, x0=np.zeros(2))


def test_a_single_minimiser_is_said_on_every_road():
    """The lower level is strongly convex: the report says that there is nothing to choose."""
    problem = tb.Problem(
        upper=tb.Smooth(lambda x: float(np.sum(np.cosh(x))), np.sinh),
        lower=tb.SquaredNorm(1.0, np.array([0.3, -0.2])) + tb.L1(0.1),
    )
    result = tb.solve(problem)
    assert result.method.startswith("auto: Bregman iteration because there is no exact")
    assert "a single minimiser, so the upper level has no choice" in str(result)
    np.testing.assert_allclose(result.x, [0.2, -0.1], atol=1e-3)


@pytest.mark.sample(12)
@pytest.mark.parametrize("what", ["f", "g", "x"])
@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("kind", ["exact", "penalty", "callables"])
def test_units_change_neither_the_number_of_gradients_nor_the_accuracy(kind, what, size):
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((5, 12)), rng.standard_normal(5)
    V, w = rng.standard_normal((20, 12)), rng.standard_normal(20)

    def solved(f, g, x):
        upper, lower = f * tb.LeastSquares(V / x, w), g * tb.LeastSquares(A / x, b)
        if kind == "penalty":
            lower = lower + tb.L1(0.1 * g / x)
        if kind == "callables":
            upper = tb.Smooth(upper.value, upper.gradient, lower_bound=0.0)
        return tb.solve(tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0 * x)))

    plain = solved(1.0, 1.0, 1.0)
    f, g, x = (size if letter == what else 1.0 for letter in "fgx")
    other = solved(f, g, x)
    before, after = (
        r.trace[-1].upper_gradients + r.trace[-1].lower_gradients for r in (plain, other)
    )
    assert abs(after - before) <= 0.1 * before
    assert plain.success
    assert other.status == plain.status
    assert other.upper_value / f == pytest.approx(plain.upper_value, rel=1e-9)


# --- what the loop owes to every method ----------------------------------------------------------


def test_a_time_limit_hits_inside_a_road(monkeypatch, clock):
    def slow(x):
        clock.wait(0.002)
        return float(x @ x) / 2

    problem = tb.Problem(
        upper=tb.Smooth(slow, lambda x: x, lipschitz=1.0),
        lower=tb.LeastSquares([[1.0, 1.0]], [1.0]),
        domain=tb.Ball(2.0),
    )
    result = tb.solve(problem, rtol=0.0, max_time=0.08, max_iter=10**7)
    assert result.status == "max_time"
    assert result.nit > 5
    assert result.time == pytest.approx(0.08, abs=0.01)
    monkeypatch.undo()  # the clock of this machine
    assert tb.solve(without_gap(), max_time=1e-9).nit == 0


@pytest.mark.sample(8)
@pytest.mark.parametrize("stop", [1, 2, 30, 64, 65, 90])
def test_a_run_stopped_in_any_road_goes_on_bit_identically(tmp_path, monkeypatch, stop):
    monkeypatch.setattr(selection, "FEWEST_STEPS", 30)  # then another one has its turn
    monkeypatch.setattr(selection, "_factorisation", lambda problem: 60 * STEP)
    for name, problem in {
        "dear": least_squares(domain=tb.Ball(1.0)),
        "rank": without_gap(),
    }.items():
        options = {"rtol": 0.0, "max_iter": 100}
        whole = tb.solve(problem, **options)
        path = tmp_path / f"{name}.npz"

        def callback(r):
            if r.nit == stop:
                raise StopIteration

        first = tb.solve(problem, **options, callback=callback, checkpoint=path)
        assert first.nit == min(stop, whole.nit)
        second = tb.solve(problem, **options, checkpoint=path)
        np.testing.assert_array_equal(second.x, whole.x)
        assert (second.nit, second.method) == (whole.nit, whole.method)
        assert second.status == whole.status
        assert second.trace[-1].upper_gradients == whole.trace[-1].upper_gradients


def test_an_exact_run_can_be_saved_and_asked_again(tmp_path):
    problem, path = least_squares(), tmp_path / "run.npz"
    first = tb.solve(problem, checkpoint=path)
    again = tb.solve(problem, checkpoint=path)
    assert first.nit == again.nit == 1
    np.testing.assert_array_equal(first.x, again.x)
    assert again.status == first.status
    with pytest.raises(ValueError, match="belongs to another method"):
        tb.solve(problem, "agm-bio", checkpoint=path)
