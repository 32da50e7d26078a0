"""The options of a run and its report: plain data that goes to tasks and into manifests.

1. Options are immutable and hold all that a task needs; options that make the same rows have the same ``row_options``.
2. A report adds up: packets are those in the files, rows those that were committed.
3. Nothing in a report holds credentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, Self, TypeAlias

from mqsniff.batch.plan import SPLIT_SIZE, ScanOptions
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.packetfilter import PacketFilter
from mqsniff.limits import KIB, Limits
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.schemas import SCHEMA_VERSION, TABLES, TableName
from mqsniff.tables.values import Redaction
from mqsniff.tls.keylog import KeyLog

Folder: TypeAlias = Literal["protocol", "day"]

SPLIT_SIZE_MIN: Final = KIB
DUPLICATES_USUAL: Final = 0.01
"""Share of packets that are there twice up to which the report does not mention them."""
_LAYOUT: Final = frozenset(("split_size", "partitions", "fail_fast", "overwrite", "append", "staging", "window_ns"))
"""Options that change no row."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a run."""

    tables: tuple[TableName, ...] = tuple(TABLES)
    body: bool = True
    """Whether messages keep their bodies."""
    value_bytes: int | None = None
    """Bytes of a record's key or value that are kept; None for all."""
    show_secrets: bool = False
    show_raw: bool = False
    redact: tuple[str, ...] = ()
    decode_as: Mapping[int, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    domain: str = ""
    """``folder``, or a regular expression on the names of captures: what it matches is the capture domain."""
    filters: Filters = field(default_factory=Filters)
    cut_from_ns: int | None = None
    """Packets before this time are dropped before decoding."""
    cut_to_ns: int | None = None
    """Packets from this time on are dropped before decoding."""
    split_size: int | None = None
    """Bytes that one task scans; None: by their number and the cores."""
    partitions: int | None = None
    """Number of reduce tasks; None: by the bytes of the shuffle and the cores."""
    folders: tuple[Folder, ...] = ()
    """Partition the files of a table into folders, such as ``protocol=kafka/day=2026-01-31``."""
    tls_keys: tuple[KeyLog, ...] = field(default=(), repr=False)
    """Key logs that open TLS; they never travel with the options."""
    hash_key: HashKey | None = field(default=None, repr=False)
    """The key of hashes of what is not shown, None for a random one; it never travels with the options."""
    fail_fast: bool = False
    overwrite: bool = False
    append: bool = False
    window_ns: int | None = None
    """Captures that begin within the same span of this length are one run; None: all are."""

    @property
    def carries(self) -> bool:
        """Whether connections that are open at the end of a run go on in the next one."""
        return self.append or self.window_ns is not None

    @property
    def shown(self) -> Redaction:
        """How to show secrets, undecoded bytes and record data, but for the key of hashes."""
        return Redaction(self.show_secrets, self.show_raw, "payload" not in self.redact, self.value_bytes)

    @property
    def needs_records(self) -> bool:
        """Whether record batches have to be opened."""
        return "records" in self.tables or self.filters.needs_records

    @property
    def scan_options(self) -> ScanOptions:
        """The options of scan; it drops whole flows by port and host, so that they are not shuffled."""
        filters = self.filters
        packet_filter = PacketFilter(self.cut_from_ns, self.cut_to_ns, filters.ports, tuple(map(str, filters.hosts)))
        return ScanOptions(self.limits, self.split_size or SPLIT_SIZE, packet_filter, self.domain, self.fail_fast)

    def row_options(self) -> dict[str, Any]:
        """The options that change rows or their folders, as JSON values: part of the digest of a run."""
        named = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in _LAYOUT}
        return named | {
            "tables": sorted(self.tables),
            "decode_as": {str(port): name for port, name in sorted(self.decode_as.items())},
            "limits": asdict(self.limits),
            "filters": repr(self.filters) if self.filters else "",
            "tls_keys": [log.about() for log in self.tls_keys],
            "hash_key": self.hash_key.about() if self.hash_key else "random",
            "schema_version": SCHEMA_VERSION,
        }


_ENCRYPTED: Final = {
    "missing": "encrypted; its keys are needed: --tls-keys FILE",
    "wrong": "encrypted, and the keys of --tls-keys do not open it",
}
"""What became of keys -> what is said of connections that stay encrypted."""


