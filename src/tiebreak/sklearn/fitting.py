"""A fit solves both levels and keeps what an estimator needs, but never the data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import tiebreak as tb
from tiebreak.driver.advice import REMEDIES, Remedies
from tiebreak.exact.method import ExactFindings
from tiebreak.functions import Function, Minorant, Penalty, PointWithImage, matrices_of
from tiebreak.functions.base import EstimatorLoss
from tiebreak.linalg import Host
from tiebreak.linalg.host import host, norm
from tiebreak.linalg.sizes import SECOND
from tiebreak.linalg.tolerances import TOL
from tiebreak.proofs.recession.watch import NoMinimum, largest_entries
from tiebreak.sklearn.choice import ChoiceCurve, choice_curve
from tiebreak.sklearn.design import Layout
from tiebreak.sklearn.slack import (
    FIT,
    NO_SLACK,
    is_used_up,
    refitted,
    solve_with_slack,
    with_best_intercepts,
    with_slack_to_spare,
)
from tiebreak.sklearn.targets import solve_others

# The penalty shrinks by this factor until the fit separates all samples that the direction
# separates.
WEAKER = 16.0
MOST_TRIES = 6  # after this many tries, the penalty would be too weak to matter
FOR_ESTIMATORS = Remedies(
    bound="alpha, or another prefer, gives",
    narrower="",
    one_sided="",
    below_rounding="",
    has_method=False,
)
FLAT = "the criterion is the same for all best fits, so these are the smallest coefficients"
INTERPOLATED = (
    "the criterion is interpolated: some best fits reach its minimum, which says little about "
    "other data; use more rows, or prefer='norm'"
)


class NoMinimiserError(ValueError):
    """The loss has no minimiser: it keeps decreasing along a direction of the coefficients.

    Attributes:
        coef: the direction of ``coef_``.
        intercept: the direction of ``intercept_``.
    """

    def __init__(self, message: str, coef: Host, intercept: Host) -> None:
        super().__init__(message)
        self.coef, self.intercept = coef, intercept


class NoMinimiserWarning(UserWarning):
    """Warns that the loss has no minimiser; the coefficients come from a weakly penalised fit."""


class InterpolatedWarning(UserWarning):
    """Warns that the fit reaches its criterion's minimum, which says little about other data."""


class FitOutcome(NamedTuple):
    """What an estimator needs to know about a fit."""

    x: Host
    ties: int | None
    proved: bool
    certificate: tb.Certificate | dict[str, tb.LevelReport]
    steps: int
    report: str
    curve: ChoiceCurve | None
    given_up: float = 0.0
    slack: float = 0.0
    result: tb.Result | None = None  # the result, for further targets; never stored in a model


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
    """What to fit: the loss with its penalty, and what is preferred among its minimisers.

    Args:
        layout: which variable is which coefficient.
        loss: the loss on the training data.
        penalty: the penalty added to the loss: an l1 norm, squares, both, or None.
        upper: the preference.
        domain: the set of all variables, intercepts included.
        radius: an upper bound, not verified, on the norm of at least one solution.
        separated: a function that says which rows a direction x puts on the correct side (with more
            than two classes, one answer for each of the other classes); None for regressions.
        classes: the names of the outputs if there are several.
    """

    layout: Layout
    loss: Function | Penalty
    penalty: Any
    upper: Function | Penalty
    domain: Any
    radius: float | None
    separated: Callable[[Host], Host] | None = None
    classes: Host | None = None

    def lower(self, more: Any = None) -> Any:
        """Return the loss plus its penalty and ``more``."""
        lower: Any = self.loss
        for part in (self.penalty, more):
            lower = lower if part is None else lower + part
        return lower

    def problem(self, more: Any = None) -> tb.Problem:
        """Return both levels, with ``more`` added to the lower level."""
        return tb.Problem(
            upper=self.upper,
            lower=self.lower(more),
            domain=self.domain,
            radius=self.radius,
            counted=self.layout.penalised if self.layout.has_column else None,
        )


