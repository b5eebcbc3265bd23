"""The least total variation among all signals, and all images, that explain blurred readings.

    python benchmarks/race/total_variation.py [--seed N] [--signals N ...] [--images M ...]
                                              [--large M ...] [--limit SECONDS] [--report]

Signals of n values are read 4 to a blur of width 5, as a sparse and as a dense matrix; images of
m x m pixels at half of their pixels after a blur of width 1. Beside `auto` stands CVXPY with the
image held: the least total variation with A x = b, which a user has to know to be right here.
``--large`` images are given by operators alone, and asked for 1e-3 on both levels.

Prints processor times with one thread, the ratio, the status, and the errors of both levels: that
of f relative to CVXPY's value, or, where CVXPY was not asked, to that of the drawn image.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

import tiebreak as tb

FINE, ROUGH = 1e-6, 1e-3  # the accuracy that is asked of signals and small images; of large ones


class Case(NamedTuple):
    """Readings b = A truth, and the differences D of neighbours."""

    name: str
    A: Any
    b: np.ndarray
    D: Any
    truth: np.ndarray
    shape: tuple[int, int] | None = None  # of an image

    @property
    def variation(self) -> float:
        """Of what was drawn: the least one is at most that."""
        return float(np.abs(self.D @ self.truth).sum())


def blur(n: int, width: float, reach: int) -> Any:
    """A Gaussian blur of n values in a row, nothing beyond them."""
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    kernel /= kernel.sum()
    diagonals = [np.full(n, v) for v in kernel]
    return sp.diags(diagonals, range(-reach, reach + 1), shape=(n, n)).tocsr()


def differences(n: int) -> Any:
    """x_{j+1} - x_j."""
    ones = np.ones(n - 1)
    return sp.diags([-ones, ones], [0, 1], shape=(n - 1, n)).tocsr()


def signal(n: int, seed: int, is_dense: bool) -> Case:
    """Twenty steps, every fourth value read after a blur."""
    truth = np.repeat(np.random.default_rng(seed).standard_normal(20), n // 20)
    A = blur(n, 5.0, 15)[::4]
    kind = "dense" if is_dense else "sparse"
    name = f"signal {n}, {A.shape[0]} readings, {kind}"
    return Case(name, A.toarray() if is_dense else A, A @ truth, differences(n), truth)


def drawn_image(m: int) -> np.ndarray:
    """Two bars on black."""
    image = np.zeros((m, m))
    image[m // 4 : m // 2, m // 4 : 3 * m // 4] = 1.0
    image[m // 2 : 3 * m // 4, m // 3 : m // 2] = 0.5
    return image


def image(m: int, seed: int, is_operator: bool = False) -> Case:
    """Half of the pixels, after a blur."""
    truth, B, d = drawn_image(m).ravel(), blur(m, 1.0, 3), differences(m)
    read = np.random.default_rng(seed).choice(m * m, m * m // 2, replace=False)
    one = sp.identity(m, format="csr")
    D = sp.vstack([sp.kron(d, one), sp.kron(one, d)]).tocsr()
    name = f"image {m} x {m}, {len(read)} pixels"
    if not is_operator:
        A = sp.kron(B, B).tocsr()[read]
        return Case(name, A, A @ truth, D, truth, (m, m))

    def forward(x: np.ndarray) -> np.ndarray:
        blurred: np.ndarray = (B @ (B @ x.reshape(m, m)).T).T.reshape(-1)[read]
        return blurred

    def adjoint(r: np.ndarray) -> np.ndarray:
        full = np.zeros(m * m)
        full[read] = r.reshape(-1)
        blurred: np.ndarray = (B.T @ (B.T @ full.reshape(m, m)).T).T.reshape(-1)
        return blurred

    A = LinearOperator((len(read), m * m), matvec=forward, rmatvec=adjoint, dtype=np.float64)
    return Case(f"{name}, operator", A, forward(truth), D, truth, (m, m))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and what was returned."""
    begun = time.process_time()
    found = call()
    return time.process_time() - begun, found


def upper(case: Case) -> Any:
    """The total variation: by its shape where the version knows that, by its matrix otherwise."""
    if case.shape is None:
        return tb.TotalVariation()
    try:
        return tb.TotalVariation(shape=case.shape)
    except TypeError:
        return tb.L1(operator=case.D)


def by_tiebreak(case: Case, accuracy: float, limit: float) -> Any:
    """Asked as it comes, with the accuracy."""
    problem = tb.Problem(lower=tb.LeastSquares(case.A, case.b), upper=upper(case))
    return tb.solve(problem, rtol=accuracy, max_time=limit)


def by_cvxpy(case: Case) -> float:
    """The least total variation with A x = b."""
    import cvxpy

    cp: Any = cvxpy
    x = cp.Variable(len(case.truth))
    program = cp.Problem(cp.Minimize(cp.norm1(case.D @ x)), [case.A @ x == case.b])
    return float(program.solve(solver=cp.CLARABEL))


def show(case: Case, accuracy: float, limit: float, has_report: bool) -> None:
    """One line for a case."""
    reference, beside = case.variation, ""
    if accuracy == FINE:
        needed, reference = timed(lambda: by_cvxpy(case))
        beside = f" | CVXPY {needed:.2f} s"
    try:
        taken, found = timed(lambda: by_tiebreak(case, accuracy, limit))
    except Exception as error:  # what a version cannot do is a line too
        print(f"{case.name:42s} {type(error).__name__}: {str(error)[:120]}{beside}", flush=True)
        return
    if beside:
        beside += f", {taken / needed:.1f} times"
    f, r = float(np.abs(case.D @ found.x).sum()), case.A @ found.x - case.b
    off, below = abs(f - reference) / reference, float(r @ r) / float(case.b @ case.b)
    is_met = max(off, below) <= accuracy
    print(
        f"{case.name:42s} {taken:7.2f} s{beside} | {found.status:12s} f {off:.1e} g {below:.1e}"
        f" {'met' if is_met else 'MISSED'} to {accuracy:g}",
        flush=True,
    )
    if has_report:
        print(found)


def main() -> None:
    """All the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--signals", type=int, nargs="*", default=[400, 2000])
    parser.add_argument("--images", type=int, nargs="*", default=[32, 64])
    parser.add_argument("--large", type=int, nargs="*", default=[256])
    parser.add_argument("--limit", type=float, default=90.0)
    parser.add_argument("--report", action="store_true", help="print every report")
    asked = parser.parse_args()
    print(f"tiebreak {tb.__version__}, seed {asked.seed}", flush=True)
    small = [signal(n, asked.seed, is_dense) for n in asked.signals for is_dense in (False, True)]
    small += [image(m, asked.seed) for m in asked.images]
    by_cvxpy(signal(40, 0, False))  # its imports are not counted
    for case in small:
        show(case, FINE, asked.limit, asked.report)
    for m in asked.large:
        show(image(m, asked.seed, is_operator=True), ROUGH, asked.limit, asked.report)


if __name__ == "__main__":
    main()
