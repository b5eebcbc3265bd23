"""The same ten problems from every kind of matrix: the same certificate and the same point.

All that changes is what the user passes in: arrays of several libraries, scipy.sparse, operators
that are nothing but their products, and files that are read block by block.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.backends import both, difference, drawn, solved, squares, truth
from scipy.sparse.linalg import LinearOperator

import tiebreak as tb
from tiebreak.auto.hessians import InverseHessian
from tiebreak.linalg import arrays

BLOCK = 2000  # bytes: a few rows at a time


# --- kinds of matrices ----------------------------------------------------------------------------


class Products(LinearOperator):
    """A matrix that does not show its entries."""

    def __init__(self, A: np.ndarray) -> None:
        super().__init__(A.dtype, A.shape)
        self._products = (lambda x: A @ x, lambda r: A.T @ r)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self._products[0](x)

    def _rmatvec(self, r: np.ndarray) -> np.ndarray:
        return self._products[1](r)


def pylops_operator(A: np.ndarray, folder: Path) -> Any:
    return pytest.importorskip("pylops").MatrixMult(A)


def memmap(A: np.ndarray, folder: Path) -> Any:
    np.save(folder / "A.npy", A)
    return np.load(folder / "A.npy", mmap_mode="r")


def streamed(A: np.ndarray, folder: Path) -> Any:
    np.save(folder / "A.npy", A)
    return tb.Streamed(folder / "A.npy", block=BLOCK)


def zarr_array(A: np.ndarray, folder: Path) -> Any:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(folder / "A.zarr", shape=A.shape, dtype=A.dtype, chunks=(4, 5))
    array[:] = A
    return tb.Streamed(array, block=BLOCK)


def parquet(A: np.ndarray, folder: Path) -> Any:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    for k, rows in enumerate(np.array_split(np.arange(len(A)), 3)):
        columns = {f"x{j}": A[rows, j] for j in range(A.shape[1])}
        pq.write_table(pa.table(columns), folder / f"{k}.parquet", row_group_size=5)
    return tb.Streamed(folder, block=BLOCK)


def torch_array(A: np.ndarray, folder: Path) -> Any:
    return pytest.importorskip("torch").asarray(A)


def torch_on_a_gpu(A: np.ndarray, folder: Path) -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    return torch.asarray(A, device="cuda")


def cupy_array(A: np.ndarray, folder: Path) -> Any:
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("CuPy sees no GPU")
    return cupy.asarray(A)


def jax_array(A: np.ndarray, folder: Path) -> Any:
    jax = pytest.importorskip("jax")
    if not jax.config.jax_enable_x64:
        pytest.skip("JAX has no float64 here: JAX_ENABLE_X64=1")
    return jax.numpy.asarray(A)


KINDS: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "scipy.sparse": lambda A, folder: sp.csr_array(A),
    "LinearOperator": lambda A, folder: Products(A),
    "PyLops": pylops_operator,
    "memmap": memmap,
    "Streamed": streamed,
    "Zarr": zarr_array,
    "Parquet": parquet,
    "array_api_strict": lambda A, folder: array_api_strict.asarray(A),
    "PyTorch": torch_array,
    "PyTorch, GPU": torch_on_a_gpu,
    "CuPy": cupy_array,
    "JAX": jax_array,
}


@pytest.fixture(autouse=True, scope="module")
def _double() -> Any:
    """JAX keeps float64, if it is there at all."""
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["adaptive", "paper"])
def test_every_kind_of_matrix_gives_the_same_certificate_and_the_same_point(
    kind, method, tmp_path, count
):
    first = list(KINDS).index(kind)
    for number in range(first % count(10, 1), 10, count(10, 1)):  # one of the ten, or all

        def of(A: np.ndarray, name: str, number: int = number) -> Any:
            folder = tmp_path / f"{name}{number}"
            folder.mkdir()
            return KINDS[kind](A, folder)

        certificate, x = difference(solved(number, method, of), truth(number, method))
        print(f"{kind}, {method}, problem {number}: certificate {certificate:.1e}, x {x:.1e}")
        assert x <= 1e-7, number
        assert certificate <= 1e-9, number


def test_a_step_asks_a_device_for_few_numbers(monkeypatch):
    """The losses of f, those of g, all products of vectors; and now and then the news of 8 steps
    together, and the vectors of a row: what stands in for a device counts."""
    kind, asked = type(array_api_strict.asarray(1.0)), [0]

    def counting(original: Any) -> Any:
        def counted(*given: Any, **options: Any) -> Any:
            asked[0] += 1
            return original(*given, **options)

        return counted

    for name in ("__float__", "__bool__", "__int__", "__array__", "__buffer__", "__dlpack__"):
        if hasattr(kind, name):
            monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    f, g = both(
        drawn(0, 60, 30, 20, rank=10), lambda A, _: array_api_strict.asarray(A), squares, squares
    )
    made = tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    counts = []
    for steps in (200, 400):
        asked[0] = 0
        tb.solve(made, tb.AGMBiO(gamma=1e-2), rtol=0.0, max_iter=steps)
        counts.append(asked[0])
    per_step = (counts[1] - counts[0]) / 200
    print(f"{per_step:.2f} transfers a step")
    assert 1.0 < per_step <= 5.0


# --- a device that is not the default -------------------------------------------------------------


def on_a_device(A: np.ndarray) -> Any:
    """As on a GPU: what is made without naming the device cannot meet it."""
    return array_api_strict.asarray(A, device=array_api_strict.Device("device1"))


def to_host(x: Any) -> np.ndarray:
    if isinstance(x, np.ndarray | float):
        return np.asarray(x)
    return np.asarray(x.to_device(array_api_strict.Device("CPU_DEVICE")))


@pytest.mark.parametrize("method", ["auto", "adaptive", "agm-bio", "exact", "primal-dual"])
def test_all_arrays_are_made_on_the_device_of_the_data(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "to_numpy", to_host)
    data = drawn(0, 20, 10, 12, rank=6)
    f = tb.LeastSquares(on_a_device(data.C), on_a_device(data.c))
    g = tb.LeastSquares(on_a_device(data.A), on_a_device(data.b))
    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(2.0))
    result = tb.solve(problem, method, max_iter=50)
    assert result.x.device == g.b.device


def test_quasi_newton_makes_its_matrix_on_the_device_of_the_data() -> None:
    s, y = (on_a_device(np.array(v)) for v in ([1.0, 0.0], [2.0, 1.0]))
    H = InverseHessian().learned(s, y)
    assert float((H.times(y, 1.0) - s) @ (H.times(y, 1.0) - s)) < 1e-30
