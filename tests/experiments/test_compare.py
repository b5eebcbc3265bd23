"""``tb.compare`` and ``tiebreak compare``, ``tiebreak instances``: races from start to files."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

import math

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.catalog.built import Answer
from tiebreak.cli import main
from tiebreak.driver import registry
from tiebreak.experiments.figures import style_of
from tiebreak.experiments.race import read_rows

SMALL = """
[upper]
kind = "SquaredNorm"
[lower]
kind = "LeastSquares"
A = [[1.0, 2.0]]
b = [1.0]
[domain]
kind = "Ball"
radius = 3.0
[solve]
x0 = [2.0, -1.0]
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everybody_who_takes_the_problem_takes_part():
    outcome = tb.compare(tb.instance("toy").problem, "all", max_iter=60)
    takes_part, refused = set(outcome.methods), set(outcome.refused)
    assert takes_part | refused == {m.name for m in tb.methods()} - {"exact", "p-agm-bio"}
    assert {"agm-bio", "a-irg", "bi-sg", "sea", "cg-bio", "r-apm", "pb-apg"} <= takes_part
    assert all(sentence in str(outcome) for sentence in outcome.refused.values())


def test_without_names_a_few_race_and_those_that_the_user_registered(monkeypatch):
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))

    @tb.register
    class Mine(tb.AGMBiO):
        name = "mine"

    outcome = tb.compare(tb.instance("toy").problem, max_iter=60)
    library = {"agm-bio", "adaptive", "primal-dual", "bregman", "r-apm", "tikhonov", "fbi-pg"}
    assert set(outcome.methods) == library | {"mine"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("basis-pursuit", marks=pytest.mark.full),
        "group-pursuit",
        "lasso-duplicates",
    ],
)
def test_with_a_penalty_those_who_take_one_take_part(name):
    built = tb.instance(name)
    answer = Answer(built.upper_optimum, built.lower_optimum, built.solution)
    outcome = tb.compare(built.problem, "all", max_iter=30, answer=answer)
    takes_part, refused = set(outcome.methods), set(outcome.refused)
    assert takes_part | refused == {m.name for m in tb.methods()} - {"exact"}
    assert {"p-agm-bio", "bi-sg", "r-apm"} <= takes_part
    assert {"agm-bio", "a-irg", "sea", "cg-bio", "bisec-bio"} <= refused
    assert all("must be smooth" in outcome.refused[name] for name in ("agm-bio", "sea"))
    assert "pb-apg" in refused  # the domain is not bounded
    for row in outcome.rows:
        assert row.upper_error == abs(row.upper - built.upper_optimum)
        assert row.lower_error >= -1e-9


def test_the_errors_of_a_composite_problem_shrink():
    built = tb.instance("basis-pursuit", rows=20, variables=40, nonzeros=3)
    answer = Answer(built.upper_optimum, built.lower_optimum, built.solution)
    outcome = tb.compare(built.problem, ["p-agm-bio"], max_iter=3000, answer=answer)
    assert outcome.first("p-agm-bio", 1e-2) is not None
    assert outcome.last("p-agm-bio").distance <= 1e-2 * np.linalg.norm(built.solution)


def test_a_method_and_its_twin_with_penalties_look_alike():
    assert style_of("p-agm-bio") == style_of("agm-bio")


def test_no_two_methods_of_a_picture_look_alike():
    pytest.importorskip("matplotlib")
    outcome = tb.compare(tb.instance("toy").problem, "all", max_iter=20)
    figure = outcome.plot()
    looks = {
        label.get_text(): (line.get_color(), line.get_linestyle(), line.get_marker())
        for label, line in zip(
            figure.legends[0].get_texts(), figure.legends[0].get_lines(), strict=True
        )
    }
    assert set(looks) == set(outcome.methods)
    assert len(set(looks.values())) == len(looks)


def test_without_an_answer_exact_is_asked():
    built = tb.instance("toy")
    outcome = tb.compare(built.problem, ["agm-bio"], max_iter=60)
    assert outcome.source == "by Exact"
    assert outcome.answer.upper == pytest.approx(built.upper_optimum, rel=1e-9)
    assert outcome.answer.lower == pytest.approx(built.lower_optimum, abs=1e-12)


def test_where_exact_has_no_answer_g_is_measured_against_the_best_seen():
    smooth = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x, lipschitz=1.0)
    problem = tb.Problem(upper=smooth, lower=tb.SquaredNorm(center=[2.0]), domain=tb.Ball(1.0))
    outcome = tb.compare(problem, ["agm-bio", "r-apm"], max_iter=200)
    assert outcome.source.startswith("not known: Exact: upper must be")
    assert outcome.answer.lower == min(row.lower for row in outcome.rows)
    assert min(row.lower_error for row in outcome.rows) == 0.0
    assert all(math.isnan(row.upper_error) for row in outcome.rows)
    assert outcome.first("agm-bio", 1.0) is None  # nothing is known about f
    assert "?" in str(outcome)


