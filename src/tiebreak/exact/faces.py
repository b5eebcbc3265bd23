"""Minimising to rounding over a polyhedron or a ball, or over a flat slice of one.

A region is {x0 + N v} ∩ Z, with N an orthonormal basis of the directions that the slice leaves. It
says two things: the ``step`` d that minimises a quadratic model, and the ``normal`` that balances a
slope, with what is left of it: the residual of the conditions of optimality. Newton's method on
exactly computed slopes does the rest: it is iterative refinement too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from tiebreak.exact.interior import Hint, hint
from tiebreak.functions.parts import LinearPart, Parts, Slope
from tiebreak.linalg import deadline
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.rank import as_it_is, decide_rank, null_basis
from tiebreak.linalg.spectra import EPS
from tiebreak.sets.boxes import Box
from tiebreak.sets.domains import Domain, Halfspace
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.simplices import L1Ball, Simplex

ACTIVE = 1e-12  # a constraint is met with equality if its slack is at most this share of |x|
STILL = 1e-10  # a row that moves less than this along the slice does not move
NEWTON = 100  # most steps of Newton's method
CLEAR = 1e-6  # rows further than this from all combinations of the others are independent
PATIENCE = 40  # changes of the face before a general solver is asked where to begin,
LARGE, IMPATIENCE = 2**12, 6  # and so many for more than LARGE entries: then each costs as much
KEPT = 4  # faces whose factors are kept


# --- sets as inequalities -------------------------------------------------------------------------


class Polyhedron(NamedTuple):
    """{x = lift u : rows u <= offset, equal u constant}, rows of length 1; lift None: x = u.

    What the constants are a feasible start knows.
    """

    rows: Host
    offset: Host
    equal: Host
    lift: Host | None = None

    def lifted(self, x: Host) -> Host:
        """A u with lift u = x that is in the set if x is."""
        return x if self.lift is None else np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)])

    def stretched(self, units: Host) -> Polyhedron:
        """The same for u / units (lift None): exact for bounds of entries and powers of two."""
        assert self.lift is None
        rows, equal = self.rows * units, self.equal * units
        lengths = np.sqrt(np.sum(rows * rows, axis=1))
        equal = equal / np.sqrt(np.sum(equal * equal, axis=1))[:, None]
        return Polyhedron(rows / lengths[:, None], self.offset / lengths, equal)

    def point(self, u: Host) -> Host:
        """lift u, where entries of u that are on their bounds but for rounding are put there."""
        bounds = np.count_nonzero(self.rows, axis=1) == 1
        rows, offset = self.rows[bounds], self.offset[bounds]
        near = np.abs(offset - rows @ u) <= ACTIVE * (norm(u) + np.abs(offset))
        which, sign = np.nonzero(rows[near])[1], np.sum(rows[near], axis=1)
        u = u.copy()
        u[which] = sign * offset[near]
        return u if self.lift is None else self.lift @ u


def polyhedron(domain: Domain, n: int) -> Polyhedron:
    """The domain (any but the ball) in R^n as inequalities.

    The l1 ball has 2^n faces; as x = p - q with p, q >= 0 and a sum of at most the radius only
    2n + 1. Then <rows, u> are the inequalities of u = (p, q).
    """
    one, none = np.eye(n), np.zeros((0, n))
    rows, offset, equal = none, np.zeros(0), none
    if isinstance(domain, Box):  # the orthant too
        low, high = (np.broadcast_to(host(b), n) for b in (domain.lower, domain.upper))
        fixed = low == high
        below, above = np.isfinite(low) & ~fixed, np.isfinite(high) & ~fixed
        rows, offset = np.vstack([-one[below], one[above]]), np.append(-low[below], high[above])
        equal = one[fixed]
    elif isinstance(domain, Simplex):
        rows, offset, equal = -one, np.zeros(n), np.ones((1, n)) / math.sqrt(n)
    elif isinstance(domain, Monotone):
        rows, offset = (one[:-1] - one[1:]) / math.sqrt(2.0), np.zeros(n - 1)
    elif isinstance(domain, Halfspace):
        normal = host(domain.normal)
        rows, offset = normal[None], np.array([domain.offset])
        rows, offset = rows / norm(normal), offset / norm(normal)
    elif isinstance(domain, L1Ball):
        length = math.sqrt(2 * n)
        rows = np.vstack([-np.eye(2 * n), np.ones((1, 2 * n)) / length])
        offset = np.append(np.zeros(2 * n), domain.radius / length)
        return Polyhedron(rows, offset, np.zeros((0, 2 * n)), np.hstack([one, -one]))
    return Polyhedron(rows, offset, equal)


class Region(Protocol):
    """What Newton's method asks of a slice of a set."""

    @property
    def extent(self) -> float:
        """About how far away its bounds are."""
        ...

    @property
    def is_factorised(self) -> bool:
        """Are the singular values of R known already, and R itself not needed?"""
        ...

    def step(self, R: Host, slope: Slope, x: Host) -> Host:
        """The d that minimises ½|R d|² + <slope, d> over the region seen from x."""
        ...

    def normal(self, slope: Slope, x: Host) -> tuple[Host, float]:
        """The outward normal at x that balances the slope best, and how much it does not."""
        ...


