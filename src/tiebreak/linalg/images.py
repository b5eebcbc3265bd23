"""Images A x that are left to a later pass over A, which also computes losses and slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tiebreak.linalg.arrays import Array, Image, zeros_like

Terms = Iterable[tuple[float, Any]]  # pairs of a weight and an array or DeferredProduct


class DeferredProduct:
    """A x for a vector x and a matrix A; ``value`` is None until a pass over A computes it."""

    def __init__(self, forward: Callable[[Array], list[Array]], x: Array) -> None:
        self._forward, self.x = forward, x
        self.value: Array | None = None

    def known(self) -> Array:
        """The product, which takes a separate pass if it is not known yet."""
        if self.value is None:
            (self.value,) = self._forward(self.x)
        return self.value


class DeferredImage:
    """The image of a point, as a sum of weight * part, for matrices whose products share passes.

    A part is an array or a DeferredProduct. Nothing is multiplied until a function is evaluated at
    the point: then one pass over the rows yields the products, the loss and the slope together.
    """

    __array_ufunc__ = None  # so that NumPy leaves arithmetic to ``mix``

    def __init__(self, parts: Terms) -> None:
        self.parts: tuple[tuple[float, Any], ...] = tuple(parts)
        self.value: Array | None = None  # the sum as an array, once known

    def mixed(self, p: Image, q: Image, weight: float) -> DeferredImage:
        """(1 - weight) p + weight q, with equal parts combined; ``self`` is p or q."""
        shares = ((p, 1.0 - weight), (q, weight))
        terms = ((share * factor, part) for h, share in shares for factor, part in _terms(h))
        return DeferredImage(_collected(terms).values())

    def known(self) -> Array:
        """The image as an array, after a pass over the matrix if a product is not yet known."""
        if self.value is None:
            known = [(w, p.known() if isinstance(p, DeferredProduct) else p) for w, p in self.parts]
            terms = [w * part for w, part in known if w != 0.0]
            self.value = sum(terms[1:], terms[0]) if terms else zeros_like(known[0][1])
        return self.value

    def saved(self) -> Array:
        """The array that a checkpoint stores for the image."""
        return self.known()


def _terms(image: Image) -> Terms:
    """An image as a sum of weight * part."""
    if isinstance(image, DeferredImage):
        return image.parts if image.value is None else ((1.0, image.value),)
    return ((1.0, image),)


def _collected(terms: Terms) -> dict[int, tuple[float, Any]]:
    """The terms of a sum with equal parts combined; parts are compared by identity."""
    found: dict[int, tuple[float, Any]] = {}
    for weight, part in terms:
        found[id(part)] = (found.get(id(part), (0.0, part))[0] + weight, part)
    return found


def _opened(part: Any) -> Any:
    """The array of a DeferredProduct if it is known; any other part is returned unchanged."""
    is_known = isinstance(part, DeferredProduct) and part.value is not None
    return part.value if is_known else part


class PassPlan(NamedTuple):
    """What one pass over the rows must compute for some images.

    Image j is sum_i weights[j][i] part_i, where the parts are first ``known`` (arrays) and then
    ``fresh``.
    """

    images: list[Image]
    known: list[Array]
    fresh: list[DeferredProduct]
    weights: list[list[float]]

    @classmethod
    def of(cls, images: Sequence[Image]) -> PassPlan:
        """The plan for images of one matrix, deferred or not."""
        sums = [_collected((w, _opened(part)) for w, part in _terms(image)) for image in images]
        parts = {key: part for terms in sums for key, (_, part) in terms.items()}
        known = [part for part in parts.values() if not isinstance(part, DeferredProduct)]
        fresh = [part for part in parts.values() if isinstance(part, DeferredProduct)]
        places = [id(part) for part in (*known, *fresh)]
        weights = [[terms.get(place, (0.0,))[0] for place in places] for terms in sums]
        return cls(list(images), known, fresh, weights)

    def fill(self, products: Sequence[Array], images: Sequence[Array]) -> None:
        """Store the results of the pass in the images and products."""
        for product, value in zip(self.fresh, products, strict=True):
            product.value = value
        for image, found in zip(self.images, images, strict=True):
            if isinstance(image, DeferredImage):
                image.value, image.parts = found, ()


def settled(image: Image) -> Array:
    """The image as an array, after a pass over the matrix if the image is still deferred."""
    return image.known() if isinstance(image, DeferredImage) else image
