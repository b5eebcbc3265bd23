"""What a step costs on a GPU relative to reading its matrices once, and how long the proof takes.

A step of AGM-BiO on two least-squares losses, both sequences and the certificate's sums included,
over (bytes of the two matrices)/(bandwidth of a plain copy on the device, read and written bytes),
for every size and precision; then the time to the certificate (1e-3, 1e-3), by the paper's weak
criterion, of `tb.solve` on the GPU, and of the same problem on all cores of the same machine. Needs
PyTorch and an NVIDIA GPU; the arrays that are solved are PyTorch's, or CuPy's views of them.

    python benchmarks/scale/gpu.py --save         # the tables of scale.md, 7 minutes on an H200
    python benchmarks/scale/gpu.py --library cupy # the same with CuPy; transfers are not counted
    python benchmarks/scale/gpu.py --small        # a hundredth of it, to see that all is well
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import record

import tiebreak as tb
from tiebreak.algorithms.common import REFRESH
from tiebreak.linalg import threads

SIZES = [  # precision, lower rows, upper rows, columns
    ("float32", 400_000, 100_000, 10_000),
    ("float64", 200_000, 50_000, 10_000),
    ("float32", 1_000_000, 250_000, 4_000),
    ("float64", 500_000, 125_000, 4_000),
]
LIMIT = 1.35  # on the time of a step relative to one read of the data, for the first size
SECONDS = 1.5  # to the certificate, for the first size
STEPS = 1000
PROVED = SIZES[:2]  # what is solved to the certificate, on the processor's cores too


def bandwidth(torch: Any, size: int = 2**32) -> float:
    """Bytes per second, read and written, of the quickest of ten copies on the device."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = []
    for _ in range(10):
        torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return 2 * size / min(seconds)


