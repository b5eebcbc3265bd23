"""Is x the same, bit for bit, as in another version?  Fixed problems, all methods, all backends.

    python benchmarks/same_bits.py --write before.json     in the one version
    python benchmarks/same_bits.py --against before.json   in the other

Only public names are used, so that both versions run the same file.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse
import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import tiebreak as tb

STEPS = 150
ROWS, COLUMNS = 30, 40
PENALISED = ("adaptive", "p-agm-bio", "r-apm", "pb-apg", "bi-sg")


def data(seed: int) -> tuple[Any, ...]:
    """Return a matrix of rank 20 with its targets, and a second one for the upper level."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((ROWS, 20)) @ rng.standard_normal((20, COLUMNS)) / 8.0
    B = rng.standard_normal((25, COLUMNS)) / 6.0
    b, c = rng.standard_normal(ROWS), rng.standard_normal(25)
    return A, b, B, c


def domains() -> dict[str, Any]:
    """Return one set of each kind, all containing points of data(0) and not too large."""
    return {
        "space": tb.Space(),
        "ball": tb.Ball(2.0),
        "ball with a centre": tb.Ball(1.0, center=np.full(COLUMNS, 0.1)),
        "box": tb.Box(-0.2, 0.3),
        "orthant": tb.Orthant(),
        "simplex": tb.Simplex(),
        "l1 ball": tb.L1Ball(1.5),
        "monotone": tb.Monotone(),
        "halfspace": tb.Halfspace(np.linspace(0.0, 1.0, COLUMNS), 0.5),
    }


def smooth_problems() -> Iterator[tuple[str, tb.Problem]]:
    """Yield validation over training loss in every set, then other pairs of functions."""
    A, b, B, c = data(0)
    y = np.where(b > 0.0, 1.0, -1.0)
    for name, Z in domains().items():
        yield (
            f"squares in {name}",
            tb.Problem(upper=tb.LeastSquares(B, c), lower=tb.LeastSquares(A, b), domain=Z),
        )
        yield (
            f"logistic in {name}",
            tb.Problem(
                upper=tb.SquaredNorm(), lower=tb.Logistic(A, y) + 0.01 * tb.LeastSquares(A, b),
                domain=Z,
            ),
        )  # fmt: skip
    slope = np.cos(np.arange(COLUMNS))
    yield (
        "linear above",
        tb.Problem(upper=tb.Linear(slope), lower=tb.LeastSquares(A, b), domain=tb.Ball(3.0)),
    )
    yield (
        "quadratic below",
        tb.Problem(upper=tb.SquaredNorm(center=slope), lower=tb.Quadratic(A.T @ A, A.T @ b)),
    )
    yield (
        "callables",
        tb.Problem(
            upper=tb.Smooth(
                lambda x: 0.5 * float(x @ x), lambda x: x, lipschitz=1.0,
            ),
            lower=tb.Smooth(
                lambda x: 0.5 * float((A @ x - b) @ (A @ x - b)), lambda x: A.T @ (A @ x - b),
                lipschitz=float(np.linalg.norm(A, 2) ** 2),
            ),
            domain=tb.Ball(3.0),
        ),
    )  # fmt: skip


def penalised_problems() -> Iterator[tuple[str, tb.Problem]]:
    """Yield problems with a penalty in f, in g, and in both."""
    A, b, B, c = data(1)
    groups = [list(range(i, i + 5)) for i in range(0, COLUMNS, 5)]
    penalties: dict[str, Any] = {
        "l1": tb.L1(0.3),
        "l2": tb.L2(0.3),
        "elastic net": tb.ElasticNet(0.2, 0.1),
        "groups": tb.GroupL2(groups, 0.2),
        "indicator": tb.Indicator(tb.Ball(2.0)),
    }
    for name, penalty in penalties.items():
        yield (
            f"{name} above",
            tb.Problem(upper=tb.LeastSquares(B, c) + penalty, lower=tb.LeastSquares(A, b)),
        )
        yield (
            f"{name} below",
            tb.Problem(upper=tb.LeastSquares(B, c), lower=tb.LeastSquares(A, b) + penalty),
        )
    yield (
        "l1 in both",
        tb.Problem(
            upper=tb.LeastSquares(B, c) + tb.L1(0.1),
            lower=tb.LeastSquares(A, b) + tb.L1(0.2),
            domain=tb.Box(-1.0, 1.0),
        ),
    )


