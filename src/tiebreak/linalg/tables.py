"""The numbers and labels of pandas tables, without importing pandas.

Labels are compared, never sorted: rows or columns in a different order are rejected, because
silently sorting a table hides a mistake as often as it corrects one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tiebreak.linalg.arrays import Host

Labels = Any  # a pandas Index


def is_frame(value: object) -> bool:
    """Is ``value`` a pandas DataFrame?"""
    return _is_pandas(value) and hasattr(value, "columns")


def is_series(value: object) -> bool:
    """Is ``value`` a pandas Series?"""
    return _is_pandas(value) and not hasattr(value, "columns")


def _is_pandas(value: object) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        return False
    return any(base.__module__.partition(".")[0] == "pandas" for base in kind.__mro__) and hasattr(
        value, "iloc"
    )


def numbers(owner: str, name: str, value: Any) -> Host:
    """The numbers of a DataFrame or Series; TypeError if a column does not hold numbers.

    Missing values become NaN. Infinite or missing values are reported by `where_not_finite`.
    """
    columns = [(column, value[column]) for column in value.columns] if is_frame(value) else []
    if is_frame(value) and not value.columns.is_unique:
        twice = value.columns[value.columns.duplicated()][0]
        raise ValueError(
            f"{owner}: {name} must have columns of different names, got {twice!r} twice"
        )
    for column, series in columns or [(value.name, value)]:
        # A nullable column has the dtype of its numbers in an attribute.
        kind = getattr(series.dtype, "numpy_dtype", series.dtype)
        if getattr(kind, "kind", "O") not in "fiub" or series.dtype.name == "category":
            where = f" in column {column!r}" if column is not None else ""
            is_text = any(isinstance(entry, str) for entry in series.iloc[:100])
            got = "text" if is_text else f"entries of type {series.dtype}"
            raise TypeError(f"{owner}: {name} must hold numbers, got {got}{where}")
    if any(not isinstance(series.dtype, np.dtype) for _, series in columns or [(None, value)]):
        value = value.astype(np.float64)  # missing values become NaN
    found = np.asarray(value)
    # Columns of numbers and columns of True and False, as from get_dummies, have no common type.
    return found.astype(np.float64) if found.dtype == object else found


def where_not_finite(value: Any) -> str:
    """The place of the first non-finite entry of a DataFrame or Series, in words."""
    if is_frame(value):
        for column in value.columns:
            if not np.all(np.isfinite(value[column].astype(np.float64))):
                return f" in column {column!r}"
    elif is_series(value) and not is_default(value.index):
        bad = ~np.isfinite(value.astype(np.float64).to_numpy())
        return f" at {value.index[int(np.argmax(bad))]!r}"
    return ""


def names(value: Any) -> tuple[Any, ...] | None:
    """The names of the variables: the columns of a DataFrame, the index of a Series.

    The result is None for everything else, and for the default labels 0, 1, 2, which are not names.
    """
    if not _is_pandas(value):
        return None
    labels = value.columns if is_frame(value) else value.index
    return None if is_default(labels) else tuple(labels.tolist())


def row_names(value: Any) -> tuple[str, ...] | None:
    """The names of the rows of a table, as strings; None for the default labels 0, 1, 2."""
    if not _is_pandas(value) or is_default(value.index):
        return None
    return tuple(map(str, value.index.tolist()))


def is_default(labels: Labels) -> bool:
    """Are the labels the default labels 0, 1, 2?"""
    return bool(labels.dtype.kind == "i" and np.array_equal(labels, np.arange(len(labels))))


def need_same_rows(owner: str, first: tuple[str, Any], second: tuple[str, Any]) -> None:
    """Raise ValueError if two arguments, given as (name, value), are labelled differently."""
    (a, A), (b, B) = first, second
    if not (_is_pandas(A) and _is_pandas(B)):
        return
    if len(A.index) != len(B.index) or A.index.equals(B.index):
        # Different lengths are reported by another check.
        return
    labels, others = A.index.tolist(), B.index.tolist()
    i = next((i for i, label in enumerate(labels) if label != others[i]), 0)
    raise ValueError(
        f"{owner}: {b} must have the index of {a}, got {others[i]!r} where {a} has {labels[i]!r}; "
        f"pass {b}.loc[{a}.index], or .to_numpy() if the rows already match"
    )


def common(
    owner: str, *named: tuple[str, Sequence[Any] | None], what: str = "columns"
) -> tuple[Any, ...] | None:
    """The names of the variables; ValueError unless all arguments with names agree.

    ``named`` holds pairs of a description and the names, which may be None.
    """
    known = [(who, tuple(names)) for who, names in named if names is not None]
    for who, names in known[1:]:
        first, wanted = known[0]
        if len(names) == len(wanted) and names != wanted:  # lengths have a separate check
            i = next(
                i for i, pair in enumerate(zip(names, wanted, strict=True)) if len({*pair}) > 1
            )
            raise ValueError(
                f"{owner}: {first} and {who} must have the same {what} in the same order, "
                f"got {wanted[i]!r} and {names[i]!r} at index {i}"
            )
    return known[0][1] if known else None


def fingerprint(value: Any) -> Any:
    """The labels of a table, and an array of hashes that changes with the entries."""
    hashes = sys.modules["pandas"].util.hash_pandas_object(value).to_numpy()
    return hashes, tuple(value.columns) if is_frame(value) else ()
