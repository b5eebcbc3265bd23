"""Numbers of two precisions in one problem are promoted or refused, never rounded in silence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import tiebreak as tb

SINGLE = np.eye(2, dtype=np.float32)
TENTH = np.array([0.1, 0.2])  # which float32 does not hold
FITS = np.array([0.5, -1.0])  # which it does


def below(A=SINGLE, b=FITS):
    return tb.LeastSquares(A, b)


MIXED = {
    "LeastSquares": lambda v: (tb.SquaredNorm(), below(b=v)),
    "sparse": lambda v: (tb.SquaredNorm(), below(scipy.sparse.csr_array(SINGLE), v)),
    "Quadratic": lambda v: (tb.SquaredNorm(), tb.Quadratic(SINGLE, v)),
    "Ball": lambda v: (tb.SquaredNorm(), below(), tb.Ball(3.0, v)),
    "Box": lambda v: (tb.SquaredNorm(), below(), tb.Box(v - 2.0, 2.0)),
    "Halfspace": lambda v: (tb.SquaredNorm(), below(), tb.Halfspace(v, 1.0)),
}


def problem(upper, lower, domain=None):
    return tb.Problem(upper=upper, lower=lower, domain=domain or tb.Space())


@pytest.mark.parametrize("method", ["auto", "exact", "adaptive"])
@pytest.mark.parametrize("what", MIXED)
def test_a_vector_that_float32_does_not_hold_makes_it_float64(what, method):
    assert tb.solve(problem(*MIXED[what](TENTH)), method, max_iter=5).x.dtype == np.float64
    assert tb.solve(problem(*MIXED[what](FITS)), method, max_iter=5).x.dtype == np.float32


@pytest.mark.parametrize(
    "other", [np.array([1, -1]), [1, -1], np.array([True, False]), [0.5, 0.25]]
)
def test_whole_numbers_and_lists_that_float32_holds_leave_it_float32(other):
    assert below(b=other).b.dtype == np.float32
    assert below(b=[2**24 + 1, 0]).b.dtype == np.float64


@pytest.mark.parametrize("method", ["auto", "exact", "adaptive", "agm-bio"])
@pytest.mark.parametrize("rtol", [1e-4, 1e-12])
def test_the_certificate_speaks_of_the_numbers_that_were_given(method, rtol, count):
    f = tb.LeastSquares(SINGLE, np.zeros(2))
    g = tb.LeastSquares(np.array([[1.0, 0.0]], dtype=np.float32), np.array([0.1]))
    best = Fraction(0.1) ** 2 / 2  # x_1 = b, x_2 = 0
    result = tb.solve(
        problem(f, g, tb.Box(-1.0, 1.0)), method, rtol=rtol, max_iter=count(300, 2000)
    )
    lower, upper = result.upper_optimum
    assert lower == -np.inf or Fraction(lower) <= best
    assert upper == np.inf or best <= Fraction(upper)


@pytest.mark.parametrize("single_above", [True, False])
@pytest.mark.parametrize("join", ["Problem", "Sum"])
def test_levels_and_terms_of_two_precisions_are_float64(join, single_above):
    one, two = below(), tb.LeastSquares(np.eye(2), TENTH)
    upper, lower = (one, two) if single_above else (two, one)
    p = problem(upper, lower) if join == "Problem" else problem(tb.SquaredNorm(), upper + lower)
    x = tb.solve(p).x
    assert x.dtype == np.float64
    wanted = TENTH if join == "Problem" and single_above else FITS
    wanted = wanted if join == "Problem" else (TENTH + FITS) / 2.0
    np.testing.assert_allclose(x, wanted, rtol=1e-12)


def test_a_center_of_another_precision_is_promoted_too():
    for center, A in ((TENTH, SINGLE), (TENTH.astype(np.float32), np.eye(2))):
        p = problem(tb.SquaredNorm(1.0, center), tb.LeastSquares(A[:1], np.ones(1)))
        x = tb.solve(p).x
        assert x.dtype == np.float64
        np.testing.assert_allclose(x, [1.0, float(center[1])], rtol=1e-12)


def test_certify_looks_at_x_itself_and_a_start_is_rounded():
    p = problem(tb.SquaredNorm(), below())
    proof = tb.certify(p, TENTH)
    assert proof.upper_value == pytest.approx(0.5 * float(TENTH @ TENTH), rel=1e-14)
    assert tb.solve(p, "adaptive", x0=TENTH, max_iter=100).x.dtype == np.float32


def test_what_cannot_be_widened_is_refused_with_a_sentence():
    operator = scipy.sparse.linalg.aslinearoperator(SINGLE)
    rounded = "which cannot be converted to float64; got float64 numbers that would be rounded$"
    with pytest.raises(
        ValueError, match=f"^LeastSquares: b must hold float32 numbers like A, {rounded}"
    ):
        tb.LeastSquares(operator, TENTH)
    with pytest.raises(ValueError, match=f"^Problem: domain must .* {rounded}"):
        problem(tb.SquaredNorm(), tb.LeastSquares(operator, FITS), tb.Ball(3.0, TENTH))
    with pytest.raises(ValueError, match=f"^certify: x must .* {rounded}"):
        tb.certify(problem(tb.SquaredNorm(), tb.LeastSquares(operator, FITS)), TENTH)


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i4"])
def test_numbers_in_the_other_order_of_bytes_are_converted(kind):
    A = np.array([[1, 2], [3, 4], [5, 7]], dtype=kind)
    b = np.array([1, 2, 4], dtype=kind)
    native = np.float32 if kind == ">f4" else np.float64
    f = tb.LeastSquares(A, b)
    assert f.prototype.dtype == native
    assert f.prototype.dtype.isnative
    x = tb.solve(problem(tb.SquaredNorm(), f), x0=np.zeros(2, ">f8")).x
    wanted = np.linalg.lstsq(A.astype(float), b.astype(float), rcond=None)[0]
    np.testing.assert_allclose(x, wanted, rtol=1e-5)
    center = np.array([1, 2], dtype=kind)
    for made in (tb.SquaredNorm(1.0, center), tb.Linear(center), tb.Ball(1.0, center)):
        vector = made.c if isinstance(made, tb.Linear) else made.center
        assert vector.dtype == native
        assert vector.tolist() == [1.0, 2.0]
