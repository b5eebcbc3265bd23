"""The one loop: time, count, record, certify, stop, save.  Methods do none of this."""

from __future__ import annotations

import contextlib
import functools
import math
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tiebreak.auto.selection import choose, first_order, problem_in_float64, refusal
from tiebreak.driver import checkpoint
from tiebreak.driver.advice import after_nonfinite, contradiction, what_next
from tiebreak.driver.registry import METHODS, AGMBiO, PAGMBiO
from tiebreak.driver.result import SUCCESSES, Result, Row, Trace
from tiebreak.driver.run import Counts, Intermediate, Method, Run, Saved
from tiebreak.exact.intervals import prove_at
from tiebreak.functions.callables import Smooth
from tiebreak.functions.gradient_check import wrong_slope
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays, checks, deadline
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.deadline import Limit
from tiebreak.linalg.matrices import Swept
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import UNDERFLOW, Certificate, StepEvidence
from tiebreak.proofs.recession import NoMinimum, Watch

Tolerance = float | tuple[float, float]
ROUNDED = "rounded to single precision, x is not as good as asked: pass data in float64"
WORSE = "the method ended where g is {:.3g}, but had seen {:.3g}: x is the point of least g"
REFUTED = (
    "f(x) is proved to lie below f* by {:.3g}: x does not minimise the lower level well enough"
)
NO_TIME = "there was no time left for a certificate: give a longer max_time"
NO_START = "there was no time left for the first step: give a longer max_time"
CRITERIA = ("absolute", "weak")


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
    criterion: str = "absolute",
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
        x0: where to start; the origin if None. Projected onto the domain, and rounded where the
            problem is in float32: a start is no part of the data.
        rtol, atol: one number or a pair (upper, lower). The tolerance of a level is
            atol + rtol * max(|value at x|, |value at x0|); where both values are 0 to rounding, the
            size of the terms that cancel in them takes their place.
        criterion: "absolute" asks for a proof that f(x) - f* and g(x) - g* are within their
            tolerances, and that f(x) is secured from below, so that a point which is not quite
            optimal below does not pass for an answer: see ``certified``. "weak" asks for the two
            proved gaps alone, which let f(x) lie below f* by any amount.
        max_iter: the most steps, those before a checkpoint included.
        max_time: the most seconds of this call. What cannot be stopped (a call of yours, a product
            with the data, a factorisation) is waited for; no factorisation is begun that would
            take longer than what is left. The certificate of the end may take a second more.
        callback: called at the start and after every step with an ``Intermediate`` (x, nit, both
            values, both proved gaps, time); raising StopIteration stops the run.
        progress: show a live line on standard error; where rows are streamed, with the pass.
        checkpoint: a .npz file. The run is saved there now and then; a later call with the same
            problem, method and x0 goes on from it (with the step sizes that it was planned with).
            Where it cannot be written, a RuntimeWarning says so and the run goes on.

    Returns:
        A Result; ``print(result)`` says what is proved and what is not. Its ``status`` is one of

        certified: proved: f(x) - f* and g(x) - g* are within the tolerances; and f(x) is secured
            from below: |f(x) - f*| is proved too (``upper_error``), or the guard holds that makes
            |f(x) - f*| at most two tolerances where g grows quadratically and x is not close to
            f's own minimiser. The report says which.
        solved: the conditions of optimality of both levels hold to rounding, or the named
            method's own rule was met; the proof is wider than asked.
        unbounded: g has no minimiser on Z, or f falls without end on the minimisers.
        undetermined: the data allow two readings (a rank that rounding decides).
        max_iter, max_time, stopped: a limit or Ctrl-C came first.
        failed: a value is not finite, a promise was seen to be false, a function is not convex.

        ``success`` is True for the first two, ``proved`` for the first alone. Without success x is
        the last point of the method, or, where its g exceeds the least g seen by more than the
        tolerance, the point of least g.

    The answer is for the numbers that your arrays hold now, whatever they held when the problem
    was made or solved before. (Not seen: those behind a linear operator or a plain callable.)
    """
    began = time.perf_counter()
    if not isinstance(problem, Problem):
        raise TypeError(f"solve: problem must be a Problem, got {checks.what_it_is(problem)}")
    problem = problem.current()
    chosen = find_method(method, problem)
    relative, absolute = _pair(rtol, "rtol"), _pair(atol, "atol")
    if criterion not in CRITERIA:
        known = " or ".join(map(repr, CRITERIA))
        raise ValueError(f"solve: criterion must be {known}, got {criterion!r}")
    checks.whole("solve", "max_iter", max_iter)
    if max_time is not None:
        checks.positive("solve", "max_time", max_time)
    if callback is not None and not callable(callback):
        raise TypeError(f"solve: callback must be callable, got {type(callback).__name__}")
    start = problem.start(x0)
    asked, given, is_auto = problem, start, method == "auto"
    live, saved = _Live(problem, progress), None

    with live, deadline.limited(max_time, began) as limit, _heeding_ctrl_c(limit), arrays.quiet():
        try:
            _check_functions("solve", problem, start)
            _check_slopes("solve", problem, start)
            if is_auto and (problem := problem_in_float64(asked)) is not asked:
                start, chosen = arrays.double(start), choose(problem)
            chosen.check(problem)
            store = _Store(checkpoint, problem, chosen, start)
            if hasattr(chosen, "planned"):
                chosen = chosen.planned(max(max_iter, 1))
            saved = store.load()
            run = Run(problem, chosen, start, saved, began)
        except deadline.Over:
            return _unbegun(limit, asked, chosen, given, saved, began)
        run.relative, run.absolute, run.is_guarded = relative, absolute, criterion != "weak"
        watch = Watch(problem, start)
        ending = _iterate(run, limit, max_iter, callback, given, live, store, watch)
        limit.close()
        ending, x, proof = _conclude(run, ending, given, store, watch)
        live.end(run.rows[-1])
        tolerance = run.tolerance(x, proof.upper_value, proof.lower_value)
        advice = NO_TIME
        with contextlib.suppress(deadline.Over):
            advice = what_next(run, ending.status, proof, tolerance, max_iter)
        return Result(
            x=x,
            certificate=proof,
            tolerance=tolerance,
            start_values=run.start_values,
            status=ending.status,
            reason=ending.reason,
            advice=advice,
            nit=run.iteration,
            time=run.seconds,
            method=f"{'auto: ' if is_auto else ''}{run.described}",
            trace=Trace(run.rows),
            problem=asked,
            findings=ending.fall or getattr(run.state, "findings", None),
        )


class _Ending(NamedTuple):
    """How a run ended: its status, and a sentence where that does not say it all."""

    status: str
    reason: str = ""
    fall: NoMinimum | None = None  # the direction along which there is no minimum

    @classmethod
    def without_end(cls, fall: NoMinimum) -> _Ending:
        return cls(fall.status, fall.sentence, fall)


def _ending(run: Run, limit: Limit, max_iter: int) -> _Ending | None:
    """How the run ends here; None where it goes on."""
    if run.finished[0]:
        return _Ending(*run.finished)
    if limit.is_interrupted:
        return _Ending("stopped")
    if run.iteration < max_iter and not limit.is_over:
        return None
    if run.answer[0]:  # only the proof is missing
        return _Ending(*run.answer)
    return _Ending("max_iter" if run.iteration >= max_iter else "max_time")


def _iterate(
    run: Run,
    limit: Limit,
    max_iter: int,
    callback: Callable[[Intermediate], object] | None,
    given: Array,
    live: _Live,
    store: _Store,
    watch: Watch,
) -> _Ending:
    """Step by step until something ends the run."""
    is_first = run.is_recorded  # a run that goes on may have its row already
    while True:
        ending = _ending(run, limit, max_iter)
        if limit.is_over or limit.is_interrupted:
            limit.close()
        try:
            if is_first or run.due or ending or (run.is_adapting and run.is_met):
                live.show(run.record())
                if run.is_met and (ending or not run.is_settling):
                    ending = _Ending("certified")
                gaps = run.standing.upper_gap, run.standing.lower_gap
                if fall := watch.look(run.iteration, run.state.x, gaps, deadline.left()):
                    ending = _Ending.without_end(fall)
                is_first = False
            if callback is not None:
                now = run.intermediate()
                callback(now._replace(x=arrays.own(now.x, given)))  # theirs to write into
            if ending:
                return ending
            if not run.step():  # an answer that only lacks its proof is one
                return _Ending(*(run.answer if run.answer[0] else ("failed", after_nonfinite(run))))
            store.save_when_due(run)
        except (StopIteration, KeyboardInterrupt):
            return ending or _Ending("stopped")
        except deadline.Over:  # the next turn is the last, unless this one was
            if limit.is_closing:
                return ending or _Ending(limit.ending)
            limit.close()


def _conclude(
    run: Run, ending: _Ending, given: Array, store: _Store, watch: Watch
) -> tuple[_Ending, Array, Certificate]:
    """The status that the run deserves, the point that is returned, what is proved about it.

    Where there is no time left for that: the last point, with what was proved about it before.
    """
    try:
        store.save(run)
        ending, x = _answer(run, ending)
        if ending.status in (*SUCCESSES, "max_iter", "max_time"):
            gaps = run.standing.upper_gap, run.standing.lower_gap
            fall = watch.last(run.state.x, gaps, ending.status in SUCCESSES, deadline.left())
            ending = _Ending.without_end(fall) if fall else ending
        x = arrays.like(x, given)
        proof = run.certificate(arrays.like(x, run.state.x))  # as it is, in a wider precision too
        ending = _deserved(run, ending, x, proof)
    except deadline.Over:
        x = arrays.like(run.state.x, given)
        return ending, x, _last_proof(run, x)
    run.record_answer(proof)
    return ending, x, proof.without_upper() if ending.status == "unbounded" else proof


def _answer(run: Run, ending: _Ending) -> tuple[_Ending, Array]:
    """The point that is returned.

    A certified point is never given up. Otherwise the last point of the method stays, unless its g
    exceeds the least one seen by more than the tolerance.
    """
    if ending.status in ("certified", "unbounded"):
        return ending, run.state.x
    if run.has_gone_back():
        return _Ending("certified"), run.state.x
    better = run.better_below
    if better is None or (ending.status == "solved" and _has_own_rule(run)):
        return ending, run.state.x
    if ending.status == "solved":
        ending = _Ending("failed", WORSE.format(run.state.lower_value, better.value))
    return ending, better.x


def _deserved(run: Run, ending: _Ending, x: Array, proof: Certificate) -> _Ending:
    """The status of a point, more or less than that of the run, by the last look at it."""
    if ending.fall or ending.status == "unbounded":
        return ending
    if run.accumulator.is_contradicted:
        return _Ending("failed", _wrong_slopes(run.problem, run.state.x) or contradiction(run))
    if run.is_exact(x, proof) and ending.status != "stopped":
        return _Ending("certified")
    if ending.status == "certified" and not run.is_proved(proof):
        ending = _Ending("solved", ROUNDED if x.dtype != run.state.x.dtype else "")
    if ending.status in ("solved", "max_iter") and run.readings:
        ending = _Ending("undetermined", run.readings)
    is_too_low = -proof.upper_gap > run.asked[0] > UNDERFLOW
    if ending.status == "solved" and is_too_low and not _has_own_rule(run):
        ending = _Ending("failed", REFUTED.format(-proof.upper_gap))
    return ending


def _has_own_rule(run: Run) -> bool:
    """Does the method end by a tolerance of its own, and not at the conditions of optimality?"""
    return hasattr(run.method, "eps_f")


def _last_proof(run: Run, x: Array) -> Certificate:
    """What the last row says, for a run that has no time left for more."""
    values = run.state.upper_value, run.state.lower_value
    if not run.is_recorded:
        nothing = (math.inf, math.inf)
        run.rows.append(Row(run.iteration, run.seconds, *values, *nothing, *run.counts))
    if arrays.epsilon(x) > arrays.epsilon(run.state.x):  # it is about x before rounding
        return Certificate.of_gaps(*values)
    return Certificate.of_gaps(*values, run.rows[-1].upper_gap, run.rows[-1].lower_gap)


def _unbegun(
    limit: Limit, problem: Problem, method: Method, x0: Array, saved: Saved | None, began: float
) -> Result:
    """The start, or the last point of the checkpoint, for a call that had to end before a step."""
    limit.close()
    x, values = x0, (math.nan, math.nan)
    with contextlib.suppress(deadline.Over):  # a pass over the data may take longer
        values = problem.upper.value(x0), problem.lower.value(x0)
    nit, seconds, starts, trace = 0, time.perf_counter() - began, values, Trace()
    if saved is not None:
        x = arrays.like(saved.state.x, x0)
        values = saved.state.upper_value, saved.state.lower_value
        nit, starts, trace = saved.iteration, saved.start_values, Trace(saved.rows)
        seconds += saved.seconds
    if not trace:
        trace = Trace([Row(nit, seconds, *values, math.inf, math.inf, *Counts())])
    return Result(
        x=x,
        certificate=Certificate.of_gaps(*values),
        tolerance=(math.nan, math.nan),
        start_values=starts,
        status=limit.ending,
        reason="",
        advice=NO_START,
        nit=nit,
        time=seconds,
        method=method.name,
        trace=trace,
        problem=problem,
    )


def certify(
    problem: Problem, x: Any, max_iter: int = 10_000, max_time: float | None = None
) -> Certificate:
    """What can be proved about ``x``, a point from anywhere.

    Spends oracle calls of its own: the first-order method of "auto" from the projection of x
    collects minorants until both gaps of x have stopped shrinking, and then AGM-BiO (P-AGM-BiO if
    there are penalties) with two gammas, where it takes the problem: none is best everywhere. At
    most ``max_iter`` steps and ``max_time`` seconds in all; Ctrl-C gives what is proved by then.
    The proof does not rely on where x came from.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"certify: problem must be a Problem, got {checks.what_it_is(problem)}")
    checks.whole("certify", "max_iter", max_iter)
    if max_time is not None:
        checks.positive("certify", "max_time", max_time)
    problem = problem.current()
    x = problem.point(x, "certify", "x")
    problem = problem.in_precision_of(x)
    start = problem.start(x)
    with deadline.limited(max_time) as limit, _heeding_ctrl_c(limit), arrays.quiet():
        runs: list[Run] = []
        try:
            _check_functions("certify", problem, start)
            return _certified(problem, x, start, max_iter, runs)
        except deadline.Over:
            limit.close()
        try:
            for run in runs[-1:]:
                return run.certificate(x)
            return Certificate.of_gaps(problem.upper.value(x), problem.lower.value(x))
        except deadline.Over:
            return Certificate.of_gaps(math.nan, math.nan)


