"""What a run returns: the point, what is proved about it, and how it got there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from tiebreak import deadline
from tiebreak.arrays import Array, to_numpy
from tiebreak.certificate import Certificate
from tiebreak.problem import Problem, solution_dimension

STATUSES = {
    "certified": "both levels are proved to be within the tolerance",
    "solved": "an answer was found, its proof is wider than asked",
    "unbounded": "there is no minimiser: a level falls without end along a direction",
    "undetermined": "the data allow two readings, and nothing tells which is meant",
    "max_iter": "max_iter steps were taken before both levels were within the tolerance",
    "max_time": "max_time passed before both levels were within the tolerance",
    "stopped": "stopped from outside; x is the best point so far",
    "failed": "no answer: a value is not finite, or a promise was seen to be false",
}

SUCCESSES = ("certified", "solved")

NOTABLE = 1e-3  # the report counts what exceeds this part of the largest: averages are rarely 0


class Findings(Protocol):
    """What a method found out besides x, in its own words."""

    @property
    def dimension(self) -> int | None:
        """Of the solution set of the lower level, None where unknown."""

    def lines(self) -> list[tuple[str, str]]:
        """Lines for the report: a label of at most 11 characters, and a text."""


class Row(NamedTuple):
    """One recorded step."""

    iteration: int
    seconds: float
    upper_value: float
    lower_value: float
    upper_gap: float  # proved bound on f(x) - f*
    lower_gap: float  # proved bound on g(x) - g*
    upper_gradients: int  # oracle calls so far
    lower_gradients: int
    passes: int  # passes over the data of f and g so far


class Trace(Sequence[Row]):
    """The recorded steps of a run, one Row each."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Trace: ...
    def __getitem__(self, index: int | slice) -> Row | Trace:
        return Trace(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} rows: {', '.join(Row._fields)}>"

    def column(self, name: str) -> list[float]:
        """One column as a list."""
        return [getattr(row, name) for row in self._rows]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame (needs the extra ``pandas``)."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas needs pandas: pip install 'tiebreak[pandas]'") from None
        return pandas.DataFrame(list(self._rows), columns=list(Row._fields))


