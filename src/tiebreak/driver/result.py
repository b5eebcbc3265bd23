"""The result of ``solve``: the point, the bounds proved for it, and how it was found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tiebreak.algorithms import Findings, Multipliers
from tiebreak.display.page import Shown
from tiebreak.display.plotting import convergence
from tiebreak.display.views import View, counted, number_or_none
from tiebreak.driver.result_views import run_report, run_view
from tiebreak.driver.trace import Trace
from tiebreak.functions import Smooth, summands
from tiebreak.linalg import TOL, Array, checks, deadline, to_numpy
from tiebreak.linalg.archive import save
from tiebreak.linalg.fingerprints import described_outside, is_ours
from tiebreak.problem import Problem, solution_dimension
from tiebreak.proofs.bounds import Known
from tiebreak.proofs.certificate import UNDERFLOW, Certificate
from tiebreak.proofs.gate import GUARDED, STATUSES, SUCCESSES

NO_OPTIMUM = ("unbounded", "infeasible")  # statuses of problems without f*
NO_PROBLEM = "Result: problem was not saved with this result; save(path, problem=True) does that"

NOTABLE = 1e-3  # smaller shares of the largest entry are not counted: averages are rarely exactly 0


class Outcome:
    """How a run ended: one of the keys of STATUSES."""

    status: str
    # was the result read from a file, without rechecking its claims?
    is_loaded: ClassVar[bool] = False

    @property
    def word(self) -> str:
        """The status as it appears in the first line of a report."""
        said = "solved, not proved," if self.status == "solved" else self.status
        return f"{said} (as saved)" if self.is_loaded else said

    @property
    def success(self) -> bool:
        """Does the run have an answer, certified or solved?"""
        return self.status in SUCCESSES

    @property
    def proved(self) -> bool:
        """Are all levels proved to be within the tolerance?"""
        return self.status == "certified"


@dataclass(frozen=True, eq=False, repr=False)
class Result(Outcome, Shown):
    """The answer of ``solve``; printing it gives a short report, ``details()`` the full one.

    Attributes:
        x: the point. If no point meets the constraints, x and all values are nan.
        upper_value, lower_value: f(x) and g(x).
        upper_gap, lower_gap: *proved* upper bounds on f(x) - f* and g(x) - g*; inf if nothing is
            proved; a negative upper gap proves f(x) < f* (x is slightly suboptimal for g).
        upper_error: proved bound on |f(x) - f*|, inf if there is none.
        upper_optimum, lower_optimum: proved intervals for f* and g*.
        tolerance: the requested tolerances of the two gaps, as absolute numbers.
        status, success, proved, message: how the run ended (see ``solve``). ``success``: there is
            an answer; ``proved``: there is also a proof that it is within the tolerance.
        nit, time, method: steps, seconds, and the method with its step-size rule.
        point: which of the method's points x is, such as "the last iterate".
        dimension: the dimension of the lower level's solution set, None if unknown.
        assumed: the unchecked assumptions of the proofs, in sentences.
        trace: one Row per recorded step; ``trace.to_pandas()``.
        findings: the method's results besides x (``Exact``: ranks, residuals), or None.
        multipliers: the data besides x that a warm start uses, ``solve(problem, x0=result)``.

    Examples:
        >>> tb.solve(tb.instance("toy").problem).status
        'certified'
    """

    x: Array
    certificate: Certificate
    tolerance: tuple[float, float]
    start_values: tuple[float, float]
    status: str
    reason: str  # how the run ended, if the status does not say everything
    advice: str  # unproved claims, the reasons, and remedies
    nit: int
    time: float
    method: str
    trace: Trace = field(repr=False)
    problem: Problem = field(repr=False)
    findings: Findings | None = None
    multipliers: Multipliers | None = field(default=None, repr=False)
    known: Known | None = field(default=None, repr=False)  # all proved bounds on f* and g*
    criterion: str = "absolute"  # the requirement on f(x) besides the gap (see ``solve``)
    point: str = ""  # which of the method's points x is
    claims: tuple[str, ...] = ()  # what a third-party method claims, in sentences

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
        """A proved upper bound on f(x) - f*."""
        return self.certificate.upper_gap

    @property
    def lower_gap(self) -> float:
        """A proved upper bound on g(x) - g*."""
        return self.certificate.lower_gap

    @property
    def upper_error(self) -> float:
        """A proved upper bound on |f(x) - f*|."""
        return self.certificate.upper_error

    @property
    def upper_optimum(self) -> tuple[float, float]:
        """A proved interval that contains f*."""
        return self.certificate.upper_optimum

    @property
    def lower_optimum(self) -> tuple[float, float]:
        """A proved interval that contains g*."""
        return self.certificate.lower_optimum

    @cached_property
    def dimension(self) -> int | None:
        """The dimension of the lower level's solution set, None if unknown; computed on demand."""
        found = None if self.findings is None else self.findings.dimension
        if found is not None or self.status == "infeasible":
            return found
        # A run that has used up its time must not spend much more on the dimension.
        is_cut_short = self.status in ("max_time", "stopped")
        with deadline.limited(1.0 if is_cut_short else None):
            return deadline.unless_too_long(
                lambda: solution_dimension(self.problem), None, deadline.Over
            )

    @property
    def assumed(self) -> tuple[str, ...]:
        """The unchecked assumptions of the proofs, in sentences."""
        return tuple(self._assumed)

    @cached_property
    def _assumed(self) -> list[str]:  # saved results contain it under this name
        return [*assumptions(self.problem), *self.claims]

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Explain a missing problem: a result may have been saved without its problem."""
            said = f"Result has no attribute {name!r}; its point is x"
            raise AttributeError(NO_PROBLEM if name == "problem" else said)

    def is_of(self, problem: Problem) -> bool:
        """Does the result belong to this very problem object?"""
        return vars(self).get("problem") is problem

    @property
    def is_guarded(self) -> bool:
        """Is f(x) supported by the guard and both proved gaps, but not by a two-sided proof?"""
        return self.reason == GUARDED

    @property
    def message(self) -> str:
        """A text that says how the run ended, what is not proved and what to do next."""
        return f"{self._headline}{'. ' if self.advice else ''}{self.advice}"

    @property
    def _headline(self) -> str:
        return self.reason or STATUSES[self.status]

    def __repr__(self) -> str:
        values = f"f(x) = {self.upper_value:.6g}, g(x) = {self.lower_value:.6g}"
        return f"<tiebreak.Result: {self.status}, {values}, {counted(self.nit, 'step')}>"

    def __str__(self) -> str:
        """Return the status, what is proved about each level, the ties, and then any doubts."""
        lines = [
            f"tiebreak: {self.word} after {counted(self.nit, 'step')}, {self.time:.3g} s: "
            f"{self._headline}",
            f"  upper  {self._upper_line()}",
            f"  lower  {self._lower_line()}",
            f"  ties   {_ties(self.dimension)}",
        ]
        if self.status == "infeasible":
            lines[1:] = ["  upper  there is no f*", "  lower  there is no g*", "  ties   none"]
        doubts = [self.advice, *self._assumed]
        if any(doubts):
            lines.append(f"  note   {'. '.join(doubt for doubt in doubts if doubt)}")
        return "\n".join(lines)

    def _upper_line(self) -> str:
        proof, asked = self.certificate, self.tolerance[0]
        value = f"f(x) = {_value(proof.upper_value, proof.upper_error, asked)}"
        if self.status in NO_OPTIMUM:
            return f"{value} at the last point; there is no f*"
        if proof.upper_error <= asked:
            return f"{value}, proved |f(x) - f*| <= {proof.upper_error:.3g}{_asked(asked)}"
        if proof.upper_gap < 0.0:
            below = f"proved f(x) <= f* - {-proof.upper_gap:.3g}"
            return f"{value}, {below}{_asked(asked)}: x is slightly suboptimal for g"
        said = f"{value}, {_gap('f', proof.upper_gap, asked)}"
        if self.is_guarded and math.isfinite(proof.upper_estimate):
            said += f", |f(x) - f*| about {proof.upper_estimate:.2g} (an estimate)"
        return said

    def _lower_line(self) -> str:
        proof, asked = self.certificate, self.tolerance[1]
        value = f"g(x) = {_value(proof.lower_value, proof.lower_gap, asked)}"
        if self.status in NO_OPTIMUM:
            return f"{value} at the last point"
        return f"{value}, {_gap('g', proof.lower_gap, asked)}"

    def details(self) -> str:
        """Return the full report: intervals for both optima, ranks, residuals, method, message.

        optimum: proved intervals that contain f* and g*. suboptimal: an upper bound on g(x) - g*.
        secured: why f(x) cannot lie far below f*.
        assumed: the unchecked assumptions of the proofs.
        """
        proof = self.certificate
        lines = [
            ("optimum", f"{_interval('f', proof.upper_optimum)}, "
                        f"{_interval('g', proof.lower_optimum)}"),
            *([("rests on", proof.rests)] if proof.rests else []),
            ("suboptimal", self._suboptimality()),
            ("secured", self._secured()),
        ]  # fmt: skip
        if self.status in NO_OPTIMUM:
            lines = []
        lines += [("non-zeros", text) for text in self._sparsity]
        found = [] if self.findings is None else self.findings.lines()
        if self.point:
            lines.append(("x is", self.point))
        lines += [*found, ("method", self.method), ("message", self.message)]
        lines += [("assumed", text) for text in self._assumed]
        return "\n".join([str(self), *(f"  {label:<10} {text}" for label, text in lines)])

    @cached_property
    def _sparsity(self) -> list[str]:
        """Count the entries or groups of x that are not nearly zero, if a penalty favours zeros."""
        parts = [penalty.terms for penalty in self.problem.penalties]
        parts = [terms for terms in parts if terms.center is None and not terms.has_operator]
        said = []
        if any(terms.norms[0] > 0.0 for terms in parts):
            said.append(_notable(np.abs(to_numpy(self.x)), "entries"))
        for terms in [terms for terms in parts if terms.group > 0.0][:1]:
            lengths, layout = terms.lengths(self.x)
            said.append(_notable(lengths[layout.penalised > 0.0], "groups"))
        return said

    def _suboptimality(self) -> str:
        """Say how far g(x) may be above g*."""
        gap, start = self.certificate.lower_gap, self.start_values[1]
        if math.isinf(gap):
            return "not known: nothing bounds g* from below"
        fall = start - self.certificate.lower_optimum[0]
        share = f", {gap / fall:.2g} of g(x0) - g* (g(x0) = {start:.6g})" if gap < fall else ""
        return f"g(x) is at most {max(gap, 0.0):.3g} above g*{share}"

    def _secured(self) -> str:
        """Say why f(x) cannot lie far below f*."""
        proof, asked = self.certificate, self.tolerance[0]
        if proof.upper_error <= asked:
            return f"proved from both sides: |f(x) - f*| <= {proof.upper_error:.3g}"
        if self.proved and self.criterion == "weak":
            return "no: criterion='weak' does not require it, so f(x) may lie below f*"
        if self.is_guarded:
            estimate = f"|f(x) - f*| is about {proof.upper_estimate:.2g}"
            return (
                f"by the guard: {estimate}, and at most 2 tolerances if g grows quadratically, "
                "not too slowly in any direction, and x is not close to f's own minimiser"
            )
        if math.isfinite(proof.upper_error):
            return f"less than requested: only |f(x) - f*| <= {proof.upper_error:.3g} is proved"
        return "no: f(x) may lie below f* by an unknown amount"

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data for JSON; inf and nan become None."""
        return run_report(self) | {
            "trace": [
                {name: number_or_none(value) for name, value in row._asdict().items()}
                for row in self.trace
            ],
        }

    def save(self, path: str | Path, problem: bool = False) -> None:
        """Save to a .npz file for ``tiebreak.load``; every number is saved exactly (bit for bit).

        Arrays of other libraries come back as NumPy arrays. A loaded result is a warm start like
        any other, ``solve(problem, x0=result)``. Proved bounds are reused only with the saved
        problem, ``solve(result.problem, x0=result)``. Bounds in a file are trusted.

        Args:
            path: the .npz file, written completely or not at all.
            problem: whether to save the problem and its data (see `Problem.save`).
        """
        from tiebreak.saving import result_content

        checks.flag("Result.save", "problem", problem)
        save("Result.save", path, "Result", lambda to: result_content(to, self, problem))

    def _view(self) -> View:
        return run_view(self)

    def plot(self, path: str | None = None) -> Any:
        """Draw both levels with the certified band, and save the plot to ``path`` if given.

        Returns the matplotlib figure (needs the ``plot`` extra).
        """
        return convergence(self._view(), path)


