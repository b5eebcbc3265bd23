"""A class from outside the package that describes itself is solved, and its word is named."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from helpers.log_cosh import LogCosh

import tiebreak as tb
from tiebreak.functions import LinearLoss
from tiebreak.linalg.fingerprints import described_outside

SAID = "the description of LogCosh"


def fit(seed: int, ties: int = 2) -> tuple[LogCosh, np.ndarray]:
    """A loss with ties: some columns are sums of others."""
    rng = np.random.default_rng(seed)
    A = (rng.integers(-3, 4, (9, 3)) @ rng.integers(-2, 3, (3, 3 + ties))).astype(float)
    return LogCosh(A, 3.0 * rng.standard_normal(9)), A


def truth(loss: LogCosh, A: np.ndarray, bounds: tuple[np.ndarray, np.ndarray] | None = None):
    """The least value of the loss, and the point of least norm that has its products."""
    n = A.shape[1]
    rows = () if bounds is None else scipy.optimize.LinearConstraint(bounds[0], -np.inf, bounds[1])
    found = scipy.optimize.minimize(
        loss.value, np.zeros(n), jac=loss.gradient, method="SLSQP", constraints=rows,
        options={"ftol": 1e-16, "maxiter": 1000},
    )  # fmt: skip
    return found.fun, np.linalg.pinv(A) @ (A @ found.x)


def is_named(result: tb.Result | tb.LevelsResult) -> bool:
    said = result.message.partition("assuming ")[2]  # the first line, after the word
    return result.status == "certified" and SAID in said


def polyhedron(seed: int) -> tuple[np.ndarray, np.ndarray]:
    row = np.random.default_rng([9, seed]).standard_normal(5)
    return np.vstack([np.eye(5), -np.eye(5), row]), np.full(11, 0.4)


@pytest.mark.parametrize("method", ["auto", "exact", "conic"])
@pytest.mark.parametrize("seed", range(4))
def test_below_on_the_whole_space(method: str, seed: int) -> None:
    loss, A = fit(seed)
    result = tb.solve(tb.Problem(lower=loss, upper=tb.SquaredNorm()), method)
    least, x = truth(loss, A)
    assert result.lower_value == pytest.approx(least, abs=1e-9)
    np.testing.assert_allclose(result.x, x, atol=1e-5)
    assert is_named(result)


@pytest.mark.parametrize("method", ["auto", "exact", "conic"])
@pytest.mark.parametrize("seed", range(4))
def test_below_on_a_polyhedron(method: str, seed: int) -> None:
    loss, A = fit(seed)
    rows, offset = polyhedron(seed)
    problem = tb.Problem(lower=loss, upper=tb.SquaredNorm(), domain=tb.Polyhedron(rows, offset))
    result = tb.solve(problem, method)
    assert result.lower_value == pytest.approx(truth(loss, A, (rows, offset))[0], abs=1e-8)
    assert is_named(result)


@pytest.mark.parametrize("seed", range(4))
def test_above_by_cones(seed: int) -> None:
    """On R^n with a radius, and in levels with a slack on a polyhedron."""
    loss = fit(seed)[0]
    rng = np.random.default_rng([8, seed])
    B = rng.integers(-3, 4, (2, 5)).astype(float)
    lower = tb.LeastSquares(B, B @ (rng.integers(-2, 3, 5) / 10.0))
    result = tb.solve(tb.Problem(lower=lower, upper=loss, radius=10.0), "conic")
    assert is_named(result)
    exact = tb.solve(tb.Problem(lower=lower, upper=loss), "exact")
    assert is_named(exact)
    assert result.upper_value == pytest.approx(exact.upper_value, abs=1e-8)
    below, Z = tb.Level(lower, slack=tb.Slack(absolute=1e-2)), tb.Polyhedron(*polyhedron(seed))
    found = tb.solve(tb.Levels(below, loss, domain=Z))
    # Elsewhere Clarabel's last point is not strictly inside, so no point proves the second level.
    assert is_named(found) or (seed != 0 and found.status == "solved")


def test_a_certificate_names_it_too() -> None:
    problem = tb.Problem(lower=fit(0)[0], upper=tb.SquaredNorm())
    assert SAID in tb.certify(problem, tb.solve(problem, "exact").x).message


def test_it_is_saved_and_loaded_again(tmp_path) -> None:
    problem = tb.Problem(lower=fit(0)[0], upper=tb.SquaredNorm())
    problem.save(tmp_path / "p.npz")
    again = tb.load(tmp_path / "p.npz")
    assert isinstance(again.lower, LogCosh)
    np.testing.assert_array_equal(tb.solve(again).x, tb.solve(problem).x)


def test_what_says_nothing_of_itself_is_not_named() -> None:
    class Plain(tb.LeastSquares):
        pass

    assert described_outside(LogCosh)
    assert not described_outside(Plain)
    assert not described_outside(tb.Smooth)


class Unbounded(LogCosh, keyword="Unbounded", in_tables=False):
    """It says nothing about the rounding errors of its values."""

    rounding = LinearLoss.rounding  # of a loss whose terms may cancel


class Refused(LogCosh):
    """A loss that refuses cones only when it is added to a program."""

    phi = None

    def _conic_rows(self, form, cost, weights, products, target):
        return False


class Foreseen(Refused):
    """A loss that says beforehand that cones cannot represent it."""

    is_conic = False


def test_a_conic_form_that_is_refused_late_loses_nothing() -> None:
    """`auto` ended with the refusal of one of its methods."""
    A = fit(0)[1]
    problem, foreseen = (
        tb.Problem(upper=tb.SquaredNorm(), lower=loss(A, np.ones(9)), domain=tb.Box(-1.0, 1.0))
        for loss in (Refused, Foreseen)
    )
    assert tb.solve(foreseen).success
    said = "level 1 must consist of functions that cones can represent, got Refused"
    refused = tb.solve(problem, "conic")
    assert refused.status == "undetermined"
    assert said in refused.message
    assert tb.solve(problem, rtol=1e-12).lower_gap <= 1e-8  # other methods go on


def with_unbounded(level: str) -> tb.Problem:
    A = fit(0)[1]
    levels = {"upper": tb.SquaredNorm(), "lower": tb.LeastSquares(A, np.ones(9))}
    return tb.Problem(**levels | {level: Unbounded(A, np.ones(9))}, domain=tb.Ball(5.0))


@pytest.mark.parametrize("level", ["upper", "lower"])
def test_no_point_is_certified_without_bounds_on_rounding(level: str) -> None:
    assert tb.certify(with_unbounded(level), np.zeros(5)).status != "certified"


@pytest.mark.parametrize("method", [info.name for info in tb.methods()])
@pytest.mark.parametrize("level", ["upper", "lower"])
def test_nothing_is_certified_without_bounds_on_rounding(method: str, level: str) -> None:
    """Its error was infinite, so the tolerance was too: x = 0 was certified, or a method failed."""
    problem = with_unbounded(level)
    try:
        result = tb.solve(problem, method, max_iter=40)
    except ValueError:  # outside its assumptions
        return
    assert result.status in ("solved", "max_iter", "undetermined"), str(result)
    assert max(result.tolerance) < 1.0
    if result.status != "max_iter" and level == "lower":
        assert result.lower_value - loss_minimum(problem) <= result.tolerance[1]


def loss_minimum(problem: tb.Problem) -> float:
    h, n = problem.lower, problem.dimension
    found = scipy.optimize.minimize(h.value, np.zeros(n), jac=h.gradient, method="BFGS")
    return float(found.fun)
