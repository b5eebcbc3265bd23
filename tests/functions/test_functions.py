"""Contract tests over every kind of smooth function."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import array_api_strict as xps
import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.functions.base import PointWithImage
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.sums import Scaled, Sum
from tiebreak.linalg import arrays
from tiebreak.linalg.sizes import SMALL_SIDE

N = 5
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Case:
    """``make(array)``: the function, its data passed through ``array`` (library and dtype)."""

    make: Callable[[Callable[[Any], Any]], Any]
    exact: Callable[[Any, Any], Any] | None = None  # (numbers, x) -> value in the numbers' type
    dense: bool = True  # can it be of another library?
    tight: bool = False  # is lipschitz the smallest possible, up to rounding?
    slope: Callable[[Any, Any], Any] | None = None  # (numbers, x) -> gradient, unless quadratic


def data(m: int = 7, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, n)), rng.standard_normal(m)


A, B = data()
WIDE, WIDE_B = data(3, N, 1)
Y = np.where(B > 0, 1.0, -1.0)
Q = A.T @ A
Q = (Q + Q.T) / 2
C = np.arange(1.0, N + 1) / 3
W = np.array([0.0, 3.0, 1 / 3, 0.0, 100.0])
LABELS = [0, 1, 2, 3, 4, 1, 2]  # N classes of one variable each


def _smooth(array: Callable[[Any], Any]) -> Any:
    center = array(C)
    return tb.Smooth(
        lambda x: float((x - center) @ (x - center)),
        lambda x: 2.0 * (x - center),
        lipschitz=2.0,
        strong_convexity=2.0,
        lower_bound=0.0,
    )


def squares(matrix: Any, b: Any, scale: Any = 1) -> Callable[[Any, Any], Any]:
    def value(number: Any, x: Any) -> Any:
        total = number(0)
        for row, t in zip(matrix, b, strict=True):
            r = sum((number(s) * p for s, p in zip(row, x, strict=True)), number(0)) - number(t)
            total += r * r / 2
        return total / scale

    return value


def huber(matrix: Any, b: Any, delta: float, scale: int = 1) -> tuple[Any, Any]:
    """Value and gradient of Huber's loss."""

    def rows(number: Any, x: Any) -> Any:
        most = number(delta)
        for row, t in zip(matrix, b, strict=True):
            a = [number(float(s)) for s in row]
            r = sum((s * p for s, p in zip(a, x, strict=True)), number(0)) - number(float(t))
            yield a, r, max(-most, min(most, r))

    def value(number: Any, x: Any) -> Any:
        # r²/2 where |r| <= delta, delta |r| - delta²/2 beyond
        each = (
            r * r / 2 if abs(r) <= number(delta) else number(delta) * (abs(r) - number(delta) / 2)
            for _, r, _ in rows(number, x)
        )
        return sum(each, number(0)) / scale

    def slope(number: Any, x: Any) -> Any:
        parts = [[psi * s for s in a] for a, _, psi in rows(number, x)]
        return [sum(column, number(0)) / scale for column in zip(*parts, strict=True)]

    return value, slope


def squared_hinge(matrix: Any, labels: Any, scale: int = 1) -> tuple[Any, Any]:
    """Value and gradient of the squared hinge loss."""

    def rows(number: Any, x: Any) -> Any:
        for row, label in zip(matrix, labels, strict=True):
            a = [number(float(s * label)) for s in row]
            t = sum((s * p for s, p in zip(a, x, strict=True)), number(0))
            yield a, max(number(1) - t, number(0))

    def value(number: Any, x: Any) -> Any:
        return sum((r * r / 2 for _, r in rows(number, x)), number(0)) / scale

    def slope(number: Any, x: Any) -> Any:
        parts = [[-r * s for s in a] for a, r in rows(number, x)]
        return [sum(column, number(0)) / scale for column in zip(*parts, strict=True)]

    return value, slope


def huber_case(make: Any, exact: tuple[Any, Any], **options: Any) -> Case:
    return Case(make, exact[0], slope=exact[1], **options)


def _quadratic(number: Any, x: Any) -> Any:
    inner = sum(
        (
            p * number(q) * s
            for p, row in zip(x, Q, strict=True)
            for q, s in zip(row, x, strict=True)
        ),
        number(0),
    )
    return inner / 2 + sum((number(c) * p for c, p in zip(C, x, strict=True)), number(0)) + 3


def _norm(number: Any, x: Any) -> Any:
    return sum(((p - number(c)) ** 2 for p, c in zip(x, C, strict=True)), number(0))


def _weighted_norm(number: Any, x: Any) -> Any:
    terms = (number(w) * (p - number(c)) ** 2 for p, c, w in zip(x, C, W, strict=True))
    return sum(terms, number(0)) / 2


WEIGHTS, COUNTS = [1.0, 0.5, 0, 3, 2, 1, 4], [0.0, 1, 2, 5, 0, 1.5, 3]

