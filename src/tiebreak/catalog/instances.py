"""The built-in problems: ``instances()`` lists them, ``instance(name, ...)`` builds one.

Nothing is built or loaded before it is needed, and nothing is ever downloaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tiebreak.catalog import datasets, hansen
from tiebreak.catalog.built import Built, in_words
from tiebreak.catalog.datasets import breast_cancer
from tiebreak.catalog.field import cg_bio_toy, duffin, nemirovsky, squared_hinge
from tiebreak.catalog.inverse import hard, inverse, random_inverse, toy
from tiebreak.catalog.sparse import basis_pursuit, group_pursuit, lasso_duplicates
from tiebreak.catalog.wikipedia import regression
from tiebreak.linalg import checks

__all__ = ["Built", "Instance", "breast_cancer", "instance", "instances", "table"]


# The ranges of parameters, the same in all problems: LEAST has the minimum of each parameter that
# is a whole number; parameters in POSITIVE must be positive.
LEAST = {
    **dict.fromkeys(("seed", "ties"), 0),
    **dict.fromkeys(("n", "rows", "rank", "steps", "features", "nonzeros"), 1),
    **dict.fromkeys(("groups", "size", "active"), 1),
    **dict.fromkeys(("variables", "copies"), 2),
}
POSITIVE = ("radius", "stretch", "smoothness", "weight")


@dataclass(frozen=True, eq=False)
class Instance:
    """An entry of ``tb.instances()``: a problem that can be built.

    ``variables`` and ``dimension`` (of the set of lower minimisers; None if it is not known)
    describe ``build()`` without parameters.
    """

    name: str
    title: str
    source: str
    variables: int
    dimension: int | None
    make: Callable[..., Built] = field(repr=False)

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of ``build``, with their default values."""
        return {name: p.default for name, p in inspect.signature(self.make).parameters.items()}

    def build(self, **parameters: Any) -> Built:
        """Return the problem with its starting point and known facts."""
        for name, value in list(parameters.items()):
            if name not in self.parameters:
                meant = checks.did_you_mean(name, self.parameters)
                known = ", ".join(self.parameters)
                raise TypeError(
                    f"{self.name}: unknown parameter {name!r}{meant}; known are {known}"
                )
            if name in LEAST and value is not self.parameters[name]:  # None may be a default
                parameters[name] = checks.whole(self.name, name, value, LEAST[name])
            if name in POSITIVE:
                parameters[name] = checks.positive(self.name, name, value)
        return self.make(**parameters)

    def __str__(self) -> str:
        rows = {
            "source": self.source,
            "variables": f"{self.variables}",
            "ties": in_words(self.dimension),
            "parameters": ", ".join(f"{name} = {value}" for name, value in self.parameters.items()),
        }
        lines = [f"  {what:<13}{text}" for what, text in rows.items()]
        return "\n".join([f"{self.name}: {self.title}", *lines])


PAPER = "Cao, Jiang, Yazdandoost Hamedani, Mokhtari 2024"
HANSEN = "Hansen, Regularization Tools 1994"
TUMOURS = "Wolberg, Street, Mangasarian 1995 (scikit-learn)"

