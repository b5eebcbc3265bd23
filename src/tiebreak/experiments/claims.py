"""The claims of the paper's experiments section, and the rules by which they are judged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from tiebreak.experiments.race import Record
from tiebreak.experiments.scenes import (
    PULLS,
    RATES,
    Axis,
    Column,
    Facts,
    PublishedRate,
    Scene,
    UnknownHere,
    error_of,
    last_tenth,
    measured_slopes,
    scenes_of,
)

SMALLER = 1.01  # "smaller" means by at least 1 %: smaller differences depend on the machine
CLEARLY = 2.0  # the least factor meant by "significantly", "keeps reducing" and "inconsistent"

AGM, ACCELERATED = "AGM-BiO", ("AGM-BiO", "R-APM", "PB-APG")
FIG1 = ("a-IRG", "CG-BiO", "Bi-SG", "SEA", "R-APM", "PB-APG", "AGM-BiO")
FIG2 = ("a-IRG", "Bi-SG", "SEA", "R-APM", "PB-APG", "Bisec-BiO", "AGM-BiO")
BISECTION = "Bisec-BiO (last iterate)"
CUTS = ("cut at y", "cut at x", "cut at z")


class Evidence(NamedTuple):
    """The evidence on which a claim is judged."""

    scene: Scene
    axis: Axis
    scenes: Mapping[str, Scene]  # the other instances of the same experiment


Finding = tuple[bool, str]  # is the claim true, and which numbers show it?
Judge = Callable[[Evidence], Finding]


@dataclass(frozen=True)
class Claim:
    """A sentence from the paper, and the rule for judging it."""

    key: str
    quote: str
    rule: str
    judge: Judge
    axes: tuple[Axis, ...] = ("iteration",)
    only: str = ".*"  # a pattern for the names of the instances concerned
    about_data: bool = True  # claims about data cannot be tested on a synthetic twin


def _ratio(first: float, second: float) -> float:
    """Return first/second, with 0/0 = 1."""
    if second > 0.0:
        return first / second
    return math.inf if first > 0.0 else 1.0


def _listed(errors: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {error:.2e}" for name, error in errors.items())


def _ahead(
    column: Column,
    methods: Sequence[str],
    seen: Evidence,
    factor: float = SMALLER,
    ours: Sequence[str] = (AGM,),
) -> Finding:
    """Are the errors of ``ours`` (AGM-BiO) smaller than all other errors by the given factor?"""
    errors = seen.scene.all_at(methods, column, seen.axis)
    worst = max(errors[name] for name in ours)
    rivals = min(error for name, error in errors.items() if name not in ours)
    return worst * factor < rivals, _listed(errors)


def _over_parameterised(seen: Evidence) -> Finding:
    facts = seen.scene.facts
    if facts.shape is None:
        raise UnknownHere("the shape of the training data is not known")
    rows, columns = facts.shape
    ties = "not known" if facts.dimension is None else facts.dimension
    numbers = f"{rows} training rows, {columns} columns; dimension of the solution set: {ties}"
    return columns > rows, numbers


def _no_error_bound(seen: Evidence) -> Finding:
    order = seen.scene.facts.order
    if order is None:
        raise UnknownHere("whether an error bound holds on this domain is not known")
    if math.isinf(order):
        return True, "no error bound of any order holds on this domain"
    return False, f"least squares on this domain has an error bound of order {order:g}"


def _refused(method: str, seen: Evidence) -> Finding:
    sentence = seen.scene.facts.refusals.get(method)
    return sentence is not None, sentence or f"{method} takes the problem"


def _gap_grows(seen: Evidence) -> Finding:
    ratios, differences = {}, {}
    for name in ("n = 3", "n = 100"):
        if name not in seen.scenes:
            raise UnknownHere(f"there are no rows of {name}")
        scene = seen.scenes[name]
        rival, ours = (scene.at(m, "upper_error", seen.axis) for m in ("R-APM", AGM))
        ratios[name], differences[name] = _ratio(rival, ours), rival - ours
    numbers = ", ".join(
        f"{ratios[name]:.3g} at {name} (difference {differences[name]:.1e})" for name in ratios
    )
    return ratios["n = 3"] * SMALLER < ratios["n = 100"], f"R-APM/AGM-BiO: {numbers}"


def _fall(seen: Evidence, method: str, column: Column) -> float:
    """Return the factor by which an error decreases over the last decade of steps."""
    scene, axis = seen.scene, seen.axis
    return _ratio(scene.at(method, column, axis, 0.1), scene.at(method, column, axis))


def _stuck(seen: Evidence) -> Finding:
    falls = {name: _fall(seen, name, "lower_error") for name in ("R-APM", "PB-APG")}
    ends = seen.scene.all_at(falls, "lower_error", seen.axis)
    numbers = ", ".join(f"{name} falls by a factor of {fall:.3g}" for name, fall in falls.items())
    return max(falls.values()) < CLEARLY, f"{numbers} over the last decade, to {_listed(ends)}"


def _keeps_reducing(seen: Evidence) -> Finding:
    upper, lower = _fall(seen, AGM, "upper_error"), _fall(seen, AGM, "lower_error")
    factors = f"|f - f*| falls by a factor of {upper:.3g} and g - g* by a factor of {lower:.3g}"
    numbers = f"{factors} over the last decade"
    return min(upper, lower) >= CLEARLY, numbers


def _inconsistent(seen: Evidence) -> Finding:
    rises = []
    for run in seen.scene.runs:
        half = 0.5 * last_tenth(run, BISECTION, seen.axis, 1.0)[-1].iteration
        rows = [row for row in run[BISECTION] if row.iteration >= half]
        jumps = [
            _ratio(error_of(after, column), error_of(before, column))
            for before, after in pairwise(rows)
            for column in ("upper_error", "lower_error")
        ]
        rises.append(max(jumps, default=1.0))
    numbers = f"largest rise between rows in the last half of the run: {median(rises):.3g} times"
    return median(rises) >= CLEARLY, numbers


def _closed_form(seen: Evidence) -> Finding:
    error = seen.scene.at("Exact", "upper_error", "iteration")
    return error <= 1e-12, f"Exact differs from 1/(2n) by {error:.1e}"


def _no_exact_solver(seen: Evidence) -> Finding:
    widths, sizes = [], []
    for run in seen.scene.runs:
        row = last_tenth(run, "Exact", "iteration", 1.0)[-1]
        widths.append(error_of(row, "upper_error"))
        sizes.append(abs(row.upper))
    worst = max(map(_ratio, widths, sizes))
    numbers = (
        f"Exact: relative width of the interval around f* at most {worst:.1e} on "
        f"{len(widths)} random instances"
    )
    return worst > 1e-6, numbers


def _at_least_the_rate(row: PublishedRate, seen: Evidence) -> Finding:
    slopes = measured_slopes(seen.scene, row)
    if math.isnan(slopes["upper"]) or math.isnan(slopes["lower"]):
        raise UnknownHere(f"too few rows of {row.label} for a slope")
    holds = all(
        slopes[level] <= row.allowed - rate
        for level, rate in (("upper", row.upper), ("lower", row.lower))
    )
    return holds, ", ".join(f"{level}: {slope:.2f}" for level, slope in slopes.items())


def _breaks(other: str, seen: Evidence) -> Finding:
    errors = seen.scene.all_at(CUTS, "lower_error", "iteration")
    return errors[CUTS[0]] * CLEARLY < errors[other], f"g - g*: {_listed(errors)}"


_FINAL = "the largest value in the last tenth of the run on that axis"
_MEDIAN = f"{_FINAL}, the median over the random starts"

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "fig1": (
        Claim(
            "1.1",
            "the three accelerated gradient-based methods (R-APM, PB-APG, and AGM-BiO) converge "
            "faster in reducing infeasibility, both in terms of runtime and number of iterations",
            f"g - g*, {_FINAL}: the worst of the three is at least 1 % below every other method",
            partial(_ahead, "lower_error", FIG1, ours=ACCELERATED),
            axes=("iteration", "seconds"),
        ),
        Claim(
            "1.2",
            "AGM-BiO achieves the smallest absolute suboptimality gap among all algorithms",
            f"|f - f*|, {_FINAL}: AGM-BiO is at least 1 % below every other method",
            partial(_ahead, "upper_error", FIG1),
            axes=("iteration", "seconds"),
        ),
        Claim(
            "1.3",
            "R-APM and PB-APG underperform compared to AGM-BiO (in suboptimality)",
            f"|f - f*|, {_FINAL}: AGM-BiO is at least 1 % below both",
            partial(_ahead, "upper_error", ACCELERATED),
            axes=("iteration", "seconds"),
        ),
        Claim(
            "1.4",
            "this regression problem is over-parameterized since the number of features d is "
            "larger than the number of data points in both the training set and validation set",
            "more columns than training rows, according to the shape stated in the paper; the "
            "claim is not about the variant with fewer rows, which is ours",
            _over_parameterised,
            only="75 %.*",
            about_data=False,
        ),
        Claim(
            "1.5",
            "the lower-level problem in this experiment does not satisfy Hölderian error bound "
            "assumption (appendix)",
            "confirmed if g has no error bound of any order; a strongly convex g has order 2",
            _no_error_bound,
        ),
        Claim(
            "1.6",
            "projections onto the sublevel set of f are difficult to compute, Bisec-BiO is "
            "excluded",
            "BisecBiO refuses the problem",
            partial(_refused, "Bisec-BiO"),
            about_data=False,
        ),
    ),
    "fig2": (
        Claim(
            "2.1",
            "AGM-BiO shows superior performance in terms of infeasibility",
            f"g - g*, {_MEDIAN}: AGM-BiO is at least 1 % below every other method",
            partial(_ahead, "lower_error", FIG2),
            axes=("iteration", "gradients"),
            only="n = .*",
        ),
        Claim(
            "2.2",
            "the gap between R-APM and AGM-BiO (in suboptimality) is smaller for n = 3",
            f"the ratio of |f - f*| of R-APM to that of AGM-BiO, {_MEDIAN}: it is at least 1 % "
            "smaller at n = 3 than at n = 100",
            _gap_grows,
            axes=("iteration", "gradients"),
            only="n = 100",
        ),
        Claim(
            "2.3",
            "for n = 100, AGM-BiO significantly outperforms all other methods, including R-APM "
            "(in suboptimality)",
            f"|f - f*|, {_MEDIAN}: AGM-BiO is below every other method by a factor of {CLEARLY:g}",
            partial(_ahead, "upper_error", FIG2, factor=CLEARLY),
            axes=("iteration", "gradients"),
            only="n = 100",
        ),
        Claim(
            "2.4",
            "since the regularization and penalty parameters in R-APM and PB-APG are fixed, they "
            "might get stuck at a certain accuracy level",
            f"g - g* of both falls by less than a factor of {CLEARLY:g} over the last decade of "
            "steps",
            _stuck,
            only="n = .*",
        ),
        Claim(
            "2.5",
            "AGM-BiO uses a dynamic framework, consistently reducing both suboptimality and "
            "infeasibility",
            f"|f - f*| and g - g* of AGM-BiO both fall by at least a factor of {CLEARLY:g} over "
            "the last decade of steps",
            _keeps_reducing,
            only="n = .*",
        ),
        Claim(
            "2.6",
            "Bisec-BiO: its performance in the last iteration is inconsistent",
            "in the second half of its run, an error of its last iterate rises from one row to the "
            f"next by at least a factor of {CLEARLY:g} (median over the random starts)",
            _inconsistent,
            only="n = .*",
        ),
        Claim(
            "2.7",
            "the optimal solution x* = 1/n and optimal value f* = 1/(2n)",
            "Exact agrees to 1e-12",
            _closed_form,
            only="n = .*",
        ),
        Claim(
            "2.8",
            "no existing solver could obtain the exact optimal value f* (Q, A, b random)",
            "refuted if Exact proves an interval around f* of relative width below 1e-6 on "
            "every random instance",
            _no_exact_solver,
            only="random.*",
        ),
        Claim(
            "2.9",
            "due to the unbounded constraint set, Frank-Wolfe-type methods are not viable",
            "CGBiO refuses the problem",
            partial(_refused, "CG-BiO"),
            only="n = .*",
        ),
    ),
    "table1": (
        *(
            Claim(
                f"T.{number}",
                f"{row.label}: {row.quote}",
                f"f - f* (from above) falls at least like k^-{row.upper:.3g} and g - g* like "
                f"k^-{row.lower:.3g}: slopes over two decades of steps, "
                f"with a shortfall of {row.allowed:.2f} allowed",
                partial(_at_least_the_rate, row),
                only=f"{re.escape(row.label)}({'|'.join(PULLS.values())})",
            )
            for number, row in enumerate(RATES, start=1)
        ),
        *(
            Claim(
                f"T.{len(RATES) + number}",
                f"the selection of the gradient at y_k is not arbitrary but essential "
                f"(against {cut[-1]}_k)",
                f"with the {cut}_k, g - g* ends higher by at least a factor of {CLEARLY:g}",
                partial(_breaks, cut),
                only="ablation.*",
            )
            for number, cut in enumerate(reversed(CUTS[1:]), start=1)
        ),
    ),
}

# Checks judge the claims again with one setting varied at a time: a mismatch might be our mistake.
# Only the last rows of each such run are kept.
for _name, _keys in (("fig1", ("1.1", "1.2", "1.3")), ("fig2", ("2.1", "2.3"))):
    CLAIMS[f"{_name} checks"] = tuple(
        replace(claim, axes=("iteration",), only=f"{claim.only}.*")
        for claim in CLAIMS[_name]
        if claim.key in _keys
    )


CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable here"


class Verdict(NamedTuple):
    """The verdict on one claim for one instance and axis."""

    claim: str  # the claim's number in the report
    quote: str
    place: str  # instance and axis
    outcome: str  # confirmed, not confirmed, not testable here
    numbers: str  # the numbers behind the outcome


def verdicts(
    rows: Sequence[Record], experiment: str, facts: Mapping[str, Facts] | None = None
) -> list[Verdict]:
    """Judge every claim about an experiment from the rows of ``rows.csv`` alone.

    Args:
        rows: the rows of a race; rows of other experiments are skipped.
        experiment: "fig1", "fig2" or "table1".
        facts: facts about each instance that its rows do not contain: shape, dimension, f*, and
            whether the data are a synthetic twin.

    Returns:
        At least one Verdict per claim: one per instance and axis that the claim concerns. If rows
        are missing or not finite, the verdict is "not testable here", and a sentence says why. On a
        synthetic twin, a claim about the data is "not testable here" too; its numbers say what the
        twin shows.
    """
    scenes = scenes_of(rows, experiment, facts or {})
    found = []
    for claim in CLAIMS[experiment]:
        mine = [scene for name, scene in scenes.items() if re.fullmatch(claim.only, name)]
        if not mine:
            missing = f"there are no rows of {experiment} for this claim"
            found.append(Verdict(claim.key, claim.quote, "", NOT_TESTABLE, missing))
        for scene in mine:
            for axis in claim.axes:
                place = f"{scene.name}, by {axis}" if len(claim.axes) > 1 else scene.name
                outcome, numbers = _judged(claim, Evidence(scene, axis, scenes))
                found.append(Verdict(claim.key, claim.quote, place, outcome, numbers))
    return found


def _judged(claim: Claim, seen: Evidence) -> tuple[str, str]:
    try:
        holds, numbers = claim.judge(seen)
    except UnknownHere as reason:
        return NOT_TESTABLE, str(reason)
    if claim.about_data and seen.scene.facts.is_twin:
        shows = "holds" if holds else "does not hold"
        return NOT_TESTABLE, f"the twin is not the paper's data; on the twin it {shows}: {numbers}"
    return CONFIRMED if holds else NOT_CONFIRMED, numbers
