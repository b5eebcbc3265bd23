"""The benchmark that decides: its planted answers, its marks, its table and its profiles."""

from __future__ import annotations

import csv
import itertools
import math
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiebreak as tb
from tiebreak.driver.trace import Row
from tiebreak.experiments import planted
from tiebreak.experiments.planted import drawn
from tiebreak.functions.sums import Scaled, Sum

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "race"))

import decide
import problems
import rivals_outside
import scores
from scores import Line, Mark

OPEN = ("callables", "groups", "isotonic", "large")


# --- the planted answers --------------------------------------------------------------------------


def strict_rows(h: Any, x: Any) -> list[Any]:
    """The rows in whose images h is strictly convex at x."""
    if isinstance(h, Scaled):
        return strict_rows(h.function, x)
    if isinstance(h, Sum):
        return strict_rows(h.first, x) + strict_rows(h.second, x)
    if isinstance(h, tb.Huber):
        A = h.matrix.dense()
        return [A[np.abs(A @ x - h.b) < h.delta]]
    return [h.matrix.dense()]


def best_direction(problem: tb.Problem, x: Any) -> float:
    """The most that f falls to first order along a direction in the minimisers of g: a LP.

    Directions d with |d_i| <= 1 that leave the images of g and <grad g(x*), d> as they are and
    point into the domain (of a ball: into its half-space of support).
    """
    from scipy.optimize import linprog

    n, domain = len(x), problem.domain
    smooth = problem.smooth_parts[1]
    equal = [*strict_rows(smooth, x), smooth.gradient(x)[None]]
    low, high, at_most = np.full(n, -1.0), np.full(n, 1.0), np.zeros((1, n))
    if not problem.is_smooth:  # L1 below, |slope| < weight where x* is 0: it stays 0
        low[x == 0.0] = high[x == 0.0] = 0.0
        equal.pop()
    if isinstance(domain, tb.Ball):
        if np.linalg.norm(x) > (1.0 - 1e-9) * domain.radius:
            at_most = x[None]
    elif isinstance(domain, tb.Monotone):
        at_most = (np.eye(n)[:-1] - np.eye(n)[1:])[np.diff(x) == 0.0]
    elif isinstance(domain, tb.Simplex):
        low[x == 0.0] = 0.0
        equal.append(np.ones((1, n)))
    elif isinstance(domain, tb.Box):
        low[x == domain.lower], high[x == domain.upper] = 0.0, 0.0
    A = np.vstack([rows / max(np.abs(rows).max(), 1e-300) for rows in equal])
    slope = problem.upper.gradient(x)
    found = linprog(
        slope / np.linalg.norm(slope), A_ub=at_most, b_ub=np.zeros(len(at_most)),
        A_eq=A, b_eq=np.zeros(len(A)), bounds=np.column_stack([low, high]), method="highs",
    )  # fmt: skip
    return float(found.fun)


def small_cases() -> list[planted.Case]:
    rng = np.random.default_rng(3)
    new = (drawn(seed, number) for seed in range(8) for number in (1, 2, 3))
    return [
        problems.ball(rng, 40, 30, 20),
        problems.sparse(rng, 60),
        problems.simplex(rng),
        problems.callables(rng, 8, 30),
        problems.sums(rng, 160),
        problems.isotonic(rng, 40, 15),
        problems.large(rng, 60),
        *(case for case in new if case.variables <= 100),
    ]


def test_no_planted_answer_can_be_improved() -> None:
    """x* minimises g (it is a fixed point of a prox step) and no direction lets f fall."""
    for case in small_cases():
        problem, x = case.make(), case.answer.solution
        step = 1.0 / problem.smooth_parts[1].lipschitz
        moved = problem.prox(x - step * problem.smooth_parts[1].gradient(x), 0.0, step)
        assert np.linalg.norm(moved - x) <= 1e-10 * np.linalg.norm(x), case.what
        assert best_direction(problem, x) >= -1e-6, case.what  # the tolerance of HiGHS is 1e-7