def mixed_problems() -> Iterator[tuple[str, tb.Problem]]:
    """Yield a logistic loss, the shortest point and a linear objective in every bounded set."""
    A, b, B, c = data(3)
    y = np.where(c > 0.0, 1.0, -1.0)
    for name, Z in domains().items():
        yield (
            f"validation in {name}",
            tb.Problem(upper=tb.Logistic(B, y), lower=tb.LeastSquares(A, b), domain=Z, radius=5.0),
        )
    for name in ("ball", "box", "simplex", "l1 ball"):
        yield (
            f"linear in {name}",
            tb.Problem(upper=tb.Linear(B[0]), lower=tb.LeastSquares(A, b), domain=domains()[name]),
        )


def kinds_of_matrices(folder: Path) -> Iterator[tuple[str, tb.Problem]]:
    """Yield one problem with every kind of matrix."""
    import array_api_strict as strict

    A, b, B, c = data(2)
    A = np.where(np.abs(A) < 0.05, 0.0, A)
    np.save(folder / "A.npy", A)
    kinds: dict[str, Any] = {
        "dense": lambda M: M,
        "sparse": sp.csr_array,
        "operator": aslinearoperator,
        "float32": lambda M: M.astype(np.float32),
        "array-api-strict": strict.asarray,
    }

    def problem(make: Any, b: Any, c: Any) -> tb.Problem:
        return tb.Problem(
            upper=tb.LeastSquares(make(B), c, lipschitz=4.0),
            lower=tb.LeastSquares(make(A), b, lipschitz=60.0),
            domain=tb.Ball(2.0),
        )

    for name, make in kinds.items():
        is_array = name in ("float32", "array-api-strict")
        vectors = (make(b), make(c)) if is_array else (b, c)
        yield f"matrix: {name}", problem(make, *vectors)
    yield (
        "matrix: streamed",
        tb.Problem(
            upper=tb.SquaredNorm(),
            lower=tb.LeastSquares(tb.Streamed(folder / "A.npy"), b, lipschitz=60.0),
            domain=tb.Ball(2.0),
        ),
    )


def built_in() -> Iterator[tuple[str, tb.Problem]]:
    """Yield the built-in problems that are quick."""
    for name in ("toy", "inverse", "random-inverse", "phillips-few-rows", "diabetes", "digits",
                 "logistic", "sparse-logistic", "hard", "lasso-duplicates"):  # fmt: skip
        yield f"instance: {name}", tb.instance(name).problem


def digest(x: Any) -> str:
    """Return a short hash of the bits of an array of any library."""
    return hashlib.sha256(np.ascontiguousarray(np.asarray(x)).tobytes()).hexdigest()[:16]


def outcome(title: str, problem: tb.Problem, method: str) -> list[Any]:
    """Return how a call ended, or that the method refuses the problem."""
    try:
        x0 = np.zeros(COLUMNS) if "callables" in title else None
        result = tb.solve(problem, method, x0=x0, max_iter=STEPS)
    except (ValueError, TypeError):
        return ["refused", 0, "", 0.0, 0.0]
    values = float(result.upper_value).hex(), float(result.lower_value).hex()
    return [result.status, result.nit, digest(result.x), *values]


def outcomes() -> dict[str, list[Any]]:
    """Solve all problems by all methods; other matrices by five of them."""
    names = ["auto", *(m.name for m in tb.methods())]
    found: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several = ["auto", "adaptive", "agm-bio", "pb-apg", "exact"]
        for problems, methods in (
            (smooth_problems(), names),
            (mixed_problems(), [*several, "bi-sg", "bisec-bio"]),
            (penalised_problems(), ["auto", "exact", *PENALISED]),
            (kinds_of_matrices(Path(name)), several),
            (built_in(), [*several, "p-agm-bio"]),
        ):
            for title, problem in problems:
                for method in methods:
                    found[f"{title} / {method}"] = outcome(title, problem, method)
    return found


def main() -> int:
    """Write the outcomes, or compare them with those of another version."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    arguments = parser.parse_args()
    now = outcomes()
    problems = {key.rpartition(" / ")[0] for key in now}
    print(f"{len(now)} calls on {len(problems)} problems")
    if arguments.write:
        arguments.write.write_text(json.dumps(now, indent=0))
    if not arguments.against:
        return 0
    before = json.loads(arguments.against.read_text())
    different = [key for key in before if now.get(key) != before[key]]
    for key in different:
        print(f"{key}: {before[key]} before, {now.get(key)} now")
    print(f"{len(before) - len(different)} of {len(before)} the same, {len(different)} not")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
