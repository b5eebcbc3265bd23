"""Bounds on f* and g* from minorants; knows no method."""
