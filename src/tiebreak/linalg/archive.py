"""Saving objects to .npz files, atomically and without pickle.

A file is a NumPy archive. It contains arrays, named after the arguments that hold them (such as
``lower.A``), and a JSON text that says which objects to create from these arrays. An object is
stored as the keyword of its class in `registry` and the arguments of its constructor, so reading a
file can create only objects of these classes, and constructors check their arguments as usual.

Damaged files are detected: the archive has checksums, and no array may claim to be larger than the
file.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from tiebreak.linalg import arrays, checks, tables
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.fingerprints import FromData, constructor_arguments, made_from
from tiebreak.linalg.images import DeferredImage
from tiebreak.linalg.refusals import missing
from tiebreak.linalg.registry import KEYWORDS, KINDS

HEADER = "tiebreak"  # the name under which the archive stores the JSON text
FORMAT = 2  # increased if older versions of tiebreak would misread a file
NUMBERS = "fiub"  # kinds of dtypes that a file may hold
SPARSE = {  # the arrays of each sparse format; other formats are converted to csr
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "bsr": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}
LABEL = str | bool | int | float  # types of row and column labels that can be saved


def npz_path(owner: str, name: str, path: str | Path) -> Path:
    """Check ``path``, the argument called ``name``, and return it as the path of a .npz file."""
    if not isinstance(path, str | Path):
        raise TypeError(f"{owner}: {name} must be a file name, got {type(path).__name__}")
    target = Path(path)
    if target.suffix != ".npz":
        raise ValueError(f"{owner}: {name} must be a .npz file, got {str(path)!r}")
    if not target.parent.is_dir():
        raise ValueError(f"{owner}: {name} must be in a folder that exists, got {str(path)!r}")
    return target


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a temporary file next to ``path`` and rename it, so ``path`` is never half written."""
    # The temporary file has a fixed name, so killed runs leave at most one such file.
    temporary = path.with_name(f".{path.name}.part")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read shape and dtype from the header of a .npy file; the next read starts at the entries."""
    read = np.lib.format.read_array_header_2_0
    if np.lib.format.read_magic(file) == (1, 0):
        read = np.lib.format.read_array_header_1_0
    shape, _, dtype = read(file)
    return shape, dtype


def parameters(kind: Any) -> list[str]:
    """The names of the constructor's arguments."""
    return list(inspect.signature(kind).parameters)


def is_record(kind: Any) -> bool:
    """Is ``kind`` a dataclass or a named tuple, whose parameters are also attributes?"""
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


# -- writing --------------------------------------------------------------------------------------


