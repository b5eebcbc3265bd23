"""Extrapolation of argmin g + eta f, and the faces that the path runs on."""

from __future__ import annotations

import array_api_strict as xps
import numpy as np
import planted
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.methods.extrapolation import Extrapolation, _at
from tiebreak.methods.tangents import tangent


def least_squares(seed=0, m=6, n=12, rows=20):
    rng = np.random.default_rng(seed)
    upper = tb.LeastSquares(rng.standard_normal((rows, n)), rng.standard_normal(rows))
    lower = tb.LeastSquares(rng.standard_normal((m, n)), rng.standard_normal(m))
    return upper, lower


def plain(function, weight=1.0, unit=1.0):
    """weight times the function of x/unit, as callables that say nothing but a lower bound."""
    return tb.Smooth(
        lambda x: weight * function.value(x / unit),
        lambda x: weight / unit * function.gradient(x / unit),
        lower_bound=0.0,
    )


# --- what it reaches -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "domain",
    [
        tb.Space(),
        tb.Ball(10.0),
        tb.Ball(0.3),
        tb.Box(-0.1, 0.1),
        tb.Orthant(),
        tb.Simplex(1.0),
        tb.L1Ball(0.5),
        tb.Monotone(),
        tb.Halfspace(np.ones(12), -0.1),
    ],
    ids=lambda domain: repr(domain)[:20],
)
def test_callables_are_solved_as_if_their_structure_were_known(domain):
    upper, lower = least_squares()
    exact = tb.solve(tb.Problem(upper=upper, lower=lower, domain=domain), "exact")
    problem = tb.Problem(upper=plain(upper), lower=plain(lower), domain=domain)
    result = tb.solve(problem, x0=np.zeros(12))
    if isinstance(domain, tb.Orthant):
        assert result.status == "certified"
    else:  # on the orthant the polished point is not proved, and not taken
        assert "extrapolation of argmin g + eta f" in result.method
        assert result.upper_value == pytest.approx(exact.upper_value, rel=1e-9)
        np.testing.assert_allclose(result.x, exact.x, rtol=1e-5, atol=1e-6)
    low, high = result.upper_optimum
    assert low <= exact.upper_value * (1.0 + 1e-12)
    assert exact.upper_value <= high * (1.0 + 1e-12)


def test_planted_problems_without_structure(count):
    number, settled, seen = count(24, 140), 0, 0
    for seed in range(number):
        p = planted.planted(seed)
        result = tb.solve(p.problem(), x0=p.x0, rtol=1e-3, max_iter=1500)
        f, g = p.f(result.x), p.g(result.x)
        assert result.upper_gap >= f - p.f_star - 1e-12 * (p.f_scale + abs(f)), seed
        assert result.lower_gap >= g - p.g_star - 1e-12 * (p.g_scale + abs(g)), seed
        low, high = result.upper_optimum
        assert low - 1e-12 * p.f_scale <= p.f_star <= high + 1e-12 * p.f_scale, seed
        if "extrapolation" not in result.method:
            continue
        seen += 1
        if "without an answer" not in result.method and result.status in ("certified", "settled"):
            settled += 1
            assert abs(f - p.f_star) <= 1e-8 * p.f_scale, (seed, p.kind, result.method)
    print(f"\nextrapolation settled on {settled} of {seen} planted problems, all within 1e-8")
    assert settled > seen / 2


