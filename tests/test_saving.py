"""Problems and results come back from their files as they were, and nothing else with them."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import tiebreak as tb
from tiebreak.functions.base import Function
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.linalg.archive import FORMAT
from tiebreak.linalg.registry import IN_TABLES, KEYWORDS, KINDS
from tiebreak.saving import FIELDS
from tiebreak.sets.base import Set

RNG = np.random.default_rng(17)
M, N = 6, 9
A, B = RNG.standard_normal((M, N)), RNG.standard_normal(M)
C, SIGNS = RNG.standard_normal(N), np.sign(B)
Q = A.T @ A
SPARSE = sp.random_array((M, N), density=0.4, rng=RNG, format="csr")
COLUMNS = [f"column {i}" for i in range(N)]
FRAME = pd.DataFrame(A, columns=COLUMNS, index=[f"row {i}" for i in range(M)])
DATES = pd.date_range("2024-02-29", periods=M)

FUNCTIONS: dict[str, Any] = {
    "LeastSquares": tb.LeastSquares(A, B),
    "LeastSquares, all arguments": tb.LeastSquares(A, B, True, gram=False, lipschitz=1e3),
    "LeastSquares, single": tb.LeastSquares(A.astype(np.float32), B.astype(np.float32)),
    "LeastSquares, single A": tb.LeastSquares(A.astype(np.float32), B),
    "LeastSquares, columns in order": tb.LeastSquares(np.asfortranarray(A), B),
    "LeastSquares, other bytes": tb.LeastSquares(A.astype(">f8"), B),
    "LeastSquares, whole numbers": tb.LeastSquares(np.arange(M * N).reshape(M, N) % 7, range(M)),
    "LeastSquares, lists": tb.LeastSquares(A.tolist(), tuple(B)),
    "LeastSquares, no rows": tb.LeastSquares(np.empty((0, N)), np.empty(0)),
    "Logistic": tb.Logistic(A, SIGNS, mean=False),
    "Quadratic": tb.Quadratic(Q, C, 0.1, lipschitz=100.0),
    "Quadratic, table": tb.Quadratic(
        pd.DataFrame(Q, COLUMNS, COLUMNS), pd.Series(C, index=COLUMNS)
    ),
    "Linear": tb.Linear(C) + tb.SquaredNorm(),  # alone it has no minimum
    "SquaredNorm": tb.SquaredNorm(np.float32(0.1), C),
    "a table": tb.LeastSquares(FRAME, pd.Series(B, index=FRAME.index)),
    "a table with dates": tb.LeastSquares(FRAME.set_index(DATES), pd.Series(B, index=DATES)),
    "a table in single": tb.LeastSquares(FRAME.astype(np.float32), B.astype(np.float32)),
    "a table with whole columns": tb.LeastSquares(FRAME.assign(more=range(M)).iloc[:, 1:], B),
    "multiples and sums": 2 * tb.LeastSquares(A, B) + 0.5 * (tb.Linear(C) + tb.SquaredNorm()),
    "a composite": 3 * (tb.LeastSquares(A, B) + tb.L1(0.1)) + tb.Indicator(tb.Box(-1, 1)),
    **{
        f"sparse {kind}": tb.LeastSquares(getattr(sp, kind)(SPARSE), B)
        for kind in (
            *("csr_array", "csr_matrix", "csc_array", "coo_array", "coo_matrix", "bsr_array"),
            *("dia_array", "lil_array", "dok_array"),
        )
    },
    "sparse, single": tb.LeastSquares(SPARSE.astype(np.float32), B.astype(np.float32)),
    "sparse, twice the same entry": tb.LeastSquares(
        sp.coo_array(([0.1, 0.2, 0.3], ([0, 0, 5], [8, 8, 0])), shape=(M, N)), B
    ),
}
PENALTIES: dict[str, Any] = {
    "Zero": tb.Zero(),
    "L1": tb.L1(0.1),
    "L2": tb.L2(0.1),
    "L2, center": tb.L2(pd.Series(np.arange(N) % 2, index=COLUMNS), C),
    "ElasticNet": tb.ElasticNet(0.1, 0.2),
    "GroupL2": tb.GroupL2([0, 0, 1, 1, -1, 2, 2, 2, 2], 0.3),
    "GroupL2, lists": tb.GroupL2([[0, 4], range(1, 3), (5,)]),
    "GroupL2, a vector": tb.GroupL2(np.arange(N) // 3),
    "GroupL2, a series": tb.GroupL2(pd.Series(np.arange(N) // 3, index=COLUMNS)),
    "Indicator": tb.Indicator(tb.Simplex(2.0)),
    "a sum": 2 * (tb.L1(0.1) + tb.Indicator(tb.Box(-1.0, np.full(N, np.inf)))),
}
DOMAINS: dict[str, Any] = {
    "Space": tb.Space(),
    "Ball": tb.Ball(2.0),
    "Ball, center": tb.Ball(2.0, C.astype(np.float32)),
    "Box": tb.Box(-np.inf, 1),
    "Box, vectors": tb.Box(pd.Series(-np.ones(N), index=COLUMNS), [1.0] * N),
    "Orthant": tb.Orthant(),
    "Simplex": tb.Simplex(3.0),
    "L1Ball": tb.L1Ball(3.0),
    "Monotone": tb.Monotone(),
    "Halfspace": tb.Halfspace(C, 0.1),
    "Polyhedron": tb.Polyhedron(SPARSE, B, A[:2], B[:2]),
    "Polyhedron, a table": tb.Polyhedron(FRAME, pd.Series(B, index=FRAME.index)),
    "SecondOrderCone": tb.SecondOrderCone(A, B, C, 9.0),
    "Intersection": tb.Ball(2.0, C) & tb.Polyhedron(A, B) & tb.SecondOrderCone(A, d=1.0),
}
PROBLEMS: dict[str, tb.Problem] = {
    **{name: tb.Problem(upper=tb.SquaredNorm(), lower=h) for name, h in FUNCTIONS.items()},
    **{
        f"penalty {name}": tb.Problem(upper=h, lower=tb.LeastSquares(A, B))
        for name, h in PENALTIES.items()
    },
    **{
        f"domain {name}": tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(A, B), domain=h)
        for name, h in DOMAINS.items()
    },
    "promises": tb.Problem(
        upper=tb.SquaredNorm(),
        lower=tb.LeastSquares(A, B),
        radius=np.float64(7.0),
        error_bound=tb.ErrorBound(2, 0.1, 3.0),
    ),
}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved.npz"


def as_saved(report):
    """The report of a result that was loaded: nobody has checked its words again."""
    return report.replace(" after ", " (as saved) after ", 1)


def round_trip(what: Any, path: Path, **how: Any) -> Any:
    what.save(path, **how)
    return tb.load(path)


def content(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: (a.dtype.str, a.shape, a.flags.fnc, a.tobytes()) for name, a in file.items()}


# -- problems -------------------------------------------------------------------------------------


@every_problem
def test_a_problem_comes_back_to_the_last_bit(name, path):
    problem = PROBLEMS[name]
    loaded = round_trip(problem, path)
    first = content(path)
    for level in ("upper", "lower"):
        then, now = getattr(problem, level), getattr(loaded, level)
        assert repr(now) == repr(then)
        for scale in (0.0, 1.0, 1e-3):
            x = scale * np.cos(np.arange(N))
            if then.prototype is not None:
                assert now.prototype.dtype == then.prototype.dtype
                x = x.astype(then.prototype.dtype)
            assert now.value(x) == then.value(x)
            assert now.gradient(x).tobytes() == then.gradient(x).tobytes()
    assert type(loaded.domain) is type(problem.domain)
    x = np.sin(np.arange(N)) * 5
    assert loaded.domain.excess(x) == problem.domain.excess(x)
    assert loaded.domain.projected(x).tobytes() == problem.domain.projected(x).tobytes()
    assert loaded.names == problem.names
    assert (loaded.radius, loaded.error_bound) == (problem.radius, problem.error_bound)
    loaded.save(path)
    assert content(path) == first  # and nothing was lost that these do not show


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["LeastSquares", "sparse csr_array", "a composite", "promises"])
def test_a_loaded_problem_has_the_same_answer(name, path):
    problem = PROBLEMS[name]
    then, now = tb.solve(problem), tb.solve(round_trip(problem, path))
    assert now.x.tobytes() == then.x.tobytes()
    assert now.certificate == then.certificate


def test_the_formats_of_sparse_matrices_and_the_order_of_dense_ones_are_kept(path):
    for kind in ("csr_array", "csr_matrix", "csc_array", "coo_matrix", "bsr_array"):
        loaded = round_trip(PROBLEMS.get(f"sparse {kind}") or problem_of(kind), path)
        assert type(loaded.lower._inputs.arguments["A"]).__name__ == kind
    loaded = round_trip(PROBLEMS["LeastSquares, columns in order"], path)
    assert loaded.lower._inputs.arguments["A"].flags.f_contiguous


def problem_of(kind: str) -> tb.Problem:
    lower = tb.LeastSquares(getattr(sp, kind)(SPARSE), B)
    return tb.Problem(upper=tb.SquaredNorm(), lower=lower)


def test_numpy_reads_the_arrays_by_their_names_and_one_of_both_levels_is_there_once(path):
    problem = tb.Problem(upper=tb.LeastSquares(A, B + 1), lower=2 * tb.LeastSquares(A, B))
    loaded = round_trip(problem, path)
    with np.load(path) as file:
        assert set(file) == {"tiebreak", "upper.A", "upper.b", "lower.function.b"}
        assert np.array_equal(file["upper.A"], A)
    ours = loaded.lower.function._inputs.arguments["A"]
    assert ours is loaded.upper._inputs.arguments["A"]


def test_new_numbers_in_an_array_are_those_that_are_saved(path):
    mine = A.copy()
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(mine, B))
    mine[0] += 1.0
    assert np.array_equal(round_trip(problem, path).lower.matrix.dense(), mine)
    mine[0, 0] = np.nan
    with pytest.raises(ValueError, match="LeastSquares: A must be finite"):
        problem.save(path)


def test_arrays_of_another_library_come_back_as_numpys(path):
    xp = pytest.importorskip("array_api_strict")
    lower = tb.LeastSquares(xp.asarray(A), xp.asarray(B))
    loaded = round_trip(tb.Problem(upper=tb.SquaredNorm(), lower=lower), path)
    assert type(loaded.lower.prototype) is np.ndarray
    assert np.array_equal(loaded.lower.matrix.dense(), A)


def test_a_table_without_pandas_is_an_import_error_with_the_install_line(path, monkeypatch):
    PROBLEMS["a table"].save(path)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"load: a pandas table needs pandas: pip install"):
        tb.load(path)


def test_no_two_classes_share_a_name_in_files():
    assert {KINDS[name]: name for name in KINDS} == KEYWORDS
    with pytest.raises(
        ValueError, match=r"^Ball: keyword must be unique, got 'Ball', the keyword of "
    ):

        class Ball(tb.sets.Set, keyword="Ball"):
            """Another one."""


def test_every_public_function_penalty_and_set_is_saved_or_refused():
    public = [getattr(tb, name) for name in tb.__all__]
    classes = {kind for kind in public if isinstance(kind, type)}
    ours = {kind for kind in classes if issubclass(kind, Function | Penalty)}
    ours |= {kind for kind in classes if issubclass(kind, Set)}
    assert len(ours) >= 20
    assert ours - {tb.Smooth} <= set(KEYWORDS)


OUTSIDE = """
import dataclasses

