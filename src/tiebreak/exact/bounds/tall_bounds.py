"""Proved intervals for f* and g* on R^n, computed from second derivatives (n x n matrices).

The theory is that of `loss_bounds`: T is the span of g's rows, H is g's second derivative at x, and

    lambda = max over v in T of <grad g(x), v>/|v|_H,    rho = bend max_i max_v |<a_i, v>|/|v|_H.

If rho lambda < 1, all minimisers x* of g have |x* - x|_H <= r = -log(1 - rho lambda)/rho, one of
them with x* - x in T, and g(x) - g* <= lambda r. H is known only up to an error E. Let k be the
dimension of T, W the eigenvectors of H's k largest eigenvalues and l the least of these. The
theorems of Weyl and of Davis and Kahan say, for v in T and with the computed H on the right:

    |v|_H² >= (1 - E/(l - 2E)) v'Hv,    the sine of the angle between T and W <= E/(l - 2E).

For delta = x* - x, any vector z and s = grad f(x) + H z, we have

    f*  >=  f(x) + <s, delta> - |z|_H r + |delta|_F² w(c),    w(c) = (e^-c + c - 1)/c²  (Bach 2010).

Here F is f's second derivative and c = bend max |<f_i, delta>| (w(0) = ½ for squares). Only the
part of delta in the span of the rows of f and g matters. Let K = a²F + H, and let tau² > 0 be its
least eigenvalue apart from the zeros in directions orthogonal to all rows. Then |delta| <= (a
|delta|_F + r)/tau. With p = |delta|_F, the bound becomes -|s| (a p + r)/tau + p² w(c), which is at
least -|s| r/tau - 0.68 (a |s|/tau)² if c grows slowly with p.

If f is an l1 norm, s = H z for any z, and t |s| is at most f's weights, then

    f*  >=  t <s, x* - center>  >=  t (<s, x - center> - |z|_H r).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tiebreak.exact.bounds.evaluations import EvaluationWithErrors, evaluate_with_errors
from tiebreak.exact.bounds.loss_bounds import L1Dual
from tiebreak.exact.reductions.tall import Seen, TallAnswer, TallLevel
from tiebreak.linalg import EPS, SAFE, TOL, Host, deadline, rounding_unit
from tiebreak.linalg.host import norm
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import WITHIN, Intervals
from tiebreak.proofs.recession.programs import ROUGH

NEARLY_SQUARE = 0.68  # the constant in the docstring above; for squares ½ would suffice


class _Curvature(NamedTuple):
    """A level's second derivative at x in the units of u, and a bound on its error."""

    H: Host
    error: float
    top: float  # a bound on the largest eigenvalue of H
    longest: float  # a bound on the norm of any row of a loss; 0 without losses

    @classmethod
    def of(cls, level: TallLevel, seen: Seen, units: Host) -> _Curvature:
        assert seen.hessian is not None
        H = np.asarray(units[:, None] * seen.hessian * units)
        longest, u = level.longest_row(units), norm(seen.x / units)
        # Second derivatives inherit errors from the margins and add rounding errors of their own.
        margin = rounding_unit(EPS, level.n) * longest * u
        own = EPS * (16.0 + longest * u)
        trace = float(np.trace(np.abs(H)))
        error = (
            4.0 * rounding_unit(EPS, level.rows, level.n) + 2.0 * level.bend * margin + own
        ) * trace
        return cls(H, error, trace + error, longest)


class _Near(NamedTuple):
    """Bounds on the minimisers of g near x."""

    gap: float  # an upper bound on g(x) - g*
    change: float  # an upper bound on |x* - x|_H for all minimisers x*
    distance: float  # some minimiser is within this distance of x


def prove_tall(problem: Problem, answer: TallAnswer, given: Host) -> tuple[Intervals, float]:
    """Return proved intervals, and the relative residuals of both optimality conditions.

    ``given``: the answer's x as the user gets it, which may be rounded to single precision.
    """
    x, units, is_l1 = answer.x, answer.units, not problem.is_smooth
    seen = [(level, level.at(x)) for level in (answer.upper, answer.lower)]
    f, g = (level.evaluate(here, units) for level, here in seen)
    of_f, of_g = (_Curvature.of(level, here, units) for level, here in seen)
    if not (np.all(np.isfinite(of_f.H)) and np.all(np.isfinite(of_g.H))):
        return Intervals(), math.inf
    deadline.check(0.5 * deadline.svd_work(*of_g.H.shape))
    values, vectors = np.linalg.eigh(of_g.H)
    W, kept = vectors[:, len(units) - answer.rank :], values[len(units) - answer.rank :]
    rest = f.slope - W @ (W.T @ f.slope)
    residual = max(
        answer.balance if is_l1 else _relative(rest, answer.upper, of_f, x, units),
        _relative(g.slope, answer.lower, of_g, x, units),
    )
    near = _near(answer, of_g, W, kept, g)
    if near is None or not answer.is_exact:
        return Intervals(), residual
    if is_l1:
        low, high = _sparse_ends(problem, answer, of_g, (W, kept), near)
    else:
        low = f.value - f.value_error - _fall(answer, of_f, of_g, (W, kept), rest, f, near)
        low = low - 4.0 * EPS * abs(f.value) if answer.is_open_exactly else -math.inf
        high = f.value + f.value_error + _rise(answer, of_f, f, near)
    lower = g.value - g.value_error - near.gap
    rests = WITHIN.format(near.distance + norm((given - x) / units))
    found = Intervals((low, high), lower, has_minimiser=True, rests=rests)
    return found.rescaled(units), residual


