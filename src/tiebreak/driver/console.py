"""The terminal during a run: the live progress line, and Ctrl-C."""

from __future__ import annotations

import contextlib
import functools
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from tiebreak.display.progress import LevelNames, Screen, screen_for
from tiebreak.driver.trace import Row
from tiebreak.functions import matrices_of
from tiebreak.levels import ConicLevels, Levels
from tiebreak.linalg import RowBlocks, checks
from tiebreak.linalg.deadline import Limit
from tiebreak.linalg.matrices.derived import Repeated
from tiebreak.problem import Problem


@contextlib.contextmanager
def stopping_on_ctrl_c(limit: Limit) -> Iterator[None]:
    """End the call at its next `deadline.check` on the first Ctrl-C; raise on the second."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        if limit.is_interrupted:
            raise KeyboardInterrupt
        limit.is_interrupted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@runtime_checkable
class Reporter(Protocol):
    """An object for ``progress``: `update` receives each recorded row, `close` ends the display."""

    def update(self, row: Row) -> object:
        """Called when a step has been recorded."""

    def close(self) -> object:
        """Called at the end of the run, for whatever reason it ended."""


Progress = bool | Reporter | Callable[[Row], object]


class LevelLines:
    """The progress of a chain: one line for each level as it is solved."""

    def __init__(self, levels: Levels | ConicLevels, began: float) -> None:
        signs = (
            (level.sign for level in levels.levels) if isinstance(levels, Levels) else levels.signs
        )
        self._levels, self._began = list(zip(levels.names, signs, strict=True)), began

    def __call__(self, number: int, best: float) -> None:
        """Show that the level with this number is solved, and its least value."""
        (name, sign), count = self._levels[number], len(self._levels)
        seconds, screen = time.perf_counter() - self._began, screen_for(True)
        screen.text(f"level {number + 1} of {count}, {name}: {sign * best:.9g}, {seconds:.1f} s")
        screen.close()  # each line stays on the screen


class LiveLine:
    """Shows the last row, or the progress of a pass over streamed rows; see `display.progress`."""

    def __init__(self, problem: Problem, progress: Progress | LevelNames) -> None:
        if not (isinstance(progress, bool | Reporter | LevelNames) or callable(progress)):
            raise TypeError(
                "solve: progress must be True, False, a function of a row, or an object with "
                f"update(row) and close(), got {checks.what_it_is(progress)}"
            )
        self.is_on, self._progress = progress is not False, progress
        self._screen: Screen | None = None
        self._last: Row | None = None
        self._shown, self._passes = -math.inf, 0
        levels = problem.smooth_parts if self.is_on else ()
        found = [matrix for h in levels for matrix in matrices_of(h)]
        found = [matrix.block if isinstance(matrix, Repeated) else matrix for matrix in found]
        # Upper and lower level may use the same matrix.
        self._swept = list({id(m): m for m in found if isinstance(m, RowBlocks)}.values())

    def __enter__(self) -> None:
        if self.is_on:
            self._screen = screen_for(self._progress)
        for matrix in self._swept:
            matrix.on_progress = functools.partial(self._pass, matrix.shape[0])

    def __exit__(self, *error: object) -> None:
        for matrix in self._swept:
            matrix.on_progress = None
        if self._screen is not None:
            self._screen.close()

    def show(self, row: Row) -> None:
        """Show the row if the previous row has been visible long enough."""
        if self._screen is not None and self._is_due():
            self._last = row
            self._screen.row(row)

    def end(self, row: Row) -> None:
        """Show the last row, which stays on the screen."""
        if self._screen is not None and row != self._last:
            self._screen.row(row)

    def _pass(self, in_all: int, rows: int) -> None:
        """Show that this pass has processed ``rows`` of ``in_all`` rows."""
        if self._screen is not None and self._is_due():
            self._screen.text(f"pass {self._passes + 1:,}, rows {rows:,} of {in_all:,}")
        self._passes += rows == in_all

    def _is_due(self) -> bool:
        now = time.perf_counter()
        if self._screen is None or now < self._shown + self._screen.every:
            return False
        self._shown = now
        return True
