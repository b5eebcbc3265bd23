"""Least squares and logistic regression whose rows live in Ray workers, on one machine or many.

    f(x) = scale * sum over the workers of phi_i(A_i x)

A worker holds some rows A_i and the images A_i p of the points p that the run still speaks of. One
look of a method is one round: the new points go out, with the recipe of how the points to be looked
at are mixed from these and from the kept ones; losses and slopes come back and are summed in the
order of the workers. No image and no row ever travels, nor is a point sent twice. Rounds go through
sockets to workers on the same machine (see lines), by calls of Ray to all others.

Nothing in tiebreak imports this file, and it imports Ray only where a function is made.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import math
import operator
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from tiebreak import arrays, checks, lines, losses
from tiebreak.arrays import Array, Deferred, Image, Plan, Product, mix
from tiebreak.functions import Lifted, Looking
from tiebreak.lines import Line, Question
from tiebreak.losses import Found, _LinearLoss
from tiebreak.matrices import Matrix, Sparse

RESTARTS = 8  # of a worker: one that dies more often would do so for ever
INLINE = 100 * 1024  # bytes: what is larger, Ray puts into its store, and once is enough for all
LISTS, WHOLE = 6, np.dtype(np.int32)  # of a request: lists of whole numbers, and how they travel
RECENT = 8  # mixtures among which a point is looked for that is to be multiplied anew

Loader: TypeAlias = Callable[[], tuple[Any, Any]]
Source: TypeAlias = "tuple[str | Path, str | Path] | str | Path | Loader"


# -- what travels ---------------------------------------------------------------------------------


class Request(NamedTuple):
    """One look, as every worker gets it.

    It speaks of slots: first images that the worker has kept, then those of the new points, then
    mixtures (1 - weight) p + weight q of earlier slots.
    """

    keys: tuple[int, ...]  # the names of all slots, under which the worker keeps them
    points: Array  # one row for each new point
    mixtures: tuple[tuple[int, int, float], ...]  # p, q, weight
    anew: tuple[int, ...]  # slots to be multiplied anew, for carried images drift by rounding
    at: tuple[int, ...]  # slots with value and slope
    values_at: tuple[int, ...]  # slots with the value alone
    alive: tuple[int, ...]  # what else has to be kept

    def packed(self) -> bytes:
        """All of it as bytes, which Ray sends in two thirds of the time of an array.

        Whole numbers, with the lengths of their lists before them, then float64. Names go as steps
        from one to the next, for these are small.
        """
        keys, points, mixtures, *slots = self
        steps = list(map(operator.sub, keys, (0, *keys)))
        lists = steps, [i for p, q, _ in mixtures for i in (p, q)], *slots
        whole = np.array([*map(len, lists), *itertools.chain(*lists)], dtype=WHOLE)
        weights = [weight for _, _, weight in mixtures]
        return b"".join([whole.tobytes(), np.concatenate([weights, np.ravel(points)]).tobytes()])

    @classmethod
    def unpacked(cls, packed: bytes, n: int, dtype: Any) -> Request:
        """What was packed, with points of n entries in ``dtype``."""
        lengths = np.frombuffer(packed, WHOLE, count=LISTS).tolist()
        ends = list(itertools.accumulate(lengths, initial=LISTS))
        whole = np.frombuffer(packed, WHOLE, count=ends[-1]).tolist()
        steps, pairs, *slots = (tuple(whole[i:j]) for i, j in itertools.pairwise(ends))
        numbers = np.frombuffer(packed, offset=WHOLE.itemsize * len(whole))
        count = len(pairs) // 2
        mixtures = tuple(zip(pairs[::2], pairs[1::2], numbers[:count].tolist(), strict=True))
        points = numbers[count:].reshape(-1, n).astype(dtype)
        return cls(tuple(itertools.accumulate(steps)), points, mixtures, *slots)


class Answer(NamedTuple):
    """The losses at all points that were looked at, and the slopes at the first ones."""

    losses: list[float]
    slopes: Array

    def packed(self) -> bytes:
        """Both as float64, one after the other."""
        return np.concatenate([self.losses, np.ravel(self.slopes)]).tobytes()

    @classmethod
    def unpacked(cls, packed: bytes, slopes: int, n: int) -> Answer:
        """What was packed, with so many slopes of n entries."""
        numbers = np.frombuffer(packed)
        split = len(numbers) - slopes * n
        return cls(numbers[:split].tolist(), numbers[split:].reshape(slopes, n))


class Facts(NamedTuple):
    """What the driver has to know about a shard."""

    rows: int
    columns: int
    dtype: str
    names: tuple[str, ...]  # of the columns, in Parquet
    size: float  # |A|_F
    target_size: float  # |b|


class Traffic(NamedTuple):
    """Numbers that went to the workers and came back, one worker's share; ``rounds`` of them."""

    rounds: int = 0
    points: float = 0.0  # the entries of points that went out
    recipe: float = 0.0  # what says what to do with them; eight bytes of it are a number
    slopes: float = 0.0  # the entries of slopes that came back
    scalars: float = 0.0  # losses


