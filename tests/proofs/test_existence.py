"""Every level is asked whether its minimum is attained: on every set, in every place, by all."""

from __future__ import annotations

import numpy as np
import pytest
from truth.claims import existence

import tiebreak as tb


def test_without_a_minimiser_nothing_is_a_success_and_with_one_nothing_is_denied(count):
    print(figure := existence(count(4, 200), 0))
    assert not figure.misses, figure


@pytest.mark.sample(4)
@pytest.mark.parametrize("domain", [tb.Space(), tb.Polyhedron([[0.0, 0.0, 1.0]], [5.0])])
@pytest.mark.parametrize("size", [1.0, 2e9])
def test_with_a_slack_a_level_needs_no_minimiser(domain, size):
    """{ g <= inf g + slack } is not empty: solved, and never unbounded where the slack is tiny."""
    rows = np.array([[1.0, 0, 1], [2.0, 1, 1], [-1.0, 1, 1], [-2.0, 0, 1]])
    g = size * tb.Logistic(rows, [1.0, 1, -1, -1])
    answers = [
        tb.solve(tb.Levels(tb.Level(g, slack=slack), tb.SquaredNorm(), domain=domain))
        for slack in (0.1 * size, 0.01)
    ]
    assert answers[0].status == "solved"
    # The cut lies inside the slack by its own rounding, so that x certainly keeps to the slack.
    assert 0.1 * size * (1.0 - 1e-8) <= g.value(answers[0].x) <= 0.1 * size
    assert answers[1].status in ("solved", "undetermined")
    assert size > 1.0 or answers[1].success
