"""Up to which sizes matrices are made dense and factorised unasked: stated once.

Counted in entries, sides and products, never in seconds: an answer does not depend on the machine.
"""

from __future__ import annotations

import math

DENSE_LIMIT = 2**23  # most entries of a matrix that is factorised, copied or made dense as a whole
DENSE_SIDE = math.isqrt(DENSE_LIMIT)  # of a square matrix that is not larger
SMALL_SIDE = 256  # a side up to which eigenvalues and singular values take milliseconds
QUICK_SIDE = 512  # a side up to which they cost less than a linear program or a bound by Lanczos
SIDE = 1024  # a side of n x n up to which a factorisation takes a fraction of a second
LARGE_SIDE = 2048  # the same for seconds, where a whole spectrum was asked for
SECOND = 2**29  # products that dense linear algebra does in about a second
