"""IR-CG: conditional gradients on g + e_t f with decreasing e_t; needs only linear minimisation.

Giang-Tran, Ho-Nguyen, Lee: A projection-free method for solving convex bilevel optimization
problems, Math. Program. 213, 2025, arXiv 2311.09738.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Range, Rate, StateReport
from tiebreak.algorithms.common import (
    POSITIVE,
    SHARE,
    RunState,
    at_start,
    averaged,
    begun,
    both_smoothness,
    minorants_at,
    need_argmin,
    need_lipschitz,
    need_smooth,
    values_at,
    weighted,
)
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, in_files
from tiebreak.problem import Point, Problem, mixed


@in_files("ir-cg")
class Memory(NamedTuple):
    """The variables of the recursion, besides z_t, the point at which the proof bounds f."""

    iterate: Point  # x_t
    f_x: Minorant  # minorants of both levels at x_t
    g_x: Minorant
    unit: float  # c L_g/L_f
    total: float  # the sum of the weights of x_1 ... x_{t-1} in z_t
    average: Point  # the average of x_1 ... x_{t-1} with these weights


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class IRCG(Method):
    """Iteratively Regularized Conditional Gradient method, for a bounded Z.

        v_t     = argmin over Z of <grad g(x_t) + e_t grad f(x_t), v>,    e_t = c u/(t+1)^p
        x_{t+1} = x_t + 2/(t+2) (v_t - x_t),                              u = L_g/L_f
        z_T     = [ T (T+1) e_{T-1} x_T + sum_{0<t<T} t (t+1) (e_{t-1} - e_t) x_t ]/W_T

    Here W_T is the sum of the weights. The output is z_T. No projection onto Z is needed: Z may be
    a polyhedron, over which each linear minimisation is a linear program. The unit u is our
    addition.

    With L = L_g + e_0 L_f, D the diameter of Z and any f_low <= min_Z f, we prove

        f(z_T) - f* <= 2 L D² T/W_T = O(T^-(1-p))
        g(x_T) - g* <= [ 2 L D² T + 2 (f* - f_low) sum_{t<T} (t+1) e_t ]/(T (T+1)) = O(T^-p),

    These rates agree with the paper; the certificate gets the minorants at x_t with the weights
    (t+1) e_t and t+1 of the proof.

    Args:
        p: how fast the weight of f decreases, in (0, 1).
        c: a factor of the weight e_t of f.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.IRCG(), rtol=1e-1, criterion="weak").status
        'certified'
    """

    p: float = 0.5
    c: float = 1.0

    name: ClassVar[str] = "ir-cg"
    paper: ClassVar[str] = (
        "Giang-Tran, Ho-Nguyen, Lee: A projection-free method for solving convex bilevel "
        "optimization problems, Math. Program. 2025, arXiv 2311.09738"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z bounded, with easy linear minimisation"
    guarantee: ClassVar[str] = "f - f* <= O(T^-(1-p)); g - g* <= O(T^-p), at the last iterate"
    cites: ClassVar[tuple[str, ...]] = ("giangtran2025ircg",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 0.5, "p = 1/2"),
        Rate("g", 0.5, "p = 1/2", at="the last iterate"),
    )
    output: ClassVar[str] = "z_T, the average with the weights of the proof"
    needs_projection: ClassVar[bool] = False
    ranges: ClassVar[dict[str, Range]] = {"p": SHARE, "c": POSITIVE}

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_smooth(self, problem)
            or need_argmin(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
        )

    def describe(self, problem: Problem) -> str:
        return f"IR-CG, weight of f {self.c:g} L_g/L_f (t+1)^-{self.p:g}, averaged"

    def report(self, state: State) -> StateReport:
        """Report the ``reach`` of the average."""
        return StateReport(reach=state.point.reach)

    def points(self, state: State) -> dict[str, Array]:
        """Return the point at which the proof bounds g."""
        return {"the last iterate": state.memory.iterate.x}

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin at x0, or at v_0 if x0 is outside Z and Z has no projection."""
        x, f_x, g_x = at_start(problem, x0)
        L_f, L_g = both_smoothness(problem, f_x, g_x)
        memory = Memory(x, f_x, g_x, self.c * (L_g / L_f), 0.0, x)
        return begun(x, f_x.value, g_x.value, g_x, memory)

    def step(self, problem: Problem, state: State) -> State:
        """Take one conditional gradient step and update the average."""
        t, (iterate, f_x, g_x, unit, total, average) = state.k, state.memory
        e, before = (unit / max(j, 1) ** self.p for j in (t + 1, t))
        (v,) = problem.forward(problem.domain.argmin(g_x.slope + e * f_x.slope))
        x = averaged(problem, iterate, v, 2.0 / (t + 2), t + 1)
        if weight := t * (t + 1) * (before - e):
            total += weight
            average = averaged(problem, average, iterate, weight / total, t + 1)
        last = (t + 1) * (t + 2) * e
        z = mixed(average, x, last / (total + last))
        f_new, g_new = minorants_at(problem, x)
        f_z, g_z = values_at(problem, z)
        values = (g_new.value, x.x, g_new), (g_z, z.x, g_new)
        evidence = weighted((t + 1.0) * e, f_x, t + 1.0, g_x, *values)
        memory = Memory(x, f_new, g_new, unit, total, average)
        return RunState(t + 1, z, f_z, g_z, evidence, memory)
