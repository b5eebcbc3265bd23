"""The command line: ``tiebreak demo``, ``solve``, ``compare``, ``reproduce``, ``methods``, ...

The exit code is 0 for success, 1 for failure, and 2 for bad input (one line on standard error).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tiebreak as tb
from tiebreak import problem_files
from tiebreak.catalog.instances import table
from tiebreak.display.page import Shown, open_in_browser
from tiebreak.driver.levels_result import LevelsResult
from tiebreak.driver.registry import from_file
from tiebreak.experiments import field, reproduce
from tiebreak.experiments.demo import demo
from tiebreak.experiments.race import write_rows
from tiebreak.functions import Function, Penalty
from tiebreak.levels import Levels
from tiebreak.linalg import to_numpy
from tiebreak.linalg.archive import npz_path, write_atomically
from tiebreak.modelling.model_files import ENDINGS
from tiebreak.problem import Problem

METHOD = "a name listed by tiebreak methods; or FILE.py:CLASS, your own method (runs the file)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # not an error: with | head, the reader closes the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's final flush
        return 141  # what the shell reports for a program ended by SIGPIPE
    except MemoryError as error:
        print(f"tiebreak: there is not enough memory ({error})", file=sys.stderr)
        return 2
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
    parser.add_argument("--version", action="version", version=f"tiebreak {tb.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    shown = commands.add_parser(
        "demo",
        help="show what the library is for, on real data",
        description="Among all models that fit 50 tumours best, find the one that does best on 260 "
        "others, compare it with the answer of a least-squares solver, and draw a plot.",
    )
    shown.add_argument("--out", default="out", metavar="DIR", help="folder for the plot (out)")
    shown.set_defaults(run=_demo)

    solve = commands.add_parser(
        "solve",
        help="solve a problem and prove how close the answer is",
        description="Solve the problem in FILE, print what is proved about the answer, and write "
        "x, the report and a plot (for two levels without slack). The exit code is 0 if there is "
        "an answer (certified, or solved: the report says which), 1 if there is none, and 2 for "
        "bad input. For a first look, run tiebreak demo.",
    )
    solve.add_argument(
        "file",
        metavar="FILE",
        help="a .toml file with [upper] and [lower], or with one [[level]] per priority; a problem "
        "saved as .npz; or a linear program (.mps, .lp) with several objectives, in order",
    )
    solve.add_argument("--out", default="out", metavar="DIR", help="folder for the files (out)")
    solve.add_argument("--save", metavar="RUN.npz", help="save the result, for tiebreak.load")
    _add_page(solve)
    solve.add_argument(
        "--method", metavar="NAME", help=f"use this method instead of the one in the file; {METHOD}"
    )
    solve.add_argument("--max-iter", type=int, metavar="N", help="maximum number of steps")
    solve.add_argument("--max-time", type=float, metavar="S", help="time limit in seconds")
    solve.add_argument("--details", action="store_true", help="print the full report")
    solve.add_argument("--quiet", action="store_true", help="do not show progress")
    solve.set_defaults(run=_solve)

    compare = commands.add_parser(
        "compare",
        help="race several methods on one problem",
        description="Race methods on a built-in instance or on the problem in a file. All methods "
        "begin at the same point, and the clock stops while errors are measured. The command "
        "prints what each method needs to reach each accuracy, and writes rows.csv, compare.txt "
        "and compare.png.",
    )
    compare.add_argument(
        "what",
        metavar="INSTANCE|FILE",
        help="a name listed by tiebreak instances; a .toml file, from which only the problem and "
        "x0 are used; or a problem saved as .npz",
    )
    compare.add_argument(
        "--methods",
        nargs="+",
        metavar="NAME",
        help=f"{METHOD}; or all (default: seven common methods and your own)",
    )
    compare.add_argument(
        "--budget", type=float, default=10.0, metavar="S", help="seconds per method (10)"
    )
    compare.add_argument(
        "--max-iter",
        type=int,
        default=10_000,
        metavar="N",
        help="maximum number of steps (10000)",
    )
    compare.add_argument("--out", default="out", metavar="DIR", help="folder for the files (out)")
    _add_page(compare)
    compare.set_defaults(run=_compare)

    reproduced = commands.add_parser(
        "reproduce",
        help="run the paper's experiments and judge its claims",
        description="Run an experiment of the paper. The command writes the comparisons "
        "(rows.csv), plots of them, and a verdict on every claim (report.md).",
    )
    reproduced.add_argument("what", choices=("fig1", "fig2", "table1"))
    reproduced.add_argument("--out", metavar="DIR", help="folder for the files (out/fig1, ...)")
    reproduced.add_argument(
        "--data",
        metavar="FILE",
        help="for fig1: wikivital_mathematics.json; by default, a synthetic twin is used",
    )
    reproduced.add_argument("--quick", action="store_true", help="fewer steps")
    reproduced.set_defaults(run=_reproduce)

    raced = commands.add_parser(
        "race",
        help="race all methods on all instances, under the same rules",
        description="Race every method from the literature on 24 fixed and six random instances. "
        "The command writes rows.csv, instances.csv, refused.csv, and race.html, which states the "
        "rules.",
    )
    raced.add_argument("--quick", action="store_true", help="take minutes, not an hour")
    raced.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the random instances (0)"
    )
    raced.add_argument(
        "--methods", nargs="+", metavar="NAME", default=(), help=f"{METHOD} (default: all)"
    )
    raced.add_argument("--instances", nargs="+", metavar="NAME", default=(), help="default: all")
    raced.add_argument("--out", default="out/race", metavar="DIR", help="folder (out/race)")
    raced.set_defaults(run=_race)

    methods = commands.add_parser("methods", help="list the methods with their guarantees")
    methods.add_argument(
        "--bibtex", action="store_true", help="print the methods' papers as BibTeX entries"
    )
    methods.set_defaults(run=_methods)
    instances = commands.add_parser("instances", help="list the built-in problems")
    instances.set_defaults(run=_instances)
    return parser


def _add_page(command: argparse.ArgumentParser) -> None:
    command.add_argument("--html", metavar="RUN.html", help="write the report as an HTML page")
    command.add_argument("--open", action="store_true", help="open the HTML page in the browser")


# -- tiebreak demo, tiebreak solve -----------------------------------------------------------------


def _demo(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out)
    with _folders([out]):
        shown = demo()
    print(shown)
    try:
        shown.plot(out / "demo.png")
        print(f"\nThe plot: {out / 'demo.png'}")
    except ImportError as error:
        print(f"\nNo plot: {error}")
    return 0 if shown.result.success else 1


def _solve(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out)
    page = _page_path(arguments)
    save = None if arguments.save is None else npz_path("tiebreak solve", "--save", arguments.save)
    problem, options, names = _problem(arguments.file)
    if arguments.method is not None:
        options["method"] = from_file(arguments.method)
    for limit in ("max_iter", "max_time"):
        if getattr(arguments, limit) is not None:
            options[limit] = getattr(arguments, limit)
    live = sys.stderr.isatty() and not arguments.quiet
    options["progress"] = options.get("progress", True) and live
    paths = {what: out / name for what, name in names.items()}
    with _folders(path.parent for path in (*paths.values(), *([page] if page else []))):
        result = tb.solve(problem, **options)
    try:
        variables = problem.names if isinstance(problem, Problem) else problem.variables
        written = _write(result, paths, variables)
        if save is not None:
            result.save(save)
            written += f", {save}"
        written += _page(result, page, arguments.open)
    finally:  # print the report even if the disk is full
        print(result.details() if arguments.details else result)
    print(written)
    return 0 if result.success else 1


def _page_path(arguments: argparse.Namespace) -> Path | None:
    """Return the path of the page that --html writes; reject a folder before the work starts."""
    if arguments.html is None:
        return None
    page = Path(arguments.html)
    if page.is_dir():
        raise ValueError(f"--html must be a file, but {page} is a folder")
    return page


def _page(result: Shown, page: Path | None, is_opened: bool) -> str:
    """Write the page, open it if requested, and return text that says where the page is."""
    if page is None:
        return f", {result.open()}" if is_opened else ""
    result.to_html(page)
    if is_opened:
        open_in_browser(page)
    return f", {page}"


@contextlib.contextmanager
def _folders(folders: Iterable[Path]) -> Iterator[None]:
    """Before the work starts, create the folders and check that they are writable.

    If an error ends the block, new folders that are still empty are removed again.
    """
    made: list[Path] = []
    try:
        for folder in set(folders):
            above = [folder, *folder.parents]
            made += [some for some in above if not some.exists()]
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder):
                    pass
            except OSError as error:
                reason = error.strerror or error
                raise ValueError(
                    f"the results need a writable folder, got {folder} ({reason})"
                ) from None
        yield
    except BaseException:
        for folder in sorted(set(made), reverse=True):  # remove inner folders first
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _problem(file: str) -> tuple[Problem | Levels, dict[str, Any], dict[str, str]]:
    """Print the problem in a file; return it with its options for solve and names for output."""
    options: dict[str, Any] = {}
    names = problem_files.OUTPUT
    if file.endswith(".npz"):
        problem = tb.load(file)
        if not isinstance(problem, Problem | Levels):
            raise ValueError(f"{file} must hold a problem, got a result")
    elif file.endswith(ENDINGS):
        problem = _in_order(file)
    else:
        problem, options, names = problem_files.read_problem(file)
    print(f"the problem in {file}")
    for line in _description(problem):
        print(line, flush=True)
    return problem, options, names


def _in_order(file: str) -> Levels:
    """Return the objective of a linear program and its free rows as levels, in the file's order."""
    model = tb.read_model(file)
    if len(model.functions) == 1:
        raise ValueError(
            f"{file} has one objective, but two levels are needed: write the others in a .toml "
            f'file, with domain = "{file}" and [[level]] for each, or as N rows in the .mps file'
        )
    return Levels(*map(model.level, model.functions), domain=model.domain)


