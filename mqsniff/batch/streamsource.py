"""``spark.readStream.format("mqsniff")``: a landing folder in, the rows of each file that arrives out, once.

1. Files are taken as ``mqsniff batch --follow`` takes them (``follow.Landing``), and read one by one: ``scope=file``.
2. Spark keeps a number in its checkpoint. Which files belong to a number is in a log of the query's own: one file for
   each number, written before Spark hears of it. So a query that is killed reads the same files again for a number
   that was not committed, and none twice.
3. Names are relative to the common folder of what is there when a file arrives; they are kept in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from mqsniff.batch.datasource import FilePartition, TableReader
from mqsniff.batch.follow import Landing, listed_now
from mqsniff.batch.inputs import Listed, Location, names_of
from mqsniff.batch.sourceoptions import SourceRequest
from mqsniff.batch.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER: Final = "number"
_SUFFIX: Final = ".json"


class ArrivalLog:
    """Which files belong to which number, in a folder."""

    def __init__(self, folder: str) -> None:
        self._store = Store.at(folder)
        self.last = 0
        """The last number; the first one is 1."""
        self.known: set[tuple[str, int, int | None]] = set()
        """(URI, size, time) of all files."""
        names = (stored.path for stored in self._store.files() if stored.path.endswith(_SUFFIX))
        for number in sorted(int(name.removesuffix(_SUFFIX)) for name in names):
            self.known |= {(each["uri"], each["size"], each["mtime_ns"]) for each in self._read(number)}
            self.last = number

    def add(self, files: Sequence[tuple[Listed, str]]) -> None:
        """Note files, with their names, as the next number."""
        rows = [
            {
                "uri": file.uri,
                "path": file.location.path,
                "store": file.location.store,
                "size": file.size,
                "mtime_ns": file.mtime_ns,
                "name": name,
            }
            for file, name in files
        ]
        self._store.replace(f"{self.last + 1}{_SUFFIX}", orjson.dumps(rows))
        self.last += 1
        self.known |= {(file.uri, file.size, file.mtime_ns) for file, _ in files}

    def files(self, start: int, stop: int) -> Iterator[tuple[Location, str]]:
        """Places and names of the files behind a number, up to another one."""
        for number in range(start + 1, stop + 1):
            for each in self._read(number):
                yield Location(each["path"], each["store"], each["size"], each["mtime_ns"]), each["name"]

    def _read(self, number: int) -> list[dict[str, Any]]:
        data = self._store.read(f"{number}{_SUFFIX}")
        if data is None:
            raise ValueError(f"{self._store.where} has no {number}{_SUFFIX}: it belongs to the checkpoint of the query")
        rows: list[dict[str, Any]] = orjson.loads(data)
        return rows


class LandingReader(DataSourceStreamReader):
    """Reads one table of every file that arrives."""

    def __init__(self, request: SourceRequest) -> None:
        self._request = request
        self._reader = TableReader(request)
        self._log: ArrivalLog | None = None
        self._landing = Landing(request.settle_s)

    @property
    def log(self) -> ArrivalLog:
        """What was read so far; only the driver has it."""
        if self._log is None:
            self._log = ArrivalLog(self._request.log)
        return self._log

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  # Spark's name
        """Before the first file."""
        return {_NUMBER: 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802  # Spark before 4.2 passes nothing
        """Look what has arrived; the number up to which there are files."""
        listed = listed_now(self._request.paths)
        names = dict(zip((each.uri for each in listed), names_of(each.uri for each in listed), strict=True))
        fresh = [each for each in listed if (each.uri, each.size, each.mtime_ns) not in self.log.known]
        arrived = self._landing.arrived(fresh)[: self._request.files_most]
        if arrived:
            self.log.add([(each, names[each.uri]) for each in arrived])
        return {_NUMBER: self.log.last}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """A task for each file."""
        return [FilePartition((each,)) for each in self.log.files(start[_NUMBER], end[_NUMBER])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return self._reader.read(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing: the log stays, so that no file is read twice."""
