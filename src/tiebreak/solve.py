"""The one loop: time, count, record, certify, stop, save.  Methods do none of this."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tiebreak import arrays, checkpoint, checks
from tiebreak.arrays import Array, Image
from tiebreak.certificate import Certificate, Ledger, Sums
from tiebreak.functions import Lifted, Seen, SmoothFunction
from tiebreak.methods import METHODS, AGMBiO
from tiebreak.problem import Problem
from tiebreak.result import Result, Row, Trace

Tolerance = float | tuple[float, float]


class Method(Protocol):
    """A method: parameters, a first state, and the way from one state to the next."""

    @property
    def name(self) -> str: ...

    def check(self, problem: Problem) -> None: ...

    def describe(self, problem: Problem) -> str: ...

    def init(self, problem: Problem, x0: Array) -> Any: ...

    def step(self, problem: Problem, state: Any) -> Any: ...


@dataclass(frozen=True)
class MethodInfo:
    """A line of ``tb.methods()``."""

    name: str
    paper: str
    assumptions: str
    guarantee: str


def methods() -> list[MethodInfo]:
    """The methods that ``solve`` knows by name, with paper, assumptions and guarantee."""
    return [MethodInfo(m.name, m.paper, m.assumptions, m.guarantee) for m in METHODS.values()]


class Intermediate(NamedTuple):
    """What a callback sees after every step; the gaps are proved ones."""

    x: Array
    nit: int
    upper_value: float
    lower_value: float
    upper_gap: float
    lower_gap: float
    time: float


class Counts(NamedTuple):
    """Oracle calls and passes over the data so far."""

    upper_gradients: int = 0
    lower_gradients: int = 0
    passes: int = 0


class Counted(SmoothFunction):
    """A function that counts how often it is asked; otherwise the function itself."""

    def __init__(self, function: SmoothFunction) -> None:
        self.function = function
        self.gradients = self.passed = 0
        self.dimension, self.prototype = function.dimension, function.prototype

    @property
    def lipschitz(self) -> float:  # type: ignore[override]
        return self.function.lipschitz

    @property
    def strong_convexity(self) -> float:  # type: ignore[override]
        return self.function.strong_convexity

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.function.lower_bound

    @property
    def growth(self) -> float:
        return self.function.growth

    def _count(self, lifts: int, slopes: int, values: int) -> None:
        self.gradients += slopes
        self.passed += self.function.passes(lifts, slopes, values)

    def value(self, x: Array) -> float:
        self._count(1, 0, 1)
        return self.function.value(x)

    def gradient(self, x: Array) -> Array:
        self._count(1, 1, 0)
        return self.function.gradient(x)

    def lift(self, *xs: Array) -> tuple[Image, ...]:
        self._count(len(xs), 0, 0)
        return self.function.lift(*xs)

    def look(
        self, at: Sequence[Lifted], values_at: Sequence[Lifted] = ()
    ) -> tuple[list[Seen], list[float]]:
        self._count(0, len(at), len(values_at))
        return self.function.look(at, values_at)

    def rounding(
        self, reach: float, value: float, slope: float, epsilon: float, n: int
    ) -> tuple[float, float]:
        return self.function.rounding(reach, value, slope, epsilon, n)


class Saved(NamedTuple):
    """A run as it is saved."""

    iteration: int
    seconds: float
    counts: Counts
    start_values: tuple[float, float]
    rows: tuple[Row, ...]
    sums: Sums
    state: Any


class Run:
    """A method at work on a problem: its state, its ledger, its trace, its counts, its clock."""

    def __init__(self, problem: Problem, method: Method, x0: Array, saved: Saved | None) -> None:
        self.method = method
        self.upper, self.lower = Counted(problem.upper), Counted(problem.lower)
        self.problem = replace(problem, upper=self.upper, lower=self.lower)
        self.before = saved.counts if saved else Counts()
        self.seconds_before = saved.seconds if saved else 0.0
        self.clock = time.perf_counter()
        if saved:
            self.iteration, self.rows, self.state = saved.iteration, list(saved.rows), saved.state
            self.start_values = saved.start_values
            self.ledger = Ledger(self.problem, x0, saved.sums)
        else:
            self.iteration, self.rows = 0, []
            self.state = method.init(self.problem, x0)
            self.start_values = (self.state.upper_value, self.state.lower_value)
            self.ledger = Ledger(self.problem, x0)
            self.ledger.add(self.state.news)

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.clock

    @property
    def counts(self) -> Counts:
        b = self.before
        return Counts(
            b.upper_gradients + self.upper.gradients,
            b.lower_gradients + self.lower.gradients,
            b.passes + self.upper.passed + self.lower.passed,
        )

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.state.upper_value) and math.isfinite(self.state.lower_value)

    @property
    def due(self) -> bool:
        """Is it time for a row?  After every step at first, then every tenth of the way."""
        last = self.rows[-1].iteration if self.rows else -1
        return self.iteration >= last + max(1, last // 10)

    def step(self) -> bool:
        """One step; False (and nothing changed) if it led to a value that is not finite."""
        before, self.state = self.state, self.method.step(self.problem, self.state)
        if not (self.is_finite and self.ledger.add(self.state.news)):
            self.state = before
            return False
        self.iteration += 1
        return True

    def record(self) -> Row:
        """Certify this step and append its row; the row itself if it is there already."""
        if not self.rows or self.rows[-1].iteration != self.iteration:
            state = self.state
            gaps = self.ledger.gaps(state.x, state.upper_value, state.lower_value)
            values = (state.upper_value, state.lower_value)
            self.rows.append(Row(self.iteration, self.seconds, *values, *gaps, *self.counts))
        return self.rows[-1]

    def intermediate(self) -> Intermediate:
        """This step for a callback, with the bounds of the last recorded one."""
        s, sums = self.state, self.ledger.sums
        return Intermediate(
            s.x, self.iteration, s.upper_value, s.lower_value,
            s.upper_value - sums.upper_bound, s.lower_value - sums.lower_bound, self.seconds,
        )  # fmt: skip

    def saved(self) -> Saved:
        return Saved(
            self.iteration, self.seconds, self.counts, self.start_values,
            tuple(self.rows), self.ledger.sums, self.state,
        )  # fmt: skip

    def certificate(self, x: Array) -> Certificate:
        """The whole statement about x: two more looks at f and g, exact to rounding."""
        (point,) = self.problem.lift(x)
        (upper,), _ = self.upper.look([point.f])
        _, (lower_value,) = self.lower.look([], [point.g])
        return self.ledger.certificate(x, upper, lower_value)


def solve(
    problem: Problem,
    method: str | Method = "auto",
    *,
    x0: Any = None,
    rtol: Tolerance = 1e-4,
    atol: Tolerance = 0.0,
    max_iter: int = 10_000,
    max_time: float | None = None,
    callback: Callable[[Intermediate], object] | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
) -> Result:
    """Minimise the upper objective over all minimisers of the lower one.

    Args:
        problem: the Problem.
        method: a method or its name; "auto" chooses.
        x0: where to start; the origin if None. Projected onto the domain.
        rtol, atol: one number or a pair (upper, lower). A level is met when its *proved* gap is
            at most atol + rtol * max(|value at x|, |value at x0|).
        max_iter, max_time: the most steps, the most seconds.
        callback: called at the start and after every step with an ``Intermediate`` (x, nit, both
            values, both proved gaps, time); raising StopIteration stops the run.
        progress: show a live line on standard error.
        checkpoint: a .npz file. The run is saved there now and then; a later call with the same
            problem, method and x0 goes on from it (with the step sizes that it was planned with).

    Returns:
        A Result; ``print(result)`` says what is proved and what is not.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"solve: problem must be a Problem, got {checks.what_it_is(problem)}")
    chosen = _find_method(method, problem)
    relative, absolute = _pair(rtol, "rtol"), _pair(atol, "atol")
    checks.whole("solve", "max_iter", max_iter)
    if max_time is not None:
        checks.positive("solve", "max_time", max_time)
    if callback is not None and not callable(callback):
        raise TypeError(f"solve: callback must be callable, got {type(callback).__name__}")
    start = problem.start(x0)
    _check_functions("solve", problem, start)
    chosen.check(problem)
    store = _Store(checkpoint, problem, chosen, start)
    if isinstance(chosen, AGMBiO) and chosen.horizon is None:
        chosen = replace(chosen, horizon=max(max_iter, 1))

    with _interrupt_flag() as interrupted, arrays.quiet():
        run = Run(problem, chosen, start, store.load())
        tolerance, status, advice, shown = (math.nan, math.nan), "", "", -math.inf
        while not status:
            last_step = run.iteration >= max_iter
            out_of_time = max_time is not None and run.seconds >= max_time
            if run.due or last_step or out_of_time or interrupted():
                row = run.record()
                tolerance = _tolerance(row, run.start_values, relative, absolute)
                if row.upper_gap <= tolerance[0] and row.lower_gap <= tolerance[1]:
                    status = "certified"
                if progress and run.seconds >= shown + 0.1:
                    shown = run.seconds
                    _show(row)
            try:
                if callback is not None:
                    callback(run.intermediate())
                if status:
                    pass
                elif interrupted():
                    status = "stopped"
                elif last_step:
                    status = "max_iter"
                elif out_of_time:
                    status = "max_time"
                elif not run.step():
                    status, advice = "nonfinite", _nonfinite_advice(run)
                else:
                    store.save_when_due(run)
            except (StopIteration, KeyboardInterrupt):
                status = status or "stopped"
        store.save(run)
        row = run.record()
        if progress:
            _show(row, end="\n")
        tolerance = _tolerance(row, run.start_values, relative, absolute)
        proof = run.certificate(run.state.x)

    return Result(
        x=run.state.x,
        certificate=proof,
        tolerance=tolerance,
        start_values=run.start_values,
        status=status,
        advice=advice or _advice(problem, run, status, tolerance, max_iter),
        nit=run.iteration,
        time=run.seconds,
        method=f"{'auto: ' if method == 'auto' else ''}{chosen.describe(problem)}",
        trace=Trace(run.rows),
        problem=problem,
    )


