"""Decides when a call has to end: because of its time limit, or because of Ctrl-C.

Every thread has its own limit, which belongs to the call that it runs. Long computations call
`check` in every round of a loop and, with the amount of work, before a factorisation, which cannot
be interrupted. The clock is used only to stop work. Durations are estimates for a nominal speed,
because with measured durations the load of the machine would decide what is tried. Without a time
limit, the clock is not read.

`check` and `spend` also count the work, so that alternatives can be compared (`metered`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

SPEED = 5e8  # units of `svd_work` per second, half of what a modern core can do
T = TypeVar("T")

GRACE = 1.0  # seconds to finish the last row of the history and the certificate
IN_CACHE = 0.25  # cost of one unit of `svd_work` in cached blocks; reading an entry costs 1


class Over(Exception):
    """The call has to end with the result it has so far."""


class TimeIsUp(Over):
    """The time limit has passed."""


class TooLong(TimeIsUp):
    """The time that is left is not enough for the next computation."""


class OverBudget(TooLong):
    """The next computation takes more work than is allowed, whatever the clock says."""


class Interrupted(Over):
    """Ctrl-C."""


@dataclass
class Meter:
    """The work that is allowed and spent, in units of reading one entry of the data."""

    allowed: float
    spent: float = 0.0


class Limit:
    """The ``end`` of a call, by `time.perf_counter`; inf if there is no limit."""

    is_interrupted: bool
    is_closing: bool
    end: float
    share: float

    def __init__(self, end: float) -> None:
        self.is_interrupted = self.is_closing = False
        self.end = self.share = end  # ``share``: when the current work has to end, see `half`
        self._is_heard = False  # was Ctrl-C pressed before the call was closed?

    @property
    def is_over(self) -> bool:
        """Is the time up, or is the call closing?"""
        return self.is_closing or time.perf_counter() >= self.end

    @property
    def ending(self) -> str:
        """The status of the call that this limit has ended."""
        return "stopped" if self.is_interrupted else "max_time"

    def close(self) -> None:
        """End the call, with at least one more second to finish up; exactly one after Ctrl-C."""
        if not self.is_closing:
            self.is_closing, self._is_heard = True, self.is_interrupted
            soon = time.perf_counter() + GRACE
            self.end = self.share = soon if self.is_interrupted else max(self.end, soon)

    def check(self, work: float) -> None:
        if self.is_interrupted and not self._is_heard:
            raise Interrupted("Ctrl-C")
        if self.end == math.inf:
            return
        now = time.perf_counter()
        if now >= self.end:
            raise TimeIsUp("the time is up")
        needed, left = work / SPEED, self.share - now
        if left <= 0.0:
            raise TooLong("half of the remaining time is used up")
        if needed > left:
            raise TooLong(f"it would take {needed:.2g} s more, but only {left:.2g} s are left")


_LIMIT: ContextVar[Limit] = ContextVar("tiebreak_limit")
_NONE = Limit(math.inf)
_METER: ContextVar[Meter | None] = ContextVar("tiebreak_meter", default=None)


@contextlib.contextmanager
def limited(seconds: float | None = None, began: float | None = None) -> Iterator[Limit]:
    """Stop the ``with`` block ``seconds`` after ``began`` (default: now); None means no limit."""
    began = time.perf_counter() if began is None else began
    limit = Limit(math.inf if seconds is None else began + seconds)
    token = _LIMIT.set(limit)
    try:
        yield limit
    finally:
        _LIMIT.reset(token)


@contextlib.contextmanager
def metered(allowed: float = math.inf) -> Iterator[Meter]:
    """Count the work of the ``with`` block; raise `OverBudget` beyond the allowed amount."""
    meter = Meter(allowed)
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def check(work: float = 0.0) -> None:
    """Raise `Over` if the call has to end.

    ``work`` is the work of the next computation, which cannot be interrupted, in units of
    `svd_work`.
    """
    _LIMIT.get(_NONE).check(work)
    if work:
        spend(IN_CACHE * work)


def is_over() -> bool:
    """Must the call end? For code that cannot let `check` raise an exception."""
    try:
        check()
    except Over:
        return True
    return False


def spend(work: float) -> None:
    """Add work to the meter, if there is one."""
    if (meter := _METER.get()) is not None:
        if meter.spent + work > meter.allowed:
            raise OverBudget("it takes more work than expected")
        meter.spent += work


def allow_as_much_again() -> None:
    """Allow the proof of an answer as much work as the answer has taken, if there is a meter."""
    if (meter := _METER.get()) is not None:
        meter.allowed = max(meter.allowed, 2.0 * meter.spent)


@contextlib.contextmanager
def half() -> Iterator[None]:
    """Limit the ``with`` block to half of the remaining time; raise `TooLong` beyond that."""
    limit = _LIMIT.get(_NONE)
    before, now = limit.share, time.perf_counter()
    if math.isfinite(before):
        limit.share = 0.5 * (now + before)
    try:
        yield
    finally:
        if math.isfinite(before):  # the ``with`` block may have called `close`
            limit.share = limit.end if limit.is_closing else before


def left() -> float:
    """The seconds that are left; inf if there is no limit."""
    return _LIMIT.get(_NONE).share - time.perf_counter()


def unless_too_long(task: Callable[[], T], otherwise: T, over: type[Over] = TooLong) -> T:
    """The result of the task, or ``otherwise`` if there is no time for it.

    With ``over=Over``, ``otherwise`` is also returned if time runs out during the task.
    """
    try:
        return task()
    except over:
        return otherwise


def svd_work(rows: int, columns: int, whole: bool = False) -> float:
    """The work of an SVD, with all singular vectors of the larger side if ``whole``.

    The work of other factorisations is given as a fraction of the work of an SVD.
    """
    small, large = sorted((rows, columns))
    return float(small * large * (large if whole else small))
