"""Matrices whose rows come block by block, read from a file or converted to another precision.

If a matrix is larger than memory, a data pass reads each of its bytes once. While one block is
processed, a thread reads the next one, so a pass takes as long as reading or computing, whichever
takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array, Host
from tiebreak.linalg.fingerprints import FromData, checksums, is_ours, stamps
from tiebreak.linalg.host import host
from tiebreak.linalg.matrices.base import (
    BLOCK,
    Matrix,
    RowBlock,
    RowSlice,
    block_bytes,
    random_pair,
    row_slices,
)
from tiebreak.linalg.matrices.row_sources import open_source
from tiebreak.linalg.sizes import DENSE_LIMIT


class RowBlocks(Matrix):
    """A matrix whose rows come block by block; a data pass gets each block once.

    A subclass must define ``shape``, ``prototype``, ``frobenius`` and ``blocks()``.
    """

    shares_passes = is_pass_expensive = True
    is_lanczos_cheap = False
    # A function that is called after each block with the number of rows done so far.
    on_progress: Callable[[int], object] | None = None

    @property
    def in_float64(self) -> Matrix | None:
        return Float64Rows(self)

    has_slices = True

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        for rows, block in self._read():
            yield from row_slices(block, size, order, rows.start)

    def _read(self) -> Iterable[RowBlock]:
        """All rows in order, in the blocks in which they are read."""
        return self.blocks()

    def forward(self, *xs: Array) -> list[Array]:
        return [*self.sweep(xs)[0]]

    def adjoint(self, *rs: Array) -> list[Array]:
        given = np.array(rs)
        return [*self.sweep((), len(rs), lambda rows, fresh: given[:, rows])[1]]

    def normal(self, x: Array) -> Array:
        return self.sweep((x,), 1, lambda rows, fresh: fresh)[1][0]

    @property
    def signature(self) -> tuple[Any, ...]:
        x, r = random_pair(self)
        (image,), (back,) = self.sweep((x,), 1, lambda rows, fresh: r[None, rows])
        return image, back


class Float64Rows(RowBlocks):
    """Rows in single precision or from another library, converted to NumPy float64 when needed."""

    def __init__(self, matrix: Matrix) -> None:
        self._matrix, self.shape = matrix, matrix.shape
        self.prototype: Array = np.empty(0)

    def blocks(self) -> Iterable[RowBlock]:
        return ((rows, host(block)) for rows, block in self._matrix.blocks())

    def slices(self, size: int, order: np.random.Generator | None = None) -> Iterator[RowSlice]:
        for some in self._matrix.slices(size, order):
            entries = host(some.entries)
            yield RowSlice(some.rows, entries, entries.T)

    def dense(self) -> Host:
        return self._matrix.dense()

    @property
    def frobenius(self) -> float:
        return self._matrix.frobenius


class Streamed(RowBlocks, FromData, keyword=""):
    """A matrix whose rows stay on disk (or elsewhere) and are read in every pass.

        A = tb.Streamed("train.npy")
        tb.solve(tb.Problem(lower=tb.LeastSquares(A, b), upper=tb.SquaredNorm()))

    A streamed matrix needs memory for two buffers that share ``block`` bytes, and for a few vectors
    as long as a row or a column. One pass at the start computes |A|_F and finds entries that are
    not finite. NumPy float32 numbers stay in float32; all other numbers become float64, block by
    block.

    If a file has changed, ``solve``, ``certify`` and ``compare`` notice this from its size and
    modification time, and read the file again. Other sources (a writable memmap, a Zarr array, an
    object with rows) are read once by each of the three calls, to see whether they have changed.

    Args:
        source: the path of a .npy file; the path of a Parquet file, of a folder of them, or a list
            of them (needs pyarrow); a numpy.memmap; a Zarr array; or any object with ``shape``,
            ``dtype`` and rows ``source[i:j]``, such as an h5py dataset.
        block: bytes of memory for the rows that are read at a time.
        columns: for Parquet files, the names of the columns that form A, in this order; all but
            ``target`` if None.
        target: for Parquet files, the name of one more column, read into the vector ``target``.

    Attributes:
        bytes_read: bytes of rows read so far; for Parquet files, the size of the decoded numbers.
        target: the vector b or y of a Parquet file, None if not requested.

    Examples:
        >>> np.save("train.npy", [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])  # of any size
        >>> fit = tb.LeastSquares(tb.Streamed("train.npy"), [2, 2])
        >>> problem = tb.Problem(lower=fit, upper=tb.SquaredNorm())
        >>> tb.solve(problem).x.round(4)
        array([0.6667, 1.3333, 0.6667])
    """

    def __init__(
        self,
        source: Any,
        block: int = 2**26,
        *,
        columns: Sequence[str] | None = None,
        target: str | None = None,
    ) -> None:
        if isinstance(block, bool) or not isinstance(block, int | np.integer) or block < 1:
            raise ValueError(f"Streamed: block must be a whole number of bytes >= 1, got {block!r}")
        self.block: int = int(block)
        self._given, self._columns = source, columns
        self.source = open_source(source, columns, target)
        self._before: object = stamps(self.source.files) if self.source.files else None
        self.shape: tuple[int, int] = self.source.shape
        is_single = self.source.dtype == np.float32
        self.prototype: Array = np.empty(0, dtype=np.float32 if is_single else np.float64)
        self.bytes_read: int = 0
        self.target: Host | None = getattr(self.source, "target", None)
        # Two buffers: one is filled while the other is processed.
        width = self.prototype.itemsize * self.shape[1]
        chunk = self.source.chunk_rows
        self._rows = max(1, self.block // 2 // width // chunk) * chunk
        self._tile = max(1, block_bytes() // width)
        self._squares = self._checked_squares()

    def _checked_squares(self) -> float:
        """|A|_F² in float64, from a pass that also finds entries that are not finite."""
        total, found = 0.0, []
        for rows, block in self._read():
            flat = block.reshape(-1)
            if self._before is None:
                found.append(checksums(block))
            with arrays.quiet():
                here = float(np.dot(flat, flat)) if flat.dtype == np.float64 else _squares(flat)
            if not math.isfinite(here):
                bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
                if bad.size:
                    row = rows.start + int(bad[0])
                    raise ValueError(
                        f"Streamed: source must be finite, got NaN or infinite entries in row {row}"
                    )
                raise ValueError("Streamed: source must have entries whose squares are finite")
            total += here
        self._before = self._before or found
        return total

    def current(self) -> Streamed:
        """The matrix with the rows that the source holds now; ``self`` if no row has changed."""
        files = self.source.files
        now = stamps(files) if files else [checksums(block) for _, block in self._read()]
        if now == self._before:
            return self
        if self.target is not None:  # callers may still use this vector
            raise ValueError(
                "Streamed: source must hold the same rows and target as when it was opened, got "
                "files that have changed; open them again"
            )
        return Streamed(self._given, self.block, columns=self._columns)

    @property
    def is_watched(self) -> bool:
        return is_ours(type(self))  # `current` compares the rows, or the files' sizes and times

    @property
    def frobenius(self) -> float:
        """The Frobenius norm |A|_F, from the pass at the start."""
        slack = arrays.rounding_unit(2.0**-52, math.prod(self.shape))
        return math.sqrt(self._squares) * (1.0 + slack)

    @property
    def is_explicit(self) -> bool:
        return math.prod(self.shape) <= DENSE_LIMIT

    def dense(self) -> Host:
        result = np.empty(self.shape)
        for rows, block in self._read():
            result[rows] = block
        return result

    def blocks(self) -> Iterator[RowBlock]:
        """All rows in order; for a single thread, in blocks that fit in its cache."""
        for rows, block in self._read():
            for start in range(0, len(block), self._tile):
                tile = block[start : start + self._tile]
                first = rows.start + start
                yield slice(first, first + len(tile)), tile

    def _read(self) -> Iterator[RowBlock]:
        """All rows in order, in the blocks in which they are read."""
        from concurrent.futures import ThreadPoolExecutor

        kind, n = self.prototype.dtype, self.shape[1]
        rows = min(self._rows, max(self.shape[0], 1))
        buffers = [np.empty((rows, n), dtype=kind) for _ in range(2)]
        parts = self.source.parts(rows, buffers)
        with ThreadPoolExecutor(1, "tiebreak-reader") as reader:
            ahead = reader.submit(next, parts, None)
            while (found := ahead.result()) is not None:
                ahead = reader.submit(next, parts, None)
                deadline.check()
                start, block = found
                self.bytes_read += block.size * self.source.dtype.itemsize
                yield slice(start, start + len(block)), block
                if self.on_progress is not None:
                    self.on_progress(start + len(block))

    def __repr__(self) -> str:
        rows, n = self.shape
        return f"<Streamed {rows} x {n}, {self.source.dtype}>"


def _squares(flat: Host) -> float:
    """The sum of squares of a float32 vector, accumulated in float64."""
    parts = (flat[i : i + BLOCK].astype(np.float64) for i in range(0, len(flat), BLOCK))
    return sum(float(np.dot(part, part)) for part in parts)
