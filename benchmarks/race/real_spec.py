"""A bilevel problem on real data as plain arrays: what `real.py` races and `references.py` answers.

Nothing here knows tiebreak, so that the references are independent of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Vector = np.ndarray[Any, Any]
Matrix = np.ndarray[Any, Any]

DOMAINS = ("Space", "Ball", "Box", "Orthant", "Simplex", "L1Ball", "Halfspace", "Monotone")


class Level(NamedTuple):
    """A function: squares ½|Ax - b|², logistic (the mean; b: labels), norm ½|x - b|² (b: None: 0),
    l1 |x|_1, or linear <b, x>."""

    kind: str
    A: Any = None
    b: Any = None


@dataclass(frozen=True, eq=False)
class Spec:
    """A problem: both levels, the domain with its parameters, and what it is in a line."""

    name: str
    what: str
    lower: Level
    upper: Level
    domain: str = "Space"
    size: tuple[Any, ...] = ()

    @property
    def variables(self) -> int:
        return int(self.lower.A.shape[1])

    @property
    def rows(self) -> int:
        return int(self.lower.A.shape[0])

    @property
    def fingerprint(self) -> str:
        """Changes with every bit of the data."""
        digest = hashlib.sha256(f"{self.domain} {self.lower.kind} {self.upper.kind}".encode())
        for part in (*self.lower[1:], *self.upper[1:], *self.size):
            if part is not None:
                numbers = np.ascontiguousarray(np.asarray(part, dtype=np.float64))
                digest.update(f"{numbers.shape}".encode() + numbers.tobytes())
        return digest.hexdigest()[:16]


def value(level: Level, x: Vector) -> np.longdouble:
    """The function at x, in extended precision."""
    x = np.asarray(x, dtype=np.longdouble)
    if level.kind == "norm":
        d = x if level.b is None else x - level.b
        return np.longdouble(d @ d / 2)
    if level.kind == "l1":
        return np.longdouble(np.abs(x).sum())
    if level.kind == "linear":
        return np.longdouble(np.asarray(level.b, dtype=np.longdouble) @ x)
    image = np.asarray(level.A, dtype=np.longdouble) @ x
    if level.kind == "squares":
        residual = image - level.b
        return np.longdouble(residual @ residual / 2)
    margin = level.b * image
    losses = np.log1p(np.exp(-np.abs(margin))) + np.maximum(-margin, 0)
    return np.longdouble(losses.mean())


def violation(spec: Spec, x: Vector) -> float:
    """How far x is outside the domain, relative to its size or that of x."""
    x = np.asarray(x, dtype=np.float64)
    unit = max(float(np.abs(x).max(initial=0.0)), 1e-300)
    size: Any = spec.size
    if spec.domain == "Ball":
        return float(np.linalg.norm(x) / size[0]) - 1.0
    if spec.domain in ("Box", "Orthant"):
        low, high = size if spec.domain == "Box" else (0.0, np.inf)
        return float(max((low - x).max(), (x - high).max())) / unit
    if spec.domain == "Simplex":
        return float(max(-x.min(), abs(x.sum() - size[0])) / size[0])
    if spec.domain == "L1Ball":
        return float(np.abs(x).sum() / size[0]) - 1.0
    if spec.domain == "Halfspace":
        terms = float(np.abs(size[0]) @ np.abs(x)) + abs(size[1])
        return float((size[0] @ x - size[1]) / max(terms, 1e-300))
    if spec.domain == "Monotone":
        return float((x[:-1] - x[1:]).max(initial=0.0)) / unit
    return 0.0