def fit(task: Task, settings: Settings, x0: Host | None, names: Sequence[str] | None) -> FitOutcome:
    """Solve both levels; raise an error or warn if there is no answer."""
    problem = task.problem()
    result: tb.Result | tb.LevelsResult
    result = first = _solve(problem, settings, x0)
    found = first.findings
    if first.status == "infeasible":
        raise ValueError(f"{settings.owner}: domain must contain a point: {first.message}")
    if first.status == "unbounded" and isinstance(found, NoMinimum):
        d = host(found.direction)
        if found.level == "upper":
            raise ValueError(
                f"{settings.owner}: prefer must have a minimum among the best fits, but it is "
                f"unbounded along the coefficients {_words(task, d, names)}"
            )
        return _without_minimiser(task, settings, d, names)
    ending = _ending(first)
    if settings.slack is not None:
        constant = with_best_intercepts(task.loss, task.layout, 0.0 * ending.x)
        allowed = settings.slack(first.lower_value, task.loss.value(constant))
        if allowed > NO_SLACK * task.loss.value(0.0 * constant):
            result = _loosened(task, settings, settings.slack, first, constant, allowed)
            ending = _with_slack(ending, result)
    if not result.success:
        warnings.warn(f"{settings.owner}: {result.message}", ConvergenceWarning, stacklevel=5)
    if ending.ties and _is_interpolated(problem, ending.x):
        warnings.warn(f"{settings.owner}: {INTERPOLATED}", InterpolatedWarning, stacklevel=5)
        ending = ending._replace(report=f"{ending.report}\n  choice {INTERPOLATED}")
    return ending._replace(curve=choice_curve(problem, ending.x, ending.ties))


def _is_interpolated(problem: tb.Problem, x: Host) -> bool:
    """Is the upper level's data loss minimal at x, but not at zero coefficients?"""
    smooth, penalty = problem.smooth_parts[0], problem.penalties[0]
    loss = penalty if isinstance(penalty, EstimatorLoss) else smooth
    least, has_data = loss.lower_bound, loss is penalty or bool(matrices_of(smooth))
    most = TOL.touching * (loss.value(0.0 * x) - least)
    return has_data and math.isfinite(least) and loss.value(x) - least < most


def _loosened(
    task: Task, settings: Settings, rule: tb.Slack, first: tb.Result, constant: Host, allowed: float
) -> tb.LevelsResult:
    """Choose among all fits within the slack; ``first`` is the result without a slack."""
    lower, upper, rtol = task.lower(), task.upper, settings.rtol
    result = solve_with_slack(settings.owner, first.problem, rule, constant, rtol)
    if is_used_up(result):
        return result
    ways: list[dict[str, Any]] = [{"method": "conic"}] if result.success else []
    # If the preference is a penalty, an iterative method would take too long.
    if not result.success or isinstance(upper, Function):
        # Try a few steps of an iterative method in case the conic method finds nothing.
        ways.append({"max_iter": min(settings.max_iter, 500)})
    for options in ways:
        spare = with_slack_to_spare(first, allowed, rtol=rtol, **options)
        if spare is not None:
            return spare
    return refitted(result, task.loss, task.layout, lower, upper)


def _with_slack(best: FitOutcome, result: tb.LevelsResult) -> FitOutcome:
    """Return the outcome ``best``, with x and the proofs about it taken from ``result``."""
    fit = result.levels[FIT]
    # Proofs speak of a bound on the size of x; estimators call the entries of x coefficients.
    levels = {
        name: replace(level, why="coefficients") if level.why == "size" else level
        for name, level in result.levels.items()
    }
    return best._replace(
        x=host(result.x),
        proved=result.proved,
        certificate=result.levels,
        report=str(replace(result, levels=levels)),
        given_up=max(fit.value - sum(fit.best) / 2.0, 0.0),
        slack=fit.slack,
        result=None,
    )


def _ending(result: tb.Result) -> FitOutcome:
    is_flat = isinstance(result.findings, ExactFindings) and result.findings.is_flat
    return FitOutcome(
        x=host(result.x),
        ties=result.dimension,
        proved=result.proved,
        certificate=result.certificate,
        steps=max(result.nit, 1),
        report=f"{result}\n  choice {FLAT}" if is_flat else str(result),
        curve=None,
        result=result,
    )


def fit_others(first: FitOutcome, Y: Host, settings: Settings) -> dict[int, FitOutcome]:
    """Fit all targets except the first with the same preference; drop results without a proof."""
    found = [] if first.result is None else solve_others(first.result, Y, settings.rtol)
    return {k: _ending(one) for k, one in enumerate(found, 1) if one.proved}


