"""The state of Bregman iteration, and the objective of a round at a point.

    g + eta f + eta (<slope_sum, .> + weight g2),

Here slope_sum = sum of grad g1(x_i)/eta_i and weight = sum of 1/eta_i over the previous rounds.
"""

from __future__ import annotations

from typing import NamedTuple

from tiebreak.auto.active_face import face_of_terms
from tiebreak.auto.conjugate_gradients import ConjugateGradients, ShortestWay
from tiebreak.auto.hessians import HessianDifferences, InverseHessian
from tiebreak.functions import Minorant
from tiebreak.linalg import Array, arrays, in_files
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.proofs.gate import Ended
from tiebreak.sets import ActiveFace


@in_files("bregman.objective")
class RoundObjective(NamedTuple):
    """The objective of a round at a point; f and g are minorants of f1 and g1."""

    f: Minorant
    g: Minorant
    value: float
    smooth: Array  # the slope of the smooth part of the objective
    slope: Array  # slope along the face of the point, penalties included

    @property
    def x(self) -> Array:
        """The point."""
        return self.f.at


@in_files("bregman.proof")
class Proof(NamedTuple):
    """The state of the proof; its next cut is the minorant of g1 at x + t c."""

    t: float
    c: Array
    curvature: float  # <c, Hc>, H the Hessian of g1
    rounding: float  # rounding error of a cut, in units of g
    reach: float  # the diameter of Z, or the cost of a unit tilt
    is_tilted: bool
    tilt: Array  # the signs that the remaining slope must have if Z is unbounded; 0 if Z is bounded
    lean: Array  # how the minimiser of f + g/eta moves if f is tilted by ``tilt``
    t_count: int  # how many values of t came before this one
    tries: int  # how many c have been tried for this t
    d: Array  # the last step of c
    left: Array  # the remaining slope before this step, along the face
    best: Array  # the c with the smallest remaining slope for this t; ``least``: its norm
    least: float
    made: tuple[float, Array]  # t and c of the last cut
    gap: float  # approximate bound on f(x) - f* from the best cut so far
    slight: float  # x counts as an answer if the gap is at most this share of the size of f


@in_files("bregman")
class State(NamedTuple):
    """The state of the rounds; x is the point at which the last round ended."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    eta: float
    slope_sum: Array  # sum of grad g1(x_i)/eta_i over the rounds
    weight: float  # sum of 1/eta_i
    point_sum: Array  # sum of x_i/eta_i
    here: RoundObjective  # the iterate of this round
    inverse_hessian: InverseHessian
    hessians: HessianDifferences | None  # both Hessians along the face, once they pay off
    hessian_age: int  # steps since the Hessians were computed
    by_cg: bool  # are rounds solved by conjugate gradients?
    conjugate: ConjugateGradients | ShortestWay | None  # conjugate gradients from ``here``
    least: float  # smallest norm of the slope so far; it was last halved ``stalled`` steps ago
    stalled: int
    scale: float  # 1/L for the first step of L-BFGS
    rounds: int
    lower_residual: float  # the residual of g at x: the norm of its prox-gradient mapping
    upper_error: float  # estimate of |f(x) - f*| relative to the size of f
    hint: tuple[float, Array] | None  # t and c from an earlier run's proof, for a warm start
    proof: Proof | None  # None until f has settled
    finished: Ended
    lipschitz_violations: tuple[int, int]  # how often f and g rose more than L allows
    convexity_violations: tuple[int, int]  # how often f and g fell below a minorant
    evidence: StepEvidence


def objective_at(
    problem: Problem, f: Minorant, g: Minorant, eta: float, slope_sum: Array, weight: float
) -> RoundObjective:
    """Evaluate g + eta f + eta (<slope_sum, .> + weight g2) at a point."""
    x, terms = f.at, problem.joint.terms(eta, 1.0 + eta * weight)
    smooth = g.slope + eta * (f.slope + slope_sum)
    value = g.value + eta * (f.value + arrays.dot(slope_sum, x)) + terms.value(x)
    face, steepest = face_of_terms(terms, x)
    slope = face.along(smooth if steepest is None else smooth + steepest)
    return RoundObjective(f, g, value, smooth, slope)


def face_at(problem: Problem, state: State, x: Array) -> ActiveFace:
    """Return the face of x; the state, which is saved to files, does not contain the face."""
    terms = problem.joint.terms(state.eta, 1.0 + state.eta * state.weight)
    return face_of_terms(terms, x)[0]
