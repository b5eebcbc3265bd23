"""The races of the paper's two figures, with the parameters of its last appendix.

In addition to races on the paper's own instances, there are *checks*: they repeat a race with one
setting varied (a step size by a factor of ten, the starts, the split of the data) and are judged
against the same claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.algorithms import (
    AIRG,
    PBAPG,
    RAPM,
    SEA,
    AGMBiO,
    BisecBiO,
    BiSG,
    CGBiO,
    GivenLevels,
)
from tiebreak.catalog.built import Built
from tiebreak.catalog.instances import instance
from tiebreak.driver.solve import solve
from tiebreak.exact.method import Exact
from tiebreak.experiments.claims import AGM, BISECTION
from tiebreak.experiments.compare import reference
from tiebreak.experiments.race import Entrant, Record, race
from tiebreak.experiments.scenes import TAIL, Facts
from tiebreak.linalg import Array
from tiebreak.problem import Problem

# Numbers of steps in figure 1, for the paper's instance (eta = 1/(K+1) = 1.25e-5), for the variant
# with ties, and for other splits of the data.
FULL, QUICK = (79_999, 20_000, 5_000), (8_000, 8_000, 500)
Say = Callable[[str], None]


@dataclass
class Experiment:
    """The results that a reproduction has so far; the report is made from them."""

    name: str
    title: str
    rows: list[Record] = field(default_factory=list)
    facts: dict[str, Facts] = field(default_factory=dict)
    # by instance and method: the parameters of its runs, each once
    parameters: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def run(
        self, built: Built, entrants: Sequence[Entrant], steps: int, name: str, tail: float = 1.0
    ) -> list[Record]:
        """Run a race; add each method's first row and those in the last ``tail`` of its steps."""
        rows = _race(built, entrants, steps, self.name, name)
        self.rows += _ends(rows, tail)
        scene = name.partition(", seed ")[0]
        known = self.parameters.setdefault(scene, {})
        for each in entrants:
            texts = known.setdefault(each.label, [])
            if (text := _parameters(each, built.problem)) not in texts:
                texts.append(text)
        return rows

    def vary(
        self,
        base: Sequence[Record],
        built: Built,
        entrants: Sequence[Entrant],
        steps: int,
        name: str,
    ) -> None:
        """Repeat the race ``base``, with the given entrants in place of their namesakes."""
        varied, checks = {entrant.label for entrant in entrants}, f"{self.name} checks"
        others = (row for row in base if row.method not in varied)
        rows = [row._replace(experiment=checks, instance=name) for row in others]
        self.rows += _ends([*rows, *_race(built, entrants, steps, checks, name)], TAIL)


def _race(
    built: Built, entrants: Sequence[Entrant], steps: int, experiment: str, name: str
) -> list[Record]:
    assert built.answer is not None
    return race(
        built.problem, entrants, built.answer,
        x0=built.x0, steps=steps, experiment=experiment, instance=name,
    )  # fmt: skip


def _ends(rows: Sequence[Record], tail: float) -> list[Record]:
    """Return, for every method, the first row and the rows in the last ``tail`` of its steps."""
    last = {row.method: row.iteration for row in rows}
    return [
        row
        for row in rows
        if row.iteration == 0 or row.iteration >= (1.0 - tail) * last[row.method]
    ]


def _parameters(entrant: Entrant, problem: Problem) -> str:
    """Return the method's own description, and the call that constructs the method."""
    where = f"; measured at {entrant.words}" if entrant.point is not None else ""
    return f"{entrant.method.describe(problem)}{where}: `{entrant.method!r}`"


# -- figure 1 -------------------------------------------------------------------------------------


def regression_entrants(problem: Problem, steps: int) -> list[Entrant]:
    """Return the seven methods of figure 1, and CG-BiO with its theorem's step sizes.

    R-APM uses the paper's step size 1e-4 if its condition, at most 1/(L_g + eta L_f), allows it;
    likewise SEA's lower step is at most 1/L_g.
    """
    L_f, L_g = problem.upper.lipschitz, problem.lower.lipschitz
    eta = 1.0 / (steps + 1)
    return [
        Entrant("a-IRG", AIRG(gamma_0=1e-3, eta_0=1e-3)),
        Entrant("CG-BiO", CGBiO(eps_f=1e-4, eps_g=1e-4, scale=1e-2)),
        Entrant("CG-BiO, 2/(k+2)", CGBiO(eps_f=1e-4, eps_g=1e-4)),
        Entrant("Bi-SG", BiSG(alpha=0.75, c=1e-2)),
        Entrant("SEA", SEA(upper_step=1e-4, lower_step=min(1e-4, 1.0 / L_g))),
        Entrant("R-APM", RAPM(eta=eta, step_size=min(1e-4, 1.0 / (L_g + eta * L_f)))),
        Entrant("PB-APG", PBAPG(penalty=1e4)),
        Entrant(AGM, AGMBiO(gamma=1e-2)),
    ]


