"""One fit: both levels, how it ended, and what is kept of it; nothing here keeps the data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import tiebreak as tb
from tiebreak.exact.method import ExactFindings
from tiebreak.functions.base import Function
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.host import host
from tiebreak.proofs.recession.watch import NoMinimum
from tiebreak.sklearn.advice import for_estimators, levels_for_estimators
from tiebreak.sklearn.choice import ChoiceCurve, choice_curve
from tiebreak.sklearn.design import Layout
from tiebreak.sklearn.slack import (
    FIT,
    NOTHING,
    constant_model,
    is_used_up,
    refitted,
    solve_with_slack,
    with_slack_to_spare,
)

WEAKER = 16.0  # by this the penalty is divided while it does not do
FEW_STEPS = 500  # for what a faster way did not find
MOST_TRIES = 6  # then it is too weak to be told from none


class NoMinimiserError(ValueError):
    """The loss has no minimiser: it falls for ever along a direction of the coefficients.

    Attributes:
        coef: the direction, as ``coef_`` would be.
        intercept: the same for ``intercept_``.
    """

    coef: Host
    intercept: Host

    def __init__(self, message: str, coef: Host, intercept: Host) -> None:
        super().__init__(message)
        self.coef, self.intercept = coef, intercept


class NoMinimiserWarning(UserWarning):
    """The loss has no minimiser, and the coefficients are those of a weak penalty."""


class FitOutcome(NamedTuple):
    """What is kept of a fit."""

    x: Host
    ties: int | None
    proved: bool
    certificate: tb.Certificate | dict[str, tb.LevelReport]
    steps: int
    report: str
    curve: ChoiceCurve | None
    given_up: float = 0.0
    slack: float = 0.0


@dataclass(frozen=True)
class Settings:
    """How to solve."""

    owner: str
    rtol: float
    max_iter: int
    on_no_minimiser: str
    slack: tb.Slack | None = None


@dataclass(frozen=True)
class Task:
    """What is to be fitted: the loss with its penalty, and what is preferred among its minimisers.

    Args:
        layout: which variable is which coefficient.
        loss: the loss of the training data.
        penalty: what is added to it: an l1 norm, squares, or both; None if nothing is.
        upper: what is preferred.
        separated: which rows the direction x puts on the right side (of each other class, where
            there are several), or None where no row has one.
        classes: the names of the outputs, where there are several.
    """

    layout: Layout
    loss: Function
    penalty: Any
    upper: Function | Penalty
    separated: Callable[[Host], Host] | None = None
    classes: Host | None = None

    def lower(self, more: Any = None) -> Any:
        """The loss with its penalty, and with something added."""
        lower: Any = self.loss
        for part in (self.penalty, more):
            lower = lower if part is None else lower + part
        return lower

    def problem(self, more: Any = None) -> tb.Problem:
        """Both levels, with something added to the lower one."""
        counted = self.layout.penalised if self.layout.has_column else None
        return tb.Problem(upper=self.upper, lower=self.lower(more), counted=counted)


def fit(task: Task, settings: Settings, x0: Host | None, names: Sequence[str] | None) -> FitOutcome:
    """Solve both levels; raise or warn where there is no answer."""
    problem = task.problem()
    result: tb.Result | tb.LevelsResult
    result = first = _solve(problem, settings, x0)
    found = first.findings
    if first.status == "unbounded" and isinstance(found, ExactFindings | NoMinimum):
        d = host(found.direction)
        if found.level == "upper":
            raise ValueError(
                f"{settings.owner}: prefer must have a minimum among the best fits, but falls for "
                f"ever along the coefficients {_words(task, d, names)}"
            )
        return _without_minimiser(task, settings, d, names)
    ending = _ending(first)
    if settings.slack is not None:
        constant = constant_model(task.loss, task.layout)
        allowed = settings.slack(first.lower_value, task.loss.value(constant))
        if allowed > NOTHING * task.loss.value(0.0 * constant):
            result = _loosened(task, settings, settings.slack, first, constant, allowed)
            ending = _with_slack(ending, result)
    if not result.success:
        warnings.warn(f"{settings.owner}: {result.message}", ConvergenceWarning, stacklevel=4)
    return ending._replace(curve=choice_curve(problem, ending.x, ending.ties))


def _loosened(
    task: Task, settings: Settings, rule: tb.Slack, first: tb.Result, constant: Host, allowed: float
) -> tb.LevelsResult:
    """The choice among all fits that give up no more than allowed; ``first`` is a best one."""
    lower, upper, rtol = task.lower(), task.upper, settings.rtol
    result = solve_with_slack(settings.owner, lower, upper, rule, constant, rtol)
    if is_used_up(result):
        return result
    ways: list[dict[str, Any]] = [{"method": "conic"}] if result.success else []
    if not result.success or isinstance(upper, Function):  # others would take long
        ways.append({"max_iter": min(settings.max_iter, FEW_STEPS)})
    for options in ways:
        spare = with_slack_to_spare(lower, upper, first, allowed, rtol=rtol, **options)
        if spare is not None:
            return spare
    return refitted(result, task.loss, task.layout, lower, upper)


def _with_slack(best: FitOutcome, result: tb.LevelsResult) -> FitOutcome:
    """The choice among all fits that are a little worse than the best."""
    fit = result.levels[FIT]
    return best._replace(
        x=host(result.x),
        proved=result.proved,
        certificate=result.levels,
        report=str(levels_for_estimators(result)),
        given_up=max(fit.value - sum(fit.best) / 2.0, 0.0),
        slack=fit.slack,
    )


def _ending(result: tb.Result) -> FitOutcome:
    return FitOutcome(
        x=host(result.x),
        ties=result.dimension,
        proved=result.proved,
        certificate=result.certificate,
        steps=max(result.nit, 1),
        report=str(result),
        curve=None,
    )


def _solve(problem: tb.Problem, settings: Settings, x0: Host | None = None) -> tb.Result:
    found = tb.solve(problem, x0=x0, rtol=settings.rtol, max_iter=settings.max_iter)
    return for_estimators(found)


def _without_minimiser(
    task: Task, settings: Settings, d: Host, names: Sequence[str] | None
) -> FitOutcome:
    """An error, or the fit with a penalty so weak that it does what the direction does."""
    sentence = (
        f"{settings.owner}: the loss has no minimiser, it falls for ever along the coefficients "
        f"{_words(task, d, names)}"
    )
    if settings.on_no_minimiser == "error":
        coef, intercept = task.layout.split(d)
        raise NoMinimiserError(
            f"{sentence}; remove what separates the data, add a penalty (alpha), or pass "
            "on_no_minimiser='warn'",
            coef,
            intercept,
        )
    warnings.warn(
        f"{sentence}; the coefficients are those of a very weak penalty, and nothing is proved",
        NoMinimiserWarning,
        stacklevel=5,
    )
    alpha = settings.rtol
    for _ in range(MOST_TRIES):
        weak = tb.SquaredNorm(alpha * np.asarray(task.layout.penalised))
        result = _solve(task.problem(weak), settings)
        if task.separated is None or np.all(task.separated(host(result.x))[task.separated(d)]):
            break
        alpha /= WEAKER
    report = f"{sentence}; with a penalty, alpha = {alpha:.2g} and l1_ratio = 0:\n{result}"
    return _ending(result)._replace(ties=None, proved=False, report=report)


def _words(task: Task, d: Host, names: Sequence[str] | None) -> str:
    """The largest entries of a direction, with the names of the features."""
    coef, intercepts = task.layout.split(d)
    entries = []
    for k in range(task.layout.outputs):
        of_class = "" if task.classes is None else f" of class {task.classes[k]}"
        for j, value in enumerate(coef[k]):
            name = f"x{j}" if names is None else str(names[j])
            entries.append((abs(value), f"{name} {value:+.3g}{of_class}"))
        entries.append((abs(intercepts[k]), f"intercept {intercepts[k]:+.3g}{of_class}"))
    largest = max(size for size, _ in entries)
    entries = [entry for entry in entries if entry[0] > 1e-9 * largest]
    entries.sort(key=lambda entry: -entry[0])
    return ", ".join(text for _, text in entries[:5]) + (", ..." if len(entries) > 5 else "")
