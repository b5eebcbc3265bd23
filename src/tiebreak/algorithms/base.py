"""The contract of a method: everything that the loop in `driver` or `auto` may ask of it.

To write your own method, subclass `Method` with ``check``, ``describe``, ``init`` and ``step``, and
give it a state with the four members of `State`. Everything else has a default, and the loop uses
only what is declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from tiebreak.algorithms.facts import BOUNDED, ORDER_1, ORDER_2, Rate
from tiebreak.linalg import Array, Refusal, assign, in_files
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Proved
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.gate import Ended
from tiebreak.proofs.recession.watch import NoMinimum

__all__ = [
    "BOUNDED",
    "ORDER_1",
    "ORDER_2",
    "Ended",
    "Findings",
    "Method",
    "Multipliers",
    "Notes",
    "Proved",
    "Range",
    "Rate",
    "Refusal",
    "State",
    "StateReport",
    "StepEvidence",
]

NOT_ENDED = Ended()

# (owner, name, value) -> the value of a parameter, or an error if it is out of range: see `common`
Range: TypeAlias = Callable[[str, str, Any], Any]


class State(Protocol):
    """What every state has; to be saved, a state must be a NamedTuple of arrays and numbers."""

    @property
    def x(self) -> Array:
        """The point that the method would return now."""

    @property
    def upper_value(self) -> float:
        """The value f(x)."""

    @property
    def lower_value(self) -> float:
        """The value g(x)."""

    @property
    def evidence(self) -> StepEvidence:
        """The minorants and values of the last step, for the certificate; this may be empty."""


@runtime_checkable
class Findings(Protocol):
    """What a method has found besides x, for the report."""

    @property
    def dimension(self) -> int | None:
        """The dimension of the lower level's solution set; None if unknown."""

    def lines(self) -> list[tuple[str, str]]:
        """Return lines for the report, each with a label of at most 10 characters and a text."""


@in_files("SavedFindings")
class Notes(NamedTuple):
    """Findings given as lines for the report, with the solution set's dimension if it is known."""

    said: tuple[tuple[str, str], ...]
    dimension: int | None = None

    def lines(self) -> list[tuple[str, str]]:
        """Return these lines."""
        return list(self.said)


@in_files("Multipliers")
class Multipliers(NamedTuple):
    """What a run has found besides x, for a warm start of the next run: see `Method.init_from`.

    x is roughly the argmin over Z of g + eta f + eta (<slopes, .> + weight g2). ``slopes`` is a
    weighted sum of the slopes of g1 at some points, and ``points`` is the sum of these points with
    the same weights. The minorant of g1 at x + t c proves that x is optimal.
    """

    eta: float
    slopes: Array
    weight: float
    points: Array
    t: float
    c: Array
    inverse_hessian: Array | None  # inverse Hessian of g + eta f along the face of x, if known


class StateReport(NamedTuple):
    """What a method says about its state, beyond the four members of every state."""

    finished: Ended = NOT_ENDED  # why the method has ended on its own
    answer: Ended = NOT_ENDED  # why the method would end if a proof for x were found
    fall: NoMinimum | None = None  # a direction along which a level decreases forever
    is_empty: bool = False  # do multipliers prove that Z is empty?
    readings: str = ""  # both readings of the data, in a sentence, if rounding decides the rank
    is_ambiguous: bool = False  # does f depend on a rank that rounding decides?
    findings: Findings | None = None
    one_sided: str = ""  # why f* has no proved upper bound, if the method knows
    reach: Any = None  # the size of the terms that add up to images of x, or None
    is_evaluated: bool = False  # were f and g evaluated at x itself, not derived from images?
    is_good: bool = True  # is x better than x0, as far as the method can tell?
    is_settling: bool = False  # will f(x) soon be more accurate, even if tolerances are met?
    decides: bool = False  # will the next step end the run, with its own proof?
    is_milestone: bool = False  # does this step deserve a row of the trace?
    multipliers: Multipliers | None = None  # used by a warm start
    lipschitz_violations: tuple[int, int] = (0, 0)  # how often f and g rose more than L allows
    convexity_violations: tuple[int, int] = (0, 0)  # how often f and g fell below their minorants


