"""Bounds on eigenvalues, and ranks that rounding errors cannot change."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array, Host
from tiebreak.linalg.host import binary_digits, finite_power, power_of_two
from tiebreak.linalg.tolerances import TOL

EPS = 2.0**-52
FEW_UNITS = 64  # rounding errors have at most this many units in the last place of a number
PANEL = 32  # columns eliminated together: sums of 32 products below 2^47 are exact
CHUNK = 4096  # rows that are combined at a time
MOST_RANKS = 1000  # ranks to cache
WHOLE_BITS = 30  # integers up to 2^30 are their own residues modulo larger primes


def extreme_eigenvalues(
    apply: Callable[[Array], Array], prototype: Array, n: int, steps: int = 100
) -> tuple[float, float]:
    """Smallest and largest Ritz value of a symmetric operator after ``steps`` Lanczos steps.

    Both Ritz values lie inside the spectrum: the largest is a *lower* estimate of the largest
    eigenvalue. The starting vector is random, with a fixed seed so that runs are repeatable. The
    method stores three vectors.
    """
    start = arrays.like(np.random.default_rng(20240208).standard_normal(n), prototype)
    v, previous, beta = start / arrays.norm(start), arrays.zeros_like(start), 0.0
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(min(steps, n)):
        deadline.check()
        w = apply(v)
        alpha = arrays.dot(w, v)
        w = w - alpha * v - beta * previous
        diagonal.append(alpha)
        beta = arrays.norm(w)
        if not math.isfinite(beta) or beta <= arrays.epsilon(v) * max(map(abs, diagonal)):
            break
        off_diagonal.append(beta)
        v, previous = w / beta, v
    inner = off_diagonal[: len(diagonal) - 1]
    ritz = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(inner, 1) + np.diag(inner, -1))
    return float(ritz[0]), float(ritz[-1])


def largest_eigenvalue_bound(
    apply: Callable[[Array], Array], prototype: Array, n: int, steps: int = 100
) -> float:
    """An upper bound on the largest eigenvalue of a positive semidefinite operator.

    After k Lanczos steps from a random start, the largest Ritz value theta satisfies
    lambda_max <= theta / (1 - eps), except with probability delta (Kuczynski and Wozniakowski 1992,
    theorem 4.2). Here sqrt(eps) = ln(1.648 sqrt(n) / delta) / (2k - 1), and delta = 1e-10.
    """
    _, theta = extreme_eigenvalues(apply, prototype, n, steps)
    rounding = 1.0 + 64 * arrays.epsilon(prototype)
    share = (math.log(1.648 * math.sqrt(n) / 1e-10) / (2 * steps - 1)) ** 2
    return theta * rounding / (1.0 - share)


# --- factors of small matrices --------------------------------------------------------------------


def eigenvalues(S: Host) -> Host:
    """The eigenvalues of a symmetric matrix, ascending; for a diagonal matrix, its entries."""
    is_diagonal = np.count_nonzero(S) == np.count_nonzero(np.diag(S))
    return np.sort(np.diag(S)) if is_diagonal else np.linalg.eigvalsh(S)


def norm_bound(A: Any) -> float:
    """A bound on |A|, apart from rounding errors, for a dense or sparse matrix on the host.

    The bound is |A|_F or sqrt(|A|_1 |A|_inf), whichever is smaller; the latter is exact if no row
    or column has two entries.
    """
    sizes = abs(A)
    sums = (np.asarray(sizes.sum(axis=axis)) for axis in (0, 1))
    down, across = (math.sqrt(np.max(some, initial=0.0)) for some in sums)
    stored = A.data if arrays.is_sparse(A) else np.ravel(A)
    return min(down * across, arrays.norm(stored))


def singular(A: Host, whole: bool = False) -> tuple[Host, Host]:
    """Singular values, descending, and right singular vectors as rows, all of them if ``whole``.

    No SVD is needed if no row or column has more than one nonzero entry: then the singular values
    are the sizes of the entries, and the singular vectors are unit vectors.
    """
    m, n = A.shape
    is_single = m >= n and all(np.max(np.count_nonzero(A, axis=k), initial=0) <= 1 for k in (0, 1))
    if not is_single:
        return np.linalg.svd(A, full_matrices=whole)[1:]
    sizes = np.max(np.abs(A), axis=0, initial=0.0)
    order = np.argsort(-sizes, kind="stable")
    return sizes[order], np.eye(n)[order]


def semidefinite_root(Q: Host, slack: float) -> tuple[Host, Host, Host]:
    """Roots, a basis with orthonormal rows, and units: Q = R'R, R = diag(roots) basis diag(units).

    R has as many rows as the rank of Q, which is decided in units that make the diagonal of Q about
    1, because rank does not depend on units. Eigenvalues up to ``slack`` times the largest are set
    to 0 before taking the root, because the root of a rounding error is not a rounding error.
    """
    deadline.check(0.5 * deadline.svd_work(*Q.shape))
    units = power_of_two(np.abs(np.diag(Q)), 0.5)
    values, vectors = np.linalg.eigh(Q / units / units[:, None])
    kept = values > slack * float(np.max(np.abs(values), initial=0.0))
    basis = np.where(np.diag(Q) > 0.0, vectors.T[kept], 0.0)  # 0 for a variable that is not in Q
    return np.sqrt(values[kept]), basis, units


# --- rank is a decision ---------------------------------------------------------------------------


def equilibrate(A: Host) -> tuple[Host, Host]:
    """Powers of two r and c such that each row and column of r A c has a largest entry near 1.

    Ruiz's iteration (2001) in logarithms: nothing overflows, and each round halves the exponents of
    the largest entries. All r and c are 1 if rows and columns are already comparable.
    """
    with np.errstate(divide="ignore"):
        size = np.log2(np.abs(A))
    r, c = np.zeros(A.shape[0]), -_largest(size, axis=0)  # columns first: their units are arbitrary
    for _ in range(16):
        rows, columns = (_largest(size + r[:, None] + c, axis) for axis in (1, 0))
        if max(np.max(np.abs(rows), initial=0.0), np.max(np.abs(columns), initial=0.0)) < 0.5:
            break
        r, c = r - 0.5 * rows, c - 0.5 * columns
    seen = np.isfinite(size)
    if all(
        np.ptp(part) <= math.log2(TOL.alike)
        for part in (r[seen.any(axis=1)], c[seen.any(axis=0)])
        if len(part)
    ):
        return np.ones(len(r)), np.ones(len(c))
    top = np.round(0.5 * (np.max(c, initial=0.0) + np.min(c, initial=0.0)))
    return finite_power(np.round(r) + top), finite_power(np.round(c) - top)


def _largest(size: Host, axis: int) -> Host:
    """The largest entry of each row or column; 0 if all are -inf."""
    top = np.max(size, axis=axis, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0.0)


def cleaned(A: Host, epsilon: float = EPS, units: Host | None = None) -> Host:
    """A with 0 in place of columns and rows that are only rounding errors, as left by centring.

    A column counts as a rounding error if two conditions hold. Its largest entry is a few units
    (1/64 to 64) in the last place of numbers as large as another column. All its entries are
    multiples of one power of two that is not much smaller than the largest entry, because rounding
    errors have few bits. Whole numbers never count as rounding errors: a column of ones next to one
    of size 1e16 is genuine. Sizes refer to A diag(units), where ``units`` are the units of the
    variables, if known.
    """
    columns = _is_rounding(A, epsilon, np.ones(A.shape[1]) if units is None else units)
    rows = _is_rounding(A.T, epsilon, np.ones(A.shape[0]))
    if not (columns.any() or rows.any()):
        return A
    return np.where(columns | rows[:, None], 0.0, A)


def _is_rounding(A: Host, epsilon: float, units: Host) -> Host:
    """Which columns of A look like rounding errors of numbers as large as another column."""
    size = np.max(np.abs(A), axis=0, initial=0.0) * units
    last_places = epsilon * np.sort(size)
    found = np.zeros(len(size), dtype=bool)
    for j in np.flatnonzero(
        (size > 0.0) & (size <= FEW_UNITS * epsilon * np.max(size, initial=0.0))
    ):
        exponents, digits = binary_digits(A[A[:, j] != 0.0, j])
        # The largest power of two that divides all entries.
        unit = math.ldexp(1.0, int(np.min(exponents - digits)))
        place = last_places[np.searchsorted(last_places, size[j] / FEW_UNITS)]
        is_coarse = unit < 1.0 and size[j] <= FEW_UNITS**3 * unit * units[j]
        found[j] = is_coarse and place <= FEW_UNITS * size[j]
    return found


def rounding_level(shape: tuple[int, int], largest: float, epsilon: float) -> float:
    """The level up to which singular values count as rounding errors; the largest is ``largest``.

    Computing singular values in double precision causes errors of up to max(m, n) EPS largest. A
    relative rounding error ``epsilon`` in each entry of A causes errors of up to epsilon |A|_F,
    with |A|_F² <= min(m, n) largest². The level is the larger of the two.
    """
    return max(max(shape) * EPS, math.sqrt(min(shape)) * epsilon) * largest


def clear_rank(sigma: Host, shape: tuple[int, int], epsilon: float) -> tuple[int, int]:
    """How many singular values certainly exceed rounding errors, and how many may exceed them."""
    noise = rounding_level(shape, float(np.max(sigma, initial=0.0)), epsilon)
    clear = int(np.count_nonzero(sigma > TOL.clear_units * noise))
    return clear, int(np.count_nonzero(sigma > noise))


def exact_rank(A: Host) -> int | None:
    """The rank of a matrix with its numbers as stored, by elimination modulo two primes.

    The result is None if elimination would take more than a few seconds.

    Every float is an integer times a power of two, and so has a residue modulo an odd prime. The
    rank of the residues is at most the true rank. It is smaller only by accident, with probability
    about n/2^30 for each of the two primes. The primes are drawn from those between 2^30 and 2^31,
    with the data as seed. Singular values, by contrast, cannot tell an exact zero from 1e-17.

    The ranks of some recent matrices are cached.
    """
    # 2^30 products of residues take a few seconds in NumPy.
    if A.size * min(A.shape) > 2**30:
        return None
    deadline.check()
    salt = b"".join(length.to_bytes(8, "little") for length in A.shape)
    seed = hashlib.blake2b(np.ascontiguousarray(A).data, digest_size=32, salt=salt).digest()
    found = _RANKS.get(seed)
    if found is None:
        draw = np.random.default_rng(list(seed))
        found = max(_rank_modulo(A, _prime(draw)) for _ in range(2))
        if len(_RANKS) >= MOST_RANKS:
            _RANKS.clear()
        _RANKS[seed] = found
    return found


_RANKS: dict[bytes, int] = {}  # ranks by the digests of the matrices


def _prime(draw: np.random.Generator) -> int:
    """A prime between 2^30 and 2^31, so that products of residues fit in 64 bits."""
    while True:
        candidate = int(draw.integers(2**30, 2**31)) | 1
        if all(_may_be_prime(candidate, base) for base in (2, 3, 5, 7)):
            return candidate


def _may_be_prime(n: int, base: int) -> bool:
    """The Miller-Rabin test, which is a proof below 3.2e9 with the bases 2, 3, 5 and 7."""
    twos = ((n - 1) & (1 - n)).bit_length() - 1
    power = pow(base, (n - 1) >> twos, n)
    if power in (1, n - 1):
        return True
    return any((power := power * power % n) == n - 1 for _ in range(twos - 1))


def _rank_modulo(A: Host, prime: int) -> int:
    """The rank of A's residues modulo a prime."""
    deadline.check()
    if A.shape[0] < A.shape[1]:
        A = A.T
    # If there are many more rows than columns, most rows are combinations of a few.
    if len(A) > 8 * A.shape[1]:
        return _tall_rank(A, prime)
    return _square_rank(_residues(A, prime), prime)


