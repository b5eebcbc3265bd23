"""Facts about methods as data, from which tables, rate tests and bibliographies are made."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

Error = Literal["f above", "|f|", "g"]

BOUNDED = "Z bounded"
ORDER_1 = "weak sharpness of g"
ORDER_2 = "quadratic growth of g"


class Rate(NamedTuple):
    """A published rate: an error that decreases like k^-exponent, up to logarithms.

    Examples:
        >>> tb.AGMBiO.rates[0].exponent
        2.0
        >>> print(tb.AGMBiO.rates[1])
        g - g*: k^-1 (Z bounded)
    """

    error: Error  # f - f* from above, |f - f*|, or g - g*
    exponent: float
    assuming: str = ""  # an assumption besides those of the method
    at: str = ""  # the point with this rate, unless it is the method's answer

    def __str__(self) -> str:
        words = {"f above": "f - f*", "|f|": "|f - f*|", "g": "g - g*"}[self.error]
        more = ", ".join(part for part in (self.assuming, self.at and f"at {self.at}") if part)
        return f"{words}: k^-{self.exponent:.3g}" + (f" ({more})" if more else "")


def bibtex(keys: Iterable[str]) -> str:
    """Return the entries of field.bib with these keys; return all other strings unchanged."""
    return "\n".join(_bibliography().get(key, key) for key in keys)


@cache
def _bibliography() -> dict[str, str]:
    """Return the entries of field.bib by key; each line of the file is an entry."""
    text = files("tiebreak.algorithms").joinpath("field.bib").read_text(encoding="utf-8")
    return {line.split("{", 1)[1].split(",", 1)[0]: line for line in text.splitlines() if line}
