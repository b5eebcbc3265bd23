"""Solves problems with many variables where g is least squares and f is a penalty on D x - c.

All minimisers of g = ½|A x - t|² over Z have the same image A x. If A x = t for some x in Z, this
image is t; on R^n it is the image of any minimiser, which a sparse factorisation finds. So the
upper level is one sparse program with A x fixed, which Clarabel solves without a basis, a rank or
dense matrices. Its multipliers are the dual point of `proofs.operator_dual`, which proves the
answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.representation import compile_levels
from tiebreak.conic.solver import clarabel_solve
from tiebreak.conic.stage import SVD_SIDE
from tiebreak.functions import OperatorTerms
from tiebreak.linalg import EPS, TOL, Host, Refusal
from tiebreak.linalg.host import norm
from tiebreak.linalg.least_eigenvalue import factorisation_work, factorise
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals
from tiebreak.proofs.operator_dual import prove


class HeldAnswer(NamedTuple):
    """The solution and its accuracy."""

    x: Host
    intervals: Intervals
    residual: float  # the larger of two relative errors: f compared with its dual, and A x
    dimension: int | None  # dimension of g's minimisers; None if A's rank is not proved
    solver: str  # Clarabel's own status


class HeldProblem(NamedTuple):
    """A problem in which g is a least-squares loss and f is a penalty on D x - c."""

    problem: Problem
    terms: OperatorTerms
    program: ConicProgram  # the lower level alone, on Z
    A: Any  # the matrix of the squares in g
    t: Host  # their target
    n: int

    @classmethod
    def of(cls, problem: Problem, n: int) -> HeldProblem | None:
        """Return the problem, or None if it has a different form or few variables."""
        (f1, g1), (f2, g2) = problem.smooth_parts, problem.penalties
        terms = f2.terms
        if not isinstance(terms, OperatorTerms) or f1.bare.degree or g2.terms.has_weights:
            return None
        D = terms.matrix(n)
        if not D.is_at_hand or n + D.shape[0] <= SVD_SIDE:
            return None
        try:
            program = compile_levels((g1,), problem.domain, n, owner="Conic")
        except Refusal:
            return None
        (g,) = program.objectives
        is_square = program.size == n and not (g.linear.any() or g.constant or g.misfits)
        return cls(problem, terms, program, g.squares, g.target, n) if is_square else None

    @property
    def work(self) -> float:
        """Estimate the work of the factorisations, in the units of `deadline.metered`."""
        A, D = self.A, self.terms.matrix(self.n)
        stored = A.size if isinstance(A, np.ndarray) else A.nnz
        return factorisation_work(stored + D.size, self.n)

    def solve(self) -> HeldAnswer | None:
        """Return the answer; None if A x = t has no solution in Z or the answer is inaccurate."""
        is_free = self.problem.domain.is_space
        refined, image = None, self.t
        if is_free:
            refined = self._refinement()
            image = self.A @ refined(np.zeros(self.n))
        for tolerance in (TOL.half, TOL.met):
            found = self._solved(image, tolerance)
            if found is None:
                return None
            (x, y, u), solver = found
            x = self.problem.domain.projected(x) if refined is None else refined(x)
            if (off := self._residual(x, u, image)) <= 100.0 * TOL.half:
                intervals = prove(self.problem, self.terms, self.A, self.t, (x, y, u))
                rows = min(self.A.shape)  # the rank, if a minimiser is known to be close
                dimension = self.n - rows if intervals.has_minimiser else None
                return HeldAnswer(x, intervals, off, dimension, solver)
        return None

    def _refinement(self) -> Callable[[Host], Host]:
        """Return a map from x to a nearby minimiser of g on R^n, accurate to rounding error."""
        A, t, (rows, n) = self.A, self.t, self.A.shape
        steps = [self._step(True)] if rows <= n else []
        size = EPS ** (2 / 3) * norm(abs(A).T @ np.abs(t))

        def refined(x: Host) -> Host:
            before = np.inf
            while (left := norm(A.T @ (r := t - A @ x))) < 0.5 * before:
                x, before = x + steps[-1](r), left
            return x

        if not steps or norm(A.T @ (t - A @ refined(np.zeros(n)))) > size:
            steps.append(self._step(False))
        return refined

    def _step(self, is_wide: bool) -> Callable[[Host], Host]:
        """Return the map r -> (A'A + delta I)^-1 A'r, or A'(AA' + delta I)^-1 r if A is wide."""
        from scipy.sparse import csc_array, eye_array

        A = self.A
        M = csc_array(A @ A.T if is_wide else A.T @ A)
        little = EPS ** (2 / 3) * float(np.max(M.diagonal(), initial=0.0)) or 1.0
        solve = factorise(M + little * eye_array(M.shape[0])).solve
        return lambda r: A.T @ solve(r) if is_wide else solve(A.T @ r)

    def _solved(self, image: Host, tolerance: float) -> tuple[tuple[Host, Host, Host], str] | None:
        """Return x, the weights of A's rows, the dual of D x - c, and Clarabel's status."""
        import scipy.sparse as sp

        program, terms, n = self.program, self.terms, self.n
        D, stacks, m = terms.matrix(n).on_host(), terms.stacks, len(image)
        count = D.shape[0] // stacks
        center = np.zeros(D.shape[0]) if terms.center is None else terms.center
        up, down = terms.slopes(count)
        of_sizes = -sp.eye_array(count)
        cost, cones = np.append(np.zeros(n), np.ones(count)), [Cone("nonnegative", 2 * count)]
        if stacks == 1:  # rows: sizes >= up r and sizes >= -down r
            both = sp.vstack([sp.diags_array(up) @ D, -sp.diags_array(down) @ D])
            penalty = sp.hstack([both, sp.vstack([of_sizes, of_sizes])])
            offset = np.append(up * center, -down * center)
        else:  # one cone for each point holds its size and the r of every stack
            turns = np.arange((1 + stacks) * count).reshape(1 + stacks, count).T.reshape(-1)
            penalty = sp.csr_array(sp.block_array([[None, of_sizes], [-D, None]]))[turns]
            offset = np.append(np.zeros(count), -center)[turns]
            cost[n:], cones = up, [Cone("second-order", 1 + stacks)] * count
        fixed, penalty = sp.vstack([self.A, program.rows]), sp.csc_array(penalty)
        answer = clarabel_solve(
            Objective(sp.csr_array((0, n + count)), np.zeros(0), cost),
            sp.block_array([[fixed, None], [penalty[:, :n], penalty[:, n:]]]),
            np.concatenate([image, program.offset, offset]),
            (Cone("zero", m), *program.cones, *cones),
            tolerance,
        )
        if answer.is_infeasible or answer.is_unbounded or not np.all(np.isfinite(answer.z)):
            return None
        y = answer.y[len(answer.y) - len(offset) :]
        if stacks == 1:
            u = up * y[:count] - down * y[count:]
        else:
            u = -y.reshape(count, 1 + stacks)[:, 1:].T.reshape(-1)
        return (answer.z[:n], -answer.y[:m], u), answer.status

    def _residual(self, x: Host, u: Host, image: Host) -> float:
        """Return the larger of two relative errors: of f compared with its dual, and of A x."""
        D, terms = self.terms.matrix(self.n).on_host(), self.terms
        off = terms.residual(x)
        up, down = terms.slopes(D.shape[0] // terms.stacks)
        weights = np.tile(np.maximum(up, down), terms.stacks)
        size = float(weights @ (abs(D) @ np.abs(x) + np.abs(off))) or 1.0
        apart = abs(terms.value(x) - float(terms.dual(u) @ off)) / size
        return max(apart, norm(self.A @ x - image) / (norm(image) or 1.0))
