"""The gate: every word that a result bears is given here, after its point has been looked at.

Methods and solvers hope: they hand over the reason why they ended. What is claimed is checked in
the order in which a reader would do it: x is finite; x has the right shape and is in Z, each
constraint by its own terms; a no has a direction or multipliers that show it; what was promised is
not contradicted; the bounds, for that x, are as narrow as was asked. Then the word is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tiebreak.levels import Levels
from tiebreak.linalg import arrays, in_files
from tiebreak.linalg.arrays import Array
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.proofs.recession.direction import is_direction_of_descent
from tiebreak.sets.base import Violation

STATUSES = {
    "certified": "both levels are proved to be within the tolerance",
    "solved": "an answer was found, its proof is wider than asked",
    "unbounded": "there is no minimiser: a level falls without end along a direction",
    "infeasible": "no point meets the constraints",
    "undetermined": "the data allow two readings, and nothing tells which is meant",
    "max_iter": "max_iter steps were taken before both levels were within the tolerance",
    "max_time": "max_time passed before both levels were within the tolerance",
    "stopped": "stopped from outside; x is the best point so far",
    "failed": "no answer: a value is not finite, or a promise was seen to be false",
}
SUCCESSES = ("certified", "solved")

# Why a run ended, in the words of whoever ended it.
MET = "met"  # the bounds of the run are within the tolerances, or guarded
ANSWER = "answer"  # the conditions of optimality hold, as far as the method can tell
RULE = "rule"  # the stopping rule of the method itself is met
DOUBT = "doubt"  # the data allow two readings, or the method can vouch for no answer
FALLS = "falls"  # a level falls without end along a direction
EMPTY = "empty"  # no point meets the constraints
BROKEN = "broken"  # a value is not finite, or a promise is false
HOPES = (MET, ANSWER, RULE)
LIMITS = ("max_iter", "max_time", "stopped")
KNOWN = (*HOPES, DOUBT, FALLS, EMPTY, BROKEN, *LIMITS)

# Of a constraint's own terms: how far outside of Z a point may be called feasible. Every certified
# word means this, and no proof corrects it: it is a promise of the interface and nothing to tune,
# a hundred times stricter than solvers of linear programs are by default (1e-7).
NEARLY_IN_Z = 1e-9
WEAK = "f(x) - f* and g(x) - g* are proved to be within the tolerance (weak: f(x) may be below f*)"
GUARDED = (
    "f(x) - f* and g(x) - g* are proved to be within the tolerance; that f(x) is not far below f* "
    "is guarded, not proved"
)
ASSUMING = "{}, assuming {}"
OUTSIDE = "x violates {} by {:.2g}, which is more than rounding: it is not in the domain"
REFUTED = (
    "f(x) is proved to lie below f* by {:.3g}: x does not minimise the lower level well enough"
)
UNSEEN = "a direction without end was reported, but it does not stand up to a check"


@in_files("ended")
class Ended(NamedTuple):
    """Why a run ended, and a sentence where the word does not say it all."""

    why: str = ""
    sentence: str = ""

    @classmethod
    def of(cls, why: str, sentence: str) -> Ended:
        """With one of the reasons above: a method from outside may say that it has `solved` it."""
        own = ANSWER if why in SUCCESSES else DOUBT
        return cls(why if why in KNOWN else own, sentence)


class Constrained(Protocol):
    """What the gate asks of a problem: a Problem, Levels, or a model of another language."""

    def violations(self, x: Any) -> Sequence[Violation]:
        """The constraints that x does not meet."""


class LevelClaim(NamedTuple):
    """What is proved of one level at x: all of it is about the value that was computed there."""

    gap: float = math.inf  # its value less the best one is at most this
    error: float = math.inf  # and differs from it by at most this
    asked: float = 0.0  # the tolerance


class ResultClaim(NamedTuple):
    """What somebody would like to say about a point."""

    problem: Constrained
    x: Array
    ended: Ended
    levels: tuple[LevelClaim, ...]  # the most important first
    criterion: str = "absolute"
    fall: tuple[int, Array] | None = None  # the place of a level, and along what it falls
    is_shown: bool = False  # do multipliers show it, or the rows of a program from elsewhere?
    broken: str = ""  # which promise was seen to be false
    readings: str = ""  # the two readings of data whose rank rounding decides
    assumed: str = ""  # what the proof rests on besides the data


def claims_of(proof: Certificate, asked: tuple[float, float]) -> tuple[LevelClaim, LevelClaim]:
    """What a certificate says of both levels, g first; the tolerances are those of f and g."""
    return (
        LevelClaim(proof.lower_gap, proof.lower_gap, asked[1]),
        LevelClaim(proof.upper_gap, proof.upper_error, asked[0]),
    )


class Word(NamedTuple):
    """The word, and a sentence where it does not say it all."""

    status: str
    sentence: str = ""


def judge(claim: ResultClaim) -> Word:
    """The word that a claim deserves."""
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
    """There is no answer, if that is shown."""
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
    if claim.criterion == "weak":
        return all(level.gap <= level.asked for level in claim.levels)
    return first.gap <= first.asked and all(level.error <= level.asked for level in others)


def _how(claim: ResultClaim) -> str:
    """What is proved, in a sentence where the word alone would say too much."""
    is_weak = claim.criterion == "weak" and claim.levels[-1].error > claim.levels[-1].asked
    said = WEAK if is_weak else ""
    return ASSUMING.format(said or STATUSES["certified"], claim.assumed) if claim.assumed else said


def _of_hope(claim: ResultClaim) -> Word:
    """A point in Z of which not all is proved that was asked for."""
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
