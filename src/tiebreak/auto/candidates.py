"""The candidates of a portfolio, how far each of them is, and what it is expected to need yet."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tiebreak.algorithms import Method
from tiebreak.linalg import Array, in_files
from tiebreak.proofs.evidence import StepEvidence

NONE = -1  # the number of no candidate
RACING, REFINING, PROVING, OVER = range(4)  # what the work is for: see `portfolio`


class Candidate(NamedTuple):
    """A method of a portfolio, and what the report says of it.

    ``title`` is the method in a word or two ("": as it describes itself). It takes at least so much
    work; all of it in one step if it ``is_direct``. One that ``refines`` ends by itself, with a
    point that is right to rounding.
    """

    method: Method
    title: str = ""
    least: float = 0.0
    is_direct: bool = False
    refines: bool = False


@in_files("portfolio.runner")
class Runner(NamedTuple):
    """How far a candidate is."""

    inner: Any = None  # the state of its method; None before it begins
    spent: float = 0.0  # the work that it has had
    error: float = math.inf  # of its point, as proved, in units of what is asked
    marks: tuple[tuple[float, float], ...] = ()  # work and error, and those when it had doubled
    note: str = ""  # how it ended; "" while it can go on

    def measured(self, error: float) -> Runner:
        """With the error of its point now; a mark where the work has doubled."""
        error = min(error, self.error)
        marks = self.marks
        if math.isfinite(error) and (not marks or self.spent >= 2.0 * marks[-1][0] > 0.0):
            marks = (*marks[-1:], (self.spent, error))
        return self._replace(error=error, marks=marks)

    def forecast(self, candidate: Candidate) -> float:
        """How much more work it needs, as far as can be told."""
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
    """Where a portfolio is; x and the values are those of the candidate that is best so far."""

    k: int
    start: Array
    runners: tuple[Runner, ...]
    order: tuple[int, ...]  # the candidates in the order in which they began
    at: int  # the number of the one at work
    best: int  # of the one whose point counts
    proved: int  # of the one that had both gaps proved first, NONE before
    answer: int  # of the one that has ended with its answer; NONE before
    phase: int  # RACING, REFINING what is proved, PROVING the answer, OVER
    since: float  # the work of all at the beginning of this phase
    lipschitz_violations: tuple[int, int]  # doubts about f and g, of all candidates
    convexity_violations: tuple[int, int]
    least: float  # the least value of g that was seen
    allowed: float  # so much more may an answer have
    evidence: StepEvidence

    @property
    def shown(self) -> Any:
        """The state whose point counts."""
        return self.runners[self.best].inner

    @property
    def x(self) -> Array:
        """The point."""
        return self.shown.x

    @property
    def upper_value(self) -> float:
        """f(x)."""
        value: float = self.shown.upper_value
        return value

    @property
    def lower_value(self) -> float:
        """g(x)."""
        value: float = self.shown.lower_value
        return value

    @property
    def work(self) -> float:
        """The work of all candidates."""
        return sum(runner.spent for runner in self.runners)

    def with_runner(self, number: int, **changes: Any) -> State:
        """With changes of one runner."""
        runners = list(self.runners)
        runners[number] = runners[number]._replace(**changes)
        return self._replace(runners=tuple(runners))
