"""The candidates of ``method="auto"`` for a problem, and their minimum work.

If direct factorisation (`Exact`) gives an exact answer, its minimum work is one factorisation of
the data. The minimum work of a first-order method is a number of steps. Both minima follow from the
sizes of the data. The progress of the methods decides which one runs when: see `portfolio`.
"""

from __future__ import annotations

import math

import numpy as np

from tiebreak.algorithms import AdaptiveAGMBiO, BiSG, BregmanSVRG, PrimalDual
from tiebreak.algorithms.primal_dual import EndingPrimalDual
from tiebreak.auto import conjugate_gradients
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.auto.candidates import Candidate
from tiebreak.auto.portfolio import STEP, Portfolio
from tiebreak.conic.held_image import HeldProblem
from tiebreak.conic.method import Conic
from tiebreak.exact.method import Exact
from tiebreak.functions import matrices_of, summands
from tiebreak.linalg import (
    DENSE_LIMIT,
    EPS,
    Matrix,
    Refusal,
    arrays,
    cleaned,
    clear_rank,
    deadline,
    equilibrate,
)
from tiebreak.linalg.matrices import FLOAT64_COPY_LIMIT
from tiebreak.linalg.sizes import QUICK_SIDE
from tiebreak.problem import Problem

FEWEST_STEPS = 100  # minimum of a first-order method: fewer steps prove nothing on any problem
PASSES = 6  # data passes in a step: forward and back for both levels, then again for one level


def choose(problem: Problem) -> Portfolio:
    """Return the portfolio for this problem; if no method accepts it, `check` says so."""
    first, refusal = first_order(problem), Exact().refusal(problem)
    steps = _steps(problem)
    candidates = []
    if not BregmanIteration().refusal(problem):
        title = "exact, by conjugate gradients" if conjugate_gradients.is_taken(problem) else ""
        candidates.append(Candidate(BregmanIteration(), title, steps, refines=True))
        # On g alone, no gradient method is faster than CG: the others wait until CG has taken 3000
        # steps.
        steps *= 30.0 if conjugate_gradients.distance(problem) else 1.0
    if not PrimalDual().refusal(problem):
        candidates.append(Candidate(PrimalDual(), "", steps))
    if not first.refusal(problem):
        candidates.append(Candidate(first, "", steps))
    direct = _direct(problem, refusal, not candidates)
    slices = _by_slices(problem, direct)
    candidates = [*candidates[:1], *slices, *candidates[1:], *direct]
    if any(penalty.terms.has_operator for penalty in problem.penalties):
        candidates = _with_operator(problem, refusal is None) or candidates
    why = f"there is no exact method with {refusal.got}" if refusal else ""
    return Portfolio(tuple(candidates) or (Candidate(first),), why)


def _direct(problem: Problem, refusal: Refusal | None, is_alone: bool) -> list[Candidate]:
    """Return the direct method for this problem in a list, which is empty if there is none."""
    below = [part for _, part in summands(problem.smooth_parts[1].bare)]
    is_linear = all(part.degree <= 1 for part in below)
    # With constraints, the minimisers of a linear level form a face, and only Conic can prove that.
    is_for_cones = refusal is not None or (is_linear and not problem.domain.has_projection)
    if not is_for_cones and (is_alone or not _is_far(problem)):
        return [_exact(problem, _factorisation(problem))]
    if is_for_cones and (problem.is_bounded or is_alone) and not Conic().refusal(problem):
        # On a bounded set Conic proves its answer; on other sets the multipliers of other methods
        # do. An interior-point method factorises the data of each level about twenty times.
        least = 20.0 * _factorisation(problem)
        return [Candidate(Conic(), "conic", least, is_direct=True, refines=True)]
    return []


def _exact(problem: Problem, least: float) -> Candidate:
    title = f"exact, by direct factorisation ({_sizes(problem)})"
    return Candidate(Exact(), title, least, is_direct=True, refines=True)


def _by_slices(problem: Problem, direct: list[Candidate]) -> list[Candidate]:
    """Return a list with the method that uses a few rows per step; [] if it does not pay off.

    The minimum work of the method is a hundred epochs, a hundred full readings of the data, and a
    hundred products for L_g. With fewer epochs, f does not settle on any problem. In single
    precision, reading an entry takes half the time, except for direct methods, which convert the
    entries. If its minimum work is less than that of a direct method, the method runs first, and no
    other method is needed. An epoch must have at least 500 slices, because with fewer slices too
    many epochs are needed. A slice has about as many rows as there are columns, unless some rows
    are much longer than others. Counting the slices takes a data pass, so this check comes last.
    """
    method, n = BregmanSVRG(), problem.dimension or 1
    rows = max((matrix.shape[0] for matrix in matrices_of(problem.smooth_parts[1])), default=0)
    if rows < 100 * n:
        return []
    limit = min((candidate.least for candidate in direct), default=math.inf)
    least = (1.5 if problem.is_single else 3.0) * FEWEST_STEPS * _entries(problem)
    if least > limit or not method.ends(problem) or method.refusal(problem):
        return []
    least += FEWEST_STEPS * method.overhead(problem)
    is_worth_it = method.slices(problem) >= 500 and least < limit
    return [Candidate(method, "", least, refines=True)] if is_worth_it else []


