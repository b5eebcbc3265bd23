"""Checks whether a solved level has a minimiser, or an infimum that is not attained.

Consider the recession directions w of { w : offset - rows w in K } along which the level does not
rise: F w = 0, <q, w> <= 0. If no such direction moves the slack of a curved cone (second-order,
exponential), a quadratic function on a polyhedron remains, and it has a minimiser (Rockafellar,
Theorem 27.3). If the slack of a curved cone moves along some direction, there are two cases. Either
the slack moves into the cone's interior, and the cone may be dropped; or the slack approaches the
cone's edge only at infinity, and the infimum is not attained.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiebreak.conic.cones import LEAST, Blocks, dual_point, outside
from tiebreak.conic.faces import ConicSet
from tiebreak.conic.polish import PrimalDualPoint
from tiebreak.conic.program import Cone, ConicProgram, Objective
from tiebreak.conic.solver import clarabel_solve
from tiebreak.conic.stage import Stage
from tiebreak.linalg import TOL, Host
from tiebreak.linalg.conic_form import row_lengths, scaled_rows
from tiebreak.linalg.host import norm
from tiebreak.linalg.host_rows import HostRows
from tiebreak.proofs.recession.direction import direction_near
from tiebreak.proofs.recession.level import LinearTerm, RecessionCone, RecessionLevel
from tiebreak.sets import RecessionDirections


class _Curved(NamedTuple):
    """A curved cone whose slack may move along a direction."""

    rows: Host  # the indices of the cone's rows
    is_exponential: bool
    is_loss: bool  # is the cone part of the level's own value?

    def is_on_edge(self, s: Host, v: Host, little: float) -> bool:
        """Does s, moved along v, approach a part of the edge that it never reaches?

        The answer is no if s moves into the interior, or if s is on the ray of v (second-order
        cones).
        """
        if self.is_exponential:
            return bool(v[2] <= TOL.away * norm(v) and s[2] <= little)
        ray = v[1:] / v[0]
        is_left = 1.0 - norm(ray) > TOL.away or s[0] - s[1:] @ ray > little
        return not is_left and norm(s[1:] - (s[1:] @ ray) * ray) > little


def escape(stage: Stage, at: PrimalDualPoint, own: int | None) -> Host | None:
    """Return a direction along which the level seems unbounded; None if it has a minimiser.

    ``own``: exponential cones from this row on are losses of the level itself; if such a loss
    changes along a direction, the level decreases. ``own`` is None if that row is unknown.
    """
    curved, s, dropped = _suspects(stage, at, own), stage.slack(at.w), list[_Curved]()
    while curved:
        w, is_moved = _direction(stage, curved, dropped)
        v = -(stage.rows @ w)
        moved = [cone for cone, moves in zip(curved, is_moved, strict=True) if moves]
        if not moved:
            return None
        for cone in moved:
            unit = max(float(np.max(np.abs(stage.offset[cone.rows]))), stage.unit)
            if cone.is_loss or cone.is_on_edge(s[cone.rows], v[cone.rows], TOL.away * unit):
                return w
        dropped += moved
        curved = [cone for cone, moves in zip(curved, is_moved, strict=True) if not moves]
    return None


def slow_fall(stage: Stage, at: PrimalDualPoint) -> Host | None:
    """Return a recession direction along which the level decreases, however slowly, or None.

    To a solver, a slope that is small relative to other terms looks like a rounding error, so we
    rescale small slopes and search for them separately. Along directions d with F d = 0, two kinds
    of slopes may be hidden. The first kind is the residual r = F'(F w - t) + q + rows' y, which
    would be 0 if terms and multipliers balanced: <q, d> = <r, d> if no constraint with a nonzero
    multiplier changes along d. The second kind is small entries of q: they decide whether the level
    rises if the large entries contribute nothing to <q, d>.
    """
    q, pull = stage.objective.linear, stage.rows.T @ dual_point(stage.blocks, at.y)
    sizes = stage.slope_terms(at.w) + stage.row_sizes.T @ np.abs(at.y)
    found = _descent(stage, stage.slope(at.w) + pull, -pull, sizes)
    small = np.where(np.abs(q) < TOL.faint * np.max(sizes, initial=0.0), q, 0.0)
    while found is None and small.any():
        found = _descent(stage, small, q - small, np.full(len(q), norm(q)))
        small = np.where(np.abs(small) < TOL.faint * np.max(np.abs(small)), small, 0.0)
    return found


def _descent(stage: Stage, slope: Host, other: Host, sizes: Host) -> Host | None:
    """Return a direction with F w = 0 and <slope, w> < 0 along which ``other`` does not rise.

    We take the steepest direction: a solver projects -slope onto the cone of such directions.
    ``sizes`` are the absolute values of the slope's terms; a slope that may be a rounding error is
    ignored.
    """
    import scipy.sparse as sp

    if not np.any(np.abs(slope) > TOL.clear * sizes):
        return None
    n, (equal, below, curved, cones) = len(slope), _directions(stage)
    down = Objective(sp.eye_array(n, format="csr"), -slope / norm(slope), np.zeros(n))
    above = sp.csr_array(other[None] / (norm(other) or 1.0))
    rows = sp.vstack([equal, below, above, *curved], format="csr")
    kinds = Cone("zero", equal.shape[0]), Cone("nonnegative", below.shape[0] + 1)
    w = clarabel_solve(down, rows, np.zeros(rows.shape[0]), (*kinds, *cones)).z
    is_down = is_way_down(replace(stage, objective=replace(stage.objective, linear=slope)), w)
    is_clear = norm(w) > TOL.faint and -(slope @ w) > TOL.rounding * (sizes @ np.abs(w))
    return w if is_down and is_clear else None


class _Directions(NamedTuple):
    """The directions w that satisfy equal w = 0, below w <= 0, and -curved w in the cones."""

    equal: Any
    below: Any
    curved: list[Any]
    cones: list[Cone]


def _directions(stage: Stage, gone: Collection[int] = ()) -> _Directions:
    """Return the recession directions along which the level's squared terms are constant.

    Curved cones whose first row is in ``gone`` are left out.
    """
    import scipy.sparse as sp

    blocks, rows, F = stage.blocks, sp.csr_array(stage.rows), stage.objective.squares
    squares = sp.csr_array(scaled_rows(F, 1.0 / (row_lengths(F) + LEAST)))
    curves = blocks.exponential[[int(cone[0]) not in gone for cone in blocks.exponential]]
    varies = stage.lengths[curves[:, 1]] > 0.0
    smooth, bent = curves[~varies], curves[varies]
    cones = [cone for cone in blocks.second_order if int(cone[0]) not in gone]
    return _Directions(
        sp.vstack([rows[blocks.zero], squares]),
        sp.vstack([rows[blocks.nonnegative], -rows[smooth[:, 0]], rows[smooth[:, 2]]]),
        [rows[cone] for cone in (*cones, *bent)],
        [Cone("second-order", len(cone)) for cone in cones] + [Cone("exponential", 3)] * len(bent),
    )


def is_way_down(stage: Stage, w: Host) -> bool:
    """Is w, to a solver's accuracy, a recession direction along which the level decreases?"""
    h, v, little = stage.objective, -(stage.rows @ w), TOL.faint * norm(w)
    off = np.append(outside(stage.blocks, v), np.abs(v[stage.blocks.zero]))
    bends = np.abs(h.squares @ w) > little * row_lengths(h.squares)
    is_inside = not np.any(off > little * np.max(stage.lengths, initial=0.0))
    return is_inside and not np.any(bends) and float(h.linear @ w) < 0.0


