"""MPS and LP files as domains with objectives in order, against HiGHS itself."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.cli import main
from tiebreak.problem_files import read_problem

highspy = pytest.importorskip("highspy")

PLAN = """NAME plan
ROWS
 N  cost
 L  capacity
 G  demand
 E  balance
 G  range
 N  CO2
COLUMNS
    coal      cost      20.0   capacity   1.0
    coal      demand     1.0   CO2        0.9
    gas       cost      20.0   demand     1.0
    gas       capacity   1.0   CO2        0.4
    wind      demand     1.0   range      1.0
    in        balance    1.0
    out       balance   -1.0   cost       1.0
RHS
    RHS       cost    -100.0   CO2       -7.0
    RHS       capacity 80.0    demand    60.0
    RHS       range      5.0
RANGES
    RNG       range      10.0
BOUNDS
 UP BND       gas       50.0
 FR BND       in
 FX BND       out        3.0
ENDATA
"""
LEVELS = """
domain = "plan.mps"
[[level]]
objective = "cost"
[[level]]
objective = "CO2"
slack = { relative = 0.01 }
[[level]]
name = "change"
kind = "SquaredNorm"
center = { coal = 20.0, out = 3.0, in = 3.0 }
"""


def program(seed):
    """A linear program with every kind of row and bound, and a second objective as a free row."""
    rng = np.random.default_rng(seed)
    n, m, inf = int(rng.integers(4, 40)), int(rng.integers(3, 20)), highspy.kHighsInf
    x = np.round(rng.uniform(-3.0, 5.0, n), 1)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for j in range(n):
        low, high = [
            (x[j] - 1.0, x[j] + 2.0), (x[j], x[j]), (-inf, x[j] + 1.0), (x[j], inf), (0.0, 9.0)
        ][rng.integers(5)]  # fmt: skip
        solver.addVar(min(low, x[j]), max(high, x[j]))
        solver.passColName(j, f"make_{j}.to" if rng.random() < 0.5 else f"x{j}")
        solver.changeColCost(j, float(rng.integers(0, 4)))
    for i in range(m):
        at = np.flatnonzero(rng.random(n) < 0.4)
        at = at if len(at) > 1 else np.array([0, n - 1])
        values = np.round(rng.standard_normal(len(at)), 2) + 3.0
        s = float(values @ x[at])
        low, high = [(s, s), (s - 1.0, inf), (-inf, s + 1.0), (s - 1.0, s + 2.0)][rng.integers(4)]
        solver.addRow(low, high, len(at), at, values)
        solver.passRowName(i, f"row.{i}")
    for j in range(n):  # bounded, whatever was drawn
        solver.addRow(-20.0, 20.0, 1, np.array([j]), np.ones(1))
        solver.passRowName(m + j, f"reach{j}")
    if rng.random() < 0.4:
        solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    solver.changeObjectiveOffset(float(rng.integers(-5, 6)))
    return solver, np.round(rng.standard_normal(n), 2)


def in_order(solver, second):
    """Both optimal values by HiGHS: the second on the first one's optimal face, by a fixed row."""
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    lp, best = solver.getLp(), solver.getInfo().objective_function_value
    cost, offset = np.array(lp.col_cost_), lp.offset_
    duals = np.array(solver.getSolution().col_dual)
    row_duals = np.array(solver.getSolution().row_dual)
    x = np.array(solver.getSolution().col_value)
    for j in np.flatnonzero(np.abs(duals) > 1e-7):
        solver.changeColBounds(int(j), float(x[j]), float(x[j]))
    rows = np.array(solver.getSolution().row_value)
    for i in np.flatnonzero(np.abs(row_duals) > 1e-7):
        solver.changeRowBounds(int(i), float(rows[i]), float(rows[i]))
    places = np.arange(len(second), dtype=np.int32)
    solver.changeColsCost(len(second), places, second)
    solver.changeObjectiveOffset(0.0)
    solver.changeObjectiveSense(highspy.ObjSense.kMinimize)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    value = solver.getInfo().objective_function_value
    x = np.array(solver.getSolution().col_value)
    assert cost @ x + offset == pytest.approx(best, abs=1e-7)
    return best, value


