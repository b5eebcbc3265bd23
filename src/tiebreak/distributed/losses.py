"""Least squares and logistic regression whose rows live in Ray workers, on one machine or many.

    f(x) = scale * sum over the workers of phi_i(A_i x)

A worker holds some rows A_i and the images A_i p of the points p that the run still speaks of. One
look of a method is one round: the new points go out, with the recipe of how the points to be looked
at are mixed from these and from the kept ones; losses and slopes come back and are summed in the
order of the workers. No image and no row ever travels, nor is a point sent twice.

Several threads may ask the same workers: a lock holds what the driver notes of a round together
with its sending, so that workers get rounds in the order in which they were noted.

Nothing in tiebreak imports this file, and it imports Ray only where a function is made.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from tiebreak.distributed.shards import (
    Answer,
    Facts,
    Loader,
    Request,
    Source,
    Worker,
    summed,
    total,
)
from tiebreak.functions import losses
from tiebreak.functions.base import PendingEvaluation, PointWithImage
from tiebreak.functions.linear_loss import LinearLoss, PassResult
from tiebreak.linalg import checks
from tiebreak.linalg.arrays import Array, Image, mix
from tiebreak.linalg.images import DeferredImage, PassPlan
from tiebreak.linalg.matrices import Matrix

RESTARTS = 8  # of a worker: one that dies more often would do so for ever
INLINE = 100 * 1024  # bytes: what is larger, Ray puts into its store, and once is enough for all
RECENT = 8  # mixtures among which a point is looked for that is to be multiplied anew


class Traffic(NamedTuple):
    """Numbers that went to the workers and came back, one worker's share; ``rounds`` of them."""

    rounds: int = 0
    points: float = 0.0  # the entries of points that went out
    recipe: float = 0.0  # what says what to do with them; eight bytes of it are a number
    slopes: float = 0.0  # the entries of slopes that came back
    scalars: float = 0.0  # losses


class Stored:
    """A function in Ray's store, for one that carries many rows along.

    As an argument of the actor Ray would put it there as well, but forget it once the worker has
    begun; and then the worker could not be restarted.
    """

    def __init__(self, loader: Loader) -> None:
        import ray

        self.reference = ray.put(loader)

    def __call__(self) -> tuple[Any, Any]:
        import ray

        loader: Loader = ray.get(self.reference)
        return loader()


class Remote(DeferredImage):
    """The image of a point, as a name for what the workers hold; its ``point`` is here.

    Before any worker has it, it is the point alone, or a mixture (p, q, weight) of two others.
    With both, the workers make the point from p and q but multiply it anew.
    """

    def __init__(
        self,
        home: Rows,
        point: Array | None = None,
        mixture: tuple[Remote, Remote, float] | None = None,
    ) -> None:
        self.home, self.mixture, self.key = home, mixture, -1
        self.is_anew = point is not None
        self._point = point

    @property
    def value(self) -> Remote:  # type: ignore[override]
        """Itself: nothing here is left to be summed."""
        return self

    @property
    def is_kept(self) -> bool:
        """Do the workers have it?"""
        return self.key >= 0

    @property
    def point(self) -> Array:
        """The point, by the same arithmetic as everywhere: equal to the last bit."""
        if self._point is None:
            assert self.mixture is not None
            p, q, weight = self.mixture
            self._point = mix(p.point, q.point, weight)
        return self._point

    def mixed(self, p: Image, q: Image, weight: float) -> Remote:
        made = Remote(self.home, mixture=(self.home.remote(p), self.home.remote(q), weight))
        self.home.note(made)
        return made

    def known(self) -> Remote:
        """Itself, and where no worker has it yet, as nothing but its point."""
        self._point, self.mixture = self.point, None
        return self

    def saved(self) -> Array:
        """The point: it outlives all workers."""
        return self.point


