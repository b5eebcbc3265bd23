"""Domains: projections by their optimality conditions and against slow, obvious solvers.

The judge computes in NumPy's long double with its own O(n^2) projections: it shares no code with
the library, and products such as 1e300 * 1e150 do not overflow in it.
"""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest

from tiebreak import sets as domains

LONG = np.longdouble
TOL = 1e-10
ROUNDING, LEAST = LONG(2.0**-51), LONG(2.0**-1022)  # a few rounding errors; the least number
KINDS = ("Space", "Ball", "Box", "Orthant", "Simplex", "L1Ball", "Monotone", "Halfspace")
EXPONENT_RANGE_IS_WIDE = np.finfo(LONG).maxexp > 2000


# ------------------------------------------------------------------------------ the slow judge


def slow_simplex(v, total):
    top = np.max(v)
    w = np.sort(v - top)[::-1]
    taus = (np.cumsum(w) - total) / np.arange(1, len(w) + 1)
    tau = taus[np.flatnonzero(w > taus)[-1]]
    return np.maximum(v - top - tau, 0)


def slow_monotone(v):
    """max over i <= k of min over j >= k of the mean of v_i..v_j."""
    n = len(v)
    means = np.full((n, n), np.inf, dtype=v.dtype)
    for i in range(n):
        means[i, i:] = np.cumsum(v[i:]) / np.arange(1, n - i + 1)
    return np.array([np.max(np.min(means[: k + 1, k:], axis=1)) for k in range(n)])


def slow_project(domain, v):
    v = np.asarray(v, dtype=LONG)
    match domain:
        case domains.Space():
            return v
        case domains.Ball():
            center = LONG(0) if domain.center is None else domain.center.astype(LONG)
            length = slow_norm(v - center)
            return v if length <= domain.radius else center + (v - center) / length * domain.radius
        case domains.Box():
            return np.minimum(np.maximum(v, LONG(1) * domain.lower), LONG(1) * domain.upper)
        case domains.Simplex():
            return slow_simplex(v, LONG(domain.total))
        case domains.L1Ball():
            if np.sum(np.abs(v)) <= domain.radius:
                return v
            return np.sign(v) * slow_simplex(np.abs(v), LONG(domain.radius))
        case domains.Monotone():
            return slow_monotone(v)
        case domains.Halfspace():
            a = domain.normal.astype(LONG)
            for _ in range(2):
                v = v - max(LONG(0), (a @ v - domain.offset) / (a @ a)) * a
            return v
    raise AssertionError(domain)


def slow_norm(v):
    v = np.asarray(v, dtype=LONG)
    return np.sqrt(np.sum(v * v))


def least(domain, c):
    """The minimum of <c, .> over the set, in long double; -inf where it is unbounded."""
    c = np.asarray(c, dtype=LONG)
    match domain:
        case domains.Ball():
            center = LONG(0) if domain.center is None else domain.center.astype(LONG)
            return np.sum(c * center) - domain.radius * slow_norm(c)
        case domains.Box():
            bound = np.where(c > 0, LONG(1) * domain.lower, LONG(1) * domain.upper)
            return np.sum(np.where(c == 0, LONG(0), c * np.where(c == 0, LONG(0), bound)))
        case domains.Simplex():
            return domain.total * np.min(c)
        case domains.L1Ball():
            return -domain.radius * np.max(np.abs(c))
        case domains.Monotone():
            sums = np.cumsum(c)
            noise = 1e-13 * np.cumsum(np.abs(c))
            bounded = np.all(sums <= noise) and abs(sums[-1]) <= noise[-1]
            return LONG(0) if bounded else -LONG(np.inf)
        case domains.Halfspace():
            a = domain.normal.astype(LONG)
            t = (a @ c) / (a @ a)
            parallel = t <= 0 and slow_norm(c - t * a) <= 1e-14 * slow_norm(c)
            return t * domain.offset if parallel else -LONG(np.inf)
    return LONG(0) if not np.any(c) else -LONG(np.inf)


