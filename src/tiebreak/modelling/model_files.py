"""Reads linear programs from MPS and LP files with HiGHS, including names of variables and rows."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.functions import Linear
from tiebreak.levels import Level, Slack
from tiebreak.linalg import Host, assign, checks, refusals
from tiebreak.sets import Box, Polyhedron, Set, intersection

ENDINGS = (".mps", ".lp")
# the errors to quote from HiGHS's log; a parser error only names the file
DOUBT = re.compile(r"^(?:WARNING|ERROR):\s*(?!\s|Parser error)(.+)", re.MULTILINE)
WITH_NUMBERS = ("COLUMNS", "RHS", "RANGES", "BOUNDS")  # sections of an MPS file
WITHOUT_NUMBER = ("FR", "MI", "PL", "BV")  # kinds of bounds that take no number
SENSES = {"min": (["MIN"], ["MINIMIZE"]), "max": (["MAX"], ["MAXIMIZE"])}
# the words that begin the sections of an LP file, unless they name a row
SECTIONS = re.compile(
    r"(?<![^\s+-])(?:(?P<objective>min(?:imum|imize)?|max(?:imum|imize)?)"
    r"|(?P<rows>subject\s+to|such\s+that|st|s\.t\.)|(?P<bounds>bounds?)|(?P<end>end)"
    r"|gen(?:erals?)?|bin(?:ary|aries)?|semi\S*|sos\d?)(?!\S)(?!\s*:)",
    re.IGNORECASE,
)
NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
NUMBER_OF_MPS = re.compile(rf"[-+]?(?:{NUMBER}|inf(?:inity)?)", re.IGNORECASE)
# the coefficients of an LP file, the right-hand sides, and a number that multiplies nothing
COEFFICIENT = re.compile(rf"(?<![^\s+-]){NUMBER}", re.IGNORECASE)
RIGHT_SIDE = re.compile(rf"[<>=]+[-+\s]*(?:{NUMBER}|inf\w*)", re.IGNORECASE)
CONSTANT = re.compile(rf"(?<![^\s:+-]){NUMBER}(?=\s*[-+]|\s+\d|$)", re.IGNORECASE)
OBJECTIVE = "objective"  # name of the objective if the file gives none


@dataclass(frozen=True, repr=False)
class LinearModel:
    """A linear program from a file: its feasible set, and its linear functions by name.

    Attributes:
        domain: the feasible set, a `Polyhedron`, a `Box` or their intersection.
        functions: the file's objective first, then its free rows (N in MPS), each a `Linear`.
        sense: "min" or "max", as stated in the file for its objective.
        variables: the names of the variables, in the order of x.

    Examples:
        >>> text = "min cost: x + y + z\\nst demand: x + y + z >= 2\\nbounds\\n x <= 1\\nend"
        >>> _ = Path("plan.lp").write_text(text)
        >>> model = tb.read_model("plan.lp")
        >>> clean = tb.Level(model.linear({"x": 1, "y": 3}), name="clean")
        >>> tb.solve(tb.Levels(model.level("cost"), clean, domain=model.domain)).x.round(4)
        array([0., 0., 2.])
    """

    domain: Set
    functions: dict[str, Linear]
    sense: str
    variables: tuple[str, ...]

    def __repr__(self) -> str:
        names = ", ".join(self.functions)
        return f"<tiebreak.LinearModel: {len(self.variables)} variables, {self.sense} {names}>"

    def level(
        self, name: str | None = None, slack: float | Slack = 0.0, sense: str | None = None
    ) -> Level:
        """The objective or a free row as a `Level`.

        Args:
            name: the name of the function; None stands for the file's objective.
            slack: see `Level`.
            sense: "min" or "max"; if None, the file's sense for its objective, and "min" for a free
                row.
        """
        first = next(iter(self.functions))
        name = first if name is None else name
        if name not in self.functions:
            known, meant = ", ".join(self.functions), checks.did_you_mean(name, self.functions)
            raise ValueError(
                f"level: name must be the objective or a free row of the file ({known}), "
                f"got {name!r}{meant}"
            )
        sense = sense or (self.sense if name == first else "min")
        return Level(self.functions[name], name, slack, sense)

    def vector(self, entries: Mapping[str, float], default: float = 0.0) -> Host:
        """One number per variable, from a dictionary by name.

        Args:
            entries: numbers by variable name.
            default: the number for all variables that ``entries`` does not name.
        """
        places = {name: i for i, name in enumerate(self.variables)}
        found = np.full(len(places), float(default))
        for name, value in entries.items():
            if name not in places:
                meant = checks.did_you_mean(name, places)
                raise ValueError(f"vector: there is no variable {name!r}{meant}")
            found[places[name]] = checks.finite("vector", name, value)
        return found

    def linear(self, entries: Mapping[str, float], constant: float = 0.0) -> Linear:
        """A linear function, given by the names of its variables.

        Args:
            entries: coefficients by variable name; all other coefficients are 0.
            constant: a constant term.
        """
        return _named(self.vector(entries), constant, self.variables)


def _named(c: Host, constant: float, variables: tuple[str, ...]) -> Linear:
    """A linear function of named variables."""
    found = Linear(c, constant)
    assign(found, "names", variables)
    return found


def read_model(path: str | Path) -> LinearModel:
    """A linear program in an .mps or .lp file, for `Levels`; needs highspy.

    The domain is the feasible set, stored as sparse matrices, with the file's names for rows and
    variables. Rows without bounds (N in MPS) are further objectives, not constraints.

    Args:
        path: the file. Integer variables and quadratic objectives raise a ValueError.

    Examples:
        >>> text = "max profit: 3 a + 2 b\\nst size: a + b <= 4\\n risk: a - b >= -inf\\nend"
        >>> _ = Path("plan.lp").write_text(text)
        >>> tb.read_model("plan.lp")  # a row without a bound is an objective
        <tiebreak.LinearModel: 2 variables, max profit, risk>
    """
    path = Path(path)
    if path.suffix not in ENDINGS:
        raise ValueError(f"read_model: path must end with {' or '.join(ENDINGS)}, got {path}")
    try:
        text = _text(path)
    except OSError as error:
        raise ValueError(f"read_model: {path} cannot be read ({error.strerror or error})") from None
    if path.suffix == ".mps":
        name, further, text = _with_all_objectives(text)
    else:
        name, further = _name_in_lp(text), []
    try:
        return _model(_parsed(text, path), name, further)
    except ValueError as error:
        raise ValueError(f"read_model: {path} {error}") from None


def _text(path: Path) -> str:
    """The text of a file in UTF-8 or, if it is none, in Latin-1, so that names stay different."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return path.read_text(encoding="latin-1")


