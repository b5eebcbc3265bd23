"""The benchopt benchmark measures the same errors as the race."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

# Not "benchopt": a test that puts benchmarks/ on the path makes our folder of that name importable.
pytest.importorskip("benchopt.base", reason="benchopt is not installed")

FOLDER = Path(__file__).parents[2] / "benchmarks" / "benchopt"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, FOLDER / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_primal_dual_solves_the_toy_and_agm_bio_is_skipped_on_a_penalty() -> None:
    dataset, objective = load("datasets/instance.py").Dataset, load("objective.py").Objective
    solver = load("solvers/method.py").Solver
    toy, measured = dataset.get_instance(instance="toy", seed=0), objective.get_instance()
    measured.set_data(**toy.get_data())
    known = measured.get_objective()
    method = solver.get_instance(method="primal-dual")
    assert not method.skip(**known)[0]
    method.set_objective(**known)
    method.run(300)
    assert measured.evaluate_result(**method.get_result())["value"] < 1e-6
    measured.set_data(**dataset.get_instance(instance="nemirovsky", seed=0).get_data())
    skips, why = solver.get_instance(method="agm-bio").skip(**measured.get_objective())
    assert skips
    assert "must be smooth" in why
