"""Matrices larger than memory: rows that stay in a file and are read block by block.

A source says how many rows and columns there are, of which type, and gives the rows from ``start``
to ``stop`` in order; a pass reads every byte once. While one block is worked on, a thread reads the
next one, so that a pass takes as long as the longer of reading and computing.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tiebreak.linalg import arrays, deadline
from tiebreak.linalg.arrays import Array
from tiebreak.linalg.fingerprints import FromData, checksums, stamps
from tiebreak.linalg.matrices import BLOCK, DENSE_LIMIT, Block, Swept, block_bytes

Host = np.ndarray[Any, Any]

AT_ONCE = 2**16  # rows of Parquet, where all of them are wanted
KINDS = "fiub"  # of the dtypes that are bool, whole or real numbers


class Source(Protocol):
    """Where the rows are."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]  # as they are stored
    together: int  # so many rows are stored as one chunk, and read as a whole or twice
    files: Sequence[str | os.PathLike[str]]  # that hold all the rows; none where that is not so

    def parts(self, rows: int, buffers: Sequence[Host]) -> Iterator[tuple[int, Host]]:
        """All rows in order: (the first one's number, at most ``rows`` of them).

        Part k is in buffer k modulo their number, or is memory of the source's own.
        """
        ...

    def bytes_of(self, rows: int) -> int:
        """The bytes that so many rows take where they are stored."""
        ...


