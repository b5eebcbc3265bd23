"""Alternate small proximal gradient steps on f with full ones on g, as in Bi-SG and SEA.

    out_k = prox of s_k f2 at x_k - s_k grad f1(x_k)              an upper step, perhaps out of Z
    x_{k+1} = prox of t g2 on Z at out_k - t grad g1(out_k)       a lower step, t <= 1/L_g, into Z

Here f = f1 + f2 and g = g1 + g2 are smooth + penalty; without penalties the steps are a gradient
step and a projected gradient step. With the minorants l_f of f1 at x_k and l_g of g1 at out_k,
every u in Z satisfies

    2 s_k (f(x_k) - l_f(u) - f2(u)) + 2 t (g(x_{k+1}) - l_g(u) - g2(u))
        <= |x_k - u|² - |x_{k+1} - u|² + s_k² |grad f1(x_k) + v|²,

Here v is any subgradient of f2 at x_k. So s_k and t are the weights in the proof, and in the
certificate.
"""

from __future__ import annotations

from typing import NamedTuple

from tiebreak.functions import Minorant, PointWithImage
from tiebreak.linalg import Array, in_files
from tiebreak.problem import Point, Problem
from tiebreak.proofs.evidence import StepEvidence


@in_files("adaptive.alternation")
class Alternation(NamedTuple):
    """The state after k pairs of steps: x_k and the upper step from x_k; a lower step is next."""

    x: Point  # x_k, in Z
    upper_value: float  # f(x_k), with its penalty
    f_x: Minorant  # of f1 at x_k
    g_x: float  # g(x_k), with its penalty
    upper_step: float  # s_k, the step from x_k to out_k
    g_out: Minorant  # of g1 at out_k


def begin(problem: Problem, x0: Array) -> Alternation:
    """Start at x_0 without an upper step: out_0 = x_0."""
    return _after_lower_step(problem, problem.domain.project(x0), 0.0)


def with_upper_step(problem: Problem, alternation: Alternation, upper_step: float) -> Alternation:
    """Keep x and replace the upper step from x."""
    out = _out(problem, alternation.f_x, upper_step)
    (g_out,), _ = problem.lower.evaluate([PointWithImage(out, problem.lower.forward(out)[0])])
    return alternation._replace(upper_step=upper_step, g_out=g_out)


def advance(
    problem: Problem, alternation: Alternation, lower_step: float, upper_step: float
) -> Alternation:
    """Take a lower step from out_k to x_{k+1}, then an upper step from x_{k+1}."""
    out = alternation.g_out
    x = problem.prox(out.at - lower_step * out.slope, 0.0, lower_step)
    return _after_lower_step(problem, x, upper_step)


def evidence(before: Alternation, after: Alternation, lower_step: float) -> StepEvidence:
    """Return the minorants of one pair of steps, weighted by their step sizes."""
    s, t = before.upper_step, lower_step
    return StepEvidence(
        upper=((s, before.f_x),) if s > 0.0 else (),
        cuts=((t, before.g_out),),
        lower=((t, before.g_out),),
        values=((after.g_x, after.x.x, after.g_out),),
    )


def _after_lower_step(problem: Problem, x: Array, step: float) -> Alternation:
    """Return x_{k+1} and out_{k+1}; g's matrix multiplies both points in one pass."""
    f, g = problem.upper, problem.lower
    (f_image,) = f.forward(x)
    (f_x,), _ = f.evaluate([PointWithImage(x, f_image)])
    out, upper_value = _out(problem, f_x, step), f_x.value + problem.penalties[0].value(x)
    x_image, out_image = g.forward(x, out)
    (g_out,), (g_x,) = g.evaluate([PointWithImage(out, out_image)], [PointWithImage(x, x_image)])
    return Alternation(Point(x, f_image, x_image), upper_value, f_x, g_x, step, g_out)


def _out(problem: Problem, f_x: Minorant, step: float) -> Array:
    """Return the prox of step f2 at x - step grad f1(x) on R^n; the lower step returns to Z."""
    return problem.penalties[0].prox(f_x.at - step * f_x.slope, step)
