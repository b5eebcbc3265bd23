"""Reading files: every format, and one sentence for everything that can be wrong with one."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import gzip
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

import tiebreak as tb
from tiebreak import problem_files
from tiebreak.array_files import read_array
from tiebreak.problem_files import read_problem

MATRIX = np.array([[1.0, 2.0, 0.0], [0.0, -3.5, 1e-300]])
VECTOR = np.array([1.0, -2.0])


def says(call, sentence):
    """The call raises a ValueError with exactly this sentence."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole sentence is compared)
        call()
    assert str(caught.value) == sentence


# -- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", [MATRIX, VECTOR, np.arange(3), np.float32([1, 2])])
def test_npy_comes_back_as_it_was(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    back = read_array(tmp_path / "a.npy")
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_npz_by_key_and_without_a_key_if_it_holds_one_array(tmp_path):
    np.savez(tmp_path / "two.npz", A=MATRIX, b=VECTOR)
    np.savez_compressed(tmp_path / "one.npz", b=VECTOR)
    np.testing.assert_array_equal(read_array(f"{tmp_path}/two.npz:A"), MATRIX)
    np.testing.assert_array_equal(read_array(f"{tmp_path}/two.npz:b"), VECTOR)
    np.testing.assert_array_equal(read_array(tmp_path / "one.npz"), VECTOR)


def test_npz_of_a_sparse_matrix_stays_sparse(tmp_path):
    scipy.sparse.save_npz(tmp_path / "s.npz", scipy.sparse.csc_array(MATRIX))
    back = read_array(tmp_path / "s.npz", matrix=True)
    assert scipy.sparse.issparse(back)
    assert back.format == "csr"
    np.testing.assert_array_equal(back.toarray(), MATRIX)


@pytest.mark.parametrize("header", ["", "a,b,c\n", "# a, b, c\n", "\ufeffa,b,c\r\n"])
def test_csv_with_and_without_a_header(tmp_path, header):
    (tmp_path / "a.csv").write_text(header + "1, 2,0\n\n0,-3.5,1e-300\n", encoding="utf-8")
    np.testing.assert_array_equal(read_array(tmp_path / "a.csv"), MATRIX)


@pytest.mark.parametrize("text", ["1\n-2\n", "b\n1\n-2", "1,-2\n"])
def test_csv_with_one_row_or_column_is_a_vector_unless_a_matrix_is_wanted(tmp_path, text):
    (tmp_path / "b.csv").write_text(text)
    np.testing.assert_array_equal(read_array(tmp_path / "b.csv"), VECTOR)
    assert read_array(tmp_path / "b.csv", matrix=True).ndim == 2


@pytest.mark.parametrize("header", ["", "smokes,age,has a cat\n"])
def test_true_and_false_in_a_csv_are_1_and_0(tmp_path, header):
    (tmp_path / "a.csv").write_text(header + 'True,31, false\n"FALSE",2.5,true\n')
    wanted = [[1.0, 31.0, 0.0], [0.0, 2.5, 1.0]]
    np.testing.assert_array_equal(read_array(tmp_path / "a.csv"), wanted)
    (tmp_path / "b.csv").write_text("True,False\nFalse,False\n")  # no header
    np.testing.assert_array_equal(read_array(tmp_path / "b.csv"), [[1.0, 0.0], [0.0, 0.0]])
    (tmp_path / "c.csv").write_text("a,b\nTrue,1\nyes,2\n")
    with pytest.raises(ValueError, match=r"c\.csv, line 3: 'yes' is not a number$"):
        read_array(tmp_path / "c.csv")


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz"])
def test_matrix_market(tmp_path, sparse, ending):
    scipy.io.mmwrite(tmp_path / "a.mtx", scipy.sparse.coo_array(MATRIX) if sparse else MATRIX)
    name = tmp_path / f"a{ending}"
    if ending == ".mtx.gz":
        name.write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    back = read_array(name, matrix=True)
    assert scipy.sparse.issparse(back) == sparse
    np.testing.assert_array_equal(back.toarray() if sparse else back, MATRIX)


@pytest.mark.parametrize("sparse", [True, False])
def test_matrix_market_vector_is_a_vector(tmp_path, sparse):
    column = VECTOR[:, None]
    scipy.io.mmwrite(tmp_path / "b.mtx", scipy.sparse.coo_array(column) if sparse else column)
    back = read_array(tmp_path / "b.mtx")
    assert isinstance(back, np.ndarray)
    np.testing.assert_array_equal(back, VECTOR)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "a.txt",
            "1",
            "{} has an unknown extension; use one of .npy, .npz, .csv, .mtx, .mtx.gz",
        ),
        ("a", "1", "{} has an unknown extension; use one of .npy, .npz, .csv, .mtx, .mtx.gz"),
        ("a.npy", None, "{} does not exist"),
        ("a.npz", None, "{} does not exist"),
        ("a.csv", None, "{} does not exist"),
        ("a.mtx", None, "{} does not exist"),
        ("a.npy", "1,2\n", "{} is not a .npy file"),
        ("a.npy", pickle.dumps([1.0]), "{} is not a .npy file"),
        ("a.npy", b"", "{} is not a .npy file"),
        ("a.npz", "1,2\n", "{} is not a .npz file"),
        ("a.csv", b"\x93NUMPY\xff", "{} is not a .csv file: it is not text"),
        ("a.csv", "", "{} is empty: it holds no numbers"),
        ("a.csv", "x,y\n", "{} is empty: it holds no numbers"),
        ("a.csv", "x,y\n1,2\n3,four\n", "{}, line 3: 'four' is not a number"),
        ("a.csv", "1,2\n\n3,\n", "{}, line 3: '' is not a number"),
        ("a.csv", "1,two\n3,4\n", "{}, line 1: 'two' is not a number"),
        (
            "a.csv",
            "x;y\n1;2\n",
            "{} must have commas between columns and decimal points, got columns separated by ';'",
        ),
        (
            "a.csv",
            "x\ty\n1\t2\n",
            "{} must have commas between columns and decimal points, got columns separated by '\\t'",
        ),
        ("a.csv", "x\ny\n1\n", "{}, line 2: 'y' is not a number"),
        ("a.csv", "x,y\n1,2\n3,4,5\n", "{}, line 3 has 3 entries, line 2 has 2"),
        ("a.csv", "1,2\n3\n", "{}, line 2 has 1 entry, line 1 has 2"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path, name, content, sentence):
    if content is not None:
        write(tmp_path / name, content)
    says(lambda: read_array(tmp_path / name), sentence.format(tmp_path / name))