# -- in a worker ----------------------------------------------------------------------------------


class Shard:
    """Some rows, and the images under them that are kept for the driver."""

    def __init__(self, kind: str, number: int, source: Source, target: str | None) -> None:
        try:
            A, b, self.names = _read(kind, source, target)
            A = checks.matrix(kind, "A", arrays.to_numpy(A) if arrays.is_array(A) else A)
            if type(A) not in (Matrix, Sparse):
                raise TypeError(
                    f"{kind}: A must be a dense or sparse matrix, got {type(A).__name__}"
                )
            if A.shape[0] == 0:
                raise ValueError(f"{kind}: A must have at least one row, got none")
            self.loss: _LinearLoss
            if kind == "LeastSquares":
                self.loss = losses.LeastSquares(A, b, gram=False)
            else:
                self.loss = losses.Logistic(A, b, mean=False)
        except (ValueError, TypeError, ImportError) as error:
            sentence = str(error).replace(": ", f": shard {number}: ", 1)
            raise type(error)(sentence) from None
        self.target = self.loss._target
        self.kept: dict[int, Lifted] = {}

    @property
    def facts(self) -> Facts:
        matrix = self.loss.matrix
        stored = [matrix.stored] if matrix.is_sparse else (block for _, block in matrix.blocks())
        sizes = (arrays.norm(np.ravel(some).astype(np.float64)) for some in stored)
        target = arrays.norm(self.target.astype(np.float64))
        dtype = str(matrix.prototype.dtype)
        return Facts(*matrix.shape, dtype, self.names, math.hypot(*sizes), target)

    def look(self, request: Request) -> Answer | None:
        """The answer; None if an image is not known here, because this worker is a new one."""
        lift, slots = self.loss.lift, len(request.keys) - len(request.mixtures)
        known = request.keys[: slots - len(request.points)]
        if not all(key in self.kept for key in known):
            return None
        points = [Lifted(x, *lift(x)) for x in request.points]
        places = [self.kept[key] for key in known] + points
        for p, q, weight in request.mixtures:
            place = mix(places[p], places[q], weight)
            anew = len(places) in request.anew
            places.append(Lifted(place.x, *lift(place.x)) if anew else place)
        at, values_at = ([places[i] for i in slots] for slots in (request.at, request.values_at))
        seen, values = self.loss.look(at, values_at)
        others = {key: self.kept[key] for key in request.alive if key in self.kept}
        self.kept = others | dict(zip(request.keys, map(_settled, places), strict=True))
        slopes = np.array([s.slope for s in seen], dtype=self.loss.matrix.prototype.dtype)
        return Answer([s.value for s in seen] + values, slopes)

    def normal(self, x: Array) -> Array:
        """A'A x."""
        matrix = self.loss.matrix
        if matrix.is_sparse:
            return matrix.normal(x)
        return matrix.sweep((x,), 1, lambda rows, fresh: fresh)[1][0]

    def digest(self) -> str:
        """A short name for the rows and their targets."""
        state = hashlib.blake2b(digest_size=16)
        matrix = self.loss.matrix
        pieces = [self.target]
        if matrix.is_sparse:
            pieces += [matrix.entries.indices, matrix.entries.indptr, matrix.entries.data]
        else:
            pieces += [matrix.entries]
        for piece in pieces:
            state.update(f"{piece.dtype.str}{piece.shape}".encode())
            state.update(np.ascontiguousarray(piece).data)
        return state.hexdigest()


