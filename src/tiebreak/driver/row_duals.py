"""The names of variables and rows in the result for levels, and the duals of the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tiebreak.conic.duals import row_multipliers
from tiebreak.conic.representation import compile_levels
from tiebreak.driver.levels_result import LevelReport, LevelsResult
from tiebreak.levels import Levels
from tiebreak.linalg import TOL, Host, Refusal, to_numpy
from tiebreak.linalg.deferred import Deferred


def name_all(result: LevelsResult, levels: Levels) -> LevelsResult:
    """Return the result with names of variables and rows; duals are computed on demand."""
    names, domain = levels.variables, levels.domain
    result.variables = None if names is None else _apart(map(str, names))
    assert levels.dimension is not None
    if domain.is_linear:
        parts = [(part, part.linear_rows(levels.dimension)) for part in domain.parts]
        ends = [
            (part, np.zeros(len(rows.b)), np.zeros(len(rows.b_eq))) for part, rows in parts if rows
        ]
        result.rows = _apart(name for part, *zeros in ends for name in part.row_duals(*zeros))
    if result.rows and result.success:
        result.multipliers = Deferred(lambda: _multipliers(result, levels))
    return result


def _apart(names: Iterable[str]) -> tuple[str, ...]:
    """Number the names that occur again: the domain may have two polyhedra with a "0 of A"."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


def _multipliers(result: LevelsResult, levels: Levels) -> Host | None:
    """Return one line per level, nan if unknown; None if all are unknown."""
    x, objectives = to_numpy(result.x), [level.minimised for level in levels.levels]
    try:
        program = compile_levels(objectives, levels.domain, len(x))
    except Refusal:
        return None
    if program.size > len(x):  # the values of the auxiliary variables were not kept
        return None
    found = row_multipliers(program, x, [_is_cut(report) for report in result.levels.values()])
    if found is None:
        return None
    lines = np.full((len(found), len(result.rows)), np.nan)
    for line, y, level in zip(lines, found, levels.levels, strict=True):
        if y is not None:
            line[:] = level.sign * _by_row(y, levels, len(x)) + 0.0  # no -0
    return lines


def _is_cut(report: LevelReport) -> bool | None:
    """Did the level use all of its slack?  None if it has no slack."""
    if not report.slack:
        return None
    best = report.best[1] if report.sign > 0 else report.best[0]  # the attained end of the interval
    size = abs(report.value) + abs(best) + report.slack
    return report.sign * (report.value - best) >= report.slack - TOL.solver * size


def _by_row(y: Host, levels: Levels, n: int) -> Host:
    """Assign the multipliers of a program's rows, equations first, to the named rows of the sets.

    A program stores equations as b_eq - A_eq x, and inequalities unchanged as A x <= b.
    """
    parts = [(part, part.linear_rows(n)) for part in levels.domain.parts]
    equal, below = 0, sum(len(rows.b_eq) for _, rows in parts if rows)
    found: list[float] = []
    for part, rows in parts:
        assert rows is not None
        ends = below + len(rows.b), equal + len(rows.b_eq)
        found += part.row_duals(y[below : ends[0]], -y[equal : ends[1]]).values()
        below, equal = ends
    return np.array(found)
