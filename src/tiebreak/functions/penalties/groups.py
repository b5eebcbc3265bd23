"""Disjoint groups of variables, for penalties that select whole groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tiebreak.linalg import FromData, arrays, checks, into, remember, tables
from tiebreak.linalg.arrays import Array, Host, dot, like, to_numpy


class GroupLayout(NamedTuple):
    """The groups in R^n; the variables in no group form an additional last group."""

    labels: Host | None  # each variable's group; None if all are in one group
    penalised: Host  # 1.0 for a group, 0.0 for the variables in no group
    starts: Host | None = None  # where groups start, if they are long runs of variables

    def dots(self, x: Array, y: Array, room: Array | None = None) -> Host:
        """The inner products <x_G, y_G>, on the host; ``room``, if given, is overwritten."""
        if self.labels is None:
            return np.array([dot(x, y)])
        products = to_numpy(into(room, "multiply", x, y))
        if self.starts is not None:
            return np.add.reduceat(products, self.starts, dtype=np.float64)
        return np.bincount(self.labels, products, len(self.penalised))

    def spread(self, x: Array, factors: Host) -> Array:
        """x with each group multiplied by its factor."""
        if self.labels is None:
            return x * float(factors[0])
        each = like(np.take(factors, self.labels), x)
        return into(each, "multiply", x, each)


LISTS = (list, tuple, range, np.ndarray)
UNGROUPED = GroupLayout(None, np.zeros(1))


class Groups(FromData):
    """Disjoint groups of variables, as given by the user; label -1 means no group.

    ``length`` is the number of variables. It is None if the groups were given as lists: then there
    may be any number of variables after the last one in a group.
    """

    def __init__(self, given: Any) -> None:
        remember(self, Groups, given=given)
        self.names: tuple[Any, ...] | None = tables.names(given)
        labels, length = _labels(given)
        inside = labels >= 0
        first, names = np.unique(labels[inside], return_index=True, return_inverse=True)[1:]
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))  # groups are numbered as they appear
        self.labels: Host = np.full(len(labels), -1)
        self.labels[inside] = rank[names]
        self.length = length
        self.count: int = len(first)
        self._layouts: dict[int, GroupLayout] = {}

    @property
    def signature(self) -> tuple[Any, ...]:
        """A key that distinguishes these groups from others in checkpoints."""
        return self.labels, self.length

    def __repr__(self) -> str:
        return f"<{self.count} groups of {np.count_nonzero(self.labels >= 0)} variables>"

    def same_as(self, other: Groups) -> bool:
        """Do two objects hold equal groups?"""
        return np.array_equal(
            np.trim_zeros(self.labels + 1, "b"), np.trim_zeros(other.labels + 1, "b")
        )

    def check(self, n: int) -> None:
        """Raise ValueError if the groups do not fit ``n`` variables."""
        if self.length is not None:
            checks.length("GroupL2", "groups", self.labels, n, "variable")
        elif len(self.labels) > n:
            raise ValueError(
                f"GroupL2: groups must hold variables below {n}, got {len(self.labels) - 1}"
            )

    def layout(self, n: int) -> GroupLayout:
        """The groups in R^n, computed once for each n."""
        if n not in self._layouts:
            labels = np.full(n, self.count)
            labels[: len(self.labels)] = np.where(self.labels < 0, self.count, self.labels)
            penalised = np.arange(np.max(labels) + 1) < self.count
            # Sums over runs are faster than sums by labels if runs have at least about this length.
            runs = n >= 20 * len(penalised) and bool(np.all(labels[1:] >= labels[:-1]))
            starts = np.searchsorted(labels, np.arange(len(penalised))) if runs else None
            self._layouts[n] = GroupLayout(labels, penalised.astype(np.float64), starts)
        return self._layouts[n]


def _labels(value: Any) -> tuple[Host, int | None]:
    """The groups as a vector of one label per variable, and the number of variables."""
    needed = (
        "GroupL2: groups must be a vector with the group of each variable (-1: none) "
        "or a list of lists of variables, got "
    )
    if (isinstance(value, list | tuple) and value) and (
        not isinstance(value[0], int | np.integer) or any(isinstance(v, LISTS) for v in value)
    ):
        return _from_lists(value, needed), None
    if tables.is_series(value):
        value = value.to_numpy()
    if not arrays.is_array(value) and not isinstance(value, list | tuple | range):
        raise TypeError(needed + checks.what_it_is(value))
    labels = np.asarray(value) if not arrays.is_array(value) else to_numpy(value)
    if labels.ndim != 1 or labels.shape[0] == 0:
        raise ValueError(needed + checks.what_it_is(value))
    if labels.dtype.kind not in "iu":
        raise TypeError(f"{needed}entries of type {labels.dtype}")
    if np.any(labels < -1):
        raise ValueError(f"GroupL2: groups must be whole numbers >= -1, got {np.min(labels)}")
    return labels.astype(np.int64), len(labels)


def _from_lists(lists: Sequence[Any], needed: str) -> Host:
    """The labels of the variables up to the last one in a group."""
    label: dict[int, int] = {}
    for name, variables in enumerate(lists):
        if not isinstance(variables, LISTS):
            raise TypeError(f"{needed}a list with {checks.what_it_is(variables)}")
        if len(variables) == 0:
            raise ValueError(
                f"GroupL2: groups must not be empty, got group {name} without variables"
            )
        for variable in variables:
            i = checks.whole("GroupL2", "a variable in groups", variable)
            if i in label:
                raise ValueError(f"GroupL2: groups must be disjoint, got variable {i} twice")
            label[i] = name
    try:
        labels = np.full(max(label) + 1, -1)
    except (MemoryError, ValueError):  # NumPy's words for too many entries
        raise ValueError(
            f"GroupL2: groups must hold variables of a vector that fits in memory, got {max(label)}"
        ) from None
    labels[list(label)] = list(label.values())
    return labels
