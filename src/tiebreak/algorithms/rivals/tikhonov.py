"""The Tikhonov path: minimisers of g + eta f for decreasing eta, each started at the one before.

Tikhonov, Arsenin: Solutions of ill-posed problems, Winston 1977; Friedlander, Tseng: Exact
regularization of convex programs, SIAM J. Optim. 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import Method, Range
from tiebreak.algorithms.common import (
    POSITIVE,
    SHARE,
    RunState,
    need_joint_prox,
    need_lipschitz,
    need_unit,
    unit_of,
)
from tiebreak.algorithms.fista import Fista
from tiebreak.linalg import Array, Refusal, arrays, in_files
from tiebreak.problem import Problem


@in_files("tikhonov")
class Memory(NamedTuple):
    """The variables of the recursion, besides the last iterate."""

    run: Fista
    unit: float  # u
    eta: float
    step_size: float  # 1/(L_g + eta L_f)
    first_map: float  # the length of the first gradient map
    least: float  # the known lower bound on g*
    ended: tuple[tuple[float, float, float], ...] = ()  # eta, f, g after the last two phases


State: TypeAlias = RunState[Memory]


@dataclass(frozen=True)
class Tikhonov(Method):
    """Follow the regularisation path, using FISTA with restarts.

        x_j = approximate argmin over Z of g + eta_j f,   eta_j = eta_0 u q^j

    Each phase runs FISTA from the last point, with steps 1/(L_g + eta_j L_f), and resets the
    momentum whenever <y_k - x_{k+1}, x_{k+1} - x_k> > 0. A phase ends when the gradient map |y_k -
    x_{k+1}|/s is at most delta (eta_j/u)^1.5 times the first gradient map of the run, so that the
    phase's error delta_j in g + eta_j f decreases faster than eta_j. f and g are each smooth +
    penalty.

    Proved: f(x_j) - f* <= delta_j/eta_j and g(x_j) - g* <= delta_j + eta_j (f* - f(x_j)). If g
    grows quadratically with modulus alpha and M bounds the slope of f, then delta_j = 0 implies g -
    g* <= 2 eta_j² M²/alpha and f* - f <= 2 eta_j M²/alpha. The output is the last iterate.

    Args:
        q: the factor below 1 that reduces eta from phase to phase.
        eta_0: the first eta, in units of u.
        delta: the accuracy of a phase, relative to the first gradient map.
        unit: u; L_g/L_f if None. ``unit`` must be given if f has no gradient.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.Tikhonov(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    q: float = 0.25
    eta_0: float = 0.1
    delta: float = 0.3
    unit: float | None = None

    name: ClassVar[str] = "tikhonov"
    paper: ClassVar[str] = "Tikhonov, Arsenin: Solutions of ill-posed problems, Winston 1977"
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; Z closed, joint prox with both penalties"
    )
    guarantee: ClassVar[str] = (
        "f - f* <= delta_j/eta_j, g - g* <= delta_j + eta_j (f* - f) after phase j"
    )
    cites: ClassVar[tuple[str, ...]] = ("tikhonov1977", "friedlandertseng2008")
    ranges: ClassVar[dict[str, Range]] = {
        "q": SHARE,
        "eta_0": POSITIVE,
        "delta": POSITIVE,
        "unit": POSITIVE,
    }

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_joint_prox(self, problem)
            or need_unit(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
        )

    def describe(self, problem: Problem) -> str:
        unit = "L_g/L_f" if self.unit is None else f"{self.unit:g}"
        return f"{self.name}, eta = {self.eta_0:g} {unit} at first, decreasing from phase to phase"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_0 = x_0."""
        run = fista.start(problem, x0)
        assert run.f_y is not None
        unit = unit_of(problem, self.unit, run.f_y, run.g_y)
        eta, least = self.eta_0 * unit, problem.lower.lower_bound
        step = fista.step_size(problem, run, eta, 1.0)
        return fista.first_state(run, Memory(run, unit, eta, step, 0.0, least))

    def step(self, problem: Problem, state: State) -> State:
        """Take one FISTA step; reduce eta at the end of a phase."""
        run, unit, eta, s, first, _, ended = state.memory
        x = fista.moved(problem, run, eta, 1.0, s)
        back = run.y.x - x.x
        turned, square = arrays.dots((back, x.x - run.x.x), (back, back))
        map_length = arrays.norm(back, square) / s
        first = first if state.k else map_length
        # Once eta f is below the rounding error of g, a smaller eta changes nothing.
        is_last = eta <= arrays.epsilon(back) * unit
        ends = map_length <= self.delta * first * (eta / unit) ** 1.5 and not is_last
        t = None if ends or turned > 0.0 else fista.next_t(run.t)
        after = fista.extrapolated(problem, run, x, eta, t)
        memory = state.memory._replace(run=after, first_map=first)
        if ends:
            memory = memory._replace(ended=(*ended[-1:], (eta, after.f_x, after.g_x)))
            later = self._next(memory)
            step = fista.step_size(problem, after, later, 1.0)
            memory = memory._replace(eta=later, step_size=step)
        evidence = fista.evidence(run, after, eta, 1.0)
        return fista.next_state(state.k + 1, after, evidence, memory)

    def _next(self, memory: Memory) -> float:
        """Return the eta of the next phase."""
        return self.q * memory.eta
