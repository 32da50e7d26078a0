"""The state of open connections is bounded by ``state_max``, at packets that do not depend on how a capture is read."""

from __future__ import annotations

import gc
import io
import struct
import tracemalloc

import orjson
import pytest
from builds import python_only

from mqsniff import pipeline
from mqsniff.decode import openstate
from mqsniff.decode.conversation import TLS_STATE
from mqsniff.dissector import Settings
from mqsniff.limits import KIB, MIB, Limits
from mqsniff.model import Item
from mqsniff.pipeline import Pipeline
from mqsniff.sinks.ndjson import NdjsonSink
from mqsniff.sources.files import FileSource
from mqsniff.streams.flows import FlowTable
from mqsniff.tables.values import Redaction

COUNT = 512
REQUEST = struct.pack(">ihhih3s", 13, 18, 0, 1, 3, b"one")
CUT = struct.pack(">ihhih3s", 60_000, 3, 0, 1, 3, b"one") + bytes(1_300)
SERVER, START_S = 0x0A000002, 1_795_253_930
SYN, PSH, ACK = 2, 8, 16


def packet(number: int, flags: int, data: bytes = b"", seq: int = 1000) -> bytes:
    """A raw packet of a client."""
    tcp = (
        struct.pack(">HHIIBBHHH", 1024 + number, 9092, seq, 5001 if flags & ACK else 0, 0x50, flags, 65535, 0, 0) + data
    )
    return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, 0x0B000000, SERVER) + tcp


