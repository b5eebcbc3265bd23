"""What ``solve`` said, next to the truth: false words, points outside, values that are not."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from helpers.rational import Objective, Truth, Vector, fractions
from truth.cases import Case

EPS = Fraction(1, 2**52)
SUCCESS = ("certified", "solved")
NEGATIVE = ("unbounded", "infeasible")
LOST = ("failed", "undetermined", "exception")


@dataclass
class Verdict:
    """Of one call: its status, what is false about it, what is merely off.

    Attributes:
        false: false words: an interval that misses, a `certified` beyond its tolerance or outside
            Z, a wrong no, a success where there is no minimiser.
        wrong: a success outside Z, a value that is not the value at x.
        off: a `solved` beyond two tolerances.
        notes: what breaks no promise that is judged here: estimated intervals that miss, an x that
            is not the one of least norm.
    """

    case: Case
    method: str
    status: str
    said: str = ""
    false: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_bad(self) -> bool:
        """Does it break a promise?"""
        return bool(self.false or self.wrong)

    @property
    def is_doubtful(self) -> bool:
        """Is it one of those that may happen, but not often?"""
        return bool(self.off) or self.status in LOST

    @property
    def ending(self) -> str:
        """Who said what, and what is true."""
        return f"{_group(self)}: {self.status} where {self.case.truth.word}"

    @property
    def kinds(self) -> set[str]:
        """What is said of it, in short."""
        found = {f"FALSE: {self.status}: {_kind(text)}" for text in self.false}
        found |= {f"WRONG: {self.status}: {_kind(text)}" for text in self.wrong}
        return found | {f"note: {_kind(text)}" for text in [*self.off, *self.notes]}

    def __str__(self) -> str:
        truth = self.case.truth
        known = [float(v) for v in truth.values]
        x = None if truth.x is None else [float(t) for t in truth.x]
        found = [*self.false, *self.wrong, *self.off, *self.notes]
        lines = [
            f"{self.case.kind}: {self.method}: {self.status}",
            *(f"  {text}" for text in found),
        ]
        lines.append(f"  truth: {truth.word}, values {known}, x {x}")
        lines += [f"  said: {self.said}"] if self.said else []
        lines += [f"    {line}" for line in self.case.call(self.method).splitlines()]
        return "\n".join(lines)


def judged(case: Case) -> list[Verdict]:
    """A verdict for each method of the case."""
    return [judge(case, method) for method in case.methods]


def judge(case: Case, method: str) -> Verdict:
    """Solve it and compare."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            result = case.run(method)
    except (ValueError, TypeError) as error:
        return Verdict(case, method, _refusal(case, method), f"{type(error).__name__}: {error}")
    except Exception as error:
        return Verdict(case, method, "exception", f"{type(error).__name__}: {error}")
    verdict = Verdict(case, method, result.status, str(result.message)[:300])
    if result.x is None or not np.all(np.isfinite(result.x)):
        verdict.wrong += ["x is not finite"] if result.success else []
        return verdict
    x = fractions(result.x.tolist())
    truth = case.truth
    _judge_no(verdict, truth)
    if result.status in SUCCESS:
        outside = case.region.excess(x)
        if outside > 1:
            text = f"x is outside Z by {float(outside):.2g} times what may pass"
            (verdict.false if result.status == "certified" else verdict.wrong).append(text)
    _judge_values(verdict, result, x)
    if truth.word != "infeasible":
        _judge_intervals(verdict, result, truth)
    if truth.word == "optimal" and result.status in SUCCESS:
        _judge_errors(verdict, result, x, truth)
        _judge_norm(verdict, x, truth)
    return verdict


def _refusal(case: Case, method: str) -> str:
    """A sentence instead of an answer: from a named method, or where there is none, it may be."""
    return "refused" if method != "auto" or case.truth.word != "optimal" else "exception"


def _judge_no(verdict: Verdict, truth: Truth) -> None:
    """Status and truth agree on whether there is an answer."""
    if truth.word == "optimal":
        if verdict.status in NEGATIVE:
            verdict.false.append(f"{verdict.status}, but there is a solution")
    elif verdict.status in SUCCESS:
        level = f" at level {len(truth.values) + 1}" if truth.word == "unbounded" else ""
        verdict.false.append(f"{verdict.status}, but {truth.word}{level}")
    elif verdict.status in NEGATIVE and verdict.status != truth.word:
        verdict.false.append(f"{verdict.status}, but {truth.word}")


def _intervals(result: Any) -> list[tuple[str, tuple[float, float], float, str]]:
    """(name, interval, value, word) of every level, the lowest first."""
    if hasattr(result, "levels"):
        rows = result.levels.items()
        return [(name, row.best, row.value, row.word) for name, row in rows]
    return [
        ("lower", result.lower_optimum, result.lower_value, "proved"),
        ("upper", result.upper_optimum, result.upper_value, "proved"),
    ]


def _judge_intervals(verdict: Verdict, result: Any, truth: Truth) -> None:
    """Proved intervals hold the truth; that of an unbounded level would be -inf."""
    for i, (name, (low, high), _value, word) in enumerate(_intervals(result)):
        if i < len(truth.values):
            best = truth.values[i]
            misses = (math.isfinite(low) and Fraction(low) > best) or (
                math.isfinite(high) and Fraction(high) < best
            )
            text = f"{name} ({word}): [{low!r}, {high!r}] misses {float(best)!r}"
        elif i == len(truth.values):  # which falls without end
            misses = truth.word == "unbounded" and math.isfinite(low)
            text = f"{name} ({word}): at least {low!r}, but it falls without end"
        else:
            continue
        if misses:
            (verdict.false if word == "proved" else verdict.notes).append(text)


