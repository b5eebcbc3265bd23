"""tiebreak: choose the best among ties.

Minimises an upper objective f over *all minimisers* of a lower objective g on a convex set,
and proves how close the answer is.

    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    print(tb.solve(problem))
"""

from tiebreak.algorithms import (
    AIRG,
    DBGD,
    FIBA,
    IRCG,
    IREAPG,
    IREPG,
    IRFSCG,
    IRSCG,
    MNG,
    PBAPG,
    RAPM,
    RVFISTA,
    SBCGF,
    SEA,
    SEDM,
    AdaBiM,
    AdaptiveAGMBiO,
    AGMBiO,
    BiFISTA,
    BiGSAM,
    BiPG,
    BisecBiO,
    BiSG,
    BregmanSVRG,
    CGBiO,
    Diagonal,
    FBiPG,
    FCBiO,
    FixedLevels,
    GivenLevels,
    LevelNewton,
    OnlineLevels,
    PAGMBiO,
    PrimalDual,
    StaBiM,
    Tikhonov,
)
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.catalog.built import Answer
from tiebreak.catalog.instances import instance, instances
from tiebreak.conic.method import Conic
from tiebreak.driver.certify import certify
from tiebreak.driver.levels_result import LevelReport, LevelsResult
from tiebreak.driver.minimize import minimize
from tiebreak.driver.registry import methods, register
from tiebreak.driver.result import Result
from tiebreak.driver.solve import solve
from tiebreak.driver.trace import Trace
from tiebreak.driver.tradeoff import Tradeoff, tradeoff
from tiebreak.exact.method import Exact
from tiebreak.experiments.compare import Comparison, compare
from tiebreak.functions import (
    L1,
    L2,
    ElasticNet,
    GroupL2,
    Hinge,
    Huber,
    Indicator,
    LeastSquares,
    Linear,
    LInf,
    Logistic,
    Multinomial,
    NuclearNorm,
    Poisson,
    Quadratic,
    Quantile,
    Smooth,
    SquaredHinge,
    SquaredNorm,
    TotalVariation,
    Zero,
)
from tiebreak.levels import Level, Levels, Slack
from tiebreak.linalg import Streamed
from tiebreak.modelling import LinearModel, from_cvxpy, read_model, register_cvxpy
from tiebreak.problem import ErrorBound, Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.saving import load
from tiebreak.sets import (
    Ball,
    Box,
    Halfspace,
    Intersection,
    L1Ball,
    Monotone,
    Orthant,
    Polyhedron,
    SecondOrderCone,
    Simplex,
    Space,
)

__version__ = "0.2.0"

__all__ = [
    "AIRG",
    "DBGD",
    "FIBA",
    "IRCG",
    "IREAPG",
    "IREPG",
    "IRFSCG",
    "IRSCG",
    "L1",
    "L2",
    "MNG",
    "PBAPG",
    "RAPM",
    "RVFISTA",
    "SBCGF",
    "SEA",
    "SEDM",
    "AGMBiO",
    "AdaBiM",
    "AdaptiveAGMBiO",
    "Answer",
    "Ball",
    "BiFISTA",
    "BiGSAM",
    "BiPG",
    "BiSG",
    "BisecBiO",
    "Box",
    "BregmanIteration",
    "BregmanSVRG",
    "CGBiO",
    "Certificate",
    "Comparison",
    "Conic",
    "Diagonal",
    "ElasticNet",
    "ErrorBound",
    "Exact",
    "FBiPG",
    "FCBiO",
    "FixedLevels",
    "GivenLevels",
    "GroupL2",
    "Halfspace",
    "Hinge",
    "Huber",
    "Indicator",
    "Intersection",
    "L1Ball",
    "LInf",
    "LeastSquares",
    "Level",
    "LevelNewton",
    "LevelReport",
    "Levels",
    "LevelsResult",
    "Linear",
    "LinearModel",
    "Logistic",
    "Monotone",
    "Multinomial",
    "NuclearNorm",
    "OnlineLevels",
    "Orthant",
    "PAGMBiO",
    "Poisson",
    "Polyhedron",
    "PrimalDual",
    "Problem",
    "Quadratic",
    "Quantile",
    "Result",
    "SecondOrderCone",
    "Simplex",
    "Slack",
    "Smooth",
    "Space",
    "SquaredHinge",
    "SquaredNorm",
    "StaBiM",
    "Streamed",
    "Tikhonov",
    "TotalVariation",
    "Trace",
    "Tradeoff",
    "Zero",
    "certify",
    "compare",
    "from_cvxpy",
    "instance",
    "instances",
    "load",
    "methods",
    "minimize",
    "read_model",
    "register",
    "register_cvxpy",
    "solve",
    "tradeoff",
]


def __dir__() -> list[str]:
    """Return the public names, without the subpackages that imports have bound here."""
    return [*__all__, "__version__"]
