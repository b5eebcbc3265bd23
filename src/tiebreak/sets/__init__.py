"""Convex sets: projections, projections with a cut, linear minimisation."""

from tiebreak.sets.balls import Ball
from tiebreak.sets.boxes import Box, Orthant
from tiebreak.sets.constraints import Intersection, Polyhedron, SecondOrderCone, intersection
from tiebreak.sets.cuts import INFINITY, Products, Set
from tiebreak.sets.domains import (
    Domain,
    Halfspace,
    Space,
    distance_bound,
    has_projection,
    projected,
)
from tiebreak.sets.lmo import argmin_cut
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.simplices import L1Ball, Simplex

__all__ = [
    "INFINITY",
    "Ball",
    "Box",
    "Domain",
    "Halfspace",
    "Intersection",
    "L1Ball",
    "Monotone",
    "Orthant",
    "Polyhedron",
    "Products",
    "SecondOrderCone",
    "Set",
    "Simplex",
    "Space",
    "argmin_cut",
    "distance_bound",
    "has_projection",
    "intersection",
    "projected",
]
