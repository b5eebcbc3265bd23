"""Models written in other languages: CVXPY's objectives in the order of their priority."""

from tiebreak.modelling.cvxpy_levels import CvxpyLevels, from_cvxpy
from tiebreak.modelling.cvxpy_solve import register_cvxpy

__all__ = ["CvxpyLevels", "from_cvxpy", "register_cvxpy"]
