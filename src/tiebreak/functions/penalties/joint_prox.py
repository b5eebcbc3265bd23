"""Which pairs of penalties, on which sets, have weighted sums with a prox in closed form."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tiebreak.functions.penalties.terms import Terms
from tiebreak.linalg import Array, Host, Refusal
from tiebreak.sets import Ball, Box, Domain, Space
from tiebreak.sets.constraints import Intersection, intersection, is_centred

if TYPE_CHECKING:
    from tiebreak.functions.penalties.penalties import Penalty


HINT = "conic needs no prox; exact needs none if the whole upper level is one penalty"


@dataclasses.dataclass(frozen=True, eq=False)
class Joint:
    """Two penalties f2 and g2 on a common set, whose weighted sums have a prox in closed form."""

    upper: Terms
    lower: Terms

    @cached_property
    def has_norms(self) -> bool:
        """Do the two penalties contain more than squares?"""
        return self.upper.has_norms or self.lower.has_norms

    def terms(self, a: float, mu: float) -> Terms:
        """a f2 + mu g2 on the common set; if one of them has no joint prox, the other is 0."""
        if self.upper.is_alone or self.lower.is_alone:
            return self.upper.times(a) if self.upper.is_alone else self.lower.times(mu)
        pairs = zip(self.upper.weights, self.lower.weights, strict=True)
        return self.upper.with_weights(*(a * p + mu * q for p, q in pairs))

    def prox(self, v: Array, a: float, mu: float) -> Array:
        """argmin over z in the common set of a f2(z) + mu g2(z) + ½|z - v|²."""
        return self.terms(a, mu).prox(v)


def joint(f2: Penalty, g2: Penalty, domain: Domain | None = None, owner: str = "joint") -> Joint:
    """The two penalties on the common set of their domains and ``domain``.

    If their joint prox has no closed form, a Refusal names what cannot be combined:

    - different groups, or norms with different centers;
    - two sets, unless both are boxes or both are balls around 0;
    - groups or L2 and a box that is not a cone;
    - L2 with a center and a box;
    - any norm with a center, and a ball;
    - a norm and any other set.
    """
    f, g = f2.terms, g2.terms
    for penalty in (f2, g2):
        if penalty.terms.has_operator:
            raise _no_prox(owner, f"{penalty!r}, which has none", HINT)
    one, other = (f2, g2) if f.is_alone else (g2, f2)
    if one.terms.is_alone and other.terms.has_weights:
        raise _no_prox(owner, f"{one.label} and {other.label}")
    both = f.groups if f.group > 0.0 else None, g.groups if g.group > 0.0 else None
    if both[0] is not None and both[1] is not None and not both[0].same_as(both[1]):
        raise _no_prox(owner, "two GroupL2 with different groups")
    center = _common_center(owner, f2, g2)
    groups = f.groups if f.group > 0.0 else g.groups
    common = _common(owner, f.domain, g.domain, domain or Space())
    for penalty in (f2, g2):
        if not _has_prox_on(common, penalty.terms):
            is_off = isinstance(common, Ball) and not is_centred(common)
            name = type(common).__name__
            name += " with another center" * (is_off and not penalty.terms.is_alone)
            raise _no_prox(owner, f"{penalty.label} and {name}")
    parts = (dataclasses.replace(p, groups=groups, domain=common, center=center) for p in (f, g))
    return Joint(*parts)


def _common_center(owner: str, f2: Penalty, g2: Penalty) -> Host | None:
    """The common center of the norms; raise a Refusal if the centers differ."""
    centers = [penalty.terms.center for penalty in (f2, g2) if penalty.terms.has_norms]
    known = [center for center in centers if center is not None]
    if not known:
        return None
    if len(known) < len(centers) or not all(np.array_equal(known[0], c) for c in known):
        raise _no_prox(owner, f"{f2.label} and {g2.label} with another center")
    return known[0]


def _common(owner: str, *sets: Domain) -> Domain:
    """The intersection of the sets; raise a Refusal unless it is a set with a projection."""
    found = intersection(owner, *sets)
    if isinstance(found, Intersection):
        raise _no_prox(owner, " and ".join(type(one).__name__ for one in found.sets[:2]))
    return found


def _no_prox(owner: str, got: str, hint: str = "") -> Refusal:
    needed = "must have a joint prox in closed form"
    return Refusal(owner, "the penalties and the domain", needed, got, hint)


def _has_prox_on(common: Domain, terms: Terms) -> bool:
    """Do the terms have a prox in closed form on the set?"""
    if terms.is_alone:
        return isinstance(common, Space)
    if not terms.has_weights or isinstance(common, Space):
        return True
    if isinstance(common, Box):
        entrywise = terms.group == 0.0 and terms.l2 == 0.0
        return entrywise or (terms.center is None and common.is_cone)
    return terms.center is None and isinstance(common, Ball) and is_centred(common)
