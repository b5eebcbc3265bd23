"""Ranks, statuses and answers do not depend on units; planted ranks are found."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse

import tiebreak as tb
from tiebreak.exact.bounds import rescaled
from tiebreak.linalg import spectra

ANSWERED = {"certified", "solved"}


# --- drawn problems in other units ----------------------------------------------------------------


def drawn(seed):
    """A problem with 1 to 3 ties or a single minimiser, as a function of the units of x and rows.

    Returns make(units, rows), and whether x is unique; ``rows`` rescales a consistent system.
    """
    rng = np.random.default_rng(seed)
    below = ("least squares", "consistent", "logistic")[seed % 3]
    above = ("least squares", "norm", "linear")[seed // 3 % 3]
    domain = ("space", "orthant", "box")[seed // 9 % 3]
    n = int(rng.integers(3, 9))
    rank = int(rng.integers(2, n + 1))
    m = int(rng.integers(rank, 3 * n)) if below != "logistic" else 6 * n
    A = rng.standard_normal((m, rank)) @ rng.standard_normal((rank, n))
    inside = rng.uniform(0.2, 1.0, n)
    b = A @ inside + (0.0 if below == "consistent" else rng.standard_normal(m))
    y = np.where(A @ inside + 2.0 * rng.standard_normal(m) > 0.0, 1.0, -1.0)
    F, s = rng.standard_normal((n + 2, n)), rng.standard_normal(n + 2)
    c = rng.uniform(0.5, 1.5, n)  # bounded below on the orthant and the box

    def make(units, rows):
        if below == "logistic":
            lower = tb.Logistic(A * units, y)
        else:
            scale = rows[:m] if below == "consistent" else np.ones(m)
            lower = tb.LeastSquares(scale[:, None] * A * units, scale * b)
        if above == "linear" and domain != "space":
            upper = tb.Linear(c * units)
        elif above == "norm":
            upper = tb.LeastSquares(np.diag(units), np.zeros(n))
        else:
            upper = tb.LeastSquares(F * units, s)
        domains = {
            "space": tb.Space(),
            "orthant": tb.Orthant(),
            "box": tb.Box(np.zeros(n), 1.2 / units),
        }
        return tb.Problem(upper=upper, lower=lower, domain=domains[domain])

    is_unique = above != "linear" or domain == "space"
    return f"{above} over {below} on {domain}", n, make, is_unique


def drawn_units(rng, size, kind):
    return 2.0 ** rng.integers(-30, 31, size) if kind == 0 else 10.0 ** rng.uniform(-9, 9, size)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["exact", "auto"])
def test_units_change_neither_status_nor_values_nor_the_point(method, count):
    """Columns of f, g and Z together by 2^-30..2^30 or 1e-9..1e9, rows of consistent systems."""
    number, proofs, worst = count(12, 300), 0, 0.0
    for seed in range(number):
        name, n, make, is_unique = drawn(seed)
        rng = np.random.default_rng(10_000 + seed)
        units, rows = (drawn_units(rng, size, seed % 2) for size in (n, 3 * n))
        plain = tb.solve(make(np.ones(n), np.ones(3 * n)), method)
        other = tb.solve(make(units, rows), method)
        assert plain.status == other.status, (seed, name, plain.status, other.status)
        proofs += plain.proved
        if not plain.success:
            continue
        assert plain.dimension == other.dimension, (seed, name)
        f_tolerance, g_tolerance = (
            max(a, b) for a, b in zip(plain.tolerance, other.tolerance, strict=True)
        )
        assert abs(plain.upper_value - other.upper_value) <= f_tolerance, (seed, name)
        if "consistent" not in name:  # rows reweight the value, though not its minimisers
            assert abs(plain.lower_value - other.lower_value) <= g_tolerance, (seed, name)
        if is_unique:
            error = np.max(np.abs(units * other.x - plain.x)) / np.max(np.abs(plain.x))
            worst = max(worst, error)
            assert error <= 1e-5, (seed, name, error)
    print(
        f"\n{method}, {number} problems in other units: same status, dimension and values; "
        f"x to {worst:.1e}; {proofs} proved in both"
    )


# --- planted ranks --------------------------------------------------------------------------------


def one_hot(rng, m, levels):
    values = np.concatenate([np.arange(levels), rng.integers(0, levels, m - levels)])
    return np.eye(levels)[values]


def centred(x):
    return x - x.mean(axis=0)


def matrices(dtype):
    """(what, matrix, its planted rank); all computed in dtype, as a user would."""
    rng = np.random.default_rng(1)
    m, one = 60, np.ones((60, 1), dtype)
    X = rng.standard_normal((m, 3)).astype(dtype)
    a, b, c = X[:, :1], X[:, 1:2], X[:, 2:]
    day = np.arange(m, dtype=np.float64)[:, None]
    hot, cold = one_hot(rng, m, 4).astype(dtype), one_hot(rng, m, 3).astype(dtype)
    pairs = one_hot(rng, m, 12).astype(dtype)
    first, second = pairs.reshape(m, 4, 3).sum(axis=2), pairs.reshape(m, 4, 3).sum(axis=1)
    t = np.linspace(-1.0, 1.0, m)[:, None].astype(dtype)
    wild = (10.0 ** rng.uniform(-6, 6, (m, 1))).astype(dtype)
    units = np.array([1e6, 1e-6, 1, 1e3], dtype)
    tiny = dtype(2.0**-60 if dtype is np.float64 else 2.0**-40)
    small, large = dtype(0.3), dtype(2.0**20)
    price = np.full((m, 1), 19.99, dtype)
    mean = np.nextafter(price[0, 0], dtype(20.0))  # as sums of prices give it
    celsius = 20 + 5 * a
    weights = rng.standard_normal((3, 2)).astype(dtype)
    low = rng.standard_normal((5, 2)) @ rng.standard_normal((2, 9))
    ms, seconds = 1.7e12 + 8.64e7 * day, 1.6e9 + 2**20 * day
    yield "random", X, 3
    yield "Unix times in ms", np.hstack([ms, X]), 4
    yield "Unix times in ns", np.hstack([1e6 * ms, X]), 4
    yield "Unix times in ns and one-hot columns", np.hstack([1e6 * ms, hot]), 5
    yield "Unix times and an intercept", np.hstack([one, 1.7e12 + 8.64e10 * day, X]), 5
    yield "Unix times in s and in ms", np.hstack([seconds, 1e3 * seconds]), 1
    yield "one-hot columns and an intercept", np.hstack([one, hot]), 4
    yield "two one-hot factors", np.hstack([hot, cold]), 6
    yield "two one-hot factors, an intercept, features", np.hstack([one, hot, cold, X]), 9
    yield "interactions of one-hot factors", np.hstack([one, first, second, pairs]), 12
    yield "a duplicated column", np.hstack([X, a]), 3
    yield "a duplicated column in other units", np.hstack([X, tiny * a]), 3
    yield "a column of zeros", np.hstack([X, 0 * one]), 3
    yield "a column of zeros plus rounding", np.hstack([X, small * a + b - b - small * a]), 3
    yield "0.1 + 0.2 - 0.3", np.hstack([X, (one * dtype(0.1) + dtype(0.2)) - small]), 3
    yield "a constant, centred", np.hstack([10 * X, price - mean]), 3
    yield "centred one-hot columns", hot - hot.mean(axis=0), 3
    yield "centred features", X - X.mean(axis=0), 3
    yield "a sum of columns", np.hstack([X, a + b]), 3
    yield "combinations of columns", np.hstack([X, X @ weights]), 3
    yield "a mean of columns in other units", np.hstack([X, large * (a + c) / 2]), 3
    yield "Celsius and Fahrenheit", np.hstack([one, celsius, 32 + dtype(1.8) * celsius]), 2
    yield "polynomials", np.hstack([t**k for k in range(5)]), 5
    yield "polynomials of large numbers", np.hstack([(1000 * (t + 1)) ** k for k in range(4)]), 4
    yield "rows scaled wildly", wild * np.hstack([X, a]), 3
    yield "rows and columns scaled wildly", wild * np.hstack([one, X]) * units, 4
    yield "more columns than rows", X.T, 3
    yield "low rank, wide", low.astype(dtype), 2
    yield "cents and euros", np.hstack([a, 100 * a, b, c]), 3
    yield "nothing", 0 * X, 0


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_planted_rank_is_found(dtype, is_sparse, count):
    names, unknown = [], 0
    for what, A, rank in matrices(dtype):
        A = A.astype(dtype)
        b = np.random.default_rng(2).standard_normal(len(A)).astype(dtype)
        lower = tb.LeastSquares(scipy.sparse.csr_array(A) if is_sparse else A, b)
        assert lower.rank in (rank, None), what  # not None but for columns of rounding errors
        unknown += lower.rank is None
        domains = (tb.Space(), tb.Ball(1e15), tb.Box(-1e15, 1e15))
        for domain in domains[len(names) % count(3, 1) :: count(3, 1)]:  # in turn, or all
            problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
            result = tb.solve(problem, "exact")
            assert result.status in ANSWERED, (what, domain, result.message)
            assert result.findings.rank == rank, (what, domain)
            assert result.dimension == A.shape[1] - rank, (what, domain)
        names.append(what)
    assert len(set(names)) == 30
    assert unknown <= 3


def test_a_rank_that_rounding_decides_has_two_readings():
    """Times 1 ms apart beside an intercept: 1e-11 of their size is what tells them apart."""
    t = 1.7e12 + np.arange(60.0)[:, None]
    A, b = np.hstack([np.ones((60, 1)), t]), np.arange(60.0)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b)), "exact")
    assert result.status == "undetermined"
    assert not result.success
    low, high = result.findings.upper_range
    assert low < 1e-10
    assert high == pytest.approx(0.5 * (1.7e12**2 + 1.0), rel=1e-2)  # b = t - 1.7e12


# --- answers --------------------------------------------------------------------------------------


def with_times(factor):
    """Unix times beside three features: the matrix, right sides, labels, the best x of all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    A = np.column_stack([factor * (1.7e12 + 8.64e7 * np.arange(200)), X])
    b = X @ [1.0, -2.0, 0.5] + 0.01 * rng.standard_normal(200)
    y = np.sign(X[:, 0] + 0.8 * rng.standard_normal(200))
    units = 1.0 / np.linalg.norm(A, axis=0)
    return A, b, y, units * np.linalg.lstsq(A * units, b, rcond=None)[0]


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize(
    ("upper", "domain"),
    [
        (tb.SquaredNorm(), tb.Space()),
        (tb.SquaredNorm(), tb.Ball(100.0)),
        (tb.SquaredNorm(), tb.Box(-50.0, 50.0)),
        (tb.SquaredNorm(), tb.Halfspace([0.0, 1.0, 1.0, 1.0], 50.0)),
        (tb.L1(), tb.Space()),
        (tb.L1(), tb.Box(-50.0, 50.0)),
    ],
)
def test_a_column_of_times_does_not_hide_the_features(factor, upper, domain):
    A, b, _, x = with_times(factor)
    result = tb.solve(tb.Problem(upper=upper, lower=tb.LeastSquares(A, b), domain=domain))
    assert result.status in ANSWERED
    assert result.dimension == 0
    assert result.lower_value == pytest.approx(0.5 * np.sum((A @ x - b) ** 2), rel=1e-9)
    size = np.linalg.norm(A, axis=0)
    np.testing.assert_allclose(size * result.x, size * x, atol=1e-9 * np.max(size * np.abs(x)))


