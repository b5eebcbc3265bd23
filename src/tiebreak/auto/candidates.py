"""The candidates of a portfolio, their progress, and forecasts of the work they still need."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tiebreak.algorithms import Method
from tiebreak.linalg import Array, in_files
from tiebreak.proofs.evidence import StepEvidence

NONE = -1  # stands for no candidate
RACING, REFINING, PROVING, OVER = range(4)  # the phases: see `portfolio`


class Candidate(NamedTuple):
    """A method of a portfolio, and what the report says about it.

    ``title`` names the method in a few words (if it is empty, the method's own description is
    used). ``least`` is a lower bound on the method's work; a method that ``is_direct`` takes a
    single step. A method that ``refines`` ends on its own, with a point that is accurate up to
    rounding.
    """

    method: Method
    title: str = ""
    least: float = 0.0
    is_direct: bool = False
    refines: bool = False


@in_files("portfolio.runner")
class Runner(NamedTuple):
    """The progress of a candidate."""

    inner: Any = None  # the state of the method; None before it begins
    spent: float = 0.0  # the work spent on this candidate
    error: float = math.inf  # proved error of the candidate's point, in units of the tolerance
    marks: tuple[tuple[float, float], ...] = ()  # work and error, at each doubling of the work
    note: str = ""  # how the candidate ended; "" while it can go on

    def measured(self, error: float) -> Runner:
        """Record the error of the candidate's current point; set a mark if the work has doubled."""
        error = min(error, self.error)
        marks = self.marks
        if math.isfinite(error) and (not marks or self.spent >= 2.0 * marks[-1][0] > 0.0):
            marks = (*marks[-1:], (self.spent, error))
        return self._replace(error=error, marks=marks)

    def forecast(self, candidate: Candidate) -> float:
        """Estimate how much more work the candidate needs."""
        if self.note:
            return math.inf
        if self.spent < candidate.least or candidate.refines or len(self.marks) < 2:
            return max(candidate.least - self.spent, self.spent)
        spent, error = self.marks[0]
        gain = math.log(error / self.error) if self.error > 0.0 else math.inf
        if not gain > 0.0:
            return math.inf
        logarithm = math.log(self.spent / spent) * max(math.log(self.error), 0.0) / gain
        return self.spent * math.expm1(min(logarithm, 700.0))


@in_files("portfolio")
class State(NamedTuple):
    """The state of a portfolio; x and the values are those of the best candidate so far."""

    k: int
    start: Array
    runners: tuple[Runner, ...]
    order: tuple[int, ...]  # the candidates in the order in which they began
    at: int  # the candidate that is running
    best: int  # the candidate with the best point so far
    proved: int  # the first candidate whose gaps are both proved, or NONE
    answer: int  # the candidate that has ended with its answer, or NONE
    phase: int  # RACING, REFINING a proved point, PROVING the answer, OVER
    since: float  # the total work at the beginning of this phase
    lipschitz_violations: tuple[int, int]  # of f and g, by all candidates
    convexity_violations: tuple[int, int]
    least: float  # the least value of g seen
    allowed: float  # how far g at an answer may exceed ``least``
    evidence: StepEvidence

    @property
    def shown(self) -> Any:
        """The state of the candidate with the best point."""
        return self.runners[self.best].inner

    @property
    def x(self) -> Array:
        """The point."""
        return self.shown.x

    @property
    def upper_value(self) -> float:
        """The value f(x)."""
        value: float = self.shown.upper_value
        return value

    @property
    def lower_value(self) -> float:
        """The value g(x)."""
        value: float = self.shown.lower_value
        return value

    @property
    def work(self) -> float:
        """The total work of all candidates."""
        return sum(runner.spent for runner in self.runners)

    def with_runner(self, number: int, **changes: Any) -> State:
        """Return the state with one runner changed."""
        runners = list(self.runners)
        runners[number] = runners[number]._replace(**changes)
        return self._replace(runners=tuple(runners))
