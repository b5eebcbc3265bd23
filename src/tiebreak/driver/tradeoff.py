"""The trade-off curve f*(slack): the gain in the upper level from a little slack in the lower."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tiebreak.conic.bounds import value_error
from tiebreak.conic.chain_solution import ChainSolution
from tiebreak.display.page import Shown
from tiebreak.display.plotting import tradeoff_curve
from tiebreak.display.views import View, counted, number_or_none
from tiebreak.driver.input_checks import check_limits
from tiebreak.driver.levels_result import is_sensitive
from tiebreak.driver.result_views import tradeoff_view
from tiebreak.driver.solve_levels import CompiledLevels, chain, report
from tiebreak.levels import ConicLevels, Level, Levels, Slack
from tiebreak.linalg import TOL, Array, checks
from tiebreak.problem import Problem

RELATIVE = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1)  # shares of g*, or of g(x0) - g* if g* is 0


@dataclass(frozen=True, eq=False)
class TradeoffPoint:
    """f*(slack) = min f over { x in Z : g(x) <= g* + slack }.

    Attributes:
        slack: how far g may exceed g*.
        value: f at x.
        bounds: an interval for f*(slack), proved or estimated according to ``word``; the upper end
            is f at a point that meets the constraints up to rounding and at which g exceeds g* by
            no more than the slack.
        price: -df*/dslack; inf at slack 0 if only ``Tradeoff.coefficient`` is finite.
        x: the point.
        word: whether the bounds are "proved" or "estimated" (see `LevelReport`).
    """

    slack: float
    value: float
    bounds: tuple[float, float]
    price: float
    x: Array
    word: str


@dataclass(frozen=True, eq=False)
class Tradeoff(Shown):
    """The trade-off curve; printing it gives one row per slack.

    Attributes:
        points: one `TradeoffPoint` for each slack, the smallest slack first.
        lower: an interval for g*.
        coefficient: c in f*(slack) = f*(0) - c sqrt(slack) + ..., for small slacks. ``coefficient``
            is 0 if the curve has a finite slope at 0, and nan if it is not known: no time was left
            for it, or the solver failed at the tiny slack from which it is computed.
        slope: -df*/dslack at 0, or inf; nan if it is not known.
        is_sensitive: does a slack of 1e-7 (relative to g) change f by 1 % or more?
        time: seconds.
        skipped: the slacks for which no time was left.
        sign: 1 if f is minimised, -1 if it is maximised (with CVXPY).
        assumed: the unchecked assumptions of the bounds, in sentences.

    Examples:
        >>> cost, change = tb.Linear([1, 2]), tb.SquaredNorm(center=[0, 1])
        >>> problem = tb.Problem(lower=cost, upper=change, domain=tb.Simplex())
        >>> curve = tb.tradeoff(problem, [0.0, 0.1])
        >>> [(point.slack, round(point.price, 3)) for point in curve.points]
        [(0.0, 2.0), (0.1, 1.8)]
    """

    points: tuple[TradeoffPoint, ...]
    lower: tuple[float, float]
    coefficient: float
    slope: float
    is_sensitive: bool
    time: float
    skipped: tuple[float, ...] = ()
    sign: int = 1
    assumed: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = self.points[0].value
        lines = [
            f"tiebreak: {counted(len(self.points), 'slack')}, {self.time:.3g} s; "
            f"g* = {self.lower[1]:.9g}",
            "       slack        f*(slack)               ±          gain        price",
        ]
        for p in self.points:
            width = f"{(p.bounds[1] - p.bounds[0]) / 2.0:.1g}" if p.word == "proved" else p.word
            lines.append(
                f"  {p.slack:10.4g}  {p.value:15.9g}  {width:>14}  "
                f"{self.sign * (first - p.value):9.3g}  {p.price:11.4g}"
            )
        if math.isinf(self.slope):
            lines.append(f"  for small slacks, f* gains about {self.coefficient:.4g} sqrt(slack)")
        if self.is_sensitive:
            lines.append("  sensitive: a slack of 1e-7, relative to g, changes f by 1 % or more")
        if self.skipped:
            lines.append(f"  there was no time for {', '.join(f'{s:.4g}' for s in self.skipped)}")
        return "\n".join([*lines, *(f"  {text}" for text in self.assumed)])

    def __repr__(self) -> str:
        return f"<tiebreak.Tradeoff: {len(self.points)} slacks from {self.points[0].slack:.3g}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; inf and nan become None."""
        return {
            "lower": [number_or_none(end) for end in self.lower],
            "coefficient": number_or_none(self.coefficient),
            "slope": number_or_none(self.slope),
            "sensitive": self.is_sensitive,
            "assumed": list(self.assumed),
            "points": [
                {
                    "slack": p.slack,
                    "value": number_or_none(p.value),
                    "bounds": [number_or_none(end) for end in p.bounds],
                    "price": number_or_none(p.price),
                    "word": p.word,
                }
                for p in self.points
            ],
        }

    def _view(self) -> View:
        return tradeoff_view(self)

    def plot(self, path: str | None = None) -> Any:
        """Draw what each slack gains, with the bounds, and save it to ``path`` if given.

        Returns the matplotlib figure (needs the ``plot`` extra).
        """
        return tradeoff_curve(self._view(), path)


