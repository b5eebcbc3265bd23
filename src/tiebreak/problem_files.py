"""Read problems from TOML files; every error message is one sentence that names the file.

Here is an example (`array_files` describes how arrays are read):

    radius = 5.0                  # optional, as in Problem(radius=...)

    [upper]
    kind = "LeastSquares"         # a class; every other key is an argument of its constructor
    A = "data.npz:A_val"          # a string instead of an array is a file in this folder
    b = "b_val.csv"

    [lower]
    kind = "Quadratic"
    Q = [[1.0, 0.0], [0.0, 0.0]]  # an array can also be written here

    [lower.penalty]               # optional, added to the level; a lone penalty goes in [lower]
    kind = "GroupL2"              # for several penalties, write [[lower.penalty]] for each
    groups = "groups.csv"         # the group of each variable
    weight = 0.1

    [domain]                      # optional, all of R^n if absent
    kind = "Ball"                 # for an intersection, write [[domain]] for each set

    [error_bound]                 # optional, as in ErrorBound(order, modulus, gradient_bound)
    order = 2.0                   # modulus and gradient_bound as well

    [method]                      # optional, "auto" if absent; a name alone goes in [solve]
    kind = "RAPM"
    eta = 1e-3

    [solve]                       # optional, arguments of solve
    rtol = [1e-4, 1e-6]
    criterion = "weak"            # see solve; "absolute" if absent
    checkpoint = "run.npz"        # a file in this folder

    [output]                      # optional, file names in the --out folder; these are the defaults
    x = "x.npy"                   # or .csv
    report = "report.json"
    plot = "plot.png"             # or .pdf, .svg

For more than two priorities, write levels instead of [upper] and [lower], most important first:

    [[level]]
    name = "fit"                  # optional, for the report
    slack = { relative = 0.01 }   # optional, as in Slack(...); a number is absolute
    sense = "min"                 # optional; "max" for a linear objective
    kind = "LeastSquares"         # with further keys and [level.penalty], as above

    [[level]]
    kind = "L1"

The domain may be a linear program in an .mps or .lp file, which names rows and variables:

    domain = "plan.mps"

    [[level]]
    objective = "cost"            # the file's objective, or a row without bounds (N in MPS)

    [[level]]
    name = "coal"
    kind = "Linear"
    c = { coal_1 = 1.0, coal_2 = 1.0 }  # entries by variable name, otherwise 0
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from tiebreak.array_files import column_names, read_array
from tiebreak.driver.registry import known_methods
from tiebreak.driver.solve import solve
from tiebreak.functions import Function, Penalty
from tiebreak.levels import Level, Levels, Slack
from tiebreak.linalg import Refusal, assign
from tiebreak.linalg.archive import first_line
from tiebreak.linalg.checks import did_you_mean
from tiebreak.linalg.registry import IN_TABLES, KINDS
from tiebreak.modelling.model_files import ENDINGS, LinearModel, read_model
from tiebreak.problem import ErrorBound, Problem
from tiebreak.sets import Set, intersection

# arguments that are matrices; all other arrays are vectors
MATRICES = ("A", "A_eq", "Q", "operator")
LABELS = ("groups",)  # arguments that hold whole numbers
LEVELS = ("upper", "lower")
TABLES = (*LEVELS, "level", "domain", "error_bound", "method", "solve", "output")
SEVERAL = ("level", "domain")  # may occur more than once: [[level]]
ABOUT_LEVEL = ("name", "slack", "sense")  # keys of [[level]] that do not describe its function
OUTPUT = {"x": "x.npy", "report": "report.json", "plot": "plot.png"}
OUTPUT_ENDINGS = {"x": (".npy", ".csv"), "report": (".json",), "plot": (".png", ".pdf", ".svg")}

Table = dict[str, Any]


class Files(NamedTuple):
    """The folder of a TOML file, and the linear program that gives the domain, if any."""

    folder: Path
    model: LinearModel | None = None


# -- problems -------------------------------------------------------------------------------------


def read_problem(path: str | Path) -> tuple[Problem | Levels, Table, dict[str, str]]:
    """Return the problem in a TOML file, arguments for ``solve``, and names of output files."""
    path = Path(path)
    content, files = _read_toml(path), Files(path.parent)
    try:
        _check_top(content)
        if isinstance(content.get("domain"), str):
            files = files._replace(model=read_model(path.parent / content["domain"]))
        problem = _levels(content, files) if "level" in content else _problem(content, files)
        options = _solve(content.get("solve", {}), files)
        if "method" in content:
            if "method" in options:
                raise ValueError("[method] cannot be combined with the key 'method' of [solve]")
            known = {method.__name__: method for method in known_methods().values()}
            options["method"] = _object("method", content["method"], known, files)
        return problem, options, _output(content.get("output", {}))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def _read_toml(path: Path) -> Table:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from None
    except RecursionError:
        raise ValueError(f"{path} has arrays or tables that are nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise ValueError(f"{path} is not a TOML file ({first_line(error)})") from None


def _check_top(content: Table) -> None:
    for name, value in content.items():
        if name in TABLES:
            _check_table(name, value)
        elif isinstance(value, dict):
            known = ", ".join(f"[{table}]" for table in TABLES)
            meant = did_you_mean(name, TABLES)
            raise ValueError(f"there is no table [{name}]{meant}; known tables are {known}")
        elif name != "radius":
            meant = did_you_mean(name, ("radius", "[[level]]"))
            raise ValueError(
                f"there is no key {name!r} outside the tables{meant}; the only known one is radius"
            )
    if isinstance(content.get("domain"), str) and "level" not in content:
        raise ValueError("a domain from a file needs [[level]] for each objective")
    for name in LEVELS:
        if name not in content and "level" not in content:
            raise ValueError(f"the table [{name}] is missing")
    for name in (*LEVELS, "error_bound"):
        if name in content and "level" in content:
            raise ValueError(f"[[level]] excludes the table [{name}]")


def _check_table(name: str, value: object) -> None:
    if name == "domain" and isinstance(value, str):
        if not value.endswith(ENDINGS):
            raise ValueError(
                f"domain must be a table, or a file that ends with {' or '.join(ENDINGS)}, "
                f"got {value!r}"
            )
        return
    several = name in SEVERAL and isinstance(value, list) and value
    if name == "level" and not several:
        raise ValueError("[level] must be written [[level]], once for each level")
    for table in value if several and isinstance(value, list) else [value]:
        if not isinstance(table, dict):
            raise ValueError(f"[{name}] must be a table, got {value!r}")


def _problem(content: Table, files: Files) -> Problem:
    """Return the problem given by [upper] and [lower]."""
    return Problem(
        upper=_level("upper", content["upper"], files),
        lower=_level("lower", content["lower"], files, is_first=True),
        domain=_domain(content.get("domain", {"kind": "Space"}), files),
        radius=content.get("radius"),
        error_bound=_call("error_bound", ErrorBound, content["error_bound"], files)
        if "error_bound" in content
        else None,
    )


def _levels(content: Table, files: Files) -> Levels:
    """Return the levels, one for each [[level]]."""
    found = []
    for i, table in enumerate(content["level"]):
        name = f"level {i + 1}"
        about = {key: table[key] for key in ABOUT_LEVEL if key in table}
        rest = {key: value for key, value in table.items() if key not in about}
        if isinstance(about.get("slack"), dict):
            about["slack"] = _call(f"{name}.slack", Slack, about["slack"], files)
        if isinstance(about.get("slack"), str):
            raise ValueError(
                f"[{name}] slack must be a number in the level's own units, or a table such as "
                f"{{ relative = 0.01 }} for 1 % of its best value, got {about['slack']!r}"
            )
        try:
            if "objective" in rest:
                found.append(_from_model(rest, about, files))
                continue
            for key in rest if "kind" not in rest else ():
                if meant := did_you_mean(key, ("objective",)):
                    raise ValueError(f"has no key {key!r}{meant}")
            objective = _level(name, rest, files, ABOUT_LEVEL, is_first=i == 0)
            found.append(Level(objective, **about))
        except (ValueError, TypeError) as error:
            said = str(error)
            raise ValueError(said if said.startswith(f"[{name}") else f"[{name}] {said}") from None
    given = content.get("domain", {"kind": "Space"})
    domain = _domain(given, files) if files.model is None else files.model.domain
    return Levels(*found, domain=domain, radius=content.get("radius"))


def _from_model(table: Table, about: Table, files: Files) -> Level:
    """Return a level whose objective is in the same file as the domain."""
    if files.model is None:
        raise ValueError('objective needs a domain from a file, such as domain = "plan.mps"')
    if others := [key for key in table if key != "objective"]:
        meant = did_you_mean(others[0], ABOUT_LEVEL)
        raise ValueError(f"objective cannot be combined with the key {others[0]!r}{meant}")
    name = about.pop("name", None)
    level = files.model.level(table["objective"], **about)
    return level if name is None else replace(level, name=name)


def _level(
    name: str, table: Table, files: Files, more: Sequence[str] = (), is_first: bool = False
) -> Any:
    """Return a level: a smooth function or a penalty, plus the penalties of its sub-tables.

    ``more`` lists other keys that the table may have, for the message about an unknown key. The
    columns of the first level's .csv file name the variables.
    """
    rest = {key: value for key, value in table.items() if key != "penalty"}
    level = _object(name, rest, _kinds(Function, Penalty), files, ("penalty", *more))
    if is_first and isinstance(rest.get("A"), str):
        names = column_names(files.folder / rest["A"])
        assign(level, "names", names if names and len(names) == level.dimension else None)
    found = table.get("penalty", [])
    for one in found if isinstance(found, list) else [found]:
        if not isinstance(one, dict):
            raise ValueError(f"[{name}.penalty] must be a table, got {one!r}")
        penalty = _object(f"{name}.penalty", one, _kinds(Penalty), files)
        try:
            level = level + penalty
        except ValueError as error:
            raise ValueError(f"[{name}.penalty] {error}") from None
    return level


def _domain(found: Table | list[Table], files: Files) -> Any:
    """Return a set, or the intersection of several, each given as ``[[domain]]``."""
    if isinstance(found, dict):
        return _object("domain", found, _kinds(Set), files)
    try:
        sets = (_object("domain", one, _kinds(Set), files) for one in found)
        return intersection("domain", *sets)
    except Refusal as error:
        raise ValueError(f"[domain] {error}") from None


def _kinds(*bases: type) -> dict[str, type]:
    """Return the kinds that a table may describe: registered subclasses of these classes."""
    found = [(name, kind) for name, kind in sorted(KINDS.items()) if kind in IN_TABLES]
    return {name: kind for base in bases for name, kind in found if issubclass(kind, base)}


def _object(
    name: str, table: Table, known: Mapping[str, type], files: Files, more: Sequence[str] = ()
) -> Any:
    """Return the object that a table describes: its kind, called with the table's other keys."""
    kinds, kind = f"known kinds are {', '.join(known)}", table.get("kind")
    if kind is None:
        raise ValueError(f"[{name}] lacks the key 'kind'; {kinds}")
    if not isinstance(kind, str) or kind not in known:
        meant = did_you_mean(kind, known)
        raise ValueError(f"[{name}] has the unknown kind {kind!r}{meant}; {kinds}")
    arguments = {key: value for key, value in table.items() if key != "kind"}
    return _call(name, known[kind], arguments, files, more)


