"""Directions along which a level falls for ever, so that there is no minimiser; proved or not said.

For g(x) = sum of w_i log(1 + exp(-<m_i, x>)) + (squares of Rx - s) + <c, x> on Z and a direction d
of Z (x + t d is in Z for every x in Z and t >= 0) with R d = 0, the slope of g along d tends to

    <c, d> + sum of w_i max(-<m_i, d>, 0)    from below.

If that is at most 0, and <c, d> < 0 or some <m_i, d> is not 0, then g(x + d) < g(x) for every x:
no x is a minimiser. The same for f among the minimisers of g, along a d that does not change what
all of them share. This holds for any d, wherever it came from: from the way that a run has gone,
or from a linear program. A d counts only if all of this holds for the numbers as they are stored,
rounding errors included; see `_Level.falls_along`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiebreak.functions.base import SmoothFunction
from tiebreak.functions.elementary import Flat, Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses import LeastSquares, Logistic
from tiebreak.functions.sums import summands
from tiebreak.linalg import arrays, spectra
from tiebreak.linalg.arrays import Array, rounding_unit
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.matrices import DENSE_LIMIT, Matrix
from tiebreak.linalg.rank import decide_rank
from tiebreak.linalg.spectra import EPS, Host
from tiebreak.problem import Problem
from tiebreak.sets.domains import Box, Domain, Halfspace, Monotone, Space

PATIENCE, WORTH = 32, 4  # steps before the linear program, and for each of its smaller side
NEWTON_LIMIT = 512  # variables: a Newton step on more of them costs more than a linear program
SLIGHT = 1e-10  # relative: slopes this small are rounding errors of what they were computed from
MEANT = 1e-7  # relative: where a linear program means 0
LARGEST = 12  # directions with whole numbers up to this are tried: their products are exact
LONG = 2**28  # multiplications of a factorisation: beyond this a linear program takes minutes
ROUGH = 0.5  # of 1: a Newton step that changes no margin by more shows that there is a minimiser

CONES = (Space, Box, Monotone, Halfspace)
KNOWN = (LeastSquares, Logistic, Quadratic, Linear, SquaredNorm, Flat)

LOWER = "g has no minimiser: it falls"
UPPER = "f has no minimum over the minimisers of g: it falls"
DOUBT = "whether g has a minimiser is not determined: it still falls far beyond x,"
FURTHER = 12  # doublings of x, in search of a point where no loss is wrong
DOUBLINGS, FALLING = 4, 0.75  # so often the way to x is doubled, and g falls at least to this share


class NoMinimum(NamedTuple):
    """A level falls for ever along ``direction``, which has length 1; findings of a run."""

    level: str  # "upper" or "lower"
    direction: Array
    is_proved: bool = True  # False: only seen, for g is nothing but callables
    dimension: int | None = None

    @property
    def status(self) -> str:
        """With which the run ends."""
        return "unbounded" if self.is_proved else "undetermined"

    @property
    def sentence(self) -> str:
        """For the message."""
        d = host(self.direction)
        largest = np.argsort(-np.abs(d), kind="stable")[:3]
        entries = ", ".join(f"x[{i}] {d[i]:+.3g}" for i in largest if abs(d[i]) > 1e-9)
        more = ", ..." if np.count_nonzero(np.abs(d) > 1e-9) > len(largest) else ""
        what = (LOWER if self.level == "lower" else UPPER) if self.is_proved else DOUBT
        return f"{what} along the direction {entries}{more}"

    def lines(self) -> list[tuple[str, str]]:
        """Nothing but the message."""
        return []


class Watch:
    """Looks for such directions while a method is at work on a problem.

    Few and cheap looks: at steps that are powers of two the way that the run has gone is tried as
    a direction, which costs one product. Once, when the run has cost as much as that or is about
    to end with a success, a linear program (HiGHS) looks at all directions at once.
    """

    def __init__(self, problem: Problem, x0: Array) -> None:
        n, g = int(x0.shape[0]), problem.smooth_parts[1]
        self._problem, self._x0, self._next = problem, x0, 0
        self._lower: _Level | None = None
        self._upper: _Level | None = None
        self._cone: _Cone | None = None
        self._floor = 0.0  # what a loss whose rows are not at hand is at least, if it is wrong
        can_fall = not (
            problem.is_bounded
            or any(problem.penalties[1].terms.weights)
            or g.strong_convexity > 0.0
        )
        self._is_blind = can_fall and not all(isinstance(p, KNOWN) for _, p in summands(g.bare))
        if can_fall and isinstance(problem.domain, CONES):
            self._cone = _Cone(problem.domain, n)
            below = _parts(g, n)
            if below is not None and below.hidden == math.inf:
                self._lower, self._upper = _levels(problem, below, self._cone)
            elif below is not None and not (below.still or below.tilt.size):
                least = min([below.hidden, *(weight for weight, _ in below.losses)])
                self._floor = least * math.log(2.0) * (1.0 - 8.0 * EPS)
        self._is_settled = self._lower is None and self._upper is None

    def look(
        self, step: int, x: Array, gaps: tuple[float, float], seconds: float = math.inf
    ) -> NoMinimum | None:
        """At a step on the way: is there no minimum?

        ``gaps`` are the proved ones of both levels, inf where nothing is: quadratics that are
        bounded below have a minimum. A linear program may take ``seconds``.
        """
        if step < self._next:
            return None
        self._next = 2 * step or 1
        if step > 0 and self._is_below_floor(x):
            return self._found("lower", host(x))
        if self._is_settled:
            return None
        upper_gap, lower_gap = gaps
        if self._upper is not None and not self._upper.losses and upper_gap < math.inf:
            self._upper = None
        if self._lower is not None and not self._lower.losses and lower_gap < math.inf:
            self._lower = None
        lower = self._lower
        if lower is not None and lower.losses:
            ways = [] if arrays.norm(self._x0) == 0.0 else [x - self._x0]
            candidates = [*map(host, [x, *ways])] if step else lower.columns()
            for d in candidates:
                if (found := lower.falls_along(d)) is not None:
                    return self._found("lower", found)
        is_worth = step >= PATIENCE + WORTH * max(
            (level.side for level in (lower, self._upper) if level is not None), default=0
        )
        return self._settle(seconds) if is_worth else None

    def last(
        self,
        x: Array,
        gaps: tuple[float, float],
        is_success: bool,
        seconds: float = math.inf,
    ) -> NoMinimum | None:
        """At the end: is there no minimum?  A success needs that g has a minimiser."""
        if is_success and any(self._is_below_floor(2.0**k * x) for k in range(FURTHER)):
            return self._found("lower", host(x))
        if is_success and self._is_blind:
            return self._still_falls(x)
        if self._is_settled:
            return None
        if is_success:
            if self._lower is None:
                return None
            slope = host(self._problem.lower.gradient(x))
            if self._lower.has_minimum_near(host(x), slope):
                return None
        return self.look(max(self._next, 1), x, gaps, seconds) or self._settle(seconds)

    def _is_below_floor(self, x: Array) -> bool:
        """Is g(x) so small that x is a direction along which it falls?

        A loss with <m_i, x> <= 0 is at least log 2 times its weight.
        """
        if not self._floor > 0.0 or self._cone is None or not self._cone.contains(host(x)):
            return False
        g, size = self._problem.lower, arrays.norm(x)
        value = g.value(x)
        error, _ = g.rounding(size, value, 0.0, arrays.epsilon(x), int(x.shape[0]))
        return value + error < self._floor

    def _still_falls(self, x: Array) -> NoMinimum | None:
        """Does g, of which only values are known, fall and fall along the way that led to x?

        That proves nothing. But a success says that there is a minimiser close to x.
        """
        g, d = self._problem.smooth_parts[1], x - self._x0
        length, value, far = arrays.norm(d), g.value(x), x
        if not length > 0.0:
            return None
        for k in range(DOUBLINGS):
            before, far = value, x + 2.0**k * d
            value = g.value(far)
            # A value below 0 may be anything; where it is rounding it does not fall to a share.
            if not (0.0 < value <= FALLING * before and self._problem.domain.contains(far)):
                return None
        return NoMinimum("lower", d / length, is_proved=False)

    def _settle(self, seconds: float) -> NoMinimum | None:
        """All directions at once, by linear programs, where there are not too many numbers."""
        if self._is_settled or not seconds > 0.0:
            return None
        self._is_settled = True
        for name, level in (("lower", self._lower), ("upper", self._upper)):
            if level is not None and (d := level.by_program(seconds)) is not None:
                return self._found(name, d)
        return None

    def _found(self, level: str, d: Host) -> NoMinimum:
        self._is_settled = True
        return NoMinimum(level, arrays.like(d / norm(d), self._x0))


def _levels(problem: Problem, below: _Parts, cone: _Cone) -> tuple[_Level | None, _Level | None]:
    """Both levels as far as they can fall for ever; None where one cannot, or it is not known."""
    n, f, penalty = len(cone.low), problem.smooth_parts[0], problem.penalties[0]
    lower = _Level(below, cone, n) if below.losses or below.tilt.size else None
    if any(penalty.terms.weights) or f.strong_convexity > 0.0 or not below.tilt.is_exact:
        return lower, None
    above = _parts(f, n)
    if above is None or above.hidden < math.inf or not (above.losses or above.tilt.size):
        return lower, None
    held = [*below.still, *(rows for _, rows in below.losses)]
    held += [_Rows(below.tilt.c[None])] if below.tilt.size else []
    return lower, _Level(above._replace(still=[*held, *above.still]), cone, n)


# --- rows, whatever they are made of --------------------------------------------------------------


class _Rows:
    """Rows on the host, dense or sparse; ``signs`` are those of labels."""

    def __init__(self, entries: Any, signs: Host | None = None) -> None:
        if signs is not None and isinstance(entries, np.ndarray):
            entries = signs[:, None] * entries
        elif signs is not None:
            from scipy.sparse import diags_array

            entries = (diags_array(signs) @ entries).tocsr()
        self.entries = entries
        self.shape = (int(entries.shape[0]), int(entries.shape[1]))

    @classmethod
    def of(cls, matrix: Matrix, signs: Host | None = None) -> _Rows:
        return cls(matrix.entries.astype(np.float64) if matrix.is_sparse else matrix.dense(), signs)

    @property
    def stored(self) -> int:
        """How many entries are not known to be 0."""
        return int(self.entries.nnz) if self._is_csr else math.prod(self.shape)

    @cached_property
    def _is_whole(self) -> bool:
        """Are all entries whole numbers?"""
        stored = self.entries.data if self._is_csr else self.entries
        return bool(np.all(stored == np.floor(stored)))

    @property
    def _is_csr(self) -> bool:
        return not isinstance(self.entries, np.ndarray)

    @cached_property
    def sizes(self) -> Host:
        """The length of every row, rounded up."""
        squares = self.entries.multiply(self.entries) if self._is_csr else self.entries**2
        lengths = np.sqrt(np.asarray(squares.sum(axis=1)).reshape(-1))
        return np.asarray(lengths * (1.0 + self.shape[1] * EPS))

    def along(self, d: Host) -> tuple[Host, Host]:
        """Their products with d, and bounds on the rounding errors of these."""
        product, size = self.entries @ d, abs(self.entries) @ np.abs(d)
        if self._is_whole and not np.any(d != np.floor(d)) and np.max(size, initial=0.0) < 2.0**53:
            return product, np.zeros(len(product))
        return product, (self.shape[1] + 4) * EPS * size  # 0 where there is nothing to add up

    def some(self, which: Host) -> Host:
        """Some of the rows, dense."""
        rows = self.entries[np.flatnonzero(which)]
        return np.asarray(rows.toarray() if self._is_csr else rows)

    def columns(self) -> tuple[Host, Host]:
        """The least and the largest entry of every column."""
        least, most = self.entries.min(axis=0), self.entries.max(axis=0)
        if self._is_csr:
            least, most = least.todense(), most.todense()
        return np.asarray(least).reshape(-1), np.asarray(most).reshape(-1)

    def gram(self, weights: Host | None = None) -> Host:
        """The sum of weight_i m_i m_i'."""
        A = self.entries
        if not self._is_csr:
            return np.asarray(A.T @ (A if weights is None else weights[:, None] * A))
        weighted = A if weights is None else A.multiply(weights[:, None]).tocsr()
        return np.asarray((A.T @ weighted).toarray())


