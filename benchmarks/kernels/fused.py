"""Times the fused pass on an NVIDIA GPU, relative to one reading of the matrix and to plain calls.

One reading is the size of the matrix divided by the bandwidth of a plain copy on the device, which
counts bytes read and written. Times come from CUDA events: the median of twenty calls after three
warm-up calls. `alone` is one call on an idle device, including the launch on the host; `in a row`
is the average of twenty calls without waiting. Needs PyTorch and a GPU; `--small` is a quick try
that says nothing about speed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import tiebreak as tb
from tiebreak.linalg import Dense, cuda

torch: Any = None  # only main needs it

RECIPES = {  # fresh, carried, recipe, slopes
    "2 fresh, 4 asked, 2 slopes": (
        2,
        3,
        [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0.5, 0.25, 0.25, 0, 0], [1, -2, 1, 0.5, -0.5]],
        2,
    ),
    "1 fresh, 2 asked, 1 slope": (1, 2, [[0, 0, 1], [0.5, -1, 1.5]], 1),
}
MOST, LEAST = RECIPES


class Case(NamedTuple):
    """A matrix and what is asked of it."""

    rows: int
    columns: int
    dtype: str
    kind: str
    question: str


CASES = (
    Case(400_000, 10_000, "float32", "least-squares", MOST),
    Case(400_000, 10_000, "float32", "logistic", MOST),
    Case(200_000, 10_000, "float64", "least-squares", MOST),
    Case(200_000, 10_000, "float64", "logistic", MOST),
    Case(100_000, 10_000, "float32", "least-squares", LEAST),
    Case(100_000, 10_000, "float32", "logistic", LEAST),
    Case(1_000_000, 4_000, "float32", "least-squares", MOST),
    Case(1_000_000, 4_000, "float32", "logistic", MOST),
    Case(250_000, 16_000, "float32", "least-squares", MOST),
    Case(250_000, 16_000, "float32", "logistic", MOST),
    Case(125_000, 16_000, "float64", "logistic", MOST),
    Case(400_000, 10_001, "float32", "logistic", MOST),
    Case(1_000_000, 1_024, "float32", "least-squares", LEAST),
)

WARM, TIMES = 3, 20


def milliseconds(call: Callable[[], Any], calls: int = 1, times: int = TIMES) -> float:
    """The median time of ``calls`` calls without a wait, divided by their number."""
    for _ in range(WARM):
        call()
    spans: list[float] = []
    for _ in range(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        spans.append(start.elapsed_time(end) / calls)
    return statistics.median(spans)


def bandwidth(size: int) -> float:
    """Bytes per second of a copy on the device, read and written."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2e3 * size / milliseconds(lambda: target.copy_(source))


def drawn(case: Case) -> tuple[Any, ...]:
    """Random arguments of the pass for a case."""
    fresh, carried, recipe, slopes = RECIPES[case.question]
    generator = torch.Generator(device="cuda").manual_seed(20261115)

    def normal(*shape: int) -> Any:
        empty = torch.empty(shape, dtype=getattr(torch, case.dtype), device="cuda")
        return empty.normal_(generator=generator)

    m, n = case.rows, case.columns
    target = normal(m)
    if case.kind == "logistic":
        target = torch.where(target > 0, 1.0, -1.0).to(target.dtype)
    points = [normal(n) / n**0.5 for _ in range(fresh)]
    images = [normal(m) for _ in range(carried)]
    return normal(m, n), points, images, recipe, target, case.kind, slopes


def plain(
    A: Any, points: list[Any], images: list[Any], recipe: Any, target: Any, kind: str, slopes: int
) -> cuda.PassResult:
    """The same by the plain calls of the loss: ``len(points) + slopes`` readings of the matrix."""
    parameters: dict[str, Any] = {"mean": False} if kind == "logistic" else {"gram": False}
    loss = (tb.Logistic if kind == "logistic" else tb.LeastSquares)(Dense(A), target, **parameters)
    products = loss.matrix.forward(*points)
    weights = torch.as_tensor(recipe, dtype=A.dtype, device=A.device)
    mixed = weights @ torch.stack([*images, *products])
    found = loss._plain_pass(list(mixed), slopes)
    losses = torch.as_tensor(found.losses(), dtype=torch.float64, device=A.device)
    return cuda.PassResult(mixed, torch.stack(products), losses, torch.stack(found.slopes()))


def difference(ours: cuda.PassResult, theirs: cuda.PassResult) -> float:
    """The largest |ours - theirs| / |theirs| among the four results."""
    norm = torch.linalg.vector_norm
    pairs = zip(ours, theirs, strict=True)
    return max(float(norm(a - b) / norm(b)) for a, b in pairs)


def line(case: Case, copy: float) -> str:
    """One row of the table."""
    arguments = drawn(case)
    if not cuda.applies(arguments[0]):
        return f"| {case.rows} x {case.columns} | {case.dtype} | does not apply |"
    apart = difference(cuda.sweep(*arguments), plain(*arguments))
    alone = milliseconds(lambda: cuda.sweep(*arguments))
    row = milliseconds(lambda: cuda.sweep(*arguments), calls=TIMES, times=3)
    by_calls = milliseconds(lambda: plain(*arguments))
    reading = 1e3 * arguments[0].nbytes / copy
    cells = (
        f"{case.rows:,} x {case.columns:,}",
        case.dtype,
        case.kind,
        case.question,
        f"{copy / 1e12:.2f}",
        f"{reading:.3f}",
        f"{alone:.3f}",
        f"{alone / reading:.2f}",
        f"{row:.3f}",
        f"{row / reading:.2f}",
        f"{by_calls:.3f}",
        f"{by_calls / alone:.1f}",
        f"{apart:.0e}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    global torch
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a fiftieth of the rows, to try it")
    small = parser.parse_args().small
    torch = import_module("torch")
    if not torch.cuda.is_available():
        sys.exit("no GPU is there")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    copy = bandwidth(2**28 if small else 2**33)
    titles = (
        "matrix",
        "dtype",
        "loss",
        "question",
        "copy TB/s",
        "one reading ms",
        "alone ms",
        "readings",
        "in a row ms",
        "readings",
        "plain ms",
        "plain / alone",
        "difference",
    )
    print("| " + " | ".join(titles) + " |")
    print("|" + " --- |" * len(titles))
    for case in CASES:
        if small:
            case = case._replace(rows=case.rows // 50)
        print(line(case, copy), flush=True)


if __name__ == "__main__":
    main()
