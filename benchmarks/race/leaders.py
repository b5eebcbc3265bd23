"""Keeps who arrives most often in a race, for docs/methods.md: leaders.py out/race.

From rows.csv and instances.csv of `tiebreak race`: on how many instances each method arrives, and
on how many of them nobody needs fewer passes.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from record import save

from tiebreak.experiments.race import read_rows
from tiebreak.experiments.standings import Course, Standings, is_official

SHOWN = (("weak", 1e-2), ("weak", 1e-4), ("absolute", 1e-2), ("absolute", 1e-4))


def read_courses(path: Path) -> list[Course]:
    """The rows of instances.csv."""
    with path.open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return [_course(row) for row in rows]


def _course(row: list[str]) -> Course:
    upper, lower, f, g, order = map(float, row[2:7])
    return Course(row[0], int(row[1]), upper, lower, f, g, order, int(row[7]), int(row[8]), row[9])


def leaders(race: Standings) -> list[dict[str, object]]:
    """A row for each method that arrives as often as AGM-BiO, the most frequent first."""
    rows: list[dict[str, object]] = []
    counts = []
    for method in filter(is_official, race.methods):
        row: dict[str, object] = {"method": f'`"{method}"`'}
        found = {target: race.ratios(target, method, "passes") for target in SHOWN}
        for target, ratios in found.items():
            first = sum(ratio == 1.0 for ratio in ratios)
            row[f"{target[0]} {target[1]:.0e}".replace("e-0", "e-")] = f"{len(ratios)} ({first})"
        rows.append(row)
        counts.append(sum(map(len, found.values())))
    least = next(n for n, row in zip(counts, rows, strict=True) if "agm-bio" in str(row))
    order = sorted(range(len(rows)), key=lambda i: -counts[i])
    return [rows[i] for i in order if counts[i] >= least]


def main() -> None:
    """Read the race and replace benchmarks/results/race.csv."""
    out = Path(sys.argv[1])
    race = Standings(read_rows(out / "rows.csv"), read_courses(out / "instances.csv"), [])
    print(save("race", leaders(race)))


if __name__ == "__main__":
    main()
