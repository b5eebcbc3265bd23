"""The paper's regression: visits to 1068 Wikipedia pages on 731 days, or a synthetic twin.

Wikipedia Math Essential is the file wikivital_mathematics.json by Rozemberczki and others, PyTorch
Geometric Temporal, CIKM 2021. You supply the file; nothing is downloaded.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.catalog.built import Built, Matrix
from tiebreak.catalog.datasets import validation_over_training
from tiebreak.linalg import checks

PAGES, DAYS = 1068, 731
OTHER_KEYS = ("edges", "weights", "node_ids", "time_periods")
TWIN = "synthetic twin of Wikipedia Math Essential"


def regression(
    file: str | Path | None = None, train: float = 0.75, radius: float = 1.0, seed: int = 0
) -> Built:
    """The paper's over-parameterised regression: among the best fits, the least validation loss.

    The days are columns, each scaled to [0, 1]; a random column is the target b, and the other 730
    columns are the features. The lower level is g(x) = ½|Ax - b|² on the training rows, f is the
    same loss on the other rows, and the domain is a ball.

    With the paper's 75 % there are 801 rows for 730 variables and a single lower minimiser, so
    nothing is selected; with 25 % there are 267 rows, and the solution set has dimension 463 if the
    ball is large enough to contain a model that fits these rows.

    Args:
        file: wikivital_mathematics.json; None for the synthetic twin (the label says so).
        train: the share of the rows that go to the lower level.
        radius: the radius of the ball around the origin.
        seed: the random seed for the target column and the split of the rows.
    """
    share = checks.number("regression", "train", train, "a share between 0 and 1")
    rows = round(share * PAGES) if 0.0 < share < 1.0 else 0
    if not 0 < rows < PAGES:
        raise ValueError(f"regression: train must be a share between 0 and 1, got {train}")
    rng = np.random.default_rng(seed)
    scaled = _to_unit_interval(twin() if file is None else read_visits(file))
    column = int(rng.integers(DAYS))
    problem = validation_over_training(
        np.delete(scaled, column, axis=1), scaled[:, column], rows, radius, rng, mean=False
    )
    return Built(
        label=TWIN if file is None else "Wikipedia Math Essential",
        problem=problem,
        x0=np.zeros(DAYS - 1),
        order=2.0,
    )


def _to_unit_interval(visits: Matrix) -> Matrix:
    """Scale every column to [0, 1]; constant columns become zero."""
    least, most = visits.min(axis=0), visits.max(axis=0)
    spread = most - least
    return np.asarray((visits - least) / np.where(spread > 0.0, spread, 1.0))


# --- the file


def read_visits(file: str | Path) -> Matrix:
    """Return the visits in wikivital_mathematics.json, a row per page and a column per day."""
    if not isinstance(file, str | Path):
        raise TypeError(f"regression: file must be a file name, got {checks.what_it_is(file)}")
    path = Path(file)
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not a JSON file") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object, got {checks.what_it_is(content)}")
    days = [str(day) for day in range(DAYS)]
    missing = [key for key in (*OTHER_KEYS, *days) if key not in content]
    if missing:
        more = " is" if len(missing) == 1 else f" and {len(missing) - 1} more are"
        raise ValueError(
            f"{path} must have the keys {', '.join(OTHER_KEYS)} and '0' to '{DAYS - 1}', "
            f"but {missing[0]!r}{more} missing"
        )
    if str(DAYS) in content:
        raise ValueError(f"{path} must hold {DAYS} days, but it has a key {str(DAYS)!r}")
    return np.column_stack([_day(path, day, content[day]) for day in days])


def _day(path: Path, day: str, entry: Any) -> Matrix:
    counts = entry.get("y") if isinstance(entry, dict) else None
    if not isinstance(counts, list):
        raise ValueError(f"{path}: day {day} must hold a list 'y', got {checks.what_it_is(entry)}")
    if len(counts) != PAGES:
        raise ValueError(f"{path}: day {day} must have {PAGES} counts, got {len(counts)}")
    if not all(type(count) in (int, float) for count in counts):
        raise ValueError(f"{path}: day {day} must hold numbers only")
    try:
        visits = np.array(counts, dtype=np.float64)
    except OverflowError:  # a whole number too large for a float
        visits = np.full(PAGES, np.inf)
    if not np.all(np.isfinite(visits)):
        raise ValueError(f"{path}: day {day} must be finite, got NaN or infinite counts")
    return visits


# --- the twin


@cache
def twin() -> Matrix:
    """Return made-up visits of the same shape as the file: 1068 pages, 731 days.

    The number of visits to a page on a day is a Poisson count whose mean is the product of

        its popularity       2000 rank^-0.33 (Zipf's law); the exponent gives the paper's L_g
        the day of the week  a third less at weekends
        the season           a quarter up or down over the year, the same for all pages
        its trend            its own slow rise or fall
        its daily noise      log-normal from day to day, with a spread of 25 %
        its spikes           on one day in 500, three times as many visits or far more (Pareto)
    """
    rng = np.random.default_rng(0)
    day = np.arange(DAYS)
    popularity = 2000.0 * rng.permutation(np.arange(1.0, PAGES + 1.0)) ** -0.33
    week = np.where(day % 7 < 5, 1.0, 2.0 / 3.0)
    season = 1.0 + 0.25 * np.cos(2.0 * np.pi * day / 365.25)
    trend = np.exp(0.3 * np.outer(rng.standard_normal(PAGES), day / DAYS - 0.5))
    mood = np.exp(0.25 * rng.standard_normal((PAGES, DAYS)))
    is_spike = rng.random((PAGES, DAYS)) < 1.0 / 500.0
    spikes = np.where(is_spike, 3.0 * (1.0 + rng.pareto(1.5, (PAGES, DAYS))), 1.0)
    means = popularity[:, None] * (week * season) * trend * mood * spikes
    return np.asarray(rng.poisson(means), dtype=np.float64)