def _settled(place: Lifted) -> Lifted:
    """With the image as an array where the pass has found it: a sum would keep all its parts."""
    image = place.image
    if not isinstance(image, Deferred):
        return place
    products = [part for _, part in image.parts if isinstance(part, Product)]
    is_found = all(product.value is not None for product in products)
    return Lifted(place.x, image.known()) if is_found else place


class Worker:
    """Some shards. As a Ray actor it loads them again by itself where it has to begin anew."""

    def __init__(self, kind: str, sources: dict[int, Source], target: str | None) -> None:
        self._kind, self._sources, self._target = kind, sources, target
        self._one_at_a_time = threading.Lock()  # a line is served beside the calls of Ray

    @cached_property
    def shards(self) -> list[Shard]:
        return [Shard(self._kind, i, s, self._target) for i, s in self._sources.items()]

    def facts(self) -> list[Facts]:
        return [shard.facts for shard in self.shards]

    def look(self, request: Request) -> Answer | None:
        with arrays.quiet():
            answers = [shard.look(request) for shard in self.shards]
        found = [answer for answer in answers if answer is not None]
        return total(found) if len(found) == len(answers) else None

    def answer(self, packed: bytes) -> bytes | None:
        """`look`, as it travels."""
        with self._one_at_a_time:
            matrix = self.shards[0].loss.matrix
            request = Request.unpacked(packed, matrix.shape[1], matrix.prototype.dtype)
            answer = self.look(request)
        return None if answer is None else answer.packed()

    def connect(self, address: str) -> bool:
        """Take requests from a line as well; False if the driver is on another machine."""
        return lines.serve(address, self.answer)

    def normal(self, x: Array) -> Array:
        """A'A x."""
        return _sum(shard.normal(x) for shard in self.shards)

    def digest(self) -> list[str]:
        return [shard.digest() for shard in self.shards]


def _sum(terms: Iterable[Array]) -> Array:
    return functools.reduce(operator.add, terms)


def total(answers: Sequence[Answer]) -> Answer:
    """The sum of some answers, in their order."""
    losses = [sum(parts) for parts in zip(*(answer.losses for answer in answers), strict=True)]
    return Answer(losses, _sum(answer.slopes for answer in answers))


# -- reading a shard ------------------------------------------------------------------------------


def _read(owner: str, source: Source, target: str | None) -> tuple[Any, Any, tuple[str, ...]]:
    """A and b, from wherever they are, and the names of the columns if they have any."""
    if isinstance(source, tuple):
        return _npy(owner, "A", source[0]), _npy(owner, "b", source[1]), ()
    if isinstance(source, str | Path):
        assert target is not None
        return _parquet(owner, Path(source), target)
    try:
        loaded = source()
    except Exception as error:  # whatever the user's own function may raise
        what = f"{type(error).__name__}: {error}"[:80]
        raise ValueError(f"{owner}: the loader failed with {what}") from None
    if not (isinstance(loaded, tuple) and len(loaded) == 2):
        what = checks.what_it_is(loaded)
        raise TypeError(f"{owner}: the loader must return a pair (A, b), got {what}")
    return *loaded, ()