@pytest.mark.parametrize("seed", range(10))
def test_files_of_highs_are_read_and_solved_as_by_highs(tmp_path, seed):
    """Values to 1e-9, names intact, from both formats."""
    solver, second = program(seed)
    lp = solver.getLp()
    names, rows, sense = lp.col_names_, lp.row_names_, lp.sense_
    for ending in ("mps", "lp"):
        solver.writeModel(str(tmp_path / f"plan.{ending}"))
    best = in_order(solver, second)
    for ending in ("mps", "lp"):
        model = tb.read_model(tmp_path / f"plan.{ending}")
        assert sorted(model.variables) == sorted(names)
        assert ending == "lp" or list(model.variables) == names
        assert model.sense == ("max" if sense == highspy.ObjSense.kMaximize else "min")
        found = set(model.domain.parts[0].row_names)
        # HiGHS writes a row with two bounds to LP files as two rows.
        split = (
            {name for row in rows for name in (f"{row}lo", f"{row}up")} if ending == "lp" else []
        )
        assert set(rows) - found <= {name[:-2] for name in found if name in split}
        extra = model.linear(dict(zip(names, second, strict=True)))
        first = model.level()
        plan = tb.Levels(
            first, tb.Level(extra, name="second"), tb.SquaredNorm(), domain=model.domain
        )
        result = tb.solve(plan)
        assert result.success
        got = [report.value for report in result.levels.values()][:2]
        np.testing.assert_allclose(got, best, rtol=1e-9, atol=1e-9)
        middle = [sum(report.best) / 2.0 for report in result.levels.values()][:2]
        np.testing.assert_allclose(middle, best, rtol=1e-7, atol=1e-7)
        assert plan.variables == model.variables


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.mps").write_text(PLAN)
    return tb.read_model("plan.mps")


def test_a_file_is_read_with_all_its_objectives_rows_bounds_and_constants(plan):
    assert plan.variables == ("coal", "gas", "wind", "in", "out")
    assert list(plan.functions) == ["cost", "CO2"]
    np.testing.assert_array_equal(plan.functions["cost"].c, [20.0, 20.0, 0.0, 0.0, 1.0])
    assert plan.functions["cost"].constant == 100.0
    np.testing.assert_array_equal(plan.functions["CO2"].c, [0.9, 0.4, 0.0, 0.0, 0.0])
    assert plan.functions["CO2"].constant == 7.0
    rows, box = plan.domain.parts
    assert rows.row_names == ("capacity", "demand", "balance", "range")
    np.testing.assert_array_equal(box.lower, [0.0, 0.0, 0.0, -np.inf, 3.0])
    np.testing.assert_array_equal(box.upper, [np.inf, 50.0, np.inf, np.inf, 3.0])
    inside = np.array([10.0, 40.0, 15.0, 3.0, 3.0])
    assert plan.domain.contains(inside)
    for j, value, name in ((2, 16.0, "row range"), (2, 4.0, "row range"), (3, 4.0, "row balance")):
        moved = np.where(np.arange(5) == j, value, inside)
        assert name in [one.what for one in plan.domain.violations(moved)]


def test_a_levels_file_on_a_model_is_solved_with_names_in_its_report(plan, tmp_path, capsys):
    (tmp_path / "levels.toml").write_text(LEVELS)
    levels, _, _ = read_problem(tmp_path / "levels.toml")
    assert levels.names == ("cost", "CO2", "change")
    assert levels.levels[1].slack == tb.Slack(relative=0.01)
    assert levels.variables == plan.variables
    np.testing.assert_array_equal(levels.levels[2].objective.center, [20.0, 0.0, 0.0, 3.0, 3.0])
    assert main(["solve", "levels.toml"]) == 0
    assert "proved" in capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["variables"] == list(plan.variables)
    levels.save("levels.npz")
    assert tb.load("levels.npz").domain.parts[0].row_names == plan.domain.parts[0].row_names


