"""Assembles the documentation site in build/docs, for a generator that reads Markdown.

    python docs/site.py [--no-gallery]

The pages of docs/ are written for GitHub. Here they get the links of the site, formulas as MathML
(so that no page needs the network), the gallery, whose examples run once for each version of them
and of the library, and the reference: one page for each group of public names.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import reference
import yaml
from gallery import version
from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
SITE = BUILD / "docs"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\](?:\([^)]*\))?)*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
UNDER = re.compile(r"(\\(?:min|max|operatorname\*?\{\w+\}))_(\{[^{}]*\}|\w)")
FORMULA = re.compile(r"^\$\$(.*?)\$\$$", re.DOTALL | re.MULTILINE)


def sources() -> dict[Path, str]:
    """The files of the repository that have a place in the site, and that place."""
    docs = ROOT / "docs"
    kinds = ("*.md", "*.png", "*.svg")
    places = {
        path: path.relative_to(docs).as_posix() for kind in kinds for path in docs.rglob(kind)
    }
    places |= {ROOT / name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
    places |= {ROOT / "README.md": "index.md", docs / "README.md": "contents.md"}
    places[docs / "gallery.md"] = "gallery/index.md"  # the one with pictures takes its place
    examples = (ROOT / "examples").glob("plot_*.py")
    return places | {path: f"gallery/{path.stem.removeprefix('plot_')}.md" for path in examples}


def linked(text: str, page: Path, places: dict[Path, str]) -> str:
    """The text of a page with the site's links; what is not in the site becomes plain code."""
    up = "../" * places[page].count("/")

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        words = LINK.sub(link, words)
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve()
        if "://" in target or not path or not aim.exists():  # the last is for the generator to see
            return f"{mark}[{words}]({target})"
        if aim not in places:
            is_code = "/" in words or words.endswith((".py", ".cff"))
            return f"`{words}`" if is_code and "`" not in words else words
        # GitHub keeps two hyphens where a sign between two spaces fell away.
        return f"{mark}[{words}]({up}{places[aim]}{'#' * bool(anchor)}{re.sub('-+', '-', anchor)})"

    return LINK.sub(link, text)


def formula(match: re.Match[str]) -> str:
    """A displayed formula as MathML, which browsers show without a script."""
    text = UNDER.sub(r"\\underset{\2}{\1}", match[1].strip())
    return f'<div class="formula">{convert(text, display="block")}</div>'


def converted(page: Path, places: dict[Path, str]) -> str:
    """The text of a page of the repository as the site has it."""
    parts = FENCE.split(page.read_text(encoding="utf-8"))
    for i in range(0, len(parts), 2):  # between the blocks of code
        parts[i] = FORMULA.sub(formula, linked(parts[i], page, places))
    return "".join(parts)


def gallery() -> None:
    """The pages of the examples; where neither one nor the library has changed, it is kept."""
    out, rows = SITE / "gallery", list[str]()
    for path in sorted((ROOT / "examples").glob("plot_*.py")):
        kept = BUILD / "gallery" / f"{path.stem}-{version(path)}"
        if not kept.exists():
            for old in kept.parent.glob(f"{path.stem}-*"):
                shutil.rmtree(old)
            name, fresh = path.stem.removeprefix("plot_"), kept.with_suffix(".part")
            shutil.rmtree(fresh, ignore_errors=True)
            command = [sys.executable, "docs/gallery.py", str(fresh), name]
            subprocess.run(command, check=True, cwd=ROOT)
            fresh.rename(kept)
        shutil.copytree(kept, out, dirs_exist_ok=True)
        *head, row = (kept / "index.md").read_text(encoding="utf-8").splitlines()
        rows += [row] if rows else [*head, row]
    if rows:
        (out / "index.md").write_text("\n".join([*rows, ""]), encoding="utf-8")


def navigation(entry: Any) -> list[Any]:
    """An entry of the navigation with the pages that are there; a star stands for the others."""
    title, aim = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
    if isinstance(aim, list):
        inner = [page for part in aim for page in navigation(part)]
        return [{title: inner}] if inner else []
    found = sorted(SITE.glob(aim))
    found = [path for path in found if "*" not in aim or path.name != "index.md"]
    pages = [path.relative_to(SITE).as_posix() for path in found]
    return [{title: page} if title else page for page in pages]


def main() -> None:
    """Write build/docs and build/mkdocs.yml."""
    shutil.rmtree(SITE, ignore_errors=True)
    places = sources()
    has_gallery = "--no-gallery" not in sys.argv and (ROOT / "docs" / "gallery.py").exists()
    if not has_gallery:
        places = {path: place for path, place in places.items() if path.suffix != ".py"}
    for path, place in places.items():
        (SITE / place).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            (SITE / place).write_text(converted(path, places), encoding="utf-8")
        elif path.suffix != ".py":
            shutil.copy(path, SITE / place)
    shutil.copy(ROOT / "docs" / "site.css", SITE)
    if has_gallery:
        gallery()
    reference.write(SITE / "api")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["nav"] = [page for entry in settings["nav"] for page in navigation(entry)]
    (BUILD / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    main()
