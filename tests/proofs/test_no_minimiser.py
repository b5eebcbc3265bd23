"""Where there is no minimiser every method says so, and nowhere else.

Whether a drawn problem has a minimiser is planted: separable losses by a direction d with all
<m_i, d> >= 0, others by weights theta > 0 with sum theta_i m_i = 0 in whole numbers, which excludes
every such direction (Stiemke).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.proofs.recession.direction import is_direction_of_descent

KINDS = ("dense", "whole", "sparse", "quasi", "sum", "scaled sum", "squares", "one-hot")
DOMAINS = ("space", "space", "orthant", "box", "halfspace", "monotone")


def planted_cone(rng, name, n):
    """A domain and a direction of it, in whole numbers."""
    d = rng.integers(-3, 4, n).astype(float)
    d[rng.integers(n)] = 1.0
    if name == "orthant":
        return tb.Orthant(), np.abs(d)
    if name == "box":
        low = np.where(rng.random(n) < 0.5, -1.0, -math.inf)
        high = np.where((rng.random(n) < 0.5) & np.isinf(low), 2.0, math.inf)
        d = np.where(low == -1.0, np.abs(d), np.where(high == 2.0, -np.abs(d), d))
        return tb.Box(low, high), d
    if name == "halfspace":
        normal = rng.integers(-3, 4, n).astype(float)
        normal[0] = 1.0
        if normal @ d > 0.0:
            normal = -normal
        return tb.Halfspace(normal, 1.0), d
    if name == "monotone":
        d = np.sort(d)
        return tb.Monotone(), d
    return tb.Space(), d


def rows_along(rng, d, m, is_whole, zeros=0):
    """m rows with <row, d> > 0, the first ``zeros`` of them with 0."""
    n = len(d)
    rows = rng.integers(-4, 5, (m, n)).astype(float) if is_whole else rng.standard_normal((m, n))
    along = rows @ d
    rows *= np.where(along < 0.0, -1.0, 1.0)[:, None]
    flat = np.abs(along) < 0.5
    rows[flat] += np.sign(d)
    j = int(np.argmax(np.abs(d)))
    for i in range(min(zeros, m)):  # whole numbers, so that the product is exactly 0
        rows[i] = np.round(rows[i]) * abs(d[j])
        rows[i, j] = 0.0
        rows[i, j] = -np.sign(d[j]) * (rows[i] @ d) / abs(d[j])
    return rows


def without_minimiser(seed):
    """A problem whose lower level has no minimiser, its losses as (rows, labels), and d."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, m = int(rng.integers(2, 12)), int(rng.integers(4, 40))
    domain, d = planted_cone(rng, DOMAINS[int(rng.integers(len(DOMAINS)))], n)
    y = rng.choice([-1.0, 1.0], m)
    zeros = int(rng.integers(1, m)) if kind in ("quasi", "squares") else 0
    rows = rows_along(rng, d, m, kind != "dense", zeros)
    if kind == "one-hot":  # the first category has one label only, the others have both
        which = rng.integers(0, n, m)
        which[:2] = 0
        rows = np.eye(n)[which]
        y = np.where(which == 0, 1.0, y)
        rows *= y[:, None]
        d = np.eye(n)[0]
        domain = [tb.Space(), tb.Orthant(), tb.Box(-math.inf, np.append(math.inf, np.ones(n - 1)))][
            seed // len(KINDS) % 3
        ]
    A = y[:, None] * rows
    is_mean = bool(rng.random() < 0.5)
    lower = tb.Logistic(sp.csr_matrix(A) if kind in ("sparse", "one-hot") else A, y, mean=is_mean)
    parts = [rows]
    if kind in ("sum", "scaled sum"):
        more = rows_along(rng, d, int(rng.integers(1, 10)), True, zeros=1)
        other = tb.Logistic(more, np.ones(len(more)))
        lower = lower + (other if kind == "sum" else 10.0 ** rng.uniform(-3, 3) * other)
        parts.append(more)
    squares = None
    if kind == "squares":
        squares = rows_along(rng, d, int(rng.integers(1, n + 2)), True, zeros=n + 1)[: n - 1]
        lower = lower + tb.LeastSquares(squares, rng.standard_normal(len(squares)))
    upper = [
        tb.SquaredNorm(),
        tb.SquaredNorm(2.0, rng.standard_normal(n)),
        tb.LeastSquares(rng.standard_normal((3, n)), rng.standard_normal(3)),
    ][int(rng.integers(3))]
    problem = tb.Problem(upper=upper, lower=lower, domain=domain)
    assert all(np.min(some @ d) >= 0.0 for some in parts)
    assert max(np.max(some @ d) for some in parts) > 0.0
    assert squares is None or not (squares @ d).any()
    return problem, parts, squares


