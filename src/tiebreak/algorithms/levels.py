"""The levels g_k of Algorithms 1 and 2 (line 1), and the run on g that produces them.

The run is `reference.accelerated_levels`, with b_k = (k+1)/(2 L_g) and B_{k+1} = B_k + b_k:

    w_k     = (B_k u_k + b_k v_k)/B_{k+1}
    v_{k+1} = prox of b_k g2 on Z at v_k - b_k grad g1(w_k)
    u_{k+1} = (B_k u_k + b_k v_{k+1})/B_{k+1},   g_k = min{g(x_0), g(u_1), ..., g(u_{k+1})}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tiebreak import theory
from tiebreak.algorithms.common import REFRESH
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, arrays, checks, in_files
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.evidence import StepEvidence


@dataclass(frozen=True)
class OnlineLevels:
    """g_k from an accelerated projected gradient run on g, interleaved with the main loop.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AGMBiO(levels=tb.OnlineLevels()), rtol=1e-2).status
        'certified'
    """


@dataclass(frozen=True)
class FixedLevels:
    """g_k = g_K for all k: ``iterations`` steps on g alone precede the main loop.

    Fixed levels remove the logarithms from the bounds and save one gradient of g in each step of
    the main loop.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AGMBiO(levels=tb.FixedLevels(iterations=100)), rtol=1e-2).status
        'certified'
    """

    iterations: int

    def __post_init__(self) -> None:
        checks.whole("FixedLevels", "iterations", self.iterations, 1)


@dataclass(frozen=True)
class GivenLevels:
    """User-supplied g_k: one number, a sequence (its last entry is repeated), or a callable of k.

    A level below g* may exclude every point of Z; the step then minimises the model of g over Z. No
    certificate relies on g_k.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.AGMBiO(levels=tb.GivenLevels(0.0)), rtol=1e-2).success
        True
    """

    values: float | Sequence[float] | Callable[[int], float]

    def __post_init__(self) -> None:
        self.at(0)

    def at(self, k: int) -> float:
        """Return the level for step k."""
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


class LevelPoints(NamedTuple):
    """The points of one step of the run on g, with their images under g's matrix."""

    v: Point  # v_{k+1}
    u: Point  # u_{k+1}
    w: Point  # w_{k+1}, where the next step starts


@in_files("accelerated.auxiliary")
class LevelRun(NamedTuple):
    """The accelerated run on g after k steps."""

    k: int
    B: float  # sum of the step sizes b_i
    u: Point  # u_k, whose value is the level, with its image under g's matrix
    v: Array  # v_k
    g_w: Minorant  # g1 at w_k
    g_u: float  # g(u_k)
    gradient_step: Array  # v_k - b_k grad g1(w_k), computed in advance
    gradient_step_square: float  # squared length of `gradient_step`

    @classmethod
    def begin(cls, x: Point, g_x: Minorant, value: float, L_g: float) -> LevelRun:
        """Start with u_0 = v_0 = w_0 = x."""
        step = arrays.plus(x.x, g_x.slope, -theory.auxiliary_step_size(0, L_g))
        u = Point(x.x, None, x.lower)
        return cls(0, 0.0, u, x.x, g_x, value, step, arrays.dot(step, step))

    def points(self, problem: Problem, v: Point, L_g: float) -> LevelPoints:
        """Return u_{k+1} and w_{k+1} from v_{k+1}; recompute u's image every REFRESH steps."""
        b, b_next = (theory.auxiliary_step_size(k, L_g) for k in (self.k, self.k + 1))
        B = self.B + b
        u = mixed(self.u, v, b / B)
        if (self.k + 1) % REFRESH == 0:
            u = Point(u.x, None, problem.lower.forward(u.x)[0])
        return LevelPoints(v, u, mixed(u, v, b_next / (B + b_next)))

    def next_gradient_step(self, v: Point, slope: Array, L_g: float) -> Array:
        """Return v_{k+1} - b_{k+1} grad g1(w_{k+1}); ``slope`` is the gradient."""
        return arrays.plus(v.x, slope, -theory.auxiliary_step_size(self.k + 1, L_g))

    def advanced(
        self, points: LevelPoints, g_w: Minorant, g_u: float, step: Array, square: float, L_g: float
    ) -> LevelRun:
        """Return the run after one step, with the evaluations at its new points."""
        (v, u, _), B = points, self.B + theory.auxiliary_step_size(self.k, L_g)
        return LevelRun(self.k + 1, B, u, v.x, g_w, g_u, step, square)

    def evidence_since(self, before: LevelRun) -> StepEvidence:
        """Return the minorant of g at w_k with its weight b_k, and the value at u_{k+1}."""
        return StepEvidence(
            lower=((self.B - before.B, before.g_w),),
            values=((self.g_u, self.u.x, self.g_w.reaching(self.u.g)),),
        )
