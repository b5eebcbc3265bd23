"""Writes tables of development/map.md, methods-table.md, race, statuses, gallery: `make docs`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import gallery

from tiebreak.driver import glossary
from tiebreak.driver.registry import METHODS
from tiebreak.experiments.field import RULES as FAIRNESS

HERE = Path(__file__).parent
MAP = HERE / "development" / "map.md"
SOURCE = HERE.parent / "src" / "tiebreak"
WORDS = "<!-- words: `make docs` writes the rest from driver/glossary.py -->"
RULES = re.compile(r"(<!-- rules -->\n).*?(<!-- end -->)", re.DOTALL)
FACTS = re.compile(r"(<!-- methods -->\n).*?(<!-- end -->)", re.DOTALL)
PLACE = re.compile(r"(<!-- modules of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(said.split("\n\n")[0].split())
    return (
        re.split(r"(?<=[.?!])\s", line)[0]
        .replace("``", "`")
        .replace("|", "\\|")
        .replace("<", "\\<")
    )


def table(folder: Path) -> str:
    """One row for each module of a package, those of its folders included."""
    paths = sorted(folder.rglob("*.py")) if folder != SOURCE else sorted(folder.glob("*.py"))
    names = [path.relative_to(SOURCE).as_posix() for path in paths]
    rows = [
        f"| [{name}](../../src/tiebreak/{name}) | {first_sentence(path)} |"
        for name, path in zip(names, paths, strict=True)
        if not path.name.startswith("__")
    ]
    return "\n".join(["| module | holds |", "|---|---|", *rows]) + "\n"


def methods(page: str) -> str:
    """The page of the methods with its table, made from the facts that each class declares."""
    header = ("name", "paper", "assumptions", "guarantee", "published rates", "answer")
    rows = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for kind in METHODS.values():
        path = Path(inspect.getfile(kind)).relative_to(SOURCE).as_posix()
        own = ", ".join(field.name for field in dataclasses.fields(kind))
        name = f'[`"{kind.name}"`](../../src/tiebreak/{path}) `{kind.__name__}({own})`'
        rates = "; ".join(map(str, kind.rates))
        facts = (kind.paper, kind.assumptions, kind.guarantee, rates, kind.output)
        shown = [text.replace("*", "\\*").replace("|", "\\|") for text in facts]
        rows.append(f"| {' | '.join([name, *shown])} |")
    return FACTS.sub(lambda place: f"{place[1]}\n{chr(10).join(rows)}\n\n{place[2]}", page)


def examples() -> str:
    """The page of the examples, each with its first sentence."""
    rows = [
        "# Gallery",
        "",
        "Each example is a program that solves one task, draws a picture and checks its claims.",
        "The `make docs` command runs all examples.",
        "",
    ]
    rows += ["| example | the task |", "|---|---|"]
    for path in sorted(gallery.EXAMPLES.glob("plot_*.py")):
        title, text, _ = gallery.parts(path)
        job = re.split(r"(?<=[.?!])\s", " ".join(text.split()), maxsplit=1)[0].replace("|", "\\|")
        rows.append(f"| [{title}](../examples/{path.name}) | {job} |")
    return "\n".join([*rows, ""])


def main() -> None:
    """Rewrite the map in place, the tables of words, and the list of examples."""
    page = MAP.read_text(encoding="utf-8")

    def filled(place: re.Match[str]) -> str:
        folder = SOURCE if place[2] == "tiebreak" else SOURCE / place[2]
        return f"{place[1]}\n{table(folder)}\n{place[3]}"

    MAP.write_text(PLACE.sub(filled, page), encoding="utf-8")
    facts = HERE / "development" / "methods-table.md"
    facts.write_text(methods(facts.read_text(encoding="utf-8")), encoding="utf-8")
    race = HERE / "race.md"
    rules = "\n".join(
        f"- **{name}**: {text.replace('*', chr(92) + '*')}" for name, text in FAIRNESS
    )
    page = race.read_text(encoding="utf-8")
    filled_in = RULES.sub(lambda place: f"{place[1]}\n{rules}\n\n{place[2]}", page)
    race.write_text(filled_in, encoding="utf-8")
    statuses = HERE / "statuses.md"
    prose = statuses.read_text(encoding="utf-8").split(WORDS)[0]
    statuses.write_text(f"{prose}{WORDS}\n\n{glossary.tables()}", encoding="utf-8")
    (HERE / "gallery.md").write_text(examples(), encoding="utf-8")


if __name__ == "__main__":
    main()
