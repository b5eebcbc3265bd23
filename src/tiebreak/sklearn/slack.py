"""A fit that may be a little worse than the best one, for the sake of what is preferred."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

import tiebreak as tb
from tiebreak.functions.base import Function
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.linalg.arrays import Host
from tiebreak.linalg.refusals import Refusal
from tiebreak.sklearn.design import Layout

FIT, PREFERENCE = "fit", "preference"  # the names of both levels
PERFECT = 1e-10  # a loss of this share of the constant model's is none: rounding
NOTHING = 1e-22  # a slack of this share of the loss without any model is none either


@dataclass(frozen=True)
class OfBestFit(tb.Slack):
    """A share of the least loss; where that is 0, of the loss of the constant model."""

    def __call__(self, best: float, before: float) -> float:
        """As a number; ``before`` is the loss of the constant model."""
        return self.relative * (best if best > PERFECT * before else before)


def slack_rule(owner: str, slack: object) -> tb.Slack | None:
    """What the parameter ``slack`` says, None where nothing is to be given up; needs Clarabel."""
    rule = slack
    if isinstance(slack, Real) and 0.0 <= float(slack) < math.inf:
        rule = OfBestFit(relative=float(slack))
    if not isinstance(rule, tb.Slack):
        raise ValueError(
            f"{owner}: slack must be a share of the best fit, at least 0, or a tiebreak.Slack, "
            f"got {slack!r}"
        )
    if rule.is_none:
        return None
    try:
        import clarabel  # noqa: F401 (said now, not after the work)
    except ImportError:
        raise ImportError(f"{owner}: slack needs Clarabel: pip install 'tiebreak[conic]'") from None
    return rule


def constant_model(loss: Function, layout: Layout) -> Host:
    """The best model without coefficients."""
    from scipy.optimize import minimize

    none = np.zeros((layout.outputs, layout.features))
    if not layout.has_column:  # squares have their best intercept in them, if any
        return layout.joined(none, np.zeros(layout.outputs))

    def along(intercepts: Host) -> tuple[float, Host]:
        x = layout.joined(none, intercepts)
        return loss.value(x), layout.split(loss.gradient(x))[1]

    first = np.zeros(layout.outputs)
    least = 1e-12 * float(np.max(np.abs(along(first)[1])))
    found = minimize(along, first, jac=True, options={"gtol": least})
    return layout.joined(none, found.x)


def solve_with_slack(
    owner: str,
    lower: Function,
    upper: Function | Penalty,
    rule: tb.Slack,
    constant: Host,
    rtol: float,
) -> tb.LevelsResult:
    """What is preferred among all fits that give up no more than the slack."""
    levels = tb.Levels(tb.Level(lower, FIT, rule), tb.Level(upper, PREFERENCE))
    try:
        return tb.solve(levels, x0=constant, rtol=rtol)
    except Refusal as error:
        raise ValueError(
            f"{owner}: prefer must be made of functions that cones can represent where there is a "
            f"slack, got {error.got}"
        ) from None