import tiebreak as tb
from tiebreak.linalg.fingerprints import remember


class Shifted(tb.functions.SmoothFunction, keyword="Shifted"):
    lipschitz = strong_convexity = 1.0

    def __init__(self, by):
        remember(self, Shifted, by=by)
        self.by, self.dimension = by, len(by)

    def value(self, x):
        return 0.5 * float((x - self.by) @ (x - self.by))

    def gradient(self, x):
        return x - self.by

    def rounding(self, reach, value, slope, epsilon, n):
        return 100.0 * epsilon * (reach + 10.0) ** 2, 100.0 * epsilon * (reach + 10.0)


@dataclasses.dataclass(frozen=True, eq=False)
class Here(tb.sets.Set, keyword="Here"):
    radius: float

    def project(self, x):
        return tb.Ball(self.radius).project(x)

    def project_cut(self, x, normal, offset, guess=None):
        return tb.Ball(self.radius).project_cut(x, normal, offset)

    def support(self, slope):
        return tb.Ball(self.radius).support(slope)

    def argmin(self, slope):
        return tb.Ball(self.radius).argmin(slope)
"""


def test_a_class_from_outside_is_saved_by_its_keyword_and_loaded_once_it_is_imported(
    path, monkeypatch
):
    def forget() -> None:
        sys.modules.pop("outside", None)
        for name in ("Shifted", "Here"):
            kind = KINDS.pop(name, None)
            KEYWORDS.pop(kind, None)
            IN_TABLES.discard(kind)

    (path.parent / "outside.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(path.parent)
    try:
        ours = importlib.import_module("outside")
        upper, domain = ours.Shifted(C), ours.Here(2.0)
        problem = tb.Problem(upper=upper, lower=tb.LeastSquares(A, B), domain=domain)
        result = tb.solve(problem, "adaptive", rtol=1e-3)
        result.save(path, problem=True)
        forget()
        sys.modules["outside"] = ours
        assert "holds the unknown class 'Shifted': import the module" in refused(path)
        importlib.reload(ours)  # another class by now, as in another process
        loaded = tb.load(path)
        assert type(loaded.problem.upper) is ours.Shifted
        assert loaded.problem.domain.radius == 2.0
        again = tb.solve(loaded.problem, "adaptive", rtol=1e-3)
        assert again.x.tobytes() == result.x.tobytes() == loaded.x.tobytes()
    finally:
        forget()


class Mine(tb.LeastSquares):
    """A class of a user's own."""


