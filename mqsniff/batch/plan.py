"""Listed files in, a plan out: the files in the order of their packets' times, and the splits that tasks scan.

1. Files are numbered, ranked and named as ``mqsniff decode`` does with the same files (sources/files.py).
2. Small files are packed into splits in that order. A plain file larger than a split is cut at nominal offsets, which
   scan moves to record boundaries; a compressed file cannot be cut.
3. Only the head of a file is read. A file that cannot be read stays in the plan with a reason; with ``fail_fast`` it is
   an error.
4. Only ``Location.store`` may hold credentials; ``as_dict`` leaves it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mqsniff.batch.cuts import REACH_MAX
from mqsniff.batch.inputs import ByteRange, ChangedError, InputError, Listed, Location, names_of, why
from mqsniff.filters.packetfilter import PacketFilter
from mqsniff.limits import MIB, Limits
from mqsniff.model import CaptureInfo
from mqsniff.sources.capture import CaptureReader
from mqsniff.sources.domains import domain_finder
from mqsniff.sources.files import HEAD_WINDOW, NEVER_NS, capture_order
from mqsniff.sources.parsers import Head

SPLIT_SIZE: Final = 128 * MIB
SPLIT_SIZE_SMALL: Final = 4 * MIB
"""Splits by the machine are no smaller: a cut costs some ten milliseconds."""
SPLITS_PER_CORE: Final = 4
"""Splits for each task that can run at the same time, so that none of them waits long for the last."""
EXPANSION: Final = 4
"""Expected size of a decompressed file, as a multiple of its compressed size."""
FILES_MAX: Final = 1000
"""Files of one split: each takes some milliseconds, however small it is."""
INSPECTED_AT_ONCE: Final = 16
"""Files on remote file systems whose heads are read at the same time."""

FileStatus: TypeAlias = Literal["ok", "damaged", "empty", "unreadable", "skipped"]
"""damaged: read up to the damage; empty: no packets; skipped: outside the time span."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """Which packets a job decodes, and how it reads them."""

    limits: Limits = field(default_factory=Limits)
    split_size: int = SPLIT_SIZE
    packet_filter: PacketFilter = field(default_factory=PacketFilter)
    domain: str = ""
    """Which files are one capture domain: see ``sources.domains``."""
    fail_fast: bool = False
    first_file: int = 0
    """Captures that the runs before decoded, whose connections this one goes on with."""
    first_piece: int = 0
    """Pieces of these."""

    @property
    def reach(self) -> int:
        """See cuts.py; less if splits are small."""
        return min(REACH_MAX, self.split_size // 8)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One capture file. ``index`` is the capture number in packet ids, ``rank`` the place of its name among all."""

    index: int
    rank: int
    name: str
    uri: str
    location: Location = field(repr=False)
    size: int
    mtime_ns: int | None
    format: str = "unknown"
    compression: str = ""
    first_ns: int | None = None
    domain: str = ""
    status: FileStatus = "ok"
    error: str = ""
    heads: tuple[Head, ...] = field(default=(), repr=False)
    """Known heads. Scan assumes that there are no others before a piece, and prefix checks it."""

    def heads_before(self, offset: int) -> list[Head]:
        """The known heads that stand before an offset."""
        return [head for head in self.heads if head.offset < offset]


class FilePiece(NamedTuple):
    """A part of a file, from one nominal offset to another; ``stop`` is None at the end of the file."""

    number: int
    """Number of the piece in the plan."""
    file: int
    start: int = 0
    stop: int | None = None
    is_exact: bool = True
    """Whether a record begins at ``start``; else it is a nominal offset."""
    last_ns: int = 0
    """Time of the packet before the piece, if known."""


class Split(NamedTuple):
    """The pieces that one task scans."""

    number: int
    pieces: tuple[FilePiece, ...]
    size: int
    """Bytes to read."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The files by index, and the splits to scan."""

    files: tuple[InputFile, ...]
    splits: tuple[Split, ...]
    options: ScanOptions
    done: tuple[str, ...] = ()
    """URIs that were left out because an earlier run decoded them."""
    round: int = 0
    """How often the landing check has changed the plan."""
    next_piece: int = 0
    next_split: int = 0

    @property
    def size(self) -> int:
        """Bytes of all files that are read."""
        return sum(split.size for split in self.splits)

    def as_dict(self) -> dict[str, Any]:
        """As JSON values, without credentials and heads."""
        files = [
            {name: value for name, value in asdict(file).items() if name not in {"location", "heads"}}
            for file in self.files
        ]
        splits = [split._asdict() | {"pieces": [piece._asdict() for piece in split.pieces]} for split in self.splits]
        return {"files": files, "splits": splits, "options": asdict(self.options), "done": list(self.done)}


