"""The joint prox and step 6 of P-AGM-BiO, judged by their optimality conditions.

The judge shares no code with the library: it computes in NumPy's long double and asks whether
v - mu c - z is a subgradient of a f2 + mu g2 at z within the sets, part by part.
"""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import itertools
import math

import array_api_strict
import numpy as np
import pytest
from helpers.penalties import clarabel, conic, labels, make_set, members, rules

from tiebreak import sets as domains
from tiebreak.functions.penalties.joint_prox import joint
from tiebreak.functions.penalties.penalties import L1, L2, ElasticNet, GroupL2, Indicator, Zero
from tiebreak.functions.penalties.prox_cuts import prox_cut

LONG = np.longdouble
TOL = 1e-10
NORMS = ("Zero", "L1", "L2", "ElasticNet", "GroupL2")
SETS = {  # what goes with each set
    "Orthant": NORMS,
    "Ball": NORMS,
    "Box": ("Zero", "L1", "ElasticNet"),
    "Simplex": ("Zero",),
    "L1Ball": ("Zero",),
    "Monotone": ("Zero",),
    "Halfspace": ("Zero",),
}
PAIRS = [
    *itertools.product(NORMS, NORMS),
    *((kind, norm) for kind, norms in SETS.items() for norm in norms),
    *((norm, kind) for kind, norms in SETS.items() for norm in norms),
    *(("Box", "Box"), ("Ball", "Ball"), ("Orthant", "Box"), ("Monotone", "Monotone")),
]


# -------------------------------------------------------------------------------- the slow judge


def size(x):
    return np.sqrt(np.sum(np.asarray(x, dtype=LONG) ** 2))


def threshold(x, t):
    return np.sign(x) * np.maximum(np.abs(x) - t, 0)


