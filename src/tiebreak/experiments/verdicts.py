"""Whether the rows of a reproduction agree with what the paper claims.

One function decides, ``verdicts``; it sees the rows of ``rows.csv`` and a few facts about the
instances, and no method, no problem, no clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiebreak.experiments.claims import CLAIMS, Claim, Evidence
from tiebreak.experiments.race import Record
from tiebreak.experiments.scenes import Facts, UnknownHere, scenes_of

CONFIRMED, NOT_CONFIRMED, NOT_TESTABLE = "confirmed", "not confirmed", "not testable here"


class Verdict(NamedTuple):
    """One claim, judged at one place."""

    claim: str  # its number in the report
    quote: str
    place: str  # instance and axis
    outcome: str  # confirmed, not confirmed, not testable here
    numbers: str  # what decided it


def verdicts(
    rows: Sequence[Record], experiment: str, facts: Mapping[str, Facts] | None = None
) -> list[Verdict]:
    """Every claim about an experiment, judged by the rows of ``rows.csv`` and nothing else.

    Args:
        rows: of a race; those of other experiments are passed over.
        experiment: "fig1", "fig2" or "table1".
        facts: by instance, what the rows do not say (shapes, dimensions, f*, whether the data are a
            synthetic twin).

    Returns:
        At least one Verdict per claim: one per instance and axis that the claim speaks of. Where
        rows are missing or not finite it is "not testable here", and a sentence says why. On a
        synthetic twin a claim about the data is "not testable here" too; the numbers say what the
        twin shows.
    """
    scenes = scenes_of(rows, experiment, facts or {})
    found = []
    for claim in CLAIMS[experiment]:
        mine = [scene for name, scene in scenes.items() if re.fullmatch(claim.only, name)]
        if not mine:
            missing = f"there are no rows of {experiment} that it speaks of"
            found.append(Verdict(claim.key, claim.quote, "", NOT_TESTABLE, missing))
        for scene in mine:
            for axis in claim.axes:
                place = f"{scene.name}, by {axis}" if len(claim.axes) > 1 else scene.name
                outcome, numbers = _judged(claim, Evidence(scene, axis, scenes))
                found.append(Verdict(claim.key, claim.quote, place, outcome, numbers))
    return found


def _judged(claim: Claim, seen: Evidence) -> tuple[str, str]:
    try:
        holds, numbers = claim.judge(seen)
    except UnknownHere as reason:
        return NOT_TESTABLE, str(reason)
    if claim.about_data and seen.scene.facts.is_twin:
        shows = "holds" if holds else "does not hold"
        return NOT_TESTABLE, f"the twin is not the data; on the twin it {shows}: {numbers}"
    return CONFIRMED if holds else NOT_CONFIRMED, numbers
