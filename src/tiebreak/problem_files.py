"""Reading arrays and problems from files; whatever is wrong gets one sentence that names the file.

Arrays: .npy, .npz (``data.npz:key`` picks one of several), .csv (``train.csv:age,income`` picks
columns by their names, ``train.csv:!price`` all but some), Matrix Market (.mtx, .mtx.gz).

A .csv may have a header: a first line without a number in it, or the 0,1,2 that pandas writes
(where that is data, write 0.0). Without a header the columns are called 0, 1, 2. The index that
pandas writes in front, without a name or as "Unnamed: 0", is no column.

Problems: TOML, for example

    radius = 5.0                  # optional, as in Problem(radius=...)

    [upper]
    kind = "LeastSquares"         # a class, every other key is an argument of its constructor
    A = "data.npz:A_val"          # a string where an array is wanted: a file beside this one
    b = "b_val.csv"

    [lower]
    kind = "Quadratic"
    Q = [[1.0, 0.0], [0.0, 0.0]]  # an array in place is fine too

    [lower.penalty]               # optional, added to the level; or alone: kind = "L1" in [lower]
    kind = "GroupL2"              # several: [[lower.penalty]] for each
    groups = "groups.csv"         # the group of each variable
    weight = 0.1

    [domain]                      # optional, all of R^n if absent
    kind = "Ball"
    [error_bound]                 # optional, as in ErrorBound(order, modulus, gradient_bound)
    order = 2.0                   # and the other two

    [method]                      # optional, "auto" if absent; or its name: method in [solve]
    kind = "RAPM"
    eta = 1e-3

    [solve]                       # optional, arguments of solve; gamma is that of (P)AGMBiO
    rtol = [1e-4, 1e-6]
    criterion = "weak"            # both gaps alone; "absolute" if absent
    checkpoint = "run.npz"        # beside this file too

    [output]                      # optional, names in the folder of --out; these are the defaults
    x = "x.npy"                   # or .csv
    report = "report.json"
    plot = "plot.png"             # or .pdf, .svg
"""

from __future__ import annotations

import csv
import inspect
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from tiebreak.algorithms.agm_bio import AGMBiO
from tiebreak.algorithms.p_agm_bio import PAGMBiO
from tiebreak.driver.registry import METHODS
from tiebreak.driver.solve import solve
from tiebreak.functions.elementary import Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses.huber import Huber
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.penalties.penalties import L1, L2, ElasticNet, GroupL2, TotalVariation, Zero
from tiebreak.problem import ErrorBound, Problem
from tiebreak.sets.balls import Ball
from tiebreak.sets.boxes import Box, Orthant
from tiebreak.sets.domains import Halfspace, Space
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.simplices import L1Ball, Simplex

FUNCTIONS = (Huber, LeastSquares, Linear, Logistic, Multinomial, Poisson, Quadratic, SquaredNorm)
PENALTIES = (ElasticNet, GroupL2, L1, L2, TotalVariation, Zero)
DOMAINS = (Ball, Box, Halfspace, L1Ball, Monotone, Orthant, Simplex, Space)
MATRICES = ("A", "Q", "operator")  # arguments that are matrices; all other arrays are vectors
LABELS = ("groups",)  # arguments that hold whole numbers
LEVELS = ("upper", "lower")
TABLES = (*LEVELS, "domain", "error_bound", "method", "solve", "output")
OUTPUT = {"x": "x.npy", "report": "report.json", "plot": "plot.png"}
OUTPUT_ENDINGS = {"x": (".npy", ".csv"), "report": (".json",), "plot": (".png", ".pdf", ".svg")}

INDEX = ("", "Unnamed: 0")  # what pandas calls the column in front that is none

# What a file raises that is no such file, or whose header lies about what is in it.
BROKEN = (ValueError, OverflowError, MemoryError, RecursionError)

Table = dict[str, Any]
Reader = Callable[[Path, str], Any]  # a path, and which of its arrays or columns


# -- arrays ---------------------------------------------------------------------------------------


