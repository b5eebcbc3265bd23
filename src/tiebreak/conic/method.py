"""The `Conic` method: a conic solver minimises g, then f over the minimisers of g."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from tiebreak.algorithms import DirectState, Method, StateReport
from tiebreak.conic.chain import solve_chain
from tiebreak.conic.chain_solution import LEAST, ChainSolution, LevelSolution, estimate
from tiebreak.conic.held_image import HeldAnswer, HeldProblem
from tiebreak.conic.representation import check_levels, compile_levels
from tiebreak.exact.bounds.intervals import prove_at
from tiebreak.functions import Function
from tiebreak.linalg import TOL, Array, Host, Refusal, arrays, deadline, in_files, refusal_of
from tiebreak.problem import Problem
from tiebreak.proofs.evidence import Intervals, StepEvidence
from tiebreak.proofs.gate import ANSWER, BROKEN, DOUBT, EMPTY, FALLS, Ended
from tiebreak.proofs.recession.direction import settled_direction
from tiebreak.proofs.recession.watch import NoMinimum
from tiebreak.sets import Space

WHY = {
    "undetermined": DOUBT,
    "unbounded": FALLS,
    "infeasible": EMPTY,
    "failed": BROKEN,
    "solved": ANSWER,
}
NOT_SURE = ", as far as a solver can tell; rounding errors could change this"
VERTEX = "a vertex of the domain that minimises g exactly"
ONE_SIDED = "no point is known to minimise the lower level exactly, so nothing bounds f* from above"


@in_files("conic.findings")
class ConicFindings(NamedTuple):
    """The results of the two solves, apart from x."""

    levels: tuple[LevelSolution, ...]  # lower, upper
    assumption: str  # what an estimate assumes
    direction: Array | None = None  # a direction along which a level has no minimum
    contradiction: Host | None = None  # multipliers that prove infeasibility
    is_least: bool = False  # is x the point of least norm among those that both levels allow?

    @property
    def dimension(self) -> int | None:
        """The dimension of the lower level's solution set."""
        return self.levels[0].dimension if self.levels else None

    @property
    def fall(self) -> NoMinimum | None:
        """The unbounded level (the one that was not solved) and its direction."""
        level = "upper" if self.levels else "lower"
        return None if self.direction is None else NoMinimum(level, self.direction)

    def lines(self) -> list[tuple[str, str]]:
        """Return lines that report the bounds, how f was restricted, and the solver."""
        said = []
        for letter, level in zip("gf", self.levels, strict=False):
            width = f"{level.best:.9g} ± {level.error:.2g}, proved, accounting for rounding"
            if level.word != "proved":
                width = f"{estimate(level.best, level.error)}, {self.assumption}"
            said.append((f"{letter} bound", f"{letter}* = {width}"))
        if self.levels:
            said.append(("held", f"the lower level by its {self.levels[0].held}"))
        said += [("open", LEAST)] * self.is_least
        solvers = [level.solver or "no solver" for level in self.levels]
        return [*said, ("solver", f"Clarabel: {', '.join(solvers)}")]


