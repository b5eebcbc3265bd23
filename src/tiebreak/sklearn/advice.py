"""The advice of a result in the words of an estimator, which has other parameters than `solve`."""

from __future__ import annotations

from dataclasses import replace

import tiebreak as tb
from tiebreak.algorithms.accelerated import Accelerated
from tiebreak.driver import advice

INSTEAD = {
    advice.BOUND: "alpha, or another prefer, gives",
    advice.NARROWER: "",
    advice.ONE_SIDED: "relax rtol",
    advice.SET_ATOL: "relax rtol",
    f", {Accelerated.remedy}": "",
}


def for_estimators(result: tb.Result) -> tb.Result:
    """The same with advice that the user of an estimator can follow."""
    said = result.advice
    for words, others in INSTEAD.items():
        said = said.replace(words, others)
    return replace(result, advice=said)


def levels_for_estimators(result: tb.LevelsResult) -> tb.LevelsResult:
    """The same, where the proofs of the levels say what they rely on."""
    levels = {
        name: replace(level, why="coefficients") if level.why == "size" else level
        for name, level in result.levels.items()
    }
    return replace(result, levels=levels)