@pytest.mark.parametrize("n", [300, 3000])
def test_large_sparse_rank_deficient_least_squares(n):
    """x* and multipliers first: grad f(x*) = -A'y; some rows of A are sums of others."""
    rng = np.random.default_rng(n)
    A = sp.random_array((n // 3, n), density=8 / n, rng=rng, format="csr")
    A = sp.vstack([A, A[:20] + A[20:40]]).tocsr()
    star, y = rng.standard_normal(n), 0.1 * rng.standard_normal(A.shape[0])
    f = tb.SquaredNorm(1.0, star + A.T @ y)
    problem = tb.Problem(upper=f, lower=tb.LeastSquares(A, A @ star))
    exact = 0.5 * float(np.sum((A.T @ y) ** 2))
    method = "auto" if n > 1000 else Extrapolation()
    result = tb.solve(problem, method)
    assert result.status == "certified"
    assert abs(result.upper_value - exact) <= 1e-9 * exact
    assert np.linalg.norm(result.x - star) <= 1e-6 * np.linalg.norm(star)
    assert result.upper_optimum[0] <= exact * (1.0 + 1e-12)


@pytest.mark.parametrize("what", ["f", "g", "x"])
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_units_change_neither_the_gradients_nor_the_accuracy(what, size):
    upper, lower = least_squares(3)
    truth = tb.solve(tb.Problem(upper=upper, lower=lower), "exact").upper_value

    def solved(f, g, x):
        problem = tb.Problem(
            upper=plain(upper, f, x), lower=plain(lower, g, x), domain=tb.Ball(100.0 * x)
        )
        return tb.solve(problem, x0=0.1 * x * np.ones(12))

    plainly = solved(1.0, 1.0, 1.0)
    f, g, x = (size if letter == what else 1.0 for letter in "fgx")
    result = solved(f, g, x)
    gradients = [r.trace[-1].upper_gradients for r in (plainly, result)]
    assert abs(gradients[1] - gradients[0]) <= 0.1 * gradients[0]
    assert result.status == plainly.status
    assert result.upper_value / f == pytest.approx(truth, rel=1e-9)


def test_a_run_stopped_on_the_path_goes_on_bit_identically(tmp_path):
    upper, lower = least_squares(1)
    problem = tb.Problem(upper=plain(upper), lower=plain(lower), domain=tb.Box(-0.1, 0.1))
    options = {"x0": np.zeros(12), "rtol": 0.0, "max_iter": 150}
    whole = tb.solve(problem, **options)
    for stop in (1, 17, 30, whole.nit - 1):
        path = tmp_path / f"{stop}.npz"

        def callback(r, stop=stop):
            if r.nit == stop:
                raise StopIteration

        assert tb.solve(problem, **options, callback=callback, checkpoint=path).nit == stop
        second = tb.solve(problem, **options, checkpoint=path)
        np.testing.assert_array_equal(second.x, whole.x)
        assert (second.nit, second.status) == (whole.nit, whole.status)


def test_its_point_is_never_worse_below_than_where_it_began():
    upper, lower = least_squares(2)
    problem = tb.Problem(upper=plain(upper), lower=plain(lower), domain=tb.Simplex(1.0))
    method, state = Extrapolation(), Extrapolation().init(problem, problem.start(np.zeros(12)))
    best = state.lower_value
    while not state.finished[0]:
        state = method.step(problem, state)
        assert state.lower_value <= best + 1e-12 * abs(best)
        best = state.lower_value
    assert state.finished[0] == "settled"


def test_penalties_are_refused_with_one_sentence():
    upper, lower = least_squares()
    problem = tb.Problem(upper=upper, lower=lower + tb.L1(0.1))
    with pytest.raises(ValueError, match=r"^Extrapolation: lower must be smooth, got"):
        tb.solve(problem, Extrapolation())


def test_the_polynomial_goes_through_its_points_and_is_exact_for_polynomials():
    rng = np.random.default_rng(0)
    coefficients = rng.standard_normal((4, 3))

    def curve(eta):
        return sum(c * eta**i for i, c in enumerate(coefficients))

    path = tuple((0.3 / 2**j, curve(0.3 / 2**j)) for j in range(4))
    np.testing.assert_allclose(_at(path, 0.0), coefficients[0], rtol=1e-12)
    for eta, x in path:
        np.testing.assert_allclose(_at(path, eta), x, rtol=1e-12)


# --- faces ---------------------------------------------------------------------------------------

DOMAINS = [
    tb.Space(),
    tb.Ball(1.0, np.full(6, 0.2)),
    tb.Box(-0.3, np.linspace(0.1, 1.0, 6)),
    tb.Orthant(),
    tb.Simplex(1.0),
    tb.L1Ball(1.0),
    tb.Monotone(),
    tb.Halfspace(np.arange(1.0, 7.0), 0.5),
]


@pytest.mark.parametrize("xp", [np, xps], ids=["numpy", "strict"])
@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_along_a_face_one_stays_on_it(domain, xp):
    rng = np.random.default_rng(4)
    for scale in (0.05, 3.0):
        for _ in range(10):
            x = domain.project(xp.asarray((scale * rng.standard_normal(6)).tolist()))
            v, w = (xp.asarray(rng.standard_normal(6).tolist()) for _ in range(2))
            face = tangent(domain, x)
            along = face.along(v)
            host = np.asarray(along)
            np.testing.assert_allclose(np.asarray(face.along(along)), host, atol=1e-13)
            other = np.asarray(face.along(w))  # symmetric: an orthogonal projection
            assert np.asarray(w) @ host == pytest.approx(other @ np.asarray(v), abs=1e-12)
            step = 1e-7
            moved = x + step * along
            away = np.asarray(moved) - np.asarray(domain.project(moved))
            assert np.linalg.norm(away) <= 1e-12  # of second order on a sphere, rounding elsewhere
            np.testing.assert_array_equal(
                np.asarray(tangent(domain, domain.project(moved)).key), np.asarray(face.key)
            )
