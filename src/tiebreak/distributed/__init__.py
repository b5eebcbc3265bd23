"""Losses whose rows live in Ray workers, on one machine or many.

``on_workers(loss)`` converts any loss of a linear map, including your own.
"""

from tiebreak import functions
from tiebreak.distributed.losses import on_workers

Huber = on_workers(functions.Huber)
LeastSquares = on_workers(functions.LeastSquares)
Logistic = on_workers(functions.Logistic)
Multinomial = on_workers(functions.Multinomial)
Poisson = on_workers(functions.Poisson)
SquaredHinge = on_workers(functions.SquaredHinge)

__all__ = [
    "Huber",
    "LeastSquares",
    "Logistic",
    "Multinomial",
    "Poisson",
    "SquaredHinge",
    "on_workers",
]
