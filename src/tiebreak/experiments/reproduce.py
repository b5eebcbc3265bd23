"""``tiebreak reproduce`` runs an experiment and makes rows.csv, plots and a report."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from tiebreak.catalog.built import in_words
from tiebreak.display.views import number
from tiebreak.experiments import figures, paper_runs, table
from tiebreak.experiments.claims import CLAIMS, Verdict, verdicts
from tiebreak.experiments.paper_runs import Experiment, Say
from tiebreak.experiments.race import Record, read_rows, write_rows
from tiebreak.experiments.scenes import PULLS, RATES, Scene, UnknownHere, measured_slopes, scenes_of
from tiebreak.linalg.archive import write_atomically
from tiebreak.linalg.refusals import missing


@dataclass(frozen=True)
class Reproduction:
    """The results of ``reproduce``."""

    verdicts: tuple[Verdict, ...]
    files: tuple[Path, ...]  # rows.csv, the plots, report.md


def reproduce(
    what: str,
    out: str | Path,
    data: str | Path | None = None,
    quick: bool = False,
    say: Say = lambda line: None,
) -> Reproduction:
    """Run one of the paper's experiments and judge what the paper says about it.

    Args:
        what: "fig1", "fig2" or "table1".
        out: a folder, created if needed, for rows.csv, plots, and finally report.md.
        data: wikivital_mathematics.json for fig1; without the file, a synthetic twin is used, and
            all outputs say so.
        quick: whether to take fewer steps (fig1, table1) or fewer starts (fig2).
        say: a function that receives one line of text before each stage.

    Returns:
        The verdicts and the files. Each file is written completely or not at all; a report.md
        belongs to the rows.csv in its folder.
    """
    file = None if data is None else Path(data)
    experiments: dict[str, Callable[[], Experiment]] = {
        "fig1": lambda: paper_runs.figure_1(file, quick, say),
        "fig2": lambda: paper_runs.figure_2(quick, say),
        "table1": lambda: table.table_1(quick, say),
    }
    if what not in experiments:
        raise ValueError(f"reproduce: what must be one of {', '.join(experiments)}, got {what!r}")
    if data is not None and what != "fig1":
        raise ValueError(f"reproduce: data is for fig1 only, got it with {what}")
    began = time.perf_counter()
    found = experiments[what]()
    seconds = time.perf_counter() - began
    options = (" --quick" if quick else "") + (f" --data {Path(data).name}" if data else "")
    made = f"Made by `tiebreak reproduce {what}{options}` in {seconds:.0f} s."
    return write(found, Path(out), made, say)


def write(found: Experiment, folder: Path, made: str, say: Say) -> Reproduction:
    """Write rows.csv first, then read it back to make the plots and the report."""
    folder.mkdir(parents=True, exist_ok=True)
    written, text = folder / "rows.csv", folder / "report.md"
    text.unlink(missing_ok=True)  # an old report does not belong to the new rows
    write_rows(written, found.rows)
    rows = read_rows(written)
    say("plots")
    pictures = _pictures(found, rows, folder)
    content = report(found, rows, [path.name for path in pictures], made)
    write_atomically(text, lambda file: file.write(content.encode()))
    judged = verdicts(rows, found.name, found.facts)
    return Reproduction(tuple(judged), (written, *pictures, text))


def _pictures(found: Experiment, rows: list[Record], folder: Path) -> list[Path]:
    """Write every plot as .png and .pdf; without matplotlib there are no plots."""
    title, curves = found.title, partial(figures.error_curves, rows)
    draw: dict[str, Callable[[Path], object]] = {}
    if found.name == "fig1":
        for name in dict.fromkeys(row.instance for row in rows if row.experiment == "fig1"):
            stem = "fig1" if not draw else "fig1-selection"
            axes = ("seconds", "iteration")
            draw[stem] = partial(curves, "fig1", [name], axes, f"{title}\n{name}")
    elif found.name == "fig2":
        medians = (
            f"{title}\nmedians over random starts, with bands for the middle four fifths; "
            "errors of 0 lie below the plotted range"
        )
        for stem, axis in (("fig2", "iteration"), ("fig2-gradients", "gradients")):
            draw[stem] = partial(curves, "fig2", ["n = 3", "n = 100"], [axis], medians)
    else:
        draw["table1"] = partial(figures.rates, rows, found.facts, title)
        names = [name for name in found.facts if name.startswith("ablation")]
        heading = "Ablation: AGM-BiO (gamma = 1, exact levels) with its cut at y, x and z"
        draw["ablation"] = partial(curves, "table1", names, ["iteration"], heading)
    pictures = []
    for stem, save in draw.items():
        for ending in ("png", "pdf"):
            path = folder / f"{stem}.{ending}"
            try:
                save(path)
            except ImportError:
                return []
            pictures.append(path)
    return pictures


def report(found: Experiment, rows: Sequence[Record], pictures: Sequence[str], made: str) -> str:
    """Return the whole report.

    Args:
        found: instances, parameters and notes of the experiment.
        rows: the rows as read back from rows.csv.
        pictures: the file names of the plots; if there are none, the report says why.
        made: the command, and how long it took.
    """
    judged = verdicts(rows, found.name, found.facts)
    scenes = scenes_of(rows, found.name, found.facts)
    lines = [f"# {found.title}", "", made, ""]
    if any(facts.is_twin for facts in found.facts.values()):
        lines += [
            "**Data: synthetic twin.** The paper's data set was not given (`--data FILE`); a "
            "synthetic one of the same shape and scale replaces it in every number and plot "
            "below. The paper's claims about its data cannot be tested on this twin.",
            "",
        ]
    counts = Counter(verdict.outcome for verdict in judged)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    lines += [f"Verdicts: {outcomes} (a claim is judged once per instance and axis).", ""]
    cells = [
        [v.claim, f"“{v.quote}”", v.place or "-", f"**{v.outcome}**", v.numbers] for v in judged
    ]
    header = ["", "The paper says", "Instance", "Verdict", "Decided by"]
    lines += ["## The paper's claims", "", *_table(header, cells)]
    lines += _checks(found, rows)
    lines += ["## Instances", "", *_instance_table(scenes)]
    if found.name == "table1":
        lines += ["## Rates", "", *_rate_table(scenes)]
    lines += ["## Where every method ended", "", *_final_tables(scenes)]
    lines += ["## Parameters", "", *_parameter_tables(found, scenes)]
    rules = [[claim.key, claim.rule] for claim in CLAIMS[found.name]]
    lines += ["## How the claims are judged", "", *_table(["", "Rule"], rules)]
    lines += ["## Files", "", "- `rows.csv`: every number above comes from it."]
    lines += [f"- `{name}`: drawn from `rows.csv`." for name in pictures]
    if not pictures:
        lines.append(f"- No plots: {missing('plotting', 'matplotlib', 'plot')}.")
    return "\n".join(lines) + "\n"


def _checks(found: Experiment, rows: Sequence[Record]) -> list[str]:
    """Return the verdicts of the checks, which vary one setting at a time, and the notes."""
    judged = []
    if f"{found.name} checks" in CLAIMS:
        judged = verdicts(rows, f"{found.name} checks", found.facts)
    if not judged and not found.notes:
        return []
    lines = ["## Is it our mistake?", ""]
    lines += [f"{note}\n" for note in found.notes]
    if judged:
        lines += [
            "The same claims, judged by the same rules, with one setting varied at a time.",
            "",
            *_table(
                ["", "Varied", "Verdict", "Decided by"],
                [[v.claim, v.place or "-", f"**{v.outcome}**", v.numbers] for v in judged],
            ),
        ]
    return lines


def _instance_table(scenes: Mapping[str, Scene]) -> list[str]:
    cells = []
    for name, scene in scenes.items():
        facts = scene.facts
        cells.append([
            name, facts.label or "-", in_words(facts.dimension), number(facts.upper_optimum, 12),
            number(facts.lower_optimum, 12), facts.source or "-",
            *(number(L, 6) for L in facts.smoothness), f"{len(scene.runs)}",
        ])  # fmt: skip
    header = ["Instance", "Data", "Ties", "f*", "g*", "Source", "L_f", "L_g", "Starts"]
    return _table(header, cells)


def _final_tables(scenes: Mapping[str, Scene]) -> list[str]:
    lines = []
    for name, scene in scenes.items():
        cells = []
        for method in dict.fromkeys(method for run in scene.runs for method in run):
            ends = [run[method][-1] for run in scene.runs if run.get(method)]
            middle = [_middle(getattr(row, what) for row in ends) for what in Record._fields[3:-1]]
            steps, gradients, seconds, _, _, *errors = middle
            shown = [f"{steps:,.0f}", f"{gradients:,.0f}", number(seconds, 3)]
            cells.append([method, *shown, *(number(error, 3) for error in errors)])
        several = f" (medians over {len(scene.runs)} starts)" if len(scene.runs) > 1 else ""
        header = ["Method", "steps", "gradients", "seconds", "|f - f*|", "g - g*", "|x - x*|"]
        lines += [f"**{name}**{several}", "", *_table(header, cells)]
    return lines


def _middle(values: Iterable[float]) -> float:
    """Return the median of the numbers that are not nan."""
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else math.nan


def _rate_table(scenes: Mapping[str, Scene]) -> list[str]:
    cells = []
    for row, name in ((row, row.label + ending) for row in RATES for ending in PULLS.values()):
        try:
            measured = measured_slopes(scenes[name], row).values()
        except (KeyError, UnknownHere):
            continue
        upper, lower, absolute = ("-" if math.isnan(s) else f"{s:.2f}" for s in measured)
        label = scenes[name].facts.label
        cells.append(
            [name, f"{-row.upper:.3g}", upper, absolute, f"{-row.lower:.3g}", lower, label]
        )
    header = [
        "Method", "f - f*: published", "measured", "|f - f*| measured",
        "g - g*: published", "measured", "Planted instance",
    ]  # fmt: skip
    return [
        "Slopes of log error over log steps (gradients for Bisec-BiO), over the last two decades; "
        "-inf: the error is zero up to rounding, or f <= f*, throughout. The pull is how strongly "
        "the slope of f at x* points away from the minimisers of g.",
        "",
        *_table(header, cells),
    ]


def _parameter_tables(found: Experiment, scenes: Mapping[str, Scene]) -> list[str]:
    lines = []
    for name in scenes:
        if name in found.parameters:
            cells = [
                [label, " to ".join(dict.fromkeys((texts[0], texts[-1])))]
                for label, texts in found.parameters[name].items()
            ]
            lines += [f"**{name}**", "", *_table(["Method", "Parameters"], cells)]
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table, followed by an empty line."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines] + [""]