def _certified(
    problem: Problem, x: Array, start: Array, max_iter: int, runs: list[Run]
) -> Certificate:
    """The best proof about x of some methods, which are added to ``runs``, one after the other."""
    kind, steps, proof = _kind(problem), 0, None
    for method in (first_order(problem), kind(gamma=1e-3), kind(gamma=1e-1)):
        if proof is None:
            method.check(problem)
        elif refusal(method, problem):
            continue
        run = Run(problem, method, start)
        for before in runs[-1:]:
            run.accumulator.inherit(before.accumulator)
        if not runs and (claims := prove_at(problem, x)):
            run.accumulator.add(StepEvidence(claims=claims))
        runs.append(run)
        proof = run.certificate(x)
        look_at = 256
        while steps < max_iter and run.step():
            deadline.check()
            steps += 1
            if run.iteration == look_at or steps == max_iter:
                last, proof = proof, run.certificate(x)
                look_at *= 2
                if _settled(last.upper_gap, proof.upper_gap, proof.upper_value) and _settled(
                    last.lower_gap, proof.lower_gap, proof.lower_value
                ):
                    break
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


def _check_slopes(owner: str, problem: Problem, x: Array) -> None:
    """Is the gradient of each callable that of its function, along one direction near x?"""
    wrong = _wrong_slopes(problem, x)
    if wrong:
        raise ValueError(f"{owner}: {wrong}")


