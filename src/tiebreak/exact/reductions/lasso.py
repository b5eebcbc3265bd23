"""The lasso's ties: a lower level with an l1 penalty, provably reduced to one on an orthant.

    g(x) = h(x) + sum of w_j |x_j|,    h a sum of LeastSquares, Logistic and SquaredNorm

Take any point z, the slope s of h there, and a bound G >= g(z) - g*. Every minimiser x* has

    |<e_j, grad h(x*)> - s_j|  <=  c_j sqrt(2 G),    c_j²: the largest curvature of h along e_j.

This holds because the sum of phi_i(a_i'x) exceeds its tangent by at least |change of phi_i'|²/(2
L_i), where L_i is the largest curvature of phi_i. (For least squares, where the images of x* and z
differ by at most sqrt(2 G), this is the gap-safe rule of Fercoq, Gramfort and Salmon 2015.)
Together with the optimality conditions, this gives

- if |s_j| + c_j sqrt(2 G) < w_j, then x*_j = 0 for every minimiser;
- if |s_j| > c_j sqrt(2 G), then no minimiser has an x*_j with the sign of s_j.

So x* = signs u on the remaining variables, u >= 0, and |x*|_1 is linear in u. `Exact` solves the
problem in u, which has the same g* and f*, so all bounds proved for it hold for the original. (A
variable of weight 0, such as an intercept, is kept with both signs.) With bounds |x*_j| <= r_j (r_j
= h(0)/w_j for h >= 0, see `_reach`), convexity gives the bound G:

    g(z) - g*  <=  sum of z_j (s_j + w_j sign z_j)  +  sum of max(|s_j| - w_j, 0) r_j.

If h is a sum of squares and the remaining columns K are independent, there are no ties. Let sigma
be the least singular value of K, and r the slope of g on K without the entries that only keep a u_j
at 0. Then

    sigma² |x* - z|²  <=  <slope at x* - slope at z, x* - z>  <=  |r| |x* - z|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.active_set import PolyhedronSlice
from tiebreak.exact.bounds.evaluations import evaluate_with_errors
from tiebreak.exact.newton import minimise
from tiebreak.exact.reductions.reduction import Reduction
from tiebreak.functions import (
    LeastSquaresPart,
    Linear,
    LinearPart,
    Parts,
    SquaredNorm,
    Substitution,
    decompose,
    summands,
)
from tiebreak.linalg import (
    EPS,
    SAFE,
    TINY,
    TOL,
    Array,
    Host,
    Refusal,
    arrays,
    deadline,
    rounding_unit,
)
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.least_eigenvalue import least_eigenvalue
from tiebreak.linalg.spectra import rounding_level
from tiebreak.problem import Problem
from tiebreak.sets import Box

NOT_SETTLED = "no minimiser of the lower level with its l1 penalty was found to rounding accuracy"


def smooth_part(problem: Problem, n: int) -> Parts:
    """Return h in parts; raise a Refusal if the lower level has an unsuitable penalty."""
    terms = problem.penalties[1].terms
    others = terms.group > 0.0 or terms.l2 > 0.0 or terms.has_operator
    needed = ""
    if others or terms.center is not None:
        needed = "must have no penalty but L1 around 0 and ElasticNet"
    elif terms.norms[0] == 0.0:
        needed = "must have an l1 penalty, or none; a square alone is a smooth function"
    elif not problem.domain.is_space:
        needed = "must be Space if lower has an l1 penalty"
        raise Refusal("Exact", "domain", needed, type(problem.domain).__name__)
    if needed:
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))
    h = decompose("Exact", "lower", problem.smooth_parts[1], n)
    losses = [part for part in h.losses if math.isfinite(part.phi.least_margin(1.0))]
    is_zero = problem.smooth_parts[1].bare.is_zero
    if is_zero or len(h.squares) + len(losses) < len(h.parts):
        needed = "must consist of LeastSquares, logistic losses and squares if it has a penalty"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))
    return h


class OnlyMinimiser(NamedTuple):
    """The lower level's only minimiser, which is within ``distance`` of x."""

    x: Host
    distance: float
    gap: float  # an upper bound on g(x) - g*
    residual: float  # relative residual of the optimality conditions
    rank: int  # rank of the remaining columns
    sigma: float  # a lower bound on the singular values of these columns
    size: float  # the norm of these columns


