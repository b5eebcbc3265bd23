"""BR-SVRG: Bregman rounds with variance-reduced steps, for losses with many rows.

A full gradient of a loss with many rows is expensive, and a gradient from a few rows is noisy. We
keep the slopes of all rows at a snapshot w, as one number per row. A slice I of rows then gives the
slope estimate

    grad g(w) + m/|I| A_I'(phi'(A_I x) - phi'(A_I w))

Its noise decreases with |x - w| (SVRG: Johnson, Zhang 2013). A few epochs suffice only if the
objective is strongly convex enough. So we use rounds of Bregman iteration, which keep the weight
eta of f large and leave the accuracy to the multiplier p.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from tiebreak.algorithms.base import NOT_ENDED, Method, Proved, Range, StateReport, StepEvidence
from tiebreak.algorithms.common import (
    COUNT,
    POSITIVE,
    minorants_at,
    need_joint_prox,
    need_lipschitz,
    positive_smoothness,
    size_of_terms,
    whole,
)
from tiebreak.functions import (
    Function,
    LinearLoss,
    Minorant,
    SmoothFunction,
    has_slices,
    images_of,
    summands,
)
from tiebreak.linalg import Array, Image, Refusal, arrays, deadline, in_files
from tiebreak.linalg.matrices.base import RowSlice
from tiebreak.problem import Point, Problem
from tiebreak.proofs.gate import ANSWER, Ended

Slope: TypeAlias = Callable[[Array], Array]


@in_files("br-svrg.proof")
class CutProof(NamedTuple):
    """The state of the proof: g's minorant at u with multiplier 1/t, and f's minorant at w."""

    t: float
    u: Point
    g_u: Minorant
    begun: int  # the step at which the proof began


@in_files("br-svrg")
class State(NamedTuple):
    """Everything a run needs to continue; ``k`` and the seed determine the slices' order."""

    k: int
    w: Point  # the snapshot
    f_w: Minorant
    g_w: Minorant
    eta: float
    slopes: Array  # p, the sum of grad g(w_j)/eta_j over all finished rounds
    weight: float  # the sum of 1/eta_j
    points: Array  # the sum of w_j/eta_j
    residual: float  # residual of g at the end of the last round
    former: tuple[float, float]  # f and g at the end of the last round
    proof: CutProof | None
    tries: int  # number of proofs begun
    finished: Ended
    wanted: float  # the tolerance on f; 0 if none was given
    upper_value: float  # f(w) and g(w)
    lower_value: float
    evidence: StepEvidence

    @property
    def x(self) -> Array:
        """The snapshot."""
        return self.w.x