def read_array(name: str | Path, *, matrix: bool = False) -> Any:
    """The array in a file; a sparse one stays sparse (scipy's csr).

    Args:
        name: the file; ``data.npz:key`` picks an array of a .npz file that holds several,
            ``train.csv:age,income`` columns of a .csv file, ``train.csv:!price`` all but some.
        matrix: is a matrix wanted?  .csv and .mtx cannot tell a vector from a matrix with one row
            or one column, so there it is a vector unless this is true.
    """
    text = str(name)
    path, pick = Path(text), ""
    for ending in (".npz", ".csv"):
        stem, found, key = text.rpartition(f"{ending}:")
        if found:
            path, pick = Path(stem + ending), key
    reader = next((read for end, read in READERS.items() if path.name.endswith(end)), None)
    if reader is None:
        raise ValueError(f"{path} has an unknown ending, known are {', '.join(READERS)}")
    if not path.exists():
        raise ValueError(f"{path} is not there")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, a file is needed")
    try:
        array = reader(path, pick)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{path} must hold real numbers, got entries of type {array.dtype}")
    if 0 in array.shape:
        raise ValueError(f"{path} is empty, its shape is {tuple(array.shape)}")
    is_text = path.suffix not in (".npy", ".npz")
    if is_text and not matrix and array.ndim == 2 and 1 in array.shape:
        return (array if isinstance(array, np.ndarray) else array.toarray()).reshape(-1)
    return array


def _npy(path: Path, pick: str) -> Any:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{path} is not a .npy file")
    return _unpickled(path, lambda: np.load(path, allow_pickle=False))


def _npz(path: Path, key: str) -> Any:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not a .npz file")
    with np.load(path, allow_pickle=False) as file:
        keys = list(file.files)
        if not keys:
            raise ValueError(f"{path} is empty, it holds no arrays")
        if not key and {"data", "format", "shape"} <= set(keys):
            return _saved_sparse(path)
        if not key and len(keys) > 1:
            raise ValueError(
                f"{path} holds the arrays {', '.join(keys)}: pick one, as in {path.name}:{keys[0]}"
            )
        if key and key not in keys:
            raise ValueError(f"{path} has no array {key!r}, its arrays are {', '.join(keys)}")
        array = _unpickled(path, lambda: file[key or keys[0]])
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{path} is not a .npz file, {key or keys[0]!r} is no array in it")
        return array


def _unpickled(path: Path, load: Callable[[], Any]) -> Any:
    """``load()``, a call of NumPy that is not allowed to unpickle."""
    try:
        return load()
    except (*BROKEN, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path} holds Python objects, which are never unpickled; save numbers instead"
            ) from None
        raise ValueError(f"{path} is damaged ({_first_line(error)})") from None


def _saved_sparse(path: Path) -> Any:
    """A matrix saved by scipy.sparse.save_npz."""
    import scipy.sparse

    try:
        return scipy.sparse.csr_array(scipy.sparse.load_npz(path))
    except (*BROKEN, KeyError, TypeError, NotImplementedError) as error:
        raise ValueError(f"{path} is no sparse matrix ({_first_line(error)})") from None


def _csv(path: Path, pick: str) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig").splitlines()
        lines = {number: line for number, line in enumerate(text, 1) if line.strip()}
        end, names = next(_rows(lines), (0, []))
        if _is_header(names, len(lines)):
            lines = {number: line for number, line in lines.items() if number > end}
        else:
            names = []
        if not lines:
            raise ValueError(f"{path} is empty, it holds no numbers")
        width = len(next(_rows(lines))[1])
        if len(names) != width:  # none, or a line of words
            names = [str(i) for i in range(width)]
        columns = _columns(path, names, pick)
        try:
            table = np.loadtxt(
                list(lines.values()), comments=None, delimiter=",", quotechar='"', ndmin=2,
                converters={i: lambda _: 0.0 for i in range(width) if i not in columns},
            )  # fmt: skip
        except ValueError as error:
            raise ValueError(f"{path}{_mistake(lines, columns) or f': {error}'}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a .csv file, it is not text") from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a .csv file ({error})") from None
    return table[:, columns]


def _rows(lines: dict[int, str]) -> Iterator[tuple[int, list[str]]]:
    """The entries of each row, and the number of the line where it ends."""
    numbers, reader = list(lines), csv.reader(lines.values())
    for entries in reader:
        yield numbers[reader.line_num - 1], [entry.strip() for entry in entries]


