"""Saving: what is to be kept as one JSON text and arrays by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.driver.checkpoint import npz_path
from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row
from tiebreak.levels import Levels
from tiebreak.linalg import Host, arrays, checks, tables
from tiebreak.linalg.archive import write_atomically
from tiebreak.linalg.fingerprints import FromData, constructor_arguments
from tiebreak.problem import Problem
from tiebreak.saving.kinds import (
    ABOUT,
    FIELDS,
    FINDINGS,
    FORMAT,
    HEADER,
    LABEL,
    LEVELS_FIELDS,
    NAMES,
    NUMBERS,
    SPARSE,
    SavedFindings,
    is_record,
    parameters,
)


def save_problem(problem: Problem, path: str | Path) -> None:
    """What ``Problem.save`` does."""
    target, writer = npz_path("Problem.save", "path", path), Writer("Problem.save")
    writer.write(target, "Problem", writer.problem("", problem))


def save_levels(levels: Levels, path: str | Path) -> None:
    """What ``Levels.save`` does."""
    target, writer = npz_path("Levels.save", "path", path), Writer("Levels.save")
    writer.write(target, "Levels", writer.problem("", levels))


def save_result(result: Result, path: str | Path, problem: bool) -> None:
    """What ``Result.save`` does."""
    checks.flag("Result.save", "problem", problem)
    target, writer = npz_path("Result.save", "path", path), Writer("Result.save")
    if problem and result.problem.current() is not result.problem:
        raise ValueError(
            "Result.save: problem must hold the numbers that it was solved with, got others; "
            "save with problem=False"
        )
    writer.write(target, "Result", writer.result("", result, problem))


def save_levels_result(result: LevelsResult, path: str | Path) -> None:
    """What ``LevelsResult.save`` does."""
    target, writer = npz_path("LevelsResult.save", "path", path), Writer("LevelsResult.save")
    run = result.result
    content = {
        "fields": {name: writer.encode(name, getattr(result, name)) for name in LEVELS_FIELDS},
        "levels": writer.encode("levels", tuple(result.levels.values())),
        "result": None if run is None else writer.result("result.", run, problem=False),
    }
    writer.write(target, "LevelsResult", content)


class Writer:
    """What is saved, as JSON and arrays by name; ``owner`` is whose sentences refuse the rest."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.arrays: dict[str, Host] = {}
        # The array itself and its name, by its id: one that both levels have is saved once.
        self._named: dict[int, tuple[Any, str]] = {}

    def write(self, path: Path, kind: str, content: Any) -> None:
        """All of it, into the file."""
        header = {"format": FORMAT, "kind": kind, "content": content}
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        entries: dict[str, Any] = {HEADER: text, **self.arrays}
        write_atomically(path, lambda file: np.savez(file, **entries))

    def result(self, where: str, result: Result, problem: bool) -> Any:
        """A result, its arrays by names that begin with ``where``; with its problem, or without."""
        found = {name: getattr(result, name) for name in FIELDS}
        if found["findings"] is not None and type(found["findings"]) not in FINDINGS:
            own = found["findings"]
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

    def encode(self, where: str, value: Any) -> Any:
        """``value``, the argument called ``where``, as JSON; arrays are put aside."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.bool_ | np.integer | np.floating):
            whole = int(value) if isinstance(value, np.integer) else float(value)
            return bool(value) if isinstance(value, np.bool_) else whole
        if type(value) in (list, tuple, range):
            parts = [self.encode(f"{where}.{i}", part) for i, part in enumerate(value)]
            return {"tuple": parts} if type(value) is tuple else parts
        return self._encode_data(where, value)

    def _encode_data(self, where: str, value: Any) -> Any:
        if type(value) in NAMES and (found := _arguments(value)) is not None:
            inner = f"{where}." if where else ""
            parts = {name: self.encode(inner + name, part) for name, part in found.items()}
            return {"class": NAMES[type(value)], "arguments": parts}
        if tables.is_frame(value) or tables.is_series(value):
            return self._table(where, value)
        if arrays.is_sparse(value):
            return self._sparse(where, value)
        if arrays.is_array(value):
            return {"array": self._array(where, value)}
        raise self._refusal(where, value)

    def _array(self, where: str, value: Any) -> str:
        """The name under which the array is saved."""
        host = arrays.to_numpy(value)
        if host.dtype.kind not in NUMBERS:
            raise self._refusal(where, value)
        if id(value) not in self._named:
            self._named[id(value)], self.arrays[where] = (value, where), host
        return self._named[id(value)][1]

    def _sparse(self, where: str, value: Any) -> Any:
        value = value if value.format in SPARSE else value.tocsr()
        kind = "array" if type(value).__name__.endswith("_array") else "matrix"
        parts = {name: getattr(value, name) for name in SPARSE[value.format]}
        return {
            "sparse": f"{value.format}_{kind}",
            "shape": [int(side) for side in value.shape],
            "parts": {name: self._array(f"{where}.{name}", part) for name, part in parts.items()},
        }

    def _table(self, where: str, value: Any) -> Any:
        is_frame = tables.is_frame(value)
        return {
            "table": "DataFrame" if is_frame else "Series",
            "values": self._array(where, tables.numbers(self.owner, where, value)),
            "index": _labels(value.index),
            "columns": _labels(value.columns) if is_frame else None,
        }

    def _refusal(self, where: str, value: Any) -> TypeError:
        return TypeError(
            f"{self.owner}: {where} must be numbers in memory, or made of tiebreak's own "
            f"functions, penalties and sets, to be saved, got {checks.what_it_is(value)}"
        )


def _arguments(value: Any) -> dict[str, Any] | None:
    """What to call the class of ``value`` with for another like it; None where that is unknown."""
    remembered = constructor_arguments(value) if isinstance(value, FromData) else None
    if remembered is not None:
        return remembered
    kind: Any = type(value)
    names = parameters(kind)
    is_known = is_record(kind) or not names
    return {name: getattr(value, name) for name in names} if is_known else None


def _labels(labels: Any) -> list[Any] | None:
    """Those of a table, where they are text and numbers; dates of rows, say, are not saved."""
    found: list[Any] = [] if tables.is_default(labels) else labels.tolist()
    return found if found and all(isinstance(label, LABEL) for label in found) else None