def moving(domain, z):
    """The entries that can carry the rounding error of x - mu c."""
    match domain:
        case domains.Box():
            return (z > domain.lower) & (z < domain.upper)
        case domains.Simplex() | domains.L1Ball():
            return z != 0
    return np.ones(len(z), dtype=bool)


def largest_length(domain):
    """The largest finite length among the parameters of the set, read from the public ones."""
    match domain:
        case domains.Ball():
            center = 0.0 if domain.center is None else np.max(np.abs(domain.center))
            return LONG(max(domain.radius, center))
        case domains.Box():
            bounds = np.append(domain.lower, domain.upper)
            return LONG(np.max(np.abs(bounds[np.isfinite(bounds)]), initial=0.0))
        case domains.Simplex():
            return LONG(domain.total)
        case domains.L1Ball():
            return LONG(domain.radius)
        case domains.Halfspace():
            return LONG(abs(domain.offset)) / slow_norm(domain.normal)
    return LONG(0)


def residuals(domain, x, c, beta, z, mu):
    """How far z, mu are from the optimality conditions, each relative to its own scale.

    set:   |z - P(z)| relative to |z| (and |center|, which is added to z).
    path:  |z - P(x - mu c)| relative to |z| and to x and mu c, whose difference is rounded; only
           over the entries that carry it, not over those that rest on a bound.
    cut:   <c, z> - beta where it is positive, but not more than by how much z misses the smallest
           <c, .> of the set, because an empty intersection has no better point.
    slack: beta - <c, z> where it is positive although mu > 0.
    """
    x, c, z = (np.asarray(a, dtype=LONG) for a in (x, c, z))
    beta, mu = LONG(beta), LONG(mu)
    on_path = slow_project(domain, x - mu * c)
    moves = moving(domain, z) | moving(domain, on_path) | (z != on_path)
    carried = np.where(moves, np.abs(x) + mu * np.abs(c), 0)
    center = getattr(domain, "center", None)
    size = slow_norm(z) + (slow_norm(center) if center is not None else 0)
    # A set that works entry by entry keeps every c_i z_i; the others mix entries, so that z_i has
    # the precision of |z|, or of the center.
    by_entry = isinstance(domain, domains.Space | domains.Box)
    gap_scale = (np.sum(np.abs(c * z)) if by_entry else slow_norm(c) * size) + abs(beta)
    # Not visible: the rounding error of the rounding error of x - mu c, and underflow beside the
    # largest numbers.  These scales are divided by TOL because they are absolute.
    unseen = ROUNDING**2 / TOL * carried
    gap_scale = gap_scale + np.sum(np.abs(c) * unseen)
    extent = np.max(np.abs(x)) + largest_length(domain) + np.max(np.abs(z))
    gap_scale = gap_scale + LEAST / TOL * np.sum(np.abs(c)) * (extent + 1)
    gap = c @ z - beta
    over = max(LONG(0), min(gap, c @ z - least(domain, c)))
    return {
        "set": slow_norm(z - slow_project(domain, z)) / (size + slow_norm(unseen) + LEAST),
        # mu is stored to 5e-324, if it is that small
        "path": slow_norm(z - on_path)
        / (slow_norm(carried) + size + slow_norm(c) * LONG("5e-324") / TOL + LEAST),
        "cut": over / (gap_scale + LEAST),
        "slack": max(LONG(0), -gap) / (gap_scale + LEAST) if mu > 0 else LONG(0),
    }


# ------------------------------------------------------------------------------------ the cases


def wild(rng, n):
    """Entries zero or of any magnitude between 1e-150 and 1e150."""
    v = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-150, 150, n)
    return np.where(rng.random(n) < 0.2, 0.0, v)


def vector(rng, n, style):
    match style:
        case "wild":
            return wild(rng, n)
        case "ties":
            return rng.integers(-2, 3, n).astype(float)
        case "constant":
            return np.full(n, rng.normal())
        case "far":
            return rng.normal(size=n) * 10.0 ** rng.uniform(-12, 12)
    return rng.normal(size=n) * 3.0


