"""A problem twice: as a user writes it, and in fractions; and a call of solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from helpers import rational
from helpers.rational import Allowance, Objective, Region, Truth

import tiebreak as tb

NAMES = {"tb": tb, "np": np, "inf": np.inf}


@dataclass(frozen=True, eq=False)
class Zone:
    """A set: its code, and what it adds to a region."""

    kind: str
    code: str
    add: Callable[[Region], None]

    def __and__(self, other: Zone) -> Zone:
        def add(region: Region) -> None:
            self.add(region)
            other.add(region)

        return Zone(f"{self.kind} & {other.kind}", f"{self.code} & {other.code}", add)


@dataclass(frozen=True, eq=False)
class Aim:
    """A level: its code, the same in fractions, and what it may give up."""

    kind: str
    code: str
    objective: Objective
    absolute: float = 0.0
    relative: float = 0.0

    @property
    def allowance(self) -> Allowance:
        return Allowance(Fraction(self.absolute), Fraction(self.relative))

    @property
    def says_size(self) -> bool:
        """Does it have a vector, so that it says how many variables there are?"""
        return "[" in self.code

    @property
    def as_level(self) -> str:
        """With its slack, for `Levels`."""
        if not (self.absolute or self.relative):
            return self.code
        slack = f"tb.Slack(absolute={self.absolute!r}, relative={self.relative!r})"
        return f"tb.Level({self.code}, slack={slack})"

    def __add__(self, other: Aim) -> Aim:
        kind, code = f"{self.kind} + {other.kind}", f"{self.code} + {other.code}"
        return Aim(kind, code, self.objective + other.objective)


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """A chain, and how it is to be solved: printing it gives the call.

    ``start`` is "", "given" (x0), "answer" (the answer, rounded) or "warm": the second of two calls
    begins where the first, with a large tolerance, ended.
    """

    n: int
    zone: Zone
    aims: tuple[Aim, ...]
    rtol: float = 1e-4
    start: str = ""
    x0: tuple[float, ...] = ()
    methods: tuple[str, ...] = ("auto",)
    as_levels: bool = False

    @property
    def is_chain(self) -> bool:
        """Is it for `Levels`: more than two levels, slacks, or by choice?"""
        has_slack = any(aim.absolute or aim.relative for aim in self.aims)
        return self.as_levels or has_slack or len(self.aims) > 2

    @property
    def code(self) -> str:
        """The problem as a user writes it."""
        domain = f"domain={self.zone.code}"
        if self.is_chain:
            return f"tb.Levels({', '.join(a.as_level for a in self.aims)}, {domain})"
        lower, upper = (aim.code for aim in self.aims)
        return f"tb.Problem(lower={lower}, upper={upper}, {domain})"

    @property
    def kind(self) -> str:
        """In short: the set and the levels."""
        return f"{' > '.join(aim.kind for aim in self.aims)} on {self.zone.kind}"

    def call(self, method: str) -> str:
        """The call as a user writes it."""
        lines = [f"p = {self.code}"]
        more = "" if self.is_chain else f", max_iter={1000 if method == 'auto' else 100}"
        options = f"{method!r}, rtol={self.rtol!r}{more}"
        if self.start == "warm":
            first = f"tb.solve(p, rtol=0.1{more})"
            lines.append(f"first = {first}.x" if self.is_chain else f"first = {first}")
            options += ", x0=first"
        elif self.start:
            options += f", x0={list(self.start_point)}"
        return "\n".join([*lines, f"r = tb.solve(p, {options})"])

    @property
    def start_point(self) -> tuple[float, ...]:
        """Where it starts, as far as the caller says."""
        if self.start == "answer" and self.truth.x is not None:
            return tuple(map(float, self.truth.x))
        return self.x0 or (0.0,) * self.n

    def __repr__(self) -> str:
        return "\n" + "\n".join(self.call(method) for method in self.methods)

    def build(self) -> Any:
        """The problem; a ValueError where it is refused."""
        return eval(self.code, dict(NAMES))

    def run(self, method: str) -> Any:
        """Solve it."""
        scope = dict(NAMES)
        exec(self.call(method), scope)
        return scope["r"]

    @cached_property
    def length(self) -> Fraction:
        """How long x is, or what it is compared with in the levels: 1 where all of that is 0.

        A computed x can be no closer to the truth than some units of it.
        """
        sizes = [abs(t) for t in (*(self.truth.x or ()), *map(Fraction, self.x0))]
        for h in (aim.objective for aim in self.aims):
            terms = [t for t in (*h.squares, *h.absolutes, *h.hubers) if any(t.a)]
            sizes += [abs(t.b) / max(map(abs, t.a)) for t in terms]
        return max(sizes, default=Fraction(0)) or Fraction(1)

    @cached_property
    def region(self) -> Region:
        region = Region(self.n)
        self.zone.add(region)
        return region

    @cached_property
    def truth(self) -> Truth:
        """In fractions."""
        return rational.solve(self.region, [(a.objective, a.allowance) for a in self.aims])


# -- sets -----------------------------------------------------------------------------------------


def space() -> Zone:
    return Zone("Space", "tb.Space()", lambda region: None)


def orthant(n: int) -> Zone:
    return Zone("Orthant", "tb.Orthant()", lambda r: r.add_bounds([0.0] * n, [np.inf] * n))


def box(lower: list[float], upper: list[float]) -> Zone:
    return Zone("Box", f"tb.Box({lower}, {upper})", lambda r: r.add_bounds(lower, upper))


def simplex(n: int, total: float) -> Zone:
    def add(region: Region) -> None:
        region.add_bounds([0.0] * n, [np.inf] * n)
        region.add_equal([[1.0] * n], [total])

    return Zone("Simplex", f"tb.Simplex({total})", add)


def l1_ball(radius: float) -> Zone:
    return Zone("L1Ball", f"tb.L1Ball({radius})", lambda r: r.add_l1_ball(radius))


def monotone(n: int) -> Zone:
    rows = (-np.diff(np.eye(n), axis=0)).tolist()
    return Zone("Monotone", "tb.Monotone()", lambda r: r.add_below(rows, [0.0] * (n - 1)))


def halfspace(normal: list[float], offset: float) -> Zone:
    code = f"tb.Halfspace({normal}, {offset})"
    return Zone("Halfspace", code, lambda r: r.add_below([normal], [offset]))


def polyhedron(A: Any, b: Any, E: Any = (), e: Any = ()) -> Zone:
    parts = [f"{A}, {b}"] if len(A) else []
    parts += [f"A_eq={E}, b_eq={e}"] if len(E) else []

    def add(region: Region) -> None:
        region.add_below(A, b)
        region.add_equal(E, e)

    return Zone("Polyhedron", f"tb.Polyhedron({', '.join(parts)})", add)


# -- levels ---------------------------------------------------------------------------------------


def linear(c: list[float]) -> Aim:
    return Aim("Linear", f"tb.Linear({c})", rational.linear(c))


def least_squares(A: Any, b: Any, weights: Any = None, mean: bool = False) -> Aim:
    more = f", mean={mean}" if mean else ""
    more += f", weights={weights}" if weights else ""
    found = rational.least_squares(A, b, weights, mean)
    return Aim("LeastSquares", f"tb.LeastSquares({A}, {b}{more})", found)


def huber(A: Any, b: Any, delta: float, weights: Any = None) -> Aim:
    more = f", weights={weights}" if weights else ""
    found = rational.huber(A, b, delta, weights)
    return Aim("Huber", f"tb.Huber({A}, {b}, {delta}{more})", found)


def quadratic(Q: Any, c: Any) -> Aim:
    return Aim("Quadratic", f"tb.Quadratic({Q}, {c})", rational.quadratic(Q, c))


def squared_norm(n: int, weight: Any, center: Any = None) -> Aim:
    found = rational.squared_norm(n, weight, center)
    return Aim("SquaredNorm", f"tb.SquaredNorm({weight}, {center})", found)


def l1(n: int, weight: Any, center: Any = None, operator: Any = None) -> Aim:
    found = rational.l1(n, weight, center, operator)
    more = "" if operator is None else f", {operator}"
    kind = "L1" if operator is None else "L1(operator)"
    return Aim(kind, f"tb.L1({weight}, {center}{more})", found)


def total_variation(n: int, weight: float) -> Aim:
    found = rational.total_variation(n, weight)
    return Aim("TotalVariation", f"tb.TotalVariation({weight})", found)


def elastic_net(n: int, first: float, second: float) -> Aim:
    found = rational.l1(n, first) + rational.squared_norm(n, second)
    return Aim("ElasticNet", f"tb.ElasticNet({first}, {second})", found)
