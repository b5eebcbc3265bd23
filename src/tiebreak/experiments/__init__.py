"""Experiments on the built-in problems, with their plots and tables."""
