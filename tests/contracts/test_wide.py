"""Single precision: the data stay as they are, what is proved about them is summed in double."""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_strict as xps
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import tiebreak as tb
from tiebreak.algorithms.base import Method
from tiebreak.auto import selection
from tiebreak.driver.counted import Counted
from tiebreak.functions.base import PointWithImage
from tiebreak.functions.parts import parts
from tiebreak.linalg import arrays
from tiebreak.linalg.matrices import Dense, dense
from tiebreak.linalg.matrices.base import BLOCK
from tiebreak.linalg.matrices.streamed import Float64Rows
from tiebreak.proofs.evidence import StepEvidence

ROWS, N = 300, 90


def data(seed=0, rows=ROWS):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, N)).astype(np.float32)
    return A, (A @ rng.standard_normal(N) + rng.standard_normal(rows)).astype(np.float32)


def functions():
    A, b = data()
    y = np.sign(b)
    thin = sp.csr_array(np.where(np.abs(A) > 1.0, A, np.float32(0.0)))
    Q, c = A[:N].T @ A[:N], b[:N]
    least = tb.LeastSquares(A, b)
    return {
        "least squares": (least, tb.LeastSquares(*_wide(A, b), gram=False)),
        "mean": (tb.LeastSquares(A, b, mean=True), tb.LeastSquares(*_wide(A, b), mean=True)),
        "sparse": (tb.LeastSquares(thin, b), tb.LeastSquares(thin.astype(float), *_wide(b))),
        "streamed": (
            tb.LeastSquares(tb.Streamed(Rows(A), block=2**12), b),
            tb.LeastSquares(*_wide(A, b), gram=False),
        ),
        "huber": (tb.Huber(A, b, 1.5), tb.Huber(*_wide(A, b), 1.5)),
        "multinomial": (_few_classes(A, b), _few_classes(*_wide(A, b))),
        "logistic": (tb.Logistic(A, y), tb.Logistic(*_wide(A, y))),
        "quadratic": (tb.Quadratic(0.5 * (Q + Q.T), c), tb.Quadratic(*_wide(0.5 * (Q + Q.T), c))),
        "norm": (tb.SquaredNorm(center=c), tb.SquaredNorm(center=c.astype(float))),
        "linear": (tb.Linear(c), tb.Linear(c.astype(float))),
        "sum": (
            2.0 * least + tb.Linear(c),
            2.0 * tb.LeastSquares(*_wide(A, b), gram=False) + tb.Linear(c.astype(float)),
        ),
    }


