"""Saving a run and going on from there: one .npz file, written atomically, never unpickled.

Nested tuples of arrays and numbers are stored as they are: the arrays end to end as bytes, and one
JSON text that says how they were nested, with everything else.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tiebreak import arrays
from tiebreak.arrays import Array, Deferred
from tiebreak.functions import Smooth
from tiebreak.groups import Groups
from tiebreak.inputs import Inputs
from tiebreak.matrices import Matrix
from tiebreak.problem import Problem

FORMAT = 6  # raised whenever an older file could not be continued faithfully


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write to a temporary name beside ``path``, then rename: it is old or new, never half."""
    temporary = path.with_name(f".{path.name}.part")  # one name: a killed run leaves one at most
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def identity(problem: Problem, method: object, x0: Array) -> dict[str, str]:
    """What tells a run from another: a digest of each part, down to the last bit of the data.

    Plain callables are told apart by their values and slopes at three points of the domain.
    """
    n = int(x0.shape[0])
    direction = arrays.like(np.random.default_rng(0).standard_normal(n), x0)
    far = 1e6 * (1.0 + arrays.norm(x0)) * direction
    probes = [x0, problem.domain.project(x0 + direction), problem.domain.project(x0 + far)]
    promises = (problem.radius, problem.error_bound)
    _ = problem.upper.lipschitz, problem.lower.lipschitz  # found once, then a part of the digest
    return {
        "method": re.sub(r" at 0x[0-9a-f]+", "", repr(method)),
        "start": _digest(x0),
        "upper": _digest(problem.upper, probes),
        "lower": _digest(problem.lower, probes),
        "domain": _digest(problem.domain),
        "promises": _digest(promises),
    }


def _digest(value: object, probes: Sequence[Array] = ()) -> str:
    """A short name for all that ``value`` consists of."""
    state = hashlib.blake2b(digest_size=16)

    def take(part: Any) -> None:
        if isinstance(part, Inputs):
            pass  # the arrays of the user, of which the part has its own
        elif isinstance(part, Matrix):
            take(part.signature)
        elif arrays.is_sparse(part):
            for piece in (part.data, part.indices, part.indptr, np.asarray(part.shape)):
                take(piece)
        elif arrays.is_array(part):
            array = arrays.to_numpy(part)
            state.update(f"{array.dtype.str}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
        elif isinstance(part, Smooth):
            take((part.lipschitz, part.strong_convexity, part.lower_bound))
            for x in probes:
                take(_asked(part, x))
        elif isinstance(part, Groups):
            take((part.labels, part.length))
        elif isinstance(part, tuple | list):
            for piece in part:
                take(piece)
        elif hasattr(part, "__dict__"):
            state.update(type(part).__qualname__.encode())
            for name, piece in sorted(vars(part).items()):
                is_cache = isinstance(getattr(type(part), name, None), cached_property)
                if name == "lipschitz" or not is_cache:  # the user's own constants count
                    state.update(name.encode())
                    take(piece)
        else:
            state.update(repr(part).encode())

    take(value)
    return state.hexdigest()


def _asked(function: Smooth, x: Array) -> object:
    """Value and slope at x; far away a callable may overflow, and that tells it apart as well."""
    try:
        with arrays.quiet():
            return function.value(x), function.gradient(x)
    except ArithmeticError as error:
        return repr(error)


def save(path: Path, who: dict[str, str], run: Any) -> None:
    """Save ``run`` (nested tuples of arrays and numbers) for the problem and method ``who``."""
    blob = bytearray()  # all arrays end to end: many small entries would make the file slow
    header = {"format": FORMAT, "who": who, "run": _encode(run, blob)}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    data = np.frombuffer(bytes(blob), dtype=np.uint8)
    write_atomically(path, lambda file: np.savez(file, header=text, data=data))


def load(path: Path, who: dict[str, str], x0: Array) -> Any:
    """The run saved at ``path``; one clear sentence if it belongs to something else."""
    otherwise = "give another file name or delete it"
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            data = file["data"].tobytes()
            header = json.loads(file["header"].tobytes())
        version, then, run = header["format"], dict(header["who"]), header["run"]
    except Exception as error:  # a broken file may raise anything: zipfile, zlib, json, NumPy
        raise ValueError(
            f"checkpoint: {path} is not a checkpoint of tiebreak ({type(error).__name__}); "
            f"{otherwise}"
        ) from None
    if version != FORMAT:
        raise ValueError(
            f"checkpoint: {path} was written in format {version}, this version needs {FORMAT}; "
            f"{otherwise}"
        )
    for name, now in who.items():
        if then.get(name) != now:
            what = f"another problem ({name} differs)"
            if name == "method":
                what = f"another method ({then.get(name)}, now {now})"
            elif name == "start":
                what = "another start"
            raise ValueError(f"checkpoint: {path} belongs to {what}; {otherwise}")
    try:
        return _decode(run, data, x0)
    except (TypeError, KeyError, ValueError, AttributeError, ImportError):
        raise ValueError(
            f"checkpoint: {path} was written by another version of tiebreak; {otherwise}"
        ) from None


def _encode(value: Any, blob: bytearray) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, tuple | list):
        kind = type(value)
        name = f"{kind.__module__}:{kind.__qualname__}" if hasattr(value, "_fields") else ""
        return {"tuple": name, "parts": [_encode(part, blob) for part in value]}
    array = arrays.to_numpy(value.saved() if isinstance(value, Deferred) else value)
    code = {"dtype": array.dtype.str, "shape": list(array.shape), "at": len(blob)}
    blob += array.tobytes()
    return code


def _decode(code: Any, data: bytes, like: Array) -> Any:
    if not isinstance(code, dict):
        return code
    if "dtype" in code:
        count = int(np.prod(code["shape"], dtype=int))
        flat = np.frombuffer(data, dtype=code["dtype"], count=count, offset=code["at"])
        return arrays.from_numpy(flat.reshape(code["shape"]).copy(), like)
    parts = [_decode(part, data, like) for part in code["parts"]]
    if not code["tuple"]:
        return tuple(parts)
    module, _, name = code["tuple"].partition(":")
    kind = None
    if module.startswith("tiebreak."):
        kind = getattr(importlib.import_module(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, tuple)):
        raise ValueError(f"{code['tuple']} is no part of tiebreak")
    return kind(*parts)