class _Along(NamedTuple):
    """Rows times a direction d: the products, bounds on their errors, and |row| |d|."""

    rows: _Rows
    product: Host
    error: Host
    size: Host

    @classmethod
    def of(cls, rows: _Rows, d: Host) -> _Along:
        return cls(rows, *rows.along(d), rows.sizes * norm(d))

    @property
    def is_open(self) -> Host:
        """Which are not known to be exactly 0?"""
        return np.asarray((self.product != 0.0) | (self.error > 0.0))

    @property
    def is_near(self) -> Host:
        """Which may be 0, and may be not?"""
        return np.asarray((self.error > 0.0) & (np.abs(self.product) <= self.error))

    @property
    def is_exact(self) -> bool:
        """Is nothing rounded?"""
        return not self.error.any()

    def signs(self, reach: float) -> Host | None:
        """The signs of all products within ``reach`` of d, near ones taken as 0; None: not sure."""
        near, lost = self.is_near, self.error + reach * self.rows.sizes
        if np.any(~near & (self.product != 0.0) & (np.abs(self.product) <= lost)):
            return None
        return np.where(near, 0.0, np.sign(self.product))

    def rises(self, reach: float) -> bool:
        """May one of them be positive, near ones taken as 0?"""
        signs = self.signs(reach)
        return signs is None or bool(np.any(signs > 0.0))


