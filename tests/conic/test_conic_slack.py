"""Slacks: what a level gave up, the price of a slack, and levels that have nothing in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from planted import chains, curves, faces
from planted.levels import Array, Block, Level, Leveled, NoReferenceError, least, program

import tiebreak as tb
from tiebreak.conic.chain import solve_chain

Count = Callable[[int, int], int]
TOLERANCE = 1e-7  # relative to the larger of 1 and of the level's size


def slack_of(rng: np.random.Generator) -> Callable[[float, float], float] | None:
    """None, absolute, relative to the best value, or a share of what was gained."""
    amount = 10.0 ** rng.uniform(-5, 0)
    return [
        None,
        lambda best, before: amount,
        lambda best, before: amount * abs(best),
        lambda best, before: amount * max(before - best, 0.0),
    ][int(rng.integers(4))]


def with_values(seed: int) -> tuple[Leveled, list[float]]:
    """A chain of at most three levels and its values when nothing is given up."""
    if seed % 5 < 2:
        chain = chains.solved(chains.drawn(seed))
        return replace(chain.problem, levels=chain.problem.levels[:3]), [
            float(v) for v in chain.values[:3]
        ]
    p = faces.mixed(seed)
    return replace(p.problem, levels=p.problem.levels[:3]), [float(v) for v in p.values[:3]]


def best_of(i: int, problem: Leveled, exact: list[float], heights: list[float], free: int) -> float:
    """The least value of level i below the heights of those before it; free is the first slack."""
    if i <= free:
        return exact[i]  # nothing was given up before it
    cuts = list(zip(problem.levels[:i], heights, strict=True))
    return least(problem.levels[i], problem, cuts).value


def test_what_a_level_gave_up(count: Count) -> None:
    total, wrong, failed, slacked, checked, unknown = count(15, 1000), [], [], 0, 0, 0
    wide = []  # a solver that stalled, and a result that says so by its error
    for seed in range(total):
        problem, exact = with_values(seed)
        rng = np.random.default_rng([20261117, 6, seed])
        slacks = [slack_of(rng) for _ in problem.levels[1:]]
        found = solve_chain(program(problem), slacks)
        if found.status != "solved":
            failed.append((seed, found.status, found.message))
            continue
        x, heights = found.z[: problem.n], []
        amounts = [part.slack for part in found.levels]
        free = next((i for i, amount in enumerate(amounts) if amount > 0.0), len(amounts))
        for i, (level, part) in enumerate(zip(problem.levels[:-1], found.levels, strict=False)):
            unit = max(1.0, abs(level.value(np.zeros(problem.n))), abs(part.best))
            if i > free and amounts[i - 1] == 0.0:
                break  # a cut of 0 is what no solver can be asked for
            try:
                best = best_of(i, problem, exact, heights, free)
            except NoReferenceError:
                unknown += 1
                break
            given = level.value(x) - best
            slacked, checked = slacked + (part.slack > 0.0), checked + 1
            off = max(given - part.slack, abs(part.best - best))
            if off > TOLERANCE * unit:
                found_by = wide if off <= part.error + TOLERANCE * unit else wrong
                found_by.append((seed, i, given, part.slack, part.best - best, part.error))
            heights.append(best + part.slack)
    print(f"{total} chains, {checked} levels checked, {slacked} with a slack, {unknown} unknown")
    print(f"not solved: {failed}; wrong: {wrong}; off, and within their errors: {wide}")
    assert not wrong
    assert len(wide) <= max(1, 0.005 * total)
    assert len(failed) <= max(1, 0.01 * total)  # where Clarabel alone fails as well, mostly
    assert unknown <= 0.02 * checked


def test_a_narrow_cut_is_not_taken_for_a_point() -> None:
    """Its cone is small, and Clarabel stalls: the level kept what it could have gained, 2e-4."""
    problem, exact = with_values(172)
    slack, two = 4.5e-5, replace(problem, levels=problem.levels[:2])
    best = least(two.levels[1], two, [(two.levels[0], exact[0] + slack)])
    first, second = solve_chain(program(two), [lambda *_: slack]).levels
    assert abs(second.best - best.value) <= 1e-8
    assert second.error <= 1e-6
    assert first.price == pytest.approx(best.prices[0], rel=1e-2)


def test_the_price_of_a_slack(count: Count) -> None:
    wrong, close, total = [], 0, count(8, 100)
    for seed in range(total):
        curve = curves.drawn(seed)
        g, f = curve.problem.levels
        best = least(g, curve.problem, []).value
        rise = max(g.value(least(f, curve.problem, []).x) - best, 1e-2 * max(1.0, best))
        slack = float(rise * 10.0 ** np.random.default_rng(seed).uniform(-3.0, -0.3))
        low, middle, high = (
            least(f, curve.problem, [(g, best + slack * (1.0 + h))]).value
            for h in (-0.01, 0.0, 0.01)
        )
        # The curve is convex: the price lies between the quotients to both sides.
        left, right = (low - middle) / (0.01 * slack), (middle - high) / (0.01 * slack)
        price = solve_chain(program(curve.problem), [lambda *_, d=slack: d]).levels[0].price
        assert price is not None
        off = max(0.99 * right - price, price - 1.01 * left)
        close += abs(price - 0.5 * (left + right)) <= 0.005 * (left + right) + 1e-6
        if off > 1e-6:
            wrong.append((seed, curve.lower, curve.upper, curve.domain, slack, price, left, right))
    print(f"{total} prices, {close} within 1 % of the central quotient, others at a kink; {wrong}")
    assert not wrong, wrong


def placed(level: Level, before: int, after: int) -> Level:
    """The level on some of more variables."""

    def wider(matrix: Array) -> Array:
        rows = np.atleast_2d(matrix)
        return np.hstack([np.zeros((len(rows), before)), rows, np.zeros((len(rows), after))])

    def pair(part: Any) -> Any:
        return None if part is None else (wider(part[0]), part[1])

    return replace(
        level,
        squares=pair(level.squares),
        l1=pair(level.l1),
        norm=pair(level.norm),
        linear=None if level.linear is None else wider(level.linear)[0],
    )


def side_by_side(first: Leveled, second: Leveled, last: Level) -> Leveled:
    """The first levels of two problems on separate variables, and one level on all of them."""
    n, m = first.n, second.n
    blocks = [
        *[Block(k, np.hstack([r, np.zeros((len(r), m))]), b) for k, r, b in first.blocks],
        *[Block(k, np.hstack([np.zeros((len(r), n)), r]), b) for k, r, b in second.blocks],
    ]
    levels = [placed(first.levels[0], 0, m), placed(second.levels[0], n, 0), last]
    return Leveled(n + m, levels, blocks, max(first.reach, second.reach))


@pytest.mark.parametrize("kind", ["chains", "polyhedra"])
def test_independent_levels_in_another_order(kind: str, count: Count) -> None:
    worst, wrong, total = 0.0, [], count(10, 100)
    for seed in range(total):
        draw = chains.drawn if kind == "chains" else lambda number: faces.mixed(number).problem
        first, second = draw(2 * seed), draw(2 * seed + 1)
        size = first.n + second.n
        point = np.random.default_rng(seed).normal(size=size)
        one = side_by_side(first, second, Level(squares=(np.eye(size), point)))
        other = replace(one, levels=[one.levels[1], one.levels[0], one.levels[2]])
        found = solve_chain(program(one), [None, None])
        swapped = solve_chain(program(other), [None, None])
        assert found.status == swapped.status == "solved", (seed, found.message, swapped.message)
        x, y = found.z[:size], swapped.z[:size]
        off = float(np.max(np.abs(x - y))) / max(1.0, float(np.max(np.abs(x))))
        for level in one.levels:
            off = max(off, abs(level.value(x) - level.value(y)) / max(1.0, abs(level.value(x))))
        worst = max(worst, off)
        if off > 1e-9:
            wrong.append((seed, off))
    print(f"{total} {kind}: largest change {worst:.1e}")  # with pytest -s
    assert not wrong, wrong


def test_slacks_are_what_was_asked_for() -> None:
    """½(x - 3)² + 2 from x = 0: best 2, before 6.5."""
    levels = [Level(squares=(np.eye(1), np.array([3.0])), constant=2.0), Level(linear=np.ones(1))]
    for rule, expected in [
        (lambda best, before: 0.125, 0.125),
        (lambda best, before: 0.25 * abs(best), 0.5),
        (lambda best, before: 0.1 * (before - best), 0.45),
    ]:
        found = solve_chain(program(Leveled(1, levels)), [rule])
        assert found.levels[0].slack == pytest.approx(expected, rel=1e-12)
        # x = 3 - sqrt(2 slack), and the price is 1 / sqrt(2 slack)
        assert found.z[0] == pytest.approx(3.0 - np.sqrt(2.0 * expected), abs=1e-8)
        assert found.levels[0].price == pytest.approx(1.0 / np.sqrt(2.0 * expected), rel=1e-6)


def test_a_constant_level_after_a_slack() -> None:
    """It changes nothing: x stays where the level before it left it."""
    one = np.eye(1)
    levels = [Level(squares=(one, np.ones(1))), Level(squares=(0.0 * one, np.ones(1)))]
    found = solve_chain(program(Leveled(1, levels)), [lambda *_: 0.1])
    assert levels[0].value(found.z) <= 0.1 + TOLERANCE


def test_a_slack_below_large_residuals_bounds_the_next_level() -> None:
    """The slope of a loss is known only up to the rounding of its residuals, and so is its cut."""
    excluded, proved = [], 0
    for seed in range(20):
        rng = np.random.default_rng([20261119, seed])
        a, other = np.linalg.qr(rng.standard_normal((6, 2)))[0].T
        b = a * rng.standard_normal() + 1e5 * other
        # x = <a, b>/|a|² minimises ½|a x - b|², and x falls by sqrt(2 slack)/|a| for the slack 1.
        exact = [[Fraction(float(v)) for v in part] for part in (a, b)]
        square = sum(v * v for v in exact[0])
        middle = sum(v * w for v, w in zip(*exact, strict=True)) / square
        fall = Fraction(Decimal(float(2 / square)).sqrt())  # 28 digits
        fall = (fall + 2 / square / fall) / 2
        fit = tb.Level(tb.LeastSquares(a[:, None], b), slack=1.0)
        found = tb.solve(tb.Levels(fit, tb.Linear([1.0]), domain=tb.Box([-10.0], [10.0])))
        level = found.levels["level 2"]
        proved += level.word == "proved"
        low, high = (Fraction(end) for end in level.best)
        if not low <= middle - fall <= high:
            excluded.append((seed, level.word, float(low - middle + fall), float(high - low)))
    assert not excluded
    assert proved >= 10


@pytest.mark.parametrize("domain", [None, tb.Ball(2.0), tb.Box([-1.0, -1.0], [1.0, 1.0])])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_level_whose_answer_is_zero_after_a_slack(domain: Any, size: float) -> None:
    """All terms of the conditions are 0 there: without a scale, rounding looks like an error."""
    fit = tb.Level(tb.LeastSquares(np.array([[1.0, 2.0]]) * size, [0.0]), slack=1e-3)
    found = tb.solve(tb.Levels(fit, tb.SquaredNorm(), domain=domain))
    assert found.status == ("solved" if domain is None else "certified")
    assert np.abs(found.x).max() <= 1e-9