INSTANCES = (
    Instance(
        "toy",
        "two variables, made for drawing: a chord of the disc",
        "tiebreak",
        2,
        1,
        toy,
    ),
    Instance(
        "inverse",
        "the paper's inverse problem: the vector of least norm with entries >= 0 that sum to one",
        f"{PAPER}, fig. 2",
        100,
        99,
        inverse,
    ),
    Instance(
        "random-inverse",
        "random Q, A, b: the least-squares solution with the smallest Q-norm",
        "Sabach, Shtern 2017",
        60,
        40,
        random_inverse,
    ),
    Instance(
        "regression",
        "the paper's regression: visits to Wikipedia pages (or a synthetic twin of these data)",
        f"{PAPER}, fig. 1",
        730,
        0,
        regression,
    ),
    Instance(
        "regression-few-rows",
        "the paper's regression with 25 % of the rows for training, so that many models fit "
        "equally well",
        f"{PAPER}, changed",
        730,
        463,
        partial(regression, train=0.25),
    ),
    Instance(
        "regression-large-ball",
        "the paper's regression with 25 % of the rows for training and five times the radius",
        f"{PAPER}, changed",
        730,
        463,
        partial(regression, train=0.25, radius=5.0),
    ),
    Instance(
        "phillips",
        "an integral equation, mildly ill-posed: the smallest function that explains the data",
        f"{HANSEN}; Phillips 1962",
        100,
        0,
        partial(hansen.ill_posed, hansen.PHILLIPS),
    ),
    Instance(
        "phillips-few-rows",
        "phillips observed at 25 points, so that many functions fit equally well",
        f"{HANSEN}, changed",
        100,
        75,
        partial(hansen.ill_posed, hansen.PHILLIPS, rows=25),
    ),
    Instance(
        "baart",
        "an integral equation, severely ill-posed: the rank is not determined",
        f"{HANSEN}; Baart 1982",
        100,
        None,
        partial(hansen.ill_posed, hansen.BAART),
    ),
    Instance(
        "foxgood",
        "an integral equation, severely ill-posed: the rank is not determined",
        f"{HANSEN}; Fox, Goodwin 1953",
        100,
        None,
        partial(hansen.ill_posed, hansen.FOXGOOD),
    ),
    Instance(
        "breast-cancer",
        "among all models that fit 50 tumours, the one that fits the others best",
        TUMOURS,
        495,
        445,
        datasets.tumours,
    ),
    Instance(
        "diabetes",
        "among all models that fit 30 patients, the one that fits the others best",
        "Efron, Hastie, Johnstone, Tibshirani 2004 (scikit-learn)",
        65,
        35,
        datasets.diabetes,
    ),
    Instance(
        "digits",
        "among all models that fit 30 pictures, odd or even, the one that fits the others best",
        "Alpaydin, Kaynak 1998 (scikit-learn)",
        64,
        34,
        datasets.digits,
    ),
    Instance(
        "logistic",
        "minimum-norm logistic regression with redundant columns, in a ball that does not bind",
        TUMOURS,
        20,
        9,
        datasets.logistic,
    ),
    Instance(
        "logistic-small-ball",
        "the logistic problem in a ball that binds: a single minimiser",
        TUMOURS,
        20,
        0,
        partial(datasets.logistic, radius=2.0),
    ),
    Instance(
        "sparse-logistic",
        "logistic regression with redundant columns in an l1 ball that binds",
        TUMOURS,
        20,
        None,
        datasets.sparse_logistic,
    ),
    Instance(
        "sparse-logistic-large-ball",
        "the sparse-logistic problem in an l1 ball that does not bind",
        TUMOURS,
        20,
        9,
        partial(datasets.sparse_logistic, radius=15.0),
    ),
    Instance(
        "hard",
        "no first-order method gets |f - f*| below 1 in 50 steps",
        "in the spirit of Zhang, Chen, Xu, Zhang 2024",
        101,
        1,
        hard,
    ),
    Instance(
        "basis-pursuit",
        "the sparsest least-squares solution",
        "tiebreak; Chen, Donoho, Saunders 1998",
        1000,
        800,
        basis_pursuit,
    ),
    Instance(
        "group-pursuit",
        "the least-squares solution with the fewest groups of variables",
        "tiebreak",
        400,
        300,
        group_pursuit,
    ),
    Instance(
        "lasso-duplicates",
        "among all solutions of a Lasso with duplicated columns, the best one for other data",
        "tiebreak",
        200,
        12,
        lasso_duplicates,
    ),
    Instance(
        "nemirovsky",
        "a chain, and an l1 norm that pulls away from it",
        "Bot, Chenchene, Csetnek, Hulett 2025",
        7,
        3,
        nemirovsky,
    ),
    Instance(
        "squared-hinge",
        "the nearest point of a polyhedron, on which the lower level is flat",
        "tiebreak",
        20,
        20,
        squared_hinge,
    ),
    Instance(
        "cg-bio-toy",
        "two variables on a polyhedron that has no cheap projection",
        "Jiang, Abolfazli, Mokhtari, Yazdandoost Hamedani 2023",
        2,
        1,
        cg_bio_toy,
    ),
    Instance(
        "duffin",
        "strong duality fails: weakly optimal points say nothing about f*",
        "after Duffin 1956",
        2,
        1,
        duffin,
    ),
)


def instances() -> list[Instance]:
    """List the built-in problems without building any of them.

    Examples:
        >>> for built_in in tb.instances()[:2]:
        ...     print(built_in.name, built_in.variables)
        toy 2
        inverse 100
    """
    return list(INSTANCES)


def instance(name: str, **parameters: Any) -> Built:
    """Build the built-in problem ``name``.

    Args:
        name: a name in ``instances()``.
        parameters: parameters of the instance; ``print`` the instance to see them.

    Returns:
        A Built: the problem, its starting point, and what is known about it.

    Examples:
        >>> toy = tb.instance("toy")
        >>> result = tb.solve(toy.problem)
        >>> abs(result.upper_value - toy.upper_optimum) <= 1e-4
        True
    """
    for candidate in INSTANCES:
        if candidate.name == name:
            return candidate.build(**parameters)
    known = [candidate.name for candidate in INSTANCES]
    meant = checks.did_you_mean(name, known) or f", known are {', '.join(known)}"
    raise ValueError(f"instance: unknown name {name!r}{meant}")


def table() -> str:
    """Return all instances as lines of text: name, variables, dimension of the ties, source."""
    rows = [("name", "variables", "ties", "source")]
    for one in INSTANCES:
        ties = "?" if one.dimension is None else f"{one.dimension}"
        rows.append((one.name, f"{one.variables}", ties, one.source))
    first = max(len(row[0]) for row in rows)
    return "\n".join(
        f"{name:<{first}}  {variables:>9}  {ties:>4}  {source}"
        for name, variables, ties, source in rows
    )