def _description(problem: Problem | Levels) -> Iterator[str]:
    """Yield a description of the problem, line by line."""
    parts: dict[str, Function | Penalty]
    if isinstance(problem, Problem):
        parts = {"lower level g": problem.lower, "upper level f": problem.upper}
    else:
        objectives = (level.objective for level in problem.levels)
        parts = dict(zip(problem.names, objectives, strict=True))
    width = max(14, *map(len, parts))
    yield from (f"  {name:<{width}}  {part!r}" for name, part in parts.items())
    parts_of = getattr(problem.domain, "parts", (problem.domain,))
    yield f"  {'domain':<{width}}  {' & '.join(type(part).__name__ for part in parts_of)}\n"


def _write(
    result: tb.Result | LevelsResult, paths: dict[str, Path], names: Sequence[Any] | None
) -> str:
    """Write x, the report and the plot atomically; return text that says where they are.

    ``names`` are the names of the variables, if they have any.
    """
    x = to_numpy(result.x)
    if is_empty := result.status == "infeasible":  # delete the x of an earlier run
        paths["x"].unlink(missing_ok=True)
    elif paths["x"].suffix == ".csv":
        write_atomically(paths["x"], lambda file: np.savetxt(file, x, fmt="%.17g"))
    else:
        write_atomically(paths["x"], lambda file: np.save(file, x, allow_pickle=False))
    x_file = None if is_empty else os.path.relpath(paths["x"], paths["report"].parent)
    about_x: dict[str, Any] = {"x_file": x_file}
    if names is not None:
        about_x["variables"] = [str(name) for name in names]
    report = json.dumps(about_x | result.to_dict(), indent=1, allow_nan=False) + "\n"
    write_atomically(paths["report"], lambda file: file.write(report.encode()))
    written, lines = [paths["x"]] * (not is_empty) + [paths["report"]], []
    run = result.result if isinstance(result, LevelsResult) else result
    try:
        if run is None:
            lines.append("  no plot     only two levels without slack can be drawn")
        else:
            run.plot(str(paths["plot"]))
            written.append(paths["plot"])
    except ImportError as error:
        lines.append(f"  no plot     {error}")
    return "\n".join([*lines, f"  files       {', '.join(map(str, written))}"])


