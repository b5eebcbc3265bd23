"""Bounds on f* and g* from minorants; independent of any method."""
