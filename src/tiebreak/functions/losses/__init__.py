"""Losses of a linear map, a sum over rows: squares, logistic, multinomial, Poisson, Huber."""
