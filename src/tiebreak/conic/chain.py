"""Levels in order: each over the minimisers of all before it, images and exposed faces held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tiebreak.conic.program import ConicProgram
from tiebreak.linalg.arrays import Host

Slack = Callable[[float, float], float]  # of the best value and of the value before this level


class LevelSolution(NamedTuple):
    """What was found of one level."""

    best: float  # its least value over the minimisers of the levels before it, as found
    bound: float  # that least value is at least this
    value: float  # at the final point
    slack: float  # what it may give up, resolved to a number
    dimension: int  # of what is left to choose after it
    held: str  # how it was held: "image", "face", "image and face", "cut", "point", "last"
    word: str  # "proved", "verified" or "claimed"
    price: float | None  # -d(last level)/d(slack), where its slack is positive
    solver: str  # the solver's own word


class ChainSolution(NamedTuple):
    """All levels solved."""

    z: Host
    levels: tuple[LevelSolution, ...]
    status: str  # "solved", "unbounded", "undetermined", "failed", "max_time"
    message: str
    direction: Host | None = None  # where it is unbounded


def solve_chain(program: ConicProgram, slacks: Sequence[Slack | None]) -> ChainSolution:
    """One level after the other; a slack for each but the last, None for none."""
    raise NotImplementedError
