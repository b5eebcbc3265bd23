"""An accelerated run on h = g + eta f that finds its own step sizes (three-sequence form).

    a_k from L a_k² = A_k + a_k = A_{k+1},   y_k = (A_k x_k + a_k z_k)/A_{k+1}
    z_{k+1} = prox of a_k (g2 + eta f2) on Z at z_k - a_k (grad g1(y_k) + eta grad f1(y_k))
    x_{k+1} = (A_k x_k + a_k z_{k+1})/A_{k+1}

L grows until, for h1 = g1 + eta f1, h1(x_{k+1}) is at most its minorant at y_k plus L/2 |x_{k+1} -
y_k|².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tiebreak.algorithms.common import REFRESH, out_of_bounds
from tiebreak.functions import Minorant, PointWithImage, SmoothFunction
from tiebreak.linalg import Array, Image, arrays, in_files
from tiebreak.problem import Point, Problem, mixed

SHRINK = 0.97  # factor on L after every step, so that L decreases where the curvature does
TRIES = 100  # maximum number of backtracking steps; after these, only rounding error is left
GROWTH = 1.3  # minimum factor on L if a step was too long
EXTRA = 1.02  # margin on the required L: without it, rounding might make the test fail again
MOST_GROWTH = 8.0  # maximum factor on L: a step that is much too long overestimates L or overflows


@in_files("adaptive.momentum")
class Momentum(NamedTuple):
    """A run on h since its last restart."""

    A: float  # A_k, the sum of the step sizes a_i
    x: Point  # x_k
    z: Point  # z_k
    origin: Array  # z_0, where the run started
    smoothness: float  # the estimate of L_h1, for the next step
    value: float  # h(x_k)
    steps: int
    ahead: Minorants | None = None  # f1 and g1 at y_k, if the last pass evaluated them too

    def restarted_if_risen(self, before: Momentum) -> Momentum:
        """Return this run, or a new run from its point if h has risen since ``before``.

        Also restart if the step sizes are about to overflow, as they may if h is nearly linear.
        """
        # A, and A times a value, must stay far from overflow.
        if (self.value <= before.value or self.steps < 3) and self.A < 2.0**900:
            return self
        return begin(self.x, self.smoothness, self.value)


def begin(x: Point, smoothness: float, value: float) -> Momentum:
    """Start a run from x: A_0 = 0, z_0 = x_0 = x."""
    return Momentum(0.0, x, x, x.x, smoothness, value, 0)


class Step(NamedTuple):
    """The result of a step, its evaluations, and the verdicts of `out_of_bounds` on f and g."""

    run: Momentum
    a: float
    y: Minorants  # f1 and g1 at y_k
    f_x: float  # f(x_{k+1}), nan if the weight of f is 0
    g_x: float
    violations: tuple[tuple[bool, bool], tuple[bool, bool]]

    @property
    def value(self) -> tuple[float, Array, Minorant]:
        """Return g(x_{k+1}) as evidence."""
        x = self.run.x
        return self.g_x, x.x, self.y.g.reaching(x.g)


def advance(problem: Problem, run: Momentum, eta: float) -> Generator[DataRequest, DataReply, Step]:
    """Take a step; first increase L from its estimate until the module's inequality holds."""
    L, y, last = run.smoothness, run.ahead, math.inf
    for _ in range(TRIES):
        step, rise, slack, square = yield from _trial(problem, run, eta, L, y)
        if math.isfinite(rise) and rise <= 0.5 * L * square + slack:  # if h1 is inf, so is slack
            break
        if last <= rise < math.inf:  # a shorter step did not reduce the rise: it is rounding error
            L = run.smoothness
            break
        last = rise
        needed = 2.0 * rise / square if square > 0.0 else math.inf
        L = max(GROWTH * L, EXTRA * needed) if math.isfinite(needed) else MOST_GROWTH * L
        y = None if run.A > 0.0 else step.y  # y_0 = z_0 does not depend on L
    return step._replace(run=step.run._replace(smoothness=SHRINK * L))


def _trial(
    problem: Problem, run: Momentum, eta: float, L: float, y: Minorants | None
) -> Generator[DataRequest, DataReply, tuple[Step, float, float, float]]:
    """Take the step with this L; ``y`` holds f1 and g1 at y_k if they are known.

    Also return the excess of h1(x_{k+1}) over its minorant at y_k, the allowance for rounding, and
    |x_{k+1} - y_k|².
    """
    has_f = eta > 0.0
    a = _step_size(L, run.A)  # a_k
    A = run.A + a  # A_{k+1}
    share = a / A if run.A > 0.0 else 1.0
    if y is None:
        (y,) = (yield DataRequest(has_f, at=[mixed(run.x, run.z, share)])).minorants
    slope = y.g.slope if y.f is None else y.g.slope + eta * y.f.slope  # slope of h1 at y_k
    z = yield from forward(has_f, problem.prox(run.z.x - a * slope, a * eta, a))
    x = mixed(run.x, z, share)  # x_{k+1}
    if (run.steps + 1) % REFRESH == 0:
        x = yield from forward(has_f, x.x)
    reply = yield DataRequest(has_f, at=_next_y(problem, x, z, A, L), values_at=[x])
    ahead = reply.minorants[0] if reply.minorants else None
    ((f1_x, g1_x),) = reply.values

    f2, g2 = problem.penalties
    f_x, g_x = f1_x + f2.value(x.x), g1_x + g2.value(x.x)
    h_x = g_x + eta * f_x if has_f else g_x
    dz = z.x - run.z.x  # x_{k+1} - y_k = share dz
    with_f = [] if y.f is None else [(y.f.slope, dz)]
    along_g, square, steepness, *along_f = arrays.dots(
        (y.g.slope, dz), (dz, dz), (slope, slope), *with_f
    )
    inner_f, inner_g = share * along_f[0] if along_f else 0.0, share * along_g
    rise, sizes = g1_x - y.g.value - inner_g, abs(g1_x) + abs(y.g.value)
    if y.f is not None:
        rise += eta * (f1_x - y.f.value - inner_f)
        sizes += eta * (abs(f1_x) + abs(y.f.value))
    sizes += share * arrays.norm(slope, steepness) * arrays.norm(dz, square)
    slack = 16.0 * arrays.epsilon(dz) * sizes
    square *= share * share
    (f1, g1), of_f = problem.smooth_parts, (False, False)
    if y.f is not None:
        of_f = out_of_bounds(f1, y.f, f1_x, inner_f, square)
    after = Momentum(A, x, z, run.origin, L, h_x, run.steps + 1, ahead)
    violations = of_f, out_of_bounds(g1, y.g, g1_x, inner_g, square)
    return Step(after, a, y, f_x, g_x, violations), rise, slack, square


