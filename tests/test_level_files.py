"""[[level]] in problem files and on the command line."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from test_problem_files import FUNCTION_KINDS, PENALTY_KINDS

import tiebreak as tb
from tiebreak.cli import main
from tiebreak.problem_files import read_problem

# |x + y - 2| <= 1 is left of the fit, then x + y = 1 with x, y >= 0, of which (7, 1)/8 is closest.
THREE = """
[[level]]
name = "fit"
slack = 0.5
kind = "LeastSquares"
A = [[1.0, 1.0]]
b = [2.0]

[[level]]
kind = "L1"

[[level]]
name = "target"
kind = "SquaredNorm"
center = [0.75, 0.0]
"""
ANSWER = [0.875, 0.125]
TWO = '[[level]]\nkind = "LeastSquares"\nA = [[1.0, 2.0]]\nb = [1.0]\n[[level]]\nkind = "SquaredNorm"\n'
FIRST = '[[level]]\nkind = "LeastSquares"\nA = [[1.0, 2.0]]\nb = [1.0]\n'
LAST = '[[level]]\nkind = "L1"\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(folder, text):
    path = folder / "problem.toml"
    path.write_text(text)
    return read_problem(path)


def strict_json(path):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


# -- problem files --------------------------------------------------------------------------------


def test_everything_that_can_be_said_of_levels(tmp_path):
    np.save(tmp_path / "A.npy", [[1.0, 2.0]])
    text = """