def problem(
    torch: Any, precision: str, rows: int, upper_rows: int, n: int, library: str
) -> tb.Problem:
    """Least squares over least squares in a ball; every column of the lower one is there twice.

    So the lower level has a solution set of n/2 dimensions. NumPy is for the processor: its
    products are 2.6 times as quick there as PyTorch's.
    """
    draw = torch.Generator(device="cuda").manual_seed(2026)
    dtype = getattr(torch, precision)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, generator=draw, device="cuda", dtype=dtype)

    A = torch.empty(rows, n, device="cuda", dtype=dtype)
    A[:, : n // 2] = normal(rows, n // 2)
    A[:, n // 2 :] = A[:, : n // 2]
    B = normal(upper_rows, n)
    planted = normal(n) / n**0.5
    b = A @ planted + normal(rows)
    c = B @ (normal(n) / n**0.5) + normal(upper_rows)
    if library == "numpy":
        A, b, B, c = (part.cpu().numpy() for part in (A, b, B, c))
        torch.cuda.empty_cache()
    elif library == "cupy":
        A, b, B, c = (import_module("cupy").from_dlpack(part) for part in (A, b, B, c))
    return tb.Problem(
        upper=tb.LeastSquares(B, c, mean=True),
        lower=tb.LeastSquares(A, b, mean=True),
        domain=tb.Ball(2.0),
    )


def seconds_per_step(p: tb.Problem, steps: int) -> float:
    """The mean time of a step over a run, its records and their bounds included."""
    method = tb.AGMBiO(gamma=1e-2)
    tb.solve(p, method, rtol=0, max_iter=REFRESH + 1)  # constants, kernels: also of a refresh
    result = tb.solve(p, method, rtol=0, max_iter=steps)
    first, last = result.trace[0], result.trace[-1]
    return (last.seconds - first.seconds) / (last.iteration - first.iteration)


def matrix_bytes(p: tb.Problem) -> int:
    """What one reading of both matrices moves."""
    parts: list[Any] = [p.upper, p.lower]
    return sum(h.matrix.size * h.matrix.entries.dtype.itemsize for h in parts)


def transfers_per_step(torch: Any, p: tb.Problem, steps: int) -> float:
    """How often a step asks the device for numbers, once all its constants are known."""
    count, names = 0, ("__float__", "__bool__", "__int__", "tolist", "item", "cpu", "numpy")
    originals = {name: getattr(torch.Tensor, name) for name in names}

    def counted(name: str) -> Any:
        def call(x: Any, *arguments: Any) -> Any:
            nonlocal count
            count += 1
            return originals[name](x, *arguments)

        return call

    try:
        for name in names:
            setattr(torch.Tensor, name, counted(name))
        tb.solve(p, tb.AGMBiO(gamma=1e-2), rtol=0, max_iter=steps)
    finally:
        for name, original in originals.items():
            setattr(torch.Tensor, name, original)
    return count / steps


def seconds_to_certificate(p: tb.Problem) -> tuple[float, tb.Result]:
    """Wall time of `tb.solve`, all included but the problem itself."""
    began = time.perf_counter()
    result = tb.solve(p, rtol=(1e-3, 1e-3), criterion="weak")
    return time.perf_counter() - began, result


def prove(
    torch: Any, size: tuple[str, int, int, int], share: int, library: str
) -> dict[str, object]:
    """Solve, print a line, and give it as a row; kernels are compiled before."""
    precision, rows, upper_rows, n = size
    p = problem(torch, precision, rows // share, upper_rows // share, n, library)
    if library != "numpy":
        seconds_to_certificate(p)
    seconds, result = seconds_to_certificate(p)
    row: dict[str, object] = {
        "precision": precision,
        "lower level": f"{rows // share:,} x {n:,}",
        "upper level": f"{upper_rows // share:,} x {n:,}",
        "where": f"{threads.allowed()} cores" if library == "numpy" else "GPU",
        "seconds": seconds,
        "status": result.status,
        "steps": result.nit,
        "data passes": result.trace[-1].passes,
        "gap of f": result.upper_gap,
        "f": result.upper_value,
        "gap of g": result.lower_gap,
        "g": result.lower_value,
    }
    print(*(f"{entry:.4g}" if isinstance(entry, float) else entry for entry in row.values()))
    del p
    torch.cuda.empty_cache()
    return row


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a hundredth of the rows")
    options.add_argument("--library", choices=("torch", "cupy"), default="torch")
    options.add_argument("--no-processor", action="store_true", help="leave the cores out")
    options.add_argument("--save", action="store_true", help="write benchmarks/results/gpu_*.csv")
    given = options.parse_args()
    try:
        import torch
    except ImportError:
        print("benchmarks/scale/gpu.py needs PyTorch: pip install torch==2.13.0")
        return 2
    if not torch.cuda.is_available():
        print("benchmarks/scale/gpu.py needs an NVIDIA GPU, and PyTorch sees none")
        return 2
    share = 100 if given.small else 1
    speed = bandwidth(torch)
    version = import_module(given.library).__version__
    machine = f"{torch.cuda.get_device_name()}, {given.library} {version}"
    print(machine)
    print(f"a copy on the device moves {speed / 1e9:,.0f} GB/s, read and written")
    print(
        f"{'':>8} {'lower':>17} {'upper':>17} {'step, ms':>9} {'of reading':>11} {'transfers':>10}"
    )
    steps: list[dict[str, object]] = []
    ratios = []
    for precision, rows, upper_rows, n in SIZES:
        rows, upper_rows = rows // share, upper_rows // share
        p = problem(torch, precision, rows, upper_rows, n, given.library)
        seconds = seconds_per_step(p, STEPS)
        ratios.append(seconds / (matrix_bytes(p) / speed))
        transfers: object = "-"
        if given.library == "torch":  # the methods of CuPy's arrays cannot be replaced
            transfers = round(transfers_per_step(torch, p, STEPS // 2), 1)
        print(
            f"{precision:>8} {rows:>9,} x {n:<6,} {upper_rows:>8,} x {n:<6,} "
            f"{1e3 * seconds:>9.2f} {ratios[-1]:>11.2f} {transfers:>10}",
            flush=True,
        )
        steps.append(
            {
                "precision": precision,
                "lower level": f"{rows:,} x {n:,}",
                "upper level": f"{upper_rows:,} x {n:,}",
                "a step, ms": 1e3 * seconds,
                "relative to one read": ratios[-1],
                "transfers a step": transfers,
            }
        )
        del p
        torch.cuda.empty_cache()
    print("\nto the certificate (1e-3, 1e-3), weak, by tb.solve")
    places = [given.library] if given.no_processor else [given.library, "numpy"]
    proved = [prove(torch, size, share, place) for size in PROVED for place in places]
    if given.save:
        record.save("gpu_steps", steps, machine)
        record.save("gpu_certificates", proved, machine)
    seconds_taken = proved[0]["seconds"]
    assert isinstance(seconds_taken, float)
    met = ratios[0] <= LIMIT and seconds_taken <= SECONDS and proved[0]["status"] == "certified"
    return int(not met and not given.small)


if __name__ == "__main__":
    sys.exit(main())
