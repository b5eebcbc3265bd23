"""Ranks, statuses and answers do not depend on units; planted ranks are found."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import tiebreak as tb

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


def test_units_change_neither_status_nor_values_nor_the_point(count):
    """Columns of f, g and Z together by 2^-30 to 2^30 or 1e-9 to 1e9, rows of consistent systems."""
    number, proofs, worst = count(36, 300), 0, 0.0
    for seed in range(number):
        name, n, make, is_unique = drawn(seed)
        rng = np.random.default_rng(10_000 + seed)
        units, rows = (drawn_units(rng, size, seed % 2) for size in (n, 3 * n))
        plain = tb.solve(make(np.ones(n), np.ones(3 * n)))
        other = tb.solve(make(units, rows))
        assert plain.success == other.success, (seed, name, plain.status, other.status)
        assert {plain.status, other.status} <= ANSWERED or plain.status == other.status, seed
        proofs += plain.status != other.status
        if not plain.success:
            continue
        assert plain.dimension == other.dimension, (seed, name)
        f_tolerance, g_tolerance = (
            max(a, b) for a, b in zip(plain.tolerance, other.tolerance, strict=True)
        )
        assert abs(plain.upper_value - other.upper_value) <= f_tolerance, (seed, name)
        if "consistent" not in name:  # rows reweight the value, though not its minimisers
            assert abs(plain.lower_value - other.lower_value) <= g_tolerance, (seed, name)
        if is_unique and plain.findings is not None and other.findings is not None:
            error = np.max(np.abs(units * other.x - plain.x)) / np.max(np.abs(plain.x))
            worst = max(worst, error)
            assert error <= 1e-5, (seed, name, error)
    print(
        f"\n{number} problems in other units: same success, dimension and values; x to {worst:.1e};"
        f" {proofs} proved in one of the units only"
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
    day = np.arange(m, dtype=np.float64)[:, None]
    hot, cold = one_hot(rng, m, 4).astype(dtype), one_hot(rng, m, 3).astype(dtype)
    pairs = np.eye(12)[rng.permutation(np.r_[np.arange(12), rng.integers(0, 12, m - 12)])]
    pairs = pairs.astype(dtype)
    first, second = pairs.reshape(m, 4, 3).sum(axis=2), pairs.reshape(m, 4, 3).sum(axis=1)
    t = np.linspace(-1.0, 1.0, m)[:, None].astype(dtype)
    constant = np.full((m, 1), 0.1, dtype)
    wild = (10.0 ** rng.uniform(-6, 6, (m, 1))).astype(dtype)
    tiny = dtype(2.0**-60 if dtype is np.float64 else 2.0**-40)
    weights = rng.standard_normal((3, 2)).astype(dtype)
    yield "random", X, 3
    yield "Unix times in ms", np.hstack([1.7e12 + 8.64e7 * day, X]), 4
    yield "Unix times in ns", np.hstack([1.7e18 + 8.64e13 * day, X]), 4
    yield "Unix times in ns and one-hot columns", np.hstack([1.7e18 + 8.64e13 * day, hot]), 5
    yield "Unix times and an intercept", np.hstack([one, 1.7e12 + 8.64e10 * day, X]), 5
    yield (
        "Unix times in s and in ms",
        np.hstack([1.6e9 + day * 2**20, (1.6e9 + day * 2**20) * 1e3]),
        1,
    )
    yield "one-hot columns and an intercept", np.hstack([one, hot]), 4
    yield "two one-hot factors", np.hstack([hot, cold]), 6
    yield "two one-hot factors, an intercept, features", np.hstack([one, hot, cold, X]), 9
    yield "interactions of one-hot factors", np.hstack([one, first, second, pairs]), 12
    yield "a duplicated column", np.hstack([X, X[:, :1]]), 3
    yield "a duplicated column in other units", np.hstack([X, tiny * X[:, :1]]), 3
    yield "a column of zeros", np.hstack([X, 0 * one]), 3
    yield (
        "a column of zeros plus rounding",
        np.hstack([X, (X[:, :1] * dtype(0.3) + X[:, 1:2]) - X[:, 1:2] - X[:, :1] * dtype(0.3)]),
        3,
    )
    yield "0.1 + 0.2 - 0.3", np.hstack([X, (one * dtype(0.1) + dtype(0.2)) - dtype(0.3)]), 3
    yield (
        "a constant, centred",
        np.hstack(
            [
                X,
                constant
                - constant.mean() * dtype(1 + 2**-22 if dtype is np.float32 else 1 + 2**-51),
            ]
        ),
        3,
    )
    yield "centred one-hot columns", centred(hot), 3
    yield "centred features", centred(X), 3
    yield "a sum of columns", np.hstack([X, X[:, :1] + X[:, 1:2]]), 3
    yield "combinations of columns", np.hstack([X, X @ weights]), 3
    yield (
        "a mean of columns beside large ones",
        np.hstack([X, dtype(2.0**20) * (X[:, :1] + X[:, 2:]) / 2]),
        3,
    )
    yield (
        "Celsius and Fahrenheit",
        np.hstack([one, 20 + 5 * X[:, :1], 32 + dtype(1.8) * (20 + 5 * X[:, :1])]),
        2,
    )
    yield "polynomials", np.hstack([t**k for k in range(5)]), 5
    yield "polynomials of large numbers", np.hstack([(1000 * (t + 1)) ** k for k in range(4)]), 4
    yield "rows scaled wildly", wild * np.hstack([X, X[:, :1]]), 3
    yield (
        "rows and columns scaled wildly",
        wild * np.hstack([one, X]) * np.array([1e6, 1e-6, 1, 1e3], dtype),
        4,
    )
    yield "more columns than rows", rng.standard_normal((5, 9)).astype(dtype), 5
    yield (
        "low rank, wide",
        (rng.standard_normal((5, 2)) @ rng.standard_normal((2, 9))).astype(dtype),
        2,
    )
    yield "cents and euros", np.hstack([X[:, :1], 100 * X[:, :1], X[:, 1:]]), 3
    yield "nothing", 0 * X, 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_planted_rank_is_found(dtype, is_sparse):
    found = []
    for what, A, rank in matrices(dtype):
        A = A.astype(dtype)
        n = A.shape[1]
        b = np.random.default_rng(2).standard_normal(len(A)).astype(dtype)
        lower = tb.LeastSquares(scipy.sparse.csr_array(A) if is_sparse else A, b)
        for domain in (tb.Space(), tb.Box(-1e15, 1e15)):
            result = tb.solve(
                tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=domain), "exact"
            )
            found.append((what, rank, result.findings.rank, result.dimension, result.status))
            assert result.findings.rank == rank, found[-1]
            assert result.status in ANSWERED, found[-1]
            if isinstance(domain, tb.Space):
                assert result.dimension == n - rank, found[-1]
        assert lower.rank == rank, (what, lower.rank)
    assert len(found) >= 2 * 20
