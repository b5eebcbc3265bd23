"""What progress=True costs: an update of each kind relative to the time between two of them.

    python benchmarks/scale/progress.py      # at most 1 % is asked

The processor's time, so that a busy machine does not matter. Kinds that need an extra are left out
where it is missing.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time

from tiebreak.display.progress import Rich, Screen, Tqdm
from tiebreak.driver.trace import Row

ROW = Row(1234, 5.6, 1.23456789, 9.87654321, 1e-3, 1e-5, 100, 200, 300)
UPDATES, REPEATS = 20, 5


class Terminal(io.StringIO):
    """Standard error, as if it were a terminal."""

    def isatty(self) -> bool:
        """It says so."""
        return True


def share(kind: type[Screen]) -> float:
    """The processor's time of one update by the time between two of them, the best of several."""
    screen = kind()
    screen.row(ROW)  # imports
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(UPDATES):
            screen.row(ROW)
        seconds.append((time.process_time() - began) / UPDATES)
    screen.close()
    return min(seconds) / screen.every


def main() -> int:
    """Print the shares; 1 if one is above a hundredth."""
    worst = 0.0
    for kind in (Screen, Tqdm, Rich):
        try:
            with contextlib.redirect_stderr(Terminal()):
                found = share(kind)
        except ImportError as error:
            print(f"{kind.__name__:<8} left out: {error}")
            continue
        worst = max(worst, found)
        print(f"{kind.__name__:<8} {100.0 * found:.3f} % of the time")
    return int(worst > 0.01)


if __name__ == "__main__":
    sys.exit(main())
