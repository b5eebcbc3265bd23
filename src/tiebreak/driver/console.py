"""What a run shows on the terminal and hears from it: the live line, and Ctrl-C."""

from __future__ import annotations

import contextlib
import functools
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator

from tiebreak.driver.result import Row
from tiebreak.functions.sums import matrices_of
from tiebreak.linalg.deadline import Limit
from tiebreak.linalg.matrices.repeated import Repeated
from tiebreak.linalg.matrices.streamed import RowBlocks
from tiebreak.problem import Problem

EVERY = 0.1  # seconds between two live lines


@contextlib.contextmanager
def stopping_on_ctrl_c(limit: Limit) -> Iterator[None]:
    """The first Ctrl-C ends the call at its next `deadline.check`; the second one raises."""
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


class LiveLine:
    """The live line on standard error: the last row, or how far a pass over streamed rows is."""

    is_on: bool

    def __init__(self, problem: Problem, is_on: bool) -> None:
        self.is_on, self._shown, self._passes = is_on, -math.inf, 0
        found = [matrix for h in problem.smooth_parts for matrix in matrices_of(h)]
        found = [matrix.block if isinstance(matrix, Repeated) else matrix for matrix in found]
        # One matrix may be in both levels.
        self._swept = list({id(m): m for m in found if isinstance(m, RowBlocks)}.values())

    def __enter__(self) -> None:
        for matrix in self._swept if self.is_on else ():
            matrix.on_progress = functools.partial(self._pass, matrix.shape[0])

    def __exit__(self, *error: object) -> None:
        for matrix in self._swept if self.is_on else ():
            matrix.on_progress = None

    def show(self, row: Row) -> None:
        """The last row, where the one before has been there long enough."""
        if self.is_on and self._is_due():
            self._print(_words(row))

    def end(self, row: Row) -> None:
        """The last row, to stay."""
        if self.is_on:
            self._print(_words(row), "\n")

    def _pass(self, in_all: int, rows: int) -> None:
        """So many rows of ``in_all`` are done."""
        if self._is_due():
            self._print(f"pass {self._passes + 1:,}, rows {rows:,} of {in_all:,}")
        self._passes += rows == in_all

    def _is_due(self) -> bool:
        now = time.perf_counter()
        if now < self._shown + EVERY:
            return False
        self._shown = now
        return True

    def _print(self, words: str, end: str = "") -> None:
        print(f"\r{words:<96}", end=end, file=sys.stderr, flush=True)


def _words(row: Row) -> str:
    return (
        f"step {row.iteration:>7,}   f {row.upper_value:<13.7g} gap {row.upper_gap:<9.2e}   "
        f"g {row.lower_value:<13.7g} gap {row.lower_gap:<9.2e}   {row.seconds:7.1f} s"
    )
