"""How large the house is: statements under src/, room by room, and the modules above the limit.

`python docs/size.py` counts this tree, `python docs/size.py OTHER/src/tiebreak` another one.
"""

from __future__ import annotations

import ast
import collections
import sys
from pathlib import Path

HERE = Path(__file__).parents[1] / "src" / "tiebreak"
LONGEST = 450  # lines of a module: CONTRIBUTING.md


def statements(path: Path) -> int:
    """Every statement of the file, those inside functions and classes as well."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree))


def main() -> None:
    """Print the count of each room, the sum, and the modules that are too long."""
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    rooms: collections.Counter[str] = collections.Counter()
    long = []
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        rooms[place.parts[0] if len(place.parts) > 1 else "(modules on their own)"] += statements(
            path
        )
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST:
            long.append((lines, place))
    for room, count in rooms.most_common():
        print(f"{count:7,}  {room}")
    print(f"{rooms.total():7,}  statements in all")
    print(f"{len(long)} modules have more than {LONGEST} lines:")
    for lines, place in sorted(long, reverse=True):
        print(f"{lines:7,}  {place}")


if __name__ == "__main__":
    main()