def on_orthant(problem: Problem, n: int, x0: Array) -> Reduction | OnlyMinimiser | str | None:
    """Return the problem in u >= 0, with x = signs u on the kept variables and 0 elsewhere.

    If the lower level has only one minimiser, return that instead. Return None if the level has no
    penalty, or a message if no minimiser was found. The search begins at x0.
    """
    terms, smooth = problem.penalties[1].terms, problem.smooth_parts[1]
    if not terms.has_weights:
        return None
    w = np.broadcast_to(np.asarray(terms.l1, dtype=np.float64), n)
    h = smooth_part(problem, n)
    if terms.square > 0.0:
        ridge = LeastSquaresPart(terms.square, np.eye(n), np.zeros(n))
        h = Parts(n, (*h.parts, ridge))
    z = approximate_minimiser(h, w, host(x0))
    if z is None:
        return NOT_SETTLED
    slope = h.slope(z)  # the slope is cached
    s, error = np.abs(slope.vector), slope.error + TINY
    zero = np.zeros(n) if smooth.prototype is None else arrays.like(np.zeros(n), smooth.prototype)
    origin = evaluate_with_errors(smooth, zero)
    reach = _reach(h, w, (origin.value + origin.value_error) * SAFE)
    balance = np.abs(slope.vector + w * np.sign(z)) + error
    gap = float(np.abs(z) @ balance + np.maximum(s + error - w, 0.0) @ reach) * SAFE + TINY
    moved = _curvatures(h) * math.sqrt(2.0 * gap) * SAFE + error
    kept = s + moved >= w * (1.0 - 4.0 * EPS)
    if not math.isfinite(gap) or np.any(kept & (s <= moved) & (w > 0.0)):
        return NOT_SETTLED  # there is no bound, or both signs are possible
    if not kept.any():  # x* = 0: keep any variable, because a problem needs one
        kept[0] = True
    signs = np.where((w == 0.0) | (slope.vector <= 0.0), 1.0, -1.0)
    epsilon = max((part.data_epsilon for _, part in summands(smooth.bare)), default=0.0)
    only = _only_minimiser(h, w, kept, signs, z, max(epsilon, arrays.epsilon(zero)))
    return only or _in_kept_variables(problem, w, kept, signs)


def _only_minimiser(
    h: Parts, w: Host, kept: Host, signs: Host, z: Host, epsilon: float
) -> OnlyMinimiser | None:
    """Return the minimiser near z; None if kept columns may be dependent or z is too far away."""
    R = h.curvature(z)[:, kept]
    size, k = norm(R), R.shape[1]
    if not h.is_squares or len(R) < k or not size > 0.0:
        return None
    square = least_eigenvalue(R) - 16.0 * EPS * size * size  # R itself is rounded
    least = TOL.clear_units * rounding_level(R.shape, size, epsilon)
    if not square > max(least, TOL.independent * size) ** 2:
        return None
    x = np.where(kept & ((w == 0.0) | (signs * z > 0.0)), z, 0.0)
    slope = h.slope(x)
    rest = (signs * slope.vector + w)[kept]
    rest = np.where((x[kept] == 0.0) & (w[kept] > 0.0), np.minimum(rest, 0.0), rest)
    steep = (norm(rest) + slope.error + 4.0 * EPS * (norm(w[kept]) + norm(slope.vector))) * SAFE
    away = (steep + TINY) / square * SAFE
    terms = slope.size + norm(w[kept])
    # more can be proved about a better x
    if away > TOL.small_change * (norm(x) + terms / size / size):
        return None
    residual = norm(rest) / terms
    return OnlyMinimiser(x, away, steep * away * SAFE, residual, k, math.sqrt(square), size)


