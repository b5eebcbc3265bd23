"""300 drawn problems of CVXPY over 26 atoms and 12 kinds of constraints: planted answers."""

from __future__ import annotations

from collections import Counter, defaultdict

import cvxpy as cp
import numpy as np
import pytest
from modelling.drawn_problems import KINDS, LAST, PLANTED, drawn

import tiebreak as tb

BEFORE = 7.0  # of all variables


def outcome(problem):
    """ "solved", "refused" in one sentence with the variables as they were, or a third one."""
    x = problem.x
    x.value = np.full(x.size, BEFORE)
    try:
        first, *then = problem.levels
        levels = tb.from_cvxpy(first, then=then, constraints=problem.constraints)
        found = tb.solve(levels)
        success, message = found.success, found.message
    except ValueError as error:
        success, message = False, str(error)
    if not success:
        kept = np.all(x.value == BEFORE)
        return "refused" if kept and message and "\n" not in message else f"third: {message}"
    with np.errstate(invalid="ignore"):  # nan: outside of power's domain by rounding
        values = [level.value for level in problem.levels]
    reported = [level.value for level in found.levels.values()]
    # Where CVXPY has no value there, the reported one alone is compared, and must be a number.
    errors = [
        abs(value - best) / max(1.0, abs(best))
        for ours in (reported, values)
        for value, best in zip(ours, problem.best, strict=True)
        if ours is reported or not np.isnan(value)
    ]
    outside = max(float(np.max(constraint.violation())) for constraint in problem.constraints)
    close = all(error <= 1e-7 for error in [*errors, outside])  # not so where one is nan
    return "solved" if close else f"errors {errors}, {outside}"


def test_drawn_problems_are_solved_or_refused(count):
    seeds = range(0, 300, count(45, 1))
    met = {seed: drawn(seed) for seed in seeds}
    found = {seed: outcome(problem) for seed, problem in met.items()}
    third = {s: (met[s].atoms, o) for s, o in found.items() if o not in ("solved", "refused")}
    by_atom = defaultdict(Counter)
    for seed, problem in met.items():
        for atom in problem.atoms:
            by_atom[atom][found[seed]] += 1
    print(Counter(found.values()))
    assert third == {}
    assert Counter(found.values())["solved"] >= 250 / 300 * len(found)
    assert all(counts["solved"] for counts in by_atom.values())
    if len(found) == 300:
        assert set(by_atom) == {*PLANTED, *LAST}
        kinds = {kind for problem in met.values() for kind in problem.kinds}
        assert kinds >= {*KINDS, "binding half-space", "binding ball", "active rows"}


def test_the_first_planted_value_is_cvxpys(count):
    """The draws themselves: what is planted is least."""
    for seed in range(0, 300, count(59, 1)):
        problem = drawn(seed)
        best = cp.Problem(problem.levels[0], problem.constraints).solve(solver="CLARABEL")
        assert problem.best[0] == pytest.approx(best, rel=1e-6, abs=1e-6)
