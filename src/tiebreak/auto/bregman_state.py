"""Where the method of multipliers is: its state, and the sum of a round at a point,

    g + eta f + eta (<pull, .> + weight g2),

with pull = sum of grad g1(x_i)/eta_i and weight = sum of 1/eta_i over the rounds before. For the
method itself and for the proof of what it ends with.
"""

from __future__ import annotations

from typing import NamedTuple

from tiebreak.auto.active_face import ActiveFace, along_terms
from tiebreak.auto.conjugate_gradients import Conjugate
from tiebreak.auto.hessian_differences import HessianDifferences
from tiebreak.auto.quasi_newton import Curvature
from tiebreak.functions.base import Minorant
from tiebreak.linalg import arrays
from tiebreak.linalg.arrays import Array
from tiebreak.problem import Problem
from tiebreak.proofs.certificate import StepEvidence


class Look(NamedTuple):
    """The sum of a round at a point; f and g are minorants of f1 and g1."""

    f: Minorant
    g: Minorant
    value: float
    smooth: Array  # the slope of its smooth part
    slope: Array  # the same with the slope of the penalties, along the face of the point

    @property
    def x(self) -> Array:
        """The point."""
        return self.f.at


class Proof(NamedTuple):
    """Where the next cut of the proof is seen: at x + t c."""

    t: float
    c: Array
    bend: float  # <c, Hc>, H the Hessian of g1
    rounding: float  # of a cut, as a value of g
    reach: float  # how long a way in Z can be, or what a tilt of 1 costs
    is_tilted: bool
    tilt: Array  # the signs that the slope left over has to have, where Z is unbounded; else 0
    lean: Array  # how far the minimiser of f + g/eta leans where it is tilted by so much
    rungs: int  # how many t there were before
    tries: int  # how many c there were for this t
    d: Array  # the last step of c
    left: Array  # what slope was left over before it, along the face
    best: Array  # the c that left least for this t, and how much
    least: float


class State(NamedTuple):
    """Where the rounds are; x is the last point that a round ended with."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    eta: float
    pull: Array  # sum of grad g1(x_i)/eta_i over the rounds
    weight: float  # sum of 1/eta_i
    points: Array  # sum of x_i/eta_i
    here: Look  # the iterate of this round
    curvature: Curvature
    probes: (
        HessianDifferences | None
    )  # both Hessians along the face, where that has become worth its price
    since: int  # steps without them
    is_straight: bool  # are rounds solved by conjugate gradients?
    conjugate: Conjugate | None  # where these are, from ``here`` on
    least: float  # the smallest slope since ``stalled`` steps
    stalled: int
    scale: float  # 1/L for the first step of L-BFGS
    rounds: int
    lacks: float  # how far x_k is from a minimiser of g, as a slope
    off: float  # about |f(x) - f*|, relative
    proof: Proof | None  # None before f has settled
    finished: tuple[str, str]
    lipschitz_violations: tuple[
        int, int
    ]  # how often f, g rose more than their Lipschitz constants allow
    convexity_violations: tuple[
        int, int
    ]  # how often f, g fell below their own minorants, as no convex one can
    evidence: StepEvidence


def seen_at(problem: Problem, x: Array) -> tuple[Minorant, Minorant]:
    """The minorants of f1 and g1 at x."""
    (point,) = problem.forward(x)
    return problem.upper.evaluate([point.f])[0][0], problem.lower.evaluate([point.g])[0][0]


def sum_at(
    problem: Problem, f: Minorant, g: Minorant, eta: float, pull: Array, weight: float
) -> Look:
    """g + eta f + eta (<pull, .> + weight g2) at a point."""
    x, terms = f.at, problem.joint.terms(eta, 1.0 + eta * weight)
    smooth = g.slope + eta * (f.slope + pull)
    value = g.value + eta * (f.value + arrays.dot(pull, x)) + terms.value(x)
    face, steepest = along_terms(terms, x)
    slope = face.along(smooth if steepest is None else smooth + steepest)
    return Look(f, g, value, smooth, slope)


def face_at(problem: Problem, state: State, x: Array) -> ActiveFace:
    """The face that x is on; no part of the state, which is saved."""
    terms = problem.joint.terms(state.eta, 1.0 + state.eta * state.weight)
    return along_terms(terms, x)[0]
