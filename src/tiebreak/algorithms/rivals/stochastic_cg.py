"""Conditional gradients with a few rows at a time: IR-SCG, IR-FSCG and SBCGF.

Giang-Tran, Shafiee, Ho-Nguyen: Conditional gradient methods with standard LMO for stochastic simple
bilevel optimization, NeurIPS 2025, arXiv 2505.18037. Cao, Jiang, Abolfazli, Yazdandoost Hamedani,
Mokhtari: Projection-free methods for stochastic simple bilevel optimization with convex lower-level
problem, NeurIPS 2023, arXiv 2308.07536.

All three methods estimate the slopes of both levels by the same recursion over slices I of rows:

    d_t = s_I(x_t) + (1 - b_t) (d_{t-1} - s_I(x_{t-1})),    s_I is the slope from slice I.

Either b_t = a_t, the step size (STORM), or b_t = 0 and d is reset to the gradient once per epoch
(SPIDER).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.algorithms.base import Method, Range, Rate, StepEvidence
from tiebreak.algorithms.common import (
    COUNT,
    POSITIVE,
    SHARE,
    TOLERANCE,
    UP_TO_2,
    at_start,
    both_smoothness,
    need_argmin,
    need_lipschitz,
    need_smooth,
    weighted,
    whole,
    within,
)
from tiebreak.algorithms.rivals import first_phase
from tiebreak.algorithms.svrg import Sampled, need_rows
from tiebreak.functions import Minorant, matrices_of
from tiebreak.linalg import Array, Refusal, arrays, deadline, in_files
from tiebreak.problem import Problem
from tiebreak.sets import argmin_cut


@in_files("stochastic-cg")
class State(NamedTuple):
    """Everything a run needs to continue; ``k`` and the seed determine the slices' order."""

    k: int  # epochs
    t: int  # number of steps, in the second phase if the method has two
    iterate: Array  # x_t, and x_{t-1}
    before: Array
    f_slope: Array  # the estimates at x_t
    g_slope: Array
    g_value: float
    unit: float  # u = L_g/L_f
    total: float  # total weight of x_1 ... x_{t-1} in z_t, and the average of these points
    average: Array
    level: float  # g at the start of the second phase; inf until then
    sizes: tuple[float, float]  # eps_g, and the slack of the first cut
    x: Array
    upper_value: float
    lower_value: float
    evidence: StepEvidence


