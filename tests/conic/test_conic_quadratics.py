"""Quadratic functions as squares: what the factorisation rounds is part of what is proved."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

import tiebreak as tb

Count = Callable[[int, int], int]


def least(Q: Any, c: Any) -> tuple[list[Fraction], Fraction]:
    """The minimiser of ½x'Qx + <c, x> and its value, by elimination with fractions."""
    n = len(c)
    M = [[Fraction(float(v)) for v in Q[i]] + [-Fraction(float(c[i]))] for i in range(n)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(M[k][i]))
        M[i], M[p] = M[p], M[i]
        for k in range(n):
            if k != i:
                f = M[k][i] / M[i][i]
                M[k] = [a - f * b for a, b in zip(M[k], M[i], strict=True)]
    x = [M[i][n] / M[i][i] for i in range(n)]
    return x, sum((v * Fraction(float(w)) for v, w in zip(x, c, strict=True)), Fraction(0)) / 2


def test_intervals_of_quadratics(count: Count) -> None:
    total, wrong, proved = count(30, 300), [], 0
    for seed in range(total):
        rng = np.random.default_rng(seed)
        n, decades = int(rng.integers(2, 6)), rng.uniform(0, 12)
        U = np.linalg.qr(rng.standard_normal((n, n)))[0]
        if seed % 5 == 0:
            U = np.eye(n)
        Q = (U * 10.0 ** (-decades * np.linspace(0, 1, n))) @ U.T
        Q = (Q + Q.T) / 2
        c = Q @ rng.standard_normal(n)
        x, value = least(Q, c)
        size = 2.0 * float(sum(map(abs, x))) + 1.0
        first = tb.Level(tb.Quadratic(sp.csr_array(Q) if seed % 3 == 0 else Q, c), "first")
        domain = tb.Ball(size) if seed % 2 else tb.Space()
        levels = tb.Levels(
            first, tb.Linear(np.ones(n)), tb.SquaredNorm(), domain=domain, radius=size
        )
        report = tb.solve(levels).levels["first"]
        proved += report.word == "proved"
        if not Fraction(report.best[0]) <= value <= Fraction(report.best[1]):
            wrong.append((seed, decades, report))
    print(f"{total} quadratics, {proved} proved, wrong: {wrong}")  # with pytest -s
    assert not wrong
    assert proved >= 0.5 * total
