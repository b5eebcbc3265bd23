"""AGM-BiO and P-AGM-BiO equal the printed algorithms, step by step, on all sets and penalties.

The printed ones (`methods.reference`) get everything from here: losses, penalties and projections
in plain NumPy and SciPy, line 6 by bisection, gamma by the paper's formulas.  From the library come
only numbers that are inputs: the Lipschitz constants, and L_f/gamma where the paper says nothing
(a linear f1; a penalty in f without an error bound).

The step amplifies rounding errors where gamma is larger than Theorem 3 allows: the cut turns by
L_g |dy| when y moves by dy, and its multiplier, about a_k M/alpha, carries that into z_{k+1}.  Then
no two correct programs agree to the end, and no sharper root in line 6 helps.  So a drawn problem
on which the two differ must be one on which the printed algorithm differs from itself as much when
slopes and values differ in the last digit; then another is drawn, until they agree to 1e-12.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

import tiebreak as tb
from tiebreak.algorithms import reference

N, ROWS, STEPS, TOLERANCE, DRAWS = 8, 5, 50, 1e-12, 8
EPS = float(np.finfo(np.float64).eps)


# --- losses in plain NumPy -----------------------------------------------------------------------


class Loss(NamedTuple):
    """A smooth function of the library, and the same in plain NumPy."""

    built: Any
    value: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]


def loss(kind: str, rng: np.random.Generator, steep: float = 1.0) -> Loss:
    """A loss of this kind with drawn data, ``steep`` times as far from its minimum."""
    A, b, c = rng.standard_normal((ROWS, N)), rng.standard_normal(ROWS), rng.standard_normal(N)
    b, c = steep * b, steep * c
    if kind == "LeastSquares":
        value, gradient = lambda x: 0.5 * np.sum((A @ x - b) ** 2), lambda x: A.T @ (A @ x - b)
        return Loss(tb.LeastSquares(A, b), value, gradient)
    if kind == "Logistic":
        y = np.sign(b)
        return Loss(
            tb.Logistic(A, y),
            lambda x: np.mean(np.log1p(np.exp(-y * (A @ x)))),
            lambda x: A.T @ (-y / (1.0 + np.exp(y * (A @ x)))) / ROWS,
        )
    if kind == "Quadratic":
        Q, q = A.T @ A, A.T @ b
        return Loss(tb.Quadratic(Q, q), lambda x: 0.5 * x @ Q @ x + q @ x, lambda x: Q @ x + q)
    if kind == "Linear":
        return Loss(tb.Linear(c), lambda x: c @ x, lambda x: c)
    if kind == "SquaredNorm":
        value, gradient = lambda x: np.sum((x - c) ** 2), lambda x: 2.0 * (x - c)
        return Loss(tb.SquaredNorm(2.0, c), value, gradient)
    raise ValueError(kind)


# --- projections and proxes in plain NumPy -------------------------------------------------------


def length(x: np.ndarray) -> float:
    return math.sqrt(x @ x)


def onto_box(x: np.ndarray, lower: np.ndarray | float, upper: np.ndarray | float) -> np.ndarray:
    return np.minimum(np.maximum(x, lower), upper)


def onto_simplex(x: np.ndarray, total: float) -> np.ndarray:
    """By sorting: tau is the largest of (x_(1) + ... + x_(j) - total)/j."""
    tau = np.max((np.cumsum(np.sort(x)[::-1]) - total) / np.arange(1, len(x) + 1))
    return np.maximum(x - tau, 0.0)


def onto_l1_ball(x: np.ndarray, radius: float) -> np.ndarray:
    is_inside = np.sum(np.abs(x)) <= radius
    return x if is_inside else np.sign(x) * onto_simplex(np.abs(x), radius)


def onto_ball(x: np.ndarray, radius: float, center: np.ndarray | float = 0.0) -> np.ndarray:
    distance = length(x - center)
    return x if distance <= radius else center + (x - center) * (radius / distance)


def onto_halfspace(x: np.ndarray, normal: np.ndarray, offset: float) -> np.ndarray:
    return x - max(normal @ x - offset, 0.0) / (normal @ normal) * normal


CENTER, NORMAL = np.linspace(-0.4, 0.5, N), np.cos(np.arange(N))
LOWER, UPPER = -0.1 - 0.05 * np.arange(N), 0.3 - 0.02 * np.arange(N)
DOMAINS = {
    "Space": (tb.Space(), lambda x: x),
    "Ball": (tb.Ball(0.8), lambda x: onto_ball(x, 0.8)),
    "Ball with a center": (tb.Ball(0.7, CENTER), lambda x: onto_ball(x, 0.7, CENTER)),
    "Box": (tb.Box(-0.2, 0.3), lambda x: onto_box(x, -0.2, 0.3)),
    "Box of vectors": (tb.Box(LOWER, UPPER), lambda x: onto_box(x, LOWER, UPPER)),
    "Orthant": (tb.Orthant(), lambda x: np.maximum(x, 0.0)),
    "Simplex": (tb.Simplex(1.5), lambda x: onto_simplex(x, 1.5)),
    "L1Ball": (tb.L1Ball(1.2), lambda x: onto_l1_ball(x, 1.2)),
    "Monotone": (tb.Monotone(), lambda x: isotonic_regression(x).x),
    "Halfspace": (tb.Halfspace(NORMAL, -0.3), lambda x: onto_halfspace(x, NORMAL, -0.3)),
}
LABELS = np.array([0, 0, 1, 1, 1, -1, 2, 2])  # -1: in no group
GROUPS = [np.flatnonzero(i == LABELS) for i in (0, 1, 2)]


@dataclass
class Parts:
    """What penalties are made of: the weights of the norms, a box and a ball."""

    l1: float = 0.0
    group: float = 0.0
    l2: float = 0.0
    square: float = 0.0
    lower: float = -np.inf
    upper: float = np.inf
    radius: float = np.inf

    @property
    def is_bounded(self) -> bool:
        return min(self.radius, self.upper - self.lower) < np.inf

    def value(self, x: np.ndarray) -> float:
        """At a point of the box and the ball."""
        norms = self.l1 * np.sum(np.abs(x)) + self.l2 * length(x)
        groups = sum(length(x[G]) for G in GROUPS) if self.group else 0.0
        return norms + self.group * groups + 0.5 * self.square * x @ x

    def prox(self, v: np.ndarray) -> np.ndarray:
        """Soft threshold, shrink, clip, shrink the groups, shrink the whole, scale to the ball."""
        z = np.sign(v) * np.maximum(np.abs(v) - self.l1, 0.0) / (1.0 + self.square)
        z = onto_box(z, self.lower, self.upper)
        for G in GROUPS if self.group else []:
            z[G] = shortened(z[G], self.group / (1.0 + self.square))
        return onto_ball(shortened(z, self.l2 / (1.0 + self.square)), self.radius)

    def plus(self, a: float, other: Parts, mu: float) -> Parts:
        """a this + mu other, where the sets of both stay whatever a and mu are."""
        return Parts(
            a * self.l1 + mu * other.l1,
            a * self.group + mu * other.group,
            a * self.l2 + mu * other.l2,
            a * self.square + mu * other.square,
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            min(self.radius, other.radius),
        )


def shortened(x: np.ndarray, by: float) -> np.ndarray:
    if by == 0.0:
        return x
    before = length(x)
    return x * (max(before - by, 0.0) / before) if before > 0.0 else x


PENALTIES = {
    "Zero": (tb.Zero(), Parts()),
    "L1": (tb.L1(0.3), Parts(l1=0.3)),
    "L2": (tb.L2(0.4), Parts(l2=0.4)),
    "ElasticNet": (tb.ElasticNet(0.2, 0.5), Parts(l1=0.2, square=0.5)),
    "GroupL2": (tb.GroupL2(LABELS, 0.3), Parts(group=0.3)),
    "Indicator of the orthant": (tb.Indicator(tb.Orthant()), Parts(lower=0.0)),
    "Indicator of a ball": (tb.Indicator(tb.Ball(0.9)), Parts(radius=0.9)),
    "Indicator of a box": (tb.Indicator(tb.Box(-0.3, 0.4)), Parts(lower=-0.3, upper=0.4)),
}
ROUND = ("L2", "GroupL2", "Indicator of a ball")
NO_JOINT_PROX = {
    *((first, "Indicator of a box") for first in ROUND),
    *(("Indicator of a box", second) for second in ROUND),
    ("Indicator of a ball", "Indicator of the orthant"),
    ("Indicator of the orthant", "Indicator of a ball"),
}


# --- the printed algorithms and the fast ones ----------------------------------------------------


@dataclass(frozen=True)
class Bilevel:
    """A problem of the library, and all of it in plain NumPy."""

    problem: tb.Problem
    f1: Loss
    g1: Loss
    x_0: np.ndarray  # in Z
    prox: Callable[..., np.ndarray]  # (v, a, mu): argmin over Z of a f2 + mu g2 + ½|. - v|²
    f2: Callable[[np.ndarray], float] = lambda x: 0.0
    g2: Callable[[np.ndarray], float] = lambda x: 0.0

    def f(self, x: np.ndarray) -> float:
        return self.f1.value(x) + self.f2(x)

    def g(self, x: np.ndarray) -> float:
        return self.g1.value(x) + self.g2(x)

    def project(self, v: np.ndarray) -> np.ndarray:
        return self.prox(v, 0.0, 0.0)

    def accelerated_levels(self, L_g: float, count: int) -> list[float]:
        levels = reference.accelerated_levels(
            self.g, self.g1.gradient, lambda v, b: self.prox(v, 0.0, b), L_g, self.x_0
        )
        return list(itertools.islice(levels, count))

    def printed(self, levels: list[float], L_f: float, gamma: float) -> list[Any]:
        """The run of Algorithm 1 or, where there are penalties, Algorithm 2."""
        f1, g1 = self.f1, self.g1
        if isinstance(self, Composite):
            line_6 = partial(reference.prox_within_cut, self.prox, self.g2)
            run = reference.p_agm_bio(
                f1.gradient, g1.value, g1.gradient, line_6, levels, self.x_0, L_f, gamma
            )
        else:
            cut = partial(reference.projection_onto_cut, self.project)
            run = reference.agm_bio(
                f1.gradient, g1.value, g1.gradient, cut, levels, self.x_0, L_f, gamma
            )
        return list(run)


class Composite(Bilevel):
    """One with penalties."""


def printed_run(p: Bilevel, method: Any, state: Any) -> tuple[list[float], list[Any]]:
    """The levels g_k and y_k, z_{k+1}, x_{k+1}, for the choices of the fast method."""
    if isinstance(method.levels, tb.GivenLevels):
        levels = [method.levels.at(k) for k in range(STEPS)]
    elif isinstance(method.levels, tb.FixedLevels):
        K = method.levels.iterations
        levels = p.accelerated_levels(state.lower_smoothness, K)[-1:] * STEPS
    else:
        levels = p.accelerated_levels(state.lower_smoothness, STEPS)
    L_f, gamma = p.problem.upper.lipschitz, paper_gamma(p.problem, method)
    if L_f == 0.0 or gamma is None:
        L_f, gamma = state.smoothness, 1.0
    return levels, p.printed(levels, L_f, gamma)


def paper_gamma(problem: tb.Problem, method: Any) -> float | None:
    """gamma as given, or by the theorem that applies; None where the paper has no rule."""
    L_f, L_g, bound = problem.upper.lipschitz, problem.lower.lipschitz, problem.error_bound
    if method.gamma is not None or L_f == 0.0:
        return method.gamma
    if bound is not None and bound.order == 1.0:  # Theorem 3
        alpha, M = bound.modulus, bound.gradient_bound
        return min(2 * alpha * L_f / (2 * M * L_g + alpha * L_f), 1.0)
    if any(problem.penalties[0].terms.weights):
        return None
    if bound is not None or problem.growth > 0.0:  # Theorem 2
        r = bound.order if bound is not None else 2.0
        return 1 / (2 * L_g / L_f * method.horizon ** ((2 * r - 2) / (2 * r - 1)) + 2)
    return 1.0  # Theorem 1


def fast_run(p: Bilevel, method: Any, state: Any) -> Iterator[tuple[Any, Any]]:
    """The states before and after each of the steps, the first phase of FixedLevels left out."""
    while state.k < STEPS:
        before, state = state, method.step(p.problem, state)
        if state.k > before.k:
            yield before, state


def differences(p: Bilevel, method: Any) -> dict[str, np.ndarray]:
    """How far the fast run is from the printed one at each step, relative to the size so far."""
    start = method.init(p.problem, p.x_0)
    levels, printed = printed_run(p, method, start)
    pairs: dict[str, list[Any]] = {name: [] for name in ("x", "y", "z", "g_k", "f(x)", "g(x)")}
    for (before, after), g_k, (y, z, x) in zip(
        fast_run(p, method, start), levels, printed, strict=True
    ):
        np.testing.assert_array_equal(before.f_y.at, before.g_y.at)
        pairs["x"].append((after.x, x))
        pairs["y"].append((before.f_y.at, y))
        pairs["z"].append((after.z, z))
        pairs["g_k"].append((before.level, g_k))
        pairs["f(x)"].append((after.upper_value, p.f(x)))
        pairs["g(x)"].append((after.lower_value, p.g(x)))
    scales = {"f(x)": abs(p.f(p.x_0)), "g_k": abs(p.g(p.x_0)), "g(x)": abs(p.g(p.x_0))}
    return {name: apart(both, scales.get(name, 0.0)) for name, both in pairs.items()}


def apart(pairs: list[Any], size: float = 0.0) -> np.ndarray:
    """The largest difference in each pair, over the largest entry so far, the start's included."""
    first, second = np.moveaxis(np.array(pairs).reshape(len(pairs), 2, -1), 1, 0)
    sizes = np.maximum.accumulate(np.max(np.abs(second), axis=1))
    return np.max(np.abs(first - second), axis=1) / np.maximum(sizes, size)


