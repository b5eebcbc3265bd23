"""Saving a run and going on from there: one .npz file, written atomically, never unpickled.

Nested tuples of arrays and numbers are stored as they are: the arrays as arrays, everything else
as one JSON text that says how they were nested.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tiebreak import arrays
from tiebreak.arrays import Array
from tiebreak.problem import Problem

FORMAT = 1  # raised whenever an older file could not be continued faithfully


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write to a temporary name beside ``path``, then rename: it is old or new, never half."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # as if opened by name; mkstemp is more secretive
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def identity(problem: Problem, method: object, x0: Array) -> dict[str, Any]:
    """What tells a problem from another: values and slopes at two points, and the method.

    Works for matrices, operators and plain callables alike, and costs two looks at the data.
    """
    n = int(x0.shape[0])
    direction = arrays.like(np.random.default_rng(0).standard_normal(n), x0)
    probe = problem.domain.project(x0 + direction)
    seen: dict[str, Any] = {"x0": arrays.to_numpy(x0)}
    for level, function in (("upper", problem.upper), ("lower", problem.lower)):
        seen[f"{level}_value"] = np.asarray([function.value(x0), function.value(probe)])
        seen[f"{level}_slope"] = arrays.to_numpy(function.gradient(probe))
    return {"seen": seen, "method": re.sub(r" at 0x[0-9a-f]+", "", repr(method))}


def save(path: Path, who: dict[str, Any], run: Any) -> None:
    """Save ``run`` (nested tuples of arrays and numbers) for the problem and method ``who``."""
    stored: dict[str, np.ndarray[Any, Any]] = {}
    header = {"format": FORMAT, "method": who["method"], "run": _encode(run, stored)}
    named = {f"identity_{name}": value for name, value in who["seen"].items()}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    everything: dict[str, Any] = {"header": text, **named, **stored}
    write_atomically(path, lambda file: np.savez(file, **everything))


def load(path: Path, who: dict[str, Any], x0: Array) -> Any:
    """The run saved at ``path``; one clear sentence if it belongs to something else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        header = json.loads(stored["header"].tobytes())
        version = header["format"]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"checkpoint: {path} is not a checkpoint of tiebreak ({error})") from None
    if version != FORMAT:
        raise ValueError(
            f"checkpoint: {path} was written in format {version}, this version needs {FORMAT}; "
            "give another file name or delete it"
        )
    if header["method"] != who["method"]:
        raise ValueError(
            f"checkpoint: {path} belongs to another method ({header['method']}, "
            f"now {who['method']}); give another file name or delete it"
        )
    for name, now in who["seen"].items():
        then = stored.get(f"identity_{name}")
        if then is None or not _same(then, now):
            what = "another start" if name == "x0" else f"another problem ({name} differs)"
            raise ValueError(
                f"checkpoint: {path} belongs to {what}; give another file name or delete it"
            )
    return _decode(header["run"], stored, x0)


def _same(then: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> bool:
    """Equal up to the rounding that another number of threads may cause."""
    if then.shape != now.shape:
        return False
    size = float(np.max(np.abs(then), initial=0.0))
    return bool(np.all(np.abs(then - now) <= 1e-9 * size))


def _encode(value: Any, stored: dict[str, np.ndarray[Any, Any]]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, tuple | list):
        kind = type(value)
        name = f"{kind.__module__}:{kind.__qualname__}" if hasattr(value, "_fields") else ""
        return {"tuple": name, "parts": [_encode(part, stored) for part in value]}
    name = f"array_{len(stored)}"
    stored[name] = arrays.to_numpy(value)
    return {"array": name}


def _decode(code: Any, stored: dict[str, np.ndarray[Any, Any]], like: Array) -> Any:
    if not isinstance(code, dict):
        return code
    if "array" in code:
        return arrays.from_numpy(stored[code["array"]], like)
    parts = [_decode(part, stored, like) for part in code["parts"]]
    if not code["tuple"]:
        return tuple(parts)
    module, _, name = code["tuple"].partition(":")
    kind = (
        getattr(importlib.import_module(module), name) if module.startswith("tiebreak.") else None
    )
    if not (isinstance(kind, type) and issubclass(kind, tuple)):
        raise ValueError(f"checkpoint: {code['tuple']} is no part of tiebreak")
    return kind(*parts)
