"""Least squares below, a penalty of D x above: the sparse program, its proof, and the products."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import tiebreak as tb
from tiebreak.conic.held_image import HeldProblem
from tiebreak.linalg.least_eigenvalue import least_eigenvalue
from tiebreak.linalg.matrices import Differences
from tiebreak.proofs.operator_dual import prove

SHAPE = (18, 15)


def image(rows=SHAPE[0], columns=SHAPE[1], seed=0):
    """A bar, blurred, at half of its pixels."""
    truth = np.zeros((rows, columns))
    truth[rows // 4 : rows // 2, columns // 4 : 3 * columns // 4] = 1.0
    n = rows * columns
    blur = sp.diags_array([0.25, 0.5, 0.25], offsets=[-1, 0, 1], shape=(n, n)).tocsr()
    kept = np.sort(np.random.default_rng(seed).choice(n, n // 2, replace=False))
    A = blur[kept]
    return A, A @ truth.ravel(), truth.ravel()


def by_linprog(A, b, D):
    """The least |D x|_1 with A x = b."""
    from scipy.optimize import linprog

    (m, n), k = A.shape, D.shape[0]
    one = sp.eye_array(k)
    rows = sp.block_array([[sp.csr_array((m, k)), A], [one, -D], [one, D]]).tocsr()
    found = linprog(
        np.append(np.ones(k), np.zeros(n)),
        A_ub=-rows[m:],
        b_ub=np.zeros(2 * k),
        A_eq=rows[:m],
        b_eq=b,
        bounds=[(None, None)] * (n + k),
    )
    return found.fun


@pytest.mark.parametrize("grid", [(6,), (4, 3), (1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("is_padded", [False, True])
def test_differences_by_slices_are_those_of_their_matrix(grid, is_padded):
    D, rng = Differences(grid, is_padded), np.random.default_rng(0)
    M, x, r = D.on_host(), rng.standard_normal(D.shape[1]), rng.standard_normal(D.shape[0])
    assert M.shape == D.shape
    np.testing.assert_allclose(D.forward(x)[0], M @ x)
    np.testing.assert_allclose(D.adjoint(r)[0], M.T @ r)
    assert not M.shape[0] or np.linalg.norm(M.toarray(), 2) ** 2 <= D.spectral_square


@pytest.mark.parametrize("library", ["torch", "jax.numpy", "array_api_strict"])
def test_differences_are_taken_in_the_library_of_x(library):
    xp = pytest.importorskip(library)
    x = np.random.default_rng(0).standard_normal(12).astype(np.float32)
    D = Differences((4, 3))
    there = D.forward(xp.asarray(x))[0]
    assert type(there) is type(xp.asarray(x))
    np.testing.assert_allclose(np.asarray(there), D.forward(x)[0])
    np.testing.assert_allclose(np.asarray(D.adjoint(there)[0]), D.adjoint(D.forward(x)[0])[0])


def test_total_variation_of_an_image_is_what_it_says():
    x = np.random.default_rng(0).standard_normal(SHAPE)
    down, right = np.diff(x, axis=0), np.diff(x, axis=1)
    sums = np.abs(down).sum() + np.abs(right).sum()
    lengths = np.hypot(np.pad(down, ((0, 1), (0, 0))), np.pad(right, ((0, 0), (0, 1)))).sum()
    assert tb.TotalVariation(2.0, shape=SHAPE).value(x.ravel()) == pytest.approx(2.0 * sums)
    h = tb.TotalVariation(shape=SHAPE, isotropic=True)
    assert h.value(x.ravel()) == pytest.approx(lengths)
    g = h.terms.subgradient(x.ravel())
    d = np.random.default_rng(1).standard_normal(x.size)
    rise = (h.value(x.ravel() + 1e-6 * d) - h.value(x.ravel() - 1e-6 * d)) / 2e-6
    assert g @ d == pytest.approx(rise, rel=1e-6)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: tb.TotalVariation(shape=5), "shape must be two numbers, got 5"),
        (lambda: tb.TotalVariation(shape=(0, 3)), "shape must be a whole number >= 1, got 0"),
        (lambda: tb.TotalVariation(shape=(3, 4)).check(5), r"\(5\), got \(3, 4\)"),
    ],
)
def test_a_wrong_shape_is_refused_in_a_sentence(made, said):
    with pytest.raises(ValueError, match=f"TotalVariation: {said}|one pixel per variable {said}"):
        made()


def test_a_signal_is_proved_and_is_what_a_linear_program_finds():
    n = 400
    truth = np.repeat([1.0, 3.0, 2.0, 5.0], n // 4)
    A = sp.diags_array([0.2] * 5, offsets=range(5), shape=(n, n)).tocsr()[: n - 4 : 3]
    problem = tb.Problem(lower=tb.LeastSquares(A, A @ truth), upper=tb.TotalVariation())
    result = tb.solve(problem, rtol=1e-6)
    best = by_linprog(A, A @ truth, Differences((n,)).on_host())
    low, high = result.certificate.upper_optimum
    assert result.status == "certified"
    assert low - 1e-9 <= best <= high + 1e-9
    assert abs(result.upper_value - best) <= 1e-6 * best


@pytest.mark.parametrize("isotropic", [False, True])
def test_an_image_is_proved(isotropic):
    A, b, truth = image()
    upper = tb.TotalVariation(shape=SHAPE, isotropic=isotropic)
    result = tb.solve(tb.Problem(lower=tb.LeastSquares(A, b), upper=upper), rtol=1e-6)
    assert result.status == "certified"
    assert result.upper_value <= upper.value(truth) * (1.0 + 1e-7)
    if not isotropic:
        best = by_linprog(A, b, Differences(SHAPE).on_host())
        assert result.upper_value == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("weights", ["ones", "drawn", "some are 0"])
def test_weights_and_a_center_of_an_operator(weights):
    A, b, _ = image()
    D, rng = Differences(SHAPE).on_host(), np.random.default_rng(2)
    w = {"ones": np.ones(D.shape[0]), "drawn": rng.uniform(0.5, 2.0, D.shape[0])}.get(weights)
    if w is None:
        w = rng.uniform(0.5, 2.0, D.shape[0]) * (np.arange(D.shape[0]) % 7 > 0)
    center = 0.1 * rng.standard_normal(D.shape[0])
    upper = tb.L1(w, center, operator=D)
    result = tb.solve(tb.Problem(lower=tb.LeastSquares(A, b), upper=upper), rtol=1e-6)
    assert result.status == "certified"
    assert result.upper_value == pytest.approx(float(w @ np.abs(D @ result.x - center)))


def test_zero_rows_and_rows_twice_change_nothing():
    A, b, _ = image()
    D = Differences(SHAPE).on_host()
    more = sp.vstack([D, sp.csr_array((3, D.shape[1])), D]).tocsr()
    lower = tb.LeastSquares(A, b)
    once, twice = (
        tb.solve(tb.Problem(lower=lower, upper=tb.L1(operator=d)), rtol=1e-6) for d in (D, more)
    )
    assert once.status == twice.status == "certified"
    assert twice.upper_value == pytest.approx(2.0 * once.upper_value, rel=1e-6)


def test_data_without_a_solution_are_not_certified_from_above_without_a_rank():
    A, b, _ = image()
    both = sp.vstack([A, A[:9]]).tocsr()
    lower = tb.LeastSquares(both, np.append(b, b[:9] + 0.1))
    result = tb.solve(tb.Problem(lower=lower, upper=tb.TotalVariation(shape=SHAPE)), rtol=1e-4)
    # The middle of both readings is what all minimisers have.
    middle = b.copy()
    middle[:9] += 0.05
    best = by_linprog(A, middle, Differences(SHAPE).on_host())
    assert result.status in ("solved", "certified")
    assert result.upper_value == pytest.approx(best, rel=1e-5)
    assert result.certificate.upper_optimum[0] <= best * (1.0 + 1e-9)


def test_on_a_box_the_lower_end_is_proved():
    A, b, truth = image()
    upper = tb.TotalVariation(shape=SHAPE)
    problem = tb.Problem(lower=tb.LeastSquares(A, b), upper=upper, domain=tb.Box(0.0, 1.0))
    result = tb.solve(problem, rtol=1e-6)
    assert result.success
    assert 0.0 <= np.min(result.x) <= np.max(result.x) <= 1.0
    assert result.upper_value - result.certificate.upper_optimum[0] <= 1e-5
    assert result.upper_value <= upper.value(truth) * (1.0 + 1e-9)


def test_a_wrong_dual_point_proves_less_and_nothing_false():
    A, b, _ = image()
    problem = tb.Problem(lower=tb.LeastSquares(A, b), upper=tb.TotalVariation(shape=SHAPE))
    held = HeldProblem.of(problem, A.shape[1])
    best = by_linprog(A, b, Differences(SHAPE).on_host())
    (x, y, u), _ = held._solved(held.t, 1e-8)
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-9, 1e-4, 1.0, 1e3):
        shaken = tuple(v + size * rng.standard_normal(v.shape) for v in (x, y, u))
        low, high = prove(problem, held.terms, held.A, held.t, shaken).upper
        assert low <= best * (1.0 + 1e-9) <= high * (1.0 + 2e-9)
    assert prove(problem, held.terms, held.A, held.t, (x, y, u)).upper[0] >= best * (1.0 - 1e-6)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_least_eigenvalue_is_never_too_large(is_sparse):
    for seed in range(10):
        K = np.random.default_rng(seed).standard_normal((30, 12))
        K[:, 0] *= 10.0 ** -(seed / 2)
        found = least_eigenvalue(sp.csr_array(K) if is_sparse else K)
        true = np.linalg.svd(K, compute_uv=False)[-1] ** 2
        assert found <= true
        assert found >= 0.04 * true
    K[:, 1] = K[:, 2]
    assert least_eigenvalue(sp.csr_array(K) if is_sparse else K) <= 1e-12


def test_operators_alone_are_solved_by_their_products():
    A, b, _ = image()
    D = Differences(SHAPE).on_host()
    lower, upper = tb.LeastSquares(aslinearoperator(A), b), tb.L1(operator=aslinearoperator(D))
    result = tb.solve(tb.Problem(lower=lower, upper=upper), rtol=1e-3)
    best = by_linprog(A, b, D)
    assert result.status == "solved"
    assert abs(result.upper_value - best) <= 1e-3 * best
    assert result.lower_value <= 1e-3 * 0.5 * float(b @ b)


def test_an_operator_below_is_refused_in_a_sentence():
    A, b, _ = image()
    D = aslinearoperator(Differences(SHAPE).on_host())
    problem = tb.Problem(lower=tb.L1(operator=D), upper=tb.LeastSquares(A, b))
    with pytest.raises(ValueError, match=r"joint prox in closed form, got L1.*, which has none"):
        tb.solve(problem)


def test_an_operator_without_an_adjoint_is_refused():
    wrong = LinearOperator((3, 4), matvec=lambda x: x[:3], dtype=np.float64)
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        tb.L1(operator=wrong)


@pytest.mark.parametrize("penalty", ["variation", "isotropic", "quantile"])
def test_the_primal_dual_method_converges_with_a_dual_variable(penalty):
    A, b, _ = image(6, 7)
    rng = np.random.default_rng(3)
    upper = {
        "variation": tb.TotalVariation(shape=(6, 7)),
        "isotropic": tb.TotalVariation(shape=(6, 7), isotropic=True),
        "quantile": tb.Quantile(rng.standard_normal((50, 42)), rng.standard_normal(50), 0.3),
    }[penalty]
    problem = tb.Problem(lower=tb.LeastSquares(A, b), upper=upper)
    best = tb.solve(problem, "conic").upper_value
    result = tb.solve(problem, tb.PrimalDual(), max_iter=4000)
    assert result.upper_value == pytest.approx(best, rel=2e-3)
    assert result.lower_value <= 1e-5


def test_a_small_problem_is_left_to_the_exact_method():
    problem = tb.Problem(
        lower=tb.LeastSquares([[1, 0, 0], [0, 0, 1]], [1, 2]), upper=tb.TotalVariation()
    )
    result = tb.solve(problem)
    assert result.status == "certified"
    assert "exact" in result.method


def test_an_image_survives_a_file(tmp_path):
    A, b, truth = image()
    upper = tb.TotalVariation(0.5, shape=SHAPE, isotropic=True)
    tb.Problem(lower=tb.LeastSquares(A, b), upper=upper).save(tmp_path / "p.npz")
    again = tb.load(tmp_path / "p.npz")
    assert again.upper.value(truth) == upper.value(truth)


def test_float32_is_solved():
    A, b, truth = image()
    lower = tb.LeastSquares(A.astype(np.float32), b.astype(np.float32))
    result = tb.solve(tb.Problem(lower=lower, upper=tb.TotalVariation(shape=SHAPE)), x0=truth)
    assert result.success
