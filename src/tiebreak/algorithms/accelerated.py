"""Algorithms 1 and 2 of the AGM-BiO paper.

Both algorithms are written for f = f1 + f2 and g = g1 + g2 with smooth f1, g1; AGM-BiO is the case
f2 = g2 = 0. Slopes, minorants and Lipschitz constants are those of f1 and g1; values are those of f
and g. The notation is the paper's; `tiebreak.algorithms.reference` contains the same steps without
the optimisations for speed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from tiebreak import theory
from tiebreak.algorithms.base import Method, Range, StateReport, StepEvidence
from tiebreak.algorithms.common import (
    COUNT,
    DEFAULT_HORIZON,
    at_start,
    need_lipschitz,
    optional,
    out_of_bounds,
    positive_smoothness,
    typical_curvature,
    with_fresh_images,
    with_violations,
    within,
)
from tiebreak.algorithms.levels import FixedLevels, GivenLevels, LevelPoints, LevelRun, OnlineLevels
from tiebreak.functions import Composite, Minorant
from tiebreak.functions.penalties.prox_cuts import prox_cut
from tiebreak.linalg import Array, Image, Refusal, arrays, checks, in_files
from tiebreak.problem import PendingReach, Point, Problem, mixed, with_length
from tiebreak.sets import Products


@in_files("accelerated.ahead")
class GradientStep(NamedTuple):
    """z_k - a_k grad f1(y_k), where line 6 starts, and its products with the normal of the cut.

    The point and its products are computed at the end of the previous step, so that a device is
    queried only once.
    """

    point: Array
    known: Products


@in_files("accelerated")
class State(NamedTuple):
    """Everything a run needs to continue, as arrays and numbers."""

    k: int  # number of steps so far, not counting those of the level run alone
    A: float  # A_k, the sum of the step sizes a_i
    x: Array  # x_k, the point to which the theorems apply
    z: Array  # z_k
    x_images: tuple[Image, Image, Any]  # images of x under the matrices of f and g, and their reach
    f_y: Minorant  # f1 and g1 at y_k
    g_y: Minorant
    cut_at_y: float  # <grad g1(y_k), y_k>
    gradient_step: GradientStep
    level: float  # g_k
    mu: float  # multiplier of the previous cut: a first guess for the next one
    upper_value: float  # f(x) and g(x)
    lower_value: float
    smoothness: float  # S = L_f/gamma
    lower_smoothness: float  # L_g, or a substitute if g is linear
    lipschitz_violations: tuple[int, int]  # how often f and g rose more than L allows
    convexity_violations: tuple[int, int]  # how often f and g fell below a minorant
    level_run: LevelRun | None
    evidence: StepEvidence  # the minorants of this step, for the certificate


@dataclass(frozen=True)
class Accelerated(Method):
    """Algorithm 2; without penalties it is Algorithm 1, for which `AGMBiO` has faster code."""

    gamma: float | None = None
    levels: OnlineLevels | FixedLevels | GivenLevels = field(default_factory=OnlineLevels)
    horizon: int | None = None

    title: ClassVar[str]  # the name in the report
    remedy: ClassVar[str] = "try another gamma (a smaller one favours the lower level)"
    ranges: ClassVar[dict[str, Range]] = {
        "gamma": optional(within("a number in (0, 1] or None", lambda gamma: 0.0 < gamma <= 1.0)),
        "horizon": COUNT,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.levels, OnlineLevels | FixedLevels | GivenLevels):
            raise TypeError(
                f"{type(self).__name__}: levels must be OnlineLevels(), FixedLevels(iterations) or "
                f"GivenLevels(values), got {checks.what_it_is(self.levels)}"
            )

    def check(self, problem: Problem) -> Refusal | None:
        return need_lipschitz(self, problem, "upper", "lower")

    def describe(self, problem: Problem) -> str:
        return f"{self.title}, {self.theorem(problem)}, {type(self.levels).__name__}"

    def report(self, state: State) -> StateReport:
        """Report the ``reach`` of x, and what the consistency checks have found."""
        return StateReport(
            reach=state.x_images[2],
            lipschitz_violations=state.lipschitz_violations,
            convexity_violations=state.convexity_violations,
        )

    # -- steps that handle penalties; AGMBiO, which has no penalties, overrides them --------------

    def line_6(
        self, problem: Problem, v: GradientStep, a: float, c: Array, beta: float, guess: float
    ) -> tuple[Array, float]:
        """Minimise a f2(z) + ½|z - v|² over z in Z with <c, z> + g2(z) <= beta; return z and mu."""
        return prox_cut(problem.joint, v.point, a, c, beta, guess)

    def lower_step(self, problem: Problem, v: Array, b: float, square: float) -> Array:
        """Return the argmin of b g2(z) + ½|z - v|² over z in Z; ``square`` = <v, v>."""
        return problem.prox(v, 0.0, b)

    # -- the step size ------------------------------------------------------------------------

    def theorem(self, problem: Problem) -> str:
        """Say which theorem of the paper applies to a run on ``problem``."""
        if self.gamma is not None:
            return f"gamma = {self.gamma:g}"
        if (order := _order(problem)) is not None:
            return f"gamma by Theorem {2 if order > 1.0 else 3} (error bound of order {order:g})"
        if _penalises_upper(problem):
            return "gamma by the rule of Theorem 2, though no error bound is known"
        if problem.is_bounded:
            return "gamma = 1 by Theorem 1 (bounded domain)"
        return "gamma = 1; no theorem bounds the lower level (unbounded domain, no error bound)"

    def smoothness(self, problem: Problem, f_0: Minorant, g_0: Minorant) -> float:
        """Return S = L_f/gamma, so that a_k = (k+1)/(4 S); ``f_0`` and ``g_0`` are taken at x_0."""
        f, (L_f, L_g) = problem.upper, (h.lipschitz for h in problem.smooth_parts)
        order, bound = _order(problem), problem.error_bound
        if self.gamma is not None or (order is None and not _penalises_upper(problem)):
            return positive_smoothness(problem, f, f_0, g_0) / (self.gamma or 1.0)
        if order == 1.0 and bound is not None:
            S = theory.smoothness_weak_sharpness(
                L_f, L_g, modulus=bound.modulus, gradient_bound=bound.gradient_bound
            )
        else:
            # L_g must be in the same units as L_f, so that these units do not affect the result
            if _penalises_upper(problem):
                L_g = typical_curvature(problem, f, f_0, g_0)
            S = theory.smoothness_error_bound(
                L_f, L_g, order=order or 2.0, iterations=self.horizon or DEFAULT_HORIZON
            )
        return S or positive_smoothness(problem, f, f_0, g_0)

    # -- the algorithm ------------------------------------------------------------------------

    def init(self, problem: Problem, x0: Array) -> State:
        """Run line 2 of the algorithm, and a first step of the level run if there is one."""
        f2, g2 = problem.penalties
        x, f_y, g_y = at_start(problem, x0)  # y_0 = x_0
        f_x, g_x = f_y.value + f2.value(x.x), g_y.value + g2.value(x.x)
        L_g = positive_smoothness(problem, problem.lower, g_y, g_y)
        S = self.smoothness(problem, f_y, g_y)
        step = arrays.plus(x.x, f_y.slope, -theory.step_size(0, S))
        state = State(
            k=0, A=0.0, x=x.x, z=x.x, x_images=x[1:], f_y=f_y, g_y=g_y,
            cut_at_y=arrays.dot(g_y.slope, g_y.at),
            gradient_step=GradientStep(step, Products.of(g_y.slope, step)),
            level=g_x, mu=0.0, upper_value=f_x, lower_value=g_x,
            smoothness=S, lower_smoothness=L_g,
            lipschitz_violations=(0, 0), convexity_violations=(0, 0),
            level_run=LevelRun.begin(x, g_y, g_x, L_g),
            evidence=StepEvidence(values=((g_x, g_y.at, g_y),)),
        )  # fmt: skip
        if isinstance(self.levels, GivenLevels):
            return state._replace(level=self.levels.at(0), level_run=None)
        return self._level_step(problem, state)

    def step(self, problem: Problem, state: State) -> State:
        """Run lines 4 to 8 of the algorithm; with FixedLevels, first finish the level run.

        Line 5 is run one step ahead: f and g are evaluated at x_{k+1} and y_{k+1} in one data pass.
        """
        if isinstance(self.levels, FixedLevels) and state.level_run is not None:
            if state.level_run.k < self.levels.iterations:
                return self._level_step(problem, state)
            state = state._replace(level_run=None)
        k, S, A_k, x_k = state.k, state.smoothness, state.A, Point(state.x, *state.x_images)

        a_k = theory.step_size(k, S)  # line 4: gamma (k+1)/(4 L_f), with S = L_f/gamma
        f_y, g_y = state.f_y, state.g_y  # line 5: f1 and g1 at y_k
        # Line 6: from z_k - a_k grad f1(y_k) to X_k = { z in Z : <c, z> + g2(z) <= beta }.
        c, beta = g_y.slope, state.level - g_y.value + state.cut_at_y
        z, mu = self.line_6(problem, state.gradient_step, a_k, c, beta, state.mu)
        z_next, level_points = self._forward_in_one_pass(problem, state, z)
        A_next = A_k + a_k  # line 8
        x_next = mixed(x_k, z_next, a_k / A_next)  # line 7: (A_k x_k + a_k z_{k+1})/A_{k+1}
        x_next = with_fresh_images(problem, x_next, k + 1)
        a_next = theory.step_size(k + 1, S)  # lines 4 and 5 of the next step
        y_next = mixed(x_next, z_next, a_next / (A_next + a_next))

        new = _evaluate_at_once(
            problem, state, z_next, x_next, y_next, a_k / A_next, a_next, level_points
        )
        evidence = StepEvidence(
            upper=((a_k, f_y),), cuts=((mu, g_y),), lower=((a_k, g_y),),
            values=((new.lower_value, new.x, new.g_y.reaching(Point(new.x, *new.x_images).g)),),
        )  # fmt: skip
        if state.level_run is not None and new.level_run is not None:
            of_run = new.level_run.evidence_since(state.level_run)
            evidence = evidence._replace(lower=of_run.lower, values=evidence.values + of_run.values)
        return new._replace(
            k=k + 1, A=A_next, z=z_next.x, mu=mu,
            level=self._next_level(state, new.level_run), evidence=evidence,
        )  # fmt: skip

    # -- the levels ---------------------------------------------------------------------------

    def _next_level(self, state: State, run: LevelRun | None) -> float:
        """Return g_{k+1}."""
        if isinstance(self.levels, GivenLevels):
            return self.levels.at(state.k + 1)
        return state.level if run is None else min(state.level, run.g_u)

    def _next_v(self, problem: Problem, run: LevelRun, L_g: float) -> Array:
        """Return v_{k+1}, using the gradient step that was computed in advance."""
        b = theory.auxiliary_step_size(run.k, L_g)
        return self.lower_step(problem, run.gradient_step, b, run.gradient_step_square)

    def _level_step(self, problem: Problem, state: State) -> State:
        """Take a step of the level run without a step on x; ``init`` and FixedLevels need this."""
        run, L_g, g1 = state.level_run, state.lower_smoothness, problem.smooth_parts[1]
        assert run is not None
        v = self._next_v(problem, run, L_g)
        points = run.points(problem, Point(v, None, g1.forward(v)[0]), L_g)
        (g_w,), (g1_u,) = g1.evaluate([points.w.g], [points.u.g])
        g_u = g1_u + problem.penalties[1].value(points.u.x)
        step = run.next_gradient_step(points.v, g_w.slope, L_g)
        after = run.advanced(points, g_w, g_u, step, arrays.dot(step, step), L_g)
        evidence = after.evidence_since(run)
        if run.k == 0:  # the value at x_0 counts too
            evidence = evidence._replace(values=state.evidence.values + evidence.values)
        return state._replace(level_run=after, level=min(state.level, g_u), evidence=evidence)

    # -- shortcuts for speed: fewer data passes, and a device that never waits --------------------

    def _forward_in_one_pass(
        self, problem: Problem, state: State, z: Array
    ) -> tuple[Point, LevelPoints | None]:
        """Return the images of z_{k+1}; g's matrix multiplies v_{k+1} in the same pass."""
        run, L_g = state.level_run, state.lower_smoothness
        if run is None:
            return problem.forward(z)[0]._replace(reach=PendingReach()), None
        v = self._next_v(problem, run, L_g)
        (f_z,) = problem.upper.forward(z)
        g_z, g_v = problem.lower.forward(z, v)
        points = run.points(problem, Point(v, None, g_v, PendingReach()), L_g)
        return Point(z, f_z, g_z, PendingReach()), points


