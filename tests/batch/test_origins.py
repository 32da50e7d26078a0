"""Where bundles come from: places, packets and names, each once, whatever piece they lie in."""

from __future__ import annotations

import pytest

from mqsniff.batch.bundles import TIME_MIN, PiecePlace, PiecePlaces
from mqsniff.batch.inputs import Location
from mqsniff.batch.origins import Origins, PieceShift, origin_of, shifts_of
from mqsniff.batch.plan import InputFile
from mqsniff.model import CaptureInfo, packet_id

FILE = InputFile(3, 5, "caf\udce9.pcap", "/x", Location("/x"), 900, 77)


@pytest.mark.parametrize("before", [0, 10])
def test_the_origin_of_a_file_counts_the_captures_of_the_runs_before(before: int) -> None:
    assert origin_of(FILE, before) == ((5 + before) << 40, packet_id(3 + before, 0), b"caf\xed\xb3\xa9.pcap")
    assert origin_of(FILE) == origin_of(FILE, 0)


def test_only_pieces_that_do_not_begin_their_file_are_shifted() -> None:
    placing = PiecePlaces(
        {
            0: PiecePlace(TIME_MIN, 5 << 40, packet_id(3, 0)),
            1: PiecePlace(TIME_MIN, (5 << 40) + 40, packet_id(3, 40)),
            2: PiecePlace(7, 5 << 40, packet_id(3, 0)),
        }
    )
    assert shifts_of(placing, [(number, FILE) for number in range(4)]) == [
        PieceShift(1, TIME_MIN, 40, counts=True),
        PieceShift(2, 7, 0, counts=True),
        PieceShift(3, TIME_MIN, 0, counts=False),
    ]


ROW = (4, 7 << 40, packet_id(3, 0), b"caf\xed\xb3\xa9.pcap", -5, 40)


def test_what_a_row_tells_of_a_piece_is_noted_once() -> None:
    origins = Origins()
    origins.note([ROW, (4, 0, 0, b"other", 0, 0), (5, 8 << 40, packet_id(3, 0), b"again", 6, 0)])
    assert origins.placing.places == {
        4: PiecePlace(-5, (7 << 40) + 40, packet_id(3, 40)),
        5: PiecePlace(6, 8 << 40, packet_id(3, 0)),
    }
    assert origins.files == {4: ROW[1:4], 5: (8 << 40, packet_id(3, 0), b"again")}
    assert [origins.shift_of(piece) for piece in (4, 5)] == [(-5, 40), (6, 0)]
    assert [origins.capture_of(piece) for piece in (4, 5)] == [3, 3]
    assert origins.names([3]) == {3: "caf\udce9.pcap"}
    assert origins.captures[3] == CaptureInfo(3, "caf\udce9.pcap")


def test_the_state_of_a_flow_is_of_no_capture() -> None:
    origins = Origins()
    origins.note([(-1, 0, 0, b"", TIME_MIN, 0)])
    with pytest.raises(KeyError):
        origins.names([0])
    assert -1 in origins.placing.places


def test_names_of_captures_that_a_flow_refers_to_are_noted_where_nobody_told_them() -> None:
    origins = Origins()
    origins.note([ROW])
    origins.note_names({3: "another", 9: "b.pcap"})
    assert origins.names([3, 9]) == {3: "caf\udce9.pcap", 9: "b.pcap"}
    assert origins.captures[9] == CaptureInfo(9, "b.pcap")
