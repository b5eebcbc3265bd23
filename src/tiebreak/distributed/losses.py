"""Least squares and logistic regression whose rows live in Ray workers, on one machine or many.

    f(x) = scale * sum over the workers of phi_i(A_i x)

Nothing in tiebreak imports this package, and it imports Ray only where a function is made.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiebreak.distributed.rows import Rows, Traffic
from tiebreak.distributed.shards import Source
from tiebreak.functions import LeastSquares, Logistic, PendingEvaluation, PointWithImage
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.losses.linear_loss import LinearLoss, LossesAndSlopes
from tiebreak.linalg import Array, Image, PassPlan, checks


class OnWorkers(LinearLoss):
    """A loss whose matrix is Rows: its evaluations go to the workers."""

    matrix: Rows

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        return None  # the labels are with the rows

    def _images(self, *xs: Array) -> tuple[Image, ...]:
        return tuple(map(self.matrix.remote_image, xs))

    def evaluate_async(
        self, at: Sequence[PointWithImage], values_at: Sequence[PointWithImage] = ()
    ) -> PendingEvaluation:
        named = (
            [p._replace(image=self.matrix.remote(p.image).at(p.x)) for p in points]
            for points in (at, values_at)
        )
        return super().evaluate_async(*named)

    def _shared_pass(self, plan: PassPlan, slopes: int) -> LossesAndSlopes:
        reply = functools.cache(self.matrix.evaluate(plan.images, slopes))
        pulled = functools.cache(lambda: self._scaled_slopes(list(reply().slopes)))
        return LossesAndSlopes(lambda: self._scaled_losses(reply().losses), pulled)

    @property
    def traffic(self) -> Traffic:
        """The numbers that went out and came back so far, for one worker."""
        return self.matrix.traffic


class DistributedLeastSquares(OnWorkers, LeastSquares):
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
        lipschitz: an upper bound on lambda_max(A'A) (over the rows if ``mean``), if you know one.

    Where Ray has not been initialised (``ray.init(address=...)`` for a cluster), that is done
    quietly with Ray's defaults: the cluster that RAY_ADDRESS names, or this machine alone.
    """

    gram = None  # never formed: a step reads the rows once
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
        """Refused: b is with its rows, in the workers."""
        return self.matrix.dense()

    @property
    def _size_b(self) -> float:
        return self.matrix.target_size


class DistributedLogistic(OnWorkers, Logistic):
    """sum_i log(1 + exp(-y_i <a_i, x>)), over the number of rows if ``mean``, the rows in workers.

    Args:
        shards: where the rows and their labels -1 and +1 are, as for LeastSquares.
        mean: divide by the number of rows of all shards (the default).
        target: in Parquet files the column with the labels; all other columns are A.
        workers: how many Ray actors share the shards, as many as there are shards if None.
        lipschitz: an upper bound on lambda_max(A'A)/4 (over the rows if ``mean``), if known.
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
        """Refused: y is with its rows, in the workers."""
        return self.matrix.dense()


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
