"""smooth + penalty as a level of a problem: contract, arithmetic, and what solve makes of it."""

from __future__ import annotations

from dataclasses import replace

import array_api_strict as xps
import numpy as np
import pytest

import tiebreak as tb
from tiebreak.driver.checkpoint import identity
from tiebreak.driver.run import Run
from tiebreak.functions.base import PointWithImage
from tiebreak.functions.elementary import Flat
from tiebreak.functions.penalties.composite import Composite, split

N = 6
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 4, N))
b = RNG.standard_normal(4)
LABELS = [0, 0, 1, -1, 1, 2]


def signs(values):
    return np.where(values > 0, 1.0, -1.0)


SMOOTH = {
    "LeastSquares": lambda: tb.LeastSquares(A, b),
    "Logistic": lambda: tb.Logistic(A, signs(b)),
    "SquaredNorm": lambda: tb.SquaredNorm(2.0),
    "Linear": lambda: tb.Linear(A[0]),
    "Sum": lambda: tb.LeastSquares(A, b) + 0.5 * tb.Linear(B[0]),
    "Smooth": lambda: tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x, lipschitz=1.0),
}
PENALTIES = {
    "L1": (lambda: tb.L1(0.7), lambda x: 0.7 * np.sum(np.abs(x))),
    "L2": (lambda: tb.L2(0.7), lambda x: 0.7 * np.linalg.norm(x)),
    "ElasticNet": (
        lambda: tb.ElasticNet(0.7, 0.3),
        lambda x: 0.7 * np.sum(np.abs(x)) + 0.15 * x @ x,
    ),
    "GroupL2": (
        lambda: tb.GroupL2(LABELS, 0.7),
        lambda x: 0.7 * (np.linalg.norm(x[:2]) + np.linalg.norm(x[[2, 4]]) + abs(x[5])),
    ),
    "sum": (
        lambda: tb.L1(0.7) + 2 * tb.L2(0.1),
        lambda x: 0.7 * np.sum(np.abs(x)) + 0.2 * np.linalg.norm(x),
    ),
}

every_pair = pytest.mark.parametrize(
    ("smooth", "penalty"), [(s, p) for s in SMOOTH for p in PENALTIES]
)


def pair(smooth, penalty):
    return SMOOTH[smooth](), PENALTIES[penalty][0](), PENALTIES[penalty][1]


# --- the contract --------------------------------------------------------------------------------


@every_pair
def test_values_are_those_of_the_sum_and_slopes_those_of_the_smooth_part(smooth, penalty):
    f, p, formula = pair(smooth, penalty)
    h, rng = f + p, np.random.default_rng(1)
    for _ in range(20):
        x, y = rng.standard_normal((2, N))
        assert h.value(x) == pytest.approx(f.value(x) + formula(x), rel=1e-14)
        np.testing.assert_array_equal(h.gradient(x), f.gradient(x))
        image = h.forward(x, y)
        places = [PointWithImage(x, image[0]), PointWithImage(y, image[1])]
        seen, values = h.evaluate(places, places[::-1])
        plain, smooth_values = f.evaluate(places, places[::-1])
        for own, other in zip(seen, plain, strict=True):
            assert own.value == other.value
            np.testing.assert_array_equal(own.slope, other.slope)
        for value, without, at in zip(values, smooth_values, (y, x), strict=True):
            assert value == pytest.approx(without + formula(at), rel=1e-14)


@every_pair
def test_constants_and_costs_are_those_of_the_smooth_part(smooth, penalty):
    f, p, _ = pair(smooth, penalty)
    h = f + p
    assert (h.lipschitz, h.strong_convexity, h.defect) == (
        f.lipschitz,
        f.strong_convexity,
        f.defect,
    )
    assert h.growth == 0.0  # nothing is known about the sum
    assert h.passes(3, 2, 5) == f.passes(3, 2, 5)
    assert h.rounding(2.0, 3.0, 1.0, 1e-16, N) == f.rounding(2.0, 3.0, 1.0, 1e-16, N)
    assert h.prototype is f.prototype
    assert h.dimension == (f.dimension or p.dimension)
    rng = np.random.default_rng(2)
    assert all(h.value(s * rng.standard_normal(N)) >= h.lower_bound for s in (1e-3, 1.0, 1e3))