def test_a_model_with_several_objectives_is_solved_in_their_order(plan, capsys):
    assert main(["solve", "plan.mps"]) == 0
    said = capsys.readouterr().out
    assert said.index("cost") < said.index("CO2")
    with open("one.mps", "w") as file:
        file.write(PLAN.replace(" N  CO2\n", " L  CO2\n"))
    assert main(["solve", "one.mps"]) == 2
    assert "one.mps has one objective, but two levels are needed" in capsys.readouterr().err


LP = "max\n profit: 3 a + 2 b + 4\nst\n size: a + b <= 4\n risk: a - b >= -inf\nbounds\n a <= 3\nend\n"
# HiGHS ignores the second coefficient of x in d, and reports success
TWICE = "NAME T\nROWS\n N c\n G d\nCOLUMNS\n x c 1 d 2\n x d 5\n y c 2 d 1\nRHS\n R d 2\nENDATA\n"


@pytest.mark.parametrize(
    ("written", "sense"),
    [("\n MAX", "max"), (" MAX", "max"), ("\n maximize", "max"), ("\n MIN", "min"), ("", "min")],
)
def test_the_sense_of_an_mps_file_is_read(tmp_path, written, sense):
    (tmp_path / "p.mps").write_text(PLAN.replace("ROWS", f"OBJSENSE{written}\nROWS"))
    assert tb.read_model(tmp_path / "p.mps").sense == sense


@pytest.mark.parametrize("row", ["2.5 a + .5b >= - .5", "1e-5 a - 1.5e3b <= 4", "- a + b = 1e2"])
def test_coefficients_are_no_constants(tmp_path, row):
    (tmp_path / "p.lp").write_text(LP.replace("a + b <= 4", f"a + b <= 4\n {row}"))
    assert tb.read_model(tmp_path / "p.lp").variables == ("a", "b")


def test_names_with_spaces_stand_in_their_columns(tmp_path):
    """Such a file is in fixed format, whose words are not its fields."""
    text = (
        "NAME          SPACES\nROWS\n N  MY COST\n N  CO 2\n G  R 1\nCOLUMNS\n"
        "    X 1       MY COST            1.0   R 1                1.0\n"
        "    X 1       CO 2               5.0\n"
        "    Y         MY COST            2.0   R 1                1.0\n"
        "RHS\n    RHS       R 1                2.0   CO 2              -7.0\nENDATA\n"
    )
    (tmp_path / "p.mps").write_text(text)
    model = tb.read_model(tmp_path / "p.mps")
    assert model.variables == ("X 1", "Y")
    assert {name: f.value(np.array([1.0, 10.0])) for name, f in model.functions.items()} == {
        "MY COST": 21.0,
        "CO 2": 12.0,
    }
    (tmp_path / "p.mps").write_text(text.replace("5.0", "5,5"))
    with pytest.raises(ValueError, match=r"\(with a point, not a comma\), got '5,5' in line 8$"):
        tb.read_model(tmp_path / "p.mps")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_names_of_any_encoding_stay_different(tmp_path, encoding):
    text = "min cost: ä + ö\nst\n one: ä >= 1\n two: ö >= 2\nend\n"
    (tmp_path / "p.lp").write_text(text, encoding=encoding)
    assert tb.read_model(tmp_path / "p.lp").variables == ("ä", "ö")


def test_keywords_may_name_rows_and_begin_names(tmp_path):
    text = "min end: gen1 + binary_2\nst\n gen: gen1 + binary_2 >= 1\n max: gen1 <= 2\nend\n"
    (tmp_path / "p.lp").write_text(text)
    model = tb.read_model(tmp_path / "p.lp")
    assert model.variables == ("gen1", "binary_2")
    assert tuple(model.functions) == ("end",)


