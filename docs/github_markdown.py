"""Markdown as GitHub reads it: `<c, x>` is an inner product, not a tag."""

from __future__ import annotations

from markdown import Extension, Markdown
from markdown.inlinepatterns import HtmlInlineProcessor

ATTRIBUTE = r"\s+[a-zA-Z_:][\w:.-]*(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'))?"
TAG = rf"(</?[a-zA-Z][a-zA-Z0-9-]*(?:{ATTRIBUTE})*\s*/?>|<!--(?:(?!<!--|-->).)*-->)"


class GitHubMarkdown(Extension):
    """Only what is a tag by the rules of HTML is one."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Replace the pattern of tags."""
        md.inlinePatterns.register(HtmlInlineProcessor(TAG, md), "html", 90)


def makeExtension(**settings: object) -> GitHubMarkdown:
    """What Markdown asks for."""
    return GitHubMarkdown(**settings)