class Judge:
    """The sum of two penalties as weights, groups (lists of variables) and sets."""

    def __init__(self, f2, g2, domain, n):
        self.n, self.parts, self.unit = n, (f2, g2), LONG(1e-15)
        grouped = next((p for p in (f2, g2) if isinstance(p, GroupL2)), None)
        self.groups = [] if grouped is None else members(grouped, n)
        rest = sorted(set(range(n)) - {i for group in self.groups for i in group})
        self.groups, self.rest = [*self.groups, np.array(rest, dtype=int)], len(self.groups)
        sets = [p.domain for p in (f2, g2) if isinstance(p, Indicator)]
        self.sets = [s for s in [*sets, domain] if not isinstance(s, domains.Space)]
        balls = [s.radius for s in self.sets if isinstance(s, domains.Ball)]
        self.radius = min(balls, default=math.inf)
        self.lower, self.upper = np.full(n, -np.inf), np.full(n, np.inf)
        for box in self.sets:
            if isinstance(box, domains.Box):
                self.lower = np.maximum(self.lower, box.lower)
                self.upper = np.minimum(self.upper, box.upper)
        if len(self.sets) == 2 and isinstance(self.sets[0], domains.Box):
            self.sets = [domains.Box(self.lower, self.upper)]
        self.sets = sorted(self.sets, key=lambda s: getattr(s, "radius", 0.0))[:1]

    def weights(self, a, mu):
        """l1, group, l2, square of a f2 + mu g2."""
        total = np.zeros(4, dtype=LONG)
        for factor, penalty in zip((a, mu), self.parts, strict=True):
            match penalty:
                case L1():
                    total[0] += LONG(factor) * penalty.weight
                case GroupL2():
                    total[1] += LONG(factor) * penalty.weight
                case L2():
                    total[2] += LONG(factor) * penalty.weight
                case ElasticNet():
                    total[0] += LONG(factor) * penalty.l1
                    total[3] += LONG(factor) * penalty.l2
        return total

    def shares(self, group_weight):
        """(variables, weight) of each group; those in none weigh 0."""
        return [
            (where, group_weight if k < self.rest else LONG(0))
            for k, where in enumerate(self.groups)
        ]

    def lower_value(self, c, z):
        """Parts of <c, z> + g2(z)."""
        l1, group, l2, square = self.weights(0, 1)
        norms = sum((w * size(z[where]) for where, w in self.shares(group)), LONG(0))
        return c @ z, l1 * np.sum(np.abs(z)) + norms + l2 * size(z) + square / 2 * np.sum(z * z)

    def misfit(self, r, z, a, mu):
        """The distance of r from the subgradients of a f2 + mu g2 at z within the sets."""
        l1, group, l2, square = self.weights(a, mu)
        length = size(z)
        if self.radius < math.inf and length >= self.radius * (1 - 10 * self.unit):
            # r may be longer by any nu z, nu >= 0: take the best one.
            flat = r - self.smooth(z, l1, group, l2, square)
            r = r - max(LONG(0), (flat @ z) / length / length) * z
        bad = np.zeros(self.n, dtype=LONG)
        dead = []
        for where, w in self.shares(group):
            if np.any(z[where]) or (w == 0 and not l2 and length > 0):
                bad[where] = r[where] - self.smooth(z, l1, group, l2, square)[where]
                at_zero = (z[where] == 0) & (l1 > 0)
                bad[where] = np.where(at_zero, threshold(r[where], l1), bad[where])
            else:
                dead.append((where, w))
        bounded = np.isfinite(self.lower) | np.isfinite(self.upper)
        if np.any(bounded):  # at a bound r may point outwards
            below, above = z <= self.lower, z >= self.upper
            bad = np.where(below, np.maximum(bad, 0), np.where(above, np.minimum(bad, 0), bad))
            bad = np.where(below & above, 0, bad)
        pull = np.zeros(len(dead) + 1, dtype=LONG)
        for k, (where, w) in enumerate(dead):
            rest = threshold(r[where], l1)
            at_low, at_high = self.lower[where] >= 0, self.upper[where] <= 0
            rest = np.where(at_low, np.maximum(rest, 0), rest)
            rest = np.where(at_high, np.minimum(rest, 0), rest)
            pull[k] = max(LONG(0), size(rest) - w)
        left = size(pull) if length > 0 else max(LONG(0), size(pull) - l2)
        return np.sqrt(size(bad) ** 2 + left**2)

    def snapped(self, z, tolerance):
        """z, where entries so close to 0 or to a bound are there."""
        for target in (np.zeros(self.n), self.lower, self.upper):
            z = np.where(abs(z - target) <= tolerance, target, z)
        return z

    def smooth(self, z, l1, group, l2, square):
        """The gradient at z of all parts, 0 where they have none."""
        slope = l1 * np.sign(z) + square * z
        for where, w in self.shares(group):
            slope[where] += w * z[where] / (size(z[where]) or LONG(1))
        return slope + l2 * z / (size(z) or LONG(1))

    def least(self, c):
        """The minimum of <c, .> + g2 over the sets; a dual norm within 1e-13 of a weight is it."""
        l1, group, l2, square = self.weights(0, 1)
        if not np.any(self.weights(1, 1)):
            return -LONG(self.sets[0].support(-np.asarray(c, dtype=float))) if self.sets else (LONG(0) if not np.any(c) else -LONG(np.inf))  # fmt: skip
        pull = threshold(-c, l1 * (1 + LONG(1e-13)))
        lower, upper = self.lower.astype(LONG), self.upper.astype(LONG)
        if group == 0 and l2 == 0 and np.any(np.isfinite(lower) | np.isfinite(upper)):
            if square > 0:
                z = np.clip(pull / square, lower, upper)
            else:
                z = np.where(
                    pull > 0, upper, np.where(pull < 0, lower, np.clip(LONG(0), lower, upper))
                )
            return -LONG(np.inf) if np.any(np.isinf(z)) else sum(self.lower_value(c, z))
        pull = np.clip(pull, np.where(lower < 0, -np.inf, 0), np.where(upper > 0, np.inf, 0))
        near = 1 + LONG(1e-13)
        kept = [max(LONG(0), size(pull[where]) - near * w) for where, w in self.shares(group)]
        left = max(LONG(0), size(kept) - near * l2)
        if left == 0:
            return LONG(0)
        reach = min(left / square if square > 0 else LONG(np.inf), LONG(self.radius))
        return -LONG(np.inf) if np.isinf(reach) else square / 2 * reach**2 - left * reach

    def off_path(self, v, a, c, z, mu, limit=False):
        """The distance of v - mu c - z from the subgradients, relative to all that was added.

        Where z is a limit for mu to infinity it only needs to be near it.
        """
        v, c, z, mu = (np.asarray(x, dtype=LONG) for x in (v, c, z, mu))
        if not np.any(self.weights(1, 1)):
            (only,) = self.sets or [domains.Space()]
            there = np.asarray(only.project((v - mu * c).astype(float)))
            return size(z - there) / (size(v) + mu * size(c) + size(z) or 1)
        *norms, square = self.weights(a, mu)
        carried = size(v) + mu * size(c) + sum(norms) + (1 + square) * size(z)
        snapped = self.snapped(z, self.unit * carried / (1 + square))
        misfit = min(self.misfit(v - mu * c - p, p, a, mu) for p in (z, snapped))
        return misfit / (carried + limit * square * size(v) or 1)

    def off_sets(self, z):
        """The distance of z from the sets, relative to |z|."""
        outside = [size(z - np.asarray(s.project(z.astype(float)))) for s in self.sets]
        return max(outside, default=LONG(0)) / (size(z) or 1)

    def residuals(self, v, a, c, beta, z, mu):
        """How far z, mu are from the optimality conditions, each relative to its own scale.

        cut:   <c, z> + g2(z) - beta where positive, but not more than by how much z misses the
               smallest value, because an empty cut has no better point.
        slack: beta - <c, z> - g2(z) where positive although mu > 0.
        """
        c, z, beta = (np.asarray(x, dtype=LONG) for x in (c, z, beta))
        linear, rest = self.lower_value(c, z)
        least = self.least(c)
        found = {"set": self.off_sets(z), "path": self.off_path(v, a, c, z, mu, beta <= least)}
        gap = linear + rest - beta
        scale = np.sum(np.abs(c * z)) + rest + abs(beta)
        if self.radius < math.inf or np.any(self.weights(1, 1)[1:3]):
            scale = size(c) * size(z) + rest + abs(beta)  # the entries share one precision
        # Not visible: the rounding error of the rounding error of z.
        scale = scale + LONG(2.0**-100) / TOL * sum(map(abs, self.lower_value(abs(c), abs(v))))
        over = max(LONG(0), min(gap, linear + rest - least))
        found["cut"] = over / (scale or 1)
        found["slack"] = max(LONG(0), -gap) / (scale or 1) if mu > 0 else LONG(0)
        return found