def minimise(h: Parts, region: Region, x: Host, basis: Host | None = None) -> tuple[Host, bool]:
    """A minimiser of h over the region, from a point x of it, to rounding; and did it settle?

    Newton's method. Where the margins of logistic losses grow until the region ends, it gains 1
    with every step: then from margins of the size of 1, doubled again and again, for the directions
    of the answers hardly change.
    """
    start = x
    x, settled = _newton(h, region, x, basis)
    steepest = h.largest_margin(region.extent)
    if settled or not 1.0 < steepest < 2.0**50:
        return x, settled
    x = start
    for halvings in range(math.ceil(math.log2(steepest)), -1, -1):
        x, settled = _newton(h.with_margins(2.0**-halvings), region, x, basis)
    return x, settled


def _newton(
    h: Parts,
    region: Region,
    x: Host,
    basis: Host | None = None,
    held: Parts | None = None,
) -> tuple[Host, bool]:
    """A minimiser of h over the region, from a point x of it, and whether it is one to rounding.

    Each step minimises the quadratic model over the region itself. Far away, where logistic losses
    hardly bend, a quadratic above h takes the model's place: its steps always fall. Steps that no
    longer shrink, and no longer change the margins, are rounding.

    Args:
        basis: the directions in which h is known to vary, as columns; keeps the rounding errors of
            flat directions out.
        held: h plus a linear function that is constant on the region, such that their slopes
            cancel; then what is left is known to more digits.
    """
    before, far = math.inf, not h.is_quadratic and held is None
    R: Host | None = None
    for _ in range(NEWTON):
        deadline.check()
        near = h if far or held is not None else h.magnified(x)
        slope = (held or near).slope(x)
        if R is None or not h.is_quadratic:
            R = near.curvature(x, above=far)
            if basis is not None and not region.is_factorised:
                R = (R @ basis) @ basis.T
        if basis is not None and held is None:
            slope = slope._replace(vector=basis @ (basis.T @ slope.vector))
        d = region.step(R, slope, x)
        length, change = norm(d), h.largest_change(d)
        if far:
            far = change > 1.0
            x = x + d
            continue
        x = x + (d if h.is_quadratic else _search(near, x, d) * d)
        stalls = length > 0.5 * before and length <= 1e-6 * norm(x)
        if change <= 1e-6 and (stalls or length <= 2.0 * EPS * norm(x)):
            return x, True
        before = length
    near = h if held is not None else h.magnified(x)
    slope = (held or near).slope(x)
    return x, h.is_quadratic or region.normal(slope, x)[1] <= 8.0 * slope.error < math.inf