def _with_operator(problem: Problem, is_exact: bool) -> list[Candidate]:
    """Return the candidates for a penalty on D x: exact, conic and primal-dual.

    If an operator is known only through its products, nothing can be proved, and only the
    primal-dual method is left; it needs thousands of steps.
    """
    n = problem.dimension or 1
    held = HeldProblem.of(problem, n)
    candidates = []
    if is_exact:
        candidates.append(_exact(problem, _factorisation(problem, n)))
    if not Conic().refusal(problem):
        least = FEWEST_STEPS * STEP if held is None else held.work
        candidates.append(Candidate(Conic(), "conic", least, is_direct=True, refines=True))
    if not PrimalDual().refusal(problem):
        # The dual variable of D x makes the method slower: it takes about ten times as many steps.
        least = 10 * _steps(problem)
        candidates.append(Candidate(EndingPrimalDual(), "", least))
    return candidates


def problem_in_float64(problem: Problem) -> Problem:
    """Return the problem in float64 if its data are in float32 and small; if not, unchanged.

    In float32 little can be proved. If the data are large, only the proof is in float64. We also
    keep float32 if g's matrices have singular values that are rounding errors of float32: in
    float64 such values would count as nonzero and change the answer by orders of magnitude.
    """
    if not problem.is_single or _entries(problem) > FLOAT64_COPY_LIMIT:
        return problem
    found = matrices_of(problem.smooth_parts[1])
    is_clear = deadline.unless_too_long(lambda: all(map(_is_clear, found)), False)
    return problem.in_float64 or problem if is_clear else problem


def _is_clear(matrix: Matrix) -> bool:
    """Is the rank certain, and the same, in float32 and in float64?  False if unknown."""
    rows, n = matrix.shape
    if min(rows, n) > QUICK_SIDE or rows * n > DENSE_LIMIT or not matrix.is_explicit:
        return False
    deadline.check(0.5 * deadline.svd_work(rows, n))
    epsilon = arrays.epsilon(matrix.prototype)
    A = cleaned(matrix.dense(), epsilon)
    r, c = equilibrate(A)
    sigma = np.linalg.svd(r[:, None] * A * c, compute_uv=False)
    return clear_rank(sigma, (rows, n), epsilon)[0] == clear_rank(sigma, (rows, n), EPS)[1]


def first_order(problem: Problem) -> AdaptiveAGMBiO | BiSG:
    """Return the adaptive first-order method, or Bi-SG if the penalties have no joint prox."""
    adaptive, other = AdaptiveAGMBiO(), BiSG()
    return other if adaptive.refusal(problem) and not other.refusal(problem) else adaptive


def _is_far(problem: Problem) -> bool:
    """Are the data on a GPU and too large to be copied to the host in a single step?"""
    return any(
        m.size > FLOAT64_COPY_LIMIT and arrays.is_remote(m.prototype) for m in _matrices(problem)
    )


# -- sizes ----------------------------------------------------------------------------------------


def _sizes(problem: Problem) -> str:
    """Describe the lower level and its size, such as "least squares below, 40 x 100"."""
    g = problem.smooth_parts[1]
    words = [part.title or type(part).__name__ for _, part in summands(g.bare)]
    size = ", ".join("{} x {}".format(*matrix.shape) for matrix in matrices_of(g))
    return f"{' + '.join(words)} below{', ' if size else ''}{size}"


def _matrices(problem: Problem) -> list[Matrix]:
    """Return the matrices of both levels."""
    return [matrix for h in problem.smooth_parts for matrix in matrices_of(h)]


def _steps(problem: Problem) -> float:
    """Return the minimum work of a first-order method."""
    return FEWEST_STEPS * (STEP + PASSES * _entries(problem))


def _entries(problem: Problem) -> int:
    """Return the number of entries that the matrices of both levels store."""
    return sum(matrix.size for matrix in _matrices(problem))


def _factorisation(problem: Problem, n: int = 0) -> float:
    """Return the work needed to factorise each level's data once, in the units of a Meter.

    The work depends on the length of the smaller side of each matrix: this is the number of
    products per entry. If f is a penalty on D x with n variables, the entries of D x are variables
    too, and all rows form one matrix.
    """
    matrices = _matrices(problem)
    rows_above = problem.penalties[0].terms.rows_above(n) if n else None
    if rows_above is not None:
        images = len(rows_above[1])
        rows = images + sum(m.shape[0] for m in matrices)
        return deadline.IN_CACHE * rows * rows * (n + images + rows)
    work = sum(min(m.shape) * (m.size + min(m.shape) ** 2) for m in matrices)
    return deadline.IN_CACHE * work
