"""The diagonal family: one proximal gradient step on g + e_k f, then a smaller e_k.

Seven published methods use this recursion, with different weights e_k, momentum and step sizes:
IRE-PG, staBiM, Solodov's SEDM, Bi-PG, FBi-PG, bi-FISTA and IRE-APG. Two other methods of this
package are close to it: a-IRG takes shorter steps, of size k^-1/2, and R-APM never lowers the
weight of f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from tiebreak.algorithms import fista
from tiebreak.algorithms.base import Method, Range, Rate, StateReport
from tiebreak.algorithms.common import (
    POSITIVE,
    SHARE,
    UP_TO_2,
    RunState,
    averaged,
    need_joint_prox,
    need_lipschitz,
    need_smooth,
    need_unit,
    optional,
    positive_smoothness,
    unit_of,
    values_at,
    weighted,
    within,
)
from tiebreak.algorithms.fista import Fista
from tiebreak.linalg import Array, Refusal, arrays, checks, in_files
from tiebreak.problem import Point, Problem


@in_files("diagonal")
class Memory(NamedTuple):
    """The variables of the recursion, besides x_k or the average."""

    run: Fista  # x_k and y_k; its t_k is the weight of y_k in the proof
    unit: float  # u
    weight: float  # the weight e_k of the next step
    smoothness: tuple[float, float]  # L_f and L_g, the latter a substitute if g is linear
    total: float  # the sum of the weights so far


State: TypeAlias = RunState[Memory]


def _pair(owner: str, name: str, pair: Any) -> tuple[float, float]:
    """Return the momentum (alpha, shift), after checking it."""
    needed = "(alpha, shift) with alpha > 1 and shift >= alpha - 1"
    if not (checks.is_sequence(pair) and len(pair) == 2):
        raise TypeError(f"{owner}: {name} must be {needed}, got {pair}")
    alpha, shift = (checks.finite(owner, name, value) for value in pair)
    if not (alpha > 1.0 and shift >= alpha - 1.0):
        raise ValueError(f"{owner}: {name} must be {needed}, got {pair}")
    return alpha, shift


@dataclass(frozen=True)
class Diagonal(Method):
    """Proximal gradient steps on g + e_k f, with or without momentum, where e_k keeps decreasing.

        y_k     = x_k + m_k (x_k - x_{k-1})
        x_{k+1} = prox of s_k (g2 + e_k f2) on Z at y_k - s_k (grad g1(y_k) + e_k grad f1(y_k))
        e_k     = c u (k + offset)^-power,   m_k = 1 - alpha/(k + shift)

    Here f = f1 + f2 and g = g1 + g2 are smooth + penalty. The published programs use u = 1, so they
    depend on the units of f and g; the unit u = L_g/L_f is our choice.

    We prove bounds for convex f and g with f >= f_low, and for s_k = s <= 1/(L_g + e_0 L_f). Let R0
    = |x_0 - x*|, S_K = e_0 + ... + e_{K-1} and Delta = f* - f_low. Without momentum, the average z
    of x_1 ... x_K with weights e_0 ... e_{K-1} and the last iterate satisfy

        f(z) - f* <= R0²/(2 s S_K),    g(z) - g* <= (e_0 R0²/(2 s) + Delta sum e_k²)/S_K,
        g(x_K) - g* <= R0²/(2 s K) + Delta S_K/K.

    With momentum, alpha >= 3, t_k = (k + shift)/(alpha - 1) and h_0 = g + e_0 f, we have

        g(x_{K+1}) - g* <= (R0²/(2 s) + (t_0² - t_0)(h_0(x_0) - g* - e_0 f_low)
                            + Delta sum_{k<=K} t_k e_k)/t_K².

    Args:
        power, offset: the parameters of the weights e_k.
        c: a dimensionless factor of the weights.
        slowest: a lower bound on e_k/e_{k-1}.
        momentum: (alpha, shift), or None for m_k = 0.
        step_factor: s = step_factor/(L_g + e_0 L_f). Factors above 1 apply only if L_f = 0 (as for
            a penalty alone) and there is no momentum; otherwise they count as 1.
        follows: if True, s_k = step_factor/(L_g + e_k L_f), which grows as e_k decreases.
        armijo: theta, or None. With theta, steps are step_factor/L_g, halved until h = g + e_k f
            decreases by at least theta times the decrease that its slope predicts; f and g must be
            smooth.
        average: if True, return z instead of the last iterate.
        unit: u; L_g/L_f if None. ``unit`` must be given if f has no gradient.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> method = tb.Diagonal(power=1.2, momentum=(3, 3))
        >>> tb.solve(problem, method, rtol=1e-2, criterion="weak").status
        'certified'
    """

    power: float = 1.0
    offset: float = 1.0
    c: float = 1.0
    slowest: float = 0.0
    momentum: tuple[float, float] | None = None
    step_factor: float = 1.0
    follows: bool = False
    armijo: float | None = None
    average: bool = False
    unit: float | None = None

    name: ClassVar[str] = "diagonal"
    assumptions: ClassVar[str] = (
        "f, g convex, each smooth + penalty; Z closed, joint prox with both penalties"
    )
    ranges: ClassVar[dict[str, Range]] = {
        "power": POSITIVE,
        "c": POSITIVE,
        "unit": POSITIVE,
        "offset": checks.at_least,
        "slowest": within("a number in [0, 1)", lambda slowest: 0.0 <= slowest < 1.0),
        "step_factor": UP_TO_2,
        "follows": checks.flag,
        "average": checks.flag,
        "armijo": optional(SHARE),
        "momentum": optional(_pair),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.armijo is not None and self.momentum is not None:
            owner, pair = type(self).__name__, self.momentum
            raise ValueError(f"{owner}: momentum must be None with armijo, got {pair}")

    def check(self, problem: Problem) -> Refusal | None:
        by_armijo = self.armijo is not None
        return (
            (need_smooth(self, problem) if by_armijo else need_joint_prox(self, problem))
            or need_unit(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
        )

    def describe(self, problem: Problem) -> str:
        factor = f"{self.c:g} " if self.c != 1.0 else ""
        unit = "L_g/L_f" if self.unit is None else f"{self.unit:g}"
        base = f"(k + {self.offset:g})" if self.offset else "k"
        weights = f"e_k = {factor}{unit} {base}^-{self.power:g}"
        momentum = "" if self.momentum is None else ", with momentum"
        steps = "" if self.armijo is None else ", steps by Armijo's rule"
        point = "averaged" if self.average else "last iterate"
        return f"{self.name}, {weights}{momentum}{steps}, {point}"

    def points(self, state: State) -> dict[str, Array]:
        """Return the last iterate if the answer is the average."""
        return {"the last iterate": state.memory.run.x.x} if self.average else {}

    def report(self, state: State) -> StateReport:
        """Report the ``reach`` of the average."""
        return StateReport(reach=state.point.reach)

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with y_0 = x_0."""
        run = fista.start(problem, x0)
        assert run.f_y is not None
        L_g = positive_smoothness(problem, problem.lower, run.g_y, run.g_y)
        unit = unit_of(problem, self.unit, run.f_y, run.g_y)
        run = run._replace(t=self._t(0) or 1.0)
        smoothness = problem.upper.lipschitz, L_g
        return fista.first_state(run, Memory(run, unit, self._weight(unit, 0), smoothness, 0.0))

    def step(self, problem: Problem, state: State) -> State:
        """Take one step on g + e_k f."""
        k, (run, unit, e, smoothness, total) = state.k + 1, state.memory
        x, s = self._moved(problem, state.memory)
        after = fista.extrapolated(problem, run, x, e, self._t(k))
        assert run.f_y is not None
        weight, total = s * run.t, total + e  # the same weight as in the proofs of the bounds
        value = after.g_x, x.x, after.g_y
        evidence = weighted(weight * e, run.f_y, weight, run.g_y, value)
        later = max(self._weight(unit, k), self.slowest * e)
        memory = Memory(after, unit, later, smoothness, total)
        if not self.average:
            return fista.next_state(k, after, evidence, memory)
        average = averaged(problem, state.point, x, e / total, k)
        return RunState(k, average, *values_at(problem, average), evidence, memory)

    def _weight(self, unit: float, k: int) -> float:
        """Return the weight e_k; with offset 0, e_0 = e_1."""
        return self.c * unit * math.pow(max(k + self.offset, 1.0), -self.power)

    def _t(self, k: int) -> float | None:
        """Return the t_k with m_k = (t_{k-1} - 1)/t_k."""
        if self.momentum is None:
            return None
        alpha, shift = self.momentum
        return (k + shift) / (alpha - 1.0)

    def _moved(self, problem: Problem, memory: Memory) -> tuple[Point, float]:
        """Return x_{k+1} and s_k."""
        run, unit, e, (L_f, L_g), _ = memory
        factor = self.step_factor
        if self.armijo is not None:
            return self._searched(problem, run, e, factor / L_g, L_g + e * L_f)
        if L_f > 0.0 or self.momentum is not None:
            factor = min(factor, 1.0)
        s = factor / (L_g + (e if self.follows else self._weight(unit, 0)) * L_f)
        return fista.moved(problem, run, e, 1.0, s), s

    def _searched(
        self, problem: Problem, run: Fista, e: float, s: float, smoothness: float
    ) -> tuple[Point, float]:
        """Return x_{k+1} and s_k, the first of s, s/2, s/4 ... that Armijo's rule accepts."""
        assert run.f_y is not None
        assert self.armijo is not None
        slope, h = run.g_y.slope + e * run.f_y.slope, run.g_x + e * run.f_x
        while True:
            x = fista.moved(problem, run, e, 1.0, s)
            # From here on, the rule holds up to rounding; NaN ends the search too.
            if not s * smoothness > 2.0 * (1.0 - self.armijo):
                return x, s
            f_x, g_x = values_at(problem, x)
            rounding = 64.0 * arrays.epsilon(x.x) * (abs(run.g_x) + e * abs(run.f_x))
            if g_x + e * f_x <= h + self.armijo * arrays.dot(slope, x.x - run.x.x) + rounding:
                return x, s
            s *= 0.5


