"""The recipes of CONTRIBUTING.md run as printed, and what they make passes the library's tests."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from functions import test_functions
from sets import test_domains

import tiebreak as tb
from tiebreak.driver.registry import METHODS
from tiebreak.experiments.race import read_rows
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.functions.substitution import Substitution

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def recipe() -> Iterator[Any]:
    """All names of the recipe of that title, once its code has run: ``recipe("Add a set")``."""
    done: dict[str, dict[str, Any]] = {}

    def names(title: str) -> dict[str, Any]:
        if title not in done:
            page = PAGE.read_text(encoding="utf-8")
            section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
            blocks = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
            module = types.ModuleType(title.replace(" ", "_").lower())
            sys.modules[module.__name__] = module  # where dataclasses look up their annotations
            done[title] = vars(module)
            for block in blocks:
                code = compile(block, f"{PAGE.name}: {title}", "exec", dont_inherit=True)
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, done[title])
        return done[title]

    yield names
    METHODS.pop("explicit-descent", None)


# --- a method ------------------------------------------------------------------------------------


def test_the_method_is_certified_and_near_the_exact_answer(recipe):
    names = recipe("Add a method")
    problem, result = names["problem"], names["result"]
    assert result.status == "certified"
    assert "explicit descent" in result.method
    exact = tb.solve(problem, "exact")
    assert abs(result.upper_value - exact.upper_value) <= result.upper_error + 1e-9
    assert result.lower_value - exact.lower_value <= result.lower_gap + 1e-12


def test_the_method_refuses_what_it_does_not_take_in_one_sentence(recipe):
    names = recipe("Add a method")
    method, lower = names["ExplicitDescent"], names["problem"].lower
    unbounded = tb.Problem(upper=tb.SquaredNorm(), lower=lower)
    with pytest.raises(ValueError, match="ExplicitDescent: domain must be bounded, got Space"):
        tb.solve(unbounded, method())
    penalty = tb.Problem(upper=tb.L1(), lower=lower, domain=tb.Ball(3.0))
    with pytest.raises(ValueError, match="ExplicitDescent: upper must be smooth"):
        tb.solve(penalty, method())
    with pytest.raises(ValueError, match="ExplicitDescent: eta_0 must be"):
        method(eta_0=-1.0)


def test_the_method_races_against_the_others(recipe):
    names = recipe("Add a method")
    race = tb.compare(names["problem"], [names["ExplicitDescent"](), "agm-bio"], max_iter=20)
    assert "explicit-descent" in str(race)


PROBLEM = """
[upper]
kind = "SquaredNorm"
[lower]
kind = "LeastSquares"
A = [[1.0, 2.0, 3.0, -1.0], [0.5, -1.0, 0.0, 2.0]]
b = [4.0, 1.0]
[domain]
kind = "Ball"
radius = 4.0
[solve]
rtol = 0.0
max_iter = 6000
checkpoint = "run.npz"
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL to send to a process")
def test_the_method_in_a_file_is_raced_killed_and_resumed_to_the_same_bits(tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("\n## Add a method\n")[1]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[0]
    assert len(code.splitlines()) <= 80

    def run(folder: Path, *words: str) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        (folder / "explicit.py").write_text(code)
        (folder / "p.toml").write_text(PROBLEM)
        words = words or ("solve", "p.toml", "--method", "explicit.py:ExplicitDescent")
        return subprocess.Popen(
            [sys.executable, "-m", "tiebreak", *words], cwd=folder, stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip

    plain, killed = tmp_path / "plain", tmp_path / "killed"
    words = ("race", "--quick", "--methods", "explicit.py:ExplicitDescent", "--instances")
    assert run(plain, *words, "toy", "simplex").wait(timeout=300) == 0
    _kill(run(killed, *words, "toy", "simplex"), killed, "out/race/unfinished-*/toy.json")
    assert run(killed, *words, "toy", "simplex").wait(timeout=300) == 0
    rows, expected = (read_rows(folder / "out/race/rows.csv") for folder in (killed, plain))
    assert {row.instance for row in rows if row.method == "explicit-descent"} == {"toy", "simplex"}
    assert [row._replace(seconds=0) for row in rows] == [
        row._replace(seconds=0) for row in expected
    ]
    assert run(plain).wait(timeout=300) == 1  # all steps taken, which is no success
    _kill(run(killed), killed, "run.npz")
    assert run(killed).wait(timeout=300) == 1
    x, expected = (np.load(folder / "out" / "x.npy") for folder in (killed, plain))
    np.testing.assert_array_equal(x, expected)


def _kill(process: subprocess.Popen[bytes], folder: Path, file: str) -> None:
    """Kill it as soon as such a file is there."""
    began = time.monotonic()
    while not [*folder.glob(file)] and time.monotonic() - began < 100.0:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_every_step_of_the_method_leaves_its_inputs_alone(recipe):
    names = recipe("Add a method")
    method, problem = names["ExplicitDescent"](), names["problem"]
    state = method.init(problem, problem.start())
    for _ in range(5):
        before = state.x.copy()
        following = method.step(problem, state)
        np.testing.assert_array_equal(state.x, before)
        assert following.k == state.k + 1
        assert problem.domain.contains(following.x)
        state = following


# --- a loss --------------------------------------------------------------------------------------

A, B = test_functions.A, test_functions.B
MATRICES = {"dense": np.asarray, "sparse": sp.csr_array, "streamed": tb.Streamed}


@pytest.fixture
def loss(recipe, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The loss of the recipe among the functions that the contract tests know, by name."""
    make = recipe("Add a loss")["PseudoHuber"]
    for name, case in {
        "PseudoHuber": test_functions.Case(lambda a: make(a(A), a(B))),
        "PseudoHuber mean": test_functions.Case(lambda a: make(a(A), a(B), 0.3, mean=True)),
        "PseudoHuber sparse": test_functions.Case(
            lambda a: make(sp.csr_array(a(A)), a(B)), dense=False
        ),
    }.items():
        monkeypatch.setitem(test_functions.CASES, name, case)
    return make


CONTRACT = (
    "test_gradient_agrees_with_central_differences",
    "test_look_at_lifted_points_agrees_with_value_and_gradient",
    "test_look_at_mixed_images_agrees_with_the_mixed_point",
    "test_function_is_convex_above_each_of_its_minorants",
    "test_asking_never_modifies_the_point_and_two_slopes_never_share_memory",
    "test_lipschitz_bounds_the_change_of_the_gradient_and_is_tight_where_exact",
    "test_strong_convexity_and_lower_bound_are_true_bounds",
    "test_growth_bounds_the_gap_by_the_slope_for_every_kind",
)


@pytest.mark.sample(2)
@pytest.mark.parametrize("test", CONTRACT)
@pytest.mark.parametrize("name", ["PseudoHuber", "PseudoHuber mean", "PseudoHuber sparse"])
def test_the_loss_passes_the_contract_of_functions(loss, test, name, count):
    check = getattr(test_functions, test)
    check(name, count) if "count" in inspect.signature(check).parameters else check(name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["numpy", "array_api_strict"])
def test_the_loss_keeps_library_and_dtype(loss, library, dtype):
    test_functions.test_library_and_dtype_are_kept("PseudoHuber", library, dtype)


def test_the_rounding_errors_of_the_loss_are_bounded(loss):
    from decimal import Decimal, localcontext
    from fractions import Fraction

    h = loss(A, B)
    for x in test_functions.points(8):
        point = [Fraction(float(t)) for t in x]
        value, slope = Fraction(0), [Fraction(0)] * len(point)
        for row, target in zip(A, B, strict=True):
            a = [Fraction(float(t)) for t in row]
            r = sum(s * p for s, p in zip(a, point, strict=True)) - Fraction(float(target))
            with localcontext(prec=60):
                square = 1 + r * r
                root = Fraction((Decimal(square.numerator) / square.denominator).sqrt())
            value += root - 1
            slope = [s + r / root * t for s, t in zip(slope, a, strict=True)]
        (seen,), _ = h.evaluate([test_functions.PointWithImage(x, h.forward(x)[0])])
        test_functions.within(h, seen, value, slope, test_functions.EPS)


@pytest.mark.parametrize("kind", MATRICES)
def test_the_loss_is_a_level_of_a_problem_whatever_its_matrix(recipe, kind):
    names = recipe("Add a loss")
    assert names["result"].success
    make, matrix = names["PseudoHuber"], MATRICES[kind](names["A"])
    ball = tb.Ball(5.0)
    below = tb.Problem(lower=make(matrix, names["b"], 0.5), upper=tb.SquaredNorm(), domain=ball)
    above = tb.Problem(
        lower=tb.LeastSquares(names["A"][:4], names["b"][:4]),
        upper=make(matrix, names["b"], 0.5),
        domain=ball,
    )
    for problem in (below, above):
        result = tb.solve(problem, "adaptive", rtol=1e-2, criterion="weak", max_iter=5000)
        assert result.status == "certified"


def test_the_loss_with_a_wide_band_is_least_squares(recipe):
    make = recipe("Add a loss")["PseudoHuber"]
    problems = [
        tb.Problem(lower=h, upper=tb.SquaredNorm(), domain=tb.Ball(5.0))
        for h in (make(A, B, 1e9), tb.LeastSquares(A, B, gram=False))
    ]
    for x in test_functions.points(5):
        values = [problem.lower.value(x) for problem in problems]
        assert values[0] == pytest.approx(values[1], rel=1e-12)
        slopes = [problem.lower.gradient(x) for problem in problems]
        np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-12)


def test_the_loss_is_one_of_other_variables_too(recipe):
    """A prior above has no say on an intercept, which is one variable more."""
    make = recipe("Add a loss")["PseudoHuber"]
    h, places = make(A, B, 0.3, mean=True), np.array([2, 0, 1, 4, 5, 3][: A.shape[1]])
    variables = Substitution(places, A.shape[1] + 1)
    moved, constant = variables.function(2.0 * h)
    for u in np.random.default_rng(0).standard_normal((5, A.shape[1] + 1)):
        assert moved.value(u) + constant == pytest.approx(2.0 * h.value(variables.point(u)))


def test_a_loss_without_other_matrices_says_what_is_missing(recipe):
    class Bare(recipe("Add a loss")["PseudoHuber"]):
        _of_matrix = LinearLoss._of_matrix

    with pytest.raises(ValueError, match=r"^Bare: _of_matrix must be defined if the same loss"):
        Substitution(np.arange(A.shape[1]), A.shape[1] + 1).function(Bare(A, B))


# --- a set ---------------------------------------------------------------------------------------


@pytest.fixture
def budget(recipe, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The budget among the sets that the contract tests draw, with a slow judge of its own."""
    make = recipe("Add a set")["Budget"]

    def slow(domain: Any, v: Any) -> Any:
        v = np.asarray(v, dtype=test_domains.LONG)
        return v + (domain.total - np.sum(v)) / len(v)

    monkeypatch.setattr(
        test_domains, "make_domain", lambda kind, rng, n, style: make(float(rng.normal()))
    )
    monkeypatch.setattr(test_domains, "slow_project", slow)
    monkeypatch.setattr(test_domains, "KINDS", ("Budget",))
    return make


SET_CONTRACT = (
    "test_project_cut_satisfies_the_variational_inequality",
    "test_a_guess_does_not_change_the_answer",
    "test_project_agrees_with_the_slow_projection",
)


@pytest.mark.parametrize("test", SET_CONTRACT)
def test_the_set_passes_the_contract_of_sets(budget, test, count):
    getattr(test_domains, test)("Budget", count)


@pytest.mark.parametrize("method", ["auto", "exact", "conic"])
def test_the_set_is_solved_by_every_room(budget, method):
    lower, upper = tb.LeastSquares(A, B), tb.SquaredNorm(center=np.arange(A.shape[1]))
    mine = tb.solve(tb.Problem(lower=lower, upper=upper, domain=budget(1.0)), method)
    rows = tb.Polyhedron(A_eq=np.ones((1, A.shape[1])), b_eq=[1.0])
    ours = tb.solve(tb.Problem(lower=lower, upper=upper, domain=rows), method)
    assert mine.status == ours.status
    np.testing.assert_allclose(mine.x, ours.x, atol=1e-9)


def test_the_set_has_the_support_function_of_its_points(budget):
    test_domains.test_every_set_is_a_domain("Budget")
    test_domains.test_support_argmin_and_farthest_agree_with_points_of_the_set("Budget")
    domain, ones = budget(2.0), np.ones(6)
    assert domain.support(3.0 * ones) == pytest.approx(6.0)
    assert np.sum(domain.argmin(ones)) == pytest.approx(2.0)


@pytest.mark.parametrize("library", ["numpy", "strict"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_set_keeps_library_and_dtype(budget, library, dtype):
    test_domains.test_library_and_dtype_are_kept_and_inputs_left_alone("Budget", library, dtype)


def test_the_cut_of_the_set_meets_its_optimality_conditions(budget):
    rng = np.random.default_rng(3)
    for _ in range(200):
        domain = budget(float(rng.normal()))
        x, c, beta = 3.0 * rng.normal(size=6), rng.normal(size=6), float(rng.normal())
        z, mu = domain.project_cut(x, c, beta)
        assert mu >= 0.0
        assert c @ z <= beta + 1e-12 * (1.0 + abs(beta))
        assert mu * (c @ z - beta) == pytest.approx(0.0, abs=1e-10)
        np.testing.assert_allclose(z, domain.project(x - mu * c), atol=1e-11)


def test_the_set_is_the_domain_of_a_problem(recipe):
    names = recipe("Add a set")
    problem, result = names["problem"], names["result"]
    assert result.status == "certified"
    assert np.sum(result.x) == pytest.approx(1.0)
    # All equations can be met: the answer is the projection of `held` onto their solutions.
    rows, n = problem.lower.matrix.dense(), len(result.x)
    equations = np.vstack([rows, np.ones((1, n))])
    target = np.append(problem.lower.b, 1.0)
    center = names["held"]
    best = center + np.linalg.lstsq(equations, target - equations @ center, rcond=None)[0]
    lowest = 0.5 * float((best - center) @ (best - center))
    assert result.upper_optimum[0] <= lowest <= result.upper_value + 1e-3


def test_the_set_refuses_a_wrong_parameter_in_one_sentence(recipe):
    with pytest.raises(ValueError, match="Budget: total must be"):
        recipe("Add a set")["Budget"](float("nan"))
