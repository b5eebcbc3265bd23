"""The one loop: time, count, record, certify, stop, save.  Methods do none of this."""

from __future__ import annotations

import contextlib
import functools
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebreak import arrays, checkpoint, checks
from tiebreak.advice import after_nonfinite, what_next
from tiebreak.arrays import Array
from tiebreak.certificate import Certificate, News
from tiebreak.matrices import Swept
from tiebreak.methods import METHODS, AGMBiO, PAGMBiO
from tiebreak.methods.claims import prove_at
from tiebreak.methods.roads import choose, first_order, in_double, refusal
from tiebreak.problem import Problem
from tiebreak.recession import NoMinimum, Watch
from tiebreak.result import SUCCESSES, Result, Row, Trace
from tiebreak.run import Intermediate, Method, Run, Saved
from tiebreak.structure import parts_of

Tolerance = float | tuple[float, float]
ROUNDED = "rounded to single precision, x is not as good as asked: pass data in float64"
ENDINGS = ("max_iter", "max_time", "solved", "failed")  # of a run that may have proved before


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
        progress: show a live line on standard error; where rows are streamed, with the pass.
        checkpoint: a .npz file. The run is saved there now and then; a later call with the same
            problem, method and x0 goes on from it (with the step sizes that it was planned with).

    Returns:
        A Result; ``print(result)`` says what is proved and what is not.
    """
    began = time.perf_counter()
    if not isinstance(problem, Problem):
        raise TypeError(f"solve: problem must be a Problem, got {checks.what_it_is(problem)}")
    chosen = find_method(method, problem)
    relative, absolute = _pair(rtol, "rtol"), _pair(atol, "atol")
    checks.whole("solve", "max_iter", max_iter)
    if max_time is not None:
        checks.positive("solve", "max_time", max_time)
    if callback is not None and not callable(callback):
        raise TypeError(f"solve: callback must be callable, got {type(callback).__name__}")
    start = problem.start(x0)
    _check_functions("solve", problem, start)
    asked, given, is_auto = problem, start, method == "auto"
    if is_auto and (problem := in_double(asked)) is not asked:
        start, chosen = arrays.double(start), choose(problem)
    chosen.check(problem)
    store = _Store(checkpoint, problem, chosen, start)
    if hasattr(chosen, "planned"):
        chosen = chosen.planned(max(max_iter, 1))

    def left() -> float:
        return math.inf if max_time is None else max_time - run.seconds

    live = _Live(problem, progress)
    with live, _interrupt_flag() as interrupted, arrays.quiet():
        run = Run(problem, chosen, start, store.load(), began)
        run.relative, run.absolute = relative, absolute
        watch = Watch(problem, start)
        fall: NoMinimum | None = None
        tolerance, status, advice = (math.nan, math.nan), "", ""
        while not status:
            last_step = run.iteration >= max_iter
            out_of_time = max_time is not None and run.seconds >= max_time
            # A run that goes on may have its row already.
            is_first = math.isnan(tolerance[0]) and run.is_recorded
            is_last = last_step or out_of_time or interrupted() or bool(run.finished[0])
            if is_first or run.due or is_last:
                row = run.record()
                tolerance = run.asked
                is_met = row.upper_gap <= tolerance[0] and row.lower_gap <= tolerance[1]
                if is_met and (is_last or not run.is_settling):
                    status = "certified"
                live.show(row)
                gaps = row.upper_gap, row.lower_gap
                if fall := watch.look(run.iteration, run.state.x, gaps, left()):
                    status, advice = fall.status, fall.sentence
            try:
                if callback is not None:
                    now = run.intermediate()
                    callback(now._replace(x=arrays.like(now.x, given)))
                if status:
                    pass
                elif run.finished[0]:
                    status, advice = run.finished
                elif interrupted():
                    status = "stopped"
                elif last_step or out_of_time:
                    status, advice = run.answer
                    status = status or ("max_iter" if last_step else "max_time")
                elif not run.step():
                    status, advice = "failed", after_nonfinite(run)
                else:
                    store.save_when_due(run)
            except (StopIteration, KeyboardInterrupt):
                status = status or "stopped"
        store.save(run)
        if status in ENDINGS and _has_fallen_back(run):
            status, advice = "certified", ""
        if status in (*SUCCESSES, "max_iter", "max_time"):
            row = run.record()
            gaps = row.upper_gap, row.lower_gap
            fall = watch.last(run.state.x, gaps, status in SUCCESSES, left())
            status, advice = (fall.status, fall.sentence) if fall else (status, advice)
        row = run.record()
        live.end(row)
        tolerance = run.asked
        x = arrays.like(run.state.x, given)
        proof = run.certificate(arrays.like(x, run.state.x))  # as it is, in a wider precision too
        is_met = proof.upper_gap <= tolerance[0] and proof.lower_gap <= tolerance[1]
        if status == "certified" and arrays.epsilon(x) > arrays.epsilon(start) and not is_met:
            status, advice = "solved", ROUNDED
        if status == "unbounded":
            proof = proof.without_upper()
        if run.ledger.is_contradicted:
            status, advice = "failed" if status in SUCCESSES else status, ""

    return Result(
        x=x,
        certificate=proof,
        tolerance=tolerance,
        start_values=run.start_values,
        status=status,
        advice=advice or what_next(run, status, tolerance, max_iter),
        nit=run.iteration,
        time=run.seconds,
        method=f"{'auto: ' if is_auto else ''}{run.described}",
        trace=Trace(run.rows),
        problem=asked,
        findings=fall or getattr(run.state, "findings", None),
    )


def _has_fallen_back(run: Run) -> bool:
    """Back to what was proved before a polish that is not proved itself, where that is so."""
    proved = getattr(run.state, "fallback", None)
    if proved is None:
        return False
    before, rows, run.state = run.state, run.rows, proved
    run.rows = [row for row in rows if row.iteration < run.iteration]
    row, tolerance = run.record(), run.asked
    if row.upper_gap <= tolerance[0] and row.lower_gap <= tolerance[1]:
        return True
    run.state, run.rows = before, rows
    return False


def certify(problem: Problem, x: Any, max_iter: int = 10_000) -> Certificate:
    """What can be proved about ``x``, a point from anywhere.

    Spends oracle calls of its own: the first-order method of "auto" from the projection of x
    collects minorants until both gaps of x have stopped shrinking, and then AGM-BiO (P-AGM-BiO if
    there are penalties) with two gammas, where it takes the problem: none is best everywhere. At
    most ``max_iter`` steps in all. The proof does not rely on where x came from.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"certify: problem must be a Problem, got {checks.what_it_is(problem)}")
    checks.whole("certify", "max_iter", max_iter)
    x = problem.point(x, "certify", "x")
    start = problem.start(x)
    _check_functions("certify", problem, start)
    kind, steps, proof, known = _kind(problem), 0, None, None
    with arrays.quiet():
        for method in (first_order(problem), kind(gamma=1e-3), kind(gamma=1e-1)):
            if proof is None:
                method.check(problem)
            elif refusal(method, problem):
                continue
            run = Run(problem, method, start)
            if known is not None:
                run.ledger.inherit(known)
            elif claims := prove_at(problem, x):
                run.ledger.add(News(claims=claims))
            proof = run.certificate(x)
            look_at = 256
            while steps < max_iter and run.step():
                steps += 1
                if run.iteration == look_at or steps == max_iter:
                    before, proof = proof, run.certificate(x)
                    look_at *= 2
                    if _settled(before.upper_gap, proof.upper_gap, proof.upper_value) and _settled(
                        before.lower_gap, proof.lower_gap, proof.lower_value
                    ):
                        break
            known = run.ledger
            if steps >= max_iter:
                break
    assert proof is not None
    return proof