def unsaved(tmp_path: Path) -> dict[str, tuple[Any, str]]:
    np.save(tmp_path / "rows.npy", A)
    smooth = tb.Smooth(lambda x: x @ x, lambda x: 2 * x, lipschitz=2.0)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    dates = pd.date_range("2024-02-29", periods=N)
    return {
        "callables": (smooth, "lower .* Smooth"),
        "a part": (
            tb.Linear(C) + (2 * smooth + tb.L1()),
            r"lower\.smooth\.first\.function .* Smooth",
        ),
        "operator": (tb.LeastSquares(aslinearoperator(A), B), r"lower\.A .* LinearOperator"),
        "stream": (tb.LeastSquares(tb.Streamed(tmp_path / "rows.npy"), B), r"lower\.A .* Streamed"),
        "memmap": (tb.LeastSquares(mapped, B), r"lower\.A .* Streamed"),
        "subclass": (Mine(A, B), "lower .* Mine"),
        "names": (tb.LeastSquares(FRAME.set_axis(dates, axis=1), B), "names of its variables"),
    }


@pytest.mark.parametrize(
    "name", ["callables", "a part", "operator", "stream", "memmap", "subclass", "names"]
)
def test_what_cannot_be_saved_is_named_before_anything_is_written(name, tmp_path):
    lower, said = unsaved(tmp_path)[name]
    problem, path = tb.Problem(upper=tb.SquaredNorm(), lower=lower), tmp_path / "saved.npz"
    path.write_bytes(b"old")
    said = said.replace(" .* ", r" .*")
    with pytest.raises(TypeError, match=f"^Problem.save: .*{said}") as refused:
        problem.save(path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["rows.npy", "saved.npz"]


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ("problem.pkl", ValueError, "Problem.save: path must be a .npz file, got 'problem.pkl'"),
        ("no/such/p.npz", ValueError, "Problem.save: path must be in a folder that exists"),
        (3, TypeError, "Problem.save: path must be a file name, got int"),
    ],
)
def test_a_wrong_path_is_named(target, error, said):
    with pytest.raises(error, match=said):
        PROBLEMS["Linear"].save(target)