@dataclass(slots=True)
class JobReport:
    """The results of a run in figures."""

    run: str
    out: str
    status: Literal["finished", "nothing to do"] = "finished"
    files: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """(URI, why) of inputs that could not be read."""
    skipped: list[str] = field(default_factory=list)
    """Inputs that an earlier run decoded (``--append``)."""
    packets: int = 0
    other_packets: int = 0
    dropped: int = 0
    duplicate_packets: int = 0
    """Packets of connections that were captured twice."""
    bytes: int = 0
    connections: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    """By protocol."""
    problems: Counter[str] = field(default_factory=Counter)
    """By severity."""
    encrypted: Counter[str] = field(default_factory=Counter)
    """TLS connections that no key opened: those whose keys are missing, and wrong."""
    tables: Counter[str] = field(default_factory=Counter)
    """Rows that were committed."""
    splits: int = 0
    scanned_again: int = 0
    partitions: int = 0
    shuffle_bytes: int = 0
    rewritten: int = 0
    """Part files that were rewritten, for topic names or for their size."""
    seconds: float = 0.0
    start_seconds: float = 0.0
    """Of these, before the first task: listing inputs, starting Spark."""
    worker_memory: int = 0
    """Peak memory of a Python worker, bytes."""
    recovered: list[str] = field(default_factory=list)
    """What was completed or rolled back of earlier runs."""
    windows: int = 0
    """Runs that were committed."""
    carried: int = 0
    """Connections that the next run can go on with."""
    carried_bytes: int = 0
    """What is kept of them, and of packets behind the edge of the window."""
    anew: str = ""
    """Why connections that were open at the end of the run before are not gone on with; empty if they are."""
    late: int = 0
    """Captures that begin before what was decoded: their packets come after it."""

    def add(self, run: JobReport) -> None:
        """Add another run of the same job."""
        self.run, self.status = run.run, run.status
        for name in ("files", "packets", "other_packets", "dropped", "bytes", "connections", "splits"):
            setattr(self, name, getattr(self, name) + getattr(run, name))
        self.duplicate_packets += run.duplicate_packets
        for name in ("scanned_again", "partitions", "shuffle_bytes", "rewritten", "windows", "late"):
            setattr(self, name, getattr(self, name) + getattr(run, name))
        for name in ("messages", "problems", "encrypted", "tables"):
            getattr(self, name).update(getattr(run, name))
        self.start_seconds += run.start_seconds
        self.unreadable += run.unreadable
        self.skipped = self.skipped or run.skipped
        self.worker_memory = max(self.worker_memory, run.worker_memory)
        self.carried, self.carried_bytes = run.carried, run.carried_bytes
        self.anew = self.anew or run.anew

    @property
    def mb_per_second(self) -> float:
        """Million bytes of captures a second."""
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0

    def plain(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self) | {
            "messages": dict(self.messages),
            "problems": dict(self.problems),
            "encrypted": dict(self.encrypted),
            "tables": dict(self.tables),
            "mb_per_second": round(self.mb_per_second, 1),
        }

    def figures(self) -> dict[str, int]:
        """Name -> number, of what matters most."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "packets": self.packets,
            "connections": self.connections,
            "messages": self.messages.total(),
            "records": self.tables["records"],
            "problems": self.problems.total(),
        }

    def headline(self) -> str:
        """The figures in one line, and whose they are."""
        numbers = self.figures()
        files, size = counted(numbers.pop("files"), "file"), numbers.pop("bytes") / 1e6
        others = (counted(number, name.removesuffix("s")) for name, number in numbers.items())
        return f"{files}, {size:.1f} MB, {', '.join(others)}; run {self.run}"

    def lines(self) -> Iterable[str]:
        """The report as text, without the inputs that could not be read."""
        if self.status == "nothing to do":
            yield f"nothing to do: {counted(len(self.skipped), 'input')} decoded before"
            yield from self._last_line()
            return
        messages = ", ".join(f"{name} {count}" for name, count in self.messages.most_common())
        problems = ", ".join(f"{name} {count}" for name, count in self.problems.most_common())
        asides = ((self.other_packets, "not TCP"), (self.dropped, "more dropped by the capture"))
        aside = ", ".join(f"{number} {what}" for number, what in asides if number)
        yield (
            f"{counted(self.files, 'file')}, {self.bytes / 1e6:.1f} MB, {counted(self.packets, 'packet')}"
            f"{f' ({aside})' if aside else ''}, {counted(self.connections, 'connection')}, "
            f"{counted(self.messages.total(), 'message')}{f' ({messages})' if messages else ''}, "
            f"{f'problems: {problems}' if problems else 'no problems'}"
        )
        for keys, why in _ENCRYPTED.items():
            if self.encrypted[keys]:
                yield f"not decoded: {counted(self.encrypted[keys], 'TLS connection')} ({why})"
        if self.duplicate_packets > DUPLICATES_USUAL * self.packets:
            yield (
                f"{self.duplicate_packets} of these packets were captured twice, and count once: if the captures are "
                "of taps or networks that should not be put together, give --domain"
            )
        if self.anew:
            yield f"connections that were open do not go on here: {self.anew}"
        if self.late:
            yield f"{counted(self.late, 'capture')} with packets older than the last run: read as if they came after it"
        if self.carried:
            yield (
                f"{counted(self.carried, 'open connection')} ({self.carried_bytes / 1e6:.1f} MB) can go on in the next "
                "run with --append"
            )
        yield (
            f"{f'{self.windows} windows, ' if self.windows > 1 else ''}{counted(self.splits, 'split')}, "
            f"{counted(self.partitions, 'reduce task')}, {self.seconds:.1f} s, {self.mb_per_second:.1f} MB/s, "
            f"workers up to {self.worker_memory / 1e6:.0f} MB"
        )
        yield from self._last_line()

    def _last_line(self) -> Iterable[str]:
        tables = ", ".join(f"{name} {rows}" for name, rows in self.tables.items())
        yield f"{self.out} holds run {self.run}: {tables}"


class JobStage(str):
    """The stage of a job that begins, in words; tasks of about the same size do its work."""

    __slots__ = ("size",)

    size: int | None
    """Bytes that it works on; None if its work is not measured in bytes."""

    def __new__(cls, text: str, size: int | None = None) -> Self:
        """``text`` with ``size``."""
        stage = super().__new__(cls, text)
        stage.size = size
        return stage


def counted(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