def _parsed(text: str, path: Path) -> Any:
    """The file as parsed by HiGHS."""
    try:
        import highspy
    except ImportError:
        raise refusals.missing("read_model", "highspy", "highs") from None
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("log_to_console", False)
    with tempfile.TemporaryDirectory() as folder:
        copy, log = Path(folder) / f"model{path.suffix}", Path(folder) / "log"
        copy.write_text(text, encoding="utf-8")
        solver.setOptionValue("log_file", str(log))
        is_read = solver.readModel(str(copy)) == highspy.HighsStatus.kOk
        solver.setOptionValue("output_flag", False)
        said = log.read_text(errors="replace") if log.exists() else ""
    # an ignored line changes the model, even if HiGHS reports success
    doubts = [line for line in DOUBT.findall(said) if not is_read or "ignored" in line]
    if is_read and not doubts and path.suffix == ".mps":
        lines = text.splitlines()
        _check_sense(lines, _sense(solver.getModel().lp_))
        _check_numbers(lines, "fixed format" in said)
    elif is_read and not doubts:
        _check_lp(text)
    if not is_read or doubts:
        why = f": {' '.join(doubts[0].split())}" if doubts else ""
        raise ValueError(f"cannot be read by HiGHS as {path.suffix[1:].upper()}{why}")
    model = solver.getModel()
    if model.hessian_.dim_:
        needed = "must have a linear objective; give Quadratic(Q, c) as a separate level"
        raise ValueError(f"{needed}, got a quadratic one")
    continuous = highspy.HighsVarType.kContinuous
    kinds = [kind != continuous for kind in model.lp_.integrality_]
    if any(kinds):
        first = model.lp_.col_names_[kinds.index(True)]
        count = f"{sum(kinds)} integer or semicontinuous, such as {first!r}"
        raise ValueError(f"must have continuous variables only, got {count}")
    return model.lp_


