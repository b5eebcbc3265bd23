"""Chains of linear and quadratic levels, solved in rational arithmetic and proved to all digits."""

from tiebreak.rational.chain import certificate, solve_exactly

__all__ = ["certificate", "solve_exactly"]