def figure_1(data: Path | None, quick: bool, say: Say) -> Experiment:
    """Run the paper's regression, a variant with ties, and the checks on both."""
    steps, fewer, few = QUICK if quick else FULL
    paper = instance("regression", file=data)
    found = Experiment("fig1", f"Figure 1: regression on {paper.label}")
    for name, built, length in (
        ("75 % for training", paper, steps),
        ("25 % for training", instance("regression-few-rows", file=data), fewer),
    ):
        say(f"fig1, {name}: {length:,} steps of eight methods")
        built = _with_answer(found, name, built)
        rows = found.run(built, regression_entrants(built.problem, length), length, name)
        varied = {
            "gamma = 0.001": AGMBiO(gamma=1e-3),
            "gamma = 0.1": AGMBiO(gamma=1e-1),
        }
        if math.isfinite(found.facts[name].lower_optimum):
            exactly = GivenLevels(found.facts[name].lower_optimum)
            varied["levels given, g_k = g*"] = AGMBiO(gamma=1e-2, levels=exactly)
        for what, ours in varied.items():
            check = f"{name}, {what}"
            found.facts[check] = found.facts[name]
            found.vary(rows, built, [Entrant(AGM, ours)], length, check)
    for seed in (1, 2):
        name = f"75 % for training, split {seed}, {few:,} steps"
        say(f"fig1 checks, {name}")
        other = _with_answer(found, name, instance("regression", file=data, seed=seed))
        found.vary([], other, regression_entrants(other.problem, few), few, name)
    if found.facts["75 % for training"].dimension == 0:
        found.notes.append(
            "With 75 % for training, the lower level has a single minimiser, so there is nothing "
            "to select: |f - f*| is small wherever g - g* is, and methods that work almost only on "
            "g (R-APM and PB-APG, whose weights of f are 1/(K+1) and 1e-4) come out best at both "
            "levels. With 25 %, there is something to select."
        )
    return found


def _with_answer(found: Experiment, name: str, built: Built) -> Built:
    """Return the regression with the answer that Exact finds, and record its facts."""
    answer, source = reference(built.problem)
    known = replace(
        built, upper_optimum=answer.upper, lower_optimum=answer.lower, solution=answer.solution
    )
    shape = built.problem.lower.matrix.shape  # type: ignore[union-attr]
    facts = Facts.of(known, source, Entrant("Bisec-BiO", BisecBiO()))
    found.facts[name] = facts._replace(shape=shape)
    return known


# -- figure 2 -------------------------------------------------------------------------------------


class BiSGFromOne(BiSG):
    """Bi-SG with its steps counted from k = 1: the first upper step is c/2^alpha, not c."""

    def init(self, problem: Problem, x0: Array) -> Any:
        return super().init(problem, x0)._replace(k=1)


def inverse_gamma(problem: Problem, steps: int) -> float:
    """Return gamma = 1/((2 L_g/L_f) K^(2/3) + 2), from Theorem 2 with r = 2."""
    ratio = problem.lower.lipschitz / problem.upper.lipschitz
    return float(1.0 / (2.0 * ratio * steps ** (2.0 / 3.0) + 2.0))


def inverse_entrants(problem: Problem, steps: int) -> list[Entrant]:
    """Return the seven methods of figure 2; Bisec-BiO is also measured at its last iterate."""
    bisection = BisecBiO(eps_f=1e-4, eps_g=1e-4, gradients=100)
    lower_step = min(1e-2, 1.0 / problem.lower.lipschitz)  # equal for n = 100, up to rounding
    return [
        Entrant("a-IRG", AIRG(gamma_0=1e-2, eta_0=1e-2)),
        Entrant("Bi-SG", BiSG(alpha=0.75, c=1.0)),
        Entrant("SEA", SEA(upper_step=1e-2, lower_step=lower_step)),
        Entrant("R-APM", RAPM(eta=1.0 / (steps + 1))),
        Entrant("PB-APG", PBAPG(penalty=1e4)),
        Entrant("Bisec-BiO", bisection),
        Entrant(
            BISECTION,
            bisection,
            lambda state: bisection.points(state)["the last iterate"],
            "its last iterate",
        ),
        Entrant(AGM, AGMBiO(gamma=inverse_gamma(problem, steps))),
    ]


