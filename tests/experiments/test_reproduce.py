"""Reproduce: verdicts follow the rows and nothing else, and every file is whole or not there."""

from __future__ import annotations

import builtins
import math
import re

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.catalog.built import Answer, Built
from tiebreak.exact.method import Exact
from tiebreak.experiments import figures, paper_runs, reproduce, table
from tiebreak.experiments.claims import (
    AGM,
    BISECTION,
    CLAIMS,
    CONFIRMED,
    CUTS,
    FIG1,
    FIG2,
    NOT_CONFIRMED,
    NOT_TESTABLE,
    verdicts,
)
from tiebreak.experiments.race import Entrant, Record, race, read_rows, write_rows
from tiebreak.experiments.reproduce import report
from tiebreak.experiments.scenes import PULLS, RATES, Facts
from tiebreak.experiments.table import CutAt

STEPS = [0, 1, 10, 100, 600, 1000]
PAPER = "75 % for training"


def curve(experiment, instance, method, upper, lower, pace=1.0):
    """The rows of a doctored run: errors at STEPS, two gradients and ``pace`` seconds a step."""
    return [
        Record(experiment, instance, method, k, 2 * k, pace * k, f + 1.0, g, f, g, math.nan)
        for k, f, g in zip(STEPS, upper, lower, strict=True)
    ]


def falling(start, end):
    return np.geomspace(start, end, len(STEPS)).tolist()


def fig1_rows(**ends):
    """The methods of figure 1 with their last (upper, lower) errors; all that the paper says."""
    default = dict.fromkeys(FIG1, (1e-1, 1e-1))
    default |= {"R-APM": (1e-3, 1e-6), "PB-APG": (1e-3, 1e-6), AGM: (1e-5, 1e-6)}
    default |= {name.replace("_", "-"): end for name, end in ends.items()}
    return [
        row
        for name, (upper, lower) in default.items()
        for row in curve("fig1", PAPER, name, falling(1.0, upper), falling(1.0, lower))
    ]


def fig2_rows(changes=None, seeds=3):
    """Every method of figure 2 at both n; all that the paper says holds."""
    rows = []
    for n in (3, 100):
        curves = {name: (falling(1.0, 1e-2), falling(1.0, 1e-2)) for name in FIG2}
        stuck = [1.0, 1e-4, *[1e-6] * 4]
        best = 1e-3 if n == 3 else 1e-4  # R-APM is ten times behind at n = 3, a hundred at n = 100
        curves |= {
            "R-APM": (falling(1.0, 1e-2), stuck),
            "PB-APG": (falling(1.0, 1e-2), stuck),
            AGM: (falling(1.0, best), falling(1.0, 1e-9)),
            BISECTION: (falling(1.0, 1e-2), [1.0, 1e-1, 1e-2, 1e-3, 1e-6, 1e-1]),
        }
        curves |= (changes or {}).get(n, {})
        for seed in range(seeds):
            name = f"n = {n}, seed {seed}"
            for method, (upper, lower) in curves.items():
                rows += curve("fig2", name, method, upper, lower)
            rows.append(Record("fig2", name, "Exact", 1, 2, 0.0, 0.5 / n, 0.0, 1e-17, 0.0, 0.0))
    for seed in range(seeds):
        name = f"random Q, A, b, seed {seed}"
        rows.append(Record("fig2", name, "Exact", 1, 0, 0.0, 2.0, 0.0, 1.0, 0.0, math.nan))
    return rows


def table1_rows(lag=0.0, z=1e-2, x=1e-2):
    """Runs that fall at the published rates, less ``lag``; and the ablation."""
    rows = []
    for rate in RATES:
        for k in np.unique(np.geomspace(100, 10_000, 40).astype(int)):
            upper, lower = (float(k) ** (lag - p) for p in (rate.upper, rate.lower))
            numbers = (int(k), int(k), 0.0, 1.0 + upper, lower, upper, lower, math.nan)
            rows.append(Record("table1", rate.label, rate.label, *numbers))
    for cut, end in zip(CUTS, (1e-4, x, z), strict=True):
        rows += curve("table1", "ablation: doctored", cut, falling(1.0, 1e-4), falling(1.0, end))
    return rows


