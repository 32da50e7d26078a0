"""A connection from its first packet to its last: who takes it, and who takes it after all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tinycapture import OK, conversation, pcap

from mqsniff.dissector import Settings
from mqsniff.framing import confirmation
from mqsniff.limits import Limits
from mqsniff.model import ClosedItem, ConnectionInfo, ExchangeItem, MessageItem, ProblemItem, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.testing.conversations import client, lost, segments, server, write_pcap

HTTP = b"GET /ping HTTP/1.1\r\nHost: broker:4150\r\n\r\n"
HELLO = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(193)
REDIS = b"*3\r\n$3\r\nSET\r\n$5\r\nthing\r\n$5\r\nvalue\r\n"
NSQD = b"\x00\x00\x00\x12\x00\x00\x00\x01E_BAD_PROTOCOL"
NSQLOOKUPD = b"\x00\x00\x00\x0eE_BAD_PROTOCOL"
HTTP_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


def decoded(
    folder: Path, steps: Iterable[tuple[str, bytes]], limits: Limits | None = None, *, joined: bool = False
) -> tuple[ConnectionInfo, list[str], list[str]]:
    """(the connection, names of its messages, details of its problems); ``joined``: its handshake was not captured."""
    path = folder / "one.pcap"
    path.write_bytes(pcap([*conversation(steps, server=9000)][3 if joined else 0 :]))
    settings = Settings(limits or Limits())
    items = list(Pipeline(FileSource([str(path)], settings.limits), settings).items())
    (info,) = [item.connection for item in items if isinstance(item, ClosedItem)]
    names = [item.message.error_name or item.message.name for item in items if isinstance(item, MessageItem)]
    return info, names, [item.problem.detail for item in items if isinstance(item, ProblemItem)]


@pytest.mark.parametrize(("protocol", "refusal"), [("nsq", NSQD), ("nsqlookupd", NSQLOOKUPD)])
@pytest.mark.parametrize(("opening", "looks"), [(HTTP, ": HTTP"), (HELLO, ": TLS"), (REDIS, "")])
def test_a_broker_that_refuses_what_is_not_its_protocol_is_decoded(tmp_path, protocol, refusal, opening, looks):
    info, names, problems = decoded(tmp_path, [("c", opening), ("s", refusal)])
    assert (info.protocol, info.detected_by, info.close_reason) == (protocol, "content", "protocol error")
    assert names == ["MAGIC", "E_BAD_PROTOCOL"]
    server = "nsqd" if protocol == "nsq" else "nsqlookupd"
    assert f"the connection does not begin with the magic of {server}{looks}" in problems
    assert info.undecoded_bytes == len(opening) - 4


def test_the_refusal_may_come_in_any_pieces_and_behind_more_of_the_request(tmp_path):
    steps = [("c", HTTP[:30]), ("c", HTTP[30:]), *[("s", NSQD[n : n + 1]) for n in range(len(NSQD))]]
    assert decoded(tmp_path, steps)[1] == ["MAGIC", "E_BAD_PROTOCOL"]


def test_a_peer_that_speaks_the_protocol_of_the_opener_changes_nothing(tmp_path):
    steps = [("c", HTTP), ("s", HTTP_ANSWER), ("c", HTTP), ("s", NSQD)]
    info, names, problems = decoded(tmp_path, steps)
    size = sum(len(data) for _, data in steps)
    assert (info.protocol, names, problems) == ("http", [], [f"HTTP (GET /ping): {size} bytes not decoded"])


def test_an_opener_that_says_too_much_is_not_remembered(tmp_path):
    steps = [("c", HTTP), *[("c", b"x" * 1000)] * 3, ("s", NSQD)]
    assert decoded(tmp_path, steps, Limits(detect_max=2000))[0].protocol == "http"
    assert decoded(tmp_path, steps)[0].protocol == "nsq"


def test_bytes_before_the_protocol_was_known_are_counted_once(tmp_path):
    unknown = bytes(n * 73 % 251 for n in range(1000))
    fin, heartbeat = b"FIN 18a2f48040acf000\n", b"\x00\x00\x00\x0f\x00\x00\x00\x00_heartbeat_"
    steps = [*[("c", unknown), ("s", unknown)] * 80, ("c", fin * 2), ("s", heartbeat), ("c", fin)]
    info, names, problems = decoded(tmp_path, steps, joined=True)
    assert names == ["FIN", "FIN", "HEARTBEAT", "FIN"]
    assert info.undecoded_bytes == 160_000
    assert [problem.split(" bytes")[0] for problem in problems] == ["unknown protocol: 80000"] * 2  # of each side


@pytest.mark.parametrize("side", Side)
def test_a_problem_of_a_stream_has_its_side(tmp_path, side):
    packets = segments([client(b"  V2"), server(OK)], fin=None)
    index = 3 if side is Side.CLIENT else 4
    other = replace(packets[index], data=bytes(len(packets[index].data)), ts_ns=packets[-1].ts_ns + 1000)
    write_pcap(tmp_path / "one.pcap", [*packets, other])
    items = list(Pipeline(FileSource([str(tmp_path / "one.pcap")], Limits()), Settings()).items())
    found = [item.problem for item in items if isinstance(item, ProblemItem)]
    assert [(problem.kind, problem.side) for problem in found if problem.kind == "overlap"] == [("overlap", side)]


def test_a_side_whose_first_bytes_were_lost_is_not_judged_by_what_follows_as_its_beginning(tmp_path):
    fins = [client(b"FIN 18a2f48040acf00%d\n" % number) for number in range(3)]
    packets = segments([client(b"PUB t\n\0\0\0\x60", b"x" * 90), client(b"y" * 6), *fins], fin=None)
    write_pcap(tmp_path / "one.pcap", lost(packets, 3))
    items = list(Pipeline(FileSource([str(tmp_path / "one.pcap")], Limits()), Settings()).items())
    assert [item.message.name for item in items if isinstance(item, MessageItem)] == ["FIN"] * 3
    assert [item.connection.protocol for item in items if isinstance(item, ClosedItem)] == ["nsq"]


def test_a_stream_of_tiny_packets_that_is_joined_late_costs_no_square(tmp_path, monkeypatch):
    """At each packet all packets before it were tried as starts of messages: 5 MB took hours."""
    asked = []
    verdict_at = confirmation.verdict_at

    def counted(*of):
        asked.append(of)
        return verdict_at(*of)

    def tries(count):
        asked.clear()
        decoded(tmp_path, [("c", b"\0\0")] * count, joined=True)
        return len(asked)

    monkeypatch.setattr(confirmation, "verdict_at", counted)
    assert tries(1600) < 3 * tries(800)


def test_a_late_stream_of_tiny_packets_that_ends_before_the_next_look_is_looked_at_then(tmp_path):
    steps = [*[("c", b"\0")] * 200, ("c", b"FIN 18a2f48040acf000\n" * 3)]
    for more in range(3):
        info, names, _ = decoded(tmp_path, [*[("c", b"\0")] * more, *steps], joined=True)
        assert (info.protocol, names) == ("nsq", ["FIN"] * 3)


def test_the_port_that_the_user_names_is_the_servers_whoever_spoke_first(tmp_path):
    path = tmp_path / "one.pcap"
    path.write_bytes(pcap([*conversation([("s", OK), ("c", b"FIN 18a2f48040acf000\n")], server=9000)][3:]))
    pipeline = Pipeline(FileSource([str(path)], Limits()), Settings(), decode_as={9000: "nsq"})
    items = list(pipeline.items())
    (info,) = [item.connection for item in items if isinstance(item, ClosedItem)]
    assert (info.protocol, info.detected_by, info.server_port) == ("nsq", "user", 9000)
    assert [item.message.name for item in items if isinstance(item, MessageItem)] == ["RESPONSE", "FIN"]


@pytest.mark.parametrize("window", [4096, Limits().window])
def test_bytes_before_the_protocol_was_known_are_the_same_however_packets_are_read(tmp_path, window):
    unknown = bytes(n * 73 % 251 for n in range(1000))
    steps = [*[("c", unknown)] * 80, *[("c", b"FIN 18a2f48040acf000\n")] * 3]
    info, names, problems = decoded(tmp_path, steps, Limits(window=window), joined=True)
    assert (names, info.undecoded_bytes) == (["FIN"] * 3, 80_000)
    assert [problem.split(" bytes")[0] for problem in problems] == ["unknown protocol: 80000"]


@pytest.mark.parametrize("first", Side)
def test_an_open_request_was_ended_by_the_side_that_closed_first(tmp_path, first):
    """The client counted as none (it is 0), so that the server was named, who only answered its FIN."""
    write_pcap(tmp_path / "one.pcap", segments([client(b"  V2SUB orders billing\n")], fin=first))
    items = list(Pipeline(FileSource([str(tmp_path / "one.pcap")], Limits()), Settings()).items())
    (exchange,) = [item.exchange for item in items if isinstance(item, ExchangeItem)][-1:]
    assert (exchange.status, exchange.ended_by) == ("unanswered", first)