def test_a_wrong_array_gets_one_sentence(tmp_path):
    npy, npz = tmp_path / "a.npy", tmp_path / "a.npz"
    objects = "{} holds Python objects, which are never unpickled; save numbers instead"
    for array, sentence in [
        (np.array([1, "x"], dtype=object), objects),
        (np.array(["x"]), "{} must hold real numbers, got entries of type <U1"),
        (np.array([1j]), "{} must hold real numbers, got entries of type complex128"),
        (np.zeros((0, 3)), "{} is empty: its shape is (0, 3)"),
    ]:
        np.save(npy, array)
        says(lambda: read_array(npy), sentence.format(npy))
        np.savez(npz, a=array)
        says(lambda: read_array(npz), sentence.format(npz))
    np.savez(npz, A=MATRIX, b=VECTOR)
    says(lambda: read_array(f"{npz}:c"), f"{npz} has no array 'c'; its arrays are A, b")
    says(lambda: read_array(npz), f"{npz} holds the arrays A, b: pick one, as in a.npz:A")
    np.savez(npz)
    says(lambda: read_array(npz), f"{npz} is empty: it holds no arrays")
    (tmp_path / "b.npy").mkdir()
    says(lambda: read_array(tmp_path / "b.npy"), f"{tmp_path}/b.npy is a folder, not a file")


@pytest.mark.parametrize("ending", [".npy", ".npz", ".mtx.gz"])
def test_a_file_that_was_cut_short_gets_one_sentence_that_names_it(tmp_path, ending):
    whole, cut = tmp_path / f"whole{ending}", tmp_path / f"cut{ending}"
    if ending == ".mtx.gz":
        scipy.io.mmwrite(tmp_path / "a.mtx", np.ones((30, 30)))
        whole.write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    else:
        (np.save if ending == ".npy" else np.savez)(whole, np.ones((30, 30)))
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(
        ValueError, match=r"^\S*cut\S* is (damaged|not a .npz file|not a Matrix)"
    ) as e:
        read_array(cut)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("kind", ["a.npy", "a.npz", "sparse.npz"])