def _wrong_slopes(problem: Problem, x: Array) -> str:
    """A sentence if the gradient of a callable is surely wrong near x, else ""."""
    for name, h in zip(("upper", "lower"), problem.smooth_parts, strict=True):
        for _, part in summands(h.bare):
            said = wrong_slope(name, part, problem.domain, x) if isinstance(part, Smooth) else ""
            if said:
                return said
    return ""


# -- around the loop ------------------------------------------------------------------------------


@contextlib.contextmanager
def _heeding_ctrl_c(limit: Limit) -> Iterator[None]:
    """The first Ctrl-C ends the call at its next `deadline.check`; the second one raises."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        if limit.is_interrupted:
            raise KeyboardInterrupt
        limit.is_interrupted = True

    signal.signal(signal.SIGINT, note)
    try:
        yield
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
        self._due, self._has_warned = 0.0, False

    def load(self) -> Saved | None:
        if self.path is None or not self.path.exists():
            return None
        saved: Saved = checkpoint.load(self.path, self.who, self.x0)
        return saved

    def save(self, run: Run) -> None:
        if self.path is None:
            return
        began = time.perf_counter()
        try:
            checkpoint.save(self.path, self.who, run.saved())
        except (OSError, TypeError) as error:
            if not self._has_warned:
                what = f"checkpoint: {self.path} could not be written ({error}); the run goes on"
                warnings.warn(what, RuntimeWarning, stacklevel=3)
            self._has_warned = True
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
        parts = [part for h in problem.smooth_parts for _, part in summands(h.bare)]
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
