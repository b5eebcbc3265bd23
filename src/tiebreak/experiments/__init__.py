"""Experiments on the built-in problems, with their pictures and tables."""
