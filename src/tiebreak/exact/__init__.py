"""Exact answers, computed by direct factorisation and active-set methods."""