def test_free_rows_of_lp_files_are_objectives_and_maximisation_is_respected(tmp_path):
    (tmp_path / "p.lp").write_text(LP)
    model = tb.read_model(tmp_path / "p.lp")
    assert (list(model.functions), model.sense) == (["profit", "risk"], "max")
    result = tb.solve(tb.Levels(model.level(), model.level("risk"), domain=model.domain))
    np.testing.assert_allclose(result.x, [3.0, 1.0], atol=1e-9)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("p.lp", LP + "", None),
        ("p.lp", LP.replace("end", "general\n b\nend"), "must have continuous variables only, got 1 integer or semicontinuous, such as 'b'"),
        ("p.lp", LP.replace("+ 4", "+ [ a^2 ] / 2"), "must have a linear objective; give Quadratic(Q, c) as a separate level, got a quadratic one"),
        ("p.mps", "hello\nworld\n", "cannot be read by HiGHS as MPS"),
        ("p.lp", LP.replace("risk:", "profit:"), "must name every objective differently, got 'profit' twice"),
        ("p.lp", LP.replace("a <= 3", "a <= -3"), "cannot be read by HiGHS as LP: Col 0 has inconsistent bounds"),
        ("p.mps", TWICE, 'cannot be read by HiGHS as MPS: Column "x" has duplicate nonzero 5'),
        ("p.mps", PLAN.replace("demand    60.0", "demand    60,5"), "must have a number after each name (with a point, not a comma), got '60,5' in line 19"),
        ("p.mps", PLAN.replace("demand     1.0   CO2        0.9", "demand     1,0   CO2        0.9"), "got '1,0' in line 11"),
        ("p.mps", PLAN.replace("CO2        0.9", "CO2"), "got 'CO2' in line 11"),
        ("p.mps", PLAN.replace(" UP BND", " UB BND"), 'cannot be read by HiGHS as MPS: Entry in BOUNDS section of MPS file is of type "UB"'),
        ("p.lp", LP.replace("3 a", "3,5 a"), "must have decimal points, not commas, got the variable ',5'"),
        ("p.lp", LP.replace("end", ""), "p.lp cannot be read by HiGHS as LP"),
        ("p.txt", LP, "path must end with .mps or .lp"),
        ("p.mps", PLAN.replace("ROWS", "OBJSENSE\n MAXX\nROWS"), "must have MIN or MAX in the line after OBJSENSE, got 'MAXX'"),
        ("p.mps", PLAN.replace("ROWS", "OBJSENSE MAXIMIZE\nROWS"), "must have MIN or MAX in the line after OBJSENSE, got 'MAXIMIZE'"),
        ("p.mps", PLAN.replace("ROWS", "OBJMAX\nROWS"), "must have nothing but NAME and OBJSENSE before ROWS, got 'OBJMAX' in line 2"),
        ("p.lp", LP.replace("max", "MAXIMISE"), "must begin with minimize or maximize, got 'MAXIMISE'"),
        ("p.lp", LP.replace("max", ""), "must begin with minimize or maximize, got 'profit:'"),
        ("p.lp", LP.replace("a + b <= 4", "a + 1 + b <= 4"), "must have no constant on the left of a row, got '1' in 'size: a + 1 + b'"),
        ("p.lp", LP.replace("a + b <= 4", "a + 2 3 b <= 4"), "must have no constant on the left of a row, got '2' in 'size: a + 2 3 b'"),
        ("p.lp", LP.replace("a + b <= 4", "2 (a + b) <= 4"), "must have no brackets around terms, got the variable '(a'"),
        ("p.lp", LP.replace("size:", "gen1: a >= 0\n low: a + int_rate + 4 >= 2\n size:"), "must have no constant on the left of a row, got '4' in 'low: a + int_rate + 4'"),
        ("p.lp", LP.replace("max\n profit:", "max:"), "must begin with minimize or maximize, got 'max:'"),
        ("p.lp", LP.replace("3 a + 2 b", "3 a + 2 b - 1e+1 a"), "must have each variable once in the objective, got 'a' twice"),
        ("p.lp", LP.replace("st\n", "min cost: a\nst\n"), "must have constraints after a single objective, got 'min'"),
        ("p.lp", LP.replace("2 b + 4", "2 b + gen"), "must have constraints after a single objective, got 'gen'"),
        ("p.lp", LP.replace("a + b <= 4", "a + b <= 4; more: a >= 1"), "must have no semicolons"),
        ("p.lp", LP.replace("a + b <= 4", "a + b >= 1 <= 4"), "must have variables on the left of each row, got none before '<= 4'"),
        ("p.lp", LP.replace("a + b <= 4", "a >= 1, b >= 1"), "must have decimal points, not commas, got the variable ','"),
        ("p.mps", PLAN.replace("60.0", "6_0"), "must have a number after each name (with a point, not a comma), got '6_0' in line 19"),
        ("p.mps", PLAN.replace("0.9", "nan"), "got 'nan' in line 11"),
        ("p.mps", PLAN.replace("RHS       capacity 80.0 ", "capacity 80,5 "), "got '80,5' in line 19"),
    ],
)  # fmt: skip
def test_what_is_no_linear_program_gets_one_sentence(tmp_path, name, text, sentence):
    (tmp_path / name).write_text(text)
    if sentence is None:
        assert tb.read_model(tmp_path / name)
        return
    with pytest.raises(ValueError, match=r"^read_model: ") as caught:
        tb.read_model(tmp_path / name)
    assert sentence in str(caught.value)


