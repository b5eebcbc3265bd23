"""Ill-posed problems: Fredholm integral equations of the first kind, discretised.

Hansen collected the problems in Regularization Tools (Numerical Algorithms 6, 1994); this module
implements their formulas. Each equation has the form: integral of K(s, t) x(t) dt = b(s), with
known x and b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tiebreak.catalog.built import Built, Matrix, Vector
from tiebreak.catalog.inverse import disturbed
from tiebreak.functions import LeastSquares, SmoothFunction, SquaredNorm
from tiebreak.linalg import checks
from tiebreak.problem import Problem
from tiebreak.sets import Domain, Orthant, Space

SPACE = Space()


@dataclass(frozen=True)
class Equation:
    """An equation: integral of kernel(s, t) solution(t) dt = right(s) for s and t in intervals."""

    name: str
    kernel: Callable[[Vector, Vector], Vector]
    solution: Callable[[Vector], Vector]
    right: Callable[[Vector], Vector]
    s: tuple[float, float]
    t: tuple[float, float]

    def discretised(self, n: int, rows: int) -> tuple[Matrix, Vector, Vector]:
        """Return the matrix A (rows x n), x and b, with A x = b up to the midpoint rule's error.

        If s_i and t_j are midpoints of equal pieces of lengths h and k, then A_ij = sqrt(h k)
        K(s_i, t_j), x_j = sqrt(k) x(t_j), b_i = sqrt(h) b(s_i). The square roots make the Euclidean
        norms approximate the L2 norms of the functions, whatever n is.
        """
        (s, h), (t, k) = _midpoints(self.s, rows), _midpoints(self.t, n)
        A = math.sqrt(h * k) * self.kernel(s[:, None], t[None, :])
        return A, math.sqrt(k) * self.solution(t), math.sqrt(h) * self.right(s)


def _midpoints(interval: tuple[float, float], pieces: int) -> tuple[Vector, float]:
    start, end = interval
    width = (end - start) / pieces
    return start + width * (np.arange(pieces) + 0.5), width


# --- the equations -------------------------------------------------------------------------------


def _bump(t: Vector) -> Vector:
    return np.where(np.abs(t) < 3.0, 1.0 + np.cos(np.pi / 3.0 * t), 0.0)


def _phillips_right(s: Vector) -> Vector:
    size = np.abs(s)
    wave = np.pi / 3.0 * size
    return (6.0 - size) * (1.0 + 0.5 * np.cos(wave)) + 4.5 / np.pi * np.sin(wave)


PHILLIPS = Equation(  # D. L. Phillips, J. ACM 9, 1962
    name="phillips",
    kernel=lambda s, t: _bump(s - t),
    solution=_bump,
    right=_phillips_right,
    s=(-6.0, 6.0),
    t=(-6.0, 6.0),
)
BAART = Equation(  # M. L. Baart, IMA J. Numer. Anal. 2, 1982
    name="baart",
    kernel=lambda s, t: np.exp(s * np.cos(t)),
    solution=np.sin,
    right=lambda s: 2.0 * np.sinh(s) / s,
    s=(0.0, np.pi / 2.0),
    t=(0.0, np.pi),
)
FOXGOOD = Equation(  # L. Fox, E. T. Goodwin, Phil. Trans. R. Soc. A 245, 1953
    name="foxgood",
    kernel=np.hypot,
    solution=lambda t: t,
    right=lambda s: ((1.0 + s**2) ** 1.5 - s**3) / 3.0,
    s=(0.0, 1.0),
    t=(0.0, 1.0),
)


def ill_posed(
    equation: Equation,
    n: int = 100,
    rows: int | None = None,
    noise: float = 0.0,
    smooth: bool = False,
    domain: Domain = SPACE,
    seed: int = 0,
) -> Built:
    """The simplest function that explains the data best: g = ½|Ax - b|², f = ½|x|² or ½|Dx|².

    b = A truth + noise, where truth is the known solution of the integral equation. The singular
    values of A decay without a gap. If singular values fall to rounding level, the rank is not
    determined, and neither are f* and the dimension of the set of minimisers. With fewer rows than
    singular values above rounding level, the solution set has dimension n - rows.

    Args:
        equation: PHILLIPS, BAART or FOXGOOD.
        n: the number of pieces of the t axis, with one variable each.
        rows: the number of pieces of the s axis; n if None.
        noise: the norm of the noise relative to the norm of A truth.
        smooth: whether f measures the differences between neighbouring entries of x instead of x
            itself.
        domain: Space(), the default, or Orthant(), which contains the solutions of all three
            equations.
        seed: the seed for the noise.
    """
    owner = equation.name
    n = checks.whole(owner, "n", n, 2)
    rows = n if rows is None else rows
    noise = checks.at_least(owner, "noise", noise)
    if not isinstance(domain, Space | Orthant):
        raise TypeError(
            f"{owner}: domain must be Space() or Orthant(), got {checks.what_it_is(domain)}"
        )
    A, truth, _ = equation.discretised(n, rows)
    b = disturbed(A @ truth, noise, np.random.default_rng(seed))
    upper: SmoothFunction = SquaredNorm()
    if checks.flag(owner, "smooth", smooth):
        upper = LeastSquares(np.diff(np.eye(n), axis=0), np.zeros(n - 1))
    return Built(
        label=f"{owner}, {rows} x {n}",
        problem=Problem(upper=upper, lower=LeastSquares(A, b), domain=domain),
        x0=np.zeros(n),
        lower_optimum=None if noise > 0.0 else 0.0,
        truth=truth,
    )