@dataclass(frozen=True)
class IREPG(Diagonal):
    """Iterative regularisation that returns an average: `Diagonal` with e_k = u (k + 1)^-1/2.

    The weight of f decreases like k^-beta (``power``), 0 < beta < 1. At the average z both bounds
    of `Diagonal` hold: f - f* = O(K^-(1-beta)); g - g* = O(K^-beta) for beta < 1/2, O(K^-1/2 log K)
    for beta = 1/2 and O(K^-(1-beta)) for beta > 1/2. At the last iterate, g - g* = O(K^-beta).

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.IREPG(), rtol=0.1, criterion="weak").status
        'certified'
    """

    power: float = 0.5
    average: bool = True

    name: ClassVar[str] = "ire-pg"
    paper: ClassVar[str] = (
        "Shtern, Taiwo: On the convergence rates of iterative regularization algorithms for "
        "composite bilevel optimization, SIAM J. Optim. 2026, arXiv 2506.16382"
    )
    guarantee: ClassVar[str] = "f - f* <= O(K^-(1-beta)), g - g* <= O(K^-beta), both K^-1/2 log K"
    cites: ClassVar[tuple[str, ...]] = ("shterntaiwo2026",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 0.5),
        Rate("g", 0.5),
        Rate("g", 0.5, at="the last iterate"),
    )
    output: ClassVar[str] = "the average of x_1 ... x_K with weights e_0 ... e_{K-1}"


