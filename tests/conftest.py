"""`make test` runs a sample of every check, `make prove` (pytest --prove) the full counts."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable

import pytest

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
# These begin: what starts Ray or a browser stays in one process, which starts it once, and nobody
# waits at the end for a test that takes long. (Work is taken from the end of a process's list.)
FIRST = (
    "tests/distributed/",
    "tests/display/test_page_in_chromium.py",
    "tests/truth/test_truth.py",
    "tests/experiments/test_reproduce.py::test_every_row",
    "tests/driver/test_solve.py::test_killed",
    "tests/driver/test_statuses.py::test_the_guard",
)


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
    gc.disable()  # thousands of tests are collected, and none of them is garbage
    config.addinivalue_line("markers", "full: a case that only --prove runs, others are the sample")
    config.addinivalue_line("markers", "sample(n): one case in n of this test; --prove runs all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _turn(item.nodeid))
    if config.getoption("--prove"):
        return
    seen: Counter[str] = Counter()
    kept, others = [], []
    for item in items:
        sample = item.get_closest_marker("sample")
        test = item.nodeid.split("[")[0]
        # By multiples of the golden ratio: cases of every parameter are met about equally often,
        # where each n-th case could always have the same value of one of them.
        left_out = sample is not None and seen[test] * GOLDEN % 1.0 >= 1.0 / sample.args[0]
        seen[test] += 1
        (others if left_out or item.get_closest_marker("full") else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=others)


def _turn(nodeid: str) -> int:
    return next((i for i, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


def pytest_collection_finish() -> None:
    gc.freeze()  # nor do later collections look through them again
    gc.enable()


@pytest.fixture(scope="session")
def count(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """``count(sample, full)``: how many cases to run, depending on ``--prove``."""
    return lambda sample, full: full if request.config.getoption("--prove") else sample
