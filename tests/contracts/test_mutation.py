"""The arrays are the user's: never written into, and new numbers in them are always noticed."""

from __future__ import annotations

import copy
import os
from typing import Any

import array_api_strict as xps
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import tiebreak as tb
from tiebreak.experiments.compare import compare
from tiebreak.linalg import arrays, checks, fingerprints

N, ROWS = 6, 9


def draw(seed: int) -> dict[str, np.ndarray]:
    """Data for all that takes arrays; what makes a problem takes what it needs."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((4, N))
    lower, upper = np.sort(rng.uniform(-2.0, 2.0, (2, N)), axis=0)
    return {
        "A": rng.standard_normal((4, N)),
        "b": rng.standard_normal(4),
        "C": rng.standard_normal((ROWS, N)),
        "d": rng.standard_normal(ROWS),
        "y": np.where(rng.uniform(size=ROWS) < 0.5, -1.0, 1.0),
        "Q": root.T @ root,
        "c": root.T @ rng.standard_normal(4),
        "center": rng.standard_normal(N),
        "lower": lower,
        "upper": upper,
        "normal": rng.standard_normal(N),
        "w": rng.random(ROWS),
        "labels": rng.permutation([0, 0, 1, 1, 2, 2]),
        "two": rng.standard_normal((ROWS, 2)),
        "classes": rng.permutation([0, 0, 0, 1, 1, 1, 2, 2, 2]),
    }


def low(a: dict[str, Any]) -> tb.LeastSquares:
    return tb.LeastSquares(a["A"], a["b"])


# what is made -> the arrays that it is made from, and how
MADE: dict[str, tuple[str, Any]] = {
    "LeastSquares": ("A b C d", lambda a: (tb.LeastSquares(a["C"], a["d"], mean=True), low(a))),
    "Logistic": ("A b C y", lambda a: (tb.Logistic(a["C"], a["y"]), low(a))),
    "weights": ("C d y w", lambda a: (
        tb.Logistic(a["C"], a["y"], weights=a["w"]),
        tb.LeastSquares(a["C"], a["d"], weights=a["w"]))),
    "Poisson below": ("C w", lambda a: (
        tb.SquaredNorm(), tb.Poisson(a["C"], a["w"]), tb.Ball(2.0))),
    "Logistic below": ("C y", lambda a: (
        tb.SquaredNorm(), tb.Logistic(a["C"], a["y"]), tb.Ball(2.0))),
    "Huber": ("A b C d", lambda a: (tb.Huber(a["C"], a["d"], 0.5), low(a))),
    "Huber below": ("A b", lambda a: (
        tb.SquaredNorm(), tb.Huber(a["A"], a["b"], 0.5), tb.Ball(2.0))),
    "Multinomial below": ("two classes", lambda a: (
        tb.SquaredNorm(), tb.Multinomial(a["two"], a["classes"]), tb.Ball(2.0))),
    "Quadratic": ("Q c", lambda a: (tb.SquaredNorm(), tb.Quadratic(a["Q"], a["c"]))),
    "SquaredNorm": ("A b center", lambda a: (tb.SquaredNorm(2.0, a["center"]), low(a))),
    "Linear": ("A b c", lambda a: (tb.Linear(a["c"]), low(a), tb.Ball(3.0))),
    "Scaled": ("A b center", lambda a: (0.5 * tb.SquaredNorm(1.0, a["center"]), 3.0 * low(a))),
    "Sum": ("A b C d center", lambda a: (
        tb.LeastSquares(a["C"], a["d"]) + tb.SquaredNorm(1.0, a["center"]), low(a))),
    "Composite": ("A b C d", lambda a: (tb.LeastSquares(a["C"], a["d"]) + tb.L1(0.1), low(a))),
    "GroupL2": ("A b C d labels", lambda a: (
        tb.LeastSquares(a["C"], a["d"]) + 0.5 * tb.GroupL2(a["labels"], 0.2), low(a))),
    "PenaltySum": ("A b C d labels", lambda a: (
        tb.LeastSquares(a["C"], a["d"]) + (tb.GroupL2(a["labels"], 0.2) + tb.L1(0.1)), low(a))),
    "Indicator": ("A b lower upper", lambda a: (
        tb.SquaredNorm() + tb.Indicator(tb.Box(a["lower"], a["upper"])), low(a))),
    "Ball": ("A b center", lambda a: (tb.SquaredNorm(), low(a), tb.Ball(1.5, a["center"]))),
    "Box": ("A b lower upper", lambda a: (
        tb.SquaredNorm(), low(a), tb.Box(a["lower"], a["upper"]))),
    "Halfspace": ("A b normal", lambda a: (
        tb.SquaredNorm(), low(a), tb.Halfspace(a["normal"], -1.0))),
    "Polyhedron": ("A b C w", lambda a: (tb.SquaredNorm(), low(a), tb.Polyhedron(a["C"], a["w"]))),
    "Intersection": ("A b C w normal", lambda a: (
        tb.SquaredNorm(), low(a), tb.Polyhedron(a["C"], a["w"]) & tb.Halfspace(a["normal"], 0.1))),
}  # fmt: skip
KINDS: dict[str, Any] = {
    "numpy": np.array,
    "fortran": lambda v: np.array(v, order="F"),
    "strided": lambda v: np.repeat(v, 2, axis=-1)[..., ::2],
    "big-endian": lambda v: v.astype(v.dtype.newbyteorder(">")),
    "sparse": lambda v: scipy.sparse.csr_array(v) if v.ndim == 2 else v.copy(),
    "strict": lambda v: xps.asarray(v),
    "list": lambda v: v.tolist(),
    "pandas": lambda v: pd.DataFrame(v) if v.ndim == 2 else pd.Series(v),
}
METHODS = ["auto", "adaptive", "exact", "certify"]


def problem(made: str, data: dict[str, Any]) -> tb.Problem:
    upper, lower, *domain = MADE[made][1](data)
    return tb.Problem(upper=upper, lower=lower, domain=domain[0] if domain else tb.Space())


def overwrite(value: Any, new: np.ndarray) -> None:
    """New numbers into the same object."""
    if scipy.sparse.issparse(value):
        value.data[:] = new[value.nonzero()]
    elif isinstance(value, list):
        value[:] = new.tolist()
    elif isinstance(value, pd.DataFrame | pd.Series):
        value.iloc[:] = new
    elif isinstance(value, np.ndarray):
        value[...] = new
    else:
        value[...] = xps.asarray(new)


def answer(p: tb.Problem, method: str) -> tuple[Any, ...]:
    """All that is said, to the bit; or the sentence of a method that refuses."""
    try:
        if method == "certify":
            proof = tb.certify(p, np.full(N, 0.25), max_iter=6)
            return proof.upper_optimum, proof.lower_optimum, proof.upper_value, proof.lower_value
        r = tb.solve(p, method, max_iter=60 if method == "auto" else 6)
    except ValueError as error:
        return (str(error),)
    x = arrays.to_numpy(r.x).tolist()
    return x, r.status, r.upper_value, r.lower_value, r.upper_optimum, r.lower_optimum


@pytest.fixture(params=["copied", "the user's own memory"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "copied":
        monkeypatch.setattr(checks, "DENSE_LIMIT", -1)


@pytest.mark.sample(15)
@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("made", MADE)
def test_new_numbers_in_an_array_are_answered_for(made, method):
    old, new = draw(0), draw(1)
    one = problem(made, old)
    before = {name: value.tobytes() for name, value in old.items()}
    first = answer(one, method)
    assert {name: value.tobytes() for name, value in old.items()} == before
    used = MADE[made][0].split()
    last = used[-2:] if used[-1] in ("upper", "c") else used[-1:]  # what must fit together
    for names in (last, used):
        for name in names:
            old[name][...] = new[name]
        now = answer(one, method)
        assert now == answer(problem(made, old), method), names
        assert now != first or len(now) == 1, names


@pytest.mark.sample(20)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", MADE)
def test_new_numbers_are_noticed_in_every_kind_of_array(made, kind):
    old, new = draw(0), draw(1)
    used = MADE[made][0].split()
    data = {name: KINDS[kind](old[name]) for name in used}
    one = problem(made, data)
    method = "adaptive" if one.domain.has_projection else "exact"
    first = answer(one, method)
    for name in used:
        overwrite(data[name], new[name])
    fresh = problem(made, {name: KINDS[kind](new[name]) for name in used})
    assert answer(one, method) == answer(fresh, method) != first


def test_nothing_is_made_anew_where_nothing_has_changed():
    data = draw(0)
    one = problem("LeastSquares", data)
    assert one.current() is one
    data["b"][0] += 1.0
    two = one.current()
    assert two is not one
    assert two.upper is one.upper  # whose arrays are the same, and so is what is known of it
    assert one.current() is two
    data["b"][0] -= 1.0
    assert one.current() is not two


def test_new_numbers_that_are_wrong_get_their_sentence():
    data = draw(0)
    one = problem("Logistic", data)
    data["y"][2] = 3.0
    for call in (tb.solve, compare, lambda p: tb.certify(p, np.zeros(N))):
        with pytest.raises(ValueError, match=r"^Logistic: y must hold labels -1 and "):
            call(one)
    data = draw(0)
    one = problem("Quadratic", data)
    data["Q"][0, 0] = np.nan
    with pytest.raises(ValueError, match=r"^Quadratic: Q must be finite"):
        tb.solve(one)


def test_compare_looks_too():
    data = draw(0)
    one = problem("SquaredNorm", data)
    compare(one, ["adaptive"], max_iter=3)
    data["b"][:] = draw(1)["b"]
    found = compare(one, ["adaptive"], max_iter=3).answer
    assert found[:2] == compare(problem("SquaredNorm", data), ["adaptive"], max_iter=3).answer[:2]


def test_tradeoff_looks_too():
    costs = np.array([1.0, 2.0])
    levels = tb.Levels(tb.Linear(costs), tb.SquaredNorm(center=[0.0, 1.0]), domain=tb.Simplex())
    assert tb.tradeoff(levels, [0.0]).points[0].value == pytest.approx(1.0)  # at (1, 0)
    costs[:] = [2.0, 1.0]
    assert tb.tradeoff(levels, [0.0]).points[0].value == pytest.approx(0.0, abs=1e-9)  # at (0, 1)


@pytest.mark.sample(9)
@pytest.mark.parametrize("made", MADE)
def test_copies_look_at_their_own_arrays(made):
    data = draw(0)
    one = problem(made, data)
    first, deep = answer(one, "adaptive"), copy.deepcopy(one)
    flat = tb.Problem(upper=copy.copy(one.upper), lower=copy.copy(one.lower), domain=one.domain)
    assert answer(flat, "adaptive") == first
    for name in MADE[made][0].split():
        data[name][...] = draw(1)[name]
    assert answer(deep, "adaptive") == first
    assert answer(one, "adaptive") == answer(problem(made, data), "adaptive")


def test_a_subclass_with_a_constructor_of_its_own_says_that_it_cannot_be_made_anew():
    class Ridge(tb.LeastSquares):
        def __init__(self, table: np.ndarray) -> None:
            super().__init__(table[:, :-1], table[:, -1])

    table = np.random.default_rng(0).standard_normal((3, 5))
    one = tb.Problem(upper=tb.SquaredNorm(), lower=Ridge(table))
    tb.solve(one)
    table[0, 0] = 5.0
    with pytest.raises(
        ValueError, match=r"^Ridge: A must hold the same numbers as when it was made"
    ):
        tb.solve(one)


# -- fingerprints ---------------------------------------------------------------------------------

CHANGES = {
    "one entry, by a unit": lambda v: v.flat.__setitem__(7, np.nextafter(v.flat[7], 9.0)),
    "two signs": lambda v: v.flat.__setitem__([3, 9], -v.flat[[3, 9]]),
    "all signs": lambda v: np.negative(v, out=v),
    "twice as much": lambda v: np.multiply(v, 2.0, out=v),
    "two entries change places": lambda v: v.flat.__setitem__([3, 9], v.flat[[9, 3]]),
    "two rows change places": lambda v: v.__setitem__([0, 1], v[[1, 0]]),
    "backwards": lambda v: v.__setitem__(slice(None), v[::-1].copy()),
    "the last entry": lambda v: v.flat.__setitem__(v.size - 1, 0.0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["numpy", "fortran", "strided", "big-endian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_change_changes_the_fingerprint(change, kind, dtype, monkeypatch):
    monkeypatch.setattr(fingerprints, "PIECE", 1 << 8)
    monkeypatch.setattr(fingerprints, "DEVICE_PIECE", 1 << 6)
    value = KINDS[kind](np.random.default_rng(0).standard_normal((50, 7)).astype(dtype))
    before, words = (
        fingerprints.fingerprint(value),
        fingerprints._sums(np.ravel(value).view(np.int32)),
    )
    assert fingerprints.fingerprint(value) == before
    CHANGES[change](value)
    assert fingerprints.fingerprint(value) != before
    assert fingerprints._sums(np.ravel(value).view(np.int32)) != words


def test_threads_change_no_fingerprint(monkeypatch):
    monkeypatch.setattr(fingerprints, "PIECE", 1 << 8)
    value = np.random.default_rng(0).standard_normal((50, 7))
    monkeypatch.setattr(fingerprints.threads, "allowed", lambda: 1)
    alone = fingerprints.fingerprint(value)
    monkeypatch.setattr(fingerprints.threads, "allowed", lambda: 2)
    assert fingerprints.fingerprint(value) == fingerprints.fingerprint(value.copy())
    value[40, 3] += 1.0
    assert fingerprints.fingerprint(value) != alone


# -- rows that are streamed -----------------------------------------------------------------------


def streamed(A: Any, b: np.ndarray) -> tb.Problem:
    return tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, b))


def newer(path: Any) -> None:
    """As if some time had gone by since the file was written before."""
    os.utime(path, ns=(0, os.stat(path).st_mtime_ns + 10**9))


@pytest.mark.parametrize("how", ["file", "memmap", "written memmap", "zarr folder", "zarr array"])
def test_rows_that_were_written_anew_are_read_anew(how, tmp_path):
    import zarr

    old, new = draw(0), draw(1)
    path = tmp_path / ("a.zarr" if how == "zarr folder" else "a.npy")
    store: Any = None
    if how == "zarr folder":
        store = zarr.create_array(path, data=old["A"])
        source: Any = tb.Streamed(path)
    elif how == "zarr array":
        store = source = zarr.create_array({}, data=old["A"])
    else:
        np.save(path, old["A"])
        source = tb.Streamed(path) if how == "file" else np.load(path, mmap_mode="r")
        if how == "written memmap":
            store = source = np.load(path, mmap_mode="r+")
    one = streamed(source, old["b"])
    first = answer(one, "adaptive")
    assert one.current() is one
    if store is None:
        np.save(path, new["A"])
        newer(path)
    else:
        store[:] = new["A"]
    now = answer(one, "adaptive")
    np.save(tmp_path / "fresh.npy", new["A"])
    assert now == answer(streamed(tb.Streamed(tmp_path / "fresh.npy"), old["b"]), "adaptive")
    assert now != first


def test_a_target_that_was_taken_from_an_older_file_is_refused(tmp_path):
    frame = pd.DataFrame(draw(0)["C"]).rename(columns=str).assign(price=draw(0)["d"])
    path = tmp_path / "a.parquet"
    frame.to_parquet(path)
    A = tb.Streamed(path, target="price")
    one = streamed(A, A.target)
    tb.solve(one, "adaptive", max_iter=3)
    (frame * 2.0).to_parquet(path)
    newer(path)
    with pytest.raises(ValueError, match=r"^Streamed: source must hold the same rows .* again$"):
        tb.solve(one, "adaptive", max_iter=3)