class _Parts(NamedTuple):
    """What a level is made of, as far as directions go."""

    still: list[_Rows]  # whose products with d must be 0
    losses: list[tuple[float, _Rows]]  # the weight and the rows of logistic losses
    tilt: Tilt
    hidden: float  # the least weight of logistic losses whose rows are not at hand, or inf


class Tilt(NamedTuple):
    """c, the sum of all linear terms."""

    c: Host
    size: float = 0.0  # the sum of their lengths, which may cancel in c
    is_exact: bool = True  # was nothing rounded in c?

    def plus(self, weight: float, c: Host) -> Tilt:
        more = weight * c
        is_exact = self.size == 0.0 and _is_power(weight)
        return Tilt(self.c + more, self.size + norm(more), is_exact) if c.any() else self


def _is_at_hand(matrix: Matrix) -> bool:
    """Are the entries in memory, and not too many?"""
    return (matrix.is_explicit or matrix.is_sparse) and matrix.size <= DENSE_LIMIT


def _parts(h: SmoothFunction, n: int) -> _Parts | None:
    """h in parts; None where it is not known what it is made of."""
    still: list[_Rows] = []
    losses: list[tuple[float, _Rows]] = []
    tilt, hidden = Tilt(np.zeros(n)), math.inf
    for weight, part in summands(h.bare):
        is_hidden = part.matrix is not None and not _is_at_hand(part.matrix)
        if is_hidden and isinstance(part, Logistic):
            hidden = min(hidden, weight * part.scale)
        elif is_hidden:
            return None
        elif isinstance(part, LeastSquares):
            still.append(_Rows.of(part.matrix))
        elif isinstance(part, Logistic):
            losses.append((weight * part.scale, _Rows.of(part.matrix, host(part.y))))
        elif isinstance(part, Quadratic):
            still.append(_Rows.of(part.matrix))
            tilt = tilt.plus(weight, host(part.c))
        elif isinstance(part, Linear):
            tilt = tilt.plus(weight, host(part.c))
        elif not isinstance(part, Flat | SquaredNorm):  # what has the latter is strongly convex
            return None
    return _Parts(still, losses, tilt, hidden)


