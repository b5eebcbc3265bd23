"""Objectives in order of priority on one set, in the form that conic solvers accept.

    minimise  ½|F z - t|² + <q, z> + constant   over   { z : offset - rows z in K }

z = (x, auxiliary variables). K is a product of cones, one after the other along the rows:

- "zero" is {0}^k,
- "nonnegative" is { s >= 0 },
- "second-order" is { s_0 >= |(s_1, ..., s_k-1)| },
- "exponential" is the closure of { s_2 >= s_1 exp(s_0 / s_1), s_1 > 0 }: always three rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import Host
from tiebreak.linalg.conic_form import Kind, entries

DENSE_SHARE = 0.25  # a matrix with a larger share of nonzero entries is faster as a dense array
KEPT_DENSE = 2**14  # matrices with at most this many entries stay dense: small sparse ones are slow


class Cone(NamedTuple):
    """A cone of one kind on ``size`` consecutive rows."""

    kind: Kind
    size: int


@dataclass(frozen=True)
class Objective:
    """½|F z - t|² + <q, z> + constant; ``squares`` is F, dense or sparse.

    ``misfits`` are bounds, for |z| <= sizes, that add up to the bound of `misfit`.
    """

    squares: Any
    target: Host  # t
    linear: Host  # q
    constant: float = 0.0
    misfits: tuple[Callable[[Host], float], ...] = ()

    def misfit(self, sizes: Host) -> float:
        """Bound the distance from the objective to the function it represents, for |z| <= sizes."""
        return sum(part(sizes) for part in self.misfits)

    def value(self, z: Host) -> float:
        """Return the value at a point."""
        off = self.squares @ z - self.target
        return 0.5 * float(off @ off) + float(self.linear @ z) + self.constant


@dataclass(frozen=True)
class ConicProgram:
    """Objectives, the most important first, on { z : offset - rows z in K }.

    Args:
        rows, offset, cones: the set; rows are a SciPy sparse array (csc) or dense.
        objectives: one or more.
        variables: the entries of z that are x, to compute the dimension of the set of x that
            remains.
        reach: |z_j| <= reach_j for some solution; inf if unknown.
        evaluate: a function of a level's number and a z that returns the level's value at the x of
            this z, with a bound on its rounding error; if None, values are computed from the
            auxiliary variables of z.
        owners: a function that names the owners of rows with nonzero multipliers, in the user's
            words.
    """

    rows: Any
    offset: Host
    cones: tuple[Cone, ...]
    objectives: tuple[Objective, ...]
    variables: Host
    reach: Host
    evaluate: Callable[[int, Host], tuple[float, float]] | None = None
    owners: Callable[[Host], list[str]] | None = None

    @property
    def size(self) -> int:
        """The number of variables, auxiliary ones included."""
        return int(self.rows.shape[1])

    def distances(self) -> Host:
        """Return the largest distance from 0 to a cone's boundary along each entry of z, roughly.

        It is 0 for an entry that no cone with an offset depends on.
        """
        group = cone_groups(self.cones)
        sizes = largest_of_group(np.arange(len(group)), np.abs(self.offset), group)
        row, column, value = entries(self.rows)
        found, some = np.zeros(self.size), value != 0.0
        np.maximum.at(found, column[some], sizes[row[some]] / np.abs(value[some]))
        return found

    def value(self, number: int, z: Host) -> float:
        """Return a level's value at the x in z; auxiliary variables may be larger than needed."""
        return self.value_with_error(number, z)[0]

    def value_with_error(self, number: int, z: Host) -> tuple[float, float]:
        """Return a level's value at the x in z, and a bound on the error of its evaluation."""
        if self.evaluate is None:
            return self.objectives[number].value(z), 0.0
        return self.evaluate(number, z)

    def first_levels(self) -> Host:
        """Return for each row the first level that needs it: 0 for constraints.

        Rows that only represent an objective get the number of the objective's level. An objective
        owns the auxiliary variables that are connected to it by cones, not through x. While earlier
        levels are solved, the rows of such variables would only make the solver less accurate.
        """
        auxiliary = np.ones(self.size, dtype=bool)
        auxiliary[self.variables] = False
        first = np.zeros(self.rows.shape[0], dtype=np.int64)
        if not auxiliary.any():
            return first
        touches, known = self._touches(auxiliary), np.zeros(len(first), dtype=bool)
        for number, h in enumerate(self.objectives):
            used = np.asarray(abs(h.squares).sum(axis=0)).ravel() + np.abs(h.linear) > 0.0
            reached, mine = used[auxiliary], np.zeros(len(first), dtype=bool)
            while True:
                more = touches @ reached
                if np.array_equal(more, mine):
                    break
                mine, reached = more, reached | (touches.T @ more)
            first[mine & ~known], known = number, known | mine
        return first

    def _touches(self, columns: Host) -> Any:
        """Return which of these variables occur in each row or in another row of the same cone."""
        import scipy.sparse as sp

        found = self.rows[:, columns] != 0
        group, m = cone_groups(self.cones), found.shape[0]
        one = sp.csr_array((np.ones(m, dtype=bool), group, np.arange(m + 1)), shape=(m, m))
        alike = one @ (one.T @ found)
        return alike if isinstance(found, np.ndarray) else sp.csr_array(alike)


def cone_groups(cones: tuple[Cone, ...]) -> Host:
    """Return the number of each row's cone; each linear row is a cone of its own."""
    sizes = [
        [1] * cone.size if cone.kind in ("zero", "nonnegative") else [cone.size] for cone in cones
    ]
    counts = np.array(list(itertools.chain(*sizes)), dtype=int)
    return np.repeat(np.arange(len(counts)), counts)


def largest_of_group(row: Host, sizes: Host, group: Host) -> Host:
    """Return for every row the largest size in its group, or 0."""
    largest = np.zeros(len(group))
    np.maximum.at(largest, group[row], sizes)
    return np.asarray(largest[group])
