"""The rows of a race by instance, the known facts of each instance, and error decay rates.

The claims, the plots and the slopes for the paper's table 1 are made from these data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from tiebreak.algorithms import AIRG, PBAPG, RAPM, SEA, AGMBiO, BisecBiO, BiSG, CGBiO, Method
from tiebreak.algorithms.facts import BOUNDED, ORDER_1, ORDER_2
from tiebreak.catalog.built import Built
from tiebreak.experiments.race import Entrant, Record
from tiebreak.linalg import TOL

TAIL = 0.1  # the share of a run, at its end, over which the largest error counts

Axis = Literal["iteration", "gradients", "seconds"]
Column = Literal["upper_error", "lower_error"]
Curves = Mapping[str, Sequence[Record]]  # method -> its rows, in the order of the steps


class Facts(NamedTuple):
    """What is known about an instance besides its rows."""

    label: str = ""  # what the data are
    is_twin: bool = False  # synthetic data instead of the paper's
    upper_optimum: float = math.nan  # the optimal value f*
    lower_optimum: float = math.nan
    source: str = ""  # where f* and g* come from
    shape: tuple[int, int] | None = None  # the shape of the training matrix
    dimension: int | None = None  # dimension of the set of lower minimisers
    order: float | None = None  # order of the error bound; inf if there is none, None if unknown
    smoothness: tuple[float, float] = (math.nan, math.nan)  # the pair L_f, L_g
    refusals: Mapping[str, str] = {}  # method -> the reason why it refused

    @classmethod
    def of(cls, built: Built, source: str, *asked: Entrant) -> Facts:
        """Return what is known about a built-in problem, and which methods refuse it."""
        f, g, _ = built.answer or (math.nan, math.nan, None)
        refusals = {each.label: each.method.check(built.problem) for each in asked}
        return cls(
            label=built.label,
            is_twin="synthetic twin" in built.label,
            upper_optimum=f,
            lower_optimum=g,
            source=source,
            dimension=built.dimension,
            order=built.order,
            smoothness=(built.upper_lipschitz, built.lower_lipschitz),
            refusals={label: why.sentence for label, why in refusals.items() if why},
        )


class UnknownHere(Exception):
    """Raised if a claim cannot be judged from the rows; the message says why."""


@dataclass(frozen=True)
class Scene:
    """An instance, from one or several random starts, with all its curves."""

    name: str
    runs: tuple[Curves, ...]
    facts: Facts = field(default_factory=Facts)

    def at(self, method: str, column: Column, axis: Axis, share: float = 1.0) -> float:
        """Return a method's error at the end of the race on this axis, the median over starts.

        The error is the largest in the last tenth of the run: a run that passes through f* by
        chance has not arrived. With ``share``, the error is measured at that share of the run. A
        method that ended on its own keeps its last point.
        """
        tails = (last_tenth(run, method, axis, share) for run in self.runs)
        return median(max(error_of(row, column) for row in tail) for tail in tails)

    def all_at(self, methods: Iterable[str], column: Column, axis: Axis) -> dict[str, float]:
        """Return the errors of several methods, as ``at`` measures them, the smallest first."""
        errors = {method: self.at(method, column, axis) for method in methods}
        return dict(sorted(errors.items(), key=lambda item: item[1]))


def error_of(row: Record, column: Column) -> float:
    """Return the error in a row, or the rounding error of its value if that is larger."""
    error, value = (
        (row.upper_error, row.upper) if column == "upper_error" else (row.lower_error, row.lower)
    )
    if not math.isfinite(error):
        raise UnknownHere(f"{row.method} has no finite {column} at step {row.iteration}")
    return max(error, TOL.rounding * abs(value))


def last_tenth(run: Curves, method: str, axis: Axis, share: float) -> list[Record]:
    """Return a method's rows in the last tenth of the first ``share`` of a run, or the last row."""
    if not run.get(method):
        raise UnknownHere(f"there are no rows of {method}")
    last = [rows[-1] for rows in run.values() if rows]
    steps = max(row.iteration for row in last)
    # The race ends when the first method has taken all steps.
    limit = share * min(getattr(row, axis) for row in last if row.iteration == steps)
    reached = [row for row in run[method] if getattr(row, axis) <= limit]
    if not reached:
        raise UnknownHere(f"{method} has no row within {limit:g} {axis}")
    tenth = [row for row in reached if getattr(row, axis) > (1.0 - TAIL) * limit]
    return tenth or reached[-1:]


def scenes_of(
    rows: Sequence[Record], experiment: str, facts: Mapping[str, Facts]
) -> dict[str, Scene]:
    """Group an experiment's rows by instance, with random starts ("..., seed 3") together."""
    curves: dict[str, dict[str, dict[str, list[Record]]]] = {}
    mine = [row for row in rows if row.experiment == experiment]
    for row in sorted(mine, key=lambda row: row.iteration):
        name, _, seed = row.instance.partition(", seed ")
        run = curves.setdefault(name, {}).setdefault(seed, {})
        run.setdefault(row.method, []).append(row)
    return {
        name: Scene(name, tuple(runs.values()), facts.get(name, Facts()))
        for name, runs in curves.items()
    }


BINS_PER_DECADE = 8  # such a bin is wide enough to contain a peak of an oscillating run
FEWEST = 3  # minimum number of points for a slope
DECADES = 2.0  # decades of iterations over which a rate is measured
FITTED = 0.05  # a fitted slope may fall short of the published rate by this much
LOGARITHM = 0.15  # the slope of a factor log k over the same decades, 1/ln(1000)
# How strongly the slope of f at x* pulls away from the minimisers of g, and the suffix that it adds
# to the name of an instance.
PULLS = {1.0: "", 0.1: ", weak pull", 0.0: ", no pull"}


