"""A result in the browser and in a notebook, for everything that `solve` and `compare` return."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from tiebreak.display.page import notebook_html, open_page, write_page
from tiebreak.display.views import View


class Shown:
    """Shown as a page (``to_html``, ``open``) and as the output of a notebook's cell."""

    def to_html(self, path: str | Path, title: str = "") -> Path:
        """Write a page for the browser: curves, tables and the report, in one file.

        It loads nothing and needs no network: send it to a colleague. Long traces are thinned.

        Args:
            path: the .html file, written whole or not at all.
            title: the heading of the page; how the run ended if empty.

        Returns:
            The path.
        """
        return write_page(self._view(), Path(path), title)

    def open(self) -> Path:
        """Write the page to a temporary file and open it in the browser; returns its path."""
        return open_page(self._view())

    def _repr_html_(self) -> str:
        """For notebooks: the table and a picture, without script."""
        return notebook_html(self._view())

    @abstractmethod
    def _view(self) -> View:
        """What is to be seen."""