def test_the_check_of_planted_answers_finds_a_wrong_one() -> None:
    case = problems.callables(np.random.default_rng(0), 8, 30)
    problem, x = case.make(), case.answer.solution
    tilted = tb.Problem(
        upper=problem.upper + tb.Linear(np.ones(30)), lower=problem.lower, domain=problem.domain
    )
    assert best_direction(tilted, x) < -1e-2
    with pytest.raises(ArithmeticError, match="optimality conditions fail"):
        planted.checked("wrong", "", case.make, x, 0.0 * x, np.ones(30))


@pytest.mark.parametrize("name", ["unique", "simplex", "chain"])
def test_exact_agrees_with_the_planted_answer(name: str) -> None:
    case = problems.fixed(name)
    assert case.is_structured
    result = tb.solve(case.problem(informed=False), "exact")
    scale = decide.scale_of(case)
    assert max(scale.errors(result.upper_value, result.lower_value)) <= 1e-9


def test_the_exact_way_is_closed_for_four() -> None:
    assert len(problems.FIXED) == 12
    for name in OPEN:
        case = problems.fixed(name)
        assert not case.is_structured
        with pytest.raises(ValueError, match=r"Exact|must"):
            tb.solve(case.problem(informed=False), "exact", x0=np.zeros(case.variables))


def test_a_seed_repeats_what_is_drawn() -> None:
    first, again, other = (drawn(seed, 1) for seed in (5, 5, 6))
    assert first.what == again.what != other.what
    assert first.answer[:2] == again.answer[:2]


def test_callables_come_with_constants_only_where_asked() -> None:
    case = problems.fixed("callables")
    assert math.isinf(case.problem(informed=False).lower.lipschitz)
    assert math.isfinite(case.problem(informed=True).lower.lipschitz)
    assert case.make() is not case.make()
    history = case.with_order(case.problem(informed=True))
    assert "Theorem 2" in tb.AGMBiO().describe(history)


# --- marks ----------------------------------------------------------------------------------------

SCALE = decide.Scale(upper=10.0, lower=2.0, f=5.0, g=1.0, start=(15.0, 3.0))


def row(k: int, f: float, g: float, gaps: tuple[float, float] = (math.inf, math.inf)) -> Row:
    return Row(k, 0.1 * k, f, g, *gaps, k, 2 * k, 0)


def test_a_target_counts_from_where_it_is_held() -> None:
    rows = [
        row(0, 15.0, 3.0),
        row(1, 5.0, 1.0),  # by accident
        row(2, 6.0, 1.5),
        row(3, 5.009, 1.001),
        row(4, 5.0, 1.0021),  # f* reached, g* not
        row(5, 5.005, 1.0019),
        row(6, 5.0, 1.0, (0.0014, 3e-4)),
        row(7, 4.999995, 1.000001, (1.0, 1.0)),
    ]
    found = decide.marks(rows, SCALE, before=1.0)
    assert found == {
        "1e-3": Mark(1.5, 15),
        "1e-6": Mark(1.0 + 0.1 * 6, 18),
        "proof": Mark(1.0 + 0.1 * 6, 18),
    }
    assert decide.marks(rows[:3], SCALE, before=0.0) == {}


def test_a_watch_stops_once_everything_is_met_and_held() -> None:
    def seen(k: int, f: float, gap: float) -> Any:
        gaps = {"upper_gap": gap, "lower_gap": gap}
        return SimpleNamespace(nit=k, time=0.1 * k, upper_value=f, lower_value=1.0, **gaps)

    watch = decide.Watch(SCALE)
    for k in range(100):
        watch(seen(k, 5.0, 1.0))  # there, but not proved
    watch(seen(100, 5.1, 1e-5))  # proved, but not there
    for k in range(101, 132):
        watch(seen(k, 5.0, 1.0))
    with pytest.raises(StopIteration):
        watch(seen(132, 5.0, 1.0))
    hasty = decide.Watch(SCALE, patience=1.0)
    hasty(seen(20, 7.0, 1.0))  # late, but not proved
    with pytest.raises(StopIteration):
        hasty(seen(21, 7.0, 1e-5))


# --- the table, the summary, the profiles ---------------------------------------------------------


