"""Convex sets: projections, projections with a cut, linear minimisation."""

from tiebreak.sets.balls import Ball
from tiebreak.sets.base import INFINITY, Domain, Set
from tiebreak.sets.boxes import Box, Orthant
from tiebreak.sets.constraints import Intersection, SecondOrderCone, intersection
from tiebreak.sets.cuts import Products
from tiebreak.sets.descriptions import (
    ActiveFace,
    Bounds,
    LinearRows,
    RecessionDirections,
    room_along,
)
from tiebreak.sets.domains import Halfspace, Space
from tiebreak.sets.lmo import argmin_cut
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.polyhedra import Polyhedron
from tiebreak.sets.simplices import L1Ball, Simplex

__all__ = [
    "INFINITY",
    "ActiveFace",
    "Ball",
    "Bounds",
    "Box",
    "Domain",
    "Halfspace",
    "Intersection",
    "L1Ball",
    "LinearRows",
    "Monotone",
    "Orthant",
    "Polyhedron",
    "Products",
    "RecessionDirections",
    "SecondOrderCone",
    "Set",
    "Simplex",
    "Space",
    "argmin_cut",
    "intersection",
    "room_along",
]