def test_an_unknown_value_is_a_dash_and_the_start_is_known_to_all():
    """Without x0, nothing would say how many variables these callables have."""
    smooth = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x, lipschitz=1.0)
    problem = tb.Problem(upper=smooth, lower=smooth, domain=tb.Ball(1.0))
    outcome = tb.compare(problem, ["r-apm"], max_iter=3, x0=[0.5, 0.5])
    assert str(outcome).startswith("f* = –, g* = ")
    assert outcome.source.startswith("not known: Exact: upper must be")


def test_exact_is_not_asked_where_it_may_take_minutes():
    A = np.random.default_rng(0).standard_normal((3, 301))
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, np.ones(3)), domain=tb.L1Ball(0.1)
    )
    outcome = tb.compare(problem, ["r-apm"], max_iter=3)
    reason = "not known: Exact may take minutes on L1Ball with 301 variables, so it was not used"
    assert outcome.source.startswith(reason)


def test_exact_is_asked_for_a_sparse_problem_unless_it_is_large():
    built = tb.instance("basis-pursuit", rows=20, variables=60, nonzeros=3)
    outcome = tb.compare(built.problem, ["p-agm-bio"], max_iter=3)
    assert outcome.source == "by Exact"
    assert outcome.answer.upper == pytest.approx(built.upper_optimum, rel=1e-9)
    large = tb.instance("basis-pursuit", rows=20, variables=1001, nonzeros=2)
    outcome = tb.compare(large.problem, ["p-agm-bio"], max_iter=3)
    reason = "Exact may take minutes on Space with a penalty and 1001 variables"
    assert outcome.source.startswith(f"not known: {reason}, so it was not used")
    outcome = tb.compare(tb.instance("lasso-duplicates").problem, ["p-agm-bio"], max_iter=3)
    assert outcome.source == "by Exact"


def test_a_built_problem_says_which_penalties_it_has():
    assert "penalties    upper L1(weight=1.0), lower Zero()" in str(tb.instance("basis-pursuit"))
    assert "upper Zero(), lower L1(weight=0.5)" in str(tb.instance("lasso-duplicates"))
    assert "penalties" not in str(tb.instance("toy"))


def test_an_answer_of_exact_is_its_own_and_not_the_start():
    """The start is within the tolerance of both levels here, and far from the answer."""
    problem = tb.Problem(
        upper=tb.LeastSquares(np.array([[1.0, 0.0], [0.0, 0.0]]), [0.0, 1.0]),
        lower=tb.LeastSquares(np.array([[1e-3, 0.0], [0.0, 0.0]]), [1.0, 100.0]),
        domain=tb.Box(-400.0, 400.0),
    )
    outcome = tb.compare(problem, ["r-apm"], max_iter=3)
    assert outcome.source == "by Exact"
    assert outcome.answer.upper == pytest.approx(80000.5)
    assert outcome.answer.lower == pytest.approx(5000.18)


def test_an_own_method_and_an_own_label_join_the_race():
    problem = tb.instance("toy").problem
    methods = [("mine", tb.AGMBiO(gamma=0.3)), tb.AGMBiO(gamma=0.1), "agm-bio"]
    outcome = tb.compare(problem, methods, max_iter=20)
    assert outcome.methods == ["mine", "agm-bio", "agm-bio (2)"]


def test_a_given_answer_is_taken():
    outcome = tb.compare(tb.instance("toy").problem, ["sea"], max_iter=5, answer=Answer(7.0, -1.0))
    assert outcome.rows[0].upper_error == abs(outcome.rows[0].upper - 7.0)
    assert outcome.rows[0].lower_error == outcome.rows[0].lower + 1.0


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"methods": ["best"]}, ValueError, "compare: unknown method 'best', use \"auto\" or"),
        ({"methods": []}, ValueError, "compare: methods must name at least one method, got none"),
        ({"methods": [3]}, TypeError, "compare: method must be a name or an object such as AGMBiO"),
        ({"methods": "agm-bio"}, TypeError, "compare: methods must be \"all\" or a list of names or methods, got 'agm-bio'"),
        ({"methods": 3}, TypeError, "compare: methods must be \"all\" or a list of names or methods, got 3"),
        ({"methods": tb.RAPM()}, TypeError, "compare: methods must be \"all\" or a list of names or methods, got RAPM("),
        ({"methods": {"r-apm": 1}}, TypeError, "compare: methods must be \"all\" or a list of names or methods, got {"),
        ({"methods": [("a", tb.RAPM(), 1)]}, TypeError, "compare: methods need pairs (label, method), got ('a'"),
        ({"methods": [(1, tb.RAPM())]}, TypeError, "compare: methods need pairs (label, method), got (1"),
        ({"answer": (1.0, 0.0)}, TypeError, "compare: answer must be an Answer(upper, lower), got"),
        ({"budget": 0.0}, ValueError, "compare: budget must be a positive finite number"),
        ({"max_iter": 0}, ValueError, "compare: max_iter must be"),
        ({"problem": 3}, TypeError, "compare: problem must be a Problem(upper=f, lower=g), got"),
    ],
)  # fmt: skip
def test_a_wrong_call_gets_one_sentence(options, error, sentence):
    with pytest.raises(error) as caught:
        tb.compare(**({"problem": tb.instance("toy").problem} | options))
    assert str(caught.value).startswith(sentence)