def polish(h: Parts, faces: Faces, equal: Host, x: Host, basis: Host) -> Host:
    """The minimiser x once more, on its face, with the multipliers of the face in the slope.

    Multipliers of the size of 1 hide what is left of the slope behind their own rounding errors:
    in directions where h hardly bends that costs digits of x.
    """
    h = h.magnified(x)
    slope = h.slope(x).vector
    rows = np.vstack([faces.pressing(slope, x), equal])
    if not len(rows):
        return x
    deadline.check(0.5 * deadline.svd(*rows.shape))
    weights = np.linalg.lstsq(rows.T, -slope, rcond=STILL)[0]
    tilt = LinearPart(1.0, rows, weights)
    face = Faces(faces.rows, faces.offset, null_basis(rows))
    better, settled = _newton(h, face, x, basis, Parts(h.n, (*h.parts, tilt)))
    return better if settled else x


def _search(h: Parts, x: Host, d: Host) -> float:
    """How far to go along d: all the way unless h rises there, then to its lowest point."""
    derivative = h.along(x, d)
    if derivative(1.0) <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    while high - low > 1e-3 * low and high > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if derivative(middle) < 0.0 else (low, middle)
    return high


# --- the ball -------------------------------------------------------------------------------------


class Disc:
    """{x0 + N v : |x0 + N v - center| <= radius}: a ball again, cut by a flat slice.

    ``radius`` is that of the slice, around the point of it that is nearest to the center.
    ``known``: the singular values and right vectors of R on the slice, if that is always the same.
    """

    def __init__(
        self, center: Host, radius: float, N: Host, known: tuple[Host, Host] | None = None
    ) -> None:
        self.center, self.radius, self.N, self._known = center, radius, N, known
        self._factors: tuple[Host, Host, Host] | None = None  # R, and what it was factorised into

    @property
    def extent(self) -> float:
        return self.radius

    @property
    def is_factorised(self) -> bool:
        return self._known is not None

    def step(self, R: Host, slope: Slope, x: Host) -> Host:
        """One singular value decomposition and one scalar root (the trust-region subproblem).

        In the coordinates of R's singular vectors, z(mu) = -(a + mu w)/(s² + mu), where w is where
        we are seen from the centre and a the slope; mu = 0, or the root of |w + z(mu)| = radius.
        """
        s, vt = self._singular(R)
        a, w = vt @ (self.N.T @ slope.vector), vt @ (self.N.T @ (x - self.center))
        flat = s == 0.0
        a[flat & (np.abs(a) <= ACTIVE * slope.size)] = 0.0
        square = s * s
        with np.errstate(divide="ignore", invalid="ignore"):
            free = np.where(flat, 0.0, w - a / square)  # where h is lowest, nearest to the centre
        if not a[flat].any() and norm(free) <= self.radius:
            room = math.sqrt(self.radius - norm(free)) * math.sqrt(self.radius + norm(free))
            aside = norm(w[flat])
            y = np.where(flat, w * min(1.0, room / aside if aside > 0.0 else 1.0), free)
            z = y - w
            z[~flat] = -a[~flat] / square[~flat]
        else:
            b = square * w - a
            mu = self._multiplier(b, square)
            z = -(a + mu * w) / (square + mu) if mu < math.inf else b * (self.radius / norm(b)) - w
        return np.asarray(self.N @ (vt.T @ z))

    def _singular(self, R: Host) -> tuple[Host, Host]:
        """All singular values and right vectors of R on the slice; once where R stays the same."""
        if self._known is not None:
            return self._known
        if self._factors is None or self._factors[0] is not R:
            m, k = len(R), self.N.shape[1]
            deadline.check(deadline.svd(m, k, whole=m < k))
            _, s, vt = np.linalg.svd(R @ self.N, full_matrices=m < k)
            s = np.append(s, np.zeros(len(vt) - len(s)))
            s[s <= max(R.shape) * EPS * norm(R)] = 0.0
            self._factors = R, s, vt
        return self._factors[1:]

    def _multiplier(self, b: Host, square: Host) -> float:
        """The root mu of |b/(s² + mu)| = radius; inf where it overflows."""
        from scipy.optimize import brentq

        with np.errstate(over="ignore"):
            b = b / self.radius
        if not math.isfinite(norm(b)):
            return math.inf

        def excess(mu: float) -> float:
            with np.errstate(divide="ignore", invalid="ignore"):
                length = norm(np.where(b == 0.0, 0.0, b / (square + mu)))
            return 1.0 / length - 1.0 if length > 0.0 else math.inf

        high = norm(b)
        while excess(high) < 0.0:
            high *= 1.0 + 1e-6
        low = high
        while excess(low) > 0.0 and low > 1e-300:
            low *= 0.1
        if low == high or excess(low) > 0.0:  # at an end, but for rounding
            return low
        return float(brentq(excess, low, high, xtol=1e-300, rtol=4 * EPS))

    def multiplier(self, slope: Host, x: Host) -> float:
        """mu >= 0 with slope + mu (x - center) = 0 along the slice, as well as it goes."""
        w = self.N.T @ (x - self.center)
        if norm(w) < self.radius * (1.0 - ACTIVE) or not w.any():
            return 0.0
        return max(-float(w / norm(w) @ (self.N.T @ slope)) / norm(w), 0.0)

    def normal(self, slope: Slope, x: Host) -> tuple[Host, float]:
        normal = self.multiplier(slope.vector, x) * (x - self.center)
        return normal, norm(self.N.T @ (slope.vector + normal))


