"""A problem on which every first-order method is far off for as many steps as you like."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.catalog.built import Built
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.linalg import checks
from tiebreak.problem import Problem
from tiebreak.sets.balls import Ball


def hard(steps: int = 50, ties: int = 1, smoothness: float = 4.0) -> Built:
    """|f(x) - f*| >= 1 as long as at most ``steps`` gradients of g were seen, for every method.

    In the spirit of Zhang, Chen, Xu, Zhang (2024, arXiv 2409.06530), who show that no first-order
    method finds |f - f*| <= eps in a number of steps that depends on L_f, L_g and D alone. The
    construction and the proof are ours. With K = steps, x = (u, v, y) in R^K x R^K x R^ties,
    w = (u, v), s = 2/sqrt(K), c of length 1 with equal entries:

        g(x) = L/8 [ (w_1 - s)² + sum_{i<2K} (w_{i+1} - w_i)² ],   f(x) = ½|v|² + 1/16 |y - c|²
        Z = ball of radius 3 around the origin, x_0 = 0

    *Answer.* g = 0 just where all w_i = s, so the minimisers are |y| <= 1 with that w (|w|² = 8),
    of dimension ``ties``; of these f chooses y = c: f* = ½ K s² = 2.

    *Constants.* L_f = 1 (1/8 in y), L_g < L since the bracket's matrix has norm below 4, D = 6;
    none of them depends on K.

    *Lower bound.* Take any method whose points are built from the gradients seen so far such that a
    coordinate is 0 where all of them are 0: sums, averages, projections onto the ball and onto its
    intersection with cuts, linear minimisation over them.  If w is 0 beyond its first j entries,
    grad g is 0 beyond the first j+1, and grad f is 0 in v where v = 0. So each gradient of g opens
    one more entry, and after k <= K of them v = 0. Then 0 <= f(x) = 1/16 |y - c|² <= 1/16 (3+1)²
    = 1, while f* = 2.  Meanwhile g(x_0) - g* = L/(2K) is as small as you like.

    Args:
        steps: K, the number of gradients of g that do not help.
        ties: the dimension of the set of lower minimisers; 0 for a single one.
        smoothness: L, an upper bound on L_g.
    """
    from scipy.sparse import diags_array, eye_array

    K, ties = checks.whole("hard", "steps", steps, 1), checks.whole("hard", "ties", ties)
    L = checks.positive("hard", "smoothness", smoothness)
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
