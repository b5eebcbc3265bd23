"""The output of `decide.py`: the table, the summary, the profiles, the file of numbers."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tiebreak.experiments.planted import Case

ROUGH, FINE = 1e-3, 1e-6
CERTIFICATE = "proof"
TARGETS = ("1e-3", "1e-6", CERTIFICATE)
FARTHEST = 100.0  # the profiles end here


class Mark(NamedTuple):
    """When a target was met; gradients of f and g together, None if not counted."""

    seconds: float
    gradients: int | None


class Line(NamedTuple):
    """One method on one problem."""

    problem: str
    method: str
    met: dict[str, Mark]
    upper_error: float  # |f - f*| at the end, relative
    lower_error: float  # g - g* at the end, relative
    run_seconds: float  # of the whole run
    status: str
    wrong: bool  # is f* or g* outside its proved interval?
    note: str  # the method in its own words, or why it did not take part


def cost(line: Line, target: str, what: str) -> float:
    """Return seconds or gradients to a target, inf if it was not met or not counted."""
    mark = line.met.get(target)
    value = None if mark is None else getattr(mark, what)
    return math.inf if value is None else float(value)


def best_cost(lines: Sequence[Line], problem: str, target: str, what: str) -> float:
    """The least of all methods on a problem."""
    costs = [cost(line, target, what) for line in lines if line.problem == problem]
    return min(costs, default=math.inf)


def ratio(lines: Sequence[Line], line: Line, target: str, what: str = "seconds") -> float:
    """The cost of a line over that of the best; inf where the target was not met."""
    mine, best = cost(line, target, what), best_cost(lines, line.problem, target, what)
    return mine / best if math.isfinite(mine) and best > 0.0 else math.inf


# --- the table ------------------------------------------------------------------------------------


def table(case: Case, lines: Sequence[Line]) -> str:
    """Time and gradients of every method to every target, as multiples of the best one's."""
    ties = "" if case.ties is None else f", solution set of dimension {case.ties}"
    columns = "".join(f"{target:>7}" for target in TARGETS)
    said = [
        f"{case.name}: {case.what}",
        f"  {f'{case.variables} variables{ties}':50}at the end",
        f"  {'':13}time to{'':10}   gradients to{'':9}  |f-f*|  g-g*",
        f"  {'':10}{columns}{columns}   relative",
    ]
    for line in lines:
        if line.status == "refused":
            continue
        times, gradients = (
            "".join(f"{_ratio(ratio(lines, line, target, what)):>7}" for target in TARGETS)
            for what in ("seconds", "gradients")
        )
        errors = f"{_error(line.upper_error):>7}{_error(line.lower_error):>7}"
        mark = "  WRONG CERTIFICATE" if line.wrong else ""
        said.append(f"  {line.method:12}{times}{gradients}{errors}  {line.status[:32]}{mark}")
    absent = [line.method for line in lines if line.status == "refused"]
    return "\n".join([*said, f"  took no part: {', '.join(absent)}"] if absent else said)


def overall(lines: Sequence[Line]) -> str:
    """All problems in one table: how many a method solves, and the medians of its ratios there."""
    problems = len({line.problem for line in lines})
    said = [
        f"all {problems} problems: solved, and where solved the median time and gradients "
        "as multiples of the best",
        f"  {'':12}" + "".join(f"{f'to {target}':>23}" for target in TARGETS),
        f"  {'':12}" + "   solved   time  grad." * len(TARGETS),
    ]
    for method in dict.fromkeys(line.method for line in lines):
        cells = ""
        for target in TARGETS:
            mine = [line for line in lines if line.method == method and target in line.met]
            medians = []
            for what in ("seconds", "gradients"):
                ratios = [ratio(lines, line, target, what) for line in mine]
                medians.append(statistics.median(ratios) if ratios else math.inf)
            cells += f"{len(mine):>9}" + "".join(f"{_ratio(median):>7}" for median in medians)
        said.append(f"  {method:12}{cells}")
    return "\n".join(said)


def _ratio(value: float) -> str:
    if math.isinf(value):
        return "-"
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def _error(value: float) -> str:
    return "?" if math.isnan(value) else f"{max(value, 0.0):.0e}".replace("e-0", "e-")


# --- the summary ----------------------------------------------------------------------------------


def summary(cases: Sequence[Case], lines: Sequence[Line]) -> str:
    """The answers to what was asked of `auto` and of AdaptiveAGMBiO, for both kinds of problems."""
    said = []
    for words, new in (("problems that stay", False), ("newly drawn problems", True)):
        names = [case.name for case in cases if case.name.startswith("drawn") == new]
        here = [line for line in lines if line.problem in names]
        if here:
            said += [f"{len(names)} {words}", *_adaptive(here, names), *_auto(here, names)]
    exact = [case.name for case in cases if case.is_structured]
    errors = [line.upper_error for line in lines if line.method == "auto" and line.problem in exact]
    if errors:
        said.append(
            f"auto on the {len(errors)} that Exact takes: "
            f"|f - f*| at the end at most {max(errors):.1e}, relative (asked 1e-9)"
        )
    said += _against_conic(lines)
    wrong = sum(line.wrong for line in lines)
    said.append(f"wrong certificates: {wrong or 'none'}")
    return "\n".join(said)


def _of(lines: Sequence[Line], name: str, method: str) -> Line | None:
    return next((line for line in lines if (line.problem, line.method) == (name, method)), None)


