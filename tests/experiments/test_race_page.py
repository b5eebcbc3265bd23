"""`tiebreak race`: who runs, who refuses, who arrives, and that the page says what the rows say."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tiebreak as tb
from tiebreak.driver import registry
from tiebreak.experiments import field
from tiebreak.experiments.race import Record, read_rows
from tiebreak.experiments.standings import Course, Standings

ROOT = Path(__file__).parents[2]
METHODS = ("agm-bio", "p-agm-bio", "primal-dual", "a-irg", "bi-sg")
COURSES = ("toy", "simplex", "lasso-duplicates")


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A small race, in this process."""
    out = tmp_path_factory.mktemp("race")
    return out, field.run_field(out, METHODS, passes=60, courses=COURSES, workers=1)


def recomputed(out: Path) -> str:
    script = ROOT / "benchmarks" / "race" / "recompute.py"
    assert len(script.read_text().splitlines()) <= 80
    assert "import tiebreak" not in script.read_text()
    done = subprocess.run(
        [sys.executable, str(script), str(out)], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_every_method_runs_or_refuses_with_its_sentence(raced):
    _, standings = raced
    why = {(one.instance, one.method): one.why for one in standings.refused}
    for name in COURSES:
        for method in METHODS:
            assert ((name, method) in standings.runs) != bool(why.get((name, method)))
    assert why["toy", "p-agm-bio"] == "without a penalty P-AGM-BiO is AGM-BiO"
    assert "AGMBiO: lower must be smooth" in why["lasso-duplicates", "agm-bio"]


def test_a_run_ends_by_its_passes_and_other_points_have_rows_of_their_own(raced):
    _, standings = raced
    for rows in standings.runs.values():
        assert rows[-2].passes < 60
    assert "a-irg: the last iterate" in standings.methods
    assert "agm-bio, tuned" in standings.methods
    one, other = (standings.runs["toy", f"a-irg{what}"] for what in ("", ": the last iterate"))
    assert [row[3:5] for row in one] == [row[3:5] for row in other]
    assert one[-1].upper != other[-1].upper


def test_a_second_race_has_the_same_rows_but_for_the_seconds(raced, tmp_path):
    out, _ = raced
    field.run_field(tmp_path, METHODS, passes=60, courses=COURSES, workers=1)
    first, second = (read_rows(folder / "rows.csv") for folder in (out, tmp_path))
    assert [row._replace(seconds=0.0) for row in first] == [
        row._replace(seconds=0.0) for row in second
    ]
    for name in ("instances.csv", "refused.csv"):
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes()


def test_an_interrupted_race_goes_on_where_it_was(raced, tmp_path):
    out, _ = raced
    said = []

    def interrupted(line):
        said.append(line)
        if line.startswith("simplex"):
            raise KeyboardInterrupt

    options = {"passes": 60, "courses": COURSES, "workers": 1}
    with pytest.raises(KeyboardInterrupt):
        field.run_field(tmp_path, METHODS, **options, say=interrupted)
    assert not (tmp_path / "rows.csv").exists()
    said.clear()
    field.run_field(tmp_path, METHODS, **options, say=said.append)
    assert said[0] == "continues an unfinished race: 2 instances are done"
    assert [line.split(":")[0] for line in said[1:]] == ["lasso-duplicates"]
    first, second = (read_rows(folder / "rows.csv") for folder in (out, tmp_path))
    assert [row._replace(seconds=0) for row in first] == [row._replace(seconds=0) for row in second]
    for name in ("instances.csv", "refused.csv"):
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes()
    assert not [*tmp_path.glob("unfinished-*")]


def test_every_number_of_the_page_is_made_again_from_the_rows(raced, tmp_path):
    out, _ = raced
    found = re.match(r"(\d+) numbers and sentences made again, (\d+) differ", recomputed(out))
    assert found is not None
    assert int(found[1]) > 1000
    assert int(found[2]) == 0
    for name in ("rows.csv", "instances.csv", "refused.csv"):
        (tmp_path / name).write_bytes((out / name).read_bytes())
    page = (out / "race.html").read_text(encoding="utf-8")
    wrong = re.sub(r"(primal-dual</th><td[^>]*>)(\d+)", r"\g<1>9\2", page, count=1)
    assert wrong != page
    (tmp_path / "race.html").write_text(wrong, encoding="utf-8")
    assert "1 differ" in recomputed(tmp_path)


def row(method: str, passes: int, above: float, lower: float, instance: str = "one") -> Record:
    return Record(
        "race", instance, method, passes, passes, 0.1 * passes, 1.0 + above, lower, abs(above),
        lower, math.nan, passes,
    )  # fmt: skip


ONE = Course("one", 2, 1.0, 1.0, 1.0, 0.0, 2.0, 1, 100, "planted")


def test_a_run_arrives_where_it_stays_and_the_weak_criterion_allows_f_below():
    rows = [row("m", 1, 0.0, 0.0), row("m", 2, 0.5, 0.0), row("m", 3, -0.5, 1e-3)]
    assert ONE.arrival(rows, ("absolute", 1e-2)) is None
    assert ONE.arrival(rows, ("weak", 1e-2)) == rows[2]
    rows.append(row("m", 4, -1e-3, 1e-3))
    assert ONE.arrival(rows, ("absolute", 1e-2)) == rows[3]


def test_the_sentences_say_where_agm_bio_is_first_and_where_last():
    two = ONE._replace(instance="two")
    rows = [row("agm-bio", 10, 0.0, 0.0), row("other", 20, 0.0, 0.0), row("third", 9, 1.0, 0.0)]
    rows += [row("agm-bio", 30, 0.0, 0.0, "two"), row("other", 20, 0.0, 0.0, "two")]
    said = Standings(rows, [ONE, two], []).sentences()
    assert said[0] == "3 methods on 2 instances, 100 passes each."
    assert said[1] == (
        "weak 1e-2: agm-bio on 2, other on 2, third on 0 arrive most often; AGM-BiO arrives on 2, "
        "is first on one and last on two."
    )


def test_an_exponent_is_that_of_the_last_decade():
    rows = [row("m", k, 1.0 / k**2, 1.0 / k) for k in range(1, 1001)]
    standings = Standings(rows, [ONE], [])
    assert standings.exponent(ONE, "m", "f above") == pytest.approx(2.0, abs=0.02)
    assert standings.exponent(ONE, "m", "g") == pytest.approx(1.0, abs=0.02)
    below = Standings([row("m", k, -1.0, 0.0) for k in range(1, 1001)], [ONE], [])
    assert math.isnan(below.exponent(ONE, "m", "f above"))


@pytest.mark.parametrize("outside", [(10,), (100,), (10, 100)])
def test_there_is_no_exponent_where_a_point_is_outside_the_domain(outside):
    """Its errors are infinite: neither from nor to there do they decrease at a rate."""
    rows = [row("m", k, 1.0 / k, math.inf if k in outside else 1.0 / k) for k in range(1, 101)]
    assert math.isnan(Standings(rows, [ONE], []).exponent(ONE, "m", "g"))


def test_the_horizon_is_what_the_passes_pay_for():
    built = tb.instance("toy")
    method = field.planned(tb.RAPM(), built.problem, built.x0, 400)
    assert 100 <= method.horizon <= 200


def test_unknown_names_are_refused_before_any_work(tmp_path):
    with pytest.raises(
        ValueError, match=r"^race: unknown method 'agm_bio' .did you mean 'agm-bio'\?"
    ):
        field.run_field(tmp_path, ["agm_bio"])
    with pytest.raises(ValueError, match=r"^race: unknown method 'x', `tiebreak methods` lists"):
        field.run_field(tmp_path, ["x"])
    with pytest.raises(ValueError, match=r"^race: unknown instance 'toys', known are toy"):
        field.run_field(tmp_path, courses=["toys"])


def test_the_rules_are_on_the_page_and_in_the_docs_in_at_most_400_words(raced):
    text = (ROOT / "docs" / "race.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 400
    for name, rule in field.RULES:
        assert f"- **{name}**: {rule}" in text.replace("\\", ""), "run `make docs`"
    assert raced[1].rules == field.RULES


def test_what_is_tuned_is_a_parameter_of_the_method_and_has_five_values():
    for name, tuned in field.TUNED.items():
        assert len(set(tuned.values)) == 5
        if name in registry.METHODS:
            fields = {one.name for one in dataclasses.fields(registry.METHODS[name])}
            assert tuned.name in fields, name
            for value in tuned.values:
                registry.METHODS[name](**{tuned.name: value})