def test_a_file_with_a_wrong_byte_is_refused_in_one_sentence_or_read(tmp_path, kind):
    path, draw = tmp_path / kind, np.random.default_rng(0)
    if kind == "sparse.npz":
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(MATRIX))
    else:
        (np.save if kind == "a.npy" else np.savez)(path, MATRIX)
    whole, said = path.read_bytes(), []
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[draw.integers(len(whole))] ^= 1 << draw.integers(8)
        path.write_bytes(bytes(damaged))
        try:
            read_array(path)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 20
    assert all(sentence.startswith(str(path)) for sentence in said)


@pytest.mark.parametrize(
    "text", ["hello\n", "", "%%MatrixMarket matrix coordinate real general\n2"]
)
def test_what_is_not_matrix_market_gets_one_sentence(tmp_path, text):
    (tmp_path / "a.mtx").write_text(text)
    with pytest.raises(ValueError, match=r"^\S*a.mtx is not a Matrix Market file \(.+\)$"):
        read_array(tmp_path / "a.mtx")


# -- problems -------------------------------------------------------------------------------------

LEVELS = """
[upper]
kind = "SquaredNorm"
[lower]
kind = "LeastSquares"
A = [[1.0, 2.0]]
b = [1.0]
"""


def problem_file(folder, text):
    path = folder / "problem.toml"
    path.write_text(text)
    return path


def test_the_least_problem_has_two_tables(tmp_path):
    problem, options, output = read_problem(problem_file(tmp_path, LEVELS))
    assert isinstance(problem.domain, tb.Space)
    assert problem.dimension == 2
    assert problem.radius is None
    assert problem.error_bound is None
    assert options == {}
    assert output == {"x": "x.npy", "report": "report.json", "plot": "plot.png"}


def test_everything_that_can_be_said_in_a_problem(tmp_path):
    np.save(tmp_path / "x0.npy", VECTOR)
    text = f"""
radius = 3
{LEVELS}
mean = true
lipschitz = 9.0
[domain]
kind = "Box"
lower = -inf
upper = [1.0, 2.0]
[error_bound]
order = 2
modulus = 0.5
gradient_bound = 4.0
[solve]
method = "agm-bio"
x0 = "x0.npy"
rtol = [1e-3, 1e-5]
atol = 1e-9
criterion = "weak"
max_iter = 7
max_time = 1.5
checkpoint = "run.npz"
progress = false
[output]
x = "deep/x.csv"
report = "r.json"
plot = "p.pdf"
"""
    problem, options, output = read_problem(problem_file(tmp_path, text))
    assert problem.radius == 3
    assert problem.lower.mean is True
    assert problem.lower.lipschitz == 9.0
    assert problem.domain.lower == -np.inf
    assert problem.error_bound == tb.ErrorBound(2, 0.5, 4.0)
    np.testing.assert_array_equal(options.pop("x0"), VECTOR)
    assert options == {
        "method": "agm-bio",
        "rtol": [1e-3, 1e-5],
        "atol": 1e-9,
        "criterion": "weak",
        "max_iter": 7,
        "max_time": 1.5,
        "checkpoint": tmp_path / "run.npz",
        "progress": False,
    }
    assert output == {"x": "deep/x.csv", "report": "r.json", "plot": "p.pdf"}


def test_a_method_with_its_parameters_has_a_table_of_its_own(tmp_path):
    method = '[method]\nkind = "AGMBiO"\ngamma = 0.25\nhorizon = 9\n'
    _, options, _ = read_problem(problem_file(tmp_path, LEVELS + method))
    assert options == {"method": tb.AGMBiO(gamma=0.25, horizon=9)}


def test_every_public_function_and_domain_can_be_named():
    public = {name for name in tb.__all__ if isinstance(getattr(tb, name), type)}
    smooth = {n for n in public if issubclass(getattr(tb, n), tb.functions.base.SmoothFunction)}
    sets = {n for n in public if hasattr(getattr(tb, n), "project_cut")}
    penalties = {
        n for n in public if issubclass(getattr(tb, n), tb.functions.penalties.penalties.Penalty)
    }

    def named(base: type) -> set[str]:
        return set(problem_files._kinds(base))

    assert named(tb.functions.Function) == smooth - {"Smooth"}  # that needs callables
    assert named(tb.functions.Penalty) == penalties - {"Indicator"}  # that is [domain]
    assert named(tb.sets.Set) == sets - {"Intersection"}  # that is [[domain]]


