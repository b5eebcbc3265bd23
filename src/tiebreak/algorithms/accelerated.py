"""What AGM-BiO and P-AGM-BiO share: levels, the auxiliary run that makes them, all but line 6.

Both are written for f = f1 + f2 and g = g1 + g2 with smooth f1, g1; AGM-BiO is for f2 = g2 = 0.
Slopes, minorants and Lipschitz constants are those of f1 and g1, values those of f and g.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

from tiebreak import theory
from tiebreak.algorithms.base import Method, Refusal, StateReport
from tiebreak.algorithms.common import (
    DEFAULT_HORIZON,
    REFRESH,
    bending,
    need_lipschitz,
    out_of_bounds,
    positive_smoothness,
)
from tiebreak.functions.base import Minorant
from tiebreak.functions.penalties import Composite
from tiebreak.linalg import arrays, checks
from tiebreak.linalg.arrays import Array, Image
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.certificate import StepEvidence
from tiebreak.sets.cuts import Products


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


class Ahead(NamedTuple):
    """A point that the next step begins with, and its products with the normal of the next cut.

    They are found at the end of a step, with all its other numbers: so a device is asked once.
    """

    point: Array
    known: Products


class Auxiliary(NamedTuple):
    """The accelerated projected gradient run on g that makes the levels (three-sequence form)."""

    k: int  # steps taken
    B: float  # sum of the step sizes b_i
    u: Array  # the averaged point, whose value is the level
    v: Array  # the mirror point
    u_image: Image  # of u under g's matrix
    u_reach: Any  # and of what length it was mixed: see `mixed`
    g_w: Minorant  # g at w = mix(u, v), where the next step starts
    g_u: float
    ahead: Array  # v - b grad g1(w), which the next step projects
    ahead_square: float


class State(NamedTuple):
    """Everything a run needs to go on; arrays and numbers only."""

    k: int  # steps of Algorithm 1 taken
    A: float  # sum of the step sizes a_i
    x: Array  # the point the theorems speak of
    z: Array  # the projected point
    x_images: tuple[Image, Image, Any]  # of x under the matrices of f and g, and their reach
    f_y: Minorant  # f and g at y = mix(x, z), where the next step starts
    g_y: Minorant
    cut_at_y: float  # <slope, y> of g there, for the next cut
    ahead: Ahead  # z - a grad f1(y), from where line 6 goes, and the slope of g there
    level: float  # g_k of the next step
    mu: float  # multiplier of the last cut, the next one's first guess
    upper_value: float  # f(x) and g(x)
    lower_value: float
    smoothness: float  # S = L_f/gamma
    lower_smoothness: float  # L_g, or its stand-in where g is linear
    lipschitz_violations: tuple[
        int, int
    ]  # how often f, g rose more than their Lipschitz constants allow
    convexity_violations: tuple[
        int, int
    ]  # how often f, g fell below their own minorants, as no convex one can
    auxiliary: Auxiliary | None
    evidence: StepEvidence  # the minorants of this step, for the certificate


@dataclass(frozen=True)
class Accelerated(Method):
    """Algorithm 1 or 2: what a kind of them adds is line 6, and its step on g alone."""

    gamma: float | None = None
    levels: OnlineLevels | FixedLevels | GivenLevels = field(default_factory=OnlineLevels)
    horizon: int | None = None

    title: ClassVar[str]  # in the words of the report
    remedy: ClassVar[str] = "or try another gamma (a smaller one favours the lower level)"

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if self.gamma is not None:
            gamma = checks.number(owner, "gamma", self.gamma, "a number in (0, 1] or None")
            if not 0.0 < gamma <= 1.0:
                raise ValueError(
                    f"{owner}: gamma must be a number in (0, 1] or None, got {self.gamma}"
                )
        if not isinstance(self.levels, OnlineLevels | FixedLevels | GivenLevels):
            raise TypeError(
                f"{owner}: levels must be OnlineLevels(), FixedLevels(iterations) or "
                f"GivenLevels(values), got {checks.what_it_is(self.levels)}"
            )
        if self.horizon is not None:
            checks.whole(owner, "horizon", self.horizon, 1)

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem outside the assumptions."""
        return need_lipschitz(type(self).__name__, problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        """The method, its step-size rule and the source of its levels, in words."""
        return f"{self.title}, {self.theorem(problem)}, {type(self.levels).__name__}"

    def planned(self, steps: int) -> Self:
        """This method with T of Theorem 2 filled in, for a run of at most ``steps`` steps."""
        return self if self.horizon is not None else replace(self, horizon=steps)

    def report(self, state: State) -> StateReport:
        """The reach of x, and what the consistency checks have found."""
        return StateReport(
            reach=state.x_images[2],
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    # -- what a kind adds ---------------------------------------------------------------------

    def line_6(
        self, problem: Problem, v: Ahead, a: float, c: Array, beta: float, guess: float
    ) -> tuple[Array, float]:
        """argmin of a f2(z) + ½|z - v|² over the z in Z with <c, z> + g2(z) <= beta; its mu."""
        raise NotImplementedError

    def lower_step(self, problem: Problem, v: Array, b: float, square: float) -> Array:
        """argmin of b g2(z) + ½|z - v|² over the z in Z; ``square`` = <v, v>."""
        raise NotImplementedError

    # -- the step size ------------------------------------------------------------------------

    def theorem(self, problem: Problem) -> str:
        """Which theorem of the paper speaks for a run on ``problem``, in words."""
        if self.gamma is not None:
            return f"gamma = {self.gamma:g}"
        if (order := _order(problem)) is not None:
            return f"gamma by Theorem {2 if order > 1.0 else 3} (error bound of order {order:g})"
        if _penalises_upper(problem):
            return "gamma by the rule of Theorem 2, though no error bound is known"
        if problem.is_bounded:
            return "gamma = 1 by Theorem 1 (bounded domain)"
        return "gamma = 1, no theorem bounds the lower level (unbounded domain, no error bound)"

    def smoothness(self, problem: Problem, f_0: Minorant, g_0: Minorant) -> float:
        """S = L_f/gamma, so that a_k = (k+1)/(4 S); from both functions at the start."""
        f, (L_f, L_g) = problem.upper, (h.lipschitz for h in problem.smooth_parts)
        order, bound = _order(problem), problem.error_bound
        if self.gamma is not None or (order is None and not _penalises_upper(problem)):
            return positive_smoothness(problem, f, f_0, g_0) / (self.gamma or 1.0)
        if order == 1.0 and bound is not None:
            S = theory.smoothness_weak_sharpness(
                L_f, L_g, modulus=bound.modulus, gradient_bound=bound.gradient_bound
            )
        else:
            if _penalises_upper(problem):  # L_g/w with the w that makes it independent of units
                L_g = bending(problem, f, f_0, g_0)
            S = theory.smoothness_error_bound(
                L_f, L_g, order=order or 2.0, iterations=self.horizon or DEFAULT_HORIZON
            )
        return S or positive_smoothness(problem, f, f_0, g_0)

    # -- the algorithm ------------------------------------------------------------------------

    def init(self, problem: Problem, x0: Array) -> State:
        """x_0 = z_0 = y_0 and the first auxiliary step, so that the level is one step ahead."""
        (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
        (x,) = problem.forward(problem.domain.project(x0))
        (f_y,), _ = f1.evaluate([x.f])
        (g_y,), _ = g1.evaluate([x.g])
        f_x, g_x = f_y.value + f2.value(x.x), g_y.value + g2.value(x.x)
        L_g = positive_smoothness(problem, problem.lower, g_y, g_y)
        S = self.smoothness(problem, f_y, g_y)
        ahead = arrays.plus(x.x, f_y.slope, -theory.step_size(0, S))
        lower_ahead = arrays.plus(x.x, g_y.slope, -theory.auxiliary_step_size(0, L_g))
        state = State(
            k=0, A=0.0, x=x.x, z=x.x, x_images=x[1:], f_y=f_y, g_y=g_y,
            cut_at_y=arrays.dot(g_y.slope, g_y.at),
            ahead=Ahead(ahead, Products.of(g_y.slope, ahead)),
            level=g_x, mu=0.0, upper_value=f_x, lower_value=g_x,
            smoothness=S, lower_smoothness=L_g,
            lipschitz_violations=(0, 0), convexity_violations=(0, 0),
            auxiliary=Auxiliary(
                k=0, B=0.0, u=x.x, v=x.x, u_image=x.lower, u_reach=None, g_w=g_y, g_u=g_x,
                ahead=lower_ahead, ahead_square=arrays.dot(lower_ahead, lower_ahead),
            ),
            evidence=StepEvidence(values=((g_x, g_y.at, g_y),)),
        )  # fmt: skip
        if isinstance(self.levels, GivenLevels):
            return state._replace(level=self.levels.at(0), auxiliary=None)
        return self._auxiliary_step(problem, state)

    def step(self, problem: Problem, state: State) -> State:
        """One step of the algorithm, or of the first phase of FixedLevels."""
        if isinstance(self.levels, FixedLevels) and state.auxiliary is not None:
            if state.auxiliary.k < self.levels.iterations:
                return self._auxiliary_step(problem, state)
            state = state._replace(auxiliary=None)
        (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
        k, S, aux = state.k, state.smoothness, state.auxiliary
        a, a_next = theory.step_size(k, S), theory.step_size(k + 1, S)
        A = state.A + a

        # Line 6: a gradient step on f1, made already, then f2, Z and the cut of g at y_k.
        c = state.g_y.slope
        beta = state.level - state.g_y.value + state.cut_at_y
        z_new, mu = self.line_6(problem, state.ahead, a, c, beta, state.mu)
        # Both sequences are lifted together, so that streamed data is passed over once.
        if aux is None:
            (z,) = problem.forward(z_new)
        else:
            z, v = _lift_both(problem, z_new, self._auxiliary_mirror(problem, state, aux))

        x = mixed(Point(state.x, *state.x_images), z, a / A)
        if (k + 1) % REFRESH == 0:
            (x,) = problem.forward(x.x)
        y_next = mixed(x, z, a_next / (A + a_next))
        upper = f1.evaluate_async([y_next.f], [x.f])  # f and g side by side, where that is possible
        if aux is None:
            lower = g1.evaluate_async([y_next.g], [x.g])
        else:
            u, w = _auxiliary_points(problem, state, aux, v)
            lower = g1.evaluate_async([y_next.g, w.g], [x.g, u.g])

        # All products of vectors, those of the next step too, are begun before anything is waited
        # for: so a GPU has its work before it asks for it, and is asked once.
        (g_slope, *w_slope), (f_slope,) = lower.slopes(), upper.slopes()
        ahead = arrays.plus(z.x, f_slope, -a_next)
        dz, share = z.x - state.z, a / A  # x_{k+1} - y_k = share * dz
        pairs = [(state.f_y.slope, dz), (c, dz), (dz, dz), (g_slope, y_next.x)]
        pairs += Products.pairs(g_slope, ahead)
        if aux is not None:
            lower_ahead = _auxiliary_ahead(state, aux, v, *w_slope)
            pairs.append((lower_ahead, lower_ahead))
        products = arrays.begin_dots(*pairs)

        arrays.bring(upper.losses, lower.losses, products)
        (f_y,), (f1_x,) = upper()
        (g_y, *g_w), (g1_x, *g1_u) = lower()
        along_f, along_g, square, cut_at_y, *known = products()
        level, minorant, values = state.level, (a, state.g_y), []
        if aux is not None:
            g_u = g1_u[0] + g2.value(u.x)
            level, values, used = min(level, g_u), [(g_u, u.x, g_w[0].beside(u.g))], aux
            aux = _auxiliary_advance(state, aux, u, v, g_w[0], g_u, lower_ahead, known.pop())
            minorant = (aux.B - used.B, used.g_w)
        if isinstance(self.levels, GivenLevels):
            level = self.levels.at(k + 1)
        f_x, g_x = f1_x + f2.value(x.x), g1_x + g2.value(x.x)
        square *= share * share
        steep_f, bent_f = out_of_bounds(f1, state.f_y, f1_x, share * along_f, square)
        steep_g, bent_g = out_of_bounds(g1, state.g_y, g1_x, share * along_g, square)
        return State(
            k=k + 1, A=A, x=x.x, z=z.x, x_images=x[1:], f_y=f_y, g_y=g_y, cut_at_y=cut_at_y,
            ahead=Ahead(ahead, Products(*known)),
            level=level, mu=mu, upper_value=f_x, lower_value=g_x, auxiliary=aux,
            smoothness=S, lower_smoothness=state.lower_smoothness,
            lipschitz_violations=_added(state.lipschitz_violations, (steep_f, steep_g)),
            convexity_violations=_added(state.convexity_violations, (bent_f, bent_g)),
            evidence=StepEvidence(
                upper=((a, state.f_y),),
                cuts=((mu, state.g_y),),
                lower=(minorant,),
                values=((g_x, x.x, g_y.beside(x.g)), *values),
            ),
        )  # fmt: skip

    # -- the auxiliary run: w = mix(u, v), v+ = step from v - b grad g1(w), u+ = mix(u, v+) -----

    def _auxiliary_mirror(self, problem: Problem, state: State, aux: Auxiliary) -> Array:
        """v_{k+1}: a gradient step on g1 from v_k, b_k = (k+1)/(2 L_g), then g2 and Z."""
        b = theory.auxiliary_step_size(aux.k, state.lower_smoothness)
        return self.lower_step(problem, aux.ahead, b, aux.ahead_square)

    def _auxiliary_step(self, problem: Problem, state: State) -> State:
        """One step of the auxiliary run alone: in ``init``, in the first phase of FixedLevels."""
        aux, g1, g2 = state.auxiliary, problem.smooth_parts[1], problem.penalties[1]
        assert aux is not None
        moved = self._auxiliary_mirror(problem, state, aux)
        v = Point(moved, None, g1.forward(moved)[0])
        u, w = _auxiliary_points(problem, state, aux, v)
        (g_w,), (g1_u,) = g1.evaluate([w.g], [u.g])
        g_u = g1_u + g2.value(u.x)
        ahead = _auxiliary_ahead(state, aux, v, g_w.slope)
        after = _auxiliary_advance(state, aux, u, v, g_w, g_u, ahead, arrays.dot(ahead, ahead))
        evidence = StepEvidence(
            lower=((after.B - aux.B, aux.g_w),),
            values=(*(state.evidence.values if aux.k == 0 else ()), (g_u, u.x, g_w.beside(u.g))),
        )
        return state._replace(auxiliary=after, level=min(state.level, g_u), evidence=evidence)


def _auxiliary_points(
    problem: Problem, state: State, aux: Auxiliary, v: Point
) -> tuple[Point, Point]:
    """u_{k+1} and the point w_{k+1} where g is looked at next."""
    b = theory.auxiliary_step_size(aux.k, state.lower_smoothness)
    b_next = theory.auxiliary_step_size(aux.k + 1, state.lower_smoothness)
    B = aux.B + b
    u = mixed(Point(aux.u, None, aux.u_image, aux.u_reach), v, b / B)
    if (aux.k + 1) % REFRESH == 0:
        u = Point(u.x, None, problem.lower.forward(u.x)[0])
    return u, mixed(u, v, b_next / (B + b_next))


def _auxiliary_ahead(state: State, aux: Auxiliary, v: Point, slope: Array) -> Array:
    """v_{k+1} - b_{k+1} grad g1(w_{k+1}), which the step after this one projects."""
    b_next = theory.auxiliary_step_size(aux.k + 1, state.lower_smoothness)
    return arrays.plus(v.x, slope, -b_next)


def _auxiliary_advance(
    state: State,
    aux: Auxiliary,
    u: Point,
    v: Point,
    g_w: Minorant,
    g_u: float,
    ahead: Array,
    ahead_square: float,
) -> Auxiliary:
    b = theory.auxiliary_step_size(aux.k, state.lower_smoothness)
    B = aux.B + b
    return Auxiliary(aux.k + 1, B, u.x, v.x, u.lower, u.reach, g_w, g_u, ahead, ahead_square)


def _lift_both(problem: Problem, z: Array, v: Array) -> tuple[Point, Point]:
    """z lifted for f and g, v for g alone; g's matrix sees both at once."""
    (f_z,) = problem.upper.forward(z)
    g_z, g_v = problem.lower.forward(z, v)
    return Point(z, f_z, g_z), Point(v, None, g_v)


def _added(counts: tuple[int, int], found: tuple[bool, bool]) -> tuple[int, int]:
    return counts[0] + found[0], counts[1] + found[1]


# -- constants


def _order(problem: Problem) -> float | None:
    """The order of the error bound: the user's, 2 where g is known to grow quadratically."""
    if problem.error_bound is not None:
        return problem.error_bound.order
    return 2.0 if problem.growth > 0.0 else None


def _penalises_upper(problem: Problem) -> bool:
    """Has the upper level a penalty?"""
    return isinstance(problem.upper, Composite)