class Rows(Matrix):
    """A matrix whose rows are in Ray workers: what the driver knows of it, and how it asks them."""

    shares_passes = is_pass_expensive = True
    is_lanczos_cheap = False

    def __init__(
        self, kind: str, sources: Sequence[Source], target: str | None, workers: int
    ) -> None:
        ray = _ray(kind)
        self.kind, self.traffic = kind, Traffic()
        self._lock = threading.Lock()  # for all that changes from round to round
        self._recent = deque[Remote](maxlen=RECENT)
        self._kept: WeakValueDictionary[int, Remote] = WeakValueDictionary()
        self._next_key = 0
        actor = ray.remote(Worker).options(
            max_restarts=RESTARTS, max_task_retries=-1, scheduling_strategy="SPREAD"
        )
        if len(ray.cloudpickle.dumps(sources)) > INLINE:
            sources = [Stored(one) if callable(one) else one for one in sources]
        self.sources = sources  # what is in Ray's store stays there as long as these do
        ends = [len(sources) * i // workers for i in range(workers + 1)]
        self.workers = [
            actor.remote(kind, {i: sources[i] for i in range(first, last)}, target)
            for first, last in itertools.pairwise(ends)
        ]
        facts = [one for answer in self._ask("facts") for one in answer]
        _check_alike(kind, facts)
        self.shape = (sum(one.rows for one in facts), facts[0].columns)
        self.dtype = np.dtype(facts[0].dtype)
        self.frobenius = math.hypot(*(one.size for one in facts))
        self.target_size = math.hypot(*(one.target_size for one in facts))

    @property
    def prototype(self) -> Array:
        return np.empty(0, dtype=self.dtype)

    @property
    def is_explicit(self) -> bool:
        return False

    def dense(self) -> np.ndarray[Any, Any]:
        raise ValueError(f"{self.kind}: A must be in this process, got rows in Ray workers")

    def normal(self, x: Array) -> Array:
        return summed(self._ask("normal", x))

    @property
    def in_float64(self) -> None:
        """None: the workers compute in the precision of their rows."""
        return None

    @property
    def signature(self) -> tuple[Any, ...]:
        """Short names for the data of all shards, found where they are."""
        return tuple(self._ask("digest"))

    def remote(self, image: Image) -> Remote:
        """An image; a plain array is the point itself, as it comes from a checkpoint."""
        return image if isinstance(image, Remote) else Remote(self, image)

    def note(self, made: Remote) -> None:
        """A mixture that was made just now: its point may be asked for again."""
        with self._lock:
            self._recent.append(made)

    def remote_image(self, x: Array) -> Remote:
        """The image of x; nothing is sent before somebody looks at it.

        A method that has just mixed this point wants it multiplied anew, which the workers can do
        by themselves, for they have made the same mixture.
        """
        with self._lock:
            alike = (made.mixture for made in self._recent if np.array_equal(made.point, x))
            return Remote(self, x, next(alike, None))

    def evaluate(self, images: Sequence[Remote], slopes: int) -> Callable[[], Answer]:
        """The losses at all images, the slopes at the first so many: one round.

        It is under way at once; what is returned waits for its end.
        """
        with self._lock:
            request, sources = self._request(images, slopes)
            sent = self._send_request(request)

        def end() -> Answer:
            answers = self._received(sent)
            lost = [i for i, answer in enumerate(answers) if answer is None]
            if lost:  # begun anew by Ray, with their rows and nothing else
                with self._lock:
                    again = self._send_request(
                        request._replace(
                            points=self._stacked(sources), alive=self._alive(request.keys)
                        ),
                        lost,
                    )
                for i, answer in zip(lost, self._received(again), strict=True):
                    answers[i] = answer
            found = total([Answer.unpacked(answer, slopes, self.shape[1]) for answer in answers])
            return found._replace(slopes=found.slopes.astype(self.dtype, copy=False))

        return end

    def _request(self, images: Sequence[Remote], slopes: int) -> tuple[Request, list[Remote]]:
        """What to ask of the workers, and all images whose points a new worker would need.

        From here on the images count as kept: whoever asks next may rely on it.
        """
        order = _in_order(images)
        slot = {id(image): i for i, image in enumerate(order)}
        kept = [image for image in order if image.is_kept]
        fresh = [image for image in order if not image.is_kept and image.mixture is None]
        made = order[len(kept) + len(fresh) :]
        keys = range(self._next_key, self._next_key + len(fresh) + len(made))
        self._next_key = keys.stop
        names = (*(image.key for image in kept), *keys)
        looked = tuple(slot[id(image)] for image in images)
        recipes = (image.mixture for image in made if image.mixture is not None)
        request = Request(
            keys=names,
            points=self._stacked(fresh),
            mixtures=tuple((slot[id(p)], slot[id(q)], float(w)) for p, q, w in recipes),
            anew=tuple(slot[id(image)] for image in made if image.is_anew),
            at=looked[:slopes],
            values_at=looked[slopes:],
            alive=self._alive(names),
        )
        for image, key in zip(order, names, strict=True):
            image.known().key = key
            self._kept[key] = image
        self._recent.clear()
        return request, [*kept, *fresh]

    def _alive(self, names: Sequence[int]) -> tuple[int, ...]:
        """What the workers have to keep besides these."""
        return tuple(key for key in list(self._kept) if key not in names)

    def _stacked(self, images: Sequence[Remote]) -> Array:
        points = np.empty((len(images), self.shape[1]), dtype=self.dtype)
        for row, image in zip(points, images, strict=True):
            row[:] = image.point
        return points

    def _send_request(self, request: Request, some: Sequence[int] | None = None) -> list[Any]:
        """It goes to all workers, or to some, and is counted together with the answers to come."""
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
        return self._send("answer", message, some)

    def _ask(self, what: str, message: Array | None = None) -> list[Any]:
        """What all workers answer, in their order."""
        return self._received(self._send(what, message))

    def _send(self, what: str, message: Any = None, some: Sequence[int] | None = None) -> list[Any]:
        """Ask all workers, or some, and do not wait."""
        import ray

        chosen = self.workers if some is None else [self.workers[i] for i in some]
        arguments = () if message is None else (message,)
        if message is not None and memoryview(message).nbytes > INLINE and len(chosen) > 1:
            arguments = (ray.put(message),)
        return [getattr(worker, what).remote(*arguments) for worker in chosen]

    def _received(self, sent: Sequence[Any]) -> list[Any]:
        """The answers to what was sent, in its order."""
        import ray

        try:
            answers: list[Any] = ray.get(list(sent))
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ValueError | TypeError | ImportError):
                raise type(cause)(str(cause)) from None
            raise RuntimeError(f"{self.kind}: a worker failed with {cause!r:.100}") from None
        except ray.exceptions.RayError as error:
            why = str(error).strip().splitlines()[-1][:90]  # what comes before is Ray's own
            raise RuntimeError(f"{self.kind}: a worker is gone for good: {why}") from None
        return answers