class _Cone:
    """The directions of Z: {d : low <= d <= high, rows d <= 0}, bounds 0 or infinite."""

    def __init__(self, domain: Domain, n: int) -> None:
        self.low, self.high = np.full(n, -math.inf), np.full(n, math.inf)
        self.rows: _Rows | None = None
        self._is_monotone = isinstance(domain, Monotone)
        self.is_space = isinstance(domain, Space)
        if isinstance(domain, Box):
            low, high = (np.broadcast_to(host(b), n) for b in (domain.lower, domain.upper))
            self.low = np.where(np.isfinite(low), 0.0, -math.inf)
            self.high = np.where(np.isfinite(high), 0.0, math.inf)
        elif isinstance(domain, Halfspace):
            self.rows = _Rows(host(domain.normal)[None])
        elif isinstance(domain, Monotone) and n > 1:
            from scipy.sparse import diags_array

            steps = diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
            self.rows = _Rows(steps.tocsr())

    def contains(self, d: Host) -> bool:
        """Is d one of them, surely?"""
        if self._is_monotone:
            return bool(np.all(d[:-1] <= d[1:]))
        if self.rows is not None:
            product, error = self.rows.along(d)
            return bool(np.all(product + error <= 0.0))
        return bool(np.all((self.low <= d) & (d <= self.high)))

    def nearest(self, d: Host) -> Host:
        """d with what is in the way of its signs taken away."""
        if self._is_monotone:
            return host(Monotone().project(d))
        return np.clip(d, self.low, self.high)