def with_minimiser(seed):
    """The same, but sum theta_i m_i = 0 for whole theta > 0; on every domain there is a minimum."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    n, m = int(rng.integers(2, 10)), int(rng.integers(4, 30))
    domain, _ = planted_cone(rng, DOMAINS[int(rng.integers(len(DOMAINS)))], n)
    rows = rng.integers(-4, 5, (m, n)).astype(float)
    if kind == "dense":  # at random, with a mirror image of the whole
        rows = rng.standard_normal((m, n))
        rows = np.vstack([rows, -rows[rng.permutation(m)]])
    else:
        theta = rng.integers(1, 4, m)
        rows = np.vstack([rows, -(theta @ rows)])
    if kind == "quasi":  # nearly separable
        rows = np.vstack([rows, 2.0**-20 * rows, -(2.0**-20) * rows])
    y = rng.choice([-1.0, 1.0], len(rows))
    A = y[:, None] * rows
    lower = tb.Logistic(sp.csr_matrix(A) if kind in ("sparse", "one-hot") else A, y)
    if kind in ("sum", "scaled sum"):
        half = len(rows) // 2
        lower = tb.Logistic(A[:half], y[:half], mean=False)
        weight = 1.0 if kind == "sum" else 10.0 ** rng.uniform(-2, 2)
        lower = lower + weight * tb.Logistic(A[half:], y[half:], mean=False)
    if kind == "squares":
        lower = lower + tb.LeastSquares(rng.standard_normal((2, n)), rng.standard_normal(2))
    return tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)


def check_direction(problem, parts, squares, d):
    d = np.asarray(d)
    assert np.linalg.norm(d) == pytest.approx(1.0)
    products = [some @ d / (1.0 + np.linalg.norm(some, axis=1)) for some in parts]
    assert min(map(np.min, products)) >= -1e-13
    assert max(map(np.max, products)) > 1e-9
    if squares is not None:
        assert np.max(np.abs(squares @ d), initial=0.0) <= 1e-12
    x = problem.domain.project(np.zeros(len(d)))
    assert problem.domain.contains(x + 1e6 * d, 1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["auto", "adaptive"])
def test_no_minimiser_is_always_said(count, method):
    for seed in range(count(12, 200)):
        problem, parts, squares = without_minimiser(seed)
        result = tb.solve(problem, method)
        assert result.status == "unbounded", (seed, result.status, result.method)
        assert not result.success
        assert "g has no minimiser: it decreases along the direction x[" in result.message, seed
        check_direction(problem, parts, squares, result.findings.direction)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["auto", "adaptive"])
def test_where_there_is_one_it_is_never_denied(count, method):
    for seed in range(count(4, 200)):
        result = tb.solve(with_minimiser(seed), method, max_iter=300)
        assert result.status != "unbounded", (seed, result.message)


# --- every method, every domain -------------------------------------------------------------------

SEPARABLE = tb.Logistic([[1.0, 2.0], [2.0, 1.0], [0.5, -0.25]], np.ones(3))
INF = math.inf
NO_LOWER_MINIMUM = [
    (SEPARABLE, tb.Orthant()),
    (tb.Logistic([[1.0, 2.0], [1.0, -1.0]], [1.0, -1.0]), tb.Monotone()),
    (SEPARABLE, tb.Halfspace([-1.0, 1.0], 3.0)),
    (tb.Logistic([[1.0, 1.0], [1.0, -1.0]], [1.0, 1.0]), tb.Halfspace([0.0, 1.0], 3.0)),
    (SEPARABLE, tb.Box([0.0, -1.0], [INF, 1.0])),
    (tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([1.0, 0.0]), tb.Space()),
    (tb.LeastSquares([[1.0, 1.0]], [1.0]) + tb.Linear([0.0, -1.0]), tb.Box([-INF, 0.0], INF)),
    (tb.Quadratic([[1.0, 0.0], [0.0, 0.0]], [0.0, 1.0]), tb.Halfspace([1.0, 1.0], 3.0)),
    (tb.Logistic([[1.0, 0.0]], [1.0], mean=False) + tb.Linear([1.0, 0.0]), tb.Space()),
    (tb.Logistic([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], np.ones(3)), tb.Space()),
    (2 * SEPARABLE + tb.LeastSquares([[1.0, -1.0]], [1.0]), tb.Space()),
]  # fmt: skip


@pytest.mark.parametrize(
    "method",
    [
        *("agm-bio", "p-agm-bio", "adaptive", "exact", "a-irg", "bi-sg", "r-apm", "bisec-bio"),
        *(tb.SEA(upper_step=1e-2, lower_step=1e-1), tb.PBAPG(penalty=10.0)),
    ],
)
def test_every_method_says_it(method):
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=SEPARABLE), method)
    assert result.status == "unbounded"
    assert math.isinf(result.upper_gap)
    assert np.min(SEPARABLE.matrix.entries @ result.findings.direction) > 0.0


@pytest.mark.sample(2)
@pytest.mark.parametrize(("lower", "domain"), NO_LOWER_MINIMUM)
@pytest.mark.parametrize("method", ["adaptive", "agm-bio", "auto"])
def test_on_every_domain(lower, domain, method):
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain), method)
    assert result.status == "unbounded"
    assert "g has no minimiser" in result.message
    d = result.findings.direction
    x = domain.project(np.zeros(2))
    values = [lower.value(x + t * d) for t in (0.0, 1.0, 4.0, 16.0, 64.0)]
    assert all(b < a for a, b in itertools.pairwise(values))
    assert domain.contains(x + 1e6 * d, 1e-9)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("upper", "domain"),
    [
        (tb.Linear([0.0, 0.0, 1.0]), tb.Space()),
        (tb.Linear([1.0, -1.0, 0.0]), tb.Halfspace([0.0, 0.0, 1.0], 1.0)),
        (tb.Linear([0.0, 0.0, -1.0]), tb.Orthant()),
        (tb.Quadratic(np.diag([1.0, 1.0, 0.0]), [0.0, 0.0, -1.0]), tb.Monotone()),
        (tb.LeastSquares([[1.0, 0.0, 0.0]], [1.0]) + tb.Linear([0.0, 0.0, 1.0]), tb.Space()),
        (tb.Logistic([[0.0, 0.0, 1.0], [1.0, 1.0, 1.0]], [1.0, 1.0]), tb.Space()),
    ],
)
@pytest.mark.parametrize(
    "lower",
    [
        tb.LeastSquares([[1.0, 1.0, 0.0]], [1.0]),
        tb.Logistic([[1.0, 1.0, 0.0], [-2.0, -2.0, 0.0]], [1.0, 1.0]),
        tb.Quadratic([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [-1.0, -1.0, 0.0]),
    ],
)
def test_f_without_a_minimum_on_the_minimisers_of_g(upper, lower, domain):
    problem = tb.Problem(upper=upper, lower=lower, domain=domain)
    result = tb.solve(problem, "adaptive")
    assert result.status == "unbounded"
    assert "f has no minimum over the minimisers of g" in result.message
    d, x = result.findings.direction, domain.project(np.zeros(3))
    values = [upper.value(x + t * d) for t in (0.0, 1.0, 4.0, 16.0)]
    assert all(b < a for a, b in itertools.pairwise(values))
    assert lower.value(x + 1e3 * d) == pytest.approx(lower.value(x), abs=1e-12)


def test_rows_that_are_only_products_and_rows_on_a_disk(tmp_path):
    rng = np.random.default_rng(5)
    A = rng.standard_normal((60, 8))
    y = np.sign(A @ rng.standard_normal(8))
    np.save(tmp_path / "A.npy", A)
    operator = sp.linalg.aslinearoperator(A)
    for matrix in (operator, tb.Streamed(tmp_path / "A.npy"), A.astype(np.float32)):
        lower = tb.Logistic(matrix, y)
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "adaptive")
        assert result.status == "unbounded"
        assert np.min(y * (A @ result.findings.direction)) > 0.0


# --- by a hair ------------------------------------------------------------------------------------


@pytest.mark.sample(5)
@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-12])
def test_a_hair_on_either_side(size):
    rows = np.array([[0.0, 1.0], [1.0, size], [-1.0, size]])
    for angle in (0.0, 0.3) if size > 1e-10 else (0.0,):
        turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
        falls = tb.Logistic(rows @ turn, np.ones(3))
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=falls), "adaptive")
        assert result.status == "unbounded"
        rises = tb.Logistic(rows * [[1.0, 1.0], [1.0, -1.0], [1.0, -1.0]] @ turn, np.ones(3))
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=rises), "adaptive", max_iter=300)
        assert result.status != "unbounded"


def test_rows_opposite_to_each_other_are_held_only_if_they_are_so_exactly():
    m = np.array([math.cos(0.3), math.sin(0.3)])
    away = np.array([-m[1], m[0]])
    exactly = tb.Logistic(np.array([m, -m, away]), np.ones(3))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=exactly), "adaptive")
    assert result.status == "unbounded"  # m is held exactly, though no float d has <m, d> = 0
    other = np.nextafter(-m, [0.0, -9.0])
    last = -(2.0**50) * (m + other)  # m + other + 2^-50 last = 0, and nothing is rounded
    for a, b, c in zip(m, other, last, strict=True):
        assert Fraction(a) + Fraction(b) + Fraction(c) / 2**50 == 0
    nearly = tb.Logistic(np.array([m, other, last]), np.ones(3))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=nearly), "adaptive", max_iter=300)
    assert result.status != "unbounded"


def test_a_tilt_that_is_a_rounding_error_is_none(count):
    rng = np.random.default_rng(1)
    for _ in range(count(2, 6)):
        B = rng.standard_normal((3, 6))
        lower = tb.LeastSquares(B, np.ones(3)) + tb.Linear(B.T @ rng.standard_normal(3))
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower), "adaptive", max_iter=200)
        assert result.status != "unbounded"


# --- callables ------------------------------------------------------------------------------------


def logistic_callable(rows):
    def g(x):
        t = rows @ x
        return float(np.sum(np.logaddexp(0.0, -t))), -rows.T @ np.exp(-np.logaddexp(0.0, t))

    return g


def norm_callable(x):
    return 0.5 * float(x @ x), x


@pytest.mark.sample(2)
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_callables_that_fall_for_ever_are_no_success(shift):
    result = tb.minimize(
        norm_callable, logistic_callable(np.array([[1.0, 0.5], [0.2, 1.0]])), [shift, 0.0], jac=True
    )
    assert not result.success
    # A callable may have a flat interior: Bregman iteration no longer ends the run with its x.
    assert result.status in ("undetermined", "max_iter")


def test_callables_with_a_minimiser_are_not_doubted():
    rows = np.array([[1.0, 0.5], [0.2, 1.0], [-1.0, -1.0]])
    for start in ([0.0, 0.0], [3.0, -40.0]):
        result = tb.minimize(norm_callable, logistic_callable(rows), start, jac=True)
        assert result.status in ("solved", "certified")


def test_far_out_a_slope_that_is_nearly_0_is_no_minimiser():
    """A loss that a direction lowers for ever: at 40 its slope is below the rounding of others."""
    from tiebreak.proofs.recession.level import RecessionCone, RecessionLevel
    from tiebreak.proofs.recession.programs import has_minimum_near

    g, x = tb.Logistic([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1, -1, 1]), np.array([0.0, 40.0])
    level = RecessionLevel.of(g, RecessionCone([], 2))
    assert not has_minimum_near(level, x, g.gradient(x))


def test_slopes_that_cancel_only_in_rounding_prove_nothing():
    """-x + log(1 + exp(x)) + 2^-60 log(1 + exp(x)) rises far out, by 2^-60 per unit."""
    steep, slight = (w * tb.Logistic([[-1.0]], [1]) for w in (1.0, 2.0**-60))
    for lower in (slight + (tb.Linear([-1.0]) + steep), tb.Linear([-1.0]) + steep + slight):
        problem = tb.Problem(lower=lower, upper=tb.SquaredNorm())
        assert not is_direction_of_descent(problem, 0, np.array([1.0]))
    flat = tb.Problem(lower=tb.Linear([-1.0]) + steep, upper=tb.SquaredNorm())
    assert is_direction_of_descent(flat, 0, np.array([1.0]))


def test_the_distance_to_a_direction_with_zeros_is_measured_in_the_units_of_x():
    """The lower level fixes x_1 and x_2, so the products 1e-14 are not rounding errors."""
    fit = tb.LeastSquares([[1.0, 0.0, 0.0], [1.0, 1e-14, 0.0]], [0.0, 0.0])
    problem = tb.Problem(lower=fit, upper=tb.Linear([0.0, -1.0, 0.0]))
    assert not is_direction_of_descent(problem, 1, np.array([-1e-14, 1.0, 1.0]))


@pytest.mark.parametrize("slope", [1.0, 1.0 - 2.0**-53, 1.0 - 2.0**-50])
def test_a_direction_just_outside_a_cone_is_no_direction_of_it(slope):
    """x_1 = x_2 = t and |x_1| <= slope x_2 + 1 bound t, unless the slope is 1."""
    domain = tb.SecondOrderCone([[1.0, 0.0]], c=[0.0, slope], d=1.0)
    fit = tb.LeastSquares([[1.0, -1.0]], [0.0])
    problem = tb.Problem(lower=fit, upper=tb.Linear([-1.0, 0.0]), domain=domain)
    status = tb.solve(problem, "conic").status
    assert (status == "unbounded") == (slope == 1.0)


def test_linear_terms_that_cancel_only_in_rounding_prove_nothing():
    """2^-60 x - x + x + log(1 + exp(-x)) has its minimum near x = 42."""
    terms = [tb.Linear([c]) for c in (2.0**-60, -1.0, 1.0)]
    lower = sum(terms) + tb.Logistic([[1.0]], [1])
    problem = tb.Problem(lower=lower, upper=tb.SquaredNorm())
    assert not is_direction_of_descent(problem, 0, np.array([1.0]))
    elsewhere = [tb.Linear([c, 0.0]) for c in (0.1, -0.3)]
    lower = sum(elsewhere) + tb.Logistic([[0.0, 1.0]], [1])
    problem = tb.Problem(lower=lower, upper=tb.SquaredNorm(), domain=tb.Box([0.0, -np.inf], np.inf))
    assert is_direction_of_descent(problem, 0, np.array([0.0, 1.0]))


@pytest.mark.parametrize("delta", [1e-11, 1e-9, 1e-8])
@pytest.mark.parametrize("where", ["loss", "cone", "margins"])
def test_what_is_exactly_0_along_a_direction_stays_0_where_the_direction_is_moved(delta, where):
    """d = (2, 1) has <(-1, 2), d> = 0, but <(-1, 2 + delta), d> = delta is no rounding error."""
    d, steep = np.array([2.0, 1.0]), tb.LeastSquares([[-1.0, 2.0 + delta]], [0.0])
    domain, lower, level = tb.Space(), steep, 1
    if where == "loss":
        lower = tb.LeastSquares([[-1.0, 2.0]], [0.0]) + steep
    elif where == "cone":
        domain = tb.Polyhedron([[-1.0, 2.0], [1.0, -2.0]], [4.0, 5.0])
    else:
        lower, level = steep + tb.Logistic([[-1.0, 2.0], [1.0, -2.0], [1.0, 0.0]], [1, 1, 1]), 0
    problem = tb.Problem(lower=lower, upper=tb.Linear([-2.0, -1.0]), domain=domain)
    assert not is_direction_of_descent(problem, level, d)