# ------------------------------------------------------------------------------------- the cases

STYLES = ("plain", "plain", "plain", "ties", "constant", "far", "huge", "tiny")


class Units:
    """Units of length and of slope (of g), and the weight a: each style its own."""

    def __init__(self, rng, style):
        self.length = self.slope = 1.0
        self.a = float(rng.choice([0.0, 1.0, rng.exponential(), 100.0 * rng.exponential()]))
        match style:
            case "far":
                self.length, self.slope = (10.0 ** rng.uniform(-6, 6, 2)).tolist()
            case "huge" | "tiny":
                sign = 1 if style == "huge" else -1
                self.length, self.slope = (10.0 ** (sign * rng.uniform(60, 150, 2))).tolist()


def vector(rng, n, style):
    match style:
        case "ties":
            return rng.integers(-2, 3, n).astype(float)
        case "constant":
            return np.full(n, rng.normal())
    return rng.normal(size=n) * 3.0


def make(kind, rng, n, units, groups, *, upper):
    """A penalty in the units of its level: f2 is multiplied by a, which is a number."""
    weight = 0.0 if rng.random() < 0.1 else float(rng.choice([1.0, rng.exponential()]))
    slope, curvature = (units.length, 1.0) if upper else (units.slope, units.slope / units.length)
    match kind:
        case "Zero":
            return Zero()
        case "L1" | "L2":
            return {"L1": L1, "L2": L2}[kind](weight * slope)
        case "ElasticNet":
            second = 0.0 if rng.random() < 0.1 else float(rng.exponential())
            return ElasticNet(weight * slope, second * curvature)
        case "GroupL2":
            return GroupL2(groups, weight * slope)
    return Indicator(scaled(make_set(kind, rng, n), units.length))


def scaled(domain, length):
    match domain:
        case domains.Orthant() | domains.Monotone():
            return domain
        case domains.Box():
            return domains.Box(domain.lower * length, domain.upper * length)
        case domains.Halfspace():
            return domains.Halfspace(domain.normal, domain.offset * length)
        case domains.Simplex():
            return domains.Simplex(domain.total * length)
    return type(domain)(domain.radius * length)


def case(pair, rng, n=None, style=None):
    """joint, judge, v, a, c, beta of one random or degenerate case."""
    while True:
        n = n or int(rng.choice([1, 2, 3, rng.integers(4, 21)]))
        kind = style or STYLES[rng.integers(len(STYLES))]
        units = Units(rng, kind)
        groups = labels(rng, n)
        f2 = make(pair[0], rng, n, units, groups, upper=True)
        g2 = make(pair[1], rng, n, units, groups, upper=False)
        domain = domains.Space()
        if set(pair) <= set(NORMS) and rng.random() < 0.3:
            options = [s for s, norms in SETS.items() if set(pair) <= set(norms)]
            domain = scaled(make_set(rng.choice(options), rng, n), units.length)
        try:
            found = joint(f2, g2, domain)
            break
        except ValueError:
            assert "Box" in pair  # two boxes without a common point
    judge = Judge(f2, g2, domain, n)
    v, c = vector(rng, n, kind) * units.length, vector(rng, n, kind) * units.slope
    if rng.random() < 0.08:
        c = np.zeros(n)
    if rng.random() < 0.08 and judge.weights(0, 1)[0] > 0:  # on the edge of the dual norm
        c = float(judge.weights(0, 1)[0]) * rng.choice([-1.0, 0.0, 0.5, 1.0], n)
    if rng.random() < 0.08:
        v = found.prox(v, units.a, 0.0)
    return found, judge, v, units.a, c, level(found, judge, rng, v, units, c)


