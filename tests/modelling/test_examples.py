"""The examples of levels run, and end in the assertions of what they claim."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("dispatch", ["cost", "CO2", "ramps"]),
        ("portfolio", ["variance", "fees", "turnover"]),
        ("robot", ["hand", "elbow", "posture"]),
    ],
)
def test_the_example_holds_what_it_claims(name, levels, capsys):
    if name == "portfolio":
        pytest.importorskip("cvxpy", reason="needs CVXPY: pip install 'tiebreak[cvxpy]'")
    result = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    assert list(result.levels) == levels
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("tiebreak: ")
    assert max(map(len, printed)) <= 100
