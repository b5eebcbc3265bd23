"""What the regressor and the classifier share: parameters, checks, and fitted attributes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    validate_data,
)

import tiebreak as tb
from tiebreak.functions import Function, Penalty
from tiebreak.functions.base import EstimatorLoss
from tiebreak.linalg import EPS, Host, checks, tables
from tiebreak.linalg.host import norm
from tiebreak.linalg.refusals import missing
from tiebreak.sets import Set
from tiebreak.sklearn.criteria import Criterion, check_prefer
from tiebreak.sklearn.design import Data, Layout, exact_offset, with_free_intercepts
from tiebreak.sklearn.fitting import FitOutcome, Settings, Task, fit
from tiebreak.sklearn.slack import slack_rule

SPARSE = ["csr"]
# Data are not converted, because their dtype shows how they were rounded.
FLOATS = [np.float64, np.float32, np.float16]
WORDS = {
    "norm": "half the squared norm of the coefficients",
    "reference": "half the squared distance from the reference",
    "validation": "validation loss",
    "shrunk": "validation loss with a ridge",
    "sparse": "sum of the absolute coefficients",
    "fair": "half the squared covariance",
    "smooth": "half the squared differences of neighbours",
}


class TieBreakModel(BaseEstimator):  # type: ignore[misc]
    """A linear model with the preferred coefficients among all that fit equally well."""

    def __init__(
        self,
        prefer: Any = "norm",
        *,
        slack: Any = 0.0,
        loss: str,
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
        self.prefer = prefer
        self.slack = slack
        self.loss = loss
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.reference = reference
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.domain = domain
        self.radius = radius
        self.rtol = rtol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.on_no_minimiser = on_no_minimiser

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self, known: dict[str, type[EstimatorLoss]]) -> Settings:
        """Check all parameters that can be checked without data."""
        owner = self._owner
        check_prefer(owner, self.prefer)
        if self.loss not in known:
            names, meant = ", ".join(map(repr, known)), checks.did_you_mean(self.loss, known)
            raise ValueError(f"{owner}: loss must be one of {names}, got {self.loss!r}{meant}")
        for name, most in (("alpha", math.inf), ("l1_ratio", 1.0)):
            value = getattr(self, name)
            is_number = isinstance(value, Real) and math.isfinite(value)
            if not is_number or not 0.0 <= value <= most:
                upto = "" if math.isinf(most) else f" and at most {most:g}"
                raise ValueError(f"{owner}: {name} must be at least 0{upto}, got {value!r}")
        for name in ("radius", "ridge"):
            if getattr(self, name) is not None:
                checks.positive(owner, name, getattr(self, name))
        is_set = isinstance(self.domain, Set) and not isinstance(self.domain, type)
        if self.domain is not None and not is_set:
            got = checks.what_it_is(self.domain)
            raise ValueError(
                f"{owner}: domain must be a set such as tiebreak.Orthant() for coefficients of at "
                f"least 0 or tiebreak.Box(0.0, 1.0), got {got}"
            )
        if self.on_no_minimiser not in ("error", "warn"):
            raise ValueError(
                f"{owner}: on_no_minimiser must be 'error' or 'warn', got {self.on_no_minimiser!r}"
            )
        slack = slack_rule(owner, self.slack)
        return Settings(owner, self.rtol, self.max_iter, self.on_no_minimiser, slack)

    def _training(self, X: Any, sample_weight: Any) -> Data:
        """Return the training data, shifted if an intercept absorbs the shift."""
        offset = exact_offset(X) if self.fit_intercept else np.zeros(X.shape[1])
        return Data.of(X, self._weights(sample_weight, X), offset)

    def _weights(self, weights: Any, X: Any, name: str = "sample_weight") -> Host | None:
        if weights is None:
            return None
        found = np.asarray(_check_sample_weight(weights, X, dtype=np.float64))
        if np.any(found < 0.0):
            raise ValueError(f"{self._owner}: {name} must not be negative, got {found.min():g}")
        if not found.any():
            raise ValueError(f"{self._owner}: {name} must have a positive entry, got zeros only")
        return found

    def _need(self, **given: Any) -> None:
        """Require the data and parameters that ``prefer`` needs in fit."""
        rows = ("X_val", "y_val")
        needs = {"validation": rows, "shrunk": rows, "fair": ("sensitive_features",)}
        for name in needs.get(self.prefer, ()) if isinstance(self.prefer, str) else ():
            if given[name] is None:
                raise ValueError(
                    f"{self._owner}: {name} must be given to fit if prefer is "
                    f"{self.prefer!r}, got None"
                )
        if self.prefer == "shrunk" and self.ridge is None and self.loss != "squared":
            raise ValueError(
                f"{self._owner}: ridge must be a number if prefer is 'shrunk' and loss is not "
                "'squared', got None"
            )

    def _criterion(
        self,
        outputs: int,
        training: Data,
        X_val: Any,
        sample_weight_val: Any,
        sensitive_features: Any,
    ) -> tuple[Criterion, Data]:
        """Return the preference, and the data on which it depends: X_val, or the training data."""
        others = training
        if X_val is not None:
            V = validate_data(self, X_val, accept_sparse=SPARSE, dtype=FLOATS, reset=False)
            weights = self._weights(sample_weight_val, V, "sample_weight_val")
            others = Data.of(V, weights, training.offset)
        is_used = self.prefer == "reference" and self.reference is not None
        if self.reference is not None and not is_used:
            warnings.warn(
                f"{self._owner}: reference is not used if prefer is {self.prefer!r}; "
                "write prefer='reference'",
                stacklevel=3,
            )
        reference = self._reference(self.n_features_in_, outputs) if is_used else None
        is_fair = self.prefer == "fair"
        covariance = self._covariance(others, sensitive_features) if is_fair else None
        return Criterion(self._owner, self.prefer, reference, covariance), others

    def _fit(
        self,
        settings: Settings,
        layout: Layout,
        offset: Host,
        loss: Function | Penalty,
        upper: Function | Penalty,
        first: int = 0,
        shift: float = 0.0,
        **about: Any,
    ) -> FitOutcome:
        """Solve both levels for the outputs of a layout, which are numbered from ``first``.

        Because ``offset`` has been subtracted from the features and ``shift`` from the targets, the
        intercepts are shifted.
        """
        domain: Any = tb.Space()
        if self.domain is not None:
            domain = with_free_intercepts(self._owner, self.domain, layout)
        radius = self.radius
        if radius is not None and layout.has_column:
            radius = radius * (1.0 + norm(offset)) + abs(shift)
        task = Task(layout, loss, self._penalty(layout), upper, domain, radius, **about)
        names = getattr(self, "feature_names_in_", None)
        return fit(task, settings, self._start(layout, offset, first, shift), names)

    def _covariance(self, data: Data, sensitive_features: Any) -> Data:
        """Return the covariance of each sensitive feature with the features, as rows."""
        Z = _as_columns(self._owner, sensitive_features, data.X.shape[0])
        w = np.ones(len(Z)) if data.weights is None else data.weights
        w = w / np.sum(w)
        mean = w @ Z
        C, sizes = (w[:, None] * M for M in (Z - mean, np.abs(Z) + np.abs(mean)))
        found, terms = np.asarray(C.T @ data.X), np.asarray(sizes.T @ abs(data.X))
        # Entries that may be rounding errors become 0, so that the criterion does not depend on
        # them.
        unit = max(math.sqrt(len(Z)) * EPS, data.epsilon)
        found = np.where(np.abs(found) <= unit * terms, 0.0, found)
        epsilon = unit * norm(terms) / (norm(found) or np.inf)
        return data._replace(X=found, weights=None, epsilon=epsilon)

    def _reference(self, features: int, outputs: int) -> Host:
        if hasattr(self.reference, "coef_"):
            raise ValueError(
                f"{self._owner}: reference must be an array of coefficients, such as model.coef_, "
                f"got {type(self.reference).__name__}"
            )
        found = self._numbers_of_reference()
        names = tables.names(self.reference)
        if names is not None:
            self._need_names(names, features)
        if found.size != features * outputs:
            hint = (
                "leave out the intercept"
                if found.size == (features + 1) * outputs
                else "old.coef_table()['coef'].reindex(X.columns, fill_value=0.0) has one for each "
                "column of a table X"
            )
            raise ValueError(
                f"{self._owner}: reference must have {outputs} x {features} coefficients, got "
                f"shape {found.shape}; {hint}"
            )
        return np.reshape(found, (outputs, features))

    def _numbers_of_reference(self) -> Host:
        given: Any = self.reference
        if tables.is_frame(given) or tables.is_series(given):
            given = tables.numbers(self._owner, "reference", given)
        try:
            found = check_array(given, ensure_2d=False, dtype=np.float64, ensure_all_finite=False)
        except (TypeError, ValueError):
            raise ValueError(
                f"{self._owner}: reference must be an array of numbers, such as model.coef_, or a "
                f"Series with the names of X, got {checks.what_it_is(given)}"
            ) from None
        if not np.all(np.isfinite(found)):
            where = tables.where_not_finite(self.reference)
            raise ValueError(f"{self._owner}: reference must be finite, got NaN or infinity{where}")
        return np.asarray(found)

    @contextmanager
    def _naming_columns(self, **given: Any) -> Iterator[None]:
        """If scikit-learn rejects a table, name the column that is not numeric or not finite."""
        try:
            yield
        except (TypeError, ValueError):
            for name, table in given.items():
                if tables.is_frame(table) or tables.is_series(table):
                    tables.numbers(self._owner, name, table)
                    if where := tables.where_not_finite(table):
                        text = f"{self._owner}: {name} must be finite, got NaN or infinity{where}"
                        raise ValueError(text) from None
            raise

    def _need_names(self, names: Sequence[Any], features: int) -> None:
        """Require a reference with names to have the names of X, in the same order."""
        wanted = self._feature_names(features)
        missing_ones = [name for name in wanted if name not in set(names)]
        others = [name for name in names if name not in set(wanted)]
        if list(names) == wanted:
            return
        if not hasattr(self, "feature_names_in_"):
            raise ValueError(
                f"{self._owner}: reference must be an array if X has no names: give X as a table "
                '(in a pipeline set_output(transform="pandas")), or reference.to_numpy() if the '
                f"order is right, got the names {_some(names)}"
            )
        said = [f"no {_some(missing_ones)}"] * bool(missing_ones)
        said += [f"the unexpected {_some(others)}"] * bool(others)
        got = " and ".join(said) or f"{_some(names)} instead of {_some(wanted)}"
        raise ValueError(
            f"{self._owner}: reference must have the same names as X in the same order, got {got}"
        )

    def _feature_names(self, features: int) -> list[Any]:
        return list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(features)]))

    def _penalty(self, layout: Layout) -> Any:
        """alpha (l1_ratio |coef|_1 + (1 - l1_ratio)/2 |coef|²); None if alpha is 0."""
        l1, square = self.alpha * self.l1_ratio, self.alpha * (1.0 - self.l1_ratio)
        parts: list[Any] = []
        if l1 > 0.0:
            parts.append(tb.L1(l1 * layout.penalised))
        if square > 0.0:
            parts.append(tb.SquaredNorm(square * layout.penalised))
        return sum(parts) if parts else None

    def _start(self, layout: Layout, offset: Host, first: int, shift: float) -> Host | None:
        """Return the coefficients of the last fit, starting at output ``first``, or None."""
        if not self.warm_start or not hasattr(self, "coef_"):
            return None
        chosen = slice(first, first + layout.outputs)
        coef, intercept = np.atleast_2d(self.coef_)[chosen], np.atleast_1d(self.intercept_)[chosen]
        if coef.shape != (layout.outputs, layout.features):
            return None
        return layout.joined(coef, intercept + coef @ offset - shift)

    def _intercepts(self, coef: Host, shifted: Host, data: Data) -> Host:
        """Convert the intercepts for shifted features to those for the given features."""
        lost = EPS * np.abs(coef) @ np.abs(data.offset)
        if lost.any() and np.any(lost > self.rtol * np.ptp(data.X @ coef.T, axis=0)):
            warnings.warn(
                f"{self._owner}: predictions have rounding errors of up to {np.max(lost):.1g}, "
                "because columns of X are far from 0; subtract a constant from them",
                stacklevel=3,
            )
        return np.asarray(shifted - coef @ data.offset)

    def _keep(self, endings: Sequence[FitOutcome]) -> None:
        """Set the fitted attributes, as lists if there are several targets."""
        self.n_iter_: int = max(e.steps for e in endings)
        self.n_ties_: Any = _one_or_all([e.ties for e in endings])
        self.proved_: bool = all(e.proved for e in endings)
        self.certificate_: Any = _one_or_all([e.certificate for e in endings])
        self.given_up_: Any = _one_or_all([e.given_up for e in endings])
        self.slack_: Any = _one_or_all([e.slack for e in endings])
        self.report_: str = Report("\n".join(e.report for e in endings))
        self._choice_curves = [e.curve for e in endings]

    def _scores(self, X: Any) -> Host:
        """Return the linear scores of the samples X, one column for each output."""
        check_is_fitted(self)
        with self._naming_columns(X=X):
            X = validate_data(self, X, accept_sparse=SPARSE, dtype=np.float64, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_.T) + self.intercept_)

    def coef_table(self) -> Any:
        """Return the coefficients with the names of the features, as a pandas DataFrame.

        The table has one column for each target or class (with two classes, only one column, for
        the second class). Its last row is the intercept.
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError:
            raise missing("coef_table", "pandas", "pandas") from None
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)
        names = self._feature_names(coef.shape[1])
        classes = getattr(self, "classes_", range(len(coef)))
        columns = ["coef"] if len(coef) == 1 else list(classes)
        table = np.column_stack([coef, intercept]).T
        return pd.DataFrame(table, index=[*names, "intercept"], columns=columns)

    def plot_choice(self, ax: Any = None, *, target: int = 0) -> Any:
        """Plot how the preference varies along the ties, and return the axes.

        The plot shows the preference and the training loss along a line of equally good
        coefficients. The line leads towards the smallest of these coefficients or, if they were
        chosen, in a random direction. As long as fits are equally good, the loss is constant along
        the line.

        Args:
            ax: matplotlib axes; new axes if None.
            target: the number of the target to draw, if there are several.
        """
        check_is_fitted(self)
        curve = self._choice_curves[target]
        if curve is None:
            raise ValueError(
                f"{self._owner}: plot_choice needs ties among the best fits and data that can be "
                f"factorised; got n_ties_ = {self.n_ties_}"
            )
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError:
                raise missing("plot_choice", "matplotlib", "plot") from None
            _, ax = pyplot.subplots(layout="constrained")
        name = self.prefer if isinstance(self.prefer, str) else type(self.prefer).__name__
        ties = self.n_ties_[target] if isinstance(self.n_ties_, list) else self.n_ties_
        title = f"{self._owner}(prefer={name!r}), {ties} dimensions of ties"
        curve.draw(ax, WORDS.get(name, name), title)
        return ax