def slope(
    iterations: Sequence[float], errors: Sequence[float], decades: float, floor: float = 0.0
) -> float:
    """Return the slope of log(error) against log(iteration) in the last ``decades``.

    The slope is -p if error ~ k^-p. The fit uses the *largest* error of each eighth of a decade, so
    the dips of an oscillating run do not count. Errors of at most ``floor``, whether they are
    rounding errors or negative values of f - f*, count as zero. A run that reaches zero and stays
    there is fitted up to its first zero bin, and a run that is zero throughout has slope -inf. With
    too few points, the result is NaN.

    Args:
        iterations: increasing numbers of iterations above 0.
        errors: one error per iteration; take absolute values first if you need them.
        decades: length of the window that ends at the last iteration.
        floor: the size of the rounding errors.
    """
    k, e = np.asarray(iterations, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if k.shape != e.shape or k.ndim != 1 or not k.size or not np.all(k > 0.0):
        raise ValueError("slope: needs at least one positive iteration, and one error for each")
    since_end = np.log10(k[-1] / k)
    bins = np.floor(BINS_PER_DECADE * (decades - since_end) * (1.0 + 1e-12)).astype(int)
    points: list[tuple[float, float]] = []
    for index in np.unique(bins[since_end <= decades * (1.0 + 1e-12)]):
        inside = np.flatnonzero(bins == index)
        worst = inside[np.argmax(e[inside])]
        points.append((math.log10(k[worst]), max(float(e[worst]), floor)))
    if not all(math.isfinite(error) for _, error in points):
        return math.nan
    last = max((i for i, (_, error) in enumerate(points) if error > floor), default=-1)
    if last < 0:
        return -math.inf
    until_zero = points[: last + 2]
    tiny = floor or 1e-300
    if len(until_zero) < FEWEST:
        return -math.inf if len(points) >= FEWEST else math.nan
    x, y = zip(*((at, math.log10(max(error, tiny))) for at, error in until_zero), strict=True)
    return float(np.polyfit(x, y, 1)[0])


class PublishedRate(NamedTuple):
    """A row of the paper's table 1: errors decrease like (steps)^-rate, as the method states."""

    label: str
    quote: str
    method: type[Method]
    assuming: str = ""
    axis: Axis = "iteration"

    @property
    def upper(self) -> float:
        """The rate of f - f*."""
        return self._rate("f above", "|f|")

    @property
    def lower(self) -> float:
        """The rate of g - g*."""
        return self._rate("g")

    def _rate(self, *errors: str) -> float:
        """Return the rate under the row's assumption, or under none or bounded sets by default."""
        known = (rate for rate in self.method.rates if rate.error in errors)
        assumed = (self.assuming,) if self.assuming else ("", BOUNDED)
        return next(rate.exponent for rate in known if rate.assuming in assumed)

    @property
    def allowed(self) -> float:
        """How far a slope may fall short of the rate; Õ allows for a logarithmic factor."""
        return FITTED + (LOGARITHM if "Õ" in self.quote else 0.0)


RATES = (
    PublishedRate("a-IRG", "O(1/eps_f^4), O(1/eps_g^4)", AIRG),
    PublishedRate("Bi-SG", "O(1/eps_f^(1/(1-alpha))), O(1/eps_g^(1/alpha)); alpha = 3/4", BiSG),
    PublishedRate("SEA", "O(1/eps_f²), O(1/eps_g²)", SEA),
    PublishedRate("CG-BiO", "O(1/eps_f), O(1/eps_g)", CGBiO),
    PublishedRate("R-APM", "O(1/eps_f), O(1/eps_g)", RAPM),
    PublishedRate("AGM-BiO", "O(1/eps_f^0.5), O(1/eps_g)", AGMBiO),
    PublishedRate("R-APM, order 1", "O(1/eps_f^0.5), O(1/eps_g^0.5)", RAPM, ORDER_1),
    PublishedRate("Bisec-BiO", "Õ(max(1/eps_f^0.5, 1/eps_g^0.5))", BisecBiO, axis="gradients"),
    PublishedRate("AGM-BiO, order 1", "O(1/eps_f^0.5), Õ(1/eps_g^0.5)", AGMBiO, ORDER_1),
    PublishedRate("PB-APG, order 2", "O(1/eps_f^(0.5 r)) + O(1/eps_g^0.5); r = 2", PBAPG, ORDER_2),
    PublishedRate(
        "AGM-BiO, order 2", "Õ(1/eps_f^((2r-1)/(2r))), Õ(1/eps_g^((2r-1)/(2r))); r = 2",
        AGMBiO, ORDER_2,
    ),
)  # fmt: skip


def measured_slopes(scene: Scene, row: PublishedRate) -> dict[str, float]:
    """Return the slopes over the last two decades: (f - f*)+, g - g* and |f - f*|.

    The published rates bound f - f* from above; |f - f*| is given for comparison.
    """
    every = scene.runs[0].get(row.label, ())
    rows = sorted((r for r in every if r.iteration > 0), key=lambda r: r[3:5])
    if not rows:
        raise UnknownHere(f"there are no rows of {row.label}")
    k = [getattr(r, row.axis) for r in rows]
    best = scene.facts.upper_optimum
    floor_f = TOL.rounding * max(abs(r.upper) for r in every)
    floor_g = TOL.rounding * max(abs(r.lower) for r in every)
    return {
        "upper": slope(k, [r.upper - best for r in rows], DECADES, floor_f),
        "lower": slope(k, [r.lower_error for r in rows], DECADES, floor_g),
        "|f - f*|": slope(k, [r.upper_error for r in rows], DECADES, floor_f),
    }