def _settled(before: float, after: float, value: float) -> bool:
    """Has a gap stopped shrinking: less than one percent since the last look, or only rounding?"""
    if math.isinf(before) or math.isinf(after):
        return before == after
    return before - after <= 1e-2 * abs(before) or after <= 1e-12 * abs(value)


# -- checks ---------------------------------------------------------------------------------------


def find_method(method: str | Method, problem: Problem, owner: str = "solve") -> Method:
    """A method by its name, or the one given; one clear sentence for anything else."""
    if isinstance(method, str):
        if method == "auto":
            return choose(problem)
        if method in METHODS:
            return METHODS[method]()
        known = ", ".join(["auto", *METHODS])
        raise ValueError(f"{owner}: unknown method {method!r}, known are {known}")
    if isinstance(method, type) or not all(
        hasattr(method, name) for name in ("check", "describe", "init", "step")
    ):
        raise TypeError(
            f"{owner}: method must be a name or an object such as AGMBiO(), "
            f"got {checks.what_it_is(method)}"
        )
    return method


def _kind(problem: Problem) -> type[AGMBiO] | type[PAGMBiO]:
    return AGMBiO if problem.is_smooth else PAGMBiO


def _pair(value: Any, name: str) -> tuple[float, float]:
    pair = list(value) if hasattr(value, "__len__") and not isinstance(value, str) else [value] * 2
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


class _Live:
    """The live line on standard error: the last row, or how far a pass over streamed rows is."""

    def __init__(self, problem: Problem, is_on: bool) -> None:
        self.is_on, self._shown, self._passes = is_on, -math.inf, 0
        parts = [part for h in problem.smooth_parts for _, part in parts_of(h.bare)]
        found = [getattr(part, "matrix", None) for part in parts]
        # One matrix may be in both levels.
        self._swept = list({id(m): m for m in found if isinstance(m, Swept)}.values())

    def __enter__(self) -> None:
        for matrix in self._swept if self.is_on else ():
            matrix.watch = functools.partial(self._pass, matrix.shape[0])

    def __exit__(self, *error: object) -> None:
        for matrix in self._swept if self.is_on else ():
            matrix.watch = None

    def show(self, row: Row) -> None:
        """The last row, ten times a second at most."""
        if self.is_on and self._is_due():
            self._print(_words(row))

    def end(self, row: Row) -> None:
        """The last row, to stay."""
        if self.is_on:
            self._print(_words(row), "\n")

    def _pass(self, in_all: int, rows: int) -> None:
        """So many rows of ``in_all`` are done."""
        if self._is_due():
            self._print(f"pass {self._passes + 1:,}, rows {rows:,} of {in_all:,}")
        self._passes += rows == in_all

    def _is_due(self) -> bool:
        now = time.perf_counter()
        if now < self._shown + 0.1:
            return False
        self._shown = now
        return True

    def _print(self, words: str, end: str = "") -> None:
        print(f"\r{words:<96}", end=end, file=sys.stderr, flush=True)


def _words(row: Row) -> str:
    return (
        f"step {row.iteration:>7,}   f {row.upper_value:<13.7g} gap {row.upper_gap:<9.2e}   "
        f"g {row.lower_value:<13.7g} gap {row.lower_gap:<9.2e}   {row.seconds:7.1f} s"
    )
