"""Many rows with ties, in single precision: in memory, on a GPU, or from a disk.

    python benchmarks/scale/tall_rows.py --rows 400000 --columns 1000
    python benchmarks/scale/tall_rows.py --rows 10000000 --columns 500 --device cuda
    python benchmarks/scale/tall_rows.py --gib 4 [--folder FOLDER]

A logistic loss of half as many dimensions as columns below, the distance to a point outside of the
row space above. `br-svrg` and `primal-dual` run until f and g are within 1e-4 of the answer, which
is computed in the known row space, and stay there; readings are counted by the matrix. `exact` (by
slices, where it takes the problem) and `auto` run to their own end, ``--limit`` seconds at most.
Seconds are those of the clock on a GPU and from a disk, otherwise of the processor. With ``--device
cpu`` arrays are PyTorch's, on the processor. A file is written for --gib, and removed.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_variable, "1")

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "race"))

import tall

import tiebreak as tb

Host = np.ndarray[Any, Any]
PART = 20_000  # rows that are drawn at a time


class Draw(NamedTuple):
    """Rows of A = B V', the columns of B being geometric from 1 to 1/condition, and their labels.

    They are made anew in every pass, from a seed for each part: nothing but V is kept.
    """

    seed: int
    rows: int
    V: Host
    sizes: Host
    truth: Host

    @classmethod
    def of(cls, seed: int, rows: int, columns: int, condition: float) -> Draw:
        rng, rank = np.random.default_rng(seed), columns // 2
        V = np.linalg.qr(rng.standard_normal((columns, rank)))[0]
        # Margins as large as with 50 dimensions, so that few rows are far from the plane.
        truth = rng.standard_normal(rank) * math.sqrt(50.0 / rank)
        return cls(seed, rows, V, np.geomspace(1.0, 1.0 / condition, rank), truth)

    def parts(self) -> Iterator[tuple[slice, Host, Host]]:
        """Some rows of B in float64, and their labels."""
        for i in range(0, self.rows, PART):
            rng, count = np.random.default_rng([self.seed, i]), min(PART, self.rows - i)
            B = rng.standard_normal((count, len(self.sizes)), dtype=np.float32) * self.sizes
            y = np.where(rng.random(count) < tall.sigmoid(B @ self.truth), 1.0, -1.0)
            yield slice(i, i + count), B, y


class Loss(NamedTuple):
    """The mean loss in the row space, by NumPy alone, from rows that are drawn in every pass."""

    draw: Draw

    def slope(self, z: Host) -> Host:
        total = np.zeros_like(z)
        for _, rows, labels in self.draw.parts():
            total += rows.T @ (tall.sigmoid(rows @ z) - (labels > 0.0))
        return total / self.draw.rows

    def value(self, z: Host) -> float:
        losses = (np.sum(np.logaddexp(0.0, -y * (B @ z))) for _, B, y in self.draw.parts())
        return float(sum(losses)) / self.draw.rows


class LossOnDevice(NamedTuple):
    """The same by PyTorch alone, from all rows in the memory of a device."""

    draw: Draw
    A: Any
    y: Any

    def slope(self, z: Host) -> Host:
        residuals = self._margins(z).sigmoid_() - 0.5 * (self.y + 1.0)
        return np.asarray(self.draw.V.T @ (self.A.T @ residuals).cpu().numpy() / self.draw.rows)

    def value(self, z: Host) -> float:
        import torch

        losses = torch.nn.functional.softplus(-self.y * self._margins(z))
        return float(losses.double().mean())

    def _margins(self, z: Host) -> Any:
        import torch

        x = torch.asarray(self.draw.V @ z, dtype=self.A.dtype, device=self.A.device)
        return self.A @ x


def answered(draw: Draw, loss: Loss | LossOnDevice) -> tuple[Host, float]:
    """The minimiser of the loss in the row space, and the condition there.

    Newton's steps with the second derivative of one part, and the slope of all.
    """
    _, B, y = next(draw.parts())
    z, H = tall.newton(B, y)
    for _ in range(40):
        step = np.linalg.solve(H, loss.slope(z))
        z = z - step
        if np.linalg.norm(step) <= 1e-9 * np.linalg.norm(z):
            break
    kappa = np.linalg.norm(B, 2) ** 2 / (4 * len(B)) / np.linalg.eigvalsh(H)[0]
    return z, float(kappa)


def instance(draw: Draw, A: Any, wrap: Callable[[Host], Any]) -> tall.Instance:
    """The problem of these rows, and its answer."""
    labels = np.concatenate([labels for _, _, labels in draw.parts()]).astype(np.float32)
    y = wrap(labels)
    loss = Loss(draw) if isinstance(y, np.ndarray) else LossOnDevice(draw, A, y)
    z, kappa = answered(draw, loss)
    columns, rank = draw.V.shape
    h = np.random.default_rng([draw.seed, 1]).standard_normal(columns).astype(np.float32)
    own = draw.V @ z
    x = own + h - draw.V @ (draw.V.T @ h)
    g = loss.value(z)
    f, at_zero = (0.5 * float((point - h) @ (point - h)) for point in (x, np.zeros(columns)))
    lower = tb.Logistic(A, y, mean=True)
    problem = tb.Problem(upper=tb.SquaredNorm(center=wrap(h)), lower=lower)
    scales = max(abs(f), abs(at_zero - f)), math.log(2.0) - g
    title = f"{draw.rows:,} x {columns:,}, rank {rank}, kappa {kappa:.0f}"
    control = abs(0.5 * float((own - h) @ (own - h)) - f) / scales[0]
    return tall.Instance(title, problem, f, g, scales, float(np.linalg.norm(x)), control)


def in_memory(draw: Draw, device: str) -> tuple[Any, Callable[[Host], Any]]:
    """All rows in an array, PyTorch's on a device, and what makes arrays like it."""
    shape = draw.rows, len(draw.V)
    if not device:
        A: Any = np.empty(shape, dtype=np.float32)
        for rows, B, _ in draw.parts():
            A[rows] = B @ draw.V.T
        return A, np.asarray
    import torch

    A = torch.empty(shape, dtype=torch.float32, device=device)
    V = torch.asarray(draw.V.T.copy(), device=device)
    for rows, B, _ in draw.parts():
        A[rows] = (torch.asarray(B, device=device) @ V).to(torch.float32)
    return A, lambda values: torch.asarray(values, device=device)