def test_a_sum_of_too_many_functions_is_refused_in_a_sentence(path):
    total = tb.LeastSquares(A, B)
    for _ in range(360):
        total = total + tb.Linear(C)
    problem = tb.Problem(upper=tb.SquaredNorm(), lower=total, domain=tb.Ball(1.0))
    with pytest.raises(ValueError, match=r"Problem\.save: the problem must not be a sum"):
        problem.save(path)
    assert not path.exists()


def test_an_interrupted_save_leaves_the_old_file(path, monkeypatch):
    PROBLEMS["LeastSquares"].save(path)
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        PROBLEMS["Logistic"].save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


# -- results --------------------------------------------------------------------------------------


def results() -> dict[str, tb.Result]:
    smooth = tb.Smooth(lambda x: float(x @ x), lambda x: 2 * x, lipschitz=2.0)
    squares = tb.LeastSquares(A, B)
    separable = tb.Logistic(A, np.sign(A @ C))
    ball = tb.Ball(5.0)
    single = PROBLEMS["LeastSquares, single"]
    return {
        "exact": tb.solve(PROBLEMS["LeastSquares"]),
        "by Bregman iteration": tb.solve(
            tb.Problem(upper=tb.SquaredNorm() + tb.L1(0.1), lower=squares)
        ),
        "groups": tb.solve(
            tb.Problem(upper=tb.SquaredNorm() + tb.GroupL2(np.arange(N) // 3), lower=squares)
        ),
        "callables": tb.solve(tb.Problem(upper=smooth, lower=squares, domain=ball)),
        "promises": tb.solve(PROBLEMS["promises"], "adaptive", max_iter=50),
        "unbounded": tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=separable)),
        "bisection": tb.solve(
            tb.Problem(upper=tb.SquaredNorm(), lower=squares, domain=ball), "bisec-bio", max_iter=9
        ),
        "single": tb.solve(single, "adaptive", max_iter=20),
        "no time": tb.solve(PROBLEMS["LeastSquares"], max_time=1e-9),
        "no step": tb.solve(PROBLEMS["domain Ball"], "agm-bio", max_iter=0),
    }


