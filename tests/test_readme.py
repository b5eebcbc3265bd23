"""What the README and the pages of docs/ show is so: reports, examples, commands, links, names."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.sources import parsed

from tiebreak import cli
from tiebreak.driver.registry import METHODS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = (README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
every_page = pytest.mark.parametrize(
    "page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES]
)


def all_blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of every block of code."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def blocks(language: str, page: Path = README) -> list[str]:
    return [body for name, body in all_blocks(page) if name == language]


# --- examples ------------------------------------------------------------------------------------


def run_examples(page: Path) -> None:
    """Run the Python blocks of a page in their order; where a report follows, it is compared."""
    names: dict[str, object] = {}
    found = all_blocks(page)
    for (language, code), (kind, after) in zip(found, [*found[1:], ("", "")], strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page.name, "exec", dont_inherit=True), names)
        if after.startswith(("tiebreak:", "TieBreak")) or (page == README and not kind):
            agree(after, printed.getvalue())


def test_the_examples_print_their_output():
    assert len(blocks("python")) >= 1
    run_examples(README)


def agree(said: str, printed: str) -> None:
    for expected, got in zip(said.strip().splitlines(), printed.splitlines(), strict=True):
        expected, got = (re.sub(r"[\d.e-]+ s:", "T s:", line) for line in (expected, got))
        # A column is as wide as its numbers, which another BLAS rounds otherwise.
        assert NUMBER.sub("#", expected).split() == NUMBER.sub("#", got).split()
        for a, b in zip(NUMBER.findall(expected), NUMBER.findall(got), strict=True):
            # What lies below 1e-7 is nothing but rounding.
            assert float(b) == pytest.approx(float(a), rel=0.02, abs=1e-7)


@pytest.mark.full
@pytest.mark.parametrize(
    "page", [p for p in PAGES[2:] if blocks("python", p) and p.name != "cluster.md"], ids=str
)  # those of CONTRIBUTING.md: contracts/test_recipes.py; of cluster.md: distributed/
def test_the_examples_of_the_docs_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(page)


def test_the_example_has_at_most_twelve_lines_of_code():
    lines = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(lines) <= 12


def test_the_readme_is_read_in_three_minutes():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


# --- commands, links, names ----------------------------------------------------------------------


@every_page
def test_every_command_exists(page):
    text = page.read_text(encoding="utf-8")
    shell = "\n".join([*blocks("", page), *re.findall(r"`([^`\n]+)`", text)])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", shell, re.MULTILINE)) <= targets
    for script in re.findall(r"python ((?:benchmarks|docs)/\S+?\.py)", text):
        assert (ROOT / script).is_file(), script
    for tests in re.findall(r"(?:pytest |`)(tests/[^`]*)", text):
        for path in tests.split():
            assert path.startswith("-") or (ROOT / path).exists(), path
    for command in set(re.findall(r"^tiebreak ([a-z]+)", shell, re.MULTILINE)):
        with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(io.StringIO()):
            cli.main([command, "--help"])
        assert end.value.code == 0, command


@every_page
def test_every_link_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        assert aim.exists(), target
        if anchor:
            assert anchor in {slug(title) for title in titles(aim)}, target


def test_every_page_is_in_the_navigation_of_the_site():
    """A star in mkdocs.yml stands for what `make docs` writes itself."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    others = {"README.md": ": contents.md", "gallery.md": " gallery/index.md"}
    for page in PAGES[1:]:
        place = page.relative_to(ROOT).as_posix().removeprefix("docs/")
        assert f"{others.get(page.name, f': {place}')}\n" in listed, place


def titles(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def slug(title: str) -> str:
    """The anchor that GitHub makes of a title."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


@every_page
def test_every_name_of_the_code_exists(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(tiebreak(?:\.\w+)+)`", text):
        assert resolved(name) is not None, name
    for name, module in re.findall(r"`([\w.]+)` in `(tiebreak[\w.]+)`", text):
        assert resolved(f"{module}.{name}") is not None, (name, module)
    for name in re.findall(r"`tb\.(\w+)", text):
        assert resolved(f"tiebreak.{name}") is not None, name


def resolved(name: str) -> Any:
    """The module or the member of that dotted name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


def test_the_gallery_names_every_example():
    """`make docs` writes the list."""
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    found = {path.name for path in (ROOT / "examples").glob("plot_*.py")}
    assert set(re.findall(r"\(\.\./examples/(\w+\.py)\)", text)) == found, "run `make docs`"


def test_the_map_names_every_module_with_its_first_sentence():
    """`make docs` writes the tables."""
    text = (ROOT / "docs" / "development" / "map.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "tiebreak"
    for path in source.rglob("*.py"):
        if path.name not in ("__init__.py", "__main__.py"):
            said = ast.get_docstring(parsed(path))
            assert said, path
            name = path.relative_to(source).as_posix()
            assert f"[{name}](../../src/tiebreak/{name})" in text, f"{name}: run `make docs`"


def test_the_page_of_the_methods_has_the_facts_of_all():
    """`make docs` writes the table."""
    text = (ROOT / "docs" / "development" / "methods-table.md").read_text(encoding="utf-8")
    ours = [kind for kind in METHODS.values() if kind.__module__.startswith("tiebreak.")]
    for method in ours:
        row = next(line for line in text.splitlines() if line.startswith(f'| [`"{method.name}"`]'))
        said = row.replace("\\", "")
        for fact in (method.paper, method.assumptions, *map(str, method.rates), method.output):
            assert fact in said, f"{method.name}: run `make docs`"
