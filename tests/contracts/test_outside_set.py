"""A set from outside the package, in one file: used by every room, named in what it certifies."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.linalg.conic_form import constants
from tiebreak.linalg.fingerprints import described_outside, known
from tiebreak.sets import Bounds, LinearRows, Set
from tiebreak.sets.base import Violation
from tiebreak.sets.domains import Constraints


class Slab(Set):
    """{x : low <= <a, x> <= high}."""

    def __init__(self, a, low, high):
        self.a, self.low, self.high = np.asarray(a, dtype=float), low, high

    def linear_rows(self, n):
        return LinearRows(n, np.array([self.a, -self.a]), [self.high, -self.low])

    def project(self, x):
        at = self.a @ x
        return x + (np.clip(at, self.low, self.high) - at) / (self.a @ self.a) * self.a

    def support(self, direction):
        t = self.a @ direction / (self.a @ self.a)
        if np.linalg.norm(direction - t * self.a) > 1e-14 * np.linalg.norm(direction):
            return math.inf
        return max(t * self.low, t * self.high)

    def argmin(self, direction):
        if math.isinf(self.support(-direction)):
            raise self.no_minimiser()
        end = self.low if self.a @ direction > 0.0 else self.high
        return end / (self.a @ self.a) * self.a


class Ellipsoid(Constraints):
    """{x : |D x| <= 1} for a diagonal D, known by its cone alone."""

    def __init__(self, d):
        self.d = np.asarray(d, dtype=float)

    def conic_form(self, form):
        form.second_order(constants(np.ones(1)), form.of_x(np.diag(self.d)))

    def bounds_in(self, n):
        return Bounds(-1.0 / self.d, 1.0 / self.d)

    def excess(self, x):
        return max(float(np.linalg.norm(self.d * x)) - 1.0, 0.0) / float(np.max(self.d))

    def violations(self, x):
        off = float(np.linalg.norm(self.d * x)) - 1.0
        return [Violation("the ellipsoid", off, 1.0)] if off > 0.0 else []


A = np.array([[1.0, 2.0, 3.0, 4.0], [2.0, -1.0, 0.0, 1.0]])
PAIR = {"lower": tb.LeastSquares(A, [3.0, 1.0]), "upper": tb.SquaredNorm(center=[1, 2, 0, -1])}
ROW = np.array([1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("method", ["auto", "exact", "conic"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_set_from_outside_is_solved_as_ours_is(method, is_cut):
    mine, ours = Slab(ROW, -0.5, 0.5), tb.Polyhedron([ROW, -ROW], [0.5, 0.5])
    more = tb.Polyhedron([[1.0, 0.0, 0.0, 0.0]], [0.7]) if is_cut else tb.Space()
    result = tb.solve(tb.Problem(**PAIR, domain=mine & more), method)
    expected = tb.solve(tb.Problem(**PAIR, domain=ours & more), method)
    assert result.success
    np.testing.assert_allclose(result.x, expected.x, atol=1e-9)
    assert result.upper_value == pytest.approx(expected.upper_value, rel=1e-9)
    assert result.status == expected.status
    assert "the description of Slab" in " ".join(result.assumed)
    if result.status == "certified":
        assert "assuming the description of Slab" in str(result).splitlines()[0]
    assert not expected.assumed


def test_without_a_description_a_set_has_no_more_than_its_projection():
    class Plain(Slab):
        linear_rows = Set.linear_rows

    problem = tb.Problem(**PAIR, domain=Plain(ROW, -0.5, 0.5))
    for method in ("exact", "conic"):
        with pytest.raises(ValueError, match=f"^{method.title()}: domain must be .* got Plain"):
            tb.solve(problem, method)


def test_a_set_that_only_cones_know():
    result = tb.solve(tb.Problem(**PAIR, domain=Ellipsoid([1.0, 1.0, 2.0, 2.0])))
    ours = tb.SecondOrderCone(np.diag([1.0, 1.0, 2.0, 2.0]), d=1.0)
    expected = tb.solve(tb.Problem(**PAIR, domain=ours))
    assert result.status == expected.status
    np.testing.assert_allclose(result.x, expected.x, atol=1e-7)
    assert "the description of Ellipsoid" in " ".join(result.assumed)


def test_what_falls_for_ever_on_a_set_from_outside_is_seen():
    lower, upper = tb.LeastSquares([[1.0, 0.0, 0.0, 0.0]], [1.0]), tb.Linear([0.0, 1.0, 0.0, 0.0])
    problem = tb.Problem(lower=lower, upper=upper, domain=Slab(ROW, -0.5, 0.5))
    assert tb.solve(problem).status == "unbounded"


def test_a_subclass_that_is_another_set_has_no_description_until_it_gives_one():
    class Half(tb.Box):
        """The box's lower half, by its projection alone."""

        project = project_cut = support = argmin = None

    class Described(Half):
        def linear_rows(self, n):
            return LinearRows(n, np.eye(n), np.full(n, 0.5))

    assert not known(Half(0.0, 1.0)).is_conic
    assert known(Described(0.0, 1.0)).is_linear
    assert described_outside(type(known(Described(0.0, 1.0))))