def tradeoff(
    problem: Problem | Levels | ConicLevels,
    slacks: Sequence[float | Slack] | None = None,
    *,
    x0: Any = None,
    max_time: float | None = None,
) -> Tradeoff:
    """Compute f*(slack) = min f over { x in Z : g(x) <= g* + slack } for several slacks.

    The method is always "conic"; ValueError is raised if it cannot represent the problem.

    Args:
        problem: a Problem, or Levels (also from CVXPY), of which the first two are used.
        slacks: numbers, or `Slack` for relative ones; 0, 0.1, 0.3, 1, 3 and 10 per cent of g* if
            None (of g(x0) - g* if g* is 0).
        x0: the point for slacks that are a share of g(x0) - g*; the origin if None.
        max_time: the maximum number of seconds for this call, for all slacks together.

    Examples:
        >>> cost, change = tb.Linear([1, 2]), tb.SquaredNorm(center=[0, 1])
        >>> problem = tb.Problem(lower=cost, upper=change, domain=tb.Simplex())
        >>> curve = tb.tradeoff(problem, [0.0, 0.1, 0.5])
        >>> [round(point.value, 4) for point in curve.points]
        [1.0, 0.81, 0.25]
    """
    began = time.perf_counter()
    check_limits("tradeoff", 0, max_time)
    levels = _compiled(problem, x0)
    program = levels.program()
    if len(program.objectives) != 2:
        got = len(program.objectives)
        raise ValueError(f"tradeoff: problem must have two levels, got {got}")

    def solved(slack: float) -> ChainSolution:
        rules = (Slack(absolute=slack), Slack())
        found = chain(program, rules, levels.before, max_time, began)
        result = report(found, levels, 0.0, 0.0)  # `proofs.gate` checks every point
        if result.status == "max_time":
            raise TimeoutError("tradeoff: max_time ran out before all slacks were solved")
        if result.status == "stopped":  # no partial curve is returned
            raise KeyboardInterrupt
        if not result.success:
            raise ValueError(f"tradeoff: slack {slack:.4g}: {result.message}")
        return found

    base = solved(0.0)
    best = base.levels[0].best
    scale = max(abs(best), levels.before - best if math.isfinite(levels.before) else 0.0)
    asked = _numbers(slacks, best, levels.before, scale)
    scale = scale or max(asked) or 1.0  # if g* and g(x0) are 0, only the slacks have the units of g
    found, small = {0.0: base}, TOL.solver * scale
    try:
        for slack in asked:
            found[slack] = found[slack] if slack in found else solved(slack)
    except TimeoutError:  # the points computed so far are kept
        if found.keys().isdisjoint(asked):
            raise
    probe = None  # near 0, only for the slope there: the curve is good without it
    with contextlib.suppress(TimeoutError, ValueError):
        probe = found[small] if small in found else solved(small)
    ends = (base.levels[0].bound, base.levels[0].best + base.levels[0].error)
    coefficient, slope = _start_of(base, probe, small)
    reached = [slack for slack in asked if slack in found]
    points = tuple(_point(slack, found[slack], base, levels, slope) for slack in reached)
    price = coefficient / (2.0 * math.sqrt(small)) if math.isinf(slope) else slope
    return Tradeoff(
        points=points,
        lower=ends if levels.signs[0] > 0 else (-ends[1], -ends[0]),
        coefficient=coefficient,
        slope=slope,
        is_sensitive=is_sensitive(price, scale, max(abs(p.value) for p in points)),
        time=time.perf_counter() - began,
        skipped=tuple(slack for slack in asked if slack not in found),
        sign=levels.signs[1],
        assumed=levels.assumed,
    )


