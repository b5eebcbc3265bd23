"""The sizes up to which matrices are made dense and factorised by default.

The limits count entries, sides and products, never seconds, so answers do not depend on the
machine.
"""

from __future__ import annotations

import math

DENSE_LIMIT = 2**23  # entries of a matrix that may be factorised, copied or made dense as a whole
DENSE_SIDE = math.isqrt(DENSE_LIMIT)  # side of the largest square matrix within DENSE_LIMIT
SMALL_SIDE = 256  # up to this side, eigenvalues and singular values take milliseconds
QUICK_SIDE = 512  # up to this side, a spectrum costs less than a linear program or a Lanczos bound
SIDE = 1024  # up to this side, an n x n factorisation takes a fraction of a second
LARGE_SIDE = 2048  # up to this side, a whole spectrum takes seconds, for callers that ask for it
SECOND = 2**29  # multiplications that dense linear algebra performs in about a second
