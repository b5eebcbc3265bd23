"""One reading of the matrix against the formulas as they are written."""

from __future__ import annotations

import re
from importlib import resources
from importlib.util import find_spec
from itertools import product

import array_api_strict as xps
import numpy as np
import pytest

import tiebreak as tb
from tiebreak.algorithms.common import REFRESH
from tiebreak.linalg import cuda
from tiebreak.linalg.cuda import kernel
from tiebreak.linalg.cuda.tiling import split_row
from tiebreak.linalg.matrices.dense import Fused

KINDS = ("least-squares", "logistic")
SEED = 20261115

RECIPES = [  # carried, fresh, recipe
    (0, 1, [[1.0]]),
    (2, 1, [[0.25, 0.75, 0.0], [0.5, -1.0, 1.5]]),
    (3, 2, [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0.5, 0.25, 0.25, 0, 0], [1, -2, 1, 0.5, -0.5]]),
    (1, 2, [[1.0, 0.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 2.0, 0.125]]),
]


def problem(m, n, carried, fresh, kind, dtype, scale=1.0, seed=SEED):
    """A, points, images, target of NumPy; the images are about ``scale`` in size."""
    rng = np.random.default_rng((seed, m, n, carried, fresh))
    A = rng.standard_normal((m, n)).astype(dtype)
    points = [(rng.standard_normal(n) * scale / np.sqrt(n)).astype(dtype) for _ in range(fresh)]
    images = [(rng.standard_normal(m) * scale).astype(dtype) for _ in range(carried)]
    target = rng.standard_normal(m) * scale
    if kind == "logistic":
        target = np.where(target > 0, 1.0, -1.0)
    return A, points, images, target.astype(dtype)


def exact(A, fresh, carried, recipe, target, kind, slopes):
    """The formulas as they are written, in float64 with NumPy alone."""
    A, target = A.astype(np.float64), target.astype(np.float64)
    products = np.array([A @ p.astype(np.float64) for p in fresh])
    parts = np.concatenate([np.array(carried, dtype=np.float64).reshape(-1, len(target)), products])
    images = np.asarray(recipe, dtype=np.float64) @ parts
    if kind == "logistic":
        losses = np.logaddexp(0.0, -target * images).sum(axis=1)
        weights = -target * np.exp(-np.logaddexp(0.0, target * images))
    else:
        losses = 0.5 * ((images - target) ** 2).sum(axis=1)
        weights = images - target
    return cuda.PassResult(images, products, losses, weights[:slopes] @ A)


def assert_close(got, wanted, dtype):
    """As close as sums in ``dtype`` of the terms of these sizes can be."""
    unit = 64 * float(np.finfo(dtype).eps)
    for name in ("images", "products"):
        size = max(1e-300, float(np.abs(wanted.products).max()), float(np.abs(wanted.images).max()))
        np.testing.assert_allclose(
            getattr(got, name), getattr(wanted, name), rtol=0, atol=unit * size, err_msg=name
        )
    largest = float(wanted.losses.max())  # a loss may be the small rest of terms that cancel
    np.testing.assert_allclose(got.losses, wanted.losses, rtol=unit, atol=unit * largest)
    assert got.gradients.shape == wanted.gradients.shape
    if wanted.gradients.size:
        size = float(np.abs(wanted.gradients).max()) + 1e-300
        np.testing.assert_allclose(
            got.gradients, wanted.gradients, rtol=0, atol=unit * size, err_msg="gradients"
        )


@pytest.mark.parametrize(
    "change",
    [
        {"fresh": [np.ones(4)]},
        {"fresh": [np.ones(3, dtype=np.float32)]},
        {"carried": [np.ones(3)], "recipe": [[1.0, 1.0]]},
        {"target": np.ones(3)},
    ],
)
def test_vectors_that_do_not_fit_the_matrix_are_refused(change):
    given = {
        "A": np.ones((2, 3)),
        "fresh": [np.ones(3)],
        "carried": [],
        "recipe": [[1.0]],
        "target": np.ones(2),
        "kind": "least-squares",
        "slopes": 1,
    }
    with pytest.raises(ValueError, match="points of length 3 and images and a target of length 2"):
        cuda.sweep(**(given | change))


def test_the_kernel_does_not_apply_to_arrays_of_the_host():
    assert not cuda.applies(np.zeros((4096, 4096), dtype=np.float32))
    assert not cuda.applies(xps.zeros((2048, 2048)))
    assert not cuda.applies(np.zeros(3))
    with pytest.raises(ValueError, match="on an NVIDIA GPU"):
        cuda.sweep(np.ones((2, 3)), [np.ones(3)], [], [[1.0]], np.ones(2), "least-squares", 1)


