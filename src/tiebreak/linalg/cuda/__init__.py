"""Everything a step needs from a dense matrix on an NVIDIA GPU, computed in one data pass.

- `fused` says what a step needs and when the kernel applies.
- `tiling` chooses the kernel's parameters for a matrix.
- `kernel` compiles and launches ``fused.cu``.
- `driver` calls CUDA's driver and its run-time compiler.

None of these modules imports a GPU library.
"""

from tiebreak.linalg.cuda.fused import PassResult, applies, fits, sweep
from tiebreak.linalg.cuda.kernel import MAX_ASKED, MAX_CARRIED, MAX_FRESH, MAX_SLOPES

__all__ = [
    "MAX_ASKED",
    "MAX_CARRIED",
    "MAX_FRESH",
    "MAX_SLOPES",
    "PassResult",
    "applies",
    "fits",
    "sweep",
]