# -- tiebreak compare, tiebreak reproduce ---------------------------------------------------------


def _compare(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out)
    page = _page_path(arguments)
    problem, options = _contested(arguments.what)
    chosen = arguments.methods and _names(arguments.methods)
    chosen = "all" if chosen == ["all"] else chosen
    with _folders([out] if page is None else [out, page.parent]):
        outcome = tb.compare(
            problem, chosen, arguments.budget, max_iter=arguments.max_iter, name=arguments.what,
            **options,
        )  # fmt: skip
    print(outcome)
    write_rows(out / "rows.csv", outcome.rows)
    write_atomically(out / "compare.txt", lambda file: file.write(f"{outcome}\n".encode()))
    written = [out / "rows.csv", out / "compare.txt"]
    try:
        outcome.plot(out / "compare.png")
        written.append(out / "compare.png")
    except ImportError as error:
        print(f"\nno plot: {error}")
    shown = _page(outcome, page, arguments.open)
    print(f"\nfiles: {', '.join(map(str, written))}{shown}")
    return 0


def _names(texts: Sequence[str]) -> list[str]:
    """Return the methods named in --methods, separated by spaces or commas; load their files."""
    return [from_file(name) for text in texts for name in text.split(",")]


def _contested(what: str) -> tuple[Problem, dict[str, Any]]:
    """Return a problem to race on, with its start and known answer; print a description."""
    if what.endswith((".toml", ".npz")):
        problem, options, _ = _problem(what)
        if isinstance(problem, Levels):
            if not problem.is_plain:
                raise ValueError(f"{what} must hold two levels without slack for a race")
            problem = problem.problem()
        return problem, {"x0": options.get("x0")}
    built = tb.instance(what)
    print(f"{built}\n", flush=True)
    return built.problem, {"x0": built.x0, "answer": built.answer}


