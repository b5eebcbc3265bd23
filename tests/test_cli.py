"""The command line: exit codes, sentences, and the files it leaves."""
# ruff: noqa: E501 (the sentences of the errors stay in one piece)

from __future__ import annotations

import builtins
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import tiebreak as tb
from tiebreak import cli
from tiebreak.cli import main
from tiebreak.problem_files import read_problem

SMALL = """
[upper]
kind = "SquaredNorm"
[lower]
kind = "LeastSquares"
A = [[1.0, 2.0]]
b = [1.0]
[domain]
kind = "Ball"
radius = 3.0
"""
STEPS = '[solve]\nmethod = "agm-bio"\n'  # a method that takes many steps
OUT = ["plot.png", "report.json", "x.npy"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_drawing(monkeypatch):
    """An empty plot.png, for tests that are not about it: drawing takes half a second."""
    monkeypatch.setattr(tb.Result, "plot", lambda self, path: Path(path).touch())


def strict_json(path):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def without(package, monkeypatch):
    """Importing this package fails from now on."""
    real = builtins.__import__

    def importing(name, *rest):
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", importing)


# -- solve ----------------------------------------------------------------------------------------


def test_a_run_that_proves_too_little_exits_with_1_and_still_writes(here, no_drawing, capsys):
    (here / "p.toml").write_text(SMALL + STEPS)
    assert main(["solve", "p.toml", "--max-iter", "2", "--out", "deep/er"]) == 1
    assert "tiebreak: max_iter after 2 steps" in capsys.readouterr().out
    assert names(here / "deep" / "er") == OUT
    assert strict_json(here / "deep" / "er" / "report.json")["nit"] == 2


def test_limits_of_the_command_line_win_over_those_of_the_file(here, no_drawing):
    (here / "p.toml").write_text(SMALL + STEPS + "max_iter = 1\nrtol = 0.0\n")
    assert main(["solve", "p.toml"]) == 1
    assert strict_json(here / "out" / "report.json")["nit"] == 1
    assert main(["solve", "p.toml", "--max-iter", "4"]) == 1
    assert strict_json(here / "out" / "report.json")["nit"] == 4
    (here / "p.toml").write_text(SMALL + STEPS + "max_iter = 100000000\nrtol = 0.0\n")
    assert main(["solve", "p.toml", "--max-time", "0.05"]) == 1
    assert strict_json(here / "out" / "report.json")["status"] == "max_time"


def write_array(folder, ending, name, array):
    """The array in a file of this kind; what to write into the TOML."""
    path = folder / f"{name}{ending}"
    if ending == ".npy":
        np.save(path, array)
    elif ending == ".npz":
        np.savez(path, other=[0.0], key=array)
        return f"{path.name}:key"
    elif ending == ".csv":
        np.savetxt(path, array, delimiter=",", fmt="%.17g", header="a", comments="")
    else:
        matrix = array.reshape(len(array), -1)
        scipy.io.mmwrite(
            path, scipy.sparse.coo_array(matrix) if name[0] == "A" else matrix, precision=17
        )
    return path.name


@pytest.mark.sample(4)
@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".mtx"])
def test_every_file_format_gives_the_answer_of_the_library(tmp_path, ending, capsys):
    rng = np.random.default_rng(1)
    A_f, b_f, A_g, b_g = (rng.standard_normal(s) for s in ((9, 6), 9, (3, 6), 3))
    x0, y = rng.standard_normal(6) / 9, np.sign(b_f)
    file = {k: write_array(tmp_path, ending, k, v) for k, v in
            {"A_f": A_f, "y": y, "A_g": A_g, "b_g": b_g, "x0": x0}.items()}  # fmt: skip
    (tmp_path / "p.toml").write_text(f"""
[upper]
kind = "Logistic"
A = "{file["A_f"]}"
y = "{file["y"]}"
[lower]
kind = "LeastSquares"
A = "{file["A_g"]}"
b = "{file["b_g"]}"
mean = true
[domain]
kind = "Ball"
radius = 4.0
[solve]
x0 = "{file["x0"]}"
max_iter = 60
[output]
x = "x.csv"
""")
    code = main(["solve", str(tmp_path / "p.toml"), "--out", str(tmp_path / "out")])
    kind = "sparse " if ending == ".mtx" else ""
    assert f"  lower level g   <LeastSquares, {kind}3 x 6>\n" in capsys.readouterr().out
    expected = tb.solve(
        tb.Problem(
            upper=tb.Logistic(A_f, y),
            lower=tb.LeastSquares(A_g, b_g, mean=True),
            domain=tb.Ball(4.0),
        ),
        x0=x0,
        max_iter=60,
    )
    assert code == (0 if expected.success else 1)
    x = np.loadtxt(tmp_path / "out" / "x.csv")
    np.testing.assert_allclose(x, expected.x, rtol=1e-9, atol=1e-12)
    assert names(tmp_path / "out") == ["plot.png", "report.json", "x.csv"]


