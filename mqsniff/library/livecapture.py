"""The packets of an interface in, typed rows out as they come, until somebody ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, Unpack, cast

from mqsniff.errors import OptionError
from mqsniff.filters.known import unknown
from mqsniff.library.request import FilteredRun, ReadOptions, ReadRequest
from mqsniff.library.rows import TableRow
from mqsniff.library.typedrows import typed_rows
from mqsniff.limits import SECOND_NS
from mqsniff.sources.live import CaptureWishes, LiveSource
from mqsniff.tables.schemas import TABLES, TableName


class LiveCapture(Iterator[TableRow]):
    """An iterator of typed rows, in the order of their packets; ``with`` closes it.

    ``next`` waits for the next row. Another thread may call ``stop`` or ``close``.
    """

    def __init__(self, source: LiveSource, request: ReadRequest, tables: tuple[TableName, ...]) -> None:
        self._source = source
        self._rows = self._iterated(request, tables)

    def _iterated(self, request: ReadRequest, tables: tuple[TableName, ...]) -> Iterator[TableRow]:
        run = FilteredRun(self._source, request, tables)
        yield from typed_rows(run.items(), run.captures, tables, request.shown)

    def __next__(self) -> TableRow:
        return next(self._rows)

    @property
    def dropped(self) -> int:
        """Packets that the kernel dropped; known when the capture has ended."""
        return self._source.captures[0].dropped

    def stop(self) -> None:
        """End the capture; the rows of the packets that were received by then still come."""
        self._source.stop()

    def close(self) -> None:
        """End the capture and drop the rows that are left."""
        self.stop()
        with suppress(ValueError):  # another thread waits in ``next``: its last rows come there
            for _ in self._rows:
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def live(
    interface: str,
    *,
    tables: Sequence[TableName] = ("messages",),
    bpf: str | None = None,
    count: int | None = None,
    duration: float | None = None,
    **options: Unpack[ReadOptions],
) -> LiveCapture:
    """The traffic of an interface as typed rows of some tables, as it comes (Linux; needs CAP_NET_RAW).

    ``bpf`` is a capture filter as tcpdump's; the capture ends after ``count`` packets or ``duration`` seconds, if they
    are given. The other keywords are those of ``read``. Raises CaptureError if the interface cannot be captured.
    """
    for table in tables:
        if table not in TABLES:
            raise OptionError(unknown("table", table, TABLES))
    request = ReadRequest.of(cast("dict[str, Any]", options))
    if request.times.needs_end:
        raise OptionError("from_, to: a time such as -5m counts back from the last packet, which is not known yet")
    duration_ns = None if duration is None else int(duration * SECOND_NS)
    source = LiveSource([interface], CaptureWishes(bpf=bpf, count=count, duration_ns=duration_ns))
    return LiveCapture(source, request, tuple(tables))