# --- polyhedra ------------------------------------------------------------------------------------


class Face:
    """{v : fixed v = 0}, for rows of length 1; by a factorisation of fixed'."""

    def __init__(self, fixed: Host, k: int) -> None:
        self.count, self._order = len(fixed), np.arange(len(fixed))
        deadline.check(0.5 * deadline.svd(k, self.count, whole=True))
        Q, triangle = np.linalg.qr(fixed.T, mode="complete")
        if self.count > k or np.min(np.abs(np.diag(triangle)), initial=1.0) < CLEAR:
            from scipy.linalg import qr  # takes several times as long

            deadline.check(deadline.svd(k, self.count, whole=True))
            Q, triangle, self._order = qr(fixed.T, pivoting=True)
        rank = int(np.count_nonzero(np.abs(np.diag(triangle)) > STILL))
        self._span, self._triangle = Q[:, :rank], triangle[:rank, :rank]
        self.T = Q[:, rank:]  # an orthonormal basis of the face
        self._bowl: tuple[Host, Host, Host] | None = None  # R, and what it was factorised into

    def onto(self, off: Host) -> Host:
        """The smallest d with fixed d = off, where there is one."""
        from scipy.linalg import solve_triangular

        first = self._order[: len(self._triangle)]
        return np.asarray(self._span @ solve_triangular(self._triangle, off[first], trans="T"))

    def balance(self, slope: Host) -> tuple[Host, Host]:
        """Weights that make slope + fixed'w smallest, and what is left."""
        from scipy.linalg import solve_triangular

        weights, along = np.zeros(self.count), self._span.T @ slope
        first = self._order[: len(self._triangle)]
        weights[first] = -solve_triangular(self._triangle, along)
        return weights, np.asarray(self.T @ (self.T.T @ slope))

    def step(self, R: Host, bend: float, slope: Host, size: float) -> tuple[Host, Host]:
        """The step to the lowest point of ½|Rv|² + <slope, v>, and the slope that never bends."""
        if self._bowl is None or self._bowl[0] is not R:
            deadline.check(deadline.svd(len(R), self.T.shape[1]))
            _, s, vt = np.linalg.svd(R @ self.T, full_matrices=False)
            kept = s > max(R.shape) * EPS * bend
            self._bowl = R, s[kept], vt[kept]
        _, s, vt = self._bowl
        q = self.T.T @ slope
        across = vt @ q
        rest = q - vt.T @ across
        rest -= vt.T @ (vt @ rest)
        ray = -rest if norm(rest) > ACTIVE * size else 0.0 * rest
        return self.T @ (vt.T @ (-across / s / s)), self.T @ ray


