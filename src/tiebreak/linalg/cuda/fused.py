"""Everything a step needs from a dense matrix on an NVIDIA GPU, computed in one data pass.

A step needs the images ``A x`` of a few points, their losses, and the gradients ``A' w`` at some of
these points. With plain calls, every product reads ``A`` from memory again, and on a GPU these
reads take nearly all of the time. But the weight of a row in the gradient depends only on the
images of that row:

    row a_i  ->  a_i · p  ->  images  ->  weights w_i  ->  G += w_i a_i,

so one reading is enough if the row stays in shared memory until its weight is known. `sweep`
computes a step with a CUDA kernel, which is compiled at run time, for PyTorch tensors and CuPy
arrays; `applies` says which matrices it can handle. For other matrices a loss uses plain calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from tiebreak.linalg.arrays import Array, namespace
from tiebreak.linalg.cuda.kernel import (
    MAX_ASKED,
    MAX_CARRIED,
    MAX_FRESH,
    MAX_SLOPES,
    Job,
    kernel_for,
)
from tiebreak.linalg.cuda.tiling import contiguous, current_stream, pointer, tiling_for

WORTHWHILE_ROW = 4096  # bytes: with shorter rows, the kernel waits for barriers, not for memory
WORTHWHILE_MATRIX = 2**25  # bytes: launching takes longer than reading a smaller matrix


class PassResult(NamedTuple):
    """The result of one pass over A, with all arrays on the device of A."""

    images: Array  # J x m: i_j = Σ_k recipe[j, k] carried_k + Σ_l recipe[j, K + l] A p_l
    products: Array  # len(fresh) x m: A p_l
    losses: Array  # J numbers in float64: Σ ½ (i_j - b)², or Σ log(1 + exp(-y i_j))
    gradients: Array  # slopes x n: A' w_j, w_j = i_j - b, or -y / (1 + exp(y i_j))


def applies(A: Array) -> bool:
    """Can `sweep` read A, and is A large enough for `sweep` to be faster than plain calls?

    A must be a row-major float32 or float64 matrix of PyTorch or CuPy, on a Hopper GPU or newer.
    Its rows must fit into the registers and the shared memory of eight multiprocessors, and NVRTC
    must compile the kernel, which takes a second for each new row length.
    """
    try:
        m, n = A.shape
        size = int(n) * int(A.dtype.itemsize)
        if size < WORTHWHILE_ROW or size * int(m) < WORTHWHILE_MATRIX:
            return False
        tiling = tiling_for(A)
        with current_stream(A):
            kernel_for(tiling, 1, 1)
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError):
        return False
    return True


def fits(fresh: int, carried: int, asked: int, slopes: int) -> bool:
    """Can one `sweep` handle this many products, images and slopes?"""
    is_read = fresh <= MAX_FRESH and carried <= MAX_CARRIED
    return is_read and asked <= MAX_ASKED and slopes <= MAX_SLOPES


def sweep(
    A: Array,
    fresh: Sequence[Array],
    carried: Sequence[Array],
    recipe: Any,
    target: Array,
    kind: str,
    slopes: int,
    scale: float = 1.0,
) -> PassResult:
    """Compute images, products, losses and gradients in one pass over A: see `PassResult`.

    - ``fresh``: one or two new points (length n).
    - ``carried``: up to three known images (length m).
    - ``recipe``: J x (K + len(fresh)) coefficients on the host: each of the J <= 4 images is a
      combination of the K carried images and of the products with the new points.
    - ``target``: the vector b, or labels y of -1 and 1.
    - ``slopes``: 0, 1 or 2; for the first ``slopes`` images, ``scale`` times the gradient is
      computed.

    Everything is queued on the library's current stream, and nothing waits for the device. The
    result is the same in every run: sums are added in a fixed order, without atomics.
    """
    _check(A, fresh, (*carried, target))
    weights = np.asarray(recipe, dtype=np.float64)
    tiling = tiling_for(A)
    xp = namespace(A)
    device = array_api_compat.device(A)
    m, n = (int(k) for k in A.shape)
    with current_stream(A) as stream:
        kernel = kernel_for(tiling, len(fresh), slopes)
        # Make the vectors contiguous, and keep these arrays alive until the kernel is queued.
        points, known = [contiguous(p, A) for p in fresh], [contiguous(c, A) for c in carried]
        goal = contiguous(target, A)
        asked = len(weights)
        teams = max(1, min(kernel.teams, m))
        # Allocate few arrays, because each allocation costs the host some microseconds.
        long = xp.empty((asked + len(fresh), m), dtype=A.dtype, device=device)
        images, products = long[:asked, :], long[asked:, :]
        gradients = xp.empty((slopes, n), dtype=A.dtype, device=device)
        sums = xp.empty(asked * (1 + teams) + teams * slopes * n, dtype=xp.float64, device=device)
        losses = sums[:asked]
        team_losses = pointer(sums) + 8 * asked
        team_gradients = team_losses + 8 * asked * teams
        job = Job(rows=m, columns=n, carried=len(known), asked=asked, teams=teams, scale=scale)
        job.matrix, job.target, job.logistic = pointer(A), pointer(goal), kind == "logistic"
        job.images, job.products = pointer(images), pointer(products)
        job.losses, job.gradients = team_losses, team_gradients
        job.all_losses, job.all_gradients = pointer(losses), pointer(gradients)
        job.fresh[: len(points)] = [pointer(p) for p in points]
        job.known[: len(known)] = [pointer(c) for c in known]
        for j, row in enumerate(weights):
            job.recipe[j][: len(known)] = row[: len(known)].tolist()
            job.recipe[j][MAX_CARRIED : MAX_CARRIED + len(points)] = row[len(known) :].tolist()
        kernel(job, stream)
    return PassResult(images, products, losses, gradients)


def _check(A: Array, points: Sequence[Array], images: Sequence[Array]) -> None:
    """Raise ValueError if a vector does not fit A: the kernel would read out of bounds."""
    m, n = A.shape
    fits = all(tuple(p.shape) == (n,) for p in points) and all(
        tuple(v.shape) == (m,) for v in images
    )
    if not fits or any(v.dtype != A.dtype for v in (*points, *images)):
        needed = f"points of length {n} and images and a target of length {m}"
        raise ValueError(f"sweep: all vectors must have the dtype of the matrix, {needed}")
