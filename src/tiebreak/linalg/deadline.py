"""When a call has to end: its time limit, and Ctrl-C.

The limit in force is that of the call at work in this thread. Long work calls `check`: in every
round of a loop, and, with the size of what comes, before a factorisation, for nothing stops one
that has begun. The clock only ends work. How long something takes is estimated by a nominal speed:
measuring it would make what is begun depend on how busy the machine is. Without a time limit the
clock is not read.

The same calls, and those of `spend`, count the work for whoever wants to compare ways (`metered`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

SPEED = 5e8  # of the work that `svd_work` counts, in a second: a core of today does twice as much
T = TypeVar("T")

GRACE = 1.0  # seconds for what is done after the end: the last row, the certificate
IN_CACHE = 0.25  # of the time of an entry read once: a unit of `svd_work`, whose blocks are cached


class Over(Exception):
    """The call has to end: what it has by now is its result."""


class TimeIsUp(Over):
    """Its time has passed."""


class TooLong(TimeIsUp):
    """It has not, but what comes next would take longer than what is left."""


class OverBudget(TooLong):
    """What comes next is more work than was allowed for it, whatever the clock says."""


class Interrupted(Over):
    """Ctrl-C."""


class Meter:
    """Counts the work that is done, in entries of data read once."""

    def __init__(self, allowed: float) -> None:
        self.spent: float = 0.0
        self.allowed: float = allowed

    def spend(self, work: float) -> None:
        if self.spent + work > self.allowed:
            raise OverBudget("it takes more work than was expected of it")
        self.spent += work


class Limit:
    """When a call has to end, by `time.perf_counter`; inf: never."""

    def __init__(self, end: float) -> None:
        self.is_interrupted = self.is_closing = False
        self._end = self._share = end
        self._is_heard = False  # was there a Ctrl-C before the call was closed?

    @property
    def is_over(self) -> bool:
        """Is there no time left, or not enough for what came next?"""
        return self.is_closing or time.perf_counter() >= self._end

    @property
    def left(self) -> float:
        """The seconds that are left for what is done now."""
        return self._share - time.perf_counter()

    @property
    def ending(self) -> str:
        """The status of a call that it has ended."""
        return "stopped" if self.is_interrupted else "max_time"

    def close(self) -> None:
        """The call ends: what is still to be done has a second at least, after Ctrl-C at most."""
        if not self.is_closing:
            self.is_closing, self._is_heard = True, self.is_interrupted
            soon = time.perf_counter() + GRACE
            self._end = self._share = soon if self.is_interrupted else max(self._end, soon)

    def check(self, work: float) -> None:
        if self.is_interrupted and not self._is_heard:
            raise Interrupted("Ctrl-C")
        if self._end == math.inf:
            return
        now = time.perf_counter()
        if now >= self._end:
            raise TimeIsUp("the time is up")
        needed, left = work / SPEED, self._share - now
        if left <= 0.0:
            raise TooLong("its half of the time is up")
        if needed > left:
            raise TooLong(f"it would take {needed:.2g} s more, and {left:.2g} s are left")

    @contextlib.contextmanager
    def half(self) -> Iterator[None]:
        before, now = self._share, time.perf_counter()
        if math.isfinite(before):
            self._share = 0.5 * (now + before)
        try:
            yield
        finally:
            if math.isfinite(before):  # `close` may have been called meanwhile
                self._share = self._end if self.is_closing else before


_LIMIT: ContextVar[Limit] = ContextVar("tiebreak_limit")
_NONE = Limit(math.inf)
_METER: ContextVar[Meter | None] = ContextVar("tiebreak_meter", default=None)


@contextlib.contextmanager
def limited(seconds: float | None = None, began: float | None = None) -> Iterator[Limit]:
    """So many seconds from ``began`` (now) on for what is done inside; None: no end."""
    began = time.perf_counter() if began is None else began
    limit = Limit(math.inf if seconds is None else began + seconds)
    token = _LIMIT.set(limit)
    try:
        yield limit
    finally:
        _LIMIT.reset(token)


def call_at_work() -> Limit | None:
    """What stands for the call at work in this thread, as long as that lasts; None: there is none.

    For what is kept until the call ends.
    """
    return _LIMIT.get(None)


@contextlib.contextmanager
def metered(allowed: float = math.inf) -> Iterator[Meter]:
    """Count the work that is done inside; beyond what is allowed, `OverBudget`."""
    meter = Meter(allowed)
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def check(work: float = 0.0) -> None:
    """Go on, or raise `Over`.

    ``work``: of a call that cannot be stopped once it has begun, as `svd_work` counts it.
    """
    _LIMIT.get(_NONE).check(work)
    if work:
        spend(IN_CACHE * work)


def is_over() -> bool:
    """Has the call to end? For whoever cannot raise."""
    try:
        check()
    except Over:
        return True
    return False


def spend(work: float) -> None:
    """Count so much work, where somebody counts."""
    if (meter := _METER.get()) is not None:
        meter.spend(work)


def allow_as_much_again() -> None:
    """An answer is there: its proof may take as much work as it has, where somebody counts."""
    if (meter := _METER.get()) is not None:
        meter.allowed = max(meter.allowed, 2.0 * meter.spent)


def half() -> contextlib.AbstractContextManager[None]:
    """Half of the time that is left for what is done inside: beyond it, `TooLong`."""
    return _LIMIT.get(_NONE).half()


def left() -> float:
    """The seconds that are left; inf without a limit."""
    return _LIMIT.get(_NONE).left


def unless_too_long(task: Callable[[], T], otherwise: T, over: type[Over] = TooLong) -> T:
    """What the task gives, or ``otherwise`` if there is no time for it.

    With `Over`, also where the time is up meanwhile.
    """
    try:
        return task()
    except over:
        return otherwise


def svd_work(rows: int, columns: int, whole: bool = False) -> float:
    """The work of a singular value decomposition; ``whole``: all vectors of the larger side too.

    Other factorisations are counted as parts of one.
    """
    small, large = sorted((rows, columns))
    return float(small * large * (large if whole else small))