def _residues(A: Host, prime: int) -> Host:
    """Integers of either sign, smaller than ``prime`` and congruent modulo it to A's entries.

    Small integers are their own residues. Other entries are integers of 53 bits times a power of
    two.
    """
    if np.all((np.abs(A) <= 2.0**WHOLE_BITS) & (np.rint(A) == A)):
        return A.astype(np.int64)
    mantissa, exponent = np.frexp(A)
    exponent -= 53
    low, high = int(exponent.min(initial=0)), int(exponent.max(initial=0))
    powers = np.array([pow(2, k, prime) for k in range(low, high + 1)])
    whole = (mantissa * 2.0**53).astype(np.int64)
    return np.asarray(whole % prime * powers[exponent - low] % prime)


def _tall_rank(A: Host, prime: int) -> int:
    """The rank of many rows, from a few more random combinations of the rows than A has columns.

    As long as the rank is not reached, each combination is independent of those before it, except
    with a probability of at most 2^-10: a nonzero linear function vanishes at random 10-bit numbers
    no more often. So with n + 8 combinations the rank is that of A, unless 9 combinations fail,
    again with probability below n/2^30. A residue times a 10-bit number is below 2^41, and a sum of
    4096 such products is exact in float64. If some rows already have full rank, no more rows are
    needed.
    """
    n = A.shape[1]
    some = A[np.linspace(0, len(A) - 1, 2 * n).astype(np.int64)]
    if (rank := _square_rank(_residues(some, prime), prime)) == n:
        return rank
    draw, total = np.random.default_rng(prime), np.zeros((n + 8, n), dtype=np.int64)
    for first in range(0, len(A), CHUNK):
        deadline.check()
        rows = _residues(A[first : first + CHUNK], prime).astype(np.float64)
        factors = draw.integers(0, 2**10, (n + 8, len(rows))).astype(np.float64)
        total += (factors @ rows).astype(np.int64) % prime
    return _square_rank(total, prime)