def fall_along(program: ConicProgram, level: int, direction: Host) -> Host | None:
    """Return a direction near ``direction`` along which a level of the program decreases, or None.

    In an exponential cone we allow only the edge s_0 <= 0 = s_1, s_2 >= 0, because s_1 is usually
    constant; in all other cones we allow every direction.
    """
    from scipy.sparse import csr_array, vstack

    needed = program.first_levels() <= level
    rows, _, cones = ConicSet(csr_array(program.rows), program.offset, program.cones).part(needed)
    blocks = Blocks.of(cones)
    curves = blocks.exponential
    round_ones = [(rows[cone[1:]], -rows[[cone[0]]].toarray()[0]) for cone in blocks.second_order]
    points = [A for A, c in round_ones if not c.any()]
    below = vstack(
        [rows[blocks.nonnegative], -rows[curves[:, 0]], rows[curves[:, 2]]], format="csr"
    )
    equal = vstack([rows[blocks.zero], rows[curves[:, 1]], *points], format="csr")
    bent = tuple((A, c) for A, c in round_ones if c.any())
    directions = RecessionDirections(rows=(below, equal, -equal), curves=bent)
    cone = RecessionCone([directions], len(direction))
    nothing = LinearTerm(np.zeros(len(direction)))
    *before, last = (
        RecessionLevel(cone, [HostRows(h.squares)], [], nothing.plus(1.0, h.linear), [])
        for h in program.objectives[: level + 1]
    )
    return direction_near(last.after(before), direction)


