"""FISTA on a weighted sum w_f f + w_g g, for the regularised and the two-phase methods.

f = f1 + f2 and g = g1 + g2 each have a smooth part and a penalty: we use the gradients of f1 and g1
and the prox of w_f f2 + w_g g2 on Z, which, without penalties, is the projection onto Z.

Beck, Teboulle: A fast iterative shrinkage-thresholding algorithm, SIAM J. Imaging Sci. 2009.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tiebreak.algorithms.common import M, RunState, begun, positive_smoothness
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, in_files
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.evidence import StepEvidence


@in_files("fista.iterate")
class Fista(NamedTuple):
    """The state of an accelerated run; the next step starts from y."""

    k: int  # steps since the last restart
    t: float  # t_1 = 1, t_{k+1} = (1 + sqrt(1 + 4 t_k²))/2
    x: Point  # in Z
    y: Point  # the extrapolated point, perhaps outside Z
    f_y: Minorant | None  # minorant of f1; None if the weight of f is 0
    g_y: Minorant  # of g1
    f_x: float  # f at x, with the penalty
    g_x: float


@in_files("fista")
class Memory(NamedTuple):
    """The memory of a method that only runs FISTA on a weighted sum of f and g."""

    run: Fista
    upper_weight: float
    lower_weight: float
    step_size: float
    phase: int = 0  # steps of this phase; 0 if there are no phases


State: TypeAlias = RunState[Memory]


def first_state(run: Fista, memory: M) -> RunState[M]:
    """Return the state of a method at the start of its run; the last iterate is the answer."""
    return begun(run.x, run.f_x, run.g_x, run.g_y, memory)


def next_state(k: int, run: Fista, evidence: StepEvidence, memory: M) -> RunState[M]:
    """Return the state after k steps; the last iterate is the answer."""
    return RunState(k, run.x, run.f_x, run.g_x, evidence, memory)


def one_step_later(problem: Problem, state: State, restart: bool = False) -> State:
    """Return the state after one step; ``restart`` then resets the momentum."""
    before, w_f, w_g, step, _ = state.memory
    run = advance(problem, before, w_f, w_g, step, restart=restart)
    memory = state.memory._replace(run=run)
    return next_state(state.k + 1, run, evidence(before, run, w_f, w_g), memory)


def start(problem: Problem, x0: Array, upper_weight: float = 1.0) -> Fista:
    """Start a run at the point of Z nearest to x0."""
    return begin(problem, problem.forward(problem.domain.project(x0))[0], upper_weight)


def begin(problem: Problem, x: Point, upper_weight: float) -> Fista:
    """Start a run from x: y_1 = x, t_1 = 1."""
    f_y, f_x = _upper(problem, x, x, upper_weight)
    (g_y,), _ = problem.lower.evaluate([x.g])
    g_x = g_y.value + problem.penalties[1].value(x.x)
    return Fista(0, 1.0, x, x, f_y, g_y, f_x, g_x)


def advance(
    problem: Problem,
    run: Fista,
    upper_weight: float,
    lower_weight: float,
    step: float,
    project: Callable[[Array], Array] | None = None,
    restart: bool = False,
) -> Fista:
    """Take a FISTA step on h = h1 + h2 over Z.

    With h1 = w_f f1 + w_g g1, h2 = w_f f2 + w_g g2 and step <= 1/L_h1, this step is

        x_{k+1} = prox of step h2 at y_k - step grad h1(y_k)
        y_{k+1} = x_{k+1} + (t_k - 1)/t_{k+1} (x_{k+1} - x_k)

    ``project``, if given, replaces the prox; ``restart`` resets the momentum after this step
    (y_{k+1} = x_{k+1}, t_{k+1} = 1) without another evaluation. The images of x are recomputed at
    every step, so they do not drift.
    """
    x = moved(problem, run, upper_weight, lower_weight, step, project)
    return extrapolated(problem, run, x, upper_weight, None if restart else next_t(run.t))


def moved(
    problem: Problem,
    run: Fista,
    upper_weight: float,
    lower_weight: float,
    step: float,
    project: Callable[[Array], Array] | None = None,
) -> Point:
    """Return x_{k+1}, the first half of `advance`, for a method with its own momentum."""
    slope = lower_weight * run.g_y.slope
    if run.f_y is not None:
        slope = slope + upper_weight * run.f_y.slope
    v = run.y.x - step * slope
    (x,) = problem.forward(
        project(v) if project else problem.prox(v, step * upper_weight, step * lower_weight)
    )
    return x


def next_t(t: float) -> float:
    """Return FISTA's t_{k+1}, with t_{k+1}² - t_{k+1} = t_k²."""
    return 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))


def extrapolated(
    problem: Problem, run: Fista, x: Point, upper_weight: float, t: float | None
) -> Fista:
    """Return the run with x_{k+1} = ``x`` and t_{k+1} = ``t``; None resets the momentum."""
    y = x if t is None else mixed(run.x, x, 1.0 + (run.t - 1.0) / t)
    f_y, f_x = _upper(problem, x, y, upper_weight)
    (g_y,), (g_x,) = problem.lower.evaluate([y.g], [x.g])
    return Fista(0 if t is None else run.k + 1, t or 1.0, x, y, f_y, g_y, f_x, g_x)


def step_size(problem: Problem, run: Fista, upper_weight: float, lower_weight: float) -> float:
    """Return the step size 1/L_h1 = 1/(w_f L_f + w_g L_g), or a substitute if h1 is linear."""
    f, g = problem.upper, problem.lower
    smoothness = upper_weight * f.lipschitz + lower_weight * g.lipschitz
    if smoothness == 0.0 and run.f_y is not None:
        smoothness = upper_weight * positive_smoothness(problem, f, run.f_y, run.g_y)
        smoothness += lower_weight * positive_smoothness(problem, g, run.g_y, run.g_y)
    return 1.0 / smoothness


def evidence(before: Fista, after: Fista, upper_weight: float, lower_weight: float) -> StepEvidence:
    """Return a step's evidence: the minorant at y_k has weight t_k, as in FISTA's own proof.

    sum t_i = t_k², and h(x_{k+1}) - sum t_i (l_i(x) + h2(x))/t_k² <= |x - x_0|²/(2 step t_k²) for
    all x in Z, with l_i minorants of h1, so the certificate follows the method's own rate.
    """
    t = before.t
    upper = () if before.f_y is None else ((upper_weight * t, before.f_y),)
    return StepEvidence(
        upper=upper,
        cuts=((lower_weight * t, before.g_y),) if upper else (),
        lower=((t, before.g_y),),
        values=((after.g_x, after.x.x, after.g_y),),
    )


def _upper(problem: Problem, x: Point, y: Point, weight: float) -> tuple[Minorant | None, float]:
    """Return f1's minorant at y (None if the weight of f is 0) and the value of f at x."""
    if weight == 0.0:
        return None, problem.upper.evaluate([], [x.f])[1][0]
    (f_y,), (f_x,) = problem.upper.evaluate([y.f], [x.f])
    return f_y, f_x
