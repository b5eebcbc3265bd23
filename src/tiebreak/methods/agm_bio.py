"""AGM-BiO: an accelerated gradient method with a cutting plane (Algorithm 1 of the paper).

Cao, Jiang, Yazdandoost Hamedani, Mokhtari: An accelerated gradient method for convex smooth simple
bilevel optimization, NeurIPS 2024, arXiv 2402.08097.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from tiebreak import arrays, checks, theory
from tiebreak.arrays import Array, Image, mix
from tiebreak.certificate import News
from tiebreak.functions import Function, Seen
from tiebreak.methods.common import (
    DEFAULT_HORIZON,
    REFRESH,
    need_lipschitz,
    need_smooth,
    positive_smoothness,
)
from tiebreak.problem import Point, Problem


@dataclass(frozen=True)
class OnlineLevels:
    """g_k from an accelerated projected gradient run on g beside the main loop, one step ahead."""


@dataclass(frozen=True)
class FixedLevels:
    """g_k = g_K for all k: first ``iterations`` steps on g alone, then the main loop.

    Removes the logarithms from the bounds; one gradient of g per step less in the main loop.
    """

    iterations: int

    def __post_init__(self) -> None:
        checks.whole("FixedLevels", "iterations", self.iterations, 1)


@dataclass(frozen=True)
class GivenLevels:
    """g_k given by you: one number, a sequence (its last entry stays), or a callable of k.

    A level below g* may empty the cut; the step is then clipped, and no certificate relies on it.
    """

    values: float | Sequence[float] | Callable[[int], float]

    def __post_init__(self) -> None:
        self.at(0)

    def at(self, k: int) -> float:
        """The level for step k."""
        needed = "a number, a non-empty sequence of numbers or a callable of k"
        values: Any = self.values
        given = values
        if callable(values):
            given = values(k)
        elif not isinstance(values, str) and hasattr(values, "__len__") and len(values):
            given = values[min(k, len(values) - 1)]
        level = checks.number("GivenLevels", "values", given, needed)
        if math.isnan(level) or level == -math.inf:
            raise ValueError(f"GivenLevels: the level of step {k} must be a number, got {level}")
        return level


class Auxiliary(NamedTuple):
    """The accelerated projected gradient run on g that makes the levels (three-sequence form)."""

    k: int  # steps taken
    B: float  # sum of the step sizes b_i
    u: Array  # the averaged point, whose value is the level
    v: Array  # the mirror point
    u_image: Image  # images of u and v under g's matrix
    v_image: Image
    g_w: Seen  # g at w = mix(u, v), where the next step starts
    g_u: float


class State(NamedTuple):
    """Everything a run needs to go on; arrays and numbers only."""

    k: int  # steps of Algorithm 1 taken
    A: float  # sum of the step sizes a_i
    x: Array  # the point the theorems speak of
    z: Array  # the projected point
    x_images: tuple[Image, Image]  # images of x and z under the matrices of f and g
    z_images: tuple[Image, Image]
    f_y: Seen  # f and g at y = mix(x, z), where the next step starts
    g_y: Seen
    level: float  # g_k of the next step
    mu: float  # multiplier of the last cut, the next one's first guess
    upper_value: float  # f(x) and g(x)
    lower_value: float
    smoothness: float  # S = L_f/gamma
    lower_smoothness: float  # L_g, or its stand-in where g is linear
    steep: tuple[int, int]  # how often f, g rose more than their Lipschitz constants allow
    bent: tuple[int, int]  # how often f, g fell below their own minorants, as no convex one can
    auxiliary: Auxiliary | None
    news: News  # the minorants of this step, for the certificate


@dataclass(frozen=True)
class AGMBiO:
    """Accelerated Gradient Method for Bilevel Optimization.

    Algorithm 1, with a_k = gamma (k+1)/(4 L_f):

        y_k     = (A_k x_k + a_k z_k)/(A_k + a_k)
        z_{k+1} = projection of z_k - a_k grad f(y_k) onto
                  { z in Z : g(y_k) + <grad g(y_k), z - y_k> <= g_k }
        x_{k+1} = (A_k x_k + a_k z_{k+1})/(A_k + a_k),   A_{k+1} = A_k + a_k

    Args:
        gamma: in (0, 1], or None for the theorem that applies: Theorem 3 or 2 with the problem's
            error bound (or Theorem 2 with order 2 where g is known to grow quadratically), else
            Theorem 1 (gamma = 1) on a bounded domain; gamma = 1 too where none applies, and the
            report says so.
        levels: where g_k comes from: OnlineLevels(), FixedLevels(iterations), GivenLevels(values).
        horizon: T of Theorem 2, the planned number of steps; ``solve`` puts max_iter.
    """

    gamma: float | None = None
    levels: OnlineLevels | FixedLevels | GivenLevels = field(default_factory=OnlineLevels)
    horizon: int | None = None

    name: ClassVar[str] = "agm-bio"
    paper: ClassVar[str] = (
        "Cao, Jiang, Yazdandoost Hamedani, Mokhtari: An accelerated gradient method for convex "
        "smooth simple bilevel optimization, NeurIPS 2024, arXiv 2402.08097"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z closed, with an easy projection"
    guarantee: ClassVar[str] = (
        "f - f* <= O(1/k²); g - g* <= O(1/k) on a bounded Z, "
        "both O(k^(-2r/(2r-1))) under an error bound of order r"
    )

    def __post_init__(self) -> None:
        if self.gamma is not None:
            gamma = checks.number("AGMBiO", "gamma", self.gamma, "a number in (0, 1] or None")
            if not 0.0 < gamma <= 1.0:
                raise ValueError(
                    f"AGMBiO: gamma must be a number in (0, 1] or None, got {self.gamma}"
                )
        if not isinstance(self.levels, OnlineLevels | FixedLevels | GivenLevels):
            raise TypeError(
                "AGMBiO: levels must be OnlineLevels(), FixedLevels(iterations) or "
                f"GivenLevels(values), got {checks.what_it_is(self.levels)}"
            )
        if self.horizon is not None:
            checks.whole("AGMBiO", "horizon", self.horizon, 1)

    def check(self, problem: Problem) -> None:
        """Refuse a problem outside the assumptions, with one sentence."""
        need_smooth("AGMBiO", problem)
        need_lipschitz("AGMBiO", problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        """The method, its step-size rule and the source of its levels, in words."""
        return f"AGM-BiO, {self.theorem(problem)}, {type(self.levels).__name__}"

    def planned(self, steps: int) -> AGMBiO:
        """This method with T of Theorem 2 filled in, for a run of at most ``steps`` steps."""
        return self if self.horizon is not None else replace(self, horizon=steps)

    # -- the step size ------------------------------------------------------------------------

    def theorem(self, problem: Problem) -> str:
        """Which theorem of the paper speaks for a run on ``problem``, in words."""
        if self.gamma is not None:
            return f"gamma = {self.gamma:g}"
        if (order := _order(problem)) is not None:
            return f"gamma by Theorem {2 if order > 1.0 else 3} (error bound of order {order:g})"
        if problem.is_bounded:
            return "gamma = 1 by Theorem 1 (bounded domain)"
        return "gamma = 1, no theorem bounds the lower level (unbounded domain, no error bound)"

    def smoothness(self, problem: Problem, L_f: float, L_g: float) -> float:
        """S = L_f/gamma, so that a_k = (k+1)/(4 S)."""
        order, bound = _order(problem), problem.error_bound
        if self.gamma is not None:
            return L_f / self.gamma
        if order is None:
            return L_f
        if order == 1.0 and bound is not None:
            return theory.smoothness_weak_sharpness(
                L_f, L_g, modulus=bound.modulus, gradient_bound=bound.gradient_bound
            )
        return theory.smoothness_error_bound(
            L_f, L_g, order=order, iterations=self.horizon or DEFAULT_HORIZON
        )

    # -- the algorithm ------------------------------------------------------------------------

    def init(self, problem: Problem, x0: Array) -> State:
        """x_0 = z_0 = y_0 and the first auxiliary step, so that the level is one step ahead."""
        f, g = problem.upper, problem.lower
        (x,) = problem.lift(problem.domain.project(x0))
        (f_y,), _ = f.look([x.f])
        (g_y,), _ = g.look([x.g])
        L_g = positive_smoothness(problem, g, g_y, g_y)
        S = self.smoothness(problem, f.lipschitz, g.lipschitz)
        if S == 0.0:  # f is linear and no theorem gives a limit: any positive number is admissible
            S = positive_smoothness(problem, f, f_y, g_y) / (self.gamma or 1.0)
        state = State(
            k=0, A=0.0, x=x.x, z=x.x, x_images=x[1:], z_images=x[1:], f_y=f_y, g_y=g_y,
            level=g_y.value, mu=0.0, upper_value=f_y.value, lower_value=g_y.value,
            smoothness=S, lower_smoothness=L_g, steep=(0, 0), bent=(0, 0),
            auxiliary=Auxiliary(0, 0.0, x.x, x.x, x.lower, x.lower, g_y, g_y.value),
            news=News(values=((g_y.value, g_y.at, g_y),)),
        )  # fmt: skip
        if isinstance(self.levels, GivenLevels):
            return state._replace(level=self.levels.at(0), auxiliary=None)
        return _auxiliary_step(problem, state)

    def step(self, problem: Problem, state: State) -> State:
        """One step of Algorithm 1, or of the first phase of FixedLevels."""
        if isinstance(self.levels, FixedLevels) and state.auxiliary is not None:
            if state.auxiliary.k < self.levels.iterations:
                return _auxiliary_step(problem, state)
            state = state._replace(auxiliary=None)
        f, g, Z = problem.upper, problem.lower, problem.domain
        k, S, aux = state.k, state.smoothness, state.auxiliary
        a, a_next = theory.step_size(k, S), theory.step_size(k + 1, S)
        A = state.A + a

        # Line 6: a gradient step on f, projected onto Z and the cut of g at y_k.
        y, c = state.g_y.at, state.g_y.slope
        offset = state.level - state.g_y.value + arrays.dot(c, y)
        z_new, mu = Z.project_cut(state.z - a * state.f_y.slope, c, offset, state.mu)
        # Both sequences are lifted together, so that streamed data is passed over once.
        if aux is None:
            (z,) = problem.lift(z_new)
        else:
            z, v = _lift_both(problem, z_new, _auxiliary_mirror(problem, state, aux))

        x = mix(Point(state.x, *state.x_images), z, a / A)
        if (k + 1) % REFRESH == 0:
            (x,) = problem.lift(x.x)
        y_next = mix(x, z, a_next / (A + a_next))
        (f_y,), (f_x,) = f.look([y_next.f], [x.f])
        if aux is None:
            (g_y,), (g_x,) = g.look([y_next.g], [x.g])
            level, lower, values = state.level, [(a, state.g_y)], [(g_x, x.x, g_y)]
        else:
            u, w = _auxiliary_points(problem, state, aux, v)
            (g_y, g_w), (g_x, g_u) = g.look([y_next.g, w.g], [x.g, u.g])
            aux, used = _auxiliary_advance(state, aux, u, v, g_w, g_u), aux
            level = min(state.level, g_u)
            lower, values = [(aux.B - used.B, used.g_w)], [(g_x, x.x, g_y), (g_u, u.x, g_w)]
        if isinstance(self.levels, GivenLevels):
            level = self.levels.at(k + 1)

        dz = z.x - state.z
        moved = (a / A) * dz, (a / A) ** 2 * arrays.dot(dz, dz)  # x_{k+1} - y_k, squared length
        steep_f, bent_f = _out_of_bounds(f, state.f_y, f_x, *moved)
        steep_g, bent_g = _out_of_bounds(g, state.g_y, g_x, *moved)
        return state._replace(
            k=k + 1, A=A, x=x.x, z=z.x, x_images=x[1:], z_images=z[1:], f_y=f_y, g_y=g_y,
            level=level, mu=mu, upper_value=f_x, lower_value=g_x, auxiliary=aux,
            steep=(state.steep[0] + steep_f, state.steep[1] + steep_g),
            bent=(state.bent[0] + bent_f, state.bent[1] + bent_g),
            news=News(
                upper=((a, state.f_y),),
                cuts=((mu, state.g_y),),
                lower=tuple(lower),
                values=tuple(values),
            ),
        )  # fmt: skip


# -- the auxiliary run: w = mix(u, v), v+ = projection of v - b grad g(w), u+ = mix(u, v+)


def _auxiliary_mirror(problem: Problem, state: State, aux: Auxiliary) -> Array:
    """v_{k+1} = projection of v_k - b_k grad g(w_k) onto Z, b_k = (k+1)/(2 L_g)."""
    b = theory.auxiliary_step_size(aux.k, state.lower_smoothness)
    return problem.domain.project(aux.v - b * aux.g_w.slope)


def _auxiliary_points(
    problem: Problem, state: State, aux: Auxiliary, v: Point
) -> tuple[Point, Point]:
    """u_{k+1} and the point w_{k+1} where g is looked at next."""
    b = theory.auxiliary_step_size(aux.k, state.lower_smoothness)
    b_next = theory.auxiliary_step_size(aux.k + 1, state.lower_smoothness)
    B = aux.B + b
    u = mix(Point(aux.u, None, aux.u_image), v, b / B)
    if (aux.k + 1) % REFRESH == 0:
        u = Point(u.x, None, problem.lower.lift(u.x)[0])
    return u, mix(u, v, b_next / (B + b_next))


def _auxiliary_advance(
    state: State, aux: Auxiliary, u: Point, v: Point, g_w: Seen, g_u: float
) -> Auxiliary:
    b = theory.auxiliary_step_size(aux.k, state.lower_smoothness)
    return Auxiliary(aux.k + 1, aux.B + b, u.x, v.x, u.lower, v.lower, g_w, g_u)


def _auxiliary_step(problem: Problem, state: State) -> State:
    """One step of the auxiliary run alone: in ``init``, and in the first phase of FixedLevels."""
    aux = state.auxiliary
    assert aux is not None
    moved = _auxiliary_mirror(problem, state, aux)
    v = Point(moved, None, problem.lower.lift(moved)[0])
    u, w = _auxiliary_points(problem, state, aux, v)
    (g_w,), (g_u,) = problem.lower.look([w.g], [u.g])
    after = _auxiliary_advance(state, aux, u, v, g_w, g_u)
    news = News(
        lower=((after.B - aux.B, aux.g_w),),
        values=(*(state.news.values if aux.k == 0 else ()), (g_u, u.x, g_w)),
    )
    return state._replace(auxiliary=after, level=min(state.level, g_u), news=news)


def _lift_both(problem: Problem, z: Array, v: Array) -> tuple[Point, Point]:
    """z lifted for f and g, v for g alone; g's matrix sees both at once."""
    (f_z,) = problem.upper.lift(z)
    g_z, g_v = problem.lower.lift(z, v)
    return Point(z, f_z, g_z), Point(v, None, g_v)


