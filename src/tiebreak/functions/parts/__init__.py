"""Functions split into parts for the exact solver: squares, quadratics, losses, linear terms."""
