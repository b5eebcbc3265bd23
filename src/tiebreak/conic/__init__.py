"""Solves any number of levels under convex constraints by a conic solver, with our own bounds."""
