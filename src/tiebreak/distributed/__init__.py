"""Least squares and logistic regression whose rows live in Ray workers, on one machine or many."""

from tiebreak.distributed.losses import LeastSquares, Logistic

__all__ = ["LeastSquares", "Logistic"]
