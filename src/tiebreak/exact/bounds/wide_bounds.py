"""Proved intervals for f* and g* on R^n, computed from A A' if A has few rows.

All minimisers x* of g have the same image A x*. Let delta = x* - x for the solution x*, and scale A
to S = 2^-e A. Let sigma be the least positive singular value of S. Then

    |S delta|  =  |b - S x|  <=  c              if S has independent rows, because then S x* = b,
    |S delta|  <=  |S'(b - S x)|/sigma  <=  c   otherwise.

Some minimiser is within c/sigma of x, and g(x) - g* = w/2 4^e |S delta|². For every y, we have

    f*  >=  f(x) + <s, delta> - |y| c + (curvature of f along delta),    s = grad f(x) + S'y.

If f is an l1 norm and t |S'y| is at most its weights, then f* >= t <y, S x*> and <y, S x*> >= <y, S
x> - |y| c.
"""

from __future__ import annotations

import math

import numpy as np

from tiebreak.exact.bounds.evaluations import change_within, evaluate_with_errors
from tiebreak.exact.bounds.loss_bounds import L1Dual
from tiebreak.exact.reductions.wide import WideAnswer
from tiebreak.functions import Minorant
from tiebreak.linalg import EPS, SAFE, Host, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import WITHIN, Intervals


def prove_wide(
    problem: Problem, answer: WideAnswer, upper: Minorant, lower: Minorant
) -> tuple[Intervals, float]:
    """Return proved intervals, and the relative residuals of both optimality conditions.

    ``upper`` and ``lower`` are the evaluations of f and g at x.

    If f is sigma-strongly convex, its curvature adds sigma/2 |delta|². Otherwise s is a combination
    of the rows of F and S, and only the part of delta in their span matters. This part is a + d,
    where a is in the span of the rows of S, and S d = 0. With l from `Reduced`, |a| <= c/sigma and
    l |d| <= |F delta| + |F| |a|. With u = |F delta|, this gives

        <s, delta> + ½ u²  >=  -|s| c/sigma (1 + |F|/l) - |s| u/l + ½ u²,    least at u = |s|/l.
    """
    x, equations, gram, rank = host(answer.x), answer.equations, answer.gram, answer.rank
    f = evaluate_with_errors(problem.upper, answer.x, seen=upper)
    g = evaluate_with_errors(problem.lower, answer.x, seen=lower)
    S, size, unit = equations.S, equations.size, rounding_unit(EPS, *equations.S.shape)
    left, sigma = equations.left(x), math.sqrt(gram.least(rank)) / SAFE
    unmet, back = norm(left) + equations.error(x, left), norm(S.T @ left)
    if rank < S.shape[0]:
        unmet = (back + (unit * norm(left) + equations.error(x, left)) * size) / sigma
    high = f.value + change_within(problem, f, unmet / sigma * SAFE)
    more = math.ldexp(unmet, equations.exponent) * SAFE
    excess = 0.5 * answer.weights[1] * more * more
    own = size * (size * norm(x) + norm(equations.b))
    residual = back / own if own > 0.0 else 0.0
    rests = WITHIN.format(unmet / sigma)  # as a sum of squares, g has minimisers
    least = g.value - g.value_error - excess
    if answer.dual is not None:
        low = _below_l1(problem, answer, x, left, unmet, high)
        return Intervals((low, high), least, "", True, rests), max(residual, answer.balance)
    y = -gram.solve(S @ f.slope, rank)
    rest = f.slope + S.T @ y
    steep = norm(rest) + f.slope_error + unit * (norm(f.slope) + size * norm(y))
    fall, terms = _fall(answer, x, steep, unmet / sigma)
    fall = (fall + norm(y) * unmet) * (1.0 + unit) * SAFE
    low = f.value - f.value_error - fall - 4.0 * EPS * abs(f.value)
    residual = max(norm(rest) / terms if terms > 0.0 else 0.0, residual)
    return Intervals((low, high), least, "", True, rests), residual


def _below_l1(
    problem: Problem, answer: WideAnswer, x: Host, left: Host, unmet: float, high: float
) -> float:
    """Bound f* from below for an l1 norm, if b - S x = left, |S delta| <= unmet and f* <= high.

    We use <y, S x> = <y, b - left>, and subtract <S'y, center>.
    """
    equations, y, (m, n) = answer.equations, answer.dual, answer.equations.S.shape
    assert y is not None
    unit, dual = rounding_unit(EPS, m), L1Dual.of(problem, n)
    # a bound on the lengths of the columns
    longest = math.sqrt(answer.gram.value(1) + answer.gram.noise) * SAFE
    s, error = equations.S.T @ y, unit * longest * norm(y)
    gain = float(y @ equations.b) - float(y @ left) - float(s @ dual.center)
    lost = unmet + equations.error(x, left) + unit * (norm(equations.b) + norm(left))
    lost += rounding_unit(EPS, m, n) * equations.size * norm(dual.center)
    dual = dual.within(equations.S, x, unmet, high)
    return dual.below(gain - norm(y) * lost * (1.0 + unit) * SAFE - 8.0 * EPS * abs(gain), s, error)


def _fall(answer: WideAnswer, x: Host, steep: float, away: float) -> tuple[float, float]:
    """Bound how far f can decrease, given its curvature, |s| <= steep and |a| <= away.

    Also return the size of the terms of f's slope at x.
    """
    weight, reduced = answer.weights[0], answer.reduced
    if reduced is None:
        w = np.ones(1) if answer.metric is None else answer.metric.weights
        terms = norm(w * x) + norm(w * answer.center)
        return 0.5 * steep * (steep / weight), weight / float(np.min(w)) * terms
    F, least = reduced.equations, reduced.least
    weight = math.ldexp(weight, 2 * F.exponent)
    fall = steep * away * (1.0 + F.size / least) + 0.5 * (steep / least) * (steep / least / weight)
    return fall, weight * F.size * (F.size * norm(x) + norm(F.b))