def _adaptive(lines: Sequence[Line], names: Sequence[str]) -> list[str]:
    ratios, arrived = [], 0
    for name in names:
        pair = [_of(lines, name, method) for method in ("adaptive", "agm-bio")]
        if pair[0] is None:
            return ["  adaptive took no part"]
        costs = [math.inf if x is None else cost(x, CERTIFICATE, "gradients") for x in pair]
        arrived += math.isfinite(costs[0])
        if math.isfinite(costs[1]):
            ratios.append(costs[0] / costs[1])
    if not ratios:
        return [f"  adaptive proved {arrived} of {len(names)}; AGM-BiO none"]
    return [
        f"  adaptive / AGM-BiO, gradients to the same proof, where AGM-BiO arrives "
        f"({len(ratios)}): median {statistics.median(ratios):.2f} (asked 0.6), "
        f"worst {max(ratios):.2f} (asked 1.5); adaptive arrives on {arrived} of {len(names)}"
    ]


def _auto(lines: Sequence[Line], names: Sequence[str]) -> list[str]:
    said = []
    for target in TARGETS:
        raced = [name for name in names if math.isfinite(best_cost(lines, name, target, "seconds"))]
        autos = [line for name in raced if (line := _of(lines, name, "auto")) is not None]
        ratios = [ratio(lines, line, target) for line in autos]
        first = sum(r <= 1.0 for r in ratios)
        missed = [line.problem for line, r in zip(autos, ratios, strict=True) if math.isinf(r)]
        known = [r for r in ratios if math.isfinite(r)]
        said.append(
            f"  auto to {target}: the fastest on {first} of {len(names)} "
            f"({len(names) - len(raced)} that no method meets), "
            f"at most {max(known, default=math.nan):.2f} times the best"
            + (f"; not there on {', '.join(missed)}" if missed else "")
        )
    return said


def _against_conic(lines: Sequence[Line]) -> list[str]:
    """`auto` to 1e-6 against two stages by hand, to wherever they end, on the l2 ball."""
    mine = _of(lines, "ball", "auto")
    if mine is None or TARGETS[1] not in mine.met:
        return []
    said = []
    for line in lines:
        if line.problem == "ball" and line.method.startswith("cvxpy"):
            times = line.run_seconds / cost(mine, TARGETS[1], "seconds")
            least = "more than " if math.isnan(line.upper_error) else ""
            said.append(
                f"{line.method} takes {least}{times:.0f} times as long as auto on ball (asked 20), "
                f"and ends at |f - f*| = {_error(line.upper_error)}: {line.status}"
            )
    return said


# --- files ----------------------------------------------------------------------------------------


def save(folder: Path, lines: Sequence[Line]) -> None:
    """All numbers as decide.csv, atomically: a row per problem, method and target."""
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    names = ("problem", "method", "target", "seconds", "gradients")
    sheet.writerow([*names, *Line._fields[3:]])
    for line in lines:
        for target in TARGETS:
            costs = (cost(line, target, what) for what in ("seconds", "gradients"))
            sheet.writerow([line.problem, line.method, target, *costs, *line[3:]])
    (folder / "decide.csv").write_text(text.getvalue(), encoding="utf-8", newline="")


def shares(lines: Sequence[Line], method: str, target: str) -> tuple[list[float], list[float]]:
    """A performance profile: ratios to the best, rising, and the share of problems within each.

    Problems that no method solves are left out.
    """
    names = dict.fromkeys(line.problem for line in lines)
    raced = [name for name in names if math.isfinite(best_cost(lines, name, target, "seconds"))]
    mine = [line for line in lines if line.method == method and line.problem in raced]
    ratios = sorted(r for line in mine if math.isfinite(r := ratio(lines, line, target)))
    return ratios, [(i + 1) / len(raced) for i in range(len(ratios))]


def profile(path: Path, lines: Sequence[Line]) -> str:
    """Draw the performance profiles of all methods, a panel per target; where they went, in words.

    Dolan, Moré: Benchmarking optimization software with performance profiles, 2002.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "no picture, because matplotlib is missing: pip install matplotlib"
    from tiebreak.experiments.figures import LineStyle, style_of

    styles = {
        "auto": LineStyle("#b2182b", "-", "o", 2.6),
        "adaptive": LineStyle("#2166ac", "-", "o", 2.0),
        "cvxpy, 0": LineStyle("#8c510a", ":", "o"),
        "cvxpy, 1e-8": LineStyle("#8c510a", "--", "o"),
        "trust-constr": LineStyle("#7fbf7b", "-.", "o"),
    }
    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    panels = figure.subplots(1, len(TARGETS), sharey=True)
    for axes, target in zip(panels, TARGETS, strict=True):
        for method in dict.fromkeys(line.method for line in lines):
            ratios, parts = shares(lines, method, target)
            if ratios:
                style = styles.get(method) or style_of(method)
                x, y = [1.0, *ratios, FARTHEST], [0.0, *parts, parts[-1]]
                axes.step(
                    np.minimum(x, FARTHEST), y, where="post", label=method,
                    color=style.color, linestyle=style.line, linewidth=style.width,
                )  # fmt: skip
        solved = {line.problem for line in lines if target in line.met}
        title = f"to {target}: {len(solved)} solved problems"
        axes.set(xscale="log", xlim=(1.0, FARTHEST), ylim=(0.0, 1.02))
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("time, as a multiple of the best")
    panels[0].set_ylabel("share of the problems")
    handles = {h.get_label(): h for axes in panels for h in axes.get_lines()}
    figure.legend(handles.values(), handles.keys(), loc="outside right center", frameon=False)
    figure.savefig(path, format="png", dpi=130)
    return f"numbers in {path.with_suffix('.csv')}, performance profiles in {path}"
