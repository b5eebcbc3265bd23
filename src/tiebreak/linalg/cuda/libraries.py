"""Arrays of PyTorch and CuPy on a GPU: their device, their stream, their addresses."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import array_api_compat

from tiebreak.linalg.arrays import Array


def device_of(A: Array) -> int:
    """The number of the GPU that holds A; ValueError if the kernel cannot read A there."""
    if array_api_compat.is_torch_array(A):
        good = A.is_cuda and A.is_contiguous() and sys.modules["torch"].version.hip is None
        device = A.get_device()
    elif array_api_compat.is_cupy_array(A):
        good, device = A.flags.c_contiguous, A.device.id
    else:
        good, device = False, 0
    if not good or A.ndim != 2 or dtype_name(A) not in ("float32", "float64"):
        raise ValueError("A is no row-major float32 or float64 matrix on an NVIDIA GPU")
    return int(device)


def dtype_name(x: Array) -> str:
    """The dtype as NumPy calls it: PyTorch says "torch.float32"."""
    return str(x.dtype).rpartition(".")[2]


@contextlib.contextmanager
def current_stream(A: Array) -> Iterator[int]:
    """Makes the device of A the current one; gives its current stream."""
    if array_api_compat.is_torch_array(A):
        cuda, device = sys.modules["torch"].cuda, A.get_device()
        with cuda.device(device):
            yield cuda.current_stream(device).cuda_stream
    else:
        with A.device:
            yield sys.modules["cupy"].cuda.get_current_stream().ptr


def pointer(x: Array) -> int:
    """The address of an array of either library."""
    return int(x.data_ptr() if hasattr(x, "data_ptr") else x.data.ptr)


def contiguous(x: Array, A: Array) -> Array:
    """A vector of the library of A with its entries side by side; a copy only if they are not."""
    if type(x) is not type(A) or x.device != A.device:
        raise ValueError("all vectors are on the device of the matrix")
    return x.contiguous() if hasattr(x, "contiguous") else sys.modules["cupy"].ascontiguousarray(x)
