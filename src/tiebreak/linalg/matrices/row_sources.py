"""Where streamed rows come from: NumPy, Zarr and Parquet files, and any object with rows."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tiebreak.linalg.arrays import Host
from tiebreak.linalg.refusals import missing

BATCH_ROWS = 2**16  # rows of a Parquet file to read at a time if all rows are needed
NUMBER_KINDS = "fiub"  # kinds of dtypes for bool, integers and real numbers


def is_source(value: Any) -> bool:
    """Is ``value`` an array that should be streamed: a numpy.memmap or a Zarr array?"""
    return isinstance(value, np.memmap) or (
        type(value).__module__.partition(".")[0] == "zarr" and hasattr(value, "shape")
    )


def open_source(source: Any, columns: Any, target: Any) -> SlicedRows | ParquetRows:
    """The rows of ``source``: a path, a list of paths, or an object with rows."""
    is_path = isinstance(source, str | os.PathLike)
    suffix = Path(source).suffix if is_path else ""
    if is_path and not Path(source).exists():
        raise ValueError(f"Streamed: source must be a file that exists, got {os.fspath(source)!r}")
    if (is_path and suffix not in (".npy", ".zarr")) or isinstance(source, list | tuple):
        return ParquetRows("Streamed", source, columns, target)
    if columns is not None or target is not None:
        name = "columns" if columns is not None else "target"
        raise ValueError(f"Streamed: {name} must be None if the source is not a Parquet file")
    files = [source] if is_path else []
    if is_path:
        source = (_zarr_array if suffix == ".zarr" else _npy_array)(source)
    _check_rows(source)
    if isinstance(source, np.memmap) and source.mode == "r" and source.filename is not None:
        files = [source.filename]
    return (FileRows if FileRows.fits(source) else SlicedRows)(source, files)


def _check_rows(source: Any) -> None:
    """Raise an error unless ``source`` is a matrix of numbers with rows source[i:j]."""
    if not all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__")):
        raise TypeError(
            "Streamed: source must be a path or have shape, dtype and rows source[i:j], "
            f"got {type(source).__name__}"
        )
    shape = tuple(int(side) for side in source.shape)
    if len(shape) != 2 or shape[1] == 0:
        raise ValueError(
            f"Streamed: source must be a matrix with at least one column, got shape {shape}"
        )
    if (dtype := _dtype_of(source)).kind not in NUMBER_KINDS:
        raise TypeError(
            f"Streamed: source must hold bool, whole or real numbers, got dtype {dtype}"
        )


def _npy_array(path: Any) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:
        raise ValueError(
            f"Streamed: source must be a .npy file of numbers, got {os.fspath(path)!r}"
        ) from None


def _zarr_array(path: Any) -> Any:
    try:
        import zarr
    except ImportError:
        raise missing("Streamed: reading a .zarr folder", "zarr", "zarr") from None
    found = zarr.open(path, mode="r")
    if not hasattr(found, "dtype"):
        raise ValueError(f"Streamed: source must be a Zarr array, got a group {str(path)!r}")
    return found


def _dtype_of(source: Any) -> Any:
    # tensorstore wraps NumPy's dtype
    return np.dtype(getattr(source.dtype, "numpy_dtype", source.dtype))


class SlicedRows:
    """Rows of any source, read as ``source[i:j]``, and the ``files`` that hold them, if any."""

    def __init__(self, source: Any, files: Sequence[str | os.PathLike[str]]) -> None:
        self.source: Any = source
        self.files: Sequence[str | os.PathLike[str]] = files
        self.shape: tuple[int, int] = (int(source.shape[0]), int(source.shape[1]))
        self.dtype: Any = _dtype_of(source)
        chunks = getattr(source, "chunks", None) or (1,)
        # Reading any row of a stored chunk reads the whole chunk.
        self.chunk_rows = chunks[0] if isinstance(chunks[0], int) else 1

    def parts(self, rows: int, buffers: Sequence[Host]) -> Iterator[tuple[int, Host]]:
        """All rows in order, as pairs: the number of the first row, and at most ``rows`` rows.

        The k-th block of rows is in buffer k mod len(buffers).
        """
        for k, start in enumerate(range(0, self.shape[0], rows)):
            stop = min(start + rows, self.shape[0])
            block = buffers[k % len(buffers)][: stop - start]
            self.read(start, stop, block)
            yield start, block

    def read(self, start: int, stop: int, block: Host) -> None:
        """Read the rows from ``start`` to ``stop`` into ``block``."""
        block[...] = np.asarray(self.source[start:stop])


class FileRows(SlicedRows):
    """The rows of a numpy.memmap of a whole file in row order, read with ordinary file reads.

    Reading into a buffer is faster than relying on page faults, and the operating system reads
    ahead.
    """

    @staticmethod
    def fits(source: Any) -> bool:
        """Is ``source`` a memmap of a whole file, neither a view of a memmap nor a private copy?"""
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
        with open(self.source.filename, "rb") as file:
            file.seek(self.source.offset + start * width)
            if file.readinto(memoryview(block.data).cast("B")) < block.nbytes:
                raise OSError(f"{self.source.filename} has become shorter than its {stop} rows")


class ParquetRows:
    """Rows of Parquet files, file after file; some columns form the matrix, one is the target."""

    chunk_rows = 1

    def __init__(self, owner: str, source: Any, columns: Any, target: Any) -> None:
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise missing(f"{owner}: reading Parquet", "pyarrow", "parquet") from None
        self.parquet = parquet
        self.paths: list[Path] = _parquet_paths(owner, source)
        self.files: Sequence[str | os.PathLike[str]] = self.paths
        files = self._open(owner)
        schema = files[0].schema_arrow
        if columns is None:
            columns = [name for name in schema.names if name != target]
        if isinstance(columns, str) or not len(columns):
            raise TypeError(f"{owner}: columns must be a list of names, got {columns!r}")
        self.columns: list[Any] = list(columns)
        for name in self.columns:
            _check_column(owner, "columns must name columns", schema, self.paths[0], name)
        if target is not None:
            _check_column(owner, "target must be a column", schema, self.paths[0], target)
        is_single = {_dtype_in(schema, name) for name in self.columns} == {np.dtype(np.float32)}
        self.dtype: Any = np.dtype(np.float32 if is_single else np.float64)
        rows = sum(file.metadata.num_rows for file in files)
        self.shape: tuple[int, int] = (rows, len(self.columns))
        self.target: Host | None = None if target is None else self._column(target)

    def _open(self, owner: str) -> list[Any]:
        """Open the files, which must have the same columns."""
        from pyarrow import ArrowInvalid

        files: list[Any] = []
        for path in self.paths:
            try:
                files.append(self.parquet.ParquetFile(path))
            except (OSError, ArrowInvalid):
                raise ValueError(f"{owner}: not a Parquet file: {path}") from None
            if not files[-1].schema_arrow.equals(files[0].schema_arrow):
                raise ValueError(
                    f"{owner}: Parquet files must have the same columns, "
                    f"got different ones in {path.name} and {self.paths[0].name}"
                )
        return files

    def _column(self, name: str) -> Host:
        tables = [self.parquet.ParquetFile(path).read(columns=[name]) for path in self.paths]
        found = np.concatenate([table.column(0).to_numpy() for table in tables])
        return found.astype(np.result_type(self.dtype, found))  # never rounded to float32

    def whole(self) -> Host:
        """All rows in a single array."""
        found = np.empty(self.shape, self.dtype)
        buffer = np.empty((min(BATCH_ROWS, len(found)), self.shape[1]), self.dtype)
        for first, block in self.parts(BATCH_ROWS, [buffer]):
            found[first : first + len(block)] = block
        return found

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


def _check_column(owner: str, needed: str, schema: Any, path: Path, name: str) -> None:
    """Raise an error unless the file has a numeric column of that name."""
    if name not in schema.names:
        raise ValueError(f"{owner}: {needed} of {path}, got {name!r}")
    if _dtype_in(schema, name).kind not in NUMBER_KINDS:
        held = schema.field(name).type
        raise TypeError(f"{owner}: column {name!r} must hold numbers, got {held}")


def _dtype_in(schema: Any, name: str) -> Any:
    """The NumPy dtype of a Parquet column; object if it is not an array of numbers."""
    try:
        return np.dtype(schema.field(name).type.to_pandas_dtype())
    except NotImplementedError:
        return np.dtype(object)


def _parquet_paths(owner: str, source: Any) -> list[Path]:
    """The paths of the given files; a folder stands for its files in alphabetical order."""
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
