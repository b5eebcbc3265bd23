"""tiebreak: choose the best among ties.

Minimises an upper objective f over *all minimisers* of a lower objective g on a convex set,
and proves how close the answer is.

    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    print(tb.solve(problem))
"""

from tiebreak.certificate import Certificate
from tiebreak.domains import (
    Ball,
    Box,
    Halfspace,
    L1Ball,
    Monotone,
    Orthant,
    Simplex,
    Space,
)
from tiebreak.experiments.compare import Comparison, compare
from tiebreak.experiments.instances import instance, instances
from tiebreak.experiments.race import Answer
from tiebreak.functions import Linear, Smooth, SquaredNorm
from tiebreak.losses import LeastSquares, Logistic, Quadratic
from tiebreak.methods import (
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
)
from tiebreak.minimize import minimize
from tiebreak.penalties import L1, L2, ElasticNet, GroupL2, Indicator, Zero
from tiebreak.problem import ErrorBound, Problem
from tiebreak.result import Result, Trace
from tiebreak.solve import certify, methods, solve
from tiebreak.streams import Streamed

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