RESULTS = results()
every_result = pytest.mark.parametrize("name", RESULTS)


def same(a: Any, b: Any) -> bool:
    """To the last bit, NaN too; arrays by their bytes and types."""
    if isinstance(a, np.ndarray):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


@pytest.mark.parametrize("problem", [False, True])
@every_result
def test_a_result_comes_back_to_the_last_bit_with_its_report(name, problem, path):
    result = RESULTS[name]
    if name == "callables" and problem:
        with pytest.raises(TypeError, match=r"^Result.save: problem\.upper .* got Smooth"):
            result.save(path, problem=True)
        assert not path.exists()
        return
    loaded = round_trip(result, path, problem=problem)
    assert type(loaded) is tb.Result
    assert str(loaded) == as_saved(str(result))
    assert repr(loaded) == repr(result)
    assert loaded.details() == as_saved(result.details())
    assert json.dumps(loaded.to_dict()) == json.dumps(result.to_dict())
    assert loaded.dimension == result.dimension
    for field in FIELDS:
        if field != "certificate":
            assert same(getattr(loaded, field), getattr(result, field)), field
    assert vars(loaded.certificate).keys() == vars(result.certificate).keys()
    assert all(
        same(value, vars(result.certificate)[key])
        for key, value in vars(loaded.certificate).items()
    )
    assert same(list(loaded.trace), list(result.trace))
    if problem:
        assert isinstance(loaded.problem, tb.Problem)


def test_a_result_without_its_problem_is_small_and_says_so_where_it_is_asked(path):
    wide = np.random.default_rng(0).standard_normal((40, 2000))
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(wide, wide[:, 0])))
    loaded = round_trip(result, path)
    assert path.stat().st_size < 10 * wide[0].nbytes
    with pytest.raises(AttributeError, match=r"Result: problem was not saved .* problem=True"):
        _ = loaded.problem
    with pytest.raises(AttributeError, match="problem was not saved"):
        loaded.save(path, problem=True)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = loaded.nonsense
    again = round_trip(loaded, path)  # which has no problem either
    assert again.details() == as_saved(result.details())