def _npy(owner: str, name: str, path: str | Path) -> Array:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ValueError(f"{owner}: {name} must be a .npy file, got {path}: no such file") from None
    except (OSError, ValueError, EOFError):
        raise ValueError(f"{owner}: {name} must be a .npy file, got {path}: not one") from None


def _parquet(owner: str, path: Path, target: str) -> tuple[Array, Array, tuple[str, ...]]:
    """The column ``target`` as b, all others as A, read batch by batch into one array."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            f"{owner}: Parquet shards need pyarrow: pip install 'tiebreak[ray]'"
        ) from None
    try:
        file = parquet.ParquetFile(path)
    except FileNotFoundError:
        raise ValueError(f"{owner}: no Parquet file at {path}") from None
    except (OSError, pa.ArrowInvalid):
        raise ValueError(f"{owner}: not a Parquet file: {path}") from None
    with file:
        schema = file.schema_arrow
        if target not in schema.names:
            raise ValueError(f"{owner}: target must be a column of {path}, got {target!r}")
        for field in schema:
            if not (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
                raise TypeError(
                    f"{owner}: column {field.name!r} must hold numbers, got {field.type}"
                )
        names = tuple(name for name in schema.names if name != target)
        is_single = all(schema.field(name).type == pa.float32() for name in names)
        rows, dtype = file.metadata.num_rows, np.float32 if is_single else np.float64
        A, b, done = np.empty((rows, len(names)), dtype), np.empty(rows, dtype), 0
        for batch in file.iter_batches():
            here = slice(done, done + batch.num_rows)
            b[here] = batch.column(target).to_numpy(zero_copy_only=False)
            for j, name in enumerate(names):
                A[here, j] = batch.column(name).to_numpy(zero_copy_only=False)
            done = here.stop
    return A, b, names


# -- in the driver --------------------------------------------------------------------------------


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


class Remote(Deferred):
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
        self.home.recent.append(made)
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

    shares_passes = is_dear = True
    is_quick = False

    def __init__(
        self, kind: str, sources: Sequence[Source], target: str | None, workers: int
    ) -> None:
        ray = _ray(kind)
        self.kind, self.recent = kind, deque[Remote](maxlen=RECENT)
        self.traffic = Traffic()
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
        self._lines: dict[int, Line] = {}
        facts = [one for answer in self._ask("facts") for one in answer]
        _check_alike(kind, facts)
        self.shape = (sum(one.rows for one in facts), facts[0].columns)
        self.dtype = np.dtype(facts[0].dtype)
        self.frobenius = math.hypot(*(one.size for one in facts))
        self.target_size = math.hypot(*(one.target_size for one in facts))
        self._connect(range(workers))

    @property
    def prototype(self) -> Array:
        return np.empty(0, dtype=self.dtype)

    @property
    def is_explicit(self) -> bool:
        return False

    def dense(self) -> np.ndarray[Any, Any]:
        raise ValueError(f"{self.kind}: A must be in this process, got rows in Ray workers")

    def normal(self, x: Array) -> Array:
        return _sum(self._ask("normal", x))

    @property
    def widened(self) -> None:
        """None: the workers compute in the precision of their rows."""
        return None

    @property
    def signature(self) -> tuple[Any, ...]:
        """Short names for the data of all shards, found where they are."""
        return tuple(self._ask("digest"))

    def remote(self, image: Image) -> Remote:
        """An image; a plain array is the point itself, as it comes from a checkpoint."""
        return image if isinstance(image, Remote) else Remote(self, image)

    def lift(self, x: Array) -> Remote:
        """The image of x; nothing is sent before somebody looks at it.

        A method that has just mixed this point wants it multiplied anew, which the workers can do
        by themselves, for they have made the same mixture.
        """
        alike = (made for made in self.recent if np.array_equal(made.point, x))
        made = next(alike, None)
        return Remote(self, x, made.mixture if made is not None else None)

    def look(self, images: Sequence[Remote], slopes: int) -> Callable[[], Answer]:
        """The losses at all images, the slopes at the first so many: one round.

        It is under way at once; what is returned waits for its end.
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
            alive=tuple(key for key in list(self._kept) if key not in names),
        )
        sent = self._send_request(request)
        for image, key in zip(order, names, strict=True):  # whoever asks next may rely on it
            image.known().key = key
            self._kept[key] = image
        self.recent.clear()

        def end() -> Answer:
            answers = self._received(sent)
            lost = [i for i, answer in enumerate(answers) if answer is None]
            if lost:  # begun anew by Ray, with their rows and nothing else
                whole = request._replace(points=self._stacked([*kept, *fresh]))
                again = self._received(self._send_request(whole, lost))
                for i, answer in zip(lost, again, strict=True):
                    answers[i] = answer
                self._connect(lost)
            found = total([Answer.unpacked(answer, slopes, self.shape[1]) for answer in answers])
            return found._replace(slopes=found.slopes.astype(self.dtype, copy=False))

        return end

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

    def _connect(self, some: Iterable[int]) -> None:
        """Lines to some workers, where there can be one."""
        made = {i: lines.connected(self.workers[i]) for i in some}
        self._lines |= {i: line for i, line in made.items() if line is not None}

    def _send(self, what: str, message: Any = None, some: Sequence[int] | None = None) -> list[Any]:
        """Ask all workers, or some, and do not wait: requests by lines, all else by Ray."""
        import ray

        chosen = range(len(self.workers)) if some is None else some
        up = {i: line for i, line in self._lines.items() if line.is_up and what == "answer"}
        arguments = () if message is None else (message,)
        is_long = message is not None and memoryview(message).nbytes > INLINE
        if is_long and sum(i not in up for i in chosen) > 1:
            arguments = (ray.put(message),)
        return [
            up[i].ask(message) if i in up else getattr(self.workers[i], what).remote(*arguments)
            for i in chosen
        ]

    def _received(self, sent: Sequence[Any]) -> list[Any]:
        """The answers to what was sent, in its order."""
        import ray

        found = [asked.answer() if isinstance(asked, Question) else None for asked in sent]
        by_ray = {
            i: asked.by_ray() if isinstance(asked, Question) else asked
            for i, asked in enumerate(sent)
            if found[i] is None
        }
        try:
            answers = ray.get(list(by_ray.values())) if by_ray else []
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ValueError | TypeError | ImportError):
                raise type(cause)(str(cause)) from None
            raise RuntimeError(f"{self.kind}: a worker failed with {cause!r:.100}") from None
        except ray.exceptions.RayError as error:
            why = str(error).strip().splitlines()[-1][:90]  # what comes before is Ray's own
            raise RuntimeError(f"{self.kind}: a worker is gone for good: {why}") from None
        for i, answer in zip(by_ray, answers, strict=True):
            found[i] = answer
        return found


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


class _OnWorkers(_LinearLoss):
    """A loss whose matrix is Rows: what it asks goes to the workers."""

    matrix: Rows

    def _images(self, *xs: Array) -> tuple[Image, ...]:
        return tuple(map(self.matrix.lift, xs))

    def start(self, at: Sequence[Lifted], values_at: Sequence[Lifted] = ()) -> Looking:
        named = ([p._replace(image=self._named(p)) for p in ps] for ps in (at, values_at))
        return super().start(*named)

    def _named(self, place: Lifted) -> Remote:
        """The image with its point, which is known here and need not be mixed again."""
        image = self.matrix.remote(place.image)
        if image._point is None:
            image._point = place.x
        return image

    def _sweep(self, plan: Plan, slopes: int) -> Found:
        answer = functools.cache(self.matrix.look(plan.images, slopes))
        pulled = functools.cache(lambda: self._pulled(list(answer().slopes)))
        return Found(lambda: self._scaled(answer().losses), pulled)

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
        _LinearLoss.__init__(self, rows, mean, lipschitz)

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
        _LinearLoss.__init__(self, _rows("Logistic", shards, target, workers), mean, lipschitz)

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
