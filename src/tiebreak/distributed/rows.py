"""A matrix whose rows live in Ray workers: what the driver knows, and how it queries them.

A worker holds some rows A_i and the images A_i p of the points p that the run still refers to. One
evaluation is one round trip. The driver sends the new points and a recipe that mixes the points of
the evaluation from new and kept points. The workers return losses and slopes, which are summed in
the order of the workers. Images and rows are never sent, and no point is sent twice.

Several threads may query the same workers: a lock makes recording and sending a round a single
operation, so workers get rounds in the order in which the driver recorded them.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tiebreak.distributed.shards import (
    Loader,
    Reply,
    Request,
    Shard,
    ShardFacts,
    Source,
    Worker,
    summed,
    total,
)
from tiebreak.functions.losses.linear_loss import LinearLoss
from tiebreak.linalg import Array, DeferredImage, Host, Image, Matrix, mix
from tiebreak.linalg.matrices.base import RowSlice, slice_ends, slice_order
from tiebreak.linalg.refusals import missing

# Objects larger than this many bytes go into Ray's store, where one copy serves all workers.
INLINE = 100 * 1024


class Traffic(NamedTuple):
    """How many numbers one worker received and sent in ``rounds`` rounds, one per evaluation.

    Products for a Lipschitz constant and products of a few rows are not counted.
    """

    rounds: int = 0
    points: float = 0.0  # entries of points sent to the worker
    recipe: float = 0.0  # instructions; eight bytes count as one number
    slopes: float = 0.0  # entries of slopes received from the worker
    scalars: float = 0.0  # losses


def from_store(reference: Any) -> tuple[Any, ...]:
    """Call the loader that Ray's store keeps under ``reference``, and return the data it loads."""
    import ray

    loader: Loader = ray.get(reference)
    return loader()


class Remote(DeferredImage):
    """The image of a point: only the workers hold the image, but the driver has the ``point``.

    Before the workers have the image, it is defined by its point, or as a mixture (p, q, weight) of
    two other images. If point and mixture are given, the workers mix the point from p and q but
    recompute its image.
    """

    home: Rows
    key: int
    is_anew: bool

    def __init__(
        self,
        home: Rows,
        point: Array | None = None,
        mixture: tuple[Remote, Remote, float] | None = None,
    ) -> None:
        self.home, self.mixture, self.key = home, mixture, -1
        self.is_anew, self._point = point is not None, point

    @property
    def value(self) -> Remote:  # type: ignore[override]
        """This object, which stands for the array: only the workers hold the entries."""
        return self

    @property
    def is_kept(self) -> bool:
        """Do the workers have the image?"""
        return self.key >= 0

    @property
    def point(self) -> Array:
        """The point; mixtures are computed by the same code as in the workers, so both agree."""
        if self._point is None:
            assert self.mixture is not None
            p, q, weight = self.mixture
            self._point = mix(p.point, q.point, weight)
        return self._point

    def mixed(self, p: Image, q: Image, weight: float) -> Remote:
        made = Remote(self.home, mixture=(self.home.remote(p), self.home.remote(q), weight))
        self.home.note(made)
        return made

    def at(self, x: Array) -> Remote:
        """Use x as the point if no point is known yet, instead of mixing it; return the image."""
        if self._point is None:
            self._point = x
        return self

    def known(self) -> Remote:
        """Forget how the image was mixed, keeping only the point; return the image."""
        self._point, self.mixture = self.point, None
        return self

    def saved(self) -> Array:
        """The point, from which the image can be restored even if all workers died."""
        return self.point


class RemoteRows:
    """A few rows that a worker holds, or their transpose; the worker computes their products."""

    def __init__(self, times: Callable[..., Array], rows: slice, is_transposed: bool) -> None:
        self._times, self._rows, self._is_transposed = times, rows, is_transposed
        # Callers need only the number of rows.
        self.shape: tuple[int] = (rows.stop - rows.start,)

    def __matmul__(self, v: Array) -> Array:
        return self._times(self._rows, self._is_transposed, v)