def test_a_variable_in_no_row_may_be_misspelt(tmp_path):
    """HiGHS makes a variable of any name that it finds among the bounds."""
    (tmp_path / "p.mps").write_text(PLAN.replace("UP BND       gas", "UP BND       gass"))
    with pytest.warns(UserWarning, match="variable 'gass' is in no row or objective: is its name"):
        tb.read_model(tmp_path / "p.mps")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LEVELS.replace('"CO2"', '"co2"'), "[level 2] level: name must be the objective or a free row of the file (cost, CO2), got 'co2' (did you mean 'CO2'?)"),
        (LEVELS.replace("coal = 20.0", "cole = 20.0"), "[level 3] center: vector: there is no variable 'cole' (did you mean 'coal'?)"),
        (LEVELS.replace("plan.mps", "plan.xml"), "domain must be a table, or a file that ends with .mps or .lp, got 'plan.xml'"),
        (LEVELS.replace('objective = "cost"', 'objective = "cost"\nc = [1.0]'), "[level 1] objective cannot be combined with the key 'c'"),
        (LEVELS.replace("slack =", "slak ="), "[level 2] objective cannot be combined with the key 'slak' (did you mean 'slack'?)"),
        (LEVELS.replace('objective = "cost"', 'objektive = "cost"'), "[level 1] has no key 'objektive' (did you mean 'objective'?)"),
        (LEVELS.replace('domain = "plan.mps"', ""), '[level 1] objective needs a domain from a file, such as domain = "plan.mps"'),
        ('domain = "plan.mps"\n', "a domain from a file needs [[level]] for each objective"),
    ],
)  # fmt: skip
def test_wrong_level_files_of_models_get_one_sentence(plan, tmp_path, text, sentence):
    (tmp_path / "levels.toml").write_text(text)
    with pytest.raises(ValueError, match=r"levels.toml: ") as caught:
        read_problem(tmp_path / "levels.toml")
    assert str(caught.value).endswith(sentence)


# -- names and duals in reports -------------------------------------------------------------------


def three(plan):
    change = tb.SquaredNorm(center=plan.vector({"coal": 20.0, "out": 3.0}))
    return tb.Levels(
        plan.level(), plan.level("CO2"), tb.Level(change, name="change"), domain=plan.domain
    )


def test_reports_have_the_names_of_variables_and_rows(plan, tmp_path):
    result = tb.solve(three(plan))
    assert result.named == pytest.approx({"coal": 0, "gas": 45, "wind": 15, "in": 3, "out": 3})
    # One more unit of demand is a unit of gas; one more of the range is one of wind, for nothing.
    expected = {"capacity": 0.0, "demand": 20.0, "balance": 0.0, "range": -20.0}
    assert result.duals["cost"] == pytest.approx(expected)
    assert result.duals["CO2"]["demand"] == pytest.approx(0.4)
    assert "gas = 45" in result.details()
    assert "duals  of cost: demand = 20, range = -20" in result.details()
    report = result.to_dict()
    assert report["x"] == result.named
    assert report["duals"] == result.duals
    result.to_html("plan.html")
    page = (tmp_path / "plan.html").read_text()
    assert all(name in page for name in ("gas", "wind", "demand", "range"))
    result.save("run.npz")
    assert tb.load("run.npz").duals == result.duals
    assert tb.load("run.npz").named == result.named