class Report(str):
    """A report that a notebook shows line by line."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def _some(names: Sequence[Any]) -> str:
    """Return the first three names, separated by commas."""
    return ", ".join(map(repr, names[:3])) + (", ..." if len(names) > 3 else "")


def _one_or_all(found: list[Any]) -> Any:
    return found[0] if len(found) == 1 else found


def _as_columns(owner: str, values: Any, rows: int) -> Host:
    """Return sensitive features as columns of numbers: a text becomes one column per category."""
    table = np.asarray(values)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[0] != rows:
        raise ValueError(
            f"{owner}: sensitive_features must have one row for each of the {rows} rows of X_val, "
            f"or of X if X_val is not given, got shape {np.shape(values)}"
        )
    columns = []
    for column in table.T:
        if column.dtype == object:  # as in all columns of a table with numbers and texts
            column = np.array(column.tolist())
        if column.dtype.kind in "biuf":
            columns.append(column.astype(np.float64)[:, None])
        else:
            kinds, codes = np.unique(column.astype(str), return_inverse=True)
            # The columns add up to 1, so the first one is redundant.
            columns.append(np.eye(len(kinds))[codes][:, 1:])
    found = np.hstack(columns)
    if not np.all(np.isfinite(found)):
        raise ValueError(f"{owner}: sensitive_features must be finite, got NaN or infinity")
    return found
