"""Saves benchmark results as rows of benchmarks/results/NAME.csv, for docs/tables.py.

Every row records the version, the date and the machine, so that a table in the documentation is
never newer than its measurement.
"""

from __future__ import annotations

import csv
import datetime
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import tiebreak as tb

RESULTS = Path(__file__).with_name("results")
ABOUT = ("version", "date", "machine")


def save(name: str, rows: Sequence[Mapping[str, object]], machine: str = "") -> Path:
    """Replace the rows of NAME; `machine` says what matters about it, such as the GPU."""
    about = dict(
        zip(ABOUT, (_version(), datetime.date.today(), machine or _processor()), strict=True)
    )
    path = RESULTS / f"{name}.csv"
    RESULTS.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [*rows[0], *ABOUT], lineterminator="\n")
        table.writeheader()
        table.writerows({**row, **about} for row in rows)
    return path


def _version() -> str:
    """Return the version with its commit, with a plus if files differ from that commit."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=RESULTS.parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return f"{tb.__version__} ({said})" if said else tb.__version__


def _processor() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}"