def test_two_levels_have_their_names_in_every_report(plan, tmp_path):
    """By conic, as plans that are too large for rational arithmetic: one of a run of two levels."""
    levels = tb.Levels(plan.level(), plan.level("CO2"), domain=plan.domain)
    result = tb.solve(levels, "conic")
    said = result.details()
    assert said.startswith(str(result))
    assert "levels     g is cost, f is CO2" in said
    assert "demand = 20" in said
    assert "  upper " not in said
    assert "  lower " not in said
    result.to_html("two.html")
    page = (tmp_path / "two.html").read_text()
    assert "cost, g(x)" in page
    assert "upper level, f(x)" not in page.partition("The full report")[0]


def test_a_misspelt_name_gets_a_suggestion(plan):
    result = tb.solve(three(plan))
    for found in (result.levels, result.duals):
        with pytest.raises(KeyError, match=r"there is no 'C02' \(did you mean 'CO2'\?\)"):
            found["C02"]
    with pytest.raises(KeyError, match="did you mean 'demand'"):
        result.duals["cost"]["demnd"]
    with pytest.raises(KeyError, match="did you mean 'wind'"):
        result.named["win"]


@pytest.mark.parametrize("slack", [0.0, 1.0])
def test_a_level_with_slack_has_no_duals_of_its_own(plan, slack):
    levels = tb.Levels(plan.level(slack=slack), plan.level("CO2"), domain=plan.domain)
    result = tb.solve(levels)
    assert (result.duals["cost"] is None) == (slack > 0.0)
    assert ("  of cost: none (the level has slack)" in result.details()) == (slack > 0.0)
    assert result.duals["CO2"] is not None


def test_a_slack_moves_its_cap_with_the_best_value_if_a_plan_is_solved_again(tmp_path):
    def solved(demand):
        text = f"min\n cost: 9 coal + 4 gas\nst\n demand: coal + gas >= {demand}\nbounds\n gas <= 6\nend\n"
        (tmp_path / "again.lp").write_text(text)
        model = tb.read_model(tmp_path / "again.lp")
        last = tb.SquaredNorm(center=[0.0, 2.0])
        return tb.solve(
            tb.Levels(model.level(slack=5.0), tb.Level(last, "last"), domain=model.domain)
        )

    (cost, last), (dear, moved) = (r.levels.values() for r in (solved(10.0), solved(10.001)))
    fixed = solved(10.0).duals["last"]["demand"]
    rise = fixed - cost.price * (dear.best[0] - cost.best[0]) / 0.001
    assert (moved.value - last.value) / 0.001 == pytest.approx(rise, abs=0.01)


def drawn(n, is_quadratic, sense, change=(0, 0, 0.0)):
    """Three levels on rows of all kinds; ``change``: of one entry of one right-hand side."""
    rng = np.random.default_rng(n)
    m, x = n // 3 + 3, 2.0 * rng.random(n)
    A, A_eq = rng.integers(0, 3, (m, n)) * 1.0, rng.integers(0, 2, (2, n)) * 1.0
    right = [
        A @ x + 0.3 * rng.random(m),
        np.where(rng.random(m) < 0.5, A @ x - 0.5, -9.0),
        A_eq @ x,
    ]
    right[change[0]][change[1]] += change[2]
    first, last = rng.integers(0, 3, n) * (1.0 if sense == "min" else -1.0), rng.random(n)
    return tb.Levels(
        tb.Level(tb.Linear(first), name="first", sense=sense),
        tb.Linear(rng.standard_normal(n)),
        tb.SquaredNorm(center=last) if is_quadratic else tb.Linear(last - 0.5),
        domain=tb.Polyhedron(A, right[0], A_eq, right[2], lower=right[1]) & tb.Box(0.0, 5.0),
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [8, 210])
@pytest.mark.parametrize("is_quadratic", [False, True])
@pytest.mark.parametrize("sense", ["min", "max"])
def test_duals_are_what_a_right_hand_side_changes(n, is_quadratic, sense):
    """Every level, by rational arithmetic, HiGHS and cones; a held row moves with its bound."""
    result = tb.solve(drawn(n, is_quadratic, sense))
    assert result.success
    step, checked = 1e-4, 0
    for row in result.rows[:2] + result.rows[-1:]:
        i, where = int(row.split()[0]), row.split()[2]
        both = [
            [tb.solve(drawn(n, is_quadratic, sense, (side, i, sign * step))) for sign in (1, -1)]
            for side in ((2,) if where == "A_eq" else (0, 1))
        ]
        for name, duals in result.duals.items():
            if abs(duals[row]) > 1e-6:
                rates = [
                    (up.levels[name].value - down.levels[name].value) / (2.0 * step)
                    for up, down in both
                ]
                assert min(abs(rate - duals[row]) for rate in rates) <= 1e-3 * (1 + abs(duals[row]))
                checked += 1
    assert checked