# -- penalties ------------------------------------------------------------------------------------

BELOW = LEVELS.partition("[lower]")[2]


def test_a_penalty_alone_is_a_level(tmp_path):
    text = f'[upper]\nkind = "L1"\nweight = 0.25\n[lower]{BELOW}'
    problem, options, _ = read_problem(problem_file(tmp_path, text))
    assert problem.penalties == (tb.L1(0.25), tb.Zero())
    assert problem.upper.value(np.array([3.0, -1.0])) == 1.0
    assert problem.dimension == 2
    assert options == {}


@pytest.mark.parametrize(
    ("keys", "made"),
    [
        ('kind = "Quantile"\nb = "b.csv"\nlevel = 0.3', lambda A: tb.Quantile(A, [1, 0, 1], 0.3)),
        ('kind = "Hinge"\ny = "b.csv"\nmean = true', lambda A: tb.Hinge(A, [1, -1, 1], mean=True)),
    ],
)
def test_a_loss_with_kinks_is_a_level(tmp_path, keys, made):
    (tmp_path / "A.csv").write_text("cost,time\n1,2\n3,4\n5,7\n")
    (tmp_path / "b.csv").write_text("1\n0\n1\n")
    text = f'[lower]\n{keys}\nA = "A.csv"\n[upper]\nkind = "SquaredNorm"\n'
    problem = read_problem(problem_file(tmp_path, text))[0]
    x, A = np.array([0.3, -0.7]), [[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]]
    assert problem.lower.value(x) == made(A).value(x)
    assert problem.names == ("cost", "time")


def test_columns_of_one_name_name_nothing(tmp_path):
    (tmp_path / "A.csv").write_text("cost,cost,time\n1,2,3\n")
    level = '[[level]]\nkind = "LeastSquares"\nA = "A.csv"\nb = [1.0]\n'
    levels = read_problem(problem_file(tmp_path, level + '[[level]]\nkind = "SquaredNorm"\n'))[0]
    assert levels.variables is None  # otherwise the report would show two of three entries of x


def test_a_penalty_stands_beside_a_smooth_function(tmp_path):
    text = LEVELS + '[lower.penalty]\nkind = "ElasticNet"\nl1 = 0.5\nl2 = 2\n'
    problem, *_ = read_problem(problem_file(tmp_path, text))
    assert problem.penalties == (tb.Zero(), tb.ElasticNet(0.5, 2.0))
    x = np.array([1.0, 1.0])
    assert problem.lower.value(x) == 0.5 * 4.0 + 0.5 * 2.0 + 2.0
    inline = LEVELS + 'penalty = {kind = "ElasticNet", l1 = 0.5, l2 = 2}\n'
    problem, *_ = read_problem(problem_file(tmp_path, inline))
    assert problem.lower.value(x) == 5.0


def test_several_penalties_are_an_array_of_tables(tmp_path):
    more = '[[lower.penalty]]\nkind = "L1"\n[[lower.penalty]]\nkind = "L2"\nweight = 2.0\n'
    problem, *_ = read_problem(problem_file(tmp_path, LEVELS + more))
    assert problem.lower.penalty.value(np.array([3.0, 4.0])) == 7.0 + 10.0


def test_the_norm_takes_a_center(tmp_path):
    more = '[[lower.penalty]]\nkind = "L2"\nweight = [2.0, 0.0]\ncenter = [1.0, 5.0]\n'
    problem, *_ = read_problem(problem_file(tmp_path, LEVELS + more))
    assert problem.lower.penalty.value(np.array([3.0, 4.0])) == 4.0


@pytest.mark.parametrize("ending", ["npy", "npz", "csv", "mtx"])
def test_groups_are_an_array_or_a_file(tmp_path, ending):
    labels = np.array([1, 0])
    name = tmp_path / f"groups.{ending}"
    if ending == "csv":
        name.write_text("group\n1\n0\n")
    elif ending == "mtx":
        scipy.io.mmwrite(name, labels[:, None])
    else:
        (np.save if ending == "npy" else np.savez)(name, labels)
    x = np.array([3.0, -4.0])
    for groups in (f'"groups.{ending}"', "[1, 0]", "[[0], [1]]"):
        text = LEVELS + f'[upper.penalty]\nkind = "GroupL2"\ngroups = {groups}\n'
        problem, *_ = read_problem(problem_file(tmp_path, text))
        assert problem.penalties[0].value(x) == 7.0
    text = LEVELS + '[upper.penalty]\nkind = "GroupL2"\ngroups = [0, 0]\n'
    problem, *_ = read_problem(problem_file(tmp_path, text))
    assert problem.penalties[0].value(x) == 5.0