def write(path, packets) -> str:
    """A capture of raw packets, a millisecond apart."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    records = (
        struct.pack("<IIII", START_S + at // 1000, at % 1000 * 1000, len(data), len(data)) + data
        for at, data in enumerate(packets)
    )
    path.write_bytes(head + b"".join(records))
    return str(path)


@pytest.fixture
def often(monkeypatch):
    """State is counted at every 512th packet."""
    monkeypatch.setattr(pipeline, "SLICE_PACKETS", 128)
    monkeypatch.setattr(pipeline, "COUNTED_PACKETS", COUNT)


def decoded(path: str, limits: Limits, observe=lambda _: None) -> list[dict]:
    """The rows of connections and problems."""
    run, out = Pipeline(FileSource([path], limits), Settings(limits)), io.BytesIO()
    sink = NdjsonSink(out, run.captures, ("connections", "problems"), Redaction())
    item: Item | None
    for item in run.items():
        observe(run)
        if item is not None:
            sink.write(item)
    sink.tick()
    return [orjson.loads(line) for line in out.getvalue().splitlines()]


def limited(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["table"] == "problems" and row["kind"] == "limit"]


@python_only
@pytest.mark.usefixtures("often")
def test_the_connections_that_were_silent_for_longest_are_closed_and_told(tmp_path):
    path = write(tmp_path / "many.pcap", (packet(number, PSH | ACK, REQUEST) for number in range(4 * COUNT)))
    held = []
    rows = decoded(path, Limits(state_max=2 * MIB), lambda run: held.append(run._open.size))
    forgotten = limited(rows)
    assert all("state_max" in row["detail"] for row in forgotten)
    assert max(held) < 2 * MIB + COUNT * 16 * KIB
    connections = [row for row in rows if row["table"] == "connections"]
    assert len(connections) == 4 * COUNT
    named = {row["connection_id"] for row in forgotten}
    assert len(named) == len(forgotten) > COUNT
    first = sorted(connections, key=lambda row: row["first_packet"])[: len(named)]
    assert {row["connection_id"] for row in first} == named


@python_only
@pytest.mark.usefixtures("often")
def test_a_connection_that_speaks_now_and_then_is_not_the_one_that_was_silent_for_longest(tmp_path):
    packets = []
    for number in range(4 * COUNT):
        packets.append(packet(number, PSH | ACK, REQUEST))
        if number % 100 == 99:
            packets.append(packet(0, PSH | ACK, REQUEST, 1000 + len(REQUEST) * (number // 100 + 1)))
    rows = decoded(write(tmp_path / "many.pcap", packets), Limits(state_max=2 * MIB))
    first = {row["connection_id"] for row in rows if row["table"] == "connections" and row["client_port"] == 1024}
    assert len(limited(rows)) > COUNT
    assert len(first) == 1
    assert first.isdisjoint({row["connection_id"] for row in limited(rows)})


@python_only
@pytest.mark.usefixtures("often")
def test_what_is_closed_does_not_depend_on_windows(tmp_path):
    path = write(tmp_path / "many.pcap", (packet(number, PSH | ACK, REQUEST) for number in range(3 * COUNT)))
    rows = decoded(path, Limits(state_max=2 * MIB))
    assert limited(rows)
    assert decoded(path, Limits(state_max=2 * MIB, window=64 * KIB)) == rows


@python_only
@pytest.mark.usefixtures("often")
def test_bytes_that_wait_for_the_rest_of_their_frame_are_counted(tmp_path):
    path = write(tmp_path / "cut.pcap", (packet(number, PSH | ACK, CUT) for number in range(COUNT)))
    sizes: list[int] = []
    decoded(path, Limits(), lambda run: sizes.append(run._open.size))
    assert max(sizes) > COUNT * (len(CUT) + 2048)
    assert sizes[-1] == 0


@python_only
@pytest.mark.usefixtures("often")
def test_what_tls_keeps_of_a_connection_is_counted(tmp_path):
    hello = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(193)
    path = write(tmp_path / "tls.pcap", (packet(number, PSH | ACK, hello) for number in range(COUNT)))
    sizes: list[int] = []
    decoded(path, Limits(), lambda run: sizes.append(run._open.size))
    assert max(sizes) > COUNT * TLS_STATE
    assert sizes[-1] == 0


@python_only
@pytest.mark.usefixtures("often")
def test_lone_syns_are_counted_and_closed_too(tmp_path):
    path = write(tmp_path / "syns.pcap", (packet(number, SYN) for number in range(8 * COUNT)))
    rows = decoded(path, Limits(state_max=MIB))
    connections = [row for row in rows if row["table"] == "connections"]
    assert len(connections) == 8 * COUNT
    assert {row["outcome"] for row in connections} == {"no answer"}
    assert len(limited(rows)) >= 8 * COUNT - MIB // 512


@python_only
@pytest.mark.usefixtures("often")
def test_a_silent_connection_that_goes_on_after_it_was_closed_is_a_new_one(tmp_path):
    many = [packet(number, PSH | ACK, REQUEST) for number in range(3 * COUNT)]
    path = write(tmp_path / "again.pcap", [*many, packet(0, PSH | ACK, REQUEST, 1017)])
    rows = decoded(path, Limits(state_max=2 * MIB))
    ports = [row["client_port"] for row in rows if row["table"] == "connections"]
    assert ports.count(1024) == 2


def test_an_ordinary_run_meets_no_limit(tmp_path):
    path = write(tmp_path / "few.pcap", (packet(number, PSH | ACK, REQUEST) for number in range(50)))
    assert limited(decoded(path, Limits())) == []


def silent(number: int) -> list[bytes]:
    """A handshake."""
    return [packet(number, SYN, seq=999), answered(number), packet(number, ACK)]


def answered(number: int) -> bytes:
    """The server's SYN/ACK."""
    tcp = struct.pack(">HHIIBBHHH", 9092, 1024 + number, 5000, 1000, 0x50, SYN | ACK, 65535, 0, 0)
    return struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, SERVER, 0x0B000000) + tcp


@python_only
@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("packets_of", "most"), [(silent, 1_800), (lambda number: [packet(number, PSH | ACK, REQUEST)], 6_200)]
)
def test_an_open_connection_takes_no_more_memory_than_this(tmp_path, monkeypatch, packets_of, most):
    """Of an idle one, with its row: 2 KB (issue 21). One with a request holds a session, too."""
    monkeypatch.setattr(openstate, "UNPARKED_MAX", 0)
    held: list[int] = []

    def end(_: FlowTable):
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
        return iter(())

    monkeypatch.setattr(FlowTable, "end", end)
    for count in (1_024, 1_024, 3_072):  # the first one fills caches
        path = write(tmp_path / f"{count}.pcap", (each for n in range(count) for each in packets_of(n)))
        limits = Limits(window=1 << 16)
        tracemalloc.start()
        for _ in Pipeline(FileSource([path], limits), Settings(limits)).items():
            pass
        tracemalloc.stop()
    assert (held[2] - held[1]) / 2_048 < most