def _sparse_ends(
    problem: Problem, answer: TallAnswer, of_g: _Curvature, eigen: tuple[Host, Host], near: _Near
) -> tuple[float, float]:
    """Bound f* from both sides if f is an l1 norm."""
    (W, kept), units, n = eigen, answer.units, len(answer.units)
    f, dual = evaluate_with_errors(problem.upper, answer.x), L1Dual.of(problem, n).in_units(units)
    u, unit = answer.x / units, rounding_unit(EPS, *W.shape)
    change = f.value_error + norm(dual.weights) * near.distance * SAFE
    high = f.value + change
    if answer.subgradient is None:  # g has only one minimiser
        return f.value - change, high
    z = W @ ((W.T @ answer.subgradient) / kept)
    s, error, size = answer.lower.times_hessian(answer.lower.at(answer.x, False), units * z)
    s, error, w = units * s, units * error, u - dual.center
    # The relative error of the second derivative is at most about `near.change`: see `_near`.
    price = (1.0 + TOL.percent) * size * near.change
    gain = float(s @ w) - unit * norm(s) * dual.length(u) - float(error @ np.abs(w)) * SAFE - price
    some = of_g.H[np.ix_(dual.free, dual.free)]
    if some.size:
        square = float(np.linalg.eigvalsh(some)[0]) - of_g.error - unit * of_g.top
        sigma = math.sqrt(max(square, 0.0)) / SAFE
        lengths = np.sqrt(np.diag(of_g.H) + of_g.error) * SAFE
        dual = dual.where_seen(sigma, lengths, u, near.change, high)
    return dual.below(gain - 4.0 * EPS * abs(gain), s, error), high


def _relative(slope: Host, level: TallLevel, of: _Curvature, x: Host, units: Host) -> float:
    """Return the size of a slope relative to the terms that cancel in it."""
    terms = norm(units * level.at(np.zeros(level.n), False).slope) + of.top * norm(x / units)
    return norm(slope) / terms if terms > 0.0 else 0.0


def _near(
    answer: TallAnswer, of_g: _Curvature, W: Host, kept: Host, g: EvaluationWithErrors
) -> _Near | None:
    """Return bounds for the minimisers of g near x, or None."""
    units, error, least = answer.units, of_g.error, float(kept[0])
    room = least - 2.0 * error
    if not (room > 0.0 and error <= TOL.percent * room):
        return None
    angle = error / room if W.shape[1] < len(units) else 0.0
    more = SAFE / math.sqrt(1.0 - error / room)
    roots = np.sqrt(kept)
    inside, size = norm((W.T @ g.slope) / roots), norm(g.slope)
    decrement = (inside + (size * angle + g.slope_error) / math.sqrt(room)) * more
    dual = answer.lower.largest_product(units[:, None] * (W / roots))
    rho = (dual + answer.lower.bend * of_g.longest * angle / math.sqrt(room)) * more
    far = rho * decrement
    if not far < ROUGH:
        return None
    change = decrement * (1.0 if far < 1e-9 else -math.log1p(-far) / far) * (1.0 + 1e-9)
    return _Near(decrement * change * SAFE, change, change / math.sqrt(room) * SAFE)


def _rise(answer: TallAnswer, of_f: _Curvature, f: EvaluationWithErrors, near: _Near) -> float:
    """Bound how far f* can be above f(x)."""
    grows = answer.upper.bend * of_f.longest * near.distance
    if grows > 1.0:  # the second derivative may change by a factor above e
        return math.inf
    return near.distance * (f.steepness + 0.5 * math.exp(grows) * of_f.top * near.distance) * SAFE


def _fall(
    answer: TallAnswer,
    of_f: _Curvature,
    of_g: _Curvature,
    eigen: tuple[Host, Host],
    rest: Host,
    f: EvaluationWithErrors,
    near: _Near,
) -> float:
    """Bound how far f* can be below f(x)."""
    W, kept = eigen
    z = W @ ((W.T @ f.slope) / kept)
    # Use norms: squares overflow or underflow if units are far from 1.
    of_z = math.hypot(norm(np.sqrt(kept) * (W.T @ z)), math.sqrt(of_g.error) * norm(z))
    price = of_z * near.change
    unit = 4.0 * rounding_unit(EPS, *W.shape)
    steep = norm(rest) + unit * norm(f.slope) + of_g.error * norm(z) + f.slope_error
    size = float(np.trace(of_f.H))
    a = math.sqrt(float(np.trace(of_g.H)) / size) if size > 0.0 else 1.0
    smallest = float(np.linalg.eigvalsh(a * a * of_f.H + of_g.H)[answer.left_open])
    smallest -= a * a * of_f.error + of_g.error + unit * (a * a * of_f.top + of_g.top)
    if not smallest > 0.0:
        return math.inf
    tau, bend = math.sqrt(smallest) / SAFE, answer.upper.bend * of_f.longest
    pull = a * steep / tau
    if bend * near.change / tau > 0.25 or 2.0 * pull * bend * a / tau > 0.3:
        return math.inf
    return (price + steep * near.change / tau + NEARLY_SQUARE * pull * pull) * SAFE
