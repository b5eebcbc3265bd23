"""The gate decides the status of every run that took a step, once the run's point is checked.

Methods and solvers only say why they ended. The gate then checks, in this order: x is finite; a
claim that no solution exists comes with a direction or multipliers that prove it; x has the right
shape and is in Z, relative to the size of each constraint's terms; no promise is contradicted; the
bounds at x are as tight as requested. The run gets its status after these checks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tiebreak.levels import Levels
from tiebreak.linalg import Array, arrays, in_files
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.proofs.recession.direction import is_direction_of_descent
from tiebreak.sets.base import Violation

STATUSES = {
    "certified": "both levels are proved to be within the tolerance",
    "solved": "an answer was found, but the proved bounds are not as tight as requested",
    "unbounded": "there is no minimiser: a level decreases forever along a direction",
    "infeasible": "no point meets the constraints",
    "undetermined": "the data allow two readings, and it is unclear which is meant",
    "max_iter": "max_iter steps were taken before both levels were within the tolerance",
    "max_time": "max_time passed before both levels were within the tolerance",
    "stopped": "stopped from outside; x is the best point so far",
    "failed": "no answer: a value is not finite, or a promise was found to be false",
}
SUCCESSES = ("certified", "solved")

# Why a run ended, as stated by the code that ended it.
MET = "met"  # the bounds of the run are within the tolerances, or guarded
ANSWER = "answer"  # the optimality conditions hold, as far as the method can tell
RULE = "rule"  # the method's own stopping rule is met
DOUBT = "doubt"  # the data allow two readings, or the method is not sure of its answer
FALLS = "falls"  # a level is unbounded below along a direction
EMPTY = "empty"  # no point satisfies the constraints
BROKEN = "broken"  # a value is not finite, or a promise is false
HOPES = (MET, ANSWER, RULE)
LIMITS = ("max_iter", "max_time", "stopped")
KNOWN = (*HOPES, DOUBT, FALLS, EMPTY, BROKEN, *LIMITS)

# How far outside Z a point may be and still count as feasible, relative to each constraint's own
# terms. Every certified status relies on this number, and no proof corrects it. It is a promise of
# the interface, not a tuning parameter, and it is a hundred times stricter than the default of
# linear programming solvers (1e-7).
NEARLY_IN_Z = 1e-9
WEAK = "f(x) - f* and g(x) - g* are proved to be within the tolerance (weak: f(x) may be below f*)"
GUARDED = (
    "f(x) - f* and g(x) - g* are proved to be within the tolerance; that f(x) is not far below f* "
    "is guarded, not proved"
)
ASSUMING = "{}, assuming {}"
OUTSIDE = "x violates {} by {:.2g}, more than a rounding error: it is not in the domain"
REFUTED = (
    "f(x) is proved to lie below f* by {:.3g}: x does not minimise the lower level well enough"
)
UNSEEN = "a direction of unlimited descent was reported, but it fails a check"


@in_files("ended")
class Ended(NamedTuple):
    """The reason why a run ended, with a sentence if the reason needs explaining."""

    why: str = ""
    sentence: str = ""

    @classmethod
    def of(cls, why: str, sentence: str) -> Ended:
        """Convert a method's reason; methods from outside the package may say `solved`."""
        own = ANSWER if why in SUCCESSES else DOUBT
        return cls(why if why in KNOWN else own, sentence)


class Constrained(Protocol):
    """The interface that the gate needs; Problem, Levels and other libraries' models have it."""

    def violations(self, x: Any) -> Sequence[Violation]:
        """The constraints that x violates."""


class LevelClaim(NamedTuple):
    """The bounds proved for one level's computed value at x."""

    gap: float = math.inf  # a bound on the level's value minus its best value
    error: float = math.inf  # a bound on |level's value - its best value|
    asked: float = 0.0  # the tolerance


