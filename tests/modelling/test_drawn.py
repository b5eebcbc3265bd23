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
        status, message = found.status, found.message
    except ValueError as error:
        status, message = "refused", str(error)
    if status != "solved":
        kept = np.all(x.value == BEFORE)
        return "refused" if kept and message and "\n" not in message else f"{status}: {message}"
    errors = [
        abs(level.value - best) / max(1.0, abs(best))
        for level, best in zip(problem.levels, problem.best, strict=True)
    ]
    outside = max(float(np.max(constraint.violation())) for constraint in problem.constraints)
    return "solved" if max(errors) <= 1e-7 and outside <= 1e-7 else f"errors {errors}, {outside}"


def test_drawn_problems_are_solved_or_refused(count):
    seeds = range(0, 300, count(23, 1))
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
    for seed in range(0, 300, count(29, 1)):
        problem = drawn(seed)
        best = cp.Problem(problem.levels[0], problem.constraints).solve(solver="CLARABEL")
        assert problem.best[0] == pytest.approx(best, rel=1e-6, abs=1e-6)