ONES = {rate.label: Facts(upper_optimum=1.0) for rate in RATES}
TIES = {
    PAPER: Facts(shape=(100, 730), dimension=630, order=math.inf, refusals={"Bisec-BiO": "No."})
}
NONE = {"n = 3": Facts(refusals={"CG-BiO": "No."}), "n = 100": Facts(refusals={"CG-BiO": "No."})}
ALL = {"fig1": (fig1_rows(), TIES), "fig2": (fig2_rows(), NONE), "table1": (table1_rows(), ONES)}


def fig2_with(n, method, upper=None, lower=None):
    best = 1e-3 if n == 3 else 1e-4
    default = (
        (falling(1.0, best), falling(1.0, 1e-9)) if method == AGM else (falling(1.0, 1e-2),) * 2
    )
    return fig2_rows({n: {method: (upper or default[0], lower or default[1])}})


def exact_rows(n, error):
    rows = fig2_rows()
    hit = [f"n = {n}, seed {seed}" for seed in range(3)]
    return [
        r._replace(upper_error=error) if r.method == "Exact" and r.instance in hit else r
        for r in rows
    ]


def random_rows(width):
    return [
        r._replace(upper_error=width) if r.instance.startswith("random") else r for r in fig2_rows()
    ]


def slow(label):
    lagging = [r for r in table1_rows(lag=0.5) if r.method == label]
    return lagging + [r for r in table1_rows() if r.method != label]


FLIPS = [
    ("1.1", PAPER, fig1_rows(SEA=(1e-1, 1e-7)), TIES),
    ("1.2", PAPER, fig1_rows(SEA=(1e-6, 1e-1)), TIES),
    ("1.3", PAPER, fig1_rows(R_APM=(1e-6, 1e-6)), TIES),
    ("1.4", PAPER, fig1_rows(), {PAPER: TIES[PAPER]._replace(shape=(801, 730), dimension=0)}),
    ("1.5", PAPER, fig1_rows(), {PAPER: TIES[PAPER]._replace(order=2.0)}),
    ("1.6", PAPER, fig1_rows(), {PAPER: TIES[PAPER]._replace(refusals={})}),
    ("2.1", "n = 3", fig2_with(3, "SEA", lower=falling(1.0, 1e-10)), NONE),
    ("2.1", "n = 100", fig2_with(100, "SEA", lower=falling(1.0, 1e-10)), NONE),
    ("2.2", "n = 100", fig2_with(3, AGM, upper=falling(1.0, 1e-6)), NONE),
    ("2.3", "n = 100", fig2_with(100, "Bi-SG", upper=falling(1.0, 1.5e-4)), NONE),
    ("2.4", "n = 3", fig2_with(3, "R-APM", lower=falling(1.0, 1e-6)), NONE),
    ("2.5", "n = 3", fig2_with(3, AGM, upper=[1.0, 1e-1, *[1e-3] * 4]), NONE),
    ("2.5", "n = 100", fig2_with(100, AGM, lower=[1.0, 1e-1, *[1e-9] * 4]), NONE),
    ("2.6", "n = 3", fig2_with(3, BISECTION, lower=falling(1.0, 1e-6)), NONE),
    ("2.7", "n = 100", exact_rows(100, 1e-6), NONE),
    ("2.8", "random Q, A, b", random_rows(1e-12), NONE),
    ("2.9", "n = 3", fig2_rows(), {}),
    *((f"T.{i}", rate.label, slow(rate.label), ONES) for i, rate in enumerate(RATES, start=1)),
    ("T.12", "ablation: doctored", table1_rows(z=1e-4), ONES),
    ("T.13", "ablation: doctored", table1_rows(x=1e-4), ONES),
]


def outcomes(rows, key, place, facts):
    """The outcomes of a claim at a place, one per axis."""
    experiment = {"1": "fig1", "2": "fig2", "T": "table1"}[key[0]]
    found = [
        v.outcome
        for v in verdicts(rows, experiment, facts)
        if v.claim == key and (v.place == place or v.place.startswith(f"{place}, by "))
    ]
    assert found
    return set(found)


# --- verdicts


def test_every_claim_has_doctored_rows_that_flip_it():
    mine = [claim.key for name in ("fig1", "fig2", "table1") for claim in CLAIMS[name]]
    assert list(dict.fromkeys(key for key, *_ in FLIPS)) == mine


