"""The lasso's ties: a lower level with an l1 penalty, reduced to one on an orthant, provably.

    g(x) = h(x) + sum of w_j |x_j|,    h a sum of LeastSquares, Logistic and SquaredNorm

Take any point z, the slope s of h there, and its deviation G >= g(z) - g*. Every minimiser x* has

    |<e_j, grad h(x*)> - s_j|  <=  c_j sqrt(2 G),    c_j² the largest curvature of h along e_j,

for the sum of phi_i(a_i'x) is above its tangent by at least |change of phi_i'|²/(2 L_i), L_i its
largest curvature. (Of least squares, where x* and z have images that differ by no more than
sqrt(2 G): the gap-safe rule of Fercoq, Gramfort and Salmon 2015.) With the conditions of optimality

    |s_j| + c_j sqrt(2 G) < w_j    :  x*_j = 0 for every minimiser
    |s_j| > c_j sqrt(2 G)          :  no minimiser has an x*_j with the sign of s_j

so that x* = signs u on the variables that are left, u >= 0, and |x*|_1 is linear in u. That is a
problem that `Exact` takes, with the same g* and f*, and what is proved about it is proved about
this one. (A variable of weight 0, such as an intercept, is kept with both signs.) For G: by
convexity, with |x*_j| <= r_j, which is g(z)/w_j for h >= 0 (see `_reach`),

    g(z) - g*  <=  sum of z_j (s_j + w_j sign z_j)  +  sum of max(|s_j| - w_j, 0) r_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tiebreak.functions.base import SmoothFunction
from tiebreak.functions.elementary import Linear, SquaredNorm
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.parts.loss_parts import LossPart
from tiebreak.functions.parts.parts import Parts, decompose
from tiebreak.functions.parts.quadratic_parts import LeastSquaresPart
from tiebreak.functions.penalties.penalties import L1
from tiebreak.functions.penalties.terms import soft
from tiebreak.functions.substitution import Substitution
from tiebreak.functions.sums import summands
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import SAFE, TINY, Host, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.refusals import Refusal
from tiebreak.linalg.spectra import EPS
from tiebreak.linalg.tolerances import TOL
from tiebreak.problem import Problem
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import described

FIRST_POLISH = 32  # steps of FISTA before the first active-set solution; then twice as many
MAX_STEPS = 2**14  # of FISTA
FEW_CHANGES = 16  # of signs while the steps doubled: then FISTA has nearly settled which are 0

SMOOTH = (LeastSquares, Logistic, SquaredNorm)  # what may be below, none of it negative
NOT_SETTLED = "no minimiser of the lower level, with its l1 penalty, was found to rounding"


def refuse(problem: Problem) -> None:
    """A Refusal where the lower level has a penalty that this is not for."""
    terms, smooth = problem.penalties[1].terms, problem.smooth_parts[1]
    others = terms.group > 0.0 or terms.l2 > 0.0 or terms.has_operator
    if others or terms.center is not None:
        needed = "must have no penalty but L1 around 0 and ElasticNet"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))
    if terms.norms[0] == 0.0:
        needed = "must have an l1 penalty, or none; write SquaredNorm for ElasticNet(0, weight)"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))
    if not described(problem.domain).is_space:
        needed = "must be Space where lower has an l1 penalty"
        raise Refusal("Exact", "domain", needed, type(problem.domain).__name__)
    if not all(isinstance(part, SMOOTH) for _, part in summands(smooth.bare)):
        needed = "must be made of LeastSquares, Logistic and SquaredNorm where it has a penalty"
        raise Refusal("Exact", "lower", needed, repr(problem.lower.bare))


class ReducedLasso(NamedTuple):
    """The problem of u >= 0, x = signs u on the variables that are kept, 0 on all others."""

    problem: Problem
    variables: Substitution
    constant: float  # what f has more than the upper level of the problem


def reduced_lasso(problem: Problem, n: int) -> ReducedLasso | None:
    """The problem on an orthant; None where the lower level was not solved."""
    terms, smooth = problem.penalties[1].terms, problem.smooth_parts[1]
    w = np.broadcast_to(np.asarray(terms.l1, dtype=np.float64), n)
    h = decompose("Exact", "lower", smooth, n)
    if terms.square > 0.0:
        ridge = LeastSquaresPart(terms.square, np.eye(n), np.zeros(n))
        h = Parts(n, (*h.parts, ridge))
    z = approximate_minimiser(h, w)
    if z is None:
        return None
    slope = h.slope(z)  # which is kept
    s, error = np.abs(slope.vector), slope.error + TINY
    reach = _reach(h, w, _value_above(h, w, z))
    balance = np.abs(slope.vector + w * np.sign(z)) + error
    gap = float(np.abs(z) @ balance + np.maximum(s + error - w, 0.0) @ reach) * SAFE + TINY
    moved = _curvatures(h) * math.sqrt(2.0 * gap) * SAFE + error
    kept = s + moved >= w * (1.0 - 4.0 * EPS)
    if not math.isfinite(gap) or np.any(kept & (s <= moved) & (w > 0.0)):
        return None  # nothing is known, or both signs are possible
    if not kept.any():  # x* = 0: any variable will do, for there is no problem without one
        kept[0] = True
    where = np.flatnonzero(kept)
    signs = np.where((w[kept] == 0.0) | (slope.vector[kept] <= 0.0), 1.0, -1.0)
    return _on_orthant(problem, w, terms.square, where, signs, n)


def _value_above(h: Parts, w: Host, z: Host) -> float:
    """A bound on g(z): of a sum of numbers that are not negative, whose terms err little."""
    value = float(w @ np.abs(z))
    for part in h.parts:
        if isinstance(part, LeastSquaresPart):
            errors = 8.0 * EPS * (np.abs(part.rows) @ np.abs(z) + np.abs(part.target)) * h.n
            off = part.roots * (np.abs(part.rows @ z - part.target) + errors)
            value += 0.5 * float(off @ off)
        else:
            value += part.weight * float(np.sum(np.logaddexp(0.0, -(part.rows @ z))))
    return 1.001 * value


def _reach(h: Parts, w: Host, value: float) -> Host:
    """Bounds on |x*_j|, where g(x*) is at most this value; inf where none is known.

    w_j |x*_j| <= value. For the variables F of weight 0: |A x* - b| <= sqrt(2 value/weight) for
    squares, so that |A_F x*_F| is bounded; and <m_i, x*> >= -t for all margins, where a loss of one
    margin -t is all of the value: with one variable in F and margins of both signs in its column.
    """
    free = w == 0.0
    reach = np.full(h.n, math.inf)
    reach[~free] = value * SAFE / w[~free] + TINY
    bounds = [math.inf]
    for part in h.parts if free.any() else ():
        others = np.abs(part.rows[:, ~free]) @ reach[~free]
        F = part.rows[:, free]
        if isinstance(part, LossPart) and F.shape[1] == 1:
            t = value / (part.weight * part.weights) + math.log(2.0)  # log(1 + e^t) >= t
            sides = [s * F[:, 0] > 0.0 for s in (1.0, -1.0)]
            ends = [(t[side] + others[side]) / np.abs(F[side, 0]) for side in sides]
            bounds.append(max(float(np.min(end, initial=math.inf)) for end in ends))
        elif isinstance(part, LeastSquaresPart) and part.w is None and F.any():
            noise = rounding_unit(EPS, *F.shape) * norm(F)
            sigma = float(np.linalg.svd(F, compute_uv=False)[-1]) - noise
            far = norm(part.target) + math.sqrt(2.0 * value / part.weight) + norm(others)
            bounds.append(far / sigma if sigma > 0.0 and len(F) >= F.shape[1] else math.inf)
    reach[free] = min(bounds) * SAFE
    return reach


def _curvatures(h: Parts) -> Host:
    """The roots of the largest curvatures of h along each variable: those at 0."""
    squares = np.sum(h.curvature(np.zeros(h.n)) ** 2, axis=0)
    return np.asarray(np.sqrt(squares) * (1.0 + rounding_unit(EPS, h.n)) + TINY)


# --- a minimiser to rounding ----------------------------------------------------------------------


def approximate_minimiser(h: Parts, w: Host) -> Host | None:
    """A minimiser of h + sum of w_j |x_j|, to rounding; None where none is found.

    FISTA with restarts tells which variables are not 0, an active-set method finishes.
    """
    R = h.curvature(np.zeros(h.n))  # where that of logistic losses is largest
    square = R.T @ R if len(R) > h.n else R @ R.T
    slope, lipschitz = _slope_function(h, R, square), _largest_eigenvalue(square)
    x = y = np.zeros(h.n)
    if not lipschitz > 0.0:
        return x
    t, next_polish, before = 1.0, FIRST_POLISH, np.ones(h.n)
    for k in range(1, MAX_STEPS + 1):
        deadline.check()
        new = soft(y - slope(y) / lipschitz, w / lipschitz)
        if (y - new) @ (new - x) > 0.0:  # against the way: begin again
            t, y = 1.0, new
        else:
            longer = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            y, t = new + ((t - 1.0) / longer) * (new - x), longer
        x = new
        if k == next_polish:
            changes = int(np.count_nonzero(np.sign(x) != before))
            before, next_polish = np.sign(x), 2 * k
            if changes <= FEW_CHANGES or k == MAX_STEPS:  # each of which takes a step of its own
                found = _polished(h, w, slope, x)
                if found is not None:
                    return found
    return None


def _slope_function(h: Parts, R: Host, square: Host) -> Callable[[Host], Host]:
    """The slope of h, in ordinary precision."""
    squares = h.squares
    losses = h.losses
    if not losses and len(R) > h.n:
        c = R.T @ np.concatenate([part.roots * part.target for part in squares])
        return lambda x: square @ x - c

    def slope(x: Host) -> Host:
        found = np.zeros(h.n)
        for part in squares:
            found += part.rows.T @ (part.roots**2 * (part.rows @ x - part.target))
        for loss in losses:
            first = loss.phi.first(loss.rows @ x, loss.target)
            found += loss.weight * (loss.rows.T @ (loss.weights * first))
        return found

    return slope


def _largest_eigenvalue(square: Host) -> float:
    """Rounded up a little."""
    from scipy.linalg import eigh

    last = len(square) - 1
    found = eigh(square, eigvals_only=True, subset_by_index=[last, last]) if last >= 0 else [0.0]
    return float(found[0]) * (1.0 + 1e-9)


def _polished(h: Parts, w: Host, slope: Callable[[Host], Host], x: Host) -> Host | None:
    """The minimiser with about the signs of x, by an active-set method; None where that fails.

    Newton's steps on the variables that are not 0. One that would change its sign leaves them, and
    the one whose slope is too large for its weight most comes in.
    """
    free = w == 0.0
    signs, x = np.where(free, 0.0, np.sign(x)), x.copy()
    for _ in range(FIRST_POLISH + 2 * int(np.count_nonzero(signs))):
        on = (signs != 0.0) | free
        rest = slope(x) + w * signs
        d = _newton_step(h, x, on, rest)
        falls = signs[on] * (x[on] + d) < 0.0
        if falls.any():
            shares = np.full(len(d), math.inf)
            shares[falls] = np.abs(x[on][falls]) / np.abs(d[falls])
            first = int(np.argmin(shares))
            x[on] += min(float(shares[first]), 1.0) * d
            out = np.flatnonzero(on)[first]
            x[out] = signs[out] = 0.0
            continue
        x[on] += d
        s = slope(x)
        over = np.where(on, 0.0, np.abs(s) - w * (1.0 + TOL.met))
        if norm(d) > 1e-6 * norm(x):  # Newton's method has not come to its end
            continue
        if not np.any(over > 0.0):
            return _refined(h, w, signs, x)
        worst = int(np.argmax(over / np.where(free, 1.0, w)))
        signs[worst] = -np.sign(s[worst])
    return None


def _newton_step(h: Parts, x: Host, on: Host, rest: Host) -> Host:
    """The shortest step on these variables that balances the slope there."""
    R = h.curvature(x)[:, on]
    if not R.shape[1]:
        return np.zeros(0)
    deadline.check()
    return np.asarray(np.linalg.lstsq(R.T @ R, -rest[on], rcond=TOL.clear)[0])


def _refined(h: Parts, w: Host, signs: Host, x: Host) -> Host | None:
    """With slopes in twice the precision; None where a sign changes, or it is not balanced."""
    on = (signs != 0.0) | (w == 0.0)
    enough = TOL.met * np.where(w > 0.0, w, np.max(w))
    for _ in range(TOL.refinements):
        rest = h.slope(x).vector + w * signs
        if np.all(np.abs(rest[on]) <= enough[on]):
            return x if np.all(signs * x >= 0.0) else None
        x = x.copy()
        x[on] += _newton_step(h, x, on, rest)
    return None


# --- the problem on the orthant -------------------------------------------------------------------


def _on_orthant(
    problem: Problem, w: Host, square: float, kept: Host, signs: Host, n: int
) -> ReducedLasso:
    """Both levels as functions of u."""
    (upper, lower), penalty = problem.smooth_parts, problem.penalties[0]
    places, factors = np.full(n, -1), np.ones(n)
    places[kept], factors[kept] = np.arange(len(kept)), signs
    variables = Substitution(places, len(kept), factors)
    g = variables.function(lower)[0] + Linear(w[kept])
    if square > 0.0:
        g = g + SquaredNorm(square)
    f: SmoothFunction | L1
    f, constant = variables.function(upper)
    if isinstance(penalty, L1):
        f, constant = variables.penalty(penalty)
    domain = Box(np.where(w[kept] > 0.0, 0.0, -np.inf), np.inf)
    counted = None if problem.counted is None else host(problem.counted)[kept]
    return ReducedLasso(
        Problem(upper=f, lower=g, domain=domain, counted=counted), variables, constant
    )
