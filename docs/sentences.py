"""Draws sentences for a reader to judge: `python docs/sentences.py --seed 1`.

One list comes from the prose of docs/ (no code, tables or generated parts), the other from the
strings, docstrings and comments of src/. The same seed and the same files give the same sentences.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CODE = re.compile(  # fences, indented code, generated tables, comments, tables, formulas
    r"```.*?```|^ {4,}\S.*?$|<!-- words:.*|<!--.*?<!-- end -->|<!--.*?-->|^\|.*?$|^\$\$.*?\$\$",
    re.DOTALL | re.MULTILINE,
)
DOCTEST = re.compile(r">>> .*?(?=\n\s*\n|\Z)", re.DOTALL)
TAG = re.compile(r"</?[a-z]+(?: [a-z]+=[^>]*)?/?>")
CUT = "\0"
END = re.compile(
    r"(?<=[.?!])(?P<closing>[\")*]*)\s+(?=[\"(*`A-Z0-9])|\n\s*\n"
    r"|\n(?=\s*(?:[-#>]|\d+\.)\s| {4,}\w+ ?:\s)|(?:Args|Returns|Raises|Examples):|\0"
)
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf|no|p)\.$")
MARK = re.compile(r"^(?:[-#>*]|\d+\.)+\s+")
FEWEST_WORDS = 4


class Sentence(NamedTuple):
    """A sentence and where it stands, as file:line."""

    place: str
    text: str


def sentences(path: Path, line: int, text: str) -> Iterator[Sentence]:
    """The sentences of a text that starts at this line of a file."""
    ends = [(max(end.start(), end.end("closing")), end.end()) for end in END.finditer(text)]
    start = 0
    for stop, following in [*ends, (len(text), len(text))]:
        piece = text[start:stop]
        if ABBREVIATION.search(piece):
            continue
        words = MARK.sub("", " ".join(piece.split()))
        if len(re.findall(r"\b[A-Za-z]{2,}\b", words)) >= FEWEST_WORDS:
            skipped = start + len(piece) - len(piece.lstrip())
            place = f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, skipped)}"
            yield Sentence(place, words)
        start = following


def prose(text: str) -> str:
    """A text without its code: the line breaks stay, so that lines keep their numbers."""
    return CODE.sub(lambda cut: CUT + "\n" * cut[0].count("\n"), text)


def from_pages() -> Iterator[Sentence]:
    """The prose of docs/."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield from sentences(path, 1, prose(path.read_text(encoding="utf-8")))


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Each comment with its line; whole lines of comments are one, others follow their code."""
    last, line, words = -1, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not re.match(r"# (noqa|type:|fmt:)", token.string):
            said, (row, column) = token.string.strip("#- "), token.start
            code = token.line[:column].strip()
            if row == last + 1 and not code:
                words += "\n" + said
            else:
                yield line, words
                line, words = row, f"{code}  # {said}" if code else said
            last = -1 if code else row
    yield line, words


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings and strings; what an f-string fills in is shown as {...}."""
    inside = set[ast.AST]()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            filled = (getattr(part, "value", "") for part in node.values)
            yield node.lineno, "".join(p if isinstance(p, str) else "{...}" for p in filled)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inside:
            yield node.lineno, node.value


def from_sources() -> Iterator[Sentence]:
    """What the modules say to people: strings, docstrings and comments."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for line, said in [*strings(ast.parse(text)), *comments(text)]:
            yield from sentences(path, line, TAG.sub(CUT, DOCTEST.sub("", said)))


def main() -> None:
    """Print both lists, numbered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="which sentences are drawn")
    parser.add_argument("--count", type=int, default=150, help="how many of each list")
    given = parser.parse_args()
    for title, found in (("docs/", from_pages()), ("src/", from_sources())):
        every = list(found)
        drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
        print(f"\n{len(drawn)} of the {len(every)} sentences of {title}\n")
        for number, sentence in enumerate(sorted(drawn), 1):
            print(f"{number:4}. {sentence.text}  [{sentence.place}]")


if __name__ == "__main__":
    main()
