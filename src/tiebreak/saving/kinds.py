"""What a file of a problem or a result holds besides objects: fields by name."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.result import Result
from tiebreak.linalg import in_files

FORMAT = 2  # raised whenever an older version of tiebreak could not read a file rightly


@in_files("SavedFindings")
class SavedFindings(NamedTuple):
    """What a method from outside this library had found out, in its own words."""

    dimension: int | None
    said: tuple[tuple[str, str], ...]

    def lines(self) -> list[tuple[str, str]]:
        """For the report."""
        return list(self.said)


# What a result found out about its problem, for its report: kept with it, the problem may be not.
ABOUT = ("dimension", "_assumed", "_sparsity")
FIELDS = [part.name for part in dataclasses.fields(Result) if part.name not in ("trace", "problem")]
# Those of the result of levels; their reports are saved one by one, a `Result` as such.
LEVELS_FIELDS = [
    part.name for part in dataclasses.fields(LevelsResult) if part.name not in ("levels", "result")
]
