"""The modules of the package as syntax trees, which one process reads once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def parsed(path: Path) -> ast.Module:
    """The tree of one file; nobody writes into it."""
    return ast.parse(path.read_text(encoding="utf-8"))
