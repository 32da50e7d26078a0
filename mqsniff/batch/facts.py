"""A file and the reports of its pieces in; its row in the table of files, its problems and its secrets out.

1. What the pieces tell is put together to what one reader of the file would have told: each problem once, with the
   numbers of packets in the file, and limits counted over all pieces.
2. A file that cannot be read has a row, and a problem that names its URI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from mqsniff.batch.plan import FileStatus, InputFile
from mqsniff.batch.report import PieceReport
from mqsniff.limits import Limits
from mqsniff.model import Problem, ProblemItem, packet_id, packet_number
from mqsniff.sources.batches import PROBLEMS_MAX
from mqsniff.sources.parsers import NOT_TOLD, Losses, lost
from mqsniff.sources.pcapng_blocks import MORE_NOTES, MORE_SECRETS

Secrets: TypeAlias = tuple[tuple[int, bytes], ...]
"""(type, data) of decryption secrets."""


@dataclass(frozen=True, slots=True)
class FileStats:
    """A row of the table of files, but for the run."""

    index: int
    name: str
    uri: str
    size: int
    mtime_ns: int | None
    format: str
    compression: str
    linktypes: tuple[int, ...]
    first_ns: int | None
    last_ns: int | None
    """The largest time."""
    packets: int
    other_packets: int
    left_out_packets: int
    dropped: int
    """Packets that the capturing side says it lost."""
    status: FileStatus
    error: str
    domain: str


class FileReading(NamedTuple):
    """The pieces of a file that count, in file order, and why they are not all."""

    file: InputFile
    reports: Sequence[PieceReport]
    failure: str = ""
    """Why it could not be read on from ``end``."""
    end: int = 0

    @property
    def unreadable(self) -> str:
        """Why there is nothing of it; empty where there is something."""
        if self.file.status == "unreadable":
            return self.file.error
        return self.reports[0].unreadable if self.reports else self.failure


def facts_of(reading: FileReading, problems: Sequence[ProblemItem]) -> FileStats:
    """What is known of a file when all of it was scanned; ``problems`` are its own."""
    file, reports = reading.file, reading.reports
    status, error = _status(reading, problems)
    return FileStats(
        index=file.index,
        name=file.name,
        uri=file.uri,
        size=file.size,
        mtime_ns=file.mtime_ns,
        format=file.format,
        compression=file.compression,
        linktypes=tuple(sorted({linktype for report in reports for linktype in report.linktypes})),
        first_ns=next((report.first_ns for report in reports if report.packets), None),
        last_ns=max((report.largest_ns for report in reports if report.largest_ns is not None), default=None),
        packets=sum(report.packets for report in reports),
        other_packets=sum(report.other_packets for report in reports),
        left_out_packets=sum(report.left_out_packets for report in reports),
        dropped=dropped(reports),
        status=status,
        error=error,
        domain=file.domain,
    )


def _status(reading: FileReading, problems: Sequence[ProblemItem]) -> tuple[FileStatus, str]:
    if reading.file.status == "skipped":
        return "skipped", ""
    if reading.unreadable:
        return "unreadable", reading.unreadable
    for noticed in problems:
        is_whole = not packet_number(noticed.packet or 0)
        if is_whole and (noticed.problem.kind, noticed.problem.severity) == ("input", "error"):
            return "damaged", noticed.problem.detail
    return ("ok", "") if any(report.packets for report in reading.reports) else ("empty", "")


def dropped(reports: Sequence[PieceReport]) -> int:
    """Packets that the capturing side of a file lost: sections go on from piece to piece."""
    over = 0
    section: Losses = {}
    for report in reports:
        first, between, last = report.losses
        for interface, (told, total) in first.items():
            before = section.get(interface, (0, NOT_TOLD))
            section[interface] = before[0] + told, before[1] if total == NOT_TOLD else total
        if last is not None:
            over += lost(section) + between
            section = dict(last)
    return over + lost(section)


def problems_of(reading: FileReading, limits: Limits) -> list[ProblemItem]:
    """The problems of a file, as one reader would have told them."""
    file = reading.file
    whole = packet_id(file.index, 0)
    if file.status == "skipped":
        return []
    if reading.unreadable:
        return [ProblemItem(None, Problem("input", "error", f"{file.uri}: {reading.unreadable}"), None, whole)]
    packets = 0
    own: dict[str, Problem] = {}
    once: dict[str, ProblemItem] = {}
    for report in reading.reports:
        for problem in report.problems:
            moved = _moved(problem, packets)
            own.setdefault(moved.detail, replace(moved, packet=whole))
        for each in report.once:
            packet = packet_id(file.index, packets + packet_number(each.packet))
            once.setdefault(each.problem.detail, ProblemItem(None, each.problem, each.ts_ns, packet))
        packets += report.packets
    if reading.failure:
        detail = f"reading failed at byte {reading.end}: {reading.failure}"
        own[detail] = Problem("input", "error", detail, offset=reading.end, packet=whole)
    if _notes_left_out(reading.reports, limits):
        own.setdefault(MORE_NOTES, Problem("limit", "info", MORE_NOTES, packet=whole))
    if len(secrets_of(reading.reports, limits)) < sum(len(report.secrets) for report in reading.reports):
        own.setdefault(MORE_SECRETS, Problem("limit", "error", MORE_SECRETS, packet=whole))
    noticed = [ProblemItem(None, problem, problem.ts_ns, whole) for problem in list(own.values())[:PROBLEMS_MAX]]
    return [*once.values(), *noticed]


def _notes_left_out(reports: Sequence[PieceReport], limits: Limits) -> bool:
    """Whether a note came when the pieces up to there had as many as are kept."""
    spent = 0
    for report in reports:
        spent += report.notes.size
        if report.notes.size and spent - report.notes.last >= limits.notes_max:
            return True
    return False


def _moved(problem: Problem, packets: int) -> Problem:
    """A problem of a piece that has so many packets before it: the number in its words is that in the file."""
    if problem.packet is None:
        return problem
    number = f"packet {problem.packet}"
    return replace(problem, detail=problem.detail.replace(number, f"packet {problem.packet + packets}"))


def secrets_of(reports: Sequence[PieceReport], limits: Limits) -> Secrets:
    """The decryption secrets of a file, up to their limit."""
    room = limits.secrets_max
    kept = []
    for kind, data in (secret for report in reports for secret in report.secrets):
        if len(data) <= room:
            room -= len(data)
            kept.append((kind, data))
    return tuple(kept)
