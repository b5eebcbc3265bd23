"""Proofs about a computed point, rounding errors included: intervals for f* and g*."""
