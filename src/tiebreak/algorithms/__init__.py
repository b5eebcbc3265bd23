"""The algorithms, one file per paper."""