def on_disk(draw: Draw, path: Path) -> tb.Streamed:
    """All rows in a file, whose pages are dropped from memory."""
    shape = draw.rows, len(draw.V)
    made = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    for rows, B, _ in draw.parts():
        made[rows] = B @ draw.V.T
    made.flush()
    del made
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return tb.Streamed(path)


def measure(one: tall.Instance, given: argparse.Namespace, clock: Callable[[], float]) -> int:
    """All methods that were asked for, and a line for each."""
    print(f"{one.title}; g alone: f off by {one.control:.2f}", flush=True)
    readings = tall.Readings(one.problem.lower.matrix)
    found = {}
    for name, method in (
        ("br-svrg", tb.BregmanSVRG(given.batch)),
        ("primal-dual", tb.PrimalDual()),
    ):
        if name in given.only:
            found[name] = tall.run(one, method, given.budget, readings, clock, given.limit)
            print(f"    {name:11s} {found[name]}", flush=True)
    for name in ("exact", "auto"):
        if name in given.only:
            try:
                found[name] = tall.solved(one, name, readings, clock, given.limit, given.rtol)
                print(f"    {name:11s} {found[name]}", flush=True)
            except ValueError as refusal:
                print(f"    {name:11s} refused: {refusal}", flush=True)
    if not {"br-svrg", "primal-dual"} <= set(found):
        return 0
    shares = {name: found[name].seconds / found["primal-dual"].whole for name in found}
    for name, share in shares.items():
        print(f"{name}: {share:.2f} of primal-dual's seconds")
    asked = 0.4 if given.gib else 0.5
    return int(not shares["br-svrg"] <= asked)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--columns", type=int, default=500)
    options.add_argument("--condition", type=float, default=10.0, help="of the rows")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--device", default="", help="of PyTorch's arrays: cpu or cuda")
    options.add_argument("--gib", type=float, help="size of a file instead of --rows")
    options.add_argument("--folder", help="where the file is written; the system's if not given")
    options.add_argument(
        "--batch", type=int, help="rows in a slice, by br-svrg itself if not given"
    )
    options.add_argument("--budget", type=int, default=1_000, help="readings")
    options.add_argument("--limit", type=float, default=600.0, help="seconds for a method")
    options.add_argument("--rtol", type=float, default=1e-4, help="for exact and auto")
    every = ("br-svrg", "primal-dual", "exact", "auto")
    options.add_argument("--only", nargs="*", choices=every, default=every)
    given = options.parse_args()
    rows = given.rows if given.gib is None else int(given.gib * 2**30) // (4 * given.columns)
    draw = Draw.of(given.seed, rows, given.columns, given.condition)
    if given.gib is None:
        clock = time.process_time if given.device in ("", "cpu") else time.perf_counter
        return measure(instance(draw, *in_memory(draw, given.device)), given, clock)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        A = on_disk(draw, Path(folder) / "A.npy")
        return measure(instance(draw, A, np.asarray), given, time.perf_counter)


if __name__ == "__main__":
    sys.exit(main())
