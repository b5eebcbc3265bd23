"""python -m truth.claims --of existence --draws N --seed S: what is claimed, counted, in one line.

Run with the folder of the tests and that of a source tree on PYTHONPATH. The tests ask for the same
figures: a sample in `make test`, the full counts in `make prove`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from helpers import attained, weighted_truth
from helpers.one_hot import PREFER, Design
from truth import extremes
from truth.count import tallied
from truth.judge import Verdict

import tiebreak as tb
from tiebreak.proofs.recession.direction import is_direction_of_descent

TESTS = Path(__file__).parents[1]
FLAT = "the criterion is the same for all best fits"
INTERPOLATED = "the criterion is interpolated"


@dataclass
class Figure:
    """What was counted, in words, and all that breaks a promise."""

    said: str = ""
    misses: list[str] = field(default_factory=list)
    off: int = 0  # solved beyond two tolerances

    def __str__(self) -> str:
        return "\n".join([self.said, *self.misses])


def weights(draws: int, seed: int, methods: Sequence[str] = ("exact", "conic", "auto")) -> Figure:
    """Losses with row weights up to 1e14 and columns in units of 1e±12, against 200 digits."""
    found, statuses, calls = Figure(), Counter[str](), 0
    for one in map(weighted_truth.drawn, range(draws * seed, draws * (seed + 1))):
        for method in methods:
            result = tb.solve(one.problem, method, max_time=10.0)
            false = weighted_truth.wrong_words(one, result)
            found.misses += [f"  {one.what}, {method} {result.status}: {word}" for word in false]
            found.off += weighted_truth.is_off(one, result)
            statuses[result.status] += 1
            calls += 1
    found.said = (
        f"weights: {draws} draws, {calls} calls by {', '.join(methods)}: {len(found.misses)} false "
        f"words, {found.off} solved with f off ({_listed(statuses)})"
    )
    return found


def units(draws: int, seed: int) -> Figure:
    """Chains with such weights and units, against fractions."""
    found = Figure()

    def check(verdict: Verdict) -> None:
        found.misses += [str(verdict)] if verdict.false else []

    tally = tallied(extremes.problems(), draws, 10_000 * seed, check)
    found.off = len(tally.off)
    found.said = f"units: {draws} draws, {len(found.misses)} false words, {found.off} solved with "
    found.said += f"f off ({_listed(Counter(v.status for v in tally.verdicts))})"
    return found


def existence(draws: int, seed: int) -> Figure:
    """Problems without a minimiser: no success. As many with one: none denied, few in doubt."""
    found = Figure()
    without, having = (
        list(islice(_answers(10_000 * seed, is_attained), draws)) for is_attained in (False, True)
    )
    false = [one for one in without if one[0].success or not _is_shown(*one[:3])]
    denied = [one for one in having if one[0].status in ("unbounded", "infeasible")]
    doubted = [one for one in having if one[0].status == "undetermined"]
    found.misses = [f"  {where}: {r.status}, {r.message}" for r, _, _, where in [*false, *denied]]
    found.misses += ["  too many in doubt"] * (len(doubted) > draws // 20)
    found.said = (
        f"existence: {draws} without a minimiser: {sum(r.success for r, *_ in without)} successes, "
        f"{len(false)} false ({_listed(Counter(r.status for r, *_ in without))}); {draws} with "
        f"one: {len(denied)} unbounded, {len(doubted)} undetermined "
        f"({_listed(Counter(r.status for r, *_ in having))})"
    )
    return found


def _answers(start: int, is_attained: bool) -> Any:
    """Result, problem, level and where it stands, of one draw after the other."""
    for seed in count(start):
        case = attained.draw(seed, is_attained)
        result, problem, level = attained.answer(*case)
        if result is not None:  # else it cannot be said in CVXPY's words
            yield result, problem, level, f"draw {seed}, {case[3]}, attained: {is_attained}"


def _is_shown(result: Any, problem: Any, level: int) -> bool:
    """Does a result that says unbounded have a direction that shows it?"""
    if result.status != "unbounded" or problem is None:
        return True
    is_chain = isinstance(problem, tb.Levels)
    direction = result.direction if is_chain else result.findings.direction
    return is_direction_of_descent(problem, level, direction)


def one_hot(draws: int, seed: int) -> Figure:
    """One-hot designs, all criteria: the least coefficients, and flat criteria are called so."""
    found, longest, flat = Figure(), 0.0, 0
    for number in range(draws * seed, draws * (seed + 1)):
        design = Design(number)
        for prefer in PREFER:
            model, (coef, is_flat) = design.fitted(prefer), design.truth(prefer)
            got = np.ravel(model.coef_)
            ratio = (np.linalg.norm(got) - 1e-7) / max(np.linalg.norm(coef), 1e-300)
            longest, flat = max(longest, float(ratio)), flat + is_flat
            scores, best = design.X @ got, design.X @ coef
            apart = np.max(np.abs(scores - scores.mean() - best + best.mean()))
            said = [name for name in (FLAT, INTERPOLATED) if name in model.report_]
            if ratio > 1.001 or apart > 1e-5 or said != [FLAT] * is_flat:
                what = f"{ratio:.6g} times as long, fits {apart:.2g} apart, flat {is_flat}: {said}"
                found.misses.append(f"  design {number}, {prefer}: {what}")
    found.said = (
        f"onehot: {draws} designs, {draws * len(PREFER)} fits: |coef| at most {longest:.6f} times "
        f"the least, {flat} flat criteria, {len(found.misses)} wrong or not named"
    )
    return found


def _by_tests(name: str, *files: str) -> Callable[[int, int], Figure]:
    """The cases of these tests, which are no draws."""

    def run(draws: int, seed: int) -> Figure:
        options = ["--prove", "-p", "no:cacheprovider", *(str(TESTS / file) for file in files)]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options], capture_output=True, text=True, check=False
        )
        *before, last = done.stdout.strip().splitlines()
        return Figure(f"{name}: {last}", before if done.returncode else [])

    return run


CLAIMS: dict[str, Callable[[int, int], Figure]] = {
    "weights": weights,
    "units": units,
    "existence": existence,
    "onehot": one_hot,
    "evidence": _by_tests("evidence", "truth/test_wrong_evidence.py"),
    "subclasses": _by_tests(
        "subclasses", "truth/test_overridden.py", "contracts/test_subclasses.py"
    ),
}


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{word} {number}" for word, number in sorted(counts.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="What is claimed, counted.")
    parser.add_argument("--of", choices=CLAIMS, required=True)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    figure = CLAIMS[options.of](options.draws, options.seed)
    print(figure)
    raise SystemExit(bool(figure.misses))


if __name__ == "__main__":
    main()
