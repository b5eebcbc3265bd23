"""How many planted problems a method takes, and how many it proves within a weak tolerance.

    PYTHONPATH=src:tests python tests/planted/certified_share.py --methods r-apm bi-sg

prints a line for each method: accepted, certified, wrong. "Wrong" counts every statement that the
planted answer contradicts: an interval, a gap or a certificate, beyond the rounding of the values.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from planted.smooth import EPS, Planted, planted

import tiebreak as tb
from tiebreak.driver.registry import find_method


class Share(NamedTuple):
    """Of a method, over some planted problems."""

    accepted: int
    certified: int
    wrong: list[str]

    def __str__(self) -> str:
        part = 100.0 * self.certified / max(self.accepted, 1)
        counts = f"accepted {self.accepted}, certified {self.certified} ({part:.0f} %)"
        return f"{counts}, wrong {len(self.wrong)}"


def promised(p: Planted) -> dict[str, Any]:
    """What a user may promise of this problem, truly: a radius, for every other seed."""
    return {"radius": 1.01 * float(np.linalg.norm(p.x_star)) + p.unit} if p.seed % 2 else {}


@functools.lru_cache(maxsize=256)  # several methods share what is known of a problem
def problem_of(seed: int) -> tb.Problem:
    """Planted problem number ``seed``, with what is promised of it."""
    return planted(seed).problem(**promised(planted(seed)))


def false_claims(p: Planted, result: tb.Result) -> list[str]:
    """What a result says and is not so."""
    f, g = p.f(result.x), p.g(result.x)
    of_f = 8 * EPS * (p.f_scale + abs(f))
    of_g = 8 * EPS * (p.g_scale + abs(g))
    (f_low, f_high), (g_low, g_high) = result.upper_optimum, result.lower_optimum
    claims = {
        "f*": f_low - of_f <= p.f_star <= f_high + of_f,
        "g*": g_low - of_g <= p.g_star <= g_high + of_g,
        "gap of f": f - p.f_star <= result.upper_gap + of_f,
        "gap of g": g - p.g_star <= result.lower_gap + of_g,
        "error of f": abs(f - p.f_star) <= result.upper_error + of_f,
    }
    if result.status == "certified":
        upper, lower = result.tolerance
        claims["certified"] = f - p.f_star <= upper + of_f and g - p.g_star <= lower + of_g
    if result.status in ("unbounded", "infeasible"):
        claims[result.status] = False  # each of them has a solution
    return [f"{p.seed}, {p.kind}: {claim}" for claim, holds in claims.items() if not holds]


def share(method: Any, seeds: Iterable[int], steps: int = 1000, rtol: float = 1e-2) -> Share:
    """Runs of a method, or of one by its name, with criterion="weak"."""
    accepted = certified = 0
    wrong: list[str] = []
    for p in map(planted, seeds):
        problem = problem_of(p.seed)
        if find_method(method, problem).refusal(problem):
            continue
        result = tb.solve(problem, method, x0=p.x0, criterion="weak", rtol=rtol, max_iter=steps)
        accepted += 1
        certified += result.status == "certified"
        wrong += false_claims(p, result)
    return Share(accepted, certified, wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", required=True, help="names that solve() knows")
    parser.add_argument("--seed", type=int, default=0, help="the first planted problem")
    parser.add_argument("--count", type=int, default=208)
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.count)
    for name in given.methods:
        found = share(name, seeds, given.steps)
        print(f"{name:<14} {found}", *found.wrong, sep="\n    ", flush=True)
