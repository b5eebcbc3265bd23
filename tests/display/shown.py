"""Results of every kind, and what a page holds, for the tests of this folder."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tiebreak as tb
from tiebreak.driver.trace import Row, Trace

SCRIPT = '<script>alert("1")</script>'  # a name that must be shown as text


@cache
def problem() -> tb.Problem:
    rng = np.random.default_rng(0)
    lower = tb.LeastSquares(rng.standard_normal((4, 12)), rng.standard_normal(4))
    upper = tb.SquaredNorm(center=rng.standard_normal(12))
    return tb.Problem(upper=upper, lower=lower, domain=tb.Ball(10.0))


@cache
def run() -> tb.Result:
    """Many steps, with gaps of both signs."""
    return tb.solve(problem(), "adaptive", rtol=1e-3)


@cache
def direct() -> tb.Result:
    """One step, by factorisation."""
    return tb.solve(problem())


@cache
def levels() -> tb.LevelsResult:
    first = tb.Level(tb.LeastSquares(np.ones((1, 3)), np.ones(1)), name=SCRIPT, slack=0.1)
    then = tb.Level(tb.SquaredNorm(center=np.arange(3.0)), name="near")
    return tb.solve(tb.Levels(first, then, domain=tb.Box(-5.0, 5.0)))


@cache
def two_levels() -> tb.LevelsResult:
    """Without slack: it holds a Result."""
    return tb.solve(tb.Levels(problem().lower, problem().upper, domain=tb.Ball(10.0)))


@cache
def race() -> tb.Comparison:
    names: list[Any] = ["agm-bio", "r-apm", (SCRIPT, tb.BiSG())]
    return tb.compare(problem(), names, budget=5.0, max_iter=120, name="4 x 12 & more")


@cache
def curve() -> tb.Tradeoff:
    return tb.tradeoff(problem(), [0.0, 0.01, 0.1, 1.0])


ALL = (run, direct, levels, two_levels, race, curve)


def long_run(rows: int = 100_000) -> tb.Result:
    """The same result with a long trace: noise, one spike, nothing proved at first."""
    rng = np.random.default_rng(1)
    k = np.arange(rows)
    f, g = 9.0 + rng.random(rows), 1.0 / (1.0 + k) + 1e-9 * rng.random(rows)
    f[rows // 3] = 123.456
    gaps = np.where(k < 5, np.inf, f - 8.0)
    columns = (k, 1e-3 * k, f, g, gaps, g, k, 2 * k, 3 * k)
    made = [Row(*(c.item() for c in cells)) for cells in zip(*columns, strict=True)]
    return replace(run(), trace=Trace(made), nit=rows - 1)


def diverged() -> tb.Result:
    """To the ends of the floats, in both directions."""
    values = [1.0, -2.0, 1.7e308, -1.7e308, np.inf, np.nan] * 4
    rows = [Row(k, 0.1 * k, v, -v, v, abs(v), k, k, k) for k, v in enumerate(values)]
    return replace(run(), trace=Trace(rows))


def page_data(path: Path) -> dict[str, Any]:
    """The JSON of a page."""
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])
