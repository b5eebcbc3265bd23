"""TieBreakRegressor: the best of all equally good regressions."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d, validate_data

import tiebreak as tb
from tiebreak.functions import Function, Penalty
from tiebreak.functions.base import EstimatorLoss
from tiebreak.linalg import DENSE_LIMIT, EPS, Host
from tiebreak.sklearn.criteria import BY_LOSS, leave_one_out
from tiebreak.sklearn.design import (
    Centred,
    Data,
    Layout,
    as_dense,
    centred,
    losses,
    mean_loss,
    target_offset,
    with_ones,
    without_zeros,
)
from tiebreak.sklearn.fitting import FitOutcome, fit_others
from tiebreak.sklearn.model import FLOATS, SPARSE, TieBreakModel


class TieBreakRegressor(RegressorMixin, TieBreakModel):  # type: ignore[misc]
    """A linear regression with the coefficients you prefer among all that fit equally well.

    With more features than samples, or with features that depend on each other, many coefficients
    have the least training loss, and a solver returns whichever coefficients it happens to reach.
    With this estimator the choice is yours, and it comes with a proof.

    Parameters
    ----------
    prefer : str or function, default="norm"
        "norm": the smallest coefficients; "reference": those closest to ``reference``;
        "validation": those with the least loss on ``X_val``, ``y_val`` (in ``fit``);
        "shrunk": the least validation loss with a ridge (see ``ridge``); "sparse": the least sum
        of absolute values; "fair": the least covariance of the predictions with
        ``sensitive_features`` (in ``fit``); "smooth": the least squared differences of neighbouring
        coefficients; or a tiebreak function of the coefficients, such as ``tiebreak.Linear(c)``.
        The preference never includes the intercept.
    slack : float or tiebreak.Slack, default=0.0
        By how much the training loss (with its penalty) may exceed that of the best fit, for the
        sake of your preference: 0.01 means "at most 1 % worse". If the best fit is perfect (a loss
        of 0), the share refers to the loss of the constant model instead: for squares, 0.01 then
        means a training R² of at least 0.99. ``tiebreak.Slack(share=0.01)`` is always 1 % of the
        improvement of the best fit over the constant model; ``tiebreak.Slack(absolute=...)`` is in
        units of the loss. (Without an intercept, the constant model predicts 0, or 1 with a log
        link.) With a slack, a fit to more than a few hundred samples takes seconds or longer,
        unless the loss is "squared".
    loss : {"squared", "huber", "poisson", "quantile"}, default="squared"
        The training loss, averaged over the samples; "poisson" is half the deviance with a log
        link, "quantile" is the pinball loss of scikit-learn's QuantileRegressor.
    delta : float, default=1.35
        The residual at which Huber's loss changes from squares to absolute values, in units of y.
    quantile : float, default=0.5
        The quantile to predict with the quantile loss, above 0 and below 1.
    alpha, l1_ratio : float, default=0.0 and 1.0
        The training loss includes ``alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|²)``, as in
        scikit-learn's ElasticNet. If the penalty includes squares, there are no ties.
    reference : array, default=None
        Coefficients in the same shape as ``coef_``; zeros if None.
    ridge : float, default=None
        The weight r of "shrunk", which minimises the validation loss + r/2 |coef|². If None, the
        weight is chosen by leave-one-out cross-validation on the validation rows, as for plain
        least squares.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalised.
    domain : tiebreak set, default=None
        The set of allowed coefficients (for each row separately if there are several), such as
        ``tiebreak.Orthant()`` for non-negative ones. The intercept is not restricted. Boxes
        (``Orthant`` is one) and linear constraints work with every loss; every other set, such as
        ``tiebreak.Ball``, needs loss="squared" or fit_intercept=False.
    radius : float, default=None
        An upper bound on the norm of at least one optimal solution, intercept included. The bound
        is not verified, and only proofs use it.
    rtol : float, default=1e-4
        The relative tolerance within which both levels are proved to be optimal.
    max_iter : int, default=10000
        The maximum number of steps of an iterative method.
    warm_start : bool, default=False
        Start from the coefficients of the last fit.
    on_no_minimiser : {"warn", "error"}, default="warn"
        A Poisson loss may have no minimiser, for example if a feature occurs only in samples with
        zero counts. "warn" names the direction and returns the coefficients of a fit with a very
        weak penalty; "error" raises ``NoMinimiserError``.

    Attributes
    ----------
    coef_, intercept_ : the coefficients, always in float64.
    n_ties_ : the dimension of the set of equally good coefficients (a list for several targets);
        None if unknown.
    proved_ : whether both levels are proved to be optimal within ``rtol``; False if a slack is
        used up, because the bounds then rest on an assumption.
    certificate_ : what is proved, in numbers; with a slack, a dict with a ``tiebreak.LevelReport``
        for "fit" and one for "preference".
    report_ : what is proved, in words.
    given_up_, slack_ : by how much the training loss (with its penalty) exceeds that of the best
        fit, and by how much it is allowed to; 0.0 without a slack; lists for several targets.
    ridge_ : the weight of "shrunk", as given or chosen; a list for several targets.
    n_iter_ : the number of steps.

    Examples
    --------
    >>> from tiebreak.sklearn import TieBreakRegressor
    >>> X, y = [[1, 1, 0], [0, 1, 1]], [2, 2]  # three features, two samples
    >>> model = TieBreakRegressor("sparse", fit_intercept=False).fit(X, y)
    >>> model.n_ties_, model.proved_, model.coef_.round(4)
    (1, True, array([0., 2., 0.]))
    """

    def __init__(
        self,
        prefer: Any = "norm",
        *,
        slack: Any = 0.0,
        loss: str = "squared",
        delta: float = 1.35,
        quantile: float = 0.5,
        alpha: float = 0.0,
        l1_ratio: float = 1.0,
        reference: Any = None,
        ridge: float | None = None,
        fit_intercept: bool = True,
        domain: Any = None,
        radius: float | None = None,
        rtol: float = 1e-4,
        max_iter: int = 10_000,
        warm_start: bool = False,
        on_no_minimiser: str = "warn",
    ) -> None:
        super().__init__(
            prefer,
            slack=slack,
            loss=loss,
            alpha=alpha,
            l1_ratio=l1_ratio,
            reference=reference,
            ridge=ridge,
            fit_intercept=fit_intercept,
            domain=domain,
            radius=radius,
            rtol=rtol,
            max_iter=max_iter,
            warm_start=warm_start,
            on_no_minimiser=on_no_minimiser,
        )
        self.delta = delta
        self.quantile = quantile

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        # Counts may have several columns too, but scikit-learn's multi-output checks use negative
        # targets.
        has_counts = self._kind.has_counts
        tags.target_tags.multi_output = not has_counts
        tags.target_tags.positive_only = has_counts
        return tags

    @property
    def _kind(self) -> type[EstimatorLoss]:
        """The class of the loss; ``fit`` rejects an unknown name."""
        known = losses("regression", "squared")
        return known.get(self.loss, known["squared"])

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        sensitive_features: Any = None,
    ) -> TieBreakRegressor:
        """Fit the coefficients.

        Args:
            X: the features, dense or sparse.
            y: the target, or several as columns.
            sample_weight: the weights of the samples; a sample of weight k counts k times.
            X_val, y_val, sample_weight_val: the validation data for "validation" and "shrunk"; all
                other preferences except "fair" ignore them. Every fold of a cross-validation uses
                all of these data, unless they have as many rows as X: scikit-learn then splits them
                in the same way as X.
            sensitive_features: numbers or categories for ``prefer="fair"``, one row for each row of
                X_val, or of X without X_val. Since all best fits make the same predictions for the
                training data, pass other rows as X_val; they need no y.
        """
        known = losses("regression", "squared")
        settings, kind = self._check_parameters(known), known[self.loss]
        if not isinstance(self.quantile, Real) or not 0.0 < self.quantile < 1.0:
            raise ValueError(
                f"{self._owner}: quantile must be above 0 and below 1, got {self.quantile!r}"
            )
        with self._naming_columns(X=X, y=y):
            X, y = validate_data(
                self, X, y, accept_sparse=SPARSE, dtype=FLOATS, multi_output=True, y_numeric=True
            )
        self._need(X_val=X_val, y_val=y_val, sensitive_features=sensitive_features)
        if kind.has_counts and np.any(y < 0.0):
            raise ValueError(
                f"{self._owner}: y must not be negative for loss={self.loss!r}, got {np.min(y):g}"
            )
        # The estimator's tags announce that counts have a single column.
        if kind.has_counts and y.shape[1:] == (1,):
            y = column_or_1d(y, warn=True)
        Y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        training = self._training(X, sample_weight)
        criterion, others = self._criterion(
            Y.shape[1], training, X_val, sample_weight_val, sensitive_features
        )
        validation = None
        if self.prefer in BY_LOSS:
            rows = others.X.shape[0]
            W = check_array(y_val, ensure_2d=False, dtype=np.float64, input_name="y_val")
            if W.shape[0] != rows or W.size != rows * Y.shape[1]:
                raise ValueError(
                    f"{self._owner}: y_val must have {rows} rows like X_val and as many columns as "
                    f"y, got shape {W.shape}"
                )
            validation = without_zeros(others, W.reshape(rows, -1))
        training, Y = without_zeros(training, Y)
        # An intercept absorbs a shift of the targets, unless they are counts. Without the shift, a
        # loss of 0 coefficients far above the others would make any tolerance meaningless.
        is_shifted = self.fit_intercept and not kind.has_counts
        shift = target_offset(Y) if is_shifted else np.zeros(Y.shape[1])
        Y = Y - shift
        if validation is not None:
            validation = validation[0], validation[1] - shift
        # If there is a slack, the intercept may also be used to fit the validation data.
        is_free = settings.slack is not None and validation is not None
        data = _Training(self, kind, training, Y, validation, is_free)
        ridges = [self.ridge] * Y.shape[1]
        if validation is not None and self.prefer == "shrunk" and self.ridge is None:
            ridges = leave_one_out(training, Y, *validation, self.fit_intercept)

        def ending(k: int) -> FitOutcome:
            upper = criterion.function(data.layout, data.validation_loss(k), ridges[k], k)
            loss = data.training_loss(k)
            return self._fit(settings, data.layout, training.offset, loss, upper, k, shift[k])

        endings, further = [ending(0)], range(1, Y.shape[1])
        is_shared = criterion.reference is None and validation is None and settings.slack is None
        others = fit_others(endings[0], data.targets, settings) if is_shared and further else {}
        endings += [others.get(k) or ending(k) for k in further]
        self._keep(endings)
        self.ridge_: Any = ridges[0] if len(ridges) == 1 else ridges
        coef, intercept = data.coefficients(endings)
        intercept = self._intercepts(coef, intercept + shift, training)
        self.coef_: Host = coef[0] if y.ndim == 1 else coef
        self.intercept_: float | Host = float(intercept[0]) if y.ndim == 1 else intercept
        return self

    def predict(self, X: Any) -> Host:
        """Predict the targets of the samples X."""
        return self._kind.predicted(self._scores(X))


class _Training:
    """Training and validation data as losses of the coefficients of one target."""

    def __init__(
        self,
        model: TieBreakRegressor,
        kind: type[EstimatorLoss],
        data: Data,
        Y: Host,
        validation: tuple[Data, Host] | None,
        keeps_intercept: bool,
    ) -> None:
        rows, n = data.X.shape
        self.model, self.kind = model, kind
        self.data, self.targets, self.validation = data, Y, validation
        self.centred: Centred | None = None
        # We centre the data only if no proof of their rank is needed: a rank can be proved for
        # whole numbers, and centred data are no longer whole numbers. With few rows or a penalty,
        # the rank need not be proved. In a box, the rank matters even with few rows, and a column
        # of ones does no harm; no other set allows this column.
        is_few = rows <= n if model.domain is None else not isinstance(model.domain, tb.Box)
        is_wanted = is_few or model.alpha > 0.0
        is_worth = is_wanted and not keeps_intercept
        if model.loss == "squared" and model.fit_intercept and is_worth and rows * n <= DENSE_LIMIT:
            found = self.centred = centred(data.X, Y, data.weights)
            epsilon = (data.epsilon or EPS) * found.growth
            self.data = data._replace(X=found.rows, weights=None, epsilon=epsilon)
            self.targets = found.targets
        self.layout = Layout(n, 1, model.fit_intercept and self.centred is None)
        if self.layout.has_column:
            self.data = data._replace(X=with_ones(data.X))
        self.data = self.data._replace(X=self.data.rows)  # one factorisation for all targets
        if validation is not None:
            self.validation = self._in_place(*validation)

    def _in_place(self, data: Data, W: Host) -> tuple[Data, Host]:
        """Return validation data with the same variables as the training data."""
        if self.centred is not None:
            V = as_dense(data.X) - self.centred.mean
            return data._replace(X=V), W - self.centred.offset
        return data._replace(X=with_ones(data.X)) if self.layout.has_column else data, W

    def training_loss(self, k: int) -> Function | Penalty:
        """Return the training loss of target k."""
        y, data = self.targets[:, k], self.data
        if self.centred is None:
            return mean_loss(self.kind, self.model, data, y)
        squares = data.described(tb.LeastSquares(data.X, y, gram=False))
        return (1.0 / self.centred.total) * squares

    def validation_loss(self, k: int) -> Function | Penalty | None:
        """Return the validation loss of target k."""
        if self.validation is None:
            return None
        data, W = self.validation
        return mean_loss(self.kind, self.model, data, W[:, k])

    def coefficients(self, endings: list[FitOutcome]) -> tuple[Host, Host]:
        """Return the coefficients, one row per target, and the intercepts."""
        layout = replace(self.layout, outputs=len(endings))
        coef, intercepts = layout.split(np.concatenate([ending.x for ending in endings]))
        if self.centred is not None:
            intercepts = self.centred.offset - coef @ self.centred.mean
        return coef, intercepts
