"""Ten problems that every kind of matrix must solve alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tiebreak as tb
from tiebreak.linalg import arrays

STEPS = 25


class Data(NamedTuple):
    """The matrices and vectors of a problem."""

    A: np.ndarray
    b: np.ndarray
    C: np.ndarray
    c: np.ndarray
    L: tuple[float, float]  # Lipschitz constants of f and g


def drawn(seed: int, rows: int, upper_rows: int, n: int, rank: int | None = None) -> Data:
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, n)) / np.sqrt(n)
    A[np.abs(A) < 0.05] = 0.0  # so that sparse is sparse
    if rank is not None:
        A = rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, n)) / n
    C = rng.standard_normal((upper_rows, n)) / np.sqrt(n)
    b, c = rng.standard_normal(rows), rng.standard_normal(upper_rows)
    return Data(A, b, C, c, tuple(float(np.linalg.norm(M, 2)) ** 2 for M in (C, A)))


def signs(b: np.ndarray) -> np.ndarray:
    return np.where(b >= 0.0, 1.0, -1.0)


def squares(A: Any, b: Any, L: float) -> Any:
    if hasattr(A, "squares"):  # rows in workers, which hold b too
        return A.squares(b, L)
    return tb.LeastSquares(A, b, gram=False, lipschitz=L)


def logistic(A: Any, b: Any, L: float) -> Any:
    if hasattr(A, "logistic"):
        return A.logistic(b, L / 4)
    return tb.Logistic(A, b, mean=False, lipschitz=L / 4)


def both(data: Data, of: Callable[[np.ndarray, str], Any], upper: Any, lower: Any) -> Any:
    """f and g with their matrices in the library and kind that ``of`` makes."""
    f_c, g_b = (signs(v) if loss is logistic else v for v, loss in zip((data.c, data.b), (upper, lower), strict=True))  # fmt: skip  # noqa: E501
    f = None if upper is None else upper(of(data.C, "C"), f_c, data.L[0])
    return f, lower(of(data.A, "A"), g_b, data.L[1])


def problem(number: int, of: Callable[[np.ndarray, str], Any]) -> tb.Problem:
    """The ten problems; none has a curvature that only entries show, for an operator has none."""
    wide, tall, poor = (
        drawn(number, *size) for size in ((20, 9, 30), (50, 9, 12, 7), (25, 10, 30, 6))
    )
    if number == 0:
        f, g = both(wide, of, squares, squares)
        return tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    if number == 1:
        _, g = both(wide, of, None, squares)
        grows = tb.ErrorBound(order=2.0, modulus=0.1, gradient_bound=10.0)
        return tb.Problem(upper=tb.SquaredNorm(), lower=g, error_bound=grows)
    if number == 2:
        f, g = both(tall, of, squares, logistic)
        return tb.Problem(upper=f, lower=g, domain=tb.Box(-1.0, 1.0))
    if number == 3:
        f, g = both(poor, of, squares, squares)
        return tb.Problem(upper=f, lower=g, domain=tb.Simplex(2.0))
    if number == 4:
        f, g = both(poor, of, logistic, squares)
        return tb.Problem(upper=f, lower=g, domain=tb.L1Ball(1.0))
    if number == 5:
        f, g = both(wide, of, logistic, logistic)
        return tb.Problem(upper=f, lower=g, domain=tb.Ball(2.0))
    if number == 6:
        f, g = both(tall, of, squares, squares)
        return tb.Problem(upper=f, lower=g + tb.L1(0.1), domain=tb.Ball(3.0))
    if number == 7:
        f, g = both(poor, of, squares, squares)
        return tb.Problem(upper=f + tb.ElasticNet(0.1, 0.1), lower=g, domain=tb.Box(-2.0, 2.0))
    if number == 8:
        f, g = both(wide, of, squares, squares)
        return tb.Problem(upper=0.5 * f + tb.SquaredNorm(), lower=3.0 * g, domain=tb.Orthant())
    f, g = both(wide, of, squares, squares)
    return tb.Problem(upper=f, lower=g, domain=tb.Monotone())


def solved(number: int, method: str, of: Callable[[np.ndarray, str], Any]) -> tb.Result:
    made = problem(number, of)
    if method == "paper":
        method = "agm-bio" if made.is_smooth else "p-agm-bio"
    return tb.solve(made, method, rtol=0.0, max_iter=STEPS)


TRUTH: dict[tuple[int, str], tb.Result] = {}


def truth(number: int, method: str) -> tb.Result:
    """What NumPy gives."""
    key = (number, method)
    if key not in TRUTH:
        TRUTH[key] = solved(number, method, lambda A, name: A)
    return TRUTH[key]


def difference(found: tb.Result, expected: tb.Result) -> tuple[float, float]:
    """How far apart the certificates are, over the sizes of the levels, and the points."""
    assert (found.status, found.nit) == (expected.status, expected.nit)
    x = arrays.to_numpy(found.x)
    far = float(np.linalg.norm(x - expected.x) / np.linalg.norm(expected.x))
    apart = 0.0
    for level in ("upper", "lower"):
        size = max(abs(v) for v in (getattr(expected, f"{level}_value"), getattr(expected.trace[0], f"{level}_value")))  # fmt: skip  # noqa: E501
        for what in ("value", "gap"):
            pair = [getattr(result, f"{level}_{what}") for result in (found, expected)]
            if not np.isinf(pair).all():
                apart = max(apart, abs(pair[0] - pair[1]) / size)
    return apart, far
