"""SEA: averages the points of alternating gradient steps on f and g, both of fixed size.

Shen, Ho-Nguyen, Kilinc-Karzan: An online convex optimization-based framework for convex bilevel
optimization, Math. Program. 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms.base import Method, Range, Rate, StateReport
from tiebreak.algorithms.common import (
    COUNT,
    DEFAULT_HORIZON,
    POSITIVE,
    RunState,
    averaged,
    begun,
    need_bounded,
    need_lipschitz,
    need_short_step,
    need_smooth,
    positive_smoothness,
    values_at,
)
from tiebreak.algorithms.rivals import alternating
from tiebreak.algorithms.rivals.alternating import Alternation
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Problem


@in_files("sea")
class Memory(NamedTuple):
    """The variables of the recursion, besides the average of x_1 ... x_k."""

    alternation: Alternation  # x_k in Z, and y_k = x_k - s grad f(x_k), perhaps outside Z
    upper_step: float  # s
    lower_step: float  # t


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class SEA(Method):
    """The structure-exploiting algorithm for a fixed objective on a shrinking domain.

        y_k     = x_k - s grad f(x_k)
        x_{k+1} = projection of y_k - t grad g(y_k) onto Z,   output (x_1 + ... + x_T)/T

    We had no access to the paper: the recursion is our reconstruction, and its bounds take two
    lines to prove. With |grad f| <= G on Z, the sum of the inequality of `alternating` over T steps
    gives f - f* <= R0²/(2 s T) + s G²/2 at the average w of x_0 ... x_{T-1}, and t (g - g*) <=
    R0²/(2 T) + s² G²/2 + s (f* - f(w)) at the output. The two averages are at most D/T apart, which
    changes f by at most G D/T. So both errors are O(T^-1/2) with s = D/(G sqrt(T)) and t = 1/L_g.

    Args:
        upper_step: s; D/(G sqrt(T)) if None, with the diameter D of Z and
            G = |grad f(x_0)| + L_f D.
        lower_step: t; at most 1/L_g, which is the default.
        horizon: T, the planned number of steps; if None, ``solve`` uses max_iter.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.SEA(), rtol=5e-2).status
        'certified'
    """

    upper_step: float | None = None
    lower_step: float | None = None
    horizon: int | None = None

    name: ClassVar[str] = "sea"
    paper: ClassVar[str] = (
        "Shen, Ho-Nguyen, Kilinc-Karzan: An online convex optimization-based framework for convex "
        "bilevel optimization, Math. Program. 2023 (our reconstruction)"
    )
    assumptions: ClassVar[str] = "f convex, g convex and smooth; Z compact"
    guarantee: ClassVar[str] = "f - f* and g - g* <= O(T^(-1/2)) after the T planned steps"
    cites: ClassVar[tuple[str, ...]] = ("shen2023",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("f above", 0.5), Rate("g", 0.5))
    output: ClassVar[str] = "the average of x_1 ... x_T"
    ranges: ClassVar[dict[str, Range]] = {
        "upper_step": POSITIVE,
        "lower_step": POSITIVE,
        "horizon": COUNT,
    }

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem that violates the method's assumptions.

        With both step sizes given, the method also runs on an unbounded Z (as in the AGM-BiO
        paper's second figure), but then no theorem holds.
        """
        return (
            need_smooth(self, problem)
            or need_bounded(self, problem, unless="upper_step")
            or need_lipschitz(self, problem, "upper", unless=("upper_step",))
            or need_lipschitz(self, problem, "lower", unless=("lower_step",))
            or need_short_step(self, "lower_step", problem.lower.lipschitz)
        )

    def points(self, state: State) -> dict[str, Array]:
        return {"the last iterate": state.memory.alternation.x.x}

    def describe(self, problem: Problem) -> str:
        s = f"{self.upper_step:g}" if self.upper_step is not None else "D/(G sqrt(T))"
        t = f"{self.lower_step:g}" if self.lower_step is not None else "1/L_g"
        proved = "" if problem.is_bounded else ", no convergence theorem applies (unbounded domain)"
        return f"SEA, upper steps {s}, lower steps {t}, averaged{proved}"

    def report(self, state: State) -> StateReport:
        """Report the ``reach`` of the average."""
        return StateReport(reach=state.point.reach)

    def init(self, problem: Problem, x0: Array) -> State:
        """Start at x_0, and take the first upper step from x_0."""
        start = alternating.begin(problem, x0)
        f_0, g_0 = start.f_x, start.g_out
        s, t = self.upper_step, self.lower_step
        if s is None:
            s = self._upper_step(problem, f_0)
        if t is None:
            t = 1.0 / positive_smoothness(problem, problem.lower, g_0, g_0)
        start = alternating.with_upper_step(problem, start, s)
        memory = Memory(start, s, t)
        return begun(start.x, f_0.value, start.g_x, start.g_out, memory)

    def _upper_step(self, problem: Problem, f_0: Minorant) -> float:
        """Return s = D/(G sqrt(T)), or 1 if f is constant."""
        D = problem.domain.diameter_in(int(f_0.at.shape[0]))
        G = arrays.norm(f_0.slope) + problem.upper.lipschitz * D
        s = D / (G * math.sqrt(self.horizon or DEFAULT_HORIZON)) if G > 0.0 else 1.0
        return s or 1.0

    def step(self, problem: Problem, state: State) -> State:
        """Take a lower step to x_{k+1} and an upper step from x_{k+1}; update the average."""
        k, (before, s, t) = state.k + 1, state.memory
        after = alternating.advance(problem, before, t, s)
        average = averaged(problem, state.point, after.x, 1.0 / k, k)
        evidence, memory = alternating.evidence(before, after, t), Memory(after, s, t)
        return RunState(k, average, *values_at(problem, average), evidence, memory)
