"""The paper's table 1: the rate of every method, measured under its assumptions.

Every instance is *planted*: x* is chosen first, then f and g such that x* is the answer. Therefore,
slopes are measured relative to the true answer. Every rate is measured three times: with the slope
of f at x* pulling away from the minimisers of g, so that f approaches f* from below and g - g* is
hard to reduce; with a tenth of that pull; and with no pull, so that f approaches f* from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from tiebreak import theory
from tiebreak.algorithms import AIRG, PBAPG, RAPM, SEA, AGMBiO, BisecBiO, BiSG, CGBiO, Method
from tiebreak.algorithms.common import RunState, values_at
from tiebreak.catalog.built import Built
from tiebreak.catalog.instances import instance
from tiebreak.experiments.claims import CUTS
from tiebreak.experiments.paper_runs import Experiment, Say
from tiebreak.experiments.race import Entrant
from tiebreak.experiments.scenes import PULLS, RATES, Facts
from tiebreak.functions import LeastSquares, Linear, SquaredNorm
from tiebreak.linalg import Array, Refusal, arrays, mix
from tiebreak.problem import ErrorBound, Problem
from tiebreak.proofs.evidence import StepEvidence
from tiebreak.sets import Ball, Box

SIZE = 20  # variables of the planted instances
START = np.full(SIZE, 0.5 / math.sqrt(SIZE))
# The matrix of Nesterov's slow example: differences along a path whose first node is fixed. The
# smallest singular value decreases like 1/SIZE, so no method has converged after SIZE steps.
CHAIN = np.eye(SIZE) - np.eye(SIZE, k=-1)


def order_1(pull: float, sharp: int = 6) -> Built:
    """Return a weakly sharp problem: g(x) = s + s²/2, s = x_1 + ... + x_m, on the unit box.

    The minimisers of g have x_1 = ... = x_m = 0, and alpha = 1, because g - g* >= s >= dist. With
    f(x) = ½|C(x - x*)|² - pull s, the slope of f at x* has norm pull sqrt(m), at most M = sqrt(m).
    """
    x = np.linspace(0.2, 0.8, SIZE)
    x[:sharp] = 0.0
    first = np.zeros(SIZE)
    first[:sharp] = 1.0
    return Built(
        label=f"weakly sharp, {SIZE} variables, box",
        problem=Problem(
            upper=LeastSquares(CHAIN, CHAIN @ x) + Linear(-pull * first),
            lower=Linear(first) + LeastSquares(first[None, :], np.zeros(1)),
            domain=Box(0.0, 1.0),
            error_bound=ErrorBound(1.0, 1.0, math.sqrt(sharp)),
        ),
        x0=START,
        upper_optimum=0.0,
        lower_optimum=0.0,
        solution=x,
        ties=SIZE - sharp,
    )


def order_2(pull: float, rows: int = 6) -> Built:
    """Return a problem of quadratic growth: g(x) = ½|A(x - x*)|², orthogonal rows, x* in a ball.

    The rows have norms from 1 down to 0.3, so alpha is 0.09 for the distance from {z: A z = A x*};
    the part of this plane in the ball is at most 1/sqrt(1 - |x*|²) times as far away. f(x) =
    ½|C(x - x*)|² + 2 pull <A' 1, x>, whose slope at x* is a combination of the rows, so no other
    minimiser of g has a smaller f.
    """
    rng = np.random.default_rng(0)
    lengths = np.linspace(1.0, 0.3, rows)
    A = lengths[:, None] * np.linalg.qr(rng.standard_normal((SIZE, rows)))[0].T
    x = np.linspace(-1.0, 1.0, SIZE) / math.sqrt(SIZE)
    slope = 2.0 * pull * (A.T @ np.ones(rows))
    M = 2.0 * float(np.linalg.norm(lengths))
    return Built(
        label=f"quadratic growth, {SIZE} variables, ball",
        problem=Problem(
            upper=LeastSquares(CHAIN, CHAIN @ x) + Linear(slope),
            lower=LeastSquares(A, A @ x),
            domain=Ball(1.0),
            error_bound=ErrorBound(2.0, 0.09 * (1.0 - float(x @ x)), M),
        ),
        x0=START,
        upper_optimum=float(slope @ x),
        lower_optimum=0.0,
        solution=x,
        ties=SIZE - rows,
    )


def bounded(pull: float) -> Built:
    """Return the problem of ``order_2`` without its error bound."""
    known = order_2(pull)
    return replace(known, problem=replace(known.problem, error_bound=None))


def shortest(pull: float) -> Built:
    """Return the problem of minimising f(x) = ½|x - (1 - pull) x*|² over A x = A x*.

    The level sets of f are balls. x* = A' w is the solution of smallest norm. The rows of A have
    very different norms.
    """
    rng = np.random.default_rng(1)
    rows = SIZE // 4
    A = (
        np.linalg.qr(rng.standard_normal((SIZE, rows)))[0].T
        * np.geomspace(1.0, 0.03, rows)[:, None]
    )
    x = A.T @ rng.standard_normal(rows)
    x /= np.linalg.norm(x)
    upper = SquaredNorm(center=(1.0 - pull) * x)
    return Built(
        label=f"shortest solution, {SIZE} variables, ball",
        problem=Problem(upper=upper, lower=LeastSquares(A, A @ x), domain=Ball(2.0)),
        x0=START,
        upper_optimum=0.5 * pull**2,
        lower_optimum=0.0,
        solution=x,
        ties=SIZE - rows,
    )


class Trial(NamedTuple):
    """How a row of the table is measured: by one run, one per horizon, or one per accuracy."""

    planted: Callable[[float], Built]  # the problem as a function of the pull
    method: Callable[[float], Method]  # a function of a horizon or accuracy
    ladder: tuple[float, ...] = ()  # horizons (> 1) or accuracies (< 1); a single run if empty


HORIZONS = tuple(float(round(10.0 ** (e / 4.0))) for e in range(8, 17))  # 100 to 10,000
ACCURACIES = tuple(10.0 ** (-e / 4.0) for e in range(4, 25))  # 0.1 to 1e-6

TRIALS = {
    "a-IRG": Trial(bounded, lambda _: AIRG()),
    "Bi-SG": Trial(bounded, lambda _: BiSG(alpha=0.75)),
    "SEA": Trial(bounded, lambda k: SEA(horizon=int(k)), HORIZONS),
    "CG-BiO": Trial(bounded, lambda eps: CGBiO(eps_f=eps, eps_g=eps), ACCURACIES[:9]),
    "R-APM": Trial(bounded, lambda k: RAPM(horizon=int(k)), HORIZONS),
    "AGM-BiO": Trial(bounded, lambda _: AGMBiO(gamma=1.0)),
    "R-APM, order 1": Trial(order_1, lambda _: RAPM()),
    "Bisec-BiO": Trial(shortest, lambda eps: BisecBiO(eps_f=eps, eps_g=eps), ACCURACIES),
    "AGM-BiO, order 1": Trial(order_1, lambda _: AGMBiO()),
    "PB-APG, order 2": Trial(order_2, lambda k: PBAPG(horizon=int(k)), HORIZONS),
    "AGM-BiO, order 2": Trial(order_2, lambda k: AGMBiO(horizon=int(k)), HORIZONS),
}


def table_1(quick: bool, say: Say, longest: int = 10_000) -> Experiment:
    """Run all rows of the table, and the ablation of the cut."""
    found = Experiment("table1", "Table 1: measured rates on planted instances, and the ablation")
    longest = longest // 3 if quick else longest
    for row in RATES:
        say(f"table1, {row.label}")
        for pull in PULLS:
            _measure(found, row.label, pull, TRIALS[row.label], longest)
    entrants = [
        Entrant(label, CutAt(0.0, share))
        for label, share in zip(CUTS, (None, 0.0, 1.0), strict=True)
    ]
    in_ball = replace(order_2(1.0), x0=np.zeros(SIZE))
    for planted in (instance("inverse", n=3), in_ball):
        name = f"ablation: {planted.label}"
        say(f"table1, {name}")
        found.facts[name] = Facts.of(planted, "planted")
        found.run(planted, entrants, longest // 10, name)
    found.notes.append(
        "A slope over two decades is not a bound: O() may hide a constant so large that the bound "
        "stays far above the run. With a weak pull, AGM-BiO at gamma = 1 stays below Theorem 1's "
        "bound on g, but hardly decreases; for other methods that then miss their rate, we have "
        "not compared the constants. The size of the ball, the number of variables and the full "
        "pull were chosen so that AGM-BiO's bound matters within two decades: its slope of g - g* "
        "depends on that choice."
    )
    found.notes.append(
        "The ablation uses gamma = 1 and exact levels g_k = g*, so that only the cut differs. It "
        "is no accident that the cut at x_k does no harm on a bounded set: it makes the step on g "
        "a Frank-Wolfe step, g(x_{k+1}) - g* <= (1 - w)(g(x_k) - g*) + "
        "w² L_g D²/2 with w = a_k/A_{k+1}, hence g(x_k) - g* <= 2 L_g D²/(k+1), which is "
        "the order of Theorem 1. With this cut, no faster rate is proved, and on unbounded sets "
        "no rate at all. In the ball, the error with the cut at z_k exceeds that bound."
    )
    return found


def _measure(found: Experiment, label: str, pull: float, trial: Trial, longest: int) -> None:
    """Add the rows for one line of the table: all rows of a single run, or the last of several."""
    planted, name = trial.planted(pull), label + PULLS[pull]
    found.facts[name] = Facts.of(planted, "planted")
    for rung in (rung for rung in trial.ladder or (longest,) if rung <= longest):
        steps = int(rung) if rung > 1.0 else 100 * longest
        tail = 0.0 if trial.ladder else 1.0
        found.run(planted, [Entrant(label, trial.method(rung))], steps, name, tail)


State: TypeAlias = RunState[tuple[float, Array]]  # its memory: A_k, the sum of all a_i, and z_k


@dataclass(frozen=True)
class CutAt(Method):
    """Algorithm 1 with the cut of g at p_k = (1 - share) x_k + share z_k.

        z_{k+1} = projection of z_k - a_k grad f(y_k) onto
                  { z in Z : g(p_k) + <grad g(p_k), z - p_k> <= level }

    With the cut at y_k, convexity gives g(x_{k+1}) <= (A_k g(x_k) + a_k level)/A_{k+1} plus L_g/2
    |x_{k+1} - y_k|², and x_{k+1} - y_k = a_k/A_{k+1} (z_{k+1} - z_k) is small. With the cut at x_k,
    the last term has z_{k+1} - x_k instead of z_{k+1} - z_k; at z_k, the factor a_k/A_{k+1} is
    lost. All three cuts contain every minimiser of g, so f(x_k) - f* stays bounded by O(1/k²).

    Args:
        level: exactly g*, so that the methods differ only in the cut.
        share: 0 for x_k, 1 for z_k, None for y_k, whose share is a_k/A_{k+1}.
        gamma: a_k = gamma (k+1)/(4 L_f).
    """

    level: float
    share: float | None = None
    gamma: float = 1.0

    name: ClassVar[str] = "cut-at"

    def check(self, problem: Problem) -> Refusal | None:
        """Accept every problem that AGM-BiO can run on."""

    def describe(self, problem: Problem) -> str:
        """Describe the method by the point at which its cut is made."""
        where = {None: "y_k", 0.0: "x_k", 1.0: "z_k"}.get(self.share, f"share {self.share}")
        return f"AGM-BiO with the cut at {where}, gamma = {self.gamma:g}"

    def init(self, problem: Problem, x0: Array) -> State:
        """Start with x_0 = z_0."""
        (x,) = problem.forward(problem.domain.project(x0))
        return RunState(0, x, *values_at(problem, x), StepEvidence(), (0.0, x.x))

    def step(self, problem: Problem, state: State) -> State:
        """Take one step with plain products; an ablation need not be fast."""
        f, g, (A_k, z_k) = problem.upper, problem.lower, state.memory
        a = theory.step_size(state.k, f.lipschitz / self.gamma)
        A = A_k + a
        y = mix(state.x, z_k, a / A)
        p = y if self.share is None else mix(state.x, z_k, self.share)
        c = g.gradient(p)
        offset = self.level - g.value(p) + arrays.dot(c, p)
        z, _ = problem.domain.project_cut(z_k - a * f.gradient(y), c, offset)
        (x,) = problem.forward(mix(state.x, z, a / A))
        return RunState(state.k + 1, x, *values_at(problem, x), StepEvidence(), (A, z))
