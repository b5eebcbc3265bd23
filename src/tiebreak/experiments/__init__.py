"""Experiments: the built-in problems, and what is drawn and tabulated from them."""