@every_pair
def test_asking_never_modifies_the_point(smooth, penalty):
    f, p, _ = pair(smooth, penalty)
    h, x = f + p, np.linspace(-1.0, 1.0, N)
    x.flags.writeable = False
    before = x.copy()
    h.value(x), h.gradient(x), h.evaluate([PointWithImage(x, h.forward(x)[0])], [])
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", [np, xps], ids=["numpy", "strict"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_library_and_dtype_are_kept(penalty, library, dtype):
    kind = getattr(library, dtype)
    h = tb.LeastSquares(library.asarray(A, dtype=kind), library.asarray(b, dtype=kind))
    h = h + PENALTIES[penalty][0]()
    x = library.asarray(np.linspace(-1.0, 1.0, N), dtype=kind)
    assert isinstance(h.value(x), float)
    (seen,), (value,) = h.evaluate(
        [PointWithImage(x, h.forward(x)[0])], [PointWithImage(x, h.forward(x)[0])]
    )
    assert seen.slope.dtype == kind
    assert type(seen.slope) is type(x)
    assert value == pytest.approx(h.value(x), rel=1e-5)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=h), max_iter=3)
    assert result.x.dtype == kind
    assert type(result.x) is type(x)


# --- arithmetic ----------------------------------------------------------------------------------


def test_sums_and_multiples_are_what_they_say():
    f, h = tb.LeastSquares(A, b), tb.SquaredNorm(3.0)
    p, q = tb.L1(0.5), tb.L2(0.25)
    x = np.linspace(-1.0, 2.0, N)
    F, H, P, Q = (part.value(x) for part in (f, h, p, q))
    sums = {
        "f + p": (f + p, F + P),
        "p + f": (p + f, F + P),
        "f + p + q": (f + p + q, F + P + Q),
        "q + (f + p)": (q + (f + p), F + P + Q),
        "f + p + h": (f + p + h, F + P + H),
        "h + (f + p)": (h + (f + p), F + P + H),
        "(f + p) + (h + q)": ((f + p) + (h + q), F + P + H + Q),
        "sum([f, p])": (sum([f, p]), F + P),
        "sum([p, f])": (sum([p, f]), F + P),
        "sum([f + p, h, q])": (sum([f + p, h, q]), F + P + H + Q),
        "2 (f + p)": (2 * (f + p), 2.0 * (F + P)),
        "(f + p) 2": ((f + p) * 2, 2.0 * (F + P)),
        "np 2 (f + p)": (np.float64(2.0) * (f + p), 2.0 * (F + P)),
        "np32 2 (f + p)": (np.float32(2.0) * (f + p), 2.0 * (F + P)),
        "2 f + 3 p": (2 * f + 3 * p, 2.0 * F + 3.0 * P),
        "f + 0 p": (f + 0 * p, F),
    }
    for name, (made, value) in sums.items():
        assert isinstance(made, Composite), name
        assert made.value(x) == pytest.approx(value, rel=1e-14), name
        smooth, penalty = split(made)
        assert made.value(x) == pytest.approx(smooth.value(x) + penalty.value(x), rel=1e-14), name


def test_a_penalty_alone_has_a_flat_smooth_part():
    problem = tb.Problem(upper=tb.L1(2.0), lower=tb.LeastSquares(A, b))
    assert isinstance(problem.upper, Composite)
    assert isinstance(problem.smooth_parts[0], Flat)
    x = np.linspace(-1.0, 1.0, N)
    assert problem.upper.value(x) == 2.0 * np.sum(np.abs(x))
    np.testing.assert_array_equal(problem.upper.gradient(x), np.zeros(N))
    assert problem.upper.lipschitz == problem.upper.lower_bound == 0.0
    assert repr(problem.upper) == "L1(weight=2.0)"
    assert repr(tb.LeastSquares(A, b) + tb.L1() + tb.L2()) == (
        f"<LeastSquares, {len(A)} x 6> + L1(weight=1.0) + L2(weight=1.0)"
    )


# --- in a problem --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing", [tb.Zero(), tb.L1(0.0), 0 * tb.GroupL2(LABELS), tb.ElasticNet(0, 0)], ids=repr
)
def test_a_penalty_without_weight_leaves_the_smooth_problem(nothing):
    f, g = tb.SquaredNorm(), tb.LeastSquares(A, b)
    problem = tb.Problem(upper=f + nothing, lower=nothing + g, domain=tb.Ball(0.3))
    assert problem.is_smooth
    assert problem.upper is f
    assert problem.lower is g
    plain = tb.solve(tb.Problem(upper=f, lower=g, domain=tb.Ball(0.3)), max_iter=50)
    result = tb.solve(problem, max_iter=50)
    np.testing.assert_array_equal(result.x, plain.x)
    assert result.method == plain.method
    assert "non-zeros" not in str(result)


def test_an_indicator_becomes_a_part_of_the_domain_of_both_levels():
    f, g, box = tb.SquaredNorm(), tb.LeastSquares(A, b), tb.Box(-0.1, 0.1)
    for where in ("upper", "lower"):
        levels = {"upper": f, "lower": g}
        problem = tb.Problem(**(levels | {where: levels[where] + tb.Indicator(box)}))
        assert problem.is_smooth
        assert problem.domain is box
    tighter = tb.Problem(upper=f + tb.Indicator(box), lower=g, domain=tb.Box(0.0, 1.0))
    assert (tighter.domain.lower, tighter.domain.upper) == (0.0, 0.1)
    mixed = tb.Problem(upper=tb.L1() + tb.Indicator(box), lower=g)
    assert mixed.domain is box
    assert mixed.upper.value(np.ones(N)) == N  # the set is no part of the level any more


