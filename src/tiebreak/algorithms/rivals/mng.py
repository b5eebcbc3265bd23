"""MNG: the minimal norm gradient method, which projects the center onto two half-spaces.

Beck, Sabach: A first order method for finding minimal norm-like solutions of convex optimization
problems, Math. Program. 147, 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Notes, Rate, StateReport
from tiebreak.algorithms.common import (
    RunState,
    minorants_at,
    need_joint_prox,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
    values_at,
    weighted,
)
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Problem


@in_files("mng")
class Memory(NamedTuple):
    """The variables of the recursion, besides T(x_k), a point of Z."""

    center: Array
    inner: Array  # x_k, outside Z
    inner_value: float  # f(x_k)
    step_size: float  # 1/M


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class MNG(Method):
    """Minimal Norm Gradient method, for the squared distance f = sigma/2 |x - center|².

        T(x)    = prox of g2/M on Z at x - grad g1(x)/M,   G = M (x - T(x)),   M = L_g
        Q_k     = { z : <G, z> <= <G, x_k> - 3/(4M) |G|² }            at x = x_k, x_0 = center
        W_k     = { z : <x_k - center, z> >= <x_k - center, x_k> }
        x_{k+1} = the point of Q_k ∩ W_k nearest to the center,   output T(x_k)

    Here g = g1 + g2 is smooth + penalty. The method recognises such an f by L_f = sigma, which
    holds for no other function. The starting point x0 is not used. A step requires one gradient of
    g.

    All minimisers of g lie in Q_k and W_k; this follows in two lines, because T is 2/3-averaged.
    Hence f(x_k) <= f* never decreases, and min_{i<k} g(T(x_i)) - g* <= 8 L_g (f* - f(x_0))/(3 sigma
    sqrt(k)). The report shows f(x_k) as the method's own bound; the certificate uses only
    evaluations, so it covers all rounding errors.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.MNG(), rtol=1e-2).status
        'certified'
    """

    name: ClassVar[str] = "mng"
    paper: ClassVar[str] = (
        "Beck, Sabach: A first order method for finding minimal norm-like solutions of convex "
        "optimization problems, Math. Program. 2014"
    )
    assumptions: ClassVar[str] = (
        "f = sigma/2 |x - center|²; g convex, smooth + penalty; Z closed, joint prox with the "
        "lower penalty"
    )
    guarantee: ClassVar[str] = "f(x_k) <= f* never decreases; the best g - g* <= O(k^(-1/2))"
    cites: ClassVar[tuple[str, ...]] = ("becksabach2014",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("g", 0.5, at="the best of all T(x_i)"),)
    output: ClassVar[str] = "T(x_k), the lower step from the last iterate"

    def check(self, problem: Problem) -> Refusal | None:
        refusal, f = need_smooth(self, problem, "upper"), problem.upper
        if not refusal and not 0.0 < f.lipschitz == f.strong_convexity:
            needed = "must be the squared distance from a point, times a weight"
            refusal = Refusal("MNG", "upper", needed, type(f.bare).__name__)
        refusal = refusal or need_lipschitz(self, problem, "lower")
        return refusal or need_joint_prox(self, problem)

    def describe(self, problem: Problem) -> str:
        return "MNG, projections of the center onto two half-spaces"

    def report(self, state: State) -> StateReport:
        """Report the method's own lower bound on f*."""
        bound = state.memory.inner_value
        text = f"f* >= {bound:.9g} in exact arithmetic, by MNG's own theorem (no certificate)"
        return StateReport(findings=Notes((("own bound", text),)))

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with x_0 = center."""
        f, g = problem.upper, problem.lower
        origin = arrays.zeros_like(x0)
        center = origin - f.gradient(origin) / f.strong_convexity
        (c,) = problem.forward(center)
        (g_c,), _ = g.evaluate([c.g])
        step = 1.0 / positive_smoothness(problem, g, g_c, g_c)
        return _arrived(problem, 0, center, center, step)

    def step(self, problem: Problem, state: State) -> State:
        """Move to the point of both half-spaces nearest to the center."""
        center, x, _, step = state.memory
        unit = arrays.rounding_unit(arrays.epsilon(x), int(x.shape[0]))
        noise = unit * (arrays.norm(x) + arrays.norm(center))
        moved = _nearest(x - center, x - state.x, noise)
        return _arrived(problem, state.k + 1, center, center + moved, step)


def _nearest(d: Array, r: Array, noise: float) -> Array:
    """Return the u of least norm with <r, u> <= <r, d> - 3/4 |r|² and <d, u> >= |d|².

    Here d = x - center and r = x - T(x).

    If only the first inequality binds, u is a multiple of r; otherwise u is d minus a multiple of
    the part of r orthogonal to d. Both vectors have errors of size ``noise``: an orthogonal part
    below this size is only error, and dividing by its norm would make u far too long.
    """
    rr, rd, dd = arrays.dots((r, r), (r, d), (d, d))
    share = (rd - 0.75 * rr) / rr if rr > 0.0 else 0.0
    if share < 0.0 and share * rd >= dd - noise * math.sqrt(dd):
        return share * r
    across = r - (rd / dd) * d if dd > 0.0 else r
    length = arrays.norm(across)
    return d - (0.75 * (rr / length) / length) * across if length > noise else d


def _arrived(problem: Problem, k: int, center: Array, at: Array, step: float) -> State:
    """Return the state at x_k, with one gradient of g at x_k and the lower step T(x_k)."""
    (x,) = problem.forward(at)
    f_x, g_x = minorants_at(problem, x)
    (t,) = problem.forward(problem.prox(at - step * g_x.slope, 0.0, step))
    f_t, g_t = values_at(problem, t)
    ratio = step * problem.upper.lipschitz
    evidence = weighted(1.0, f_x, ratio, g_x, (g_t, t.x, g_x), lower=1.0)
    return RunState(k, t, f_t, g_t, evidence, Memory(center, at, f_x.value, step))
