"""Problems and results in files: one .npz file each, written whole or not at all, never unpickled.

A file is an archive of NumPy: the arrays by the names of the arguments that they are (``lower.A``),
and one JSON text, ``tiebreak``, that says what is made from them. An object goes by the name of its
class in KINDS and by the arguments of its constructor, so that reading a file makes nothing but
these, and a constructor checks its arguments as ever.

Accidents are noticed: the archive has check sums, and no array is larger than the file. A result
that was forged with care is believed: who can write your files could change your data as well.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from tiebreak.algorithms.base import Findings, Multipliers
from tiebreak.algorithms.rivals.bisec_bio import BisectionFindings
from tiebreak.driver.checkpoint import npz_path, write_atomically
from tiebreak.driver.result import STATUSES, Result, Row, Trace
from tiebreak.exact.method import ExactFindings
from tiebreak.functions.elementary import Flat
from tiebreak.functions.penalties.composite import Composite
from tiebreak.functions.penalties.groups import Groups
from tiebreak.functions.penalties.penalties import Indicator, PenaltySum
from tiebreak.functions.sums import Scaled, Sum
from tiebreak.linalg import arrays, checks, tables
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.fingerprints import FromData, constructor_arguments, made_from
from tiebreak.problem import ErrorBound, Problem
from tiebreak.problem_files import DOMAINS, FUNCTIONS, PENALTIES
from tiebreak.proofs.bounds import Bound, Known
from tiebreak.proofs.certificate import Certificate
from tiebreak.proofs.recession.watch import NoMinimum
from tiebreak.sets.constraints import Intersection

FORMAT = 1  # raised whenever an older version of tiebreak could not read a file rightly
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
    """What a method that is none of ours had found out, in its words."""

    dimension: int | None
    said: tuple[tuple[str, str], ...]

    def lines(self) -> list[tuple[str, str]]:
        """For the report."""
        return list(self.said)


FINDINGS = (ExactFindings, BisectionFindings, NoMinimum, SavedFindings)
# Those that do not check their arguments: users make them by an operator, or not at all.
RECORDS = (Certificate, Known, Bound, Multipliers, *FINDINGS)
TRUSTING = (Scaled, Sum, Composite, PenaltySum, *RECORDS)
SETS = (*DOMAINS, Intersection)
PARTS = (*FUNCTIONS, *PENALTIES, *SETS, Indicator, Groups, Flat, Problem, ErrorBound)
# All that a file can make, by the names that files use: those are never used for anything else.
KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*PARTS, *TRUSTING)}
NAMES = {kind: name for name, kind in KINDS.items()}
# What a result found out about its problem, for its report: kept with it, the problem may be not.
ABOUT = ("dimension", "_assumed", "_sparsity")
FIELDS = [part.name for part in dataclasses.fields(Result) if part.name not in ("trace", "problem")]


# -- save -----------------------------------------------------------------------------------------


def save_problem(problem: Problem, path: str | Path) -> None:
    """What ``Problem.save`` does."""
    target, writer = npz_path("Problem.save", "path", path), Writer("Problem.save")
    writer.write(target, "Problem", writer.problem("", problem))


def save_result(result: Result, path: str | Path, problem: bool) -> None:
    """What ``Result.save`` does."""
    checks.flag("Result.save", "problem", problem)
    target, writer = npz_path("Result.save", "path", path), Writer("Result.save")
    found = {name: getattr(result, name) for name in FIELDS}
    if found["findings"] is not None and type(found["findings"]) not in FINDINGS:
        own = found["findings"]
        found["findings"] = SavedFindings(own.dimension, tuple(map(tuple, own.lines())))
    if problem and result.problem.current() is not result.problem:
        raise ValueError(
            "Result.save: problem must hold the numbers that it was solved with, got others; "
            "save with problem=False"
        )
    columns = {name: np.array(result.trace.column(name)) for name in Row._fields}
    content = {
        "fields": {name: writer.encode(name, value) for name, value in found.items()},
        "trace": {name: writer.encode(f"trace.{name}", some) for name, some in columns.items()},
        "about_problem": {name: writer.encode(name, getattr(result, name)) for name in ABOUT},
        "problem": writer.problem("problem", result.problem) if problem else None,
    }
    writer.write(target, "Result", content)


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

    def problem(self, where: str, problem: Problem) -> Any:
        """The problem with the numbers that its arrays hold now."""
        now = problem.current()
        for name in now.names or ():
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


def _parameters(kind: Any) -> list[str]:
    return list(inspect.signature(kind).parameters)


def _arguments(value: Any) -> dict[str, Any] | None:
    """What to call the class of ``value`` with for another like it; None where that is unknown."""
    remembered = constructor_arguments(value) if isinstance(value, FromData) else None
    if remembered is not None:
        return remembered
    kind: Any = type(value)
    names = _parameters(kind)
    is_known = _is_record(kind) or not names
    return {name: getattr(value, name) for name in names} if is_known else None


def _is_record(kind: Any) -> bool:
    """Is it a dataclass or a named tuple, whose parameters are its attributes?"""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def _labels(labels: Any) -> list[Any] | None:
    """Those of a table, where they are text and numbers; dates of rows, say, are not saved."""
    found: list[Any] = [] if tables.is_default(labels) else labels.tolist()
    return found if found and all(isinstance(label, LABEL) for label in found) else None


# -- load -----------------------------------------------------------------------------------------


class Refused(ValueError):
    """Why a file is not taken: a sentence without its subject, which is the file."""


def load(path: str | Path) -> Any:
    """The ``Problem`` or the ``Result`` that was saved to a file, by its method ``save``.

    Nothing is unpickled, and nothing is made but problems and results of tiebreak, whatever the
    file says. ValueError, with a sentence, for any other file and for a damaged one.

    Args:
        path: the .npz file.
    """
    if not isinstance(path, str | Path):
        raise TypeError(f"load: path must be a file name, got {type(path).__name__}")
    file = Path(path)
    if not file.is_file():
        what = "is no file" if file.exists() else "is not there"
        raise ValueError(f"load: {file} {what}")
    try:
        with zipfile.ZipFile(file) as archive:
            return Reader(archive, file.stat().st_size).content()
    except Refused as error:
        raise ValueError(f"load: {file} {error}") from None
    except ImportError:
        raise
    except MemoryError:
        raise ValueError(f"load: {file} does not fit into memory") from None
    except Exception as error:  # a broken file may raise anything: zipfile, zlib, json, NumPy
        raise ValueError(
            f"load: {file} is damaged, or was not saved by tiebreak ({type(error).__name__})"
        ) from None


class Reader:
    """What is in an archive of ``size`` bytes."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive, self._size = archive, size
        self._arrays: dict[str, Host] = {}
        self._decoders: dict[str, Callable[[Any], Any]] = {
            "tuple": lambda code: tuple(map(self.decode, code["tuple"])),
            "array": lambda code: self._array(code["array"]),
            "sparse": self._sparse,
            "table": self._table,
            "class": self._object,
        }

    def content(self) -> Any:
        """The problem or the result."""
        if f"{HEADER}.npy" not in self._archive.namelist():
            raise Refused("holds no problem and no result saved by tiebreak")
        header = json.loads(self._array(HEADER).tobytes())
        version, kind, content = header["format"], header["kind"], header["content"]
        if version != FORMAT:
            newer = isinstance(version, int) and version > FORMAT
            then = "; a newer version of tiebreak has written it" if newer else ""
            raise Refused(f"has format {version!r}, this version reads format {FORMAT}{then}")
        if kind not in ("Problem", "Result"):
            raise Refused(f"holds {kind!r}, known are 'Problem' and 'Result'")
        return self._problem(content) if kind == "Problem" else self._result(content)

    def _problem(self, code: Any) -> Problem:
        problem = self.decode(code)
        if not isinstance(problem, Problem):
            raise Refused("holds no problem where there should be one")
        return problem

    def _result(self, content: dict[str, Any]) -> Result:
        parts = {name: self.decode(code) for name, code in content["fields"].items()}
        _check("Result", parts, {name: get_type_hints(Result)[name] for name in FIELDS})
        if parts["status"] not in STATUSES:
            raise Refused(f"has the unknown status {parts['status']!r}")
        x, kept = parts["x"], parts["multipliers"]
        vectors = (x,) if kept is None else (x, kept.slopes, kept.points, kept.c)
        if x.ndim != 1 or any(vector.shape != x.shape for vector in vectors):
            raise Refused("holds a Result whose vectors differ in length")
        columns = {name: self.decode(code).tolist() for name, code in content["trace"].items()}
        rows = zip(*(columns[name] for name in Row._fields), strict=True)
        about = content["about_problem"]
        hints = (int | None, list[str], list[str])
        _check("Result", about, dict(zip(ABOUT, hints, strict=True)))
        result = object.__new__(Result)  # without a problem, perhaps
        vars(result).update(parts, trace=Trace([Row(*row) for row in rows]), **about)
        if content["problem"] is not None:
            vars(result)["problem"] = self._problem(content["problem"])
        return result

    def decode(self, code: Any) -> Any:
        """What the JSON stands for."""
        if isinstance(code, list):
            return [self.decode(part) for part in code]
        if not isinstance(code, dict):
            return code
        tag = next(iter(code), "")
        if tag not in self._decoders:
            raise Refused(f"holds something unknown ({tag!r})")
        return self._decoders[tag](code)

    def _array(self, name: str) -> Host:
        """An array, once its size is known to be that of its bytes in the file."""
        if name in self._arrays:
            return self._arrays[name]
        entry = self._archive.getinfo(f"{name}.npy")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size > self._size:
            raise Refused(f"has the array {name!r} in a form that tiebreak does not write")
        with self._archive.open(entry) as member:
            version = np.lib.format.read_magic(member)
            header = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = header(member)
            if dtype.kind not in NUMBERS:
                raise Refused(
                    f"has the array {name!r} with entries of type {dtype}; numbers are needed, "
                    "and nothing is unpickled"
                )
            needed = math.prod(shape) * dtype.itemsize
            if min(shape, default=0) < 0 or needed != entry.file_size - member.tell():
                raise Refused(f"has the array {name!r} of another size than it says")
        with self._archive.open(entry) as member:
            self._arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return self._arrays[name]

    def _sparse(self, code: dict[str, Any]) -> Any:
        import scipy.sparse

        form, _, kind = str(code["sparse"]).partition("_")
        if form not in SPARSE or kind not in ("array", "matrix"):
            raise Refused(f"has a sparse matrix of the unknown format {code['sparse']!r}")
        parts = {name: self._array(code["parts"][name]) for name in SPARSE[form]}
        if any(part.dtype.kind != "i" for name, part in parts.items() if name != "data"):
            raise Refused("has a sparse matrix whose indices are no whole numbers")
        data, *places = parts.values()
        given = (data, tuple(places)) if form == "coo" else (data, *places)
        try:
            made = getattr(scipy.sparse, code["sparse"])(given, shape=tuple(code["shape"]))
            if form != "coo":  # of which the constructor checks all
                made.check_format(full_check=True)  # a wrong index would read foreign memory
        except (ValueError, TypeError, IndexError) as error:
            raise Refused(f"has a sparse matrix that is none ({_first_line(error)})") from None
        return made

    def _table(self, code: dict[str, Any]) -> Any:
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "load: a table of pandas needs pandas: pip install 'tiebreak[pandas]'"
            ) from None
        values, index, columns = self._array(code["values"]), code["index"], code["columns"]
        if code["table"] == "Series":
            return pandas.Series(values, index=index)
        return pandas.DataFrame(values, index=index, columns=columns)

    def _object(self, code: dict[str, Any]) -> Any:
        name = code["class"]
        if not isinstance(name, str) or name not in KINDS:
            raise Refused(f"holds the unknown class {name!r}: another version may know it")
        kind = KINDS[name]
        parts = {name: self.decode(part) for name, part in code["arguments"].items()}
        if kind in TRUSTING:
            hints = get_type_hints(kind if _is_record(kind) else kind.__init__)
            _check(name, parts, {key: hints[key] for key in _parameters(kind)})
        try:
            return made_from(kind, parts)
        except (ValueError, TypeError) as error:
            raise Refused(f"holds what is refused: {_first_line(error)}") from None


def _check(owner: str, parts: dict[str, Any], hints: dict[str, Any]) -> None:
    """Refuse parts that are not those, or not of the types, that a class says it has."""
    if parts.keys() != hints.keys():
        names = ", ".join(sorted(parts.keys() ^ hints.keys()))
        raise Refused(f"holds a {owner} of another version of tiebreak ({names})")
    for name, hint in hints.items():
        if not _fits(parts[name], hint):
            got = checks.what_it_is(parts[name])
            raise Refused(f"holds a {owner} whose {name} is of the wrong kind, {got}")


def _fits(value: Any, hint: Any) -> bool:
    """Is the value of that type?  An array of any library is one of NumPy here."""
    if hint is Any:
        return isinstance(value, np.ndarray) and value.dtype.kind == "f"
    if hint is Findings:
        return isinstance(value, FINDINGS)
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


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
