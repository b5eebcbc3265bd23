"""Gradient steps by turns, on f with a small step and on g with a full one: Bi-SG and SEA.

    out_k = x_k - s_k grad f(x_k)                         an upper step, perhaps out of Z
    x_{k+1} = projection of out_k - t grad g(out_k)       a lower step, t <= 1/L_g, into Z

With the minorants l_f at x_k and l_g at out_k, every u in Z has

    2 s_k (f(x_k) - l_f(u)) + 2 t (g(x_{k+1}) - l_g(u))
        <= |x_k - u|² - |x_{k+1} - u|² + s_k² |grad f(x_k)|²,

so that s_k and t are the weights of both proofs, and of the certificate.
"""

from __future__ import annotations

from typing import NamedTuple

from tiebreak.arrays import Array
from tiebreak.certificate import News
from tiebreak.functions import Lifted, Seen
from tiebreak.problem import Point, Problem


class Turns(NamedTuple):
    """Where the two alternating steps are: the upper one is taken, the lower one comes next."""

    x: Point  # in Z
    f_x: Seen
    g_x: float
    upper_step: float  # s, the step from x to out
    g_out: Seen


def begin(problem: Problem, x0: Array) -> Turns:
    """At x_0, without an upper step: out_0 = x_0."""
    return _upper_turn(problem, problem.domain.project(x0), 0.0)


def with_upper_step(problem: Problem, turns: Turns, upper_step: float) -> Turns:
    """The same x, with another upper step from there."""
    out = turns.x.x - upper_step * turns.f_x.slope
    (g_out,), _ = problem.lower.look([Lifted(out, problem.lower.lift(out)[0])])
    return turns._replace(upper_step=upper_step, g_out=g_out)


def advance(problem: Problem, turns: Turns, lower_step: float, upper_step: float) -> Turns:
    """A lower step from out_k to x_{k+1}, then an upper step from there."""
    out = turns.g_out
    return _upper_turn(problem, problem.domain.project(out.at - lower_step * out.slope), upper_step)


def news(before: Turns, after: Turns, lower_step: float) -> News:
    """The minorants of one pair of steps, weighted by their step sizes."""
    s, t = before.upper_step, lower_step
    return News(
        upper=((s, before.f_x),) if s > 0.0 else (),
        cuts=((t, before.g_out),),
        lower=((t, before.g_out),),
        values=((after.g_x, after.x.x, after.g_out),),
    )


def first_news(turns: Turns) -> News:
    """The start lies in Z."""
    return News(values=((turns.g_x, turns.x.x, turns.g_out),))


def _upper_turn(problem: Problem, x: Array, step: float) -> Turns:
    """From x to out = x - step grad f(x); g's matrix sees both points in one pass."""
    f, g = problem.upper, problem.lower
    (f_image,) = f.lift(x)
    (f_x,), _ = f.look([Lifted(x, f_image)])
    out = x - step * f_x.slope
    x_image, out_image = g.lift(x, out)
    (g_out,), (g_x,) = g.look([Lifted(out, out_image)], [Lifted(x, x_image)])
    return Turns(Point(x, f_image, x_image), f_x, g_x, step, g_out)