def _square_rank(rest: Host, prime: int) -> int:
    """The rank of a matrix of residues, by elimination of a few columns at a time.

    The columns of a panel are eliminated one by one, and the multipliers L are stored in the pivot
    columns. All other columns follow by a triangular solve for the k pivot rows and a matrix
    product for the rest.
    """
    rest, rank = rest % prime, 0
    while rest.size:
        deadline.check()
        panel, rest = rest[:, :PANEL], rest[:, PANEL:]
        pivots: list[int] = []
        for column in range(panel.shape[1]):
            k = len(pivots)
            found = np.flatnonzero(panel[k:, column])
            if not found.size:
                continue
            pair, swapped = [k, k + int(found[0])], [k + int(found[0]), k]
            panel[pair], rest[pair] = panel[swapped], rest[swapped]
            factors = panel[k + 1 :, column] * pow(int(panel[k, column]), -1, prime) % prime
            later = panel[k + 1 :, column + 1 :]
            later[...] = (later - factors[:, None] * panel[k, column + 1 :]) % prime
            panel[k + 1 :, column] = factors
            pivots.append(column)
        L, k = panel[:, pivots], len(pivots)
        for i in range(k):
            rest[i + 1 : k] = (rest[i + 1 : k] - L[i + 1 : k, i, None] * rest[i]) % prime
        rest = (rest[k:] - _times_modulo(L[k:], rest[:k], prime)) % prime
        rank += k
    return rank


def _times_modulo(A: Host, B: Host, prime: int) -> Host:
    """The product A B of residues; A is split into halves of 16 bits, so that sums are exact."""
    high, low, right = A >> 16, A & 0xFFFF, B.astype(np.float64)
    parts = [(half.astype(np.float64) @ right).astype(np.int64) % prime for half in (high, low)]
    return (parts[0] * (1 << 16) + parts[1]) % prime
