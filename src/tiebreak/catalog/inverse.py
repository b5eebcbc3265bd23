"""Linear inverse problems: some have known answers, some are random, and one is a toy.

Another problem keeps every first-order method far from f* for any given number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tiebreak.catalog.built import Built, Matrix, Vector
from tiebreak.functions import LeastSquares, Quadratic, SquaredNorm
from tiebreak.linalg import checks
from tiebreak.problem import ErrorBound, Problem
from tiebreak.sets import Ball, Domain, Orthant, Space

ORTHANT = Orthant()


def inverse(n: int = 100, seed: int = 0) -> Built:
    """The paper's inverse problem: the vector of least norm with entries >= 0 that sum to one.

        f(x) = ½|x|²,   g(x) = ½(x_1 + ... + x_n - 1)²,   Z = R^n_+
        x* = (1/n, ..., 1/n),   f* = 1/(2n),   g* = 0,   L_f = 1,   L_g = n

    The minimisers of g form the simplex, whose dimension is n - 1. The error bound has order 2 and
    modulus 1, as follows. Let s be the sum of the entries of x >= 0. If s >= 1, some y in the
    simplex has y <= x, and |x - y| <= |x - y|_1 = s - 1; otherwise y = x + (1-s)/n has |x - y| =
    (1-s)/sqrt(n).

    Args:
        n: the number of variables.
        seed: the seed for the starting point, which is uniform in [0, 1]^n.
    """
    return Built(
        label=f"inverse problem, n = {n}",
        problem=Problem(
            upper=SquaredNorm(),
            lower=LeastSquares(np.ones((1, n)), np.ones(1), lipschitz=float(n)),
            domain=ORTHANT,
            error_bound=ErrorBound(order=2.0, modulus=1.0, gradient_bound=1.0 / math.sqrt(n)),
        ),
        x0=np.random.default_rng(seed).random(n),
        upper_optimum=0.5 / n,
        lower_optimum=0.0,
        solution=np.full(n, 1.0 / n),
        ties=n - 1,
        order=2.0,
    )


def random_inverse(
    n: int = 60,
    rows: int = 40,
    rank: int = 20,
    condition: float = 100.0,
    noise: float = 0.0,
    domain: Domain = ORTHANT,
    seed: int = 0,
) -> Built:
    """The least-squares solution of least norm in a random norm: f = ½x'Qx, g = ½|Ax - b|².

    Q has random eigenvectors and eigenvalues from 1/condition to 1. A is the product of two random
    matrices of small whole numbers, so A has exactly the given rank; A is then divided by a power
    of two near its norm. The data are b = A truth + noise, with truth > 0 well inside the domain.

    If there is no noise and ``truth`` is inside the domain, the set of lower minimisers has
    dimension n - rank, and g* is exactly 0. The error bound of least squares has order 2 on R^n and
    on the orthant (Hoffman), and in a ball that has a solution in its interior.

    Args:
        n, rows, rank: variables, rows of A, rank of A.
        condition: the condition number of Q.
        noise: the norm of the noise relative to the norm of A truth.
        domain: Space(), Ball(radius) or Orthant(), which is the default.
        seed: the random seed.
    """
    owner = "random-inverse"
    if rank > min(n, rows):
        raise ValueError(f"{owner}: rank must be at most {min(n, rows)}, got {rank}")
    condition = checks.at_least(owner, "condition", condition, 1.0)
    noise = checks.at_least(owner, "noise", noise)
    if not isinstance(domain, Space | Ball | Orthant):
        raise TypeError(
            f"{owner}: domain must be Space(), Ball(radius) or Orthant(), "
            f"got {checks.what_it_is(domain)}"
        )
    if isinstance(domain, Ball) and domain.center is not None:
        raise ValueError(f"{owner}: domain must be a ball around the origin, got another center")
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    eigenvalues = np.geomspace(1.0 / condition, 1.0, n) if n > 1 else np.ones(1)
    Q = (basis * eigenvalues) @ basis.T
    A = _whole_numbers(rng, rows, rank) @ _whole_numbers(rng, n, rank).T
    A /= 2.0 ** round(math.log2(np.linalg.norm(A, 2)))
    truth = np.zeros(n)
    while not np.any(A @ truth):  # with b = 0, the answer would be 0
        truth = rng.integers(1, 8, n) / 8.0  # dyadic, like A: the product is exact
    if isinstance(domain, Ball):
        excess = 2.0 * np.linalg.norm(truth) / domain.radius
        truth /= 2.0 ** max(0, math.ceil(math.log2(excess)))
    b = disturbed(A @ truth, noise, rng)
    of_noise = f"noise {noise:g}" if noise > 0.0 else "no noise"
    return Built(
        label=f"random inverse problem, {rows} x {n}, rank {rank}, {of_noise}",
        problem=Problem(upper=Quadratic(0.5 * (Q + Q.T)), lower=LeastSquares(A, b), domain=domain),
        x0=np.zeros(n),
        lower_optimum=None if noise > 0.0 else 0.0,
        truth=truth,
        ties=n - rank if noise == 0.0 or isinstance(domain, Space) else None,
        order=None if noise > 0.0 and isinstance(domain, Ball) else 2.0,
    )


def disturbed(b: Vector, noise: float, rng: np.random.Generator) -> Vector:
    """Return b plus a random vector of norm noise |b|."""
    direction = rng.standard_normal(b.shape[0])
    return np.asarray(b + noise * np.linalg.norm(b) / np.linalg.norm(direction) * direction)


def _whole_numbers(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    """Return a random matrix with entries from -3 to 3, redrawn until it has full column rank."""
    while True:
        drawn = rng.integers(-3, 4, (rows, columns)).astype(np.float64)
        if np.linalg.cond(drawn) < 1e6:
            return drawn


def toy(center: Sequence[float] = (0.9, 0.8), stretch: float = 4.0) -> Built:
    """A disc, a chord and a point: two variables, made for drawing.

        f(x) = ½(x_1 - p)² + ½ stretch (x_2 - q)²,   g(x) = ½(x_1 + x_2 - 1)²,   Z = unit disc

    The minimisers of g form the chord from (1, 0) to (0, 1). On this chord x = (t, 1-t), and f is
    least at t = (p + stretch (1-q))/(1 + stretch), or at the nearer end of the chord if this t is
    outside [0, 1]. L_f = max(1, stretch), L_g = 2. The chord meets the interior of the disc, so the
    error bound has order 2.

    Args:
        center: (p, q), the point that f pulls towards.
        stretch: the weight of the second coordinate in f.
    """
    pair = checks.length("toy", "center", checks.vector("toy", "center", center), 2, "coordinate")
    p, q = (float(t) for t in pair)
    t = min(max((p + stretch * (1.0 - q)) / (1.0 + stretch), 0.0), 1.0)
    weights = np.array([1.0, math.sqrt(stretch)])
    return Built(
        label="toy: a chord of the disc",
        problem=Problem(
            upper=LeastSquares(np.diag(weights), weights * np.array([p, q])),
            lower=LeastSquares(np.ones((1, 2)), np.ones(1)),
            domain=Ball(1.0),
        ),
        x0=np.array([-0.5, -0.5]),
        upper_optimum=0.5 * (t - p) ** 2 + 0.5 * stretch * (1.0 - t - q) ** 2,
        lower_optimum=0.0,
        solution=np.array([t, 1.0 - t]),
        ties=1,
        order=2.0,
    )


def hard(steps: int = 50, ties: int = 1, smoothness: float = 4.0) -> Built:
    """A hard problem: |f(x) - f*| >= 1 until a method has used more than ``steps`` gradients of g.

    The problem is in the spirit of Zhang, Chen, Xu, Zhang (2024, arXiv 2409.06530), who show that
    no first-order method finds |f - f*| <= eps in a number of steps that depends on L_f, L_g and D
    alone. The construction and its proof are our own. With K = steps, x = (u, v, y) in R^K x R^K x
    R^ties, w = (u, v), s = 2/sqrt(K), and c in R^ties of norm 1 with equal entries, let

        g(x) = L/8 [ (w_1 - s)² + sum_{i<2K} (w_{i+1} - w_i)² ],   f(x) = ½|v|² + 1/16 |y - c|²
        Z = ball of radius 3 around the origin, x_0 = 0

    *Answer.* g = 0 exactly where all w_i = s, so the minimisers are the points with this w (|w|² =
    8) and |y| <= 1, of dimension ``ties``; among them, f chooses y = c: f* = ½ K s² = 2.

    *Constants.* L_f = 1, the curvature of f in v (in y it is 1/8); L_g < L, since the bracket's
    matrix has a norm below 4; and D = 6. No constant depends on K.

    *Lower bound.* Take any method that builds its points from the gradients seen so far, using
    sums, averages, projections onto the ball and its intersections with cuts, and linear
    minimisation over these sets. A coordinate of its points is then 0 if it is 0 in all of these
    gradients. If w is 0 beyond its first j entries, grad g is 0 beyond the first j+1, and grad f is
    0 in each entry of v that is 0. So each gradient of g makes at most one more entry nonzero, and
    v is still 0 after K gradients. Then 0 <= f(x) = 1/16 |y - c|² <= 1/16 (3+1)² = 1, while f* = 2.
    At the same time, g(x_0) - g* = L/(2K) can be arbitrarily small.

    Args:
        steps: K; this many gradients of g are not enough for |f - f*| < 1.
        ties: the dimension of the set of lower minimisers; 0 for a single minimiser.
        smoothness: L, an upper bound on L_g.
    """
    from scipy.sparse import diags_array, eye_array

    K, L = steps, smoothness
    n, s, scale = 2 * K + ties, 2.0 / math.sqrt(K), 0.5 * math.sqrt(L)
    chain = scale * (eye_array(2 * K, n) - eye_array(2 * K, n, k=-1))
    start = np.zeros(2 * K)
    start[0] = scale * s
    c = np.full(ties, 1.0 / math.sqrt(max(ties, 1)))
    weights = np.concatenate([np.ones(K), np.full(ties, math.sqrt(0.125))])
    pull = np.concatenate([np.zeros(K), c])
    return Built(
        label=f"hard instance, {K} steps",
        problem=Problem(
            upper=LeastSquares(
                diags_array(weights, offsets=K, shape=(K + ties, n)), weights * pull, lipschitz=1.0
            ),
            lower=LeastSquares(chain, start, lipschitz=L),
            domain=Ball(3.0),
        ),
        x0=np.zeros(n),
        upper_optimum=2.0,
        lower_optimum=0.0,
        solution=np.concatenate([np.full(2 * K, s), c]),
        ties=ties,
        order=2.0,
    )