def public(base: type, without: str) -> list[str]:
    """The public classes that a table may describe, in the order of their names."""
    found = (name for name in tb.__all__ if isinstance(getattr(tb, name), type))
    return sorted(n for n in found if issubclass(getattr(tb, n), base) and n != without)


PENALTIES = public(tb.functions.Penalty, without="Indicator")  # that is [domain]
PENALTY_KINDS = f"known kinds are {', '.join(PENALTIES)}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[lower.penalty]\n", f"[lower.penalty] lacks the key 'kind'; {PENALTY_KINDS}"),
        (
            '[lower.penalty]\nkind = "Lasso"\n',
            f"[lower.penalty] has the unknown kind 'Lasso'; {PENALTY_KINDS}",
        ),
        (
            '[upper.penalty]\nkind = "SquaredNorm"\n',
            f"[upper.penalty] has the unknown kind 'SquaredNorm' (did you mean 'NuclearNorm'?); {PENALTY_KINDS}",
        ),
        (
            '[upper.penalty]\nkind = "Indicator"\n',
            f"[upper.penalty] has the unknown kind 'Indicator'; {PENALTY_KINDS}",
        ),
        (
            '[lower.penalty]\nkind = "L1"\nlam = 0.1\n',
            "[lower.penalty] has no key 'lam'; known keys are center, operator, weight",
        ),
        (
            '[lower.penalty]\nkind = "Zero"\nweight = 0.1\n',
            "[lower.penalty] has no key 'weight'; this kind has none",
        ),
        ('[lower.penalty]\nkind = "GroupL2"\n', "[lower.penalty] lacks the key 'groups'"),
        ('[lower.penalty]\nkind = "ElasticNet"\nl1 = 1\n', "[lower.penalty] lacks the key 'l2'"),
        ("penalty = 3\n", "[lower.penalty] must be a table, got 3"),
        ('penalty = ["L1"]\n', "[lower.penalty] must be a table, got 'L1'"),
        (
            '[lower.penalty]\nkind = "L1"\nweight = -1\n',
            "[lower.penalty] L1: weight must be a non-negative finite number, got -1",
        ),
        (
            '[lower.penalty]\nkind = "L1"\nweight = [1, -2]\n',
            "[lower.penalty] L1: weight must be non-negative, got -2 at index 1",
        ),
        (
            '[lower.penalty]\nkind = "GroupL2"\ngroups = [0, 0, 1]\n',
            "[lower.penalty] GroupL2: groups must have one entry per variable (2), got 3",
        ),
        (
            '[lower.penalty]\nkind = "GroupL2"\ngroups = "g.csv"\n',
            "[lower.penalty] groups: {folder}/g.csv does not exist",
        ),
        (
            '[[lower.penalty]]\nkind = "GroupL2"\ngroups = [[0]]\n[[lower.penalty]]\nkind = "GroupL2"\ngroups = [[0, 1]]\n',
            "[lower.penalty] PenaltySum: the penalties and the domain must have a joint prox in closed form, got two GroupL2 with different groups",
        ),
        ('[penalty]\nkind = "L1"\n', "there is no table [penalty]; known tables are [upper], [lower], [level], [domain], [error_bound], [method], [solve], [output]"),
    ],
)  # fmt: skip
def test_a_wrong_penalty_gets_one_sentence(tmp_path, text, sentence):
    path = problem_file(tmp_path, LEVELS + text)
    says(lambda: read_problem(path), f"{path}: {sentence.format(folder=tmp_path)}")


def test_labels_that_are_not_whole_get_the_sentence_of_the_penalty(tmp_path):
    (tmp_path / "g.csv").write_text("0\n0.5\n")
    text = LEVELS + '[lower.penalty]\nkind = "GroupL2"\ngroups = "g.csv"\n'
    path = problem_file(tmp_path, text)
    needed = "a vector with the group of each variable (-1: none) or a list of lists of variables"
    says(
        lambda: read_problem(path),
        f"{path}: [lower.penalty] GroupL2: groups must be {needed}, got entries of type float64",
    )


