"""What ``solve`` says of chains on polyhedra, against fractions: no false word in any draw."""

from __future__ import annotations

import pytest
from truth import balls, draws, extremes
from truth.count import count
from truth.judge import Verdict

FIRST_SEED = 1_000_000  # others are for looking around


def refute(verdict: Verdict) -> None:
    """A promise that is broken ends the run, with the simplest case that breaks one."""
    if verdict.is_bad:
        pytest.fail(str(verdict), pytrace=False)


@pytest.fixture
def number(count, request):
    """How many draws: the sample or all."""
    return count(*request.param)


@pytest.mark.parametrize("number", [(200, 2000)], indirect=True)
def test_no_false_word_on_every_set_with_every_level(number):
    tally = count(draws.problems(), number, FIRST_SEED, refute, shrink=True)
    print(tally.table())
    assert tally.share(tally.off) <= 0.01, "\n".join(map(str, tally.off))
    assert tally.share(tally.lost) <= 0.05, "\n".join(map(str, tally.lost))


@pytest.mark.parametrize("number", [(30, 300)], indirect=True)
def test_no_false_word_on_balls(number):
    tally = count(balls.problems(), number, FIRST_SEED, refute, shrink=True)
    print(tally.table())
    assert tally.share(tally.off) <= 0.01, "\n".join(map(str, tally.off))
    assert tally.share(tally.lost) <= 0.05, "\n".join(map(str, tally.lost))


@pytest.mark.parametrize("number", [(50, 500)], indirect=True)
def test_no_false_word_with_weights_and_units_far_apart(number):
    tally = count(extremes.problems(), number, FIRST_SEED, refute, shrink=True)
    print(tally.table())
