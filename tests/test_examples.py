"""The examples of the gallery run without a warning, and end in assertions and a picture."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

plt = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib: pip install '.[plot]'")
pytest.importorskip("sklearn", reason="needs scikit-learn: pip install '.[sklearn]'")

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
QUICK = ("plot_last_months_coefficients", "plot_dispatch_priorities", "plot_sparsest_signal")
every_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)

spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
assert spec
assert spec.loader
gallery = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gallery)


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    plt.close("all")


def test_the_quick_ones_are_there():
    assert set(QUICK) <= {path.stem for path in EXAMPLES}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.full)
        for path in EXAMPLES
    ],
)
def test_the_example_holds_what_it_claims(path):
    try:
        cells = list(gallery.run(path))
    except SystemExit as end:
        if not str(end).startswith("skipped: "):
            raise
        pytest.skip(str(end))
    printed = "\n".join(cell.printed for cell in cells)
    assert max(map(len, printed.splitlines()), default=0) <= gallery.WIDTH
    figures = [figure for cell in cells for figure in cell.figures]
    assert figures, "no picture"
    for figure in figures:
        figure.canvas.draw()
        assert any(figure.get_suptitle() or ax.get_title() for ax in figure.axes), "no finding"
        for text in figure.findobj(plt.Text):
            if text.get_visible() and text.get_text().strip():
                assert text.get_fontsize() >= 9, f"too small: {text.get_text()}"


def is_claim(node: ast.Assert) -> bool:
    """Can it fail: is something compared or asked that the example has computed?"""
    return any(isinstance(part, ast.Name) for part in ast.walk(node.test))


@every_example
def test_the_example_has_a_job_a_claim_and_a_picture(path):
    assert path.stem.startswith("plot_")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, text, cells = gallery.parts(path)
    assert len(title) <= 80
    assert len(text) >= 100
    assert len(cells) >= 2
    claims = [node for node in ast.walk(tree) if isinstance(node, ast.Assert) and is_claim(node)]
    assert claims
    assert ast.unparse(tree.body[-1]) == "plt.show()"


def written(folder: Path, code: str) -> Path:
    (folder / "plot_one.py").write_text(f'"""A title\n\nA job.  More."""\n\n# %%\n{code}\n')
    return folder / "plot_one.py"


def test_a_page_has_prose_code_output_and_pictures(tmp_path):
    code = "# Some *prose*,\n# two lines.\n\nimport matplotlib.pyplot as plt\n"
    code += 'plt.title("found")\nprint("tiebreak: solved after 3 steps, 0.12 s: done")\nplt.show()'
    out = tmp_path / "out"
    (out / "small").mkdir(parents=True)
    row = gallery.page(written(tmp_path, code), out)
    page = (out / "one.md").read_text(encoding="utf-8")
    assert page.startswith("# A title\n\nA job.")
    assert "\n\nSome *prose*,\ntwo lines.\n\n<details" in page  # code that only draws is folded
    assert "```python\nimport" in page
    assert "```text\ntiebreak: solved after 3 steps, … s: done\n```" in page
    assert "![found](one.png)" in page
    assert "**[A title](one.md)**<br>A job. |" in row
    assert {path.name for path in out.rglob("*.png")} == {"one.png"}
    assert (out / "plot_one.py").is_file()


def test_a_page_says_why_it_was_not_run(tmp_path):
    path = written(tmp_path, 'raise SystemExit("skipped: needs a GPU")\n\n# %%\nplt.show()')
    (tmp_path / "out" / "small").mkdir(parents=True)
    row = gallery.page(path, tmp_path / "out")
    page = (tmp_path / "out" / "one.md").read_text(encoding="utf-8")
    assert "*Not run here: needs a GPU.*" in page
    assert "plt.show()" in page
    assert "not run here" in row


def test_an_error_is_not_swallowed_and_has_its_line(tmp_path):
    path = written(tmp_path, "# Prose.\n\nassert 1 > 2")
    with pytest.raises(AssertionError) as failed:
        list(gallery.run(path))
    lines = path.read_text().splitlines()
    assert lines[failed.traceback[-1].lineno] == "assert 1 > 2"
    with pytest.raises(SystemExit, match="wrong"):
        gallery.page(written(tmp_path, 'raise SystemExit("wrong")'), tmp_path)


def test_a_page_is_made_anew_when_the_example_or_the_library_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(gallery, "LIBRARY", tmp_path / "src")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    example, module = tmp_path / "plot_a.py", tmp_path / "src" / "deep" / "b.py"
    example.write_text("1")
    module.write_text("2")
    seen = {gallery.version(example)}
    assert gallery.version(example) in seen
    for path in (module, example, module.with_name("c.py")):
        path.write_text("3")
        assert gallery.version(example) not in seen
        seen.add(gallery.version(example))
