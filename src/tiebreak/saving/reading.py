"""Loading: nothing is made but what `kinds` has, and no array is larger than the file."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from tiebreak.algorithms import Findings
from tiebreak.array_files import npy_header
from tiebreak.driver.levels_result import LevelReport, LevelsResult
from tiebreak.driver.result import Result
from tiebreak.driver.trace import Row, Trace
from tiebreak.levels import Levels
from tiebreak.linalg import Host, checks
from tiebreak.linalg.fingerprints import made_from
from tiebreak.problem import Problem
from tiebreak.proofs.gate import STATUSES
from tiebreak.saving.kinds import (
    ABOUT,
    FIELDS,
    FINDINGS,
    FORMAT,
    HEADER,
    KINDS,
    LEVELS_FIELDS,
    NUMBERS,
    SPARSE,
    TRUSTING,
    is_record,
    parameters,
)


class Refused(ValueError):
    """Why a file is not taken: a sentence without its subject, which is the file."""


def load(path: str | Path) -> Any:
    """The ``Problem``, ``Levels`` or result that was saved to a file, by its method ``save``.

    Nothing is unpickled, and nothing is made but problems and results of tiebreak, whatever the
    file says. ValueError, with a sentence, for any other file and for a damaged one.

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
        """The problem or the result, of whichever kind."""
        if f"{HEADER}.npy" not in self._archive.namelist():
            raise Refused("holds no problem and no result saved by tiebreak")
        header = json.loads(self._array(HEADER).tobytes())
        version, kind, content = header["format"], header["kind"], header["content"]
        if version != FORMAT:
            newer = isinstance(version, int) and version > FORMAT
            then = "; a newer version of tiebreak has written it" if newer else ""
            raise Refused(f"has format {version!r}, this version reads format {FORMAT}{then}")
        readers: dict[str, Callable[[Any], Any]] = {
            "Problem": self._problem,
            "Result": self._result,
            "Levels": lambda code: self._problem(code, Levels),
            "LevelsResult": self._levels_result,
        }
        if kind not in readers:
            raise Refused(f"holds {kind!r}, known are {', '.join(map(repr, readers))}")
        return readers[kind](content)

    def _problem(self, code: Any, kind: type = Problem) -> Any:
        problem = self.decode(code)
        if not isinstance(problem, kind):
            raise Refused("holds no problem where there should be one")
        return problem

    def _levels_result(self, content: dict[str, Any]) -> LevelsResult:
        parts = {name: self.decode(code) for name, code in content["fields"].items()}
        hints = get_type_hints(LevelsResult)
        _check("LevelsResult", parts, {name: hints[name] for name in LEVELS_FIELDS})
        reports, run = self.decode(content["levels"]), content["result"]
        _check("LevelsResult", {"levels": reports}, {"levels": tuple[LevelReport, ...]})
        if parts["status"] not in STATUSES:
            raise Refused(f"has the unknown status {parts['status']!r}")
        result = None if run is None else self._result(run)
        levels = {report.name: report for report in reports}
        loaded = LevelsResult(levels=levels, result=result, **parts)
        vars(loaded)["is_loaded"] = True
        return loaded

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
        trace = Trace([Row(*row) for row in rows])
        vars(result).update(parts, is_loaded=True, trace=trace, **about)
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
            shape, dtype = npy_header(member)
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
            raise Refused(f"has a damaged sparse matrix ({_first_line(error)})") from None
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
            hints = get_type_hints(kind if is_record(kind) else kind.__init__)
            _check(name, parts, {key: hints[key] for key in parameters(kind)})
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