def _sense(lp: Any) -> str:
    """The sense of the objective, as read by HiGHS."""
    import highspy

    return "max" if lp.sense_ == highspy.ObjSense.kMaximize else "min"


def _model(lp: Any, objective: str, further: list[str]) -> LinearModel:
    """The model that HiGHS read; rows named in ``further`` are objectives despite their bounds."""
    import highspy
    from scipy.sparse import csc_array, csr_array

    shape = (lp.num_row_, lp.num_col_)
    entries = (np.array(lp.a_matrix_.value_), lp.a_matrix_.index_, lp.a_matrix_.start_)
    is_by_column = lp.a_matrix_.format_ == highspy.MatrixFormat.kColwise
    A = csr_array((csc_array if is_by_column else csr_array)(entries, shape=shape))
    low, high = np.array(lp.row_lower_), np.array(lp.row_upper_)
    names, variables = list(lp.row_names_), tuple(lp.col_names_)
    if not variables:
        raise ValueError("must have variables, got none")
    _check_variables(variables, A, np.array(lp.col_cost_))
    extra = np.isin(names, further) | (np.isinf(low) & np.isinf(high))
    bounds = np.array(lp.col_lower_), np.array(lp.col_upper_)
    sets: list[Set] = []
    if not extra.all():
        kept = [name for name, is_extra in zip(names, extra, strict=True) if not is_extra]
        sets.append(Polyhedron(A[~extra], high[~extra], lower=low[~extra], rows=kept))
    if any(np.isfinite(ends).any() for ends in bounds) or not sets:
        sets.append(Box(*bounds))
        assign(sets[-1], "names", variables)
    domain = intersection("read_model", *sets)
    functions = {objective: _named(np.array(lp.col_cost_), lp.offset_, variables)}
    for i in np.flatnonzero(extra):
        if names[i] in functions:
            raise ValueError(f"must name every objective differently, got {names[i]!r} twice")
        # The constant of an objective in MPS is minus its right-hand side.
        constant = 0.0 - low[i] if np.isfinite(low[i]) else 0.0
        functions[names[i]] = _named(A[[i]].toarray()[0], constant, variables)
    return LinearModel(domain, functions, _sense(lp), variables)


def _with_all_objectives(text: str) -> tuple[str, list[str], str]:
    """The name of an MPS file's first N row, the other names, and the text with those as >= rows.

    HiGHS ignores all N rows except the first.
    """
    lines, found = text.splitlines(), []
    for i, kind, name in _rows_of_mps(lines):
        if kind.upper() == "N":
            found.append(name)
            if len(found) > 1:
                lines[i] = lines[i].replace(kind, "G", 1)
    first = found[0] if found else OBJECTIVE
    return first, found[1:], "\n".join(lines) + "\n" if len(found) > 1 else text


def _check_variables(variables: tuple[str, ...], A: Any, cost: Host) -> None:
    """Reject variables that HiGHS created from a decimal comma or bracket; warn of unused ones."""
    for name in variables:
        if name.startswith(","):  # in LP files, 2,5 is 2 times the variable ",5"
            raise ValueError(f"must have decimal points, not commas, got the variable {name!r}")
        if name.count("(") != name.count(")"):  # 2 (x + y) is 2 times the variable "(x" and "y)"
            raise ValueError(f"must have no brackets around terms, got the variable {name!r}")
    is_used = (cost != 0.0) | (np.bincount(A.indices, minlength=len(cost)) > 0)
    if not is_used.all():
        which = f"the variable {variables[int(np.argmin(is_used))]!r}"
        text = f"read_model: {which} is in no row or objective: is its name misspelt?"
        warnings.warn(text, stacklevel=4)


def _check_numbers(lines: list[str], is_fixed: bool) -> None:
    """Reject text in place of a number in an MPS file: HiGHS would read its first digits."""
    for i, section, is_head, line in _lines_of_mps(lines):
        words = line.partition(" $")[0].split()
        if is_head or section not in WITH_NUMBERS or not words or "'MARKER'" in words:
            continue
        if section == "BOUNDS" and words[0].upper() in WITHOUT_NUMBER:
            continue
        # Right-hand sides and ranges may come without the name of their set.
        is_pair = len(words) == 4 and section != "BOUNDS"
        numbers = words[-1:] + words[2:3] * (len(words) == 5) + words[1:2] * is_pair
        for word in f"{line[24:36]} {line[49:61]}".split() if is_fixed else numbers:
            if not NUMBER_OF_MPS.fullmatch(word):
                needed = "must have a number after each name (with a point, not a comma)"
                raise ValueError(f"{needed}, got {word!r} in line {i + 1}")


