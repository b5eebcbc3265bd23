"""`make test` runs a sample of every check, `make prove` (pytest --prove) the full counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--prove", action="store_true", help="run the full counts, not a sample")


@pytest.fixture(scope="session")
def count(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """``count(sample, full)``: how many cases to run, depending on ``--prove``."""
    return lambda sample, full: full if request.config.getoption("--prove") else sample
