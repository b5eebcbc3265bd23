"""The cost of prox_cut in passes, one pass being the time of ``v + c``.

    python benchmarks/prox_cut.py [--n 1000000] [--repeats 3] [--pair L1-GroupL2]

Cold: no guess.  Warm: the guess is the multiplier of the same problem with v slightly moved.
Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
from collections.abc import Iterator

import numpy as np
from project_cut import COLD_LIMIT, WARM_LIMIT, Vector, data, fastest

from tiebreak import domains
from tiebreak.penalties import L1, L2, ElasticNet, GroupL2, Indicator, Joint, Penalty, Zero, joint
from tiebreak.prox_cuts import prox_cut

A = 0.7


def pairs(n: int) -> Iterator[tuple[str, Joint]]:
    """Every pair of penalties, and each with the sets that it goes with."""
    rng = np.random.default_rng(0)
    groups = rng.integers(-1, n // 10, n)
    norms: dict[str, Penalty] = {
        "Zero": Zero(),
        "L1": L1(0.5),
        "L2": L2(0.3 * n**0.5),
        "ElasticNet": ElasticNet(0.3, 0.5),
        "GroupL2": GroupL2(groups, 1.0),
    }
    for first, f2 in norms.items():
        for second, g2 in norms.items():
            yield f"{first}-{second}", joint(f2, g2)
    few = GroupL2(np.sort(groups) // (n // 50), 1.0)
    yield "GroupL2-GroupL2, few", joint(few, few)
    lower = -rng.exponential(size=n)
    box = Indicator(domains.Box(lower, lower + rng.exponential(size=n)))
    for name, norm in norms.items():
        if name != "Zero":
            yield f"{name}-Orthant", joint(norm, Indicator(domains.Orthant()))
            yield f"Orthant-{name}", joint(Indicator(domains.Orthant()), norm)
            yield f"{name}-Ball", joint(norm, Indicator(domains.Ball(0.3 * n**0.5)))
            yield f"Ball-{name}", joint(Indicator(domains.Ball(0.3 * n**0.5)), norm)
        if name in ("L1", "ElasticNet"):
            yield f"{name}-Box", joint(norm, box)
            yield f"Box-{name}", joint(box, norm)


def level_between(pair: Joint, v: Vector, c: Vector, share: float) -> float:
    """A level some way between what the prox at mu = 0 has and what can be reached."""
    z = pair.prox(v, A, 0.0)
    here = float(c @ z) + pair.lower.value(z)
    least = pair.lower.least(c)[0]
    if not np.isfinite(least):
        least = here - float(np.abs(c) @ np.abs(v))
    return here - share * (here - least)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pair", help="only this pair")
    options = parser.parse_args()
    n, repeats = options.n, options.repeats
    rng = np.random.default_rng(2)
    print(f"passes of prox_cut, n = {n}; limits {COLD_LIMIT:.0f} cold, {WARM_LIMIT:.0f} warm")
    print(f"{'pair':23} {'cold':>7} {'on':>12} {'at':>5}   {'warm':>7} {'on':>12} {'at':>5}")
    worst = {"cold": 0.0, "warm": 0.0}
    for name, pair in pairs(n):
        if options.pair not in (None, name):
            continue
        rows: dict[str, tuple[float, str, float]] = {"cold": (0.0, "", 0.0), "warm": (0.0, "", 0.0)}
        for label, v, c in data(n):
            for share in (0.01, 0.5, 0.99):
                beta = level_between(pair, v, c, share)
                guess = prox_cut(pair, v + 1e-3 * rng.normal(size=n), A, c, beta)[1]
                one_pass = fastest(lambda v=v, c=c: v + c, 5 * repeats)  # type: ignore[misc]
                for kind, start in (("cold", None), ("warm", guess)):

                    def task(
                        v: Vector = v,
                        c: Vector = c,
                        beta: float = beta,
                        start: float | None = start,
                    ) -> object:
                        return prox_cut(pair, v, A, c, beta, start)  # noqa: B023

                    rows[kind] = max(rows[kind], (fastest(task, repeats) / one_pass, label, share))
        cells = [f"{p:7.0f} {label:>12} {share:5.2f}" for p, label, share in rows.values()]
        print(f"{name:23} " + "   ".join(cells), flush=True)
        worst = {kind: max(worst[kind], rows[kind][0]) for kind in worst}
    return int(worst["cold"] > COLD_LIMIT or worst["warm"] > WARM_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
