"""Extrapolation: x* to many digits without structure, matrices or constants.

    x(eta) = argmin of g + eta f,   x(eta) = x* + c_1 eta + c_2 eta² + ...

The path is smooth, so that a polynomial through some of its points says where it ends (Richardson's
extrapolation): far closer to x* than any of them. Only gradients are needed: for large and sparse
data, and for callables, it takes the place of a factorisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiebreak import arrays
from tiebreak.arrays import Array
from tiebreak.certificate import News
from tiebreak.functions import Seen
from tiebreak.methods.common import need_smooth, out_of_bounds
from tiebreak.methods.tangents import Tangent, tangent
from tiebreak.problem import Problem

ORDER = 6  # most points of the path that an extrapolation uses
CLOSER = 0.5  # from one eta to the next
WORSE = 4  # so often may f change by more than before: the first points are far away
MEMORY = 12  # pairs that L-BFGS remembers
SHARE = 0.2  # the first eta, beside the one that makes f bend as much as g
ACCURATE = 1e-10  # what is left of the slope at a point of the path, beside that of its parts
PATIENCE = 150  # steps without half of the slope gone: rounding is all that is left
IMPATIENCE = 20  # the same once f has settled: the path is known then, all but rounding
SETTLED = 1e-11  # f changes less than this from one extrapolation to the next, relative
PROBE = 1e-4  # how far curvature is probed, beside the size of x
ARMIJO = 1e-4
RELEASE = 0.3  # where less of the slope is along the face, others take its place
FACES = 12  # so often may the face change from one point to the next
STEEPER = 0.125  # from one eta to the next once f has settled: what is left is to prove it
PROOFS = 12  # so many more points for that


class Look(NamedTuple):
    """h = g + eta f at a point."""

    f: Seen
    g: Seen
    value: float
    slope: Array

    @property
    def x(self) -> Array:
        """The point."""
        return self.f.at


class State(NamedTuple):
    """Where the path is; x is the best point so far, the start until one is better."""

    k: int
    x: Array
    upper_value: float
    lower_value: float
    eta: float
    here: Look  # the iterate on the way to x(eta)
    changes: tuple[tuple[Array, Array, float], ...]  # of x and slope, and 1 over their product
    least: float  # the smallest slope since ``stalled`` steps
    stalled: int
    scale: float  # 1/L for the first step of L-BFGS
    path: tuple[tuple[float, Array], ...]  # the points x(eta) found so far, the latest last
    key: Array  # the face that they are on
    faces: int  # how often that has changed
    last: float  # f at the last extrapolated point
    changed: float  # by how much that changed f
    worse: int  # how often it changed f by more than the one before
    found: int  # how many extrapolated points were taken
    proofs: int  # how many points of the path were found since f has settled; -1 before
    finished: tuple[str, str]
    steep: tuple[int, int]  # how often f, g rose more than their Lipschitz constants allow
    bent: tuple[int, int]  # how often f, g fell below their own minorants, as no convex one can
    news: News

    @property
    def is_settling(self) -> bool:
        """Is f about to become more accurate, whatever is proved?"""
        return self.proofs < 0 and not self.finished[0]

    @property
    def is_milestone(self) -> bool:
        """Is this a point of the path?"""
        return bool(self.news.upper)


@dataclass(frozen=True)
class Extrapolation:
    """Extrapolation of x(eta) = argmin g + eta f to eta = 0, eta halved from point to point.

    Points of the path by L-BFGS (Liu, Nocedal 1989), to rounding, each from where the former ones
    say that it is. An extrapolated point is taken only if its g is not above that of the point so
    far, and once f has settled it is x: what follows is for the proof, for

        f* >= f(x(eta)) + (g(x(eta)) - g*)/eta = f* - O(eta)   (from both minorants at x(eta)).

    Nothing is claimed: the certificate says what it is worth. Ends as "undetermined" where f does
    not settle. Constraints that are active stay so on the way to eta = 0, but for the first points:
    the path is followed on the face that it is on, and begins anew where that changes.
    """

    name: ClassVar[str] = "extrapolation"
    paper: ClassVar[str] = "none: Richardson's extrapolation of the regularisation path"
    assumptions: ClassVar[str] = "f, g convex and smooth, Z with an easy projection"
    guarantee: ClassVar[str] = "none: a point is taken only where it is better"

    def check(self, problem: Problem) -> None:
        """Refuse a problem outside the assumptions, with one sentence."""
        need_smooth("Extrapolation", problem)

    def describe(self, problem: Problem) -> str:
        """The method in words."""
        return "extrapolation of argmin g + eta f to eta = 0"

    def init(self, problem: Problem, x0: Array) -> State:
        """Both curvatures along the slope of f, and the eta that makes them comparable."""
        x = problem.domain.project(x0)
        f_x, g_x = _seen(problem, x)
        bend_f, bend_g = 0.0, 0.0
        for way in (f_x.slope, g_x.slope, -1.0 * f_x.slope, -1.0 * g_x.slope):
            if bend_g > 0.0 or not arrays.norm(way) > 0.0:
                continue
            fall = abs(g_x.value) / (arrays.norm(g_x.slope) or math.inf)  # a length, in units of x
            length = PROBE * (arrays.norm(x) or fall or 1.0)
            there = problem.domain.project(x - (length / arrays.norm(way)) * way)
            moved = arrays.norm(there - x)
            if moved > 0.0:
                f_y, g_y = _seen(problem, there)
                bend_f = arrays.norm(f_y.slope - f_x.slope) / moved
                bend_g = arrays.norm(g_y.slope - g_x.slope) / moved
        bend_f = bend_f or arrays.norm(f_x.slope) / (arrays.norm(x) or 1.0)
        eta = SHARE * bend_g / bend_f if bend_f > 0.0 else 0.0
        bend = bend_g + eta * bend_f
        return State(
            k=0, x=x, upper_value=f_x.value, lower_value=g_x.value, eta=eta,
            here=_look(f_x, g_x, eta), changes=(), least=math.inf, stalled=0,
            scale=1.0 / bend if bend > 0.0 else 1.0,
            path=(), key=arrays.zeros_like(x), faces=0,
            last=math.inf, changed=math.inf, worse=0, found=0, proofs=-1,
            finished=("", ""), steep=(0, 0), bent=(0, 0), news=News(values=((g_x.value, x, g_x),)),
        )  # fmt: skip

    def step(self, problem: Problem, state: State) -> State:
        """One step of L-BFGS; at a point of the path an extrapolation and the next eta."""
        state = state._replace(k=state.k + 1, news=News())
        if not 0.0 < state.eta < math.inf:
            return _ended(state, "there is no slope to follow")
        here, face = state.here, tangent(problem.domain, state.here.x)
        slope = face.along(here.slope)
        # What a step of projected gradients would do: 0 at x(eta) only.
        pushed = problem.domain.project(here.x - state.scale * here.slope)
        left = arrays.norm(here.x - pushed) / state.scale
        if left < 0.5 * state.least:
            state = state._replace(least=left, stalled=0)
        else:
            state = state._replace(stalled=state.stalled + 1)
        epsilon = arrays.epsilon(here.x)
        parts = arrays.norm(face.along(here.g.slope))
        parts += state.eta * arrays.norm(face.along(here.f.slope))
        all_parts = arrays.norm(here.g.slope) + state.eta * arrays.norm(here.f.slope)
        if left <= max(ACCURATE, 8.0 * epsilon) * parts or left <= 4.0 * epsilon * all_parts:
            return self._arrived(problem, state, face)
        if state.stalled >= (PATIENCE if state.proofs < 0 else IMPATIENCE):
            if left <= 1e-6 * parts:
                return self._arrived(problem, state, face)
            return _ended(state, "the path could not be followed to rounding")
        if arrays.norm(slope) < RELEASE * left:
            return _released(problem, state)
        return _moved(problem, state, face, slope)

    def _arrived(self, problem: Problem, state: State, face: Tangent) -> State:
        """x(eta) is known: extrapolate, then a smaller eta, from where the path should be."""
        here = state.here
        if state.path and arrays.max_abs(state.key - face.key) > 0.0:
            if state.faces >= FACES:
                return _ended(state, "the path changes its face again and again")
            state = state._replace(
                path=(),
                last=math.inf,
                changed=math.inf,
                worse=0,
                proofs=-1,
                faces=state.faces + 1,
            )
        path = (*state.path, (state.eta, here.x))[-ORDER:]
        news = News(
            upper=((state.eta, here.f),),
            cuts=((1.0, here.g),),
            lower=((1.0, here.g),),
            values=((here.g.value, here.x, here.g),),
        )
        state = state._replace(path=path, key=face.key, news=news)
        if state.proofs >= 0:
            state = state._replace(proofs=state.proofs + 1)
            if state.proofs >= PROOFS:
                return _ended(state, "")
        else:
            state = _extrapolated(problem, state)
            if state.worse > WORSE or not math.isfinite(state.last):
                return _ended(state, "f does not settle when argmin g + eta f is extrapolated")
        eta = (STEEPER if state.proofs >= 0 else CLOSER) * state.eta
        f_x, g_x = _seen(problem, problem.domain.project(_at(path, eta)))
        return state._replace(eta=eta, here=_look(f_x, g_x, eta), least=math.inf, stalled=0)


def _extrapolated(problem: Problem, state: State) -> State:
    """The path at eta = 0, and what that says about f; x if its g is low enough."""
    x = problem.domain.project(_at(state.path, 0.0))
    f_x, g_x = _seen(problem, x)
    news = state.news._replace(
        lower=(*state.news.lower, (1.0, g_x)),
        values=(*state.news.values, (g_x.value, x, g_x)),
    )
    changed = abs(f_x.value - state.last)
    worse = state.worse + (not changed < state.changed)
    state = state._replace(news=news, last=f_x.value, changed=changed, worse=worse)
    noise = 64.0 * arrays.epsilon(x) * max(abs(g_x.value), g_x.size)
    if len(state.path) == 1 or not g_x.value <= state.lower_value + noise:
        return state
    state = state._replace(x=x, upper_value=f_x.value, lower_value=g_x.value, found=state.found + 1)
    size = abs(f_x.value) + arrays.norm(f_x.slope) * arrays.norm(x)
    settled = max(SETTLED, 32.0 * arrays.epsilon(x)) * size
    return state._replace(proofs=0) if changed <= settled else state


# -- the path -------------------------------------------------------------------------------------


def _at(path: tuple[tuple[float, Array], ...], eta: float) -> Array:
    """The polynomial through the points of the path, at eta (Neville's scheme)."""
    etas, table = [e for e, _ in path], [x for _, x in path]
    for width in range(1, len(table)):
        for i in range(len(table) - width):
            a, b = etas[i], etas[i + width]
            share = (eta - a) / (b - a)
            table[i] = table[i] + share * (table[i + 1] - table[i])
    return table[0]


def _seen(problem: Problem, x: Array) -> tuple[Seen, Seen]:
    (point,) = problem.lift(x)
    return problem.upper.look([point.f])[0][0], problem.lower.look([point.g])[0][0]


def _look(f: Seen, g: Seen, eta: float) -> Look:
    return Look(f, g, g.value + eta * f.value, g.slope + eta * f.slope)


def _ended(state: State, why: str) -> State:
    """The end, with an answer if f has settled."""
    if state.proofs >= 0:
        why = f"f has settled: argmin g + eta f, extrapolated from {len(state.path)} points"
        return state._replace(finished=("settled", why))
    return state._replace(finished=("undetermined", why))


# -- L-BFGS ---------------------------------------------------------------------------------------


def _direction(state: State, slope: Array) -> Array:
    """-H slope, with H the inverse Hessian as the last changes show it (two loops)."""
    q, weights = slope, []
    for s, y, rho in reversed(state.changes):
        weights.append(rho * arrays.dot(s, q))
        q = q - weights[-1] * y
    scale = state.scale
    if state.changes:
        _, y, rho = state.changes[-1]
        scale = 1.0 / (rho * arrays.dot(y, y))
    q = scale * q
    for (s, y, rho), weight in zip(state.changes, reversed(weights), strict=True):
        q = q + (weight - rho * arrays.dot(y, q)) * s
    return -1.0 * q


def _doubted(problem: Problem, state: State, there: Look) -> State:
    """With the free checks of this step counted."""
    (f1, g1), here = problem.smooth_parts, state.here
    d = there.x - here.x
    along_f, along_g, square = arrays.dots((here.f.slope, d), (here.g.slope, d), (d, d))
    f = out_of_bounds(f1, here.f, there.f.value, along_f, square)
    g = out_of_bounds(g1, here.g, there.g.value, along_g, square)
    return state._replace(
        steep=(state.steep[0] + f[0], state.steep[1] + g[0]),
        bent=(state.bent[0] + f[1], state.bent[1] + g[1]),
    )


def _noise(state: State) -> float:
    """How much rounding may change h."""
    here = state.here
    sizes = max(abs(here.g.value), here.g.size) + state.eta * max(abs(here.f.value), here.f.size)
    return 16.0 * arrays.epsilon(here.x) * sizes


def _moved(problem: Problem, state: State, face: Tangent, slope: Array) -> State:
    """One step along the face, as long as h falls enough, or its slope where h is rounding only."""
    here, d = state.here, face.along(_direction(state, slope))
    fall = arrays.dot(slope, d)
    if not fall < 0.0:  # the memory is worn out
        d, fall = -state.scale * slope, -state.scale * arrays.dot(slope, slope)
        state = state._replace(changes=())
    t, noise = 1.0, _noise(state)
    for _ in range(40):
        x = problem.domain.project(here.x + t * d)
        there = _look(*_seen(problem, x), state.eta)
        rate = arrays.dot(there.slope, d)
        is_lower = there.value <= here.value + ARMIJO * arrays.dot(here.slope, x - here.x)
        is_flat = there.value <= here.value + noise and abs(rate) <= 0.9 * abs(fall)
        if math.isfinite(there.value) and (is_lower or is_flat):
            break
        # The lowest point of the parabola through both values and the first slope.
        bend = there.value - here.value - t * fall
        best = -0.5 * fall * t * t / bend if math.isfinite(bend) and bend > 0.0 else 0.0
        t = min(max(best, 0.1 * t), 0.5 * t)
    else:  # bent by the projection, a direction need not fall
        return _released(problem, state)
    state = _doubted(problem, state, there)
    other = tangent(problem.domain, x)
    if arrays.max_abs(other.key - face.key) > 0.0:
        return state._replace(here=there, changes=())
    s, y = x - here.x, other.along(there.slope) - slope
    product, changes = arrays.dot(s, y), state.changes
    if product > arrays.epsilon(d) * arrays.norm(s) * arrays.norm(y):
        changes = (*changes, (s, y, 1.0 / product))[-MEMORY:]
    return state._replace(here=there, changes=changes)


def _released(problem: Problem, state: State) -> State:
    """One step of projected gradients: off the face where the slope says so."""
    here, t, noise = state.here, state.scale, _noise(state)
    for _ in range(60):
        x = problem.domain.project(here.x - t * here.slope)
        there, d = _look(*_seen(problem, x), state.eta), x - here.x
        above = arrays.dot(here.slope, d) + 0.5 * arrays.dot(d, d) / t
        if math.isfinite(there.value) and there.value <= here.value + above + noise:
            state = _doubted(problem, state, there)
            return state._replace(here=there, changes=(), scale=1.5 * t)
        t *= 0.5
    return state._replace(stalled=PATIENCE)