class Writer:
    """Encodes objects as JSON and named arrays; error messages begin with ``owner``."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.arrays: dict[str, Host] = {}
        # Each array and its name, by the array's id: an array that two levels share is saved once.
        self._named: dict[int, tuple[Any, str]] = {}

    def write(self, path: Path, header: dict[str, Any], name: str = HEADER) -> None:
        """Write the file: all arrays, and ``header`` as JSON text under the given name."""
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        entries: dict[str, Any] = {name: text, **self.arrays}
        write_atomically(path, lambda file: np.savez(file, **entries))

    def model(self, where: str, made: FromData, names: Sequence[Any] | None) -> Any:
        """Encode a problem whose variables have the given names."""
        for name in names or ():
            if not isinstance(name, LABEL):
                needed = "text or numbers as the names of its variables"
                got = f"{name!r} of type {type(name).__name__}"
                raise TypeError(f"{self.owner}: the problem must have {needed}, got {got}")
        try:
            return self.encode(where, made)
        except RecursionError:
            raise ValueError(
                f"{self.owner}: the problem must not be a sum of so many functions that they are "
                "nested too deeply"
            ) from None

    def encode(self, where: str, value: Any) -> Any:
        """Encode ``value``, the argument called ``where``, as JSON; arrays are kept separately."""
        if isinstance(value, np.bool_ | np.integer | np.floating):
            return value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if type(value) in (list, tuple, range):
            parts = [self.encode(f"{where}.{i}", part) for i, part in enumerate(value)]
            return {"tuple": parts} if type(value) is tuple else parts
        return self._encode_data(where, value)

    def _encode_data(self, where: str, value: Any) -> Any:
        if type(value) in KEYWORDS and (found := _arguments(value)) is not None:
            inner = f"{where}." if where else ""
            parts = {name: self.encode(inner + name, part) for name, part in found.items()}
            return {"class": KEYWORDS[type(value)], "arguments": parts}
        if tables.is_frame(value) or tables.is_series(value):
            return self._table(where, value)
        if arrays.is_sparse(value):
            return self._sparse(where, value)
        if isinstance(value, DeferredImage):
            value = value.saved()
        if arrays.is_array(value):
            return {"array": self._array(where, value)}
        raise self.refusal(where, value)

    def _array(self, where: str, value: Any) -> str:
        """The name under which the array is saved."""
        host = arrays.to_numpy(value)
        if host.dtype.kind not in NUMBERS:
            raise self.refusal(where, value)
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

    def refusal(self, where: str, value: Any) -> TypeError:
        """The error for a value that cannot be saved."""
        return TypeError(
            f"{self.owner}: {where} must be numbers in memory, or made of functions, penalties and "
            "sets that have a keyword for files (class Own(..., keyword='Own')), to be saved, got "
            + checks.what_it_is(value)
        )


def save(owner: str, path: str | Path, kind: str, content: Callable[[Writer], Any]) -> None:
    """Write a file that ``tiebreak.load`` can read; ``content`` encodes it with a `Writer`."""
    target, writer = npz_path(owner, "path", path), Writer(owner)
    writer.write(target, {"format": FORMAT, "kind": kind, "content": content(writer)})


def _arguments(value: Any) -> dict[str, Any] | None:
    """The constructor arguments that recreate ``value``; None if they are unknown."""
    remembered = constructor_arguments(value) if isinstance(value, FromData) else None
    if remembered is not None:
        return remembered
    kind: Any = type(value)
    names = kind._fields if hasattr(kind, "_fields") else parameters(kind)
    is_known = is_record(kind) or not names
    return {name: getattr(value, name) for name in names} if is_known else None


def _labels(labels: Any) -> list[Any] | None:
    """``labels`` as a list if they are text or numbers; others, such as dates, are not saved."""
    found: list[Any] = [] if tables.is_default(labels) else labels.tolist()
    return found if found and all(isinstance(label, LABEL) for label in found) else None


# -- reading --------------------------------------------------------------------------------------


class Refused(ValueError):
    """Why a file is rejected: the rest of a sentence that begins with the name of the file."""


class Reader:
    """Decodes the content of an archive of ``size`` bytes."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._archive, self._size = archive, size
        self._arrays: dict[str, Host] = {}
        self._decoders: dict[str, Callable[[Any], Any]] = {
            "tuple": lambda code: tuple(map(self.decode, code["tuple"])),
            "array": lambda code: self.array(code["array"]),
            "sparse": self._sparse,
            "table": self._table,
            "class": self._object,
        }

    def header(self, name: str = HEADER) -> Any:
        """The JSON text."""
        return json.loads(self._array(name).tobytes())

    def decode(self, code: Any) -> Any:
        """The object that the JSON describes."""
        if isinstance(code, list):
            return [self.decode(part) for part in code]
        if not isinstance(code, dict):
            return code
        tag = next(iter(code), "")
        if tag not in self._decoders:
            raise Refused(f"holds something unknown ({tag!r})")
        return self._decoders[tag](code)

    def array(self, name: str) -> Any:
        """The array that is saved under the given name."""
        return self._array(name)

    def check(self, kind: Any, parts: dict[str, Any]) -> None:
        """Reject invalid arguments of a class that does not check its arguments itself."""

    def _array(self, name: str) -> Host:
        """An array, after checking that its shape and dtype match its bytes in the file."""
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
                raise Refused(f"has the array {name!r} with a size that differs from its header")
        with self._archive.open(entry) as member:
            self._arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return self._arrays[name]

    def _sparse(self, code: dict[str, Any]) -> Any:
        import scipy.sparse

        form, _, kind = str(code["sparse"]).partition("_")
        if form not in SPARSE or kind not in ("array", "matrix"):
            raise Refused(f"has a sparse matrix in the unknown format {code['sparse']!r}")
        parts = {name: self._array(code["parts"][name]) for name in SPARSE[form]}
        if any(part.dtype.kind != "i" for name, part in parts.items() if name != "data"):
            raise Refused("has a sparse matrix whose indices are not whole numbers")
        data, *places = parts.values()
        given = (data, tuple(places)) if form == "coo" else (data, *places)
        try:
            made = getattr(scipy.sparse, code["sparse"])(given, shape=tuple(code["shape"]))
            if form != "coo":  # the COO constructor checks its indices itself
                made.check_format(full_check=True)  # wrong indices would cause out-of-bounds reads
        except (ValueError, TypeError, IndexError) as error:
            raise Refused(f"has a damaged sparse matrix ({first_line(error)})") from None
        return made

    def _table(self, code: dict[str, Any]) -> Any:
        try:
            import pandas
        except ImportError:
            raise missing("load: a pandas table", "pandas", "pandas") from None
        values, index, columns = self._array(code["values"]), code["index"], code["columns"]
        if code["table"] == "Series":
            return pandas.Series(values, index=index)
        return pandas.DataFrame(values, index=index, columns=columns)

    def _object(self, code: dict[str, Any]) -> Any:
        name = code["class"]
        if not isinstance(name, str) or name not in KINDS:
            raise Refused(
                f"holds the unknown class {name!r}: import the module that defines it, or use the "
                "version of tiebreak that has it"
            )
        kind = KINDS[name]
        parts = {name: self.decode(part) for name, part in code["arguments"].items()}
        self.check(kind, parts)
        try:
            return made_from(kind, parts)
        except (ValueError, TypeError) as error:
            raise Refused(f"holds arguments that are rejected: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """The first line of an error message, without its full stop."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