class Rows(Matrix):
    """A matrix whose rows are in Ray workers: what the driver knows, and how it queries them."""

    shares_passes = is_pass_expensive = has_slices = True
    are_slices_here = False
    entries_per_call = 2**20  # a slice takes two calls of about a millisecond each
    is_lanczos_cheap = is_explicit = False
    in_float64 = None  # the workers compute in the precision of their rows

    def __init__(
        self,
        kind: type[LinearLoss],
        sources: Sequence[Source],
        columns: dict[str, Any],
        workers: int,
        parameters: dict[str, Any],
    ) -> None:
        self.kind, self.traffic = kind.__name__, Traffic()
        self._ray = ray = _ray(self.kind)
        self._lock = threading.Lock()  # protects everything that changes between rounds
        # Recent mixtures, used to recognise points whose image is to be recomputed; a step makes
        # fewer mixtures than this deque holds.
        self._recent = deque[Remote](maxlen=8)
        self._kept: WeakValueDictionary[int, Remote] = WeakValueDictionary()
        self._next_key = 0
        # A worker that dies more often than this would probably keep dying.
        actor = ray.remote(Worker).options(
            max_restarts=8, max_task_retries=-1, scheduling_strategy="SPREAD"
        )
        # A loader function may carry many rows of data. If the function were passed to the actor
        # directly, Ray would delete it once the worker has started, and the worker could not be
        # restarted.
        self.sources = sources = [
            partial(from_store, ray.put(one)) if callable(one) else one for one in sources
        ]  # an attribute, to keep objects in Ray's store alive
        ends = [len(sources) * i // workers for i in range(workers + 1)]
        self.workers: list[Any] = [
            actor.remote(kind, {i: sources[i] for i in range(first, last)}, **columns, **parameters)
            for first, last in itertools.pairwise(ends)
        ]
        self._digests: list[Sequence[str] | None] = [None] * workers  # not known yet
        self.facts: list[ShardFacts] = self._each(Shard.facts)
        facts = self.facts
        shares = [range(first, last) for first, last in itertools.pairwise(ends)]
        self._digests = [[facts[i].digest for i in share] for share in shares]
        # The worker of every shard, and the shard's number there.
        self._shards = [(w, i) for w, share in enumerate(shares) for i in range(len(share))]
        check_alike(self.kind, facts)
        self.shape: tuple[int, int] = (sum(one.rows for one in facts), facts[0].columns)
        self.dtype = np.dtype(facts[0].dtype)
        self.prototype: Array = np.empty(0, dtype=self.dtype)
        self.frobenius = math.hypot(*(one.size for one in facts))

    def forward(self, *xs: Array) -> list[Array]:
        return [np.concatenate(self._each(Shard.products, x)) for x in xs]

    @cached_property
    def row_squares(self) -> Host:
        return np.concatenate(self._each(attrgetter("loss.matrix.row_squares")))

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        found, first = [], 0
        for place, facts in zip(self._shards, self.facts, strict=True):
            times = partial(self._times, *place)
            for start, stop in itertools.pairwise(slice_ends(facts.rows, size)):
                pair = (RemoteRows(times, slice(start, stop), way) for way in (False, True))
                found.append(RowSlice(slice(first + start, first + stop), *pair))
            first += facts.rows
        return (found[i] for i in slice_order(len(found), order))

    def normal(self, x: Array) -> Array:
        return summed(self._received(self._send("normal", x)))

    def _times(self, worker: int, *given: Any) -> Array:
        product: Array
        (product,) = self._received([self._ask(worker, "times", *given)])
        return product

    @property
    def signature(self) -> tuple[Any, ...]:
        """Digests of the data of all shards, computed by the workers."""
        return tuple(one.digest for one in self.facts)

    def targets(self) -> tuple[Host, Host | None]:
        """The targets of all rows, and the weights if there are any."""
        b, weights = zip(*((one.targets, one.weights) for one in self.facts), strict=True)
        if len({w is None for w in weights}) > 1:
            raise ValueError(f"{self.kind}: shards must all have weights or none, got some of each")
        return np.concatenate(b), None if weights[0] is None else np.concatenate(weights)

    def lipschitz(self) -> float:
        """The sum of the shards' Lipschitz constants, a Lipschitz constant of the whole loss."""
        return float(sum(self._each(attrgetter("loss.lipschitz"))))

    def remote(self, image: Image) -> Remote:
        """``image`` as a `Remote`; an array, as from a checkpoint, is the point of the image."""
        return image if isinstance(image, Remote) else Remote(self, image)

    def note(self, made: Remote) -> None:
        """Remember a new mixture, in case its point is needed again."""
        with self._lock:
            self._recent.append(made)

    def remote_image(self, x: Array) -> Remote:
        """The image of x; nothing is sent before a function is evaluated at x.

        If a method has just mixed x from other points, it calls this to have the product A x
        recomputed. The workers can do so without receiving x, because they make the same mixture.
        """
        with self._lock:
            alike = (made.mixture for made in self._recent if np.array_equal(made.point, x))
            return Remote(self, x, next(alike, None))

    def evaluate(self, images: Sequence[Remote], slopes: int) -> Callable[[], Reply]:
        """The losses at all images and the slopes at the first ``slopes`` of them, in one round.

        The round starts immediately; calling the result waits until the round has ended.
        """
        with self._lock:
            request, sources = self._request(images, slopes)
            sent = self._send_request(request)

        def end() -> Reply:
            replies = self._received(sent)
            lost = [i for i, reply in enumerate(replies) if reply is None]
            if lost:  # workers that Ray restarted have rows but no images
                with self._lock:
                    points, alive = self._stacked(sources), self._alive(request.keys)
                    again = self._send_request(request._replace(points=points, alive=alive), lost)
                for i, reply in zip(lost, self._received(again), strict=True):
                    replies[i] = reply
            found = total([Reply(*pickle.loads(reply)) for reply in replies])
            return found._replace(slopes=found.slopes.astype(self.dtype, copy=False))

        return end

    def _request(self, images: Sequence[Remote], slopes: int) -> tuple[Request, list[Remote]]:
        """The request to the workers, and all images whose points a restarted worker would need.

        Once the request is made, the workers are assumed to have these images, and the next request
        may use them.
        """
        order = _in_order(images)
        slot = {id(image): i for i, image in enumerate(order)}
        kept = [image for image in order if image.is_kept]
        fresh = [image for image in order if not image.is_kept and image.mixture is None]
        made = order[len(kept) + len(fresh) :]
        keys = range(self._next_key, self._next_key + len(fresh) + len(made))
        self._next_key = keys.stop
        names = (*(image.key for image in kept), *keys)
        asked = tuple(slot[id(image)] for image in images)
        recipes = (image.mixture for image in made if image.mixture is not None)
        request = Request(
            keys=names,
            points=self._stacked(fresh),
            mixtures=tuple((slot[id(p)], slot[id(q)], float(w)) for p, q, w in recipes),
            anew=tuple(slot[id(image)] for image in made if image.is_anew),
            at=asked[:slopes],
            values_at=asked[slopes:],
            alive=self._alive(names),
        )
        for image, key in zip(order, names, strict=True):
            image.known().key = key
            self._kept[key] = image
        self._recent.clear()
        return request, [*kept, *fresh]

    def _alive(self, names: Sequence[int]) -> tuple[int, ...]:
        """The images that the workers must keep besides the given ones."""
        return tuple(key for key in list(self._kept) if key not in names)

    def _stacked(self, images: Sequence[Remote]) -> Array:
        points = [image.point for image in images]
        return np.array(points, dtype=self.dtype).reshape(-1, self.shape[1])

    def _send_request(self, request: Request, some: Sequence[int] | None = None) -> list[Any]:
        """Send the request to all workers, or to some, and count the numbers sent and received."""
        message = request.packed()
        share = 1.0 if some is None else len(some) / len(self.workers)
        t, at, points = self.traffic, len(request.at), request.points.size
        self.traffic = Traffic(
            t.rounds + 1,
            t.points + share * points,
            t.recipe + share * (len(message) / 8 - points),
            t.slopes + share * at * self.shape[1],
            t.scalars + share * (at + len(request.values_at)),
        )
        return self._send("reply", message, some)

    def _each(self, what: Callable[..., Any], *given: Array) -> list[Any]:
        """The answers of all shards, in the order of the shards."""
        stored = [self._ray.put(x) for x in given]  # all workers share a copy
        sent = [self._ask(i, "each", what, *stored) for i in range(len(self.workers))]
        replies = self._received(sent)
        return [answer for reply in replies for answer in reply]

    def _send(self, what: str, message: Any, some: Sequence[int] | None = None) -> list[Any]:
        """Query all workers, or some, without waiting."""
        chosen = range(len(self.workers)) if some is None else some
        if memoryview(message).nbytes > INLINE and len(chosen) > 1:
            message = self._ray.put(message)
        return [self._ask(i, what, message) for i in chosen]

    def _ask(self, worker: int, what: str, *given: Any) -> Any:
        """Query one worker, which checks that it still has the rows of the first query."""
        return self.workers[worker].ask.remote(self._digests[worker], what, *given)

    def _received(self, sent: Sequence[Any]) -> list[Any]:
        """The replies to requests that were sent, in the order of the requests."""
        failures = self._ray.exceptions
        try:
            replies: list[Any] = self._ray.get(list(sent))
        except failures.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ValueError | TypeError | ImportError):
                raise type(cause)(str(cause)) from None
            raise RuntimeError(f"{self.kind}: a worker failed with {cause!r:.100}") from None
        except failures.RayError as error:
            # The last line is the message; Ray's own output comes before it.
            why = str(error).strip().splitlines()[-1][:90]
            raise RuntimeError(
                f"{self.kind}: a worker died and could not be restarted: {why}"
            ) from None
        return replies


