"""The classes that files may name, each by its keyword: reading a file creates only these.

Classes of the package are registered where they are defined. A class from outside the package is
registered with a keyword, ``class Cosh(LinearLoss, keyword="Cosh")``: objects of such a class can
be saved, and loaded once its module has been imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)

KINDS: dict[str, Any] = {}  # classes by keyword; no keyword is ever reused
KEYWORDS: dict[type, str] = {}
IN_TABLES: set[type] = set()  # classes that check their arguments, for tables of problem files


def in_files(keyword: str, in_tables: bool = False) -> Callable[[Kind], Kind]:
    """Let files name a class by this keyword; ValueError if another class has it."""

    def enter(kind: Kind) -> Kind:
        other = KINDS.get(keyword, kind)
        if (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(
                f"{kind.__name__}: keyword must be unique, got {keyword!r}, the keyword of "
                f"{other.__module__}.{other.__qualname__}"
            )
        KEYWORDS.pop(other, None)  # a redefined class, as in a notebook, replaces the old one
        KINDS[keyword] = kind
        KEYWORDS[kind] = keyword
        if in_tables:
            IN_TABLES.add(kind)
        return kind

    return enter