def capped(objectives, right, slack=0.0):
    """Levels on a small set with many degenerate vertices."""
    A = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [1.0, 0.0, -1.0]])
    names = ["first", "second", "third", "last"][-len(objectives) :]
    levels = [tb.Level(f, name) for f, name in zip(objectives, names, strict=True)]
    levels[0] = tb.Level(objectives[0], names[0], slack)
    return tb.Levels(*levels, domain=tb.Polyhedron(A, right) & tb.Box(0.0, 3.0))


def rates(objectives, cap, i):
    """How fast the best values rise and fall with row i, if the first level may reach a fixed cap."""
    step, found = 1e-4, []
    for sign in (0, 1, -1):
        right = np.array([2.0, 2.0, -2.0, 1.0]) + sign * step * np.eye(4)[i]
        levels = capped(objectives[1:], right)
        domain = levels.domain & tb.Polyhedron(objectives[0].c[None, :], [cap])
        result = tb.solve(tb.Levels(*levels.levels, domain=domain))
        found.append(np.array([result.levels[name].value for name in levels.names]))
    return (found[1] - found[0]) / step, (found[0] - found[2]) / step


@pytest.mark.parametrize("slack", [0.5, 1.0])  # with 1, four constraints and the cap meet in x
@pytest.mark.parametrize("method", ["auto", "conic"])
def test_levels_after_a_slack_that_they_need_have_duals(slack, method):
    """The cap is held like a row. A dual that is not unique is unknown after the first one."""
    c = [[1.0, 2.0, 1.0], [-1.0, -2.0, 0.0], [0.0, 1.0, -1.0], [2.0, 0.0, 1.0]]
    objectives, right = [tb.Linear(one) for one in c], np.array([2.0, 2.0, -2.0, 1.0])
    result = tb.solve(capped(objectives, right, slack), method)
    assert result.levels["first"].price > 0.0
    for i, row in enumerate(result.rows[:4]):
        up, down = rates(objectives, 2.0 + slack, i)
        found = [result.duals[name][row] for name in ("second", "third", "last")]
        assert min(up[0], down[0]) - 1e-6 <= found[0] <= max(up[0], down[0]) + 1e-6
        if slack == 0.5:
            np.testing.assert_allclose([found, found], [up, down], atol=1e-6)
        else:
            assert np.all(np.isnan(found[1:]) | np.isclose(found[1:], up[1:], atol=1e-6))
            assert np.all(np.isnan(found[1:]) | np.isclose(up[1:], down[1:], atol=1e-6))
    if slack == 1.0:
        assert "unknown" in result.details()
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))


def test_a_slack_that_is_nearly_used_up_is_no_cap():
    """f stops at 1.9995 by its row: the cap at 2 must not take the multiplier."""
    domain = tb.Polyhedron([[-1.0, -1.0], [1.0, 0.0]], [-1.0, 1.9995], rows=["need", "most"])
    levels = [tb.Level(tb.Linear([1.0, 1.0]), "g", 1.0), tb.Level(tb.Linear([-1.0, 0.0]), "f")]
    result = tb.solve(tb.Levels(*levels, tb.SquaredNorm(), domain=domain & tb.Box(0.0, 9.0)))
    assert result.duals["f"] == pytest.approx({"need": 0.0, "most": -1.0})


