"""The content of a result's file: its fields by name, its trace, and on request its problem.

`saving.load` reads it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row
from tiebreak.linalg import in_files
from tiebreak.linalg.archive import Writer
from tiebreak.linalg.registry import KEYWORDS


@in_files("SavedFindings")
class SavedFindings(NamedTuple):
    """The findings of a third-party method, in its own words."""

    dimension: int | None
    said: tuple[tuple[str, str], ...]

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines of the report."""
        return list(self.said)


# Facts about the problem that the report needs, because the problem itself may not be saved.
ABOUT = ("dimension", "_assumed", "_sparsity")
FIELDS = [part.name for part in dataclasses.fields(Result) if part.name not in ("trace", "problem")]
# The fields of a result for levels; level reports and a `Result` inside are saved on their own.
LEVELS_FIELDS = [
    part.name for part in dataclasses.fields(LevelsResult) if part.name not in ("levels", "result")
]


def result_content(writer: Writer, result: Result, problem: bool, where: str = "") -> Any:
    """Return the content for a result; the names of its arrays begin with ``where``."""
    found = {name: getattr(result, name) for name in FIELDS}
    own = found["findings"]
    if own is not None and type(own) not in KEYWORDS:
        found["findings"] = SavedFindings(own.dimension, tuple(map(tuple, own.lines())))
    columns = {name: np.array(result.trace.column(name)) for name in Row._fields}
    return {
        "fields": {name: writer.encode(where + name, value) for name, value in found.items()},
        "trace": {
            name: writer.encode(f"{where}trace.{name}", some) for name, some in columns.items()
        },
        "about_problem": {name: writer.encode(name, getattr(result, name)) for name in ABOUT},
        "problem": _problem_of(writer, result) if problem else None,
    }


def _problem_of(writer: Writer, result: Result) -> Any:
    if result.problem.current() is not result.problem:
        raise ValueError(
            f"{writer.owner}: problem must hold the numbers that it was solved with, but they have "
            "changed; save with problem=False"
        )
    return writer.model("problem", result.problem, result.problem.names)


def levels_content(writer: Writer, result: LevelsResult) -> Any:
    """Return the content for the result of levels."""
    run = result.result
    return {
        "fields": {name: writer.encode(name, getattr(result, name)) for name in LEVELS_FIELDS},
        "levels": writer.encode("levels", tuple(result.levels.values())),
        "result": None if run is None else result_content(writer, run, False, "result."),
    }