def _mistake(lines: dict[int, str], columns: list[int]) -> str:
    """What is wrong with the first line that NumPy cannot read, for a sentence."""
    first, width = 0, 0
    for number, entries in _rows(lines):
        first, width = first or number, width or len(entries)
        for entry in (entries[i] for i in columns if i < len(entries)):
            if not _is_number(entry):
                return f", line {number}: {entry!r} is not a number"
        if len(entries) != width:
            here = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
            return f", line {number} has {here}, line {first} has {width}"
    return ""


def _is_header(names: list[str], lines: int) -> bool:
    """Is the first of so many lines a header: without numbers, or as pandas counts columns?"""
    if not any(map(_is_number, names)):
        return True
    own = names[1:] if names[0] in INDEX else names
    is_counted = own == [str(i) for i in range(len(own))]
    return lines > 1 and len(names) > 1 and is_counted  # a lone 0 begins many a vector


def _columns(path: Path, names: list[str], pick: str) -> list[int]:
    """The places of the columns that are wanted; all but the index of pandas if nothing is said."""
    everything = list(range(len(names)))
    if len(names) > 1 and names[0] in INDEX:
        everything = everything[1:]
    if not pick:
        return everything
    wanted = [name.strip() for name in next(csv.reader([pick.removeprefix("!")]))]
    for name in wanted:
        if names.count(name) != 1:
            known, count = ", ".join(names), names.count(name) or "no"
            raise ValueError(f"{path} has {count} column {name!r}, its columns are {known}")
    places = [names.index(name) for name in wanted]
    return [i for i in everything if i not in places] if pick[0] == "!" else places


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # as NumPy reads numbers


