"""tb.minimize: plain Python functions, in the manner of scipy.optimize.minimize."""

from __future__ import annotations

import inspect
import itertools
import math
from fractions import Fraction
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
from planted.smooth import planted

import tiebreak as tb
from tiebreak.functions.gradient_check import check_gradient

# A method that knows its steps: for what has to do with the callables and not with the road.
STEPS = tb.BiSG(c=0.05, step_size=0.05)
N = 6
EPS = 2.0**-52
RNG = np.random.default_rng(0)
A, B, C = RNG.standard_normal((3, N)), RNG.standard_normal(3), RNG.standard_normal(N)


def f(x: Any) -> float:
    return 0.5 * float((x - C) @ (x - C))


def grad_f(x: Any) -> Any:
    return x - C


def g(x: Any) -> float:
    return 0.5 * float(np.sum((A @ x - B) ** 2))


def grad_g(x: Any) -> Any:
    return A.T @ (A @ x - B)


def run(upper: Any = f, lower: Any = g, jac: Any = (grad_f, grad_g), **options: Any) -> tb.Result:
    """A hundred steps of a method with fixed steps, from the same point."""
    return tb.minimize(
        upper, lower, np.ones(N), jac=jac, **({"method": STEPS, "max_iter": 100} | options)
    )


# --- planted answers -----------------------------------------------------------------------------


def projected(c: Any, M: Any, b: Any) -> Any:
    """The point of {x: Mx = b} that is closest to c."""
    return c + np.linalg.lstsq(M, b - M @ c, rcond=None)[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["auto", "adaptive"])
def test_two_quadratics_with_a_known_answer(method):
    x = projected(C, A, B)
    result = tb.minimize(
        f, g, np.zeros(N), jac=(grad_f, grad_g), domain=tb.Ball(10.0), method=method
    )
    assert result.success, str(result)
    assert result.upper_optimum[0] <= f(x) * (1 + 1e-12)
    assert result.lower_optimum[0] <= 1e-20
    assert result.upper_value <= f(x) + result.tolerance[0]
    assert result.lower_value <= result.tolerance[1]


def test_logistic_losses_with_ties_and_a_known_answer():
    """Every row is there with both labels, so that all x with Ax = 0 are minimisers."""
    rows = np.concatenate([A, -A])

    def loss(x):
        return float(np.sum(np.logaddexp(0.0, rows @ x)))

    def slope(x):
        return rows.T @ (1.0 / (1.0 + np.exp(-rows @ x)))

    x = projected(C, A, np.zeros(3))
    result = tb.minimize(f, loss, C, jac=(grad_f, slope), domain=tb.Ball(10.0))
    assert result.success, str(result)
    assert result.lower_optimum[0] <= 6 * math.log(2.0) * (1 + 1e-14)
    assert result.lower_value <= 6 * math.log(2.0) + result.tolerance[1]
    assert result.upper_optimum[0] <= f(x) * (1 + 1e-12)
    assert result.upper_value <= f(x) + result.tolerance[0]


def test_the_answer_respects_the_domain():
    """On the simplex the lower level asks for x1 = x2; above that, x3 is dear: (1/2, 1/2, 0)."""
    result = tb.minimize(
        lambda x: float(x[2]),
        lambda x: 0.5 * float((x[0] - x[1]) ** 2),
        [1.0, 0.0, 0.0],
        jac=(lambda x: [0.0, 0.0, 1.0], lambda x: (x[0] - x[1]) * np.array([1.0, -1.0, 0.0])),
        domain=tb.Simplex(),
        atol=1e-5,
    )
    assert result.success, str(result)
    assert float(np.sum(result.x)) == pytest.approx(1.0)
    np.testing.assert_allclose(result.x, [0.5, 0.5, 0.0], atol=2e-2)


# --- the callables may do what they like ---------------------------------------------------------


def test_the_same_steps_as_with_ready_functions():
    ready = run(tb.SquaredNorm(1.0, C), tb.LeastSquares(A, B), None)
    np.testing.assert_allclose(run().x, ready.x, rtol=1e-12)
    for upper, lower, jac in (
        (f, tb.LeastSquares(A, B), (grad_f, None)),
        (tb.SquaredNorm(1.0, C), g, (None, grad_g)),
        (tb.Smooth(f, grad_f), g, (None, grad_g)),
    ):
        np.testing.assert_allclose(run(upper, lower, jac).x, ready.x, rtol=1e-12)


