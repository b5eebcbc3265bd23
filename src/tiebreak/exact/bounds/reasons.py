"""Why f* is not proved from above, where it is not: sentences for the report."""

NO_RANK = (
    "the rank of the equations that all lower minimisers share is not proved, "
    "so that nothing bounds the distance to them"
)
NO_SLATER = (
    "some constraints hold with equality on all lower minimisers, or nearly so, though the slope "
    "of g does not force them (no strict complementarity): nothing bounds the distance to them"
)
TOO_FAR = "x is not close enough to a lower minimiser for a proof of how close it is"
NOT_CONVEX = "a quadratic form is convex up to rounding only"
VANISHED = "some losses have no curvature left at x, relative to rounding"
NO_SPAN = "outliers alone see some directions of the lower minimisers: nothing bounds the distance"
DEGENERATE = (
    "constraints that hold with equality at x, or nearly so, depend on one another: "
    "that they have a point in common is not proved"
)
