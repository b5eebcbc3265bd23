"""``tiebreak reproduce``: run, write rows.csv, and make pictures and report from that file."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tiebreak.driver.checkpoint import write_atomically
from tiebreak.experiments import figures, paper_runs, table
from tiebreak.experiments.claims import Verdict, verdicts
from tiebreak.experiments.paper_runs import Experiment, Say
from tiebreak.experiments.race import Record, read_rows, write_rows
from tiebreak.experiments.report import report


@dataclass(frozen=True)
class Reproduction:
    """What ``reproduce`` has made."""

    verdicts: tuple[Verdict, ...]
    files: tuple[Path, ...]  # rows.csv, the pictures, report.md


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
        out: a folder, made if it is not there: rows.csv, pictures, and last of all report.md.
        data: wikivital_mathematics.json for fig1; without it a synthetic twin, and all outputs
            say so.
        quick: fewer steps (fig1, table1), fewer starts (fig2).
        say: is told what happens next, a line at a time.

    Returns:
        The verdicts and the files. Each file is whole or not there; a report.md in the folder
        belongs to the rows.csv beside it.
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
        raise ValueError(f"reproduce: data belongs to fig1, got it with {what}")
    began = time.perf_counter()
    found = experiments[what]()
    seconds = time.perf_counter() - began
    options = (" --quick" if quick else "") + (f" --data {Path(data).name}" if data else "")
    made = f"Made by `tiebreak reproduce {what}{options}` in {seconds:.0f} s."
    return write(found, Path(out), made, say)


def write(found: Experiment, folder: Path, made: str, say: Say) -> Reproduction:
    """rows.csv first; then pictures and report from what was read back from it."""
    folder.mkdir(parents=True, exist_ok=True)
    written, text = folder / "rows.csv", folder / "report.md"
    text.unlink(missing_ok=True)  # an older one does not belong to the new rows
    write_rows(written, found.rows)
    rows = read_rows(written)
    say("pictures")
    pictures = _pictures(found, rows, folder)
    content = report(found, rows, [path.name for path in pictures], made)
    write_atomically(text, lambda file: file.write(content.encode()))
    judged = verdicts(rows, found.name, found.facts)
    return Reproduction(tuple(judged), (written, *pictures, text))


def _pictures(found: Experiment, rows: list[Record], folder: Path) -> list[Path]:
    """Every picture as .png and .pdf; none without matplotlib."""
    title = found.title
    draw: dict[str, Callable[[Path], object]] = {}
    if found.name == "fig1":
        for name in dict.fromkeys(row.instance for row in rows if row.experiment == "fig1"):
            stem = "fig1" if not draw else "fig1-selection"
            heading = f"{title}\n{name}"
            draw[stem] = lambda path, n=name, h=heading: figures.figure_1(rows, n, h, path)  # type: ignore[misc]
    elif found.name == "fig2":
        medians = (
            f"{title}\nmedians over random starts, bands: the middle four fifths; "
            "an error of 0 leaves the picture"
        )
        draw["fig2"] = lambda path: figures.figure_2(rows, "iteration", medians, path)
        draw["fig2-gradients"] = lambda path: figures.figure_2(rows, "gradients", medians, path)
    else:
        ablation = "Ablation: AGM-BiO (gamma = 1, exact levels) with its cut at y, x and z"
        draw["table1"] = lambda path: figures.rates(rows, found.facts, title, path)
        draw["ablation"] = lambda path: figures.ablation(rows, ablation, path)
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