def _next_y(problem: Problem, x: Point, z: Point, A: float, L: float) -> list[Point]:
    """Return y_{k+1}, to be evaluated in the same data pass as x_{k+1}, if passes are expensive.

    The evaluation at y_{k+1} is wasted only if L has to grow or the run restarts.
    """
    if not problem.shares_passes:
        return []
    a = _step_size(SHRINK * L, A)
    return [mixed(x, z, a / (A + a))]


def _step_size(L: float, A: float) -> float:
    """Return a with L a² = A + a."""
    return (1.0 + math.sqrt(1.0 + 4.0 * L * A)) / (2.0 * L)


T = TypeVar("T")


@in_files("adaptive.minorants")
class Minorants(NamedTuple):
    """f1 and g1 at one point."""

    f: Minorant | None  # the minorant of f1; None if the weight of f is 0
    g: Minorant


class DataRequest(NamedTuple):
    """Points to multiply by the matrices, or at which to evaluate f1 and g1."""

    has_f: bool  # is the request for f and g, or for g alone?
    forward: Sequence[Array] = ()
    at: Sequence[Point] = ()
    values_at: Sequence[Point] = ()


class DataReply(NamedTuple):
    """The answers to a `DataRequest`, in the same order."""

    points: list[Point]
    minorants: list[Minorants]
    values: list[tuple[float, float]]  # f1 (nan if it was not requested) and g1


def forward(has_f: bool, x: Array) -> Generator[DataRequest, DataReply, Point]:
    """Return x with its images."""
    (point,) = (yield DataRequest(has_f, forward=[x])).points
    return point


def run_together(problem: Problem, runs: Sequence[Generator[DataRequest, DataReply, T]]) -> list[T]:
    """Advance several runs together and return their results.

    A run on f and g is written as a generator. This generator yields a `DataRequest` (points to
    multiply, or at which to evaluate f1 and g1) and is sent a `DataReply`. One call of f and one of
    g answer all requests that several runs make at the same time; we start both calls before we
    wait for either.
    """
    requests = {i: next(run) for i, run in enumerate(runs)}
    returned: dict[int, T] = {}
    while requests:
        replies = _replies(problem, list(requests.values()))
        for i, reply in zip(list(requests), replies, strict=True):
            try:
                requests[i] = runs[i].send(reply)
            except StopIteration as end:
                returned[i] = end.value
                del requests[i]
    return [returned[i] for i in range(len(runs))]


def _replies(problem: Problem, requests: Sequence[DataRequest]) -> list[DataReply]:
    f1, g1 = problem.smooth_parts
    with_f = [request for request in requests if request.has_f]
    f_begun = _begin(f1, with_f, lambda point: point.f)
    g_begun = _begin(g1, requests, lambda point: point.g)
    f_images, f_minorants, f_values = f_begun()
    g_images, g_minorants, g_values = g_begun()
    replies = []
    for has_f, xs, at, values_at in requests:
        points = [Point(x, next(f_images) if has_f else None, next(g_images)) for x in xs]
        minorants = [Minorants(next(f_minorants) if has_f else None, next(g_minorants)) for _ in at]
        values = [(next(f_values) if has_f else math.nan, next(g_values)) for _ in values_at]
        replies.append(DataReply(points, minorants, values))
    return replies


def _begin(
    h: SmoothFunction, requests: Sequence[DataRequest], of: Callable[[Point], PointWithImage]
) -> Callable[[], tuple[Iterator[Image], Iterator[Minorant], Iterator[float]]]:
    """Start the evaluations of h; the returned function gives their results in request order."""
    images = h.forward(*(x for request in requests for x in request.forward))
    at = [of(point) for request in requests for point in request.at]
    values_at = [of(point) for request in requests for point in request.values_at]
    pending = h.evaluate_async(at, values_at) if at or values_at else None

    def end() -> tuple[Iterator[Image], Iterator[Minorant], Iterator[float]]:
        minorants, values = pending() if pending is not None else ([], [])
        return iter(images), iter(minorants), iter(values)

    return end