class Streamed(Swept, FromData):
    """A matrix whose rows stay on a disk (or wherever they are) and are read in every pass.

        A = tb.Streamed("train.npy")
        tb.solve(tb.Problem(lower=tb.LeastSquares(A, b), upper=tb.SquaredNorm()))

    Memory: two buffers that share ``block`` bytes, and a few vectors of the length of a row and of
    a column. One pass at the start finds |A|_F and entries that are not finite. NumPy's float32
    stays float32, all other numbers become float64, block by block.

    A file that was written since is noticed by ``solve``, ``certify`` and ``compare``, by its size
    and its time, and read anew. A source that is no such file (a memmap that can be written, an
    array of Zarr, an object with rows) is read once by each of these calls, to see whether it is
    still the same.

    Args:
        source: the path of a .npy file; the path of a Parquet file or of a folder of them, or a
            list of such files (needs pyarrow); a numpy.memmap; a Zarr array; or any object with
            ``shape``, ``dtype`` and rows ``source[i:j]``, such as a dataset of h5py.
        block: bytes of memory for the rows that are read at a time.
        columns: of a Parquet file: the names of the columns that are A, in this order; all but
            ``target`` if None.
        target: of a Parquet file: the name of one more column, read into the vector ``target``.

    Attributes:
        bytes_read: bytes of rows that were read so far (of a Parquet file: as numbers, unpacked).
        target: the vector b or y of a Parquet file, None if not asked for.
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
        self.block = int(block)
        self._given, self._columns = source, columns
        self.source = _source(source, columns, target)
        self._before: object = stamps(self.source.files) if self.source.files else None
        self.shape = self.source.shape
        is_single = self.source.dtype == np.float32
        self._prototype = np.empty(0, dtype=np.float32 if is_single else np.float64)
        self.bytes_read = 0
        self.target: Host | None = getattr(self.source, "target", None)
        # Two buffers: one is read into while the other is worked on.
        width = self._prototype.itemsize * self.shape[1]
        together = self.source.together
        self._rows = max(1, self.block // 2 // width // together) * together
        self._tile = max(1, block_bytes() // width)
        self._squares = self._checked_squares()

    def _checked_squares(self) -> float:
        """|A|_F² in float64, by the one pass that also looks for entries that are not finite."""
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
        """The same with the rows that the source holds now: itself, if none has changed."""
        files = self.source.files
        now = stamps(files) if files else [checksums(block) for _, block in self._read()]
        if now == self._before:
            return self
        if self.target is not None:  # a vector that somebody has taken from here already
            raise ValueError(
                "Streamed: source must hold the same rows and target as when it was opened, got "
                "files that were written since; open them again"
            )
        return Streamed(self._given, self.block, columns=self._columns)

    @property
    def prototype(self) -> Array:
        return self._prototype

    @property
    def frobenius(self) -> float:
        """|A|_F, from the pass at the start."""
        slack = 1.0 + 2.0**-52 * (64.0 + math.sqrt(math.prod(self.shape)))
        return math.sqrt(self._squares) * slack

    @property
    def is_explicit(self) -> bool:
        return math.prod(self.shape) <= DENSE_LIMIT

    def dense(self) -> Host:
        result = np.empty(self.shape)
        for rows, block in self._read():
            result[rows] = block
        return result

    def blocks(self) -> Iterator[Block]:
        """All rows in order; for one thread in tiles that stay in its cache for all products."""
        for rows, block in self._read():
            for start in range(0, len(block), self._tile):
                tile = block[start : start + self._tile]
                first = rows.start + start
                yield slice(first, first + len(tile)), tile

    def _read(self) -> Iterator[tuple[slice, Host]]:
        """All rows in order, as they are read."""
        from concurrent.futures import ThreadPoolExecutor

        kind, n = self._prototype.dtype, self.shape[1]
        rows = min(self._rows, max(self.shape[0], 1))
        buffers = [np.empty((rows, n), dtype=kind) for _ in range(2)]
        parts = self.source.parts(rows, buffers)
        with ThreadPoolExecutor(1, "tiebreak-reader") as reader:
            ahead = reader.submit(next, parts, None)
            while (found := ahead.result()) is not None:
                ahead = reader.submit(next, parts, None)
                deadline.check()
                start, block = found
                self.bytes_read += self.source.bytes_of(len(block))
                yield slice(start, start + len(block)), block
                if self.watch is not None:
                    self.watch(start + len(block))

    def __repr__(self) -> str:
        rows, n = self.shape
        return f"<Streamed {rows} x {n}, {self.source.dtype}>"


def _squares(flat: Host) -> float:
    """The sum of the squares of a float32 vector, accumulated in float64."""
    parts = (flat[i : i + BLOCK].astype(np.float64) for i in range(0, len(flat), BLOCK))
    return sum(float(np.dot(part, part)) for part in parts)


# --- sources --------------------------------------------------------------------------------------


def is_source(value: Any) -> bool:
    """Is ``value`` an array that should be streamed: a numpy.memmap, or an array of Zarr?"""
    return isinstance(value, np.memmap) or (
        type(value).__module__.partition(".")[0] == "zarr" and hasattr(value, "shape")
    )


def _source(source: Any, columns: Any, target: Any) -> Source:
    """What ``source`` is, by its kind."""
    is_path = isinstance(source, str | os.PathLike)
    suffix = Path(source).suffix if is_path else ""
    if is_path and not Path(source).exists():
        raise ValueError(f"Streamed: source must be a file that exists, got {os.fspath(source)!r}")
    if (is_path and suffix not in (".npy", ".zarr")) or isinstance(source, list | tuple):
        return ParquetRows("Streamed", source, columns, target)
    if columns is not None or target is not None:
        name = "columns" if columns is not None else "target"
        raise ValueError(f"Streamed: {name} must be None where the source is no Parquet file")
    files = [source] if is_path else []
    if suffix == ".zarr":
        source = _zarr_array(source)
    elif suffix == ".npy":
        try:
            source = np.load(source, mmap_mode="r", allow_pickle=False)
        except ValueError:
            raise ValueError(
                f"Streamed: source must be a .npy file of numbers, got {os.fspath(source)!r}"
            ) from None
    for name in ("shape", "dtype", "__getitem__"):
        if not hasattr(source, name):
            raise TypeError(
                "Streamed: source must be a path or have shape, dtype and rows source[i:j], "
                f"got {type(source).__name__}"
            )
    shape = tuple(int(side) for side in source.shape)
    if len(shape) != 2 or shape[1] == 0:
        raise ValueError(
            f"Streamed: source must be a matrix with at least one column, got shape {shape}"
        )
    if (dtype := _dtype_of(source)).kind not in KINDS:
        raise TypeError(
            f"Streamed: source must hold bool, whole or real numbers, got dtype {dtype}"
        )
    if isinstance(source, np.memmap) and source.mode == "r" and source.filename is not None:
        files = [source.filename]
    return (FileRows if FileRows.fits(source) else SlicedRows)(source, files)


def _zarr_array(path: Any) -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError(
            "Streamed: reading a .zarr folder needs zarr: pip install 'tiebreak[zarr]'"
        ) from None
    found = zarr.open(path, mode="r")
    if not hasattr(found, "dtype"):
        raise ValueError(f"Streamed: source must be a Zarr array, got a group {str(path)!r}")
    return found


def _dtype_of(source: Any) -> np.dtype[Any]:
    given: np.dtype[Any] = np.dtype(getattr(source.dtype, "numpy_dtype", source.dtype))
    return given  # tensorstore wraps NumPy's


class SlicedRows:
    """Rows by ``source[i:j]``, whatever the source is."""

    def __init__(self, source: Any, files: Sequence[str | os.PathLike[str]] = ()) -> None:
        self.source, self.files = source, files
        self.shape = (int(source.shape[0]), int(source.shape[1]))
        self.dtype = _dtype_of(source)
        chunks = getattr(source, "chunks", None) or (1,)
        self.together = chunks[0] if isinstance(chunks[0], int) else 1

    def bytes_of(self, rows: int) -> int:
        return rows * self.shape[1] * self.dtype.itemsize

    def parts(self, rows: int, buffers: Sequence[Host]) -> Iterator[tuple[int, Host]]:
        for k, start in enumerate(range(0, self.shape[0], rows)):
            stop = min(start + rows, self.shape[0])
            block = buffers[k % len(buffers)][: stop - start]
            self.read(start, stop, block)
            yield start, block

    def read(self, start: int, stop: int, block: Host) -> None:
        """Rows start to stop into ``block``."""
        block[...] = np.asarray(self.source[start:stop])


class FileRows(SlicedRows):
    """Rows of a numpy.memmap that is a whole file in the order of its rows: plain reads.

    Reading into a buffer is quicker than page faults, and the operating system reads ahead.
    """

    @staticmethod
    def fits(source: Any) -> bool:
        """Is it such a memmap, not a view of one and not a private copy?"""
        return (
            type(source) is np.memmap
            and isinstance(source.base, mmap.mmap)
            and source.mode in ("r", "r+", "w+")
            and source.filename is not None
            and source.flags.c_contiguous
            and source.dtype in (np.float32, np.float64)
            and source.dtype.isnative
        )

    def read(self, start: int, stop: int, block: Host) -> None:
        width = self.shape[1] * self.dtype.itemsize
        with open(self.source.filename, "rb", buffering=0) as file:
            file.seek(self.source.offset + start * width)
            view = memoryview(block.data).cast("B")
            done = 0
            while done < len(view):
                count = file.readinto(view[done:])
                if not count:
                    raise OSError(f"{self.source.filename} has become shorter than its {stop} rows")
                done += count


class ParquetRows:
    """Rows of Parquet files, one after the other; some columns are the matrix, one the target."""

    together = 1

    def __init__(self, owner: str, source: Any, columns: Any, target: Any) -> None:
        try:
            import pyarrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise ImportError(
                f"{owner}: reading Parquet needs pyarrow: pip install 'tiebreak[parquet]'"
            ) from None
        self.parquet = parquet
        self.paths = _parquet_paths(owner, source)
        self.files: Sequence[str | os.PathLike[str]] = self.paths
        files = []
        for path in self.paths:
            try:
                files.append(parquet.ParquetFile(path))
            except (OSError, pyarrow.ArrowInvalid):
                raise ValueError(f"{owner}: not a Parquet file: {path}") from None
            if not files[-1].schema_arrow.equals(files[0].schema_arrow):
                raise ValueError(
                    f"{owner}: Parquet files must have the same columns, "
                    f"got others in {path.name} than in {self.paths[0].name}"
                )
        schema = files[0].schema_arrow
        if columns is None:
            columns = [name for name in schema.names if name != target]
        if isinstance(columns, str) or not len(columns):
            raise TypeError(f"{owner}: columns must be a list of names, got {columns!r}")
        self.columns = list(columns)
        wanted = [] if target is None else [target]
        for argument, names in (("columns", self.columns), ("target", wanted)):
            for name in names:
                if name not in schema.names:
                    a = "columns" if argument == "columns" else "a column"
                    raise ValueError(
                        f"{owner}: {argument} must be {a} of {self.paths[0]}, got {name!r}"
                    )
                if _dtype_in(schema, name).kind not in KINDS:
                    held = schema.field(name).type
                    raise TypeError(f"{owner}: column {name!r} must hold numbers, got {held}")
        is_single = {_dtype_in(schema, name) for name in self.columns} == {np.dtype(np.float32)}
        self.dtype = np.dtype(np.float32 if is_single else np.float64)
        self.shape = (sum(file.metadata.num_rows for file in files), len(self.columns))
        self.target = None if target is None else self._column(target)

    def _column(self, name: str) -> Host:
        tables = [self.parquet.ParquetFile(path).read(columns=[name]) for path in self.paths]
        parts = [table.column(0).to_numpy() for table in tables]
        return np.concatenate(parts).astype(self.dtype)

    def whole(self) -> Host:
        """All rows as one array."""
        found = np.empty(self.shape, self.dtype)
        buffer = np.empty((min(AT_ONCE, len(found)), self.shape[1]), self.dtype)
        for first, block in self.parts(AT_ONCE, [buffer]):
            found[first : first + len(block)] = block
        return found

    def bytes_of(self, rows: int) -> int:
        return rows * self.shape[1] * self.dtype.itemsize

    def parts(self, rows: int, buffers: Sequence[Host]) -> Iterator[tuple[int, Host]]:
        k = first = 0
        for path in self.paths:
            file = self.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20)
            for batch in file.iter_batches(rows, columns=self.columns, use_threads=False):
                block = buffers[k % len(buffers)][: batch.num_rows]
                for j, name in enumerate(self.columns):
                    block[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
                yield first, block
                k, first = k + 1, first + batch.num_rows


def _dtype_in(schema: Any, name: str) -> np.dtype[Any]:
    """What NumPy makes of a column of Parquet; object where that is no array of numbers."""
    try:
        found: np.dtype[Any] = np.dtype(schema.field(name).type.to_pandas_dtype())
    except NotImplementedError:
        found = np.dtype(object)
    return found


def _parquet_paths(owner: str, source: Any) -> list[Path]:
    """The files: one, a list of them, or those of a folder in the order of their names."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not given or not all(isinstance(path, str | os.PathLike) for path in given):
        raise TypeError(f"{owner}: source must be a path or a list of paths of Parquet files")
    paths = []
    for path in map(Path, given):
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not inside or not all(file.exists() for file in inside):
            raise ValueError(f"{owner}: no Parquet file at {path}")
        paths += inside
    return paths