@pytest.mark.parametrize("what", ALL)
def test_rows_that_say_what_the_paper_says_confirm_every_claim(what):
    rows, facts = ALL[what]
    assert {v.outcome for v in verdicts(rows, what, facts)} == {CONFIRMED}


@pytest.mark.parametrize(("key", "place", "rows", "facts"), FLIPS)
def test_doctored_rows_flip_the_verdict(key, place, rows, facts):
    assert outcomes(rows, key, place, facts) == {NOT_CONFIRMED}


def test_a_method_that_is_as_good_is_not_outperformed_not_even_at_zero():
    for error in (1e-5, 0.0):
        rows = fig1_rows(AGM_BiO=(1e-5, 1e-6), SEA=(1e-5, 1e-1))
        tied = [r._replace(upper_error=error) if r.iteration == 1000 else r for r in rows]
        assert outcomes(tied, "1.2", PAPER, TIES) == {NOT_CONFIRMED}


def test_time_and_iterations_are_judged_apart():
    rows = [r for r in fig1_rows() if r.method != AGM]
    rows += curve("fig1", PAPER, AGM, falling(1.0, 1e-5), falling(1.0, 1e-6), pace=100.0)
    found = {v.place: v.outcome for v in verdicts(rows, "fig1", TIES) if v.claim == "1.2"}
    assert found == {
        f"{PAPER}, by iteration": CONFIRMED,
        f"{PAPER}, by seconds": NOT_CONFIRMED,  # after the others' 1000 s it has made 10 steps
    }


def test_a_method_that_ended_by_itself_keeps_its_last_point():
    rows = [r for r in fig1_rows(CG_BiO=(1e-9, 1e-1)) if r.method != "CG-BiO" or r.iteration < 1000]
    rows = [r._replace(upper_error=1e-9) if r.method == "CG-BiO" else r for r in rows]
    assert outcomes(rows, "1.2", PAPER, TIES) == {NOT_CONFIRMED}


def test_the_median_over_the_starts_decides():
    good, bad = falling(1.0, 1e-9), falling(1.0, 1e-3)
    for spoiled, expected in ((1, CONFIRMED), (2, NOT_CONFIRMED)):
        rows = [r for r in fig2_rows() if r.method != AGM]
        for n in (3, 100):
            for seed in range(3):
                lower = bad if seed < spoiled else good
                name = f"n = {n}, seed {seed}"
                rows += curve("fig2", name, AGM, falling(1.0, 1e-4), lower)
        assert outcomes(rows, "2.1", "n = 3", NONE) == {expected}


def test_passing_through_f_star_by_chance_is_not_arriving():
    rows = fig1_rows(SEA=(1e-9, 1e-1))
    almost = [r._replace(iteration=950, seconds=950.0) for r in rows if r.iteration == 600]
    rows += [r._replace(upper_error=1e-2) for r in almost if r.method == "SEA"]
    assert outcomes(rows, "1.2", PAPER, TIES) == {CONFIRMED}


def test_rounding_of_a_large_value_is_no_victory():
    rows = [r._replace(lower=1e6, lower_error=-1e-10) for r in fig1_rows() if r.method == AGM]
    rows += [r._replace(lower=1e6, lower_error=1e-9) for r in fig1_rows() if r.method != AGM]
    assert outcomes(rows, "1.1", PAPER, TIES) == {NOT_CONFIRMED}


def test_on_a_twin_claims_about_the_data_are_not_testable_and_the_twin_still_speaks():
    facts = {PAPER: TIES[PAPER]._replace(is_twin=True)}
    for rows, said in (
        (fig1_rows(), "it holds"),
        (fig1_rows(SEA=(1e-6, 1e-1)), "it does not hold"),
    ):
        found = {v.claim: v for v in verdicts(rows, "fig1", facts)}
        assert found["1.2"].outcome == NOT_TESTABLE
        assert said in found["1.2"].numbers
        assert found["1.4"].outcome == CONFIRMED  # the shape is the paper's own


@pytest.mark.parametrize("what", ALL)
def test_an_empty_file_leaves_every_claim_with_a_sentence(what):
    found = verdicts([], what)
    assert [v.claim for v in found] == [claim.key for claim in CLAIMS[what]]
    assert {v.outcome for v in found} == {NOT_TESTABLE}
    assert {v.numbers for v in found} == {f"there are no rows of {what} for this claim"}


