"""Penalties: the prox by its three-point inequality and a conic solver, the minimum in fractions."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import math
from fractions import Fraction

import array_api_strict
import numpy as np
import pytest
from helpers.penalties import clarabel, conic, labels, make_set, plain_value

import tiebreak as tb
from tiebreak import sets as domains
from tiebreak.functions.penalties.penalties import L1, L2, ElasticNet, GroupL2, Indicator, Zero

KINDS = ("Zero", "L1", "L2", "ElasticNet", "GroupL2", "Indicator", "L1 weights", "L1 center", "L2 center")  # fmt: skip
STEPS = (0.0, 1e-3, 0.7, 30.0)


def make(kind, rng, n):
    """A penalty with random weights; one in eight of them is 0."""
    weight = 0.0 if rng.random() < 0.125 else float(rng.exponential())
    match kind:
        case "Zero":
            return Zero()
        case "L1":
            return L1(weight)
        case "L1 weights" | "L1 center":
            weights = rng.exponential(size=n) * (rng.random(n) > 0.125)
            center = rng.normal(size=n) if kind == "L1 center" else None
            return L1(weights if rng.random() < 0.8 else weight, center)
        case "L2":
            return L2(weight)
        case "L2 center":
            weights = weight * (rng.random(n) > 0.25)
            return L2(weights if rng.random() < 0.5 else weight, rng.normal(size=n))
        case "ElasticNet":
            return ElasticNet(weight, 0.0 if rng.random() < 0.125 else float(rng.exponential()))
        case "GroupL2":
            return GroupL2(labels(rng, n), weight)
    return Indicator(make_set(rng.choice(["Box", "Orthant", "Ball", "Simplex", "L1Ball"]), rng, n))


# ------------------------------------------------------------------------------ value and prox


@pytest.mark.parametrize("kind", KINDS)
def test_value_is_the_formula(kind):
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 9))
        penalty, x = make(kind, rng, n), rng.normal(size=n)
        if kind == "Indicator":
            x = penalty.domain.project(x)
        assert penalty.value(x) == pytest.approx(plain_value(penalty, x), rel=1e-14)


def test_an_indicator_is_infinite_outside_its_set():
    assert Indicator(domains.Ball(1.0)).value(np.array([0.0, 1.1])) == math.inf
    assert Indicator(domains.Ball(1.0)).value(np.array([0.0, 1.0])) == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_prox_satisfies_the_three_point_inequality(kind, count):
    rng = np.random.default_rng([1, KINDS.index(kind)])
    for _ in range(count(100, 3000)):
        n = int(rng.choice([1, 2, 7]))
        penalty, x, step = make(kind, rng, n), rng.normal(size=n) * 3, float(rng.choice(STEPS))
        z = penalty.prox(x, step)
        for y in (z + rng.normal(size=n) * size for size in (1e-3, 0.1, 1.0, 10.0)):
            y = penalty.domain.project(y) if kind == "Indicator" else y
            left = step * plain_value(penalty, z) + ((z - x) @ (z - x) + (y - z) @ (y - z)) / 2
            right = step * plain_value(penalty, y) + (y - x) @ (y - x) / 2
            assert left <= right + 1e-13 * (abs(left) + x @ x + y @ y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_prox_agrees_with_a_conic_solver(kind, count):
    import cvxpy as cp

    rng = np.random.default_rng([2, KINDS.index(kind)])
    for _ in range(count(4, 60)):
        n = int(rng.choice([1, 2, 7]))
        penalty, x, step = make(kind, rng, n), rng.normal(size=n) * 3, float(rng.choice(STEPS))
        z = cp.Variable(n)
        value, constraints = conic(penalty, z)
        solved = clarabel(step * value + cp.sum_squares(z - x) / 2, constraints)
        theirs, z.value = z.value, penalty.prox(x, step)
        ours = step * plain_value(penalty, z.value) + np.sum((z.value - x) ** 2) / 2
        assert ours <= solved + 1e-7 * (1.0 + solved)
        # The solver's z has half the digits of its value.
        np.testing.assert_allclose(z.value, theirs, atol=1e-3 * (1.0 + np.linalg.norm(x)))


@pytest.mark.parametrize("kind", ["L1", "L1 weights", "L2", "ElasticNet", "GroupL2"])
def test_prox_is_as_good_for_tiny_and_huge_vectors(kind):
    """prox of size step h at size x = size (prox of step h at x); for a square the step stays."""
    rng = np.random.default_rng(3)
    for exponent in (-500, -300, 300, 500):
        size = 2.0**exponent
        for _ in range(20):
            penalty, x, step = make(kind, rng, 6), rng.normal(size=6) * 3, 0.7
            if kind == "ElasticNet":
                far = ElasticNet(size * penalty.l1, penalty.l2).prox(size * x, step)
            else:
                far = penalty.prox(size * x, size * step)
            np.testing.assert_allclose(far / size, penalty.prox(x, step), rtol=1e-13, atol=1e-300)


def test_prox_of_step_zero_or_weight_zero_is_x_and_of_a_huge_step_zero():
    x = np.array([3.0, -4.0, 0.0])
    for penalty in (L1(2.0), L2(2.0), ElasticNet(1.0, 1.0), GroupL2([0, 1, 1], 2.0)):
        np.testing.assert_array_equal(penalty.prox(x, 0.0), x)
        np.testing.assert_array_equal((0 * penalty).prox(x, 5.0), x)
        np.testing.assert_array_equal(L1(1.0).prox(x, 1e300), np.zeros(3))
        assert np.all(np.isfinite(penalty.prox(np.zeros(3), 1.0)))


# ---------------------------------------------------------------------------------- the minimum


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_least_agrees_with_a_conic_solver(kind, count):
    import cvxpy as cp

    rng = np.random.default_rng([4, KINDS.index(kind)])
    for _ in range(count(5, 60)):
        n = int(rng.choice([1, 2, 7]))
        penalty, slope = make(kind, rng, n), rng.normal(size=n) * float(rng.choice([0.1, 1.0]))
        value, x = penalty.least(slope)
        z = cp.Variable(n)
        part, constraints = conic(penalty, z)
        solved = clarabel(slope @ z + part, constraints)
        if value == -math.inf:
            assert x is None
            assert solved in (-math.inf, None) or solved < -1e3
        else:
            assert value == pytest.approx(solved, abs=1e-7)
            assert slope @ x + penalty.value(x) == pytest.approx(value, rel=1e-12, abs=1e-12)


def exact(x):
    return [Fraction(float(t)) for t in x]


def root(t):
    """The root of a fraction, to forty digits."""
    shift = 10**80 * t.denominator
    return Fraction(math.isqrt(t.numerator * shift), 10**40 * t.denominator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_least_of_a_norm_is_zero_only_if_the_dual_norm_of_the_slope_is_within_the_weight(
    dtype, count
):
    """Slopes on the edge, judged in fractions; a slope clearly inside is always seen as such."""
    rng = np.random.default_rng(5)
    for _ in range(count(150, 5000)):
        n = int(rng.integers(1, 9))
        slope = rng.normal(size=n).astype(dtype) * dtype(10.0 ** rng.uniform(-15, 15))
        near = float(np.linalg.norm(slope.astype(float))) * (1.0 + rng.integers(-3, 4) * 2.0**-52)
        inside = sum(t * t for t in exact(slope)) <= Fraction(near) ** 2
        assert L2(near).least(slope)[0] in ((0.0, -math.inf) if inside else (-math.inf,))
        assert L2(near * (1.0 + 1e-13)).least(slope)[0] == 0.0
        groups = GroupL2(np.arange(n) % 2, near)
        held = all(sum(exact(slope[i::2])[j] ** 2 for j in range(len(slope[i::2]))) <= Fraction(near) ** 2
                   for i in range(min(n, 2)))  # fmt: skip
        assert groups.least(slope)[0] in ((0.0, -math.inf) if held else (-math.inf,))
        assert GroupL2(np.arange(n) % 2, near * (1.0 + 1e-13)).least(slope)[0] == 0.0
        top = float(np.max(np.abs(slope)))
        assert L1(top).least(slope)[0] == 0.0
        assert L1(np.nextafter(top, 0.0)).least(slope) == (-math.inf, None)


def test_least_of_tiny_groups_beside_huge_ones_is_never_too_large():
    groups, slope = [[0], [1, 2]], np.array([0.0, 3e-200, 4e-200])
    assert GroupL2(groups, 4.9e-200).least(slope)[0] == -math.inf
    assert GroupL2(groups, 5.1e-200).least(slope)[0] == 0.0
    assert GroupL2(groups, 1.0).least(np.array([1e150, 0.0, 0.0]))[0] == -math.inf
    assert GroupL2([[1]], 1.0).least(np.array([1e-300, 0.0]))[0] == -math.inf  # 0 is in no group


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_least_of_an_elastic_net_is_just_below_the_exact_minimum(dtype, count):
    rng = np.random.default_rng(6)
    for _ in range(count(150, 5000)):
        n = int(rng.integers(1, 9))
        l1, l2 = (10.0 ** rng.uniform(-12, 12, 2)).tolist()
        slope = (rng.normal(size=n) * l1 * 10.0 ** rng.uniform(-2, 4)).astype(dtype)
        pull = [max(abs(s) - Fraction(l1), Fraction(0)) for s in exact(slope)]
        least = -sum((t * t for t in pull), Fraction(0)) / (2 * Fraction(l2))
        value, x = ElasticNet(l1, l2).least(slope)
        assert Fraction(value) <= least
        assert float(least) - value <= 1e-14 * (n + 9) * abs(float(least)) + 1e-300
        assert x.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_least_of_a_norm_around_a_center_and_a_square_is_just_below_the_exact_minimum(dtype, count):
    """In fractions but for one root: y = x - center has the slope s + square center."""
    rng = np.random.default_rng(12)
    for _ in range(count(150, 5000)):
        n = int(rng.integers(1, 9))
        unit = 2.0 ** int(rng.integers(-200, 200) if dtype is np.float64 else rng.integers(-20, 20))
        weight, square = (10.0 ** rng.uniform(-6, 6, 2)).tolist()
        weight, center = weight * unit, rng.normal(size=n) * 10.0 ** rng.uniform(-6, 6)
        slope = (rng.normal(size=n) * weight * 10.0 ** rng.uniform(-2, 4)).astype(dtype)
        square *= unit
        value, x = (L2(weight, center) + ElasticNet(0.0, square)).least(slope)
        s, c, q = exact(slope), exact(center), Fraction(square)
        turned = [a + q * b for a, b in zip(s, c, strict=True)]
        length = root(sum(t * t for t in turned))
        left = max(length - Fraction(weight), Fraction(0))
        at_center = sum(a * b for a, b in zip(s, c, strict=True)) + q / 2 * sum(b * b for b in c)
        least = at_center - left * left / (2 * q)
        size = sum(abs(a * b) for a, b in zip(s, c, strict=True)) + q / 2 * sum(b * b for b in c)
        size += left * left / (2 * q)
        assert Fraction(value) <= least + size * Fraction(1, 10**30)
        # An error of the slope s + square center counts |y| times: that is what size has twice.
        reach = left / q * (root(sum(a * a for a in s)) + q * root(sum(b * b for b in c)))
        assert float(least - Fraction(value)) <= 1e-14 * (n + 9) * float(size + reach)
        assert x.dtype == dtype


def test_least_of_an_elastic_net_without_square_is_that_of_the_norm():
    slope = np.array([0.5, -1.0])
    assert ElasticNet(1.0, 0.0).least(slope)[0] == 0.0
    assert ElasticNet(0.9, 0.0).least(slope) == (-math.inf, None)


def test_least_of_an_indicator_is_minus_the_support():
    box = domains.Box([-1.0, 0.0], [2.0, 5.0])
    value, x = Indicator(box).least(np.array([3.0, -1.0]))
    assert value == -8.0
    np.testing.assert_array_equal(x, [-1.0, 5.0])
    assert Indicator(domains.Orthant()).least(np.array([-1.0])) == (-math.inf, None)
    assert Zero().least(np.zeros(2))[0] == 0.0
    assert Zero().least(np.array([0.0, 1e-300])) == (-math.inf, None)


# ------------------------------------------------------------------------------ the small things


def test_a_number_times_a_penalty_scales_its_weights():
    x = np.array([1.0, -2.0, 2.0])
    for penalty in (L1(0.5), L2(0.5), ElasticNet(0.5, 2.0), GroupL2([0, 0, 1], 0.5), Zero()):
        for factor in (2, 0.25, np.float64(3.0), 0):
            assert type(factor * penalty) is type(penalty)
            assert (factor * penalty).value(x) == pytest.approx(factor * penalty.value(x))
            assert (penalty * factor).value(x) == (factor * penalty).value(x)
    ball = Indicator(domains.Ball(1.0))
    assert (0 * ball).value(x) == math.inf
    with pytest.raises(
        ValueError, match=r"^L1: its factor must be a non-negative finite number, got -1$"
    ):
        _ = -1 * L1(1.0)
    with pytest.raises(TypeError):
        _ = "2" * L1(1.0)


def test_least_with_a_center_is_just_below_the_exact_minimum(count):
    """In fractions: entry by entry the minimum is at a bound, at the center, or where the slope is 0."""
    rng = np.random.default_rng(12)
    for _ in range(count(50, 2000)):
        n, scale = int(rng.integers(1, 5)), 10.0 ** rng.uniform(-3, 3)
        w, c, s = rng.exponential(size=n), scale * rng.normal(size=n), rng.normal(size=n)
        w[rng.random(n) < 0.2] = 0.0
        square = 0.0 if rng.random() < 0.5 else float(rng.exponential())
        low, high = np.sort(scale * rng.normal(size=(2, n)), axis=0)
        penalty = L1(w, c) + ElasticNet(0.0, square) + Indicator(domains.Box(low, high))
        if not (w.any() or square):
            continue  # the support of a box, which is right to rounding, and no more is said of it
        value, x = penalty.least(s)
        least = Fraction(0)
        for j in range(n):
            W, C, S, q, a, b = (
                Fraction(float(t)) for t in (w[j], c[j], s[j], square, low[j], high[j])
            )
            points = [a, b, C] + ([(-S - W) / q, (-S + W) / q] if q else [])
            least += min(S * p + W * abs(p - C) + q * p * p / 2 for p in points if a <= p <= b)
        assert Fraction(value) <= least
        assert float(least) == pytest.approx(value, rel=1e-11, abs=1e-11 * scale)
        assert np.all((low <= x) & (x <= high))


def test_equal_weights_are_one_weight_and_a_center_of_zero_is_none(count):
    rng = np.random.default_rng(13)
    for _ in range(count(20, 500)):
        x, w = rng.normal(size=5), float(rng.exponential())
        for other in (L1(np.full(5, w)), L1(w, np.zeros(5)), L1(np.full(5, w), np.zeros(5))):
            np.testing.assert_array_equal(other.prox(x, 0.3), L1(w).prox(x, 0.3))
            assert other.value(x) == pytest.approx(L1(w).value(x), rel=1e-15)
            assert other.terms.extent(5, 2.0) == L1(w).terms.extent(5, 2.0)
    assert L1([1.0, 0.0]).terms.extent(2, 1.0) == math.inf  # a weight of 0 bounds nothing
    assert L1([1.0, 2.0]) == L1([1.0, 2.0]) != L1([1.0, 3.0])


def test_bounds_on_slopes_and_extents_hold_for_weights_and_centers(count):
    rng = np.random.default_rng(14)
    for _ in range(count(100, 2000)):
        n = int(rng.integers(1, 6))
        penalty = make("L1 center", rng, n)
        x, y = rng.normal(size=(2, n)) * 3
        rise = abs(plain_value(penalty, x) - plain_value(penalty, y))
        assert rise <= penalty.terms.steepness(n, 10.0) * np.linalg.norm(x - y) * (1 + 1e-12)
        assert np.linalg.norm(x) <= penalty.terms.extent(n, plain_value(penalty, x))


def test_strong_convexity_is_that_of_the_square():
    assert ElasticNet(1.0, 3.0).strong_convexity == 3.0
    assert L1(1.0).strong_convexity == L2(1.0).strong_convexity == Zero().strong_convexity == 0.0


def test_groups_as_labels_and_as_lists_are_the_same_penalty():
    rng = np.random.default_rng(7)
    x = rng.normal(size=7)
    label = np.array([3, -1, 8, 3, 8, -1, 8])
    penalty = GroupL2(label, 0.7)
    same = [
        GroupL2(label.tolist(), 0.7),
        GroupL2([[0, 3], [2, 4, 6]], 0.7),
        GroupL2((np.array([6, 2, 4]), range(0, 4, 3)), 0.7),
        GroupL2(array_api_strict.asarray(label), 0.7),
    ]
    for other in same:
        other.check(7)
        assert other.groups.same_as(penalty.groups)
        assert other.value(x) == pytest.approx(penalty.value(x), rel=1e-15)
        np.testing.assert_allclose(other.prox(x, 0.5), penalty.prox(x, 0.5), rtol=1e-15)
    assert not penalty.groups.same_as(GroupL2([0, -1, 1, 0, 1, -1, 0]).groups)
    np.testing.assert_array_equal(penalty.prox(x, 9.0)[[1, 5]], x[[1, 5]])  # not penalised
    np.testing.assert_array_equal(GroupL2([-1, -1]).prox(x[:2], 9.0), x[:2])
    assert GroupL2(np.zeros(7, int)).value(x) == pytest.approx(L2().value(x), rel=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["numpy", "strict"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_and_dtype_are_kept_and_inputs_left_alone(kind, library, dtype):
    xp = np if library == "numpy" else array_api_strict
    rng = np.random.default_rng(8)
    for _ in range(20):
        penalty, host = make(kind, rng, 6), rng.normal(size=6).astype(dtype)
        x = xp.asarray(host, copy=True)
        z = penalty.prox(x, 0.5)
        value, minimiser = penalty.least(x)
        for result in [z] if minimiser is None else [z, minimiser]:
            assert type(result) is type(x)
            assert result.dtype == x.dtype
        assert isinstance(value, float)
        assert isinstance(penalty.value(x), float)
        assert np.array_equal(np.asarray(x), host)
        tolerance = 1e-5 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(
            np.asarray(z), penalty.prox(host.astype(float), 0.5), atol=tolerance
        )


NEEDED = "GroupL2: groups must be a vector with the group of each variable (-1: none) or a list of lists of variables, got "


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: L1(-1.0), ValueError, "L1: weight must be a non-negative finite number, got -1.0"),
        (lambda: L1(math.inf), ValueError, "L1: weight must be a non-negative finite number, got inf"),
        (lambda: L1("1"), TypeError, "L1: weight must be a non-negative finite number, got str"),
        (lambda: L1([1.0, -1.0]), ValueError, "L1: weight must be non-negative, got -1 at index 1"),
        (lambda: L1([1.0, 2.0], [1.0]), ValueError, "L1: weight must have one entry per variable (1), got 2"),
        (lambda: L1([1.0, 2.0]).check(3), ValueError, "L1: weight must have one entry per variable (3), got 2"),
        (lambda: L1(1.0, [1.0]).check(3), ValueError, "L1: center must have one entry per variable (3), got 1"),
        (lambda: L2(math.nan), ValueError, "L2: weight must be a non-negative finite number, got nan"),
        (lambda: L2("1"), TypeError, "L2: weight must be a non-negative finite number, got str"),
        (lambda: ElasticNet(-1, 1), ValueError, "ElasticNet: l1 must be a non-negative finite number, got -1"),
        (lambda: ElasticNet(1, True), TypeError, "ElasticNet: l2 must be a non-negative finite number, got bool"),
        (lambda: GroupL2([0, 1], -2), ValueError, "GroupL2: weight must be a non-negative finite number, got -2"),
        (lambda: GroupL2("ab"), TypeError, NEEDED + "str"),
        (lambda: GroupL2(None), TypeError, NEEDED + "NoneType"),
        (lambda: GroupL2([]), ValueError, NEEDED + "an empty list"),
        (lambda: GroupL2(np.zeros((2, 2), int)), ValueError, NEEDED + "an array of shape (2, 2)"),
        (lambda: GroupL2(np.zeros(2)), TypeError, NEEDED + "entries of type float64"),
        (lambda: GroupL2([0, -2]), ValueError, "GroupL2: groups must be whole numbers >= -1, got -2"),
        (lambda: GroupL2(["ab"]), TypeError, NEEDED + "a list with str"),
        (lambda: GroupL2([[0], []]), ValueError, "GroupL2: groups must not be empty, got group 1 without variables"),
        (lambda: GroupL2([[0, 1], [1]]), ValueError, "GroupL2: groups must be disjoint, got variable 1 twice"),
        (lambda: GroupL2([[0, 0]]), ValueError, "GroupL2: groups must be disjoint, got variable 0 twice"),
        (lambda: GroupL2([[-1]]), ValueError, "GroupL2: a variable in groups must be a whole number >= 0, got -1"),
        (lambda: GroupL2([[0.5]]), TypeError, "GroupL2: a variable in groups must be a whole number >= 0, got float"),
        (lambda: GroupL2([0, 1]).check(3), ValueError, "GroupL2: groups must have one entry per variable (3), got 2"),
        (lambda: GroupL2([[0, 5]]).check(4), ValueError, "GroupL2: groups must hold variables below 4, got 5"),
        (lambda: GroupL2([0, [1]]), TypeError, NEEDED + "a list with int"),
        (lambda: GroupL2([[0], [2**63 - 1]]), ValueError, "GroupL2: groups must hold variables of a vector that fits in memory, got 9223372036854775807"),
        (lambda: L1([1.0, 2.0]) + L1([1.0, 2.0, 3.0]), ValueError, "PenaltySum: both penalties must have the same number of variables, got 2 and 3"),
        (lambda: L1([1.0, 2.0]) + (ElasticNet(1, 1) + tb.L1(operator=np.ones((1, 3)))), ValueError, "PenaltySum: both penalties must have the same number of variables, got 2 and 3"),
        (lambda: Indicator(1.0), TypeError, "Indicator: domain must be a domain such as Box(0, 1), got float"),
        (lambda: Indicator(domains.Orthant), TypeError, "Indicator: domain must be a domain such as Box(0, 1), got the class Orthant"),
        (lambda: Indicator(domains.Ball(1.0, [0.0])).check(2), ValueError, "Ball: center must have one entry per variable (2), got 1"),
    ],
)  # fmt: skip
def test_wrong_parameters_get_one_clear_sentence(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == sentence


def test_an_l2_norm_of_some_variables():
    """A weight of 0 leaves a variable out, as if it were in no group."""
    rng = np.random.default_rng(0)
    some, group = tb.L2([2.0, 0.0, 2.0, 2.0]), tb.GroupL2([0, -1, 0, 0], 2.0)
    for x in rng.normal(size=(20, 4)):
        assert some.value(x) == pytest.approx(2.0 * np.linalg.norm(x[[0, 2, 3]]))
        np.testing.assert_allclose(some.prox(x, 0.3), group.prox(x, 0.3), rtol=1e-15)
        assert (0.5 * some).value(x) == pytest.approx(0.5 * some.value(x))
    x = rng.normal(size=4)
    np.testing.assert_array_equal(tb.L2(np.full(4, 3.0)).prox(x, 0.1), tb.L2(3.0).prox(x, 0.1))
    np.testing.assert_array_equal(tb.L2(np.zeros(4)).prox(x, 0.1), x)
    np.testing.assert_allclose(
        tb.L2(some.weight, x).prox(2.0 * x, 0.3) - x, group.prox(x, 0.3), atol=1e-15
    )
    with pytest.raises(ValueError, match="nonzero entries are equal, got 1 and 2"):
        tb.L2([1.0, 2.0])
    with pytest.raises(ValueError, match="weight"):
        tb.Problem(upper=tb.LeastSquares(np.eye(3), np.ones(3)) + some, lower=tb.SquaredNorm())