def figure_2(quick: bool, say: Say, steps: int = 1_000) -> Experiment:
    """Run the paper's inverse problem for n = 3 and n = 100 from several starts, and the checks."""
    seeds = range(3) if quick else range(10)
    found = Experiment("fig2", "Figure 2: linear inverse problem, Q = I, A = 1', b = 1")
    for n in (3, 100):
        say(f"fig2, n = {n}: {steps:,} steps of seven methods from {len(seeds)} starts")
        name = f"n = {n}"
        built = instance("inverse", n=n)
        found.facts[name] = Facts.of(built, "closed form", Entrant("CG-BiO", CGBiO()))
        for seed in seeds:
            built = instance("inverse", n=n, seed=seed)
            entrants = [*inverse_entrants(built.problem, steps), Entrant("Exact", Exact())]
            rows = found.run(built, entrants, steps, f"{name}, seed {seed}")
            if seed < 3:
                _inverse_checks(found, built, rows, steps, seed)
        found.notes.append(_limits(n, steps))
    _random_instances(found, say, range(5))
    return found


def _inverse_checks(
    found: Experiment, built: Built, base: Sequence[Record], steps: int, seed: int
) -> None:
    """Repeat the race ``base`` with one setting varied at a time."""
    n, gamma = built.variables, inverse_gamma(built.problem, steps)
    outside = Entrant(
        "Bi-SG", BiSG(alpha=0.75, c=1.0),
        lambda state: state.memory.alternation.g_out.at, "x_k, outside its theorem",
    )  # fmt: skip
    methods = {
        "gamma ten times larger": Entrant(AGM, AGMBiO(gamma=10.0 * gamma)),
        "gamma ten times smaller": Entrant(AGM, AGMBiO(gamma=0.1 * gamma)),
        "levels given, g_k = g*": Entrant(AGM, AGMBiO(gamma=gamma, levels=GivenLevels(0.0))),
        "Bi-SG counted from k = 1": Entrant("Bi-SG", BiSGFromOne(alpha=0.75, c=1.0)),
        "Bi-SG measured at x_k": outside,
    }
    for what, entrant in methods.items():
        name = f"n = {n}, {what}, seed {seed}"
        found.vary(base, built, [entrant], steps, name)
    rng = np.random.default_rng(seed)
    starts = {
        "starts |N(0, 1)|": np.abs(rng.standard_normal(n)),
        "starts uniform in [0, 10]": 10.0 * rng.random(n),
        "starts uniform in [0, 1/n]": rng.random(n) / n,
    }
    entrants = inverse_entrants(built.problem, steps)
    for what, x0 in starts.items():
        name = f"n = {n}, {what}, seed {seed}"
        found.vary([], replace(built, x0=x0), entrants, steps, name)


def _limits(n: int, steps: int) -> str:
    """Say where R-APM, PB-APG and Bi-SG end, using formulas that do not depend on our code.

    The minimiser of g + eta f is constant, x = 1/(n + eta): g - g* = ½(eta/(n + eta))². A lower
    step of 1/n makes the entries sum to one, and an upper step multiplies the part orthogonal to
    (1, ..., 1) by 1 - eta_k.
    """
    ends = {
        label: (0.5 * (eta / (n + eta)) ** 2, 0.5 / n - 0.5 * n / (n + eta) ** 2)
        for label, eta in (("R-APM", 1.0 / (steps + 1)), ("PB-APG", 1e-4))
    }
    text = "; ".join(f"{who}: g - g* = {g:.2e}, f* - f = {f:.2e}" for who, (g, f) in ends.items())
    shrunk = math.prod(1.0 - (k + 1.0) ** -0.75 for k in range(1, steps))
    return (
        f"Formulas give these limit points for n = {n}: {text}. Bi-SG's lower step 1/L_g = 1/n "
        "minimises g in one step if no entry is clipped, because g has one curved direction: "
        "g - g* = 0. Its upper step multiplies the part orthogonal to (1, ..., 1) by 1 - eta_k: "
        "with eta_0 = 1 nothing is left of it (x* is reached after two steps); if k counts from 1, "
        f"a share of {shrunk:.1e} of it is left after {steps:,} steps. So AGM-BiO cannot have the "
        "smallest errors with these parameters, in any implementation, unless "
        "Bi-SG is measured at x_k, outside its theorem."
    )


def _random_instances(found: Experiment, say: Say, seeds: Iterable[int]) -> None:
    """Run Exact on random Q, A, b; the width of its proved interval for f* is the error."""
    name = "random Q, A, b"
    say(f"fig2, {name}: Exact")
    for seed in seeds:
        built = instance("random-inverse", seed=seed)
        result = solve(built.problem, Exact())
        low, high = result.upper_optimum
        # Every seed has its own f* and g*: they are in the rows.
        found.facts[name] = Facts(built.label, source="by Exact", dimension=built.dimension)
        found.rows.append(Record(
            "fig2", f"{name}, seed {seed}", "Exact", result.nit, 0, result.time,
            result.upper_value, result.lower_value,
            high - low if math.isfinite(high - low) else math.nan,
            result.lower_gap, math.nan,
        ))  # fmt: skip