def amplified(p: Bilevel, method: Any) -> np.ndarray:
    """How far the printed z is from its own run with other last digits, up to each step.

    The digits of the start, and of all slopes and values: what any program rounds.
    """
    start = method.init(p.problem, p.x_0)
    run = printed_run(p, method, start)[1]
    rng, most = np.random.default_rng(0), np.zeros(STEPS)

    def rounded(h: Callable) -> Callable:
        return lambda x: (t := h(x)) * (1.0 + 2.0 * EPS * rng.uniform(-1.0, 1.0, np.shape(t)))

    for _ in range(2):
        f1, g1 = (Loss(h.built, rounded(h.value), rounded(h.gradient)) for h in (p.f1, p.g1))
        other = replace(p, f1=f1, g1=g1, x_0=rounded(np.copy)(p.x_0))
        again = printed_run(other, method, start)[1]
        most = np.maximum(most, apart([(b[1], a[1]) for a, b in zip(run, again, strict=True)]))
    return np.maximum.accumulate(most)


def assert_equal(draws: Iterable[tuple[Bilevel, Any]]) -> None:
    """One of the draws agrees to the tolerance at all steps; those before it are amplified."""
    for p, method in draws:
        found = differences(p, method)
        if max(map(np.max, found.values())) <= TOLERANCE:
            return
        allowed = TOLERANCE + 10.0 * amplified(p, method)
        for name in ("x", "y", "z"):
            assert np.all(found[name] <= allowed), (name, p.problem, method, found[name], allowed)
    raise AssertionError("no draw on which the printed algorithm reproduces itself")