def _in_order(images: Sequence[Remote]) -> list[Remote]:
    """The images with all that they are mixed from: kept ones, new points, mixtures in order."""
    found: dict[int, Remote] = {}  # in the order of a walk that ends with the mixture itself
    stack = list(reversed(images))
    while stack:
        image = stack[-1]
        parts = image.mixture[:2] if image.mixture is not None else ()
        missing = [part for part in parts if id(part) not in found]
        stack += missing
        if not missing:
            found[id(stack.pop())] = image
    return sorted(found.values(), key=lambda image: (image.mixture is not None, not image.is_kept))


class _OnWorkers(LinearLoss):
    """A loss whose matrix is Rows: what it asks goes to the workers."""

    matrix: Rows

    def _images(self, *xs: Array) -> tuple[Image, ...]:
        return tuple(map(self.matrix.remote_image, xs))

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        named = ([p._replace(image=self._named(p)) for p in ps] for ps in (at, values_at))
        return super().evaluate_async(*named)

    def _named(self, place: PointWithImage) -> Remote:
        """The image with its point, which is known here and need not be mixed again."""
        image = self.matrix.remote(place.image)
        if image._point is None:
            image._point = place.x
        return image

    def _shared_pass(self, plan: PassPlan, slopes: int) -> PassResult:
        answer = functools.cache(self.matrix.evaluate(plan.images, slopes))
        pulled = functools.cache(lambda: self._scaled_slopes(list(answer().slopes)))
        return PassResult(lambda: self._scaled_losses(answer().losses), pulled)

    @property
    def traffic(self) -> Traffic:
        """The numbers that went out and came back so far, for one worker."""
        return self.matrix.traffic