@dataclass(frozen=True)
class Conic(Method):
    """Solves both levels as conic programs with Clarabel, on any set described by constraints.

    The lower level is solved once. The upper level is then restricted to exactly its minimisers,
    using the image of its squares and the face that its multipliers expose, rather than a
    cut g <= g* + delta, which would cost sqrt(delta) in f. Bounds come from our own evaluation of
    the multipliers: a solver's status is reported but never trusted.

    Examples:
        >>> fit = tb.LeastSquares([[1, 2]], [4])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm(), domain=tb.Ball(4))
        >>> tb.solve(problem, tb.Conic(), rtol=1e-2).status
        'certified'
    """

    name: ClassVar[str] = "conic"
    paper: ClassVar[str] = "none: facial reduction using the multipliers of the lower level"
    needs_projection: ClassVar[bool] = False
    assumptions: ClassVar[str] = (
        "f, g sums of our losses, quadratics and penalties whose entries are known; Z any of our "
        "sets, Polyhedron, SecondOrderCone and their intersections"
    )
    guarantee: ClassVar[str] = (
        "x and f* to within rounding error if multipliers are strictly complementary; a lower "
        "bound on f* that is proved on bounded sets, and otherwise rests on an assumed radius; "
        "on R^n and polyhedra, bounds from both sides, as with exact, if f and g are smooth"
    )
    output: ClassVar[str] = "the solution of the last conic program"

    def check(self, problem: Problem) -> Refusal | None:
        """Refuse a problem that cones cannot represent."""
        n, domain = problem.dimension, problem.domain
        if n is not None and HeldProblem.of(problem, n) is not None:
            return None
        if n is None and domain.is_conic:
            domain = Space()  # a set's size is compared with x0, which is unknown here
        return refusal_of(lambda: check_levels(_levels(problem), domain, n or 1, owner="Conic"))

    def describe(self, problem: Problem) -> str:
        """Describe the method in words."""
        return f"Conic, with Clarabel, on {type(problem.domain).__name__}"

    def report(self, state: DirectState) -> StateReport:
        """Report how the run ended and what it found."""
        found: ConicFindings | None = state.findings
        if found is None:
            return StateReport(state.finished, decides=not state.finished.why)
        return StateReport(
            state.finished,
            is_evaluated=True,
            fall=found.fall,
            is_empty=found.contradiction is not None,
            findings=found,
            one_sided=ONE_SIDED,
        )

    def init(self, problem: Problem, x0: Array) -> DirectState:
        """Return the values at x0."""
        return DirectState(0, x0, problem.upper.value(x0), problem.lower.value(x0), StepEvidence())

    def step(self, problem: Problem, state: DirectState) -> DirectState:
        """Solve both levels in one step."""
        n = int(state.x.shape[0])
        held = HeldProblem.of(problem, n)
        if held is not None and (answer := held.solve()) is not None:
            return _of_held(problem, state.x, answer)
        levels = _levels(problem)
        try:
            program = compile_levels(levels, problem.domain, n, problem.radius, owner="Conic")
        except Refusal as refused:  # a user's function may have a conic form for some data only
            return state._replace(k=1, finished=Ended(DOUBT, refused.sentence))
        found = solve_chain(program, [None])
        x = arrays.like(found.z[program.variables], state.x)
        assumption, fall, ended = "assuming that the set of lower minimisers is correct", None, None
        if not np.isfinite(program.reach).all():
            assumption = f"assuming that no solution is over {TOL.assumed:g} times as large as x"
        if found.direction is not None:
            level = len(found.levels)
            fall = settled_direction(problem, level, found.direction[program.variables])
            ended = Ended(DOUBT, found.message + NOT_SURE)
        f, g = problem.upper.value(x), problem.lower.value(x)
        found, intervals = _proved(problem, found, (x, f, g))
        findings = ConicFindings(
            found.levels, assumption, fall, found.contradiction, found.is_least
        )
        if findings.fall is not None:
            ended = Ended(FALLS, findings.fall.sentence(problem.names))
        return DirectState(
            1,
            x,
            f,
            g,
            StepEvidence(intervals=intervals),
            ended or _ended(found, assumption),
            findings,
        )


def _proved(
    problem: Problem, found: ChainSolution, at: tuple[Array, float, float]
) -> tuple[ChainSolution, Intervals]:
    """Return the bounds that the multipliers and the prover of `exact` give for x, f and g."""
    x, f, g = at
    low = [level.bound if level.is_bound_proved else -math.inf for level in found.levels]
    low += [-math.inf] * (2 - len(low))
    known = Intervals(upper=(low[1], math.inf), lower=low[0], why=ONE_SIDED)
    if found.status != "solved":
        return found, known
    last = found.levels[-1]
    if last.word == "proved":  # proved from both sides: `exact` would add nothing
        ends = low[1], last.best + last.error
        return found, Intervals(upper=ends, lower=low[0], rests=VERTEX)
    deadline.allow_as_much_again()
    with contextlib.suppress(deadline.Over):  # keep x even if there is no time for its proof
        known = known.both(prove_at(problem, x, found.normal) or Intervals())
    if not known.is_two_sided:
        return found, known
    lower, upper = found.levels
    off = max(known.upper[1] - f, f - known.upper[0])
    return found._replace(
        levels=(
            lower.proved(g, known.lower, max(g - known.lower, 0.0)),
            upper.proved(f, known.upper[0], off),
        )
    ), known


def _of_held(problem: Problem, like: Array, answer: HeldAnswer) -> DirectState:
    """Return the final state if fixing the image of the lower level was enough."""
    x = arrays.like(answer.x, like)
    f, g, proved = problem.upper.value(x), problem.lower.value(x), answer.intervals
    (low, high), error = proved.upper, answer.residual
    word = "proved" if proved.is_two_sided else "estimated"
    lower = LevelSolution(
        g, proved.lower, g - proved.lower, g, 0.0, answer.dimension, "image", word, None, "", error
    )
    off = max(high - f, f - low) if proved.is_two_sided else error * abs(f)
    upper = LevelSolution(f, low, off, f, 0.0, None, "nothing", word, None, answer.solver, error)
    text = f"f and its dual agree to {error:.1g}, with the image of the lower level fixed"
    findings = ConicFindings((lower, upper), proved.why)
    evidence = StepEvidence(intervals=proved)
    return DirectState(1, x, f, g, evidence, Ended(ANSWER, text), findings)


def _levels(problem: Problem) -> tuple[Function, Function]:
    """Return both levels in order of priority, as the user gave them."""
    given = problem.original or problem
    return given.lower, given.upper


def _ended(found: ChainSolution, assumption: str) -> Ended:
    if found.status != "solved":
        return Ended(WHY.get(found.status, found.status), found.message)
    off, upper = max(level.residual for level in found.levels), found.levels[-1]
    text = (
        f"optimality conditions of both levels hold to within {off:.1g}; "
        f"lower level kept optimal by: {found.levels[0].held}"
    )
    if not upper.is_bound_proved:
        text += f"; estimated, {assumption}: f* = {estimate(upper.best, upper.error)}"
    return Ended(ANSWER, text)