def level(found, judge, rng, v, units, c):
    """beta: anywhere between what z(0) has and what can be reached, at the ends, and beyond."""
    z = found.prox(v, units.a, 0.0)
    here = float(sum(judge.lower_value(c.astype(LONG), z.astype(LONG))))
    lowest, unit = float(judge.least(c.astype(LONG))), units.length * units.slope
    if math.isinf(lowest):
        lowest = here - 3.0 * unit * float(rng.exponential())
    match rng.integers(9):
        case 0:
            return lowest
        case 1:
            return lowest - 1e-16 * float(rng.integers(1, 9)) * abs(lowest)
        case 2:
            return lowest - unit * float(rng.exponential())
        case 3:
            return here + unit * float(rng.exponential())
        case 4:
            return here
    return lowest + float(rng.random()) * (here - lowest)


def name(pair):
    return "-".join(pair)


@pytest.mark.skipif(np.finfo(LONG).maxexp < 2000, reason="the judge needs a wide long double")
@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_step_6_meets_its_optimality_conditions(pair, count):
    rng = np.random.default_rng([2026, PAIRS.index(pair)])
    for trial in range(count(6, 1000)):
        found, judge, v, a, c, beta = case(pair, rng)
        z, mu = prox_cut(found, v, a, c, beta)
        assert isinstance(mu, float), trial
        assert 0.0 <= mu < math.inf, (trial, mu)
        assert np.all(np.isfinite(z)), trial
        for label, value in judge.residuals(v, a, c, beta, z, mu).items():
            assert value <= TOL, (
                trial,
                label,
                float(value),
                judge.parts,
                judge.sets,
                v,
                a,
                c,
                beta,
                z,
                mu,
            )


# --------------------------------------------------------------------------- other checks of step 6


def plain_cases(pair, rng, how_many):
    """Cases of ordinary size, whose cut is met."""
    while how_many:
        found, judge, v, a, c, beta = case(pair, rng, n=6, style="plain")
        lowest = float(judge.least(c.astype(LONG)))
        if beta > lowest + 1e-3 * (1.0 + abs(lowest)):
            how_many -= 1
            yield found, judge, v, a, c, beta


@pytest.mark.sample(4)
@pytest.mark.parametrize("pair", PAIRS, ids=name)
@pytest.mark.filterwarnings("ignore")
def test_step_6_agrees_with_a_conic_solver(pair, count):
    import cvxpy as cp

    rng = np.random.default_rng([1, PAIRS.index(pair)])
    for found, judge, v, a, c, beta in plain_cases(pair, rng, count(1, 8)):
        z = cp.Variable(6)
        (f, within_f), (g, within_g) = (conic(penalty, z) for penalty in judge.parts)
        extra = [rule for domain in judge.sets for rule in rules(domain, z)]
        inside = [*within_f, *within_g, *extra, c @ z + g <= beta]
        solved = clarabel(a * f + cp.sum_squares(z - v) / 2, inside)
        theirs, (z.value, _mu) = z.value, prox_cut(found, v, a, c, beta)
        ours = a * float(f.value) + np.sum((z.value - v) ** 2) / 2
        assert ours <= solved + 1e-7 * (1.0 + solved)
        assert float((c @ z + g).value) <= beta + 1e-12 * (1.0 + abs(beta))
        # The solver's z has half the digits of its value.
        np.testing.assert_allclose(z.value, theirs, atol=1e-3 * (1.0 + np.linalg.norm(v)))


@pytest.mark.sample(4)
@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_a_guess_does_not_change_the_answer(pair, count):
    rng = np.random.default_rng([2, PAIRS.index(pair)])
    for found, _judge, v, a, c, beta in plain_cases(pair, rng, count(2, 30)):
        z, mu = prox_cut(found, v, a, c, beta)
        for guess in (0.0, mu, 1.001 * mu, 0.5 * mu, 10.0 * mu + 1.0, 1e200, math.inf, math.nan):
            warm, _mu = prox_cut(found, v, a, c, beta, guess)
            np.testing.assert_allclose(warm, z, atol=1e-9, rtol=1e-9)


