"""Models from elsewhere: CVXPY's objectives in order of priority, and linear programs in files."""

from tiebreak.modelling.cvxpy_levels import CvxpyLevels, from_cvxpy
from tiebreak.modelling.cvxpy_solve import register_cvxpy
from tiebreak.modelling.model_files import LinearModel, read_model

__all__ = ["CvxpyLevels", "LinearModel", "from_cvxpy", "read_model", "register_cvxpy"]