@dataclass(frozen=True)
class StaBiM(Diagonal):
    """Proximal gradient steps on g + e_k f: `Diagonal` with e_k = u/k and growing steps.

    e_0 = u, e_k = max(u/k, 3 e_{k-1}/4) and s_k = 0.99/(L_g + e_k L_f). We use the gradients at
    x_k; the authors' program uses those at x_{k-1}. The iterates converge, but no rate is proved.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.StaBiM(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    offset: float = 0.0
    slowest: float = 0.75
    step_factor: float = 0.99
    follows: bool = True

    name: ClassVar[str] = "sta-bim"
    paper: ClassVar[str] = (
        "Latafat, Themelis, Villa, Patrinos: On the convergence of proximal gradient methods for "
        "convex simple bilevel optimization, J. Optim. Theory Appl. 2025, arXiv 2305.03559"
    )
    guarantee: ClassVar[str] = "x_k converges to a solution"
    cites: ClassVar[tuple[str, ...]] = ("latafat2025",)


@dataclass(frozen=True)
class SEDM(Diagonal):
    """Solodov's explicit descent method: `Diagonal` with e_k = u/(k + 1) and Armijo's steps.

    s_k is the largest of 2/L_g, 1/L_g, 1/(2 L_g) ... such that h = g + e_k f satisfies h(x_{k+1})
    <= h(x_k) + theta <grad h(x_k), x_{k+1} - x_k>, theta = 1/2 (``armijo``; the 0.98 of a public
    program allows only very short steps). Each trial point requires one evaluation of f and one of
    g. No rate is known.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.SEDM(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    step_factor: float = 2.0
    armijo: float | None = 0.5

    name: ClassVar[str] = "sedm"
    paper: ClassVar[str] = (
        "Solodov: An explicit descent method for bilevel convex optimization, J. Convex Anal. 2007"
    )
    assumptions: ClassVar[str] = "f, g convex and smooth; Z closed, bounded solution set"
    guarantee: ClassVar[str] = "dist(x_k, solutions) -> 0"
    cites: ClassVar[tuple[str, ...]] = ("solodov2007",)


@dataclass(frozen=True)
class BiPG(Diagonal):
    """The diagonal method without momentum: `Diagonal` with e_k = 10 u (k + 11)^-3/4.

    In the paper's notation e_k = c/(k + sigma_e + 1)^(delta/2), delta = 3/2 and sigma_e = 10; steps
    are 1.9/L_g if f is a penalty alone. For a smooth f we prove g - g* = O(K^-delta/2).

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BiPG(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    power: float = 0.75
    offset: float = 11.0
    c: float = 10.0
    step_factor: float = 1.9

    name: ClassVar[str] = "bi-pg"
    paper: ClassVar[str] = (
        "Boţ, Chenchene, Csetnek, Hulett: Accelerating diagonal methods for bilevel optimization: "
        "unified convergence via continuous-time dynamics, 2025, arXiv 2505.14389"
    )
    guarantee: ClassVar[str] = "g - g* <= O(k^(-3/4)); f - f* under Hölderian growth"
    cites: ClassVar[tuple[str, ...]] = ("bot2025",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("g", 0.75),)


@dataclass(frozen=True)
class FBiPG(Diagonal):
    """Fast Bi-level Proximal Gradient: `Diagonal` with e_k = u (k + 2)^-3/2 and FISTA's momentum.

    In the paper's notation e_k = (k + a)^-gamma and m_k = k/(k + a + 1), a = 2: ``offset`` is a,
    and ``momentum`` is (a + 1, a + 1). g - g* = O(K^-gamma) for gamma < 2. If g grows quadratically
    and 1 < gamma < 2, then g - g* = O(K^-2), f - f* = O(K^-(2-gamma)) and f* - f = O(1/K).

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.FBiPG(power=1.2), rtol=1e-2, criterion="weak").status
        'certified'
    """

    power: float = 1.5
    offset: float = 2.0
    momentum: tuple[float, float] | None = (3.0, 3.0)

    name: ClassVar[str] = "fbi-pg"
    paper: ClassVar[str] = (
        "Merchav, Sabach, Teboulle: A fast algorithm for convex composite bi-level optimization, "
        "2024, arXiv 2407.21221"
    )
    guarantee: ClassVar[str] = (
        "g - g* <= O(k^-gamma); under quadratic growth g - g* <= O(k^-2), f - f* <= O(k^-(2-gamma))"
    )
    cites: ClassVar[tuple[str, ...]] = ("merchav2024",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("g", 1.5),
        Rate("g", 2.0, assuming="quadratic growth of g"),
        Rate("f above", 0.5, assuming="quadratic growth of g"),
        Rate("|f|", 0.5, assuming="quadratic growth of g"),
    )


@dataclass(frozen=True)
class BiFISTA(Diagonal):
    """The accelerated diagonal method: `Diagonal` with e_k = 10 u (k + 11)^-3/2 and momentum.

    In the paper's notation e_k = c/(k + sigma_e + 1)^delta and m_k = 1 - alpha/(k + sigma_t + 1),
    with delta = 3/2, alpha = 4, sigma_e = 10 and sigma_t = 20, the values used in its experiments.
    We prove g - g* = O(K^-delta) for delta < 2.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BiFISTA(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    power: float = 1.5
    offset: float = 11.0
    c: float = 10.0
    momentum: tuple[float, float] | None = (4.0, 21.0)
    step_factor: float = 0.95

    name: ClassVar[str] = "bi-fista"
    paper: ClassVar[str] = BiPG.paper
    guarantee: ClassVar[str] = "g - g* <= O(k^-delta), delta < 2; f - f* under Hölderian growth"
    cites: ClassVar[tuple[str, ...]] = ("bot2025",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("g", 1.5),)


@dataclass(frozen=True)
class IREAPG(Diagonal):
    """Iterative regularisation, accelerated: `Diagonal` with e_k = u/(k + 2) and FISTA's momentum.

    The method is `FBiPG` with a different weight, k^-beta (``power``): g - g* = O(K^-beta).

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.IREAPG(), rtol=1e-2, criterion="weak").status
        'certified'
    """

    offset: float = 2.0
    momentum: tuple[float, float] | None = (3.0, 3.0)

    name: ClassVar[str] = "ire-apg"
    paper: ClassVar[str] = IREPG.paper
    guarantee: ClassVar[str] = "g - g* <= O(k^-beta), beta < 2"
    cites: ClassVar[tuple[str, ...]] = ("shterntaiwo2026",)
    rates: ClassVar[tuple[Rate, ...]] = (Rate("g", 1.0),)
