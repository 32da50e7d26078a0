"""A connection from its first packet to its last: who takes it, and who takes it after all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tinycapture import OK, conversation, pcap
from toymq import ToyMq

from mqsniff.decode.conversation import Conversation, RunContext
from mqsniff.decode.registry import LoadedDissector, Registry
from mqsniff.dissector import Settings, Verdict
from mqsniff.framing import confirmation
from mqsniff.limits import Limits
from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    ExchangeItem,
    FlowKey,
    Mark,
    MessageItem,
    OpenedItem,
    Problem,
    ProblemItem,
    Side,
    TlsStart,
)
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.streams.connection import Connection
from mqsniff.streams.events import (
    ConnectionClosed,
    ConnectionEstablished,
    ConnectionOpened,
    ConnectionStats,
    StreamChunk,
    StreamClosed,
    StreamEvent,
    StreamGap,
    StreamProblem,
)
from mqsniff.streams.segment import Segment
from mqsniff.testing.conversations import client, segments, server, write_pcap
from mqsniff.testing.conversations import lost as without

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
    write_pcap(tmp_path / "one.pcap", without(packets, 3))
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


# ---- event by event, with a toy protocol

CLIENT, SERVER = Side.CLIENT, Side.SERVER
KEY = FlowKey("", bytes((10, 0, 0, 1)), 40_000, bytes((10, 0, 0, 2)), 7777)
STATS = ConnectionStats(
    *("established", 900, 2000, (2, 2), (3, 3), (0, 0), 0, 0, 0, 0, True, "fin", False, False, None, None, 0),
    *((0, 0), (None, None)),
)


class Toy:
    """A conversation, of which the high endpoint has the port of the toy protocol; its events are made here."""

    def __init__(
        self,
        dissector: type[ToyMq] = ToyMq,
        *,
        client_direction: int | None = 0,
        from_start: bool = True,
        observer: object = None,
    ) -> None:
        first = Segment(0, 0, 0, 0, 0, 900, 0, 0, 0, 0, 1, 5)
        connection = Connection(KEY, first, Limits())
        connection.client_direction, connection.seen_from_start = client_direction, from_start
        self.registry = Registry([LoadedDissector("toymq", dissector)])
        self.talk = Conversation(connection, RunContext(self.registry, Settings(), observer))
        self.info = self.talk.info
        self._at = [0, 0]

    def said(self, direction: int, data: bytes, packet: int) -> list[tuple[int, int, object]]:
        """What the next bytes of a direction give."""
        at = self._at[direction]
        self._at[direction] += len(data)
        return self.gives(packet, StreamChunk(direction, at, data, [mark(at, packet)]))

    def gives(self, release: int, event: StreamEvent) -> list[tuple[int, int, object]]:
        return list(self.talk.items(release, event))

    def shows(self, placed: list[tuple[int, int, object]]) -> list[object]:
        """Names and offsets of messages, and other items as they are; each was placed by this connection."""
        assert {first for _, first, _ in placed} <= {5}
        return [
            (item.message.name, item.message.frame.side, item.message.frame.offset)
            if isinstance(item, MessageItem)
            else item
            for _, _, item in placed
        ]


def mark(offset: int, packet: int) -> Mark:
    return Mark(offset, 1000 + packet, packet, packet)


def lost(direction: int, at: int, length: int, packet: int) -> StreamGap:
    return StreamGap(direction, at, length, mark(at, packet))


def test_a_connection_opens_speaks_and_closes():
    toy = Toy()
    assert toy.gives(5, ConnectionOpened(mark(0, 5), 0)) == []
    assert toy.gives(6, ConnectionEstablished(mark(0, 6))) == [(6, 5, OpenedItem(toy.info, 1006))]
    (asked,) = toy.said(0, b"F\x01q", 7)
    assert (asked[:2], toy.shows([asked])) == ((7, 5), [("F", CLIENT, 0)])
    answered = toy.said(1, b"F\x01a", 9)
    assert [place for place, _, _ in answered] == [9, 9]
    assert toy.shows(answered)[0] == ("F", SERVER, 0)
    for direction in (0, 1):
        assert toy.gives(10, StreamClosed(direction, "fin", mark(3, 10))) == []
    assert toy.gives(11, ConnectionClosed(STATS, mark(0, 11))) == [(11, 5, ClosedItem(toy.info))]
    assert (toy.info.protocol, toy.info.detected_by, toy.info.outcome) == ("toymq", "port", "established")
    assert (toy.info.client_bytes, toy.info.closed_by, toy.info.last_ts_ns) == (3, "client", 2000)


def test_a_connection_without_a_handshake_opens_with_its_first_packet_once_it_is_known():
    toy = Toy()
    opened, asked = toy.said(0, b"F\x01q", 7)
    assert opened == (7, 5, OpenedItem(toy.info, 900))
    assert toy.shows([asked]) == [("F", CLIENT, 0)]
    assert toy.gives(8, ConnectionEstablished(mark(0, 8))) == []


def test_items_are_never_placed_before_those_that_came_earlier():
    toy = Toy()
    toy.said(0, b"F\x01q", 9)
    assert [place for place, _, _ in toy.said(0, b"F\x01q", 7)] == [9]


def test_bytes_that_wait_for_a_verdict_come_packet_by_packet_once_it_is_there():
    toy = Toy()
    assert toy.said(0, b"F", 6) == []
    assert toy.talk.state_size == 2, "the sample, and the event that waits"
    assert toy.shows(toy.said(0, b"\x01qF", 8)) == [OpenedItem(toy.info, 900), ("F", CLIENT, 0)]
    assert toy.shows(toy.said(0, b"\0", 9)) == [("F", CLIENT, 3)]


def test_the_side_that_spoke_as_a_client_is_the_client_and_its_end_comes_first():
    toy = Toy(client_direction=None)
    assert (toy.info.client, toy.info.server) == ("10.0.0.1:40000", "10.0.0.2:7777")
    other = Toy(client_direction=1)
    assert (other.info.client, other.info.server) == ("10.0.0.2:7777", "10.0.0.1:40000")
    late = Toy(client_direction=None)
    assert late.gives(5, ConnectionOpened(mark(0, 5), 1)) == []
    assert (late.info.client, late.info.server) == ("10.0.0.2:7777", "10.0.0.1:40000")
    assert late.gives(5, ConnectionOpened(mark(0, 5), None)) == []
    assert late.info.client_port == 7777


class Asked(ToyMq):
    """Sure that its client begins with a "U"."""

    @classmethod
    def detect(cls, client, server):
        return Verdict.YES if client.data.startswith(b"U") else Verdict.NO


@pytest.mark.parametrize(
    ("handshake", "protocol", "client"), [(None, "toymq", 7777), (0, "unknown", 40_000), (1, "toymq", 7777)]
)
def test_what_a_client_says_tells_who_it_is_unless_the_handshake_did(handshake, protocol, client):
    toy = Toy(Asked, client_direction=handshake)
    toy.said(1, b"U\1q", 7)
    toy.said(0, b"F\0", 8)
    assert (toy.info.protocol, toy.info.client_port) == (protocol, client)


def test_a_loss_is_a_problem_of_its_side_at_its_place():
    toy = Toy()
    toy.said(0, b"F\0", 6)
    for direction, side in ((0, CLIENT), (1, SERVER)):
        items = toy.gives(8, lost(direction, 2, 30, 8))
        problem = Problem("gap", "error", "30 bytes were lost by the capture", "", side, 2, 30)
        assert items[0] == (8, 5, ProblemItem(toy.info, problem, 1008, 8))


@pytest.mark.parametrize(("direction", "side"), [(None, None), (0, CLIENT), (1, SERVER)])
def test_a_problem_of_the_streams_gets_the_side_of_its_direction(direction, side):
    toy = Toy()
    problem = Problem("stall", "info", "waited", offset=3)
    told = ProblemItem(toy.info, replace(problem, side=side), 1008, 8)
    assert toy.gives(8, StreamProblem(problem, mark(3, 8), direction)) == [(8, 5, told)]


class Unmakeable(ToyMq):
    """Cannot be made."""

    def __init__(self, settings):
        raise ValueError("no such setting")


def test_a_dissector_that_cannot_be_made_is_told_and_its_connection_is_unknown():
    toy = Toy(Unmakeable)
    opened, fault = sorted((item for _, _, item in toy.said(0, b"F\x01q", 7)), key=lambda item: type(item).__name__)
    problem = Problem("internal", "error", "ValueError: no Unmakeable can be made: no such setting")
    assert (opened, fault) == (OpenedItem(toy.info, 900), ProblemItem(toy.info, problem, 900, 1))
    assert (toy.info.protocol, toy.info.detected_by) == ("unknown", None)
    odd, closed = toy.shows(toy.gives(11, ConnectionClosed(STATS, mark(0, 11))))
    assert (odd.problem.kind, closed, toy.info.undecoded_bytes) == ("undecoded", ClosedItem(toy.info), 3)


class Stumbling(ToyMq):
    """Raises where it is asked for a verdict."""

    @classmethod
    def detect(cls, client, server):
        raise KeyError


def test_a_dissector_that_raises_at_detection_is_told_at_the_beginning_of_the_connection():
    toy = Toy(Stumbling)
    fault = "KeyError in Stumbling.detect: it takes no connection that it raises at"
    items = toy.shows(toy.said(0, b"?", 7))
    assert items[0] == ProblemItem(toy.info, Problem("internal", "error", fault), 900, 1)
    assert toy.registry.faults == []


@pytest.mark.parametrize("outcome", ["refused", "no answer"])
def test_a_connection_that_nobody_answered_never_opens(outcome):
    toy = Toy()
    closed = ConnectionClosed(replace(STATS, outcome=outcome), mark(0, 11))
    assert toy.gives(11, closed) == [(11, 5, ClosedItem(toy.info))]
    assert (toy.info.outcome, toy.info.protocol, toy.info.detected_by) == (outcome, "unknown", None)


@pytest.mark.parametrize(
    ("ends", "by", "was_reset"),
    [
        ([(0, "fin", False), (1, "fin", False)], CLIENT, False),
        ([(1, "fin", False), (0, "fin", False)], SERVER, False),
        ([(0, "rst", False), (1, "fin", False)], CLIENT, True),
        ([(0, "fin", False), (1, "rst", False)], SERVER, True),
        ([(0, "fin", True), (1, "fin", False)], SERVER, True),
        ([(0, "rst", True), (1, "rst", True)], CLIENT, True),
        ([(0, "rst", True), (1, "rst", False)], SERVER, True),
    ],
)
def test_an_open_request_is_ended_by_who_reset_the_connection_or_else_by_who_closed_first(ends, by, was_reset):
    toy = Toy()
    toy.said(0, b"F\x01q", 7)
    for number, (direction, reason, peer_reset) in enumerate(ends):
        items = toy.gives(10 + number, StreamClosed(direction, reason, mark(3, 10 + number), peer_reset))
        assert [isinstance(item, ExchangeItem) for _, _, item in items] == [True] * number
    exchange = items[0][2].exchange
    assert (exchange.status, exchange.ended_ns, exchange.ended_by, exchange.was_reset) == (
        *("unanswered", 1011, by, was_reset),
    )


@pytest.mark.parametrize(
    ("stats", "ended"),
    [
        ({}, ("unanswered", 2000, CLIENT, False)),
        ({"closed_by": 1, "close_reason": "rst"}, ("unanswered", 2000, SERVER, True)),
        ({"closed_by": None, "open_at_end": True, "close_reason": None}, ("pending", 2000, None, False)),
        ({"packets": (2, 0)}, ("unseen", 2000, CLIENT, False)),
        ({"packets": (0, 2)}, ("unanswered", 2000, CLIENT, False)),
    ],
)
def test_a_request_that_is_open_when_its_connection_is_over_says_how_it_ended(stats, ended):
    toy = Toy()
    toy.said(0, b"F\x01q", 7)
    (_, _, left), (_, _, closed) = toy.gives(11, ConnectionClosed(replace(STATS, **stats), mark(0, 11)))
    exchange = left.exchange
    assert (exchange.status, exchange.ended_ns, exchange.ended_by, exchange.was_reset) == ended
    assert closed == ClosedItem(toy.info)


@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize(
    ("resets", "said"),
    [((False, False), ""), ((True, False), ": the client reset the connection"),
     ((False, True), ": the server reset the connection"), ((True, True), ": the server reset the connection")],
)  # fmt: skip
def test_a_frame_that_was_open_when_its_connection_is_over_says_who_reset_it(client, resets, said):
    toy = Toy(client_direction=client)
    toy.said(client, b"F\0F\0F\x05ab", 7)
    stats = replace(STATS, resets=resets if client == 0 else resets[::-1])
    items = [item for _, _, item in toy.gives(11, ConnectionClosed(stats, mark(0, 11)))]
    (cut,) = [item.problem for item in items if isinstance(item, ProblemItem)]
    assert cut.detail == "3 of 7 bytes are not there" + said


class Refusing(ToyMq):
    """Is sure of clients that begin with a frame, and that other bytes are none."""

    @classmethod
    def detect(cls, client, server):
        return Verdict.YES if client.data.startswith(b"F") else Verdict.NO


def test_an_unknown_connection_that_was_joined_late_is_looked_at_again():
    toy = Toy(Refusing, client_direction=None, from_start=False)
    assert toy.shows(toy.said(1, b"?!", 6)) == [OpenedItem(toy.info, 900)]
    assert (toy.info.protocol, toy.talk.state_size > 0) == ("unknown", True)
    skipped, asked, *_ = toy.shows(toy.said(0, b"F\x01qF\0F\0", 8))
    detail = "unknown protocol: 2 bytes not decoded (server begins 3f 21)"
    assert skipped == ProblemItem(toy.info, Problem("undecoded", "warning", detail, "", SERVER, 0, 2), 1006, 6)
    assert (asked, toy.info.undecoded_bytes, toy.info.protocol) == (("F", CLIENT, 0), 2, "toymq")


def test_an_unknown_connection_that_was_joined_late_gets_the_first_name_that_its_bytes_show_and_keeps_it():
    toy = Toy(Refusing, client_direction=None, from_start=False)
    toy.said(1, b"?!", 6)
    assert toy.shows(toy.said(0, bytes.fromhex("00000008fffffffe0000000b"), 7)) == []
    assert (toy.info.protocol, toy.info.detected_by) == ("zookeeper", "content")
    assert toy.shows(toy.said(0, b"Q\x00\x00\x00\x0dselect 1\0", 8)) == []
    assert toy.info.protocol == "zookeeper"
    odd, _ = toy.shows(toy.gives(11, ConnectionClosed(STATS, mark(0, 11))))
    assert odd.problem.detail == "ZooKeeper: 28 bytes not decoded"


def test_an_unknown_connection_whose_beginning_was_seen_stays_unknown_once_both_have_spoken():
    toy = Toy()
    toy.said(0, b"?" * 70, 6)
    toy.said(1, b"!" * 70, 7)
    assert toy.shows(toy.said(0, b"F\x01q", 8)) == []
    assert toy.info.protocol == "unknown"


def test_a_state_is_counted_as_bytes_that_wait_then_as_that_of_the_session():
    toy = Toy()
    assert toy.talk.state_size == 0
    toy.said(0, b"F", 6)
    assert toy.talk.state_size == 2
    toy.said(0, b"\x05ab", 7)
    assert toy.talk.state_size == 6144 + toy.talk._session._dissector.state_size
    tls = Toy()
    tls.said(0, HELLO, 6)
    assert tls.talk.state_size == len(HELLO), "a broker may still refuse it"
    tls.said(1, bytes(70), 7)
    assert tls.talk.state_size == 8192


class Watching:
    """Keeps what it was shown of connections and of records of TLS."""

    def __init__(self):
        self.seen = []
        self.records = []

    def see_record(self, info, record):
        self.records.append((info, record.side, record.start, record.stop))

    def see_connection(self, connection, info):
        self.seen.append((connection.key, info))

    def wants_spans(self, info, frame):
        return True


def test_an_observer_sees_each_connection_and_may_ask_for_spans():
    watching = Watching()
    toy = Toy(observer=watching)
    assert watching.seen == [(KEY, toy.info)]
    _, (_, _, asked) = toy.said(0, b"F\x01q", 7)
    assert asked.spans is not None
    _, (_, _, asked) = Toy().said(0, b"F\x01q", 7)
    assert asked.spans is None


def test_an_observer_sees_the_records_of_tls_under_a_connection():
    watching = Watching()
    toy = Toy(observer=watching)
    toy.said(0, HELLO, 6)
    toy.said(1, bytes.fromhex("15030300020228") * 10, 7)
    assert watching.records == [(toy.info, SERVER, 7 * number, 7 * number + 7) for number in range(10)]


V1 = b"PROXY TCP4 10.1.1.1 10.2.2.2 1 2\r\n"


def test_a_head_of_a_proxy_stands_in_the_row_and_messages_count_from_the_stream():
    toy = Toy()
    assert toy.shows(toy.said(0, V1 + b"F\x01q", 7)) == [OpenedItem(toy.info, 900), ("F", CLIENT, len(V1))]
    assert (toy.info.proxy_client, toy.info.proxy_server, toy.info.proxy_bytes) == ("10.1.1.1:1", "10.2.2.2:2", len(V1))


@pytest.mark.parametrize(("client", "at"), [(0, {CLIENT: len(V1), SERVER: 0}), (1, {CLIENT: len(V1), SERVER: 0})])
def test_tls_begins_behind_the_head_of_a_proxy(client, at):
    toy = Toy(client_direction=client)
    toy.said(client, V1 + HELLO, 6)
    toy.said(1 - client, bytes(70), 7)
    toy.gives(11, ConnectionClosed(STATS, mark(0, 11)))
    assert toy.info.tls_start == TlsStart(at, upgraded=False, from_start=True)
    assert (toy.info.protocol, toy.info.detected_by) == ("tls", "content")
    assert toy.info.undecoded_bytes == len(HELLO) + 70


def test_tls_that_was_joined_late_says_so():
    toy = Toy(from_start=False)
    toy.said(0, bytes.fromhex("1703030004") + bytes(4), 6)
    assert toy.info.tls_start == TlsStart({CLIENT: 0, SERVER: 0}, upgraded=False, from_start=False)