def test_x_as_csv_loses_nothing(here, no_drawing):
    (here / "p.toml").write_text(SMALL)
    main(["solve", "p.toml"])
    (here / "p.toml").write_text(SMALL + '[output]\nx = "x.csv"\n')
    main(["solve", "p.toml"])
    np.testing.assert_array_equal(
        np.loadtxt(here / "out" / "x.csv"), np.load(here / "out" / "x.npy")
    )


def test_a_checkpoint_lies_beside_the_problem_and_is_continued(here, no_drawing):
    (here / "sub").mkdir()
    (here / "sub" / "p.toml").write_text(SMALL + STEPS + 'rtol = 0.0\ncheckpoint = "run.npz"\n')
    main(["solve", "sub/p.toml", "--max-iter", "5"])
    assert (here / "sub" / "run.npz").exists()
    main(["solve", "sub/p.toml", "--max-iter", "9"])
    assert strict_json(here / "out" / "report.json")["nit"] == 9


def test_the_live_line_is_for_terminals_only_and_can_be_switched_off(
    here, no_drawing, capsys, monkeypatch
):
    (here / "p.toml").write_text(SMALL)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["solve", "p.toml"]) == 0
    assert "step" in capsys.readouterr().err
    assert main(["solve", "p.toml", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    (here / "p.toml").write_text(SMALL + "[solve]\nprogress = false\n")
    assert main(["solve", "p.toml"]) == 0
    assert capsys.readouterr().err == ""


def test_without_matplotlib_there_is_no_plot_and_no_error(here, capsys, monkeypatch):
    (here / "p.toml").write_text(SMALL)
    without("matplotlib", monkeypatch)
    assert main(["solve", "p.toml"]) == 0
    said = capsys.readouterr().out
    assert (
        "  no plot     plotting needs matplotlib: pip install matplotlib (tiebreak's extra [plot])\n"
        in said
    )
    assert names(here / "out") == ["report.json", "x.npy"]


# -- penalties ------------------------------------------------------------------------------------

SPARSE = """
[upper]
kind = "L1"
[lower]
kind = "LeastSquares"
A = [[1.0, 2.0, 0.5]]
b = [2.0]
"""


TABLE = "smokes,age,income,ill\nTrue,1,1,0\nFalse,2,5,0\nFalse,3,2,1\nTrue,4,0,1\n"
OF_TABLE = """
[upper]
kind = "SquaredNorm"
[lower]
kind = "{}"
A = "t.csv:!ill"
{} = "t.csv:ill"
[output]
x = "deep/x.csv"
"""


def test_the_report_says_where_x_is_and_what_its_entries_are(here, no_drawing):
    (here / "t.csv").write_text(TABLE)
    (here / "p.toml").write_text(OF_TABLE.format("LeastSquares", "b"))
    assert main(["solve", "p.toml"]) == 0
    report = strict_json(here / "out" / "report.json")
    assert report["variables"] == ["smokes", "age", "income"]
    assert len(np.loadtxt(here / "out" / report["x_file"])) == 3


def test_a_direction_without_minimum_is_told_by_the_columns_of_the_table(here, no_drawing, capsys):
    (here / "t.csv").write_text(TABLE)
    (here / "p.toml").write_text(OF_TABLE.format("Logistic", "y"))
    assert main(["solve", "p.toml"]) == 1
    # A whole multiple of what a table of whole numbers has: to all digits.
    assert re.search(r"along the direction (age|smokes) [+-]\S+", capsys.readouterr().out)


def test_a_sparse_problem_is_described_solved_and_reported(here, no_drawing, capsys):
    (here / "p.toml").write_text(SPARSE)
    assert main(["solve", "p.toml"]) == 0
    printed = capsys.readouterr().out
    assert "  lower level g   <LeastSquares, 1 x 3>\n  upper level f   L1(weight=1.0)\n" in printed
    assert "  non-zeros" not in printed
    assert main(["solve", "p.toml", "--details"]) == 0
    assert "  non-zeros  " in capsys.readouterr().out
    x = np.load(here / "out" / "x.npy")
    np.testing.assert_allclose(x, [0.0, 1.0, 0.0], atol=1e-12)
    report = strict_json(here / "out" / "report.json")
    assert report["status"] == "certified"
    assert report["method"] == "auto: exact, by direct factorisation (least squares below, 1 x 3)"
    low, high = report["upper"]["optimum"]
    assert low <= 1.0 <= high


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ('[upper.penalty]\nkind = "L2"\n', "L1(weight=1.0) + L2(weight=1.0)"),
        ('[lower.penalty]\nkind = "L1"\n', "<LeastSquares, 1 x 3> + L1(weight=1.0)"),
        (
            '[lower.penalty]\nkind = "GroupL2"\ngroups = [0, 0, 1]\n',
            "<LeastSquares, 1 x 3> + GroupL2(groups=<2 groups of 3 variables>, weight=1.0)",
        ),
    ],
)
def test_every_penalty_is_described(here, no_drawing, capsys, text, described):
    (here / "p.toml").write_text(SPARSE + text)
    assert main(["solve", "p.toml", "--max-iter", "1"]) in (0, 1)
    assert f" {described}\n" in capsys.readouterr().out