@pytest.mark.parametrize("domain", [tb.Space(), tb.Ball(100.0), tb.Box(-50.0, 50.0)])
def test_a_column_of_times_in_a_logistic_loss(domain):
    A, _, y, _ = with_times(1.0)
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.Logistic(A, y), domain=domain))
    assert result.status in ANSWERED
    size = np.linalg.norm(A, axis=0)
    pull = 1.0 / (1.0 + np.exp(y * (A @ result.x)))
    assert np.max(np.abs((y * pull) @ (A / size))) <= 1e-9


def test_ties_beside_a_column_of_times_are_broken_as_f_says():
    """Two equal columns of times and two equal features share what one of them would have."""
    A, b, _, x = with_times(1.0)
    lower = tb.LeastSquares(np.hstack([A, A[:, :2]]), b)
    wanted = np.append(x, x[:2])
    wanted[[0, 1, 4, 5]] *= 0.5
    for domain in (tb.Space(), tb.Ball(100.0), tb.Box(-50.0, 50.0)):
        result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain))
        assert result.status in ANSWERED
        assert result.dimension == 2
        assert result.upper_value == pytest.approx(0.5 * wanted @ wanted, rel=1e-12)
        np.testing.assert_allclose(result.x, wanted, atol=1e-12)


def test_proofs_with_columns_of_all_sizes_are_never_wrong(count):
    """Intervals of f* and g* contain them: orthogonal columns, whose answers are known exactly."""
    H = np.array([[1.0, 1.0], [1.0, -1.0]])
    H = np.kron(np.kron(H, H), H)[:, :5]
    for seed in range(count(8, 200)):
        rng = np.random.default_rng(seed)
        units = drawn_units(rng, 5, 0)
        b = rng.integers(-8, 9, 8).astype(float)
        u = (H.T @ b) / 8.0  # exact: whole numbers over powers of two
        f_best = float(sum(Fraction(v) ** 2 for v in u) / 2)
        g_best = float(sum(Fraction(v) ** 2 for v in b - H @ u) / 2)
        lower, upper = tb.LeastSquares(H * units, b), tb.LeastSquares(np.diag(units), np.zeros(5))
        assert lower.growth <= 8.0 * np.min(units) ** 2
        for domain in (tb.Space(), tb.Box(-100.0 / units, 100.0 / units)):
            problem = tb.Problem(upper=upper, lower=lower, domain=domain)
            result = tb.solve(problem, "exact")
            assert result.success
            assert result.dimension == 0
            assert result.upper_optimum[0] <= f_best <= result.upper_optimum[1], seed
            assert result.lower_optimum[0] <= g_best <= result.lower_optimum[1], seed
            np.testing.assert_allclose(units * result.x, u, atol=1e-12)