def test_missing_methods_steps_and_numbers_are_named():
    rows = [r for r in fig1_rows() if r.method != "SEA"]
    found = {v.claim: v for v in verdicts(rows, "fig1", TIES)}
    assert found["1.2"].outcome == NOT_TESTABLE
    assert found["1.2"].numbers == "there are no rows of SEA"
    assert found["1.3"].outcome == CONFIRMED  # does not speak of SEA
    unknown = [r._replace(upper_error=math.nan) for r in fig1_rows()]
    found = {v.claim: v for v in verdicts(unknown, "fig1", TIES)}
    assert found["1.2"].numbers == "a-IRG has no finite upper_error at step 1000"
    late = [r for r in fig2_rows() if r.iteration > 500 or r.method == "Exact"]
    assert "has no row within" in {v.claim: v for v in verdicts(late, "fig2", NONE)}["2.5"].numbers
    few = [r for r in table1_rows() if r.iteration > 9000 or r.method in CUTS]
    assert "too few rows" in {v.claim: v for v in verdicts(few, "table1", ONES)}["T.1"].numbers
    half = [r for r in fig2_rows() if not r.instance.startswith("n = 3")]
    assert {v.claim: v for v in verdicts(half, "fig2", NONE)}["2.2"].numbers == (
        "there are no rows of n = 3"
    )


def test_a_claim_without_its_facts_is_not_testable():
    found = {v.claim: v for v in verdicts(fig1_rows(), "fig1")}
    assert found["1.4"].numbers == "the shape of the training data is not known"


# --- pictures and report


def experiment_of(what):
    rows, facts = ALL[what]
    return paper_runs.Experiment(what, f"Title of {what}", rows, facts)


@pytest.mark.sample(5)
@pytest.mark.parametrize(  # the many pictures of figure 2 take longest
    "what", [pytest.param(what, marks=pytest.mark.full if what == "fig2" else ()) for what in ALL]
)
def test_report_and_pictures_come_from_rows_csv_and_hold_every_claim(what, tmp_path):
    made = reproduce.write(experiment_of(what), tmp_path, "Made.", lambda line: None)
    text = (tmp_path / "report.md").read_text()
    for claim in CLAIMS[what]:
        assert claim.quote.replace("|", "\\|") in text
        assert claim.rule.replace("|", "\\|") in text
    assert text.count(f"**{CONFIRMED}**") >= len(CLAIMS[what])
    header = (tmp_path / "rows.csv").read_text().splitlines()[0]
    assert header == (
        "experiment,instance,method,iteration,gradients,seconds,upper,lower,upper_error,"
        "lower_error,distance,passes"
    )
    pictures = [path for path in made.files if path.suffix in (".png", ".pdf")]
    assert len(pictures) >= 2
    for path in pictures:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"%PDF")
        assert path.name in text
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in made.files}


def test_the_report_of_a_twin_says_so_everywhere(tmp_path):
    found = experiment_of("fig1")
    found.title = "Figure 1: regression on synthetic twin of the data"
    found.facts = {PAPER: TIES[PAPER]._replace(is_twin=True, label="synthetic twin of the data")}
    text = report(found, found.rows, [], "Made.")
    assert text.startswith("# Figure 1: regression on synthetic twin")
    assert "**Data: synthetic twin.**" in text
    assert "on the twin it holds" in text
    assert "dimension 630" in text
    drawn = figures.error_curves(found.rows, "fig1", [PAPER], ["iteration"], found.title)
    assert "synthetic twin" in drawn.get_suptitle()


def test_without_matplotlib_rows_and_report_are_written_and_the_report_says_so(
    tmp_path, monkeypatch
):
    plain = builtins.__import__

    def without(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    made = reproduce.write(experiment_of("fig2"), tmp_path, "Made.", lambda line: None)
    assert [path.name for path in made.files] == ["rows.csv", "report.md"]
    assert "pip install matplotlib" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("where", ["_pictures", "report"])
def test_a_run_that_is_killed_leaves_whole_files_and_no_report(tmp_path, monkeypatch, where):
    (tmp_path / "report.md").write_text("of an older run")

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "_pictures", lambda *args: [])
    monkeypatch.setattr(reproduce, where, killed)
    with pytest.raises(KeyboardInterrupt):
        reproduce.write(experiment_of("fig2"), tmp_path, "Made.", lambda line: None)
    assert len(read_rows(tmp_path / "rows.csv")) == len(ALL["fig2"][0])
    assert not (tmp_path / "report.md").exists()
    assert not list(tmp_path.glob(".*"))