def lines() -> list[Line]:
    def line(problem: str, method: str, **met: tuple[float, int | None]) -> Line:
        names = {"rough": "1e-3", "fine": "1e-6", "proof": "proof"}
        marks = {names[key]: Mark(*mark) for key, mark in met.items()}
        return Line(problem, method, marks, 1e-12, 1e-13, 9.0, "certified", False, "")

    return [
        line("ball", "auto", rough=(1.0, 10), fine=(2.0, 20), proof=(2.0, 20)),
        line("ball", "adaptive", rough=(2.0, 5), proof=(4.0, 30)),
        line("ball", "agm-bio", rough=(4.0, 40), proof=(8.0, 60)),
        line("ball", "cvxpy, 0", rough=(9.0, None)),
        line("sums", "auto", fine=(3.0, 7)),
        line("sums", "adaptive", fine=(1.5, 7), proof=(1.0, 80)),
        line("sums", "agm-bio", proof=(1.0, 100)),
        line("sums", "cvxpy, 0")._replace(status="refused", note="not for me"),
    ]


def cases() -> list[planted.Case]:
    """Two of the right names: the summary looks at nothing else."""
    known = problems.fixed("simplex")
    return [
        planted.Case("ball", "a ball", known.make, known.answer, ties=3),
        planted.Case("sums", "sums of losses", known.make, known.answer),
    ]


def test_ratios_are_to_the_best_of_the_problem() -> None:
    all_of_them = lines()
    auto, adaptive, agm, conic = all_of_them[:4]
    assert scores.ratio(all_of_them, agm, "1e-3") == 4.0
    assert scores.ratio(all_of_them, auto, "1e-3", "gradients") == 2.0
    assert scores.ratio(all_of_them, adaptive, "1e-6") == math.inf
    assert scores.ratio(all_of_them, conic, "1e-3", "gradients") == math.inf


def test_a_profile_counts_the_problems_that_somebody_solves() -> None:
    assert scores.shares(lines(), "auto", "1e-6") == ([1.0, 2.0], [0.5, 1.0])
    assert scores.shares(lines(), "adaptive", "1e-6") == ([1.0], [0.5])
    assert scores.shares(lines(), "agm-bio", "1e-3") == ([4.0], [1.0])
    assert scores.shares(lines(), "nobody", "proof") == ([], [])


def test_the_table_and_the_summary_say_it() -> None:
    first, second = cases()
    shown = scores.table(first, lines()[:4])
    assert "solution set of dimension 3" in shown
    (agm,) = [line for line in shown.splitlines() if "agm-bio" in line]
    assert agm.split()[1:7] == ["4.00", "-", "4.00", "8.00", "-", "3.00"]
    assert "took no part: cvxpy, 0" in scores.table(second, lines()[4:])
    whole = scores.overall(lines()).splitlines()
    assert whole[0].startswith("all 2 problems")
    (auto,) = [line for line in whole if line.startswith("  auto")]
    assert auto.split()[1:] == ["1", "1.00", "2.00", "2", "1.50", "1.00", "1", "1.00", "1.00"]
    said = scores.summary([first, second], lines())
    assert "where AGM-BiO arrives (2): median 0.65 (asked 0.6), worst 0.80" in said
    assert "adaptive arrives on 2 of 2" in said
    assert "auto to 1e-6: the fastest on 1 of 2 (0 that no method meets), at most 2.00" in said
    assert "auto to proof: the fastest on 1 of 2" in said
    assert "not there on sums" in said
    assert "takes 4 times as long as auto on ball" in said
    assert "wrong certificates: none" in said


def test_numbers_and_picture_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scores.save(tmp_path / "new", lines())
    with (tmp_path / "new" / "decide.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(lines())
    assert rows[1] | {"target": "1e-6", "seconds": "2.0", "gradients": "20.0"} == rows[1]
    assert "performance profiles" in scores.profile(tmp_path / "decide.png", lines())
    assert (tmp_path / "decide.png").read_bytes().startswith(b"\x89PNG")


# --- those from outside, and everybody at once ----------------------------------------------------


def asleep(case: planted.Case, budget: float) -> rivals_outside.Outcome:
    time.sleep(60.0)
    raise AssertionError


def failing(case: planted.Case, budget: float) -> rivals_outside.Outcome:
    raise ArithmeticError("no luck")


def test_who_is_late_or_fails_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals_outside, "GRACE", 0.1)
    case = problems.fixed("simplex")
    late = rivals_outside.limited(asleep, case, 0.1)
    assert (late.x, late.words) == (None, "out of time")
    failed = rivals_outside.limited(failing, case, 30.0)
    assert (failed.x, failed.words) == (None, "ArithmeticError: no luck")


