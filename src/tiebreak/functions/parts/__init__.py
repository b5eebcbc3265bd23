"""Functions split into parts on the host, for the exact solver: squares, forms, losses, linear
terms.
"""