class ResultClaim(NamedTuple):
    """A claim about a point, to be judged."""

    problem: Constrained
    x: Array
    ended: Ended
    levels: tuple[LevelClaim, ...]  # the most important level first
    criterion: str = "absolute"
    # the index of a level, and a direction along which it decreases
    fall: tuple[int, Array] | None = None
    # do multipliers, or the rows of another library's model, prove a negative answer?
    is_shown: bool = False
    broken: str = ""  # the promise that was found to be false
    readings: str = ""  # the two readings of data whose rank is decided by rounding
    assumed: str = ""  # what the proof relies on besides the data


def claims_of(proof: Certificate, asked: tuple[float, float]) -> tuple[LevelClaim, LevelClaim]:
    """The claims of a certificate about both levels, g first, with the tolerances of f and g."""
    return (
        LevelClaim(proof.lower_gap, proof.lower_gap, asked[1]),
        LevelClaim(proof.upper_gap, proof.upper_error, asked[0]),
    )


class Word(NamedTuple):
    """The status, with a sentence if the status needs explaining."""

    status: str
    sentence: str = ""


def judge(claim: ResultClaim) -> Word:
    """The status that a claim deserves."""
    why, sentence = claim.ended
    if not arrays.all_finite(claim.x):
        return Word("failed", sentence or STATUSES["failed"])
    if why in (FALLS, EMPTY):
        return _of_a_no(claim)
    outside = violated(claim.problem, claim.x)
    broken = claim.broken
    if outside is not None and why in HOPES:
        broken = broken or OUTSIDE.format(outside.what, outside.amount)
    if broken:
        return Word("failed", broken)
    if outside is None and why != "stopped" and _is_proved(claim):
        return Word("certified", _how(claim))
    if claim.readings and why in (*HOPES, "max_iter"):
        return Word("undetermined", claim.readings)
    return _of_hope(claim)


def violated(problem: Constrained, x: Array) -> Violation | None:
    """The constraint that x violates most relative to its own terms; None if x is in Z."""
    unit = math.prod(x.shape) * arrays.epsilon(x)
    found = [one for one in problem.violations(x) if one.exceeds(NEARLY_IN_Z, unit)]
    return max(found, key=lambda one: one.amount / (one.size or 1.0), default=None)


def _of_a_no(claim: ResultClaim) -> Word:
    """The status of a run that claims that there is no answer: the claim needs a proof."""
    why, sentence = claim.ended
    is_shown = claim.is_shown
    if why == FALLS and isinstance(claim.problem, Problem | Levels):
        is_shown = claim.fall is not None and is_direction_of_descent(claim.problem, *claim.fall)
    if is_shown:
        return Word("unbounded" if why == FALLS else "infeasible", sentence)
    return Word("undetermined", f"{sentence}; {UNSEEN}" if sentence else UNSEEN)


def _is_proved(claim: ResultClaim) -> bool:
    """Are all levels proved to be within their tolerances?"""
    first, *others = claim.levels
    is_weak = claim.criterion == "weak"
    # In Z, g is at least g*: far below g*, g magnifies how far x is outside.
    gaps = [(abs(first.gap), first.asked)]
    gaps += [(level.gap if is_weak else level.error, level.asked) for level in others]
    return all(gap <= asked and gap < math.inf for gap, asked in gaps)


def _how(claim: ResultClaim) -> str:
    """A sentence on the proved bounds, needed if the status alone would claim too much."""
    is_weak = claim.criterion == "weak" and claim.levels[-1].error > claim.levels[-1].asked
    said = WEAK if is_weak else ""
    return ASSUMING.format(said or STATUSES["certified"], claim.assumed) if claim.assumed else said


def _of_hope(claim: ResultClaim) -> Word:
    """The status of a point in Z for which not everything requested is proved."""
    why, sentence = claim.ended
    if why == DOUBT:
        return Word("undetermined", sentence)
    if why == BROKEN:
        return Word("failed", sentence)
    if why not in HOPES:
        return Word(why, sentence)
    for level in claim.levels[1:]:
        if -level.gap > level.asked and why != RULE:
            return Word("failed", REFUTED.format(-level.gap))
    return Word("solved", sentence or (GUARDED if why == MET else ""))
