"""Headers of walked records: places in their batch, text and bytes on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import overload

from mqsniff.model import HeaderSpans
from mqsniff_kafka.records.walk import WalkedRecords


class RecordHeaders(Sequence[list[tuple[str, bytes | None]]]):
    """The headers of each record of a batch, made into pairs on demand."""

    __slots__ = ("_counts", "_data", "_places", "_stops")

    def __init__(self, data: bytes, walked: WalkedRecords) -> None:
        self._data = data
        self._places = walked.places
        self._counts = walked.header_counts
        self._stops: list[int] | None = None

    def __len__(self) -> int:
        return len(self._counts)

    @overload
    def __getitem__(self, index: int) -> list[tuple[str, bytes | None]]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[tuple[str, bytes | None]]]: ...

    def __getitem__(self, index: int | slice) -> list[tuple[str, bytes | None]] | list[list[tuple[str, bytes | None]]]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        if self._stops is None:
            self._stops = list(accumulate(self._counts))
        stop = self._stops[index]
        data, places = self._data, self._places[4 * (stop - self._counts[index]) : 4 * stop]
        return [
            (data[key:stop].decode(errors="backslashreplace"), None if value < 0 else data[value:end])
            for key, stop, value, end in _by_fours(places)
        ]

    def spans(self) -> HeaderSpans:
        """The places of all headers."""
        return HeaderSpans(self._counts, self._places)


def _by_fours(places: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Places in groups of four."""
    numbers = iter(places)
    return zip(numbers, numbers, numbers, numbers, strict=True)