def _notable(sizes: np.ndarray[Any, Any], what: str) -> str:
    """Say how many of the sizes are not small relative to the largest, and how many are 0."""
    large = int(np.count_nonzero(sizes > NOTABLE * np.max(sizes)))
    zeros = int(np.count_nonzero(sizes == 0.0))
    said = f"{large} of {len(sizes)} {what} exceed {NOTABLE:g} of the largest"
    return f"{said}, {zeros or 'none'} exactly 0"


def _value(value: float, error: float, asked: float) -> str:
    """Format a value: 0 if its error, far below the tolerance, is larger than the value itself."""
    return "0" if abs(value) <= error <= TOL.touching * asked else f"{value:.9g}"


def _gap(letter: str, gap: float, asked: float) -> str:
    """Say what is proved about a level, and whether that is as much as requested."""
    if math.isinf(gap):
        return f"not proved: nothing bounds {letter}* from below{_asked(asked)}"
    only = "proved" if gap <= asked or not _asked(asked) else "proved only"
    return f"{only} {letter}(x) - {letter}* <= {gap:.3g}{_asked(asked)}"


def _asked(tolerance: float) -> str:
    """Say which tolerance was requested; "" if there is none."""
    return f" (asked {tolerance:.3g})" if tolerance > UNDERFLOW else ""


