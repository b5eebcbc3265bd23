"""How late a call ends beyond its time limit, or beyond Ctrl-C: every method on 40 problems.

A call has `max_time` seconds, or is sent SIGINT after so many, with tolerances that nothing meets.
Allowed is one second more, and one LAPACK call that was under way at the limit, which is named.
Functions are made anew for each call, so that the time before the first step counts. Data in the
LIBSVM format (a1a.svm, a5a.svm) are read from the folder --data.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import functools
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import tiebreak as tb

GRACE = 1.0  # seconds beyond the limit
FOLDER = tempfile.TemporaryDirectory()
Make = Callable[[], tb.Problem]


def one_hot(rows: int, sizes: list[int], seed: int = 0) -> tuple[Any, Any]:
    """Blocks of columns with a single 1 in each row, and labels of a planted direction."""
    rng = np.random.default_rng(seed)
    blocks = [np.eye(k)[rng.integers(0, k, rows)] for k in sizes]
    A = np.hstack(blocks)
    margin = A @ rng.standard_normal(A.shape[1])
    return A, np.where(margin + 0.5 * rng.standard_normal(rows) > np.median(margin), 1.0, -1.0)


@functools.cache
def squares(rows: int, n: int, rank: int | None = None, seed: int = 0) -> tuple[Any, Any]:
    """A dense matrix, of small rank where that is asked for, and a right side."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rows, n))
    if rank is not None:
        A = np.round(rng.standard_normal((rows, rank)), 1) @ np.round(
            rng.standard_normal((rank, n)), 1
        )
    return A, A @ rng.standard_normal(n) + 0.1 * rng.standard_normal(rows)