# -- wrong problems -------------------------------------------------------------------------------

FUNCTIONS = public(tb.functions.SmoothFunction, without="Smooth")  # that needs callables
FUNCTION_KINDS = f"known kinds are {', '.join([*FUNCTIONS, *PENALTIES])}"
DOMAIN_KINDS = f"known kinds are {', '.join(public(tb.sets.Set, without='Intersection'))}"
SOLVE_KEYS = (
    "known keys are atol, checkpoint, criterion, max_iter, max_time, method, progress, rtol, x0"
)
LOWER = '[lower]\nkind = "SquaredNorm"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (LOWER, "the table [upper] is missing"),
        (LEVELS.partition("[lower]")[0], "the table [lower] is missing"),
        ("upper = 3\n" + LOWER, "[upper] must be a table, got 3"),
        (
            LEVELS + "[domian]\n",
            "there is no table [domian] (did you mean 'domain'?); known tables are [upper], [lower], [level], [domain], [error_bound], [method], [solve], [output]",
        ),
        (
            LEVELS + '[method]\nkind = "AGMBiO"\n[solve]\nmethod = "agm-bio"\n',
            "[method] cannot be combined with the key 'method' of [solve]",
        ),
        (
            "radus = 1\n" + LEVELS,
            "there is no key 'radus' outside the tables (did you mean 'radius'?); the only known one is radius",
        ),
        ("[upper]\n" + LOWER, f"[upper] lacks the key 'kind'; {FUNCTION_KINDS}"),
        (
            '[upper]\nkind = "Smooth"\n' + LOWER,
            f"[upper] has the unknown kind 'Smooth'; {FUNCTION_KINDS}",
        ),
        ("[upper]\nkind = 1\n" + LOWER, f"[upper] has the unknown kind 1; {FUNCTION_KINDS}"),
        (LEVELS + "[domain]\n", f"[domain] lacks the key 'kind'; {DOMAIN_KINDS}"),
        (
            LEVELS + '[domain]\nkind = "ball"\n',
            f"[domain] has the unknown kind 'ball' (did you mean 'Ball'?); {DOMAIN_KINDS}",
        ),
        (
            LEVELS + "bb = 1\n",
            "[lower] has no key 'bb' (did you mean 'b'?); known keys are A, b, gram, lipschitz, mean, penalty, weights",
        ),
        (
            LEVELS + '[domain]\nkind = "Space"\nradius = 1.0\n',
            "[domain] has no key 'radius'; this kind has none",
        ),
        (LEVELS.replace("b = [1.0]", ""), "[lower] lacks the key 'b'"),
        (LEVELS + '[domain]\nkind = "Box"\nlower = 0\n', "[domain] lacks the key 'upper'"),
        (LEVELS + "[error_bound]\norder = 2\n", "[error_bound] lacks the key 'modulus'"),
        (
            LEVELS + "[error_bound]\nr = 2\n",
            "[error_bound] has no key 'r'; known keys are gradient_bound, modulus, order",
        ),
        (
            LEVELS + "[solve]\nmax_itr = 1\n",
            f"[solve] has no key 'max_itr' (did you mean 'max_iter'?); {SOLVE_KEYS}",
        ),
        (LEVELS + "[solve]\ncallback = 1\n", f"[solve] has no key 'callback'; {SOLVE_KEYS}"),
        (LEVELS + "[solve]\nprogress = 1\n", "[solve] progress must be true or false, got 1"),
        (
            LEVELS + '[output]\nlog = "x.txt"\n',
            "[output] has no key 'log'; known keys are plot, report, x",
        ),
        (
            LEVELS + '[output]\nx = "x.txt"\n',
            "[output] x must be a file name that ends with .npy or .csv, got 'x.txt'",
        ),
        (
            LEVELS + "[output]\nreport = 3\n",
            "[output] report must be a file name that ends with .json, got 3",
        ),
        (
            LEVELS + '[output]\nplot = "../p.png"\n',
            "[output] plot must be a name inside the output folder, got '../p.png'",
        ),
    ],
)
def test_a_wrong_problem_gets_one_sentence(tmp_path, text, sentence):
    path = problem_file(tmp_path, text)
    says(lambda: read_problem(path), f"{path}: {sentence}")


