"""Detects whether the user's arrays behind an object still hold the same numbers.

Functions, penalties, domains and problems are made once, cache what is expensive to compute (A'A,
Lipschitz constants, ranks) and never change. The arrays that such objects were made from belong to
the user, who may write new numbers into these arrays. So each object remembers its arguments with a
fingerprint, and ``current`` rebuilds the object if the fingerprint has changed. `solve`, `certify`
and `compare` call ``current`` first, so their answers are for the current numbers.

New numbers behind a linear operator or a plain callable cannot be detected.

This module also examines users' subclasses. What the library knows about its own classes (Hessians,
faces, cones) is not valid for a subclass that overrides something. `overridden` detects such
overrides, and `known` returns an object without the invalid knowledge; sums, levels and problems
use `known`.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from tiebreak.linalg import arrays, tables, threads
from tiebreak.linalg.arrays import Array, Host
from tiebreak.linalg.registry import in_files

CONSTANTS = type(None), str, bool, int, float, np.generic  # arguments that cannot change
PIECE = 2**20  # bytes per checksum: enough to keep a thread busy, few enough to detect changes
DEVICE_PIECE = PIECE // np.dtype(np.uint32).itemsize  # 32-bit words per checksum on a device
PIECES_AT_ONCE = 2**5  # pieces per call on a device: few calls, but little memory

Self = TypeVar("Self", bound="FromData")


class Inputs:
    """The arguments of the constructor of ``maker``, with fingerprints of their contents."""

    def __init__(self, maker: type, arguments: dict[str, Any]) -> None:
        self.maker, self.arguments = maker, arguments
        self._before = {
            name: fingerprint(value)
            for name, value in arguments.items()
            if not isinstance(value, CONSTANTS)
        }

    def changed(self) -> dict[str, Any]:
        """The changed arguments by name: arrays as they are, other objects rebuilt."""
        found = {}
        for name, before in self._before.items():
            value = self.arguments[name]
            now = value.current() if isinstance(value, FromData) else _now(value)
            if now is not value or fingerprint(value) != before:
                found[name] = now
        return found


class FromData:
    """An object made from the user's arrays, or from other `FromData` objects.

    A class with ``is_open`` is meant to be subclassed: nothing is known about a subclass beyond its
    own description.

    Files name a class by its ``keyword``. By default the keyword is the class's name, for classes
    of the package that are not open; "" keeps a class out of files. A class whose objects combine
    others, usually with an operator such as +, is not ``in_tables``: such a class does not check
    its arguments, and no table of a problem file describes it.
    """

    _inputs: Inputs | None = None
    is_open: ClassVar[bool] = True
    describing: ClassVar[tuple[str, ...]] = ()  # members with which a class describes itself

    def __init_subclass__(
        cls,
        is_open: bool = False,
        keyword: str | None = None,
        in_tables: bool = True,
        **others: Any,
    ) -> None:
        super().__init_subclass__(**others)
        cls.is_open = is_open
        if keyword is None and is_ours(cls) and not is_open:
            keyword = "" if cls.__name__.startswith("_") else cls.__name__
        if keyword:
            in_files(keyword, in_tables)(cls)

    def current(self: Self) -> Self:
        """The object with the numbers that its arrays hold now; ``self`` if all are the same."""
        inputs = self._inputs
        changed = inputs.changed() if inputs is not None else {}
        if inputs is None or not changed:
            return self
        arguments = constructor_arguments(self)
        if arguments is None:
            raise ValueError(
                f"{type(self).__name__}: {', '.join(changed)} must hold the same numbers as when "
                "it was made, got others; make a new one, because its constructor is not known"
            )
        made: Self = made_from(type(self), {**arguments, **changed})
        return made

    @property
    def is_watched(self) -> bool:
        """Does ``current`` notice every change?  Not behind a callable or a linear operator."""
        inputs = self._inputs
        given = dict(_members(self)) if inputs is None else inputs.arguments
        return is_ours(type(self)) and all(map(is_watched, given.values()))

    def without_structure(self, own: tuple[str, ...]) -> Any:
        """The object without structure that its class, which overrides ``own``, may not have.

        Raise TypeError if nothing useful remains, as for a penalty.
        """
        raise TypeError(
            f"{type(self).__name__}: {', '.join(own)} must be as in its tiebreak base class, got "
            "overrides; CONTRIBUTING.md says which classes can be extended"
        )


def known(made: Any) -> Any:
    """The object, without the structure that overrides in its class may have made wrong."""
    own = overridden(made.__class__)
    return made.without_structure(own) if own else made


def is_ours(kind: type) -> bool:
    """Is this class defined in the library, and not by a user?"""
    return kind.__module__.startswith("tiebreak.")


@lru_cache
def described_outside(kind: Any) -> bool:
    """Is a member of ``kind.describing`` defined outside the package? Proofs rely on the answer."""
    outside = (c for c in kind.__mro__ if not is_ours(c))
    return any(name in vars(c) for c in outside for name in kind.describing)


@lru_cache
def overridden(kind: type) -> tuple[str, ...]:
    """The members that a class overrides in a package class that is not meant to be subclassed.

    New default values, and methods that only Python calls, such as ``__init__`` and ``__repr__``,
    do not count.
    """
    ours = filter(is_ours, kind.__mro__)
    base = next((c for c in ours if issubclass(c, FromData) and not c.is_open), object)
    members = set(dir(base)).difference(getattr(base, "__dataclass_fields__", ()))
    return tuple(
        name
        for name in sorted(members)
        if not name.startswith("__")
        and inspect.getattr_static(kind, name) is not inspect.getattr_static(base, name)
    )


def is_watched(value: Any) -> bool:
    """Would a change of the numbers in this value be noticed?"""
    if isinstance(value, FromData):
        return value.is_watched
    if _has_parts(value):
        return all(map(is_watched, value))
    return isinstance(value, CONSTANTS) or arrays.is_array(value) or fingerprint(value) is not None


def _now(value: Any) -> Any:
    """If ``value`` is a tuple, the tuple with its changed parts rebuilt; otherwise ``value``."""
    if not _has_parts(value):
        return value
    parts = tuple(part.current() if isinstance(part, FromData) else part for part in value)
    return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value


def _has_parts(value: Any) -> bool:
    """Is ``value`` a tuple of objects with fingerprints, as in an intersection of sets?"""
    return isinstance(value, tuple) and any(isinstance(part, FromData) for part in value)


def made_from(kind: Any, arguments: dict[str, Any]) -> Any:
    """An object of class ``kind`` from named arguments; parameters like ``*sets`` are unpacked."""
    named = dict(arguments)
    parameters = inspect.signature(kind).parameters.values()
    several = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL and p.name in named]
    one_by_one = [one for name in several for one in named.pop(name)]
    return kind(*one_by_one, **named)


def remember(made: FromData, maker: type, **arguments: Any) -> None:
    """Store the arguments of ``made``; called in a constructor of the class ``maker``."""
    assign(made, "_inputs", Inputs(maker, arguments))


def constructor_arguments(made: FromData) -> dict[str, Any] | None:
    """The constructor arguments of ``made``; None if its constructor did not store them."""
    inputs: Inputs | None = vars(made).get("_inputs")
    kind = type(made)
    if inputs is None or vars(kind).get("__init__") is not vars(inputs.maker).get("__init__"):
        return None
    return inputs.arguments


def assign(made: object, name: str, value: object) -> None:
    """Set an attribute in the constructor of an object that may be frozen."""
    object.__setattr__(made, name, value)


def fingerprint(value: Any) -> object:
    """A value that changes with the numbers in ``value``; None if they cannot change or be read.

    For arrays on the host, the fingerprint has a CRC-32 per piece: a change of up to 32 consecutive
    bits is always noticed; a larger change is missed with probability 2^-32 for every piece that it
    touches. Checksums take as long as a few products with the array, and a run makes dozens of
    products.
    """
    if type(value) is np.ndarray:
        return checksums(value)
    # Objects made from data have their own fingerprints.
    return None if isinstance(value, FromData) or _has_parts(value) else _fingerprint(value)


def _fingerprint(value: Any) -> object:
    if isinstance(value, CONSTANTS):
        return value
    if tables.is_frame(value) or tables.is_series(value):
        hashes, columns = tables.fingerprint(value)
        return columns, fingerprint(hashes)
    if arrays.is_sparse(value):
        csr = value if value.format in ("csr", "csc", "bsr") else value.tocsr()
        return tuple(map(fingerprint, (csr.data, csr.indices, csr.indptr)))
    if isinstance(value, list | tuple | range):
        try:
            value = np.asarray(value)
        except ValueError:  # ``value`` has lists of different lengths
            return tuple(map(fingerprint, value))
    return _array_fingerprint(value) if arrays.is_array(value) else None


def _array_fingerprint(array: Array) -> object:
    if isinstance(array, np.memmap) and array.mode == "r" and array.filename is not None:
        return stamps([array.filename])
    if arrays.is_immutable(array):
        return None
    words = arrays.words(array)
    return checksums(arrays.to_numpy(array)) if words is None else _sums(words)


def stamps(paths: Sequence[str | os.PathLike[str]]) -> object:
    """The inodes, sizes and modification times of files, and of all files in folders."""
    found = []
    for path in map(Path, paths):
        inside = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in inside:
            about = file.stat() if file.exists() else None
            found.append((str(file), about and (about.st_ino, about.st_size, about.st_mtime_ns)))
    return tuple(found)


def checksums(array: Host) -> object:
    """The type and shape of an array on the host, and checksums computed by all threads."""
    whole = array.reshape(1) if array.ndim == 0 else array
    if whole.flags.f_contiguous and not whole.flags.c_contiguous:
        whole = whole.T
    length = max(1, whole.shape[0])
    step = max(1, PIECE * length // max(1, whole.nbytes))
    starts = range(0, length, step)
    count = min(threads.allowed(), len(starts)) if len(starts) > 1 else 1
    shares = [starts[i::count] for i in range(count)]
    found = threads.together([partial(_checksums, whole, step, share) for share in shares])
    return array.dtype.str, array.shape, tuple(map(tuple, found))


def _checksums(whole: Host, step: int, starts: Sequence[int]) -> list[int]:
    if whole.dtype.hasobject:
        return [hash(repr(whole[i : i + step].tolist())) for i in starts]
    return [zlib.crc32(np.ascontiguousarray(whole[i : i + step]).data) for i in starts]


def _sums(words: Array) -> object:
    """Checksums of 32-bit words on a device: the randomly weighted sum of each piece.

    Modulo 2^64, two different pieces have the same sum with probability at most 2^-32.
    """
    xp, n = arrays.namespace(words), words.shape[0]
    drawn = np.random.default_rng(20240208).integers(-(2**63), 2**63, min(DEVICE_PIECE, n))
    weights, found = arrays.from_numpy(drawn, words), []
    for start in range(0, n, PIECES_AT_ONCE * DEVICE_PIECE):
        some = xp.astype(words[start : start + PIECES_AT_ONCE * DEVICE_PIECE], xp.int64)
        whole = some.shape[0] // DEVICE_PIECE * DEVICE_PIECE
        found.append(xp.sum(xp.reshape(some[:whole], (-1, weights.shape[0])) * weights, axis=1))
        rest = some[whole:]
        found.append(xp.reshape(xp.sum(rest * weights[: rest.shape[0]]), (1,)))
    return tuple(arrays.numbers(xp.concat(found))) if found else ()


def digest(value: object, pieces: Callable[[Any], Iterable[Any] | None] = lambda part: None) -> str:
    """A digest that depends on every bit of everything in ``value``.

    A part with a ``signature`` is identified by its signature. ``pieces`` may return other values
    that identify a part, in place of its numbers or members.
    """
    state = hashlib.blake2b(digest_size=16)

    def take(part: Any) -> None:
        found = _pieces(part) if (own := pieces(part)) is None else own
        if found is not None:
            for piece in found:
                take(piece)
        elif arrays.is_array(part):
            array = arrays.to_numpy(part)
            state.update(f"{array.dtype.str}{array.shape}".encode())
            flat = np.ascontiguousarray(array).reshape(-1)
            # Without a copy, unless Python cannot read the type: times and objects.
            state.update(flat.tobytes() if flat.dtype.kind in "OMm" else flat.data)
        elif hasattr(part, "__dict__"):
            state.update(type(part).__qualname__.encode())
            for name, piece in _members(part):
                state.update(name.encode())
                take(piece)
        else:
            state.update(repr(part).encode())

    take(value)
    return state.hexdigest()


def _pieces(part: Any) -> Iterable[Any] | None:
    if isinstance(part, Inputs):  # skip the user's arrays: the object has copies
        return ()
    if isinstance(part, tuple | list):
        return part
    if arrays.is_sparse(part):
        return [part.data, part.indices, part.indptr, np.asarray(part.shape)]
    signature: Iterable[Any] | None = getattr(part, "signature", None)
    return signature


def _members(part: Any) -> Iterator[tuple[str, Any]]:
    """The members of an object by name, without cached results."""
    for name, piece in sorted(vars(part).items()):
        is_cache = isinstance(getattr(type(part), name, None), cached_property)
        # A constant that the user may pass (``lipschitz``) is a member, not a cached result.
        if name == "lipschitz" or not is_cache:
            yield name, piece
