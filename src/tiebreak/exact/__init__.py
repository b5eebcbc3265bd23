"""Answers by direct factorisation and active sets."""