def test_pictures_can_be_drawn_from_the_strangest_rows():
    nothing = [Record("compare", "p", "m", 1, 1, 0.0, 1.0, 1.0, math.nan, math.nan, math.nan)]
    zeros = [nothing[0]._replace(iteration=k, upper_error=0.0, lower_error=-1e-9) for k in range(9)]
    for rows in ([], nothing, zeros):
        figures.comparison(rows).canvas.draw()
    figures.rates(zeros, {}, "title").canvas.draw()


def test_a_method_looks_the_same_under_both_its_names():
    assert figures.style_of("AGM-BiO") == figures.style_of("agm-bio")
    looks = [figures.style_of(name) for name in (*FIG1, *FIG2)]
    assert len({(look.line, look.marker) for look in looks}) == len({*FIG1, *FIG2})


def test_comparison_is_saved_in_the_format_of_its_ending(tmp_path):
    rows = [row._replace(experiment="compare") for row in fig1_rows()]
    figures.comparison(rows, tmp_path / "race.pdf")
    assert (tmp_path / "race.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fig3",), "reproduce: what must be one of fig1, fig2, table1, got 'fig3'"),
        (("fig2", "out", "f.json"), "reproduce: data is for fig1 only, got it with fig2"),
    ],
)
def test_wrong_arguments_get_a_sentence(tmp_path, arguments, sentence):
    what, *rest = arguments
    with pytest.raises(ValueError, match=sentence):
        reproduce.reproduce(what, tmp_path, *rest[1:])


# --- the runs


@pytest.fixture
def without_pictures(monkeypatch):
    monkeypatch.setattr(reproduce, "_pictures", lambda *args: [])


def test_a_short_figure_2_is_run_judged_and_reported(tmp_path, without_pictures):
    said = []
    found = paper_runs.figure_2(True, said.append, steps=40)
    made = reproduce.write(found, tmp_path, "Made.", said.append)
    assert {v.claim for v in made.verdicts} == {claim.key for claim in CLAIMS["fig2"]}
    assert not [v for v in made.verdicts if v.outcome == NOT_TESTABLE]
    text = (tmp_path / "report.md").read_text()
    assert "Is it our mistake?" in text
    assert "gamma ten times larger" in text
    rows = read_rows(tmp_path / "rows.csv")
    assert {r.method for r in rows if r.experiment == "fig2"} == {*FIG2, BISECTION, "Exact"}
    by_claim = {(v.claim, v.place): v.outcome for v in made.verdicts}
    assert by_claim["2.7", "n = 100"] == CONFIRMED
    assert by_claim["2.8", "random Q, A, b"] == NOT_CONFIRMED
    assert said


def test_the_formulas_in_the_report_are_where_the_runs_end():
    """R-APM and PB-APG on the inverse problem end at the limit points that the report gives."""
    n, steps = 3, 1000
    problem = tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.ones((1, n)), [1.0]), domain=tb.Orthant()
    )
    rows = race(
        problem, paper_runs.inverse_entrants(problem, steps), Answer(0.5 / n, 0.0),
        x0=[0.3, 0.9, 0.1], steps=steps, experiment="fig2", instance="n = 3",
    )  # fmt: skip
    last = {row.method: row for row in rows}
    for method, eta in (("R-APM", 1.0 / 1001.0), ("PB-APG", 1e-4)):
        assert last[method].lower_error == pytest.approx(0.5 * (eta / (n + eta)) ** 2, rel=1e-6)
    assert last["Bi-SG"].lower_error < 1e-30
    assert "g - g* = 5.54e-08" in paper_runs._limits(n, steps)


