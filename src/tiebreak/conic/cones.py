"""Properties of cones that the chain needs: which inequalities bind, the faces, and the dual.

A pair of complementary points s in K, y in K*, <s, y> = 0, exposes a face of K: the s of every
optimal point lies in it, for any optimal y.

- If y_j > 0 for an inequality s_j >= 0, then s_j = 0.
- If y is inside a second-order cone, then s = 0. If y is on its boundary, then s is on the ray of
  (y_0, -y_1, ...).
- If y is on the boundary of an exponential cone's dual, then s is on the ray of (r, 1, exp(r)).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tiebreak.conic.program import Cone
from tiebreak.linalg import EPS, TOL, Host
from tiebreak.linalg.host import norm

LEAST = float(np.finfo(float).tiny)  # replaces 0 in denominators


class Blocks(NamedTuple):
    """The rows of K, grouped by kind."""

    zero: Host  # indices
    nonnegative: Host
    second_order: tuple[Host, ...]  # the indices of each cone
    exponential: Host  # (k, 3)

    @classmethod
    @lru_cache(maxsize=64)  # each level needs the blocks several times
    def of(cls, cones: tuple[Cone, ...]) -> Blocks:
        """Return the blocks in the order of the cones."""
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


class Active(NamedTuple):
    """Active inequalities, grouped by kind."""

    nonnegative: Host = np.zeros(0, dtype=np.int64)  # indices of rows with s = 0
    vertices: tuple[Host, ...] = ()  # second-order cones with s = 0
    rays: tuple[Host, ...] = ()  # second-order cones with s on a ray
    curves: Host = np.zeros((0, 3), dtype=np.int64)  # exponential cones with s on a ray, (k, 3)

    @property
    def key(self) -> tuple[bytes, ...]:
        """A key that differs for different sets of active inequalities of the same cones."""
        cones = [*self.vertices, *self.rays]
        some = [self.nonnegative, self.curves, np.array([len(self.vertices)]), *cones]
        return tuple(part.tobytes() for part in some)


class Pairs(NamedTuple):
    """Complementary dimensionless numbers, one from s and one from y for each inequality.

    We divide s by the length of its row to get a distance, and multiply y by that length to get a
    slope. Distances are relative to the largest distance, slopes to ``size``. For a second-order
    cone the numbers are the two eigenvalues, and for an exponential cone the distance of s from the
    surface and the largest entry of y.
    """

    nonnegative: tuple[Host, Host]
    second_order: tuple[Host, Host]  # (k, 2): columns for the boundary and the vertex
    exponential: tuple[Host, Host]

    @classmethod
    def of(
        cls, blocks: Blocks, s: Host, y: Host, lengths: Host, size: float, least: float = 0.0
    ) -> Pairs:
        """Return the pairs for slacks s and multipliers y; ``size`` measures the objective's slope.

        If all inequalities bind, slacks are rounding errors and the largest slack gives no scale.
        Then we use ``least``, the size of the point.
        """
        lengths = np.where(lengths > 0.0, lengths, 1.0)
        slope = max(float(np.max(np.abs(y) * lengths, initial=0.0)), size) or 1.0
        reach = float(np.max(np.abs(s) / lengths, initial=least)) or 1.0
        one, curves = blocks.nonnegative, blocks.exponential
        near, pull = (
            np.zeros((len(blocks.second_order), 2)),
            np.zeros((len(blocks.second_order), 2)),
        )
        for k, cone in enumerate(blocks.second_order):
            length = float(np.max(lengths[cone]))
            (s0, s1), (y0, y1) = ((v[cone[0]], norm(v[cone[1:]])) for v in (s, y))
            near[k] = np.abs([s0 - s1, s0 + s1]) / (length * reach)
            pull[k] = np.abs([y0 + y1, max(y0 - y1, 0.0)]) * length / slope
        length = np.max(lengths[curves], axis=1, initial=0.0)
        return cls(
            (np.abs(s[one]) / (lengths[one] * reach), np.abs(y[one]) * lengths[one] / slope),
            (near, pull),
            (
                np.abs(_above_curve(s[curves])) / (length * reach),
                np.max(np.abs(y[curves]), axis=1, initial=0.0) * length / slope,
            ),
        )

    def active(self, blocks: Blocks, factor: float, least: float = 0.0) -> Active:
        """Return the inequalities whose slope exceeds ``least`` and ``factor`` times the distance.

        The slope of an exponential cone is usually a loss's weight, which is given rather than
        computed, so a small one counts if it is not a rounding error.
        """
        least_of = (least, least, min(least, TOL.rounding))
        binds = [
            (pull > factor * near) & (pull > most)
            for (near, pull), most in zip(self, least_of, strict=True)
        ]
        edge, tip = binds[1][:, 0], binds[1][:, 1]
        cones = blocks.second_order
        return Active(
            blocks.nonnegative[binds[0]],
            tuple(cone for cone, at_tip in zip(cones, tip, strict=True) if at_tip),
            tuple(c for c, on, at_tip in zip(cones, edge, tip, strict=True) if on and not at_tip),
            blocks.exponential[binds[2]],
        )


def _above_curve(s: Host) -> Host:
    """Return s_2 - s_1 exp(s_0 / s_1) for exponential cones."""
    ratio = s[:, 0] / np.maximum(s[:, 1], LEAST)
    rise = np.where(ratio < 700.0, np.exp(np.minimum(ratio, 700.0)), np.inf)
    return np.asarray(s[:, 2] - s[:, 1] * rise)


def outside(blocks: Blocks, s: Host) -> Host:
    """Return how far s is outside K for every inequality, negative if inside.

    Adding this distance to s_0 (second-order) or s_2 (exponential) would put s inside.
    """
    found = [-s[blocks.nonnegative]]
    found += [np.array([norm(s[c[1:]]) - s[c[0]]]) for c in blocks.second_order]
    if len(blocks.exponential):
        block = s[blocks.exponential]
        edge = np.max(block * [1.0, -1.0, -1.0], axis=1)  # the edge { s_0 <= 0 = s_1, s_2 >= 0 }
        found.append(np.where(block[:, 1] > 0.0, -_above_curve(block), edge))
    return np.concatenate(found)


def of_inequalities(blocks: Blocks, sizes: Host) -> Host:
    """Return each inequality's largest of ``sizes`` (1 if that is 0), ordered like `outside`."""
    cones = (*blocks.second_order, *blocks.exponential)
    found = np.append(sizes[blocks.nonnegative], [np.max(sizes[cone]) for cone in cones])
    return np.where(found > 0.0, found, 1.0)


