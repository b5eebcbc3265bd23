"""What to prefer among equally good fits, as a function of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tiebreak as tb
from tiebreak.functions import (
    Composite,
    Flat,
    Function,
    LinearLoss,
    Penalty,
    Scaled,
    SmoothFunction,
    Substitution,
    Sum,
)
from tiebreak.linalg import EPS, Host
from tiebreak.linalg.checks import did_you_mean
from tiebreak.linalg.fingerprints import known
from tiebreak.sklearn.design import Data, Layout, as_dense, centred

NAMES = ("norm", "reference", "validation", "shrunk", "sparse", "fair", "smooth")
BY_LOSS = ("validation", "shrunk")  # choices that need the loss on validation data


@dataclass(frozen=True)
class Criterion:
    """The preference and the data that it uses; data that were not passed are None."""

    owner: str
    prefer: Any
    reference: Host | None = None  # coefficients, one row per output
    # One row of covariances with the features for each sensitive feature.
    covariance: Data | None = None

    def function(
        self,
        layout: Layout,
        validation: Any = None,
        ridge: float | None = None,
        first: int = 0,
    ) -> Function | Penalty:
        """Return the criterion as a function of all variables, intercepts included.

        Args:
            layout: the outputs and their variables.
            validation: the loss on the validation data, a function or a penalty.
            ridge: the weight of the squared coefficients in "shrunk".
            first: the row of the reference that belongs to the first output.
        """
        if not isinstance(self.prefer, str):
            return on_coefficients(self.owner, self.prefer, layout)
        made: Function | Penalty = tb.SquaredNorm(layout.penalised)
        if self.prefer == "sparse":
            made = tb.L1(layout.penalised)
        elif self.prefer == "validation":
            made = validation
        elif self.prefer == "shrunk":
            assert ridge is not None
            made = validation + tb.SquaredNorm(ridge * layout.penalised)
        elif self.prefer == "smooth":
            made = _differences(layout)
        elif self.covariance is not None:
            made = self.covariance.described(_squares(layout.rows(self.covariance.X)))
        elif self.reference is not None:
            chosen = self.reference[first : first + layout.outputs]
            center = layout.joined(chosen, np.zeros(layout.outputs))
            made = tb.SquaredNorm(layout.penalised, center)
        return made


def _differences(layout: Layout) -> Function:
    """Half the squared differences of neighbouring coefficients."""
    import scipy.sparse as sp

    n = layout.features
    steps = sp.diags_array([-np.ones(n), np.ones(n)], offsets=[0, 1], shape=(n - 1, n))
    return _squares(layout.rows(steps)) if n > 1 else Flat()


def check_prefer(owner: str, prefer: object) -> None:
    """Require ``prefer`` to be one of the names, or a function."""
    if isinstance(prefer, str) and prefer in NAMES:
        return
    if isinstance(prefer, type) or not isinstance(prefer, Function | Penalty):
        known = ", ".join(map(repr, NAMES))
        raise ValueError(
            f"{owner}: prefer must be one of {known} or a function such as "
            f"tiebreak.SquaredNorm(), got {prefer!r}{did_you_mean(prefer, NAMES)}"
        )


def leave_one_out(
    training: Data, Y: Host, validation: Data, W: Host, has_intercept: bool
) -> list[float]:
    """Return each target's ridge for "shrunk", chosen by leave-one-out on the validation rows.

    The best fits are x0 + z, where x0 has the least norm and z does not change the predictions for
    the training rows. The z of "shrunk" solves a ridge regression: its targets are the residuals of
    x0 on the validation rows, and its rows are the components of the validation rows orthogonal to
    the training rows. The method works for the squared loss only.
    """
    from sklearn.linear_model import RidgeCV

    V, weights = as_dense(validation.X), validation.weights
    if has_intercept:
        found = centred(training.X, Y, training.weights)
        A, B, V, W = found.rows, found.targets, V - found.mean, W - found.offset
    else:
        roots = 1.0 if training.weights is None else np.sqrt(training.weights)[:, None]
        A, B = roots * as_dense(training.X), roots * Y
    seen = np.linalg.pinv(A, rcond=np.sqrt(EPS))
    unseen, left = V - (V @ seen) @ A, W - V @ (seen @ B)
    total = float(len(V) if weights is None else np.sum(weights))
    size = float(np.mean(np.sum(unseen * unseen, axis=1)))
    if size <= EPS * float(np.mean(np.sum(V * V, axis=1))):
        return [1.0] * W.shape[1]  # all best fits agree on these rows: any ridge will do
    penalties = size * np.logspace(-6.0, 6.0, 49)
    models = (RidgeCV(penalties, fit_intercept=False) for _ in range(W.shape[1]))
    fits = (m.fit(unseen, left[:, k], sample_weight=weights) for k, m in enumerate(models))
    return [float(fit.alpha_) / total for fit in fits]


def _squares(rows: Any) -> SmoothFunction:
    return tb.LeastSquares(rows, np.zeros(rows.shape[0]))


def on_coefficients(owner: str, h: Any, layout: Layout) -> Function | Penalty:
    """Extend a function of the coefficients to all variables; it ignores the intercepts."""
    given, needed = h.dimension, layout.outputs * layout.features
    if given is not None and given != needed:
        raise ValueError(
            f"{owner}: prefer must be a function of {needed} coefficients, got one of {given}"
        )
    found: Function | Penalty = _extended(owner, known(h), layout) if layout.has_column else h
    return found


def _extended(owner: str, h: Any, layout: Layout) -> Any:
    """Extend each part of a function to all variables; the parts ignore the intercepts."""
    if isinstance(h, Composite):
        return _extended(owner, h.smooth, layout) + _extended(owner, h.penalty, layout)
    if isinstance(h, Sum):
        return _extended(owner, h.first, layout) + _extended(owner, h.second, layout)
    if isinstance(h, Scaled):
        return h.weight * _extended(owner, h.function, layout)
    if isinstance(h, tb.Smooth):
        return tb.Smooth(
            lambda x: h.value(np.ravel(layout.split(x)[0])),
            lambda x: layout.joined(
                np.reshape(h.gradient(np.ravel(layout.split(x)[0])), (layout.outputs, -1)),
                np.zeros(layout.outputs),
            ),
        )
    places = np.flatnonzero(np.broadcast_to(layout.penalised, layout.outputs * layout.width))
    variables = Substitution(places, layout.outputs * layout.width)
    if isinstance(h, tb.L1) and h.operator is None:
        return variables.penalty(h)[0]
    is_known = isinstance(h, tb.SquaredNorm | tb.Linear | tb.Quadratic | LinearLoss | Flat)
    if not is_known or (h.matrix is not None and not h.matrix.is_explicit):
        raise ValueError(
            f"{owner}: prefer must be made of SquaredNorm, L1, Linear, Quadratic, losses of a "
            f"matrix or Smooth if there is an intercept, got {type(h).__name__}"
        )
    return variables.function(h)[0]