@dataclass(frozen=True)
class _StochasticCG(Method):
    """The common part of the three methods: estimates, epochs, and a full reading per epoch."""

    batch: int | None = None
    seed: int = 0

    # does every epoch end by resetting the estimates to the gradients?
    is_refreshed: ClassVar[bool] = True
    needs_projection: ClassVar[bool] = False
    ranges: ClassVar[dict[str, Range]] = {"batch": COUNT, "seed": whole(0)}

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_smooth(self, problem)
            or need_argmin(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
            or need_rows(self, problem)
        )

    def describe(self, problem: Problem) -> str:
        return f"{self.name}, {self._sampled(problem)[1].steps} slices of rows in an epoch"

    def _sampled(self, problem: Problem) -> tuple[Sampled, Sampled]:
        """Return both levels with their slices of about sqrt(m) rows, as in the papers."""
        f, g = problem.smooth_parts
        rows = max(matrix.shape[0] for matrix in matrices_of(g))
        batch = self.batch or max(1, math.isqrt(rows))
        return Sampled(f, f.lipschitz, batch), Sampled(g, g.lipschitz, batch)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin with the gradients at x0, which may lie outside Z if Z has no projection."""
        x, f_x, g_x = at_start(problem, x0)
        L_f, L_g = both_smoothness(problem, f_x, g_x)
        size = first_phase.size(problem, problem.lower, g_x)
        return State(
            k=0, t=0, iterate=x.x, before=x.x, f_slope=f_x.slope, g_slope=g_x.slope,
            g_value=g_x.value, unit=L_g / L_f, total=0.0, average=x.x, level=math.inf,
            sizes=(size, size), x=x.x, upper_value=f_x.value, lower_value=g_x.value,
            evidence=StepEvidence(values=((g_x.value, x.x, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take an epoch of steps, with a full reading of the data at its end."""
        f, g = self._sampled(problem)
        order = np.random.default_rng([self.seed, state.k + 1])
        pairs, count = (f.slopes(order), g.slopes(order)), g.steps
        with arrays.quiet():
            for _ in range(count):
                deadline.check()
                state = self.moved(problem, state, count)
                keeps = 1.0 if self.is_refreshed else 1.0 - 2.0 / (state.t + 2)
                (f_new, f_old), (g_new, g_old) = (at(state.iterate, state.before) for at in pairs)
                slope = g_new + keeps * (state.g_slope - g_old)
                way = state.iterate - state.before
                state = state._replace(
                    f_slope=f_new + keeps * (state.f_slope - f_old), g_slope=slope,
                    g_value=state.g_value + 0.5 * arrays.dot(state.g_slope + slope, way),
                )  # fmt: skip
            if self.is_refreshed:
                state = self.moved(problem, state, count)
        problem.lower.note_reading()
        return self.read(problem, state._replace(k=state.k + 1), count)

    @abstractmethod
    def moved(self, problem: Problem, state: State, count: int) -> State:
        """Take one step with the current estimates; an epoch has ``count`` slices."""

    @abstractmethod
    def read(self, problem: Problem, state: State, count: int) -> State:
        """Return the state with values and evidence, from a full reading."""

    def _at(self, problem: Problem, state: State, x: Array) -> tuple[State, Minorant, Minorant]:
        """Return the state with answer x, and both minorants at x_t; SPIDER restarts from these."""
        here, answer = problem.forward(state.iterate, x)
        ((f_x,), (f_z,)), ((g_x,), (g_z,)) = (
            problem.upper.evaluate([here.f], [answer.f]),
            problem.lower.evaluate([here.g], [answer.g]),
        )
        state = state._replace(x=x, upper_value=f_z, lower_value=g_z)
        if self.is_refreshed:
            state = state._replace(f_slope=f_x.slope, g_slope=g_x.slope, g_value=g_x.value)
        return state, f_x, g_x


