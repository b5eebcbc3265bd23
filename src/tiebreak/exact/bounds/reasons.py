"""Sentences for the report that say why f* is not proved from above."""

NO_RANK = (
    "the rank of the equations that all lower minimisers share is not proved, "
    "so nothing bounds the distance to them"
)
NO_SLATER = (
    "some constraints are active, or nearly so, on all lower minimisers although the slope of g "
    "does not force them (no strict complementarity): nothing bounds the distance to them"
)
TOO_FAR = "x is too far from the lower minimisers to prove how far it is"
NOT_CONVEX = "a quadratic form is convex only up to rounding"
VANISHED = "some losses have no curvature left at x, relative to rounding"
NO_SPAN = "only outliers see some directions of the lower minimisers: nothing bounds the distance"
DEGENERATE = (
    "constraints that are active at x, or nearly so, are dependent: "
    "it is not proved that they have a common point"
)
