"""Saving: what is to be kept as one JSON text and arrays by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row
from tiebreak.levels import Levels
from tiebreak.linalg import checks
from tiebreak.linalg.archive import LABEL, Writer, npz_path
from tiebreak.linalg.registry import KEYWORDS
from tiebreak.problem import Problem
from tiebreak.saving.kinds import ABOUT, FIELDS, FORMAT, LEVELS_FIELDS, SavedFindings


def save_problem(problem: Problem, path: str | Path) -> None:
    """What ``Problem.save`` does."""
    target, writer = npz_path("Problem.save", "path", path), ResultWriter("Problem.save")
    writer.save(target, "Problem", writer.problem("", problem))


def save_levels(levels: Levels, path: str | Path) -> None:
    """What ``Levels.save`` does."""
    target, writer = npz_path("Levels.save", "path", path), ResultWriter("Levels.save")
    writer.save(target, "Levels", writer.problem("", levels))


def save_result(result: Result, path: str | Path, problem: bool) -> None:
    """What ``Result.save`` does."""
    checks.flag("Result.save", "problem", problem)
    target, writer = npz_path("Result.save", "path", path), ResultWriter("Result.save")
    if problem and result.problem.current() is not result.problem:
        raise ValueError(
            "Result.save: problem must hold the numbers that it was solved with, got others; "
            "save with problem=False"
        )
    writer.save(target, "Result", writer.result("", result, problem))


def save_levels_result(result: LevelsResult, path: str | Path) -> None:
    """What ``LevelsResult.save`` does."""
    target, writer = npz_path("LevelsResult.save", "path", path), ResultWriter("LevelsResult.save")
    run = result.result
    content = {
        "fields": {name: writer.encode(name, getattr(result, name)) for name in LEVELS_FIELDS},
        "levels": writer.encode("levels", tuple(result.levels.values())),
        "result": None if run is None else writer.result("result.", run, problem=False),
    }
    writer.save(target, "LevelsResult", content)


class ResultWriter(Writer):
    """Problems and results in a file."""

    def save(self, path: Path, kind: str, content: Any) -> None:
        """All of it, into the file."""
        self.write(path, {"format": FORMAT, "kind": kind, "content": content})

    def result(self, where: str, result: Result, problem: bool) -> Any:
        """A result, its arrays by names that begin with ``where``; with its problem, or without."""
        found = {name: getattr(result, name) for name in FIELDS}
        own = found["findings"]
        if own is not None and type(own) not in KEYWORDS:
            found["findings"] = SavedFindings(own.dimension, tuple(map(tuple, own.lines())))
        columns = {name: np.array(result.trace.column(name)) for name in Row._fields}
        return {
            "fields": {name: self.encode(where + name, value) for name, value in found.items()},
            "trace": {
                name: self.encode(f"{where}trace.{name}", some) for name, some in columns.items()
            },
            "about_problem": {name: self.encode(name, getattr(result, name)) for name in ABOUT},
            "problem": self.problem("problem", result.problem) if problem else None,
        }

    def problem(self, where: str, problem: Problem | Levels) -> Any:
        """The problem with the numbers that its arrays hold now."""
        now = problem.current()
        for name in (now.variables if isinstance(now, Levels) else now.names) or ():
            if not isinstance(name, LABEL):
                needed = "text or numbers as the names of its variables"
                got = f"{name!r} of type {type(name).__name__}"
                raise TypeError(f"{self.owner}: the problem must have {needed}, got {got}")
        try:
            return self.encode(where, now)
        except RecursionError:
            raise ValueError(
                f"{self.owner}: the problem must not be a sum of so many functions that they are "
                "nested too deeply"
            ) from None
