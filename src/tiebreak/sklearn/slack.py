"""Fits that may be slightly worse than the best fit, for the sake of the preference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV

import tiebreak as tb
from tiebreak.driver.levels_result import lower_interval
from tiebreak.functions import Function, Penalty
from tiebreak.linalg import Host, Refusal
from tiebreak.linalg.tolerances import TOL
from tiebreak.sklearn.design import Layout

NO_SLACK = 1e-22  # a slack below this share of the loss of zero coefficients counts as 0
FIT, PREFERENCE = "fit", "preference"  # the names of both levels


@dataclass(frozen=True)
class OfBestFit(tb.Slack):
    """A slack as a share of the least loss or, if that loss is 0, of the constant model's loss."""

    def __call__(self, best: float, before: float) -> float:
        """Return the slack as a number; ``before`` is the loss of the constant model."""
        return self.relative * (best if best > TOL.touching * before else before)


def slack_rule(owner: str, slack: object) -> tb.Slack | None:
    """Turn the ``slack`` parameter into a rule; None means that the fit must stay optimal."""
    rule = slack
    if isinstance(slack, Real) and 0.0 <= float(slack) < math.inf:
        rule = OfBestFit(relative=float(slack))
    if not isinstance(rule, tb.Slack):
        raise ValueError(
            f"{owner}: slack must be a share of the best fit, at least 0, or a tiebreak.Slack, "
            f"got {slack!r}"
        )
    return None if rule.is_none else rule


def with_best_intercepts(loss: Function | Penalty, layout: Layout, x: Host) -> Host:
    """Return x with the intercepts that are best for the coefficients in x."""
    from scipy.optimize import minimize, minimize_scalar

    # Without a column for the intercept, the intercept has already been eliminated.
    if not layout.has_column:
        return x
    coef, first = layout.split(x)
    if isinstance(loss, Penalty):  # it has no gradient, but only one intercept: scalar search

        def value(t: Host) -> float:
            return float(loss.value(layout.joined(coef, t)))

        def searched(t: Host) -> Host:
            unit = value(t)
            return np.asarray(t + unit * minimize_scalar(lambda s: value(t + unit * s)).x)

        # Each search finds about eight digits of the step that is left.
        return layout.joined(coef, searched(searched(searched(first))))

    def along(intercepts: Host) -> tuple[float, Host]:
        x = layout.joined(coef, intercepts)
        return loss.value(x), layout.split(loss.gradient(x))[1]

    least = 1e-12 * float(np.max(np.abs(along(np.zeros(layout.outputs))[1])))
    found = minimize(along, first, jac=True, options={"gtol": least})
    return layout.joined(coef, found.x)


def solve_with_slack(
    owner: str, problem: tb.Problem, rule: tb.Slack, constant: Host, rtol: float
) -> tb.LevelsResult:
    """Solve for the preferred fit among all fits that give up no more than the slack."""
    levels = tb.Levels(
        tb.Level(problem.lower, FIT, rule),
        tb.Level(problem.upper, PREFERENCE),
        domain=problem.domain,
        radius=problem.radius,
    )
    try:
        return tb.solve(levels, x0=constant, rtol=rtol)
    except Refusal as error:
        raise ValueError(
            f"{owner}: with a slack, prefer must consist of functions that cones can represent, "
            f"got {error.got}"
        ) from None


def is_used_up(result: tb.LevelsResult) -> bool:
    """Has the fit given up all of its slack?"""
    fit = result.levels[FIT]
    return result.success and fit.value >= fit.best[0] + (1.0 - TOL.faint) * fit.slack


def with_slack_to_spare(first: tb.Result, allowed: float, **options: Any) -> tb.LevelsResult | None:
    """Return the best fit among the minimisers of the preference.

    If this fit needs less than the whole slack, the preference alone leaves ties, and the training
    loss decides among them. Return None if the fit needs more, or if none was found.
    """
    problem = first.problem
    found = tb.solve(replace(problem, upper=problem.lower, lower=problem.upper), **options)
    proof = found.certificate
    if not found.success or proof.upper_value > first.lower_value + allowed:
        return None
    (best, word, why), (ends, other, because) = lower_interval(first), lower_interval(found)
    reports = (
        tb.LevelReport(FIT, best, proof.upper_value, allowed, None, 0.0, "cut", word, why=why),
        tb.LevelReport(
            PREFERENCE, ends, proof.lower_value, 0.0, None, None, "last", other, why=because
        ),
    )
    return tb.LevelsResult(
        x=found.x,
        levels={report.name: report for report in reports},
        status=found.status if first.proved else first.status,  # the weaker of the two
        reason="the preference needs less than the slack, so the fit decides among its ties",
        time=first.time + found.time,
        method=found.method,
    )


def refitted(
    result: tb.LevelsResult, loss: Function | Penalty, layout: Layout, lower: Any, upper: Any
) -> tb.LevelsResult:
    """Replace the intercepts by the best ones, unless a level gets worse."""
    x = with_best_intercepts(loss, layout, result.x)
    before, value = result.levels[FIT], float(lower.value(x))
    if upper.value(x) > upper.value(result.x) or value > before.value:
        return result
    levels = result.levels | {FIT: replace(before, value=value)}
    return replace(result, x=x, levels=levels)


def choose_slack(
    model: Any,
    X: Any,
    y: Any,
    slacks: Sequence[Any] = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3),
    **options: Any,
) -> GridSearchCV:
    """Choose the slack of an estimator by cross-validation.

    Args:
        model: a TieBreakRegressor or TieBreakClassifier, or a pipeline that ends with one.
        X, y: the data.
        slacks: the values to try: shares of the best fit, or ``tiebreak.Slack``.
        **options: options of scikit-learn's ``GridSearchCV``: cv, scoring, n_jobs and others.

    Returns:
        The fitted ``GridSearchCV``: ``best_params_``, ``cv_results_``, and ``best_estimator_``,
        fitted to all rows with the best slack.

    Examples:
        >>> from sklearn.datasets import load_diabetes
        >>> from tiebreak.sklearn import TieBreakRegressor, choose_slack
        >>> X, y = load_diabetes(return_X_y=True)
        >>> search = choose_slack(TieBreakRegressor("sparse"), X[:80], y[:80], [0.0, 0.1], cv=2)
        >>> search.best_params_
        {'slack': 0.1}
    """
    names = [name for name in model.get_params() if name.split("__")[-1] == "slack"]
    if len(names) != 1:
        raise ValueError(
            "choose_slack: model must have one parameter slack, such as TieBreakRegressor('sparse')"
            f", or be a pipeline that ends with it, got {type(model).__name__}"
        )
    return GridSearchCV(model, {names[0]: list(slacks)}, **options).fit(X, y)
