"""Problems whose rows and columns differ by many orders of magnitude, solved in 200 digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

import tiebreak as tb

DIGITS = 200
WEIGHTS = (1.0, 2.0, 1e-3, 1e3, 1e7, 1e9, 1e11, 1e12, 1e13, 1e14)
UNITS = (1e-12, 1e-6, 1.0, 1e6, 1e12)


class Drawn(NamedTuple):
    """A problem, and f* and g* in 200 digits."""

    problem: tb.Problem
    what: str
    upper: Any
    lower: Any


def drawn(seed: int) -> Drawn:
    """The nearest minimiser of a weighted loss, which always has one; Z does not matter to it."""
    rng = np.random.default_rng([30, seed])
    n, m = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    units = rng.choice(UNITS, n) if rng.random() < 0.6 else np.ones(n)
    A = rng.integers(-2, 3, (m, n)).astype(float)
    A[0, 0] = 1.0  # something depends on x
    if rng.random() < 0.5:
        A[:, -1] = A[:, 0]
    A = A / units
    A, m = np.vstack([A, A]), 2 * m  # with opposite answers: every loss has a minimum
    weights = rng.choice(WEIGHTS, m) if rng.random() < 0.8 else np.ones(m)
    kind = str(rng.choice(["squares", "logistic", "poisson"]))
    y = {
        "squares": rng.integers(-3, 4, m).astype(float),
        "logistic": np.repeat([1.0, -1.0], m // 2),
        "poisson": rng.integers(1, 5, m).astype(float),
    }[kind]
    losses = {"squares": tb.LeastSquares, "logistic": tb.Logistic, "poisson": tb.Poisson}
    sums = {} if kind == "squares" else {"mean": False}
    g = losses[kind](A, y, weights=weights, **sums)
    center, price = rng.integers(-2, 3, n) * units, 1.0 / units**2
    f = tb.SquaredNorm(price, center)
    with mp.workdps(DIGITS):
        x, lower = _minimiser(kind, A, y, weights, center, price)
        upper = sum(_m(p) * (t - _m(c)) ** 2 for p, t, c in zip(price, x, center, strict=True)) / 2
        far = [float(10 * abs(t)) + 10 * unit for t, unit in zip(x, units, strict=True)]
    sets = {
        "space": tb.Space(),
        "box": tb.Box(-np.array(far), np.array(far)),
        "rows": tb.Polyhedron(np.diag(1.0 / units), np.array(far) / units),
        "ball": tb.Ball(float(np.linalg.norm(far))),
    }
    Z = str(rng.choice(list(sets)))
    problem = tb.Problem(upper=f, lower=g, domain=sets[Z])
    return Drawn(problem, f"seed {seed}: {kind} {m} x {n} on {Z}", upper, lower)


def _m(number: float) -> Any:
    return mp.mpf(float(number))


def _minimiser(
    kind: str, A: Any, y: Any, weights: Any, center: Any, price: Any
) -> tuple[list[Any], Any]:
    """The minimiser of the loss that is nearest to the center in the metric of the prices; g*."""
    rows = _basis([[Fraction(float(a)) for a in row] for row in A])
    R = mp.matrix([[mp.mpf(t.numerator) / t.denominator for t in row] for row in rows])
    D = mp.diag([1 / _m(p) for p in price])
    c = mp.matrix([_m(t) for t in center])
    B = mp.matrix(A.tolist()) * D * R.T  # x = center + D R'z: the nearest of all with its images
    start = mp.matrix(A.tolist()) * c

    def at(z: Any) -> tuple[Any, Any, Any]:
        value, slope, H = mp.mpf(0), mp.matrix(R.rows, 1), mp.matrix(R.rows, R.rows)
        images = start + B * z
        for i, t in enumerate(images):
            v, first, second = _loss(kind, t, _m(y[i]))
            w, b = _m(weights[i]), B[i, :].T
            value, slope, H = value + w * v, slope + w * first * b, H + w * second * b * b.T
        return value, slope, H

    z = mp.matrix(R.rows, 1)
    for _ in range(500):
        value, slope, H = at(z)
        step = mp.lu_solve(H, -slope)
        if -(slope.T * step)[0] < mp.mpf(10) ** -100 * (abs(value) + 1):
            break
        change = max(abs(t) for t in B * step)  # of margins: beyond 1 the model says little
        z = z + (step if kind == "squares" else step / max(1, change))
    else:
        raise ArithmeticError("no truth")
    return list(c + D * R.T * z), at(z)[0]


def _loss(kind: str, t: Any, y: Any) -> tuple[Any, Any, Any]:
    """Value, slope and curvature."""
    if kind == "squares":
        return (t - y) ** 2 / 2, t - y, mp.mpf(1)
    if kind == "logistic":
        p, q = 1 / (1 + mp.exp(y * t)), 1 / (1 + mp.exp(-y * t))
        return mp.log1p(mp.exp(-y * t)), -y * p, p * q
    return mp.exp(t) - y * t + y * mp.log(y) - y, mp.exp(t) - y, mp.exp(t)


def _basis(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """Of the rows' space, in fractions."""
    found: list[list[Fraction]] = []
    for row in rows:
        for other in found:
            lead = next(j for j, t in enumerate(other) if t)
            row = [a - row[lead] / other[lead] * b for a, b in zip(row, other, strict=True)]
        if any(row):
            found.append(row)
    return found


def wrong_words(drawn: Drawn, result: tb.Result) -> list[str]:
    """What a result says that is not true."""
    with mp.workdps(DIGITS):
        tiny = mp.mpf(10) ** -60
        said = []
        for name, (low, high), truth in (
            ("f*", result.upper_optimum, drawn.upper),
            ("g*", result.lower_optimum, drawn.lower),
        ):
            room = tiny * (1 + abs(truth))
            if not _m(low) - room <= truth <= _m(high) + room:
                said.append(f"{name} = {mp.nstr(truth, 20)} is not in [{low!r}, {high!r}]")
        if result.status in ("unbounded", "infeasible"):
            said.append(result.status)
        off, above = (
            result.upper_value - float(drawn.upper),
            result.lower_value - float(drawn.lower),
        )
        rounding = 1e-13 * abs(float(drawn.lower))
        if result.status == "certified" and (
            abs(off) > 1.001 * result.tolerance[0] or above > 1.001 * result.tolerance[1] + rounding
        ):
            said.append(f"certified, f off by {off:.2g}, g by {above:.2g}: {result.tolerance}")
        return said


def is_off(drawn: Drawn, result: tb.Result) -> bool:
    """Is a success off by more than two tolerances?"""
    off = abs(result.upper_value - float(drawn.upper))
    return result.success and off > max(2.0 * result.tolerance[0], 1e-12 * abs(float(drawn.upper)))