def test_the_judge_sees_small_errors(count):
    """Answers that are wrong by 1e-6 do not pass, however much larger than z are v and mu c."""
    rng = np.random.default_rng(3)
    seen = 0
    for pair in PAIRS[:25]:
        for found, judge, v, a, c, beta in plain_cases(pair, rng, count(5, 30)):
            z, mu = prox_cut(found, v, a, c, beta)
            if mu > 1e-3 and np.any(z):
                moved = z * (1.0 + 1e-6 * rng.normal(size=6))
                assert max(judge.residuals(v, a, c, beta, moved, mu).values()) > TOL
                seen += 1
    assert seen > 50


@pytest.mark.parametrize("pair", [*PAIRS[:25], ("Box", "L1"), ("L2", "Ball"), ("GroupL2", "Orthant")], ids=name)  # fmt: skip
def test_long_vectors_meet_their_optimality_conditions(pair, count):
    rng = np.random.default_rng([4, PAIRS.index(pair)])
    for _ in range(count(1, 30)):
        found, judge, v, a, c, beta = case(pair, rng, n=100, style="plain")
        z, mu = prox_cut(found, v, a, c, beta)
        for guess in (None, mu * rng.uniform(0.9, 1.1), mu * rng.uniform(0.0, 10.0)):
            z, mu = prox_cut(found, v, a, c, beta, guess)
            for label, value in judge.residuals(v, a, c, beta, z, mu).items():
                assert value <= TOL, (label, value, judge.parts, judge.sets, a, beta, mu)


@pytest.mark.sample(4)
@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_library_and_dtype_are_kept_and_inputs_left_alone(pair, count):
    rng = np.random.default_rng([5, PAIRS.index(pair)])
    kinds = itertools.product((np, array_api_strict), ("float32", "float64"))
    cases = plain_cases(pair, rng, count(4, 40))
    for (found, judge, v_host, a, c_host, beta), (xp, dtype) in zip(
        cases, itertools.cycle(kinds), strict=False
    ):
        v_host, c_host = v_host.astype(dtype), c_host.astype(dtype)
        v, c = xp.asarray(v_host, copy=True), xp.asarray(c_host, copy=True)
        z, mu = prox_cut(found, v, a, c, beta)
        for result in (z, found.prox(v, a, 0.5)):
            assert type(result) is type(v)
            assert result.dtype == v.dtype
        assert isinstance(mu, float)
        assert np.array_equal(np.asarray(v), v_host)
        assert np.array_equal(np.asarray(c), c_host)
        limit = 3e-4 if dtype == "float32" else TOL
        judge.unit = LONG(1e-6 if dtype == "float32" else 1e-15)
        for label, value in judge.residuals(v_host, a, c_host, beta, np.asarray(z), mu).items():
            assert value <= limit, (label, value, judge.parts, v_host, a, c_host, beta, z, mu)


@pytest.mark.parametrize("kind", [*SETS, "Space"])
def test_without_weights_it_is_the_projection_onto_a_set_and_a_cut(kind):
    rng = np.random.default_rng(6)
    for _ in range(30):
        domain = make_set(kind, rng, 6)
        v, c = rng.normal(size=(2, 6))
        beta = float(c @ domain.project(v)) - 0.3
        expected, mu = domain.project_cut(v, c, beta)
        options = [
            joint(Zero(), Indicator(domain)),
            joint(Indicator(domain), Zero()),
            joint(Zero(), Zero(), domain),
            joint(Indicator(domain), Indicator(domain), domain),
            joint(L1(0.0), ElasticNet(0.0, 0.0), domain),
            joint(GroupL2([0, 1, 0, 1, 0, 1], 0.0), L2(0.0), domain),
        ]
        for found in options:
            z, multiplier = prox_cut(found, v, 2.0, c, beta)
            np.testing.assert_array_equal(z, expected)
            assert multiplier == mu


def test_a_zero_gradient_does_not_remove_the_cut():
    v = np.array([3.0, -1.0, 0.5])
    z, mu = prox_cut(joint(Zero(), L1(2.0)), v, 1.0, np.zeros(3), 4.0)
    np.testing.assert_allclose(z, [2.0, 0.0, 0.0], atol=1e-15)  # the l1 ball of radius 2
    assert mu == pytest.approx(0.5)
    z, _mu = prox_cut(joint(Zero(), L2(2.0)), v, 1.0, np.zeros(3), 4.0)
    np.testing.assert_allclose(z, 2.0 * v / np.linalg.norm(v), rtol=1e-14)
    z, _mu = prox_cut(joint(Zero(), ElasticNet(0.0, 2.0)), v, 1.0, np.zeros(3), 4.0)
    np.testing.assert_allclose(z, 2.0 * v / np.linalg.norm(v), rtol=1e-14)


