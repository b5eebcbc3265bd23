"""Tools shared by several methods: states, checks, typical sizes, averages, violation counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from tiebreak.algorithms.base import Range
from tiebreak.functions import (
    Composite,
    Function,
    Minorant,
    Smooth,
    SmoothFunction,
    Terms,
    split,
    summands,
)
from tiebreak.linalg import (
    TOL,
    Array,
    Refusal,
    arrays,
    checks,
    in_files,
    refusal_of,
    rounding_unit,
)
from tiebreak.problem import Point, Problem, mixed
from tiebreak.proofs.evidence import StepEvidence

REFRESH = 64  # recompute averaged images after this many steps: rounding makes them drift
DEFAULT_HORIZON = 1000  # planned number of steps for a method that needs one, if none was given
TOLERANCE = 1e-4  # relative accuracy for a method that needs one, if none was given

M = TypeVar("M")


@in_files("run-state")
class RunState(NamedTuple, Generic[M]):
    """The state of a run: the method's current answer, and the variables of its recursion."""

    k: int
    point: Point  # x with its images
    upper_value: float  # f and g there
    lower_value: float
    evidence: StepEvidence
    memory: M

    @property
    def x(self) -> Array:
        """The point that the method would return now."""
        return self.point.x


def begun(x: Point, f: float, g: float, g_x: Minorant, memory: M) -> RunState[M]:
    """Return the first state at x, a point of Z with the values f and g and g's minorant g_x."""
    return RunState(0, x, f, g, StepEvidence(values=((g, x.x, g_x),)), memory)


def weighted(
    a: float,
    f: Minorant,
    b: float,
    g: Minorant,
    *values: tuple[float, Array, Minorant],
    lower: float | None = None,
) -> StepEvidence:
    """Return the evidence from a step: minorants of f and g with weights a and b, and values of g.

    The weighted sum bounds f*; ``lower`` is the weight of the minorant of g in the bound on g* (b
    if None).
    """
    return StepEvidence(
        upper=((a, f),), cuts=((b, g),), lower=((b if lower is None else lower, g),), values=values
    )


# -- ranges of parameters -------------------------------------------------------------------------


def optional(checked: Range) -> Range:
    """Return the range with None added."""
    return lambda owner, name, value: None if value is None else checked(owner, name, value)


def whole(least: int = 1) -> Range:
    """Return the range of whole numbers >= ``least``."""
    return lambda owner, name, value: checks.whole(owner, name, value, least)


def within(needed: str, holds: Callable[[float], bool]) -> Range:
    """Return the range of the numbers for which ``holds`` is true; ``needed`` says so in words."""

    def checked(owner: str, name: str, value: object) -> float:
        number = checks.number(owner, name, value, needed)
        if not holds(number):
            raise ValueError(f"{owner}: {name} must be {needed}, got {value}")
        return number

    return checked


POSITIVE = optional(checks.positive)
COUNT = optional(whole())
SHARE = within("a number in (0, 1)", lambda number: 0.0 < number < 1.0)
UP_TO_1 = within("a number in (0, 1]", lambda number: 0.0 < number <= 1.0)
UP_TO_2 = within("a number in (0, 2]", lambda number: 0.0 < number <= 2.0)


# -- assumptions ----------------------------------------------------------------------------------


def need_smooth(method: object, problem: Problem, *levels: str) -> Refusal | None:
    """Refuse a problem with a penalty on one of these levels (on any level if none is named)."""
    for level, h in (("upper", problem.upper), ("lower", problem.lower)):
        if isinstance(h, Composite) and level in (levels or ("upper", "lower")):
            others = "methods for penalties: adaptive, primal-dual, p-agm-bio, r-apm, pb-apg, bi-sg"
            return Refusal(type(method).__name__, level, "must be smooth", str(h), others)
    return None