def test_regression_entrants_keep_the_papers_parameters_where_their_conditions_allow():
    problem = tb.Problem(
        upper=tb.LeastSquares(np.eye(3), np.ones(3)),
        lower=tb.LeastSquares(200.0 * np.eye(2, 3), np.ones(2)),  # L_g = 4e4 > 1e4
        domain=tb.Ball(1.0),
    )
    methods = {e.label: e.method for e in paper_runs.regression_entrants(problem, 79_999)}
    assert set(methods) == {*FIG1, "CG-BiO, 2/(k+2)"}
    assert methods["R-APM"].eta == pytest.approx(1.25e-5)
    assert methods["R-APM"].step_size == pytest.approx(1 / (4e4 + 1.25e-5))
    assert methods["SEA"].lower_step == pytest.approx(1 / 4e4)
    assert methods["PB-APG"].penalty == 1e4
    assert (methods["CG-BiO"].scale, methods["CG-BiO"].eps_g) == (1e-2, 1e-4)
    assert not any(method.check(problem) for method in methods.values())


def test_figure_1_runs_on_any_regression(tmp_path, monkeypatch, without_pictures):
    """The whole of fig1 on a small problem in the place of the twin: all claims get a verdict."""

    def small(name, file=None, seed=0, **rest):
        rng = np.random.default_rng(seed)
        A, rows = rng.random((30, 12)), 8 if name == "regression-few-rows" else 20
        return Built(
            label="synthetic twin of nothing",
            problem=tb.Problem(
                upper=tb.LeastSquares(A[rows:], rng.random(30 - rows)),
                lower=tb.LeastSquares(A[:rows], rng.random(rows)),
                domain=tb.Ball(1.0),
            ),
            x0=np.zeros(12),
        )

    monkeypatch.setattr(paper_runs, "instance", small)
    monkeypatch.setattr(paper_runs, "QUICK", (60, 60, 20))
    made = reproduce.reproduce("fig1", tmp_path, quick=True)
    assert {v.claim for v in made.verdicts} == {claim.key for claim in CLAIMS["fig1"]}
    raced = [v for v in made.verdicts if v.place.endswith("by iteration")]
    assert len(raced) == 6
    assert all("on the twin it" in v.numbers for v in raced)
    text = (tmp_path / "report.md").read_text()
    assert "by Exact" in text
    assert "split 2" in text


@pytest.mark.parametrize("pull", PULLS)
@pytest.mark.parametrize("make", [table.order_1, table.order_2, table.bounded, table.shortest])
def test_planted_instances_have_the_answer_that_they_claim(make, pull):
    planted = make(pull)
    problem, answer = planted.problem, planted.answer
    assert problem.domain.contains(answer.solution, 1e-12)
    assert problem.upper.value(answer.solution) == pytest.approx(answer.upper, abs=1e-14)
    assert problem.lower.value(answer.solution) == pytest.approx(answer.lower, abs=1e-14)
    exact = tb.solve(problem, Exact())
    assert exact.upper_value == pytest.approx(answer.upper, abs=1e-8)
    assert exact.lower_value == pytest.approx(answer.lower, abs=1e-12)


@pytest.mark.parametrize("pull", PULLS)
@pytest.mark.parametrize("make", [table.order_1, table.order_2])
def test_planted_error_bounds_hold(make, pull):
    planted = make(pull)
    problem, solution = planted.problem, planted.answer.solution
    bound = problem.error_bound
    rng = np.random.default_rng(0)
    assert np.linalg.norm(problem.upper.gradient(solution)) <= bound.gradient_bound * (1 + 1e-12)
    for number in range(400):
        x = problem.domain.project(solution + rng.standard_normal(solution.size) * rng.random())
        if bound.order == 1.0:
            distance = np.linalg.norm(x[:6])
        else:  # from the part of the plane A z = A x* in the ball, which has the same center
            A = problem.lower.matrix.dense()
            shortest = np.linalg.pinv(A) @ (A @ solution)
            if number % 2:  # on the sphere, off the plane along the row that g sees least
                free = x - np.linalg.pinv(A) @ (A @ x)
                least = np.linalg.svd(A)[2][5]
                x = shortest - rng.random() * np.sign(shortest @ least) * least
                x += free / np.linalg.norm(free) * np.sqrt(max(1.0 - x @ x, 0.0))
            along = np.linalg.pinv(A) @ (A @ x)
            room, free = np.sqrt(1.0 - shortest @ shortest), np.linalg.norm(x - along)
            distance = np.hypot(np.linalg.norm(along - shortest), max(free - room, 0.0))
        growth = bound.modulus / bound.order * distance**bound.order
        assert growth <= problem.lower.value(x) * (1 + 1e-9)