def test_a_loaded_result_is_a_warm_start(path):
    problem = tb.Problem(upper=tb.SquaredNorm() + tb.L1(0.1), lower=tb.LeastSquares(A, B))
    cold = tb.solve(problem)
    loaded = round_trip(cold, path)
    warm = tb.solve(problem, x0=loaded)
    like_it = tb.Problem(upper=tb.SquaredNorm() + tb.L1(0.1), lower=tb.LeastSquares(A, B))
    assert warm.nit < cold.nit
    assert warm.nit == tb.solve(like_it, x0=cold).nit
    both = round_trip(cold, path, problem=True)
    proved = tb.solve(both.problem, x0=both)
    assert proved.nit == tb.solve(problem, x0=cold).nit <= warm.nit
    assert proved.status == "certified"


def test_a_result_is_never_saved_with_other_numbers_than_it_was_solved_with(path):
    mine = A.copy()
    result = tb.solve(tb.Problem(upper=tb.SquaredNorm(), lower=tb.LeastSquares(mine, B)))
    mine[0] += 1.0
    with pytest.raises(ValueError, match=r"Result.save: problem must hold the numbers"):
        result.save(path, problem=True)
    assert np.array_equal(round_trip(result, path).x, result.x)


def test_the_findings_of_a_method_from_elsewhere_come_back_as_its_words(path):
    class Found:
        dimension = 3

        def lines(self):
            return [("luck", "7 of 9")]

    own = tb.solve(PROBLEMS["LeastSquares"])
    vars(own).update(findings=Found())
    loaded = round_trip(own, path)
    assert loaded.details() == as_saved(own.details())
    assert "luck       7 of 9" in loaded.details()
    assert loaded.findings.dimension == 3


# -- files that are none --------------------------------------------------------------------------


def write(path: Path, header: Any, **more: Any) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    np.savez(path, tiebreak=np.frombuffer(text, dtype=np.uint8), **more)


def header_of(path: Path) -> tuple[Any, dict[str, Any]]:
    with np.load(path) as file:
        entries = dict(file.items())
    return json.loads(entries.pop("tiebreak").tobytes()), entries


def refused(path: Path) -> str:
    with pytest.raises(ValueError, match=r"^load: ") as error:
        tb.load(path)
    said = str(error.value)
    assert type(error.value) is ValueError
    assert "\n" not in said
    assert str(path) in said
    return said


def saved(content: Any, version: Any = FORMAT, kind: Any = "Problem") -> dict[str, Any]:
    return {"format": version, "kind": kind, "content": content}


def made(name: str, **arguments: Any) -> dict[str, Any]:
    return {"class": name, "arguments": arguments}


def problem_code(lower: Any) -> dict[str, Any]:
    return saved(made("Problem", upper=made("SquaredNorm"), lower=lower))


