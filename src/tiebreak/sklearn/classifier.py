"""TieBreakClassifier: the best of all equally good linear classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from tiebreak.functions import Function, Penalty
from tiebreak.linalg import Host, checks
from tiebreak.linalg.tolerances import TOL
from tiebreak.sklearn.criteria import BY_LOSS
from tiebreak.sklearn.design import (
    Data,
    Layout,
    losses,
    mean_loss,
    with_ones,
    without_zeros,
)
from tiebreak.sklearn.model import FLOATS, SPARSE, TieBreakModel


class TieBreakClassifier(ClassifierMixin, TieBreakModel):  # type: ignore[misc]
    """A linear classifier with the coefficients you prefer among all that fit equally well.

    Two classes share one row of coefficients; with three classes or more, each class has its own
    row, and the loss is the softmax (multinomial) loss. The multinomial loss does not change if the
    same vector is added to the coefficients of all classes: such ties always exist and are counted
    in ``n_ties_``.

    Parameters
    ----------
    prefer : str or function, default="norm"
        "norm": the smallest coefficients; "reference": those closest to ``reference``;
        "validation": those with the least loss on ``X_val``, ``y_val`` (in ``fit``);
        "shrunk": the least validation loss with a ridge (see ``ridge``); "sparse": the least sum
        of absolute values; "fair": the least covariance of the decision function with
        ``sensitive_features`` (in ``fit``); "smooth": the least squared differences of neighbouring
        coefficients; or a tiebreak function of the coefficients, row by row.
        The preference never includes the intercept.
    slack : float or tiebreak.Slack, default=0.0
        By how much the training loss (with its penalty) may exceed that of the best fit, for the
        sake of your preference: 0.01 means "at most 1 % worse". ``tiebreak.Slack(share=0.01)`` is
        1 % of the improvement of the best fit over the constant model (over equal probabilities if
        there is no intercept); ``tiebreak.Slack(absolute=...)`` is in units of the loss. A slack
        does not help if the loss has no minimiser. With a slack, a fit to more than a few hundred
        samples takes seconds or longer.
    loss : {"logistic", "hinge", "squared_hinge"}, default="logistic"
        The training loss, averaged over the samples. The hinge losses of support vector machines,
        ``max(0, 1 - margin)`` and half its square, are for two classes and give no probabilities.
        The hinge losses always have a minimiser; if a plane separates the classes,
        "norm" chooses the plane with the widest margin.
    alpha, l1_ratio : float, default=0.0 and 1.0
        The training loss includes ``alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|²)``.
    reference : array, default=None
        Coefficients in the same shape as ``coef_``; zeros if None.
    ridge : float, default=None
        The weight r of "shrunk", which minimises the validation loss + r/2 |coef|².
    class_weight : dict or "balanced", default=None
        Weights of the classes in the training loss, as in scikit-learn; they are multiplied by
        ``sample_weight``.
    fit_intercept : bool, default=True
        Fit an intercept, which is not penalised.
    domain : tiebreak set, default=None
        The set of allowed coefficients (for each row separately if there are several), such as
        ``tiebreak.Orthant()`` for non-negative ones. The intercept is not restricted. Boxes
        (``Orthant`` is one) and linear constraints work with and without an intercept; every other
        set, such as ``tiebreak.Ball``, needs fit_intercept=False.
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
        If a direction of the coefficients separates the classes, or some of their samples, the
        logistic loss has no minimiser: it keeps decreasing along that direction. "warn" names the
        direction and returns a fit with a very weak penalty, which separates the same samples;
        "error" raises ``NoMinimiserError``.

    Attributes
    ----------
    classes_ : the labels.
    coef_, intercept_ : the coefficients, always in float64.
    n_ties_ : the dimension of the set of equally good coefficients; None if unknown.
    proved_ : whether both levels are proved to be optimal within ``rtol``; False if a slack is
        used up, because the bounds then rest on an assumption.
    certificate_ : what is proved, in numbers; with a slack, a dict with a ``tiebreak.LevelReport``
        for "fit" and one for "preference".
    report_ : what is proved, in words.
    given_up_, slack_ : by how much the training loss (with its penalty) exceeds that of the best
        fit, and by how much it is allowed to; 0.0 without a slack.
    n_iter_ : the number of steps.

    Examples
    --------
    >>> from tiebreak.sklearn import TieBreakClassifier
    >>> X, y = [[1, 1], [2, 2], [3, 3], [4, 4]], [0, 1, 0, 1]  # one feature, twice
    >>> model = TieBreakClassifier("norm").fit(X, y)
    >>> model.n_ties_, model.coef_.round(3), model.predict([[4, 4]])
    (1, array([[0.454, 0.454]]), array([1]))
    """

    def __init__(
        self,
        prefer: Any = "norm",
        *,
        slack: Any = 0.0,
        loss: str = "logistic",
        alpha: float = 0.0,
        l1_ratio: float = 1.0,
        reference: Any = None,
        ridge: float | None = None,
        class_weight: Any = None,
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
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss in losses("more classes", "logistic")
        return tags

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
    ) -> TieBreakClassifier:
        """Fit the coefficients.

        Args:
            X: the features, dense or sparse.
            y: the labels, of any kind.
            sample_weight: the weights of the samples; a sample of weight k counts k times.
            X_val, y_val, sample_weight_val: the validation data for "validation" and "shrunk"; all
                other preferences except "fair" ignore them. Every fold of a cross-validation uses
                all of these data, unless they have as many rows as X: scikit-learn then splits them
                in the same way as X.
            sensitive_features: numbers or categories for ``prefer="fair"``, one row for each row of
                X_val, or of X without X_val. Since all best fits make the same predictions for the
                training data, pass other rows as X_val; they need no y.
        """
        settings = self._check_parameters(losses("two classes", "logistic"))
        with self._naming_columns(X=X):
            X, y = validate_data(self, X, y, accept_sparse=SPARSE, dtype=FLOATS)
        self._need(X_val=X_val, y_val=y_val, sensitive_features=sensitive_features)
        check_classification_targets(y)
        self.classes_, codes = np.unique(column_or_1d(y), return_inverse=True)
        if len(self.classes_) > 2 and self.loss not in losses("more classes", "logistic"):
            raise ValueError(
                f"{self._owner}: Only binary classification is supported with loss={self.loss!r}; "
                f"use loss='logistic' for more classes, got {len(self.classes_)} classes"
            )
        training = self._training(X, sample_weight)
        training = training._replace(weights=self._by_class(y, codes, training.weights))
        outputs = len(self.classes_) if len(self.classes_) > 2 else 1
        layout = Layout(X.shape[1], outputs, self.fit_intercept)
        criterion, others = self._criterion(
            outputs, training, X_val, sample_weight_val, sensitive_features
        )
        validation = None
        if self.prefer in BY_LOSS:
            labels = self._codes(y_val, others.X.shape[0])
            validation = self._loss(*without_zeros(others, labels), layout)
        training, codes = without_zeros(training, codes)
        self._need_classes(codes)

        def separated(x: Host) -> Host:
            coef, intercept = layout.split(x)
            margins = _margins(safe_sparse_dot(training.X, coef.T) + intercept, codes)
            return np.asarray(margins > TOL.accurate * np.max(np.abs(margins)))

        ending = self._fit(
            settings,
            layout,
            training.offset,
            self._loss(training, codes, layout),
            criterion.function(layout, validation, self.ridge),
            separated=separated,
            classes=self.classes_ if outputs > 1 else None,
        )
        self._keep([ending])
        self.coef_, intercept = layout.split(ending.x)
        self.intercept_: Any = self._intercepts(self.coef_, intercept, training)
        if outputs > 1:  # adding a constant to all intercepts does not change the loss
            self.intercept_ = self.intercept_ - np.mean(self.intercept_)
        return self

    def _by_class(self, y: Any, codes: Host, weights: Host | None) -> Host | None:
        """Return the weights of the samples times the weights of their classes."""
        if self.class_weight is None:
            return weights
        weights = np.ones(len(codes)) if weights is None else weights
        if self.class_weight != "balanced":
            if not isinstance(self.class_weight, dict):
                raise TypeError(
                    f"{self._owner}: class_weight must be None, 'balanced' or a dict of one number "
                    f"for each class, got {self.class_weight!r}"
                )
            for name, weight in self.class_weight.items():
                checks.at_least(self._owner, f"class_weight of {name}", weight)
            return np.asarray(weights * compute_sample_weight(self.class_weight, y))
        totals = np.bincount(codes, weights)
        even = np.sum(totals) / len(totals)
        shares = np.divide(even, totals, out=0.0 * totals, where=totals > 0.0)
        return np.asarray(weights * shares[codes])

    def _codes(self, labels: Any, rows: int) -> Host:
        """Return labels of validation data as class numbers."""
        found = column_or_1d(labels)
        known = {label: code for code, label in enumerate(self.classes_.tolist())}
        codes = np.array([known.get(label, -1) for label in found.tolist()])
        if len(found) != rows or np.any(codes < 0):
            raise ValueError(
                f"{self._owner}: y_val must hold a label of the training data for each of the "
                f"{rows} rows of X_val, got {len(found)} labels, {np.unique(found)[:5]}"
            )
        return codes

    def _need_classes(self, codes: Host) -> None:
        missing = np.setdiff1d(np.arange(len(self.classes_)), codes)
        if len(self.classes_) < 2 or len(missing):
            got = len(self.classes_) - len(missing)
            raise ValueError(
                f"{self._owner}: y must hold samples of at least 2 classes, each with some "
                f"positive weight, got {got} class{'' if got == 1 else 'es'}"
            )

    def _loss(self, data: Data, codes: Host, layout: Layout) -> Function | Penalty:
        """Return the mean loss of the given samples."""
        data = data._replace(X=with_ones(data.X)) if layout.has_column else data
        if layout.outputs > 1:
            kind = losses("more classes", "logistic")[self.loss]
            return mean_loss(kind, self, data, codes, classes=layout.outputs)
        kind = losses("two classes", "logistic")[self.loss]
        return mean_loss(kind, self, data, 2.0 * codes - 1.0)

    def decision_function(self, X: Any) -> Host:
        """Return the scores of the samples X: one per class, or a single one for two classes."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Host:
        """Predict the class with the largest score for each sample."""
        scores = self.decision_function(X)
        codes = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(int)
        return np.asarray(self.classes_[codes])

    @available_if(lambda self: self.loss == "logistic")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Host:
        """Return the probabilities of the classes, one column per class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(lambda self: self.loss == "logistic")  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Host:
        """Return the logarithms of the probabilities."""
        scores = self.decision_function(X)
        # Two columns lose no digits in small probabilities, unlike 1 - p.
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return np.asarray(log_softmax(scores, axis=1))


def _margins(scores: Host, codes: Host) -> Host:
    """Return the margins of each row's own class over each of the other classes.

    Each margin counts separately: a direction that separates samples of one class from only one
    other class can already leave the loss without a minimiser.
    """
    if scores.shape[1] == 1:
        return np.asarray((2.0 * codes - 1.0) * scores[:, 0])
    is_other = codes[:, None] != np.arange(scores.shape[1])
    return np.asarray((scores[np.arange(len(codes)), codes][:, None] - scores)[is_other])
