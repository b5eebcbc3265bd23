"""Reductions for special problems: few rows, many rows, an l1 penalty, an operator, outliers."""