def test_callables_that_write_into_x_do_not_change_the_run():
    def spoiling(function):
        def spoiled(x):
            answer = function(x)
            x *= math.nan
            return answer

        return spoiled

    spoiled = run(spoiling(f), spoiling(g), (spoiling(grad_f), spoiling(grad_g)))
    np.testing.assert_array_equal(spoiled.x, run().x)


def test_a_gradient_that_is_its_argument_is_safe():
    def doubled(x):
        x *= 2.0
        return x

    plain = run(lambda x: float(x @ x), g, (lambda x: 2.0 * x, grad_g))
    in_place = run(lambda x: float(x @ x), g, (doubled, grad_g))
    np.testing.assert_array_equal(in_place.x, plain.x)


@pytest.mark.parametrize("together", [False, True])
def test_a_buffer_that_is_used_again_does_not_change_the_run(together):
    buffer = np.zeros(N)  # one for both levels

    def reusing(gradient):
        def slope(x):
            buffer[:] = gradient(x)
            return buffer

        return slope

    if together:
        result = run(
            lambda x: (f(x), reusing(grad_f)(x)), lambda x: (g(x), reusing(grad_g)(x)), jac=True
        )
    else:
        result = run(jac=(reusing(grad_f), reusing(grad_g)))
    np.testing.assert_array_equal(result.x, run().x)


def test_buffers_of_both_levels_may_be_the_same_when_values_are_asked_first():
    number, vector = np.zeros(1), np.zeros(N)

    def reusing(value, gradient):
        def both(x):
            number[:], vector[:] = value(x), gradient(x)
            return number, vector

        return both

    options = {"jac": True, "method": "adaptive", "max_iter": 20, "domain": tb.Ball(0.5)}
    plain = run(lambda x: (f(x), grad_f(x)), lambda x: (g(x), grad_g(x)), **options)
    again = run(reusing(f, grad_f), reusing(g, grad_g), **options)
    np.testing.assert_array_equal(again.x, plain.x)


def test_x0_is_left_alone():
    x0 = np.ones(N)
    tb.minimize(f, g, x0, jac=(grad_f, grad_g), method=STEPS, max_iter=5)
    assert x0.tolist() == [1.0] * N


def test_a_function_that_returns_both_is_called_once_for_both():
    calls = []

    def both(x):
        calls.append(x.copy())
        return f(x), grad_f(x)

    result = run(both, jac=(True, grad_g))
    np.testing.assert_array_equal(result.x, run().x)
    assert not any(np.array_equal(x, y) for x, y in itertools.pairwise(calls))
    fused = run(both, lambda x: [g(x), grad_g(x)], jac=True)
    np.testing.assert_array_equal(fused.x, result.x)
    mixed = run(both, tb.LeastSquares(A, B), jac=True)  # True speaks of callables only
    np.testing.assert_allclose(mixed.x, result.x, rtol=1e-12)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: np.array(value),
        lambda value: np.array([value]),
        lambda value: np.array([[value]]),
        lambda value: np.float64(value),
        lambda value: xps.asarray(value),
    ],
    ids=["()", "(1,)", "(1, 1)", "float64", "array_api_strict"],
)
def test_a_value_is_a_number_or_an_array_with_one_entry(wrap):
    result = run(lambda x: wrap(f(x)), lambda x: wrap(g(x)))
    np.testing.assert_array_equal(result.x, run().x)
    assert type(result.upper_value) is float


def test_whole_numbers_are_numbers():
    result = run(lambda x: 3, g, (lambda x: np.zeros(N, int), grad_g))
    assert result.upper_value == 3.0


@pytest.mark.parametrize("wrap", [list, tuple], ids=["list", "tuple"])
def test_a_gradient_may_be_a_list(wrap):
    result = run(jac=(lambda x: wrap(grad_f(x)), lambda x: wrap(grad_g(x))))
    np.testing.assert_array_equal(result.x, run().x)


def test_single_precision_stays_single_precision():
    result = tb.minimize(
        f, g, np.ones(N, np.float32), jac=(grad_f, grad_g), method=STEPS, max_iter=100
    )
    assert result.x.dtype == np.float32
    np.testing.assert_allclose(result.x, run().x, atol=1e-4)


