"""Eigenvalues and ranks: bounds that hold, not estimates that usually do."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiebreak import arrays, deadline
from tiebreak.arrays import Array

# Below 2^31, so that products of residues fit into 64 bits.
PRIMES = (2147483629, 2147483587, 2147483579, 2147483563, 2147483549, 2147483543, 2147483497)


def extreme_eigenvalues(
    apply: Callable[[Array], Array], prototype: Array, n: int, steps: int = 100
) -> tuple[float, float]:
    """Smallest and largest Ritz value of a symmetric operator after ``steps`` Lanczos steps.

    Both lie inside the spectrum: the largest is a *lower* estimate of the largest eigenvalue.
    From a random start (fixed seed, so that runs repeat), memory of three vectors.
    """
    start = arrays.like(np.random.default_rng(20240208).standard_normal(n), prototype)
    v, previous, beta = start / arrays.norm(start), arrays.zeros_like(start), 0.0
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(steps, n)):
        deadline.check()
        w = apply(v)
        alpha = arrays.dot(w, v)
        w = w - alpha * v - beta * previous
        diagonal.append(alpha)
        beta = arrays.norm(w)
        if not math.isfinite(beta) or beta <= arrays.epsilon(v) * max(map(abs, diagonal)):
            break
        beside.append(beta)
        v, previous = w / beta, v
    inner = beside[: len(diagonal) - 1]
    ritz = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(inner, 1) + np.diag(inner, -1))
    return float(ritz[0]), float(ritz[-1])


def largest_eigenvalue_bound(
    apply: Callable[[Array], Array], prototype: Array, n: int, steps: int = 100
) -> float:
    """An upper bound on the largest eigenvalue of a positive semidefinite operator.

    After k Lanczos steps from a random start the largest Ritz value theta satisfies
    lambda_max <= theta / (1 - eps), sqrt(eps) = ln(1.648 sqrt(n) / delta) / (2k - 1), with
    probability at least 1 - delta (Kuczynski and Wozniakowski, SIAM J. Matrix Anal. Appl. 1992,
    theorem 4.2); delta = 1e-10 here.
    """
    _, theta = extreme_eigenvalues(apply, prototype, n, steps)
    rounding = 1.0 + 64 * arrays.epsilon(prototype)
    share = (math.log(1.648 * math.sqrt(n) / 1e-10) / (2 * steps - 1)) ** 2
    return theta * rounding / (1.0 - share)


def exact_rank(A: np.ndarray[Any, Any]) -> int:
    """The rank of the numbers as they are stored: elimination modulo two primes.

    A float is an integer times a power of two, so it has a residue modulo an odd prime. The rank of
    the residues is at most the true one, and smaller only by an accident, of probability about
    n/2^31 for each of the two primes, which are drawn by the data themselves. Singular values
    cannot tell an exact zero from 1e-17.
    """
    draw = int.from_bytes(hashlib.blake2b(A.tobytes(), digest_size=8).digest(), "big")
    first = draw % len(PRIMES)
    second = (first + 1 + draw // 7 % (len(PRIMES) - 1)) % len(PRIMES)
    return max(_rank_modulo(A, PRIMES[first]), _rank_modulo(A, PRIMES[second]))


def _rank_modulo(A: np.ndarray[Any, Any], prime: int) -> int:
    """The rank of A's residues modulo a prime, by elimination."""
    deadline.check()
    mantissa, exponent = np.frexp(A)
    power = exponent - int(exponent.min(initial=0))
    powers = np.array([pow(2, int(k), prime) for k in range(int(power.max(initial=0)) + 1)])
    rest = (mantissa * 2.0**53).astype(np.int64) % prime * powers[power] % prime
    deadline.check()
    if rest.shape[0] < rest.shape[1]:
        rest = rest.T.copy()
    rank = 0
    for column in range(rest.shape[1]):
        deadline.check()
        found = np.flatnonzero(rest[rank:, column])
        if not found.size:
            continue
        pivot = rank + int(found[0])
        rest[[rank, pivot]] = rest[[pivot, rank]]
        row = rest[rank] * pow(int(rest[rank, column]), -1, prime) % prime
        rest[rank + 1 :] = (rest[rank + 1 :] - rest[rank + 1 :, column, None] * row) % prime
        rank += 1
        if rank == rest.shape[0]:
            break
    return rank