def _suspects(stage: Stage, at: PrimalDualPoint, own: int | None) -> list[_Curved]:
    """Return the curved cones whose slacks may move: not losses with clearly nonzero multipliers.

    <q, w> = <y, v> >= 0 along every direction, with v = -rows w in K: if also <q, w> <= 0, both are
    0 (Stiemke).
    """
    blocks, y, lengths = stage.blocks, np.abs(at.y), stage.lengths
    sees = [cone for cone in blocks.second_order if lengths[cone].any()]
    found = [_Curved(cone, False, False) for cone in sees]
    pulls = np.minimum(y[blocks.exponential[:, 0]], y[blocks.exponential[:, 2]])
    slack = pulls <= TOL.faint * float(np.max(y, initial=0.0))
    curves = blocks.exponential[slack & lengths[blocks.exponential].any(axis=1)]
    return found + [_Curved(c, True, own is not None and int(c[0]) >= own) for c in curves]


def _direction(stage: Stage, curved: list[_Curved], dropped: list[_Curved]) -> tuple[Host, Host]:
    """Return a direction that moves as many of these slacks as possible, and which ones it moves.

    We maximise the sum of t_i, where t_i <= 1 is at most the distance that v = -rows w moves in
    cone i. Each t_i ends up as 0 or 1, because a direction may have any length.
    """
    import scipy.sparse as sp

    h, rows = stage.objective, sp.csr_array(stage.rows)
    directions = _directions(stage, {int(cone.rows[0]) for cone in dropped})
    slope = sp.csr_array(h.linear[None] / (norm(h.linear) or 1.0))
    tips = [int(cone.rows[2 if cone.is_exponential else 0]) for cone in dropped]
    moves = sp.vstack([_movement(rows, cone) for cone in curved])
    n, k = rows.shape[1], len(curved)
    linear = sp.vstack([directions.below, rows[tips], slope, moves])
    parts = [directions.equal, linear, sp.csr_array((k, n)), *directions.curved]
    G = sp.vstack(parts, format="csr")
    equal, unequal = directions.equal.shape[0], linear.shape[0]
    T = sp.csr_array(
        (np.ones(2 * k), (equal + unequal - k + np.arange(2 * k), np.tile(np.arange(k), 2))),
        shape=(G.shape[0], k),
    )
    kinds = [Cone("zero", equal), Cone("nonnegative", unequal + k), *directions.cones]
    offset = np.zeros(G.shape[0])
    offset[equal + unequal : equal + unequal + k] = 1.0
    gain = Objective(np.zeros((0, n + k)), np.zeros(0), np.append(np.zeros(n), -np.ones(k)))
    # A distance from the edge of a curved cone has only half as many digits as the solver's answer.
    found = clarabel_solve(gain, sp.hstack([G, T]), offset, tuple(kinds), TOL.met).z
    w = np.where(np.isfinite(found[:n]), found[:n], 0.0)
    # Each t_i is 0 or 1, up to rounding.
    return w, np.asarray(-(moves @ w) > 0.5)


def _movement(rows: Any, cone: _Curved) -> Any:
    """Return a row with <row, w> < 0 for every w such that v = -rows w is in the cone and not 0."""
    first, *_, last = cone.rows
    return rows[[last]] - rows[[first]] if cone.is_exponential else rows[[first]]