def need_lipschitz(
    method: object, problem: Problem, *levels: str, unless: tuple[str, ...] = ()
) -> Refusal | None:
    """Refuse a problem if a Lipschitz constant that is needed is not known.

    No constant is needed if all of the method's parameters named in ``unless`` are given.
    """
    if unless and all(getattr(method, name) is not None for name in unless):
        return None
    for level in levels:
        h = problem.upper if level == "upper" else problem.lower
        if not math.isfinite(h.lipschitz):
            parts = summands(problem.smooth_parts[level == "lower"].bare)
            is_given = any(isinstance(part, Smooth) for _, part in parts)
            hint = "give Smooth(..., lipschitz=...)" if is_given else 'use "auto" or "adaptive"'
            needed, owner = "must have a known Lipschitz constant", type(method).__name__
            instead = f" or {_call(method, *unless)}" if unless else ""
            return Refusal(owner, level, needed, "none", f"{hint}{instead}")
    return None


def _call(method: object, *names: str) -> str:
    """Return the call with these parameters, such as "SEA(upper_step=...)"."""
    return f"{type(method).__name__}({', '.join(f'{name}=...' for name in names)})"


def need_bounded(method: object, problem: Problem, unless: str = "") -> Refusal | None:
    """Refuse an unbounded domain, unless the method's parameter named in ``unless`` is given."""
    if problem.is_bounded or (unless and getattr(method, unless) is not None):
        return None
    owner, kind = type(method).__name__, type(problem.domain).__name__
    hint = f"or give {_call(method, unless)}" if unless else ""
    return Refusal(owner, "domain", "must be bounded", kind, hint)


def need_argmin(method: object, problem: Problem) -> Refusal | None:
    """Refuse a domain that is unbounded, or over which linear functions are hard to minimise."""
    refusal = need_bounded(method, problem)
    if refusal or problem.domain.has_argmin:
        return refusal
    owner, kind = type(method).__name__, type(problem.domain).__name__
    return Refusal(owner, "domain", "must have an easy linear minimisation", kind)


def need_strong_convexity(method: object, problem: Problem, others: str) -> Refusal | None:
    """Refuse an upper level that is not known to be strongly convex; suggest ``others``."""
    if problem.upper.strong_convexity > 0.0:
        return None
    needed = "must be strongly convex"
    return Refusal(type(method).__name__, "upper", needed, "curvature 0", others)


def need_short_step(method: object, name: str, smoothness: float) -> Refusal | None:
    """Refuse a given step size above 2/L: gradient steps of that size diverge.

    The theorems require steps of at most 1/L. But our L is an upper bound on the Lipschitz
    constant, and the user's value may be slightly smaller, so only steps above 2/L are refused.
    """
    step = getattr(method, name)
    if step is not None and math.isfinite(smoothness) and step * smoothness > 2.0:
        needed = f"must be at most 1/L = {1.0 / smoothness:.3g} (steps of twice this size diverge)"
        return Refusal(type(method).__name__, name, needed, f"{step:g}")
    return None


def need_joint_prox(method: object, problem: Problem, is_split: bool = False) -> Refusal | None:
    """Refuse penalties whose weighted sum on Z has no prox in closed form.

    Args:
        is_split: does the method take a separate step for f's penalty? With such a step, only
            the penalty of g must have a prox on Z.
    """
    # If f's penalty has an operator, it has no prox even in a separate step.
    is_split = is_split and not problem.penalties[0].terms.has_operator
    refusal = refusal_of(lambda: problem.lower_joint if is_split else problem.joint)
    return refusal and Refusal(type(method).__name__, *refusal.args[1:])


def need_unit(method: Any, problem: Problem) -> Refusal | None:
    """Refuse an f without a gradient if no unit for its weight is given: see `unit_of`."""
    if method.unit is not None or not problem.smooth_parts[0].bare.is_zero:
        return None
    needed = "must be given if the upper level has no gradient (otherwise it is L_g/L_f)"
    return Refusal(type(method).__name__, "unit", needed, "none", f"give {_call(method, 'unit')}")


def unit_of(problem: Problem, given: float | None, f_0: Minorant, g_0: Minorant) -> float:
    """Return the unit of the weight e in g + e f: ``given``, or L_g/L_f if ``given`` is None."""
    L_f, L_g = both_smoothness(problem, f_0, g_0)
    return L_g / L_f if given is None else given