def weighted_minimiser(A, b, weights):
    """The minimiser of |W(Ax - b)|², in fractions."""
    n = A.shape[1]
    rows = [[Fraction(v) for v in (*a, beta)] for a, beta in zip(A, b, strict=True)]
    squares = [Fraction(w) ** 2 for w in weights]
    system = [
        [sum(w * row[i] * row[j] for w, row in zip(squares, rows, strict=True)) for j in range(n)]
        + [sum(w * row[i] * row[n] for w, row in zip(squares, rows, strict=True))]
        for i in range(n)
    ]
    for i in range(n):  # positive definite: no pivoting
        system[i] = [v / system[i][i] for v in system[i]]
        for k in range(n):
            if k != i:
                factor = system[k][i]
                system[k] = [v - factor * p for v, p in zip(system[k], system[i], strict=True)]
    return [row[n] for row in system]


def test_weights_of_rows_do_not_spoil_a_proof_nor_make_a_wrong_one(count):
    """Systems that can be met but for rounding, or not even nearly: x* in fractions."""
    tight = 0
    for seed in range(count(16, 400)):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 5))
        m = int(rng.integers(n + 1, 2 * n + 3))
        A, inside = rng.standard_normal((m, n)), rng.uniform(0.2, 1.0, n)
        noise = 10.0 ** rng.uniform(-16, 0) if seed % 2 else 0.0
        b = A @ inside + noise * rng.standard_normal(m)
        weights = drawn_units(rng, m, 0)
        if seed % 5 == 0:  # a heavy row twice, but for rounding
            A[1], b[1] = A[0] / 3.0, b[0] / 3.0
            weights[:2] = 2.0**31
        best = weighted_minimiser(A, b, weights)
        f_best = sum(v * v for v in best) / 2
        lower = tb.LeastSquares(weights[:, None] * A, weights * b)
        domain = tb.Box(-1e3, 1e3) if seed % 3 else tb.Space()
        problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain)
        found = rescaled.WeightedEquations.of(problem, 1.0 / weights)
        for off in (0.0, 1e-12, 1e-6, 1e-2):  # bad points make wide bounds, no wrong ones
            x = np.array([float(v) for v in best]) + off * rng.standard_normal(n)
            away = sum((v - Fraction(u)) ** 2 for v, u in zip(best, x, strict=True))
            assert away <= Fraction(min(found.distance(x), 1e100)) ** 2, (seed, off)
        result = tb.solve(problem, "exact")
        if max(map(abs, best)) < 1000:
            assert result.upper_optimum[0] <= f_best <= result.upper_optimum[1], seed
        tight += noise == 0.0 and result.status == "certified"
    assert tight >= count(6, 150)