# --- one level ------------------------------------------------------------------------------------


class _Level:
    """A level in parts, and the directions of Z."""

    def __init__(self, parts: _Parts, cone: _Cone, n: int) -> None:
        self.still, self.losses, self.linear, _ = parts
        self.tilt, self.cone, self.n = parts.tilt.c, cone, n

    @cached_property
    def _all(self) -> list[_Rows]:
        return [*self.still, *(rows for _, rows in self.losses)]

    @property
    def side(self) -> int:
        """The smaller side of its matrix."""
        return min(self.n, sum(rows.shape[0] for rows in self._all))

    def falls_along(self, d: Host) -> Host | None:
        """d, or what is left of it in the cone, where this level is proved to fall along it.

        Products that are 0 but for rounding are taken to be 0, if all of them are at some d' near
        d: see `_way_to_zeros`. All the others must keep their signs as far away as that.
        """
        d = self.cone.nearest(d)
        top = float(np.max(np.abs(d), initial=0.0))
        if not 0.0 < top < math.inf:
            return None
        if np.any(d != np.floor(d)):
            d = np.ldexp(d, -math.frexp(top)[1])  # exactly
        still = [_Along.of(rows, d) for rows in self.still]
        losses = [_Along.of(rows, d) for _, rows in self.losses]
        cone = [] if self.cone.rows is None else [_Along.of(self.cone.rows, d)]
        tilt = _Along.of(_Rows(self.tilt[None]), d)
        if any(np.any(np.abs(a.product) > MEANT * a.size) for a in still):
            return None
        steep = self.linear.size * norm(d)
        is_level = abs(tilt.product[0]) <= SLIGHT * steep  # as if there were no tilt
        if is_level and tilt.is_open[0] and not self.linear.is_exact:
            return None
        zeros = [(a, a.is_open) for a in still] + [(a, a.is_near) for a in (*losses, *cone)]
        reach = self._way_to_zeros(d, [*zeros, (tilt, tilt.is_open & is_level)])
        if not math.isfinite(reach):
            return None
        bounded = (self.cone.low == 0.0) | (self.cone.high == 0.0)
        if np.any(bounded & (d != 0.0) & (np.abs(d) <= reach)):
            return None
        signs = [sign for a in losses if (sign := a.signs(reach)) is not None]
        if len(signs) < len(losses) or any(a.rises(reach) for a in cone):
            return None
        if is_level:
            is_up = all(np.all(sign >= 0.0) for sign in signs)
            return d if is_up and any(np.any(sign > 0.0) for sign in signs) else None
        slope, error = float(tilt.product[0]), float(tilt.error[0]) + reach * self.linear.size
        error += 0.0 if self.linear.is_exact else 4.0 * EPS * steep
        for (weight, rows), a in zip(self.losses, losses, strict=True):
            down = a.product < 0.0
            slope -= weight * float(np.sum(a.product[down]))
            if down.any():
                more = a.error[down] + reach * rows.sizes[down]
                sums = (rows.shape[0] + 4) * EPS * np.abs(a.product[down])
                error += 0.0 if a.is_exact and _is_power(weight) else weight * np.sum(more + sums)
        if slope + error < -SLIGHT * steep:
            return d
        return d if slope == error == 0.0 and any(np.any(sign) for sign in signs) else None

    def _way_to_zeros(self, d: Host, zeros: list[tuple[_Along, Host]]) -> float:
        """A bound on |d' - d| for some d' where all these products are exactly 0; inf: who knows.

        With E these rows and r their rank, confirmed, that is |E d|/sigma_r at most. Entries of d
        that are 0 stay 0.
        """
        some = [(a.rows, which) for a, which in zeros if which.any()]
        if not some:
            return 0.0
        moves = d != 0.0
        count = sum(int(which.sum()) for _, which in some)
        if count * int(moves.sum()) > DENSE_LIMIT // 4:
            return math.inf
        E = np.vstack([rows.some(which)[:, moves] for rows, which in some])
        E = np.unique(E, axis=0)
        E = E[np.any(E != 0.0, axis=1)]
        E = np.ldexp(E, -np.frexp(np.max(np.abs(E), axis=1, initial=0.0))[1][:, None])  # exactly
        if not len(E):
            return 0.0
        found = decide_rank(E)
        r = found.low
        if not found.is_determined or r == E.shape[1]:
            return math.inf
        if r < len(E) and spectra.exact_rank(E) != r:
            return math.inf
        unit = rounding_unit(EPS, *E.shape)
        sigma = float(found.sigma[r - 1]) - unit * norm(E)
        off = norm(E @ d[moves]) + unit * norm(E) * norm(d)
        return off / sigma if sigma > 0.0 else math.inf

    # -- candidates

    def columns(self) -> list[Host]:
        """A direction that changes one variable only, such as a category with one label."""
        up, down = self.cone.high > 0.0, self.cone.low < 0.0
        moves = np.zeros(self.n, dtype=bool)
        for rows in self.still:
            least, most = rows.columns()
            up, down = up & (least == most) & (most == 0.0), down & (least == most) & (most == 0.0)
        for _, rows in self.losses:
            least, most = rows.columns()
            up, down = up & (least >= 0.0), down & (most <= 0.0)
            moves |= (least < most) | (least != 0.0)
        up, down = up & moves & (self.tilt <= 0.0), down & moves & (self.tilt >= 0.0)
        if not np.any(up | down):
            return []
        d = np.zeros(self.n)
        j = int(np.argmax(up | down))
        d[j] = 1.0 if up[j] else -1.0
        return [d]

    def by_program(self, seconds: float) -> Host | None:
        """Whatever direction there is, by linear programs, if the numbers are at hand."""
        is_idle = not self.losses and not self.tilt.any()
        if is_idle or sum(rows.stored for rows in self._all) * self.side > LONG:
            return None
        is_plain = not self.losses and self.cone.is_space
        for d in self._projections() if is_plain else self._programs(seconds):
            for candidate in self._variants(d):
                if (found := self.falls_along(candidate)) is not None:
                    return found
        return None

    def _variants(self, d: Host) -> Iterator[Host]:
        """A direction of a linear program as it may be meant."""
        d = d / float(np.max(np.abs(d)))
        d = np.where(np.abs(d) <= MEANT, 0.0, d)
        for most in range(1, LARGEST + 1):
            whole = np.round(most * d)
            if np.all(np.abs(whole - most * d) <= MEANT * most):
                yield whole
                break
        rows = [rows for rows in self._all if rows.shape[0]]
        rows += [self.cone.rows] if self.cone.rows is not None else []
        moves, near = d != 0.0, []
        for some in rows:
            product, _ = some.along(d)
            near.append(some.some(np.abs(product) <= MEANT * some.sizes * norm(d))[:, moves])
        if self.tilt.any() and abs(float(self.tilt @ d)) <= MEANT * norm(self.tilt) * norm(d):
            near.append(self.tilt[None, moves])
        E = np.vstack(near) if near else np.zeros((0, int(moves.sum())))
        E = E[np.any(E != 0.0, axis=1)]
        if len(E) and E.size <= DENSE_LIMIT:
            E = E / np.sqrt(np.sum(E * E, axis=1))[:, None]
            for _ in range(2):
                d[moves] -= np.linalg.lstsq(E, E @ d[moves], rcond=SLIGHT)[0]
        yield d

    def _projections(self) -> Iterator[Host]:
        """On R^n, where there is only a tilt: against it, as far as nothing holds it."""
        E = np.vstack([np.zeros((0, self.n)), *(r.some(np.ones(r.shape[0])) for r in self.still)])
        d = -self.tilt / norm(self.tilt)
        d -= np.linalg.lstsq(E, E @ d, rcond=SLIGHT)[0]
        if norm(d) > MEANT:
            yield d

    def _programs(self, seconds: float) -> Iterator[Host]:
        """Directions d with |d_j| <= 1 (in scaled variables) that may serve, from HiGHS."""
        import scipy.sparse as sp

        def stack(rows: list[_Rows]) -> Any:
            empty = sp.csr_array((0, self.n))
            return sp.vstack([empty, *(sp.csr_array(some.entries) for some in rows)], format="csr")

        held, moved = stack(self.still), stack([rows for _, rows in self.losses])
        fixed = stack([self.cone.rows] if self.cone.rows is not None else [])
        # In powers of two: columns of the same size, then rows.
        both = abs(sp.vstack([held, moved, sp.csr_array(self.tilt[None])], format="csr"))
        tops = np.asarray(both.max(axis=0).todense()).reshape(-1)
        column = np.ldexp(1.0, -np.frexp(np.where(tops > 0.0, tops, 1.0))[1])
        if self.cone.rows is not None:
            column[:] = 1.0  # whose rows must stay as they are
        held, moved = (_scaled_rows(rows @ sp.diags_array(column))[0] for rows in (held, moved))
        m, n = moved.shape
        tilt = self.tilt * column
        idle = (tops == 0.0) & (self.cone.rows is None)
        bounds = np.stack(
            [np.maximum(self.cone.low, -1.0), np.minimum(self.cone.high, 1.0)], axis=1
        )
        bounds[idle] = 0.0
        free = {"A_eq": held, "b_eq": np.zeros(held.shape[0])} if held.shape[0] else {}
        if tilt.any():
            tilt = tilt / norm(tilt)
            weights = np.concatenate(
                [np.zeros(0), *(np.full(rows.shape[0], w) for w, rows in self.losses)]
            )
            _, scale = _scaled_rows(
                stack([rows for _, rows in self.losses]) @ sp.diags_array(column)
            )
            weights = weights / scale / norm(self.tilt * column)
            cost = np.concatenate([tilt, weights])  # of (d, z), z >= max(-M d, 0)
            rows = sp.vstack(
                [
                    sp.hstack([-moved, -sp.eye_array(m)]),
                    sp.hstack([fixed, sp.csr_array((fixed.shape[0], m))]),
                ],
                format="csr",
            )
            if free:
                free["A_eq"] = sp.hstack([held, sp.csr_array((held.shape[0], m))], format="csr")
            box = np.vstack([bounds, np.tile([0.0, math.inf], (m, 1))])
            found = _program(cost, rows, free, box, seconds)
            if found is not None and float(cost @ found) < -SLIGHT:
                yield column * found[:n]
            flat = sp.vstack([rows, sp.csr_array(cost[None])], format="csr")
            moving = -np.concatenate([np.asarray(moved.sum(axis=0)).reshape(-1), 2.0 * np.ones(m)])
            box[n:, 1] = float(n)
            found = _program(moving, flat, free, box, seconds) if m else None
            if found is not None and float(moving @ found) < -MEANT:
                yield column * found[:n]
            return
        rows = sp.vstack([-moved, fixed], format="csr")
        cost = -np.asarray(moved.sum(axis=0)).reshape(-1)
        found = _program(cost, rows, free, bounds, seconds)
        if found is not None and float(cost @ found) < -MEANT:
            yield column * found

    def has_minimum_near(self, x: Host, slope: Host) -> bool:
        """Does a Newton step from x, where this is the slope, show that there is a minimiser?

        On R^n. With v the step, theta_i = w_i p_i (1 - (1 - p_i) <m_i, v>) are slopes of the losses
        that balance the squares and the tilt; where no margin changes by 1 all of them are
        positive, and then there is no direction (Stiemke). Rounding errors are left aside: this
        proves nothing to anybody, it spares a linear program.
        """
        if not (self.cone.is_space and self.n <= NEWTON_LIMIT):
            return False
        H = sum((rows.gram() for rows in self.still), np.zeros((self.n, self.n)))
        for weight, rows in self.losses:
            margins = np.minimum(np.abs(rows.entries @ x), 700.0)
            H = H + rows.gram(weight / (2.0 + 2.0 * np.cosh(margins)))
        v = np.linalg.pinv(H, rcond=SLIGHT, hermitian=True) @ -slope
        if not norm(H @ v + slope) <= MEANT * norm(H) * norm(v):
            return False
        changes = [float(np.max(np.abs(rows.entries @ v), initial=0.0)) for _, rows in self.losses]
        return max(changes, default=0.0) <= ROUGH


