"""Work that makes no rows counts against the rows of compressed captures (decision 017)."""

from __future__ import annotations

import lzma
import struct

import numpy as np
import pytest
from kafkacraft import fallback, produce, raw_request
from tinycapture import NSQ, START_S, conversation, pcap

from mqsniff.decode.rowbudget import ROWS_SPENT, RowBudget
from mqsniff.dissector import WITH_RECORDS, Settings, WorkCount
from mqsniff.limits import Limits
from mqsniff.model import CaptureInfo, PacketBatch, ProblemItem, RecordBatch, packet_id
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

COUNT = 2_000
API_VERSIONS = 18
SEGMENT_AT = 40
"""Where the payload of a segment begins in its packet."""


def kafka(*said: bytes) -> list[bytes]:
    """Packets of a client that says this after it has told its versions."""
    opening = [("cs"[each.side], each.data) for each in fallback()[2:4]]
    return [*conversation([*opening, *(("c", data) for data in said)], server=9092)]


def fragments() -> list[bytes]:
    """First fragments of datagrams, whose rest never comes."""
    return [
        struct.pack(">BBHHHBBHII", 0x45, 0, 28, number, 0x2000, 64, 6, 0, 0x0A000001, 0x0A000002) + bytes(8)
        for number in range(COUNT)
    ]


def reversed_segments() -> list[bytes]:
    """A request in segments of a byte, the last one first."""
    packets = kafka(*(bytes([byte]) for byte in raw_request(3, 0, 7, bytes(COUNT))))
    small = [packet for packet in packets if len(packet) == SEGMENT_AT + 1]
    return [packet for packet in packets if packet not in small] + small[::-1]


def unknown_tags() -> list[bytes]:
    """A request with tags that nobody knows."""
    tags = b"".join(bytes([number & 127 | 128, 128 | number >> 7, 1, 0]) for number in range(8 * COUNT))
    count = 8 * COUNT
    body = b"\0\x02a\x02b" + bytes([count & 127 | 128, count >> 7 & 127 | 128, count >> 14]) + tags
    return kafka(raw_request(API_VERSIONS, 3, 8, body))


def records() -> list[bytes]:
    """Batches of many records."""
    return kafka(*(produce(8 + number, *[b"x"] * (2 * COUNT)) for number in range(4)))


def problems(path, spent: Limits) -> list[str]:
    """What the problems of a run say."""
    run = Pipeline(FileSource([str(path)], spent), Settings(spent, wanted=WITH_RECORDS))
    return [item.problem.detail for item in run.items() if isinstance(item, ProblemItem)]


def open_connections() -> list[bytes]:
    """Clients that ask and get no answer: each leaves a session."""
    return [packet for port in range(COUNT // 20) for packet in asked(port)]


def asked(port: int) -> list[bytes]:
    """A handshake and a request."""
    request = raw_request(API_VERSIONS, 0, 7, b"")
    return [*conversation([("c", request)], client=20_000 + port, server=9092)][:4]


@pytest.mark.parametrize("packets", [fragments, reversed_segments, unknown_tags, records, open_connections])
def test_packets_segments_and_elements_count_as_rows_of_a_compressed_capture(tmp_path, packets):
    plain = pcap(packets())
    (tmp_path / "work.pcap").write_bytes(plain)
    (tmp_path / "work.pcap.xz").write_bytes(lzma.compress(plain))
    few = Limits(capture_rows_free=COUNT // 2, capture_row_cost=1 << 20)
    more = Limits(capture_rows_free=4 * COUNT, capture_row_cost=1 << 20)
    assert ROWS_SPENT in problems(tmp_path / "work.pcap.xz", few)
    assert ROWS_SPENT not in problems(tmp_path / "work.pcap", few)
    assert ROWS_SPENT not in problems(tmp_path / "work.pcap.xz", more)


def test_a_plain_capture_before_a_compressed_one_does_not_lift_its_bound(tmp_path):
    later = pcap(fragments()).replace(struct.pack("<I", START_S), struct.pack("<I", START_S + 100))
    (tmp_path / "a.pcap").write_bytes(pcap(conversation(NSQ)))
    (tmp_path / "b.pcap.xz").write_bytes(lzma.compress(later))
    few = Limits(capture_rows_free=1, capture_row_cost=1 << 20)
    run = Pipeline(FileSource([str(tmp_path / "a.pcap"), str(tmp_path / "b.pcap.xz")], few), Settings(few))
    assert any(isinstance(item, ProblemItem) and item.problem.detail == ROWS_SPENT for item in run.items())


# ---- the budget by itself


def captured(*packets: int) -> PacketBatch:
    """Packets by their ids; nothing else of them is looked at."""
    ids = np.array(packets, np.int64)
    return PacketBatch(b"", *(ids,) * 4, ids.astype(np.int32), ids, ids.astype(np.int32), 0)


def test_a_budget_is_bounded_from_the_first_packet_of_a_compressed_capture_on():
    captures = [CaptureInfo(0, "a.pcap"), CaptureInfo(1, "b.pcap.xz", compression="xz")]
    budget = RowBudget(Limits(), WorkCount())
    for packets, bounded in (((), False), ((packet_id(0, 1),), False), ((packet_id(0, 2), packet_id(1, 1)), True)):
        budget.look_at(captures, captured(*packets))
        assert budget.bounded is bounded
    budget.look_at(captures, captured(packet_id(0, 3)))
    assert budget.bounded


def test_bodies_count_the_entries_of_their_maps_and_lists_at_any_depth():
    work = WorkCount()
    RowBudget(Limits(), work).count_body({"a": [1, {"b": 2, "c": [3, 4]}], "d": "text", "e": {}})
    assert work.elements == 3 + 2 + 2 + 2
    RowBudget(Limits(), work).count_records(RecordBatch(b"", 5))
    assert work.elements == 14


@pytest.mark.parametrize(
    ("compression", "bounded", "parts", "rows", "spent"),
    [
        ("xz", True, 1, 13, False),  # 3 free ones, and 10 for 20 bytes of a compressed capture
        ("xz", True, 1, 14, True),
        ("", True, 1, 23, False),
        ("", True, 1, 24, True),
        ("xz", True, 2, 6, False),
        ("xz", True, 2, 7, True),
        ("xz", False, 1, 1000, False),
    ],
)
def test_a_budget_is_spent_by_more_rows_than_its_bytes_pay(compression, bounded, parts, rows, spent):
    budget = RowBudget(Limits(capture_rows_free=3, capture_row_cost=2), WorkCount(), parts)
    budget.bounded, budget.rows = bounded, rows
    assert budget.is_spent([CaptureInfo(0, "a", compression=compression, taken=20)]) is spent


def test_work_counts_as_the_rows_that_cost_as_much():
    work = WorkCount()
    budget = RowBudget(Limits(capture_rows_free=3, capture_row_cost=1), work)
    budget.bounded, budget.rows, work.odd_packets = True, 2, 1
    assert not budget.is_spent([])
    work.odd_packets = 2
    assert budget.is_spent([])
    assert not budget.is_spent([CaptureInfo(0, "a", taken=1)]), "what is read later pays too"