@pytest.mark.sample(2)
@pytest.mark.parametrize("delta", [0.0, 1e-8])
def test_two_stages_by_hand_come_close(delta: float, count: Callable[[int, int], int]) -> None:
    pytest.importorskip("cvxpy", reason="the conic rival needs CVXPY")
    chosen = small_cases()
    for case in (chosen[i] for i in (0, 3, 2, 5)[: count(2, 4)]):
        found = rivals_outside.limited(rivals_outside.conic(delta), case, 60.0)
        assert found.x is not None, (case.what, found.words)
        problem, scale = case.make(), decide.scale_of(case)
        values = problem.upper.value(found.x), problem.lower.value(found.x)
        assert max(scale.errors(*values)) <= 3e-2, (case.what, scale.errors(*values))


def test_trust_constr_comes_closer_than_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.perf_counter", itertools.count().__next__)  # one look at it, one tick
    for case in (problems.fixed("simplex"), problems.callables(np.random.default_rng(0), 4, 10)):
        found = rivals_outside.trust_constr(case, 400.0)
        assert found.words == "out of time"
        assert 400.0 < found.seconds < 410.0
        problem, scale = case.make(), decide.scale_of(case)
        assert found.x is not None
        assert found.gradients
        values = problem.upper.value(found.x), problem.lower.value(found.x)
        assert max(scale.errors(*values)) <= 5e-2, case.what


def test_everybody_gets_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals_outside, "GRACE", 0.5)
    monkeypatch.setattr(rivals_outside, "missing", lambda module: True)  # those take their time
    case = problems.simplex(np.random.default_rng(0))
    found = decide.race(case, 0.3)
    assert {"auto", "agm-bio", *decide.RIVALS} <= {line.method for line in found}
    assert not any(line.wrong for line in found)
    refused = [line for line in found if line.status == "refused"]
    assert all(line.note for line in refused)


def test_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "IMPORTED", ())
    chosen = ["--only", "simplex", "--methods", "auto", "r-apm", "--budget", "0.2"]
    assert decide.main([*chosen, "--seed", "4", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "problems drawn with --seed 4" in printed
    assert "r-apm" in printed
    assert "agm-bio" not in printed
    assert "wrong certificates: none" in printed
    assert (tmp_path / "decide.csv").exists()
    with pytest.raises(SystemExit):
        decide.main(["--only", "nonsense"])
    assert "--only: 'nonsense' is unknown" in capsys.readouterr().err


def test_nothing_asks_for_constants_but_to_reproduce_the_paper():
    """No call in the README or `make bench` passes a Lipschitz constant, a gamma or a horizon.

    `make bench-scale` times steps of the paper's method, whose constants are not what is timed.
    """
    root = Path(__file__).parents[2]
    folders = (root / "benchmarks" / name for name in ("race", "kernels"))
    texts = {path.name: path.read_text("utf-8") for each in folders for path in each.glob("*.py")}
    texts["README.md"] = "\n".join(
        re.findall(
            r"^```python\n(.*?)^```$",
            (root / "README.md").read_text(encoding="utf-8"),
            re.DOTALL | re.MULTILINE,
        )
    )
    found = {
        (name, match)
        for name, text in texts.items()
        for match in re.findall(r"\b(?:lipschitz|gamma|horizon)=[^=\s,)]+", text)
    }
    assert found == {("step.py", "gamma=1e-2")}  # the cost of a step of the paper's regression
    # Lipschitz constants go to those rivals that need them, before their clock starts.
    text = Path(planted.__file__).read_text(encoding="utf-8")
    assert text.count("lipschitz if informed else None") == 1
