"""Losses of a linear map, summed over rows: squares, logistic, multinomial, Poisson, Huber."""
