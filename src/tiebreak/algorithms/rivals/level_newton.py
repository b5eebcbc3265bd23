"""Level-Newton: the Tikhonov path, with eta chosen by Newton's method for the level f*.

Jiang, Shi, Wang: Near-optimal algorithms for convex simple bilevel optimization under weak
assumptions, 2024, arXiv 2409.08948.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tiebreak.algorithms.base import Notes, Proved, Range, StateReport
from tiebreak.algorithms.common import within
from tiebreak.algorithms.rivals.tikhonov import Memory, State, Tikhonov


@dataclass(frozen=True)
class LevelNewton(Tikhonov):
    """Newton's method for the smallest c with p(c) = min { g : f <= c } - g* = 0, which is f*.

        x_j = argmin over Z of g + eta_j f, as in `Tikhonov`,   c_j = f(x_j),   p_j = g(x_j) - g_low
        eta_{j+1} solves f(x(eta)) = c_j + multiplicity p_j/eta_j

    Since x_j solves the problem of level c_j with the multiplier eta_j, p'(c_j) = -eta_j, and this
    is Newton's step. If g grows quadratically, p has a double root: each phase halves the distance
    to f* with multiplicity 1 and squares it with multiplicity 2. The new eta comes from the secant
    of f as a function of log eta, and is kept between q eta_j and q³ eta_j; g_low is the proved
    lower bound on g*.

    The bounds of `Tikhonov` hold after each phase: f(x_j) - f* <= delta_j/eta_j and g(x_j) - g* <=
    delta_j + eta_j (f* - f(x_j)). The report shows f(x_j) + 2 p_j/eta_j in the line "estimate".

    Args:
        multiplicity: the multiplicity of the root: 1 as in the paper, or 2.
        q, eta_0, delta, unit: as for `Tikhonov`.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.LevelNewton(multiplicity=2), rtol=1e-2, criterion="weak").status
        'certified'
    """

    multiplicity: float = 1.0

    name: ClassVar[str] = "level-newton"
    paper: ClassVar[str] = (
        "Jiang, Shi, Wang: Near-optimal algorithms for convex simple bilevel optimization under "
        "weak assumptions, 2024, arXiv 2409.08948"
    )
    cites: ClassVar[tuple[str, ...]] = ("jiang2024dual",)
    adapts: ClassVar[bool] = True
    ranges: ClassVar[dict[str, Range]] = {
        **Tikhonov.ranges,
        "multiplicity": within("a number of at least 1", lambda m: 1.0 <= m < math.inf),
    }

    def adapt(self, state: State, proved: Proved) -> State:
        """Use the lower bound on g* that has been proved so far."""
        least = max(state.memory.least, proved.lower_bound)
        return state._replace(memory=state.memory._replace(least=least))

    def report(self, state: State) -> StateReport:
        """Report the estimate of f* once the first phase has ended."""
        least, ended = state.memory.least, state.memory.ended
        if not ended or least == -math.inf:
            return StateReport()
        eta, f_x, g_x = ended[-1]
        value = f_x + 2.0 * max(g_x - least, 0.0) / eta
        words = f"f* is about {value:.9g} if g grows quadratically, which is not proved"
        return StateReport(findings=Notes((("estimate", words),)))

    def _next(self, memory: Memory) -> float:
        eta, q = memory.eta, self.q
        if len(memory.ended) < 2 or memory.least == -math.inf:
            return q * eta
        (eta_0, f_0, _), (_, f_1, g_1) = memory.ended
        wanted = self.multiplicity * max(g_1 - memory.least, 0.0) / eta  # Newton's step in f
        rise = (f_1 - f_0) / math.log(eta_0 / eta)  # increase of f as log eta decreases by 1
        falls = wanted / rise if rise > 0.0 else 0.0
        most, fewest = -3.0 * math.log(q), -math.log(q)
        return eta * math.exp(-min(max(falls, fewest), most))