# --- the tools ------------------------------------------------------------------------------------


def test_equilibrated_rows_and_columns_are_alike():
    rng = np.random.default_rng(4)
    A = rng.standard_normal((30, 20)) * 2.0 ** rng.uniform(-300, 300, 20)
    A *= 2.0 ** rng.uniform(-300, 300, 30)[:, None]
    A[3], A[:, 5] = 0.0, 0.0
    r, c = spectra.equilibrate(A)
    largest = np.abs(r[:, None] * A * c)
    assert np.min(largest.max(axis=0)[np.arange(20) != 5]) > 0.2
    assert np.min(largest.max(axis=1)[np.arange(30) != 3]) > 0.2
    assert largest.max() < 4.0
    assert np.all(np.frexp(np.append(r, c))[0] == 0.5)
    for same in (rng.standard_normal((30, 20)), np.zeros((3, 2)), np.zeros((0, 2))):
        assert all(np.all(part == 1.0) for part in spectra.equilibrate(same))


def test_rounding_errors_are_no_features_but_whole_numbers_and_full_mantissas_are():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 3))
    for column, is_feature in [
        ((0.1 + 0.2 - 0.3) * np.ones(50), False),
        (
            X @ [1.0, 2.0, 3.0] - X @ [0.5, 1.0, 1.5] * 2.0 + 2.0**-53 * rng.integers(-3, 4, 50),
            False,
        ),
        (1e-17 * rng.standard_normal(50), True),
        (1e-9 * X[:, 0], True),
        (np.ones(50), True),
    ]:
        assert spectra.cleaned(np.column_stack([X, column]))[:, 3].any() == is_feature
    assert spectra.cleaned(np.column_stack([1e18 * X, np.ones(50)]))[:, 3].any()
    assert spectra.cleaned(X) is X


def test_primes_of_the_exact_rank_are_drawn_and_no_fixed_set_fools_it():
    """A determinant that is a multiple of seven primes below 2^31, among them once fixed ones."""
    primes = [2147483629, 2147483587, 2147483579, 2147483563, 2147483549, 2147483543, 2147483497]
    A = np.diag(np.array(primes) * 2.0**-40) + np.diag(np.ones(6), 1)
    assert spectra.exact_rank(A) == spectra.exact_rank(A.copy()) == 7
    assert tb.LeastSquares(A, np.ones(7)).growth == 0.0  # nor is it a singular matrix of rank 6
    for seed in range(20):
        p = spectra._prime(np.random.default_rng(seed))
        assert 2**30 < p < 2**31
        assert all(p % k for k in range(2, 50_000))
