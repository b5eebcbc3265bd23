"""Read arrays from files; every error message is one sentence that names the file.

Known formats are .npy, .npz (``data.npz:key`` picks one of several arrays), .csv
(``train.csv:age,income`` picks columns by name, ``train.csv:!price`` drops one) and Matrix Market
(.mtx, .mtx.gz).

A .csv file may have a header: a first line without a number in it, or the 0,1,2 that pandas writes
(if these numbers are data, write 0 as 0.0). Without a header the columns are called 0, 1, 2. The
index that pandas writes as a first column, without a name or as "Unnamed: 0", does not count as a
column. True and False, in any capitalisation, are 1 and 0.
"""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.linalg.archive import NUMBERS, first_line, npy_header

TRUTH = {"true": 1.0, "false": 0.0}
INDEX = ("", "Unnamed: 0")  # names that pandas writes above an index column

Reader = Callable[[Path, str], Any]  # arguments: the path, the requested array or columns
# functions that read the entries of a column in a .csv file
Converters = dict[int | str, Callable[[str], float]]


def read_array(name: str | Path, *, matrix: bool = False) -> Any:
    """Return the array in a file; a sparse array is returned in SciPy's CSR format.

    Args:
        name: the file; ``data.npz:key`` picks one of several arrays in a .npz file,
            ``train.csv:age,income`` picks columns of a .csv file, ``train.csv:!price`` drops one.
        matrix: whether to return a matrix. In .csv and .mtx files, a vector looks like a matrix
            with one row or one column; it is returned as a vector unless ``matrix`` is True.
    """
    path, pick = _path_and_pick(str(name))
    reader = next((read for end, read in READERS.items() if path.name.endswith(end)), None)
    if reader is None:
        raise ValueError(f"{path} has an unknown extension; use one of {', '.join(READERS)}")
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    try:
        array = reader(path, pick)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from None
    if array.dtype.kind not in NUMBERS:
        raise ValueError(f"{path} must hold real numbers, got entries of type {array.dtype}")
    if 0 in array.shape:
        raise ValueError(f"{path} is empty: its shape is {tuple(array.shape)}")
    is_text = path.suffix not in (".npy", ".npz")
    if is_text and not matrix and array.ndim == 2 and 1 in array.shape:
        return (array if isinstance(array, np.ndarray) else array.toarray()).reshape(-1)
    return array


def column_names(name: str | Path) -> tuple[str, ...] | None:
    """Return the names of the columns that `read_array` reads.

    None if there is no header, or if two columns have the same name.
    """
    path, pick = _path_and_pick(str(name))
    if path.suffix != ".csv":
        return None
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(islice((row for row in csv.reader(file) if "".join(row).strip()), 2))
    if len(rows) < 2 or len(rows[0]) != len(rows[1]) or any(map(_is_number, rows[0])):
        return None
    names = [entry.strip() for entry in rows[0]]
    picked = tuple(names[i] for i in _columns(path, names, pick))
    return picked if len(set(picked)) == len(picked) else None


def _path_and_pick(text: str) -> tuple[Path, str]:
    """Split the text into a file name and the part after the colon, if any."""
    for ending in (".npz", ".csv"):
        stem, found, key = text.rpartition(f"{ending}:")
        if found:
            return Path(stem + ending), key
    return Path(text), ""


def _npy(path: Path, pick: str) -> Any:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{path} is not a .npy file")
        file.seek(0)
        shape, _ = _unpickled(path, lambda: npy_header(file))
    if min(shape, default=0) < 0:  # NumPy 2.1 would read -1 as "as many as there are"
        raise ValueError(f"{path} is damaged (its shape is {shape})")
    return _unpickled(path, lambda: np.load(path, allow_pickle=False))


def _npz(path: Path, key: str) -> Any:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not a .npz file")
    with (  # NumPy would not close a damaged file that it has opened itself
        path.open("rb") as opened,
        _unpickled(path, lambda: np.load(opened, allow_pickle=False)) as file,
    ):
        keys = list(file.files)
        if not keys:
            raise ValueError(f"{path} is empty: it holds no arrays")
        if not key and {"data", "format", "shape"} <= set(keys):
            return _saved_sparse(path)
        if not key and len(keys) > 1:
            raise ValueError(
                f"{path} holds the arrays {', '.join(keys)}: pick one, as in {path.name}:{keys[0]}"
            )
        if key and key not in keys:
            raise ValueError(f"{path} has no array {key!r}; its arrays are {', '.join(keys)}")
        array = _unpickled(path, lambda: file[key or keys[0]])
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{path} is not a .npz file: {key or keys[0]!r} is not an array")
        return array