def no_projection(owner: str, problem: Problem) -> Refusal | None:
    """Refuse a domain without a cheap projection; return None if it has one."""
    if problem.domain.has_projection:
        return None
    hint = "the conic and exact methods accept such sets"
    kind = type(problem.domain).__name__
    return Refusal(owner, "domain", "must have a cheap projection", kind, hint)


@in_files("exact")
class DirectState(NamedTuple):
    """The state of a method that takes a single step, before and after that step."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    evidence: StepEvidence
    finished: Ended = NOT_ENDED
    findings: Any = None


class Method(ABC):
    """A method: its parameters (preferably a frozen dataclass), a first state, and a step.

    A step does not print, measure time or end the run, and does not modify its input arrays.
    """

    name: ClassVar[str] = "custom"
    paper: ClassVar[str] = ""
    assumptions: ClassVar[str] = ""
    guarantee: ClassVar[str] = ""
    cites: ClassVar[tuple[str, ...]] = ()  # keys of field.bib, or BibTeX entries
    rates: ClassVar[tuple[Rate, ...]] = ()
    output: ClassVar[str] = "the last iterate"  # the point for which the method's theorem holds
    needs_projection: ClassVar[bool] = True  # do the method's steps project onto Z?
    adapts: ClassVar[bool] = False  # does the method use proved bounds? see `adapt`
    remedy: ClassVar[str] = ""  # what to try if the gaps hardly shrink
    ranges: ClassVar[dict[str, Range]] = {}  # what each parameter must be, by its name

    def __post_init__(self) -> None:
        """Refuse parameters outside their ranges, and replace the others by Python's own numbers.

        A NumPy number would turn vectors in float32 into float64, or round step sizes to float32.
        """
        for name, checked in self.ranges.items():
            assign(self, name, checked(type(self).__name__, name, getattr(self, name)))

    @abstractmethod
    def check(self, problem: Problem) -> Refusal | None:
        """Return why the method does not accept the problem, or None if it does."""

    def refusal(self, problem: Problem) -> Refusal | None:
        """Run `check`, after checking that Z has a projection if the method needs one."""
        lacking = no_projection(type(self).__name__, problem) if self.needs_projection else None
        return lacking or self.check(problem)

    @abstractmethod
    def describe(self, problem: Problem) -> str:
        """Describe the method and its parameters in words."""

    @abstractmethod
    def init(self, problem: Problem, x0: Array) -> Any:
        """Return the first state, from a starting point in the domain."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """Return the next state; leave the given one unchanged."""

    def init_from(self, problem: Problem, x0: Array, multipliers: Multipliers) -> Any:
        """Return the first state, from the point and multipliers of an earlier run."""
        return self.init(problem, x0)

    def planned(self, steps: int) -> Self:
        """Return the method with ``horizon`` set to this number of steps if it was None."""
        mine: Any = self
        is_open = getattr(mine, "horizon", steps) is None
        return replace(mine, horizon=max(steps, 1)) if is_open else self

    def adapt(self, state: Any, proved: Proved) -> Any:
        """Adapt the state to the proved bounds; if ``adapts``, the loop calls this at times."""
        return state

    def history(self, problem: Problem, state: Any) -> str:
        """Describe the method as it ran, including the choices that it made during the run."""
        return self.describe(problem)

    def answer(self, state: Any) -> str:
        """Say which point ``state.x`` is, such as "the last iterate"."""
        return self.output

    def points(self, state: Any) -> dict[str, Array]:
        """Return other points worth measuring, by name ("the average")."""
        return {}

    def report(self, state: Any) -> StateReport:
        """Return a report on a state: everything except its point, values and evidence."""
        return StateReport()


def first_state(
    method: Method, problem: Problem, x0: Array, multipliers: Multipliers | None
) -> Any:
    """Return the first state; start warm if the sizes of ``multipliers`` and ``x0`` agree."""
    if multipliers is None or multipliers.points.shape != x0.shape:
        return method.init(problem, x0)
    return method.init_from(problem, x0, multipliers)
