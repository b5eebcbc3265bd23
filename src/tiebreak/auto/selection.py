"""Which methods ``method="auto"`` takes, in which order, and why.

Where there is an exact answer by direct factorisation (`Exact`), that costs a few factorisations; a
first-order step costs a few data passes. Both are known from the sizes alone, so that the choice
depends neither on the clock nor on the units of the problem.
"""

from __future__ import annotations

import numpy as np

from tiebreak.algorithms.adaptive import AdaptiveAGMBiO
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.auto import conjugate_gradients
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.auto.cascade import Candidate, Cascade
from tiebreak.auto.quasi_newton import DENSE
from tiebreak.exact.method import Exact
from tiebreak.exact.wide import WideProblem
from tiebreak.functions.base import Function
from tiebreak.functions.elementary import Quadratic, SquaredNorm
from tiebreak.functions.losses import LeastSquares, Logistic
from tiebreak.functions.penalties import Composite
from tiebreak.functions.sums import matrices_of, summands
from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.matrices import DENSE_LIMIT, FLOAT64_COPY_LIMIT, Matrix
from tiebreak.linalg.spectra import EPS, cleaned, clear_rank, equilibrate
from tiebreak.problem import Problem
from tiebreak.sets.balls import Ball
from tiebreak.sets.domains import Halfspace, Space
from tiebreak.sets.simplices import L1Ball

CLEAR_LIMIT = 512  # largest smaller side of a matrix whose singular values are asked for
OPENING = 1000  # steps that the first-order method has before the refinement takes over
EXACT_AT_ONCE = 5000  # first-order steps: an exact answer that costs no more is computed at once
OVERHEAD = 3e5  # what a step costs besides its products, in multiplications
MEMORY = 2.5  # a data pass waits for memory: so many multiplications an entry

# Costs of an exact answer relative to n² (rows of f and g) multiplications: n = 60 to 300.
FACTORISATION = 20.0
ON_POLYHEDRA = 8.0  # many faces: a general solver finds the right one
ON_L1_BALL = 30.0  # the same in twice as many variables
LINEAR_PROGRAM = 2.0  # f = L1
NEWTON = 10.0  # steps, where g is logistic


def choose(problem: Problem) -> Cascade:
    """The cascade for this problem; where no method takes it, one that says so when asked."""
    last = Candidate(first_order(problem), "", "")
    closed = Exact().check(problem)
    without = [last]  # without the exact method
    solved, is_krylov = "an exact answer", False
    if not BregmanIteration().check(problem) and not last.method.check(problem):
        refinement = Candidate(BregmanIteration(), "", "", is_safe=True, refines=True)
        without = [last._replace(steps=OPENING), refinement, last]
        is_krylov = (problem.dimension or 0) > DENSE and conjugate_gradients.applies(problem)
    if is_krylov:
        krylov = BregmanIteration(only_cg=True)
        without = [
            Candidate(krylov, "exact, by conjugate gradients", "", steps=EXACT_AT_ONCE),
            *without,
        ]
        solved = "a factorisation"
    if closed:
        first, *others = without
        no = f"there is no {'factorisation of' if is_krylov else 'exact method with'} {closed.got}"
        return Cascade((first._replace(why=f"for {no}"), *others))
    exact = Candidate(Exact(), "exact", f"by direct factorisation ({_sizes(problem)})")
    if last.method.check(problem):
        return Cascade((exact,))
    steps = _exact_cost(problem) / _step_cost(problem)
    if steps <= EXACT_AT_ONCE or WideProblem.of(problem) is not None:  # a few thousand rows at most
        return Cascade((exact, *without))
    why = f"for {solved} costs as much as {steps:,.0f} steps ({_sizes(problem)})"
    first, *others = [*without[:-1], last._replace(steps=int(steps))]
    exact = exact._replace(why="by direct factorisation")
    return Cascade((first._replace(why=why), *others, exact, last))


def problem_in_float64(problem: Problem) -> Problem:
    """The problem in float64, where the data are in float32 and few; else the problem itself.

    In float32 little can be proved. Where the data are many, only the proof is in float64; so it is
    where g's matrices have singular values that are rounding errors of float32, which in float64
    would count, and change the answer by orders of magnitude.
    """
    if not problem.is_single or sum(map(_entries, problem.smooth_parts)) > FLOAT64_COPY_LIMIT:
        return problem
    found = matrices_of(problem.smooth_parts[1])
    is_clear = deadline.unless_too_long(lambda: all(map(_is_clear, found)), False)
    return problem.in_float64 or problem if is_clear else problem


def _is_clear(matrix: Matrix) -> bool:
    """Is the rank in float64 beyond doubt in float32 too?  False if that is not known."""
    rows, n = matrix.shape
    if min(rows, n) > CLEAR_LIMIT or rows * n > DENSE_LIMIT or not matrix.is_explicit:
        return False
    deadline.check(0.5 * deadline.svd(rows, n))
    epsilon = arrays.epsilon(matrix.prototype)
    A = cleaned(matrix.dense(), epsilon)
    r, c = equilibrate(A)
    sigma = np.linalg.svd(r[:, None] * A * c, compute_uv=False)
    return clear_rank(sigma, (rows, n), epsilon)[0] == clear_rank(sigma, (rows, n), EPS)[1]


def first_order(problem: Problem) -> AdaptiveAGMBiO | BiSG:
    """The first-order method: the adaptive one; Bi-SG where the penalties have no joint prox."""
    adaptive, other = AdaptiveAGMBiO(), BiSG()
    return other if adaptive.check(problem) and not other.check(problem) else adaptive


# -- sizes and costs ------------------------------------------------------------------------------


def _sizes(problem: Problem) -> str:
    """The lower level and its size in words, such as "least squares below, 40 x 100"."""
    names = {LeastSquares: "least squares", Logistic: "logistic loss", Quadratic: "quadratic"}
    g = problem.smooth_parts[1]
    words = [names.get(type(part), type(part).__name__) for _, part in summands(g.bare)]
    size = ", ".join("{} x {}".format(*matrix.shape) for matrix in matrices_of(g))
    return f"{' + '.join(words)} below{', ' if size else ''}{size}"


def _rows(h: Function, n: int) -> int:
    """How many rows the matrices of h have, as Exact sees it."""
    others = [part for _, part in summands(h.bare) if part.matrix is None]
    return sum(matrix.shape[0] for matrix in matrices_of(h)) + sum(
        n if type(part) is SquaredNorm else 1 for part in others
    )


def _exact_cost(problem: Problem) -> float:
    """About how many multiplications the exact answer takes."""
    n = problem.dimension or 1
    f, g = problem.smooth_parts
    cost = FACTORISATION * n * n * (_rows(f, n) + _rows(g, n) + 1)
    if isinstance(problem.domain, L1Ball):
        cost *= ON_L1_BALL
    elif not isinstance(problem.domain, Space | Ball | Halfspace):
        cost *= ON_POLYHEDRA
    if isinstance(problem.upper, Composite):
        cost *= LINEAR_PROGRAM
    if any(isinstance(part, Logistic) for _, part in summands(g.bare)):
        cost *= NEWTON
    return cost


def _step_cost(problem: Problem) -> float:
    """About how many multiplications a first-order step takes: 2 data passes for f, 4 for g."""
    f, g = (_entries(h) for h in problem.smooth_parts)
    return OVERHEAD + MEMORY * (2.0 * f + 4.0 * g)


def _entries(h: Function) -> int:
    """How many entries the matrices of h store."""
    return sum(matrix.size for matrix in matrices_of(h))
