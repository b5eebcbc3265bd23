"""What a file can hold: the classes by the names that files use, and how arrays are kept."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, NamedTuple

from tiebreak.algorithms import Multipliers
from tiebreak.algorithms.rivals.bisec_bio import BisectionFindings
from tiebreak.driver.levels_result import LevelReport, LevelsResult
from tiebreak.driver.result import Result
from tiebreak.exact.method import ExactFindings
from tiebreak.functions import Composite, Flat, Groups, Indicator, PenaltySum, Scaled, Sum
from tiebreak.levels import Level, Levels, Slack
from tiebreak.problem import ErrorBound, Problem
from tiebreak.problem_files import DOMAINS, FUNCTIONS, PENALTIES
from tiebreak.proofs.bounds import Bound, Known
from tiebreak.proofs.certificate import Certificate
from tiebreak.proofs.recession.watch import NoMinimum
from tiebreak.sets import Intersection

FORMAT = 2  # raised whenever an older version of tiebreak could not read a file rightly
HEADER = "tiebreak"  # the name of the JSON text
NUMBERS = "fiub"  # the kinds of dtypes of arrays that are saved
SPARSE = {  # the arrays that a matrix of this format consists of; others are saved as csr
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}
LABEL = str | bool | int | float  # of a row or a column of a table


class SavedFindings(NamedTuple):
    """What a method from outside this library had found out, in its own words."""

    dimension: int | None
    said: tuple[tuple[str, str], ...]

    def lines(self) -> list[tuple[str, str]]:
        """For the report."""
        return list(self.said)


FINDINGS = (ExactFindings, BisectionFindings, NoMinimum, SavedFindings)
# Those that do not check their arguments: users make them by an operator, or not at all.
RECORDS = (Certificate, Known, Bound, Multipliers, LevelReport, *FINDINGS)
TRUSTING = (Scaled, Sum, Composite, PenaltySum, *RECORDS)
SETS = (*DOMAINS, Intersection)
PROBLEMS = (Problem, ErrorBound, Levels, Level, Slack)
PARTS = (*FUNCTIONS, *PENALTIES, *SETS, Indicator, Groups, Flat, *PROBLEMS)
# All that a file can make, by the names that files use: those are never used for anything else.
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*PARTS, *TRUSTING)}
NAMES = {kind: name for name, kind in KINDS.items()}
# What a result found out about its problem, for its report: kept with it, the problem may be not.
ABOUT = ("dimension", "_assumed", "_sparsity")
FIELDS = [part.name for part in dataclasses.fields(Result) if part.name not in ("trace", "problem")]
# Those of the result of levels; their reports are saved one by one, a `Result` as such.
LEVELS_FIELDS = [
    part.name for part in dataclasses.fields(LevelsResult) if part.name not in ("levels", "result")
]


def parameters(kind: Any) -> list[str]:
    """The names of its constructor's arguments."""
    return list(inspect.signature(kind).parameters)


def is_record(kind: Any) -> bool:
    """Is it a dataclass or a named tuple, whose parameters are its attributes?"""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
