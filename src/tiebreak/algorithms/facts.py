"""What is known of a method, as data: tables, rate tests and bibliographies are made from it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Error = Literal["f above", "|f|", "g"]


class Rate(NamedTuple):
    """A published rate: an error that falls like k^-exponent, up to logarithms.

    Examples:
        >>> tb.AGMBiO.rates[0].exponent
        2.0
    """

    error: Error  # f - f* from above, |f - f*|, or g - g*
    exponent: float
    assuming: str = ""  # beyond what the method assumes anyway
    at: str = ""  # which point, where it is not the answer of the method
