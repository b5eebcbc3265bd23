"""The README's example prints what the README says it prints."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def blocks(language: str) -> list[str]:
    text = README.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [body for name, body in found if name == language]


def test_the_examples_print_their_output():
    names: dict[str, object] = {}
    reports = [block for block in blocks("") if block.startswith("tiebreak:")]
    for code, said in zip(blocks("python"), reports, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        agree(said, printed.getvalue())


def agree(said: str, printed: str) -> None:
    for expected, got in zip(said.strip().splitlines(), printed.splitlines(), strict=True):
        expected, got = (re.sub(r"[\d.e-]+ s:", "T s:", line) for line in (expected, got))
        assert NUMBER.sub("#", expected) == NUMBER.sub("#", got)
        for a, b in zip(NUMBER.findall(expected), NUMBER.findall(got), strict=True):
            # Another BLAS rounds otherwise; what lies below 1e-7 is nothing but rounding.
            assert float(b) == pytest.approx(float(a), rel=0.02, abs=1e-7)


def test_the_example_has_at_most_twelve_lines_of_code():
    lines = [line for line in blocks("python")[0].splitlines() if line.strip()]
    assert len(lines) <= 12
