"""Does it help to choose among equally good fits by validation data? Real data, 20 splits.

    python benchmarks/estimators/validation_gain.py [--data FOLDER] [--only NAME ...] [--splits N]
    python benchmarks/estimators/validation_gain.py --plot PICTURE   # by number of features

Every split has training, validation and test rows, 40, 30 and 30 per cent, by the seeds 0 ... 19.
Six fits see the first two parts, and all are judged by the loss of the third:

    norm    the least norm among the best fits to the training rows
    chosen  the least loss of the validation rows among the best fits to the training rows
    shrunk  as chosen, with a penalty on the norm added to the loss of the validation rows; its
            weight by leaving out one validation row at a time (squares only)
    both    the least norm among the best fits to the training and validation rows together
    ridge   ridge regression of the training rows, its penalty chosen by the validation rows
    ridge+  the same penalty, fitted to both

Losses are mean squares (or logistic and Poisson losses, depending on the data set), divided by the
loss of the best constant on all rows: 1 is no better than a constant. Markdown tables are printed,
and every number is in out/validation_gain.csv.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before NumPy is imported; not when a test imports this
    for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_variable] = "1"

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import gain_data
import numpy as np
from gain_data import SHARES, Case, Matrix, Split, Vector
from real_data import Absent
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeCV

import tiebreak as tb
from tiebreak.sklearn import NoMinimiserError, TieBreakClassifier, TieBreakRegressor

FITS = ("norm", "chosen", "shrunk", "both", "ridge", "ridge+")
PROVED = ("norm", "chosen", "both")  # those of tiebreak
PENALTIES = np.logspace(-4.0, 8.0, 25)
# Splits share rows, so that their losses are not independent. Nadeau and Bengio (2003) add the
# ratio of test rows to all others to 1/splits, which makes the standard error about three times
# as large.
SHARED = SHARES[2] / (SHARES[0] + SHARES[1])
CLEAR = 2.0  # this many corrected standard errors make a difference
RANK = 1e-10  # singular values below this share of the largest count as 0
VERDICTS = ("better", "worse", "unclear", "the same")
SAME = 1e-6  # smaller relative differences of losses are rounding or the tolerance of the fits


# --- losses ---------------------------------------------------------------------------------------


def loss_of(kind: str, y: Vector, predicted: Vector) -> float:
    """The mean loss; predicted are means of y, for labels their probabilities."""
    if kind == "squared":
        return float(np.mean((y - predicted) ** 2))
    if kind == "logistic":
        likely = np.clip(np.where(y == 1.0, predicted, 1.0 - predicted), 1e-300, None)
        return float(-np.mean(np.log(likely)))
    ratio = np.divide(y, predicted, out=np.ones_like(y), where=y > 0.0)
    return float(np.mean(y * np.log(ratio) - y + predicted))  # half the deviance


def predictions(model: Any, X: Matrix) -> Vector:
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)[:, 1])
    return np.asarray(model.predict(X))


# --- the fits -------------------------------------------------------------------------------------


def tie_break(kind: str, prefer: str) -> Any:
    if kind == "logistic":
        return TieBreakClassifier(prefer, on_no_minimiser="error")
    return TieBreakRegressor(prefer, loss=kind, on_no_minimiser="error")


def ridge(kind: str, penalty: float, rows: int) -> Any:
    """Return a model with penalty/2 times the squared coefficients plus a sum of losses."""
    if kind == "logistic":
        return LogisticRegression(C=1.0 / penalty, max_iter=10_000)
    if kind == "poisson":
        return PoissonRegressor(alpha=penalty / rows, solver="newton-cholesky", max_iter=1000)
    return Ridge(penalty)


class Shrunk(NamedTuple):
    """A linear model."""

    coef: Vector
    intercept: float
    weight: float  # of the squared norm

    def predict(self, X: Matrix) -> Vector:
        return np.asarray(X @ self.coef + self.intercept)


def shrunk(A: Matrix, y: Vector, V: Matrix, w: Vector) -> Shrunk:
    """The best fit to the training rows with the least |V x - w|² + weight |x|².

    The best fits are x0 + z, x0 the one of least norm and z without an effect on the training rows.
    So this is a ridge regression for z: of what x0 leaves of w, with what the training rows do not
    see of the rows of V. TieBreakRegressor(LeastSquares(V, w) + SquaredNorm(weight)) is the same
    for any weight, as a test checks; only so many weights are tried faster here.
    """
    mean, offset = A.mean(axis=0), float(y.mean())
    A, V = A - mean, V - mean
    left, sizes, rows = np.linalg.svd(A, full_matrices=False)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    seen = rows[:rank]
    x0 = seen.T @ (left[:, :rank].T @ (y - offset) / sizes[:rank])
    unseen = V - (V @ seen.T) @ seen
    found = RidgeCV(PENALTIES, fit_intercept=False).fit(unseen, w - offset - V @ x0)
    coef = x0 + found.coef_
    return Shrunk(coef, offset - float(mean @ coef), float(found.alpha_))


@dataclass
class Outcome:
    """One split: test losses and seconds by fit, and what is known of the ties."""

    losses: dict[str, float]
    seconds: dict[str, float]
    training: dict[str, float]  # losses of the training rows
    ties: int | None
    proved: list[bool]  # of the fits by tiebreak
    moved: float  # the largest change of a test prediction from "norm" to "chosen", relative
    rows: tuple[int, int, int]
    columns: int


def run_split(case: Case, split: Split) -> Outcome:
    """All fits of one split."""
    kind, unit = case.loss, loss_of(case.loss, case.y, np.full(len(case.y), case.y.mean()))
    X = case.features(split.train)
    (A, y), (V, w), (T, z) = ((X[rows], case.y[rows]) for rows in split)
    B, u = np.vstack([A, V]), np.concatenate([y, w])
    models, seconds = {}, {}

    def timed(name: str, fit: Callable[[], Any]) -> None:
        began = time.perf_counter()
        models[name] = fit()
        seconds[name] = time.perf_counter() - began

    timed("norm", lambda: tie_break(kind, "norm").fit(A, y))
    timed("chosen", lambda: tie_break(kind, "validation").fit(A, y, X_val=V, y_val=w))
    if kind == "squared":
        timed("shrunk", lambda: shrunk(A, y, V, w))
    timed("both", lambda: tie_break(kind, "norm").fit(B, u))

    def best_ridge() -> Any:
        tried = [ridge(kind, penalty, len(y)).fit(A, y) for penalty in PENALTIES]
        return min(tried, key=lambda model: loss_of(kind, w, predictions(model, V)))

    timed("ridge", best_ridge)
    timed("ridge+", lambda: type(models["ridge"])(**models["ridge"].get_params()).fit(B, u))
    of_test = {name: predictions(model, T) for name, model in models.items()}
    moved = float(np.max(np.abs(of_test["chosen"] - of_test["norm"])) / np.std(case.y))
    of_training = {name: predictions(model, A) for name, model in models.items()}
    return Outcome(
        losses={name: loss_of(kind, z, found) / unit for name, found in of_test.items()},
        seconds=seconds,
        training={name: loss_of(kind, y, found) / unit for name, found in of_training.items()},
        ties=models["norm"].n_ties_,
        proved=[models[name].proved_ for name in PROVED if name in models],
        moved=moved,
        rows=(len(y), len(w), len(z)),
        columns=X.shape[1],
    )


# --- the figures ----------------------------------------------------------------------------------


@dataclass
class Summary:
    """All splits of a case."""

    case: Case
    outcomes: list[Outcome] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # splits that have no minimiser

    def losses(self, fit: str) -> Vector:
        return np.array([one.losses[fit] for one in self.outcomes if fit in one.losses])


def standard_error(values: Vector, shared: float = 0.0) -> float:
    """Of the mean; with the correction for rows that splits share, if wanted."""
    if len(values) < 2:
        return float("nan")
    return float(np.std(values, ddof=1) * np.sqrt(1.0 / len(values) + shared))


def verdict(first: Vector, second: Vector) -> str:
    """Of the first fit against the second, by the logarithms of their losses.

    A few splits in which an interpolating fit is far off would decide about the losses themselves.
    """
    if np.all(np.abs(first - second) <= SAME * np.mean(second)):
        return "the same"
    ratio = np.log(first / second)
    mean, error = float(np.mean(ratio)), standard_error(ratio, SHARED)
    if not abs(mean) > CLEAR * error:
        return "unclear"
    return "better" if mean < 0.0 else "worse"


def wins(difference: Vector, size: float) -> str:
    """How often the first is better, and out of how many; splits that are equal are left out."""
    differ = np.abs(difference) > SAME * size
    return f"{np.sum(difference[differ] < 0.0)}/{np.sum(differ)}"


def mean_and_error(values: Vector) -> str:
    if not len(values):
        return ""
    return f"{rounded(float(np.mean(values)), 3)} ± {rounded(standard_error(values), 2)}"


def rounded(value: float, digits: int) -> str:
    """So many digits, no exponent."""
    return np.format_float_positional(value, digits, unique=False, fractional=False, trim="-")


def against(summary: Summary, fit: str, other: str) -> str:
    """What a fit gains against another: difference, wins, verdict."""
    its, others = summary.losses(fit), summary.losses(other)
    if not len(its):
        return ""
    said, difference = verdict(its, others), its - others
    if said == "the same":
        return said
    return f"{mean_and_error(difference)}, {wins(difference, float(np.mean(others)))}, {said}"


PAIRS = (("chosen", "norm"), ("chosen", "both"), ("shrunk", "norm"))
HEAD = ["data", "rows", "columns", "ties", *FITS, *(" - ".join(pair) for pair in PAIRS)]


def row_of(summary: Summary) -> list[str]:
    first = summary.outcomes[0]
    ties = [outcome.ties for outcome in summary.outcomes if outcome.ties is not None]
    span = sorted({min(ties), max(ties)}) if ties else ["?"]
    return [
        summary.case.name,
        " + ".join(map(str, first.rows)),
        str(first.columns),
        " to ".join(map(str, span)),
        *(mean_and_error(summary.losses(fit)) for fit in FITS),
        *(against(summary, *pair) for pair in PAIRS),
    ]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def run_case(case: Case, splits: int) -> Summary:
    summary = Summary(case)
    for seed in range(splits):
        try:
            summary.outcomes.append(run_split(case, case.split(seed)))
        except NoMinimiserError as reason:
            summary.failed.append(f"{case.name}, seed {seed}: {reason}")
    return summary


def tally(summaries: Sequence[Summary], fit: str, other: str) -> str:
    """The verdicts on all data sets, and on how many the mean loss is lower."""
    pairs = [(one.losses(fit), one.losses(other)) for one in summaries if len(one.losses(fit))]
    said = [verdict(*pair) for pair in pairs]
    counts = ", ".join(f"{said.count(word)} {word}" for word in VERDICTS)
    differ = [pair for pair, word in zip(pairs, said, strict=True) if word != VERDICTS[-1]]
    lower = sum(bool(np.mean(its) < np.mean(others)) for its, others in differ)
    return f"{fit} against {other}: {counts}; a lower mean on {lower} of {len(differ)} that differ."


def checks(summaries: Sequence[Summary]) -> str:
    """What must hold, in a few sentences: it is printed below the tables."""
    outcomes = [outcome for summary in summaries for outcome in summary.outcomes]
    worse = max(outcome.training["chosen"] - outcome.training["norm"] for outcome in outcomes)
    proved = [is_proved for outcome in outcomes for is_proved in outcome.proved]
    times = {name: [o.seconds[name] for o in outcomes if name in o.seconds] for name in FITS}
    still = [s.case.name for s in summaries if max(o.moved for o in s.outcomes) <= SAME]
    lines = [tally(summaries, *pair) for pair in PAIRS]
    lines += [
        f"Training loss of chosen less that of norm, at most: {worse:.1e} (1 is a constant's).",
        "Mean seconds: " + ", ".join(f"{n} {np.mean(t):.2f}" for n, t in times.items() if t) + ".",
        f"Fits by tiebreak that are proved: {sum(proved)} of {len(proved)}.",
        f"No test prediction is changed by the choice: {', '.join(still) or 'nowhere'}.",
    ]
    lines += [f"Left out: {line}" for summary in summaries for line in summary.failed]
    return "\n".join(lines)


def save(path: Path, summaries: Sequence[Summary]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "split", "fit", "test_loss", "training_loss", "seconds", "ties"])
        for summary in summaries:
            for number, one in enumerate(summary.outcomes):
                for fit in one.losses:
                    numbers = (one.losses[fit], one.training[fit], one.seconds[fit])
                    writer.writerow([summary.case.name, number, fit, *numbers, one.ties])


# --- the picture: from as many features as training rows to ten times as many ---------------------

LINES = {  # style, marker, colour, words
    "norm": (":", "x", "0.35", "least norm"),
    "chosen": ("-", "o", "black", "chosen by validation rows"),
    "shrunk": ("-.", "^", "#1f3b6f", "the same, with a penalty on the norm"),
    "ridge": ("--", "s", "#b3372f", "ridge, its penalty by validation rows"),
}
RATIOS = (1.05, 1.25, 1.5, 1.75, 2.0, 2.5, 3.5, 5.0, 10.0)


def by_features(case: Case, splits: int) -> dict[float, Summary]:
    """The same splits with more and more random features."""
    found = {}
    for ratio in RATIOS:
        features = round(ratio * len(case.split(0).train))
        found[ratio] = run_case(replace(case, random_features=features), splits)
        print(" | ".join(row_of(found[ratio])), flush=True)
    return found


def plot(path: Path, splits: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    print(" | ".join(HEAD), flush=True)
    both = figure.subplots(1, 2)
    for axes, make in zip(both, (gain_data.diabetes, gain_data.cancer), strict=True):
        case = make()
        draw(axes, case.name, by_features(case, splits))
    both[0].set_ylabel("test loss (1: a constant)", fontsize=13)
    lines, words = axes.get_legend_handles_labels()
    figure.legend(lines, words, loc="outside lower center", ncols=2, frameon=False, fontsize=13)
    figure.savefig(path, dpi=90)


def draw(axes: Any, title: str, found: dict[float, Summary]) -> None:
    """Means over the splits."""
    for fit, (line, marker, colour, words) in LINES.items():
        means = [float(np.mean(one.losses(fit))) for one in found.values()]
        axes.plot(list(found), means, line, marker=marker, color=colour, label=words, lw=2.2, ms=8)
    axes.axhline(1.0, color="0.75", lw=1.0)
    axes.axvline(1.0 + SHARES[1] / SHARES[0], color="0.75", lw=1.0)
    axes.annotate(
        "the choice interpolates\nthe validation rows too →", (0.3, 0.86), fontsize=12,
        xycoords="axes fraction",
    )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_title(title, fontsize=14)
    axes.set_xticks([1, 1.75, 3, 5, 10], ["1", "1.75", "3", "5", "10"])
    axes.set_xticks([], minor=True)
    axes.tick_params(labelsize=12)
    axes.set_xlabel("random features per training row", fontsize=13)
    axes.spines[["top", "right"]].set_visible(False)


# --- the command ----------------------------------------------------------------------------------


def available(sources: dict[str, Callable[[], Case]], names: Sequence[str]) -> list[Case]:
    """Return the available data sets, and print what the others need."""
    found = []
    for name in sources:
        if name not in names:
            continue
        try:
            case = sources[name]()
        except Absent as reason:
            print(f"{name} is left out: it {reason}", flush=True)
            continue
        if case.loss == "poisson" and not hasattr(tb, "Poisson"):
            print(f"{name} is left out: it needs tiebreak.Poisson", flush=True)
            continue
        found.append(case)
    return found


def report(title: str, cases: Sequence[Case], splits: int) -> list[Summary]:
    summaries = []
    for case in cases:
        print(f"{case.name}: {case.what}", flush=True)
        summary = run_case(case, splits)
        if summary.outcomes:
            summaries.append(summary)
            print("  " + " | ".join(row_of(summary)), flush=True)
        else:
            print(f"  no split has a minimiser: {summary.failed[0]}", flush=True)
    if summaries:
        table = markdown(HEAD, [row_of(summary) for summary in summaries])
        print(f"\n### {title}\n\n{table}\n")
        print(f"{checks(summaries)}\n", flush=True)
    return summaries


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with more data sets")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these data sets")
    parser.add_argument("--splits", type=int, default=20, help="seeds 0, 1, ..., 20 of them")
    parser.add_argument("--plot", type=Path, metavar="PICTURE", help="draw the picture instead")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the numbers")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of data that are as they come
    if options.plot:
        plot(options.plot, options.splits)
        return 0
    kinds = {
        "More features than training rows": gain_data.interpolating(options.data),
        "Many more features: 3,000 random ones": gain_data.wide(options.data),
        "One-hot columns": gain_data.one_hot(options.data),
        "One-hot columns, and levels that are new": gain_data.new_levels(),
    }
    known = [name for sources in kinds.values() for name in sources]
    for name in options.only or []:
        if name not in known:
            parser.error(f"--only: {name!r} is unknown, not so {', '.join(known)}")
    summaries = []
    for title, sources in kinds.items():
        cases = available(sources, options.only or known)
        summaries += report(title, cases, options.splits)
    if summaries:
        save(options.out / "validation_gain.csv", summaries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