def test_a_level_that_cannot_be_reached_gives_the_lowest_point_and_a_finite_multiplier():
    v, c = np.array([3.0, -1.0, 0.5]), np.array([0.5, -0.25, 1.0])
    for beta in (0.0, -1e-300, -1.0, -1e300):
        for lower in (L1(2.0), L2(2.0), GroupL2([0, 1, 1], 2.0)):
            z, mu = prox_cut(joint(L1(0.1), lower), v, 1.0, c, beta)
            np.testing.assert_allclose(z, np.zeros(3), atol=1e-14)
            assert 0.0 < mu < 1e17
    for beta in (-1e3, -1e300):
        z, mu = prox_cut(joint(Zero(), ElasticNet(0.5, 2.0)), v, 1.0, c, beta)
        np.testing.assert_allclose(z, [0.0, 0.0, -0.25], atol=1e-7)
        assert 0.0 < mu < 1e17
        z, mu = prox_cut(joint(Zero(), ElasticNet(0.0, 2.0)), v, 1.0, 0.0 * c, beta)
        np.testing.assert_allclose(z, np.zeros(3), atol=1e-14)
        assert 0.0 < mu < 1e30
    # On the edge of the dual norm the lowest points are a face or a ray.
    z, _mu = prox_cut(joint(Zero(), L1(1.0)), v, 1.0, np.array([-1.0, 0.5, -1.0]), -1.0)
    np.testing.assert_allclose(z, [3.0, 0.0, 0.5], rtol=1e-14)
    c = np.array([-3.0, 0.0, 4.0])
    z, mu = prox_cut(joint(Zero(), L2(5.0)), v, 1.0, c, -1.0)
    assert abs(c @ z + 5.0 * np.linalg.norm(z)) <= 1e-12
    np.testing.assert_allclose(z, np.array([3.0, 0.0, -4.0]) * 7.0 / 25.0, atol=1.0)
    assert 0.0 < mu < 1e30


def test_the_sets_stay_where_the_cut_does_not_bind():
    v, c = np.array([3.0, -1.0]), np.zeros(2)
    for found in (
        joint(L1(1.0), Indicator(domains.Orthant())),
        joint(Indicator(domains.Orthant()), L1(1.0)),
    ):
        z, mu = prox_cut(found, v, 1.0, c, 100.0)
        assert mu == 0.0
        np.testing.assert_array_equal(z, found.prox(v, 1.0, 0.0))
        assert z[1] == 0.0
    z, mu = prox_cut(joint(L1(1.0), L1(1.0)), v, 0.0, np.ones(2), math.inf)
    assert mu == 0.0
    np.testing.assert_array_equal(z, v)


def test_units_of_length_and_slope_change_nothing_but_the_units():
    rng = np.random.default_rng(7)
    for _ in range(50):
        v, c, groups = rng.normal(size=6) * 3.0, rng.normal(size=6), labels(rng, 6)
        z, mu = prox_cut(joint(L1(0.3), GroupL2(groups, 0.5)), v, 1.0, c, -0.5)
        for length, slope in ((2.0**400, 2.0**-100), (2.0**-450, 2.0**300), (1.0, 2.0**450)):
            found = joint(L1(0.3 * length), GroupL2(groups, 0.5 * slope))
            far, multiplier = prox_cut(found, v * length, 1.0, c * slope, -0.5 * length * slope)
            np.testing.assert_allclose(far / length, z, rtol=1e-11, atol=1e-13)
            assert multiplier == pytest.approx(mu * length / slope, rel=1e-11)


# ------------------------------------------------------------------------------------ the joint prox


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_joint_prox_meets_its_optimality_conditions(pair, count):
    rng = np.random.default_rng([8, PAIRS.index(pair)])
    for _ in range(count(5, 200)):
        found, judge, v, a, _c, _beta = case(pair, rng)
        mu = float(rng.choice([0.0, 1.0, rng.exponential()]))
        mu *= 1.0 if not np.any(judge.weights(0, 1)) else float(np.max(np.abs(v)) / np.max(judge.weights(0, 1)))  # fmt: skip
        z = found.prox(v, a, mu)
        assert judge.off_path(v, a, 0.0 * v, z, mu) <= 1e-13
        assert judge.off_sets(z) <= 1e-13