def _judge_values(verdict: Verdict, result: Any, x: Vector) -> None:
    """What is reported is the value at x, up to rounding of its terms."""
    for aim, (name, _interval, value, _word) in zip(
        verdict.case.aims, _intervals(result), strict=False
    ):
        if not math.isfinite(value):
            continue
        own = aim.objective.value(x)
        if abs(Fraction(value) - own) > rounding(aim.objective, x):
            verdict.wrong.append(f"{name}: reported {value!r} at x, it is {float(own)!r}")


def rounding(objective: Objective, x: Vector) -> Fraction:
    """What evaluation may round: some units of the terms of the objective."""
    terms = objective.n + len(objective.squares) + len(objective.absolutes) + len(objective.hubers)
    return 8 * terms * EPS * objective.size(x)


def _tolerances(result: Any, case: Case, x: Vector) -> list[Fraction]:
    """What was asked of each level, the lowest first."""
    plain = getattr(result, "result", result)  # of two levels without slack
    if plain is not None:
        upper, lower = plain.tolerance
        return [Fraction(lower), Fraction(upper)]
    start = fractions(case.start_point)
    rtol = Fraction(case.rtol)
    found = []
    for aim, best in zip(case.aims, case.truth.values, strict=True):
        h = aim.objective
        sizes = [abs(h.value(x)), abs(h.value(start)), abs(best)]
        found.append(rtol * max(sizes) + rounding(h, x))
    return found


def _judge_errors(verdict: Verdict, result: Any, x: Vector, truth: Truth) -> None:
    """How far the levels are off, in their tolerances."""
    case = verdict.case
    asked = _tolerances(result, case, x)
    for i, (aim, best, slack) in enumerate(zip(case.aims, truth.values, truth.slacks, strict=True)):
        error = aim.objective.value(x) - best
        is_last = i == len(case.aims) - 1
        beyond = max(error - slack, -error if is_last or (slack == 0 and i) else Fraction(0))
        text = f"level {i + 1} is {float(error):.3g} off, asked {float(asked[i]):.3g}"
        if verdict.status == "certified" and beyond > asked[i]:
            verdict.false.append(f"certified: {text}")
        least = max(abs(best) / 10**12, rounding(aim.objective, [case.length] * case.n))
        if verdict.status == "solved" and beyond > 2 * max(asked[i], least):
            verdict.off.append(f"solved: {text}")


def _judge_norm(verdict: Verdict, x: Vector, truth: Truth) -> None:
    """Is x the point of least norm? For methods that end at an exact point."""
    if verdict.method not in ("auto", "exact", "conic"):
        return
    distance = math.dist(map(float, x), map(float, truth.x))
    if distance > 1e-6 * max(math.hypot(*map(float, truth.x)), 1e-300) and distance > 1e-300:
        verdict.notes.append(f"x is {distance:.2g} from the answer of least norm")


# -- counts ---------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Verdicts of many draws, counted."""

    verdicts: list[Verdict] = field(default_factory=list)

    def add(self, verdicts: list[Verdict]) -> None:
        self.verdicts += verdicts

    @property
    def judged(self) -> list[Verdict]:
        """All but refusals."""
        return [v for v in self.verdicts if v.status != "refused"]

    def share(self, chosen: list[Verdict]) -> float:
        return len(chosen) / max(len(self.judged), 1)

    @property
    def off(self) -> list[Verdict]:
        """`solved` beyond two tolerances."""
        return [v for v in self.verdicts if v.off]

    @property
    def lost(self) -> list[Verdict]:
        """`failed`, `undetermined` or an exception."""
        return [v for v in self.verdicts if v.status in LOST]

    @property
    def right(self) -> list[Verdict]:
        """Successes of which nothing is false, wrong or off."""
        return [v for v in self.verdicts if v.status in SUCCESS and not (v.is_bad or v.off)]

    def table(self) -> str:
        """Statuses by method and by what is true."""
        groups = Counter((_group(v), v.case.truth.word, v.status) for v in self.verdicts)
        width = max((len(" ".join(key[:2])) for key in groups), default=0)
        lines = [f"{len(self.verdicts)} calls, {len(self.judged)} judged"]
        for group in sorted({key[:2] for key in groups}):
            counts = {key[2]: count for key, count in groups.items() if key[:2] == group}
            said = ", ".join(f"{word} {counts[word]}" for word in sorted(counts))
            lines.append(f"  {' '.join(group):<{width}}  {said}")
        false = sum(bool(v.false) for v in self.verdicts)
        wrong = sum(bool(v.wrong) for v in self.verdicts)
        lines.append(f"  false words {false}, points or values that are wrong {wrong}")
        lines.append(f"  success, rightly {len(self.right)}")
        lines.append(f"  solved beyond two tolerances {len(self.off)} ({self.share(self.off):.2%})")
        lines.append(
            f"  failed, undetermined, exception {len(self.lost)} ({self.share(self.lost):.2%})"
        )
        kinds = Counter((_group(v), text) for v in self.verdicts for text in v.kinds)
        lines += [f"  {count:5} {text} ({group})" for (group, text), count in kinds.most_common()]
        return "\n".join(lines)


def _group(verdict: Verdict) -> str:
    if verdict.case.is_chain:
        return f"levels {verdict.method}"
    return verdict.method if verdict.method in ("auto", "exact", "conic") else "first-order"


KINDS = {  # how a complaint is told, in short
    "outside Z": "outside Z",
    "reported": "a value that is not the value at x",
    "misses": "an interval misses",
    "falls without end": "a bound of a level without one",
    "least norm": "x not of least norm",
    "certified: ": "certified beyond its tolerance",
    "solved: ": "solved beyond two tolerances",
}


def _kind(text: str) -> str:
    return next((said for part, said in KINDS.items() if part in text), text)
