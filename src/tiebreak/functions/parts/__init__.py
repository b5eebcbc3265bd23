"""Functions split into parts for the exact solver: squares, forms, losses and linear terms."""