def number(rng, style):
    return abs(float(vector(rng, 1, style)[0])) or 1.0


def make_domain(kind, rng, n, style):
    match kind:
        case "Ball":
            center = None if rng.random() < 0.5 else vector(rng, n, style)
            return domains.Ball(number(rng, style), center)
        case "Box":
            if rng.random() < 0.3:
                return domains.Box(*sorted(vector(rng, 2, style)))
            a, b = vector(rng, n, style), vector(rng, n, style)
            lower = np.where(rng.random(n) < 0.2, -np.inf, np.minimum(a, b))
            return domains.Box(lower, np.where(rng.random(n) < 0.2, np.inf, np.maximum(a, b)))
        case "Simplex":
            return domains.Simplex(number(rng, style))
        case "L1Ball":
            return domains.L1Ball(number(rng, style))
        case "Halfspace":
            normal = vector(rng, n, style)
            if not np.any(normal):
                normal = np.ones(n)
            return domains.Halfspace(normal, float(vector(rng, 1, style)[0]))
    return getattr(domains, kind)()


STYLES = ("plain", "plain", "ties", "constant", "far", "wild", "wild")


def case(kind, rng):
    """domain, x, c, beta of one random or degenerate case."""
    n = int(rng.choice([1, 2, 3, rng.integers(4, 31)]))
    style = STYLES[rng.integers(len(STYLES))]
    mixed = [style if rng.random() < 0.7 else STYLES[rng.integers(len(STYLES))] for _ in range(3)]
    domain = make_domain(kind, rng, n, mixed[0])
    x, c = vector(rng, n, mixed[1]), vector(rng, n, mixed[2])
    if kind == "Halfspace" and rng.random() < 0.2:
        c = domain.normal * rng.choice([-2.0, 1.0, -0.3])
    if kind == "Monotone" and rng.random() < 0.2:
        c = np.diff(np.append(0.0, -np.abs(c)), append=0.0)[:n] if n > 1 else c
        c[-1] = -np.sum(c[:-1])
    if rng.random() < 0.2:
        x = np.asarray(domain.project(x))
    if rng.random() < 0.03:
        c = np.zeros(n)
    return domain, x, c, offset(domain, rng, x, c, style)


def offset(domain, rng, x, c, style):
    here = float(np.clip(c.astype(LONG) @ slow_project(domain, x), -1e300, 1e300))
    lowest = float(np.clip(least(domain, c), -1e300, 1e300))
    if abs(lowest) >= 1e300:
        lowest = here - 3.0 * abs(float(vector(rng, 1, style)[0]))
    match rng.integers(8):
        case 0:
            return lowest
        case 1:
            return lowest - 1e-16 * rng.integers(1, 9) * abs(lowest)
        case 2:
            return lowest - abs(float(vector(rng, 1, style)[0]))
        case 3:
            return here + abs(float(vector(rng, 1, style)[0]))
        case 4:
            return here
        case 5:
            return float(vector(rng, 1, style)[0])
    return lowest + float(rng.random()) * (here - lowest)


@pytest.mark.sample(3)
@pytest.mark.skipif(not EXPONENT_RANGE_IS_WIDE, reason="the judge needs a wide long double")
@pytest.mark.parametrize("kind", KINDS)
def test_project_cut_meets_its_optimality_conditions(kind, count, record_property):
    rng = np.random.default_rng([2026, KINDS.index(kind)])
    worst = {}
    for trial in range(count(250, 20_000)):
        domain, x, c, beta = case(kind, rng)
        z, mu = domain.project_cut(x, c, beta)
        assert isinstance(mu, float), trial
        assert 0.0 <= mu < math.inf, (trial, mu)
        assert z.shape == x.shape
        assert np.all(np.isfinite(z)), (trial, domain, x, c, beta, z)
        if mu > 1e305:  # the true multiplier may not be a number
            continue
        found = residuals(domain, x, c, beta, z, mu)
        for name, value in found.items():
            assert value <= TOL, (trial, name, value, domain, x, c, beta, z, mu)
            worst[name] = max(worst.get(name, 0.0), float(value))
    record_property("worst", worst)
    print(kind, {name: f"{value:.1e}" for name, value in worst.items()})