CASES: dict[str, Case] = {
    "LeastSquares": Case(lambda a: tb.LeastSquares(a(A), a(B)), squares(A, B), tight=True),
    "LeastSquares wide": Case(
        lambda a: tb.LeastSquares(a(WIDE), a(WIDE_B)), squares(WIDE, WIDE_B), tight=True
    ),
    "LeastSquares mean": Case(
        lambda a: tb.LeastSquares(a(A), a(B), mean=True), squares(A, B, 7), tight=True
    ),
    "LeastSquares gram": Case(
        lambda a: tb.LeastSquares(a(A), a(B), gram=True), squares(A, B), tight=True
    ),
    "LeastSquares gram mean": Case(
        lambda a: tb.LeastSquares(a(A), a(B), mean=True, gram=True), squares(A, B, 7), tight=True
    ),
    "LeastSquares no gram": Case(
        lambda a: tb.LeastSquares(a(A), a(B), gram=False), squares(A, B), tight=True
    ),
    "LeastSquares csr": Case(
        lambda a: tb.LeastSquares(sp.csr_array(a(A)), a(B)), squares(A, B), dense=False, tight=True
    ),
    "LeastSquares csc gram": Case(
        lambda a: tb.LeastSquares(sp.csc_matrix(a(A)), a(B), gram=True),
        squares(A, B),
        dense=False,
        tight=True,
    ),
    "LeastSquares one row": Case(
        lambda a: tb.LeastSquares(a(A[:1]), a(B[:1])), squares(A[:1], B[:1]), tight=True
    ),
    "LeastSquares no rows": Case(lambda a: tb.LeastSquares(a(A[:0]), a(B[:0])), squares([], [])),
    "LeastSquares zero matrix": Case(
        lambda a: tb.LeastSquares(a(0 * A), a(B)), squares(0 * A, B), tight=True
    ),
    "Logistic": Case(lambda a: tb.Logistic(a(A), a(Y))),
    "Logistic sum": Case(lambda a: tb.Logistic(a(A), a(Y), mean=False)),
    "Logistic coo": Case(lambda a: tb.Logistic(sp.coo_array(a(A)), a(Y)), dense=False),
    "Logistic no rows": Case(lambda a: tb.Logistic(a(A[:0]), a(Y[:0]))),
    "Huber": huber_case(lambda a: tb.Huber(a(A), a(B)), huber(A, B, 1.35)),
    "Huber mean": huber_case(lambda a: tb.Huber(a(A), a(B), 0.3, mean=True), huber(A, B, 0.3, 7)),
    "Huber wide": huber_case(lambda a: tb.Huber(a(WIDE), a(WIDE_B)), huber(WIDE, WIDE_B, 1.35)),
    "Huber csr": huber_case(
        lambda a: tb.Huber(sp.csr_array(a(A)), a(B)), huber(A, B, 1.35), dense=False
    ),
    "Huber without outliers": huber_case(
        lambda a: tb.Huber(a(A), a(B), 1e9), huber(A, B, 1e9), tight=True
    ),
    "Huber all outliers": huber_case(lambda a: tb.Huber(a(A), a(B), 1e-9), huber(A, B, 1e-9)),
    "Huber no rows": Case(lambda a: tb.Huber(a(A[:0]), a(B[:0])), lambda number, x: number(0)),
    "SquaredHinge": huber_case(lambda a: tb.SquaredHinge(a(A), a(Y)), squared_hinge(A, Y, 7)),
    "SquaredHinge sum": huber_case(
        lambda a: tb.SquaredHinge(a(A), a(Y), mean=False), squared_hinge(A, Y)
    ),
    "SquaredHinge csr": huber_case(
        lambda a: tb.SquaredHinge(sp.csr_array(a(A)), a(Y)), squared_hinge(A, Y, 7), dense=False
    ),
    "SquaredHinge no rows": Case(lambda a: tb.SquaredHinge(a(A[:0]), a(Y[:0]))),
    "Multinomial": Case(lambda a: tb.Multinomial(a(A[:, :1]), LABELS)),
    "Multinomial sum": Case(lambda a: tb.Multinomial(a(A[:, :1]), LABELS, mean=False)),
    "Multinomial csr": Case(
        lambda a: tb.Multinomial(sp.csr_array(a(A[:, :1])), LABELS), dense=False
    ),
    "Multinomial no rows": Case(lambda a: tb.Multinomial(a(A[:0, :1]), [], classes=N)),
    "Logistic weights": Case(lambda a: tb.Logistic(a(A), a(Y), weights=a(WEIGHTS))),
    "Poisson": Case(lambda a: tb.Poisson(a(A / 64), a(COUNTS))),
    "Poisson weights": Case(
        lambda a: tb.Poisson(a(A / 64), a(COUNTS), mean=False, weights=a(WEIGHTS))
    ),
    "Poisson sparse": Case(lambda a: tb.Poisson(sp.csr_array(a(A / 64)), a(COUNTS)), dense=False),
    "Poisson no rows": Case(lambda a: tb.Poisson(a(A[:0]), a(B[:0]))),
    "Poisson sum": Case(lambda a: 2 * tb.Poisson(a(A / 64), a(COUNTS)) + tb.Linear(a(C))),
    "Quadratic": Case(lambda a: tb.Quadratic(a(Q), a(C), 3.0), _quadratic, tight=True),
    "Quadratic without c": Case(lambda a: tb.Quadratic(a(Q)), tight=True),
    "Quadratic sparse": Case(
        lambda a: tb.Quadratic(sp.csr_array(a(Q)), a(C), 3.0), _quadratic, dense=False, tight=True
    ),
    "SquaredNorm": Case(lambda a: tb.SquaredNorm(), tight=True),
    "SquaredNorm centre": Case(lambda a: tb.SquaredNorm(2.0, a(C)), _norm, tight=True),
    "SquaredNorm weights": Case(lambda a: tb.SquaredNorm(a(W), a(C)), _weighted_norm, tight=True),
    "SquaredNorm weights alone": Case(lambda a: tb.SquaredNorm(a(1.0 + W)), tight=True),
    "Linear": Case(
        lambda a: tb.Linear(a(C)),
        lambda number, x: sum((number(c) * p for c, p in zip(C, x, strict=True)), number(0)),
        tight=True,
    ),
    "Smooth": Case(_smooth, _norm, tight=True),
    "Scaled": Case(lambda a: 3 * tb.LeastSquares(a(A), a(B)), tight=True),
    "Scaled gram": Case(lambda a: 0.5 * tb.LeastSquares(a(A), a(B), gram=True), tight=True),
    "Sum": Case(lambda a: tb.LeastSquares(a(A), a(B)) + tb.SquaredNorm(0.5)),
    "Sum of three": Case(
        lambda a: (
            tb.Logistic(a(A), a(Y))
            + (2.0 * tb.LeastSquares(a(WIDE), a(WIDE_B)) + 0.1 * (tb.Linear(a(C)) + _smooth(a)))
        )
    ),
    "Sum with gram": Case(
        lambda a: tb.LeastSquares(a(A), a(B), gram=True) + tb.Quadratic(a(Q), a(C), 3.0)
    ),
}
every = pytest.mark.parametrize("name", CASES)


def numpy64(value: Any) -> Any:
    return np.asarray(value, dtype=np.float64)


def made(name: str) -> Any:
    return CASES[name].make(numpy64)