# -- constants


def _order(problem: Problem) -> float | None:
    """The order of the error bound: the user's, 2 where g is known to grow quadratically."""
    if problem.error_bound is not None:
        return problem.error_bound.order
    return 2.0 if problem.growth > 0.0 else None


def _out_of_bounds(
    h: Function, y: Seen, value: float, dx: Array, square: float
) -> tuple[bool, bool]:
    """Is h(y + dx) above h(y) + <slope, dx> + L/2 |dx|², is it below h(y) + <slope, dx>?

    The first cannot be if L is the Lipschitz constant that it claims to be, the second if h is
    convex and its gradient right: free checks at every step.
    """
    rise = value - y.value - arrays.dot(y.slope, dx)
    curved = 0.5 * h.lipschitz * square
    if 0.0 <= rise <= curved:
        return False, False
    # Perhaps it is rounding only.
    reach, slope = arrays.norm(y.at) + math.sqrt(square), arrays.norm(y.slope)
    parts = max(abs(value), abs(y.value), y.size)
    errors = h.rounding(reach, parts, slope, arrays.epsilon(dx), int(dx.shape[0]))
    slack = 4.0 * errors[0] + 2.0 * (errors[1] + arrays.epsilon(dx) * slope) * reach
    slack += 1e-9 * curved + h.defect * square
    return rise > curved + slack, rise < -slack
