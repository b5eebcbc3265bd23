"""Saving a run and going on from there: one .npz file, written atomically, never unpickled.

Nested tuples of arrays and numbers are stored as they are: the arrays end to end as bytes, and one
JSON text that says how they were nested, with everything else. A named tuple goes by its name in
TYPES, so that reading a file imports and calls nothing but these.

Accidents are noticed: the archive has check sums, and what no run can hold (NaN, a vector of
another length, a bound of the wrong sign of infinity) is refused. Bounds that were forged with care
are believed: who can write your files could change your data as well.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.algorithms import (
    DirectState,
    Method,
    accelerated,
    adaptive,
    fista,
    levels,
    momentum,
    primal_dual,
)
from tiebreak.algorithms.rivals import a_irg, alternating, bi_sg, bisec_bio, cg_bio, sea
from tiebreak.auto import (
    bregman_state,
    candidates,
    conjugate_gradients,
    hessian_differences,
    quasi_newton,
)
from tiebreak.conic.chain import LevelSolution
from tiebreak.conic.method import ConicFindings
from tiebreak.driver.run import Counts, Least, Run, Saved
from tiebreak.driver.trace import Row
from tiebreak.exact.method import ExactFindings
from tiebreak.functions import Groups, Minorant, Smooth
from tiebreak.linalg import Array, DeferredImage, Matrix, arrays, deadline
from tiebreak.linalg.archive import write_atomically
from tiebreak.linalg.fingerprints import Inputs
from tiebreak.problem import Point, Problem
from tiebreak.proofs.bounds import Block, Bound, Sums
from tiebreak.proofs.certificate import Standing
from tiebreak.proofs.evidence import Intervals, StepEvidence
from tiebreak.proofs.gate import Ended
from tiebreak.proofs.models import Model
from tiebreak.sets import Products, projected

PAUSE = 20.0  # times what saving took: so long until the next time
FORMAT = 11  # raised whenever an older file could not be continued faithfully
SCALES = (1e-2, 1.0, 1e6)  # how far from x0 callables are asked, relative to 1 + |x0|

# Everything that a run is made of, by the names that files use. They change only with the format.
TYPES: dict[str, Any] = {
    "run": Saved,
    "least": Least,
    "standing": Standing,
    "ended": Ended,
    "counts": Counts,
    "row": Row,
    "sums": Sums,
    "bound": Bound,
    "block": Block,
    "model": Model,
    "evidence": StepEvidence,
    "intervals": Intervals,
    "minorant": Minorant,
    "point": Point,
    "products": Products,
    "a-irg": a_irg.State,
    "accelerated": accelerated.State,
    "accelerated.ahead": accelerated.GradientStep,
    "accelerated.auxiliary": levels.LevelRun,
    "adaptive": adaptive.State,
    "adaptive.momentum": momentum.Momentum,
    "adaptive.minorants": momentum.Minorants,
    "adaptive.alternation": alternating.Alternation,
    "fista": fista.State,
    "fista.iterate": fista.Fista,
    "bi-sg": bi_sg.State,
    "bisec-bio": bisec_bio.State,
    "bisec-bio.call": bisec_bio.Call,
    "cg-bio": cg_bio.State,
    "conic.findings": ConicFindings,
    "conic.level": LevelSolution,
    "exact": DirectState,
    "exact.findings": ExactFindings,
    "bregman": bregman_state.State,
    "bregman.objective": bregman_state.RoundObjective,
    "bregman.proof": bregman_state.Proof,
    "bregman.inverse-hessian": quasi_newton.InverseHessian,
    "bregman.hessians": hessian_differences.HessianDifferences,
    "bregman.conjugate-gradients": conjugate_gradients.ConjugateGradients,
    "portfolio": candidates.State,
    "portfolio.runner": candidates.Runner,
    "primal-dual": primal_dual.State,
    "primal-dual.mark": primal_dual.Mark,
    "sea": sea.State,
}
PIECES: dict[type, Callable[[Any], Iterable[Any]]] = {
    Inputs: lambda part: (),  # the arrays of the user, of which the part has its own
    Matrix: lambda part: (part.signature,),
    Groups: lambda part: (part.labels, part.length),
    tuple: iter,
    list: iter,
}
NAMES = {kind: name for name, kind in TYPES.items()}


class Store:
    """Where a run is saved, if anywhere; saving takes at most a twentieth of the time."""

    def __init__(
        self, path: str | Path | None, problem: Problem, method: Method, x0: Array
    ) -> None:
        self.path: Path | None = None if path is None else npz_path("solve", "checkpoint", path)
        self.x0 = x0
        if self.path is not None:
            self.who: dict[str, str] = identity(problem, method, x0)
        self._due, self._has_warned = 0.0, False

    def load(self) -> Saved | None:
        """The run saved there, None where there is none."""
        if self.path is None or not self.path.exists():
            return None
        return load(self.path, self.who, self.x0)

    def save(self, run: Run) -> None:
        """Save the run now; a warning, once, where that cannot be done."""
        if self.path is None:
            return
        began = time.perf_counter()
        try:
            save(self.path, self.who, run.saved())
        except (OSError, TypeError) as error:
            if not self._has_warned:
                what = f"checkpoint: {self.path} could not be written ({error}); the run goes on"
                warnings.warn(what, RuntimeWarning, stacklevel=3)
            self._has_warned = True
        ended = time.perf_counter()
        self._due = ended + PAUSE * (ended - began)

    def save_when_due(self, run: Run) -> None:
        """Save the run where that was not done for a while."""
        if self.path is not None and time.perf_counter() >= self._due:
            self.save(run)


def npz_path(owner: str, name: str, path: str | Path) -> Path:
    """Where a .npz file is to be written, as an argument of that name says."""
    if not isinstance(path, str | Path):
        raise TypeError(f"{owner}: {name} must be a file name, got {type(path).__name__}")
    target = Path(path)
    if target.suffix != ".npz":
        raise ValueError(f"{owner}: {name} must be a .npz file, got {str(path)!r}")
    if not target.parent.is_dir():
        raise ValueError(f"{owner}: {name} must lie in a folder that exists, got {str(path)!r}")
    return target


def identity(problem: Problem, method: object, x0: Array) -> dict[str, str]:
    """What tells a run from another: a digest of each part, down to the last bit of the data.

    Plain callables are told apart by their values and slopes at seven points of the domain: x0, and
    both ways along a direction for each of SCALES. Two that agree at all of them, though they
    differ elsewhere, are taken for one another: more cannot be known of a callable.
    """
    n, rng = int(x0.shape[0]), np.random.default_rng(0)
    probes = [x0]
    for scale in SCALES:
        away = scale * (1.0 + arrays.norm(x0)) * arrays.like(rng.standard_normal(n), x0)
        probes += [projected(problem.domain, at) for at in (x0 + away, x0 - away)]
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
        pieces = _pieces(part, probes)
        if pieces is not None:
            for piece in pieces:
                take(piece)
        elif arrays.is_array(part):
            array = arrays.to_numpy(part)
            state.update(f"{array.dtype.str}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).tobytes())
        elif hasattr(part, "__dict__"):
            state.update(type(part).__qualname__.encode())
            for name, piece in _members(part):
                state.update(name.encode())
                take(piece)
        else:
            state.update(repr(part).encode())

    take(value)
    return state.hexdigest()


def _pieces(part: Any, probes: Sequence[Array]) -> Iterable[Any] | None:
    """What tells a part from others, where that is neither its numbers nor its members."""
    for kind, pieces in PIECES.items():
        if isinstance(part, kind):
            return pieces(part)
    if isinstance(part, Smooth):
        constants = part.lipschitz, part.strong_convexity, part.lower_bound
        return [constants, *(_asked(part, x) for x in probes)]
    if arrays.is_sparse(part):
        return [part.data, part.indices, part.indptr, np.asarray(part.shape)]
    return None


def _members(part: Any) -> Iterator[tuple[str, Any]]:
    """The members of an object by their names, without what was only found out once and kept."""
    for name, piece in sorted(vars(part).items()):
        is_cache = isinstance(getattr(type(part), name, None), cached_property)
        if name == "lipschitz" or not is_cache:  # the user's own constants count
            yield name, piece


def _asked(function: Smooth, x: Array) -> object:
    """Value and slope at x; far away a callable may overflow, and that tells it apart as well."""
    deadline.check()
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


def load(path: Path, who: dict[str, str], x0: Array) -> Saved:
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
        return _sound(_decode(run, data, x0), x0)
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError, RecursionError):
        raise ValueError(
            f"checkpoint: {path} holds no run of this version of tiebreak; {otherwise}"
        ) from None


def _sound(run: Saved, x0: Array) -> Saved:
    """The run itself; ValueError where it holds what no run can hold."""
    sums = run.sums
    models = [m for block in sums.blocks for m in block]
    lasts = (sums.last_upper, sums.last_cut, sums.last_lower, sums.kept_cut)
    models += [m for m in lasts if m is not None]
    is_sound = (
        isinstance(run, Saved)
        and isinstance(sums, Sums)
        and all(map(_is_model, models))
        and all(m.slope.shape == x0.shape for m in models)
        and run.state.x.shape == x0.shape
        and math.isfinite(run.state.upper_value + run.state.lower_value)
        and all(map(math.isfinite, run.start_values))
        and run.iteration >= 0
        and 0.0 <= run.seconds < math.inf
        and max(sums.upper_bound, sums.lower_bound) < math.inf
        and min(sums.upper_ceiling, sums.ghat) > -math.inf
        and not math.isnan(sums.upper_bound + sums.lower_bound)
        and not math.isnan(sums.upper_ceiling + sums.ghat)
    )
    if not is_sound:
        raise ValueError
    return run


def _is_model(model: Model) -> bool:
    sizes = (model.upper, model.lower, model.value_error, model.slope_error)
    return model.is_finite and all(0.0 <= size < math.inf for size in sizes)


def _encode(value: Any, blob: bytearray) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, tuple | list):
        name = NAMES.get(type(value), "")
        if not name and type(value) not in (tuple, list):
            raise TypeError(f"the state of a method must be one of ours, got {type(value)!r}")
        return {"tuple": name, "parts": [_encode(part, blob) for part in value]}
    array = arrays.to_numpy(value.saved() if isinstance(value, DeferredImage) else value)
    code = {"dtype": array.dtype.str, "shape": list(array.shape), "at": len(blob)}
    blob += array.tobytes()
    return code


def _decode(code: Any, data: bytes, like: Array) -> Any:
    if not isinstance(code, dict):
        return code
    if "dtype" in code:
        kind, count = np.dtype(code["dtype"]), math.prod(code["shape"])
        flat = np.frombuffer(data, dtype=kind, count=count, offset=code["at"])
        if kind.kind != "f" or not np.all(np.isfinite(flat)):
            raise ValueError
        return arrays.from_numpy(flat.reshape(code["shape"]).copy(), like)
    parts = [_decode(part, data, like) for part in code["parts"]]
    return TYPES[code["tuple"]](*parts) if code["tuple"] else tuple(parts)