def least_squares(**other):
    return tb.LeastSquares(**{"A": [[1.0, 2.0]], "b": [1.0]} | other)


def whole(**other):
    return tb.Problem(upper=tb.SquaredNorm(), lower=least_squares(), **other)


@pytest.mark.parametrize(
    ("text", "table", "call"),
    [
        ("radius = -1\n" + LEVELS, "", lambda: whole(radius=-1)),
        (
            LEVELS + '[domain]\nkind = "Ball"\ncenter = [0, 0, 0]\n',
            "",
            lambda: whole(domain=tb.Ball(center=[0, 0, 0])),
        ),
        (LEVELS + '[domain]\nkind = "Ball"\nradius = 0\n', "[domain] ", lambda: tb.Ball(radius=0)),
        (LEVELS.replace("[1.0]", "[1.0, 2.0]"), "[lower] ", lambda: least_squares(b=[1.0, 2.0])),
        (LEVELS + 'lipschitz = "big"\n', "[lower] ", lambda: least_squares(lipschitz="big")),
        (
            LEVELS + '[method]\nkind = "AGMBiO"\ngamma = 2\n',
            "[method] ",
            lambda: tb.AGMBiO(gamma=2),
        ),
        (
            LEVELS + "[error_bound]\norder = 0.5\nmodulus = 1\ngradient_bound = 1\n",
            "[error_bound] ",
            lambda: tb.ErrorBound(0.5, 1, 1),
        ),
    ],
)
def test_the_sentence_of_a_constructor_is_passed_on_with_its_table(tmp_path, text, table, call):
    with pytest.raises((ValueError, TypeError)) as own:
        call()
    path = problem_file(tmp_path, text)
    says(lambda: read_problem(path), f"{path}: {table}{own.value}")


def test_a_wrong_array_file_is_named_with_table_and_key(tmp_path):
    path = problem_file(tmp_path, LEVELS.replace("[1.0]", '"b.npy"'))
    says(lambda: read_problem(path), f"{path}: [lower] b: {tmp_path}/b.npy does not exist")
    path = problem_file(tmp_path, LEVELS + '[solve]\nx0 = "x0"\n')
    ending = "has an unknown extension; use one of .npy, .npz, .csv, .mtx, .mtx.gz"
    says(lambda: read_problem(path), f"{path}: [solve] x0: {tmp_path}/x0 {ending}")


def test_what_is_not_a_toml_file_gets_one_sentence(tmp_path):
    path = tmp_path / "problem.toml"
    says(lambda: read_problem(path), f"{path} does not exist")
    says(lambda: read_problem(tmp_path), f"{tmp_path} cannot be read (Is a directory)")
    path.write_text("[upper\n")
    with pytest.raises(ValueError, match=r"problem.toml is not a TOML file \(.* line 1.*\)$"):
        read_problem(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"problem.toml is not a TOML file \(.*\)$"):
        read_problem(path)


# -- .csv as pandas writes it, and columns picked by name -----------------------------------------

FRAME = pd.DataFrame({"age": [30.5, 41.0, 7.25], "income": [1.0, 2.0, 3.5], "price": [9, 8, 7]})


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("columns", [["age", "income", "price"], [0, 1, 2], ["0", "b", "c"]])
def test_what_pandas_writes_is_read_as_its_numbers(tmp_path, index, columns):
    frame = FRAME.set_axis(columns, axis=1)
    frame.to_csv(tmp_path / "a.csv", index=index)
    if columns == ["0", "b", "c"]:  # a name and a number in one line: nobody knows what that is
        with pytest.raises(ValueError, match=r"line 1: '(b|)' is not a number"):
            read_array(tmp_path / "a.csv")
        return
    np.testing.assert_array_equal(read_array(tmp_path / "a.csv"), FRAME.to_numpy())


