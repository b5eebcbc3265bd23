"""The modules of the package as syntax trees, which one process reads once."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The tree of one file; nobody writes into it."""
    return ast.parse(text_of(path))


@functools.cache
def text_of(path: Path) -> str:
    """What is written in one file."""
    return path.read_text(encoding="utf-8")


def naming(folder: Path, *words: str) -> Iterator[tuple[Path, ast.Module]]:
    """The modules below a folder that name one of the words: to look is quicker than to parse."""
    for path in sorted(folder.rglob("*.py")):
        if any(word in text_of(path) for word in words):
            yield path, parsed(path)
