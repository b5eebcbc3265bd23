"""Objectives in the order of their priority on one set, in the form that conic solvers take.

    minimise  ½|F z - t|² + <q, z> + constant   over   { z : offset - rows z in K }

z = (x, auxiliary variables). K is a product of cones, one after the other along the rows:

    zero               {0}^k
    nonnegative        s >= 0
    second-order       s_0 >= |(s_1, ..., s_k-1)|
    exponential        the closure of { s_2 >= s_1 exp(s_0 / s_1), s_1 > 0 }, always three rows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from tiebreak.linalg.arrays import Host

Kind = Literal["zero", "nonnegative", "second-order", "exponential"]


class Cone(NamedTuple):
    """A cone of one kind on ``size`` rows in turn."""

    kind: Kind
    size: int


@dataclass(frozen=True)
class Objective:
    """½|F z - t|² + <q, z> + constant; squares is F, of any number of rows, dense or sparse."""

    squares: Any
    target: Host  # t
    linear: Host  # q
    constant: float = 0.0

    def value(self, z: Host) -> float:
        """At a point."""
        off = self.squares @ z - self.target
        return 0.5 * float(off @ off) + float(self.linear @ z) + self.constant


@dataclass(frozen=True)
class ConicProgram:
    """Objectives, the most important first, on { z : offset - rows z in K }.

    Args:
        rows, offset, cones: the set; rows are a SciPy sparse array (csc) or dense.
        objectives: one or more.
        variables: which entries of z are x, for the dimension of what is left to choose.
        reach: |z_j| <= reach_j for some solution; inf where nothing is known.
        start: a z that is feasible up to rounding, or None.
    """

    rows: Any
    offset: Host
    cones: tuple[Cone, ...]
    objectives: tuple[Objective, ...]
    variables: Host
    reach: Host
    start: Host | None = None

    @property
    def size(self) -> int:
        """The number of variables, auxiliary ones included."""
        return int(self.rows.shape[1])

    def blocks(self) -> list[tuple[Cone, slice]]:
        """Every cone with its rows; zero and nonnegative ones may have many."""
        ends = np.cumsum([cone.size for cone in self.cones])
        return [
            (cone, slice(int(end) - cone.size, int(end)))
            for cone, end in zip(self.cones, ends, strict=True)
        ]
