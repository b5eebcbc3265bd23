"""Runs the examples and writes a page of Markdown for each, with what it prints and draws.

    python docs/gallery.py OUT [names...]

An example is `examples/plot_NAME.py`: a docstring (title, and the job in a paragraph), then cells
that begin with `# %%`, each with prose in comments and code. OUT gets NAME.md, its pictures, the
example itself to download, and index.md with all of them. One that cannot run on this machine ends
with `SystemExit("skipped: reason")`, and its page says so; any other error ends the gallery.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, LIBRARY = ROOT / "examples", ROOT / "src"
WIDTH = 110  # characters in a line of output
SECONDS = re.compile(r"^(tiebreak: .*?)[\d.e+-]+ s\b", re.MULTILINE)  # differ from run to run


class Cell(NamedTuple):
    """A part of an example, and what running it printed and drew."""

    prose: str
    code: str
    printed: str = ""
    figures: tuple[Any, ...] = ()


def version(example: Path) -> str:
    """Changes with all that the page of an example is made of: itself, this file, the library."""
    found = hashlib.sha256()
    for path in (example, Path(__file__), *sorted(LIBRARY.rglob("*.py"))):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def parts(path: Path) -> tuple[str, str, list[tuple[int, str, str]]]:
    """The title, the text below it, and line, prose and code of every cell."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    line, cells = (tree.body[0].end_lineno or 1) + 1, []
    for cell in re.split(r"^(?=# %%)", "".join(source.splitlines(True)[line - 1 :]), flags=re.M):
        head = re.match(r"(?:# %%.*\n((?:#.*\n)*))?", cell)
        assert head
        prose = re.sub(r"^# ?", "", head[1] or "", flags=re.MULTILINE)
        cells.append((line + head[0].count("\n"), prose.strip(), cell[head.end() :]))
        line += cell.count("\n")
    return title.strip().rstrip("."), text.strip(), cells


def run(path: Path) -> Iterator[Cell]:
    """The cells of an example, each with what it prints and draws; the figures stay open."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    plt.close("all")
    for line, prose, code in parts(path)[2]:
        printed, before = io.StringIO(), plt.get_fignums()
        compiled = compile("\n" * (line - 1) + code, str(path), "exec")  # tracebacks have the line
        with contextlib.redirect_stdout(printed), mock.patch.object(plt, "show"):
            exec(compiled, names)
        figures = tuple(plt.figure(n) for n in plt.get_fignums() if n not in before)
        output = SECONDS.sub(r"\1… s", printed.getvalue()).strip("\n")
        output = "\n".join(map(wrapped, output.splitlines()))
        yield Cell(prose, code.strip(), output, figures)


def wrapped(line: str) -> str:
    """The line as it is, or broken like the notes of a report: pages do not scroll sideways."""
    return line if len(line) <= WIDTH else textwrap.fill(line, WIDTH, subsequent_indent=" " * 9)


def saved(figure: Any, path: Path) -> str:
    """A link to the picture, with its titles for those who cannot see it; saves it."""
    figure.savefig(path, dpi=140)
    figure.savefig(path.parent / "small" / path.name, dpi=45)
    titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    return f"![{' '.join(' '.join(titles).split())}]({path.name})"


def shown(cell: Cell) -> str:
    """The code of a cell; folded where it only draws."""
    code = f"```python\n{cell.code}\n```"
    if not cell.figures or "tb." in cell.code:
        return code
    head = '<details markdown="1">\n<summary>How the picture is drawn</summary>'
    return f"{head}\n\n{code}\n\n</details>"


def page(path: Path, out: Path) -> str:
    """Write the page of an example, and its pictures; its row in the index."""
    name, (title, text, cells) = path.stem.removeprefix("plot_"), parts(path)
    blocks, pictures = [f"# {title}", text], list[str]()
    try:
        for cell in run(path):
            blocks += [cell.prose] if cell.prose else []
            blocks += [shown(cell)] if cell.code else []
            blocks += [f"```text\n{cell.printed}\n```"] if cell.printed else []
            for figure in cell.figures:
                pictures.append(f"{name}{len(pictures) + 1 if pictures else ''}.png")
                blocks.append(saved(figure, out / pictures[-1]))
    except SystemExit as end:
        if not str(end).startswith("skipped: "):
            raise
        blocks = [*blocks[:2], f"*Not run here: {str(end).removeprefix('skipped: ')}.*"]
        blocks += [f"{prose}\n\n```python\n{code.strip()}\n```" for _, prose, code in cells]
    shutil.copy(path, out)
    blocks.append(f"The whole example: [{path.name}]({path.name})\n")
    (out / f"{name}.md").write_text("\n\n".join(blocks), encoding="utf-8")
    picture = f"[![{title}](small/{pictures[-1]})]({name}.md)" if pictures else "*not run here*"
    sentence = re.split(r"(?<=[.?!])\s", " ".join(text.split()), maxsplit=1)[0]
    return f"| {picture} | **[{title}]({name}.md)**<br>{sentence} |"


def main(out: Path, names: list[str]) -> None:
    """Run the named examples, or all of them, and write their pages."""
    (out / "small").mkdir(parents=True, exist_ok=True)
    rows = ["# Gallery", "", "Worked examples, one per task.", ""]
    rows += ["| | |", "|---|---|"]
    for name in names or sorted(p.stem.removeprefix("plot_") for p in EXAMPLES.glob("plot_*.py")):
        print(name, flush=True)
        rows.append(page(EXAMPLES / f"plot_{name}.py", out))
    (out / "index.md").write_text("\n".join([*rows, ""]), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: python docs/gallery.py OUT [names...]")
    main(Path(sys.argv[1]), sys.argv[2:])
