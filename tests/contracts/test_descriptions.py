"""One description for each thing: who names a loss, a set or a penalty, and how the house is tied.

    python tests/contracts/test_descriptions.py     prints the figures

A room above `functions` and `sets` asks an object what it is; it does not know it by its class. The
limits below are what has been reached: they may only come down.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from helpers.sources import parsed

import tiebreak
from tiebreak.functions.base import Function
from tiebreak.functions.penalties.penalties import Penalty
from tiebreak.sets.base import Set

SOURCE = Path(tiebreak.__file__).parent
AT_HOME = ("functions", "sets")
LEAVES = ("sklearn", "modelling", "catalog", "experiments", "problem_files.py", "cli.py")
MOST_NAMED, MOST_ASKED, MOST_NUMBERS, MOST_IN_A_CYCLE = 51, 5, 220, 12


def kinds(base: type) -> Iterator[str]:
    """The classes of the package that are derived from one."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith(("tiebreak.functions.", "tiebreak.sets.")):
            yield kind.__name__
            yield from kinds(kind)


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.endswith("__init__.py"):
            yield name, parsed(path)


def docstrings(tree: ast.Module) -> set[int]:
    """The nodes that only explain."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def names(tree: ast.AST, concrete: set[str], skipped: set[int]) -> int:
    """How often one of the classes is named: in code, or in a string that is no docstring."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found += (node.id if isinstance(node, ast.Name) else node.attr) in concrete
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = "".join(c if c.isalnum() else " " for c in node.value).split()
            found += 0 if id(node) in skipped else len(concrete.intersection(words))
    return found


def asked(tree: ast.AST, concrete: set[str]) -> int:
    """How often that is to ask for a type: isinstance, ``type() is``, a pattern, a table."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            found += names(node.args[1], concrete, set())
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
            found += names(node, concrete, set())
        elif isinstance(node, ast.MatchClass | ast.Dict | ast.Tuple):
            parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [node])
            found += sum(isinstance(part, ast.Name) and part.id in concrete for part in parts)
    return found


def named_and_asked() -> tuple[Counter[str], Counter[str]]:
    """By module, outside of the rooms where these classes are at home, and of the leaves."""
    concrete = {*kinds(Function), *kinds(Penalty), *kinds(Set)} - {
        "SmoothFunction", "LinearLoss", "Composite", "Sum", "Scaled", "Constraints", "CentredNorm",
    }  # fmt: skip
    named: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for name, tree in modules():
        if name.split("/")[0] not in (*AT_HOME, *LEAVES):
            named[name] = names(tree, concrete, docstrings(tree))
            types[name] = asked(tree, concrete)
    return named, types


def numbers() -> list[str]:
    """The numbers with a name: at module level, computed ones included, and of the tolerances."""
    found = []
    for name, tree in modules():
        is_theirs = name == "linalg/tolerances.py"
        fields = [node for node in ast.walk(tree) if is_theirs and isinstance(node, ast.AnnAssign)]
        found += [ast.unparse(node.target) for node in fields]
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                is_number = not any(
                    (isinstance(n, ast.Constant) and not isinstance(n.value, int | float))
                    or isinstance(n, ast.Lambda | ast.Dict | ast.List | ast.Subscript)
                    for n in ast.walk(value)
                ) and any(isinstance(n, ast.Constant) for n in ast.walk(value))
                found += [
                    part.id
                    for part in parts
                    if is_number and isinstance(part, ast.Name) and part.id.strip("_").isupper()
                ]
    return found


def imports() -> dict[str, set[str]]:
    """Which module imports which, inside functions and for types too."""
    paths = {}
    for path in SOURCE.rglob("*.py"):
        parts = ("tiebreak", *path.relative_to(SOURCE).with_suffix("").parts)
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found: dict[str, set[str]] = {module: set() for module in paths}
    for module, path in paths.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                found[module] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found[module] |= (inner & set(paths)) or {node.module}
    return {module: others & set(paths) for module, others in found.items()}


def largest_cycle() -> set[str]:
    """The largest set of modules of which each reaches every other by imports."""
    graph = imports()
    reached: dict[str, set[str]] = {}
    for module in graph:
        seen, todo = set(), [module]
        while todo:
            for other in graph[todo.pop()] - seen:
                seen.add(other)
                todo.append(other)
        reached[module] = seen
    return max(
        ({m} | {o for o in reached[m] if m in reached[o]} for m in graph), key=len, default=set()
    )


def test_rooms_ask_objects_what_they_are():
    named, types = named_and_asked()
    assert sum(named.values()) <= MOST_NAMED, named.most_common(12)
    assert sum(types.values()) <= MOST_ASKED, types.most_common(12)


def test_few_numbers_have_a_name():
    found = Counter(numbers())
    assert found.total() <= MOST_NUMBERS
    assert not {name for name, count in found.items() if count > 1}, "two numbers share a name"


def test_no_large_cycle_of_imports():
    cycle = largest_cycle()
    assert len(cycle) <= MOST_IN_A_CYCLE, sorted(cycle)


if __name__ == "__main__":
    named, types = named_and_asked()
    print(f"named {sum(named.values())}, of which types asked for {sum(types.values())}")
    for name, count in named.most_common():
        print(f"  {name:<44} {count:4} {types[name]:4}" if count else "", end="\n" * bool(count))
    print(f"numbers with a name {len(numbers())}")
    print(f"largest cycle {len(largest_cycle())} modules: {' '.join(sorted(largest_cycle()))}")
