"""A Ray worker: it holds some rows and answers the queries of `distributed.rows`."""

from __future__ import annotations

import functools
import operator
import pickle
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tiebreak.functions import PointWithImage
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.linalg import Array, Dense, Host, arrays, checks, mix, settled
from tiebreak.linalg.fingerprints import digest
from tiebreak.linalg.matrices.derived import without_rows
from tiebreak.linalg.matrices.row_sources import ParquetRows
from tiebreak.linalg.matrices.sparse import Sparse

T = TypeVar("T")
Loader: TypeAlias = Callable[[], tuple[Any, ...]]
Source: TypeAlias = "tuple[str | Path, ...] | str | Path | Loader"


# -- what travels ---------------------------------------------------------------------------------


class Request(NamedTuple):
    """One evaluation, as sent to every worker.

    A request refers to slots: first images that the worker has kept, then the images of the new
    points, then mixtures (1 - weight) p + weight q of earlier slots.
    """

    keys: tuple[int, ...]  # the keys under which the worker keeps the images of all slots
    points: Array  # one row per new point
    mixtures: tuple[tuple[int, int, float], ...]  # each is (p, q, weight)
    anew: tuple[int, ...]  # slots to recompute, because mixing accumulates rounding errors
    at: tuple[int, ...]  # slots whose value and slope are needed
    values_at: tuple[int, ...]  # slots of which only the value is needed
    alive: tuple[int, ...]  # other images that must be kept

    def packed(self) -> bytes:
        """The request as bytes, because Ray sends bytes a third faster than an array.

        Unpickling adds no risk, because Ray itself pickles what its processes exchange.
        """
        points = np.asarray(self.points, dtype=np.float64)
        return pickle.dumps(tuple(self._replace(points=points.tobytes())))

    @classmethod
    def unpacked(cls, packed: bytes, n: int, dtype: Any) -> Request:
        """The request from its packed form, with points of n entries in ``dtype``."""
        found = cls(*pickle.loads(packed))
        return found._replace(points=np.frombuffer(found.points).reshape(-1, n).astype(dtype))


class Reply(NamedTuple):
    """The losses at all points of a request, and the slopes at the first points."""

    losses: list[float]
    slopes: Array


class ShardFacts(NamedTuple):
    """Facts about a shard that the driver must know, and data that the driver keeps."""

    rows: int
    columns: int
    dtype: str
    names: tuple[str, ...]  # names of the columns of Parquet files
    size: float  # |A|_F
    targets: Host
    weights: Host | None
    digest: str  # of the rows, their targets and their weights


# -- in a worker ----------------------------------------------------------------------------------


class Shard:
    """The loss of some rows, and the images that are kept for the driver."""

    def __init__(
        self,
        kind: type[LinearLoss],
        number: int,
        source: Source,
        columns: dict[str, Any],
        parameters: dict[str, Any],
    ) -> None:
        owner = kind.__name__
        try:
            A, self.b, self.weights, self.names = _read(owner, source, **columns)
            A = checks.matrix(owner, "A", arrays.to_numpy(A) if arrays.is_array(A) else A)
            if type(A) not in (Dense, Sparse):
                raise TypeError(
                    f"{owner}: A must be a dense or sparse matrix, got {type(A).__name__}"
                )
            # Leave out rows of weight 0.
            if np.shape(self.weights) == np.shape(self.b) == A.shape[:1]:
                kept = np.asarray(self.weights) != 0.0
                A = without_rows(A, kept)
                self.b, self.weights = np.asarray(self.b)[kept], np.asarray(self.weights)[kept]
            if A.shape[0] == 0:
                raise ValueError(f"{owner}: A must have at least one row, got none")
            known = parameters if self.weights is None else {"weights": self.weights, **parameters}
            made_of: Any = kind
            made: LinearLoss = made_of(A, self.b, mean=False, **known)
            if made.note:  # other shards may use labels -1 and +1
                raise ValueError(f"{owner}: y must hold labels -1 and +1, got values 0, 1")
        except (ValueError, TypeError, ImportError) as error:
            sentence = str(error).replace(": ", f": shard {number}: ", 1)
            raise type(error)(sentence) from None
        # Without forming A'A: a step reads the rows once.
        self.loss: LinearLoss = made.of_matrix(made.matrix)
        self.kept: dict[int, PointWithImage] = {}

    def facts(self) -> ShardFacts:
        matrix = self.loss.matrix
        dtype, size = str(matrix.prototype.dtype), float(matrix.frobenius)
        return ShardFacts(*matrix.shape, dtype, self.names, size, self.b, self.weights, self.digest)

    def evaluate(self, request: Request) -> Reply | None:
        """The reply to a request; None if an image is missing because the worker was restarted."""
        forward, slots = self.loss.forward, len(request.keys) - len(request.mixtures)
        known = request.keys[: slots - len(request.points)]
        if not all(key in self.kept for key in known):
            return None
        points = [PointWithImage(x, *forward(x)) for x in request.points]
        places = [self.kept[key] for key in known] + points
        for p, q, weight in request.mixtures:
            place = mix(places[p], places[q], weight)
            anew = len(places) in request.anew
            places.append(PointWithImage(place.x, *forward(place.x)) if anew else place)
        at, values_at = ([places[i] for i in slots] for slots in (request.at, request.values_at))
        seen, values = self.loss.evaluate(at, values_at)
        others = {key: self.kept[key] for key in request.alive if key in self.kept}
        # Images are stored as arrays, because an unevaluated sum would keep all its parts alive.
        images = [place._replace(image=settled(place.image)) for place in places]
        self.kept = others | dict(zip(request.keys, images, strict=True))
        slopes = np.array([s.slope for s in seen], dtype=self.loss.matrix.prototype.dtype)
        return Reply([s.value for s in seen] + values, slopes)

    def normal(self, x: Array) -> Array:
        """A'A x."""
        matrix = self.loss.matrix
        if type(matrix) is not Dense:
            return matrix.normal(x)
        return matrix.sweep((x,), 1, lambda rows, fresh: fresh)[1][0]

    def products(self, x: Array) -> Array:
        """A x."""
        return self.loss.matrix.forward(x)[0]

    @cached_property
    def digest(self) -> str:
        """A digest of the rows, their targets and their weights."""
        return digest((self.b, self.weights, self.loss.matrix.signature))


