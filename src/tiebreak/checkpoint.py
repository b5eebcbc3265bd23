"""Saving a run and going on from there: one .npz file, written atomically, never unpickled.

Nested tuples of arrays and numbers are stored as they are: the arrays end to end as bytes, and one
JSON text that says how they were nested, with everything else.
"""

from __future__ import annotations

import importlib
import json
import os
import re
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


def identity(problem: Problem, method: object, x0: Array) -> dict[str, Any]:
    """What tells a problem from another: values, slopes and projections at some points, constants.

    Works for matrices, operators and plain callables alike, and costs two looks at the data.
    """
    n = int(x0.shape[0])
    f, g, bound = problem.upper, problem.lower, problem.error_bound
    direction = arrays.like(np.random.default_rng(0).standard_normal(n), x0)
    probe = problem.domain.project(x0 + direction)
    far = problem.domain.project(x0 + 1e6 * (1.0 + arrays.norm(x0)) * direction)
    constants = [
        f.lipschitz, g.lipschitz, f.strong_convexity, g.strong_convexity, problem.radius or 0.0,
        problem.domain.diameter_in(n), arrays.epsilon(x0),
        *((bound.order, bound.modulus, bound.gradient_bound) if bound else (0.0, 0.0, 0.0)),
    ]  # fmt: skip
    seen = {"x0": arrays.to_numpy(x0), "domain": arrays.to_numpy(far)}
    for level, function in (("upper", f), ("lower", g)):
        seen[f"{level} value"] = np.asarray([function.value(x0), function.value(probe)])
        seen[f"{level} slope"] = arrays.to_numpy(function.gradient(probe))
    seen["constants"] = np.asarray(constants)
    return {"seen": seen, "method": re.sub(r" at 0x[0-9a-f]+", "", repr(method))}


def save(path: Path, who: dict[str, Any], run: Any) -> None:
    """Save ``run`` (nested tuples of arrays and numbers) for the problem and method ``who``."""
    blob = bytearray()  # all arrays end to end: many small entries would make the file slow
    header = {
        "format": FORMAT,
        "method": who["method"],
        "seen": {name: _encode(value, blob) for name, value in who["seen"].items()},
        "run": _encode(run, blob),
    }
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    data = np.frombuffer(bytes(blob), dtype=np.uint8)
    write_atomically(path, lambda file: np.savez(file, header=text, data=data))


def load(path: Path, who: dict[str, Any], x0: Array) -> Any:
    """The run saved at ``path``; one clear sentence if it belongs to something else."""
    otherwise = "give another file name or delete it"
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            data = file["data"].tobytes()
            header = json.loads(file["header"].tobytes())
        version, method, seen, run = (header[key] for key in ("format", "method", "seen", "run"))
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
    if method != who["method"]:
        raise ValueError(
            f"checkpoint: {path} belongs to another method ({method}, now {who['method']}); "
            f"{otherwise}"
        )
    try:
        then = {name: _decode(code, data, np.empty(0)) for name, code in seen.items()}
        saved = _decode(run, data, x0)
    except (TypeError, KeyError, ValueError, AttributeError, ImportError):
        raise ValueError(
            f"checkpoint: {path} was written by another version of tiebreak; {otherwise}"
        ) from None
    for name, now in who["seen"].items():
        if name not in then or not _same(then[name], now):
            what = "another start" if name == "x0" else f"another problem ({name} differs)"
            raise ValueError(f"checkpoint: {path} belongs to {what}; {otherwise}")
    return saved


def _same(then: np.ndarray[Any, Any], now: np.ndarray[Any, Any]) -> bool:
    """Equal up to the rounding that another number of threads may cause."""
    if then.shape != now.shape:
        return False
    finite = np.isfinite(then)
    size = float(np.max(np.abs(then[finite]), initial=0.0))
    near = np.abs(then[finite] - now[finite]) <= 1e-9 * size
    return bool(np.all(near)) and np.array_equal(then[~finite], now[~finite])


def _encode(value: Any, blob: bytearray) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, tuple | list):
        kind = type(value)
        name = f"{kind.__module__}:{kind.__qualname__}" if hasattr(value, "_fields") else ""
        return {"tuple": name, "parts": [_encode(part, blob) for part in value]}
    array = arrays.to_numpy(value)
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