def _reproduce(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out or f"out/{arguments.what}")
    data = None if arguments.data is None else Path(arguments.data)
    with _folders([out]):
        made = reproduce.reproduce(
            arguments.what, out, data, arguments.quick,
            say=lambda line: print(line, file=sys.stderr),
        )  # fmt: skip
    for verdict in made.verdicts:
        print(f"{verdict.outcome:<17} {verdict.claim:<5} {verdict.place}: {verdict.numbers}")
    print(f"\nfiles: {', '.join(map(str, made.files))}")
    return 0


def _race(arguments: argparse.Namespace) -> int:
    out = Path(arguments.out)
    names = [name for text in arguments.methods for name in text.split(",")]
    with _folders([out]):
        standings = field.run_field(
            out, names, passes=500 if arguments.quick else 5000, seed=arguments.seed,
            courses=arguments.instances,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )  # fmt: skip
    print("\n".join(standings.sentences()))
    files = ("rows.csv", "instances.csv", "refused.csv", "race.html")
    print(f"\nfiles: {', '.join(str(out / name) for name in files)}")
    return 0


# -- tiebreak methods, tiebreak instances ---------------------------------------------------------


def _methods(arguments: argparse.Namespace) -> int:
    known = tb.methods()
    if arguments.bibtex:
        entries = (entry for method in known for entry in method.bibtex.splitlines())
        print("\n".join(dict.fromkeys(entries)))
        return 0
    width = min(shutil.get_terminal_size().columns, 100)
    words = 'The default, "auto", uses exact if it is fast, otherwise adaptive and a refinement.'
    print(textwrap.fill(words, width))
    for method in known:
        print(f"\n{method.name}")
        rates = "; ".join(map(str, method.rates)) or "none published"
        for what in ("assumptions", "guarantee", "rates", "output", "paper"):
            text, head, below = getattr(method, what), f"  {what:<13}", " " * 15
            text = rates if what == "rates" else text
            print(textwrap.fill(text, width, initial_indent=head, subsequent_indent=below))
    return 0


def _instances(arguments: argparse.Namespace) -> int:
    print(table())
    return 0
