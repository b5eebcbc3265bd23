"""Chains of linear and quadratic levels, solved and proved in exact rational arithmetic."""

from tiebreak.rational.chain import certificate, solve_exactly

__all__ = ["certificate", "solve_exactly"]
