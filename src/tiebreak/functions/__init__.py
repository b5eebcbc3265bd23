"""What levels are made of: smooth functions, and penalties with their prox and conic forms."""

from tiebreak.functions.base import (
    Function,
    Minorant,
    PendingEvaluation,
    PointWithImage,
    SmoothFunction,
    Squares,
)
from tiebreak.functions.callables import Smooth
from tiebreak.functions.elementary import Flat, Linear, SquaredNorm
from tiebreak.functions.losses.clipped import Huber, SquaredHinge
from tiebreak.functions.losses.least_squares import LeastSquares
from tiebreak.functions.losses.linear_loss import LinearLoss, has_slices
from tiebreak.functions.losses.logistic import Logistic
from tiebreak.functions.losses.multinomial import Multinomial
from tiebreak.functions.losses.poisson import Poisson
from tiebreak.functions.parts.parts import Parts, Slope, decompose
from tiebreak.functions.parts.quadratic_parts import LeastSquaresPart, LinearPart, QuadraticPart
from tiebreak.functions.penalties.composite import Composite, split
from tiebreak.functions.penalties.groups import Groups
from tiebreak.functions.penalties.joint_prox import Joint, joint
from tiebreak.functions.penalties.largest_entry import LInf
from tiebreak.functions.penalties.nuclear import NuclearNorm
from tiebreak.functions.penalties.operator_terms import OperatorTerms
from tiebreak.functions.penalties.penalties import (
    L1,
    L2,
    ElasticNet,
    GroupL2,
    Indicator,
    Penalty,
    PenaltySum,
    TotalVariation,
    Zero,
)
from tiebreak.functions.penalties.row_penalties import Hinge, Quantile
from tiebreak.functions.penalties.terms import Terms
from tiebreak.functions.quadratic import Quadratic
from tiebreak.functions.substitution import Substitution
from tiebreak.functions.sums import Scaled, Sum, images_of, matrices_of, summands

__all__ = [
    "L1",
    "L2",
    "Composite",
    "ElasticNet",
    "Flat",
    "Function",
    "GroupL2",
    "Groups",
    "Hinge",
    "Huber",
    "Indicator",
    "Joint",
    "LInf",
    "LeastSquares",
    "LeastSquaresPart",
    "Linear",
    "LinearLoss",
    "LinearPart",
    "Logistic",
    "Minorant",
    "Multinomial",
    "NuclearNorm",
    "OperatorTerms",
    "Parts",
    "Penalty",
    "PenaltySum",
    "PendingEvaluation",
    "PointWithImage",
    "Poisson",
    "Quadratic",
    "QuadraticPart",
    "Quantile",
    "Scaled",
    "Slope",
    "Smooth",
    "SmoothFunction",
    "SquaredHinge",
    "SquaredNorm",
    "Squares",
    "Substitution",
    "Sum",
    "Terms",
    "TotalVariation",
    "Zero",
    "decompose",
    "has_slices",
    "images_of",
    "joint",
    "matrices_of",
    "split",
    "summands",
]
