"""Phrases that must not return to what people read: pages, messages, docstrings and comments."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]

GONE = [  # a regular expression, and what to write instead
    r"as well as it goes",  # in the least-squares sense
    r"\byour word\b",  # user-supplied, not verified
    r"no theorem speaks",  # no convergence theorem applies
    r"\bdear\b",  # expensive
    r"by its looks",  # obviously
    r"belongs? into",  # put ... in
    r"such that are",  # those that are
    r"so long until",  # wait this many times ... before
    r"by this the penalty is",  # factor by which the penalty shrinks
    r"\bfor ever\b",  # decreases forever
    r"falls? without end",  # decreases forever; is unbounded below
    r"runs after an infimum",  # is chasing an infimum that is not attained
    r"^The same(?: of| with| for| by| as| in| where| from| on| at|[.,;:])",  # name the noun
    r"the same of",  # name the noun
    r"^Of (?:the|all|a|every|each|what|some|which|those) ",  # The length of the ...; among
    r"\b(?:is|are) none of\b",  # is not one of; has no part in
    r"hands? (?:it |them )?over\b",  # supplies, returns
    r" anew\b",  # again; a new ...
    r"\bunasked\b",  # by default
    r"\bsurely\b",  # certainly
    r"as a rule",  # usually
    r"\bnobody\b",  # no method; not ... by anything
    r"(?<!=)None where ",  # None if
    r"\binf where ",  # inf if
    r"ValueError where ",  # ValueError if
    r"where there (?:is|are) none",  # if there is none
    r"where (?:it|that) is not known",  # if it is not known
    r", for (?:it|there|no|nothing|all|these|they) (?:is|are|has|have|would|can|may)\b",  # because
    r"by so much",  # by ``change``; by this amount
    r"as much again",  # the same work
    r"not to be had",  # not available
    r"has not ``",  # does not have
    r"in the making",  # under construction
    r"beyond all doubt",  # certainly
    r"what is no ",  # what is not a
    r"known of ",  # known about
    r"says? of ",  # says about
    r"not quite (?:optimal|feasible) below",  # slightly suboptimal for g
    r"\bstand-in\b",  # substitute
    r"the most (?:steps|seconds)",  # the maximum number of steps
]


def prose(sentences):
    """Everything that people read, by file, on one line each."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        yield path, " ".join(path.read_text(encoding="utf-8").split())
    for path in sorted((ROOT / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found = [*sentences.strings(sentences.ast.parse(text)), *sentences.comments(text)]
        yield path, "\n".join(" ".join(said.split()) for _, said in found)


def test_phrases_that_read_as_translated_do_not_return():
    spec = importlib.util.spec_from_file_location("sentences", ROOT / "docs" / "sentences.py")
    sentences = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sentences)
    gone = re.compile("|".join(GONE), re.IGNORECASE | re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}: ...{text[max(0, match.start() - 30) : match.end() + 30]}..."
        for path, text in prose(sentences)
        for match in gone.finditer(text)
    ]
    assert not found, "\n".join(found)
