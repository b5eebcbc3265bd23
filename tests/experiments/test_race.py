"""A fair race, and the tables that are made from its rows."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.catalog.built import Answer
from tiebreak.experiments import race as racing
from tiebreak.experiments.compare import Comparison
from tiebreak.experiments.race import (
    Entrant,
    Record,
    RelativeScale,
    race,
    read_rows,
    write_rows,
)

N = 5
SOLUTION = np.full(N, 1 / N)
ANSWER = Answer(1 / (2 * N), 0.0, SOLUTION)


def inverse_problem():
    """The paper's: f* = 1/(2n) at x* = 1/n."""
    return tb.Problem(
        upper=tb.SquaredNorm(), lower=tb.LeastSquares(np.ones((1, N)), [1.0]), domain=tb.Orthant()
    )


def run_race(*methods, steps=300, **options):
    entrants = [Entrant(f"m{i}", method) for i, method in enumerate(methods)]
    options = {"x0": np.arange(N), "experiment": "test", "instance": "inverse"} | options
    return race(inverse_problem(), entrants, ANSWER, steps=steps, **options)


def test_everybody_starts_at_the_same_point_and_ends_at_the_last_step():
    rows = run_race(tb.AGMBiO(gamma=0.1), tb.AGMBiO(gamma=0.01))
    first = [row for row in rows if row.iteration == 0]
    assert [row.method for row in first] == ["m0", "m1"]
    assert first[0].upper == first[1].upper == 0.5 * np.sum(np.arange(N) ** 2)
    assert [row.method for row in rows if row.iteration == 300] == ["m0", "m1"]


def test_the_errors_are_those_of_the_point():
    problem, method = inverse_problem(), tb.AGMBiO(gamma=0.1)
    last = run_race(method)[-1]
    x = tb.solve(problem, method, x0=np.arange(N), max_iter=300, rtol=0.0).x
    assert last.upper_error == pytest.approx(abs(0.5 * x @ x - 0.1), abs=1e-15)
    assert last.lower_error == pytest.approx(0.5 * (x.sum() - 1) ** 2, abs=1e-15)
    assert last.distance == pytest.approx(np.linalg.norm(x - SOLUTION), abs=1e-12)


def test_gradients_are_counted_as_the_functions_count_them():
    calls = []

    def gradient(x):
        calls.append(1)
        return x

    smooth = tb.Smooth(lambda x: 0.5 * float(x @ x), gradient, lipschitz=1.0)
    problem = tb.Problem(upper=smooth, lower=tb.SquaredNorm(), domain=tb.Ball(1.0))
    method = tb.AGMBiO(gamma=1.0)
    method.init(problem, np.ones(2))  # race does so once, outside the count
    outside = len(calls)
    calls.clear()
    rows = race(
        problem, [Entrant("agm", method)], Answer(0.0, 0.0),
        x0=np.ones(2), steps=50, experiment="", instance="",
    )  # fmt: skip
    of_g = 2 * 50 + 2  # two a step, two before the first
    assert rows[-1].gradients == len(calls) - outside + of_g


def test_the_clock_stops_while_measuring(monkeypatch, clock):
    """A step takes one second, measuring a hundred."""

    @dataclass(frozen=True)
    class Slow(tb.AGMBiO):
        def step(self, problem, state):
            clock.wait(1.0)
            return super().step(problem, state)

    measure = racing._measured

    def slow_measure(run, *rest):
        rows = [*measure(run, *rest)]
        clock.wait(100.0)
        return rows

    monkeypatch.setattr(racing, "_measured", slow_measure)
    rows = run_race(Slow(gamma=0.1), steps=40)
    assert [row.seconds for row in rows] == [row.iteration for row in rows]
    assert len(rows) == 41
    rows = run_race(Slow(gamma=0.1), steps=40, seconds=10.0)
    assert rows[-1].iteration == 10


