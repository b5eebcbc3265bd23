"""tiebreak: choose the best among ties.

Minimises an upper objective f over *all minimisers* of a lower objective g on a convex set,
and proves how close the answer is.

    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    print(tb.solve(problem))
"""

from tiebreak.catalog.instances import instance, instances
from tiebreak.driver.certify import certify
from tiebreak.driver.minimize import minimize
from tiebreak.driver.registry import (
    AIRG,
    PBAPG,
    RAPM,
    SEA,
    AdaptiveAGMBiO,
    AGMBiO,
    BisecBiO,
    BiSG,
    CGBiO,
    Exact,
    FixedLevels,
    GivenLevels,
    OnlineLevels,
    PAGMBiO,
    methods,
)
from tiebreak.driver.result import Result, Trace
from tiebreak.driver.solve import solve
from tiebreak.experiments.compare import Comparison, compare
from tiebreak.experiments.race import Answer
from tiebreak.functions.base import Linear, Smooth, SquaredNorm
from tiebreak.functions.losses import LeastSquares, Logistic, Quadratic
from tiebreak.functions.penalties import L1, L2, ElasticNet, GroupL2, Indicator, Zero
from tiebreak.linalg.streams import Streamed
from tiebreak.problem import ErrorBound, Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.sets.domains import Ball, Box, Halfspace, L1Ball, Monotone, Orthant, Simplex, Space

__version__ = "0.1.0"

__all__ = [
    "AIRG",
    "L1",
    "L2",
    "PBAPG",
    "RAPM",
    "SEA",
    "AGMBiO",
    "AdaptiveAGMBiO",
    "Answer",
    "Ball",
    "BiSG",
    "BisecBiO",
    "Box",
    "CGBiO",
    "Certificate",
    "Comparison",
    "ElasticNet",
    "ErrorBound",
    "Exact",
    "FixedLevels",
    "GivenLevels",
    "GroupL2",
    "Halfspace",
    "Indicator",
    "L1Ball",
    "LeastSquares",
    "Linear",
    "Logistic",
    "Monotone",
    "OnlineLevels",
    "Orthant",
    "PAGMBiO",
    "Problem",
    "Quadratic",
    "Result",
    "Simplex",
    "Smooth",
    "Space",
    "SquaredNorm",
    "Streamed",
    "Trace",
    "Zero",
    "certify",
    "compare",
    "instance",
    "instances",
    "methods",
    "minimize",
    "solve",
]
