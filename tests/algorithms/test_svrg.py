"""Losses a few rows at a time: the rows as an oracle, br-svrg, its proofs and its end."""

import numpy as np
import pytest
import scipy.sparse as sp

import tiebreak as tb
from tiebreak.linalg import Matrix
from tiebreak.linalg.matrices import of
from tiebreak.linalg.matrices.derived import Repeated
from tiebreak.linalg.matrices.streamed import Float64Rows


def tied(seed, m=600, n=12, rank=6):
    """Rows of a smaller rank than they have columns, with labels that no plane separates."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, rank)) @ np.linalg.qr(rng.standard_normal((n, rank)))[0].T
    return A, np.where(A @ rng.standard_normal(n) + rng.logistic(size=m) > 0, 1.0, -1.0), rng


def kinds(A, tmp_path) -> dict[str, Matrix]:
    np.save(tmp_path / "A.npy", A)
    streamed = tb.Streamed(tmp_path / "A.npy", block=3000)
    return {
        "dense": of(A),
        "sparse": of(sp.csr_array(A)),
        "memory-mapped": of(np.load(tmp_path / "A.npy", mmap_mode="r")),
        "streamed": streamed,
        "widened": Float64Rows(of(A.astype(np.float32))),
        "repeated": Repeated(of(A), 3),
    }


@pytest.mark.parametrize(
    "kind", ["dense", "sparse", "memory-mapped", "streamed", "widened", "repeated"]
)
@pytest.mark.parametrize("order", [None, 0])
def test_slices_hold_every_row_once(kind, order, tmp_path):
    A, _, rng = tied(0, 101, 7, 7)
    matrix = kinds(A, tmp_path)[kind]
    rows, n = matrix.shape
    x, r = rng.standard_normal(n), rng.standard_normal(rows)
    image, back, count = np.full(rows, np.nan), np.zeros(n), np.zeros(rows)
    for some in matrix.slices(8, None if order is None else np.random.default_rng(order)):
        image[some.rows] = some.entries @ x
        back = back + some.transposed @ r[some.rows]
        count[some.rows] += 1
        assert some.entries.shape[0] <= 16
    assert np.all(count == 1)
    np.testing.assert_allclose(image, matrix.forward(x)[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(back, matrix.adjoint(r)[0], rtol=1e-6, atol=1e-6)


def losses(A, y, weights):
    classes = (np.arange(len(y)) % 3).astype(float)
    return [
        tb.Logistic(A, y, weights=weights),
        tb.LeastSquares(A, y, mean=True, weights=weights, gram=False),
        tb.Huber(A, y, mean=True, weights=weights),
        tb.SquaredHinge(A, y, mean=True, weights=weights),
        tb.Poisson(A, np.abs(y), weights=weights),
        tb.Multinomial(A, classes, weights=weights),
    ]


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("is_weighted", [False, True])
def test_the_slopes_of_all_slices_are_the_gradient(which, is_weighted):
    A, y, rng = tied(1, 90, 5, 5)
    weights = rng.uniform(0.5, 2.0, 90) if is_weighted else None
    loss = losses(A, y, weights)[which]
    x, w = 0.1 * rng.standard_normal((2, loss.dimension))
    before = loss.evaluate_image(loss.forward(w)[0])[1]
    total = change = 0.0
    for some in loss.matrix.slices(8):
        share = some.entries.shape[0] / 90
        total = total + share * loss.slope_of(some, x)
        change = change + share * loss.slope_of(some, x, before)
    np.testing.assert_allclose(total, loss.gradient(x), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(change, loss.gradient(x) - loss.gradient(w), rtol=1e-8, atol=1e-12)
    assert loss.row_lipschitz >= 0.99 * loss.lipschitz or not np.isfinite(loss.lipschitz)


def test_the_gram_matrices_of_all_slices_are_the_second_derivative():
    A, y, rng = tied(2, 90, 5, 5)
    for loss in losses(A, y, rng.uniform(0.5, 2.0, 90))[:2]:
        x, e = 0.1 * rng.standard_normal(5), 1e-6
        H = sum(loss.gram_of(some, some.entries @ x) for some in loss.matrix.slices(8))
        steps = e * np.eye(5)
        by_differences = [(loss.gradient(x + d) - loss.gradient(x - d)) / (2 * e) for d in steps]
        np.testing.assert_allclose(loss.scale * H, by_differences, rtol=1e-6, atol=1e-8)


def uppers(rng, n):
    C = rng.standard_normal((40, n))
    return [
        tb.SquaredNorm(center=rng.standard_normal(n)),
        tb.LeastSquares(C, rng.standard_normal(40), mean=True, gram=False),
        tb.SquaredNorm(center=rng.standard_normal(n)) + tb.L1(0.05),
        tb.LeastSquares(rng.standard_normal((30, n)), rng.standard_normal(30)),  # uses A'A
    ]


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("over", ["space", "ball", "box"])
def test_it_finds_the_answer(which, over):
    A, y, rng = tied(3)
    upper, free = uppers(rng, 12)[which], tb.Problem
    lower = tb.Logistic(A, y, weights=rng.uniform(0.5, 2.0, len(y)))
    ends = [tb.solve(free(upper=f, lower=lower)).x for f in (tb.SquaredNorm(), upper)]
    radius, side = (0.5 * sum(map(size, ends)) for size in (np.linalg.norm, lambda x: max(abs(x))))
    domain = {"space": tb.Space(), "ball": tb.Ball(radius), "box": tb.Box(-side, side)}[over]
    problem = tb.Problem(upper=upper, lower=lower, domain=domain)
    answer = tb.solve(problem, rtol=1e-9)
    found = tb.solve(problem, tb.BregmanSVRG(), rtol=1e-9, max_iter=80)
    scale = abs(answer.upper_value)
    assert abs(found.upper_value - answer.upper_value) <= 1e-3 * scale
    assert found.lower_value - answer.lower_value <= 1e-5


def test_sums_of_losses_and_of_other_terms():
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    A, B = (rng.standard_normal((m, 5)) @ turn[k : k + 5] for m, k in ((800, 0), (300, 5)))
    y = np.where(A[:, 0] + rng.logistic(size=800) > 0, 1.0, -1.0)
    lower = tb.Logistic(A, y) + 0.5 * tb.LeastSquares(B, B[:, 0], mean=True, gram=False)
    problem = tb.Problem(upper=tb.SquaredNorm(center=np.ones(12)), lower=lower, domain=tb.Ball(9))
    answer = tb.solve(problem)
    found = tb.solve(problem, "br-svrg", rtol=1e-4, max_iter=60)
    assert abs(found.upper_value - answer.upper_value) <= 1e-3 * abs(answer.upper_value)


def test_a_run_goes_on_bit_by_bit(tmp_path):
    A, y, rng = tied(5)
    center = rng.standard_normal(12)
    problem = tb.Problem(
        upper=tb.SquaredNorm(center=center), lower=tb.Logistic(A, y), domain=tb.Ball(9)
    )
    whole = tb.solve(problem, "br-svrg", rtol=1e-9, max_iter=40)
    path = tmp_path / "run.npz"
    tb.solve(problem, "br-svrg", rtol=1e-9, max_iter=17, checkpoint=path)
    rest = tb.solve(problem, "br-svrg", rtol=1e-9, max_iter=40, checkpoint=path)
    assert rest.nit == whole.nit == 40
    np.testing.assert_array_equal(rest.x, whole.x)
    assert rest.upper_optimum == whole.upper_optimum


def test_arrays_of_another_library():
    xp = pytest.importorskip("array_api_strict")
    A, y, rng = tied(9, 200)
    center = rng.standard_normal(12)
    found = []
    for kind in (np.asarray, xp.asarray):
        upper, lower = tb.SquaredNorm(center=kind(center)), tb.Logistic(kind(A), kind(y))
        problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(9))
        found.append(np.asarray(tb.solve(problem, "br-svrg", max_iter=8).x))
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(200))
def test_a_certificate_is_never_wrong(seed):
    A, y, rng = tied([6, seed], int(rng_size(seed)), 10, 5)
    upper = uppers(rng, 10)[seed % 2]
    lower = tb.Logistic(A, y)
    free = tb.solve(tb.Problem(upper=upper, lower=lower), "exact")
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(2.0 * np.linalg.norm(free.x)))
    found = tb.solve(problem, "br-svrg", rtol=1e-2, criterion="weak", max_iter=150)
    low, high = found.upper_optimum
    slack = 1e-9 * abs(free.upper_value)
    assert low <= free.upper_value + slack
    assert free.upper_value <= high + slack
    assert found.lower_optimum[0] <= free.lower_value * (1 + 1e-12)
    if found.status == "certified":
        assert found.upper_value - free.upper_value <= found.upper_gap + slack


def rng_size(seed):
    return np.random.default_rng(seed).integers(100, 1500)


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(100))
def test_flat_interiors_end_without_a_wrong_success(seed):
    rng = np.random.default_rng([7, seed])
    A = rng.standard_normal((300, 8))
    y = np.sign(A @ rng.standard_normal(8))  # separable: a margin of 1 everywhere costs nothing
    upper = tb.SquaredNorm(center=rng.standard_normal(8))
    lower = tb.SquaredHinge(A[:, :6] @ rng.standard_normal((6, 8)) if seed % 2 else A, y, mean=True)
    problem = tb.Problem(upper=upper, lower=lower, domain=tb.Ball(50.0))
    found = tb.solve(problem, "br-svrg", rtol=1e-3, max_iter=60)
    if found.success:
        answer = tb.solve(problem, rtol=1e-7)
        error = abs(found.upper_value - answer.upper_value)
        assert error <= 2e-3 * max(abs(answer.upper_value), abs(upper.value(np.zeros(8))))


def test_what_has_no_rows_is_refused_in_a_sentence():
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.Quadratic(np.eye(2), np.ones(2)))
    with pytest.raises(ValueError, match="BregmanSVRG: lower must be a loss whose rows"):
        tb.solve(problem, "br-svrg")


def test_exact_reads_a_disk_and_keeps_no_rows(tmp_path):
    A, y, _ = tied(8, 2000, 9, 9)
    A[:, 8] = A[:, 0]
    np.save(tmp_path / "A.npy", A)
    upper = tb.SquaredNorm(center=np.arange(9.0))
    rows = tb.Streamed(tmp_path / "A.npy", block=2**15)
    from_disk = tb.solve(tb.Problem(upper=upper, lower=tb.Logistic(rows, y)), "exact")
    in_memory = tb.solve(tb.Problem(upper=upper, lower=tb.Logistic(A, y)), "exact")
    assert from_disk.success
    np.testing.assert_allclose(from_disk.x, in_memory.x, atol=1e-9)
    assert rows.bytes_read < 40 * A.nbytes


def test_f_has_not_settled_where_a_column_in_other_units_has_not():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6000, 8)) * np.array([1e-4] + [1.0] * 7)
    b = A @ np.append(2.0, rng.standard_normal(7)) + 0.1 * rng.standard_normal(6000)
    x = np.linalg.lstsq(A, b)[0]
    problem = tb.Problem(lower=tb.LeastSquares(A, b, gram=False), upper=tb.SquaredNorm())
    result = tb.solve(problem, "br-svrg", max_iter=100)
    is_right = abs(result.upper_value - 0.5 * x @ x) <= result.tolerance[0]
    assert is_right or not result.success