def test_a_checkpoint_of_a_problem_with_groups_is_continued(here, no_drawing):
    """Groups remember what they have computed: that is no part of who they are."""
    groups = '[upper.penalty]\nkind = "GroupL2"\ngroups = [0, 0, 1]\nweight = 0.5\n'
    text = SPARSE + groups + '[method]\nkind = "AdaptiveAGMBiO"\n'
    text += '[solve]\nrtol = 0.0\ncheckpoint = "run.npz"\n'
    (here / "p.toml").write_text(text)
    for steps in (5, 9):
        assert main(["solve", "p.toml", "--max-iter", str(steps)]) == 1
        report = strict_json(here / "out" / "report.json")
        assert report["nit"] == steps
    (here / "p.toml").write_text(text.replace("groups = [0, 0, 1]", "groups = [0, 1, 1]"))
    assert main(["solve", "p.toml"]) == 2
    (here / "p.toml").write_text(text.replace("weight = 0.5", "weight = 0.25"))
    assert main(["solve", "p.toml"]) == 2


def test_a_saved_problem_is_solved_and_the_result_saved(here, no_drawing, capsys):
    (here / "p.toml").write_text(SMALL)
    problem, *_ = read_problem(here / "p.toml")
    problem.save(here / "p.npz")
    assert main(["solve", "p.npz", "--save", "run.npz"]) == 0
    said = capsys.readouterr().out
    assert "the problem in p.npz\n  lower level g   <LeastSquares, 1 x 2>\n" in said
    assert said.endswith(", run.npz\n")
    result = tb.load(here / "run.npz")
    assert str(result).replace(" (as saved)", "") in said
    assert np.array_equal(result.x, tb.solve(problem).x)
    assert main(["compare", "p.npz", "--methods", "exact", "adaptive", "--budget", "0.1"]) == 0