def _reach(h: Parts, w: Host, value: float) -> Host:
    """Bound |x*_j| if g(x*) is at most this value; inf if no bound is known.

    w_j |x*_j| <= value. For the variables F of weight 0, squares satisfy |A x* - b| <= sqrt(2
    value/weight), which bounds |A_F x*_F|. Margins satisfy <m_i, x*> >= -t, where t is such that a
    single margin of -t would by itself cost the whole value. This bounds x*_F only if F is a single
    variable whose column has entries of both signs.
    """
    free = w == 0.0
    reach = np.full(h.n, math.inf)
    reach[~free] = value * SAFE / w[~free] + TINY
    bounds = [math.inf]
    for loss in h.losses if np.count_nonzero(free) == 1 else ():
        column, others = loss.rows[:, free][:, 0], np.abs(loss.rows[:, ~free]) @ reach[~free]
        far = others - loss.phi.least_margin(value / (loss.weight * loss.weights))
        ends = [far[side] / np.abs(column[side]) for side in (column > 0.0, column < 0.0)]
        bounds.append(max(float(np.min(end, initial=math.inf)) for end in ends))
    for part in h.squares if free.any() else ():
        F, others = part.rows[:, free], np.abs(part.rows[:, ~free]) @ reach[~free]
        if part.w is None and F.any():
            noise = rounding_unit(EPS, *F.shape) * norm(F)
            sigma = float(np.linalg.svd(F, compute_uv=False)[-1]) - noise
            most = norm(part.target) + math.sqrt(2.0 * value / part.weight) + norm(others)
            bounds.append(most / sigma if sigma > 0.0 and len(F) >= F.shape[1] else math.inf)
    reach[free] = min(bounds) * SAFE
    return reach


def _curvatures(h: Parts) -> Host:
    """Return the root of h's largest curvature along each variable, whatever the margins are."""
    roots = [part.curvature(np.zeros(h.n)) for part in h.squares]
    for loss in h.losses:
        far = np.full(len(loss.rows), math.inf)
        bend = loss.weights * loss.phi.largest_second(-far, far, loss.target)
        root, some = np.sqrt(loss.weight * bend)[:, None], loss.rows != 0.0
        # A row says nothing of variables that it does not contain, even if its bend is infinite.
        roots.append(np.multiply(root, loss.rows, out=np.zeros(loss.rows.shape), where=some))
    squares = np.sum(np.concatenate([np.zeros((1, h.n)), *roots]) ** 2, axis=0)
    return np.asarray(np.sqrt(squares) * (1.0 + rounding_unit(EPS, h.n)) + TINY)


def approximate_minimiser(h: Parts, w: Host, guess: Host) -> Host | None:
    """Minimise h + sum of w_j |x_j| to within rounding error; return None if that fails.

    We keep a growing set of variables, each with a sign, and minimise over u >= 0 on it. Then we
    add the variables whose slopes exceed their weights by at least half of the largest excess.
    """
    if h.is_squares:
        R = h.curvature(guess)
        targets = [part.roots * part.target for part in h.squares]
        c = -R.T @ np.concatenate([np.zeros(0), *targets])
        found = _on_support(h, R, c, w, guess) if guess.any() else None
        if found is None:
            guess = _by_proximal_steps(R, c, w, guess)
            found = _on_support(h, R, c, w, guess)
        if found is not None:
            return found
    else:
        guess = np.zeros(h.n)
    which, bound = np.flatnonzero((w == 0.0) | (guess != 0.0)), np.where(w > 0.0, w, math.inf)
    signs = np.where(w[which] == 0.0, 1.0, np.sign(guess[which]))
    u, z = signs * guess[which], np.zeros(h.n)
    while True:
        deadline.check()
        if k := len(which):
            lift = np.zeros((h.n, k))
            lift[which, np.arange(k)] = signs
            lifted = Parts(k, (*h.composed(lift).parts, LinearPart(1.0, w[which][None])))
            rows = -np.eye(k)[w[which] > 0.0]
            u, is_settled = minimise(
                lifted, PolyhedronSlice(rows, np.zeros(len(rows)), np.eye(k)), u
            )
            if not is_settled:
                return None
            z = lift @ u
        slope = h.slope(z).vector
        over = np.abs(slope) / bound - 1.0
        over[which[signs * slope[which] < 0.0]] = 0.0  # already in the set, up to rounding
        new = np.flatnonzero((over > TOL.met) & (over >= 0.5 * np.max(over)))
        if not len(new):
            return z
        which, signs = np.append(which, new), np.append(signs, -np.sign(slope[new]))
        u = np.append(u, np.zeros(len(new)))