def test_an_index_of_labels_and_one_that_was_written_twice_are_no_columns(tmp_path):
    FRAME.set_axis(["x", "y", "z"]).to_csv(tmp_path / "a.csv")
    np.testing.assert_array_equal(read_array(tmp_path / "a.csv"), FRAME.to_numpy())
    pd.read_csv(tmp_path / "a.csv").to_csv(tmp_path / "b.csv", index=False)
    assert (tmp_path / "b.csv").read_text().startswith("Unnamed: 0,age")
    np.testing.assert_array_equal(read_array(tmp_path / "b.csv"), FRAME.to_numpy())
    FRAME["age"].to_csv(tmp_path / "c.csv")
    np.testing.assert_array_equal(read_array(tmp_path / "c.csv"), FRAME["age"])
    FRAME["age"].rename(None).to_csv(tmp_path / "d.csv")
    np.testing.assert_array_equal(read_array(tmp_path / "d.csv"), FRAME["age"])


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0,1,2\n", [0.0, 1.0, 2.0]),  # one line is data
        ("0\n1\n0\n", [0.0, 1.0, 0.0]),  # a column that begins with 0 too
        ("0.0,1.0\n1.0,0.0\n", [[0.0, 1.0], [1.0, 0.0]]),
        ("1,2\n3,4\n", [[1.0, 2.0], [3.0, 4.0]]),
    ],
)
def test_numbers_are_no_header(tmp_path, text, numbers):
    (tmp_path / "a.csv").write_text(text)
    np.testing.assert_array_equal(read_array(tmp_path / "a.csv"), numbers)


def test_columns_are_picked_by_name_and_others_need_not_be_numbers(tmp_path):
    frame = FRAME.assign(city=["Oslo", "Rome", "Lima, Peru"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    age_income = FRAME[["age", "income"]].to_numpy()
    for pick in ("age,income", " age , income", "!price,city"):
        np.testing.assert_array_equal(read_array(f"{tmp_path}/a.csv:{pick}"), age_income)
    np.testing.assert_array_equal(read_array(f"{tmp_path}/a.csv:price"), FRAME["price"])
    assert read_array(f"{tmp_path}/a.csv:price", matrix=True).shape == (3, 1)
    backwards = read_array(f"{tmp_path}/a.csv:income,age")
    np.testing.assert_array_equal(backwards, age_income[:, ::-1])
    with pytest.raises(ValueError, match=r"line 2: 'Oslo' is not a number"):
        read_array(tmp_path / "a.csv")
    known = "its columns are age, income, price, city"
    with pytest.raises(ValueError, match=rf"a\.csv has no column 'Age'; {known}"):
        read_array(f"{tmp_path}/a.csv:Age")
    (tmp_path / "b.csv").write_text("1,2\n3,4\n")
    np.testing.assert_array_equal(read_array(f"{tmp_path}/b.csv:1"), [2.0, 4.0])


def test_a_problem_may_pick_columns(tmp_path):
    FRAME.to_csv(tmp_path / "train.csv")
    (tmp_path / "p.toml").write_text(
        '[upper]\nkind = "SquaredNorm"\n[lower]\nkind = "LeastSquares"\n'
        'A = "train.csv:!price"\nb = "train.csv:price"\n'
    )
    problem = read_problem(tmp_path / "p.toml")[0]
    np.testing.assert_array_equal(problem.lower.matrix.entries, FRAME[["age", "income"]])
    np.testing.assert_array_equal(problem.lower.b, FRAME["price"])


# -- files that lie about what they hold ----------------------------------------------------------


def npy_header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.npy", npy_header(f"({10**6}, {10**9})") + b"12345678"),
        ("a.npy", npy_header(f"({10**30},)") + b"12345678"),
        ("a.npy", npy_header("(-3,)") + b"12345678"),
        ("a.npy", npy_header("(-1,)") + b"12345678"),
        ("a.npy", npy_header("(1, -1)") + b"12345678"),
        ("a.mtx", f"%%MatrixMarket matrix coordinate real general\n3 3 {10**15}\n1 1 2.0\n"),
        ("a.mtx", f"%%MatrixMarket matrix coordinate real general\n{10**16} 3 1\n1 1 2.0\n"),
        ("a.mtx", f"%%MatrixMarket matrix array real general\n{10**7} {10**7}\n1.0\n"),
        ("a.mtx", f"%%MatrixMarket matrix coordinate real general\n3 3 {10**40}\n1 1 2.0\n"),
    ],
)
def test_a_header_that_lies_gets_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=r"is damaged|is not a Matrix Market file"):
        read_array(tmp_path / name)
    if name == "a.npy":
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
            file.write(tmp_path / name, "a.npy")
        with pytest.raises(ValueError, match="is damaged"):
            read_array(tmp_path / "a.npz")