def _is_power(weight: float) -> bool:
    """Is it a power of two, so that multiplying by it rounds nothing?"""
    return math.frexp(weight)[0] == 0.5


def _scaled_rows(rows: Any) -> tuple[Any, Host]:
    """The rows with entries of the size of 1, by powers of two, and what they were scaled by."""
    import scipy.sparse as sp

    if not rows.shape[0]:
        return rows, np.ones(0)
    tops = np.asarray(abs(rows).max(axis=1).todense()).reshape(-1)
    scale = np.ldexp(1.0, -np.frexp(np.where(tops > 0.0, tops, 1.0))[1])
    return (sp.diags_array(scale) @ rows).tocsr(), scale


def _program(cost: Host, rows: Any, free: Any, bounds: Host, seconds: float) -> Host | None:
    """A minimiser of <cost, v> over {rows v <= 0, free, bounds}; None where HiGHS finds none."""
    from scipy.optimize import linprog

    largest = float(np.max(np.abs(cost), initial=0.0))
    if not largest > 0.0:
        return None
    options = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
    if math.isfinite(seconds):
        options["time_limit"] = seconds
    some = {"A_ub": rows, "b_ub": np.zeros(rows.shape[0])} if rows.shape[0] else {}
    found = linprog(cost / largest, **some, **free, bounds=bounds, options=options)
    return np.asarray(found.x) if found.status == 0 else None