@dataclass(frozen=True)
class IRSCG(_StochasticCG):
    """Iteratively Regularized Stochastic Conditional Gradient method, for a bounded Z.

        v_t     = argmin over Z of <dG_t + e_t dF_t, v>,       e_t = c u/(t+1)^p,  u = L_g/L_f
        x_{t+1} = x_t + a_t (v_t - x_t),                       a_t = 2/(t+2)

    Here dF, dG are STORM's estimates of both gradients: see `stochastic_cg`. The output is IR-CG's
    average z_T. A step here is an epoch over all slices, with a full reading at its end that serves
    only the values and the certificate. With all rows in one slice, the method is IR-CG. Unlike in
    the paper, slices consist of neighbouring rows and come in a random order, each once per epoch;
    the unit u is our addition.

    Args:
        batch: the number of rows in a slice; by default, sqrt(m), if there are m rows.
        seed: the seed for the order of the slices.
        p: how fast the weight of f decreases, in (0, 1); the paper's best is 1/4.
        c: a factor of the weight e_t of f.

    Examples:
        >>> fit = tb.Logistic([[1, 2], [2, 4], [1, 2], [2, 4]], [0, 1, 1, 0])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.IRSCG(), max_iter=50).nit
        50
    """

    p: float = 0.25
    c: float = 1.0

    name: ClassVar[str] = "ir-scg"
    paper: ClassVar[str] = (
        "Giang-Tran, Shafiee, Ho-Nguyen: Conditional gradient methods with standard LMO for "
        "stochastic simple bilevel optimization, NeurIPS 2025, arXiv 2505.18037"
    )
    assumptions: ClassVar[str] = (
        "g a sum of row losses; f, g convex and smooth; Z bounded, with easy linear minimisation"
    )
    guarantee: ClassVar[str] = "f - f* and g - g* <= O(t^-1/4) with high probability after t slices"
    cites: ClassVar[tuple[str, ...]] = ("giangtran2025irscg",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 0.25, "with high probability, p = 1/4"),
        Rate("g", 0.25, "with high probability, p = 1/4"),
    )
    output: ClassVar[str] = "z_T, the average with the weights of the proof"
    is_refreshed: ClassVar[bool] = False
    ranges: ClassVar[dict[str, Range]] = {**_StochasticCG.ranges, "p": SHARE, "c": POSITIVE}

    def _weight(self, state: State, t: int, count: int) -> float:
        """Return e_t."""
        return self.c * state.unit / math.pow(t + 1.0, self.p)

    def _length(self, t: int, count: int) -> float:
        """Return a_t."""
        return 2.0 / (t + 2)

    def moved(self, problem: Problem, state: State, count: int) -> State:
        x, t = state.iterate, state.t
        e, before = (self._weight(state, j, count) for j in (t, max(t - 1, 0)))
        v = problem.domain.argmin(state.g_slope + e * state.f_slope)
        weight = t * (t + 1) * (before - e)
        if weight > 0.0:
            total = state.total + weight
            average = state.average + (weight / total) * (x - state.average)
            state = state._replace(total=total, average=average)
        return state._replace(t=t + 1, before=x, iterate=x + self._length(t, count) * (v - x))

    def read(self, problem: Problem, state: State, count: int) -> State:
        t, e = state.t, self._weight(state, state.t - 1, count)
        last = t * (t + 1) * e
        z = state.average + (last / (state.total + last)) * (state.iterate - state.average)
        state, f_x, g_x = self._at(problem, state, z)
        values = (g_x.value, g_x.at, g_x), (state.lower_value, z, g_x)
        return state._replace(evidence=weighted(t * e, f_x, float(t), g_x, *values))


@dataclass(frozen=True)
class IRFSCG(IRSCG):
    """Iteratively Regularized Finite-Sum Stochastic Conditional Gradient: IR-SCG with SPIDER.

    Once in an epoch of q steps, the estimates are reset to the gradients. From there on,

        a_t = log(q)/q for t < q, then 2/(t+2);    e_t = c u/(max(t, q) + 1)^p.

    Args:
        batch: the number of rows in a slice; by default, sqrt(m), if there are m rows.
        seed: the seed for the order of the slices.
        p: how fast the weight of f decreases, in (0, 1); the paper's best is 1/2.
        c: a factor of the weight e_t of f.

    Examples:
        >>> fit = tb.Logistic([[1, 2], [2, 4], [1, 2], [2, 4]], [0, 1, 1, 0])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.IRFSCG(), rtol=0.2, criterion="weak").status
        'certified'
    """

    p: float = 0.5

    name: ClassVar[str] = "ir-fscg"
    guarantee: ClassVar[str] = "f - f* and g - g* <= O(t^-1/2) with high probability after t slices"
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 0.5, "with high probability, p = 1/2"),
        Rate("g", 0.5, "with high probability, p = 1/2"),
    )
    is_refreshed: ClassVar[bool] = True

    def _weight(self, state: State, t: int, count: int) -> float:
        return super()._weight(state, max(t, count + 1), count)

    def _length(self, t: int, count: int) -> float:
        q = count + 1
        return math.log(q) / q if t < q else 2.0 / (t + 2)