@dataclass(frozen=True)
class BregmanSVRG(Method):
    """Bregman iteration whose rounds take variance-reduced steps with a few rows each.

        at a snapshot w: all slopes of rows, grad g(w), grad f(w)          (one reading of the data)
        if |grad g(w) + eta (grad f(w) + p)| <= accuracy |grad g(w)|, the round ends:
            p <- p + grad g(w)/eta;  eta <- eta/2 unless |grad g(w)| has been halved
        for all slices of rows, in a random order:                         (one reading of the data)
            x <- prox of s eta f2 on Z at x - s (slope of g from the slice + eta (grad f1(x) + p))

    Here s = 1/(2 (L_g + V) + eta L_f), V = L_max/b bounds the curvature of a mean over the b rows
    of a slice, and L_max the curvature of one row. If Z binds or there are penalties, gradient maps
    replace the gradients in the test; p uses the gradient itself.

    A slice consists of neighbouring rows, so taking a slice costs no more than reading its rows.
    Slices in a random order work as well as random rows, even if the rows are sorted. With b =
    L_max/L_g rows, the noise V is as large as the curvature L_g; with fewer rows, the steps are
    shorter. But the function calls for a slice cost as much as reading a few thousand matrix
    entries. So b is large enough that the calls cost no more than the rows of a slice, but leaves
    at least 500 slices: with fewer slices, the extra readings of the data outweigh the calls saved.

    The first eta is 20 (L_g + V)/(N L_f) with N slices, so that one epoch completes a round.

    **The proof.** Once p shows that f has settled to within its tolerance, w is fixed. The minorant
    of g at u with the multiplier 1/t certifies f(w) if grad g(u) = -t grad f(w), which holds at w +
    t sum_j (w_j - w)/eta_j up to second-order terms; the same steps on g + t <grad f(w), .> lead
    from there to u. Only full readings of the data count as evidence.

    Args:
        batch: the number of rows in a slice; chosen from the data if None.
        eta_0: the first weight of f; chosen from the data if None.
        accuracy: the accuracy of a round, relative to the slope of g.
        seed: the seed for the order of the slices.

    Examples:
        >>> A = [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]
        >>> f, g = tb.SquaredNorm(center=[1, 0]), tb.Logistic(A, [0, 1, 0, 1])
        >>> problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(4))
        >>> tb.solve(problem, tb.BregmanSVRG(), max_iter=100).x.round(3)
        array([ 0.568, -0.432])
    """

    batch: int | None = None
    eta_0: float | None = None
    accuracy: float = 0.5
    seed: int = 0

    name: ClassVar[str] = "br-svrg"
    paper: ClassVar[str] = (
        "tiebreak; rounds as in Osher, Burger, Goldfarb, Xu, Yin 2005, steps as in Johnson, Zhang: "
        "Accelerating stochastic gradient descent using predictive variance reduction, 2013"
    )
    assumptions: ClassVar[str] = (
        "g a sum of row losses; L_f, L_g known; f, g convex, each smooth + penalty, with joint prox"
    )
    guarantee: ClassVar[str] = (
        "with exact rounds g - g* <= O(1/k), linear if g grows quadratically; f - f* -> 0 if "
        "the loss of a row is strictly convex; otherwise a point is accepted only with a proof"
    )
    cites: ClassVar[tuple[str, ...]] = ("osher2005", "johnsonzhang2013", "kovalev2020")
    output: ClassVar[str] = "the last snapshot"
    adapts: ClassVar[bool] = True
    ranges: ClassVar[dict[str, Range]] = {
        "batch": COUNT, "seed": whole(0), "eta_0": POSITIVE, "accuracy": POSITIVE,
    }  # fmt: skip

    def check(self, problem: Problem) -> Refusal | None:
        return (
            need_joint_prox(self, problem)
            or need_lipschitz(self, problem, "upper", "lower")
            or need_rows(self, problem)
        )

    def describe(self, problem: Problem) -> str:
        slices = self.slices(problem)
        return f"Bregman rounds with variance-reduced steps, {slices} slices of rows in an epoch"

    def slices(self, problem: Problem) -> int:
        """Return the number of slices into which the rows of g are divided."""
        return self._sampled(problem)[1].steps

    def overhead(self, problem: Problem) -> float:
        """Return the overhead of an epoch's calls, in matrix entries that could be read instead."""
        f, g = self._sampled(problem)
        return g.steps * (f.calls + g.calls)

    def report(self, state: State) -> StateReport:
        """Report how the run ended; the trace gets a row for every step."""
        return StateReport(
            state.finished,
            is_good=state.proof is not None or bool(state.finished.why),
            is_settling=state.proof is None and not state.finished.why,
            is_milestone=True,
        )

    def adapt(self, state: State, proved: Proved) -> State:
        return state._replace(wanted=proved.asked[0])

    def _sampled(self, problem: Problem) -> tuple[Sampled, Sampled]:
        """Return both levels with their slices."""
        f, g = problem.smooth_parts
        return Sampled(f, f.lipschitz, self.batch), Sampled(g, g.lipschitz, self.batch)

    def init(self, problem: Problem, x0: Array) -> State:
        """Begin with a snapshot at x0, and an eta for which one epoch completes a round."""
        f2, g2 = problem.penalties
        (w,) = problem.forward(problem.prox(x0, 0.0, 0.0))
        f_w, g_w = minorants_at(problem, w)
        _, rows = self._sampled(problem)
        L_f = positive_smoothness(problem, problem.upper, f_w, g_w)
        eta = self.eta_0 or 20.0 * (rows.lipschitz + rows.noise) / (rows.steps * L_f) or 1.0
        nothing, value = arrays.zeros_like(w.x), g_w.value + g2.value(w.x)
        return State(
            k=0, w=w, f_w=f_w, g_w=g_w, eta=eta, slopes=nothing, weight=0.0, points=nothing,
            residual=math.inf, former=(math.inf, value), proof=None, tries=0, finished=NOT_ENDED,
            wanted=0.0,
            upper_value=f_w.value + f2.value(w.x), lower_value=value,
            evidence=StepEvidence(values=((value, w.x, g_w),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """Take an epoch of steps, for a round or for the proof, with a full reading at its end."""
        if state.finished.why:
            return state
        f, g = self._sampled(problem)
        state = state._replace(k=state.k + 1)
        order = np.random.default_rng([self.seed, state.k])
        if state.proof is not None and state.k <= 2 * state.proof.begun:
            return _proof_step(problem, state, state.proof, g, order)
        eta, p, weights = state.eta, state.slopes, (state.eta, 1.0 + state.eta * state.weight)
        f_slope = f.slope(state.f_w, state.w.upper, order)
        g_slope = g.slope(state.g_w, state.w.lower, order)
        s = 0.5 / (g.lipschitz + g.noise + eta * (0.5 * f.lipschitz + f.noise))

        def slope(x: Array) -> Array:
            return g_slope(x) + eta * (p + f_slope(x))

        x = _epoch(problem, state.x, g, s, slope, weights)
        after = _at_snapshot(problem, state._replace(proof=None), x)
        t = 1.0 / (g.lipschitz + eta * f.lipschitz)  # step of the gradient maps
        lower = after.g_w.slope
        moved = problem.prox(
            x - t * (lower + eta * (p + after.f_w.slope)), t * weights[0], t * weights[1]
        )
        residual = arrays.norm(x - problem.prox(x - t * lower, 0.0, t)) / t
        if not arrays.norm(x - moved) <= self.accuracy * t * residual:
            return after
        after = after._replace(
            slopes=p + lower / eta,
            weight=state.weight + 1.0 / eta,
            points=state.points + x / eta,
            eta=0.5 * eta if residual > 0.5 * state.residual else eta,
            residual=residual,
        )
        after = _with_proof(problem, after)
        is_settled = _error(problem, after, lower) <= max(1e-11, 32.0 * arrays.epsilon(x))
        # Where g hardly curves, a small slope may still hide a large change of x and f: the slope
        # must be rounding of x and of the sums over the rows.
        parts = g.lipschitz * arrays.norm(x) + math.sqrt(2.0 * g.lipschitz * abs(after.g_w.value))
        is_settled = is_settled and residual <= 8.0 * arrays.epsilon(x) * parts
        after = after._replace(former=(after.upper_value, after.lower_value))
        if not (is_settled and self.ends(problem)):
            return after
        rounds = f"f has settled after {after.k} epochs of Bregman rounds"
        return after._replace(finished=Ended(ANSWER, rounds))

    def ends(self, problem: Problem) -> bool:
        """Does the run end on its own?  Yes on R^n, if the loss of a row is strictly convex.

        Otherwise Bregman rounds may settle at a point that is not the answer.
        """
        parts = [part for _, part in summands(problem.smooth_parts[1].bare)]
        is_strict = all(
            part.bend is not None if has_slices(part) else part.degree <= 2 for part in parts
        )
        return is_strict and problem.is_smooth and problem.domain.is_space


def _at_snapshot(problem: Problem, state: State, x: Array) -> State:
    """Read all rows at x, and return the state with its snapshot at x."""
    f2, g2 = problem.penalties
    (w,) = problem.forward(x)
    f_w, g_w = minorants_at(problem, w)
    value = g_w.value + g2.value(x)
    evidence = StepEvidence(upper=((1.0, f_w),), lower=((1.0, g_w),), values=((value, x, g_w),))
    return state._replace(
        w=w, f_w=f_w, g_w=g_w, upper_value=f_w.value + f2.value(x), lower_value=value,
        evidence=evidence,
    )  # fmt: skip


def need_rows(method: object, problem: Problem) -> Refusal | None:
    """Refuse a lower level that is not a sum of row losses."""
    lower = problem.smooth_parts[1].bare
    if any(has_slices(part) for _, part in summands(lower)):
        return None
    needed = "must be a loss whose rows can be read a few at a time"
    instead = "use primal-dual or auto; LeastSquares reads rows instead of A'A if gram=False"
    return Refusal(type(method).__name__, "lower", needed, type(lower).__name__, instead)


# -- rows -----------------------------------------------------------------------------------------


class Slices(NamedTuple):
    """A loss whose rows are read a few at a time."""

    weight: float
    loss: LinearLoss
    size: int  # approximate number of rows in a slice
    noise: float  # a bound on the curvature of a slice's mean loss

    @property
    def steps(self) -> int:
        """The number of slices."""
        return max(1, round(self.loss.row_count / self.size))

    def drawn(self, order: np.random.Generator) -> Iterator[RowSlice]:
        """Yield all slices in a random order, endlessly."""
        while True:
            yield from self.loss.matrix.slices(self.size, order)

    def change(self, image: Image, order: np.random.Generator) -> Slope:
        """Return a function that estimates how far the slope at x differs from a snapshot's."""
        loss, before, slices = self.loss, self.loss.evaluate_image(image)[1], self.drawn(order)
        return lambda x: self.weight * loss.slope_of(next(slices), x, before)


class Sampled:
    """A smooth function with the slices of its losses, if it has any."""

    def __init__(self, h: SmoothFunction, L: float, batch: int | None) -> None:
        self.function, self.lipschitz, parts = h, L, summands(h.bare)
        self.slices: list[Slices | None] = [
            _slices(weight, part, L, batch) if has_slices(part) else None for weight, part in parts
        ]
        self.others: list[tuple[float, Function]] = [
            pair for pair, some in zip(parts, self.slices, strict=True) if some is None
        ]

    @property
    def noise(self) -> float:
        """A bound on the curvature of a slice's mean loss."""
        return sum(some.noise for some in self.slices if some is not None)

    @property
    def steps(self) -> int:
        """The number of slices needed to read every row once."""
        return max(some.steps for some in self.slices if some is not None)

    @property
    def calls(self) -> float:
        """The overhead of the calls in a step, in matrix entries that could be read instead."""
        return sum(some.loss.matrix.entries_per_call for some in self.slices if some is not None)

    def slope(self, at: Minorant, image: Image, order: np.random.Generator) -> Slope:
        """Return a function that estimates the slope at x from a snapshot and the next slice."""
        h = self.function
        pairs = zip(self.slices, images_of(h.bare, image), strict=True)
        drawn = [some.change(each, order) for some, each in pairs if some is not None]
        if not drawn:
            return h.gradient if h.bare.passes(1, 1, 0) else h.bare.gradient
        steady = at.slope
        for weight, part in self.others:
            steady = steady - weight * part.gradient(at.at)

        def sampled(x: Array) -> Array:
            total = steady
            for change in drawn:
                total = total + change(x)
            for weight, part in self.others:
                total = total + weight * part.gradient(x)
            return total

        return sampled

    def slopes(self, order: np.random.Generator) -> Callable[..., list[Array]]:
        """Return a function that estimates the slopes at several points from the next slice."""
        losses = [(some, some.drawn(order)) for some in self.slices if some is not None]

        def sampled(*points: Array) -> list[Array]:
            parts: list[tuple[float, Slope]] = [
                (some.weight, partial(some.loss.slope_of, next(rows))) for some, rows in losses
            ]
            parts += [(weight, part.gradient) for weight, part in self.others]
            return [sum((w * slope(x) for w, slope in parts), arrays.zeros_like(x)) for x in points]

        return sampled


def _slices(weight: float, loss: LinearLoss, L: float, batch: int | None) -> Slices:
    """Choose slices with enough rows that the noise is below the curvature."""
    rows, most = max(loss.row_count, 1), weight * loss.row_lipschitz
    enough = most / L if L > 0.0 else 1.0
    # the overhead of a call, in rows that could be read instead
    calls = loss.matrix.entries_per_call * rows / max(loss.matrix.size, 1)
    size = batch or math.ceil(max(enough, min(calls, rows / 500)))
    size = min(max(size, 1), rows)
    return Slices(weight, loss, size, most / size)


def _epoch(
    problem: Problem, x: Array, g: Sampled, s: float, slope: Slope, weights: tuple[float, float]
) -> Array:
    """Take prox-gradient steps of size s from x over all slices; ``weights`` multiply f2 and g2."""
    is_free = problem.domain.is_space
    with arrays.quiet():
        for _ in range(g.steps):
            deadline.check()
            x = x - s * slope(x)
            if not problem.is_smooth:
                x = problem.prox(x, s * weights[0], s * weights[1])
            elif not is_free:
                x = problem.domain.project(x)
    problem.lower.note_reading()
    deadline.spend(g.steps * g.calls)
    return x


# -- the proof ------------------------------------------------------------------------------------


def _error(problem: Problem, state: State, lower: Array) -> float:
    """Estimate the relative error of f(w) from the multipliers and from f's change in a round."""
    c = state.points - state.weight * state.x
    size = size_of_terms(state.f_w, problem.penalties[0].terms)
    gain = max(abs(arrays.dot(c, lower)), abs(state.upper_value - state.former[0]))
    return gain / size if size > 0.0 else gain


def _with_proof(problem: Problem, state: State) -> State:
    """Begin the proof at the end of a round if f seems to have settled.

    With c = sum_j (w_j - w)/eta_j, the proof's bound is too low by t/2 |<c, grad f>| + (g(w) -
    g*)/t. We estimate g(w) - g* by the decrease of g in the last round.
    """
    x, fall = state.x, state.former[1] - state.lower_value
    c = state.points - state.weight * x
    pull = abs(arrays.dot(c, state.f_w.slope))
    is_bounded = problem.is_bounded or problem.radius is not None
    if not (is_bounded and pull > 0.0 and state.wanted > 0.0):
        return state
    t = min(0.25 * state.wanted / pull, state.eta)
    if not abs(fall) <= 0.25 * t * state.wanted * 0.25**state.tries:
        return state
    u, g_u = _cut_at(problem, x + t * c)
    return state._replace(
        proof=CutProof(t, u, g_u, state.k), evidence=_evidence(state, t, g_u), tries=state.tries + 1
    )


def _cut_at(problem: Problem, x: Array) -> tuple[Point, Minorant]:
    (u,) = problem.forward(problem.domain.project(x))
    ((g_u,), _) = problem.smooth_parts[1].evaluate([u.g])
    return u, g_u


def _evidence(state: State, t: float, g_u: Minorant) -> StepEvidence:
    return StepEvidence(
        upper=((1.0, state.f_w),), cuts=((1.0 / t, g_u),), lower=((1.0, state.g_w),),
        values=((state.lower_value, state.x, state.g_w),),
    )  # fmt: skip


def _proof_step(
    problem: Problem, state: State, proof: CutProof, g: Sampled, order: np.random.Generator
) -> State:
    """Take an epoch of steps on g + t <grad f(w), .>, and put the cut at its last point."""
    t, pull = proof.t, proof.t * state.f_w.slope
    g_slope = g.slope(proof.g_u, proof.u.lower, order)
    s = 0.5 / (g.lipschitz + g.noise)
    x = _epoch(problem, proof.u.x, g, s, lambda x: g_slope(x) + pull, (t, 1.0))
    u, g_u = _cut_at(problem, x)
    return state._replace(proof=proof._replace(u=u, g_u=g_u), evidence=_evidence(state, t, g_u))
