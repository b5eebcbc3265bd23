"""Steps on psi(x) = max{ f(x) - t, rho (g(x) - ghat) } over Z, for the calls of FC-BiO.

For smooth f and g we minimise the larger of both minorants plus L/2 |x - y|², with FISTA's
momentum. For Lipschitz f and g we average projected subgradient steps on psi.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tiebreak.algorithms.common import averaged, minorants_at, values_at
from tiebreak.functions import Minorant, Penalty
from tiebreak.linalg import Array, arrays, in_files
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.evidence import StepEvidence


@in_files("fc-bio.psi")
class Psi(NamedTuple):
    """The parameters of psi."""

    level: float  # t; inf means g alone
    rho: float
    ghat: float
    size: float  # L = max{L_f, rho L_g}, or in the Lipschitz case the bound on slopes

    def parts(self, f: float, g: float) -> tuple[float, float]:
        """Return both sides of the maximum for these values of f and g."""
        return f - self.level, self.rho * (g - self.ghat)


@in_files("fc-bio.call")
class Question(NamedTuple):
    """A run on psi."""

    psi: Psi
    k: int
    momentum: float  # t_k of FISTA
    x: Point  # in Z: the last iterate, or the average
    y: Point  # where the next step begins
    f_y: Minorant  # of f1 and g1 there
    g_y: Minorant
    f_x: float  # with the penalties
    g_x: float
    guess: float | None  # the multiplier of the last step, as a first guess

    @property
    def value(self) -> float:
        """The value psi(x)."""
        return max(self.psi.parts(self.f_x, self.g_x))


def begin(problem: Problem, psi: Psi, x: Point) -> Question:
    """Begin a run from x."""
    return Question(psi, 0, 1.0, x, x, *minorants_at(problem, x), *values_at(problem, x), None)


def accelerated_step(problem: Problem, call: Question) -> tuple[Question, StepEvidence]:
    """Take a step to x_{k+1} with the model at y_k; psi(x_k) - min psi <= 2 L D²/(k+1)²."""
    psi, t, f_y, g_y = call.psi, call.momentum, call.f_y, call.g_y
    z, w, guess = minimised(problem, psi, f_y, g_y, call.guess)
    (x,) = problem.forward(z)
    later = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
    y = mixed(call.x, x, 1.0 + (t - 1.0) / later)
    (f_new,), (f_x,) = problem.upper.evaluate([y.f], [x.f])
    (g_new,), (g_x,) = problem.lower.evaluate([y.g], [x.g])
    after = Question(psi, call.k + 1, later, x, y, f_new, g_new, f_x, g_x, guess)
    return after, _evidence(call, t, w, (g_x, x.x, g_new))


def subgradient_step(
    problem: Problem, call: Question, step: float
) -> tuple[Question, StepEvidence]:
    """Take a subgradient step on the larger side at y_k to y_{k+1}, which joins the average."""
    psi, y, k = call.psi, call.y, call.k + 1
    f_y, g_y = both_whole(problem, call.f_y, call.g_y)
    of_f, of_g = psi.parts(f_y.value, g_y.value)
    w = float(of_f >= of_g)
    slope = f_y.slope if w else psi.rho * g_y.slope
    x = averaged(problem, call.x, y, 1.0 / k, k)
    (y,) = problem.forward(problem.domain.project(y.x - step * slope))
    (f_new,), (f_x,) = problem.upper.evaluate([y.f], [x.f])
    (g_new,), (g_x,) = problem.lower.evaluate([y.g], [x.g])
    after = Question(psi, k, 1.0, x, y, f_new, g_new, f_x, g_x, None)
    return after, _evidence(call, step, w, (g_x, x.x, call.g_y))


def minimised(
    problem: Problem, psi: Psi, f_y: Minorant, g_y: Minorant, guess: float | None
) -> tuple[Array, float, float]:
    """Minimise the larger of both minorants plus L/2 |x - y|² over Z; return x, w and mu.

    x = projection of y - (w a + (1-w) b)/L, where a and b are the slopes and w is f's weight, and
    both minorants are equal at x unless w is 0 or 1. So x is the projection of y - b/L onto the
    half-space where f's minorant is no larger, with multiplier mu = w/L if that is at most 1/L. If
    the half-space contains no point of Z, w = 1.
    """
    y, L = f_y.at, psi.size
    of_f, of_g = psi.parts(f_y.value, g_y.value)
    b = psi.rho * g_y.slope
    c = f_y.slope - b
    offset = arrays.dot(c, y) - (of_f - of_g)
    z, mu = problem.domain.project_cut(y - b / L, c, offset, guess)
    above, size = arrays.dot(c, z) - offset, abs(offset) + arrays.norm(c) * arrays.norm(z)
    if L * mu < 1.0 and above <= math.sqrt(arrays.epsilon(y)) * size:
        return z, L * mu, mu
    return problem.domain.project(y - f_y.slope / L), 1.0, 1.0 / L


def both_whole(problem: Problem, f: Minorant, g: Minorant) -> tuple[Minorant, Minorant]:
    """Return minorants of f and g from those of their smooth parts at the same point."""
    f2, g2 = problem.penalties
    return _whole(f, f2), _whole(g, g2)


def _whole(h: Minorant, penalty: Penalty) -> Minorant:
    terms = penalty.terms
    if not terms.has_weights:
        return h
    slope = h.slope + terms.subgradient(h.at)
    return h._replace(value=h.value + penalty.value(h.at), slope=slope)


def _evidence(
    before: Question, weight: float, w: float, value: tuple[float, Array, Minorant]
) -> StepEvidence:
    """Return the minorants at y_k, weighted as in the method's proof."""
    return StepEvidence(
        upper=((weight * w, before.f_y),) if w > 0.0 else (),
        cuts=((weight * (1.0 - w) * before.psi.rho, before.g_y),) if w < 1.0 else (),
        lower=((weight, before.g_y),),
        values=(value,),
    )