def typical_length(problem: Problem, g_0: Minorant) -> float:
    """Return a length in the units of x: the domain's diameter, or twice the promised radius.

    If this length is infinite or 0, return `_distance_moved`, a typical size of x, or 1 if that is
    0 too.
    """
    length = problem.domain.diameter_in(int(g_0.at.shape[0]))
    if not math.isfinite(length) and problem.radius is not None:
        length = 2.0 * problem.radius
    return length if 0.0 < length < math.inf else _distance_moved(problem, g_0) or 1.0


def _distance_moved(problem: Problem, g_0: Minorant) -> float:
    """Return the larger of the first lower step's length and the norm of the starting point."""
    L_g, start = problem.lower.lipschitz, arrays.norm(g_0.at)
    known = 0.0 < L_g < math.inf
    return max(arrays.norm(g_0.slope) / L_g, start) if known else start


def typical_curvature(problem: Problem, h: Function, h_0: Minorant, g_0: Minorant) -> float:
    """Return how much the slope of h typically changes per unit length, penalty included.

    The change is L_h (if h1 is linear, the slope of h divided by a typical length) plus the slope
    of h2 divided by `_distance_moved`: a penalty pulls x towards the origin, so the size of the
    domain says little about this slope.
    """
    length = typical_length(problem, g_0)
    smooth = h.lipschitz or arrays.norm(h_0.slope) / length
    length = min(length, _distance_moved(problem, g_0) or length)
    return smooth + split(h)[1].terms.steepness(int(h_0.at.shape[0]), length) / length


def positive_smoothness(problem: Problem, h: Function, h_0: Minorant, g_0: Minorant) -> float:
    """Return L_h, or a unit-free substitute if L_h = 0.

    Any positive number would be admissible; with this substitute, the first step on a linear
    function is as long as the domain.
    """
    return h.lipschitz or typical_curvature(problem, h, h_0, g_0) or 1.0


def both_smoothness(problem: Problem, f_0: Minorant, g_0: Minorant) -> tuple[float, float]:
    """Return L_f and L_g, each replaced by a substitute if it is 0."""
    L_f = positive_smoothness(problem, problem.upper, f_0, g_0)
    return L_f, positive_smoothness(problem, problem.lower, g_0, g_0)


def first_curvature(
    problem: Problem, h: SmoothFunction, here: Minorant, other: Minorant
) -> tuple[float, bool]:
    """Return the change of h's gradient per unit length along a short step, to estimate L_h.

    Also return whether the change is impossible for a convex function.
    """
    way = here.slope if arrays.max_abs(here.slope) > 0.0 else other.slope
    steepness = arrays.norm(way)
    if not 0.0 < steepness < math.inf:
        return 0.0, False
    # The length is that of a gradient step if L is known, otherwise the larger of |x| and the
    # distance to the zero of the linear model; both are in the units of x.
    length = max(arrays.norm(here.at), abs(here.value) / steepness)
    if 0.0 < h.known_lipschitz < math.inf:
        length = steepness / h.known_lipschitz
    there = problem.domain.project(here.at - (TOL.away * (length or 1.0) / steepness) * way)
    move, turn = there - here.at, h.gradient(there) - here.slope
    moved, turned, slope = arrays.norm(move), arrays.norm(turn), arrays.norm(here.slope)
    epsilon = arrays.epsilon(here.at)
    if not (moved > 0.0 and 64.0 * epsilon * slope < turned < math.inf):
        return 0.0, False
    parts = max(abs(here.value), here.size)
    _, error = h.rounding_errors(here.at, arrays.norm(here.at) + moved, parts, slope)
    slack = (4.0 * error + 16.0 * epsilon * turned + h.defect * moved) * moved
    return turned / moved, arrays.dot(turn, move) < -slack


def is_due(k: int) -> bool:
    """Is a costly test due? Yes at every k up to 16, then 8 times per doubling of k."""
    return k % (1 << max(k.bit_length() - 4, 0)) == 0


def with_fresh_images(problem: Problem, x: Point, k: int) -> Point:
    """Return x, with new images if REFRESH divides the step number k: averaged images drift."""
    return x if k % REFRESH else problem.forward(x.x)[0]


