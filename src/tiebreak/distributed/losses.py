"""Losses whose rows live in Ray workers, on one machine or many.

    f(x) = scale * sum over the workers of phi_i(A_i x)

Every worker holds the loss of its own rows; this module defines the loss of all rows, whose matrix
is `Rows`. Nothing in tiebreak imports this package, and it imports Ray only when a loss is created.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tiebreak.distributed.rows import Rows, Traffic
from tiebreak.distributed.shards import Source
from tiebreak.functions import PendingEvaluation, PointWithImage
from tiebreak.functions.far_slopes import FarRows
from tiebreak.functions.losses.linear_loss import LinearLoss, LossesAndSlopes
from tiebreak.linalg import Array, Image, PassPlan, checks


class OnWorkers(LinearLoss, is_open=True):
    """A loss whose rows are evaluated by the workers that hold them.

    Args:
        shards: a list of the sources of the rows: pairs (A, b) of .npy files, Parquet files, or
            functions without arguments that return (A, b), dense or scipy.sparse. A third file or
            array may hold weights of the rows. A worker reads its own shards, and reads them again
            after a restart; so a file must be readable on all machines, and a function must return
            the same rows every time. The driver also keeps b, which has one number per row.
        mean: whether to divide by the number of rows of all shards, or by the sum of the row
            weights; None means the default of the loss.
        target: in Parquet files, the name of the column with b; all other columns form A.
        weights: in Parquet files, the column with the row weights, if there is one.
        workers: how many Ray actors share the shards; one per shard if None. An actor uses a single
            thread, so give every core a shard.
        lipschitz: your own upper bound on the Lipschitz constant, as for the loss itself.
        parameters: the parameters of the loss by name, such as Huber's ``delta``. Multinomial needs
            ``classes``, unless every shard contains the last class.

    If Ray has not been initialised (``ray.init(address=...)`` for a cluster), the constructor
    initialises it with Ray's defaults: the cluster that RAY_ADDRESS names, or this machine alone.
    """

    kind: ClassVar[type[LinearLoss]]  # the class of the same loss with all rows in one process
    matrix: Rows

    def __init__(
        self,
        shards: Sequence[Source],
        mean: bool | None = None,
        *,
        target: str | None = None,
        weights: str | None = None,
        workers: int | None = None,
        lipschitz: float | None = None,
        **parameters: Any,
    ) -> None:
        columns = {"target": target, "weights": weights}
        rows = Rows(self.kind, *_checked(self.kind.__name__, shards, workers, columns), parameters)
        b, w = rows.targets()
        rows.has_slices = len(b) == rows.shape[0]  # slices need an image with one number per row
        given = {"mean": mean, "weights": w, "lipschitz": lipschitz}
        known = {name: value for name, value in given.items() if value is not None}
        # Attributes that do not depend on the matrix, including labels and scale, come from a loss
        # whose matrix is zero.
        zeros = np.zeros((len(b), 1), dtype=rows.dtype)
        of_zeros: Any = self.kind
        template: LinearLoss = of_zeros(zeros, b, **known, **parameters)
        vars(self).update(vars(template.of_matrix(rows)))
        if lipschitz is not None:
            self.lipschitz = template.lipschitz

    def far_rows(self, weight: float, n: int) -> FarRows | None:
        return None  # only the workers have the rows

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

    def evaluate_image(self, image: Image) -> tuple[Array, Array]:
        (products,) = self.matrix.forward(self.matrix.remote(image).point)
        return super().evaluate_image(products)

    @functools.cached_property
    def lipschitz(self) -> float:  # type: ignore[override]
        """The Lipschitz constant, as in one process; with weights, the sum over all shards."""
        return super().lipschitz if self.weights is None else self.scale * self.matrix.lipschitz()

    @property
    def traffic(self) -> Traffic:
        """How many numbers one worker has received and sent in all evaluations so far."""
        return self.matrix.traffic


def on_workers(kind: type[LinearLoss]) -> type[OnWorkers]:
    """A class for the loss ``kind`` with its rows in Ray workers; the constructor takes shards."""
    members = {
        "__doc__": f"{kind.__name__} with its rows in Ray workers.\n\n{OnWorkers.__doc__}",
        "__module__": kind.__module__,
        "kind": kind,
    }
    return type(f"Distributed{kind.__name__}", (OnWorkers, kind), members, keyword="")


def _checked(
    owner: str, shards: Any, workers: Any, columns: dict[str, Any]
) -> tuple[list[Source], dict[str, Any], int]:
    """The sources of the rows and the number of workers, after checking the arguments."""
    kinds = "a pair of .npy files, a Parquet file or a function that returns (A, b)"
    if isinstance(shards, str | Path | tuple) or not hasattr(shards, "__len__") or len(shards) == 0:
        what = checks.what_it_is(shards)
        raise ValueError(f"{owner}: shards must be a list with at least one shard, got {what}")
    sources: list[Source] = []
    for i, shard in enumerate(shards):
        is_tuple = isinstance(shard, tuple | list) and len(shard) in (2, 3)
        if is_tuple and all(isinstance(path, str | Path) for path in shard):
            sources.append(tuple(os.path.abspath(path) for path in shard))
        elif isinstance(shard, str | Path):
            if columns["target"] is None:
                raise ValueError(f"{owner}: target must name the column that is b, got None")
            sources.append(os.path.abspath(shard))
        elif callable(shard):
            sources.append(shard)
        else:
            what = checks.what_it_is(shard)
            raise TypeError(f"{owner}: shard {i} must be {kinds}, got {what}")
    for name, column in columns.items():
        if column is not None and not isinstance(column, str):
            what = checks.what_it_is(column)
            raise TypeError(f"{owner}: {name} must be a column name, got {what}")
    workers = len(sources) if workers is None else checks.whole(owner, "workers", workers, 1)
    return sources, columns, min(workers, len(sources))
