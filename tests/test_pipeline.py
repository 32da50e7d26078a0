"""The whole way from captures to rows: results are a function of the packets alone."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from kafkacraft import HEARTBEAT, request, response

from mqsniff import pipeline
from mqsniff.decode.registry import LoadedDissector
from mqsniff.dissector import USUAL, WITH_RECORDS, Settings
from mqsniff.limits import Limits
from mqsniff.model import ExchangeItem, OpenedItem
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import ACK, RST, client, segments, server, write_pcap

PCAPS = Path(__file__).parent.parent / "pcaps"
SAMPLES = sorted(
    path for path in PCAPS.glob("*/*.pcap*") if path.suffix in {".pcap", ".pcapng"} and path.parent.name != "broken"
)


PLACES = {
    *(f"{prefix}capture" for prefix in ("", "last_", "request_", "response_")),
    *(f"{prefix}packet" for prefix in ("", "first_", "last_", "request_", "response_")),
}


def rows(*paths: Path, limits: Limits | None = None) -> list[bytes]:
    """All rows of captures given together, as NDJSON lines."""
    settings = Settings(limits or Limits(), wanted=WITH_RECORDS)
    run, out = Pipeline(FileSource([str(path) for path in paths], settings.limits), settings), io.BytesIO()
    sink = NdjsonSink(out, run.captures, tuple(TABLES), Redaction())
    for item in run.items():
        if item is not None:
            sink.write(item)
    sink.tick()
    return out.getvalue().splitlines()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_slices_and_windows_do_not_change_a_row(path, monkeypatch):
    expected = rows(path)
    assert expected
    monkeypatch.setattr(pipeline, "SLICE_PACKETS", 3)
    assert rows(path, limits=replace(Limits(), window=4096)) == expected


def halves(path: Path, folder: Path) -> list[Path]:
    """A classic capture cut into two files between two packets."""
    data = path.read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    starts, at = [], 24
    while at < len(data):
        starts.append(at)
        at += 16 + struct.unpack_from(f"{order}I", data, at + 8)[0]
    middle = starts[len(starts) // 2]
    parts = [folder / "part-1.pcap", folder / "part-2.pcap"]
    parts[0].write_bytes(data[:middle])
    parts[1].write_bytes(data[:24] + data[middle:])
    return parts


def without_place(row: bytes) -> bytes:
    """A row without what names files and packet numbers."""
    plain = orjson.loads(row)
    return orjson.dumps({name: value for name, value in plain.items() if name not in PLACES})


@pytest.mark.parametrize("path", [path for path in SAMPLES if path.suffix == ".pcap"][:12], ids=lambda path: path.stem)
def test_a_rotated_capture_gives_the_rows_of_the_whole(path, tmp_path):
    parts = halves(path, tmp_path)
    together = [without_place(row) for row in rows(*reversed(parts))]
    assert together == [without_place(row) for row in rows(path)]


def test_a_dissector_that_cannot_be_imported_is_a_problem_of_the_run(monkeypatch):
    monkeypatch.setattr(
        pipeline, "load_dissectors", lambda: [LoadedDissector("gone", None, "dissector gone cannot be imported")]
    )
    assert any(b"dissector gone cannot be imported" in row for row in rows(SAMPLES[0]))


def test_totals_count_what_went_through():
    run = Pipeline(FileSource([str(PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap")]), Settings())
    list(run.items())
    totals = run.totals
    assert (totals.packets, totals.connections, totals.messages, totals.problems) == (137, 2, 109, {})


def items_of(path: Path, *packets) -> list[str]:
    """The kinds of items of one connection, in order, without its exchanges."""
    write_pcap(path, packets)
    items = Pipeline(FileSource([str(path)]), Settings(wanted=USUAL - {"exchanges"})).items()
    return [type(item).__name__ for item in items if item is not None]


def test_a_connection_is_open_once_its_handshake_has_ended_and_a_refused_one_never_is(tmp_path):
    packets = segments([client(b"  V2")])
    told = Pipeline(FileSource([str(tmp_path / "a.pcap")]), Settings())
    assert items_of(tmp_path / "a.pcap", *packets) == ["OpenedItem", "MessageItem", "ClosedItem"]
    (opened,) = [item for item in told.items() if isinstance(item, OpenedItem)]
    assert opened.ts_ns == packets[2].ts_ns
    refusal = replace(packets[1], flags=RST | ACK)
    assert items_of(tmp_path / "b.pcap", packets[0], refusal) == ["ClosedItem"]
    assert items_of(tmp_path / "c.pcap", packets[0]) == ["ClosedItem"]
    assert items_of(tmp_path / "d.pcap", *packets[2:]) == ["OpenedItem", "ProblemItem", "ClosedItem"]


def test_cut_packets_and_times_that_run_backwards_are_counted(tmp_path):
    """A pcap of four packets: one is cut, one is older than the one before it."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    packets = [(1, 60, 60), (2, 60, 90), (1, 60, 60), (3, 60, 60)]
    body = b"".join(struct.pack("<IIII", second, 0, there, size) + bytes(there) for second, there, size in packets)
    path = tmp_path / "odd.pcap"
    path.write_bytes(head + body)
    run = Pipeline(FileSource([str(path)]), Settings())
    assert list(run.items())
    assert (run.totals.packets, run.totals.cut_packets, run.totals.backward_packets) == (4, 1, 1)


def test_a_request_that_was_found_after_a_loss_is_lost_where_its_answer_was_lost_later(tmp_path):
    """It waits for the next request before it is decoded, and by then the other side has its gap, too."""
    said = [
        say
        for number in range(1, 6)
        for say in (client(request(HEARTBEAT, 4, number)), server(response(HEARTBEAT, 4, number)))
    ]
    packets = segments(said)
    data = [packet for packet in packets if packet.size]
    missing = (data[4], data[7])  # the third request, and the answer to the fourth
    write_pcap(tmp_path / "a.pcap", [packet for packet in packets if packet not in missing])
    items = Pipeline(FileSource([str(tmp_path / "a.pcap")]), Settings()).items()
    ended = {
        item.exchange.pending.key: item.exchange.status
        for item in items
        if isinstance(item, ExchangeItem) and item.exchange.pending is not None
    }
    assert ended == {1: "ok", 2: "ok", 4: "lost", 5: "ok"}
