"""Convex sets: projections, projections with a cut, linear minimisation."""