def _unpickled(path: Path, load: Callable[[], Any]) -> Any:
    """Return ``load()``; raise a ValueError if the file is damaged or holds Python objects."""
    try:
        return load()
    except Exception as error:  # zipfile, zlib and NumPy's parser of headers may raise anything
        if "allow_pickle" in str(error):
            raise ValueError(
                f"{path} holds Python objects, which are never unpickled; save numbers instead"
            ) from None
        raise ValueError(f"{path} is damaged ({first_line(error)})") from None


def _saved_sparse(path: Path) -> Any:
    """Return a matrix saved by scipy.sparse.save_npz."""
    import scipy.sparse

    try:
        return scipy.sparse.csr_array(scipy.sparse.load_npz(path))
    except Exception as error:  # as above
        raise ValueError(f"{path} is not a sparse matrix ({first_line(error)})") from None


def _csv(path: Path, pick: str) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig").splitlines()
        lines = {number: line for number, line in enumerate(text, 1) if line.strip()}
        end, names = next(_rows(lines), (0, []))
        if found := re.search(r"[;\t]", "" if len(names) > 1 else "".join(names)):
            raise ValueError(
                f"{path} must have commas between columns and decimal points, got columns "
                f"separated by {found[0]!r}"
            )
        if _is_header(names, len(lines)):
            lines = {number: line for number, line in lines.items() if number > end}
        else:
            names = []
        if not lines:
            raise ValueError(f"{path} is empty: it holds no numbers")
        width = len(next(_rows(lines))[1])
        if len(names) != width:  # no header, or words that do not name the columns
            names = [str(i) for i in range(width)]
        columns = _columns(path, names, pick)
        table = _table(path, lines, columns, width)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a .csv file: it is not text") from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a .csv file ({error})") from None
    return table[:, columns]


def _table(path: Path, lines: dict[int, str], columns: list[int], width: int) -> Any:
    """Return the lines as rows of numbers, with 0 in the columns that were not picked."""
    others: Converters = {i: lambda _: 0.0 for i in range(width) if i not in columns}

    def read(converters: Converters) -> Any:
        return np.loadtxt(
            list(lines.values()), comments=None, delimiter=",", quotechar='"', ndmin=2,
            converters=others | converters,
        )  # fmt: skip

    try:
        return read({})
    except ValueError:
        if mistake := _mistake(lines, columns):
            raise ValueError(f"{path}{mistake}") from None
    try:
        return read(dict.fromkeys(columns, _number))  # slow, but it reads True and False
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _rows(lines: dict[int, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line where each row ends, and the entries of the row."""
    numbers, reader = list(lines), csv.reader(lines.values())
    for entries in reader:
        yield numbers[reader.line_num - 1], [entry.strip() for entry in entries]


def _mistake(lines: dict[int, str], columns: list[int]) -> str:
    """Say what is wrong with the first line that NumPy cannot read, for the error message."""
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
    """Is the first line a header: no numbers, or 0, 1, 2, ... as pandas numbers columns?"""
    if not any(map(_is_number, names)):
        return True
    own = names[1:] if names[0] in INDEX else names
    is_counted = own == [str(i) for i in range(len(own))]
    return lines > 1 and len(names) > 1 and is_counted  # a single 0 may start a vector


def _columns(path: Path, names: list[str], pick: str) -> list[int]:
    """Return the indices of the requested columns; by default, all except a pandas index."""
    everything = list(range(len(names)))
    if len(names) > 1 and names[0] in INDEX:
        everything = everything[1:]
    if not pick:
        return everything
    wanted = [name.strip() for name in next(csv.reader([pick.removeprefix("!")]))]
    for name in wanted:
        if names.count(name) != 1:
            known, count = ", ".join(names), names.count(name) or "no"
            raise ValueError(f"{path} has {count} column {name!r}; its columns are {known}")
    places = [names.index(name) for name in wanted]
    return [i for i in everything if i not in places] if pick[0] == "!" else places


def _number(text: str) -> float:
    """Return the number as NumPy reads it; True counts as 1 and False as 0."""
    text = text.strip()
    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    if not text.isascii() or "_" in text:
        raise ValueError
    return float(text)


def _is_number(text: str) -> bool:
    try:
        _number(text)
    except ValueError:
        return False
    return True


def _mtx(path: Path, pick: str) -> Any:
    import scipy.io
    import scipy.sparse

    try:
        array = scipy.io.mmread(path)
        return scipy.sparse.csr_array(array) if scipy.sparse.issparse(array) else array
    except Exception as error:  # gzip and SciPy's parser may raise anything
        raise ValueError(f"{path} is not a Matrix Market file ({first_line(error)})") from None


READERS: dict[str, Reader] = {
    ".npy": _npy, ".npz": _npz, ".csv": _csv, ".mtx": _mtx, ".mtx.gz": _mtx,
}  # fmt: skip