class Faces:
    """{x0 + N v} ∩ {rows x <= offset}. The last faces are kept, with their factors."""

    is_factorised = False

    def __init__(self, rows: Host, offset: Host, N: Host) -> None:
        moving = rows @ N
        lengths = np.sqrt(np.sum(moving * moving, axis=1))
        self.live = lengths > STILL
        self.rows, self.offset, self.N = rows[self.live], offset[self.live], N
        self.lengths = lengths[self.live]
        self.B = moving[self.live] / self.lengths[:, None]  # inequalities in v, rows of length 1
        self._kept: dict[bytes, Face] = {}
        self._bend: tuple[Host, Host] | None = None  # R, and R on the slice

    @property
    def extent(self) -> float:
        return norm(self.offset)

    def face(self, on: Host) -> Face:
        """The face where these inequalities hold with equality."""
        key = on.tobytes()
        found = self._kept.pop(key, None) or Face(self.B[on], self.N.shape[1])
        self._kept[key] = found  # as the last one
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    def slack(self, x: Host, share: float = ACTIVE) -> tuple[Host, Host]:
        """How far each inequality is from equality, in v, and how little counts as nothing."""
        slack = (self.offset - self.rows @ x) / self.lengths
        least = share * (norm(x) + np.abs(self.offset)) / self.lengths
        return np.where(slack <= least, 0.0, slack), least

    def step(self, R: Host, slope: Slope, x: Host) -> Host:
        if self._bend is None or self._bend[0] is not R:
            self._bend = R, R @ self.N
        q, RN = self.N.T @ slope.vector, self._bend[1]
        if not len(self.B):
            nothing = self.face(np.zeros(0, dtype=bool))
            return np.asarray(self.N @ nothing.step(RN, norm(R), q, slope.size)[0])
        # First back onto the inequalities that are met: long steps have left them by rounding.
        off = (self.offset - self.rows @ x) / self.lengths
        on = self.slack(x)[0] == 0.0
        back = self.face(on).onto(off[on]) if off[on].any() else np.zeros(len(q))
        slack, least = self.slack(x + self.N @ back)
        here = slope._replace(vector=q + RN.T @ (RN @ back))
        return np.asarray(self.N @ (back + _descend(self, RN, norm(R), here, slack, least)))

    def balance(self, slope: Host, x: Host) -> tuple[Host, Host]:
        """The multipliers of all inequalities at x, and what they leave of the slope."""
        on = self.slack(x, 1e3 * ACTIVE)[0] == 0.0
        weights = np.zeros(len(on))
        weights[on], rest = self._multipliers(on, self.N.T @ slope)
        return weights / self.lengths, rest

    def pressing(self, slope: Host, x: Host) -> Host:
        """The rows of the inequalities with positive multipliers."""
        return np.asarray(self.rows[self.balance(slope, x)[0] > 0.0])

    def normal(self, slope: Slope, x: Host) -> tuple[Host, float]:
        weights, rest = self.balance(slope.vector, x)
        return weights @ self.rows, norm(rest)

    def _multipliers(self, on: Host, slope: Host) -> tuple[Host, Host]:
        """Weights w >= 0 that make slope + B'w smallest, B the rows that are on; and what is left.

        Plain least squares where its weights have the right signs, which they mostly have.
        """
        if not on.any():
            return np.zeros(0), slope
        weights, rest = self.face(on).balance(slope)
        if np.all(weights >= 0.0):
            return weights, rest
        from scipy.optimize import nnls

        B, scale = self.B[on], norm(slope) or 1.0
        deadline.check(deadline.svd(*B.shape))
        try:
            weights = scale * nnls(B.T, -slope / scale)[0]
        except RuntimeError:  # it has its own limit of steps
            weights = np.maximum(weights, 0.0)
        used = weights > 0.0  # once more, for nnls is not accurate to rounding
        pressed = np.zeros(len(on), dtype=bool)
        pressed[np.flatnonzero(on)[used]] = True
        better, rest = self.face(pressed).balance(slope)
        if np.all(better >= 0.0):
            weights[used] = better
            return weights, rest
        return weights, slope + B.T @ weights