@pytest.mark.sample(4)
@pytest.mark.parametrize("pair", PAIRS, ids=name)
@pytest.mark.filterwarnings("ignore")
def test_joint_prox_and_least_agree_with_a_conic_solver(pair, count):
    import cvxpy as cp

    rng = np.random.default_rng([9, PAIRS.index(pair)])
    for found, judge, v, a, c, _beta in plain_cases(pair, rng, count(1, 8)):
        mu = float(rng.exponential())
        z = cp.Variable(6)
        (f, within_f), (g, within_g) = (conic(penalty, z) for penalty in judge.parts)
        inside = [
            *within_f,
            *within_g,
            *(rule for domain in judge.sets for rule in rules(domain, z)),
        ]
        solved = clarabel(a * f + mu * g + cp.sum_squares(z - v) / 2, inside)
        theirs, z.value = z.value, found.prox(v, a, mu)
        ours = float((a * f + mu * g).value) + np.sum((z.value - v) ** 2) / 2
        assert ours <= solved + 1e-7 * (1.0 + solved)
        np.testing.assert_allclose(z.value, theirs, atol=1e-3 * (1.0 + np.linalg.norm(v)))
        value, x = found.terms(a, mu).least(c)
        if value > -math.inf:
            solved = clarabel(c @ z + a * f + mu * g, inside)
            assert value == pytest.approx(solved, abs=1e-6 * (1.0 + abs(solved)))
            assert c @ x + found.terms(a, mu).value(x) == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("pair", PAIRS, ids=name)
def test_joint_least_is_never_above_a_value(pair, count):
    rng = np.random.default_rng([10, PAIRS.index(pair)])
    for _ in range(count(5, 200)):
        found, judge, v, a, c, _beta = case(pair, rng)
        terms = found.terms(a, 1.0)
        value, x = terms.least(c)
        for y in [] if value == -math.inf else [x, 0.0 * v, v, -v, found.prox(-c, a, 1.0)]:
            y = terms.domain.project(y).astype(LONG)
            here = c.astype(LONG) @ y + sum(self_value(judge, a, y))
            slack = 1e-13 if judge.sets and not terms.has_weights else 0.0
            assert value <= here + slack * (abs(value) + abs(here)), (judge.parts, judge.sets, c, y)


def self_value(judge, a, y):
    """Parts of (a f2 + g2)(y), in long double."""
    l1, group, l2, square = judge.weights(a, 1)
    yield l1 * np.sum(np.abs(y))
    yield from (w * size(y[where]) for where, w in judge.shares(group))
    yield l2 * size(y) + square / 2 * np.sum(y * y)


# ---------------------------------------------------------------------------- weights and centers

WEIGHTED = [
    ("weights", "Zero", "Space"),
    ("Zero", "weights", "Box"),
    ("weights", "weights", "Box"),
    ("weights", "L1", "Orthant"),
    ("weights", "ElasticNet", "Space"),
    ("L2", "weights", "Orthant"),
    ("weights", "GroupL2", "Ball"),
    ("center", "Zero", "Box"),
    ("Zero", "center", "Space"),
    ("center", "center", "Box"),
    ("square", "center", "Box"),
    ("center", "square", "Box"),
    ("L2 center", "Zero", "Space"),
    ("Zero", "L2 center", "Space"),
    ("L2 center", "L2 center", "Space"),
    ("L2 center", "center", "Space"),
    ("L2 center", "square", "Space"),
    ("square", "L2 center", "Space"),
    ("L2 some", "L2 some", "Space"),
    ("center", "L2 some", "Space"),
]


def weighted(kind, rng, center):
    """A penalty of six variables; one in five weights is 0."""
    weights = rng.exponential(size=6) * (rng.random(6) > 0.2)
    match kind:
        case "weights":
            return L1(weights)
        case "center":
            return L1(weights, center)
        case "L2 center":
            return L2(float(rng.exponential()), center)
        case "L2 some":
            return L2(float(rng.exponential()) * np.array([1, 1, 0, 1, 0, 1]), center)
        case "square":
            return ElasticNet(0.0, float(rng.exponential()))
        case "GroupL2":
            return GroupL2([0, 0, 1, 1, -1, 2], float(rng.exponential()))
        case "ElasticNet":
            return ElasticNet(*map(float, rng.exponential(size=2)))
        case "L1" | "L2":
            return {"L1": L1, "L2": L2}[kind](float(rng.exponential()))
    return Zero()


