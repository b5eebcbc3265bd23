"""`make test` runs a sample of every check, `make prove` (pytest --prove) the full counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest


class Clock:
    """A clock that only tests move: what runs take then depends on no machine and no neighbour."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that runs look at, stopped: `clock.wait(seconds)` moves it."""
    clock = Clock()
    monkeypatch.setattr("time.perf_counter", lambda: clock.now)
    return clock


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--prove", action="store_true", help="run the full counts, not a sample")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: a case that only --prove runs, others are the sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--prove"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="only with --prove"))


@pytest.fixture(scope="session")
def count(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """``count(sample, full)``: how many cases to run, depending on ``--prove``."""
    return lambda sample, full: full if request.config.getoption("--prove") else sample