def test_a_saved_result_is_no_problem_and_save_needs_a_file_of_its_kind(here, capsys):
    (here / "p.toml").write_text(SMALL)
    problem, *_ = read_problem(here / "p.toml")
    tb.solve(problem).save(here / "run.npz")
    refused(capsys, ["run.npz"], "run.npz must hold a problem, got a result")
    needed = "tiebreak solve: --save must be a .npz file, got 'run.pkl'"
    refused(capsys, ["p.toml", "--save", "run.pkl"], needed)
    refused(capsys, ["no.npz"], "load: no.npz does not exist")


# -- bad input ------------------------------------------------------------------------------------


def refused(capsys, arguments, sentence):
    """Exit code 2, this one line on standard error, no folder made."""
    assert main(["solve", *arguments]) == 2
    assert capsys.readouterr().err == f"tiebreak: {sentence}\n"
    assert not os.path.exists("out")


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        (None, [], "p.toml does not exist"),
        ("", [], "p.toml: the table [upper] is missing"),
        (SMALL + "cente = [1.0]\n", [], "p.toml: [domain] has no key 'cente' (did you mean 'center'?); known keys are center, radius"),
        (SMALL.replace("[1.0]", '"b.csv"'), [], "p.toml: [lower] b: b.csv does not exist"),
        (SMALL, ["--out", "p.toml"], "the results need a writable folder, got p.toml (File exists)"),
        (SMALL, ["--out", "p.toml/x"], "the results need a writable folder, got p.toml{sep}x (Not a directory)"),
    ],
)  # fmt: skip
def test_bad_input_exits_with_2_and_one_sentence(here, capsys, text, arguments, sentence):
    if text is not None:
        (here / "p.toml").write_text(text)
    refused(capsys, ["p.toml", *arguments], sentence.format(here=here, sep=os.sep))


@pytest.mark.parametrize(
    ("text", "arguments", "options"),
    [
        ('[solve]\nmethod = "best"\n', [], {"method": "best"}),
        ("[solve]\nmax_iter = 1.5\n", [], {"max_iter": 1.5}),
        ("[solve]\nrtol = [1, 2, 3]\n", [], {"rtol": [1, 2, 3]}),
        ('[solve]\ncriterion = "best"\n', [], {"criterion": "best"}),
        ("[solve]\ncriterion = 1\n", [], {"criterion": 1}),
        ("[solve]\nx0 = [1.0]\n", [], {"x0": [1.0]}),
        ("", ["--max-iter", "-1"], {"max_iter": -1}),
        ("", ["--max-time", "-1"], {"max_time": -1.0}),
    ],
)
def test_the_sentence_of_solve_is_passed_on(here, capsys, text, arguments, options):
    (here / "p.toml").write_text(SMALL)
    problem, *_ = read_problem(here / "p.toml")
    with pytest.raises((ValueError, TypeError)) as own:
        tb.solve(problem, **options)
    (here / "p.toml").write_text(SMALL + text)
    refused(capsys, ["p.toml", *arguments], str(own.value))


def test_without_scikit_learn_the_install_line_is_said(here, capsys, monkeypatch):
    without("sklearn", monkeypatch)
    assert main(["demo"]) == 2
    sentence = "the breast cancer data needs scikit-learn: pip install scikit-learn "
    sentence += "(tiebreak's extra [sklearn])"
    assert capsys.readouterr().err == f"tiebreak: {sentence}\n"
    assert not os.path.exists("out")


def test_a_write_that_fails_leaves_the_old_file_whole(here, no_drawing, capsys, monkeypatch):
    (here / "p.toml").write_text(SMALL)
    assert main(["solve", "p.toml"]) == 0
    old = (here / "out" / "report.json").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    capsys.readouterr()
    assert main(["solve", "p.toml", "--max-iter", "3"]) == 2
    assert capsys.readouterr().err == "tiebreak: [Errno 28] No space left on device\n"
    assert names(here / "out") == OUT
    assert (here / "out" / "report.json").read_bytes() == old


