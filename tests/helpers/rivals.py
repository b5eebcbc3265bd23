"""Instances with known answers, and rates measured along and across runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import tiebreak as tb
from tiebreak.algorithms.rivals.pb_apg import PBAPG
from tiebreak.experiments.scenes import slope

EPS = float(np.finfo(np.float64).eps)

Vector = np.ndarray[Any, Any]


def states(method: Any, problem: tb.Problem, x0: Any, steps: int) -> Iterator[Any]:
    """Yield the first state and all later ones."""
    state = method.init(problem, x0)
    yield state
    for _ in range(steps):
        state = method.step(problem, state)
        yield state


class Instance(NamedTuple):
    """A problem with its two optima; ``order`` of its error bound, None where f >= f* anyway."""

    problem: tb.Problem
    upper: float
    lower: float
    order: float | None


def planted_pair(rng: np.random.Generator, n: int, m: int) -> tuple[Vector, Vector, Vector]:
    """m orthonormal rows, the n - m others, and a point inside the unit ball."""
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    star = rng.standard_normal(n)
    return U[:m], U[m:], star / (2 * np.linalg.norm(star))


def errors_along(instance: Instance, method: Any, steps: int) -> tuple[Vector, Vector, Vector]:
    """Gradients, f - f* and g - g* at every step of one run."""
    start = instance.problem.start()
    run = list(states(method, instance.problem, start, steps))
    f, g = ([getattr(s, name) for s in run] for name in ("upper_value", "lower_value"))
    return np.arange(1, len(run) + 1), np.array(f) - instance.upper, np.array(g) - instance.lower


def errors_across(instance: Instance, method: Any, steps: int) -> tuple[Vector, Vector, Vector]:
    """The same at the ends of runs that were planned to be so long, over two decades."""
    plans = np.unique(np.geomspace(steps / 100, steps, 13).round().astype(int))
    ends = [errors_along(instance, method.planned(int(K)), int(K)) for K in plans]
    gradients, f, g = (np.array([column[-1] for column in end]) for end in zip(*ends, strict=True))
    return gradients, f, g


def measured_rate(
    method: Any, instance: Instance, upper: float, lower: float, measure: Any, steps: int
) -> str:
    """Slopes over two decades of gradients, as they read with two decimals, in words.

    The theorems bound f - f* from above: the positive part has the published rate. Where an error
    bound of order r holds, |f - f*| has at least the smaller of that and 1/r of the lower rate;
    PB-APG publishes |f - f*| itself.
    """
    gradients, f, g = measure(instance, method, steps)
    floor = 64 * EPS
    above = slope(gradients, np.maximum(f, 0.0), 2, floor)
    absolute = slope(gradients, np.abs(f), 2, floor)
    below = slope(gradients, g, 2, floor)
    words = f"(f - f*)+ {above:.2f}, |f - f*| {absolute:.2f}, g {below:.2f}"
    assert round(-above, 2) >= upper, words
    assert round(-below, 2) >= lower, words
    if isinstance(method, PBAPG):
        assert round(-absolute, 2) >= upper, words
    elif instance.order is not None:
        assert round(-absolute, 2) >= min(upper, lower / instance.order), words
    return words