def test_the_prox_of_a_problem_is_the_projection_where_there_is_no_penalty():
    v = np.linspace(-2.0, 2.0, N)
    for domain in (tb.Space(), tb.Ball(0.5), tb.Simplex(), tb.Box(-1.0, 0.5)):
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b), domain=domain)
        np.testing.assert_array_equal(problem.prox(v, 1.0, 2.0), domain.project(v))


def test_the_prox_of_a_problem_weighs_both_penalties():
    problem = tb.Problem(upper=tb.L1(0.5), lower=tb.LeastSquares(A, b) + tb.L1(0.25))
    v = np.linspace(-2.0, 2.0, N)
    by_hand = np.sign(v) * np.maximum(np.abs(v) - (0.5 * 3.0 + 0.25 * 2.0), 0.0)
    np.testing.assert_allclose(problem.prox(v, 3.0, 2.0), by_hand, rtol=1e-15)


def test_the_prox_of_the_lower_level_alone_needs_no_joint_prox():
    groups = tb.GroupL2([[0, 1]]), tb.GroupL2([[1, 2]])
    problem = tb.Problem(upper=groups[0], lower=tb.LeastSquares(A, b) + groups[1])
    v = np.ones(N)
    np.testing.assert_array_equal(problem.prox(v, 0.0, 1.0), groups[1].prox(v, 1.0))
    with pytest.raises(ValueError, match=r"^Problem: .* two GroupL2 with different groups$"):
        problem.prox(v, 1.0, 1.0)


def test_a_penalty_changes_neither_the_counts_of_gradients_nor_of_passes():
    f, g = tb.LeastSquares(B, b), tb.LeastSquares(A, b)
    counts = []
    for penalty in (tb.Zero(), tb.L1(0.1)):
        problem = tb.Problem(upper=f + penalty, lower=g + penalty)
        run = Run(problem, tb.PAGMBiO(gamma=0.5), problem.start())
        for _ in range(70):
            assert run.step()
        counts.append(run.counts)
    assert counts[0] == counts[1]
    assert counts[0].upper_gradients > 0


# --- identity and checkpoints --------------------------------------------------------------------


def sparse_group_problem(**changes):
    parts = {
        "upper": tb.L1(0.5) + tb.GroupL2(LABELS, 0.25),
        "lower": tb.LeastSquares(A, b) + tb.L1(0.1),
    }
    return tb.Problem(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"upper": tb.L1(0.5) + tb.GroupL2(LABELS, 0.26)}, "upper"),
        ({"upper": tb.L1(0.6) + tb.GroupL2(LABELS, 0.25)}, "upper"),
        ({"upper": tb.L2(0.5) + tb.GroupL2(LABELS, 0.25)}, "upper"),
        ({"upper": tb.L1(0.5) + tb.GroupL2([0, 0, 1, 1, 1, 2], 0.25)}, "upper"),
        ({"upper": tb.L1(0.5)}, "upper"),
        ({"upper": tb.SquaredNorm() + tb.L1(0.5) + tb.GroupL2(LABELS, 0.25)}, "upper"),
        ({"lower": tb.LeastSquares(A, b)}, "lower"),
        ({"lower": tb.LeastSquares(A, b) + tb.L1(0.2)}, "lower"),
        ({"lower": tb.LeastSquares(A, b) + tb.L2(0.1)}, "lower"),
        ({"lower": tb.LeastSquares(A, 2 * b) + tb.L1(0.1)}, "lower"),
    ],
)
def test_another_penalty_is_another_problem(changes, level):
    x0, method = np.zeros(N), tb.PAGMBiO()
    one = identity(sparse_group_problem(), method, x0)
    other = identity(sparse_group_problem(**changes), method, x0)
    assert {name for name in one if one[name] != other[name]} == {level}


def test_using_a_problem_does_not_change_who_it_is():
    problem, x0, method = sparse_group_problem(), np.zeros(N), tb.PAGMBiO()
    before = identity(problem, method, x0)
    tb.solve(problem, max_iter=10)
    problem.upper.value(np.ones(N))
    assert identity(problem, method, x0) == before
    assert identity(sparse_group_problem(), method, x0) == before


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "method", [tb.PAGMBiO(gamma=0.1), tb.RAPM(eta=1e-3), tb.BiSG()], ids=lambda m: m.name
)
def test_a_run_goes_on_from_its_checkpoint_as_if_it_had_never_stopped(tmp_path, method):
    path = tmp_path / "run.npz"
    problem = sparse_group_problem()
    whole = tb.solve(sparse_group_problem(), method, rtol=0.0, max_iter=100)
    for steps in (35, 100):
        last = tb.solve(problem, method, rtol=0.0, max_iter=steps, checkpoint=path)
        assert last.nit == steps
    np.testing.assert_array_equal(last.x, whole.x)


