"""Chains of quadratic levels on R^n, solved through null spaces in rational arithmetic.

Data are multiples of a power of two, and matrices of a lower rank are exact products: the ranks are
what they look like, and a linear term lies exactly in the rows that bound it. So the values of all
levels, and x where there is one only, are known without any rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from planted.adversary import dot, rational, solution
from planted.levels import Array, Level, Leveled


@dataclass(frozen=True)
class Chain:
    """A problem and its answers: values, what is left to choose after each, and x if unique."""

    problem: Leveled
    values: list[Fraction]
    sizes: list[float]  # of each level: max of |value| and of the level at the origin
    dimensions: list[int]
    x: list[Fraction] | None


def whole(rng: np.random.Generator, *shape: int, bits: int = 6) -> Array:
    """Random multiples of 1/16 of about one."""
    return np.asarray(rng.integers(-(2**bits), 2**bits + 1, shape) / 16.0)


def matrix(rng: np.random.Generator, rank: int, above: Array, spread: int) -> tuple[Array, Array]:
    """A matrix of this rank and the rows that it is made of, one of them often of those above."""
    n = above.shape[1]
    tall = rank + int(rng.integers(0, 4))
    basis = whole(rng, rank, n)
    if len(above) and rng.random() < 0.5:  # overlaps with what an earlier level holds
        basis[0] = rng.integers(-2, 3, len(above)) @ above / 4.0
    mixed = rng.integers(-3, 4, (tall, rank)).astype(float)
    mixed[:rank] += 8.0 * np.eye(rank)  # its rank is full
    weights = 2.0 ** rng.integers(-spread, spread + 1, tall)
    return weights[:, None] * (mixed @ basis), basis


def drawn(seed: int) -> Leveled:
    """Chain number ``seed``: 2 to 5 levels, each bounded below on the minimisers before it."""
    rng = np.random.default_rng([20261117, 1, seed])
    n, count = int(rng.integers(3, 13)), 2 + seed % 4
    columns = 2.0 ** rng.integers(-5, 6, n) if seed % 3 == 0 else np.ones(n)
    levels: list[Level] = []
    above = np.zeros((0, n))
    for i in range(count):
        rank = int(rng.integers(1, max(2, n // count + 1)))
        if i == count - 1 and rng.random() < 0.5:
            rank = n  # one answer
        F, basis = matrix(rng, rank, above, 5 if seed % 5 == 4 else 1)  # 1e3 between two rows
        above = np.vstack([above, basis])
        scale = 2.0 ** int(rng.integers(-5, 6)) if seed % 2 else 1.0  # 1e3 between two levels
        t = scale * whole(rng, len(F))
        if rng.random() < 0.2:
            t = scale * F @ whole(rng, n)  # a level that reaches 0
        q = None
        if rng.random() < 0.4:  # in the rows that are held then, and of the size of F't
            q = scale**2 * columns * (rng.integers(-2, 3, len(above)) @ above)
        level = Level(squares=(scale * F * columns, t), linear=q)
        levels.append(replace(level, constant=float(rng.integers(-2, 3))))
    return Leveled(n, levels)


def solved(problem: Leveled) -> Chain:
    """Every level over the minimisers of those before it: x = point + basis w, in rationals."""
    n = problem.n
    point = [Fraction(0)] * n
    basis = [[Fraction(int(i == j)) for j in range(n)] for i in range(n)]  # its rows
    values, sizes, dimensions = [], [], []
    for level in problem.levels:
        assert level.squares is not None
        F, t = rational(level.squares[0]), rational(level.squares[1])
        q = [Fraction(0)] * n if level.linear is None else rational(level.linear)
        images = [[dot(row, d) for row in F] for d in basis]  # F d for every direction
        off = [b - dot(row, point) for row, b in zip(F, t, strict=True)]
        normal = [[dot(a, b) for b in images] for a in images]
        right = [dot(a, off) - dot(q, d) for a, d in zip(images, basis, strict=True)]
        found = solution(normal, right, len(basis))
        assert found is not None, "a level is not bounded below"
        w, null = found
        point = [
            v + sum((c * d[j] for c, d in zip(w, basis, strict=True)), Fraction(0))
            for j, v in enumerate(point)
        ]
        basis = [
            [sum((c * d[j] for c, d in zip(v, basis, strict=True)), Fraction(0)) for j in range(n)]
            for v in null
        ]
        values.append(level.exact(point))
        sizes.append(max(abs(float(values[-1])), abs(level.value(np.zeros(n)))) or 1.0)
        dimensions.append(len(basis))
    return Chain(problem, values, sizes, dimensions, None if basis else point)