def _descend(faces: Faces, RN: Host, bend: float, start: Slope, slack: Host, least: Host) -> Host:
    """The minimiser v of ½|RN v|² + <start, v> over {B v <= slack}, from v = 0.

    On a face: to its lowest point, or to the next inequality on the way, which joins the face.
    At the lowest point of a face: multipliers. If they have the right signs, done; otherwise off
    along the projection of -slope onto the cone of feasible directions, which leaves the face and
    always falls (so nothing can cycle).
    """
    q, B = start.vector, faces.B
    v, face, settled = np.zeros(len(q)), slack <= 0.0, False
    patience = IMPATIENCE if B.size > LARGE else PATIENCE
    for turn in range(patience + 10 * sum(B.shape)):
        deadline.check()
        if turn == patience:
            v, face = _hinted(faces, RN, q, slack, least, v, face)
            settled = False
        slope = q + RN.T @ (RN @ v)
        room = np.maximum(slack - B @ v, 0.0)
        if not settled:
            newton, ray = faces.face(face).step(RN, bend, slope, start.size)
            length, stops = _reach(B, room, ray, face)
            if math.isinf(length):  # no slope without curvature, or nothing in its way
                length, stops = _reach(B, room, newton, face)
                ray, settled = newton, length >= 1.0
                length = min(length, 1.0)
            v = v + length * ray
            if not settled:
                face = face | stops
            continue
        on = face | (room <= least + ACTIVE * norm(v))
        _, rest = faces._multipliers(on, slope)
        noise = start.error + 16 * len(q) * EPS * (norm(q) + bend * bend * norm(v))
        if norm(rest) <= noise:
            break
        length, stops = _reach(B, room, -rest, on)
        bent = norm(RN @ rest)
        if bent > 8 * EPS * bend * norm(rest):
            best = (norm(rest) / bent) ** 2
            length, stops = (length, stops) if length <= best else (best, stops & False)
        if math.isinf(length):
            break  # falls for ever along a direction that is none but for rounding
        v = v - length * rest
        stays = np.abs(B @ rest) <= 1e-9 * norm(rest)
        face, settled = (on & stays) | stops, False
    return v


def _reach(B: Host, room: Host, p: Host, face: Host) -> tuple[float, Host]:
    """How far along p the first inequality outside the face is met, and which ones are met."""
    rate = B @ p
    ahead = ~face & (rate > 1e-12 * norm(p)) & (rate > 0.0)
    if not ahead.any():
        return math.inf, np.zeros(len(B), dtype=bool)
    ratio = np.full(len(B), math.inf)
    with np.errstate(over="ignore"):
        ratio[ahead] = room[ahead] / rate[ahead]
    length = float(ratio.min())
    return length, ratio <= length * (1.0 + 1e-12)


# --- general solvers ------------------------------------------------------------------------------


def _hinted(
    faces: Faces, RN: Host, q: Host, slack: Host, least: Host, v: Host, face: Host
) -> tuple[Host, Host]:
    """Where a general solver says the answer is, if that is lower: a point and its face."""
    B = faces.B
    found = _vertex(q, B, slack) if not RN.any() else hint(RN, q, B, slack)
    if found is None:
        return v, face
    point = found.point
    least = least + 1e3 * ACTIVE * norm(point)
    for pressed in found.guesses:
        snapped = point - faces.face(pressed).onto(B[pressed] @ point - slack[pressed])
        if np.all(B @ snapped <= slack + least):
            point = snapped
            break
    else:  # back towards 0, which is feasible
        rate = B @ point
        over = rate > slack
        point = point * float(np.min(slack[over] / rate[over], initial=1.0))

    def value(u: Host) -> float:
        return 0.5 * norm(RN @ u) ** 2 + float(q @ u)

    return (point, slack - B @ point <= least) if value(point) < value(v) else (v, face)


