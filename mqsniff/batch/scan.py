"""A split in; the bundles of its segments, and one report for each of its pieces, out.

1. Packets are read and decoded as by ``mqsniff decode``: CaptureReader and PacketDecoder, a window at a time.
2. A piece is read from its own cut to that of the next piece; the tasks of both find it independently. The report tells
   where the piece began and where it landed; prefix decides whether it counts.
3. Packet numbers and maximum times are those inside the piece, until prefix knows what precedes it.
4. IP datagrams are reassembled from fragments of one piece. Fragments that wait at a cut are a ``limit`` problem.
5. Reports are small: what may occur once per packet goes into bundles.

Hot: 2.6 CPU seconds and 75 MB for 1.08 GB of large and small Kafka messages in 2.8 million packets (one core, AMD EPYC;
``benchmarks/run.py batch-scan``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from mqsniff.batch.bundles import TIME_MIN, Bundle, bundle_size, pack, pack_problems
from mqsniff.batch.cuts import find_cut
from mqsniff.batch.inputs import ByteRange, ChangedError, read_range, why
from mqsniff.batch.plan import FilePiece, InputFile, ScanOptions, Split
from mqsniff.batch.report import PieceReport, digest_of
from mqsniff.model import CaptureInfo, PacketBatch, PacketProblem, Problem
from mqsniff.sources.batches import slice_batch
from mqsniff.sources.capture import CaptureReader, Stretch
from mqsniff.sources.heads import parser_for
from mqsniff.streams.packets import PacketDecoder

SLICE_PACKETS: Final = 65_536
"""A window may hold half a million packets, and each may be a problem."""
Files: TypeAlias = Mapping[int, InputFile] | Sequence[InputFile]
"""Files by index."""
ACROSS: Final = "IP fragments whose datagram may continue after the end of the split"


def scan(split: Split, files: Files, options: ScanOptions) -> Iterator[Bundle | PieceReport]:
    """The bundles of each piece of a split, then its report.

    Input never raises: what cannot be read, and an exception in our code, is a ``failure`` of its piece.
    """
    for piece in split.pieces:
        yield from _Scan(piece, files[piece.file], options).run()


class _Scan:
    """The scan of one piece."""

    def __init__(self, piece: FilePiece, file: InputFile, options: ScanOptions) -> None:
        self._piece = piece
        self._file = file
        self._options = options
        self._info = CaptureInfo(0, file.name)
        self._decoder = PacketDecoder(options.limits)
        self._largest_ns = TIME_MIN
        self._report = PieceReport(piece.number, piece.file)

    def run(self) -> Iterator[Bundle | PieceReport]:
        """The bundles, then the report."""
        started = time.process_time_ns()
        try:
            yield from self._bundles()
        except OSError as error:
            self._report.failure = why(error)
            self._report.is_lost = isinstance(error, ChangedError | FileNotFoundError)
        except MemoryError:
            raise  # it fails the task, not the file: the next attempt may succeed
        except Exception as error:  # noqa: BLE001  # the border of an input
            self._report.failure = f"internal: {type(error).__name__}: {error}"
        self._report.cpu_ns = time.process_time_ns() - started
        yield self._report

    def _bundles(self) -> Iterator[Bundle]:
        begin, stop = self._bounds()
        report = self._report
        report.begin = report.end = begin
        if begin is None or begin >= stop:
            return
        reader = self._reader(begin, stop)
        try:
            while (batch := reader.next_batch()) is not None:
                for first in range(0, len(batch), SLICE_PACKETS):
                    stop = min(first + SLICE_PACKETS, len(batch))
                    yield from self._counted(self._take(slice_batch(batch, first, stop)))
            yield from self._counted(self._waiting(whole=report.is_last or reader.over))
            report.conclude(self._info, reader, known=len(self._file.heads_before(begin)))
            report.end = self._file.size if report.is_last and not reader.over else reader.offset
        finally:
            reader.close()

    def _bounds(self) -> tuple[int | None, int]:
        """(where the piece begins, None if that is not clear; where it should end)."""
        piece, file, report = self._piece, self._file, self._report
        begin = piece.start if piece.is_exact else self._cut(piece.start)
        stop = None if piece.stop is None else self._cut(piece.stop)
        report.heads_before = digest_of(file.heads_before(begin or 0))
        report.is_last = piece.stop is None or stop == file.size
        if piece.stop is None:
            return begin, file.size
        return begin, piece.stop if stop is None else stop

    def _cut(self, nominal: int) -> int | None:
        file = self._file

        def read(start: int, stop: int) -> bytes:
            return read_range(file.location, start, stop)

        return find_cut(read, file.size, nominal, file.heads_before(nominal), self._options.reach)

    def _reader(self, begin: int, stop: int) -> CaptureReader:
        file, limits = self._file, self._options.limits
        heads = file.heads_before(begin)
        parser = parser_for(heads[0].data, self._info, limits) if heads else None
        if parser is not None:
            parser.resume(heads, self._piece.last_ns)
        raw = ByteRange(file.location, begin, None if file.compression else stop)
        stretch = Stretch(begin, parser, self._report.is_last)
        return CaptureReader(raw, self._info, limits, limits.window, stretch=stretch)

    def _counted(self, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        for bundle in bundles:
            self._report.bundles += 1
            self._report.bundle_bytes += bundle_size(bundle)
            yield bundle

    def _take(self, batch: PacketBatch) -> Iterator[Bundle]:
        """The bundles of one window, or a slice of it."""
        report, packet_filter = self._report, self._options.packet_filter
        first = int(batch.packet[0])
        batch.ordinal = first
        t_star = np.maximum.accumulate(np.maximum(batch.ts_ns, self._largest_ns))
        self._largest_ns = int(t_star[-1])
        kept = packet_filter.packets(batch)
        report.left_out_packets += len(batch) - len(kept)
        segments = self._decoder.decode(kept)
        report.other_packets += segments.skipped_packets
        yield from pack_problems(self._own(segments.problems), self._piece.number)
        wanted = packet_filter.segments(segments)
        report.segments += len(wanted)
        report.left_out_packets += len(segments) - len(wanted)
        yield from pack(wanted, t_star[wanted.packet - first], self._piece.number, self._file.domain)

    def _waiting(self, *, whole: bool) -> Iterator[Bundle]:
        """The fragments that wait at the end of the piece; ``whole``: the file ends there, so no more can follow."""
        waiting = self._decoder.close()
        across = Problem("limit", "error", ACROSS)
        return pack_problems(
            waiting if whole else [each._replace(problem=across) for each in waiting], self._piece.number
        )

    def _own(self, problems: list[PacketProblem]) -> list[PacketProblem]:
        """The problems for bundles; those that are reported once per capture go into the report."""
        self._report.once += [each for each in problems if each.problem.kind == "input"]
        return [each for each in problems if each.problem.kind != "input"]
