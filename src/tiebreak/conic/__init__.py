"""Solves any number of levels under convex constraints with a conic solver and its own bounds."""