def _vertex(q: Host, B: Host, slack: Host) -> Hint | None:
    """A minimiser of <q, v> over {B v <= slack}, and the inequalities that press (HiGHS)."""
    found = linear_program(q / norm(q), B, slack, (None, None))
    if found is None:
        return None
    room = slack - B @ found
    return Hint(found, (room <= 1e-9 * (np.abs(slack) + norm(found)),))


def linear_program(cost: Host, rows: Host, right: Host, bounds: Any) -> Host | None:
    """A minimiser of <cost, v> over {rows v <= right} and bounds; None where HiGHS finds none."""
    found = highs(cost, A_ub=rows, b_ub=right, bounds=bounds)
    return None if found is None else np.asarray(found.x)


def highs(cost: Host, **program: Any) -> Any:
    """What SciPy's linprog says of a linear program; None where HiGHS finds no minimiser."""
    from scipy.optimize import linprog

    for tolerance in (1e-10, 1e-7):  # it may give up where it is asked for too much
        deadline.check()
        options = {
            "primal_feasibility_tolerance": tolerance,
            "dual_feasibility_tolerance": tolerance,
            "time_limit": deadline.left(),
        }
        found = linprog(cost, **program, options=options)
        deadline.check()
        if found.status == 0:
            return found
    return None


class Fall(NamedTuple):
    """A direction along which a function falls for ever, or None; and whether that is certain."""

    direction: Host | None
    is_certain: bool = True


def falling(c: Host, B: Host) -> Fall:
    """A direction v of the cone {B v <= 0}, rows of length 1, with <c, v> < 0."""
    if not c.any():
        return Fall(None)
    steepest = -c / norm(c)
    if np.all(B @ steepest <= 8 * EPS):
        return Fall(steepest)
    v = linear_program(-steepest, B, np.zeros(len(B)), (-1.0, 1.0))
    fall = math.nan if v is None else float(steepest @ v)
    return Fall(v) if fall > 1e-7 else Fall(None, fall <= 1e-9)


def falling_losses(c: Host, B: Host, rises: Host, weights: Host) -> Fall:
    """The same for <c, v> + sum of weights_i log(1 + exp(-<rises_i, v>)), rises of length 1.

    Far out it is <c, v> + sum weights_i max(-<rises_i, v>, 0). It falls for ever where that is
    negative, and also where that is 0 and some <rises_i, v> is not: an infimum not attained.
    In coordinates u, v = W u, in which the rises have orthonormal columns: then no direction that
    matters is small.
    """
    rank = decide_rank(rises, units=as_it_is(rises))
    r, k = rank.low, len(c)
    V = rank.basis
    W = np.hstack([V[:, :r] / rank.sigma[:r], V[:, r:]])
    U, tilt, cone = rises @ W, W.T @ c, B @ W
    cone /= np.maximum(np.sqrt(np.sum(cone * cone, axis=1)), STILL)[:, None]
    fall = _falling_far(tilt, cone, U, weights) if c.any() else _rising(U, cone, r)
    if fall.direction is None:
        return fall._replace(is_certain=fall.is_certain and rank.is_determined)
    v = W @ fall.direction
    both = np.vstack([rises, c[None] / (norm(c) or 1.0)])
    seen = decide_rank(both, units=as_it_is(both))
    T = seen.basis[:, : seen.low]
    matters = T @ (T.T @ v)  # what is left is idle: without it, if that stays in the cone
    return Fall(matters if np.all(B @ matters <= 8 * k * EPS * norm(matters)) else v)