@pytest.mark.parametrize("itemsize", [4, 8])
def test_every_cut_covers_the_row_and_fits_the_registers(itemsize):
    for n in (1, 31, 1000, 4000, 5120, 8191, 10_000, 10_240, 16_000, 40_000, 40_960):
        for copy in {itemsize, 8, 16}:
            if n * itemsize % copy:
                continue
            wide = copy // itemsize
            threads, items, blocks, cluster = split_row(n, wide)
            assert threads * items * wide * cluster >= n
            # An entry has two points and two sums in registers, in float64 or twice in float32.
            assert (threads + 32) * blocks * (32 * items * wide + 32 * 4) <= 2**18
    with pytest.raises(ValueError, match="too long"):
        split_row(10**6, 16 // itemsize)


def test_the_kernel_is_a_file_of_the_package():
    text = resources.files("tiebreak.linalg.cuda").joinpath("fused.cu").read_bytes()
    assert kernel.source() == text
    assert re.search(rb'extern "C" __global__ void .*\bsweep\(', text)
    assert re.search(rb'extern "C" __global__ void fold\(', text)


def test_the_argument_of_the_kernel_has_the_fields_of_its_struct():
    struct = re.search(r"struct Job \{(.*?)\};", kernel.source().decode(), re.DOTALL)
    assert struct
    lines = re.sub(r"//.*", "", struct[1])
    fields = re.findall(r"(\w+)(?:\[[^]]*\])?[,;]", lines)
    assert fields == [name for name, _ in kernel.Job._fields_]


# --- the kernel


def cuda_arrays():
    """The GPU libraries that are there, each with a function from NumPy and one back."""
    found = []
    if find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            there = (lambda v: torch.as_tensor(v).cuda(), lambda v: v.cpu().numpy())
            found.append(pytest.param(*there, id="torch"))
    if find_spec("cupy"):
        import cupy

        if cupy.cuda.is_available():
            found.append(pytest.param(cupy.asarray, cupy.asnumpy, id="cupy"))
    skipped = pytest.mark.skip(reason="no PyTorch and no CuPy that sees a GPU")
    return found or [pytest.param(None, None, marks=skipped, id="none")]


GPU = pytest.mark.parametrize(("there", "back"), cuda_arrays())


def swept(there, back, A, points, images, recipe, target, kind, slopes):
    """What the kernel gives for NumPy's arrays."""
    moved = ([there(v) for v in vectors] for vectors in ([A], points, images, [target]))
    (A,), points, images, (target,) = moved
    got = cuda.sweep(A, points, images, recipe, target, kind, slopes)
    return cuda.PassResult(*(back(v) for v in got))


@GPU
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("carried", "fresh", "recipe"), RECIPES)
@pytest.mark.parametrize(
    ("m", "n"),
    [(1, 1), (1, 33), (1001, 1), (2, 4000), (777, 1001), (301, 5002), (401, 8190), (999, 10_000)],
)
def test_one_reading_gives_the_formulas(there, back, m, n, carried, fresh, recipe, kind, dtype):
    A, points, images, target = problem(m, n, carried, fresh, kind, dtype)
    for slopes in range(min(2, len(recipe)) + 1):
        got = swept(there, back, A, points, images, recipe, target, kind, slopes)
        assert_close(got, exact(A, points, images, recipe, target, kind, slopes), dtype)


@GPU
@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        (10_240, np.float32),
        (10_240, np.float64),
        (10_241, np.float64),
        (16_000, np.float32),
        (16_001, np.float32),
        (16_000, np.float64),
        (40_000, np.float32),
    ],
)
def test_rows_that_several_blocks_share(there, back, n, dtype):
    carried, fresh, recipe = RECIPES[2]
    for kind, m in product(KINDS, (1, 67, 532)):
        A, points, images, target = problem(m, n, carried, fresh, kind, dtype)
        got = swept(there, back, A, points, images, recipe, target, kind, 2)
        assert_close(got, exact(A, points, images, recipe, target, kind, 2), dtype)


@GPU
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(1e-12, np.float32), (1e12, np.float32), (1e-90, np.float64), (1e90, np.float64)],
)
def test_huge_and_tiny_numbers(there, back, scale, dtype):
    carried, fresh, recipe = RECIPES[3]
    A, points, images, target = problem(203, 1500, carried, fresh, "least-squares", dtype, scale)
    got = swept(there, back, A, points, images, recipe, target, "least-squares", 2)
    wanted = exact(A, points, images, recipe, target, "least-squares", 2)
    assert_close(got, wanted, dtype)


