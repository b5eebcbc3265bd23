"""The proof of the last iterate of the primal-dual method: a cut with a larger multiplier.

The cut of a step, at y_k with the multiplier Lambda_k, proves f* but for q/(2 Lambda_k), where q is
|u|² for the dual variable u: that falls like 1/k, much slower than the error of x_k itself. The cut
at x_k + (s_k - x_k) Lambda_k/Lambda with a larger multiplier Lambda stands for the same dual, for

    Lambda grad g1 = Lambda_k grad g1(s_k) + (Lambda - Lambda_k) grad g1(x_k)

if g1 is quadratic, and about so otherwise. What it adds is as small as x_k is optimal below: it
costs at most Lambda times ``excess``, a bound on g(x_k) - g*. The best Lambda has both costs alike.
These are only minorants: what they prove is for the bound accumulator to say.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tiebreak.functions.base import Minorant
from tiebreak.linalg import arrays
from tiebreak.problem import Problem, mixed
from tiebreak.proofs.evidence import StepEvidence

if TYPE_CHECKING:
    from tiebreak.algorithms.primal_dual import State

INSIDE = 1e-5  # the multiplier is so much smaller at least: a slope inside the dual ball of f2


def with_proof(problem: Problem, state: State) -> StepEvidence:
    """The evidence of the last step and of two more gradients of g1: at x_k, and of such a cut."""
    g1, x, evidence = problem.smooth_parts[1], state.point, state.evidence
    ((g_x,), _) = g1.evaluate([x.g])
    y, multiplier = state.g_y, state.multiplier + state.sigma
    q = arrays.dot(y.at - x.x, y.slope - g_x.slope) * multiplier * multiplier
    weight, (excess, error) = evidence.upper[0][0], _excess(problem, state, g_x)
    evidence = evidence._replace(lower=(*evidence.lower, (weight * multiplier, g_x)))
    best = math.sqrt(0.5 * q / excess) if q > 0.0 and excess > 0.0 else 0.0  # Lambda
    if not state.multiplier < best < math.inf:
        return evidence
    cut_at = mixed(x, state.s, state.multiplier / best)
    ((cut,), _) = g1.evaluate([cut_at.g])
    inside = 0.0
    if problem.penalties[0].terms.has_weights:
        inside = min(max(INSIDE, 2.0 * error / (arrays.max_abs(cut.slope) or error)), 1.0)
    return evidence._replace(
        upper=(*evidence.upper, (weight, state.f_x)),
        cuts=(*evidence.cuts, ((1.0 - inside) * weight * best, cut)),
    )


def _excess(problem: Problem, state: State, g_x: Minorant) -> tuple[float, float]:
    """About g(x_k) - g*, at most, from a proximal gradient step on g, and how far its slope is off.

    Rounding is included in both.
    """
    x, t = state.x, 1.0 / state.L_g
    length, reach = arrays.norm(x), problem.domain.diameter_in(int(x.shape[0]))
    reach = reach if math.isfinite(reach) else length
    left = arrays.norm(x - problem.prox(x - t * g_x.slope, 0.0, t)) / t
    parts, steepness = max(abs(g_x.value), g_x.size), arrays.norm(g_x.slope)
    of_value, of_slope = problem.lower.rounding_errors(x, length, parts, steepness)
    return left * reach + 2.0 * of_value + of_slope * (length + reach), left + of_slope
