"""The recorded steps of a run: values, proved gaps and counted work, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from tiebreak.linalg import in_files
from tiebreak.linalg.refusals import missing


@in_files("row")
class Row(NamedTuple):
    """One recorded step."""

    iteration: int
    seconds: float
    upper_value: float
    lower_value: float
    upper_gap: float  # proved bound on f(x) - f*
    lower_gap: float  # proved bound on g(x) - g*
    upper_gradients: int  # oracle calls so far
    lower_gradients: int
    passes: int  # passes over the data of f and g so far


class Trace(Sequence[Row]):
    """The recorded steps of a run, one Row each.

    Examples:
        >>> tb.solve(tb.instance("toy").problem, "agm-bio", max_iter=50).trace[-1].iteration
        50
    """

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Trace: ...
    def __getitem__(self, index: int | slice) -> Row | Trace:
        return Trace(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} rows: {', '.join(Row._fields)}>"

    def column(self, name: str) -> list[float]:
        """Return one column as a list."""
        return [getattr(row, name) for row in self._rows]

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame (needs the ``pandas`` extra)."""
        try:
            import pandas
        except ImportError:
            raise missing("to_pandas", "pandas", "pandas") from None
        return pandas.DataFrame(list(self._rows), columns=list(Row._fields))