@functools.cache
def sparse(rows: int, n: int, seed: int = 0) -> tuple[Any, Any]:
    """A sparse matrix with about forty entries in a row, and a right side."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((rows, n), density=40.0 / n, format="csr", rng=rng)
    return A, A @ rng.standard_normal(n)


@functools.cache
def streamed(rows: int, n: int) -> tuple[Path, Any]:
    """The dense matrix in a file."""
    A, b = squares(rows, n)
    path = Path(FOLDER.name) / f"{rows}x{n}.npy"
    np.save(path, A)
    return path, b


def least_squares(
    data: tuple[Any, Any], domain: Any = None, upper: Any = None, wrap: Any = None
) -> Make:
    def make() -> tb.Problem:
        A, b = data
        lower = tb.LeastSquares(A if wrap is None else wrap(A), b)
        return tb.Problem(upper=upper or tb.SquaredNorm(), lower=lower, domain=domain or tb.Space())

    return make


def logistic(data: tuple[Any, Any], domain: Any, upper: Any = None) -> Make:
    def make() -> tb.Problem:
        return tb.Problem(upper=upper or tb.SquaredNorm(), lower=tb.Logistic(*data), domain=domain)

    return make


def two_losses(rows: int, n: int, domain: Any = None) -> Make:
    def make() -> tb.Problem:
        upper, lower = (tb.LeastSquares(*squares(rows, n, seed=seed)) for seed in (1, 2))
        return tb.Problem(upper=upper, lower=lower, domain=domain or tb.Space())

    return make


def quadratic(n: int, rank: int) -> Make:
    def make() -> tb.Problem:
        R, _ = squares(rank, n)
        lower = tb.Quadratic(R.T @ R / n, R.T @ R[:, 0])
        return tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(10.0))

    return make


def callables(seconds: float) -> Make:
    """Functions that take their time."""

    def make() -> tb.Problem:
        A, b = squares(20, 40)

        def value(x: Any) -> float:
            time.sleep(seconds)
            return 0.5 * float((A @ x - b) @ (A @ x - b))

        lower = tb.Smooth(value, lambda x: A.T @ (A @ x - b), lower_bound=0.0)
        return tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(10.0))

    return make


def problems(data: Path | None) -> dict[str, Make]:
    """All problems by name."""
    mushrooms = [6, 4, 10, 2, 9, 2, 2, 2, 12, 2, 5, 4, 4, 9, 9, 1, 4, 3, 5, 9, 6, 2]  # 112 columns
    adults = [5, 8, 5, 16, 7, 14, 6, 5, 2, 2, 2, 5, 41, 5]  # 123 columns
    few, many = one_hot(8_124, mushrooms), one_hot(32_561, adults)
    half = (250, 500)
    wide = squares(*half)
    positive = np.abs(wide[0]), np.abs(wide[1])
    made: dict[str, Make] = {
        "one-hot 8,124 x 112, ball": logistic(few, tb.Ball(10.0)),
        "one-hot 8,124 x 112, R^n": logistic(few, tb.Space()),
        "one-hot 8,124 x 112, l1 ball": logistic(few, tb.L1Ball(20.0)),
        "one-hot 32,561 x 123, ball": logistic(many, tb.Ball(10.0)),
        "250 x 500, orthant": least_squares(positive, tb.Orthant()),
        "250 x 500, l1 ball": least_squares(wide, tb.L1Ball(100.0)),
        "250 x 500, simplex": least_squares(wide, tb.Simplex(100.0)),
        "250 x 500, box": least_squares(wide, tb.Box(-1.0, 1.0)),
        "250 x 500, monotone": least_squares(wide, tb.Monotone()),
        "250 x 500, half-space": least_squares(wide, tb.Halfspace(np.ones(500), 0.0)),
        "250 x 500, ball": least_squares(wide, tb.Ball(10.0)),
        "250 x 500, sparsest": least_squares(wide, upper=tb.L1()),
        "250 x 500, sparsest, orthant": least_squares(positive, tb.Orthant(), tb.L1()),
        "600 x 1,200, orthant": least_squares(squares(600, 1_200), tb.Orthant()),
        "600 x 1,200, sparsest": least_squares(squares(600, 1_200), upper=tb.L1()),
        "267 x 730, two losses": two_losses(267, 730),
        "1,000 x 2,500, two losses": two_losses(1_000, 2_500),
        "1,000 x 2,500, two losses, ball": two_losses(1_000, 2_500, tb.Ball(10.0)),
        "2,800 x 2,900": least_squares(squares(2_800, 2_900)),
        "256 x 30,000, rank 200": least_squares(squares(256, 30_000, 200)),
        "2,000 x 2,000, rank 1,500": least_squares(squares(2_000, 2_000, 1_500)),
        "20,000 x 1,000": least_squares(squares(20_000, 1_000)),
        "20,000 x 1,000, ball": least_squares(squares(20_000, 1_000), tb.Ball(1.0)),
        "sparse 4,000 x 15,500": least_squares(sparse(4_000, 15_500)),
        "sparse 2,000 x 18,000": least_squares(sparse(2_000, 18_000)),
        "sparse 15,935 x 62,061, ball": least_squares(sparse(15_935, 62_061), tb.Ball(1.0)),
        "quadratic 1,000, rank 700": quadratic(1_000, 700),
        "quadratic 2,000, rank 1,500": quadratic(2_000, 1_500),
        "callables of 50 ms": callables(0.05),
        "single precision 10,000 x 500": least_squares(
            (squares(10_000, 500)[0].astype(np.float32), squares(10_000, 500)[1].astype("f4"))
        ),
        "streamed 40,000 x 500": least_squares(
            streamed(40_000, 500), tb.Ball(1.0), wrap=tb.Streamed
        ),
    }
    for name in ("a1a", "a5a") if data is not None else ():
        from sklearn.datasets import load_svmlight_file

        A, y = load_svmlight_file(str(data / f"{name}.svm"))  # type: ignore[operator]
        made[f"{name}, ball"] = logistic((A.toarray(), y), tb.Ball(10.0))
        made[f"{name}, sparse, l1 ball"] = logistic((sp.csr_array(A), y), tb.L1Ball(20.0))
    for name in ("toy", "regression", "breast-cancer", "digits", "hard", "basis-pursuit"):
        made[f"built-in {name}"] = functools.partial(_built_in, name)
    return made


def _built_in(name: str) -> tb.Problem:
    return tb.instance(name).problem


class Watch(threading.Thread):
    """Which call of LAPACK or HiGHS the main thread was in at the limit, and for how long since."""

    def __init__(self, seconds: float) -> None:
        super().__init__(daemon=True)
        self.where, self.held, self.is_lapack = "", 0.0, False
        self._seconds, self._ended = seconds, threading.Event()

    def run(self) -> None:
        """Look at the main thread until it is in another call."""
        if self._ended.wait(self._seconds):
            return
        began, first = time.perf_counter(), None
        while not self._ended.wait(0.02):
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            names = []
            while frame is not None and not frame.f_globals["__name__"].startswith("tiebreak"):
                names.append((id(frame), frame.f_globals["__name__"], frame.f_code.co_name))
                frame = frame.f_back
            if not names or frame is None or (first is not None and names[-1] != first):
                return
            first = names[-1]
            self.where = f"{first[2]} in {frame.f_code.co_name}"
            self.is_lapack = first[1].startswith(("numpy.linalg", "scipy.linalg"))
            self.held = time.perf_counter() - began

    def end(self) -> None:
        """The call has returned."""
        self._ended.set()
        self.join()


def run(make: Make, method: str, seconds: float, ctrl_c: bool) -> tuple[float, Watch, str]:
    """How long the call took beyond ``seconds``, what it was in then, and what it said."""
    problem = make()
    limit = None if ctrl_c else seconds
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    watch = Watch(seconds)
    began = time.perf_counter()
    watch.start()
    if ctrl_c:
        timer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            n = problem.dimension or 40
            if method == "certify":
                tb.certify(problem, np.zeros(n), max_iter=10**9, max_time=limit)
                said = "proof"
            else:
                result = tb.solve(
                    problem, method, x0=np.zeros(n), rtol=0.0, max_iter=10**9, max_time=limit
                )
                said = f"{result.status}, {result.nit:,} steps"
    except KeyboardInterrupt:  # it had ended just before
        said = "ended"
    except ValueError as error:
        said = f"refused ({str(error)[:60]})"
    taken = time.perf_counter() - began
    timer.cancel()
    watch.end()
    return taken - seconds, watch, said


def main() -> int:
    """Print the lateness of every call, the worst last; the exit status says if all was met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ctrl-c", action="store_true", help="SIGINT instead of max_time")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--methods", nargs="*", help="all of them and certify if not given")
    parser.add_argument("--data", type=Path, help="a folder with a1a.svm and a5a.svm")
    options = parser.parse_args()
    methods = options.methods or ["auto", *(m.name for m in tb.methods()), "certify"]
    late = []
    for name, make in problems(options.data).items():
        if options.only not in name:
            continue
        for method in methods:
            try:
                beyond, watch, said = run(make, method, options.seconds, options.ctrl_c)
            except KeyboardInterrupt:  # the signal came after the call
                continue
            own = beyond - watch.held if watch.is_lapack else beyond  # without the LAPACK call
            where = f"   ({watch.held:.2f} s: {watch.where})" if watch.held > 0.1 else ""
            late.append((own, beyond, f"{method} on {name}{where}"))
            mark = "   LATE" if own > GRACE else ""
            print(f"{name:34} {method:10} {beyond:+7.2f} s   {said}{where}{mark}", flush=True)
    missed = [words for own, _, words in late if own > GRACE]
    waited = sum(beyond > GRACE for _, beyond, _ in late) - len(missed)
    print(f"\n{len(late)} calls: {len(missed)} later than {GRACE:g} s, {waited} more by LAPACK")
    for _, beyond, words in sorted(late, reverse=True)[:5]:
        print(f"  {beyond:+.2f} s  {words}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
