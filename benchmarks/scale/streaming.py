"""A matrix larger than memory: what a step on streamed rows costs, and how much it reads.

Writes a .npy file of the wished size into a temporary folder, solves min |x|² over the minimisers
of ½|Ax - b|² in a ball with AGM-BiO and `tb.Streamed`, and removes the file. Limits: under 1 GiB of
anonymous memory (RssAnon), the matrix's bytes once per step, and per step at most 1.3 times the sum
of reading the file once (plain reads into one buffer) and the four bare products on bytes that are
in memory already. The page cache is emptied of the file before every reading and before every step
that is timed (posix_fadvise, DONTNEED), so that both come from the disk; rounds alternate.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tiebreak as tb
from tiebreak.driver.run import Run

COLUMNS = 2_000


def write(path: Path, rows: int, dtype: str) -> None:
    """Random rows, block by block: nothing of it stays in memory."""
    rng = np.random.default_rng(0)
    made = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), (rows, COLUMNS))
    header = int(made.offset)
    del made
    with path.open("r+b") as file:
        file.seek(header)
        for start in range(0, rows, 4096):
            size = (min(4096, rows - start), COLUMNS)
            file.write(rng.random(size, dtype=np.float32).astype(dtype).data)
        file.flush()
        os.fsync(file.fileno())


def forget(path: Path) -> None:
    """Empty the page cache of this file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_of_reading(path: Path, block: int) -> float:
    """All bytes once, into one buffer."""
    forget(path)
    buffer = memoryview(bytearray(block))
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def seconds_of_products(rows: int, dtype: str, block: int) -> float:
    """The four bare products of a step on a block in memory, times the number of blocks."""
    kind = np.dtype(dtype)
    here = block // (COLUMNS * kind.itemsize)
    rng = np.random.default_rng(1)
    A = rng.random((here, COLUMNS), dtype=np.float32).astype(kind)
    x, y = (rng.standard_normal(COLUMNS).astype(kind) for _ in range(2))
    r, s = (rng.standard_normal(here).astype(kind) for _ in range(2))
    turns = max(1, rows // here // 4)
    began = time.perf_counter()
    for _ in range(turns):
        A @ x
        A @ y
        A.T @ r
        A.T @ s
    return (time.perf_counter() - began) / turns * rows / here


def anonymous() -> float:
    """The anonymous memory of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gib", type=float, default=1.0, help="size of the file, 16 for the full")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--block", type=int, default=2**26, help="bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the file is written; the system's if not given")
    options = parser.parse_args()
    rows = int(options.gib * 2**30) // (COLUMNS * np.dtype(options.dtype).itemsize)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "A.npy"
        write(path, rows, options.dtype)
        return measure(path, rows, options)


def measure(path: Path, rows: int, options: Any) -> int:
    """Steps, readings and products by turns."""
    peak = anonymous()
    A = tb.Streamed(path, options.block)
    peak = max(peak, anonymous())
    b = np.random.default_rng(2).standard_normal(rows).astype(options.dtype)
    size = float(rows * COLUMNS * np.dtype(options.dtype).itemsize)
    L = A.frobenius**2  # no more passes for a sharper one: the cost of a step is the same
    lower = tb.LeastSquares(A, b, lipschitz=L)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=lower, domain=tb.Ball(1.0))
    run = Run(problem, tb.AGMBiO(gamma=1e-2), problem.start())

    def watch(done: int) -> None:
        nonlocal peak
        peak = max(peak, anonymous())

    ratios, shares, reads = [], [], []
    for _ in range(options.rounds):
        before = (
            seconds_of_reading(path, options.block),
            seconds_of_products(rows, options.dtype, options.block),
        )
        forget(path)
        bytes_before, passes_before = A.bytes_read, run.counts.passes
        began = time.perf_counter()
        assert run.step()
        run.record()
        step = time.perf_counter() - began
        reads.append((A.bytes_read - bytes_before) / size)
        passes = run.counts.passes - passes_before
        after = (
            seconds_of_reading(path, options.block),
            seconds_of_products(rows, options.dtype, options.block),
        )
        reading, products = (statistics.mean(pair) for pair in zip(before, after, strict=True))
        ratios.append(step / (reading + products))
        shares.append((step, reading, products))
    A.on_progress = watch  # a step that is not timed, for the peak
    assert run.step()
    print(
        f"{rows:,} x {COLUMNS:,} {options.dtype}, {size / 2**30:.2f} GiB, block {options.block:,}"
    )
    for step, reading, products in shares:
        print(
            f"  step {step:7.2f} s = {step / (reading + products):.2f} of reading "
            f"{reading:7.2f} s + bare products {products:7.2f} s"
        )
    ratio = statistics.median(ratios)
    print(f"time of a step, median: {ratio:.2f} (limit 1.3)")
    print(f"bytes read per step: {max(reads):.3f} of the matrix (limit 1), passes counted {passes}")
    print(f"anonymous memory, peak: {peak:.0f} MiB (limit 1024)")
    return int(ratio > 1.3 or max(reads) > 1.0 or peak >= 1024 or passes != 1)


if __name__ == "__main__":
    sys.exit(main())
