"""The public names and their signatures are those of public_api.txt.

    python tests/contracts/test_public_api.py > tests/contracts/public_api.txt

after a change that users would accept, which CHANGELOG.md then names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import tiebreak as tb

RECORD = Path(__file__).with_name("public_api.txt")


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public functions and properties of a class that are ours, inherited ones too."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("tiebreak."):
            found.update(vars(base))
    yield from sorted((name, value) for name, value in found.items() if not name.startswith("_"))


def lines() -> Iterator[str]:
    """One line for each name of ``__all__``, and for each public member of a class."""
    for name in sorted(tb.__all__):
        value = inspect.getattr_static(tb, name)
        yield f"{name}{inspect.signature(value)}"
        for member, what in members(value) if isinstance(value, type) else ():
            if isinstance(what, property | cached_property):
                function: Any = what.fget if isinstance(what, property) else what.func
                yield f"{name}.{member} -> {inspect.signature(function).return_annotation}"
            elif isinstance(what, classmethod | staticmethod):
                yield f"{name}.{member}{inspect.signature(what.__func__)}"
            elif inspect.isfunction(what):
                yield f"{name}.{member}{inspect.signature(what)}"


def test_public_names_and_signatures_are_those_on_record():
    now, then = list(lines()), RECORD.read_text(encoding="utf-8").splitlines()
    missing = [line for line in then if line not in now]
    new = [line for line in now if line not in then]
    assert (missing, new) == ([], [])
    assert now == then


if __name__ == "__main__":
    print("\n".join(lines()))
