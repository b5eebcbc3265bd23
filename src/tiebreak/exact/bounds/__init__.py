"""Proved intervals for f* and g* at a computed point; the proofs account for rounding errors."""
