"""The face on which a point lies: a face of a set, or of a set with penalties."""

from __future__ import annotations

import math

import numpy as np

from tiebreak.functions import Terms
from tiebreak.linalg import Array, arrays
from tiebreak.sets import ActiveFace, Domain, room_along


def face_of_domain(domain: Domain, x: Array) -> ActiveFace:
    """Return the face of the domain whose relative interior contains x.

    An entry counts as on a bound only if it equals the bound exactly, as it does after `project`.
    The sphere of a ball also counts as a face, with its tangent directions. If the kind of set is
    unknown, return the whole set.
    """
    whole = ActiveFace(
        lambda v: v,
        arrays.zeros_like(x),
        domain.project,
        arrays.namespace(x).ones_like(x),
        is_plain=True,
    )
    return domain.face_at(x) or whole


def face_of_terms(terms: Terms, x: Array) -> tuple[ActiveFace, Array | None]:
    """Return the face on which the terms are smooth, and their slope along it (None if it is 0).

    Entries at a kink of an l1 part stay at the kink, and so do groups and the whole vector at the
    kinks of their norms. The kinks are at 0, or at the center if the penalty has one.
    """
    face = face_of_domain(terms.domain, x)
    if not terms.has_weights:
        return face, None
    return terms.face_at(x) or _face_of_norms(terms, x, face)


def _face_of_norms(terms: Terms, x: Array, face: ActiveFace) -> tuple[ActiveFace, Array]:
    xp = arrays.namespace(x)
    zero = arrays.zeros_like(x)
    # The kinks of the norms are at their centers; a weight of 0 gives no kink.
    kink = zero if terms.center is None else arrays.like(terms.center, x)
    off = arrays.from_center(x, terms.center)
    has_l1 = terms.norms[0] > 0.0
    l1 = zero + (terms.l1 if isinstance(terms.l1, float) else arrays.like(terms.l1, x))
    slope, signs = terms.square * x, xp.sign(off)
    free = xp.ones_like(x)
    if has_l1:
        signs = signs * xp.astype(l1 > 0.0, x.dtype)
        free = xp.where(l1 > 0.0, xp.abs(signs), free)
        slope = slope + l1 * signs
    if terms.group > 0.0:
        lengths, layout = terms.lengths(off)
        is_on = (lengths > 0.0) | (layout.penalised == 0.0)
        free = layout.spread(free, is_on.astype(np.float64))
        slope = slope + layout.spread(
            off, terms.group * layout.penalised / np.where(lengths > 0.0, lengths, np.inf)
        )
    if terms.l2 > 0.0:
        length = arrays.norm(off)
        free = free if length > 0.0 else zero
        slope = slope + (terms.l2 / length if length > 0.0 else 0.0) * off

    def retract(y: Array) -> Array:
        # A step that would change a sign or reverse a group ends at the kink.
        if has_l1:
            y = xp.where(signs * (y - kink) < 0.0, kink, y)
        if terms.group > 0.0:
            layout = terms.layout(int(x.shape[0]))
            beyond = arrays.from_center(y, terms.center)
            is_over = (layout.dots(off, beyond) < 0.0) & (layout.penalised > 0.0)
            y = kink + layout.spread(beyond, 1.0 - is_over)
        return face.retract(y)

    key = face.key + 4.0 * (free * signs if has_l1 else free)

    def room(x: Array, d: Array) -> float:
        return min(
            face.room(x, d), room_along(signs * (x - kink), signs * d) if has_l1 else math.inf
        )

    both = None if face.free is None else free * face.free
    return ActiveFace(
        lambda v: face.along(free * v), key, retract, both, room, face.is_plain, face.curvature
    ), slope
