"""Coroutines that share data passes: each yields what it needs to know, all are answered at once.

A run on f and g is written as a generator. It yields a `DataRequest` (points to be multiplied, or
to be evaluated) and is sent a `DataReply`; `run_together` answers what several runs request at the
same time by one call of f and one of g, both begun before either is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tiebreak.functions.base import Minorant, PointWithImage, SmoothFunction
from tiebreak.linalg.arrays import Array, Image
from tiebreak.problem import Point, Problem

T = TypeVar("T")


class Minorants(NamedTuple):
    """f1 and g1 at one point."""

    f: Minorant | None  # None where f has no weight
    g: Minorant


class DataRequest(NamedTuple):
    """Points to be multiplied by the matrices, to be evaluated with slopes, or values alone."""

    has_f: bool  # otherwise it is about g alone
    forward: Sequence[Array] = ()
    at: Sequence[Point] = ()
    values_at: Sequence[Point] = ()


class DataReply(NamedTuple):
    """What was requested, in its order."""

    points: list[Point]
    minorants: list[Minorants]
    values: list[tuple[float, float]]  # f1 (nan where it was not requested) and g1


def forward(has_f: bool, x: Array) -> Generator[DataRequest, DataReply, Point]:
    """x with its images."""
    (point,) = (yield DataRequest(has_f, forward=[x])).points
    return point


def run_together(problem: Problem, runs: Sequence[Generator[DataRequest, DataReply, T]]) -> list[T]:
    """What the runs return."""
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
    """All that the requests ask of h, in their order, once it is waited for."""
    images = h.forward(*(x for request in requests for x in request.forward))
    at = [of(point) for request in requests for point in request.at]
    values_at = [of(point) for request in requests for point in request.values_at]
    pending = h.evaluate_async(at, values_at) if at or values_at else None

    def end() -> tuple[Iterator[Image], Iterator[Minorant], Iterator[float]]:
        minorants, values = pending() if pending is not None else ([], [])
        return iter(images), iter(minorants), iter(values)

    return end