def _call(name: str, call: type, arguments: Table, files: Files, more: Sequence[str] = ()) -> Any:
    """Return ``call(**arguments)``, after checking keys and reading arrays from files."""
    parameters = inspect.signature(call).parameters
    # A dataclass may inherit fields from another module: their annotations are resolved there.
    hints = get_type_hints(call if is_dataclass(call) else call.__init__)  # type: ignore[misc]
    _check_keys(name, arguments, [*parameters, *more])
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in arguments:
            raise ValueError(f"[{name}] lacks the key {key!r}")
    takes_array = {key for key in parameters if hints.get(key, Any) in (object, Any)}
    loaded = {
        key: _array(name, key, value, files) if key in takes_array else value
        for key, value in arguments.items()
    }
    try:
        return call(**loaded)
    except (ValueError, TypeError) as error:
        raise ValueError(f"[{name}] {error}") from None


def _check_keys(name: str, table: Table, known: Iterable[str]) -> None:
    listed = ", ".join(sorted(known, key=str.lower))
    for key in table:
        if key not in known:
            hint = f"known keys are {listed}" if listed else "this kind has none"
            raise ValueError(f"[{name}] has no key {key!r}{did_you_mean(key, known)}; {hint}")


def _array(name: str, key: str, value: object, files: Files) -> Any:
    """Return an array: a string is a file in this folder, a table maps names to numbers."""
    if isinstance(value, dict) and files.model is not None:
        try:
            return files.model.vector(value)
        except ValueError as error:
            raise ValueError(f"[{name}] {key}: {error}") from None
    if not isinstance(value, str):
        return value
    try:
        array = read_array(files.folder / value, matrix=key in MATRICES)
    except ValueError as error:
        raise ValueError(f"[{name}] {key}: {error}") from None
    if key in LABELS and np.all(array == np.round(array)):  # text files hold floating-point numbers
        return array.astype(np.int64)
    return array


def _solve(table: Table, files: Files) -> Table:
    """Return the arguments for ``solve``."""
    known = inspect.signature(solve).parameters.keys() - {"problem", "callback"}
    _check_keys("solve", table, known)
    options = dict(table)
    if "x0" in options:
        options["x0"] = _array("solve", "x0", options["x0"], files)
    if isinstance(options.get("checkpoint"), str):
        options["checkpoint"] = files.folder / options["checkpoint"]
    if not isinstance(options.get("progress", False), bool):
        raise ValueError(f"[solve] progress must be true or false, got {options['progress']!r}")
    return options


def _output(table: Table) -> dict[str, str]:
    """Return the names of the output files, which must be inside the output folder."""
    _check_keys("output", table, OUTPUT)
    for key, value in table.items():
        endings = OUTPUT_ENDINGS[key]
        if not isinstance(value, str) or not value.endswith(endings):
            raise ValueError(
                f"[output] {key} must be a file name that ends with {' or '.join(endings)}, "
                f"got {value!r}"
            )
        if Path(value).is_absolute() or ".." in Path(value).parts:
            place = "a name inside the output folder"
            raise ValueError(f"[output] {key} must be {place}, got {value!r}")
    return OUTPUT | table