def _mtx(path: Path, pick: str) -> Any:
    import scipy.io
    import scipy.sparse

    try:
        array = scipy.io.mmread(path)
        return scipy.sparse.csr_array(array) if scipy.sparse.issparse(array) else array
    except (*BROKEN, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is not a Matrix Market file ({_first_line(error)})") from None


READERS: dict[str, Reader] = {
    ".npy": _npy, ".npz": _npz, ".csv": _csv, ".mtx": _mtx, ".mtx.gz": _mtx,
}  # fmt: skip


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


# -- problems -------------------------------------------------------------------------------------


def read_problem(path: str | Path) -> tuple[Problem, Table, dict[str, str]]:
    """The problem in a TOML file, arguments for ``solve``, and the names of the output files."""
    path = Path(path)
    content, folder = _read_toml(path), path.parent
    try:
        _check_top(content)
        problem = Problem(
            upper=_level("upper", content["upper"], folder),
            lower=_level("lower", content["lower"], folder),
            domain=_object("domain", content.get("domain", {"kind": "Space"}), DOMAINS, folder),
            radius=content.get("radius"),
            error_bound=_call("error_bound", ErrorBound, content["error_bound"], folder)
            if "error_bound" in content
            else None,
        )
        options = _solve(content.get("solve", {}), folder, problem)
        if "method" in content:
            if "method" in options:
                raise ValueError("[method] excludes the keys 'method' and 'gamma' of [solve]")
            options["method"] = _object("method", content["method"], METHODS.values(), folder)
        return problem, options, _output(content.get("output", {}))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _read_toml(path: Path) -> Table:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ValueError(f"{path} is not there") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from None
    except RecursionError:
        raise ValueError(f"{path} has arrays or tables that are nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise ValueError(f"{path} is not a TOML file ({_first_line(error)})") from None


def _check_top(content: Table) -> None:
    for name, value in content.items():
        if name in TABLES:
            if not isinstance(value, dict):
                raise ValueError(f"[{name}] must be a table, got {value!r}")
        elif isinstance(value, dict):
            known = ", ".join(f"[{table}]" for table in TABLES)
            raise ValueError(f"there is no table [{name}], known tables are {known}")
        elif name != "radius":
            raise ValueError(f"there is no key {name!r} outside the tables, known is radius")
    for name in LEVELS:
        if name not in content:
            raise ValueError(f"the table [{name}] is missing")


def _level(name: str, table: Table, folder: Path) -> Any:
    """A level: a smooth function or a penalty, and the penalties of its sub-tables."""
    rest = {key: value for key, value in table.items() if key != "penalty"}
    level = _object(name, rest, (*FUNCTIONS, *PENALTIES), folder)
    more = table.get("penalty", [])
    for one in more if isinstance(more, list) else [more]:
        if not isinstance(one, dict):
            raise ValueError(f"[{name}.penalty] must be a table, got {one!r}")
        penalty = _object(f"{name}.penalty", one, PENALTIES, folder)
        try:
            level = level + penalty
        except ValueError as error:
            raise ValueError(f"[{name}.penalty] {error}") from None
    return level


def _object(name: str, table: Table, classes: Iterable[type], folder: Path) -> Any:
    """The object that a table describes: its kind, called with its other keys."""
    known = {cls.__name__: cls for cls in classes}
    kinds, kind = f"known kinds are {', '.join(known)}", table.get("kind")
    if kind is None:
        raise ValueError(f"[{name}] lacks the key 'kind', {kinds}")
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(f"[{name}] has the unknown kind {kind!r}, {kinds}")
    arguments = {key: value for key, value in table.items() if key != "kind"}
    return _call(name, known[kind], arguments, folder)


def _call(name: str, call: type, arguments: Table, folder: Path) -> Any:
    """``call(**arguments)`` with arrays read from files; the signature says what is allowed."""
    parameters = inspect.signature(call).parameters
    # A dataclass may have fields of another module, where alone their annotations have a meaning.
    hints = get_type_hints(call if is_dataclass(call) else call.__init__)  # type: ignore[misc]
    _check_keys(name, arguments, [*parameters, *(["penalty"] if name in LEVELS else [])])
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise ValueError(f"[{name}] lacks the key {key!r}")
    takes_array = {key for key in parameters if hints[key] in (object, Any)}
    loaded = {
        key: _array(name, key, value, folder) if key in takes_array else value
        for key, value in arguments.items()
    }
    try:
        return call(**loaded)
    except (ValueError, TypeError) as error:
        raise ValueError(f"[{name}] {error}") from None


def _check_keys(name: str, table: Table, known: Iterable[str]) -> None:
    listed = ", ".join(sorted(known, key=str.lower))
    for key in table:
        if key not in known:
            hint = f"known keys are {listed}" if listed else "this kind has none"
            raise ValueError(f"[{name}] has no key {key!r}, {hint}")


def _array(name: str, key: str, value: object, folder: Path) -> Any:
    """An array argument: a string is a file in ``folder``, all else is taken as it stands."""
    if not isinstance(value, str):
        return value
    try:
        array = read_array(folder / value, matrix=key in MATRICES)
    except ValueError as error:
        raise ValueError(f"[{name}] {key}: {error}") from None
    if key in LABELS and np.all(array == np.round(array)):  # text files hold floating-point numbers
        return array.astype(np.int64)
    return array


def _solve(table: Table, folder: Path, problem: Problem) -> Table:
    """Arguments for ``solve``; ``gamma`` makes the method."""
    known = inspect.signature(solve).parameters.keys() - {"problem", "callback"} | {"gamma"}
    _check_keys("solve", table, known)
    options = dict(table)
    if "x0" in options:
        options["x0"] = _array("solve", "x0", options["x0"], folder)
    if isinstance(options.get("checkpoint"), str):
        options["checkpoint"] = folder / options["checkpoint"]
    if not isinstance(options.get("progress", False), bool):
        raise ValueError(f"[solve] progress must be true or false, got {options['progress']!r}")
    if "gamma" in options:
        own = AGMBiO if problem.is_smooth else PAGMBiO
        name = options.get("method", own.name)
        if name not in (AGMBiO.name, PAGMBiO.name):
            raise ValueError(f"[solve] gamma belongs to the method {own.name!r}, got {name!r}")
        options["method"] = _call("solve", METHODS[name], {"gamma": options.pop("gamma")}, folder)
    return options


def _output(table: Table) -> dict[str, str]:
    """The names of the output files: relative, and inside the folder that will hold them."""
    _check_keys("output", table, OUTPUT)
    for key, value in table.items():
        endings = OUTPUT_ENDINGS[key]
        if not isinstance(value, str) or not value.endswith(endings):
            raise ValueError(
                f"[output] {key} must be a file name that ends with {' or '.join(endings)}, "
                f"got {value!r}"
            )
        if Path(value).is_absolute() or ".." in Path(value).parts:
            place = "a name inside the output folder"
            raise ValueError(f"[output] {key} must be {place}, got {value!r}")
    return OUTPUT | table
