"""Levels and their results in files: the same bits back, and a sentence for what is none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import tiebreak as tb

RNG = np.random.default_rng(18)
M, N = 4, 6
A, B, C = RNG.standard_normal((M, N)), RNG.standard_normal(M), RNG.standard_normal(N)
COLUMNS = [f"column {i}" for i in range(N)]
FIT = tb.LeastSquares(A, B)

LEVELS: dict[str, tb.Levels] = {
    "two": tb.Levels(FIT, tb.SquaredNorm()),
    "three, with all that can be said": tb.Levels(
        tb.Level(FIT, name="fit", slack=tb.Slack(0.1, 0.2, 0.3)),
        tb.Level(tb.LeastSquares(A, B + 1.0) + tb.L1(0.1), name="cost", slack=0.25),
        tb.L1(),
        domain=tb.Ball(3.0) & tb.Polyhedron(A, B + 5.0),
        radius=3.0,
    ),
    "tables": tb.Levels(
        tb.LeastSquares(pd.DataFrame(A, columns=COLUMNS), B),
        2 * tb.Linear(C) + tb.SquaredNorm(),
        tb.L1(),
    ),
    "sparse": tb.Levels(
        tb.Level(tb.LeastSquares(sp.csr_array(A), B), slack=0.01), tb.Linear(C), domain=tb.Box(0, 9)
    ),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "saved.npz"


def as_saved(report):
    """The report of a result that was loaded: nobody has checked its words again."""
    return words(report.replace(" after ", " (as saved) after ", 1))


def words(report):
    """Without line breaks, which differ."""
    return " ".join(report.split())


def round_trip(what: Any, path: Path) -> Any:
    what.save(path)
    return tb.load(path)


@pytest.mark.parametrize("name", LEVELS)
def test_levels_come_back_to_the_last_bit(name, path):
    levels = LEVELS[name]
    loaded = round_trip(levels, path)
    assert type(loaded) is tb.Levels
    assert loaded.names == levels.names
    assert loaded.variables == levels.variables
    assert loaded.radius == levels.radius
    assert [level.slack for level in loaded.levels] == [level.slack for level in levels.levels]
    for then, now in zip(levels.levels, loaded.levels, strict=True):
        assert now.name == then.name
        assert repr(now.objective) == repr(then.objective)
        for scale in (0.0, 1.0, 1e-3):
            x = scale * np.cos(np.arange(N))
            assert now.objective.value(x) == then.objective.value(x)
    assert repr(loaded.domain) == repr(levels.domain)
    assert tb.solve(loaded).x.tobytes() == tb.solve(levels).x.tobytes()


def test_an_array_of_several_levels_is_saved_once_and_numpy_reads_it_by_its_name(path):
    tb.Levels(tb.LeastSquares(A, B), tb.LeastSquares(A, C[:M]), tb.SquaredNorm()).save(path)
    with np.load(path) as file:
        names = {"tiebreak", *(f"levels.{place}" for place in ("0.objective.A", "0.objective.b"))}
        assert set(file) == names | {"levels.1.objective.b"}
        np.testing.assert_array_equal(file["levels.0.objective.A"], A)


def test_new_numbers_in_an_array_are_those_that_are_saved_and_solved(path):
    mine = B.astype(np.float32)  # of which the level has a copy in float64
    levels = tb.Levels(tb.Level(tb.LeastSquares(A, mine), slack=1e-3), tb.SquaredNorm())
    mine[:] = 0.0
    assert round_trip(levels, path).levels[0].objective.value(np.zeros(N)) == 0.0
    assert np.linalg.norm(tb.solve(levels).x) <= 1e-9


def test_an_intersection_of_sets_comes_back(path):
    domain = tb.Ball(3.0) & tb.Polyhedron(A, B + 5.0)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=FIT, domain=domain)
    loaded = round_trip(problem, path).domain
    assert [type(one) for one in loaded.sets] == [tb.Ball, tb.Polyhedron]
    np.testing.assert_array_equal(loaded.sets[1].b, B + 5.0)


def test_what_cannot_be_saved_is_named_before_anything_is_written(path):
    smooth = tb.Smooth(lambda x: float(x @ x), lambda x: 2 * x, lipschitz=2.0)
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=r"^Levels.save: levels\.1\.objective .* got Smooth"):
        tb.Levels(FIT, smooth, tb.L1()).save(path)
    dates = pd.date_range("2024-02-29", periods=N)
    named = tb.LeastSquares(pd.DataFrame(A, columns=dates), B)
    with pytest.raises(TypeError, match=r"^Levels.save: .* names of its variables"):
        tb.Levels(FIT, tb.SquaredNorm(), named).save(path)
    with pytest.raises(ValueError, match=r"^Levels.save: path must be a .npz file"):
        tb.Levels(FIT, tb.L1()).save("levels.pkl")
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


RESULTS: dict[str, tb.LevelsResult] = {
    **{name: tb.solve(levels) for name, levels in LEVELS.items()},
    "without end": tb.solve(tb.Levels(tb.Level(FIT, slack=0.1), tb.Linear(C), tb.L1())),
    "no time": tb.solve(LEVELS["three, with all that can be said"], max_time=1e-9),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return a == b


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_comes_back_to_the_last_bit_with_its_report(name, path):
    result = RESULTS[name]
    loaded = round_trip(result, path)
    assert type(loaded) is tb.LevelsResult
    assert words(str(loaded)) == as_saved(str(result))
    assert repr(loaded) == repr(result)
    assert json.dumps(loaded.to_dict()) == json.dumps(result.to_dict())
    assert list(loaded.levels) == list(result.levels)
    assert loaded.levels == result.levels
    for field in ("x", "status", "reason", "time", "method", "skipped", "direction"):
        assert same(getattr(loaded, field), getattr(result, field)), field
    assert (loaded.result is None) == (result.result is None)
    if result.result is not None:
        assert words(loaded.result.details()) == as_saved(result.result.details())
        assert same(loaded.result.x, result.result.x)


def rewritten(path: Path, change: Any) -> None:
    """The same file with another JSON text."""
    with np.load(path) as file:
        arrays = {name: array for name, array in file.items() if name != "tiebreak"}
        header = json.loads(file["tiebreak"].tobytes())
    change(header)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, tiebreak=text, **arrays)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h["content"]["fields"].update(status="fine"), "has the unknown status 'fine'"),
        (lambda h: h["content"]["fields"].pop("time"), "of another version of tiebreak (time)"),
        (lambda h: h["content"]["fields"].update(skipped=3), "whose skipped has the wrong kind"),
        (lambda h: h["content"].update(levels={"tuple": [1]}), "whose levels has the wrong kind"),
        (lambda h: h.update(kind="Levels"), "holds something unknown"),
    ],
)
def test_a_file_that_lies_gets_a_sentence(change, said, path):
    RESULTS["sparse"].save(path)
    rewritten(path, change)
    with pytest.raises(ValueError, match=r"^load: ") as refused:
        tb.load(path)
    assert said in str(refused.value)


def test_a_result_is_written_whole_or_not_at_all(path, monkeypatch):
    RESULTS["two"].save(path)
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        RESULTS["sparse"].save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
