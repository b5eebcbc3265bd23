"""Packages import downwards only, and `import tiebreak` stays light."""

from __future__ import annotations

import ast
import collections
import subprocess
import sys
from pathlib import Path

from helpers.sources import parsed

import tiebreak

SOURCE = Path(tiebreak.__file__).parent


def test_import_list_of_instances_help_models_and_kernels_need_no_heavy_library():
    """Each in turn, in one process: what is there after it that should not be."""
    script = """
import sys, tiebreak
def check(*names): print([name for name in names if name in sys.modules])
heavy = ["scipy", "sklearn", "matplotlib", "pandas", "torch", "cvxpy", "ray", "clarabel"]
check(*heavy)
from tiebreak.catalog.instances import instances, table
instances(); table(); list(map(str, instances()))
check(*heavy)
from tiebreak.cli import _parser
_parser().format_help()
check(*heavy)
import tiebreak.modelling
check("cvxpy")
import tiebreak.linalg.cuda
check("torch", "cupy")
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""},
    )
    assert found.stdout.split("\n") == ["[]"] * 5 + [""]


# The rooms, lowest first: imports go down only.
FLOORS = [
    "linalg",
    "sets",
    "functions",
    "theory",
    "problem",
    "levels",
    "proofs",
    "algorithms",
    "exact",
    "conic",
    "rational",
    "auto",
    "display",
    "driver",
    "catalog",
    "experiments",
    "distributed",
    "array_files",
    "saving",
    "sklearn",
    "modelling",
    "problem_files",
    "cli",
]
LEVEL = {name: level for level, name in enumerate(FLOORS)}


def floor_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imports(path: Path, package: str):
    """(module, is it at module level?) of every import of tiebreak in the file."""
    tree = parsed(path)
    inner: set[int] = set()
    typing_only: set[int] = set()
    for node in ast.walk(tree):  # a node comes before what is in it
        within = [id(child) for child in ast.iter_child_nodes(node)]
        if id(node) in inner or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        ):
            inner.update(within)
        if id(node) in typing_only or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ):
            typing_only.update(within)
            continue
        found = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found = [node.module]
            if node.module == "tiebreak":
                found = [f"tiebreak.{alias.name}" for alias in node.names]
        for module in found:
            if module.split(".")[0] == "tiebreak":
                yield module, id(node) not in inner


def test_every_module_has_a_floor():
    modules = {path.stem for path in SOURCE.glob("*.py")}
    modules |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert modules - {"__init__", "__main__"} == set(LEVEL)


def test_imports_go_down_only():
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        here = path.relative_to(SOURCE).with_suffix("").parts
        if here in (("__init__",), ("__main__",)):
            continue
        for module, at_top in imports(path, here[0]):
            target = floor_of(module)
            if target == here[0] or target not in LEVEL:
                continue
            up = LEVEL[target] >= LEVEL[here[0]]
            # Results show and save themselves: what does it is imported by the call.
            leaf = target == "display" or LEVEL[target] > LEVEL["experiments"]
            if up and not (leaf and not at_top):
                wrong.append(f"{'.'.join(here)} imports {module}")
    assert wrong == []


def test_one_name_one_class():
    """But State, or the Memory of a `RunState`, of which every method has its own."""
    places = collections.defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and node.name not in ("State", "Memory"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
