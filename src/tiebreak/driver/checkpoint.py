"""Save a run and resume it, using a .npz file of arrays and records (see `linalg.archive`).

Damaged files are rejected if they hold values that no run can have (NaN, a vector of the wrong
length, a bound that is infinite on the wrong side). Carefully forged bounds are trusted: anyone who
can write your files can change your data as well.
"""

from __future__ import annotations

import math
import re
import time
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.algorithms import Method
from tiebreak.driver.run import Run, Saved
from tiebreak.functions import Smooth
from tiebreak.linalg import Array, arrays, deadline
from tiebreak.linalg.archive import Reader, Writer, npz_path
from tiebreak.linalg.fingerprints import digest
from tiebreak.problem import Problem
from tiebreak.proofs.bounds import Sums
from tiebreak.proofs.models import Model

HEADER = "checkpoint"  # the name of the JSON text in the archive
RUN_FORMAT = 14  # increased whenever older files can no longer be resumed exactly
# distances from x0 at which callables are evaluated, relative to 1 + |x0|
SCALES = (1e-2, 1.0, 1e6)


class Store:
    """Saves a run to a file, if one is given, using at most a twentieth of the run's time."""

    def __init__(
        self, path: str | Path | None, problem: Problem, method: Method, x0: Array
    ) -> None:
        self.path: Path | None = None if path is None else npz_path("solve", "checkpoint", path)
        self.x0 = x0
        self.who: dict[str, str] = {} if self.path is None else identity(problem, method, x0)
        self._due, self._has_warned = 0.0, False

    def load(self) -> Saved | None:
        """Return the saved run, or None if there is no file; raise if the file does not match."""
        path, who, otherwise = self.path, self.who, "give another file name or delete it"
        if path is None or not path.exists():
            return None
        try:
            with zipfile.ZipFile(path) as archive:
                reader = RunReader(archive, path.stat().st_size, self.x0)
                header = reader.header(HEADER)
                version, then = header["format"], dict(header["who"])
                run = reader.run(header["run"]) if (version, then) == (RUN_FORMAT, who) else None
        except Exception as error:  # zipfile, zlib, json and NumPy may raise anything
            raise ValueError(
                f"checkpoint: {path} is not a tiebreak checkpoint ({type(error).__name__}); "
                f"{otherwise}"
            ) from None
        if version != RUN_FORMAT:
            raise ValueError(
                f"checkpoint: {path} has format {version}, but this version needs {RUN_FORMAT}; "
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
        if run is None:
            raise ValueError(
                f"checkpoint: {path} contains no run from this version of tiebreak; {otherwise}"
            )
        return run

    def save(self, run: Run) -> None:
        """Save the run now; warn once if saving fails."""
        if self.path is None:
            return
        began = time.perf_counter()
        try:
            writer = RunWriter("checkpoint")
            saved = writer.encode("run", run.saved())
            header = {"format": RUN_FORMAT, "who": self.who, "run": saved}
            writer.write(self.path, header, HEADER)
        except (OSError, TypeError) as error:
            if not self._has_warned:
                what = f"checkpoint: {self.path} could not be written ({error}); the run continues"
                warnings.warn(what, RuntimeWarning, stacklevel=3)
            self._has_warned = True
        ended = time.perf_counter()
        # The next save waits 20 times the duration of the current one.
        self._due = ended + 20.0 * (ended - began)

    def save_when_due(self, run: Run) -> None:
        """Save the run if the last save was long enough ago."""
        if self.path is not None and time.perf_counter() >= self._due:
            self.save(run)


def identity(problem: Problem, method: object, x0: Array) -> dict[str, str]:
    """Identify a run by a digest of each of its parts, which covers every bit of the data.

    Plain callables are identified by their values and slopes at seven points of the domain: x0, and
    for each of SCALES one point on either side of x0 along a random direction. Two callables that
    agree at all seven points are taken to be the same: there is no certain way to compare
    callables.
    """
    n, rng = int(x0.shape[0]), np.random.default_rng(0)
    probes = [x0]
    for scale in SCALES:
        away = scale * (1.0 + arrays.norm(x0)) * arrays.like(rng.standard_normal(n), x0)
        probes += [problem.domain.projected(at) for at in (x0 + away, x0 - away)]
    promises, asked = (problem.radius, problem.error_bound), partial(_asked, probes)
    # compute these parts now, so that the digest contains them
    _ = problem.upper.lipschitz, problem.lower.lipschitz
    return {
        "method": re.sub(r" at 0x[0-9a-f]+", "", repr(method)),
        "start": digest(x0),
        "upper": digest(problem.upper, asked),
        "lower": digest(problem.lower, asked),
        "domain": digest(problem.domain),
        "promises": digest(promises),
        "counted": digest(problem.counted),
    }


def _asked(probes: Sequence[Array], part: object) -> Iterable[Any] | None:
    """Return the constants, and the values and slopes at the probes, that identify a callable."""
    if not isinstance(part, Smooth):
        return None
    constants = part.lipschitz, part.strong_convexity, part.lower_bound
    return [constants, *(_value_and_slope(part, x) for x in probes)]


def _value_and_slope(function: Smooth, x: Array) -> object:
    """Evaluate a callable, or return the error if it is not defined there: both identify it."""
    deadline.check()
    try:
        with arrays.quiet():
            return function.value(x), function.gradient(x)
    except (ArithmeticError, ValueError) as error:  # such as math.exp(1000), math.log(-1)
        return repr(error)


class RunWriter(Writer):
    """Writes a run to an archive."""

    def refusal(self, where: str, value: Any) -> TypeError:
        return TypeError(
            "the state of a method must consist of numbers, arrays and records that have a keyword "
            f"in files (tiebreak.linalg.in_files), got {type(value).__name__} for {where}"
        )


class RunReader(Reader):
    """Reads a run from an archive; its arrays come from the same library as the start ``x0``."""

    def __init__(self, archive: zipfile.ZipFile, size: int, x0: Array) -> None:
        super().__init__(archive, size)
        self._x0 = x0

    def array(self, name: str) -> Array:
        found = super().array(name)
        if found.dtype.kind != "f" or not np.all(np.isfinite(found)):
            raise ValueError
        return arrays.from_numpy(found, self._x0)

    def run(self, code: Any) -> Saved | None:
        """Return the run that the JSON describes, or None if it describes something else."""
        try:
            return _sound(self.decode(code), self._x0)
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError, RecursionError):
            return None


def _sound(run: Saved, x0: Array) -> Saved:
    """Return the run; raise ValueError if it holds values that no run can have."""
    sums = run.sums
    is_sound = (
        isinstance(run, Saved)
        and isinstance(sums, Sums)
        and all(map(_is_model, sums.models))
        and all(m.slope.shape == x0.shape for m in sums.models)
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
