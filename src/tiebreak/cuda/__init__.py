"""One reading of a dense matrix on an NVIDIA GPU for all that a step asks of it."""
