"""Minimising a quadratic over a slice of a polyhedron: an active-set method, face by face.

`search` is the algorithm; `PolyhedronSlice` sets up its quadratic programs, one per Newton step.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tiebreak.exact.faces import Face
from tiebreak.exact.interior_point import Hint, interior_point
from tiebreak.exact.polyhedra import row_ranges, slack_noise
from tiebreak.functions import Slope
from tiebreak.linalg import EPS, TOL, Host, deadline
from tiebreak.linalg.host import norm
from tiebreak.linalg.linear_programs import linear_program, strict_rows

# After this many changes of face, ask a general solver: its factorisations, at most 60, cost less
# than the search has cost by then.
FACE_CHANGES = 40
# If B has more than LARGE entries, each change of face costs as much as a few steps of the general
# solver, so we ask it at the start, and later after fewer changes.
LARGE, FACE_CHANGES_IF_LARGE = 2**12, 6


# --- the algorithm --------------------------------------------------------------------------------


def search(program: QuadraticProgram) -> Host:
    """Return the minimiser v of a quadratic program by an active-set method, starting from v = 0.

    A face is identified with the inequalities that hold with equality on it.

    1. Begin at v = 0, on the face of all inequalities that are active there.
    2. After FACE_CHANGES changes of face (or at once, if B is LARGE and the first face is wrong),
       ask a general solver once, and move to its point and face if the objective is lower there.
    3. Within the face, move along a ray without curvature if the objective decreases along one;
       otherwise move to the lowest point of the face.
    4. If an inequality becomes active on the way, stop there and add it to the face; repeat from 2.
    5. At the lowest point of the face, find multipliers w >= 0 of all active inequalities. If
       slope + B'w is only rounding error, v is the minimiser.
    6. Otherwise leave the face along -(slope + B'w), the projection of -slope onto the cone of
       feasible directions. Move to the lowest point along this direction, or to the first
       inequality that becomes active on the way. Repeat from 2.

    Step 6 always decreases the objective, so no face recurs.
    """
    faces, B = program.faces, program.faces.B
    changes = FACE_CHANGES
    if B.size > LARGE:
        changes = FACE_CHANGES_IF_LARGE if faces.was_asked else 1
    v, face, is_lowest = np.zeros(B.shape[1]), program.slack <= 0.0, False  # step 1
    for change in range(changes + 10 * sum(B.shape)):
        deadline.check()
        if change == changes and not (is_lowest and program.is_minimiser(v, face)):
            v, face = program.ask_general_solver(v, face)  # step 2
            is_lowest = False
        if not is_lowest:
            v, face, is_lowest = program.descend_within(v, face)  # steps 3 and 4
            continue
        met = face | program.is_met(v)
        direction = -faces.multipliers(met, program.slope(v))[1]  # step 5
        if norm(direction) <= program.noise(v):
            break
        length, stops = program.leave(v, met, direction)  # step 6
        if math.isinf(length):  # unbounded, but only at the level of rounding
            break
        stays = np.abs(B @ direction) <= 1e-9 * norm(direction)
        v, face, is_lowest = v + length * direction, (met & stays) | stops, False
    return v


class QuadraticProgram(NamedTuple):
    """Minimise ½|M v|² + <q, v> over {v : B v <= slack}, where B is ``faces.B``."""

    faces: PolyhedronSlice
    M: Host  # R N: the curvature on the slice
    size: float  # |R|
    rounding: float  # singular values of M up to this count as 0
    q: Slope
    slack: Host
    least: Host  # slacks up to this value count as 0

    def slope(self, v: Host) -> Host:
        """Return the gradient at v."""
        return np.asarray(self.q.vector + self.M.T @ (self.M @ v))

    def value(self, v: Host) -> float:
        """Return the objective at v."""
        return 0.5 * norm(self.M @ v) ** 2 + float(self.q.vector @ v)

    def noise(self, v: Host) -> float:
        """Bound the rounding error of the slope at v."""
        terms = norm(self.q.vector) + self.size * self.size * norm(v)
        return self.q.error + 16 * len(v) * EPS * terms

    def room(self, v: Host) -> Host:
        """Return the slack of each inequality at v, at least 0."""
        return np.asarray(np.maximum(self.slack - self.faces.B @ v, 0.0))

    def is_met(self, v: Host) -> Host:
        """Find the inequalities that hold with equality at v, up to rounding."""
        return np.asarray(self.room(v) <= self.least + TOL.met * norm(v))

    def descend_within(self, v: Host, face: Host) -> tuple[Host, Host, bool]:
        """Take a step on the face; return its end, the new face, and a flag.

        The flag says whether the end minimises the objective over the face.
        """
        lowest, ray = self.faces.face(face).step(self.M, self.rounding, self.slope(v), self.q.size)
        length, stops = self._reach(v, ray, face)
        if math.isfinite(length):  # an inequality ends the ray
            return v + length * ray, face | stops, False
        length, stops = self._reach(v, lowest, face)
        is_lowest = length >= 1.0
        return v + min(length, 1.0) * lowest, face if is_lowest else face | stops, is_lowest

    def is_minimiser(self, v: Host, face: Host) -> bool:
        """Are the least-squares multipliers at v, the lowest point of a face, all nonnegative?"""
        weights, rest = self.faces.face(face).balance(self.slope(v))
        return bool(np.all(weights >= 0.0)) and norm(rest) <= self.noise(v)

    def leave(self, v: Host, met: Host, direction: Host) -> tuple[float, Host]:
        """Return how far to go from v along the direction, and which inequalities stop the step."""
        length, stops = self._reach(v, direction, met)
        curved = norm(self.M @ direction)
        if curved > 8 * EPS * self.size * norm(direction):
            best = (norm(direction) / curved) ** 2
            length, stops = (length, stops) if length <= best else (best, stops & False)
        return length, stops

    def _reach(self, v: Host, p: Host, face: Host) -> tuple[float, Host]:
        """Return how far v can move along p until inequalities become active, and which ones do."""
        rate = self.faces.B @ p
        ahead = ~face & (rate > 1e-12 * norm(p)) & (rate > 0.0)
        if not ahead.any():
            return math.inf, np.zeros(len(rate), dtype=bool)
        ratio = np.full(len(rate), math.inf)
        with np.errstate(over="ignore"):
            ratio[ahead] = self.room(v)[ahead] / rate[ahead]
        length = float(ratio.min())
        return length, ratio <= length * (1.0 + 1e-12)

    def ask_general_solver(self, v: Host, face: Host) -> tuple[Host, Host]:
        """Return a general solver's point and face if the point is lower, otherwise v and face."""
        B, slack = self.faces.B, self.slack
        q = self.q.vector
        hint = self.faces.hint(self.M, q, slack) if self.M.any() else self.faces.vertex(q, slack)
        if hint is None:
            return v, face
        point = hint.point
        least = self.least + 1e3 * TOL.met * norm(point)
        for pressed in hint.guesses:
            snapped = point - self.faces.face(pressed).onto(B[pressed] @ point - slack[pressed])
            if np.all(B @ snapped <= slack + least):
                point = snapped
                break
        else:  # move back towards 0, which is feasible
            rate = B @ point
            over = rate > slack
            point = point * float(np.min(slack[over] / rate[over], initial=1.0))
        is_lower = self.value(point) < self.value(v)
        return (point, slack - B @ point <= least) if is_lower else (v, face)


# --- slices ---------------------------------------------------------------------------------------


class PolyhedronSlice:
    """The set {x0 + N v} ∩ {rows x <= offset}; the most recent faces are cached with their factors.

    ``equal``: orthonormal rows that span the complement of N, if known.
    """

    is_factorised = False

    def __init__(self, rows: Host, offset: Host, N: Host, equal: Host | None = None) -> None:
        from scipy.sparse import csr_array

        self.equal, self.was_asked = equal, False
        # Rows that bound single variables are sparse, but converting them to a sparse matrix pays
        # off only if there are many.
        is_sparse = 8 * np.count_nonzero(rows) < rows.size > 2**14
        moving = csr_array(rows) @ N if is_sparse else rows @ N
        lengths = np.sqrt(np.sum(moving * moving, axis=1))
        moves = lengths > TOL.touching
        self.rows, self.offset, self.N = rows[moves], offset[moves], N
        self.lengths, self.extent = lengths[moves], norm(offset[moves])
        self.B = moving[moves] / self.lengths[:, None]  # inequalities in v, rows of norm 1
        self._kept: dict[bytes, Face] = {}
        self._curvature: tuple[Host, Host] | None = None  # R, and R on the slice

    def face(self, on: Host) -> Face:
        """Return the face where these inequalities hold with equality."""
        key = on.tobytes()
        found = self._kept.pop(key, None) or Face(self.B[on])
        self._kept[key] = found  # now last, as the most recent face
        # Keep a few faces with their factors for the next Newton step.
        if len(self._kept) > 4:
            del self._kept[next(iter(self._kept))]
        return found

    @cached_property
    def _ranges(self) -> Host:
        """Bounds on the slacks of the inequalities over the set."""
        return row_ranges(self.rows, self.offset)

    def slack(self, x: Host, share: float) -> tuple[Host, Host]:
        """Return all slacks in units of v, and bounds on their rounding errors."""
        slack = (self.offset - self.rows @ x) / self.lengths
        least = slack_noise(self.rows, self.offset, x, share, self._ranges) / self.lengths
        return np.where(slack <= least, 0.0, slack), least

    def step(self, R: Host, slope: Slope, x: Host, rows: int = 0) -> Host:
        """Return the d that minimises ½|R d|² + <slope, d> among all d with x + d in the slice.

        ``rows``: the number of rows of the matrix that R replaces, if that is larger than R's own.
        """
        rounding = max(rows, *R.shape) * EPS * norm(R)
        if self._curvature is None or self._curvature[0] is not R:
            self._curvature = R, _reduced(R @ self.N)
        q, M = self.N.T @ slope.vector, self._curvature[1]
        if not len(self.B):
            whole = self.face(np.zeros(0, dtype=bool))
            return np.asarray(self.N @ whole.step(M, rounding, q, slope.size)[0])
        # First return to the active inequalities: rounding errors of long steps moved x off them.
        off, slack = (self.offset - self.rows @ x) / self.lengths, self.slack(x, TOL.met)
        on, back = slack[0] == 0.0, np.zeros(len(q))
        if off[on].any():
            back = self.face(on).onto(off[on])
            slack = self.slack(x + self.N @ back, TOL.met)
        here = slope._replace(vector=q + M.T @ (M @ back))
        program = QuadraticProgram(self, M, norm(R), rounding, here, *slack)
        return np.asarray(self.N @ (back + search(program)))

    def hint(self, M: Host, q: Host, slack: Host) -> Hint | None:
        """Approximate the minimiser of ½|M v|² + <q, v> on the slice with `interior_point`."""
        self.was_asked = True
        if (equal := self._few_equations()) is None or self._curvature is None:
            return interior_point(M, q, self.B, slack)
        R, slack = self._curvature[0], slack * self.lengths
        found = interior_point(R, self.N @ q, self.rows, slack, equal)
        return found if found is None else found._replace(point=self.N.T @ found.point)

    def vertex(self, q: Host, slack: Host) -> Hint | None:
        """Minimise <q, v> over the slice using HiGHS; also return which inequalities are active."""
        cost, B = q / norm(q), self.B
        if (equal := self._few_equations()) is None:
            found = linear_program(cost, B, slack, (None, None))
        else:
            from scipy.sparse import csr_array

            rows, right = csr_array(self.rows), slack * self.lengths
            found = linear_program(self.N @ cost, rows, right, (None, None), equal)
            found = found if found is None else self.N.T @ found
        if found is None:
            return None
        return Hint(found, (slack - B @ found <= 1e-9 * (np.abs(slack) + norm(found)),))

    def _few_equations(self) -> Host | None:
        """Return the equations if there are few: we then solve for x, as most rows are bounds."""
        is_few = self.equal is not None and 2 * len(self.equal) <= self.N.shape[1]
        return self.equal if is_few else None

    def balance(self, slope: Host, x: Host) -> tuple[Host, Host]:
        """Return the multipliers of all inequalities at x, and the residual slope in v."""
        on = self.slack(x, 1e3 * TOL.met)[0] == 0.0
        weights = np.zeros(len(on))
        weights[on], rest = self.multipliers(on, self.N.T @ slope)
        return weights / self.lengths, rest

    def normal(self, slope: Slope, x: Host) -> tuple[Host, float]:
        """Return the outward normal at x that best balances the slope, and the residual."""
        weights, rest = self.balance(slope.vector, x)
        return weights @ self.rows, norm(rest)

    def multipliers(self, on: Host, slope: Host) -> tuple[Host, Host]:
        """Return the w >= 0 that minimises |slope + B'w|, and slope + B'w; B has the active rows.

        Plain least squares gives w if its weights have the right signs, as they usually do.
        """
        if not on.any():
            return np.zeros(0), slope
        weights, rest = self.face(on).balance(slope)
        if np.all(weights >= 0.0):
            return weights, rest
        from scipy.optimize import nnls

        B, scale = self.B[on], norm(slope) or 1.0
        deadline.check(deadline.svd_work(*B.shape))
        try:
            weights = scale * nnls(B.T, -slope / scale)[0]
        except RuntimeError:  # nnls reached its own step limit
            weights = np.maximum(weights, 0.0)
        used = weights > 0.0  # solve once more: the errors of nnls exceed rounding errors
        pressed = np.zeros(len(on), dtype=bool)
        pressed[np.flatnonzero(on)[used]] = True
        better, rest = self.face(pressed).balance(slope)
        if np.all(better >= 0.0):
            weights[used] = better
            return weights, rest
        return weights, slope + B.T @ weights


def _reduced(M: Host) -> Host:
    """Return a matrix with the same product M'M, and with fewer rows if M has many more rows."""
    # Reducing M pays off if it has at least 1.5 times as many rows as columns.
    if len(M) < 1.5 * M.shape[1]:
        return M
    deadline.check(0.5 * deadline.svd_work(*M.shape))
    return np.asarray(np.linalg.qr(M, mode="r"))


def can_be_strict(B: Host) -> Host | None:
    """Find the inequalities B v <= 0 that can all be strict at once; None if HiGHS fails."""
    v = Face(B).onto(np.full(len(B), -1.0))
    if np.all(B @ v <= -0.5) and np.max(np.abs(v), initial=0.0) < 1.0 / TOL.independent:
        return np.ones(len(B), dtype=bool)  # at v all inequalities are strict
    return strict_rows(B)