def test_a_run_that_is_not_finite_ends_alone():
    @dataclass(frozen=True)
    class Explodes(tb.AGMBiO):
        def step(self, problem, state):
            new = super().step(problem, state)
            return new._replace(upper_value=math.nan) if new.k == 7 else new

    rows = run_race(Explodes(gamma=0.1), tb.AGMBiO(gamma=0.1), steps=20)
    assert [row.iteration for row in rows if row.method == "m0"] == list(range(7))
    assert rows[-1] == rows[-1]._replace(method="m1", iteration=20)


def test_rows_survive_the_file(tmp_path):
    rows = run_race(tb.AGMBiO(gamma=0.1), steps=20)
    rows.append(rows[-1]._replace(method='a, "quoted" name', distance=math.inf, upper=1e-300 / 3))
    path = tmp_path / "rows.csv"
    write_rows(path, rows)
    assert read_rows(path) == rows
    assert path.read_text().splitlines()[0] == ",".join(Record._fields)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "rows.csv: the columns must be experiment, .*, got an empty file"),
        ("a,b\n", "rows.csv: the columns must be experiment, .*, got a, b"),
        (",".join(Record._fields) + "\nx,y,z,1\n", "line 2 must have 12 cells .*got 'x,y,z,1'"),
        (",".join(Record._fields) + "\n" + ",".join("abcdefghijk"), "line 2 must have 12 cells"),
    ],
)
def test_a_wrong_file_of_rows_gets_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_rows(path)


# -- compare --------------------------------------------------------------------------------------


def row(method, iteration, upper_error, lower_error, **others):
    record = Record(
        "", "", method, iteration, 2 * iteration, 0.5 * iteration, 0.0, 0.0, 0.0, 0.0, 0.0
    )
    return record._replace(upper_error=upper_error, lower_error=lower_error, **others)


def doctored():
    rows = [
        row("a", 1, 1e-3, 1.0),  # f is right by chance, g is not
        row("a", 2, 1e-3, 1e-3),
        row("a", 3, 1e-1, 1e-3),  # and away again
        row("a", 4, 1e-3, -1e-17),
        row("b", 1, 1e-1, 1e-1),
        row("b", 9, 1e-5, 1e-5),
    ]
    return Comparison(rows, ANSWER, "doctored", (1.0, 1.0), {"c": "C: it does not like it"})


def test_an_accuracy_is_reached_when_both_levels_stay_within_it():
    outcome = doctored()
    assert outcome.methods == ["a", "b"]
    assert outcome.first("a", 1e-2).iteration == 4
    assert outcome.first("a", 0.1).iteration == 2
    assert outcome.first("a", 1e-4) is None
    assert outcome.first("b", 1e-5).iteration == 9
    assert outcome.last("b").iteration == 9


def test_a_start_that_is_optimal_with_f_equal_to_0_has_a_scale():
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares([[1.0, 1.0]], [0.0]))
    scale = RelativeScale.of(problem, [0.0, 0.0], Answer(0.0, 0.0))
    assert scale.errors(0.5, 0.25) == (0.5, 0.25)
    assert scale.is_within(0.0, 0.0, 0.0)
    assert not scale.is_within(1.0, 0.0, math.nan)
    assert not scale.is_within(1.0, math.nan, 0.0)


def test_accuracies_are_relative_to_the_scales():
    outcome = doctored()
    wider = Comparison(outcome.rows, ANSWER, "", (1e3, 1e3), {})
    assert wider.first("a", 1e-4).iteration == 2


def test_the_tables_say_who_is_first_in_gradients_and_in_seconds():
    text = str(doctored())
    assert "f* = 0.1, g* = 0 (doctored)" in text
    gradients = text[text.index("gradients to reach") :].splitlines()
    assert gradients[1].split()[:4] == ["a", "4", "8*", "8*"]
    assert gradients[2].split()[:4] == ["b", "2*", "18", "18"]
    seconds = text[text.index("seconds to reach") :].splitlines()
    assert seconds[1].split()[:4] == ["a", "1", "2*", "2*"]
    assert "c did not take part: C: it does not like it" in text