def levels_of_kind(i: int, p: Bilevel) -> Any:
    """Online, fixed, given as a sequence, given as a callable; above the minimum of g."""
    if i < 2:
        return (tb.OnlineLevels(), tb.FixedLevels(20))[i]
    least = p.accelerated_levels(p.problem.lower.lipschitz or 1.0, 200)[-1]
    spread = p.g(p.x_0) - least
    if i == 2:
        return tb.GivenLevels([least + spread / (k + 2) ** 2 for k in range(STEPS // 2)])
    return tb.GivenLevels(lambda k: least + spread / (k + 5))


# --- Algorithm 1

UPPER_KINDS = ("SquaredNorm", "LeastSquares", "Logistic", "Linear", "Quadratic")
LOWER_KINDS = ("LeastSquares", "Logistic", "Quadratic", "SquaredNorm", "Linear")
RULES = {
    "gamma given": (0.01, None),
    "gamma by Theorem 1": (None, None),
    "gamma by Theorem 2": (None, tb.ErrorBound(2.0, 1.0, 1.0)),
    "gamma by Theorem 3": (None, tb.ErrorBound(1.0, 0.03, 1.0)),
}


def smooth(domain: str, kinds: tuple[str, str], rule: str, seed: int) -> Bilevel:
    Z, project = DOMAINS[domain]
    rng = np.random.default_rng(seed)
    f1, g1 = loss(kinds[0], rng), loss(kinds[1], rng, 10.0)
    problem = tb.Problem(upper=f1.built, lower=g1.built, domain=Z, error_bound=RULES[rule][1])
    x_0 = project(rng.standard_normal(N))
    return Bilevel(problem, f1, g1, x_0, lambda v, a, mu: project(v))


@pytest.mark.sample(9)
@pytest.mark.parametrize("i", range(4))
@pytest.mark.parametrize("domain", DOMAINS)
def test_agm_bio_equals_algorithm_1_on_every_set(domain, i):
    place = list(DOMAINS).index(domain)
    lower = [
        kind
        for kind in LOWER_KINDS
        if kind != "Linear" or np.isfinite(DOMAINS[domain][0].diameter_in(N))
    ]
    kinds = UPPER_KINDS[(i + place) % 5], lower[(i + place // 2) % len(lower)]
    rule = list(RULES)[(i + place) % 4]
    if rule == "gamma by Theorem 1" and not np.isfinite(DOMAINS[domain][0].diameter_in(N)):
        rule = "gamma by Theorem 2"

    def draws():
        for seed in range(DRAWS):
            p = smooth(domain, kinds, rule, seed)
            yield p, tb.AGMBiO(RULES[rule][0], levels_of_kind(i, p), horizon=STEPS)

    assert_equal(draws())


# --- Algorithm 2


@pytest.mark.sample(6)
@pytest.mark.parametrize("f2", PENALTIES)
@pytest.mark.parametrize("g2", PENALTIES)
def test_p_agm_bio_equals_algorithm_2_on_every_pair_of_penalties(f2, g2):
    (upper, f_parts), (lower, g_parts) = PENALTIES[f2], PENALTIES[g2]
    i, j = list(PENALTIES).index(f2), list(PENALTIES).index(g2)
    kinds = UPPER_KINDS[(i + j) % 5], LOWER_KINDS[(i + 2 * j) % 4]
    rule = list(RULES)[(i + j) % 4]
    if rule == "gamma by Theorem 1" and not (f_parts.is_bounded or g_parts.is_bounded):
        rule = "gamma by Theorem 2"

    def draws():
        for seed in range(DRAWS):
            rng = np.random.default_rng(seed)
            f1, g1 = loss(kinds[0], rng), loss(kinds[1], rng, 3.0)
            problem = tb.Problem(
                upper=f1.built + upper, lower=g1.built + lower, error_bound=RULES[rule][1]
            )
            x_0 = f_parts.plus(0.0, g_parts, 0.0).prox(rng.standard_normal(N))
            p = Composite(problem, f1, g1, x_0, prox, f_parts.value, g_parts.value)
            levels = levels_of_kind((i + j // 4) % 4, p)
            yield p, tb.PAGMBiO(RULES[rule][0], levels, horizon=STEPS)

    def prox(v: np.ndarray, a: float, mu: float) -> np.ndarray:
        return f_parts.plus(a, g_parts, mu).prox(v)

    if (f2, g2) in NO_JOINT_PROX:

        def refused():  # by the problem or by the method
            p, method = next(draws())
            raise method.check(p.problem)

        with pytest.raises(ValueError, match="joint prox"):
            refused()
        return
    assert_equal(draws())