@dataclass(frozen=True)
class SBCGF(_StochasticCG):
    """Stochastic Bilevel Conditional Gradient method for Finite sums, for a bounded Z.

    The first phase takes conditional gradient steps on g alone, with SPIDER's estimates (see
    `stochastic_cg`), until the Frank-Wolfe gap at a full reading is at most eps_g/2. Starting from
    the resulting x_0, the second phase is

        s_t     = argmin of <dF_t, s> over { s in Z : <dG_t, s - x_t> <= g(x_0) - g_t + K_t }
        x_{t+1} = (1 - a_t) x_t + a_t s_t,    a_t = scale/(t+2),    K_t = slack |g|/sqrt(t+1)

    Here g_t estimates g(x_t): to the value at the last full reading, each step adds the product of
    x_{t+1} - x_t with the mean of dG_t and dG_{t+1}. Unlike in the paper, slices consist of
    neighbouring rows and come in a random order, and a step is an epoch. The unit |g|, the size of
    g at x0, is our addition.

    Args:
        batch: the number of rows in a slice; by default, sqrt(m), if there are m rows.
        seed: the seed for the order of the slices.
        eps_g: twice the accuracy of the first phase; if None, 1e-4 times the size of g.
        scale: a_t (t+2), in (0, 2].
        slack: the factor in K_t, the slack of the cut that allows for the noise of the estimates.

    Examples:
        >>> fit = tb.Logistic([[1, 2], [2, 4], [1, 2], [2, 4]], [0, 1, 1, 0])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(center=[3, 0]), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.SBCGF(), rtol=1e-1, criterion="weak").status
        'certified'
    """

    eps_g: float | None = None
    scale: float = 2.0
    slack: float = 1e-4

    name: ClassVar[str] = "sbcgf"
    paper: ClassVar[str] = (
        "Cao, Jiang, Abolfazli, Yazdandoost Hamedani, Mokhtari: Projection-free methods for "
        "stochastic simple bilevel optimization with convex lower-level problem, NeurIPS 2023, "
        "arXiv 2308.07536"
    )
    assumptions: ClassVar[str] = IRSCG.assumptions
    guarantee: ClassVar[str] = (
        "f - f* <= O(1/t); g - g* <= O(1/t) + eps_g/2, with high probability after t slices"
    )
    cites: ClassVar[tuple[str, ...]] = ("cao2023sbcgi",)
    rates: ClassVar[tuple[Rate, ...]] = (
        Rate("f above", 1.0, "with high probability"),
        Rate("g", 1.0, "with high probability"),
    )
    ranges: ClassVar[dict[str, Range]] = {
        **_StochasticCG.ranges,
        "eps_g": POSITIVE,
        "scale": UP_TO_2,
        "slack": within("a number >= 0", lambda slack: 0.0 <= slack < math.inf),
    }

    def init(self, problem: Problem, x0: Array) -> State:
        state = super().init(problem, x0)
        size = state.sizes[0]
        return state._replace(sizes=(self.eps_g or TOLERANCE * size, self.slack * size))

    def moved(self, problem: Problem, state: State, count: int) -> State:
        x, t, scale = state.iterate, state.t, 2.0
        if math.isinf(state.level):
            s = problem.domain.argmin(state.g_slope)
        else:
            s, scale = self._cut(problem, state)[0], self.scale
        return state._replace(t=t + 1, before=x, iterate=x + (scale / (t + 2)) * (s - x))

    def _cut(self, problem: Problem, state: State) -> tuple[Array, float]:
        """Return s_t and the multiplier of its cut."""
        room = state.level - state.g_value + state.sizes[1] / math.sqrt(state.t + 1)
        offset = room + arrays.dot(state.g_slope, state.iterate)
        return argmin_cut(problem.domain, state.f_slope, state.g_slope, offset)

    def read(self, problem: Problem, state: State, count: int) -> State:
        state, f_x, g_x = self._at(problem, state, state.iterate)
        mu, weight = 0.0, state.t + 1.0
        if not math.isinf(state.level):
            mu = self._cut(problem, state)[1]
        elif first_phase.frank_wolfe_gap(problem, g_x) <= 0.5 * state.sizes[0]:
            state = state._replace(level=g_x.value, t=0)
        value = g_x.value, g_x.at, g_x
        evidence = weighted(weight, f_x, weight * mu, g_x, value, lower=weight)
        return state._replace(evidence=evidence)