def test_arrays_of_another_library_reach_the_callables():
    center = xps.asarray(C.tolist())
    buffer = np.zeros(N)  # a NumPy buffer, whose memory another library may share

    def slope(x):
        buffer[:] = np.asarray(x - center)
        return buffer

    result = tb.minimize(
        lambda x: 0.5 * ((x - center) @ (x - center)),
        tb.LeastSquares(xps.asarray(A.tolist()), xps.asarray(B.tolist())),
        xps.ones(N),
        jac=(slope, None),
        method=STEPS,
        max_iter=100,
        check_gradients=True,
    )
    assert type(result.x) is type(center)
    np.testing.assert_allclose(np.asarray(result.x), run().x, rtol=1e-12)


def test_a_list_of_whole_numbers_is_a_start():
    result = tb.minimize(f, g, [1] * N, jac=(grad_f, grad_g), method=STEPS, max_iter=100)
    np.testing.assert_array_equal(result.x, run().x)


class Stop(Exception):
    pass


@pytest.mark.parametrize("late", [0, 20])
def test_an_exception_of_a_callable_passes_through(late):
    calls = []

    def value(x):
        calls.append(1)
        if len(calls) > late:
            raise Stop("not today")
        return f(x)

    with pytest.raises(Stop, match="not today"):
        run(value)


def test_a_value_that_is_not_finite_later_ends_the_run_with_a_word():
    result = run(lambda x: f(x) if x[0] > 0.9 else math.nan)
    assert result.status == "failed"
    assert np.all(np.isfinite(result.x))


# --- args ----------------------------------------------------------------------------------------


def residual(x, M, b):
    return 0.5 * float(np.sum((M @ x - b) ** 2))


def residual_slope(x, M, b):
    return M.T @ (M @ x - b)


def test_args_are_shared_or_a_pair_of_tuples():
    pair = run(residual, residual, (residual_slope,) * 2, args=((np.eye(N), C), (A, B)))
    np.testing.assert_allclose(pair.x, run().x, rtol=1e-10)
    shared = run(residual, residual, (residual_slope,) * 2, args=(A, B))
    assert shared.upper_value == shared.lower_value == residual(shared.x, A, B)
    mixed = run(residual, tb.LeastSquares(A, B), (residual_slope, None), args=(np.eye(N), C))
    np.testing.assert_allclose(mixed.x, run().x, rtol=1e-10)
    lower_only = run(f, residual, (grad_f, residual_slope), args=((), (A, B)))
    np.testing.assert_allclose(lower_only.x, run().x, rtol=1e-10)


def test_one_argument_that_is_no_tuple_is_passed_as_in_scipy():
    result = run(
        lambda x, c: 0.5 * float((x - c) @ (x - c)), tb.LeastSquares(A, B),
        (lambda x, c: x - c, None), args=C,
    )  # fmt: skip
    np.testing.assert_array_equal(result.x, run(f, tb.LeastSquares(A, B), (grad_f, None)).x)


# --- what is handed on ---------------------------------------------------------------------------


def test_the_options_are_those_of_solve():
    seen = []
    result = run(max_iter=7, callback=lambda step: seen.append(step.nit), rtol=(1e-9, 1e-9))
    assert result.nit == 7
    assert seen == list(range(8))
    bound = tb.ErrorBound(2, 1.0, 1.0)
    problem = run(domain=tb.Ball(3.0), radius=2.5, error_bound=bound).problem
    assert (problem.domain.radius, problem.radius, problem.error_bound) == (3.0, 2.5, bound)
    ours = set(inspect.signature(tb.minimize).parameters)
    theirs = set(inspect.signature(tb.solve).parameters)
    assert ours & theirs == {"x0"}  # each option has one place


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    run(max_iter=40, checkpoint=path)
    went_on = run(max_iter=100, checkpoint=path)
    np.testing.assert_array_equal(went_on.x, run().x)
    with pytest.raises(ValueError, match="belongs to another problem"):
        run(lambda x: 2 * f(x), jac=(lambda x: 2 * grad_f(x), grad_g), checkpoint=path)