def certify(problem: Problem, x: Any, max_iter: int = 2_000) -> Certificate:
    """What can be proved about ``x``, a point from anywhere.

    Spends oracle calls of its own: AGM-BiO from the projection of x collects minorants until
    both gaps of x have stopped shrinking (less than one percent over a doubling of the steps), or
    max_iter steps are taken.  The proof does not rely on where x came from.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"certify: problem must be a Problem, got {checks.what_it_is(problem)}")
    checks.whole("certify", "max_iter", max_iter)
    x = problem.point(x, "certify", "x")
    start = problem.start(x)
    _check_functions("certify", problem, start)
    method = AGMBiO(horizon=max(max_iter, 1))
    method.check(problem)
    with arrays.quiet():
        run = Run(problem, method, start, None)
        proof = run.certificate(x)
        look_at = 32
        while run.iteration < max_iter and run.step():
            if run.iteration == look_at or run.iteration == max_iter:
                before, proof = proof, run.certificate(x)
                look_at *= 2
                if _settled(before.upper_gap, proof.upper_gap, proof.upper_value) and _settled(
                    before.lower_gap, proof.lower_gap, proof.lower_value
                ):
                    break
    return proof


def _settled(before: float, after: float, value: float) -> bool:
    """Has a gap stopped shrinking (or is it at the level of rounding)?"""
    if math.isinf(before) or math.isinf(after):
        return before == after
    return before - after <= 1e-2 * abs(before) or after <= 1e-12 * abs(value)


# -- checks ---------------------------------------------------------------------------------------


def _find_method(method: str | Method, problem: Problem) -> Method:
    if isinstance(method, str):
        if method == "auto":
            return _automatic(problem)
        if method in METHODS:
            return METHODS[method]()
        known = ", ".join(["auto", *METHODS])
        raise ValueError(f"solve: unknown method {method!r}, known are {known}")
    if isinstance(method, type) or not all(hasattr(method, name) for name in ("init", "step")):
        raise TypeError(
            "solve: method must be a name or an object such as AGMBiO(), "
            f"got {checks.what_it_is(method)}"
        )
    return method


def _automatic(problem: Problem) -> Method:
    """AGM-BiO: gamma by theorem where an error bound is known, else the paper's own 1e-2.

    Without an error bound Theorem 1 allows gamma = 1, but then the lower gap shrinks like 1/k
    only; the paper's regression experiment uses 1e-2, and so do we.
    """
    known = problem.error_bound is not None or problem.growth > 0.0
    return AGMBiO() if known else AGMBiO(gamma=1e-2)


def _pair(value: Tolerance, name: str) -> tuple[float, float]:
    pair = value if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2:
        raise ValueError(f"solve: {name} must be one number or a pair, got {len(pair)} numbers")
    upper, lower = (checks.at_least("solve", name, number) for number in pair)
    return upper, lower


def _check_functions(owner: str, problem: Problem, x: Array) -> None:
    """Do both functions give a finite number and a finite vector of the right length at x?"""
    for name, h in (("upper", problem.upper), ("lower", problem.lower)):
        value = h.value(x)
        if not math.isfinite(value):
            raise ValueError(
                f"{owner}: the value of {name} must be finite at the start, got {value}"
            )
        slope = h.gradient(x)
        if not arrays.is_array(slope) or tuple(slope.shape) != tuple(x.shape):
            raise ValueError(
                f"{owner}: the gradient of {name} must be a vector of {x.shape[0]} entries, "
                f"got {checks.what_it_is(slope)}"
            )
        if getattr(slope.dtype, "kind", "f") != "f":
            raise TypeError(
                f"{owner}: the gradient of {name} must hold real floating-point numbers, "
                f"got dtype {slope.dtype}"
            )
        if not arrays.all_finite(slope):
            raise ValueError(
                f"{owner}: the gradient of {name} must be finite at the start, "
                "got NaN or infinite entries"
            )


def _tolerance(
    row: Row,
    start: tuple[float, float],
    relative: tuple[float, float],
    absolute: tuple[float, float],
) -> tuple[float, float]:
    """atol + rtol max(|value at x|, |value at x0|), for both levels."""
    values = (row.upper_value, row.lower_value)
    upper, lower = (
        a + r * max(abs(v), abs(v0))
        for a, r, v, v0 in zip(absolute, relative, values, start, strict=True)
    )
    return upper, lower


# -- advice ---------------------------------------------------------------------------------------


def _nonfinite_advice(run: Run) -> str:
    return (
        f"step {run.iteration + 1} gave a value of the upper or lower level that is not a finite "
        "number: check the functions away from x0, and their scale"
    )


def _advice(
    problem: Problem, run: Run, status: str, tolerance: tuple[float, float], max_iter: int
) -> str:
    """What to do next, in a sentence or two."""
    steep = [
        name
        for name, count in zip(("upper", "lower"), getattr(run.state, "steep", (0, 0)), strict=True)
        if count
    ]
    parts = []
    if steep:
        parts.append(
            f"The {' and the '.join(steep)} function rises faster than its Lipschitz constant "
            "allows, so the theorem's rate does not hold (the proof does): give a larger lipschitz"
        )
    if run.ledger.is_contradicted:
        sums = run.ledger.sums
        return (
            f"What you promised cannot be true: by it g* >= {sums.lower_bound:.6g}, yet g has the "
            f"value {sums.ghat:.6g} in the domain. Check radius, and lower_bound and "
            "strong_convexity of Smooth functions"
        )
    if status in ("max_iter", "max_time", "stopped"):
        row = run.rows[-1]
        gaps = (row.upper_gap, row.lower_gap)
        for name, letter, gap in zip(("upper", "lower"), "fg", gaps, strict=True):
            if math.isinf(gap):
                parts.append(
                    f"Nothing bounds {letter}* from below on this unbounded domain: give "
                    "Problem(radius=...) if you know that some solution has |x| <= radius, or a "
                    f"bounded domain, or a strongly convex {name} function"
                )
        if all(map(math.isfinite, gaps)) and min(tolerance) > 0.0:
            missing = max(g / t for g, t in zip(gaps, tolerance, strict=True))
            steps = _steps_needed(run.rows, tolerance)
            if steps is not None:
                parts.append(
                    f"The wider gap is {missing:.2g} times the tolerance; at the present rate "
                    f"about {steps:,} steps would do (max_iter is {max_iter:,})"
                )
            else:
                parts.append(
                    f"The wider gap is {missing:.2g} times the tolerance and hardly shrinks: "
                    "relax rtol, or try another gamma (a smaller one favours the lower level)"
                )
    return ". ".join(parts)


def _steps_needed(rows: Sequence[Row], tolerance: tuple[float, float]) -> int | None:
    """How many steps both gaps need if they go on shrinking as they did since half-way."""
    last = rows[-1]
    if last.iteration < 8:
        return None
    half = min(rows, key=lambda row: abs(row.iteration - last.iteration / 2))
    needed = float(last.iteration)
    for level, asked in zip(("upper_gap", "lower_gap"), tolerance, strict=True):
        now, then = getattr(last, level), getattr(half, level)
        if now <= asked:
            continue
        if not (math.isfinite(then) and now < then and asked > 0.0):
            return None
        rate = math.log(then / now) / math.log(last.iteration / half.iteration)
        if rate < 0.1:
            return None
        needed = max(needed, last.iteration * (now / asked) ** (1.0 / rate))
    digits = 2 - len(str(int(needed)))  # two of them are honest
    return int(round(needed, digits)) if needed < 1e12 else None


# -- around the loop ------------------------------------------------------------------------------


@contextlib.contextmanager
def _interrupt_flag() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C into a flag, so that no step is cut in half; the second one raises."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


class _Store:
    """Where a run is saved, if anywhere; saving takes at most a twentieth of the time."""

    def __init__(
        self, path: str | Path | None, problem: Problem, method: Method, x0: Array
    ) -> None:
        self.path = None if path is None else _checkpoint_path(path)
        self.x0 = x0
        if self.path is not None:
            self.who = checkpoint.identity(problem, method, x0)
        self._due = 0.0

    def load(self) -> Saved | None:
        if self.path is None or not self.path.exists():
            return None
        saved: Saved = checkpoint.load(self.path, self.who, self.x0)
        return saved

    def save(self, run: Run) -> None:
        if self.path is None:
            return
        began = time.perf_counter()
        checkpoint.save(self.path, self.who, run.saved())
        ended = time.perf_counter()
        self._due = ended + 20.0 * (ended - began)

    def save_when_due(self, run: Run) -> None:
        if self.path is not None and time.perf_counter() >= self._due:
            self.save(run)


def _checkpoint_path(path: str | Path) -> Path:
    if not isinstance(path, str | Path):
        raise TypeError(f"solve: checkpoint must be a file name, got {type(path).__name__}")
    target = Path(path)
    if target.suffix != ".npz":
        raise ValueError(f"solve: checkpoint must be a .npz file, got {str(path)!r}")
    if not target.parent.is_dir():
        raise ValueError(f"solve: checkpoint must lie in a folder that exists, got {str(path)!r}")
    return target


def _show(row: Row, end: str = "") -> None:
    """The live line."""
    print(
        f"\rstep {row.iteration:>7,}   f {row.upper_value:<13.7g} gap {row.upper_gap:<9.2e}   "
        f"g {row.lower_value:<13.7g} gap {row.lower_gap:<9.2e}   {row.seconds:7.1f} s",
        end=end,
        file=sys.stderr,
        flush=True,
    )