# --- solve and its report ------------------------------------------------------------------------


def reported(result, x):
    said = replace(result, x=np.asarray(x)).details()
    return [line.removeprefix("  non-zeros  ") for line in said.splitlines() if "non-zeros" in line]


def test_the_report_counts_what_is_not_nearly_zero():
    result = tb.solve(sparse_group_problem(), max_iter=3)
    assert reported(result, [1.0, 0.5, 1e-3, 9.9e-4, 0.0, -2.0]) == [
        "3 of 6 entries exceed 0.001 of the largest, 1 exactly 0",
        "2 of 3 groups exceed 0.001 of the largest, none exactly 0",
    ]
    assert reported(result, np.zeros(N)) == [
        "0 of 6 entries exceed 0.001 of the largest, 6 exactly 0",
        "0 of 3 groups exceed 0.001 of the largest, 3 exactly 0",
    ]


@pytest.mark.parametrize(
    ("levels", "lines"),
    [
        ({"upper": tb.L1()}, ["entries"]),
        ({"upper": tb.GroupL2(LABELS)}, ["groups"]),
        ({"upper": tb.SquaredNorm(), "lower": tb.LeastSquares(A, b) + tb.L1()}, ["entries"]),
        ({"upper": tb.L2()}, []),
        ({"upper": tb.SquaredNorm()}, []),
    ],
)
def test_only_penalties_that_ask_for_zeros_have_them_counted(levels, lines):
    problem = tb.Problem(**({"lower": tb.LeastSquares(A, b)} | levels))
    said = reported(tb.solve(problem, max_iter=3), np.ones(N))
    assert [line.split()[3] for line in said] == lines


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", ["basis-pursuit", "group-pursuit", "lasso-duplicates"])
def test_the_certificate_holds_the_planted_answer(name):
    made = tb.instance(name)
    result = tb.solve(made.problem, "p-agm-bio", x0=made.x0, max_iter=300)
    (low, high), (low_g, high_g) = result.upper_optimum, result.lower_optimum
    room = 1e-12 * max(1.0, abs(made.upper_optimum), abs(made.lower_optimum))
    assert low <= made.upper_optimum + room
    assert made.upper_optimum <= high + room
    assert low_g <= made.lower_optimum + room
    assert made.lower_optimum <= high_g + room


def test_p_agm_bio_finds_the_planted_support_of_a_small_basis_pursuit(count):
    made = tb.instance("basis-pursuit", rows=40, variables=100, nonzeros=5)
    result = tb.solve(made.problem, "p-agm-bio", max_iter=count(1000, 4000), rtol=0.0)
    large = np.abs(result.x) > 0.1 * np.max(np.abs(result.x))
    np.testing.assert_array_equal(large, made.solution != 0.0)


def test_a_gap_that_is_zero_but_for_underflow_does_not_stretch_the_picture():
    """f = |x|_1 has the value 0 at the start, and a bound that is lower by a denormal number."""
    pytest.importorskip("matplotlib")
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, b))
    result = tb.solve(problem, "p-agm-bio", max_iter=20)
    assert 0.0 <= result.trace[0].upper_gap <= 1e-200
    low, high = result.plot().axes[2].get_ylim()
    assert 1e-12 < low < high < 1e12


@pytest.mark.parametrize("domain", [tb.Box(-4.0, 4.0), tb.Ball(4.0), tb.Box(-1e308, 1e308)])
def test_a_bounded_linear_level_whose_least_value_overflows_is_not_called_unbounded(
    domain: tb.Domain,
) -> None:
    tb.Problem(lower=tb.Linear([1e308, 1e308]), upper=tb.SquaredNorm(), domain=domain)


@pytest.mark.parametrize("penalty", [tb.TotalVariation(1.0), tb.LInf(1.0)])
@pytest.mark.parametrize("scale", [0.1, 9.0])
def test_a_linear_level_may_have_a_penalty_without_a_prox(penalty, scale):
    fall = tb.Linear(scale * np.array([1.0, -1.0, 0.0, 0.0]))
    problem = tb.Problem(lower=fall + penalty, upper=tb.SquaredNorm(center=[1.0, 2.0, 3.0, 4.0]))
    result = tb.solve(problem)
    assert result.status == ("solved" if scale < 1.0 else "unbounded")
    if result.success:  # total variation is 0 for all constant vectors, the largest entry only at 0
        mean = 2.5 if isinstance(penalty, tb.TotalVariation) else 0.0
        np.testing.assert_allclose(result.x, mean, atol=1e-9)
