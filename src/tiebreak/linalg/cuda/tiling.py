"""Chooses, for a matrix, how threads share the columns and how many rows are buffered."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import array_api_compat

from tiebreak.linalg.arrays import Array
from tiebreak.linalg.cuda.driver import device_limits

# Each choice has three numbers: workers per block; the most entries of a row per worker, whose
# registers hold these entries of two points and two sums; and blocks per multiprocessor. Few
# workers with many columns each are faster than many workers with few columns; if rows are short,
# several blocks hide each other's barriers.
BLOCK_SIZES = ((96, 12, 4), (224, 12, 2), (224, 24, 1))


class Tiling(NamedTuple):
    """The parameters for compiling and launching the kernel for one kind of matrix."""

    device: int
    arch: str
    itemsize: int  # bytes of an entry: 4 or 8
    copy: int  # bytes of one asynchronous copy: 16 if the rows are aligned to 16 bytes
    threads: int  # workers of a block
    items: int  # copies per worker and row
    blocks: int  # blocks per multiprocessor
    cluster: int  # blocks that share a row
    slots: int  # rows in shared memory
    lag: int  # turns between multiplying a row and adding it to the gradients
    teams: int  # number of clusters, as many as the multiprocessors can hold
    shared: int  # bytes of shared memory that a block needs for rows


def tiling_for(A: Array) -> Tiling:
    """The tiling for the matrix A; ValueError if no tiling fits."""
    device = device_of(A)
    return _tiling(device, int(A.dtype.itemsize), int(A.shape[1]), pointer(A) % 16)


@lru_cache
def _tiling(device: int, itemsize: int, n: int, offset: int) -> Tiling:
    """The tiling for rows of n entries that start ``offset`` bytes after a multiple of 16."""
    copy = next(k for k in (16, 8, 4) if offset % k == 0 and n * itemsize % k == 0)
    threads, items, blocks, cluster = split_row(n, copy // itemsize)
    major, minor, multiprocessors, most = device_limits(device)
    if major < 9:
        raise ValueError("clusters of blocks need a Hopper GPU or a newer one")
    # In every block, 1 KiB belongs to the system and the dot products take up to 8 KiB.
    room = (most + 1024) // blocks - 9 * 1024
    # Buffering more than 8 rows would not make the kernel faster.
    row = items * threads * copy
    slots = min(8, room // row)
    if slots < 4:
        raise ValueError("the shared memory is too small")
    teams = multiprocessors * blocks // cluster
    # If more than two blocks share a row, they take longer to exchange results, so the lag is one
    # turn longer if enough rows fit.
    lag = 3 if cluster > 2 and slots > 5 else 2
    return Tiling(
        device, f"sm_{major}{minor}", itemsize, copy, threads, items, blocks, cluster, slots, lag,
        teams, slots * row,
    )  # fmt: skip


def split_row(n: int, wide: int) -> tuple[int, int, int, int]:
    """`Tiling`'s threads, items, blocks and cluster, for n columns and ``wide`` entries per copy.

    Raise ValueError if no choice fits.
    """
    for cluster in (1, 2, 4, 8):
        copies = -(-n // (cluster * wide))
        for threads, most, blocks in BLOCK_SIZES:
            items = -(-copies // threads)
            if items * wide <= most and (cluster == 1 or blocks == 1):
                return threads, max(1, items), blocks, cluster
    raise ValueError(f"rows of {n} entries are too long")


def device_of(A: Array) -> int:
    """The number of the GPU that holds A; ValueError if the kernel cannot read A there."""
    if array_api_compat.is_torch_array(A):
        good = A.is_cuda and A.is_contiguous() and sys.modules["torch"].version.hip is None
        device = A.get_device()
    elif array_api_compat.is_cupy_array(A):
        good, device = A.flags.c_contiguous, A.device.id
    else:
        good, device = False, 0
    # PyTorch calls its dtypes "torch.float32".
    if not good or A.ndim != 2 or not str(A.dtype).endswith(("float32", "float64")):
        raise ValueError("A is not a row-major float32 or float64 matrix on an NVIDIA GPU")
    return int(device)


@contextlib.contextmanager
def current_stream(A: Array) -> Iterator[int]:
    """Make the device of A current and return its current stream."""
    if array_api_compat.is_torch_array(A):
        cuda, device = sys.modules["torch"].cuda, A.get_device()
        with cuda.device(device):
            yield cuda.current_stream(device).cuda_stream
    else:
        with A.device:
            yield sys.modules["cupy"].cuda.get_current_stream().ptr


def pointer(x: Array) -> int:
    """The address of the data of a PyTorch or CuPy array."""
    return int(x.data_ptr() if hasattr(x, "data_ptr") else x.data.ptr)


def contiguous(x: Array, A: Array) -> Array:
    """The vector x, on the device of A, with contiguous entries; copied only if needed."""
    if type(x) is not type(A) or x.device != A.device:
        raise ValueError("all vectors must be on the device of the matrix")
    return x.contiguous() if hasattr(x, "contiguous") else sys.modules["cupy"].ascontiguousarray(x)