def _solve(problem: tb.Problem, settings: Settings, x0: Host | None = None) -> tb.Result:
    """Solve both levels; advice in the report names the parameters of an estimator."""
    context = copy_context()
    context.run(REMEDIES.set, FOR_ESTIMATORS)
    rtol, max_iter = settings.rtol, settings.max_iter
    return context.run(lambda: tb.solve(problem, x0=x0, rtol=rtol, max_iter=max_iter))


def _without_minimiser(
    task: Task, settings: Settings, d: Host, names: Sequence[str] | None
) -> FitOutcome:
    """Raise an error, or fit with a penalty so weak that the same samples are separated."""
    sentence = (
        f"{settings.owner}: the loss has no minimiser: it keeps decreasing along the coefficients "
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
        stacklevel=6,
    )
    x = None
    for alpha in settings.rtol * WEAKER ** -np.arange(float(MOST_TRIES)):
        ending = _weakly_penalised(task, settings, alpha, x)
        x = ending.x
        if task.separated is None or np.all(task.separated(x)[task.separated(d)]):
            break
    report = f"{sentence}; with a penalty, alpha = {alpha:.2g} and l1_ratio = 0:\n{ending.report}"
    return ending._replace(ties=None, proved=False, report=report)


def _weakly_penalised(task: Task, settings: Settings, alpha: float, x0: Host | None) -> FitOutcome:
    """Fit with a penalty of weight ``alpha``, starting from x0, or from zero if x0 is None.

    The penalty leaves no ties, and no proof is needed. Therefore, if one factorisation takes more
    than about a second, and there is no domain and no l1 norm, SciPy's L-BFGS runs until
    |slope|²/(2 alpha) is within the tolerance that `solve` would use if it started at zero. If all
    variables are penalised, |slope|²/(2 alpha) is an upper bound on g(x) - g*.
    """
    from scipy.optimize import minimize

    problem = task.problem(tb.SquaredNorm(alpha * np.asarray(task.layout.penalised)))
    is_free = problem.domain.is_space and not problem.penalties[1].terms.has_weights
    sides = [m.shape for m in matrices_of(problem.smooth_parts[1])]
    work = sum(rows * n * min(rows, n) for rows, n in sides)
    if not is_free or (work <= SECOND and tb.Exact().refusal(problem) is None):
        return _ending(_solve(problem, settings, x0))
    last: list[Minorant] = []  # the minorant at the last point

    def value_and_slope(x: Host) -> tuple[float, Host]:
        last[:] = problem.lower.evaluate([PointWithImage(x, *problem.lower.forward(x))])[0]
        return last[0].value, host(last[0].slope)

    zero = np.zeros(problem.dimension or 0)
    size = problem.lower.value(zero)

    def is_met() -> bool:
        asked = settings.rtol * max(last[0].value, size)
        return norm(host(last[0].slope)) ** 2 <= 2.0 * alpha * asked

    def stop_if_met(intermediate_result: Any) -> None:
        if is_met():
            raise StopIteration

    limits = {"maxiter": settings.max_iter, "maxfun": 2 * settings.max_iter, "gtol": 0, "ftol": 0}
    options: dict[str, Any] = {"jac": True, "callback": stop_if_met, "options": limits}
    start = zero if x0 is None else x0
    found = minimize(value_and_slope, start, method="L-BFGS-B", **options)
    value, slope = value_and_slope(found.x)
    sentence = f"g(x) = {value:.9g}, |slope| = {norm(slope):.2g} after {found.nit} steps of L-BFGS"
    if not is_met():
        warnings.warn(f"{settings.owner}: {sentence}", ConvergenceWarning, stacklevel=7)
    certificate = tb.Certificate.of_gaps(problem.upper.value(found.x), value)
    return FitOutcome(found.x, None, False, certificate, found.nit, sentence, None)


def _words(task: Task, d: Host, names: Sequence[str] | None) -> str:
    """Describe a direction by its largest entries, with the names of the features."""
    layout = task.layout
    own = [f"x{j}" for j in range(layout.features)] if names is None else list(names)
    own += ["intercept"] * layout.has_column
    classes = [""] if task.classes is None else [f" of class {label}" for label in task.classes]
    return largest_entries(d, [f"{name}{which}" for which in classes for name in own], 5)