radius = 7
[[level]]
name = "fit"
slack = { absolute = 1, relative = 0.01, share = 0.25 }
kind = "LeastSquares"
A = "A.npy"
b = [1.0]
[[level.penalty]]
kind = "L1"
weight = 0.5
[[level.penalty]]
kind = "L2"
[[level]]
slack = 2
kind = "Linear"
c = [3.0, 4.0]
[[level]]
kind = "L2"
[[domain]]
kind = "Ball"
radius = 3.0
[[domain]]
kind = "Orthant"
[solve]
method = "conic"
x0 = [1.0, 2.0]
rtol = 1e-6
[output]
x = "x.csv"
"""
    levels, options, output = read(tmp_path, text)
    assert isinstance(levels, tb.Levels)
    assert levels.names == ("fit", "level 2", "level 3")
    assert [level.slack for level in levels.levels] == [
        tb.Slack(1, 0.01, 0.25),
        tb.Slack(2.0),
        tb.Slack(),
    ]
    x = np.array([3.0, 4.0])
    assert [level.objective.value(x) for level in levels.levels] == [50.0 + 3.5 + 5.0, 25.0, 5.0]
    assert [type(one) for one in levels.domain.sets] == [tb.Ball, tb.Orthant]
    assert levels.radius == 7
    assert options == {"method": "conic", "x0": [1.0, 2.0], "rtol": 1e-6}
    assert output == {"x": "x.csv", "report": "report.json", "plot": "plot.png"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (FIRST, "Levels: levels must be two or more, such as Levels(g, SquaredNorm()) for the minimiser of g of least norm, got 1"),
        ('[level]\nkind = "L1"\n', "[level] must be written [[level]], once for each level"),
        ('[[levels]]\nkind = "L1"\n', "there is no key 'levels' outside the tables (did you mean '[[level]]'?); the only known one is radius"),
        ("level = []\n", "[level] must be written [[level]], once for each level"),
        ("level = [1, 2]\n", "[level] must be a table, got [1, 2]"),
        (TWO + '[upper]\nkind = "L1"\n', "[[level]] excludes the table [upper]"),
        (TWO + '[lower]\nkind = "L1"\n', "[[level]] excludes the table [lower]"),
        (TWO + "[error_bound]\norder = 2\n", "[[level]] excludes the table [error_bound]"),
        (FIRST + '[[level]]\nname = "x"\n', "[level 2] lacks the key 'kind'; " + FUNCTION_KINDS),
        (FIRST + '[[level]]\nkind = "L2"\nweigth = 1\n', "[level 2] has no key 'weigth' (did you mean 'weight'?); known keys are center, name, penalty, sense, slack, weight"),
        (FIRST + '[level.penalty]\nkind = "Ball"\n' + LAST, "[level 1.penalty] has the unknown kind 'Ball'; " + PENALTY_KINDS),
        (FIRST + "slack = -1.0\n" + LAST, "[level 1] Level: slack must be a non-negative finite number, got -1.0"),
        (FIRST + 'slack = "1 %"\n' + LAST, "[level 1] slack must be a number in the level's own units, or a table such as { relative = 0.01 } for 1 % of its best value, got '1 %'"),
        (FIRST + "slack = { percent = 1 }\n" + LAST, "[level 1.slack] has no key 'percent'; known keys are absolute, relative, share"),
        (FIRST + "slack = { relative = -1 }\n" + LAST, "[level 1.slack] Slack: relative must be a non-negative finite number, got -1"),
        (FIRST + "name = 3\n" + LAST, "[level 1] Level: name must be a string, got int"),
        (FIRST + LAST + "slack = 1.0\n", "Levels: the last level must have no slack, because no level follows it, got Slack(absolute=1.0, relative=0.0, share=0.0)"),
        (FIRST + 'name = "a"\n' + LAST + 'name = "a"\n', "Levels: names must differ, got a, a"),
        (FIRST + '[[level]]\nkind = "Linear"\nc = [1.0]\n', "Levels: all levels must have the same number of variables, got 1 and 2"),
    ],
)  # fmt: skip
def test_wrong_levels_get_one_sentence(tmp_path, text, sentence):
    with pytest.raises(ValueError, match=r"^\S+problem.toml: ") as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 'problem.toml'}: {sentence}"


# -- the command line -----------------------------------------------------------------------------


def test_three_levels_are_solved_printed_and_written(here, capsys):
    (here / "p.toml").write_text(THREE)
    assert main(["solve", "p.toml", "--save", "run.npz", "--details", "--max-iter", "5"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "the problem in p.toml\n"
        "  fit             <LeastSquares, 1 x 2>\n"
        "  level 2         L1(weight=1.0)\n"
        "  target          <SquaredNorm of 2 variables>\n"
        "  domain          Space\n\n"
    )
    assert "after 3 levels" in said
    files = ", ".join(
        [*(os.path.join("out", name) for name in ("x.npy", "report.json")), "run.npz"]
    )
    assert said.endswith(
        f"no plot     only two levels without slack can be drawn\n  files       {files}\n"
    )
    np.testing.assert_allclose(np.load(here / "out" / "x.npy"), ANSWER, atol=1e-8)
    report = strict_json(here / "out" / "report.json")
    assert report["success"]
    assert list(report["levels"]) == ["fit", "level 2", "target"]
    assert [level["value"] for level in report["levels"].values()] == pytest.approx(
        [0.5, 1.0, 0.5 * (0.125**2 + 0.125**2)], abs=1e-8
    )
    assert report["levels"]["fit"]["slack"] == 0.5
    assert tb.load("run.npz").to_dict() | {"x_file": "x.npy"} == report


def test_saved_levels_are_solved(here, capsys):
    levels, *_ = read(here, THREE)
    levels.save("levels.npz")
    assert main(["solve", "levels.npz"]) == 0
    np.testing.assert_allclose(np.load(here / "out" / "x.npy"), ANSWER, atol=1e-8)


def test_two_levels_without_slack_are_a_problem_with_its_plot_details_and_races(here, capsys):
    _, options, _ = read(here, TWO + '[method]\nkind = "AGMBiO"\ngamma = 0.5\n')
    assert options == {"method": tb.AGMBiO(gamma=0.5)}
    (here / "p.toml").write_text(TWO)
    assert main(["solve", "p.toml", "--details"]) == 0
    assert "method" in capsys.readouterr().out
    assert sorted(os.listdir(here / "out")) == ["plot.png", "report.json", "x.npy"]
    np.testing.assert_allclose(np.load(here / "out" / "x.npy"), [0.2, 0.4], atol=1e-9)
    report = strict_json(here / "out" / "report.json")
    assert list(report["levels"]) == ["level 1", "level 2"]
    assert report["proved"]
    assert main(["compare", "p.toml", "--methods", "exact", "--budget", "0.1"]) == 0
    (here / "p.toml").write_text(THREE)
    assert main(["compare", "p.toml"]) == 2
    assert (
        capsys.readouterr().err
        == "tiebreak: p.toml must hold two levels without slack for a race\n"
    )


def test_a_level_without_end_exits_with_1_and_what_solve_refuses_with_2(here, capsys):
    (here / "p.toml").write_text(THREE.replace('kind = "L1"', 'kind = "Linear"\nc = [1.0, -2.0]'))
    assert main(["solve", "p.toml"]) == 1
    assert strict_json(here / "out" / "report.json")["status"] == "unbounded"
    capsys.readouterr()
    (here / "p.toml").write_text(THREE + '[solve]\nmethod = "exact"\n')
    assert main(["solve", "p.toml"]) == 2
    assert capsys.readouterr().err == (
        "tiebreak: solve: method must be 'auto' or 'conic' for three or more levels or slacks, got 'exact'\n"
    )
    (here / "p.toml").write_text(THREE + '[solve]\ncheckpoint = "run.npz"\n')
    assert main(["solve", "p.toml"]) == 2
    assert "checkpoint does not apply" in capsys.readouterr().err


def test_a_level_in_a_file_may_be_maximised(tmp_path):
    (tmp_path / "p.toml").write_text(
        '[[level]]\nkind = "Linear"\nc = [1.0, 3.0]\nsense = "max"\n'
        '[[level]]\nkind = "SquaredNorm"\n[domain]\nkind = "Simplex"\n'
    )
    result = tb.solve(read_problem(tmp_path / "p.toml")[0])
    assert result.x == pytest.approx([0.0, 1.0])
    assert result.levels["level 1"].value == pytest.approx(3.0)
