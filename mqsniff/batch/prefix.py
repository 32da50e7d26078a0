"""A plan and the reports of its pieces in; the position of every piece in the run out, or what to scan again.

1. The landing check: the first piece of a file begins at its head. Each other piece counts if it began where the piece
   before it landed, and if it assumed the right heads before it. So every packet is read as one reader of the whole
   file reads it, however the cuts were guessed.
2. Pieces after one that fails are scanned again from the last proven offset: in splits if a head was missing, else as
   one piece. That is three rounds at most.
3. Bytes after an offset from which nothing can be read do not count.
4. Results equal those of one reader: packet numbers, merge times, and the problems of a file in order, each once.
5. A file that is gone or changed while it is scanned counts as unreadable as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mqsniff.batch.bundles import TIME_MIN, PiecePlace, PiecePlaces
from mqsniff.batch.filestats import FileReading, FileStats, Secrets, file_stats, problems_of, secrets_of
from mqsniff.batch.inputs import InputError
from mqsniff.batch.plan import FilePiece, InputFile, PieceMaker, ScanPlan, Split
from mqsniff.batch.report import PieceReport, digest_of
from mqsniff.model import PACKET_BITS, CaptureInfo, ProblemItem, packet_id
from mqsniff.sources.parsers import Head

ROUNDS: Final = 3
DISJOINT: Final = "its pieces do not meet"
"""Why reading a file stops if the last round failed, too: the file was changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The files and the positions of their pieces: what all tasks after the scan need."""

    placing: PiecePlaces
    files: tuple[FileStats, ...]
    """The files by index."""
    problems: tuple[ProblemItem, ...]
    """Problems of files."""
    secrets: dict[str, Secrets] = field(repr=False)
    """Capture domain -> decryption secrets of its files."""
    packets: int
    other_packets: int
    segments: int
    bundles: int
    bundle_bytes: int

    def captures(self) -> list[CaptureInfo]:
        """The files as the makers of rows need them."""
        return [CaptureInfo(file.index, file.name, file.format, file.compression) for file in self.files]


class Rescan(NamedTuple):
    """Files that failed the landing check: a plan with new pieces for them, and the splits to scan."""

    plan: ScanPlan
    splits: tuple[Split, ...]
    files: tuple[str, ...]
    """Names of these files."""


class _Chain(NamedTuple):
    """The pieces of a file that count, in file order, and what follows them."""

    pieces: list[FilePiece]
    reports: list[PieceReport]
    heads: list[Head]
    end: int
    """Offset at which the last of them landed."""
    last_ns: int
    """Time of the last packet."""
    broken: bool
    """Whether pieces after ``end`` have to be scanned again."""
    failure: str = ""
    """Why the next piece could not be opened."""


_NOTHING: Final = _Chain([], [], [], 0, 0, broken=False)


def prefix(plan: ScanPlan, reports: Iterable[PieceReport]) -> Prefix | Rescan:
    """The positions of all pieces that count, or a plan for the next round.

    ``reports`` holds a report for each piece of the plan; others are ignored. InputError with ``fail_fast`` for the
    first file that could not be read to its end.
    """
    by_piece = {report.piece: report for report in reports}
    lost = {report.file: report.failure for report in by_piece.values() if report.is_lost}
    pieces: dict[int, list[FilePiece]] = {file.index: [] for file in plan.files}
    for split in plan.splits:
        for piece in split.pieces:
            pieces[piece.file].append(piece)
    chains = {
        index: _chain(sorted(some, key=lambda piece: piece.start), by_piece)
        for index, some in pieces.items()
        if some and index not in lost
    }
    broken = {index: chain for index, chain in chains.items() if chain.broken}
    if broken and plan.round + 1 < ROUNDS:
        return _rescan(plan, broken, by_piece)
    return _prefix(plan, chains | {index: _NOTHING._replace(failure=failure) for index, failure in lost.items()})


def _chain(pieces: Sequence[FilePiece], reports: dict[int, PieceReport]) -> _Chain:
    """The pieces of a file up to the first that is not proven."""
    counted: list[PieceReport] = []
    heads: list[Head] = []
    end = last_ns = 0
    for piece in pieces:
        report = reports[piece.number]
        if counted and counted[-1].is_over:
            break
        if not _fits(piece, report, end, heads):
            counting = list(pieces[: len(counted)])
            return _Chain(counting, counted, heads, end, last_ns, broken=True, failure=report.failure)
        counted.append(report)
        heads += report.heads
        assert report.end is not None
        end = report.end
        last_ns = report.last_ns if report.packets else last_ns
    return _Chain(list(pieces[: len(counted)]), counted, heads, end, last_ns, broken=False)


def _fits(piece: FilePiece, report: PieceReport, end: int, heads: list[Head]) -> bool:
    """Whether a piece continues where the pieces before it ended."""
    if report.failure or report.begin != end or report.heads_before != digest_of(heads):
        return False
    return piece.is_exact or not report.begins_untimed


def _rescan(plan: ScanPlan, broken: dict[int, _Chain], reports: dict[int, PieceReport]) -> Rescan:
    """The next round."""
    maker = PieceMaker(plan.options.split_size, plan.next_piece, plan.next_split)
    files = list(plan.files)
    by_file: dict[int, list[PieceReport]] = defaultdict(list)
    for report in reports.values():
        by_file[report.file].append(report)
    kept: dict[int, set[int]] = {}
    new: list[Split] = []
    for index, chain in broken.items():
        found = [head for report in by_file[index] for head in report.heads]
        files[index], kept[index], some = _rest(files[index], chain, found, maker, first_round=plan.round == 0)
        new += some
    old = (_without(split, kept) for split in plan.splits)
    following = replace(
        plan,
        files=tuple(files),
        splits=(*(split for split in old if split.pieces), *new),
        round=plan.round + 1,
        next_piece=maker.next_piece,
        next_split=maker.next_split,
    )
    return Rescan(following, tuple(new), tuple(plan.files[index].name for index in broken))


def _rest(
    file: InputFile, chain: _Chain, found: Sequence[Head], maker: PieceMaker, *, first_round: bool
) -> tuple[InputFile, set[int], list[Split]]:
    """(the file with its known heads, its pieces that stay, splits of the rest)."""
    if not all(report.heads_whole for report in chain.reports):
        file = replace(file, heads=())
        return file, set(), [maker.single(file, 0)]
    kept = {piece.number for piece in chain.pieces}
    heads = {head.offset: head for head in (*found, *chain.heads)}
    if first_round and heads.keys() - {head.offset for head in file.heads}:
        file = replace(file, heads=tuple(heads[offset] for offset in sorted(heads)))
        return file, kept, list(maker.cut(file, chain.end, chain.last_ns))
    file = replace(file, heads=tuple(chain.heads))
    return file, kept, [maker.single(file, chain.end, last_ns=chain.last_ns)]


def _without(split: Split, kept: dict[int, set[int]]) -> Split:
    """A split without the pieces of some files, except for kept ones."""
    return split._replace(
        pieces=tuple(each for each in split.pieces if each.file not in kept or each.number in kept[each.file])
    )


def _prefix(plan: ScanPlan, chains: dict[int, _Chain]) -> Prefix:
    """The result, when all pieces are proven."""
    places: dict[int, PiecePlace] = {}
    stats: list[FileStats] = []
    problems: list[ProblemItem] = []
    secrets: dict[str, Secrets] = {}
    for file in plan.files:
        chain = chains.get(file.index, _NOTHING)
        failure = chain.failure or (DISJOINT if chain.broken else "")
        reading = FileReading(file, chain.reports, failure, chain.end)
        places |= _places(reading)
        some = problems_of(reading, plan.options.limits)
        problems += some
        stats.append(file_stats(reading, some))
        if plan.options.fail_fast and stats[-1].status in {"unreadable", "damaged"}:
            raise InputError(f"{file.uri}: {stats[-1].error}")
        known = secrets_of(chain.reports, plan.options.limits)
        if known:
            secrets[file.domain] = secrets.get(file.domain, ()) + known
    every = [report for chain in chains.values() for report in chain.reports]
    return Prefix(
        placing=PiecePlaces(places),
        files=tuple(stats),
        problems=tuple(problems),
        secrets=secrets,
        packets=sum(report.packets for report in every),
        other_packets=sum(report.other_packets for report in every),
        segments=sum(report.segments for report in every),
        bundles=sum(report.bundles for report in every),
        bundle_bytes=sum(report.bundle_bytes for report in every),
    )


def _places(reading: FileReading) -> dict[int, PiecePlace]:
    """The positions of the pieces of a file."""
    file = reading.file
    places: dict[int, PiecePlace] = {}
    packets, floor_ns = 0, TIME_MIN
    for report in reading.reports:
        order = file.rank << PACKET_BITS | packets
        places[report.piece] = PiecePlace(floor_ns, order, packet_id(file.index, packets))
        packets += report.packets
        floor_ns = floor_ns if report.largest_ns is None else max(floor_ns, report.largest_ns)
    return places