def _in_order(images: Sequence[Remote]) -> list[Remote]:
    """The images and their ingredients: first kept images, then new points, then mixtures."""
    # In this dictionary, the parts of a mixture come before the mixture.
    found: dict[int, Remote] = {}
    stack = list(reversed(images))
    while stack:
        image = stack[-1]
        parts = image.mixture[:2] if image.mixture is not None else ()
        missing = [part for part in parts if id(part) not in found]
        stack += missing
        if not missing:
            found[id(stack.pop())] = image
    return sorted(found.values(), key=lambda image: (image.mixture is not None, not image.is_kept))


def check_alike(owner: str, facts: Sequence[ShardFacts]) -> None:
    """Check that all shards have the same columns and the same dtype."""
    first = facts[0]
    for i, one in enumerate(facts):
        for needed, wanted, found in (
            ("must all have the same number of columns", first.columns, one.columns),
            ("must have the same dtype", first.dtype, one.dtype),
        ):
            if wanted != found:
                raise ValueError(
                    f"{owner}: shards {needed}, got {wanted} in shard 0 and {found} in shard {i}"
                )
        if one.names != first.names:
            difference = next(b for a, b in zip(first.names, one.names, strict=False) if a != b)
            raise ValueError(
                f"{owner}: shards must have the same columns in the same order, "
                f"got {difference!r} out of place in shard {i}"
            )


def _ray(owner: str) -> Any:
    """The module, initialised."""
    try:
        import ray
    except ImportError:
        raise missing(f"{owner} on workers", "ray", "ray") from None
    if not ray.is_initialized():
        # Ray sends usage statistics only if the user switches them on.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    return ray