def test_ctrl_c_outside_the_run_is_one_line(here, capsys, monkeypatch):
    def pressed(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_solve", pressed)
    assert main(["solve", "p.toml"]) == 130
    assert capsys.readouterr().err == "tiebreak: interrupted\n"


# -- the rest -------------------------------------------------------------------------------------


def test_methods_lists_every_method_with_all_it_says(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    said = " ".join(" ".join(lines).split())
    for method in tb.methods():
        assert method.name in lines
        for text in (method.assumptions, method.guarantee, method.paper):
            assert " ".join(text.split()) in said


def test_version_and_unknown_commands(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"tiebreak {tb.__version__}\n"
    for wrong in ([], ["slove"], ["solve"], ["solve", "p.toml", "--max-iter", "many"]):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(wrong)


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def test_python_m_tiebreak_passes_the_exit_code_on(tmp_path, count):
    (tmp_path / "p.toml").write_text(SMALL + STEPS)
    for arguments, code in ((["p.toml", "--max-iter", "1"], 1), (["q.toml"], 2))[: count(1, 2)]:
        done = run("-m", "tiebreak", "solve", *arguments, cwd=tmp_path)
        assert done.returncode == code
        assert "Traceback" not in done.stderr


# -- what once ended in a traceback ---------------------------------------------------------------

DIGITS = "1" + 400 * "0"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(tb.__file__).parents[1])}


def on(domain: str) -> str:
    return SMALL.partition("[domain]")[0] + "[domain]\n" + domain


@pytest.mark.parametrize(
    "text",
    [
        f"radius = {DIGITS}\n" + SMALL,
        SMALL + f"[solve]\nmax_time = {DIGITS}\n",
        SMALL + f"[solve]\nrtol = {DIGITS}\n",
        SMALL + f"[solve]\nx0 = [{DIGITS}]\n",
        on(f'kind = "Ball"\nradius = {DIGITS}\n'),
        on(f'kind = "Box"\nlower = -{DIGITS}\nupper = {DIGITS}\n'),
        on(f'kind = "Halfspace"\nnormal = [{DIGITS}, 1]\noffset = 1\n'),
        f'[lower]\nkind = "LeastSquares"\nA = [[{DIGITS}]]\nb = [1]\n[upper]\nkind = "SquaredNorm"\n',
        SMALL + "[output]\nx = " + 5000 * "[" + 5000 * "]" + "\n",
        SMALL + "[solve]\nx0 = " + 90 * "[" + 90 * "]" + "\n",
    ],
)  # fmt: skip
def test_numbers_and_nesting_beyond_all_bounds_get_one_sentence(here, capsys, text):
    (here / "p.toml").write_text(text)
    assert main(["solve", "p.toml"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("tiebreak: ")
    assert error.count("\n") == 1
    assert len(error) < 400
    assert not (here / "out").exists()


def test_as_many_steps_as_400_digits_can_say_are_no_error(here, capsys):
    (here / "p.toml").write_text(SMALL + f"[solve]\nmax_iter = {DIGITS}\n")
    assert main(["solve", "p.toml"]) == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", [["methods"], ["solve", "p.toml"]])
def test_a_reader_that_leaves_is_no_mistake_and_costs_no_files(here, command):
    (here / "p.toml").write_text(SMALL)
    with subprocess.Popen(
        [sys.executable, "-m", "tiebreak", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=here, env=ENVIRONMENT,
    ) as run:  # fmt: skip
        run.stdout.close()
        assert run.stderr.read() == b""
        assert run.wait() == 141


def test_a_reader_that_leaves_after_the_first_lines_still_gets_the_files(here):
    (here / "p.toml").write_text(SMALL)
    text = (
        "import sys; from tiebreak import cli, solve\n"
        "class Broken:\n"
        "    def __init__(self): self.count = 0\n"
        "    def write(self, text):\n"
        "        self.count += 1\n"
        "        if self.count > 8: raise BrokenPipeError\n"
        "    def flush(self): pass\n"
        "    def fileno(self): return 1\n"
        "sys.stdout = Broken()\n"
        "sys.exit(cli.main(['solve', 'p.toml']))\n"
    )
    run = subprocess.run([sys.executable, "-c", text], cwd=here, env=ENVIRONMENT, check=False,
                         capture_output=True)  # fmt: skip
    assert (run.returncode, run.stderr) == (141, b"")
    assert (here / "out" / "x.npy").exists()


@pytest.mark.parametrize("command", [["solve", "p.toml"], ["compare", "p.toml"]])
def test_out_is_made_before_the_work(here, capsys, monkeypatch, command):
    (here / "p.toml").write_text(SMALL)

    def work(*arguments, **options):
        assert (here / "deep" / "out").is_dir()
        raise ValueError("here the work would begin")

    monkeypatch.setattr(tb, "solve", work)
    monkeypatch.setattr(tb, "compare", work)
    assert main([*command, "--out", "deep/out"]) == 2
    assert "here the work would begin" in capsys.readouterr().err
    assert not (here / "deep").exists()  # and is taken back where there is nothing to write


@pytest.mark.parametrize("command", [["solve", "p.toml"], ["compare", "p.toml"]])
@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs a folder that nobody can write")
def test_an_out_that_cannot_be_made_is_said_before_the_work(here, capsys, monkeypatch, command):
    (here / "p.toml").write_text(SMALL)
    monkeypatch.setattr(tb, "solve", None)
    monkeypatch.setattr(tb, "compare", None)
    assert main([*command, "--out", "/proc/nowhere/out"]) == 2
    assert "the results need a writable folder, got /proc/nowhere/out" in (capsys.readouterr().err)


def test_html_writes_a_page_where_it_was_asked_for(here, no_drawing, capsys):
    (here / "p.toml").write_text(SMALL)
    assert main(["solve", "p.toml", "--html", "pages/run.html"]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f", {Path('pages/run.html')}")
    page = (here / "pages" / "run.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "certified" in page


def test_open_opens_the_page_in_the_browser(here, no_drawing, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    (here / "p.toml").write_text(SMALL)
    assert main(["solve", "p.toml", "--html", "run.html", "--open"]) == 0
    assert opened == [(here / "run.html").as_uri()]
    assert main(["solve", "p.toml", "--open"]) == 0
    assert opened[1].startswith("file:")


def test_a_page_that_cannot_be_written_is_refused_before_the_work(here, capsys):
    (here / "p.toml").write_text(SMALL)
    assert main(["solve", "p.toml", "--html", "."]) == 2
    assert main(["solve", "p.toml", "--html", "p.toml/run.html"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "tiebreak: --html must be a file, but . is a folder",
        "tiebreak: the results need a writable folder, got p.toml (File exists)",
    ]
    assert names(here) == ["p.toml"]


def test_compare_writes_a_page_too(here, capsys, monkeypatch):
    monkeypatch.setattr(tb.Comparison, "plot", lambda self, path: Path(path).touch())
    (here / "p.toml").write_text(SMALL)
    what = ["compare", "p.toml", "--methods", "agm-bio", "bi-sg", "--max-iter", "20"]
    assert main([*what, "--html", "race.html"]) == 0
    page = (here / "race.html").read_text(encoding="utf-8")
    assert "agm-bio" in page
    assert "bi-sg" in page
    assert capsys.readouterr().out.rstrip().endswith(", race.html")


def test_three_levels_are_solved_in_a_terminal_too(here, capsys, monkeypatch):
    """A line for each level, where somebody looks."""
    level = '[[level]]\nkind = "SquaredNorm"\ncenter = [1.0, 2.0]\n'
    (here / "p.toml").write_text(3 * level)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["solve", "p.toml"]) == 0
    assert "level 3 of 3, level 3: 0" in capsys.readouterr().err