def _check_sense(lines: list[str], sense: str) -> None:
    """Reject lines of an MPS file that HiGHS ignores, and an objective sense unknown to HiGHS."""
    words: list[str] = []
    is_before_rows = True
    for i, section, is_head, line in _lines_of_mps(lines):
        is_before_rows = is_before_rows and section != "ROWS"
        if section == "OBJSENSE":
            words += line.split()[is_head:]
        elif is_before_rows and line.strip() and not (is_head and section == "NAME"):
            needed = "must have nothing but NAME and OBJSENSE before ROWS"
            raise ValueError(f"{needed}, got {line.strip()!r} in line {i + 1}")
    if words and [word.upper() for word in words] not in SENSES[sense]:
        said = " ".join(words)
        raise ValueError(f"must have MIN or MAX in the line after OBJSENSE, got {said!r}")


def _rows_of_mps(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """The line number, the kind and the name of each row."""
    for i, section, is_head, line in _lines_of_mps(lines):
        if section == "ROWS" and not is_head and len(parts := line.split(None, 1)) == 2:
            yield i, parts[0], parts[1].strip()


def _lines_of_mps(lines: list[str]) -> Iterator[tuple[int, str, bool, str]]:
    """Yield each line except comments: its number, its section, is it a heading, and its text."""
    section = ""
    for i, line in enumerate(lines):
        if line[:1] in ("*", ""):
            continue
        if is_head := line[0] not in " \t":
            section = line.split()[0].upper()
        yield i, section, is_head, line


def _check_lp(text: str) -> None:
    """Reject an LP file if HiGHS would silently ignore a part of it."""
    plain = _without_comments(text)
    heads = list(SECTIONS.finditer(plain))
    if not heads or not heads[0]["objective"] or plain[: heads[0].start()].strip():
        first = (plain.split() or [""])[0]
        raise ValueError(f"must begin with minimize or maximize, got {first!r}")
    if ";" in plain:
        raise ValueError("must have no semicolons, because HiGHS ignores what follows them")
    if heads[1:] and not (heads[1]["rows"] or heads[1]["bounds"] or heads[1]["end"]):
        raise ValueError(f"must have constraints after a single objective, got {heads[1][0]!r}")
    ends = [head.start() for head in heads[1:]] + [len(plain)]
    for head, end in zip(heads, ends, strict=True):
        if head["objective"]:
            _check_objective(plain[head.end() : end])
        elif head["rows"]:
            _check_rows(plain[head.end() : end])


def _check_objective(text: str) -> None:
    """Reject a variable that occurs twice: HiGHS would ignore its first coefficient."""
    terms = text.partition(":")[2] or text
    names = COEFFICIENT.sub(" ", terms.partition("[")[0]).replace("+", " ").replace("-", " ")
    for name, count in Counter(names.split()).most_common(1):
        if count > 1:
            raise ValueError(f"must have each variable once in the objective, got {name!r} twice")


def _check_rows(text: str) -> None:
    """Reject constants on the left, and right-hand sides without a row."""
    start = 0
    for side in RIGHT_SIDE.finditer(text):
        row, start = " ".join(text[start : side.start()].split()), side.end()
        if constant := CONSTANT.search(row):
            found = f"{constant[0]!r} in {row!r}"
            raise ValueError(f"must have no constant on the left of a row, got {found}")
        if not row.rpartition(":")[2].strip():
            found = f"none before {' '.join(side[0].split())!r}"
            raise ValueError(f"must have variables on the left of each row, got {found}")


def _without_comments(text: str) -> str:
    """An LP file without its comments."""
    return re.sub(r"\\.*", "", text)


def _name_in_lp(text: str) -> str:
    """The name of the objective in an LP file."""
    plain = _without_comments(text)
    found = re.match(r"\s*(?:min|max)\w*\s+([^\s:+-]+)\s*:", plain, re.IGNORECASE)
    return found[1] if found else OBJECTIVE