class PieceMaker:
    """Numbers pieces and splits."""

    def __init__(self, split_size: int, piece: int = 0, split: int = 0) -> None:
        self._split_size = split_size
        self.next_piece = piece
        self.next_split = split

    def whole(self, files: Sequence[InputFile]) -> Iterator[Split]:
        """Splits of the files, small ones packed."""
        packed: list[InputFile] = []
        size = 0
        for file in files:
            if file.size > self._split_size and file.heads and not file.compression:
                yield from self.cut(file, 0)
                continue
            weight = file.size * (EXPANSION if file.compression else 1)
            if packed and (size + weight > self._split_size or len(packed) == FILES_MAX):
                yield self._pack(packed)
                packed, size = [], 0
            packed.append(file)
            size += weight
        if packed:
            yield self._pack(packed)

    def cut(self, file: InputFile, start: int, last_ns: int = 0) -> Iterator[Split]:
        """Splits of a plain file from the record at ``start`` on."""
        count = max(-(-(file.size - start) // self._split_size), 1)
        step = -(-(file.size - start) // count)
        edges = [start + index * step for index in range(count)]
        for index, edge in enumerate(edges):
            stop = edges[index + 1] if index + 1 < count else None
            yield self.single(file, edge, stop, is_exact=not index, last_ns=0 if index else last_ns)

    def single(
        self, file: InputFile, start: int, stop: int | None = None, *, is_exact: bool = True, last_ns: int = 0
    ) -> Split:
        """A split of one piece."""
        size = (file.size if stop is None else stop) - start
        return self._number(size, [FilePiece(0, file.index, start, stop, is_exact, last_ns)])

    def _pack(self, files: Sequence[InputFile]) -> Split:
        return self._number(sum(file.size for file in files), [FilePiece(0, file.index) for file in files])

    def _number(self, size: int, pieces: Sequence[FilePiece]) -> Split:
        numbered = tuple(piece._replace(number=self.next_piece + place) for place, piece in enumerate(pieces))
        split = Split(self.next_split, numbered, size)
        self.next_piece += len(pieces)
        self.next_split += 1
        return split


def plan(listed: Sequence[Listed], options: ScanOptions | None = None, done: Collection[str] = ()) -> ScanPlan:
    """The plan for some files; files whose URI is in ``done`` are left out, but count for the common folder of names.

    InputError for an invalid domain pattern, and with ``fail_fast`` for the first file that cannot be read.
    """
    options = options or ScanOptions()
    try:
        domain_of = domain_finder(options.domain)
    except ValueError as error:
        raise InputError(f"--domain: {error}") from None
    names = names_of([file.uri for file in listed])
    wanted = [(file, name) for file, name in zip(listed, names, strict=True) if file.uri not in done]
    looked = _inspect_heads([file for file, _ in wanted], options)
    files = [replace(file, name=name, domain=domain_of(name)) for file, (_, name) in zip(looked, wanted, strict=True)]
    files = _in_order([_skipped(file, options.packet_filter) for file in files])
    if options.fail_fast:
        for file in files:
            if file.status == "unreadable":
                raise InputError(f"{file.uri}: {file.error}")
    left_out = tuple(sorted(file.uri for file in listed if file.uri in done))
    return cut(ScanPlan(tuple(files), (), options, left_out), options.split_size)


def cut(work: ScanPlan, split_size: int) -> ScanPlan:
    """A plan whose files are cut into splits of this size."""
    maker = PieceMaker(split_size, work.options.first_piece)
    splits = tuple(maker.whole([file for file in work.files if file.status not in {"unreadable", "skipped"}]))
    options = replace(work.options, split_size=split_size)
    return replace(work, splits=splits, options=options, next_piece=maker.next_piece, next_split=maker.next_split)


def split_size_of(size: int, cores: int) -> int:
    """The size of splits that keeps so many cores busy with ``size`` bytes."""
    return min(max(-(-size // (cores * SPLITS_PER_CORE)), SPLIT_SIZE_SMALL), SPLIT_SIZE)


def _in_order(files: Sequence[InputFile]) -> list[InputFile]:
    """Files with their numbers and ranks, by number."""
    order = capture_order(
        [NEVER_NS if file.first_ns is None else file.first_ns for file in files], [file.name for file in files]
    )
    ranks = {name: rank for rank, name in enumerate(sorted(file.name for file in files))}
    return [replace(files[place], index=index, rank=ranks[files[place].name]) for index, place in enumerate(order)]


def _skipped(file: InputFile, packet_filter: PacketFilter) -> InputFile:
    if file.status == "ok" and file.first_ns is not None and packet_filter.is_over_before(file.first_ns):
        return replace(file, status="skipped")
    return file


def _inspect_heads(files: Sequence[Listed], options: ScanOptions) -> list[InputFile]:
    """Inspect the heads of files, many at a time if they are remote."""
    if not any(file.location.store for file in files):
        return [inspect_head(file, options.limits) for file in files]
    with ThreadPoolExecutor(INSPECTED_AT_ONCE) as pool:
        return list(pool.map(lambda file: inspect_head(file, options.limits), files))


def inspect_head(listed: Listed, limits: Limits) -> InputFile:
    """A file by its head, still without index, rank and name."""
    file = InputFile(0, 0, "", listed.uri, listed.location, listed.size, listed.mtime_ns)
    try:
        raw = ByteRange(listed.location)
    except OSError as error:
        return replace(file, status="unreadable", error=why(error))
    info = CaptureInfo(0, listed.uri)
    try:
        reader = CaptureReader(raw, info, limits, HEAD_WINDOW)
        reader.next_batch()
        heads = tuple(reader.parser.heads.found) if reader.parser and reader.parser.heads.whole else ()
        return replace(
            file,
            size=raw.size or 0,
            format=info.format,
            compression=info.compression,
            first_ns=info.first_ts_ns,
            status="unreadable" if info.unreadable else "ok",
            error=info.unreadable,
            heads=heads,
        )
    except ChangedError as error:
        return replace(file, status="unreadable", error=why(error))
    finally:
        raw.close()