@dataclass(frozen=True, eq=False)
class Result:
    """The answer of ``solve``; printing it gives a short report.

    Attributes:
        x: the point.
        upper_value, lower_value: f(x) and g(x).
        upper_gap, lower_gap: *proved* upper bounds on f(x) - f* and g(x) - g*; inf where nothing
            is proved; a negative upper gap proves f(x) < f* (x is not quite feasible below).
        upper_error: proved bound on |f(x) - f*|, inf where there is none.
        upper_optimum, lower_optimum: proved intervals for f* and g*.
        tolerance: what was asked of the two gaps, as absolute numbers.
        status, success, message: how the run ended; success is a proof of both gaps, or a
            method that met its own stopping rule, and the message says which.
        nit, time, method: steps, seconds, and the method with its step-size rule.
        dimension: of the solution set of the lower level, None where unknown.
        trace: one Row per recorded step; ``trace.to_pandas()``.
        findings: what the method found out besides x (``Exact``: ranks, residuals), or None.
    """

    x: Array
    certificate: Certificate
    tolerance: tuple[float, float]
    start_values: tuple[float, float]
    status: str
    advice: str
    nit: int
    time: float
    method: str
    trace: Trace = field(repr=False)
    problem: Problem = field(repr=False)
    findings: Findings | None = None

    @property
    def upper_value(self) -> float:
        """f(x)."""
        return self.certificate.upper_value

    @property
    def lower_value(self) -> float:
        """g(x)."""
        return self.certificate.lower_value

    @property
    def upper_gap(self) -> float:
        """Proved: f(x) - f* is at most this."""
        return self.certificate.upper_gap

    @property
    def lower_gap(self) -> float:
        """Proved: g(x) - g* is at most this."""
        return self.certificate.lower_gap

    @property
    def upper_error(self) -> float:
        """Proved: |f(x) - f*| is at most this."""
        return self.certificate.upper_error

    @property
    def upper_optimum(self) -> tuple[float, float]:
        """Proved: f* lies in this interval."""
        return self.certificate.upper_optimum

    @property
    def lower_optimum(self) -> tuple[float, float]:
        """Proved: g* lies in this interval."""
        return self.certificate.lower_optimum

    @cached_property
    def dimension(self) -> int | None:
        """The dimension of the lower level's solution set, None where unknown; found when asked."""
        found = None if self.findings is None else self.findings.dimension
        if found is not None:
            return found
        is_cut_short = self.status in ("max_time", "stopped")  # who had no time has none now
        with deadline.limited(1.0 if is_cut_short else None):
            return deadline.unless_over(lambda: solution_dimension(self.problem), None)

    @property
    def success(self) -> bool:
        """Are both levels proved to be within the tolerance (or the named rule met)?"""
        return self.status in SUCCESSES

    @property
    def message(self) -> str:
        """The status in words, with what to do next if it is no success."""
        return f"{STATUSES[self.status]}{'. ' if self.advice else ''}{self.advice}"

    def __str__(self) -> str:
        proof = self.certificate
        header = (
            f"tiebreak: {self.status} after {self.nit} step{'' if self.nit == 1 else 's'}, "
            f"{self.time:.3g} s"
        )
        proved = [
            _level("upper", "f", proof.upper_value, proof.upper_gap, self.tolerance[0]),
            _level("lower", "g", proof.lower_value, proof.lower_gap, self.tolerance[1]),
            f"  given up    {self._given_up()}",
            f"  optimum     {_interval('f', proof.upper_optimum)}, "
            f"{_interval('g', proof.lower_optimum)}",
            f"  both sides  {self._both_sides()}",
            f"  ties        {_ties(self.dimension)}",
        ]
        if self.status == "unbounded":  # then there is no f* or no g* to speak of
            proved = [
                f"  last point  f(x) = {proof.upper_value:.9g}, g(x) = {proof.lower_value:.9g}"
            ]
        lines = [
            header,
            *proved,
            *(f"  non-zeros   {text}" for text in self._sparsity()),
            *(f"  {label:<11} {text}" for label, text in self._found()),
            f"  method      {self.method}",
            f"  {'outcome' if self.success else 'next   '}     {self.message}",
        ]
        return "\n".join(lines)

    def _found(self) -> list[tuple[str, str]]:
        return [] if self.findings is None else self.findings.lines()

    def _sparsity(self) -> list[str]:
        """How many entries or groups of x are not (nearly) zero, where a penalty asks for zeros."""
        parts = [penalty.terms for penalty in self.problem.penalties]
        said = []
        if any(terms.l1 > 0.0 for terms in parts):
            said.append(_notable(np.abs(to_numpy(self.x)), "entries"))
        for terms in [terms for terms in parts if terms.group > 0.0][:1]:
            lengths, layout = terms.lengths(self.x)
            said.append(_notable(lengths[layout.penalised > 0.0], "groups"))
        return said

    def _given_up(self) -> str:
        """How much of the lower level was paid for the upper one."""
        gap, start = self.certificate.lower_gap, self.start_values[1]
        if math.isinf(gap):
            return "unknown: nothing bounds g* from below"
        fall = start - self.certificate.lower_optimum[0]
        share = f", {gap / fall:.2g} of the way from g(x0) = {start:.6g}" if gap < fall else ""
        return f"at most {max(gap, 0.0):.3g} of g is lost to f{share}"

    def _both_sides(self) -> str:
        error = self.certificate.upper_error
        if math.isfinite(error) and error > max(abs(self.upper_value), abs(self.start_values[0])):
            return f"nothing of use: |f(x) - f*| <= {error:.2g} is proved, but more than f itself"
        if math.isfinite(error):
            return f"|f(x) - f*| <= {error:.3g}"
        return "f(x) may lie below f* by an unknown amount (needs Problem(error_bound=...))"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; inf and nan become None."""
        proof = self.certificate
        return {
            "status": self.status,
            "success": self.success,
            "message": self.message,
            "nit": self.nit,
            "time": self.time,
            "method": self.method,
            "dimension": self.dimension,
            "findings": dict(self._found()),
            "upper": _level_dict(
                proof.upper_value, proof.upper_gap, self.tolerance[0], proof.upper_optimum
            )
            | {"error": _number(proof.upper_error)},
            "lower": _level_dict(
                proof.lower_value, proof.lower_gap, self.tolerance[1], proof.lower_optimum
            ),
            "trace": [
                {name: _number(value) for name, value in row._asdict().items()}
                for row in self.trace
            ],
        }

    def plot(self, path: str | None = None) -> Any:
        """Draw both levels with the certified band; saved to ``path`` if given.

        Returns the matplotlib figure (needs the extra ``plot``).
        """
        from tiebreak.plotting import convergence

        return convergence(self, path)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _notable(sizes: np.ndarray[Any, Any], what: str) -> str:
    """How many of the sizes are not small beside the largest, and how many are 0."""
    large = int(np.count_nonzero(sizes > NOTABLE * np.max(sizes)))
    zeros = int(np.count_nonzero(sizes == 0.0))
    said = f"{large} of {len(sizes)} {what} above {NOTABLE:g} of the largest"
    return f"{said}, {zeros or 'none'} exactly 0"


def _level_dict(
    value: float, gap: float, asked: float, optimum: tuple[float, float]
) -> dict[str, Any]:
    return {
        "value": _number(value),
        "gap": _number(gap),
        "tolerance": _number(asked),
        "optimum": [_number(end) for end in optimum],
    }


def _level(level: str, letter: str, value: float, gap: float, asked: float) -> str:
    """One line: the value, what is proved, and whether that is what was asked."""
    start = f"  {level} level {letter}(x) = {value:.9g}"
    if math.isinf(gap):
        return f"{start}   NOT PROVED: nothing bounds {letter}* from below"
    if gap < 0.0:
        return f"{start}   proved: {letter}(x) <= {letter}* - {-gap:.3g} (x is not quite feasible)"
    verdict = "proved" if gap <= asked else "NOT YET"
    return f"{start}   {verdict}: {letter}(x) - {letter}* <= {gap:.3g} (asked {asked:.3g})"


def _interval(letter: str, ends: tuple[float, float]) -> str:
    low, high = ends
    if math.isinf(low) and math.isinf(high):
        return f"{letter}* unknown"
    if math.isinf(high):
        return f"{letter}* >= {low:.9g}"
    if math.isinf(low):
        return f"{letter}* <= {high:.9g}"
    return f"{letter}* in [{low:.9g}, {high:.9g}]"


def _ties(dimension: int | None) -> str:
    if dimension is None:
        return "the dimension of the lower level's solution set is not known"
    if dimension == 0:
        return "none: the lower level has a single minimiser, there is nothing to choose"
    plural = "" if dimension == 1 else "s"
    return f"the lower level's minimisers fill {dimension} dimension{plural}"