def averaged(problem: Problem, average: Point, new: Point, weight: float, k: int) -> Point:
    """Return (1 - weight) average + weight new, with its images; k is the step number."""
    return with_fresh_images(problem, mixed(average, new, weight), k)


def minorants_at(problem: Problem, x: Point) -> tuple[Minorant, Minorant]:
    """Return the minorants of f1 and g1 at x; both evaluations start before we wait for either."""
    upper, lower = problem.upper.evaluate_async([x.f]), problem.lower.evaluate_async([x.g])
    return upper()[0][0], lower()[0][0]


def at_start(problem: Problem, x0: Array) -> tuple[Point, Minorant, Minorant]:
    """Return the point of Z nearest to x0, and the minorants of f1 and g1 there."""
    (x,) = problem.forward(problem.domain.projected(x0))
    return x, *minorants_at(problem, x)


def values_at(problem: Problem, x: Point) -> tuple[float, float]:
    """Return f(x) and g(x), from the images of x."""
    (f_x,), (g_x,) = problem.upper.evaluate([], [x.f])[1], problem.lower.evaluate([], [x.g])[1]
    return f_x, g_x


def out_of_bounds(
    h: SmoothFunction, y: Minorant, value: float, inner: float, square: float
) -> tuple[bool, bool]:
    """Is h(y + dx) above h(y) + <slope, dx> + L/2 |dx|²?  Is h(y + dx) below h(y) + <slope, dx>?

    ``value`` is h(y + dx), ``inner`` is <slope, dx> and ``square`` is |dx|². The first case is
    impossible if L is a Lipschitz constant of the gradient, the second if h is convex and its
    gradient is correct. The two consistency checks come with every step at no extra cost.
    """
    rise, epsilon = value - y.value - inner, arrays.epsilon(y.at)
    curved = 0.5 * h.known_lipschitz * square if square > 0.0 else 0.0
    # ``few`` is cheaper to compute than ``slack``, and at most a quarter of it: see `rounding_unit`
    few = 64.0 * epsilon * max(abs(value), abs(y.value))
    if -few <= rise <= curved + few:
        return False, False
    # the difference may be a rounding error
    slack = rounding_of_rise(h, y, value, square) + 1e-9 * curved
    return rise > curved + slack, rise < -slack


def size_of_terms(f: Minorant, penalty: Terms) -> float:
    """Estimate the size of the terms of a smooth part and a penalty at x.

    Entries of x that neither depends on do not count, however large they are. If what is left is 0
    up to rounding, it gives no scale, and the slopes times |x| take its place.
    """
    x, xp = f.at, arrays.namespace(f.at)
    n, length = int(x.shape[0]), arrays.norm(x)
    steepness = penalty.steepness(n, length) if penalty.has_weights else 0.0
    size = abs(f.value) + abs(penalty.value(x)) + float(xp.sum(xp.abs(f.slope * x)))
    most = (arrays.norm(f.slope) + steepness) * length
    return size if size > rounding_unit(arrays.epsilon(x), n) * most else most


def rounding_of_rise(h: SmoothFunction, y: Minorant, value: float, square: float) -> float:
    """Bound the rounding error of h(y + dx) - h(y) - <slope, dx>; see `out_of_bounds`."""
    size = max(arrays.norm(y.at), *arrays.floats([y.reach]))
    reach, slope = size + math.sqrt(square), arrays.norm(y.slope)
    parts = max(abs(value), abs(y.value), y.size)
    errors = h.rounding_errors(y.at, reach, parts, slope)
    slack = 4.0 * errors[0] + 2.0 * (errors[1] + arrays.epsilon(y.at) * slope) * reach
    return slack + h.defect * square


S = TypeVar("S", bound=Any)  # a state that counts both kinds of violations


def with_violations(state: S, f: tuple[bool, bool], g: tuple[bool, bool]) -> S:
    """Add the violations that `out_of_bounds` found for f and g in a step to the state's counts."""
    (a, b), (c, d) = state.lipschitz_violations, state.convexity_violations
    counted: S = state._replace(
        lipschitz_violations=(a + f[0], b + g[0]), convexity_violations=(c + f[1], d + g[1])
    )
    return counted