# ----------------------------------------------------------------------- other checks of the cut


@pytest.mark.parametrize("kind", KINDS)
def test_project_cut_of_long_vectors_meets_its_optimality_conditions(kind, count):
    """Where sums over few entries and reused memory come in; with and without a guess."""
    rng = np.random.default_rng(8)
    n = 400
    for _ in range(count(2 if kind == "Monotone" else 8, 300)):
        domain = make_domain(kind, rng, n, "plain")
        if kind in ("Simplex", "L1Ball"):
            domain = type(domain)(float(10.0 ** rng.uniform(-1, 3)))
        x, c = rng.normal(size=n) * 3.0, rng.normal(size=n)
        beta = offset(domain, rng, x, c, "plain")
        z, mu = domain.project_cut(x, c, beta)
        for guess in (None, mu * rng.uniform(0.9, 1.1), mu * rng.uniform(0.0, 10.0)):
            z, mu = domain.project_cut(x, c, beta, guess)
            for name, value in residuals(domain, x, c, beta, z, mu).items():
                assert value <= 1e-13, (name, value, domain, beta, mu)


@pytest.mark.parametrize("kind", KINDS)
def test_project_cut_in_single_precision(kind, count):
    rng = np.random.default_rng(9)
    for _ in range(count(100, 2000)):
        domain = plain_domain(kind, rng)
        x, c = (rng.normal(size=6).astype(np.float32) for _ in range(2))
        beta = offset(domain, rng, x, c, "plain")
        z, mu = domain.project_cut(x, c, beta)
        for name, value in residuals(domain, x, c, beta, z, mu).items():
            assert value <= 1e-5, (name, value, domain, x, c, beta, z, mu)


def plain_domain(kind, rng, n=6):
    """A domain and, for the sets with a center or vectors, entries of ordinary size."""
    return make_domain(kind, rng, n, "plain")


@pytest.mark.parametrize("kind", KINDS)
def test_project_cut_satisfies_the_variational_inequality(kind, count):
    rng = np.random.default_rng(1)
    for _ in range(count(100, 2000)):
        domain = plain_domain(kind, rng)
        x, c = rng.normal(size=6) * 3.0, rng.normal(size=6)
        beta = offset(domain, rng, x, c, "plain")
        z, _ = domain.project_cut(x, c, beta)
        points = [domain.project(z + rng.normal(size=6) * s) for s in (0.1, 1.0, 1.0, 10.0, 10.0)]
        for y in points:
            if c @ y <= beta:
                scale = (1.0 + np.linalg.norm(x)) * (1.0 + np.linalg.norm(y) + np.linalg.norm(z))
                assert (x - z) @ (y - z) <= TOL * scale


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_guess_does_not_change_the_answer(kind, count):
    rng = np.random.default_rng(2)
    for _ in range(count(100, 2000)):
        domain = plain_domain(kind, rng)
        x, c = rng.normal(size=6) * 3.0, rng.normal(size=6)
        beta = offset(domain, rng, x, c, "plain")
        z, mu = domain.project_cut(x, c, beta)
        for guess in (0.0, mu, mu * 1.001, mu * 0.5, 10.0 * mu + 1.0, 1e200):
            warm, _ = domain.project_cut(x, c, beta, guess)
            np.testing.assert_allclose(warm, z, atol=1e-6 if kind == "Ball" else 1e-9, rtol=1e-9)