@pytest.mark.sample(6)
@pytest.mark.parametrize("kinds", WEIGHTED, ids="-".join)
@pytest.mark.filterwarnings("ignore")
def test_weights_and_centers_agree_with_a_conic_solver(kinds, count):
    import cvxpy as cp

    rng = np.random.default_rng([11, WEIGHTED.index(kinds)])
    for _ in range(count(4, 40)):
        center, v, c = rng.normal(size=(3, 6))
        f2, g2 = (weighted(kind, rng, center) for kind in kinds[:2])
        domain, a = make_set(kinds[2], rng, 6), float(rng.exponential())
        found, z = joint(f2, g2, domain), cp.Variable(6)
        (f, _), (g, _) = (conic(penalty, z) for penalty in (f2, g2))
        inside, square = rules(domain, z), cp.sum_squares(z - v) / 2
        # The joint prox.
        solved = clarabel(a * f + g + square, inside)
        z.value = found.prox(v, a, 1.0)
        assert float((a * f + g + square).value) <= solved + 1e-7 * (1.0 + solved)
        assert domain.contains(z.value)
        # The prox within a cut, which is half as high as where the prox without it is.
        z.value = free = found.prox(v, a, 0.0)
        height, least = float((c @ z + g).value), clarabel(c @ z + g, inside)
        beta = 0.5 * (height + max(least, height - 1.0))
        solved = clarabel(a * f + square, [*inside, c @ z + g <= beta])
        z.value, mu = prox_cut(found, v, a, c, beta)
        assert mu >= 0.0
        assert float((a * f + square).value) <= solved + 1e-6 * (1.0 + solved)
        assert float((c @ z + g).value) <= beta + 1e-9 * (1.0 + abs(beta))
        assert domain.contains(z.value)
        np.testing.assert_allclose(z.value, found.prox(v - mu * c, a, mu), atol=1e-8)
        np.testing.assert_allclose(prox_cut(found, v, a, c, height + 1.0)[0], free, atol=1e-12)


# -------------------------------------------------------------------------------------- refusals

NO_PROX = "joint: the penalties and the domain must have a joint prox in closed form, got "


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((GroupL2([0, 0, 1]), GroupL2([0, 1, 1])), "two GroupL2 with different groups"),
        ((L2(1.0), Indicator(domains.Box(-1.0, 1.0))), "L2 and Box"),
        ((Indicator(domains.Box(0.0, 1.0)), GroupL2([0, 1])), "GroupL2 and Box"),
        ((L1(1.0), L2(1.0), domains.Box([0.0, -1.0], 1.0)), "L2 and Box"),
        ((L1(1.0), Indicator(domains.Simplex())), "L1 and Simplex"),
        ((ElasticNet(1.0, 1.0), Zero(), domains.L1Ball()), "ElasticNet and L1Ball"),
        ((Zero(), L2(1.0), domains.Monotone()), "L2 and Monotone"),
        ((L1(1.0), Zero(), domains.Halfspace([1.0, 0.0], 1.0)), "L1 and Halfspace"),
        ((L1(1.0), Zero(), domains.Ball(1.0, [1.0, 0.0])), "L1 and Ball with another center"),
        ((L1(1.0, [1.0, 0.0]), L1(1.0)), "L1 and L1 with another center"),
        ((L1(1.0, [1.0, 0.0]), L1(1.0, [1.0, 1.0])), "L1 and L1 with another center"),
        ((L1(1.0, [1.0, 0.0]), L2(1.0)), "L1 and L2 with another center"),
        ((L2(1.0, [1.0, 0.0]), L2(1.0, [0.0, 1.0])), "L2 and L2 with another center"),
        ((GroupL2([0, 1]), L2(1.0, [1.0, 0.0])), "GroupL2 and L2 with another center"),
        ((L2(1.0, [1.0, 0.0]), Zero(), domains.Orthant()), "L2 and Orthant"),
        ((L2(1.0, [1.0, 0.0]), Zero(), domains.Ball(1.0)), "L2 and Ball"),
        ((L1(1.0, [1.0, 0.0]), Zero(), domains.Ball(1.0)), "L1 and Ball"),
        ((Indicator(domains.Simplex()), Indicator(domains.Orthant())), "Simplex and Orthant"),
        ((Zero(), Indicator(domains.Ball(1.0)), domains.Box(0, 1)), "Ball and Box"),
        ((Indicator(domains.Simplex(1.0)), Indicator(domains.Simplex(2.0))), "Simplex and Simplex"),
    ],
)
def test_what_has_no_joint_prox_says_so(arguments, names):
    with pytest.raises(ValueError, match=r"^joint: ") as caught:
        joint(*arguments)
    assert str(caught.value) == NO_PROX + names


def test_boxes_without_a_common_point_are_refused():
    with pytest.raises(ValueError, match=r"^joint: the two boxes must have a point in common$"):
        joint(Indicator(domains.Box(0.0, 1.0)), Indicator(domains.Box(2.0, 3.0)))


def test_a_part_of_weight_zero_is_no_obstacle():
    v = np.array([3.0, -0.5])
    np.testing.assert_array_equal(joint(L2(0.0), Indicator(domains.Box(-1, 1))).prox(v, 1.0, 1.0), [1.0, -0.5])  # fmt: skip
    joint(GroupL2([0, 1], 0.0), GroupL2([0, 0, 1], 1.0))
    joint(GroupL2([0, 0]), GroupL2([0, 1]))  # one group of everything is L2
    assert isinstance(
        joint(Zero(), Zero(), domains.Ball(1.0, [0.0, 0.0])).upper.domain, domains.Ball
    )
