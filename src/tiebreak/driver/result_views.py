"""The views of a Result, a LevelsResult and a Tradeoff; `display` draws them.

The view of a race is in `experiments.compare`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebreak.display.views import (
    LETTERS,
    TONES,
    WORDS,
    Card,
    Curve,
    Group,
    Panel,
    Table,
    View,
    counted,
    number,
    number_or_none,
)
from tiebreak.driver.trace import Row
from tiebreak.linalg import Array, to_numpy
from tiebreak.proofs.certificate import UNDERFLOW

if TYPE_CHECKING:
    from tiebreak.driver.levels_result import LevelsResult
    from tiebreak.driver.result import Result
    from tiebreak.driver.tradeoff import Tradeoff

HEADER = ("level", "best value", "at x", "given up (allowed)", "ties", "price", "")
MOST_ENTRIES = 20  # entries of x that are shown


# -- a run ----------------------------------------------------------------------------------------


def run_view(result: Result) -> View:
    report, problem = run_report(result), vars(result).get("problem")  # None if it was not saved
    upper, lower, ties = (line[9:] for line in str(result).splitlines()[1:4])
    end = [f"{calls:,}" for calls in result.trace[-1][-3:]]
    steps = counted(result.nit, "step")
    cards = [
        Card("upper level, f(x)", *_card(upper, "f", result.upper_value)),
        Card("lower level, g(x)", *_card(lower, "g", result.lower_value)),
        Card("ties", "?" if result.dimension is None else f"{result.dimension:,}", ties),
        Card(
            "effort",
            f"{result.time:.3g} s",
            f"{steps}; {end[0]} gradients of f, {end[1]} of g, {end[2]} passes over the data",
        ),
    ]
    return View(
        kind="run",
        status=WORDS.get(result.status, result.status),
        tone=TONES.get(result.status, "poor"),
        heading=f"{steps}, {result.time:.3g} s",
        sentence=result.message,
        details=result.details(),
        assumed=result.assumed,
        cards=cards,
        tables=[
            _levels_table(report, result.start_values),
            _x_table(result.x, problem and problem.names),
        ],
        panels=_run_panels(result.tolerance),
        groups=[_run_group(result)],
        axes=[
            ("iteration", "steps"),
            ("seconds", "seconds"),
            ("gradients", "gradients of f and g"),
            ("passes", "passes over the data"),
        ],
        readout=[
            ("iteration", "step"),
            ("seconds", "seconds"),
            ("upper_value", "f(x)"),
            ("upper_gap", "proved: f(x) − f* ≤"),
            ("lower_value", "g(x)"),
            ("lower_gap", "proved: g(x) − g* ≤"),
            ("gradients", "gradients"),
            ("passes", "data passes"),
        ],
        report=report,
    )


def run_report(result: Result) -> dict[str, Any]:
    """Return the data of ``to_dict`` without the trace, which may have millions of rows."""
    proof = result.certificate
    return {
        "status": result.status,
        "success": result.success,
        "proved": result.proved,
        "message": result.message,
        "nit": result.nit,
        "time": result.time,
        "method": result.method,
        "assumed": list(result.assumed),
        "dimension": result.dimension,
        "findings": {} if result.findings is None else dict(result.findings.lines()),
        "upper": _level_report(
            proof.upper_value, proof.upper_gap, result.tolerance[0], proof.upper_optimum
        )
        | {
            "error": number_or_none(proof.upper_error),
            "estimate": number_or_none(proof.upper_estimate),
        },
        "lower": _level_report(
            proof.lower_value, proof.lower_gap, result.tolerance[1], proof.lower_optimum
        ),
    }


def _level_report(
    value: float, gap: float, asked: float, optimum: tuple[float, float]
) -> dict[str, Any]:
    return {
        "value": number_or_none(value),
        "gap": number_or_none(gap),
        "tolerance": number_or_none(asked),
        "optimum": [number_or_none(end) for end in optimum],
    }


def _card(line: str, letter: str, value: float) -> tuple[str, str]:
    """Return what a card shows: a value and the text below it."""
    said = line.removeprefix(f"{letter}(x) = {value:.9g}").removeprefix(",").strip()
    return number(value), said.replace("<=", "≤").replace(" - ", " − ")


def _levels_table(report: dict[str, Any], starts: tuple[float, float]) -> Table:
    """Return the table of both levels, from the values at x0 and the numbers of ``to_dict``."""
    rows = []
    for (level, letter), start in zip(LETTERS.items(), starts, strict=True):
        found = report[level]
        low, high = (number(end) if end is not None else "unknown" for end in found["optimum"])
        gap = "not proved" if found["gap"] is None else number(found["gap"], 3)
        error = found.get("error")
        rows.append([
            f"{level}, {letter}",
            number(start),
            number(found["value"]),
            gap,
            number(error, 3) if error is not None else "",
            number(asked, 3) if (asked := found["tolerance"] or 0.0) > UNDERFLOW else "",
            low,
            high,
        ])  # fmt: skip
    header = [
        "level", "value at x0", "value at x", "proved gap", "proved |error|", "asked",
        "optimum ≥", "optimum ≤",
    ]  # fmt: skip
    return Table("Both levels", header, rows)


def _x_table(x: Array, names: Sequence[Any] | None) -> Table:
    """Return a table of all entries of x, or of the largest if there are many, with their names."""
    values = to_numpy(x)
    caption, places = "The point x", list(range(len(values)))
    if len(values) > MOST_ENTRIES:
        caption = f"The {MOST_ENTRIES} largest of the {len(values):,} entries of x"
        places = np.argsort(-np.abs(values), kind="stable")[:MOST_ENTRIES].tolist()
    rows = [
        [f"x[{i}]" if names is None else str(names[i]), number(float(values[i]))] for i in places
    ]
    return Table(caption, ["variable", "value"], rows)


def _run_panels(tolerance: tuple[float, float]) -> list[Panel]:
    panels = []
    for level, letter in LETTERS.items():
        curves = [
            Curve(f"{level}_value", f"{letter}(x)"),
            Curve(f"{level}_bound", f"proved: {letter}* is at least this", is_dashed=True),
        ]
        title = f"{level.capitalize()} level: {letter}(x) and its proved band"
        panels.append(Panel(f"{level}-value", title, curves, (f"{level}_bound", f"{level}_value")))
    for (level, letter), asked in zip(LETTERS.items(), tolerance, strict=True):
        panels.append(
            Panel(
                f"{level}-gap",
                f"{level.capitalize()} level: proved gap",
                [Curve(f"{level}_gap", f"{letter}(x) − {letter}* is at most this")],
                # with rtol=0 there is no tolerance to draw
                asked=asked if UNDERFLOW < asked < math.inf else None,
                is_log=True,
                has_signs=True,
                below=f"{letter}(x) < {letter}* is proved, by this much",
                missing=f"nothing is proved about {letter}*",
            )
        )
    return panels


def _run_group(result: Result) -> Group:
    """Return the trace by columns, with the best bound so far."""
    rows, width = result.trace, len(Row._fields)
    # the trace may have millions of rows
    flat = np.fromiter(chain.from_iterable(rows), float, len(rows) * width)
    columns = dict(zip(Row._fields, flat.reshape(-1, width).T.copy(), strict=True))
    # If a promise is false or the domain is empty, nothing in earlier rows is proved either.
    if result.status in ("failed", "infeasible") and math.isinf(result.lower_gap):
        columns["upper_gap"][:] = columns["lower_gap"][:] = math.inf
    for level in LETTERS:
        with np.errstate(over="ignore", invalid="ignore"):  # the run may have overflowed
            bound = columns[f"{level}_value"] - columns[f"{level}_gap"]
        columns[f"{level}_bound"] = np.fmax.accumulate(np.where(np.isnan(bound), -np.inf, bound))
    columns["gradients"] = columns["upper_gradients"] + columns["lower_gradients"]
    return Group("", columns)


# -- levels ---------------------------------------------------------------------------------------


def _duals_table(result: LevelsResult) -> Table:
    """Return a table of the largest duals, with one line for each row of the domain."""
    lines = [duals or dict.fromkeys(result.rows, math.nan) for duals in result.duals.values()]
    found = {row: [line[row] for line in lines] for row in result.rows}
    sizes = {
        row: max((abs(y) for y in of_row if y == y), default=0.0) for row, of_row in found.items()
    }
    rows = sorted((row for row in sizes if sizes[row]), key=lambda row: -sizes[row])
    cells = [
        [row, *("unknown" if math.isnan(y) else number(y) for y in found[row])]
        for row in rows[:MOST_ENTRIES]
    ]
    caption = "Duals: change of each level's best value per unit of a row's right-hand side"
    return Table(caption, ["row", *result.levels], cells)


def levels_view(result: LevelsResult) -> View:
    cells = [(*HEADER[:-1], "bounds"), *(level.row() for level in result.levels.values())]
    used = [column for column in zip(*cells, strict=True) if any(column[1:])]
    header, *rows = zip(*used, strict=True) if used else [HEADER]
    table = Table("Levels, the most important first", header, rows)
    nothing = View("levels", status="", tone="", heading="", sentence="", details="")
    run = nothing if result.result is None else run_view(result.result)
    cards = [
        card._replace(label=f"{name}, {letter}(x)")
        for card, name, letter in zip(run.cards, [*result.levels][::-1], "fg", strict=False)
    ]
    return replace(
        run,
        kind="levels",
        cards=[*cards, *run.cards[len(cards) :]],
        status=WORDS.get(result.status, result.status),
        tone=TONES.get(result.status, "poor"),
        heading=f"{counted(len(result.levels), 'level')}, {result.time:.3g} s",
        sentence=result.message,
        details=result.details(),
        assumed=[*dict.fromkeys([*result.assumed, *run.assumed])],
        tables=[
            table,
            *([_duals_table(result)] if result.rows else []),
            _x_table(result.x, result.variables),
        ],
        report=result.to_dict(),
    )


# -- a trade-off ----------------------------------------------------------------------------------


def tradeoff_view(curve: Tradeoff) -> View:
    first = curve.points[0]
    columns = {
        "slack": np.array([p.slack for p in curve.points]),
        "value": np.array([p.value for p in curve.points]),
        "low": np.array([p.bounds[0] for p in curve.points]),
        "high": np.array([p.bounds[1] for p in curve.points]),
    }
    columns["gain"] = curve.sign * (first.value - columns["value"])
    rows = [
        [
            number(p.slack, 4), number(p.value), number(p.bounds[0]), number(p.bounds[1]), p.word,
            number(curve.sign * (first.value - p.value), 3), number(p.price, 4),
        ]
        for p in curve.points
    ]  # fmt: skip
    header = ["slack", "f*(slack)", "at least", "at most", "bounds", "gain", "price"]
    return View(
        kind="tradeoff",
        status="sensitive" if curve.is_sensitive else "trade-off",
        tone="fair" if curve.is_sensitive else "good",
        heading=f"{counted(len(curve.points), 'slack')}, {curve.time:.3g} s",
        sentence="What a little slack in g gains in f",
        details=str(curve),
        assumed=curve.assumed,
        cards=[
            Card("g*", number(curve.lower[1]), "the best value of the lower level"),
            Card(f"f* with slack {first.slack:.4g}", number(first.value), first.word),
        ],
        tables=[Table("f*(slack) = min f over all x with g(x) ≤ g* + slack", header, rows)],
        panels=[
            Panel(
                "value", "Best value of f for each slack of g",
                [Curve("value", "f*(slack)")], ("low", "high"),
            )
        ],
        groups=[Group("", columns)],
        axes=[("slack", "slack: how far g may exceed g*")],
        readout=[
            ("slack", "slack"), ("value", "f*(slack)"), ("low", "at least"), ("high", "at most"),
            ("gain", "gain"),
        ],
        report=curve.to_dict(),
    )  # fmt: skip