def _start_of(
    base: ChainSolution, probe: ChainSolution | None, slack: float
) -> tuple[float, float]:
    """Return the coefficient of sqrt(slack) and the slope at 0, from a point close to 0."""
    if probe is None:
        return math.nan, math.nan
    fall, price = base.levels[1].best - probe.levels[1].best, probe.levels[0].price or 0.0
    # If f* falls like sqrt(slack), the fall is 2 price * slack; with a finite slope it is price *
    # slack.
    if fall > 1.5 * price * slack and price > 0.0:
        return 2.0 * price * math.sqrt(slack), math.inf
    return 0.0, price


def _compiled(problem: Any, x0: Any) -> ConicLevels:
    if isinstance(problem, Problem | Levels):
        problem = problem.current()
    if isinstance(problem, Problem):
        first, then = Level(problem.lower), Level(problem.upper)
        problem = Levels(first, then, domain=problem.domain, radius=problem.radius)
    if isinstance(problem, Levels):
        return CompiledLevels(problem, x0, "tradeoff")
    if not isinstance(problem, ConicLevels):
        got = checks.what_it_is(problem)
        raise TypeError(
            f"tradeoff: problem must be a Problem(upper=f, lower=g) or Levels, got {got}"
        )
    return problem


def _numbers(
    slacks: Sequence[float | Slack] | None, best: float, before: float, scale: float
) -> list[float]:
    """Return the slacks as sorted numbers."""
    if slacks is None and scale == 0.0:
        raise ValueError(
            "tradeoff: slacks must be given if the best value of the first level is 0, got None"
        )
    if slacks is None:
        return [
            share * (abs(best) if abs(best) > TOL.solver * scale else scale) for share in RELATIVE
        ]
    if not isinstance(slacks, Iterable):
        got = checks.what_it_is(slacks)
        raise TypeError(f"tradeoff: slacks must be a list of numbers, got {got}")
    rules = [
        slack
        if isinstance(slack, Slack)
        else Slack(absolute=checks.at_least("tradeoff", "slacks", slack))
        for slack in slacks
    ]
    if not rules:
        raise ValueError("tradeoff: slacks must contain at least one number, got none")
    return sorted({rule(best, before) for rule in rules})


def _point(
    slack: float, found: ChainSolution, base: ChainSolution, levels: ConicLevels, slope: float
) -> TradeoffPoint:
    below, above = found.levels
    sign, x = levels.signs[1], found.z[levels.program().variables]
    high = above.best + above.error if slack == 0.0 else _attained(slack, found, base, levels)
    ends = (above.bound, high)
    return TradeoffPoint(
        slack=slack,
        value=levels.model.values(x)[1][0],
        bounds=ends if sign > 0 else (-ends[1], -ends[0]),
        price=slope if slack == 0.0 else float(below.price or 0.0),
        x=x,
        word=above.word,
    )


def _attained(
    slack: float, found: ChainSolution, base: ChainSolution, levels: ConicLevels
) -> float:
    """Return f at a point that certainly has g <= g* + slack, an upper bound on f*(slack).

    g* may be slightly below the best value found, so we move the point slightly towards g's
    minimiser.
    """
    lower, upper = levels.program().objectives
    least = base.levels[0].bound
    most = least + slack
    z, inner = found.z, base.z
    value, deep = lower.value(z) + value_error(lower, z), lower.value(inner)
    if value > most:
        room = value - deep
        share = min(1.0, 2.0 * (value - most) / room) if room > 0.0 else 1.0
        z = z + share * (inner - z)
    if not lower.value(z) + value_error(lower, z) <= most:
        return math.inf
    return float(upper.value(z)) + value_error(upper, z)
