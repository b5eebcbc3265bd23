"""The command line: ``tiebreak solve [FILE.toml]``, ``tiebreak methods``.

Exit code 0 if the run is a success, 1 if it is not, 2 for bad input (one line on standard error).
Only what a command needs is imported, where it is needed: ``tiebreak --help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebreak import __version__

if TYPE_CHECKING:
    from tiebreak.functions import SmoothFunction
    from tiebreak.problem import Problem
    from tiebreak.result import Result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        return code
    except (ValueError, TypeError, ImportError, OSError) as error:
        print(f"tiebreak: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tiebreak: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tiebreak",
        description="Choose the best among ties: minimise f over all minimisers of g, "
        "with a proof of how close the answer is.",
    )
    parser.add_argument("--version", action="version", version=f"tiebreak {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    solve = commands.add_parser(
        "solve",
        help="solve a problem, prove how close the answer is",
        description="Solve the problem in FILE.toml (without it: a built-in one), print what is "
        "proved, and write x, the report and a plot. Exit code 0 if both levels are proved to be "
        "within the tolerance, 1 if not, 2 for bad input.",
    )
    solve.add_argument("file", nargs="?", metavar="FILE.toml", help="tables [upper], [lower], ...")
    solve.add_argument("--out", default="out", metavar="DIR", help="folder for the files (out)")
    solve.add_argument("--max-iter", type=int, metavar="N", help="the most steps")
    solve.add_argument("--max-time", type=float, metavar="S", help="the most seconds")
    solve.add_argument("--quiet", action="store_true", help="no live line while it runs")
    solve.set_defaults(run=_solve)

    methods = commands.add_parser("methods", help="list the methods with their guarantees")
    methods.set_defaults(run=_methods)
    return parser


# -- tiebreak solve -------------------------------------------------------------------------------


def _solve(arguments: argparse.Namespace) -> int:
    from tiebreak.solve import solve

    out = Path(arguments.out)
    _check_folder(out)
    problem, options, names = _problem(arguments.file)
    for limit in ("max_iter", "max_time"):
        if getattr(arguments, limit) is not None:
            options[limit] = getattr(arguments, limit)
    live = sys.stderr.isatty() and not arguments.quiet
    options["progress"] = options.get("progress", True) and live
    result = solve(problem, **options)
    print(result)
    _write(result, out, names)
    return 0 if result.success else 1


def _check_folder(out: Path) -> None:
    """Can the results be written there?  Asked before the work, without making anything."""
    existing = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not existing.is_dir():
        raise ValueError(f"--out must be a folder, but {existing} is a file")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"--out must be a folder that can be written, but {existing} cannot")


def _problem(file: str | None) -> tuple[Problem, dict[str, Any], dict[str, str]]:
    """The problem, what to hand to solve, the names of the output files; says what it is."""
    from tiebreak import files

    if file is None:
        problem = _built_in()
        return problem, {}, files.OUTPUT
    problem, options, names = files.read_problem(file)
    print(f"the problem in {file}")
    print(f"  lower level g   {_describe(problem.lower)}")
    print(f"  upper level f   {_describe(problem.upper)}")
    print(f"  domain          {type(problem.domain).__name__}\n", flush=True)
    return problem, options, names


def _built_in() -> Problem:
    """The problem that runs without a file; says what it is."""
    from tiebreak.experiments.instances import breast_cancer
    from tiebreak.problem import solution_dimension

    train, radius = 50, 10.0
    problem = breast_cancer(train, radius)
    print(
        "the built-in problem: of all models that fit a few tumours, which serves the rest best?\n"
        "  data            breast cancer, bundled with scikit-learn: 569 tumours, 30 measurements\n"
        f"                  and all products of two of them, {problem.dimension} columns\n"
        f"  lower level g   half the mean squared error on {train} tumours\n"
        f"  upper level f   the same on the other {569 - train}\n"
        f"  domain          the ball of radius {radius:g}\n"
        f"  ties            the minimisers of g fill {solution_dimension(problem)} dimensions, "
        "f chooses among them\n",
        flush=True,
    )
    return problem


def _describe(function: SmoothFunction) -> str:
    """The kind of a function and its sizes."""
    kind, matrix = type(function).__name__, getattr(function, "matrix", None)
    if matrix is None:
        return kind if function.dimension is None else f"{kind}, {function.dimension} variables"
    rows, columns = matrix.shape
    return f"{kind}, {'sparse ' if matrix.is_sparse else ''}{rows} x {columns}"


def _write(result: Result, out: Path, names: dict[str, str]) -> None:
    """x, the report and the plot, each atomically; says where they are."""
    import numpy as np

    from tiebreak.arrays import to_numpy
    from tiebreak.checkpoint import write_atomically

    paths = {what: out / name for what, name in names.items()}
    for path in paths.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    x = to_numpy(result.x)
    if paths["x"].suffix == ".csv":
        write_atomically(paths["x"], lambda file: np.savetxt(file, x, fmt="%.17g"))
    else:
        write_atomically(paths["x"], lambda file: np.save(file, x, allow_pickle=False))
    report = json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"
    write_atomically(paths["report"], lambda file: file.write(report.encode()))
    written = [paths["x"], paths["report"]]
    try:
        result.plot(str(paths["plot"]))
        written.append(paths["plot"])
    except ImportError as error:
        print(f"  no plot     {error}")
    print(f"  files       {', '.join(map(str, written))}")


# -- tiebreak methods -----------------------------------------------------------------------------


def _methods(arguments: argparse.Namespace) -> int:
    from tiebreak.solve import methods

    width = min(shutil.get_terminal_size().columns, 100)
    print("auto chooses among these:" if len(methods()) > 1 else "auto chooses this:")
    for method in methods():
        print(f"\n{method.name}")
        for what in ("assumptions", "guarantee", "paper"):
            text = getattr(method, what)
            print(
                textwrap.fill(
                    text, width, initial_indent=f"  {what:<13}", subsequent_indent=" " * 15
                )
            )
    return 0
