"""Tools that plant the answer of a bilevel problem and check it, for `planted` and decide.py.

We choose x* first, with margins and slopes of every loss there, and then matrices such that the
optimality conditions hold. With N the normal cone of Z at x*, P the subgradients of g's penalty
there and A the rows in whose images g is strictly convex, they are

    lower level   -grad g1(x*) = s + nu,   s in P, nu in N,
    upper level   -grad f(x*) = A'lambda + c nu + n,   n in N:

Another minimiser x of g has A(x - x*) = 0 and <nu, x - x*> = 0, hence f(x) >= f(x*). Each builder
takes a generator, and `checked` rejects conditions that do not hold up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiebreak.catalog.built import Answer
from tiebreak.functions import Function, Smooth
from tiebreak.problem import ErrorBound, Problem

Vector = np.ndarray[Any, Any]
Matrix = Any  # a NumPy or scipy.sparse array
Generator = np.random.Generator


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with its answer.

    Args:
        name, what: the name in the table, and a one-line description.
        make: builds the problem from scratch, so that no method profits from another's results.
        answer: f*, g*, x*.
        callables: which levels (upper, lower) are given as plain callables.
        ties: the dimension of the set of lower minimisers, None if unknown.
        order: the order r of the error bound of g on Z, None if unknown.
        is_structured: does Exact accept it?
    """

    name: str
    what: str
    make: Callable[[], Problem]
    answer: Answer
    callables: tuple[bool, bool] = (False, False)
    ties: int | None = None
    order: float | None = None
    is_structured: bool = False

    @property
    def variables(self) -> int:
        assert self.answer.solution is not None
        return int(self.answer.solution.shape[0])

    def problem(self, informed: bool) -> Problem:
        """Return the problem for a method; callables have constants only if ``informed``."""
        plain = self.make()
        levels = zip((plain.upper, plain.lower), self.callables, strict=True)
        upper, lower = (_hidden(h, informed) if hide else h for h, hide in levels)
        return Problem(upper=upper, lower=lower, domain=plain.domain)

    def with_order(self, problem: Problem) -> Problem:
        """Return the problem with the order of its error bound, if known, for Theorem 2.

        The theorem's gamma depends on nothing else in the bound; the modulus is small enough to be
        valid.
        """
        if self.order is None or not problem.is_smooth:
            return problem
        slope = float(np.linalg.norm(problem.upper.gradient(self.answer.solution)))
        return replace(problem, error_bound=ErrorBound(self.order, 1e-20, slope))


def _hidden(h: Function, informed: bool) -> Function:
    """Return the function as two plain callables, with its constant only if ``informed``."""
    return Smooth(h.value, h.gradient, h.lipschitz if informed else None)


# --- planting -------------------------------------------------------------------------------------


def spectrum(rng: Generator, rows: int, columns: int, condition: float, rank: int = 0) -> Vector:
    """Return a dense matrix with ``rank`` singular values from 1 down to 1/condition."""
    rank = rank or min(rows, columns)
    U = np.linalg.qr(rng.standard_normal((rows, rank)))[0]
    V = np.linalg.qr(rng.standard_normal((columns, rank)))[0]
    return np.asarray(U * np.geomspace(1.0, 1.0 / condition, rank) @ V.T)


def fitted(A: Vector, x: Vector, image: Vector, dual: Vector, slope: Vector) -> Vector:
    """Return the matrix nearest A with A x = image, A'dual = slope; <dual, image> = <slope, x>."""
    off, miss = image - A @ x, slope - A.T @ dual
    xx, dd = float(x @ x), float(dual @ dual)
    both = np.outer(dual, x) * (float(dual @ off) / (dd * xx))
    return np.asarray(A + np.outer(off, x) / xx + np.outer(dual, miss) / dd - both)


def squares(A: Vector, x: Vector, dual: Vector, slope: Vector) -> tuple[Vector, Vector]:
    """Return a matrix near A, and b, such that Ax - b = dual and A'dual = slope."""
    image = A @ x
    image += dual * ((float(slope @ x) - float(dual @ image)) / float(dual @ dual))
    A = fitted(A, x, image, dual, slope)
    return A, A @ x - dual


def checked(
    name: str,
    what: str,
    make: Callable[[], Problem],
    x: Vector,
    below: Vector,
    above: Vector,
    **more: Any,
) -> Case:
    """Return the case if grad g1(x*) and grad f(x*) are ``below`` and ``above``, up to rounding."""
    problem = make()
    _, smooth = problem.smooth_parts
    pairs = ((problem.upper, problem.upper, above), (problem.lower, smooth, below))
    for level, h, wanted in pairs:
        miss = float(np.linalg.norm(h.gradient(x) - wanted)) * float(np.linalg.norm(x))
        if not miss <= 1e-11 * max(abs(level.value(np.zeros(len(x)))), abs(level.value(x))):
            raise ArithmeticError(f"{name}: the conditions of optimality fail by {miss:.2g}")
    if not problem.domain.contains(x, 1e-12 * float(np.linalg.norm(x))):
        raise ArithmeticError(f"{name}: x* lies outside the domain")
    answer = Answer(problem.upper.value(x), problem.lower.value(x), x)
    return Case(name, what, make, answer, **more)