def test_a_callable_that_overflows_far_away_can_be_continued_too(tmp_path):
    def value(x):
        return sum(math.exp(t) + math.exp(-t) for t in x)  # OverflowError beyond 709

    def slope(x):
        return [math.exp(t) - math.exp(-t) for t in x]

    options = {"jac": (grad_f, slope), "method": tb.BiSG(c=0.01, step_size=0.01)}
    run(f, value, max_iter=20, checkpoint=tmp_path / "run.npz", **options)
    went_on = run(f, value, max_iter=40, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(went_on.x, run(f, value, max_iter=40, **options).x)


def test_a_callable_that_is_not_defined_far_away_can_be_continued_too(tmp_path):
    def value(x):
        return -sum(math.log(9.0 - t) + math.log(9.0 + t) for t in x)  # ValueError beyond 9

    def slope(x):
        return [1 / (9.0 - t) - 1 / (9.0 + t) for t in x]

    options = {"jac": (grad_f, slope), "method": tb.BiSG(c=0.01, step_size=0.01)}
    run(f, value, max_iter=20, checkpoint=tmp_path / "run.npz", **options)
    went_on = run(f, value, max_iter=40, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(went_on.x, run(f, value, max_iter=40, **options).x)


def test_a_penalty_may_be_a_level_or_a_part_of_one():
    sparse = run(tb.L1(0.1), g, (None, grad_g))
    np.testing.assert_allclose(sparse.x, run(tb.L1(0.1), tb.LeastSquares(A, B), None).x, rtol=1e-12)
    lasso = run(f, tb.Smooth(g, grad_g) + tb.L1(0.1), (grad_f, None), check_gradients=True)
    ready = run(tb.SquaredNorm(1.0, C), tb.LeastSquares(A, B) + tb.L1(0.1), None)
    np.testing.assert_allclose(lasso.x, ready.x, rtol=1e-12)


# --- an unknown Lipschitz constant and the certificate -------------------------------------------


def test_without_a_lipschitz_constant_the_proof_is_true_and_never_two_sided():
    x = projected(C, A, B)
    for domain in (tb.Space(), tb.Ball(10.0)):
        result = run(tb.Smooth(f, grad_f, strong_convexity=1.0), tb.LeastSquares(A, B),
                     (None, None), domain=domain)  # fmt: skip
        assert result.upper_error == math.inf
        assert result.upper_optimum[0] <= f(x) * (1 + 1e-12)
        assert math.isfinite(result.upper_gap)
        assert result.upper_gap >= result.upper_value - f(x) - 1e-12


def test_rounding_without_a_lipschitz_constant_covers_what_cancels_at_the_solution():
    """½|Ax - b|² in single precision: near its minimiser value and slope are rounding errors."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        M = (100.0 * rng.standard_normal((5, 4))).astype(np.float32)
        b = (M @ rng.standard_normal(4)).astype(np.float32)
        h = tb.Smooth(
            lambda x, M=M, b=b: np.sum((M @ x - b) ** 2) / 2,
            lambda x, M=M, b=b: M.T @ (M @ x - b),
        )
        h = h.sized(np.zeros(4, np.float32), lambda x: x)
        x = np.linalg.lstsq(M.astype(float), b.astype(float), rcond=None)[0].astype(np.float32)
        rows = [[Fraction(float(t)) for t in row] for row in M]
        point = [Fraction(float(t)) for t in x]
        left = [
            sum(t * s for t, s in zip(row, point, strict=True)) - Fraction(float(t))
            for row, t in zip(rows, b, strict=True)
        ]
        slope = [sum(r[j] * t for r, t in zip(rows, left, strict=True)) for j in range(4)]
        got, value = h.gradient(x), h.value(x)
        of_value, of_slope = h.rounding(
            float(np.linalg.norm(x)), value, float(np.linalg.norm(got)), 2.0**-23, 4
        )
        assert abs(value - float(sum(t * t for t in left) / 2)) <= of_value
        errors = [float(Fraction(float(s)) - t) for s, t in zip(got, slope, strict=True)]
        assert np.linalg.norm(errors) <= of_slope


def test_no_proof_is_wrong_on_planted_problems_and_no_right_gradient_is_blamed(count):
    """Sums of many kinds of losses on all domains, as plain callables, with exact answers."""
    for p in map(planted, range(0, 208, count(29, 1))):
        promise = {"radius": 1.01 * float(np.linalg.norm(p.x_star)) + p.unit} if p.seed % 2 else {}
        result = tb.minimize(
            p.f,
            p.g,
            p.x0,
            jac=(p.grad_f, p.grad_g),
            domain=p.region.build(tb),
            check_gradients=True,
            method="adaptive",
            max_iter=60,
            **promise,
        )
        of_f = 8 * EPS * (p.f_scale + abs(result.upper_value))
        of_g = 8 * EPS * (p.g_scale + abs(result.lower_value))
        assert result.upper_gap >= p.f(result.x) - p.f_star - of_f, p.kind
        assert result.lower_gap >= p.g(result.x) - p.g_star - of_g, p.kind
        assert result.upper_optimum[0] <= p.f_star + of_f, p.kind
        assert result.lower_optimum[0] <= p.g_star + of_g, p.kind
        assert result.lower_optimum[1] >= p.g_star - of_g, p.kind


def test_no_proof_is_wrong_where_the_sizes_are_not_what_they_seem():
    """A value with a large offset, data of many scales: the bounds hold the known answers."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        unit, offset = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(0, 8)
        M = rng.standard_normal((3, N)) * unit
        x = projected(C, M, M @ np.ones(N))
        result = tb.minimize(
            lambda x, unit=unit, offset=offset: unit * (f(x) + offset),
            lambda x, M=M: residual(x, M, M @ np.ones(N)),
            np.zeros(N),
            jac=(lambda x, unit=unit: unit * grad_f(x),
                 lambda x, M=M: residual_slope(x, M, M @ np.ones(N))),
            domain=tb.Ball(20.0),
            method="adaptive",
            max_iter=300,
        )  # fmt: skip
        best = unit * (f(x) + offset)
        assert result.upper_optimum[0] <= best * (1 + 1e-13)
        assert result.lower_optimum[0] <= 1e-25 * unit**2
        assert result.upper_error == math.inf


# --- gradients against differences ---------------------------------------------------------------


def test_a_wrong_coordinate_among_a_thousand_is_named():
    n, weights = 1000, 10.0 ** np.random.default_rng(4).uniform(-3, 3, 1000)

    def value(x):
        return float(np.sum(weights * np.logaddexp(0.0, x)))

    def slope(x):
        answer = weights / (1.0 + np.exp(-x))
        answer[417] *= 1.01
        return answer

    def start(**options):
        return tb.minimize(
            value,
            tb.SquaredNorm(),
            np.zeros(n),
            jac=(slope, None),
            method=STEPS,
            max_iter=1,
            **options,
        )

    with pytest.raises(ValueError, match="coordinate 417:") as caught:
        start(check_gradients=True)
    sentence = str(caught.value)
    assert sentence.startswith("minimize: the gradient of upper is wrong in coordinate 417: got ")
    assert len(sentence) < 160
    got, say, error = (
        float(sentence.split(mark)[1].split()[0].strip(","))
        for mark in ("got ", "values give ", "+- ")
    )
    assert abs(got / 1.01 - say) <= 3 * error + 1e-5 * abs(say)  # both are rounded in print
    assert start().nit == 1  # nobody asked


@pytest.mark.parametrize("level", ["upper", "lower"])
@pytest.mark.parametrize("together", [False, True])
def test_a_gradient_that_is_wrong_everywhere_says_so(level, together):
    functions, slopes = {"upper": f, "lower": g}, {"upper": grad_f, "lower": grad_g}
    slopes[level] = lambda x, slope=slopes[level]: -slope(x)
    calls, jac = list(functions.values()), tuple(slopes.values())
    if together:
        calls, jac = (
            [lambda x, h=h, s=s: (h(x), s(x)) for h, s in zip(calls, jac, strict=True)],
            True,
        )
    with pytest.raises(ValueError, match=r"coordinate \d \(and in 5 others\)") as caught:
        run(*calls, jac, check_gradients=True)
    assert f"the gradient of {level} is wrong" in str(caught.value)
    assert len(str(caught.value)) < 160


def test_a_gradient_that_is_right_at_the_origin_only_is_found_there_too():
    for factor in (2.0, -1.0, 0.0):
        with pytest.raises(ValueError, match="gradient of upper is wrong"):
            tb.minimize(
                lambda x: 0.5 * float(x @ x), g, np.zeros(N),
                jac=(lambda x, factor=factor: factor * x, grad_g), check_gradients=True,
            )  # fmt: skip


def random_function(rng: np.random.Generator) -> tuple[Any, Any, Any, tb.Space]:
    """A convex function with its gradient, over 16 orders of magnitude; a start, a domain."""
    n, m = int(rng.integers(1, 25)), int(rng.integers(1, 40))
    unit = 10.0 ** rng.uniform(-8, 8)
    scale = 10.0 ** rng.uniform(-8, 8, n if rng.random() < 0.5 else 1)
    M, b = rng.standard_normal((m, n)), rng.standard_normal(m)
    offset = 10.0 ** rng.uniform(-3, 12) * (rng.random() < 0.3)
    width = 10.0 ** rng.uniform(-6, 1)
    value, slope = {
        "squares": (lambda r: r * r / 2, lambda r: r),
        "logistic": (lambda r: np.logaddexp(0.0, r), lambda r: 1 / (1 + np.exp(-r))),
        "exponential": (np.exp, np.exp),
        "quartic": (lambda r: r**4 / 4, lambda r: r**3),
        "linear": (lambda r: r, np.ones_like),
        "almost |r|": (lambda r: np.hypot(r, width), lambda r: r / np.hypot(r, width)),
        "Huber": (
            lambda r: np.where(abs(r) < width, r * r / 2, width * abs(r) - width**2 / 2),
            lambda r: np.clip(r, -width, width),
        ),
    }[rng.choice(["squares", "logistic", "exponential", "quartic", "linear", "almost |r|", "Huber"])]  # fmt: skip  # noqa: E501
    x0 = rng.standard_normal(n) / scale * (rng.random() < 0.5)
    domains = [
        tb.Space(), tb.Orthant(), tb.Ball(float(np.linalg.norm(x0)) + 1e-6),
        tb.Box(-np.abs(x0) - 1e-3, np.abs(x0) + 1e-3), tb.Simplex(float(np.sum(abs(x0))) or 1.0),
    ]  # fmt: skip
    return (
        lambda x: unit * (offset + float(np.sum(value(M @ (scale * x) - b)))),
        lambda x: unit * scale * (M.T @ slope(M @ (scale * x) - b)),
        x0,
        domains[int(rng.integers(len(domains)))],
    )


def test_a_right_gradient_gives_no_alarm_at_any_scale_and_a_wrong_one_mostly_does(count):
    found, cases = 0, count(100, 3000)
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        value, slope, x0, domain = random_function(rng)
        x0 = domain.project(x0)
        check_gradient("test", f"case {seed}", tb.Smooth(value, slope), domain, x0)
        j = int(rng.integers(len(x0)))

        def wrong(x, slope=slope, j=j):
            answer = slope(x)
            answer[j] *= 2.0
            return answer

        said = ""
        try:
            check_gradient("test", "upper", tb.Smooth(value, wrong), domain, x0)
        except ValueError as error:
            said = str(error)
        assert not said or f"coordinate {j}:" in said
        found += bool(said)
    print(f"\ngradients: {cases} right ones, no alarm; {found} of {cases} doubled entries named")
    assert found > 0.75 * cases  # the others drown: a large offset, a coordinate that hardly counts


@pytest.mark.sample(2)
@pytest.mark.parametrize("inside", [False, True])
def test_single_precision_gives_no_alarm_and_hides_no_doubled_coordinate(inside):
    """``inside``: x in double precision, but the callables work in single precision."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        M = rng.standard_normal((30, 8)).astype(np.float32)
        b = (10.0 ** rng.uniform(-2, 2) * rng.standard_normal(30)).astype(np.float32)

        def value(x, M=M, b=b):
            return np.sum((M @ x.astype(np.float32) - b) ** 2) / 2

        def slope(x, M=M, b=b):
            return M.T @ (M @ x.astype(np.float32) - b)

        x0 = rng.standard_normal(8).astype(np.float64 if inside else np.float32)
        check_gradient("test", "upper", tb.Smooth(value, slope), tb.Space(), x0)
        with pytest.raises(ValueError, match="wrong in coordinate"):
            check_gradient(
                "test", "upper", tb.Smooth(value, lambda x, s=slope: 2 * s(x)), tb.Space(), x0
            )


def test_differences_that_know_nothing_are_silent():
    big = 1e18
    run(lambda x: big + f(x), jac=(lambda x: 2 * grad_f(x), grad_g), check_gradients=True)


def test_a_function_that_overflows_around_the_start_is_checked_closer_to_it():
    def steep(x):
        return float(np.sum(np.exp(1e5 * x)))

    def slope(x):
        return 1e5 * np.exp(1e5 * x)

    check_gradient("test", "upper", tb.Smooth(steep, slope), tb.Space(), np.zeros(3))
    with pytest.raises(ValueError, match="coordinate"):
        check_gradient(
            "test", "upper", tb.Smooth(steep, lambda x: 2 * slope(x)), tb.Space(), np.zeros(3)
        )


@pytest.mark.parametrize("domain", [tb.Orthant(), tb.Box(0.0, 1.0)])
def test_the_check_stays_inside_a_domain_that_has_an_inside(domain):
    seen = []

    def value(x):
        seen.append(x.copy())
        return float(np.sum(x**1.5))

    check_gradient(
        "test", "upper", tb.Smooth(value, lambda x: 1.5 * np.sqrt(x)), domain, np.zeros(5)
    )
    assert all(np.all(x >= 0.0) for x in seen)


def test_the_check_changes_neither_the_run_nor_its_proof():
    def steep(x):
        return float(np.sum(np.exp(100.0 * x)))  # e^70 where the check looks

    checked, plain = (
        tb.minimize(
            f,
            steep,
            np.zeros(N),
            jac=(grad_f, lambda x: 100.0 * np.exp(100.0 * x)),
            domain=tb.Box(-1.0, 1.0),
            check_gradients=check,
            method=tb.BiSG(c=1e-5, step_size=1e-5),
            max_iter=50,
        )
        for check in (True, False)
    )
    assert checked.certificate == plain.certificate
    np.testing.assert_array_equal(checked.x, plain.x)


def test_ready_functions_are_not_checked(monkeypatch):
    asked, value = [0], tb.LeastSquares.value

    def counting(self, x):
        asked[0] += 1
        return value(self, x)

    monkeypatch.setattr(tb.LeastSquares, "value", counting)
    run(f, tb.LeastSquares(A, B), (grad_f, None), check_gradients=True, max_iter=1)
    assert asked[0] < N


# --- wrong calls ---------------------------------------------------------------------------------


def call(**changes: Any) -> Any:
    given = {"upper": f, "lower": g, "x0": np.ones(N), "jac": (grad_f, grad_g)} | changes
    return lambda: tb.minimize(given.pop("upper"), given.pop("lower"), given.pop("x0"), **given)


APPROXIMATED = "gradients are never approximated"
PAIR = "minimize: jac must be a pair (gradient of upper, gradient of lower) or True, got "
WRONG = {
    "no jac": (
        call(jac=None), ValueError,
        "minimize: jac must give the gradient of upper, got None (True says that upper returns "
        "value and gradient; gradients are never approximated)",
    ),
    "jac False": (
        call(jac=False), ValueError,
        "minimize: jac must give the gradient of upper, got False (True says that upper returns "
        "value and gradient; gradients are never approximated)",
    ),
    "no lower jac": (
        call(jac=(grad_f, None)), ValueError,
        "minimize: jac must give the gradient of lower, got None (True says that lower returns "
        "value and gradient; gradients are never approximated)",
    ),
    "SciPy's differences": (
        call(jac="2-point"), TypeError, f"{PAIR}'2-point'; {APPROXIMATED}",
    ),
    "SciPy's differences in the pair": (
        call(jac=(grad_f, "3-point")), TypeError,
        f"minimize: jac of lower must be a callable of x or True, got '3-point'; {APPROXIMATED}",
    ),
    "one gradient": (call(jac=grad_f), TypeError, f"{PAIR}a plain Python function; {APPROXIMATED}"),
    "three gradients": (call(jac=[grad_f] * 3), TypeError, f"{PAIR}3 entries; {APPROXIMATED}"),
    "an array for a gradient": (
        call(jac=(np.ones(N), grad_g)), TypeError,
        "minimize: jac of upper must be a callable of x or True, got an array of shape (6,); "
        f"{APPROXIMATED}",
    ),
    "a gradient too many": (
        call(lower=tb.LeastSquares(A, B)), ValueError,
        "minimize: jac of lower must be None because LeastSquares computes its own gradient, got "
        "function",
    ),
    "upper a number": (
        call(upper=3.0), TypeError,
        "minimize: upper must be a callable of x or a function such as LeastSquares(A, b), "
        "got float",
    ),
    "lower a class": (
        call(lower=tb.SquaredNorm), TypeError,
        "minimize: lower must be a callable of x or a function such as LeastSquares(A, b), "
        "got the class SquaredNorm",
    ),
    "lower a domain": (
        call(lower=tb.Ball()), TypeError,
        "minimize: lower must be a callable of x or a function such as LeastSquares(A, b), "
        "got Ball",
    ),
    "x0 None": (
        call(x0=None), TypeError, "minimize: x0 must be an array of numbers, got NoneType",
    ),
    "x0 a number": (
        call(x0=1.0), ValueError,
        "minimize: x0 must be a vector with at least one entry, got a single number",
    ),
    "x0 a column": (
        call(x0=np.ones((N, 1))), ValueError,
        "minimize: x0 must be a vector with at least one entry, got an array of shape (6, 1)",
    ),
    "x0 not finite": (
        call(x0=[1.0, math.nan]), ValueError,
        "minimize: x0 must be finite, got NaN or infinite entries",
    ),
    "x0 too short": (
        call(lower=tb.LeastSquares(A, B), jac=(grad_f, None), x0=[1.0]), ValueError,
        "minimize: x0 must have one entry per variable (6), got 1",
    ),
    "domain": (
        call(domain=(0, 1)), TypeError,
        "Problem: domain must be a set such as Box(0.0, 1.0) or Space(), got tuple",
    ),
    "args for a ready function": (
        call(lower=tb.LeastSquares(A, B), jac=(grad_f, None), args=((), (A, B))), ValueError,
        "minimize: args of lower must be empty because LeastSquares takes none, got 2",
    ),
    "check_gradients": (
        call(check_gradients="yes"), TypeError,
        "minimize: check_gradients must be True or False, got 'yes'",
    ),
    "value None": (
        call(upper=lambda x: None), TypeError,
        "minimize: upper must be a callable that returns a number, got NoneType",
    ),
    "value a vector": (
        call(lower=lambda x: x), TypeError,
        "minimize: lower must be a callable that returns a number, got an array of shape (6,)",
    ),
    "value complex": (
        call(upper=lambda x: np.array([1j])), TypeError,
        "minimize: upper must be a callable that returns a number, got dtype complex128",
    ),
    "value a pair": (
        call(upper=lambda x: (f(x), grad_f(x))), TypeError,
        "minimize: upper must be a callable that returns a number, got tuple",
    ),
    "no pair": (
        call(jac=(grad_f, True)), TypeError,
        "minimize: lower must be a callable that returns (value, gradient) with jac=True, "
        "got float",
    ),
    "value nan": (
        call(upper=lambda x: math.nan), ValueError,
        "solve: the value of upper must be finite at the start, got nan",
    ),
    "value nan, checked": (
        call(upper=lambda x: math.nan, check_gradients=True), ValueError,
        "solve: the value of upper must be finite at the start, got nan",
    ),
    "gradient nan": (
        call(jac=(grad_f, lambda x: x * math.nan)), ValueError,
        "solve: the gradient of lower must be finite at the start, got NaN or infinite entries",
    ),
    "gradient a column": (
        call(jac=(lambda x: np.ones((N, 1)), grad_g)), ValueError,
        "minimize: the gradient of upper must be a vector of 6 entries, "
        "got an array of shape (6, 1)",
    ),
    "gradient too short": (
        call(jac=(grad_f, lambda x: [1.0, 2.0])), ValueError,
        "minimize: the gradient of lower must be a vector of 6 entries, got an array of shape (2,)",
    ),
    "gradient a number": (
        call(jac=(lambda x: 1.0, grad_g)), ValueError,
        "minimize: the gradient of upper must be a vector of 6 entries, got float",
    ),
    "gradient None": (
        call(jac=(lambda x: None, grad_g)), ValueError,
        "minimize: the gradient of upper must be a vector of 6 entries, got NoneType",
    ),
    "gradient of strings": (
        call(jac=(lambda x: ["a"] * N, grad_g)), ValueError,
        "minimize: the gradient of upper must be a vector of 6 entries, got list",
    ),
    "gradient complex": (
        call(jac=(lambda x: 1j * x, grad_g)), TypeError,
        "minimize: the gradient of upper must be a vector of 6 real numbers, got dtype complex128",
    ),
    "an option of solve": (
        call(rtol=-1.0), ValueError,
        "solve: rtol must be a non-negative finite number, got -1.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_gets_exactly_this_sentence(name):
    make, kind, sentence = WRONG[name]
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == sentence
    assert len(sentence) < 160


def test_a_gradient_that_changes_its_shape_later_is_named_too():
    calls = []

    def slope(x):
        calls.append(1)
        return grad_f(x) if len(calls) < 10 else grad_f(x)[:, None]

    with pytest.raises(ValueError, match=r"must be a vector of 6 entries, got an array of shape"):
        run(jac=(slope, grad_g))


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(TypeError, match="bounds"):
        run(bounds=[(0, 1)] * N)