@GPU
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logistic_margins_of_ten_thousand(there, back, dtype):
    carried, fresh, recipe = RECIPES[2]
    A, points, images, target = problem(203, 1500, carried, fresh, "logistic", dtype, 1e4)
    got = swept(there, back, A, points, images, recipe, target, "logistic", 2)
    wanted = exact(A, points, images, recipe, target, "logistic", 2)
    assert_close(got, wanted, dtype)
    for sign in (-1.0, 1.0):  # all on one side: the loss is the tail, or the whole of the margins
        one_side = np.abs(images[0]) * target * dtype(sign)
        rest = ([[1.0, 0.0]], target, "logistic", 1)
        got = swept(there, back, A, points[:1], [one_side], *rest)
        assert_close(got, exact(A, points[:1], [one_side], *rest), dtype)


@GPU
def test_the_same_bits_in_every_run_and_every_output_written(there, back):
    carried, fresh, recipe = RECIPES[2]
    A, points, images, target = problem(5003, 10_000, carried, fresh, "logistic", np.float32)
    runs = [swept(there, back, A, points, images, recipe, target, "logistic", 2) for _ in range(3)]
    for run in runs:
        for ours, first in zip(run, runs[0], strict=True):
            assert np.isfinite(ours).all()
            np.testing.assert_array_equal(ours, first)


@GPU
def test_float32_sums_are_short_and_then_float64(there, back):
    """The bounds of `matrices.Fused.errors`, where all roundings go the same way."""
    m, n, third = 30_011, 10_000, np.float32(1.0 / 3.0)
    A, x = np.full((m, n), third), np.full(n, third)
    target = np.full(m, np.float32(100.0))
    got = swept(there, back, A, [x], [], [[1.0]], target, "least-squares", 1)
    size, eps = float(third) ** 2 * n, float(np.finfo(np.float32).eps)
    assert np.abs(got.images - size).max() <= 7 * eps * size
    weight = size - 100.0
    wanted = m * weight * float(third)
    assert np.abs(got.gradients - wanted).max() <= (12 * eps + 7 * eps * size / weight) * wanted


@GPU
def test_matrices_that_are_not_aligned_or_not_row_major(there, back):
    A, points, images, target = problem(600, 1024, 0, 1, "least-squares", np.float32)
    whole = there(np.concatenate([np.zeros(1, dtype=np.float32), A.ravel()]))
    shifted = whole[1:].reshape(600, 1024)  # rows at 4 bytes from a multiple of 16
    got = cuda.sweep(shifted, [there(points[0])], [], [[1.0]], there(target), "least-squares", 1)
    wanted = exact(A, points, images, [[1.0]], target, "least-squares", 1)
    assert_close(cuda.PassResult(*(back(v) for v in got)), wanted, np.float32)
    with pytest.raises(ValueError, match="row-major"):
        cuda.sweep(there(A).T, [there(target)], [], [[1.0]], there(points[0]), "logistic", 1)


@GPU
def test_applies_where_it_can_and_pays(there, back):
    assert cuda.applies(there(np.zeros((4096, 4096), dtype=np.float32)))
    assert not cuda.applies(there(np.zeros((4096, 4096), dtype=np.float32)).T)
    assert not cuda.applies(there(np.zeros((4096, 4096), dtype=np.int32)))
    assert not cuda.applies(there(np.zeros((64, 64), dtype=np.float32)))
    assert not cuda.applies(there(np.zeros((2**20, 16), dtype=np.float32)))


class Read(Fused):
    """Stands for a matrix on a GPU: the formulas by NumPy, and how often they read the matrix."""

    count = 0

    def read(self, xs, known, weights, slopes, target=None, kind="least-squares", scale=1.0):
        self.count += 1
        target = np.zeros(self.shape[0]) if target is None else target
        xs = [*xs] or [np.zeros(self.shape[1])]
        weights = np.pad(weights, ((0, 0), (0, len(known) + len(xs) - np.shape(weights)[1])))
        found = exact(self.entries, xs, known, weights, target, kind, slopes)
        return found._replace(gradients=scale * found.gradients)


def test_a_step_reads_each_matrix_once_and_once_more_to_renew_an_average():
    rng = np.random.default_rng(SEED)
    f, g = (tb.LeastSquares(rng.standard_normal((8, 12)), rng.standard_normal(8)) for _ in "fg")
    p = tb.Problem(upper=f, lower=g, domain=tb.Ball(2.0))

    def reads(steps):
        for h in (f, g):
            vars(h)["matrix"] = Read(h.matrix.entries)
        tb.solve(p, tb.AGMBiO(gamma=1e-2), rtol=0, max_iter=steps)
        return f.matrix.count, g.matrix.count

    few, many = reads(10), reads(10 + REFRESH)
    # x and, in the run on g, u are averages whose images are renewed; f reads x beside z.
    assert [b - a for a, b in zip(few, many, strict=True)] == [REFRESH, REFRESH + 2]
