"""Draws docs/demo.png, the picture of the README and of `make run`: `make pictures`."""

from __future__ import annotations

from pathlib import Path

from tiebreak.experiments.demo import demo

if __name__ == "__main__":
    demo().plot().savefig(Path(__file__).with_name("demo.png"), dpi=110)