class LeastSquares(_OnWorkers, losses.LeastSquares):
    """½|Ax - b|², divided by the number of rows if ``mean``, the rows in Ray workers.

    Args:
        shards: a list of where the rows are: pairs (A, b) of .npy files, Parquet files, or
            functions without arguments that return (A, b), dense or scipy.sparse. A worker reads
            its shards itself, again where it has to be restarted; so a file must be readable on
            all machines, and a function must give the same rows every time.
        mean: divide by the number of rows of all shards.
        target: in Parquet files the column that is b; all other columns are A.
        workers: how many Ray actors share the shards, as many as there are shards if None. Each
            computes with one thread: give every core a shard.
        lipschitz: your own upper bound on lambda_max(A'A) (over the rows if ``mean``).

    Where Ray has not been initialised (``ray.init(address=...)`` for a cluster), that is done
    quietly with Ray's defaults: the cluster that RAY_ADDRESS names, or this machine alone.
    """

    gram = None  # never unasked: the rows are read once in a step
    singular_values = None
    strong_convexity = 0.0

    def __init__(
        self,
        shards: Sequence[Source],
        mean: bool = False,
        *,
        target: str | None = None,
        workers: int | None = None,
        lipschitz: float | None = None,
    ) -> None:
        rows = _rows("LeastSquares", shards, target, workers)
        LinearLoss.__init__(self, rows, mean, lipschitz)

    @property
    def b(self) -> Array:
        """Not here, as little as A is."""
        return self.matrix.dense()

    @property
    def _size_b(self) -> float:
        return self.matrix.target_size


class Logistic(_OnWorkers, losses.Logistic):
    """sum_i log(1 + exp(-y_i <a_i, x>)), over the number of rows if ``mean``, the rows in workers.

    Args:
        shards: where the rows and their labels -1 and +1 are, as for LeastSquares.
        mean: divide by the number of rows of all shards (the default).
        target: in Parquet files the column with the labels; all other columns are A.
        workers: how many Ray actors share the shards, as many as there are shards if None.
        lipschitz: your own upper bound on lambda_max(A'A)/4 (over the rows if ``mean``).
    """

    def __init__(
        self,
        shards: Sequence[Source],
        mean: bool = True,
        *,
        target: str | None = None,
        workers: int | None = None,
        lipschitz: float | None = None,
    ) -> None:
        LinearLoss.__init__(self, _rows("Logistic", shards, target, workers), mean, lipschitz)

    @property
    def y(self) -> Array:
        """Not here, as little as A is."""
        return self.matrix.dense()


# -- checks ---------------------------------------------------------------------------------------


def _rows(owner: str, shards: Any, target: Any, workers: Any) -> Rows:
    """The rows of the shards, once everything that can be checked here is right."""
    kinds = "a pair of .npy files, a Parquet file or a function that returns (A, b)"
    if isinstance(shards, str | Path | tuple) or not hasattr(shards, "__len__") or len(shards) == 0:
        what = checks.what_it_is(shards)
        raise ValueError(f"{owner}: shards must be a list with at least one shard, got {what}")
    sources: list[Source] = []
    for i, shard in enumerate(shards):
        is_pair = isinstance(shard, tuple | list) and len(shard) == 2
        if is_pair and all(isinstance(path, str | Path) for path in shard):
            sources.append(tuple(os.path.abspath(path) for path in shard))
        elif isinstance(shard, str | Path):
            if target is None:
                raise ValueError(f"{owner}: target must name the column that is b, got None")
            sources.append(os.path.abspath(shard))
        elif callable(shard):
            sources.append(shard)
        else:
            what = checks.what_it_is(shard)
            raise TypeError(f"{owner}: shard {i} must be {kinds}, got {what}")
    if target is not None and not isinstance(target, str):
        raise TypeError(f"{owner}: target must be a column name, got {checks.what_it_is(target)}")
    if workers is None:
        workers = len(sources)
    checks.whole(owner, "workers", workers, 1)
    return Rows(owner, sources, target, min(workers, len(sources)))


def _check_alike(owner: str, facts: Sequence[Facts]) -> None:
    """Do all shards have the same columns and the same dtype?"""
    first = facts[0]
    for i, one in enumerate(facts):
        if one.columns != first.columns:
            difference = f"{first.columns} in shard 0 and {one.columns} in shard {i}"
            raise ValueError(f"{owner}: shards must have as many columns each, got {difference}")
        if one.names != first.names:
            difference = next(b for a, b in zip(first.names, one.names, strict=False) if a != b)
            raise ValueError(
                f"{owner}: shards must have the same columns in the same order, "
                f"got {difference!r} out of place in shard {i}"
            )
        if one.dtype != first.dtype:
            difference = f"{first.dtype} in shard 0 and {one.dtype} in shard {i}"
            raise ValueError(f"{owner}: shards must have the same dtype, got {difference}")


def _ray(owner: str) -> Any:
    """The module, initialised."""
    try:
        import ray
    except ImportError:
        raise ImportError(f"{owner} on workers needs Ray: pip install 'tiebreak[ray]'") from None
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # tells nobody, unless you want it to
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    return ray