def points(count: int = 20, seed: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [np.zeros(N), *(10 ** rng.uniform(-3, 2) * rng.standard_normal(N) for _ in range(count))]


# --- values and gradients ------------------------------------------------------------------------


@every
def test_gradient_agrees_with_central_differences(name):
    h = made(name)
    for x in points():
        step = 1e-6 * max(1.0, float(np.linalg.norm(x)))
        slope = h.gradient(x)
        assert slope.shape == x.shape
        for i in range(N):
            e = np.zeros(N)
            e[i] = step
            difference = (h.value(x + e) - h.value(x - e)) / (2 * step)
            scale = 1 + abs(h.value(x)) / step * 1e-9 + np.linalg.norm(slope)
            assert abs(difference - slope[i]) <= 1e-6 * scale


@every
def test_look_at_lifted_points_agrees_with_value_and_gradient(name):
    h = made(name)
    xs = points(6)
    lifted = [PointWithImage(x, image) for x, image in zip(xs, h.forward(*xs), strict=True)]
    seen, values = h.evaluate(lifted[:4], lifted[2:])
    assert (len(seen), len(values)) == (4, len(xs) - 2)
    for s, x in zip(seen, xs, strict=False):
        assert s.at is x
        assert s.value == pytest.approx(h.value(x), rel=1e-11, abs=1e-11)
        np.testing.assert_allclose(s.slope, h.gradient(x), rtol=1e-10, atol=1e-10)
    for v, x in zip(values, xs[2:], strict=True):
        assert v == pytest.approx(h.value(x), rel=1e-11, abs=1e-11)
    assert h.evaluate([], []) == ([], [])


@every
def test_look_at_mixed_images_agrees_with_the_mixed_point(name):
    h = made(name)
    rng = np.random.default_rng(4)
    x = rng.standard_normal(N)
    image = h.forward(x)[0]
    for _ in range(100):
        z = rng.standard_normal(N)
        weight = rng.random()
        x, image = arrays.mix(x, z, weight), arrays.mix(image, h.forward(z)[0], weight)
    (seen,), (value,) = h.evaluate([PointWithImage(x, image)], [PointWithImage(x, image)])
    assert seen.value == pytest.approx(h.value(x), rel=1e-12, abs=1e-12)
    assert value == pytest.approx(h.value(x), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(seen.slope, h.gradient(x), rtol=1e-11, atol=1e-11)


@pytest.mark.sample(2)
@every
def test_function_is_convex_above_each_of_its_minorants(name):
    h = made(name)
    sigma, xs = h.strong_convexity, points()
    for x in xs:
        slope, at = h.gradient(x), h.value(x)
        for y in xs:
            below = at + slope @ (y - x) + sigma / 2 * ((y - x) @ (y - x))
            assert h.value(y) >= below - 1e-9 * (1 + abs(at) + abs(below))


@every
def test_asking_never_modifies_the_point_and_two_slopes_never_share_memory(name):
    h = made(name)
    x, z = np.linspace(-1, 1, N), np.linspace(2, 3, N)
    before = x.copy()
    first = h.gradient(x)
    kept = first.copy()
    h.value(x)
    h.evaluate([PointWithImage(p, i) for p, i in zip((x, z), h.forward(x, z), strict=True)])
    h.gradient(z)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(first, kept)


def test_a_gradient_callable_that_reuses_its_buffer_is_safe():
    buffer = np.zeros(2)

    def gradient(x):
        buffer[:] = x
        return buffer

    h = tb.Smooth(lambda x: float(x @ x) / 2, gradient, lipschitz=1.0)
    x, z = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    seen, _ = h.evaluate([PointWithImage(x, None), PointWithImage(z, None)])
    assert seen[0].slope.tolist() == [1.0, 2.0]
    assert seen[1].slope.tolist() == [3.0, 4.0]


def test_building_and_asking_never_modifies_the_data():
    for kind in (np.asarray, sp.csr_array, sp.csc_array, sp.coo_array):
        matrix, b, y = kind(A.copy()), B.copy(), Y.copy()
        for h in (tb.LeastSquares(matrix, b, mean=True), tb.Logistic(matrix, y)):
            _ = (h.lipschitz, h.strong_convexity, h.growth, h.rounding(1.0, 1.0, 1.0, EPS, 3))
            h.gradient(np.ones(N))
        dense = matrix.toarray() if sp.issparse(matrix) else matrix
        np.testing.assert_array_equal(dense, A)
        np.testing.assert_array_equal(b, B)
        np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize(
    "convert", [list, tuple, np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.coo_matrix]
)
def test_whole_numbers_lists_and_every_sparse_format_give_the_same_function(convert):
    matrix, b = [[1, 2], [3, -4], [0, 5]], [1, 0, -1]
    reference = tb.LeastSquares(np.array(matrix, float), np.array(b, float))
    h = tb.LeastSquares(convert(matrix), b)
    x = np.array([0.3, -0.7])
    assert h.value(x) == pytest.approx(reference.value(x), rel=1e-15)
    np.testing.assert_allclose(h.gradient(x), reference.gradient(x), rtol=1e-14)
    assert h.gradient(x).dtype == np.float64
    assert h.lipschitz == pytest.approx(reference.lipschitz, rel=1e-13)


# --- libraries and dtypes ------------------------------------------------------------------------


# A product of a few finite float32 numbers has raised the flag of a NaN once, with a finite result
# (perhaps OpenBLAS reads beyond short rows): the values are compared below, the flag is not.
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")
@every
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_library_and_dtype_are_kept(name, library, dtype):
    case = CASES[name]
    if library != "numpy" and not case.dense:
        pytest.skip("scipy.sparse works with NumPy vectors")
    xp = np if library == "numpy" else xps
    kind = getattr(xp, dtype)
    h = case.make(lambda value: xp.asarray(np.asarray(value).tolist(), dtype=kind) if np.size(value) else xp.zeros(np.shape(value), dtype=kind))  # fmt: skip  # noqa: E501
    x, z = xp.asarray([0.5, -1.0, 2.0, 0.25, 0.0], dtype=kind), xp.ones(N, dtype=kind)
    images = h.forward(x, z)
    mixed = arrays.mix(PointWithImage(x, images[0]), PointWithImage(z, images[1]), 0.25)
    (seen,), (value,) = h.evaluate([mixed], [PointWithImage(x, images[0])])
    for slope in (h.gradient(x), seen.slope):
        assert type(slope) is type(x)
        assert slope.dtype == kind
    for number in (h.value(x), value, seen.value, h.lipschitz, h.strong_convexity, h.lower_bound):
        assert type(number) is float
    exact = made(name)
    host = np.asarray([0.5, -1.0, 2.0, 0.25, 0.0])
    assert value == pytest.approx(exact.value(host), rel=2e-5 if dtype == "float32" else 1e-12)
    assert h.lipschitz >= exact.lipschitz * (1 - (1e-5 if dtype == "float32" else 1e-14))


def test_a_callable_of_another_dtype_or_a_list_does_not_change_the_dtype_of_the_slope():
    x = np.ones(2, np.float32)
    double = tb.Smooth(lambda x: 1.0, lambda x: x.astype(np.float64), lipschitz=1.0)
    assert double.gradient(x).dtype == np.float32


def test_a_sum_of_two_libraries_is_refused_and_one_of_two_dtypes_is_in_double():
    single = tb.LeastSquares(A.astype(np.float32), B.astype(np.float32))
    assert (tb.Linear(C) + single).prototype.dtype == np.float64
    strict = tb.LeastSquares(xps.asarray(A.tolist()), xps.asarray(B.tolist()))
    with pytest.raises(ValueError, match="same library and dtype"):
        _ = tb.Linear(C) + strict


# --- constants -----------------------------------------------------------------------------------


def pairs(h: Any, n: int, rng: np.random.Generator, count: int = 50):
    for _ in range(count):
        x = 10 ** rng.uniform(-2, 2) * rng.standard_normal(n)
        z = x + 10 ** rng.uniform(-2, 2) * rng.standard_normal(n)
        yield x, z, h.gradient(x) - h.gradient(z)


@every
def test_lipschitz_bounds_the_change_of_the_gradient_and_is_tight_where_exact(name):
    h, rng = made(name), np.random.default_rng(5)
    largest = 0.0
    for x, z, change in pairs(h, N, rng):
        ratio = np.linalg.norm(change) / np.linalg.norm(x - z)
        assert ratio <= h.lipschitz * (1 + 1e-9) + 1e-12
        largest = max(largest, ratio)
    if CASES[name].tight:  # power iteration on the differences of gradients
        d = rng.standard_normal(N)
        for _ in range(400):
            change = h.gradient(d) - h.gradient(0 * d)
            size = np.linalg.norm(change)
            if size == 0.0:
                break
            d = change / size
        largest = max(largest, np.linalg.norm(h.gradient(d) - h.gradient(0 * d)))
        assert h.lipschitz <= largest * (1 + 1e-8) + 1e-15


@every
def test_strong_convexity_and_lower_bound_are_true_bounds(name):
    h, rng = made(name), np.random.default_rng(6)
    assert 0.0 <= h.strong_convexity <= h.lipschitz
    for x, z, change in pairs(h, N, rng):
        gap = (x - z) @ (x - z)
        assert change @ (x - z) >= h.strong_convexity * gap * (1 - 1e-9)
        assert h.value(x) >= h.lower_bound - 1e-12 * abs(h.lower_bound)


def test_strong_convexity_of_a_well_conditioned_matrix_is_not_given_away():
    smallest = np.linalg.eigvalsh(Q)[0]
    for h in (tb.LeastSquares(A, B), tb.Quadratic(Q)):
        assert 0.99 * smallest <= h.strong_convexity <= smallest
    assert tb.LeastSquares(A, B, mean=True).strong_convexity <= smallest / 7
    assert (2 * tb.SquaredNorm(3.0) + tb.LeastSquares(A, B)).strong_convexity >= 6 + 0.99 * smallest


SHAPES = {
    "small tall": (40, 7),
    "small wide": (7, 40),
    "at the limit": (SMALL_SIDE + 9, SMALL_SIDE),
    "above the limit, tall": (SMALL_SIDE + 60, SMALL_SIDE + 20),
    "above the limit, wide": (SMALL_SIDE + 20, SMALL_SIDE + 60),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32"])
def test_lipschitz_is_at_least_the_largest_eigenvalue_and_a_few_percent_above_at_most(shape, kind):
    rng = np.random.default_rng(7)
    matrix = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3, shape[1])
    if kind == "sparse":
        matrix = matrix * (rng.random(shape) < 0.1)
    if kind == "float32":
        matrix = matrix.astype(np.float32)
    top = float(np.linalg.norm(matrix.astype(np.float64), 2)) ** 2
    given = sp.csr_array(matrix) if kind == "sparse" else matrix
    h = tb.LeastSquares(given, np.ones(shape[0], matrix.dtype))
    single = 2e-5 if kind == "float32" else 1e-12
    most = single if min(shape) <= SMALL_SIDE else 0.03
    assert top * (1 - 1e-14) <= h.lipschitz <= top * (1 + most)
    y = np.ones(shape[0], matrix.dtype)
    assert tb.Logistic(given, y).lipschitz == pytest.approx(h.lipschitz / shape[0] / 4)
    mean = tb.LeastSquares(given, y, mean=True)
    assert mean.lipschitz == pytest.approx(h.lipschitz / shape[0])


def test_lipschitz_of_a_large_quadratic_is_a_close_upper_bound():
    n = 2500
    h = tb.Quadratic(sp.diags_array(np.linspace(0.0, 3.0, n)).tocsr())
    assert 3.0 <= h.lipschitz <= 3.1
    assert h.strong_convexity == 0.0
    with pytest.raises(ValueError, match="positive semidefinite"):
        tb.Quadratic(sp.diags_array(np.linspace(-0.1, 3.0, n)).tocsr())


def test_lipschitz_of_single_precision_sparse_columns_is_not_lost_in_a_long_sum():
    for entry in (0.1, 0.3, 0.7, 0.011):  # sequential float32 sums drift up or down
        m = 300_000
        column = np.full((m, 1), entry, np.float32)
        exact = m * float(np.float32(entry)) ** 2
        h = tb.LeastSquares(sp.csr_array(column), np.ones(m, np.float32))
        assert exact * (1 - 1e-12) <= h.lipschitz <= exact * 1.001


def test_the_users_own_lipschitz_constant_wins():
    assert tb.LeastSquares(A, B, lipschitz=123.0).lipschitz == 123.0
    assert tb.LeastSquares(A, B, mean=True, lipschitz=123.0).lipschitz == 123.0
    assert tb.Logistic(A, Y, lipschitz=5).lipschitz == 5.0
    assert tb.Huber(A, B, lipschitz=7).lipschitz == 7.0
    assert tb.Quadratic(Q, lipschitz=99.0).lipschitz == 99.0
    assert (2 * tb.Quadratic(Q, lipschitz=99.0)).lipschitz == 198.0
    assert tb.Smooth(abs, abs).lipschitz == math.inf


# --- rank, growth --------------------------------------------------------------------------------


def hilbert(m: int, n: int) -> np.ndarray:
    return 1.0 / (1 + np.arange(m)[:, None] + np.arange(n)[None])


def duplicated(rng: np.random.Generator) -> np.ndarray:
    matrix = rng.standard_normal((12, 4))
    return np.hstack([matrix, matrix[:, :2], np.zeros((12, 1)), np.full((12, 1), 2.0)])


RANKS = {
    "full, tall": (lambda rng: rng.standard_normal((20, 6)), 6),
    "full, wide": (lambda rng: rng.standard_normal((6, 20)), 6),
    "duplicated and zero columns": (duplicated, 5),
    "constant column twice": (lambda rng: np.ones((9, 2)), 1),
    "integer, rank 2": (lambda rng: rng.integers(-3, 4, (8, 2)) @ rng.integers(-3, 4, (2, 7)), 2),
    "zero": (lambda rng: np.zeros((4, 3)), 0),
    "no rows": (lambda rng: np.zeros((0, 3)), 0),
    "one variable": (lambda rng: rng.standard_normal((5, 1)), 1),
    "one row": (lambda rng: rng.standard_normal((1, 5)), 1),
    "one number": (lambda rng: np.array([[3.0]]), 1),
    "tiny but alone": (lambda rng: 1e-160 * rng.standard_normal((5, 3)), 3),
    "huge": (lambda rng: 1e120 * rng.standard_normal((5, 3)), 3),
    "rows of many sizes": (
        lambda rng: rng.standard_normal((12, 4)) * 10.0 ** rng.uniform(-4, 4, (12, 1)),
        4,
    ),
}


@pytest.mark.parametrize("name", RANKS)
@pytest.mark.parametrize("sparse", [False, True])
def test_rank_is_right_and_growth_is_a_true_bound(name, sparse):
    rng = np.random.default_rng(8)
    build, rank = RANKS[name]
    matrix = np.asarray(build(rng), dtype=np.float64)
    m, n = matrix.shape
    scale = np.max(np.abs(matrix), initial=0.0) or 1.0
    b = scale * rng.standard_normal(m)
    h = tb.LeastSquares(sp.csr_array(matrix) if sparse else matrix, b)
    assert h.rank == rank
    assert (h.growth > 0.0) == (rank > 0)
    if not 1e-100 < scale < 1e100:
        return
    solution = np.linalg.lstsq(matrix, b)[0] if m else np.zeros(n)
    best = h.value(solution)
    for _ in range(20):
        x = solution + rng.standard_normal(n)
        slope = h.gradient(x)
        if rank:
            assert h.value(x) - best <= slope @ slope / (2 * h.growth) * (1 + 1e-9)
        x = rng.standard_normal(n)  # strong convexity: the same with all directions
        if h.strong_convexity > 0:
            slope = h.gradient(x)
            assert h.value(x) - best <= slope @ slope / (2 * h.strong_convexity) * (1 + 1e-9)
    if rank < n:
        assert h.strong_convexity == 0.0


@pytest.mark.parametrize("n", [9, 10, 11, 12, 20])
def test_rank_of_a_hilbert_matrix_is_not_decided(n):
    h = tb.LeastSquares(hilbert(n + 3, n), np.ones(n + 3))
    assert h.rank is None or (h.rank == n and h.singular_values[-1] > 1e-12)
    if h.rank is None:
        assert h.growth == 0.0


def test_rank_of_a_graded_matrix_without_a_gap_is_not_decided_but_units_are_no_grades():
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
    h = tb.LeastSquares((U * 10.0 ** -np.arange(0.0, 20.0)) @ V, np.ones(20))
    assert h.rank is None
    assert h.growth == 0.0
    h = tb.LeastSquares(np.diag(10.0 ** -np.arange(0.0, 20.0)), np.ones(20))
    assert h.rank == 20
    assert 0.0 < h.growth <= 1e-38


@pytest.mark.parametrize(
    ("matrix", "b"),
    [
        (np.diag([1.0, 1e-17]), [1.0, 1.0]),
        (np.array([[1.0, 1.0], [1.0, 1.0 + EPS]]), [0.0, 1.0]),
        (np.array([[1e20, 0.0], [0.0, 1.0]]), [1.0, 1.0]),
    ],
)
def test_growth_is_never_claimed_for_a_matrix_whose_small_singular_values_are_not_zero(matrix, b):
    """Both systems have a solution, exactly: g* = 0, whatever the singular values look like."""
    h = tb.LeastSquares(matrix, b)
    x = np.linalg.lstsq(matrix, np.asarray(b))[0]  # of least norm, by the same rank decision
    claimed = h.value(x) - np.linalg.norm(h.gradient(x)) ** 2 / (2 * h.growth or math.inf)
    assert h.growth == 0.0 or claimed <= 1e-9


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_growth_bounds_the_gap_by_the_slope_for_every_kind(name, count):
    h = made(name)
    if h.growth == 0.0:
        return
    x = np.zeros(N)
    for _ in range(count(3000, 20_000)):  # plain gradient descent to the minimum
        x = x - h.gradient(x) / h.lipschitz
    for z in points():
        slope = h.gradient(z)
        bound = slope @ slope / (2 * h.growth)
        assert h.value(z) - h.value(x) <= bound * (1 + 1e-9) + 1e-12


# --- rounding ------------------------------------------------------------------------------------


def exactly(name: str, x: np.ndarray) -> tuple[Fraction, list[Fraction]]:
    """Value and gradient in rational arithmetic; the gradient of a quadratic by differences."""
    exact = CASES[name].exact
    assert exact is not None
    p = [Fraction(float(t)) for t in x]
    if (gradient := CASES[name].slope) is not None:
        return exact(Fraction, p), gradient(Fraction, p)
    slope = []
    for i in range(len(p)):
        up, down = list(p), list(p)
        up[i] += 1
        down[i] -= 1
        slope.append((exact(Fraction, up) - exact(Fraction, down)) / 2)
    return exact(Fraction, p), slope


def within(h: Any, seen: Any, value: Fraction, slope: list[Fraction], epsilon: float) -> None:
    size = math.sqrt(sum(float(t) ** 2 for t in seen.at))
    steepness = math.sqrt(sum(float(t) ** 2 for t in seen.slope))
    of_value, of_slope = h.rounding(size, seen.value, steepness, epsilon, len(slope))
    error = math.sqrt(
        sum(float(Fraction(float(s)) - t) ** 2 for s, t in zip(seen.slope, slope, strict=True))
    )
    assert abs(float(Fraction(seen.value) - value)) <= of_value
    assert error <= of_slope
    # and not absurdly wide: a certificate lives on it
    assert of_value <= 1e5 * epsilon * (abs(float(value)) + (1 + steepness + h.lipschitz * size) * (1 + size) ** 2 * 30)  # fmt: skip  # noqa: E501


EXACT = [name for name, case in CASES.items() if case.exact is not None]


@pytest.mark.parametrize("name", EXACT)
def test_rounding_bounds_the_errors_of_value_and_slope(name):
    h = made(name)
    for x in points(8):
        (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        within(h, seen, *exactly(name, x), EPS)


@pytest.mark.parametrize("name", EXACT)
def test_rounding_bounds_the_errors_after_64_steps_with_carried_images(name):
    h = made(name)
    rng = np.random.default_rng(9)
    x = 100 * rng.standard_normal(N)
    image = h.forward(x)[0]
    reach = np.linalg.norm(x)
    for k in range(1, 65):
        z = 100 * rng.standard_normal(N) * (k % 2)
        reach = max(reach, np.linalg.norm(z))
        x, image = arrays.mix(x, z, 2 / (k + 2)), arrays.mix(image, h.forward(z)[0], 2 / (k + 2))
    (seen,), _ = h.evaluate([PointWithImage(x, image)])
    value, slope = exactly(name, x)
    of_value, of_slope = h.rounding(
        reach, seen.value, np.linalg.norm(seen.slope), EPS, len(seen.slope)
    )
    assert abs(float(Fraction(seen.value) - value)) <= of_value
    errors = [float(Fraction(s) - t) for s, t in zip(seen.slope, slope, strict=True)]
    assert np.linalg.norm(errors) <= of_slope


def single(value: Any) -> np.ndarray:
    return np.asarray(value, dtype=np.float32)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_rounding_bounds_the_errors_in_single_precision(scale):
    matrix, b = single(A * scale), single(B)
    h = tb.LeastSquares(matrix, b)
    for x in points(8):
        x32 = single(x)
        (seen,), _ = h.evaluate([PointWithImage(x32, h.forward(x32)[0])])
        p = [Fraction(float(t)) for t in x32]
        r = [
            sum((Fraction(float(s)) * t for s, t in zip(row, p, strict=True)), -Fraction(float(c)))
            for row, c in zip(matrix, b, strict=True)
        ]
        slope = [
            sum((Fraction(float(s)) * t for s, t in zip(column, r, strict=True)), Fraction(0))
            for column in matrix.T
        ]
        value = sum((t * t for t in r), Fraction(0)) / 2
        size, steepness = np.linalg.norm(x), np.linalg.norm(seen.slope)
        of_value, of_slope = h.rounding(
            size, seen.value, steepness, float(np.finfo("f").eps), len(seen.slope)
        )
        assert abs(float(Fraction(seen.value) - value)) <= of_value
        errors = [float(Fraction(float(s)) - t) for s, t in zip(seen.slope, slope, strict=True)]
        assert np.linalg.norm(errors) <= of_slope


@pytest.mark.parametrize("gram", [False, True])
def test_rounding_bounds_the_errors_on_badly_scaled_data(gram):
    rng = np.random.default_rng(10)
    for _ in range(10):
        matrix = rng.standard_normal((9, 3)) * 10.0 ** rng.uniform(-6, 6, (9, 1))
        b = rng.standard_normal(9) * 10.0 ** rng.uniform(-6, 6)
        x = rng.standard_normal(3) * 10.0 ** rng.uniform(-3, 3)
        h = tb.LeastSquares(matrix, b, gram=gram)
        (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        p = [Fraction(t) for t in x]
        r = [
            sum((Fraction(s) * t for s, t in zip(row, p, strict=True)), -Fraction(c))
            for row, c in zip(matrix, b, strict=True)
        ]
        slope = [
            sum((Fraction(s) * t for s, t in zip(column, r, strict=True)), Fraction(0))
            for column in matrix.T
        ]
        value = sum((t * t for t in r), Fraction(0)) / 2
        of_value, of_slope = h.rounding(
            np.linalg.norm(x), seen.value, np.linalg.norm(seen.slope), EPS, len(x)
        )
        assert abs(float(Fraction(seen.value) - value)) <= of_value
        errors = [float(Fraction(s) - t) for s, t in zip(seen.slope, slope, strict=True)]
        assert np.linalg.norm(errors) <= of_slope


LONG = {
    "sparse": lambda m: sp.csr_array(np.full((m, 1), 0.1)),
    "dense": lambda m: np.full((m, 3), 0.1),
    "fortran": lambda m: np.asfortranarray(np.full((m, 3), 0.1)),
}


@pytest.mark.parametrize("kind", LONG)
def test_rounding_bounds_the_drift_of_long_sums_of_equal_terms(kind):
    """Equal terms: the errors of a sequential sum do not cancel, they add up."""
    m = 200_000
    matrix = LONG[kind](m)
    h = tb.LeastSquares(matrix, np.full(m, -0.1), gram=False)
    x = np.full(matrix.shape[1], 0.7)
    r = Fraction(0.1) * Fraction(0.7) * matrix.shape[1] + Fraction(0.1)
    (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
    of_value, of_slope = h.rounding(
        np.linalg.norm(x), seen.value, np.linalg.norm(seen.slope), EPS, len(x)
    )
    assert abs(float(Fraction(seen.value) - m * r * r / 2)) <= of_value
    errors = [float(Fraction(s) - m * Fraction(0.1) * r) for s in seen.slope]
    assert np.linalg.norm(errors) <= of_slope


@pytest.mark.parametrize("n", [1000, 4_000_000])
def test_rounding_bounds_the_error_of_a_long_squared_norm(n):
    h, x = tb.SquaredNorm(), np.full(n, 0.1)
    value, size = h.value(x), float(np.linalg.norm(x))
    error = abs(float(Fraction(value) - n * Fraction(0.1) ** 2 / 2))
    assert error <= h.rounding(size, value, size, EPS, len(x))[0]


def test_rounding_of_a_gram_matrix_knows_the_data_it_was_made_of():
    """b is orthogonal to the columns: A'b is all rounding error, of the size of |A| |b|."""
    rng = np.random.default_rng(0)
    matrix, b = rng.standard_normal((2000, 3)), 1e6 * rng.standard_normal(2000)
    basis = np.linalg.qr(matrix)[0]
    for _ in range(3):
        b = b - basis @ (basis.T @ b)
    h = tb.LeastSquares(matrix, b, gram=True)
    (seen,), _ = h.evaluate([PointWithImage(np.zeros(3), h.forward(np.zeros(3))[0])])
    exact = [
        -sum(Fraction(s) * Fraction(t) for s, t in zip(matrix[:, j], b, strict=True))
        for j in range(3)
    ]
    error = np.linalg.norm([float(Fraction(s) - t) for s, t in zip(seen.slope, exact, strict=True)])
    assert error <= h.rounding(1.0, seen.value, np.linalg.norm(seen.slope), EPS, len(seen.slope))[1]


def test_rounding_of_a_sum_of_losses_is_that_of_losses_as_large_as_the_sum():
    """Neither part can be more than the sum where both are at least 0."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((15, 20)), rng.standard_normal((40, 20))
    first = tb.LeastSquares(A, rng.standard_normal(15))
    second = tb.Logistic(B, rng.choice([-1.0, 1.0], 40))
    for h in (first + second, second + (3.0 * first + first)):
        parts = (h.first, h.second)
        for scale in (1e-3, 1.0, 1e3):
            x = scale * rng.standard_normal(20)
            size, value = float(np.linalg.norm(x)), h.value(x)
            slope = float(np.linalg.norm(h.gradient(x)))
            found = h.rounding(size, value, slope, EPS, 20)
            most = [part.rounding(size, value, slope, EPS, 20) for part in parts]
            least = [part.rounding(size, part.value(x), slope, EPS, 20) for part in parts]
            for i in range(2):
                assert sum(part[i] for part in least) <= found[i]
                assert found[i] <= 1.1 * sum(part[i] for part in most)


def test_rounding_of_a_sum_whose_parts_cancel_bounds_the_error():
    b = 1e6 + 0.3
    square = tb.LeastSquares([[0.1]], [b])
    x = np.array([0.3])
    exact_square = (Fraction(0.1) * Fraction(0.3) - Fraction(b)) ** 2 / 2
    constant = -float(exact_square)
    for other in (
        tb.Smooth(lambda x: constant, lambda x: 0.0 * x, lipschitz=0.0),
        tb.Quadratic([[0.0]], constant=constant),
        tb.Linear([constant / 0.3]),
    ):
        h = square + other
        exact = exact_square + Fraction(constant)
        if isinstance(other, tb.Linear):
            exact = exact_square + Fraction(constant / 0.3) * Fraction(0.3)
        value = h.value(x)
        error = abs(float(Fraction(value) - exact))
        assert error <= h.rounding(0.3, value, np.linalg.norm(h.gradient(x)), EPS, len(x))[0]


def steep(M: float, a: float) -> Any:
    """½|x - (a, 0)|² - M x_0 by callables, exact in real arithmetic; large slopes swallow a."""
    center, tilt = np.array([a, 0.0]), np.array([M, 0.0])
    return tb.Smooth(
        lambda x: float(0.5 * (x - center) @ (x - center) - M * x[0]),
        lambda x: (x - center) - tilt,
        lipschitz=1.0,
    )


@pytest.mark.parametrize("weight", [1.0, 0.1])
@pytest.mark.parametrize("start", [0.0, 2.0])
def test_rounding_of_a_sum_bounds_the_slopes_of_callables_that_cancel(weight, start):
    a, x = 0.3, np.array([0.1, 0.7])
    of_x, of_w = [Fraction(t) for t in x], Fraction(weight)
    for M in (1e6, 1e10, 1e16):
        h = weight * steep(M, a) + tb.Linear([weight * M, 0.0])
        h = h.sized(np.full(2, start), lambda x: x)
        (seen,), _ = h.evaluate([PointWithImage(x, (None, None))])
        tilt = Fraction(weight * M) - of_w * Fraction(M)
        slope = [of_w * (of_x[0] - Fraction(a)) + tilt, of_w * of_x[1]]
        value = of_w * ((of_x[0] - Fraction(a)) ** 2 + of_x[1] ** 2) / 2 + tilt * of_x[0]
        size, steepness = np.linalg.norm(x), np.linalg.norm(seen.slope)
        of_value, of_slope = h.rounding(size, seen.size, steepness, EPS, 2)
        each = [float(Fraction(s) - t) for s, t in zip(seen.slope, slope, strict=True)]
        assert np.linalg.norm(each) <= of_slope <= 1e3 * EPS * weight * (M + 10)
        assert abs(float(Fraction(seen.value) - value)) <= of_value


def test_rounding_of_a_sum_bounds_the_slopes_of_linear_functions_that_cancel():
    c = [0.3, 0.7]
    for h, slope in (
        # 3 c rounded, minus three times c
        (
            3.0 * tb.Linear(c) + tb.Linear([-3 * t for t in c]),
            [3 * Fraction(t) + Fraction(-3 * t) for t in c],
        ),
        (tb.Linear([1e17, 1.0]) + tb.Linear([1.0, 0.0]) + tb.Linear([-1e17, 0.0]), [1, 1]),
    ):
        found = h.gradient(np.zeros(2))
        error = [float(Fraction(s) - t) for s, t in zip(found, slope, strict=True)]
        assert np.linalg.norm(error) > 0.0
        bound = h.rounding(0.0, 0.0, np.linalg.norm(found), EPS, 2)[1]
        assert np.linalg.norm(error) <= bound <= 64 * EPS * 1e17


@pytest.mark.parametrize("method", [None, "agm-bio"])
def test_no_gap_is_proved_from_slopes_that_cancel(method):
    """g = ½|x - (½, 0)|²: near 0 its computed slope is 0, because M swallows ½."""
    lower = steep(1e16, 0.5) + tb.Linear([1e16, 0.0])
    problem = tb.Problem(lower=lower, upper=tb.SquaredNorm(), domain=tb.Ball(3.0))
    result = tb.solve(problem, *([method] if method else []), criterion="weak", max_iter=50)
    true_gap = (result.x[0] - 0.5) ** 2 / 2 + result.x[1] ** 2 / 2
    assert result.lower_gap >= true_gap
    assert result.status != "certified"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_errors_bound_what_underflows_before_a_weight(dtype):
    far = dtype(1e-30 if dtype == np.float32 else 1e-170)
    weight, x = 1e35 if dtype == np.float32 else 1e200, np.zeros(2, dtype)
    center = np.array([far, 0], dtype)
    for h in (
        weight * tb.SquaredNorm(center=center),
        tb.SquaredNorm(weight, center=center),
        tb.Linear(np.zeros(2, dtype)) + 0.5 * (2.0 * weight * tb.SquaredNorm(center=center)),
    ):
        exact = Fraction(weight) * Fraction(float(far)) ** 2 / 2
        error = abs(Fraction(h.value(x)) - exact)
        assert error > 0
        assert error <= h.rounding_errors(x, 0.0, h.value(x), 0.0)[0]


def test_no_interval_is_proved_below_what_underflows_before_a_weight():
    """f* = ½ 1e200 (2² + 2²) 1e-340 at x = (1e-170, -1e-170)."""
    distance = 1e200 * tb.SquaredNorm(center=[3e-170, 1e-170])
    fit = tb.LeastSquares([[1.0, 1.0]], [0.0])
    low, high = tb.solve(tb.Problem(lower=fit, upper=distance, domain=tb.Ball(1.0))).upper_optimum
    assert low <= 4e-140 <= high


def test_rounding_covers_the_asymmetry_that_a_quadratic_tolerates():
    n = 4
    skew = np.triu(np.full((n, n), 100 * EPS), 1)
    matrix = np.eye(n) + skew - skew.T
    h = tb.Quadratic(matrix)
    x = np.ones(n)
    exact = (matrix + matrix.T) @ x / 2  # the gradient of ½x'Qx, to one rounding
    error = np.linalg.norm(h.gradient(x) - exact)
    assert error <= h.rounding(2.0, h.value(x), 2.0, EPS, len(x))[1] + 4 * EPS


def test_lower_bound_of_a_quadratic_is_true_within_its_tolerance_of_indefiniteness():
    try:
        h = tb.Quadratic(np.diag([1.0, -2e-13]))
    except ValueError:
        return  # refused: right
    problem = tb.Problem(upper=tb.Linear([1.0, 0.0]), lower=h, domain=tb.Ball(1e6))
    proof = tb.certify(problem, np.zeros(2), max_iter=20)
    assert proof.lower_optimum[0] <= -0.1  # g* = -1e-13 · (1e6)²
    assert proof.lower_gap >= 0.1


# --- logistic ------------------------------------------------------------------------------------


@pytest.mark.parametrize("margin", [0.0, 1e-300, 1.0, 40.0, 700.0, 1e3, 1e6, 1e300])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_logistic_is_exact_at_every_margin_without_a_warning(margin, label):
    h = tb.Logistic([[1.0]], [label], mean=False)
    for t in (margin, -margin):
        x = np.array([label * t])
        with np.errstate(all="raise", under="ignore"):
            value, slope = h.value(x), h.gradient(x)
            (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        exact = math.log1p(math.exp(-t)) if t > -700 else -t
        weight = math.exp(-t) / (1 + math.exp(-t)) if t > -700 else 1.0
        assert value == pytest.approx(exact, rel=1e-15, abs=0.0)
        assert -label * float(slope[0]) == pytest.approx(weight, rel=4e-16 * (4 + abs(t)), abs=0.0)
        assert seen.value == value
        assert seen.slope[0] == slope[0]


def test_logistic_keeps_the_relative_accuracy_of_tiny_slopes():
    h = tb.Logistic([[1.0]], [1.0])
    for t in (100.0, 300.0, 500.0, 700.0):
        assert -float(h.gradient(np.array([t]))[0]) == pytest.approx(math.exp(-t), rel=1e-12)


def test_logistic_rounding_bounds_the_error_against_extended_precision():
    h = tb.Logistic(A, Y)
    long = np.longdouble
    for x in points(30):
        margin = Y.astype(long) * (A.astype(long) @ x.astype(long))
        loss = np.logaddexp(long(0), -margin)
        value = np.mean(loss)
        slope = A.astype(long).T @ (-Y.astype(long) * np.exp(-(margin + loss))) / len(Y)
        (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        of_value, of_slope = h.rounding(
            np.linalg.norm(x), seen.value, np.linalg.norm(seen.slope), EPS, len(x)
        )
        assert abs(float(long(seen.value) - value)) <= of_value
        assert float(np.sqrt(np.sum((seen.slope.astype(long) - slope) ** 2))) <= of_slope


# --- Huber ---------------------------------------------------------------------------------------


def test_huber_is_least_squares_within_delta_and_linear_beyond():
    h = tb.Huber([[1.0]], [0.0], delta=2.0)
    for r, value, slope in [(1.5, 1.125, 1.5), (2.0, 2.0, 2.0), (5.0, 8.0, 2.0), (-5.0, 8.0, -2.0)]:
        assert h.value(np.array([r])) == value
        assert h.gradient(np.array([r]))[0] == slope
    wide, squares_of = tb.Huber(A, B, 1e9), tb.LeastSquares(A, B, gram=False)
    for x in points():
        assert wide.value(x) == pytest.approx(squares_of.value(x), rel=1e-14)
        np.testing.assert_array_equal(wide.gradient(x), squares_of.gradient(x))


@pytest.mark.parametrize("size", [1e-150, 1e-80, 1.0, 1e80, 1e150])
def test_huber_has_no_scale_of_its_own(size):
    """h(c r; c delta) = c² h(r; delta), also where the squares of c are at the end of numbers."""
    h, x = tb.Huber(size * A, size * B, size * 0.7), np.linspace(-1, 1, N)
    expected = tb.Huber(A, B, 0.7)
    with np.errstate(all="raise", under="ignore"):
        value, slope = h.value(x), h.gradient(x)
    assert value == pytest.approx(expected.value(x) * size**2, rel=1e-12)
    np.testing.assert_allclose(slope, expected.gradient(x) * size**2, rtol=1e-11)
    assert h.magnitude(2.0, value, 1.0) >= value


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("delta", [1e-6, 0.1, 1.35, 1e6])
def test_huber_rounding_bounds_the_errors_on_badly_scaled_data(dtype, delta):
    """Also of a delta that single precision does not hold."""
    rng = np.random.default_rng(10)
    for _ in range(10):
        matrix = (rng.standard_normal((9, 3)) * 10.0 ** rng.uniform(-4, 4, (9, 1))).astype(dtype)
        b = (rng.standard_normal(9) * 10.0 ** rng.uniform(-4, 4)).astype(dtype)
        x = (rng.standard_normal(3) * 10.0 ** rng.uniform(-3, 3)).astype(dtype)
        h = tb.Huber(matrix, b, delta)
        value, slope = huber(matrix, b, delta)
        (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        p = [Fraction(float(t)) for t in x]
        of_value, of_slope = h.rounding(
            np.linalg.norm(x.astype(float)),
            seen.value,
            np.linalg.norm(seen.slope.astype(float)),
            float(np.finfo(dtype).eps),
            len(x),
        )
        assert abs(float(Fraction(seen.value) - value(Fraction, p))) <= of_value
        errors = [
            float(Fraction(float(s)) - t)
            for s, t in zip(seen.slope, slope(Fraction, p), strict=True)
        ]
        assert np.linalg.norm(errors) <= of_slope


# --- the Gram road -------------------------------------------------------------------------------


def test_gram_is_used_for_tall_inconsistent_systems_and_never_unasked_for_consistent_ones():
    rng = np.random.default_rng(11)
    for _ in range(20):
        m, n = int(rng.integers(6, 40)), int(rng.integers(1, 6))
        matrix = rng.standard_normal((m, n))
        assert tb.LeastSquares(matrix, rng.standard_normal(m) + 3).gram is not None
        assert tb.LeastSquares(matrix, matrix @ rng.standard_normal(n)).gram is None
        assert tb.LeastSquares(matrix.T, rng.standard_normal(n)).gram is None
        assert tb.LeastSquares(matrix, np.zeros(m)).gram is None


def test_gram_is_not_used_unasked_for_ill_conditioned_consistent_systems():
    rng = np.random.default_rng(12)
    for condition in (1e2, 1e5, 1e7, 1e9):
        u = np.linalg.qr(rng.standard_normal((12, 2)))[0]
        v = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        matrix = u * [1.0, 1 / condition] @ v.T
        b = u @ [1.0, 1.0]  # in the range of A; |x| is as large as the condition
        assert tb.LeastSquares(matrix, b).gram is None, condition


def test_gram_is_not_used_unasked_for_single_precision_or_sparse_matrices():
    b = B + 3
    assert tb.LeastSquares(single(A), single(b)).gram is None
    assert tb.LeastSquares(sp.csr_array(A), b).gram is None
    assert tb.LeastSquares(A, b, gram=False).gram is None


def test_gram_survives_rank_deficient_zero_and_constant_columns_and_a_zero_matrix():
    for matrix in (np.zeros((5, 2)), np.ones((5, 2)), np.eye(5)[:, [0, 0, 1]]):
        b = np.arange(1.0, 6.0)
        h = tb.LeastSquares(matrix, b)
        x = np.ones(matrix.shape[1])
        (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        assert seen.value == pytest.approx(0.5 * np.sum((matrix @ x - b) ** 2), rel=1e-13)


def test_gram_loses_at_most_two_digits_of_a_value_where_it_is_used_unasked():
    rng = np.random.default_rng(13)
    for _ in range(20):
        matrix = rng.standard_normal((50, 4))
        b = matrix @ rng.standard_normal(4) + 10 ** rng.uniform(-3, 1) * rng.standard_normal(50)
        h = tb.LeastSquares(matrix, b)
        if h.gram is None:
            continue
        x = np.linalg.lstsq(matrix, b)[0]
        (seen,), _ = h.evaluate([PointWithImage(x, h.forward(x)[0])])
        assert seen.value == pytest.approx(h.value(x), rel=1e3 * EPS)


# --- passes --------------------------------------------------------------------------------------


def test_passes_over_the_data_are_counted_as_they_happen():
    assert tb.LeastSquares(A, B, gram=False).passes(2, 2, 5) == 4
    assert tb.LeastSquares(A, B, gram=True).passes(2, 2, 5) == 2
    assert tb.Logistic(A, Y).passes(2, 1, 5) == 3
    assert tb.Quadratic(Q).passes(2, 2, 5) == 2
    assert tb.SquaredNorm().passes(2, 2, 5) == 0
    assert (3 * tb.LeastSquares(A, B, gram=False)).passes(1, 1, 0) == 2
    assert (tb.Logistic(A, Y) + tb.LeastSquares(A, B, gram=False)).passes(1, 1, 0) == 4


# --- arithmetic ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [2, 2.0, np.float64(2), np.float32(2), np.int64(2)])
def test_a_number_times_a_function_scales_it(weight):
    h = weight * tb.LeastSquares(A, B)
    assert isinstance(h, Scaled)
    x = np.ones(N)
    assert h.value(x) == 2 * tb.LeastSquares(A, B).value(x)
    np.testing.assert_array_equal(h.gradient(x), 2 * tb.LeastSquares(A, B).gradient(x))


def test_sums_add_values_gradients_and_constants():
    f, h = tb.LeastSquares(A, B), tb.SquaredNorm(3.0)
    both = f + h
    assert isinstance(both, Sum)
    x = np.linspace(0, 1, N)
    assert both.value(x) == f.value(x) + h.value(x)
    np.testing.assert_array_equal(both.gradient(x), f.gradient(x) + h.gradient(x))
    assert both.lipschitz == f.lipschitz + 3.0
    assert both.lower_bound == 0.0
    assert (both + tb.Linear(C)).lower_bound == -math.inf
    assert both.dimension == N
    assert (h + h).dimension is None


def test_what_is_no_function_any_more_is_refused():
    f, h = tb.SquaredNorm(), tb.Linear(C)
    with pytest.raises(TypeError):
        _ = f * h
    with pytest.raises(TypeError):
        _ = f + 3
    with pytest.raises(TypeError):
        _ = f - h
    with pytest.raises(TypeError):
        _ = True * f
    with pytest.raises(TypeError):
        _ = np.ones(2) * f
    for weight in (-1, 0, math.nan, math.inf):
        with pytest.raises(ValueError, match="weight must be a positive finite number"):
            _ = weight * f
    with pytest.raises(ValueError, match="same number of variables"):
        _ = h + tb.Linear([1.0])


def test_a_margin_beyond_the_largest_number_costs_nothing():
    loss = tb.SquaredHinge(np.array([[1e200], [1.0]]), [1, -1])
    with np.errstate(over="ignore"):
        assert (
            loss.value(np.array([1e200])) == np.inf
        )  # the second row; the first one is far beyond
        assert tb.SquaredHinge(np.array([[1e200]]), [1]).value(np.array([1e200])) == 0.0


def test_a_loss_whose_terms_may_cancel_has_no_bounds_on_rounding_until_it_defines_them():
    class Plain(LinearLoss):
        """sum of log(1 + e^t) - t, the second term of which cancels the first one."""

        curvature = 0.25

        def __init__(self, A, b):
            super().__init__(A, False, None)
            self.target = self._per_row(A, b, "b")

        def _loss_and_slope(self, image):
            return np.sum(np.logaddexp(0.0, image) - image), 1.0 / (1.0 + np.exp(-image)) - 1.0

    loss = Plain(np.eye(2), np.ones(2))
    assert loss.rounding(1.0, 1.0, 1.0, 2.0**-52, 2) == (np.inf, np.inf)


def test_entries_without_weight_add_nothing_to_the_errors_of_a_squared_norm():
    """An intercept of 1e8 is no reason to expect rounding errors of 1, nor tolerances of 1e12."""
    f = tb.SquaredNorm([0.0, 1.0, 4.0], center=[1e9, 1.0, 0.0])
    x = np.array([1e8, 0.5, 0.25])
    exact = Fraction(1, 2) * (Fraction(1, 4) + 4 * Fraction(1, 16))
    error, _ = f.rounding_errors(x, f.extent(x), f.value(x), 0.0)
    assert abs(Fraction(f.value(x)) - exact) <= error <= 1e-12
    fit = tb.LeastSquares([[1.0, 1.0, 1.0], [1.0, 0.0, 2.0]], [1e8, 1e8 + 1.0])
    problem = tb.Problem(lower=fit, upper=tb.SquaredNorm([0.0, 1.0, 1.0]))
    result = tb.solve(problem, "adaptive", max_iter=100)
    values = abs(result.upper_value), abs(result.start_values[0])
    assert result.tolerance[0] <= 1.01e-4 * max(*values, 1e-6)