def test_nobody_takes_the_problem():
    smooth = tb.Smooth(lambda x: 0.5 * float(x @ x), lambda x: x)
    problem = tb.Problem(upper=smooth, lower=tb.SquaredNorm(center=[2.0]))
    with pytest.raises(ValueError, match="compare: no method accepts this problem: AGMBiO: upper"):
        tb.compare(problem, ["agm-bio"])


# -- the command line -----------------------------------------------------------------------------


def test_compare_writes_rows_table_and_picture(here, capsys):
    pytest.importorskip("matplotlib")
    arguments = ["compare", "toy", "--methods", "agm-bio,sea", "r-apm", "--max-iter", "50"]
    assert main([*arguments, "--budget", "5", "--out", "race"]) == 0
    printed = capsys.readouterr().out
    rows = read_rows(here / "race" / "rows.csv")
    assert {row.method for row in rows} == {"agm-bio", "sea", "r-apm"}
    assert {(row.experiment, row.instance) for row in rows} == {("compare", "toy")}
    assert (here / "race" / "compare.txt").read_text() in printed
    assert (here / "race" / "compare.png").read_bytes().startswith(b"\x89PNG")
    names = sorted(path.name for path in (here / "race").iterdir())
    assert names == ["compare.png", "compare.txt", "rows.csv"]


def test_compare_reads_a_problem_with_its_start(here, capsys, monkeypatch):
    monkeypatch.setattr(tb.Comparison, "plot", lambda self, path: None)
    (here / "p.toml").write_text(SMALL)
    assert main(["compare", "p.toml", "--methods", "agm-bio", "--max-iter", "30"]) == 0
    assert "the problem in p.toml" in capsys.readouterr().out
    first = read_rows(here / "out" / "rows.csv")[0]
    assert first.upper == 2.5  # at x0 = (2, -1)
    x = np.array([0.2, 0.4])
    assert first.upper_error == pytest.approx(2.5 - 0.5 * x @ x)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["no-such"], "instance: unknown name 'no-such', known are toy"),
        (["p.toml"], "p.toml does not exist"),
        (["toy", "--methods", "best"], "compare: unknown method 'best'"),
        (["toy", "--budget", "-1"], "compare: budget must be a positive finite number"),
    ],
)
def test_a_wrong_command_exits_with_2_and_writes_nothing(here, capsys, arguments, sentence):
    assert main(["compare", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (here / "out").exists()


def test_instances_lists_them_all(capsys):
    assert main(["instances"]) == 0
    printed = capsys.readouterr().out
    assert all(instance.name in printed for instance in tb.instances())


def test_reproduce_passes_everything_on_and_prints_the_verdicts(here, capsys, monkeypatch):
    from tiebreak.experiments import reproduce
    from tiebreak.experiments.claims import Verdict

    def fake(what, out, data, quick, say):
        say("running")
        judged = Verdict("2.1", "a quote", f"{what} {out} {data} {quick}", "confirmed", "1 < 2")
        return reproduce.Reproduction((judged,), (out / "rows.csv", out / "report.md"))

    monkeypatch.setattr(reproduce, "reproduce", fake)
    assert main(["reproduce", "fig1", "--data", "w.json", "--quick"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "running\n"
    assert printed.out.replace("\\", "/").splitlines() == [
        "confirmed         2.1   fig1 out/fig1 w.json True: 1 < 2",
        "",
        "files: out/fig1/rows.csv, out/fig1/report.md",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fig2", "--data", "w.json"], "reproduce: data is for fig1 only, got it with fig2"),
        (["fig1", "--data", "w.json"], "w.json"),
    ],
)
def test_a_wrong_reproduction_exits_with_2(here, capsys, arguments, sentence):
    assert main(["reproduce", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not (here / "out").exists()