def _few_classes(A, b):
    """N variables as two classes of half as many."""
    return tb.Multinomial(A[:, : N // 2], b > 0)


def _wide(*arrays):
    return [array.astype(np.float64) for array in arrays]


class Rows:
    """Rows as a file would have them."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype

    def __getitem__(self, rows):
        return self.A[rows]


@pytest.mark.parametrize("name", list(functions()))
def test_the_wider_function_is_that_of_the_same_data_in_float64(name):
    single, double = functions()[name]
    wide = single.in_float64
    x = np.random.default_rng(1).standard_normal(N)
    assert wide.value(x) == pytest.approx(double.value(x), rel=1e-13)
    np.testing.assert_allclose(wide.gradient(x), double.gradient(x), rtol=1e-11, atol=1e-12)
    assert wide.gradient(x).dtype == np.float64
    assert wide.prototype.dtype == np.float64
    assert wide.lipschitz >= 0.99 * double.lipschitz


def test_other_libraries_and_blocks_of_any_size(monkeypatch):
    monkeypatch.setattr(dense, "FLOAT64_COPY_LIMIT", 0)
    monkeypatch.setattr(dense, "DEVICE_BLOCK", BLOCK)
    A, b = data(2, rows=BLOCK // (8 * N) * 2 + 3)
    x = np.random.default_rng(1).standard_normal(N)
    for convert in (np.asarray, xps.asarray):
        wide = tb.LeastSquares(convert(A), convert(b)).in_float64
        slope = np.asarray(wide.gradient(convert(x)))
        np.testing.assert_allclose(slope, A.T.astype(float) @ (A.astype(float) @ x - b), rtol=1e-9)
    none = tb.LeastSquares(np.zeros((0, 3), np.float32), np.zeros(0, np.float32)).in_float64
    assert none.value(np.ones(3)) == 0.0


def test_callables_and_operators_do_not_know_how():
    A, b = data()
    assert tb.LeastSquares(aslinearoperator(A), b).in_float64 is None
    smooth = tb.Smooth(lambda x: float(x @ x), lambda x: 2.0 * x)
    assert smooth.in_float64 is None
    assert (smooth + tb.SquaredNorm()).in_float64 is None
    assert tb.Problem(upper=smooth, lower=tb.LeastSquares(A, b)).in_float64 is None


# --- what is proved ------------------------------------------------------------------------------


def problems(kind=np.float32):
    rng = np.random.default_rng(3)
    n, m = 60, 25
    A, C = rng.standard_normal((m, n)), rng.standard_normal((2 * n, n))
    b, c = A @ rng.standard_normal(n), rng.standard_normal(2 * n)
    # Rounded once: both precisions hold the same numbers.
    A, b, C, c = (v.astype(np.float32).astype(kind) for v in (A, b, C, c))
    least, loss = tb.LeastSquares(A, b), tb.Logistic(A, np.sign(b))
    validation, norm = tb.LeastSquares(C, c), tb.SquaredNorm()
    return {
        "shortest": tb.Problem(upper=norm, lower=least),
        "validation": tb.Problem(upper=validation, lower=least, domain=tb.Ball(8.0)),
        "a ball that binds": tb.Problem(upper=validation, lower=least, domain=tb.Ball(1.0)),
        "logistic": tb.Problem(upper=norm, lower=loss, domain=tb.Ball(2.0)),
        "sparsest": tb.Problem(upper=tb.L1(1.0), lower=least),
        "a penalty below": tb.Problem(upper=norm, lower=least + tb.L1(0.5)),
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.full if name == "a penalty below" else ())
        for name in problems()
    ],
)
def test_single_precision_is_proved_at_the_default_tolerance(name):
    seen = []
    result = tb.solve(problems()[name], callback=seen.append)
    truth = tb.solve(problems(np.float64)[name], rtol=1e-7)
    if result.status != "certified":  # then neither is the same problem in double precision
        assert result.success, result
        assert tb.solve(problems(np.float64)[name]).status == result.status
    assert result.x.dtype == seen[-1].x.dtype == np.float32
    assert result.problem.is_single
    low, high = result.certificate.upper_optimum
    assert low <= truth.upper_value + truth.certificate.upper_error
    assert high >= truth.upper_value - max(truth.upper_gap, 0.0)
    low, high = result.certificate.lower_optimum
    assert low <= truth.lower_value
    assert high >= truth.lower_value - truth.lower_gap


def test_what_is_asked_beyond_single_precision_is_not_claimed():
    """A tolerance is never below the rounding of the level's own terms: the report says so."""
    problem = problems()["validation"]
    result = tb.solve(problem, rtol=(1e-13, 1e-17))
    start = result.start_values[1]
    assert result.tolerance[1] > 1e3 * 1e-17 * max(abs(result.lower_value), abs(start))
    gaps = result.upper_error, result.lower_gap
    is_within = all(gap <= asked for gap, asked in zip(gaps, result.tolerance, strict=True))
    assert (result.status == "certified") == is_within


@pytest.mark.parametrize("criterion", ["weak", pytest.param("absolute", marks=pytest.mark.full)])
def test_where_the_data_are_many_only_the_proof_is_widened(monkeypatch, criterion, count):
    monkeypatch.setattr(selection, "FLOAT64_COPY_LIMIT", 0)
    monkeypatch.setattr(dense, "FLOAT64_COPY_LIMIT", 0)
    monkeypatch.setattr(parts, "DENSE_LIMIT", 0)  # no exact road
    rng = np.random.default_rng(4)
    n = count(400, 1200)
    A = rng.standard_normal((2 * n, n // 2)).astype(np.float32)
    A = np.hstack([A, A])
    b = rng.standard_normal(2 * n).astype(np.float32)
    C, c = rng.standard_normal((n, n)).astype(np.float32), np.ones(n, np.float32)
    problem = tb.Problem(
        upper=tb.LeastSquares(C, c, mean=True),
        lower=tb.LeastSquares(A, b, mean=True),
        domain=tb.Ball(9.0),
    )
    assert isinstance(problem.in_float64.lower.matrix, Float64Rows)
    result = tb.solve(problem, rtol=1e-3, criterion=criterion)
    assert result.status == "certified" if criterion == "weak" else result.success, result
    assert result.x.dtype == np.float32
    A, b, C, c = _wide(A, b, C, c)
    x, *_ = np.linalg.lstsq(A, b)
    V = np.vstack([np.eye(n // 2), -np.eye(n // 2)])  # all columns come twice
    x = x + V @ np.linalg.lstsq(C @ V, c - C @ x)[0]
    if np.linalg.norm(x) < 9.0:
        best = 0.5 * float(np.mean((C @ x - c) ** 2))
        low, high = result.certificate.upper_optimum
        assert low <= best * (1.0 + 1e-9)
        assert best <= high
    assert 0.5 * np.mean((A @ x - b) ** 2) >= result.certificate.lower_optimum[0]


def drawn(seed):
    """Nine kinds of problems, in float32."""
    rng = np.random.default_rng(seed)
    n, m = 60, 25
    A, C = (rng.standard_normal((rows, n)).astype(np.float32) for rows in (m, 2 * n))
    x, c = rng.standard_normal(n), rng.standard_normal(2 * n).astype(np.float32)
    b = (A @ x + 0.1 * rng.standard_normal(m)).astype(np.float32)
    reach = float(np.linalg.norm(x))
    least, loss, norm = tb.LeastSquares(A, b), tb.Logistic(A, np.sign(b)), tb.SquaredNorm()
    validation, other = tb.LeastSquares(C, c), tb.Logistic(C, np.sign(c))
    pairs = [
        (norm, least, tb.Space()),
        (validation, least, tb.Ball(2.0 * reach)),
        (validation, least, tb.Ball(0.3 * reach)),
        (norm, loss, tb.Ball(reach)),
        (validation, loss, tb.Box(-1.0, 1.0)),
        (validation, least, tb.Orthant()),
        (tb.L1(1.0), least, tb.Space()),
        (validation + other, least, tb.Simplex(2.0)),
        (norm, least + tb.L1(0.5), tb.Space()),
    ]
    return [tb.Problem(upper=f, lower=g, domain=Z) for f, g, Z in pairs]


def test_problems_drawn_in_single_precision_are_certified_as_in_double(count):
    for seed in range(count(1, 10)):
        for problem in drawn(seed):
            result = tb.solve(problem, rtol=1e-3)
            assert result.x.dtype == np.float32
            if result.status != "certified":
                assert tb.solve(problem.in_float64, rtol=1e-3).status == result.status, (
                    seed,
                    result,
                )


@pytest.mark.parametrize("seed", range(3))
def test_rounding_errors_of_the_data_are_no_rank(seed):
    rng = np.random.default_rng(seed)
    n, m, k = (int(rng.integers(*ends)) for ends in ((10, 60), (10, 80), (2, 8)))
    left, right = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    A = (left @ right).astype(np.float32)  # of rank k, up to its own rounding
    b = rng.standard_normal(m).astype(np.float32)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b))
    assert selection.problem_in_float64(problem) is problem
    x = np.linalg.pinv(left @ right) @ b
    result = tb.solve(problem, max_iter=4000)
    assert np.linalg.norm(result.x - x) <= 1e-4 * np.linalg.norm(x)
    repeated = tb.LeastSquares(np.hstack([A[:, :2], A[:, :2]]), b)  # dependent to the last bit
    clear = tb.Problem(upper=tb.SquaredNorm(), lower=repeated)
    assert selection.problem_in_float64(clear) is clear.in_float64


# --- points in float64 from outside, data in float32 ---------------------------------------------


class Where(NamedTuple):
    point: Any
    seen: Any
    upper_value: float
    lower_value: float
    evidence: StepEvidence

    @property
    def x(self):
        return self.point.x


class Descent(Method):
    """Down the slope of g, a little too far: from x0 as it is, and then in float64."""

    name = "descent"

    def check(self, problem):
        pass

    def describe(self, problem):
        return "descent"

    def init(self, problem, x0):
        return self._at(problem, *problem.forward(x0))

    def step(self, problem, state):
        x, slope = arrays.double(state.x), arrays.double(state.seen.slope)
        (point,) = problem.forward(x - slope / problem.lower.lipschitz)
        return self._at(problem, arrays.mix(state.point, point, 1.1))

    def _at(self, problem, point):
        (g,), (value,) = problem.lower.evaluate_async([point.g], [point.g])()
        _, (f,) = problem.upper.evaluate([], [point.f])
        evidence = StepEvidence(lower=((1.0, g),), values=((value, point.x, g),))
        return Where(point, g, f, value, evidence)


class Rounded(Dense):
    """Products in single precision whatever the points are, as on a cluster."""

    def forward(self, *xs):
        return [self.entries @ x.astype(np.float32) for x in xs]

    def adjoint(self, *rs):
        return [self.transposed @ r.astype(np.float32) for r in rs]


def least_squares(kind=Dense, convert=np.asarray, **options):
    A, b = data()
    least = tb.LeastSquares(convert(A), convert(b), **options)
    if kind is not Dense:
        least.matrix = kind(A)
    return least


@pytest.mark.parametrize(
    "lower",
    [
        least_squares(),
        least_squares(convert=xps.asarray),
        least_squares(Rounded),
        tb.LeastSquares(aslinearoperator(data()[0]), data()[1]),
        least_squares() + tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x),
    ],
    ids=["numpy", "strict", "rounded", "operator", "sum"],
)
def test_a_point_that_is_more_precise_than_the_data_is_refused(lower):
    """The proof would take its evaluation to be as precise as the point."""
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower)
    with pytest.raises(ValueError, match=r"must be .* float32 .* got .* float64") as error:
        tb.solve(problem, method=Descent())
    assert len(str(error.value)) < 160
    h = Counted(lower)
    narrow = arrays.like(np.ones(N, np.float32), lower.prototype)
    x = arrays.double(narrow)
    point = PointWithImage(x, *h.forward(narrow))
    for call in (
        h.value,
        h.gradient,
        h.forward,
        lambda x: h.evaluate([point]),
        lambda x: h.evaluate_async([point]),
    ):
        with pytest.raises(ValueError, match=r"got .* float64"):
            call(x)


def test_a_correction_that_runs_away_ends_no_run():
    """Where the ball binds, the correction of a cut may grow without end: that is no fault of x."""
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((4, 6)).astype(np.float32), rng.standard_normal(4).astype(np.float32)
    problem = tb.Problem(
        lower=tb.LeastSquares(aslinearoperator(A), b),
        upper=tb.SquaredNorm(1.0, np.ones(6, np.float32)),
        domain=tb.Ball(1.0),
    )
    result = tb.solve(problem, max_iter=3000)
    assert result.status == "solved", result
