"""Checks the built site: every link leads somewhere, nothing comes from elsewhere, all is found.

python docs/dead_links.py build/site
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from reference import GROUPS

SOUGHT = ("ridgeless", "minimum norm", "unbounded", "sparse")


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.anchors, self.links, self.loads = path, set[str](), list[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag names or needs."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if "href" in found:
            (self.loads if tag == "link" else self.links).append(found["href"])
        if "src" in found:
            self.loads.append(found["src"])


def problems(site: Path) -> list[str]:
    """One line for every link that leads nowhere and every file from another place."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html") if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        for target in [*page.links, *page.loads]:
            url = urlsplit(target)
            if url.scheme or url.netloc:
                found += [f"{path}: loads {target}"] if target in page.loads else []
                continue
            aim = (path.parent / unquote(url.path)).resolve() if url.path else path
            aim = aim / "index.html" if aim.is_dir() else aim
            if not aim.is_file():
                found.append(f"{path}: nothing at {target}")
            elif url.fragment and aim in pages and unquote(url.fragment) not in pages[aim].anchors:
                found.append(f"{path}: no anchor {target}")
    anchors = set().union(*(page.anchors for page in pages.values()))
    names = {name for group in GROUPS for name in group.names}
    found += [f"{name}: not in the reference" for name in sorted(names - anchors)]
    index = next(site.rglob("search*.json")).read_text(encoding="utf-8")
    return found + [
        f"{words}: the search does not know it" for words in SOUGHT if words not in index
    ]


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join([*wrong, f"{sys.argv[1]}: {len(wrong)} dead links"]))
    sys.exit(bool(wrong))
