"""What ``solve`` says of chains on polyhedra, against fractions: no false word in any draw."""

from __future__ import annotations

import pytest
from truth import balls, draws, extremes
from truth.count import tallied
from truth.judge import Tally, Verdict

FIRST_SEED = 1_000_000  # that of `truth.count --seed 100`; others are for looking around


def refute(verdict: Verdict) -> None:
    """A promise that is broken ends the run, with the simplest case that breaks one."""
    if verdict.is_bad:
        pytest.fail(str(verdict), pytrace=False)


def refute_words(verdict: Verdict) -> None:
    """The same for false words alone."""
    if verdict.false:
        pytest.fail(str(verdict), pytrace=False)


def check_shares(tally: Tally) -> None:
    """What may happen happens rarely."""
    print(tally.table())
    assert tally.share(tally.off) <= 0.01, "\n".join(map(str, tally.off))
    assert tally.share(tally.lost) <= 0.05, "\n".join(map(str, tally.lost))


def test_no_false_word_on_every_set_with_every_level(count):
    tally = tallied(draws.problems(), count(80, 2000), FIRST_SEED, refute, shrink=True)
    check_shares(tally)
    assert len(tally.right) >= count(82, 1924)  # what version 1e57719 had rightly


def test_no_false_word_on_balls(count):
    check_shares(tallied(balls.problems(), count(15, 300), FIRST_SEED, refute, shrink=True))


def test_no_false_word_with_weights_and_units_far_apart(count):
    number = count(15, 500)
    print(tallied(extremes.problems(), number, FIRST_SEED, refute_words, shrink=True).table())