def steepness(blocks: Blocks, s: Host) -> Host:
    """Bound the rate at which each distance of `outside` changes with s, up to a factor sqrt(2)."""
    flat = np.ones(len(blocks.nonnegative) + len(blocks.second_order))
    ratio = s[blocks.exponential[:, 0]] / np.maximum(s[blocks.exponential[:, 1]], LEAST)
    rise = np.exp(np.minimum(ratio, 700.0))
    return np.append(flat, 1.0 + rise * (1.0 + np.abs(ratio)))


def dual_point(blocks: Blocks, y: Host) -> Host:
    """Move y as little as needed into the dual cone, allowing for rounding errors."""
    y = y.copy()
    y[blocks.nonnegative] = np.maximum(y[blocks.nonnegative], 0.0)
    for cone in blocks.second_order:
        unit = (len(cone) + 4) * EPS
        y[cone[0]] = max(y[cone[0]], norm(y[cone[1:]]) * (1.0 + unit))
    if len(blocks.exponential):
        y[blocks.exponential] = _dual_exponential(y[blocks.exponential])
    return y


def _dual_exponential(y: Host) -> Host:
    """Move y into { u < 0, w >= -u exp(v/u - 1) } or { u = 0, v, w >= 0 } by raising v.

    v is the multiplier of s_1, which is usually a constant: then raising v changes no slope.
    """
    u, v, w = y.T
    is_inside = (u < 0.0) & (w > 0.0)
    slope = np.where(is_inside, u, -1.0)
    log = np.log(np.where(is_inside, w, 1.0) / -slope)
    least = slope * (1.0 + log)
    least = least + 8.0 * EPS * np.abs(slope) * (1.0 + np.abs(log))
    free = np.where(is_inside, np.maximum(v, least), np.maximum(v, 0.0))
    return np.stack([np.where(is_inside, u, 0.0), free, np.maximum(w, 0.0)], axis=1)
