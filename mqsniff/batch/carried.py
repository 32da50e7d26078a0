"""Connections that are open at the end of a run in, the same connections at the start of the next run out.

1. A run that carries (``--append``, ``--window``) writes the rows that packets before its edge release, and hands what
   it knows of each open connection to the next run, which goes on from there: the rows of such runs are those of one.
2. What is known of a flow is a pickle of its decoder. Objects of zlib and of opened TLS cannot be pickled: then the
   segments since the last pickle are carried, and the next run decodes them again and writes none of their rows; at
   most ``replay_max`` bytes of them, else the connection ends here with a ``limit`` problem.
3. Segments at or after the edge are carried as they are. The edge of a window is the first packet of the next one.
4. Rows that only the end of the run releases stand in parts of their own, which the next run drops.
5. Carried rows hold payload as the captures do; they lie in ``_mqsniff/carried`` of OUT, and go with the next run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from mqsniff.batch.bundles import TIME_MIN, Bundle, bundle_size
from mqsniff.batch.flowrows import CARRIED_SCHEMA, bundle_columns
from mqsniff.batch.origins import Origins
from mqsniff.batch.store import Store
from mqsniff.limits import MIB
from mqsniff.tables.values import escaped
from mqsniff.topics import DatedTeaching, Teaching

CARRIED: Final = "_mqsniff/carried"
"""Folder of carried rows in OUT."""
STATE_SUFFIX: Final = "-state.json"
"""End of the name of the file that holds a ``CarriedState``."""
_ROWS_BYTES: Final = 8 * MIB
"""Bytes of a row group."""
_STATE_PIECE: Final = -1
"""Number of the piece of rows that hold a state."""
_FIRST: Final = -(1 << 62)
"""Place of a state: before all segments of its flow."""


class CarriedError(Exception):
    """What an earlier run left cannot be read; the text is one line that says what to do."""

    def __init__(self, why: object) -> None:
        super().__init__(
            f"what an earlier run left of open connections is damaged ({why}): delete {CARRIED} in the folder of the "
            "tables, and they begin anew"
        )


@dataclass(frozen=True, slots=True)
class Carry:
    """What a task does with open connections."""

    until_ns: int | None
    """The edge: segments from this merge time on are for the next run; None: all are decoded."""
    now_ns: int
    """Capture time at the end of the run: what is silent for too long by then is over."""


@dataclass(frozen=True, slots=True)
class CarriedIn:
    """What a run takes from the run before it."""

    parts: tuple[str, ...] = ()
    """Paths of carried rows in OUT."""
    floor_ns: int = TIME_MIN
    """Largest merge time that was decoded: new packets come after it, whatever their clock says."""


@dataclass(slots=True)
class CarriedCounts:
    """What a run handed on, in figures."""

    connections: int = 0
    bundles: int = 0
    bytes: int = 0
    segments: int = 0

    def add(self, other: CarriedCounts) -> None:
        """Add what another task handed on."""
        self.connections += other.connections
        self.bundles += other.bundles
        self.bytes += other.bytes
        self.segments += other.segments


@dataclass(frozen=True, slots=True)
class CarriedState:
    """What the driver of the next run has to know: a JSON file beside the carried rows."""

    run: str
    versions: dict[str, str]
    """Of mqsniff, Python and the data of dissectors."""
    options: str
    """Digest of the options that change rows."""
    floor_ns: int
    files: int
    """Captures so far: number of the next one."""
    pieces: int
    """Pieces so far: number of the next one."""
    parts: tuple[str, ...]
    counts: CarriedCounts
    drops: tuple[str, ...]
    """Parts that count no longer when the next run is committed (rule 4)."""
    taught: tuple[Teaching, ...] = ()
    history: tuple[DatedTeaching, ...] = ()

    def encoded(self) -> bytes:
        """As JSON."""
        return orjson.dumps(escaped({name: getattr(self, name) for name in self.__slots__} | {
            "counts": {name: getattr(self.counts, name) for name in CarriedCounts.__slots__},
        }))  # fmt: skip

    @classmethod
    def decoded(cls, data: bytes) -> CarriedState:
        """From what ``encoded`` returned; CarriedError for anything else."""
        try:
            plain = orjson.loads(data)
            for name in ("parts", "drops"):
                plain[name] = tuple(plain[name])
            for name in ("taught", "history"):
                plain[name] = tuple(tuple(row) for row in plain[name])
            return cls(**plain | {"counts": CarriedCounts(**plain["counts"])})
        except (ValueError, KeyError, TypeError) as error:
            raise CarriedError(f"{type(error).__name__}: {error}") from None


def options_digest(options: dict[str, Any]) -> str:
    """Digest of the options that change rows, without the keys, which may be given anew."""
    named = {name: value for name, value in options.items() if name not in ("tls_keys", "hash_key")}
    return blake2b(orjson.dumps(escaped(named), option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


# ---- rows


class SavedFlow(NamedTuple):
    """What a state holds."""

    known: bytes | None
    """Pickle of a ``KnownFlow``; None: nothing was known before the segments that follow."""
    replayed: int
    """Bundles after it that were decoded already."""


def is_state(bundle: Bundle) -> bool:
    """Whether a row holds the state of a flow, not segments."""
    return bool(bundle.key) and not bundle.segments


def saved_flow(bundle: Bundle) -> SavedFlow:
    """What the row of a state holds."""
    replayed, known = int.from_bytes(bundle.payload[:8], "little"), bytes(bundle.payload[8:])
    return SavedFlow(known or None, replayed)


def state_row(flow: bytes, key: bytes, saved: SavedFlow) -> Bundle:
    """The row of a state."""
    payload = saved.replayed.to_bytes(8, "little") + (saved.known or b"")
    return Bundle(flow, _STATE_PIECE, 0, TIME_MIN, 0, key, b"", payload)


class CarriedRows:
    """Writes the carried rows of a task; no file without rows."""

    def __init__(self, store: Store, path: str, origins: Origins) -> None:
        self.path = path
        self.counts = CarriedCounts()
        self.rows = 0
        self.size = 0
        self._store = store
        self._origins = origins
        origins.note([(_STATE_PIECE, _FIRST, 0, b"", TIME_MIN, 0)])
        self._waiting: list[Bundle] = []
        self._waiting_bytes = 0
        self._stream: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, bundle: Bundle) -> None:
        """Add a state, or a bundle of segments."""
        self.counts.bundles += 1
        self.counts.bytes += bundle_size(bundle)
        self.counts.segments += bundle.segments
        self.counts.connections += is_state(bundle)
        self._waiting.append(bundle)
        self._waiting_bytes += bundle_size(bundle)
        if self._waiting_bytes >= _ROWS_BYTES:
            self._write()

    def close(self) -> bool:
        """Write what waits and close the file; whether there is one."""
        if self._waiting:
            self._write()
        if self._writer is None or self._stream is None:
            return False
        self._writer.close()
        self.size = int(self._stream.tell())
        self._stream.close()
        return True

    def discard(self) -> None:
        """Delete the file, if there is one."""
        if self._writer is not None and self._stream is not None:
            with contextlib.suppress(OSError, pa.ArrowException):  # a full disk
                self._writer.close()
                self._stream.close()
            self._store.filesystem.delete_file(self.path)

    def _write(self) -> None:
        if self._writer is None:
            self._store.filesystem.create_dir(self.path.rpartition("/")[0], recursive=True)
            self._stream = self._store.filesystem.open_output_stream(self.path)
            self._writer = pq.ParquetWriter(
                self._stream, CARRIED_SCHEMA, compression="zstd", compression_level=1, use_dictionary=False
            )
        bundles, self._waiting, self._waiting_bytes = self._waiting, [], 0
        shifts = [self._origins.shift_of(bundle.piece) for bundle in bundles]
        columns = bundle_columns(bundles, self._origins.files)
        columns += [pa.array(values, pa.int64()) for values in zip(*shifts, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=CARRIED_SCHEMA))
        self.rows += len(bundles)


def read_carried(store: Store, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The carried rows in some files of OUT, as rows of a reduce task; CarriedError for a file that is damaged."""
    for path in paths:
        try:
            with store.filesystem.open_input_file(store.place(path)) as stream, pq.ParquetFile(stream) as source:
                for index in range(source.num_row_groups):
                    yield from source.read_row_group(index, use_threads=False).cast(CARRIED_SCHEMA).to_batches()
        except (pa.ArrowException, ValueError) as error:
            raise CarriedError(f"{path}: {str(error).partition(chr(10))[0]}") from None
