"""Draws demo.png (README, `make run`) and convergence.png (methods.md): `make pictures`."""

from __future__ import annotations

from pathlib import Path

import tiebreak as tb
from tiebreak.experiments.demo import demo

HERE = Path(__file__).parent

if __name__ == "__main__":
    demo().plot().savefig(HERE / "demo.png", dpi=110)
    breast_cancer = tb.instance("breast-cancer").problem
    tb.solve(breast_cancer, "adaptive", criterion="weak").plot(HERE / "convergence.png")
