"""The methods that ``solve`` knows by name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from tiebreak.algorithms import (
    AIRG,
    DBGD,
    FIBA,
    IRCG,
    IREAPG,
    IREPG,
    IRFSCG,
    IRSCG,
    MNG,
    PBAPG,
    RAPM,
    RVFISTA,
    SBCGF,
    SEA,
    SEDM,
    AdaBiM,
    AdaptiveAGMBiO,
    AGMBiO,
    BiFISTA,
    BiGSAM,
    BiPG,
    BisecBiO,
    BiSG,
    BregmanSVRG,
    CGBiO,
    FBiPG,
    FCBiO,
    LevelNewton,
    Method,
    PAGMBiO,
    PrimalDual,
    Rate,
    StaBiM,
    Tikhonov,
)
from tiebreak.algorithms.facts import bibtex
from tiebreak.auto.bregman import BregmanIteration
from tiebreak.auto.selection import choose
from tiebreak.conic.method import Conic
from tiebreak.exact.method import Exact
from tiebreak.linalg import checks
from tiebreak.problem import Problem

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        *(AGMBiO, PAGMBiO, AdaptiveAGMBiO, PrimalDual, BregmanSVRG, Exact, Conic),
        *(AIRG, BiSG, SEA, CGBiO, RAPM, PBAPG, BisecBiO),
        *(IREPG, StaBiM, SEDM, BiPG, FBiPG, BiFISTA, IREAPG),
        *(Tikhonov, LevelNewton, AdaBiM, RVFISTA, FIBA),
        *(BiGSAM, MNG, DBGD, FCBiO, IRCG, IRSCG, IRFSCG, SBCGF, BregmanIteration),
    )
}
GROUP = "tiebreak.methods"  # the entry-point group in which other packages list their methods

Kind = TypeVar("Kind", bound=type[Method])


@dataclass(frozen=True)
class MethodInfo:
    """One entry of ``tb.methods()``."""

    name: str
    paper: str
    assumptions: str
    guarantee: str
    rates: tuple[Rate, ...]  # the published rates
    output: str  # the point for which the method's theorem holds
    bibtex: str


def methods() -> list[MethodInfo]:
    """List the methods that ``solve`` knows by name, with their papers, assumptions and guarantees.

    Examples:
        >>> for method in tb.methods()[:1]:
        ...     print(method.name, "|", method.assumptions)
        agm-bio | f, g convex and smooth; Z closed, with an easy projection
    """
    return [
        MethodInfo(m.name, m.paper, m.assumptions, m.guarantee, m.rates, m.output, bibtex(m.cites))
        for m in known_methods().values()
    ]


def register(kind: Kind) -> Kind:
    """Register your own method by name for ``solve``, ``compare`` and the command line.

    Args:
        kind: a subclass of `Method` with a unique ``name`` and defaults for all its parameters.
            The function returns the class, so it also works as a decorator.

    Examples:
        >>> @tb.register
        ... class Cautious(tb.AGMBiO):
        ...     name = "cautious"
        >>> tb.solve(tb.instance("toy").problem, "cautious", rtol=1e-2).success
        True
    """
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        got = checks.what_it_is(kind)
        raise TypeError(f"register: kind must be a subclass of Method, got {got}")
    other: Any = METHODS.get(kind.name, kind)
    is_same = (other.__module__, other.__qualname__) == (kind.__module__, kind.__qualname__)
    # users may redefine their own methods, as in a notebook
    if kind.name in ("auto", Method.name) or not is_same:
        raise ValueError(f"register: name must be unused, got {kind.name!r} of {kind.__name__}")
    METHODS[kind.name] = kind
    return kind


def known_methods() -> Mapping[str, type[Method]]:
    """Return all methods by name: built in, registered, or from entry points."""
    _load_entry_points()
    return METHODS


@cache
def _load_entry_points() -> None:
    """Load entry points once; warn about a method that cannot be loaded and leave it out."""
    for entry in entry_points(group=GROUP):
        try:
            register(entry.load())
        except Exception as error:  # a third-party package may raise anything
            words = f"the method {entry.value} of the entry point {entry.name!r} was not loaded"
            warnings.warn(f"{words}: {error}", RuntimeWarning, stacklevel=4)


def from_file(text: str) -> str:
    """Return the name of a method; ``text`` is this name, or FILE.py:CLASS to load and register.

    Loading runs the file, so the text must come from the user.
    """
    path, colon, kind = text.rpartition(":")
    if not (colon and path.endswith(".py")):
        return text
    # A name of its own: a file called json.py must not replace a module that others import.
    spec = spec_from_file_location(f"methods_in_{Path(path).stem}", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ValueError(f"method: FILE.py:CLASS must name an existing file, got {text!r}")
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look the module up
    spec.loader.exec_module(module)
    if not hasattr(module, kind):
        raise ValueError(f"method: FILE.py:CLASS must name a class in that file, got {text!r}")
    found: type[Method] = getattr(module, kind)
    return register(found).name


def find_method(method: str | Method, problem: Problem, owner: str = "solve") -> Method:
    """Return a method given by name or as an object; raise a clear error if there is none."""
    if isinstance(method, str):
        if method == "auto":
            return choose(problem)
        if method in (found := known_methods()):
            return found[method]()
        meant = checks.did_you_mean(method, ["auto", *found])
        meant = meant or ', use "auto" or a name in tb.methods()'
        raise ValueError(f"{owner}: unknown method {method!r}{meant}")
    if not isinstance(method, Method):
        raise TypeError(
            f"{owner}: method must be a name or an object such as AGMBiO(), "
            f"got {checks.what_it_is(method)}"
        )
    return method
