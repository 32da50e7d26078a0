"""Where bundles come from, as columns of their rows: places and names travel with the bundles, not in closures.

1. Scan knows the file of a bundle: its name, and the place and packet id of its first packet, minus one. What precedes
   the piece within the file is known when all pieces are scanned (``prefix``): a ``PieceShift`` for each piece of a cut
   file. There are as many as splits, however many files there are; small files have none.
2. A task notes the origins of the bundles that it gets. Bundles of pieces that do not count never get there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from mqsniff.batch.bundles import TIME_MIN, PiecePlace, PiecePlaces
from mqsniff.batch.plan import InputFile
from mqsniff.model import PACKET_BITS, CaptureInfo, packet_capture, packet_id

FileOrigin: TypeAlias = tuple[int, int, bytes]
"""What scan knows: place and packet id before the first packet of the file, and its name."""
ORIGIN_COLUMNS: Final = ("piece", "place", "packet", "capture", "floor_ns", "before")
"""Columns of the rows of a reduce task: the piece of a bundle, a ``FileOrigin``, and what a ``PieceShift`` holds."""


class PieceShift(NamedTuple):
    """What precedes a piece within its file."""

    piece: int
    floor_ns: int
    """The largest time before it."""
    before: int
    """Packets before it."""
    counts: bool


def origin_of(file: InputFile, first_file: int = 0) -> FileOrigin:
    """The origin of bundles of a file, as columns; ``first_file`` captures were decoded by the runs before."""
    number, rank = first_file + file.index, first_file + file.rank
    return rank << PACKET_BITS, packet_id(number, 0), file.name.encode(errors="surrogatepass")


def shifts_of(placing: PiecePlaces, scanned: Iterable[tuple[int, InputFile]]) -> list[PieceShift]:
    """The shifts, for all pieces that were scanned, each with its file; nothing for those that begin their files."""
    shifts = []
    for piece, file in scanned:
        place = placing.places.get(piece)
        if place is None:
            shifts.append(PieceShift(piece, TIME_MIN, 0, counts=False))
        elif place.floor_ns != TIME_MIN or place.order != file.rank << PACKET_BITS:
            shifts.append(PieceShift(piece, place.floor_ns, place.order - (file.rank << PACKET_BITS), counts=True))
    return shifts


class Origins:
    """The origins of the bundles that a task has got so far."""

    def __init__(self) -> None:
        self.placing = PiecePlaces({})
        self.files: dict[int, FileOrigin] = {}
        """By piece."""
        self._shifts: dict[int, tuple[int, int]] = {}
        self._captures: dict[int, CaptureInfo] = {}

    @property
    def captures(self) -> Sequence[CaptureInfo]:
        """The captures by index: those that were noted, and no others."""
        return cast("Sequence[CaptureInfo]", self._captures)  # rows look them up by index, and do nothing else

    def shift_of(self, piece: int) -> tuple[int, int]:
        """The largest time and the number of packets before a piece, within its file."""
        return self._shifts[piece]

    def capture_of(self, piece: int) -> int:
        """The number of the capture that a piece is of."""
        return packet_capture(self.files[piece][1])

    def names(self, captures: Iterable[int]) -> dict[int, str]:
        """The names of some captures."""
        return {index: self._captures[index].name for index in captures}

    def note_names(self, names: Mapping[int, str]) -> None:
        """Note the names of captures that a restored flow may refer to."""
        for index, name in names.items():
            if index not in self._captures:
                self._captures[index] = CaptureInfo(index, name)

    def note(self, rows: Iterable[tuple[int, int, int, bytes, int, int]]) -> None:
        """Note the origins of bundles: rows of ``ORIGIN_COLUMNS``."""
        for piece, place, packet, capture, floor_ns, before in rows:
            if piece in self.placing.places:
                continue
            self.placing.places[piece] = PiecePlace(floor_ns, place + before, packet + before)
            self.files[piece] = place, packet, capture
            self._shifts[piece] = floor_ns, before
            index = packet_capture(packet)
            if capture and index not in self._captures:  # the state of a flow is of no capture
                self._captures[index] = CaptureInfo(index, capture.decode(errors="surrogatepass"))