def clarabel(domain, x, cuts):
    """The projection by a conic solver."""
    import cvxpy as cp

    z = cp.Variable(len(x))
    match domain:
        case domains.Space():
            rules = []
        case domains.Ball():
            rules = [
                cp.norm(z - (0.0 if domain.center is None else domain.center)) <= domain.radius
            ]
        case domains.Box():
            lower, upper = (np.broadcast_to(b, len(x)) for b in (domain.lower, domain.upper))
            rules = [z[i] >= lower[i] for i in np.flatnonzero(np.isfinite(lower))]
            rules += [z[i] <= upper[i] for i in np.flatnonzero(np.isfinite(upper))]
        case domains.Simplex():
            rules = [z >= 0, cp.sum(z) == domain.total]
        case domains.L1Ball():
            rules = [cp.norm1(z) <= domain.radius]
        case domains.Monotone():
            rules = [cp.diff(z) >= 0]
        case domains.Halfspace():
            rules = [domain.normal @ z <= domain.offset]
    rules += [c @ z <= beta for c, beta in cuts]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(z - x)), rules)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return z.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_projections_agree_with_a_conic_solver(kind, count):
    rng = np.random.default_rng(3)
    for _ in range(count(3, 50)):
        domain = plain_domain(kind, rng)
        x, c = rng.normal(size=6) * 3.0, rng.normal(size=6)
        np.testing.assert_allclose(domain.project(x), clarabel(domain, x, []), atol=1e-6)
        here = float(c @ domain.project(x))
        lowest = max(float(least(domain, c)), here - 5.0)
        beta = here - 0.5 * (here - lowest)
        z, _ = domain.project_cut(x, c, beta)
        np.testing.assert_allclose(z, clarabel(domain, x, [(c, beta)]), atol=1e-6)


# --------------------------------------------------------------------------- the simpler methods


@pytest.mark.parametrize("kind", KINDS)
def test_project_agrees_with_the_slow_projection(kind, count):
    rng = np.random.default_rng(4)
    for _ in range(count(80, 5000)):
        domain = plain_domain(kind, rng)
        x = vector(rng, 6, STYLES[rng.integers(5)])
        z = domain.project(x)
        scale = 1.0 + np.max(np.abs(x))
        np.testing.assert_allclose(z, slow_project(domain, x).astype(float), atol=1e-13 * scale)
        assert domain.contains(z)
        assert slow_norm(z - domain.project(z)) <= 1e-14 * scale


@pytest.mark.parametrize("kind", KINDS)
def test_support_argmin_and_farthest_agree_with_points_of_the_set(kind):
    rng = np.random.default_rng(5)
    for _ in range(100):
        domain = plain_domain(kind, rng)
        c, x = rng.normal(size=6), rng.normal(size=6)
        points = [domain.project(rng.normal(size=6) * 10.0) for _ in range(20)]
        top = domain.support(c)
        assert all(c @ y <= top + 1e-9 * (1.0 + abs(top)) for y in points)
        assert all(np.linalg.norm(y - x) <= domain.farthest(x) * (1.0 + 1e-12) for y in points)
        assert all(
            np.linalg.norm(y - w) <= domain.diameter_in(6) * (1.0 + 1e-12) + 1e-12
            for y in points
            for w in points[:3]
        )
        if domain.support(-c) < math.inf:
            s = domain.argmin(c)
            assert domain.contains(s)
            assert c @ s == pytest.approx(-domain.support(-c), abs=1e-12)
        else:
            with pytest.raises(ValueError, match="unbounded below on this set"):
                domain.argmin(c)


def test_farthest_and_diameter_are_attained():
    x = np.array([0.3, -0.2, 0.5])
    corners = np.array([[a, b, c] for a in (-1, 2) for b in (-1, 2) for c in (-1, 2)])
    vertices = 2.0 * np.eye(3)
    far = lambda points: np.max(np.linalg.norm(points - x, axis=1))  # noqa: E731
    assert domains.Box(-1, 2).farthest(x) == pytest.approx(far(corners))
    assert domains.Simplex(2.0).farthest(x) == pytest.approx(far(vertices))
    assert domains.L1Ball(2.0).farthest(x) == pytest.approx(far(np.vstack([vertices, -vertices])))
    assert domains.Ball(2.0, [0.3, -0.2, 0.0]).farthest(x) == pytest.approx(2.5)
    assert domains.Box(-1, 2).diameter_in(3) == pytest.approx(3.0 * math.sqrt(3.0))
    assert domains.Box([0.0, 0.0], [3.0, 4.0]).diameter == 5.0
    assert domains.Box(0.0, math.inf).diameter == math.inf
    assert domains.Simplex(1.0).diameter_in(1) == 0.0
    with pytest.raises(ValueError, match=r"depends on the dimension; use diameter_in\(n\)"):
        _ = domains.Box(0.0, 1.0).diameter


