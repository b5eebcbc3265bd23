"""Problems and results in files: one .npz file each, written whole or not at all, never unpickled.

A carefully forged file is not detected: anyone who can write your files could change your data as
well.

Problems save themselves with `linalg.archive`. A result's file holds its fields by name, its trace,
and on request its problem; this module writes files of results, and loads files of all kinds.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from tiebreak.algorithms.base import Notes
from tiebreak.driver.levels_result import LevelReport, LevelsResult
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row, Trace
from tiebreak.levels import Levels
from tiebreak.linalg import checks
from tiebreak.linalg.archive import FORMAT, HEADER, Reader, Refused, Writer, is_record, parameters
from tiebreak.linalg.registry import IN_TABLES, KEYWORDS
from tiebreak.problem import Problem
from tiebreak.proofs.gate import STATUSES

# Facts about the problem, saved for the report because the problem itself may not be saved.
ABOUT = ("dimension", "_assumed", "_sparsity")
FIELDS = [part.name for part in dataclasses.fields(Result) if part.name not in ("trace", "problem")]
# The fields of a result for levels; level reports and a `Result` inside are saved separately.
LEVELS_FIELDS = [
    part.name for part in dataclasses.fields(LevelsResult) if part.name not in ("levels", "result")
]


def result_content(writer: Writer, result: Result, problem: bool, where: str = "") -> Any:
    """Return the file content for a result; the names of its arrays begin with ``where``."""
    found = {name: getattr(result, name) for name in FIELDS}
    own = found["findings"]
    if own is not None and type(own) not in KEYWORDS:
        found["findings"] = Notes(tuple(map(tuple, own.lines())), own.dimension)
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
    """Return the file content for a result of `Levels`."""
    run = result.result
    return {
        "fields": {name: writer.encode(name, getattr(result, name)) for name in LEVELS_FIELDS},
        "levels": writer.encode("levels", tuple(result.levels.values())),
        "result": None if run is None else result_content(writer, run, False, "result."),
    }


def load(path: str | Path) -> Any:
    """Load a ``Problem``, ``Levels`` or result from a file that its ``save`` method has written.

    Nothing is unpickled, and only problems and results of tiebreak are created, whatever the file
    contains. Damaged files and files of any other kind raise a ValueError that says what is wrong.

    Args:
        path: the .npz file.

    Examples:
        >>> problem = tb.Problem(lower=tb.LeastSquares([[1, 1]], [2]), upper=tb.SquaredNorm())
        >>> tb.solve(problem).save("run.npz")
        >>> tb.load("run.npz").status
        'certified'
    """
    if not isinstance(path, str | Path):
        raise TypeError(f"load: path must be a file name, got {type(path).__name__}")
    file = Path(path)
    if not file.is_file():
        what = "is not a file" if file.exists() else "does not exist"
        raise ValueError(f"load: {file} {what}")
    try:
        with zipfile.ZipFile(file) as archive:
            return ResultReader(archive, file.stat().st_size).content()
    except Refused as error:
        raise ValueError(f"load: {file} {error}") from None
    except ImportError:
        raise
    except MemoryError:
        raise ValueError(f"load: {file} does not fit in memory") from None
    except Exception as error:  # a broken file may raise anything: zipfile, zlib, json, NumPy
        raise ValueError(
            f"load: {file} is damaged, or was not saved by tiebreak ({type(error).__name__})"
        ) from None


class ResultReader(Reader):
    """Reads the problem or the result in an archive."""

    def content(self) -> Any:
        """Return the problem or the result in the file."""
        if f"{HEADER}.npy" not in self._archive.namelist():
            raise Refused("holds neither a problem nor a result saved by tiebreak")
        header = self.header()
        version, kind, content = header["format"], header["kind"], header["content"]
        if version != FORMAT:
            newer = isinstance(version, int) and version > FORMAT
            then = "; it was written by a newer version of tiebreak" if newer else ""
            raise Refused(f"has format {version!r}, but this version reads format {FORMAT}{then}")
        readers: dict[str, Callable[[Any], Any]] = {
            "Problem": self._problem,
            "Result": self._result,
            "Levels": lambda code: self._problem(code, Levels),
            "LevelsResult": self._levels_result,
        }
        if kind not in readers:
            raise Refused(f"holds {kind!r}; known kinds are {', '.join(map(repr, readers))}")
        return readers[kind](content)

    def _problem(self, code: Any, kind: type = Problem) -> Any:
        problem = self.decode(code)
        if not isinstance(problem, kind):
            raise Refused("holds no problem where there should be one")
        return problem

    def _fields(self, kind: type, names: list[str], content: dict[str, Any]) -> dict[str, Any]:
        parts = {name: self.decode(code) for name, code in content["fields"].items()}
        hints = get_type_hints(kind)
        _check(kind.__name__, parts, {name: hints[name] for name in names})
        if parts["status"] not in STATUSES:
            raise Refused(f"has the unknown status {parts['status']!r}")
        return parts

    def _levels_result(self, content: dict[str, Any]) -> LevelsResult:
        parts = self._fields(LevelsResult, LEVELS_FIELDS, content)
        reports, run = self.decode(content["levels"]), content["result"]
        _check("LevelsResult", {"levels": reports}, {"levels": tuple[LevelReport, ...]})
        result = None if run is None else self._result(run)
        levels = {report.name: report for report in reports}
        loaded = LevelsResult(levels=levels, result=result, **parts)
        vars(loaded)["is_loaded"] = True
        return loaded

    def _result(self, content: dict[str, Any]) -> Result:
        parts = self._fields(Result, FIELDS, content)
        x, kept = parts["x"], parts["multipliers"]
        vectors = (x,) if kept is None else (x, kept.slopes, kept.points, kept.c)
        if x.ndim != 1 or any(vector.shape != x.shape for vector in vectors):
            raise Refused("holds a Result whose vectors differ in length")
        columns = {name: self.decode(code).tolist() for name, code in content["trace"].items()}
        rows = zip(*(columns[name] for name in Row._fields), strict=True)
        about = content["about_problem"]
        hints = (int | None, list[str], list[str])
        _check("Result", about, dict(zip(ABOUT, hints, strict=True)))
        result = object.__new__(Result)  # the file may hold no problem
        trace = Trace([Row(*row) for row in rows])
        vars(result).update(parts, is_loaded=True, trace=trace, **about)
        if content["problem"] is not None:
            vars(result)["problem"] = self._problem(content["problem"])
        return result

    def check(self, kind: Any, parts: dict[str, Any]) -> None:
        """Check the parts of records and of composed objects against the annotations of their
        class.

        All other classes check their arguments themselves.
        """
        if kind not in IN_TABLES:
            hints = get_type_hints(kind if is_record(kind) else kind.__init__)
            _check(KEYWORDS[kind], parts, {name: hints[name] for name in parameters(kind)})


def _check(owner: str, parts: dict[str, Any], hints: dict[str, Any]) -> None:
    """Reject parts whose names or types differ from those declared by the class."""
    if parts.keys() != hints.keys():
        names = ", ".join(sorted(parts.keys() ^ hints.keys()))
        raise Refused(f"holds a {owner} of another version of tiebreak ({names})")
    for name, hint in hints.items():
        if not _fits(parts[name], hint):
            got = checks.what_it_is(parts[name])
            raise Refused(f"holds a {owner} whose {name} has the wrong kind, {got}")


def _fits(value: Any, hint: Any) -> bool:
    """Does the value have this type?  Arrays of all libraries are saved as NumPy arrays."""
    if hint is Any:
        return isinstance(value, np.ndarray) and value.dtype.kind == "f"
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (tuple, list):
        if not isinstance(value, kind):
            return False
        alike = kind is list or inner[-1] is Ellipsis
        hints = [inner[0]] * len(value) if alike else list(inner)
        return len(hints) == len(value) and all(map(_fits, value, hints))
    return any(_fits(value, one) for one in inner) if inner else isinstance(value, hint)
