"""What the engine asks of a cone: which of its inequalities bind, its faces, its dual.

A pair of complementary points s in K, y in K*, <s, y> = 0, exposes a face of K: all feasible points
that are optimal have their s in it, whatever optimal y is taken.

    s_j >= 0       y_j > 0: s_j = 0
    second-order   y inside: s = 0;  y on the boundary: s on the ray of (y_0, -y_1, ...)
    exponential    y on the boundary: s on the ray of (r, 1, exp(r))
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tiebreak.conic.program import Cone
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import norm

CLEAR = 1e2  # of two complementary numbers the larger is this many times the smaller, or neither
# is known to be positive; an interior-point method ends with factors of a million where it is clear


class Blocks(NamedTuple):
    """The rows of K by their kinds."""

    zero: Host  # indices
    nonnegative: Host
    second_order: tuple[Host, ...]  # the indices of each cone
    exponential: Host  # (k, 3)

    @classmethod
    def of(cls, cones: tuple[Cone, ...]) -> Blocks:
        """In the order of the cones."""
        found: dict[str, list[Host]] = {
            kind: [] for kind in ("zero", "nonnegative", "second-order", "exponential")
        }
        end = 0
        for cone in cones:
            found[cone.kind].append(np.arange(end, end + cone.size))
            end += cone.size
        none = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *found["zero"]]),
            np.concatenate([none, *found["nonnegative"]]),
            tuple(found["second-order"]),
            np.reshape(np.concatenate([none, *found["exponential"]]), (-1, 3)),
        )

    @property
    def has_inequalities(self) -> bool:
        """Is there anything but equations?"""
        return bool(len(self.nonnegative) or self.second_order or len(self.exponential))


class Active(NamedTuple):
    """Which faces of K are exposed by a complementary pair, and which pairs do not tell."""

    nonnegative: Host  # indices of rows with s = 0
    vertices: tuple[Host, ...]  # second-order cones with s = 0
    rays: tuple[Host, ...]  # second-order cones with s on a ray
    curves: Host  # exponential cones with s on a ray, (k, 3)
    doubtful: int  # pairs of which neither number is clearly positive; they count as not exposed


def exposed(blocks: Blocks, s: Host, y: Host, lengths: Host, size: float) -> Active:
    """The faces that y exposes at s.

    ``lengths`` are those of the rows: s / length is a distance and y length a slope. Distances are
    compared relative to the largest, slopes to the ``size`` of the objective's, for a comparison
    has no units.
    """
    lengths = np.where(lengths > 0.0, lengths, 1.0)
    slope = max(float(np.max(np.abs(y) * lengths, initial=0.0)), size) or 1.0
    reach = float(np.max(np.abs(s) / lengths, initial=0.0)) or 1.0
    doubtful = 0

    def binds(primal: Host | float, dual: Host | float, length: Host | float) -> Host:
        nonlocal doubtful
        near = np.abs(primal) / (length * reach)
        pull = np.abs(dual) * length / slope
        doubtful += int(np.count_nonzero((near < CLEAR * pull) & (pull < CLEAR * near)))
        return np.asarray(pull >= CLEAR * near)

    one = blocks.nonnegative
    nonnegative = one[binds(s[one], y[one], lengths[one])]
    vertices, rays = [], []
    for cone in blocks.second_order:
        length = float(np.max(lengths[cone]))
        (s0, s1), (y0, y1) = ((v[cone[0]], norm(v[cone[1:]])) for v in (s, y))
        if binds(s0 + s1, max(y0 - y1, 0.0), length):
            vertices.append(cone)
        elif binds(max(s0 - s1, 0.0), y0 + y1, length):
            rays.append(cone)
    curves = blocks.exponential
    if len(curves):
        above = _above_curve(s[curves])
        length = np.max(lengths[curves], axis=1)
        pull = np.max(np.abs(y[curves]), axis=1)
        curves = curves[binds(above, pull, length) & (s[curves[:, 1]] > 0.0)]
    return Active(nonnegative, tuple(vertices), tuple(rays), curves, doubtful)


def _above_curve(s: Host) -> Host:
    """s_2 - s_1 exp(s_0 / s_1) of exponential cones."""
    ratio = s[:, 0] / np.maximum(s[:, 1], np.finfo(float).tiny)
    return np.asarray(s[:, 2] - s[:, 1] * np.exp(np.minimum(ratio, 700.0)))


def outside(blocks: Blocks, s: Host) -> Host:
    """How far s is outside K, for every inequality: negative where it is inside.

    The same in s_0 (second-order) or s_2 (exponential) would be needed to be inside.
    """
    found = [-s[blocks.nonnegative]]
    found += [np.array([norm(s[c[1:]]) - s[c[0]]]) for c in blocks.second_order]
    if len(blocks.exponential):
        block = s[blocks.exponential]
        below = np.where(block[:, 1] > 0.0, -_above_curve(block), np.inf)
        found.append(below)
    return np.concatenate(found)


def dual_point(blocks: Blocks, y: Host) -> Host:
    """y, moved as little as needed into the dual cone, rounding included."""
    y = y.copy()
    y[blocks.nonnegative] = np.maximum(y[blocks.nonnegative], 0.0)
    for cone in blocks.second_order:
        unit = (len(cone) + 4) * np.finfo(float).eps
        y[cone[0]] = max(y[cone[0]], norm(y[cone[1:]]) * (1.0 + unit))
    if len(blocks.exponential):
        block = y[blocks.exponential]
        u, v = np.minimum(block[:, 0], 0.0), block[:, 1]
        curve = np.where(u < 0.0, -u * np.exp(np.minimum(v / np.minimum(u, -1e-300) - 1.0, 700)), 0)
        block[:, 0], block[:, 1] = u, np.where(u < 0.0, v, np.maximum(v, 0.0))
        block[:, 2] = np.maximum(
            block[:, 2], curve * (1.0 + 1e-14 * (1.0 + np.abs(v / (u - (u == 0)))))
        )
        y[blocks.exponential] = block
    return y