DEEP = b'{"format": 1, "kind": "Problem", "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
HEADERS: dict[str, tuple[Any, str]] = {
    "no JSON": (b"\xff{", "is damaged, or was not saved by tiebreak"),
    "a list": ([], "is damaged, or was not saved by tiebreak"),
    "nothing": ({}, "is damaged, or was not saved by tiebreak"),
    "too deep": (DEEP, "is damaged, or was not saved by tiebreak"),
    "newer": (
        saved({}, 99),
        "has format 99, but this version reads format 2; it was written by a newer version",
    ),
    "no version": (saved({}, "x"), "has format 'x', but this version reads format 2"),
    "kind": (
        saved({}, kind="Estimator"),
        "holds 'Estimator'; known kinds are 'Problem', 'Result', 'Levels', 'LevelsResult'",
    ),
    "a number": (saved(3), "holds no problem where there should be one"),
    "no problem": (saved(made("Space")), "holds no problem where there should be one"),
    "unknown class": (problem_code(made("Poissson", A=1)), "holds the unknown class 'Poissson'"),
    "a class of Python": (problem_code(made("os.system", command="x")), "class 'os.system'"),
    "no class": (problem_code({"class": ["Linear"], "arguments": {}}), "unknown class"),
    "a stream": (problem_code(made("Streamed", source="/etc/passwd")), "class 'Streamed'"),
    "unknown tag": (problem_code({"pickle": "abc"}), "holds something unknown ('pickle')"),
    "wrong arguments": (problem_code(made("Linear", d=[1.0])), "holds arguments that are rejected"),
    "wrong numbers": (
        problem_code(made("LeastSquares", A=[[1.0]], b=[1.0, 2.0])),
        "LeastSquares: b must have one entry per row of A (1), got 2",
    ),
    "a file name": (problem_code(made("Linear", c="/etc/passwd")), "Linear: c must be an array"),
    "huge groups": (problem_code(made("GroupL2", groups=[[10**15]])), "fits in memory"),
    "no array": (problem_code(made("Linear", c={"array": "c"})), "is damaged"),
    "no name": (problem_code(made("Linear", c={"array": ["c"]})), "is damaged"),
    "half a composite": (  # whose gradient would not be that of its value
        problem_code(
            made(
                "Scaled",
                weight=2.0,
                function=made("Composite", smooth=made("SquaredNorm"), penalty=made("L1")),
            )
        ),
        "holds a Scaled whose function has the wrong kind, Composite",
    ),
    "no function": (
        problem_code(made("Sum", first=made("SquaredNorm"), second=made("L1"))),
        "holds a Sum whose second has the wrong kind, L1",
    ),
    "a record": (saved(made("Bound", value="x", multiplier=1, level=1)), "wrong kind, str"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_lies_gets_a_sentence(name, path):
    header, said = HEADERS[name]
    write(path, header)
    assert said in refused(path)


def npy(shape: tuple[int, ...], descr: str, data: bytes) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return file.getvalue() + data


ENTRIES: dict[str, tuple[bytes, str]] = {
    "larger than the file": (
        npy((10**12,), "<f8", b"12345678"),
        "a size that differs from its header",
    ),
    "larger than memory": (npy((2**40, 2**40), "<f8", b""), "a size that differs from its header"),
    "negative": (npy((-1,), "<f8", b""), "a size that differs from its header"),
    "shorter": (npy((1,), "<f8", b"1234567812345678"), "a size that differs from its header"),
    "text": (npy((1,), "<U2", b"12345678"), "numbers are needed, and nothing is unpickled"),
    "complex": (npy((1,), "<c8", b"12345678"), "numbers are needed, and nothing is unpickled"),
    "no header": (b"12345678", "is damaged"),
    "empty": (b"", "is damaged"),
    "a forged type": (npy((1,), "<f8", b"12345678").replace(b"<f8", b"|O8"), "nothing is unpickle"),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_array_that_lies_gets_a_sentence(name, path):
    data, said = ENTRIES[name]
    write(path, problem_code(made("Linear", c={"array": "c"})))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("c.npy", data)
    assert said in refused(path)


def test_a_compressed_entry_is_refused_for_it_could_grow_without_end(path):
    write(path, problem_code(made("Linear", c={"array": "c"})))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("c.npy", npy((10**6,), "<f8", bytes(8 * 10**6)))
    assert "in a form that tiebreak does not write" in refused(path)


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("where", ["c", "tiebreak"])
def test_nothing_is_unpickled(where, path, tmp_path):
    code = json.dumps(problem_code(made("Linear", c={"array": "c"}))).encode()
    entries: dict[str, Any] = {"tiebreak": np.frombuffer(code, np.uint8), "c": np.ones(3)}
    entries[where] = np.array([Bomb(tmp_path / "bang")], dtype=object)
    np.savez(path, **entries)
    assert "nothing is unpickled" in refused(path)
    assert not (tmp_path / "bang").exists()


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("csr_array", {"data": [1.0], "indices": [9], "indptr": [0, 1, 1]}),
        ("csr_array", {"data": [1.0], "indices": [-1], "indptr": [0, 1, 1]}),
        ("csr_matrix", {"data": [1.0], "indices": [0], "indptr": [0, 7, 1]}),
        ("csc_array", {"data": [1.0], "indices": [0], "indptr": [0, 2, 2, 2]}),
        ("csr_array", {"data": [1.0], "indices": [0.0], "indptr": [0, 1, 1]}),
        ("bsr_array", {"data": [[[1.0]]], "indices": [5], "indptr": [0, 1, 1]}),
        ("coo_array", {"data": [1.0], "row": [2], "col": [0]}),
        ("coo_array", {"data": [1.0], "row": [0], "col": [-1]}),
        ("coo_array", {"data": [1.0, 2.0], "row": [0], "col": [0]}),
        ("lil_array", {}),
        ("csr_array_", {}),
    ],
)
def test_a_sparse_matrix_with_wrong_places_is_refused(kind, parts, path):
    code = {"sparse": kind, "shape": [2, 3], "parts": {name: name for name in parts}}
    header = problem_code(made("LeastSquares", A=code, b=[1.0, 2.0]))
    write(path, header, **{name: np.array(part) for name, part in parts.items()})
    assert "sparse matrix" in refused(path)


def test_other_files_get_a_sentence(tmp_path, path):
    assert "does not exist" in refused(path)
    assert "is not a file" in refused(tmp_path)
    path.write_bytes(b"")
    assert "is damaged, or was not saved by tiebreak (BadZipFile)" in refused(path)
    np.savez(path, A=A)
    assert "holds neither a problem nor a result saved by tiebreak" in refused(path)
    path.unlink()
    tb.solve(PROBLEMS["LeastSquares"], checkpoint=path)
    assert "holds neither a problem nor a result saved by tiebreak" in refused(path)
    with pytest.raises(TypeError, match="load: path must be a file name, got int"):
        tb.load(3)  # type: ignore[arg-type]


@pytest.mark.sample(2)
@pytest.mark.parametrize("what", ["problem", "result"])
def test_a_damaged_file_is_refused_or_read_as_it_was(what, path):
    """Cut off anywhere, or with a byte changed anywhere: the check sums of the archive tell."""
    saved_one = PROBLEMS["a composite"] if what == "problem" else RESULTS["exact"]
    saved_one.save(path)
    whole, before = path.read_bytes(), content(path)
    rng = np.random.default_rng(5)
    for end in rng.integers(0, len(whole), 60):
        path.write_bytes(whole[:end])
        refused(path)
    for place in rng.integers(0, len(whole), 300):
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        try:
            loaded = tb.load(path)
        except ValueError as error:
            assert str(error).startswith("load: ")  # noqa: PT017 (most are refused, some are not)
        else:  # a byte that says nothing, such as the time of writing
            loaded.save(path)
            assert content(path) == before


def test_vectors_of_other_lengths_than_x_are_refused(path):
    RESULTS["by Bregman iteration"].save(path)
    header, entries = header_of(path)
    for name in ("x", "multipliers.slopes"):
        write(path, header, **{**entries, name: entries[name][:-1]})
        assert "vectors differ in length" in refused(path)


def changed(code: Any, rng: np.random.Generator) -> Any:
    """The JSON with one of its values replaced, lost or renamed."""
    if isinstance(code, dict | list) and len(code) and rng.random() < 0.85:
        copy: Any = dict(code) if isinstance(code, dict) else list(code)
        keys = list(copy) if isinstance(copy, dict) else range(len(copy))
        key = keys[int(rng.integers(len(keys)))]
        if rng.random() < 0.1:
            del copy[key]
        else:
            copy[key] = changed(copy[key], rng)
        return copy
    others = (None, True, -1, 10**30, 1.5, float("nan"), "x", [], {}, [1, "x"], {"tuple": [1]})
    return others[int(rng.integers(len(others)))]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["exact", "by Bregman iteration", "unbounded"])
def test_a_result_with_a_part_exchanged_is_refused_or_still_prints(name, path, count):
    RESULTS[name].save(path, problem=True)
    header, entries = header_of(path)
    rng, refused, tries = np.random.default_rng(11), 0, count(100, 300)
    for _ in range(tries):
        write(path, changed(header, rng), **entries)
        try:
            loaded = tb.load(path)
        except ValueError as error:
            assert str(error).startswith("load: ")  # noqa: PT017 (most are refused, some are not)
            refused += 1
        else:
            assert isinstance(loaded, tb.Result | tb.Problem)
            if isinstance(loaded, tb.Result):
                assert loaded.details()
                assert loaded.to_dict()
    assert refused > tries / 2


def test_a_result_of_cones_is_read_with_its_levels(path):
    problem = tb.Problem(upper=tb.L1(), lower=tb.LeastSquares(A, B), domain=tb.Ball(3.0))
    result = tb.solve(problem, "conic")
    assert str(round_trip(result, path)).split(":", 2)[2] == str(result).split(":", 2)[2]
