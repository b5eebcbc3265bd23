"""IR-SCG, IR-FSCG, SBCGF, and SVRG with a fixed eta: recursions, certificates, refusals."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from helpers.edge_cases import check_units
from helpers.rivals import EPS, states

import tiebreak as tb
from tiebreak.linalg.matrices.base import slice_ends
from tiebreak.sets import argmin_cut

METHODS = (tb.IRSCG(), tb.IRFSCG(), tb.SBCGF(eps_g=0.05))


class Drawn:
    """A logistic loss of m rows with ties below, a distance or a mean of squares above."""

    def __init__(self, seed, m=150, n=6, has_rows=False, domain=None):
        rng = np.random.default_rng([34, seed])
        self.A = rng.standard_normal((m, 3)) @ np.linalg.qr(rng.standard_normal((n, 3)))[0].T
        self.y = np.where(self.A @ rng.standard_normal(n) + rng.logistic(size=m) > 0, 1.0, -1.0)
        self.h, self.C = rng.standard_normal(n), np.eye(n)
        upper = tb.SquaredNorm(center=self.h)
        if has_rows:
            self.C, self.h = rng.standard_normal((40, n)), rng.standard_normal(40)
            upper = tb.LeastSquares(self.C, self.h, mean=True, gram=False)
        self.parts = 40 if has_rows else 1
        lower = tb.Logistic(self.A, self.y, mean=True)
        self.problem = tb.Problem(upper=upper, lower=lower, domain=domain or tb.Ball(3))

    def one_ulp_off(self, seed):
        """The same data for `grad_f` and `grad_g`, each number times 1 + EPS or 1 - EPS."""
        rng, other = np.random.default_rng(seed), copy.copy(self)
        other.A, other.h, other.C = (
            v * (1 + EPS * rng.choice([-1, 1], v.shape)) for v in (self.A, self.h, self.C)
        )
        return other

    def grad_f(self, x, rows=slice(None)):
        C, h = (self.C, self.h) if self.parts == 1 else (self.C[rows], self.h[rows])
        return C.T @ (C @ x - h) / (1 if self.parts == 1 else len(h))

    def grad_g(self, x, rows=slice(None)):
        A, y = self.A[rows], self.y[rows]
        return A.T @ (-y / (1 + np.exp(y * (A @ x)))) / len(y)

    def g(self, x):
        return np.logaddexp(0, -self.y * (self.A @ x)).mean()

    def slices(self, batch, order):
        """The slices of rows of g and of f, each in an order of its own, without end."""

        def cycle(m):
            ends = slice_ends(m, batch)
            while True:
                for i in order.permutation(len(ends) - 1):
                    yield slice(ends[i], ends[i + 1])

        return cycle(len(self.y)), cycle(self.parts)


def estimates(p, method, k, steps, x, F, G, value, move, keep):
    """`steps` moves from x, and after each the recursion of both estimates."""
    batch = method.batch or math.isqrt(len(p.y))
    of_g, of_f = p.slices(batch, np.random.default_rng([method.seed, k]))
    for _ in range(steps):
        old, x = x, move(x, F, G, value)
        above, below = next(of_f) if p.parts > 1 else slice(None), next(of_g)
        F = p.grad_f(x, above) + keep() * (F - p.grad_f(old, above))
        new = p.grad_g(x, below) + keep() * (G - p.grad_g(old, below))
        G, value = new, value + 0.5 * (G + new) @ (x - old)
    return x, F, G, value


def plain_ir(method, p, unit, epochs):
    """The answers after every epoch; of the average every term is kept."""
    N = round(len(p.y) / (method.batch or math.isqrt(len(p.y))))
    refreshed, q = isinstance(method, tb.IRFSCG), N + 1
    x, points = p.problem.domain.project(np.zeros(p.A.shape[1])), []
    points.append(x)
    F, G, value = p.grad_f(x), p.grad_g(x), p.g(x)

    def e(t):
        return method.c * unit * ((max(t, q) if refreshed else t) + 1) ** -method.p

    def move(x, F, G, value):
        t = len(points) - 1
        a = math.log(q) / q if refreshed and t < q else 2 / (t + 2)
        v = p.problem.domain.argmin(G + e(t) * F)
        points.append(x + a * (v - x))
        return points[-1]

    def keep():
        return 1 if refreshed else 1 - 2 / (len(points) + 1)

    for k in range(1, epochs + 1):
        x, F, G, value = estimates(p, method, k, N, x, F, G, value, move, keep)
        if refreshed:
            x = move(x, F, G, value)
            F, G = p.grad_f(x), p.grad_g(x)
        T = len(points) - 1
        weights = [t * (t + 1) * (e(t - 1) - e(t)) for t in range(1, T)] + [T * (T + 1) * e(T - 1)]
        yield np.average(points[1:], axis=0, weights=weights)


def plain_sbcgf(method, p, sizes, epochs):
    N = round(len(p.y) / (method.batch or math.isqrt(len(p.y))))
    Z, x = p.problem.domain, p.problem.domain.project(np.zeros(p.A.shape[1]))
    F, G, value, level, t = p.grad_f(x), p.grad_g(x), p.g(x), math.inf, 0

    def move(x, F, G, value):
        nonlocal t
        if level == math.inf:
            s, scale = Z.argmin(G), 2
        else:
            room = level - value + sizes[1] / math.sqrt(t + 1)
            s, scale = argmin_cut(Z, F, G, room + G @ x)[0], method.scale
        t += 1
        return x + scale / (t + 1) * (s - x)

    for k in range(1, epochs + 1):
        x, F, G, value = estimates(p, method, k, N, x, F, G, value, move, lambda: 1)
        x = move(x, F, G, value)
        F, G, value = p.grad_f(x), p.grad_g(x), p.g(x)
        if level == math.inf and G @ (x - Z.argmin(G)) <= sizes[0] / 2:
            level, t = value, 0
        yield x


@pytest.mark.sample(2)
@pytest.mark.parametrize("has_rows", [False, True])
@pytest.mark.parametrize(
    "method", [*METHODS, tb.IRFSCG(batch=40, p=0.3, c=5.0, seed=3), tb.IRSCG(seed=1)], ids=str
)
def test_the_recursion_is_that_of_a_few_lines_of_numpy(count, method, has_rows):
    """To 1e-12, or 8 times what changing the data by one ulp does to the few lines themselves.

    A step goes towards a point of the sphere in the direction of a slope, and near the minimum that
    slope is small: it falls below 1e-2 here. So a rounding error turns the direction far, and grows
    over the 150 steps.
    """
    ended = 0

    def plain(p, run):
        if isinstance(method, tb.SBCGF):
            return np.array(list(plain_sbcgf(method, p, run[0].sizes, 12)))
        return np.array(list(plain_ir(method, p, run[0].unit, 12)))

    for seed in range(count(2, 25)):
        p = Drawn(seed, has_rows=has_rows)
        run = list(states(method, p.problem, np.zeros(6), 12))
        ended += math.isfinite(run[-1].level) or not isinstance(method, tb.SBCGF)
        expected = plain(p, run)
        for state in run[1:]:
            assert state.lower_value == pytest.approx(p.g(state.x), rel=1e-12)
            assert p.problem.domain.contains(state.x, 1e-12)
        far = np.abs(np.array([state.x for state in run[1:]]) - expected).max(1)
        if far.max() > 1e-12:
            moved = [np.abs(plain(p.one_ulp_off(i), run) - expected).max(1) for i in range(4)]
            far_by_an_ulp = np.maximum.accumulate(np.max(moved, axis=0))
            assert far_by_an_ulp.max() <= 1e-4  # otherwise the comparison would say nothing
            assert np.all(far <= 1e-12 + 8 * far_by_an_ulp), (seed, far, far_by_an_ulp)
    assert ended  # the second phase was reached


def test_with_all_rows_in_a_slice_it_is_ir_cg():
    p = Drawn(0)
    run = states(tb.IRSCG(batch=150, p=0.5), p.problem, np.zeros(6), 30)
    for ours, theirs in zip(run, states(tb.IRCG(), p.problem, np.zeros(6), 30), strict=True):
        np.testing.assert_allclose(ours.x, theirs.x, atol=1e-12)


def test_without_the_ends_of_rounds_br_svrg_is_svrg_with_a_fixed_eta():
    p, method = Drawn(1), tb.BregmanSVRG(batch=12, eta_0=0.01, accuracy=1e-300)
    run = list(states(method, p.problem, np.zeros(6), 10))
    L, longest = p.problem.lower.lipschitz, (p.A**2).sum(1).max() / 4
    s, x = 0.5 / (L + longest / 12 + 0.5 * 0.01), np.zeros(6)
    for k, state in enumerate(run[1:], start=1):
        w, G = x, p.grad_g(x)
        of_g, _ = p.slices(12, np.random.default_rng([0, k]))
        for _ in range(round(150 / 12)):
            rows = next(of_g)
            x = x - s * (G + p.grad_g(x, rows) - p.grad_g(w, rows) + 0.01 * p.grad_f(x))
            x = p.problem.domain.project(x)
        np.testing.assert_allclose(state.x, x, atol=1e-9)


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(200))
def test_a_certificate_is_never_wrong(seed):
    p = Drawn(100 + seed, m=60 + seed, has_rows=seed % 2 == 1)
    free = tb.solve(tb.Problem(upper=p.problem.upper, lower=p.problem.lower), "exact")
    domain = tb.Ball(2 * np.linalg.norm(free.x))
    problem = tb.Problem(upper=p.problem.upper, lower=p.problem.lower, domain=domain)
    slack = 1e-9 * (abs(free.upper_value) + 1)
    for method in METHODS:
        found = tb.solve(problem, method, rtol=0.1, criterion="weak", max_iter=40)
        low, high = found.upper_optimum
        assert low - slack <= free.upper_value <= high + slack
        assert found.lower_optimum[0] <= free.lower_value * (1 + 1e-12)
        if found.status == "certified":
            assert found.upper_value - free.upper_value <= found.upper_gap + slack


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_edge_cases_and_refusals(method):
    check_units(method, tb.Ball(2), may_refuse=True)
    fit = tb.Logistic([[1.0, 2.0]] * 4, [1, -1, 1, -1])
    one = tb.Problem(upper=tb.SquaredNorm(), lower=fit, domain=tb.Box([1.0, 2.0], [1.0, 2.0]))
    assert tb.solve(one, method, max_iter=5).x.tolist() == [1.0, 2.0]
    flat = tb.Logistic(np.zeros((30, 2)), [1, -1] * 15)
    far = tb.Problem(upper=tb.SquaredNorm(center=[3.0, 0.0]), lower=flat, domain=tb.L1Ball(5))
    assert tb.solve(far, method, max_iter=200, rtol=0).x == pytest.approx([3.0, 0.0], abs=0.3)
    name = type(method).__name__
    refused = [
        (tb.Problem(upper=tb.SquaredNorm(), lower=fit), "domain must be bounded"),
        (
            tb.Problem(upper=tb.SquaredNorm(), lower=tb.Quadratic(np.eye(2)), domain=tb.Ball()),
            "lower must be a loss whose rows",
        ),
        (
            tb.Problem(upper=tb.L1() + tb.SquaredNorm(), lower=fit, domain=tb.Ball()),
            "upper must be smooth",
        ),
    ]
    for problem, words in refused:
        with pytest.raises(ValueError, match=f"{name}: {words}"):
            tb.solve(problem, method)
    for given in ({"batch": 0}, {"seed": -1}, {"slack": -1.0}, {"p": 1.0}, {"scale": 3.0}):
        if all(hasattr(method, key) for key in given):
            with pytest.raises(ValueError, match=f"{name}: {next(iter(given))} must be"):
                type(method)(**given)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_a_run_goes_on_bit_by_bit(method, tmp_path):
    problem, path = Drawn(3, has_rows=True).problem, tmp_path / "run.npz"
    whole = tb.solve(problem, method, rtol=0, max_iter=12)
    tb.solve(problem, method, rtol=0, max_iter=5, checkpoint=path)
    rest = tb.solve(problem, method, rtol=0, max_iter=12, checkpoint=path)
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.upper_optimum == whole.upper_optimum