def test_every_row_of_the_table_has_a_trial_and_a_short_table_is_reported(
    tmp_path, count, without_pictures
):
    assert list(table.TRIALS) == [rate.label for rate in RATES]
    found = table.table_1(False, lambda line: None, longest=count(150, 10_000))
    made = reproduce.write(found, tmp_path, "Made.", lambda line: None)
    assert {v.claim for v in made.verdicts} == {claim.key for claim in CLAIMS["table1"]}
    for v in made.verdicts:
        print(v.claim, v.quote, v.place, v.outcome, v.numbers, sep=" | ")
    by_claim = {v.claim: v.outcome for v in made.verdicts}
    assert by_claim["T.12"] == CONFIRMED  # the cut at z_k breaks the lower level
    if count(0, 1):  # the misses are known: see the notes of the report
        missed = {(v.claim, v.place) for v in made.verdicts if v.outcome != CONFIRMED}
        slow = {"a-IRG, weak pull", "CG-BiO, weak pull", "AGM-BiO, weak pull"}
        assert {place for claim, place in missed if claim != "T.13"} == slow


def test_the_report_has_the_parameters_of_the_first_and_of_the_last_of_several_runs():
    found = paper_runs.Experiment("table1", "Table 1")
    table._measure(found, "SEA", 1.0, table.TRIALS["SEA"], 400)
    table._measure(found, "Bi-SG", 1.0, table.TRIALS["Bi-SG"], 4)
    assert [row.iteration for row in found.rows if row.method == "SEA" and row.iteration] == [
        100, 178, 316,
    ]  # fmt: skip
    text = report(found, found.rows, [], "Made.")
    assert re.search(r"\| SEA \| .*horizon=100\).* to .*horizon=316\)", text)
    assert text.count("BiSG(") == 1


# --- the ablation


@pytest.mark.parametrize("gamma", [1.0, 0.1])
def test_with_the_cut_at_y_the_ablation_is_agm_bio_with_exact_levels(gamma):
    planted = table.order_2(1.0)
    steps, answer = 150, planted.answer
    entrants = [
        Entrant("ours", tb.AGMBiO(gamma=gamma, levels=tb.GivenLevels(0.0))),
        Entrant("cut", CutAt(0.0, gamma=gamma)),
    ]
    rows = race(planted.problem, entrants, answer, steps=steps, experiment="e", instance="i")
    ours, cut = ([r for r in rows if r.method == name] for name in ("ours", "cut"))
    for a, b in zip(ours, cut, strict=True):
        assert b.upper == pytest.approx(a.upper, rel=1e-10)
        assert b.lower == pytest.approx(a.lower, rel=1e-7, abs=1e-14)


def test_the_cut_at_z_exceeds_the_bound_of_theorem_1_and_the_cuts_at_y_and_x_do_not():
    """g(x_k) - g* <= 2 L_g D²/(k+1): at x_k by the Frank-Wolfe recursion, at y_k by the theorem."""
    rng = np.random.default_rng(1)
    A, V = rng.standard_normal((20, 50)), rng.standard_normal((60, 50))
    inside = rng.standard_normal(50)
    lower = tb.LeastSquares(A, A @ inside / (2 * np.linalg.norm(inside)))
    problem = tb.Problem(
        upper=tb.LeastSquares(V, rng.standard_normal(60)), lower=lower, domain=tb.Ball(1.0)
    )
    steps = 1000
    cuts = [Entrant(name, CutAt(0.0, s)) for name, s in zip(CUTS, (None, 0.0, 1.0), strict=True)]
    rows = race(problem, cuts, Answer(0.0, 0.0), steps=steps, experiment="e", instance="i")
    ratios = dict.fromkeys(CUTS, 0.0)
    for row in rows:
        if row.iteration:
            bound = 2.0 * lower.lipschitz * 4.0 / (row.iteration + 1)
            ratios[row.method] = max(ratios[row.method], row.lower_error / bound)
    print("largest (g - g*)/bound:", ratios)
    assert max(ratios[CUTS[0]], ratios[CUTS[1]]) <= 1.0
    assert ratios[CUTS[2]] > 5.0


def test_rows_survive_the_file(tmp_path):
    rows = fig2_rows()
    write_rows(tmp_path / "rows.csv", rows)
    assert repr(read_rows(tmp_path / "rows.csv")) == repr(rows)
