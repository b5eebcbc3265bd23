"""Run FISTA on g until g(x) - g* is proved small enough: the first phase of CG-BiO and FC-BiO.

FISTA restarts whenever g has risen, and ends when the Frank-Wolfe gap max_{s in Z} <grad g(x), x -
s>, which bounds g(x) - g*, is small enough. The gap needs a gradient at x itself, so it is computed
only at restarts and when the number of steps has grown by about a tenth.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tiebreak.algorithms import fista
from tiebreak.algorithms.common import is_due, positive_smoothness
from tiebreak.algorithms.fista import Fista
from tiebreak.functions import Function, Minorant
from tiebreak.linalg import arrays, in_files
from tiebreak.problem import Point, Problem
from tiebreak.proofs.evidence import StepEvidence


@in_files("first-phase")
class FirstPhase(NamedTuple):
    """The run on g, and the number of its steps including those before restarts."""

    run: Fista
    step_size: float
    steps: int = 0


def begin(problem: Problem, x: Point) -> FirstPhase:
    """Begin at a point of Z."""
    run = fista.begin(problem, x, 0.0)
    return FirstPhase(run, 1.0 / positive_smoothness(problem, problem.lower, run.g_y, run.g_y))


def step(
    problem: Problem, phase: FirstPhase, tolerance: float
) -> tuple[FirstPhase, StepEvidence, Minorant | None]:
    """Take one FISTA step; also return g at x if it is proved to be within the tolerance of g*."""
    before, steps = phase.run, phase.steps + 1
    run = fista.advance(problem, before, 0.0, 1.0, phase.step_size)
    evidence, has_risen = fista.evidence(before, run, 0.0, 1.0), run.g_x > before.g_x
    g_x = None
    if has_risen or is_due(steps):
        (g_x,), _ = problem.lower.evaluate([run.x.g])
        if has_risen:  # restart; the gradient at x is already known
            run = run._replace(k=0, t=1.0, y=run.x, g_y=g_x)
        g_x = g_x if frank_wolfe_gap(problem, g_x) <= tolerance else None
    return FirstPhase(run, phase.step_size, steps), evidence, g_x


def frank_wolfe_gap(problem: Problem, h_x: Minorant) -> float:
    """Return max over s in Z of <slope, x - s>, an upper bound on h(x) - min_Z h."""
    return arrays.dot(h_x.slope, h_x.at - problem.domain.argmin(h_x.slope))


def size(problem: Problem, h: Function, h_0: Minorant) -> float:
    """Return the first of |h(x0)|, |grad h(x0)| D, L D²/2 and 1 that is not 0."""
    diameter = problem.domain.diameter_in(int(h_0.at.shape[0]))
    curve = 0.5 * h.lipschitz * diameter * diameter
    sizes = (abs(h_0.value), arrays.norm(h_0.slope) * diameter, curve)
    return next((size for size in sizes if 0.0 < size < math.inf), 1.0)
