"""Small and medium problems, as cross-validation solves them by the thousand, against NumPy.

Least squares over least squares against one singular value decomposition and `lstsq` on the null
space; the least norm against `pinv` and scikit-learn's LinearRegression (without an intercept); and
tf-idf of the docstrings of installed packages against A A' and one `eigh`. One thread, everything
warm, the least of several times: `python benchmarks/race/small.py`.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import ast
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiebreak as tb

# rows, columns, repetitions, and the largest ratio that was asked for
LOSSES = ((5, 10, 200, 30.0), (40, 100, 60, 5.0), (267, 730, 8, 2.5))
NORM, LONG = (267, 730, 8, 2.5), (300, 2000, 5, 3.0)
PACKAGES = ("numpy", "scipy", "sklearn", "pandas", "matplotlib")
DOCUMENTS, TEXT_RATIO = 2000, 2.0


def least_time(task: Callable[[], Any], times: int) -> tuple[float, Any]:
    """Return the least time of ``times`` calls, and the result of the last one."""
    best, outcome = float("inf"), task()
    for _ in range(times):
        began = time.perf_counter()
        outcome = task()
        best = min(best, time.perf_counter() - began)
    return best, outcome


def report(
    name: str, asked: float, own: float, theirs: float, result: tb.Result, needed: bool = True
) -> bool:
    """One line: the ratio, what was asked, and the status; is all as asked?"""
    ratio = own / theirs
    is_good = ratio <= asked and (result.status == "certified" or not needed)
    print(
        f"{name:<44} {1e3 * own:>10.2f} ms  {1e3 * theirs:>10.2f} ms  {ratio:>6.1f} x "
        f"(asked {asked:g})  {result.status}{'' if is_good else '   <--'}",
        flush=True,
    )
    return is_good


def drawn(rows: int, n: int) -> tuple[Any, Any, Any, Any]:
    """Two matrices and two targets."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, rows, n))
    b, c = rng.standard_normal((2, rows))
    return A, b, B, c


def losses(rows: int, n: int, times: int, asked: float) -> bool:
    """Least squares over least squares on R^n."""
    A, b, B, c = drawn(rows, n)

    def reference() -> Any:
        U, s, V = np.linalg.svd(A, full_matrices=True)
        N, x = V[rows:].T, V[:rows].T @ ((U.T @ b) / s)
        return x + N @ np.linalg.lstsq(B @ N, c - B @ x, rcond=None)[0]

    def solve() -> tb.Result:
        return tb.solve(tb.Problem(upper=tb.LeastSquares(B, c), lower=tb.LeastSquares(A, b)))

    theirs, _ = least_time(reference, times)
    own, result = least_time(solve, times)
    return report(f"{rows} x {n}: squares over squares, SVD", asked, own, theirs, result)


def norm(A: Any, b: Any, times: int, asked: float, name: str, task: Callable[[], Any]) -> bool:
    """The least norm over least squares on R^n, against this task."""
    theirs, _ = least_time(task, times)
    own, result = least_time(
        lambda: tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b))), times
    )
    return report(name, asked, own, theirs, result)


def docstrings() -> Iterator[str]:
    """All docstrings of the packages, in the order of their files."""
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in found.submodule_search_locations or () if found else ():
            for file in sorted(Path(folder).rglob("*.py")):
                if "tests" not in file.parts:
                    tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
                    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
                    nodes = (node for node in ast.walk(tree) if isinstance(node, kinds))
                    yield from filter(None, map(ast.get_docstring, nodes))


def texts(norm_of_rows: str | None) -> bool:
    """The least norm over least squares with tf-idf for A, sparse."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    every = list(docstrings())
    chosen = every[:: max(1, len(every) // DOCUMENTS)][:DOCUMENTS]
    A = TfidfVectorizer(norm=norm_of_rows).fit_transform(chosen)
    b = np.random.default_rng(0).standard_normal(A.shape[0])

    def reference() -> Any:
        return np.linalg.eigh((A @ A.T).toarray())

    def solve() -> tb.Result:
        return tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b)))

    theirs, _ = least_time(reference, 1)
    began = time.perf_counter()
    result = solve()
    own = time.perf_counter() - began
    # Rows of length 1 are rounded: if documents are alike, rounding decides whether they are
    # exactly dependent, and nothing can be proved.
    is_rounded = norm_of_rows is not None
    name = f"{A.shape[0]} x {A.shape[1]}: tf-idf, norm={norm_of_rows}, A A' and eigh"
    return report(name, TEXT_RATIO, own, theirs, result, needed=not is_rounded)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--without-texts", action="store_true", help="skip what takes a minute")
    options = parser.parse_args(arguments)
    print(f"{'':<44} {'tiebreak':>13}  {'against':>13}")
    good = [losses(*size) for size in LOSSES]
    A, b, _, _ = drawn(*NORM[:2])
    name = f"{NORM[0]} x {NORM[1]}: least norm, pinv"
    good.append(norm(A, b, *NORM[2:], name, lambda: np.linalg.pinv(A) @ b))
    if importlib.util.find_spec("sklearn") is None:
        print("scikit-learn is not there: without LinearRegression and without texts")
        return 0 if all(good) else 1
    from sklearn.linear_model import LinearRegression

    C, c, _, _ = drawn(*LONG[:2])
    name = f"{LONG[0]} x {LONG[1]}: least norm, LinearRegression"
    model = LinearRegression(fit_intercept=False)
    good.append(norm(C, c, *LONG[2:], name, lambda: model.fit(C, c)))
    if not options.without_texts:
        good += [texts(None), texts("l2")]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
