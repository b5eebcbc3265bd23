"""The reference: the public names in groups, a page for each, and a page with all of them."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import NamedTuple

IMPORTS = "The examples assume `import numpy as np` and `import tiebreak as tb`."
# Of these classes more is used than the constructor; what else they have is for methods.
MEMBERS = {
    "Problem": "dimension save",
    "Result": "message success proved upper_value lower_value upper_gap lower_gap upper_error "
    "upper_optimum lower_optimum dimension details plot save to_dict to_html open",
    "Trace": "column to_pandas",
    "Certificate": "",
    "Comparison": "methods first last plot to_html open",
    "Levels": "names dimension save",
    "LevelsResult": "duals named message success proved save to_dict to_html open",
    "LevelReport": "given_up",
    "LinearModel": "level linear vector",
    "Tradeoff": "plot to_dict",
    "TieBreakRegressor": "fit predict score coef_table plot_choice",
    "TieBreakClassifier": "fit predict predict_proba decision_function score coef_table",
}
# What a docstring gets when the library is imported, and the pages do not see.
AFTER = {"tiebreak.solve": "[Every word of a report, explained](../statuses.md)\n"}


class Group(NamedTuple):
    """A page of the reference."""

    title: str
    text: str
    members: str  # what the names have in common before the last dot is `package`
    package: str = "tiebreak"

    @property
    def names(self) -> list[str]:
        """The names with their package."""
        return [f"{self.package}.{name}" for name in self.members.split()]

    def options(self, name: str) -> str:
        """What is shown of a name, for mkdocstrings."""
        shown = ", ".join(MEMBERS.get(name.rpartition(".")[2], "").split())
        more = f"    options:\n      inherited_members: true\n      members: [{shown}]\n"
        return f"{more if shown else ''}\n{AFTER.get(name, '')}"


GROUPS = (
    Group(
        "Problems",
        "Two levels on a convex set, and problems that are built in.",
        "Problem ErrorBound instance instances",
    ),
    Group(
        "Solving",
        "From a problem to an answer, to what is proved about a point, or to a race of methods.",
        "solve minimize certify compare methods register",
    ),
    Group(
        "Results",
        "What these calls return. How to read it: [statuses](../statuses.md).",
        "Result Trace Certificate Comparison Answer",
    ),
    Group(
        "Functions and losses",
        "What a level is made of. Multiples and sums are functions too: `2 * f`, `f + h`.",
        "LeastSquares Logistic Multinomial Poisson Huber SquaredHinge Quadratic SquaredNorm Linear "
        "Smooth",
    ),
    Group(
        "Penalties",
        "Functions with an easy prox, on either level: `LeastSquares(A, b) + L1(0.1)`.",
        "L1 L2 LInf ElasticNet GroupL2 TotalVariation NuclearNorm Quantile Hinge Indicator Zero",
    ),
    Group(
        "Sets",
        "The domain of a problem; `&` is the intersection: [constraints](../constraints.md).",
        "Ball Box Orthant Simplex L1Ball Halfspace Monotone Polyhedron SecondOrderCone "
        "Intersection Space",
    ),
    Group(
        "Levels",
        "Three priorities or more, and what a little slack buys: [levels](../levels.md).",
        "Levels Level Slack LevelsResult LevelReport read_model LinearModel tradeoff Tradeoff",
    ),
    Group(
        "Methods",
        'An object or its name: `tb.solve(problem, "agm-bio")` takes the defaults. '
        "What they assume and guarantee: [the table](../development/methods-table.md).",
        "AGMBiO PAGMBiO AdaptiveAGMBiO Exact Conic PrimalDual BregmanSVRG RAPM PBAPG BiSG AIRG "
        "CGBiO BisecBiO SEA Diagonal IREPG StaBiM SEDM BiPG FBiPG BiFISTA IREAPG "
        "Tikhonov LevelNewton AdaBiM RVFISTA FIBA BiGSAM MNG DBGD FCBiO IRCG BregmanIteration "
        "IRSCG IRFSCG SBCGF OnlineLevels FixedLevels GivenLevels",
    ),
    Group(
        "Estimators",
        "For scikit-learn: of all equally good fits the one that you prefer, such as that of "
        "minimum norm (ridgeless regression): [estimators](../estimators.md).",
        "TieBreakRegressor TieBreakClassifier choose_slack",
        "tiebreak.sklearn",
    ),
    Group(
        "CVXPY",
        "Levels written in CVXPY: [models in CVXPY](../cvxpy.md).",
        "from_cvxpy register_cvxpy",
    ),
    Group(
        "Scale",
        "Rows that stay on a disk: [scale](../scale.md).",
        "Streamed",
    ),
    Group(
        "Saving",
        "Problems and results in files, without pickle.",
        "load",
    ),
)


def summary(name: str) -> str:
    """The first line of a public name's docstring, safe in a table."""
    module, _, attribute = name.rpartition(".")
    said = inspect.getdoc(getattr(importlib.import_module(module), attribute)) or ""
    return said.splitlines()[0].replace("|", "\\|")


def table(group: Group, page: str) -> str:
    """The names of a group with their first lines."""
    rows = [f"| [`{n.split('.')[-1]}`]({page}#{n}) | {summary(n)} |" for n in group.names]
    return "\n".join(["| name | what it is |", "|---|---|", *rows, ""])


def write(out: Path) -> None:
    """The pages of the API, and one with all names."""
    out.mkdir()
    index = f"# API\n\nEvery public name. {IMPORTS}\n"
    for group in GROUPS:
        page = f"{group.title.lower().split()[0]}.md"
        index += f"\n## [{group.title}]({page})\n\n{group.text}\n\n{table(group, page)}"
        text = f"# {group.title}\n\n{group.text} {IMPORTS}\n\n{table(group, '')}"
        text += "".join(f"\n::: {name}\n{group.options(name)}" for name in group.names)
        (out / page).write_text(text, encoding="utf-8")
    (out / "index.md").write_text(index, encoding="utf-8")
