"""The contract of a method: everything that the loop in `driver` or `auto` may ask of it.

A method of your own is a subclass of `Method` with ``check``, ``describe``, ``init`` and ``step``,
and a state with the four members of `State`. All else has a default; nothing is looked for that is
not declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from tiebreak.algorithms.facts import Rate
from tiebreak.linalg import Array, Refusal, in_files
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Proved
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.gate import Ended
from tiebreak.proofs.recession.watch import NoMinimum
from tiebreak.sets import has_projection

__all__ = [
    "Ended",
    "Findings",
    "Method",
    "Multipliers",
    "Refusal",
    "State",
    "StateReport",
    "StepEvidence",
]

NOT_ENDED = Ended()


class State(Protocol):
    """What every state has; best a NamedTuple of arrays and numbers, so that it can be saved."""

    @property
    def x(self) -> Array:
        """The point that the method would answer with."""

    @property
    def upper_value(self) -> float:
        """f(x)."""

    @property
    def lower_value(self) -> float:
        """g(x)."""

    @property
    def evidence(self) -> StepEvidence:
        """The minorants and values of the last step, for the certificate; may be empty."""


@runtime_checkable
class Findings(Protocol):
    """What a method found out besides x, in its own words."""

    @property
    def dimension(self) -> int | None:
        """Of the solution set of the lower level, None where unknown."""

    def lines(self) -> list[tuple[str, str]]:
        """Lines for the report: a label of at most 10 characters, and a text."""


@in_files("Multipliers")
class Multipliers(NamedTuple):
    """What a run has found besides x, for the start of the next one: see `Method.init_from`.

    x is about argmin over Z of g + eta f + eta (<slopes, .> + weight g2), where the slopes are a
    weighted sum of those of g1 at points whose sum, so weighted, is ``points``. The minorant of g1
    at x + t c proves that x is optimal.
    """

    eta: float
    slopes: Array
    weight: float
    points: Array
    t: float
    c: Array
    inverse_hessian: Array | None  # of g + eta f along the face of x, as far as it is known


class StateReport(NamedTuple):
    """What a method says about a state of its own, beyond the four members of every state."""

    finished: Ended = NOT_ENDED  # why a method has ended by itself
    answer: Ended = NOT_ENDED  # why it would end, but for the proof that is missing
    fall: NoMinimum | None = None  # the direction along which it found no minimum
    is_empty: bool = False  # do multipliers show that Z is?
    readings: str = ""  # the two readings of data whose rank rounding decides, in a sentence
    is_ambiguous: bool = False  # does f depend on a rank that rounding decides?
    findings: Findings | None = None
    one_sided: str = ""  # why f* is not proved from above, where the method knows
    reach: Any = None  # of what length the images of x were mixed; None: they were not
    is_good: bool = True  # is x better than where the method began, as far as can be told?
    is_settling: bool = False  # is f about to become more accurate, whatever is proved already?
    decides: bool = False  # does the next step decide everything, with a proof of its own?
    is_milestone: bool = False  # is this a step worth a row?
    multipliers: Multipliers | None = None  # for a warm start
    lipschitz_violations: tuple[int, int] = (0, 0)  # how often f, g rose more than allowed by L
    convexity_violations: tuple[int, int] = (0, 0)  # how often f, g fell below their own minorants


def no_projection(owner: str, problem: Problem) -> Refusal | None:
    """The refusal of a domain that has no cheap projection."""
    if has_projection(problem.domain):
        return None
    hint = "conic and exact are the methods that take such sets"
    kind = type(problem.domain).__name__
    return Refusal(owner, "domain", "must have a cheap projection", kind, hint)


@in_files("exact")
class DirectState(NamedTuple):
    """Of a method whose first step is its last: before the step and after it."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    evidence: StepEvidence
    finished: Ended = NOT_ENDED
    findings: Any = None


class Method(ABC):
    """A method: parameters (best a frozen dataclass), a first state, and the way to the next.

    A step prints nothing, times nothing, stops nothing, and writes into no array that it was given.
    """

    name: ClassVar[str] = "custom"
    paper: ClassVar[str] = ""
    assumptions: ClassVar[str] = ""
    guarantee: ClassVar[str] = ""
    cites: ClassVar[tuple[str, ...]] = ()  # keys of field.bib, or entries in BibTeX
    rates: ClassVar[tuple[Rate, ...]] = ()
    output: ClassVar[str] = "the last iterate"  # the point that its theorem is about
    needs_projection: ClassVar[bool] = True  # does it project onto Z in its steps?
    adapts: ClassVar[bool] = False  # does it want to be told what is proved? see `adapt`
    remedy: ClassVar[str] = ""  # what else to try where the gaps hardly shrink, after "relax rtol"

    @abstractmethod
    def check(self, problem: Problem) -> Refusal | None:
        """Why the method does not take the problem, None where it does."""

    def refusal(self, problem: Problem) -> Refusal | None:
        """`check`, and before it the one thing that all methods with projections ask of Z."""
        lacking = no_projection(type(self).__name__, problem) if self.needs_projection else None
        return lacking or self.check(problem)

    @abstractmethod
    def describe(self, problem: Problem) -> str:
        """The method and its parameters in words."""

    @abstractmethod
    def init(self, problem: Problem, x0: Array) -> Any:
        """The first state, from a start in the domain."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """The next state; the one given stays as it is."""

    def init_from(self, problem: Problem, x0: Array, multipliers: Multipliers) -> Any:
        """The first state of a warm start, from the point and the multipliers of a former run."""
        return self.init(problem, x0)

    def planned(self, steps: int) -> Self:
        """The method for at most so many steps: they are its ``horizon``, where that is open."""
        mine: Any = self
        is_open = getattr(mine, "horizon", steps) is None
        return replace(mine, horizon=max(steps, 1)) if is_open else self

    def adapt(self, state: Any, proved: Proved) -> Any:
        """The state for a run that is told, now and then, what is proved; only if it `adapts`."""
        return state

    def history(self, problem: Problem, state: Any) -> str:
        """The way that a run went, for a method that decides on the way."""
        return self.describe(problem)

    def points(self, state: Any) -> dict[str, Array]:
        """Other points worth measuring, by what they are ("the average"), besides the answer."""
        return {}

    def report(self, state: Any) -> StateReport:
        """What there is to say about a state besides its point, its values and its evidence."""
        return StateReport()


def first_state(
    method: Method, problem: Problem, x0: Array, multipliers: Multipliers | None
) -> Any:
    """The first state: a warm start where there are multipliers of as many variables."""
    if multipliers is None or multipliers.slopes.shape != x0.shape:
        return method.init(problem, x0)
    return method.init_from(problem, x0, multipliers)