def test_duals_after_a_quadratic_level_are_right_or_unknown():
    """Its minimiser moves with the rows, which multipliers of the rows alone do not know."""

    def solved(b, last):
        squares = tb.LeastSquares(np.eye(3)[:2], np.zeros(2))
        domain = tb.Polyhedron([[-1.0, -1.0, 0.0], [1.0, -1.0, -1.0]], [-b, 1.0], rows=["b", "c"])
        levels = [tb.Level(squares, "g"), tb.Linear([1.0, 3.0, 1.0]), tb.Level(last, "last")]
        return tb.solve(tb.Levels(*levels, domain=domain))

    one, both = tb.Linear([1.0, 0.0, 0.0]), tb.Linear([1.0, 1.0, 0.0])
    rise = [solved(2.0 + t, one).x[0] for t in (1e-4, -1e-4)]
    assert (rise[0] - rise[1]) / 2e-4 == pytest.approx(0.5)  # x_1 = b/2
    assert solved(2.0, one).duals["last"] is None
    assert solved(2.0, both).duals["last"] == pytest.approx({"b": -1.0, "c": 0.0})


def test_duals_of_constraints_that_are_not_linear_are_unknown():
    domain = tb.Polyhedron([[1.0, 1.0]], [1.0]) & tb.Ball(1.0)
    result = tb.solve(tb.Levels(tb.Linear([1.0, 0.0]), tb.SquaredNorm(), tb.L1(), domain=domain))
    assert set(result.duals.values()) <= {None}
    assert result.rows == ()


def test_progress_has_a_line_for_each_level(plan, capsys):
    tb.solve(three(plan), progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [
        "level 1 of 3, cost: 1003", "level 2 of 3, CO2: 25", "level 3 of 3, change: 1329.5",
    ]  # fmt: skip
    tb.solve(three(plan), "conic", progress=True)
    assert len(capsys.readouterr().err.splitlines()) == 3


@pytest.mark.parametrize(
    ("sense", "says"), [("min", "minimum{}: it decreases"), ("max", "maximum{}: it increases")]
)
def test_a_level_without_end_is_named_with_a_direction(sense, says):
    levels = [
        tb.Level(tb.Linear([1.0, 0.0]), "cost"),
        tb.Level(tb.Linear([0.0, 1.0]), "profit", sense=sense),
        tb.L1(),
    ]
    result = tb.solve(tb.Levels(*levels, domain=tb.Box([0.0, -np.inf], [1.0, np.inf])))
    says = says.format(" over the solutions of the levels before it")
    assert result.status == "unbounded"
    assert result.message.startswith(f"profit has no {says} along the direction x[1] ")


def test_rows_and_variables_that_contradict_each_other_are_named(plan):
    with open("bad.mps", "w") as file:
        file.write(PLAN.replace("demand    60.0", "demand   150.0"))
    model = tb.read_model("bad.mps")
    result = tb.solve(tb.Levels(model.level(), model.level("CO2"), domain=model.domain))
    assert result.status == "infeasible"
    assert all(name in result.message for name in ("row demand", "row capacity", "row range"))
    assert result.named == {}
    Path("out").mkdir()
    Path("out/x.npy").write_bytes(b"of an earlier run")
    assert main(["solve", "bad.mps"]) == 1
    report = json.loads(Path("out/report.json").read_text())
    assert report["x"] is report["x_file"] is None
    assert not Path("out/x.npy").exists()
    levels = tb.Levels(model.level(), model.level("CO2"), domain=model.domain & tb.Box(0.0, 20.0))
    assert "bound of" in tb.solve(levels).message


def test_the_report_on_the_command_line_shows_x_by_name(plan, capsys):
    assert main(["solve", "plan.mps"]) == 0
    assert "  x      gas = 45, wind = 15, in = 3, out = 3" in capsys.readouterr().out
    assert str(tb.solve(three(plan))).count("gas = 45") == 1
    assert tb.solve(three(plan)).details().count("gas = 45") == 1
