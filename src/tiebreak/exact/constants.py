"""Relative tolerances that several modules of this package share."""

ACTIVE = 1e-12  # a constraint holds with equality if its slack is at most this share of |x|:
# a thousand units of rounding, as a few solves with triangles leave
TOUCHING = 1e-10  # the same for a point that Newton's method has found; and slopes this small are 0
PARALLEL = 1e-10  # a row of length 1 that changes by less than this along a slice is constant on it
INDEPENDENT = 1e-6  # rows further than this from all combinations of the others are independent
SAFE = 1.0 + 1e-12  # covers the rounding errors of a few products and sums of positive numbers
UNDERFLOW_ROOT = 1e-150  # the root of what underflows, in units in which g is near 1