def _on_support(h: Parts, R: Host, c: Host, w: Host, guess: Host) -> Host | None:
    """Minimise the squares h plus the penalty, starting from the signs of a guess.

    R'R is the second derivative of h, and c its slope at 0. With given signs, the minimiser solves
    linear equations. We drop variables that change their sign, and add those whose slope exceeds
    their weight. Return None if the signs do not settle soon, or the columns are nearly dependent.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    signs, bound, z = np.sign(guess), np.where(w > 0.0, w, math.inf), np.zeros(h.n)
    signs[w == 0.0] = 0.0
    for _ in range(10):
        deadline.check()
        free = (w == 0.0) | (signs != 0.0)
        K, right = R[:, free], -(c + w * signs)[free]
        try:
            factor = cho_factor(K.T @ K)
        except (LinAlgError, ValueError):  # ValueError: there is no column
            return None
        z[:] = 0.0
        z[free] = cho_solve(factor, right)
        is_wrong = z * signs < 0.0
        over = np.where(free, 0.0, np.abs(slope := c + R.T @ (K @ z[free])) / bound - 1.0)
        signs[is_wrong] = 0.0
        is_new = (over > TOL.met) & (over >= 0.5 * np.max(over))
        signs[is_new] = -np.sign(slope[is_new])
        if not (is_wrong.any() or is_new.any()):
            break
    else:
        return None
    for _ in range(4):  # iterative refinement: a relative error s becomes s²
        d = cho_solve(factor, (h.slope(z).vector + w * signs)[free])
        z[free] -= d
        if norm(d) <= math.sqrt(EPS) * norm(z):
            return z
    return None


def _by_proximal_steps(R: Host, c: Host, w: Host, x: Host) -> Host:
    """Approximate the minimiser of squares plus penalty by FISTA, which finds most of the zeros."""
    gram = R.T @ R if R.shape[1] <= len(R) else None
    if not R.any():
        return 0.0 * x
    steepest = float(np.linalg.eigvalsh(R @ R.T if gram is None else gram)[-1])
    y, t = x, 1.0
    for _ in range(300):  # more steps would cost more than they save
        before, slope = x, c + (R.T @ (R @ y) if gram is None else gram @ y)
        x = y - slope / steepest
        x = np.sign(x) * np.maximum(np.abs(x) - w / steepest, 0.0)
        moved = x - before
        if float(moved @ moved) <= TOL.met * float(x @ x):
            break
        if float((y - x) @ moved) > 0.0:  # overshoot: restart
            t = 1.0
        t, last = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t)), t
        y = x + (last - 1.0) / t * moved
    return x


def _in_kept_variables(problem: Problem, w: Host, kept: Host, signs: Host) -> Reduction:
    """Return both levels as functions of u."""
    terms, lower = problem.penalties[1].terms, problem.smooth_parts[1]
    places = np.where(kept, np.cumsum(kept) - 1, -1)
    variables = Substitution(places, int(np.sum(kept)), signs)
    g = variables.function(lower)[0] + Linear(w[kept])
    if terms.square > 0.0:
        g = g + SquaredNorm(terms.square)
    f, constant = variables.level(problem.upper)
    domain = Box(np.where(w[kept] > 0.0, 0.0, -np.inf), np.inf)
    counted = None if problem.counted is None else host(problem.counted)[kept]
    reduced = Problem(upper=f, lower=g, domain=domain, counted=counted)
    unit = 2.0 * rounding_unit(EPS, len(w))
    return Reduction(reduced, variables.point, lambda value: value + constant, unit)