RELIES_ON = "Relies on {}: user-supplied, not verified"


def assumptions(problem: Problem) -> list[str]:
    """List the unchecked assumptions of every proof about this problem.

    Also say how the data were interpreted if that could be surprising.
    """
    parts = (part for h in problem.smooth_parts for _, part in summands(h.bare))
    said = [*dict.fromkeys(part.note for part in parts if part.note)]
    levels = [
        name
        for name, h in zip(("upper", "lower"), problem.smooth_parts, strict=True)
        if any(isinstance(part, Smooth) or not is_ours(type(part)) for _, part in summands(h.bare))
    ]
    if levels:
        said.append(
            f"Assumes that {' and '.join(levels)} {'is' if len(levels) == 1 else 'are'} convex, "
            "with correct gradients"
        )
    if promised := promises(problem):
        said.append(RELIES_ON.format(" and ".join(promised)))
    return said


def promises(problem: Problem) -> list[str]:
    """Name the unchecked arguments and user-defined classes that a proof relies on."""
    given = [
        f"{name}={value!r}"
        for name in ("radius", "error_bound")
        if (value := getattr(problem, name)) is not None
    ]
    return given + descriptions(problem)


def descriptions(problem: Problem) -> list[str]:
    """Name the third-party classes whose own description a proof relies on."""
    parts = [
        *problem.domain.parts,
        *(part for penalty in problem.penalties for part in penalty.summands),
        *(part for h in problem.smooth_parts for _, part in summands(h.bare)),
    ]
    kinds: dict[Any, None] = dict.fromkeys(type(part) for part in parts)
    return [f"the description of {kind.__name__}" for kind in kinds if described_outside(kind)]


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
        return "none: the lower level has a single minimiser, so the upper level has no choice"
    return f"the lower level's solution set has dimension {dimension}"