def _evaluate_at_once(
    problem: Problem,
    state: State,
    z: Point,
    x: Point,
    y: Point,
    share: float,  # x_{k+1} - y_k = share (z_{k+1} - z_k)
    a_next: float,
    level_points: LevelPoints | None,
) -> State:
    """Return the state with f and g at x_{k+1} and y_{k+1}, and the products for the next step.

    We start all evaluations before we wait for any: f and g run in parallel if possible, and a GPU
    has received all its work before we fetch its numbers in a single transfer.
    """
    (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
    run, L_g = state.level_run, state.lower_smoothness
    at_u, at_w = ([], []) if level_points is None else ([level_points.u.g], [level_points.w.g])
    upper = f1.evaluate_async([y.f], [x.f])
    lower = g1.evaluate_async([y.g, *at_w], [x.g, *at_u])

    (g_slope, *w_slope), (f_slope,) = lower.slopes(), upper.slopes()
    dz, step = z.x - state.z, arrays.plus(z.x, f_slope, -a_next)
    pairs = [(state.f_y.slope, dz), (state.g_y.slope, dz), (dz, dz), (g_slope, y.x)]
    pairs += [(z.x, z.x), *Products.pairs(g_slope, step)]
    if run is not None and level_points is not None:
        level_step = run.next_gradient_step(level_points.v, w_slope[0], L_g)
        pairs += [(level_points.v.x, level_points.v.x), (level_step, level_step)]
    products = arrays.dots_async(*pairs)

    arrays.fetch_together(upper.losses, lower.losses, products)
    (f_y,), (f1_x,) = upper()
    (g_y, *g_w), (g1_x, *g1_u) = lower()
    along_f, along_g, square, cut_at_y, z_square, *known = products()
    z_length = arrays.norm(z.x, z_square)
    x = with_length(x, z_length)
    f_y, g_y = (with_length(h_y, z_length) for h_y in (f_y, g_y))
    if run is not None and level_points is not None:
        step_square, v_square = known.pop(), known.pop()
        v_length = arrays.norm(level_points.v.x, v_square)
        g_u = g1_u[0] + g2.value(level_points.u.x)
        points = level_points._replace(u=with_length(level_points.u, v_length))
        new_w = with_length(g_w[0], v_length)
        run = run.advanced(points, new_w, g_u, level_step, step_square, L_g)
    square *= share * share
    return with_violations(
        state,
        out_of_bounds(f1, state.f_y, f1_x, share * along_f, square),
        out_of_bounds(g1, state.g_y, g1_x, share * along_g, square),
    )._replace(
        x=x.x, x_images=x[1:], f_y=f_y, g_y=g_y, cut_at_y=cut_at_y,
        gradient_step=GradientStep(step, Products(*known)),
        upper_value=f1_x + f2.value(x.x), lower_value=g1_x + g2.value(x.x), level_run=run,
    )  # fmt: skip


# -- constants


def _order(problem: Problem) -> float | None:
    """Return the order of the error bound: as given, or 2 if g is known to grow quadratically."""
    if problem.error_bound is not None:
        return problem.error_bound.order
    return 2.0 if problem.growth > 0.0 else None


def _penalises_upper(problem: Problem) -> bool:
    """Does the upper level have a penalty?"""
    return isinstance(problem.upper, Composite)
