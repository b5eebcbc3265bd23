"""A matplotlib figure that shows itself, in a notebook or (from a script) in the browser."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tiebreak.display.page import open_in_browser


class ShownFigure(Figure):
    """A figure made without pyplot, so that it does not stay in memory and is not drawn twice.

    IPython draws only pyplot figures, so this figure renders itself for the output of a cell.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=110)
        return file.getvalue()

    def show(self, warn: bool = True) -> None:
        """Open the figure as a temporary .png file in the browser."""
        with tempfile.NamedTemporaryFile(prefix="tiebreak-", suffix=".png", delete=False) as file:
            self.savefig(file, format="png", dpi=150)
        open_in_browser(Path(file.name))