class Worker:
    """A Ray actor's shards, which the actor loads again after a restart."""

    def __init__(
        self,
        kind: type[LinearLoss],
        sources: dict[int, Source],
        target: str | None = None,
        weights: str | None = None,
        **parameters: Any,
    ) -> None:
        self._kind, self._sources, self._parameters = kind, sources, parameters
        self._columns = {"target": target, "weights": weights}

    @cached_property
    def shards(self) -> list[Shard]:
        known = self._columns, self._parameters
        return [Shard(self._kind, i, source, *known) for i, source in self._sources.items()]

    def ask(self, digests: Sequence[str] | None, what: str, *given: Any) -> Any:
        """The result of the method ``what``; refused if the shards do not have these digests."""
        if digests is not None and digests != [shard.digest for shard in self.shards]:
            raise ValueError(
                f"{self._kind.__name__}: shards must be the same if they are read again after a "
                "restart, got other rows, targets or weights"
            )
        return getattr(self, what)(*given)

    def each(self, what: Callable[..., T], *given: Any) -> list[T]:
        """The answers of all shards."""
        return [what(shard, *given) for shard in self.shards]

    def evaluate(self, request: Request) -> Reply | None:
        with arrays.quiet():
            replies = [shard.evaluate(request) for shard in self.shards]
        found = [reply for reply in replies if reply is not None]
        return total(found) if len(found) == len(replies) else None

    def reply(self, packed: bytes) -> bytes | None:
        """The result of `evaluate` for a packed request, as a packed reply in float64."""
        matrix = self.shards[0].loss.matrix
        reply = self.evaluate(Request.unpacked(packed, matrix.shape[1], matrix.prototype.dtype))
        if reply is None:
            return None
        return pickle.dumps((reply.losses, reply.slopes.astype(np.float64)))

    def normal(self, x: Array) -> Array:
        """A'A x."""
        return summed(shard.normal(x) for shard in self.shards)

    def times(self, shard: int, rows: slice, is_transposed: bool, v: Array) -> Array:
        """The product of some rows of a shard with x, or of their transpose with slopes."""
        some = self.shards[shard].loss.matrix.entries[rows]
        return (some.T if is_transposed else some) @ v


def summed(terms: Iterable[Array]) -> Array:
    """The sum of the arrays, added in the given order."""
    return functools.reduce(operator.add, terms)


def total(replies: Sequence[Reply]) -> Reply:
    """The sum of the replies, added in the given order."""
    losses = [sum(parts) for parts in zip(*(reply.losses for reply in replies), strict=True)]
    return Reply(losses, summed(reply.slopes for reply in replies))


# -- reading a shard ------------------------------------------------------------------------------


def _read(
    owner: str, source: Source, target: str | None, weights: str | None
) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """A, b and the weights as read from their source, and the column names if there are any."""
    if isinstance(source, tuple):
        named = zip(("A", "b", "weights"), source, strict=False)
        loaded: tuple[Any, ...] = tuple(_npy(owner, name, path) for name, path in named)
        return *(*loaded, None)[:3], ()
    if isinstance(source, str | Path):
        rows = ParquetRows(owner, source, None, target)
        if weights is None:
            return rows.whole(), rows.target, None, tuple(rows.columns)
        w = ParquetRows(owner, source, None, weights).target
        rows = ParquetRows(owner, source, [c for c in rows.columns if c != weights], target)
        return rows.whole(), rows.target, w, tuple(rows.columns)
    try:
        loaded = source()
    except Exception as error:  # a user's function may raise anything
        what = f"{type(error).__name__}: {error}".partition("\n")[0][:80]
        raise ValueError(f"{owner}: the loader failed with {what}") from None
    if not (isinstance(loaded, tuple) and len(loaded) in (2, 3)):
        what = checks.what_it_is(loaded)
        raise TypeError(f"{owner}: the loader must return a pair (A, b), got {what}")
    return *(*loaded, None)[:3], ()


def _npy(owner: str, name: str, path: str | Path) -> Array:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(
            f"{owner}: {name} must be a .npy file, got {path}, which does not exist"
        ) from None
    except (OSError, ValueError, EOFError):
        raise ValueError(
            f"{owner}: {name} must be a .npy file, got {path}, which is not one"
        ) from None