def _rising(U: Host, cone: Host, r: int) -> Fall:
    """A direction u of the cone with U u >= 0 and not 0; U has r orthonormal columns, then zeros.

    Then the sum of U u is at least 1 where its first r entries have length 1: 0 or that.
    """
    rows = np.vstack([-U, cone])
    box = [(-1.0, 1.0)] * r + [(None, None)] * (U.shape[1] - r)
    u = linear_program(-np.sum(U, axis=0), rows, np.zeros(len(rows)), box)
    if u is None or float(np.sum(U @ u)) <= 0.5:
        return Fall(None, u is not None and float(np.sum(U @ u)) <= 1e-6)
    return _exactly(u, -U, cone)


def _exactly(u: Host, downs: Host, cone: Host) -> Fall:
    """u with downs u <= 0 and not 0, and in the cone: to rounding, or it is not certain."""
    rows, size = np.vstack([downs, cone]), norm(downs @ u)
    near = np.abs(rows @ u) <= 1e-7 * size  # HiGHS means 0
    deadline.check(0.5 * deadline.svd(*rows.shape))
    u = u - np.linalg.lstsq(rows[near], rows[near] @ u, rcond=STILL)[0]
    is_inside = np.all(rows @ u <= 16 * len(u) * EPS * norm(u))
    return Fall(u) if is_inside and norm(downs @ u) > 0.5 * size else Fall(None, False)


def _falling_far(tilt: Host, cone: Host, U: Host, weights: Host) -> Fall:
    """A direction along which <tilt, u> + sum weights_i max(-<U_i, u>, 0) falls, or stays at 0."""
    m, k = U.shape
    scale = norm(tilt) + norm(weights)
    far = np.concatenate([tilt, weights]) / scale  # of (u, z), z >= max(-U u, 0)
    rows = np.vstack([np.hstack([-U, -np.eye(m)]), np.hstack([cone, np.zeros((len(cone), m))])])
    zero, box = np.zeros(len(rows)), [(-1.0, 1.0)] * k + [(0.0, math.sqrt(k))] * m
    v = linear_program(far, rows, zero, box)
    if v is not None and float(far @ v) < -1e-7:
        return Fall(v[:k])
    is_clear = v is not None and float(np.min(weights)) > 1e-6 * scale  # beside HiGHS's tolerances
    moved = -np.concatenate([np.sum(U, axis=0), 2.0 * np.ones(m)])  # -sum |<U_i, u>|
    v = linear_program(moved, np.vstack([rows, far]), np.append(zero, 0.0), box)
    if v is None or float(moved @ v) >= -1e-6:
        return Fall(None, is_clear and v is not None)
    u = v[:k]
    down = U @ u < -1e-7
    bent = (tilt - weights[down] @ U[down]) / scale  # 0 along u
    return _exactly(u, np.where(down, 1.0, -1.0)[:, None] * U, np.vstack([cone, bent]))


def loose(B: Host) -> Host | None:
    """Which of the inequalities B v <= 0 can hold strictly, all of these at once; rows of length 1.

    max sum z over {B v + z <= 0, |v| <= 1}, again and again for those that are not yet known to:
    a mean of directions that loosen some of them loosens all of these. None where HiGHS gives up.
    """
    m, k = B.shape
    v = Face(B, k).onto(np.full(m, -1.0))
    if np.all(B @ v <= -0.5) and np.max(np.abs(v), initial=0.0) < 1.0 / CLEAR:
        return np.ones(m, dtype=bool)  # as where the rows are independent
    known = np.zeros(m, dtype=bool)
    while not known.all():
        cost = np.append(np.zeros(k), known - 1.0)
        box = [(-1.0, 1.0)] * k + [(0.0, 0.0 if is_known else 1.0) for is_known in known]
        found = linear_program(cost, np.hstack([B, np.eye(m)]), np.zeros(m), box)
        if found is None:
            return None
        more = found[k:] > 1e-6
        if not more.any():
            break
        known |= more
    return known
