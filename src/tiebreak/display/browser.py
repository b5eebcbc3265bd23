"""Files in the browser of this computer."""

from __future__ import annotations

import warnings
import webbrowser
from pathlib import Path


def open_in_browser(path: Path) -> None:
    """Open a file in the browser; where there is none, a warning says where the file is."""
    if not webbrowser.open(path.resolve().as_uri()):
        warnings.warn(f"no browser could be opened; the file is {path}", stacklevel=3)