@pytest.mark.parametrize("kind", KINDS)
def test_every_set_is_a_domain(kind):
    assert isinstance(plain_domain(kind, np.random.default_rng(0)), domains.Domain)
    assert not isinstance(object(), domains.Domain)


def test_contains_is_relative_to_the_size_of_the_point():
    assert domains.Ball(1e9).contains(np.array([1e9 + 0.1, 0.0]))
    assert not domains.Ball(1.0).contains(np.array([1.0 + 1e-6, 0.0]))
    assert domains.Ball(1.0).contains(np.array([1.0 + 1e-6, 0.0]), tol=1e-5)
    assert not domains.Space().contains(np.array([np.nan]))
    assert not domains.Orthant().contains(np.array([1.0, -1e-6]))
    assert domains.Monotone().contains(np.array([1.0, 1.0, 2.0]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", ["numpy", "strict"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_library_and_dtype_are_kept_and_inputs_left_alone(kind, library, dtype):
    xp = np if library == "numpy" else array_api_strict
    rng = np.random.default_rng(6)
    for _ in range(20):
        domain = plain_domain(kind, rng)
        x_host, c_host = rng.normal(size=6).astype(dtype), rng.normal(size=6).astype(dtype)
        beta = float(c_host @ domain.project(x_host)) - 0.1
        x, c = xp.asarray(x_host, copy=True), xp.asarray(c_host, copy=True)
        z, mu = domain.project_cut(x, c, beta)
        results = [domain.project(x), z]
        if domain.support(-c) < math.inf:
            results.append(domain.argmin(c))
        for result in results:
            assert type(result) is type(x)
            assert result.dtype == x.dtype
        assert isinstance(mu, float)
        assert isinstance(domain.farthest(x), float)
        assert isinstance(domain.contains(x), bool)
        assert np.array_equal(np.asarray(x), x_host)
        assert np.array_equal(np.asarray(c), c_host)
        if dtype == "float32":
            long, _ = domain.project_cut(x_host.astype(float), c_host.astype(float), beta)
            np.testing.assert_allclose(np.asarray(z), long, atol=2e-3)


# --------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: domains.Ball(-1.0), ValueError, "Ball: radius must be a positive finite number, got -1.0"),
        (lambda: domains.Ball(0), ValueError, "Ball: radius must be a positive finite number, got 0"),
        (lambda: domains.Ball(math.nan), ValueError, "Ball: radius must be a positive finite number, got nan"),
        (lambda: domains.Ball("1"), TypeError, "Ball: radius must be a positive finite number, got str"),
        (lambda: domains.Ball([1.0, 2.0]), TypeError, "Ball: radius must be a positive finite number, got list"),
        (lambda: domains.Ball(1.0, [[1.0]]), ValueError, "Ball: center must be a vector with at least one entry, got an array of shape (1, 1)"),
        (lambda: domains.Ball(1.0, []), ValueError, "Ball: center must be a vector with at least one entry, got an array of shape (0,)"),
        (lambda: domains.Ball(1.0, [math.nan]), ValueError, "Ball: center must be finite, got NaN or infinite entries"),
        (lambda: domains.Ball(1.0, 2.0), ValueError, "Ball: center must be a vector with at least one entry, got a single number"),
        (lambda: domains.Ball(1.0, [1.0]).check(2), ValueError, "Ball: center must have one entry per variable (2), got 1"),
        (lambda: domains.Box(1.0, 0.0), ValueError, "Box: lower must not exceed upper, got 1.0 and 0.0"),
        (lambda: domains.Box([0.0, 2.0], 1.0), ValueError, "Box: lower must not exceed upper, got 2.0 and 1.0 at entry 1"),
        (lambda: domains.Box(math.nan, 1.0), ValueError, "Box: lower must hold numbers or infinities, got NaN"),
        (lambda: domains.Box(0.0, [1.0, math.nan]), ValueError, "Box: upper must hold numbers or infinities, got NaN"),
        (lambda: domains.Box([0.0], [1.0, 2.0]), ValueError, "Box: lower and upper must have the same length, got 1 and 2"),
        (lambda: domains.Box(None, 1.0), TypeError, "Box: lower must be a number or a vector, got NoneType"),
        (lambda: domains.Box([[0.0]], 1.0), ValueError, "Box: lower must be a number or a vector with at least one entry, got an array of shape (1, 1)"),
        (lambda: domains.Box("a", 1.0), TypeError, "Box: lower must be a number or a vector, got str"),
        (lambda: domains.Box(math.inf, math.inf), ValueError, "Box: lower must be below inf and upper above -inf"),
        (lambda: domains.Box([0.0], 1.0).check(3), ValueError, "Box: lower must have one entry per variable (3), got 1"),
        (lambda: domains.Simplex(math.inf), ValueError, "Simplex: total must be a positive finite number, got inf"),
        (lambda: domains.L1Ball(None), TypeError, "L1Ball: radius must be a positive finite number, got NoneType"),
        (lambda: domains.Halfspace([0.0, 0.0], 1.0), ValueError, "Halfspace: normal must not be the zero vector"),
        (lambda: domains.Halfspace([1.0], math.inf), ValueError, "Halfspace: offset must be a finite number, got inf"),
        (lambda: domains.Halfspace([1e-300, 0.0], 1e10), ValueError, "Halfspace: offset divided by the length of normal must be finite, got 1e+10/1e-300"),
        (lambda: domains.Polyhedron([[1.0]], [1.0], rows=3), ValueError, "Polyhedron: rows must be names, one per row (1), got int"),
        (lambda: domains.Polyhedron([[1.0]], [1.0], rows="a"), ValueError, "Polyhedron: rows must be names, one per row (1), got 'a'"),
        (lambda: domains.Polyhedron([[1.0]], lower=[[1.0], [1.0, 2.0]]), ValueError, "Polyhedron: lower must be a rectangular array, got rows of different lengths"),
        (lambda: domains.Polyhedron([[1.0]], lower=1.0), ValueError, "Polyhedron: lower must be a vector, got a single number"),
        (lambda: domains.Polyhedron([[1.0]], lower=[[1.0]]), ValueError, "Polyhedron: lower must be a vector, got an array of shape (1, 1)"),
        (lambda: domains.Polyhedron([[1.0]], lower=[1.0, 2.0]), ValueError, "Polyhedron: lower must have one entry per row of A (1), got 2"),
        (lambda: domains.Polyhedron(lower=[1.0]), ValueError, "Polyhedron: A must be given with lower, got None"),
        (lambda: domains.Halfspace([1.0], 0.0).check(2), ValueError, "Halfspace: normal must have one entry per variable (2), got 1"),
    ],
)  # fmt: skip
def test_wrong_parameters_get_one_clear_sentence(make, error, sentence):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == sentence


def test_the_l1_ball_only_ever_shrinks_entries(count):
    """|z_i| <= |x_i|, and what is 0 stays 0, though x is outside by rounding only."""
    rng = np.random.default_rng(12)
    for _ in range(count(50, 2000)):
        x = rng.standard_normal(int(rng.integers(2, 40))) * (rng.random() < 0.8)
        x[::2] = 0.0
        if x.any():
            x /= np.sum(np.abs(x)) * (1.0 - 2.0**-52 * int(rng.integers(0, 9)))
        z = domains.L1Ball(1.0).project(x)
        assert np.all(np.abs(z) <= np.abs(x))
