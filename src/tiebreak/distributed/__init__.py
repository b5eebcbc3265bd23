"""Least squares and logistic regression whose rows live in Ray workers, on one machine or many."""

from tiebreak.distributed.losses import DistributedLeastSquares as LeastSquares
from tiebreak.distributed.losses import DistributedLogistic as Logistic

__all__ = ["LeastSquares", "Logistic"]
