"""python -m truth.count --seed S --draws N: draws against the truth, with all that is false.

Run with the folder of the tests and that of a source tree on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from truth import balls, draws, extremes
from truth.cases import Case
from truth.judge import Tally, Verdict, judged

STRATEGIES = {
    "polyhedra": draws.problems(),
    "balls": balls.problems(),
    "extremes": extremes.problems(),  # weights of 1e14, units of 1e±12
}
# Hypothesis begins with the simplest case, which is always the same and is left out, and varies
# what it has drawn before after ten: more seeds give draws that do not depend on each other.
CHUNK = 9


def tallied(
    strategy: SearchStrategy[Case],
    number: int,
    start: int,
    check: Callable[[Verdict], None],
    *,
    shrink: bool = False,
) -> Tally:
    """The verdicts on so many draws, from seed ``start`` on; ``check`` sees each of them.

    Where it raises and ``shrink`` is true, hypothesis looks for a simpler case that raises, too.
    """
    tally = Tally()

    def run(case: Case) -> None:
        verdicts = judged(case)
        tally.add(verdicts)
        for verdict in verdicts:
            check(verdict)

    _draw(strategy, number, start, run, shrink)
    return tally


def cases(strategy: SearchStrategy[Case], number: int, start: int) -> list[Case]:
    """So many draws, from seed ``start`` on."""
    found: list[Case] = []
    _draw(strategy, number, start, found.append, shrink=False)
    return found


def _draw(
    strategy: SearchStrategy[Case],
    number: int,
    start: int,
    run: Callable[[Case], None],
    shrink: bool,
) -> None:
    is_simplest = True

    def run_others(case: Case) -> None:
        nonlocal is_simplest
        if is_simplest:
            is_simplest = False
        else:
            run(case)

    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    for chunk in range(-(-number // CHUNK)):
        is_simplest = True
        options = settings(
            max_examples=1 + min(CHUNK, number - chunk * CHUNK),
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )
        seed(start + chunk)(options(given(strategy)(run_others)))()


class Found(Exception):
    """What was looked for, in its simplest case."""


def find(strategy: SearchStrategy[Case], number: int, start: int, text: str) -> str:
    """The simplest case of which this is said; nothing where no draw is one."""

    def check(verdict: Verdict) -> None:
        if any(text in said for said in (verdict.ending, *verdict.kinds)):
            raise Found(verdict)

    try:
        tallied(strategy, number, start, check, shrink=True)
    except Found as found:
        return str(found)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws against the truth, and all that is false.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--of", choices=STRATEGIES, default="polyhedra")
    parser.add_argument("--all", action="store_true", help="show what is off or lost, too")
    parser.add_argument("--find", help="a complaint, or 'failed where optimal': its simplest case")
    options = parser.parse_args()

    def show(verdict: Verdict) -> None:
        if verdict.is_bad or (options.all and verdict.is_doubtful):
            print(verdict, flush=True)

    strategy = STRATEGIES[options.of]
    began, start = time.process_time(), 10_000 * options.seed
    if options.find:
        print(find(strategy, options.draws, start, options.find))
    else:
        print(tallied(strategy, options.draws, start, show).table())
    print(f"  {time.process_time() - began:.0f} s of the processor")


if __name__ == "__main__":
    main()
