"""The race on real data: independent references, and lines that tell right from wrong."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "race"))

import real
import real_problems
import references
from extended import Unclear
from real_data import Absent, Data, table
from real_spec import DOMAINS, Level, Spec, value, violation

rng = np.random.default_rng(0)
A = np.column_stack([rng.integers(0, 5, (9, 3)), np.ones(9), 1000.0 * np.ones(9)])
b = rng.integers(-3, 4, 9).astype(float)
SIZES: dict[str, tuple[Any, ...]] = {
    "Ball": (0.2,),
    "Box": (-0.1, 0.3),
    "Simplex": (1.0,),
    "L1Ball": (0.1,),
    "Halfspace": (np.arange(1.0, 6.0), -0.5),
}


def tiny(domain: str = "Space", loss: str = "squares", upper: Level | None = None) -> Spec:
    target = b if loss == "squares" else np.where(np.arange(9) % 2 == 0, 1.0, -1.0)
    above = upper or Level("norm", None, np.ones(5))
    return Spec("tiny", "", Level(loss, A, target), above, domain, SIZES.get(domain, ()))


def test_the_references_know_nothing_of_tiebreak():
    folder = Path(references.__file__).parent
    for name in ("references", "extended", "real_spec"):
        found = re.findall(r"^\s*(?:from|import) (\w+)", (folder / f"{name}.py").read_text(), re.M)
        assert set(found) <= {*sys.stdlib_module_names, "numpy", "scipy", "extended", "real_spec"}


def test_the_reference_on_the_whole_space_is_the_least_squares_solution_nearest_to_the_centre():
    found = references.reference(tiny())
    near = 1.0 + np.linalg.pinv(A) @ (b - A @ np.ones(5))
    assert found.ties == 1
    assert found.f == pytest.approx(float(np.sum((near - 1.0) ** 2)) / 2, rel=1e-9)
    assert found.g == pytest.approx(float(np.sum((A @ near - b) ** 2)) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("domain", "loss"), [*((domain, "squares") for domain in DOMAINS), ("Ball", "logistic")]
)
def test_auto_meets_the_reference_on_every_domain(domain: str, loss: str) -> None:
    spec = tiny(domain, loss)
    line = real.by_tiebreak(real.entry_of(spec, references.reference(spec)), "auto", real.Rules())
    assert line.is_met
    assert line.is_right
    assert not line.wrong


def test_the_reference_sees_that_there_is_no_minimum():
    assert references.reference(tiny(upper=Level("linear", None, np.ones(5)))).status == "unbounded"
    separable = Spec("s", "", Level("logistic", A, np.ones(9)), Level("norm"))
    assert references.reference(separable).status == "unbounded"


def test_a_rank_that_nobody_knows_gives_no_reference():
    close = A.copy()
    close[0, 3] += 1e-11
    with pytest.raises(Unclear, match="rank"):
        references.reference(Spec("close", "", Level("squares", close, b), Level("norm")))


def test_a_success_with_a_wrong_answer_is_found():
    spec = tiny("Ball")
    entry = real.entry_of(spec, references.reference(spec))
    start = references.start_of(spec)
    false = SimpleNamespace(status="certified", success=True, x=start, tolerance=(1e-6, 1e-6))
    assert "off by" in real.fault(entry, false)
    assert "there is a minimum" in real.fault(entry, SimpleNamespace(status="unbounded"))
    assert not real.fault(entry, SimpleNamespace(status="max_time", success=False))
    assert violation(spec, 2.0 * np.ones(5)) > 1.0
    assert value(spec.lower, start) == pytest.approx(b @ b / 2)


def test_problems_whose_data_are_absent_are_skipped_with_a_sentence(capsys: Any) -> None:
    assert not list(real.entries(Data(None), ["a1a-squares-norm-Space"]))
    assert "needs a1a.svm in the folder of --data" in capsys.readouterr().out
    with pytest.raises(Absent):
        real_problems.fixed(Data(Path("nowhere")), "covid-squares-l1-Space")


def test_every_problem_with_its_table_has_a_reference_or_was_dropped() -> None:
    assert set(real.kept()) == set(real_problems.names())
    posed = real_problems.posed("p", table(A, b), "squares", "validation", "Halfspace", 0.5)
    assert posed.rows == 5
    assert posed.upper.A.shape == (4, 5)


def test_the_command_line(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr(real, "IMPORTED", ())
    only = ["--only", "iris-squares-norm-Space", "--methods", "exact", "--out", str(tmp_path)]
    assert real.main(only) == 0
    printed = capsys.readouterr().out
    assert "computing it" not in printed
    assert "auto certified, or rightly unbounded or undetermined, on 1 of 1" in printed
    assert "wrong answers: none" in printed
    assert (tmp_path / "real.csv").exists()
    with pytest.raises(SystemExit):
        real.main(["--only", "nonsense"])
