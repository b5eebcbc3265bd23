"""Live progress of a run: in a notebook, with rich or tqdm, or as one line.

Progress goes to standard error, no more often than the eye can follow.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tiebreak.driver.trace import Row


class LevelNames(NamedTuple):
    """The names of two levels, which take the place of g and f."""

    lower: str
    upper: str


LETTERS = LevelNames("g", "f")


class Screen:
    """A place to show progress; the base class overwrites a line of the terminal."""

    every: float = 0.1  # seconds between two updates
    names = LETTERS
    _is_used = False

    def row(self, row: Row) -> None:
        """Show a recorded row."""
        self.text(words(row, self.names))

    def text(self, said: str) -> None:
        """Overwrite the line, cut to the terminal's width: a longer line could not be erased."""
        self._is_used = True
        width = shutil.get_terminal_size((97, 24)).columns - 1
        print(f"\r{said[:width]:<{min(width, 110)}}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the last line of the display, so that it stays visible."""
        if self._is_used:
            print(file=sys.stderr, flush=True)


class Log(Screen):
    """Progress in a file or pipe: complete lines from time to time, without control characters."""

    every: float = 10.0

    def text(self, said: str) -> None:
        print(said.rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class Notebook(Screen):
    """A single output below a notebook cell, updated in place."""

    every: float = 0.2

    def __init__(self) -> None:
        self._handle: Any = None

    def text(self, said: str) -> None:
        from IPython.display import display

        data = {"text/plain": said}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def close(self) -> None:
        pass


class Rich(Screen):
    """A table of both levels, drawn by rich."""

    every: float = 0.5  # seconds; an update takes more than a millisecond

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        # Do not redirect the output of callbacks.
        self._live = Live(
            console=Console(stderr=True), auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def row(self, row: Row) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_edge=False)
        title = f"step {row.iteration:,}, {row.passes:,} passes, {row.seconds:.1f} s"
        table.add_column(title, style="bold")
        for name in ("value", "proved gap"):
            table.add_column(name, justify="right", min_width=13)
        is_plain = self.names is LETTERS
        lower, upper = ("lower level, g", "upper level, f") if is_plain else self.names
        # As texts, because in a string "[t]" would be a style.
        table.add_row(Text(upper), f"{row.upper_value:.9g}", f"{row.upper_gap:.2e}")
        table.add_row(Text(lower), f"{row.lower_value:.9g}", f"{row.lower_gap:.2e}")
        self._show(table)

    def text(self, said: str) -> None:
        from rich.text import Text

        self._show(Text(said, no_wrap=True, overflow="ellipsis"))

    def _show(self, what: Any) -> None:
        self._live.start()  # started by the first row
        self._live.update(what, refresh=True)

    def close(self) -> None:
        self._live.stop()


class Tqdm(Screen):
    """A line of tqdm below any existing bars."""

    def __init__(self) -> None:
        from tqdm import tqdm

        self._bar = tqdm(bar_format="{desc}", file=sys.stderr, dynamic_ncols=True)

    def text(self, said: str) -> None:
        self._bar.set_description_str(said)

    def close(self) -> None:
        self._bar.close()


class Told(Screen):
    """The user's own object or function, called with every recorded row."""

    every: float = 0.0

    def __init__(self, progress: Any) -> None:
        self._update = progress.update if hasattr(progress, "update") else progress
        self._close = getattr(progress, "close", None)

    def row(self, row: Row) -> None:
        self._update(row)

    def text(self, said: str) -> None:
        pass

    def close(self) -> None:
        if self._close is not None:
            self._close()


def screen_for(progress: object) -> Screen:
    """Choose where to show the progress of a run; True names the levels f and g."""
    if progress is not True and not isinstance(progress, LevelNames):
        return Told(progress)
    screen = _screen()
    screen.names = LETTERS if progress is True else progress
    return screen


def _screen() -> Screen:
    """Choose a display that the terminal or notebook supports."""
    if _is_notebook():
        return Notebook()
    if sys.stderr is None or sys.stderr.closed:  # a program without a console, or a daemon
        return Told(lambda row: None)
    if not sys.stderr.isatty():
        return Log()
    for kind in (Rich, Tqdm):
        with contextlib.suppress(ImportError):
            return kind()
    return Screen()


def _is_notebook() -> bool:
    """Does a notebook kernel, and not a terminal, show our output?"""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def words(row: Row, names: LevelNames = LETTERS) -> str:
    """Return a row as one line; a pass reads all the data once."""
    f, g = names.upper, names.lower
    return (
        f"step {row.iteration:>7,}   {f} {row.upper_value:<13.7g} gap {row.upper_gap:<9.2e}   "
        f"{g} {row.lower_value:<13.7g} gap {row.lower_gap:<9.2e} "
        f"{row.passes:6,} passes {row.seconds:7.1f} s"
    )
