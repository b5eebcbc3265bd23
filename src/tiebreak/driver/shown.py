"""Show results of `solve` and `compare` in a browser or a notebook."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from tiebreak.display.page import notebook_html, open_page, write_page
from tiebreak.display.views import View


class Shown:
    """Objects that show themselves as a page (``to_html``, ``open``) or in a notebook."""

    def to_html(self, path: str | Path, title: str = "") -> Path:
        """Write curves, tables and the report to one HTML file.

        The page loads nothing from the network, so you can send it to a colleague. Long traces are
        thinned.

        Args:
            path: the .html file, written completely or not at all.
            title: the heading of the page; by default it says how the run ended.

        Returns:
            The path.
        """
        return write_page(self._view(), Path(path), title)

    def open(self) -> Path:
        """Write the page to a temporary file and open it in the browser; returns its path."""
        return open_page(self._view())

    def _repr_html_(self) -> str:
        """Return a table for notebooks, with a picture if matplotlib is installed; no scripts."""
        try:
            picture = self.plot()._repr_png_()
        except ImportError:
            picture = b""
        return notebook_html(self._view(), picture)

    @abstractmethod
    def plot(self, path: str | None = None) -> Any:
        """Return the matplotlib figure, and save it to ``path`` if one is given."""

    @abstractmethod
    def _view(self) -> View:
        """Return what to show."""
