"""The example runs, and its claim holds: the choice gains on data that nobody has seen."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_choice_by_validation_data_gains(capsys):
    example = Path(__file__).parents[2] / "examples" / "estimators.py"
    errors = runpy.run_path(str(example))["main"]()
    assert errors["validation"] < errors["norm"]
    assert abs(errors["norm"] - errors["LinearRegression"]) < 1e-6 * errors["norm"]
    assert "proved: True" in capsys.readouterr().out
