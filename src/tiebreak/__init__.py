"""tiebreak: choose the best among ties.

Minimises an upper objective f over *all minimisers* of a lower objective g on a convex set,
and proves how close the answer is.

    problem = tb.Problem(upper=f, lower=g, domain=tb.Ball(1.0))
    print(tb.solve(problem))
"""

from tiebreak.algorithms.adaptive import AdaptiveAGMBiO
from tiebreak.algorithms.agm_bio import AGMBiO
from tiebreak.algorithms.levels import FixedLevels, GivenLevels, OnlineLevels
from tiebreak.algorithms.p_agm_bio import PAGMBiO
from tiebreak.algorithms.primal_dual import PrimalDual
from tiebreak.algorithms.rivals.a_irg import AIRG
from tiebreak.algorithms.rivals.bi_sg import BiSG
from tiebreak.algorithms.rivals.bisec_bio import BisecBiO
from tiebreak.algorithms.rivals.cg_bio import CGBiO
from tiebreak.algorithms.rivals.pb_apg import PBAPG
from tiebreak.algorithms.rivals.r_apm import RAPM
from tiebreak.algorithms.rivals.sea import SEA
from tiebreak.catalog.instances import instance, instances
from tiebreak.conic.method import Conic
from tiebreak.driver.certify import certify
from tiebreak.driver.levels_result import LevelReport, LevelsResult
from tiebreak.driver.minimize import minimize
from tiebreak.driver.registry import methods
from tiebreak.driver.result import Result
from tiebreak.driver.solve import solve
from tiebreak.driver.trace import Trace
from tiebreak.driver.tradeoff import Tradeoff, tradeoff
from tiebreak.exact.method import Exact
from tiebreak.experiments.compare import Comparison, compare
from tiebreak.experiments.race import Answer
from tiebreak.functions.callables import Smooth
from tiebreak.functions.elementary import Linear, Quadratic, SquaredNorm
from tiebreak.functions.losses.huber import Huber
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.penalties.penalties import (
    L1,
    L2,
    ElasticNet,
    GroupL2,
    Indicator,
    TotalVariation,
    Zero,
)
from tiebreak.levels import Level, Levels, Slack
from tiebreak.linalg.matrices.streamed import Streamed
from tiebreak.modelling import from_cvxpy, register_cvxpy
from tiebreak.problem import ErrorBound, Problem
from tiebreak.proofs.certificate import Certificate
from tiebreak.saving import load
from tiebreak.sets.balls import Ball
from tiebreak.sets.boxes import Box, Orthant
from tiebreak.sets.constraints import Intersection, Polyhedron, SecondOrderCone
from tiebreak.sets.domains import Halfspace, Space
from tiebreak.sets.monotone import Monotone
from tiebreak.sets.simplices import L1Ball, Simplex

__version__ = "0.2.0"

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
    "Conic",
    "ElasticNet",
    "ErrorBound",
    "Exact",
    "FixedLevels",
    "GivenLevels",
    "GroupL2",
    "Halfspace",
    "Huber",
    "Indicator",
    "Intersection",
    "L1Ball",
    "LeastSquares",
    "Level",
    "LevelReport",
    "Levels",
    "LevelsResult",
    "Linear",
    "Logistic",
    "Monotone",
    "Multinomial",
    "OnlineLevels",
    "Orthant",
    "PAGMBiO",
    "Poisson",
    "Polyhedron",
    "PrimalDual",
    "Problem",
    "Quadratic",
    "Result",
    "SecondOrderCone",
    "Simplex",
    "Slack",
    "Smooth",
    "Space",
    "SquaredNorm",
    "Streamed",
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
    "register_cvxpy",
    "solve",
    "tradeoff",
]


def __dir__() -> list[str]:
    """The public names: packages that an import has bound here are not part of them."""
    return [*__all__, "__version__"]
