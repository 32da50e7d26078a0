"""The verdict on a connection: which direction is the client, and what a port says beside the bytes."""

from __future__ import annotations

import pytest

from mqsniff.decode.detection import Detected, Detection, client_by_ports, name_undecoded
from mqsniff.decode.proxyhead import ProxyHead
from mqsniff.decode.registry import Claim, LoadedDissector, Registry
from mqsniff.dissector import Dissector, Sample, Verdict
from mqsniff.limits import Limits
from mqsniff.model import Mark
from mqsniff.streams.events import StreamChunk

PORT = 7


class Sure(Dissector):
    """Sure of clients that begin with b"q", and takes others by their port; keeps the samples that it saw."""

    names = ("sure",)
    ports = frozenset({PORT})
    seen: tuple[Sample, ...] = ()

    @classmethod
    def detect(cls, client, server):
        cls.seen += (client,)
        return Verdict.YES if client.data.startswith(b"q") else Verdict.MAYBE


def detection(ports: tuple[int, int]) -> Detection:
    """Of a connection that was joined late."""
    Sure.seen = ()
    return Detection(Registry([LoadedDissector("sure", Sure)]), Limits(), ports, None, from_start=False)


def verdict(found: Detected | None) -> tuple[int, str, str]:
    assert found is not None
    assert found.claim is not None
    return found.client_direction, found.protocol, found.claim.detected_by


def test_where_only_the_port_speaks_for_a_protocol_its_side_is_the_server():
    data = StreamChunk(0, 0, b"\x80" * 50, [Mark(0, 0, 0, 0)])
    assert verdict(detection((40_000, PORT)).chunk(data)) == (0, "sure", "port")
    assert verdict(detection((PORT, 40_000)).chunk(data)) == (1, "sure", "port")


def test_what_a_client_says_counts_more_than_a_port():
    data = StreamChunk(0, 0, b"q", [Mark(0, 0, 0, 0)])
    assert verdict(detection((PORT, 40_000)).chunk(data)) == (0, "sure", "content")


def test_a_message_may_begin_with_each_packet_of_a_stream_that_is_joined_late():
    marks = [Mark(98, 0, 0, 0), Mark(103, 0, 1, 1), Mark(104, 0, 2, 2)]
    detection((40_000, PORT)).chunk(StreamChunk(0, 100, b"q" * 6, marks))
    assert Sure.seen[0].starts == (0, 3, 4)


# ---- one verdict after the other


def said(data: bytes, at: int = 0, direction: int = 0) -> StreamChunk:
    return StreamChunk(direction, at, data, [Mark(at, 0, 0, 0)])


class Hearing(Dissector):
    """Sure of a client that says b"ask" where its server says b"reply", or nothing yet; b"a…" may become it."""

    names = ("hearing",)
    ports = frozenset({PORT})
    asked: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def detect(cls, client, server):
        cls.asked += ((client.data, server.data),)
        if not client.data and not server.data:
            return Verdict.MORE
        if client.data.startswith(b"ask") and server.data in (b"", b"reply"):
            return Verdict.YES
        return Verdict.MORE if b"ask".startswith(client.data) and b"reply".startswith(server.data) else Verdict.NO


def hearing(
    client: int | None = 0,
    *,
    from_start: bool = True,
    ports: tuple[int, int] = (40_000, PORT),
    limits: Limits | None = None,
    decode_as: dict[int, str] | None = None,
) -> Detection:
    Hearing.asked = ()
    registry = Registry([LoadedDissector("hearing", Hearing)], decode_as)
    return Detection(registry, limits or Limits(), ports, client, from_start=from_start)


CLAIMED = Claim(Hearing, "content")
NOISE = b"\x80" * 50


@pytest.mark.parametrize(("client", "direction"), [(0, 0), (1, 1), (None, 0), (None, 1)])
def test_a_dissector_that_is_sure_gets_the_connection_with_the_client_that_it_is_sure_of(client, direction):
    assert hearing(client).chunk(said(b"ask", direction=direction)) == Detected(direction, "hearing", CLAIMED, {})


@pytest.mark.parametrize("client", [0, 1])
def test_where_the_client_is_known_no_other_is_tried(client):
    detecting = hearing(client)
    assert detecting.chunk(said(b"a", direction=client)) is None
    assert Hearing.asked == ((b"a", b""),)
    hearing(None).chunk(said(b"a"))
    assert Hearing.asked == ((b"a", b""), (b"", b"a")), "the likely one, by its port, first"


@pytest.mark.parametrize(
    ("client", "decode_as", "verdict"),
    [
        (0, {PORT: "hearing"}, 0),
        (None, {PORT: "hearing"}, 0),
        (None, {40_000: "hearing"}, 1),
        (0, {40_000: "hearing"}, None),
        (1, {40_000: "hearing"}, 1),
    ],
)
def test_the_protocol_that_the_user_names_is_that_of_a_servers_port_whatever_is_said(client, decode_as, verdict):
    found = hearing(client, decode_as=decode_as, ports=(40_000, PORT)).chunk(said(b"anything else, "))
    named = None if verdict is None else Detected(verdict, "hearing", Claim(Hearing, "user"), {})
    assert found == named


def test_bytes_that_no_dissector_takes_and_that_have_no_name_are_unknown():
    for detecting, client in ((hearing(), 0), (hearing(None, ports=(PORT, 40_000)), 1)):
        assert detecting.chunk(said(NOISE)) is None, "the other side may still say what it is"
        assert detecting.chunk(said(NOISE, direction=1)) == Detected(client, "unknown", None, {})
    assert hearing(from_start=False).chunk(said(NOISE)) == Detected(0, "unknown", None, {})


@pytest.mark.parametrize("direction", [0, 1])
def test_a_connection_that_is_undecided_beyond_its_limit_is_unknown(direction):
    limits = Limits(detect_max=4096)
    detecting = Detection(Registry([LoadedDissector("sure", Undecided)]), limits, (1, 2), 0, from_start=True)
    assert detecting.chunk(said(bytes(4096), direction=direction)) is None
    assert detecting.chunk(said(b"\0", 4096, direction)) == Detected(0, "unknown", None, {})


class Undecided(Dissector):
    """Never knows."""

    names = ("sure",)

    @classmethod
    def detect(cls, client, server):
        return Verdict.MORE


# ---- protocols that are named

REQUEST, STATUS = b"GET / HTTP/1.1\r\n", b"HTTP/1.1 200 OK\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CLIENT_HELLO = bytes.fromhex("160301002a01") + bytes(41)
SERVER_HELLO = bytes.fromhex("160303002a02") + bytes(41)
RECORD = bytes.fromhex("1703030004") + bytes(4)


@pytest.mark.parametrize(
    ("data", "from_start", "named"),
    [
        (PREFACE, True, ("http2", True)),
        (PREFACE[:-1], True, None),
        *((verb + b" /x HTTP/1.0\n", True, ("http", True)) for verb in (
            b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"
        )),
        (b"GET /x HTTP/1.1", True, None),
        (b"GET /x HTTP/1.2\r\n", True, None),
        (b"GET /a b HTTP/1.1\r\n", True, None),
        (b"get /x HTTP/1.1\r\n", True, None),
        (STATUS, True, ("http", False)),
        (b"HTTP/1.0 204\r\n", True, ("http", False)),
        (b"HTTP/1.1 600 No\r\n", True, None),
        (CLIENT_HELLO, True, ("tls", True)),
        (SERVER_HELLO, True, ("tls", False)),
        (RECORD * 2, True, None),
        (RECORD * 2, False, ("tls", None)),
        (RECORD, False, ("tls", None)),
        (RECORD + b"?", False, None),
        (b"", True, None),
    ],
)  # fmt: skip
def test_http_and_tls_are_named_by_their_first_bytes(data, from_start, named):
    assert name_undecoded(Sample(data, from_start=from_start)) == named


def test_in_the_middle_of_a_connection_a_name_may_stand_at_the_start_of_any_packet():
    data = b"\x80" * 5 + REQUEST
    assert name_undecoded(Sample(data, (0, 3, 5), from_start=False)) == ("http", True)
    assert name_undecoded(Sample(data, (0, 3), from_start=False)) is None
    assert name_undecoded(Sample(data, (0, 5))) is None, "its beginning is there"


@pytest.mark.parametrize(
    ("data", "direction", "ports", "client", "protocol"),
    [
        (REQUEST, 0, (1, 2), 0, "http"),
        (REQUEST, 0, (2, 1), 0, "http"),
        (REQUEST, 1, (1, 2), 1, "http"),
        (STATUS, 0, (1, 2), 1, "http"),
        (STATUS, 1, (1, 2), 0, "http"),
        (b"AMQP\0\1\0\0", 0, (1, 2), 1, "amqp-1.0"),  # either side sends it: the lower port is the server's
    ],
)
def test_a_name_tells_who_the_client_is_where_only_one_side_sends_it(data, direction, ports, client, protocol):
    assert hearing(None, ports=ports).chunk(said(data, direction=direction)) == Detected(client, protocol, None, {})


def test_a_name_does_not_change_a_client_that_the_handshake_told():
    assert hearing(1).chunk(said(REQUEST)) == Detected(1, "http", None, {})


@pytest.mark.parametrize(
    ("whole", "protocol"),
    [(REQUEST, "http"), (STATUS, "http"), (PREFACE, "http2"), (CLIENT_HELLO[:6], "tls")],
)
def test_first_bytes_that_may_get_a_name_are_waited_for(whole, protocol):
    for cut in range(1, len(whole)):
        detecting = hearing()
        found = detecting.chunk(said(whole[:cut])) or detecting.chunk(said(whole[cut:], cut))
        assert found == Detected(0, protocol, None, {})


def test_a_request_line_is_waited_for_up_to_8_kib():
    line = b"GET /" + b"x" * 8186
    detecting = hearing()
    assert detecting.chunk(said(NOISE, direction=1)) is None
    assert detecting.chunk(said(line)) is None
    assert detecting.chunk(said(b"x", len(line))) == Detected(0, "unknown", None, {})


def test_in_the_middle_of_a_connection_nobody_waits_for_a_name():
    assert hearing(from_start=False).chunk(said(b"GET")) == Detected(0, "unknown", None, {})


# ---- heads of proxies

V1 = b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"
HEAD = ProxyHead(len(V1), "10.0.0.1:1", "10.0.0.2:2")


@pytest.mark.parametrize("direction", [0, 1])
def test_who_sends_a_head_of_a_proxy_is_the_client_and_its_bytes_are_no_sample(direction):
    found = hearing(None, ports=(1, 2)).chunk(said(V1 + b"ask", direction=direction))
    assert found == Detected(direction, "hearing", CLAIMED, {direction: HEAD})
    assert Hearing.asked == ((b"ask", b""),)


def test_behind_a_head_of_a_proxy_a_message_may_begin_at_once_in_the_same_packet():
    Sure.seen = ()
    both = Detection(Registry([LoadedDissector("sure", Sure)]), Limits(), (40_000, PORT), None, from_start=True)
    assert verdict(both.chunk(said(V1 + b"q"))) == (0, "sure", "content")
    assert Sure.seen[0] == Sample(b"q", (0,), from_start=True)


def test_a_verdict_waits_for_the_whole_head():
    for cut in range(1, len(V1)):
        detecting = hearing()
        assert detecting.chunk(said(V1[:cut])) is None
        assert detecting.chunk(said(b"reply", direction=1)) is None
        assert detecting.chunk(said(V1[cut:] + b"ask", cut)) == Detected(0, "hearing", CLAIMED, {0: HEAD})
        assert Hearing.asked == ((b"ask", b"reply"),)


def test_a_head_may_only_begin_a_stream_that_was_captured_from_its_start():
    assert hearing(from_start=False).chunk(said(V1)) == Detected(0, "unknown", None, {})
    lost = hearing()
    lost.gap(0)
    assert lost.chunk(said(NOISE, direction=1)) == Detected(0, "unknown", None, {})
    assert lost.chunk(said(V1)) == Detected(0, "unknown", None, {})


# ---- losses


def test_bytes_after_a_loss_are_a_sample_of_their_own_and_those_before_it_are_judged_too():
    detecting = hearing()
    assert detecting.chunk(said(NOISE, direction=1)) is None
    assert detecting.chunk(said(b"as")) is None
    detecting.gap(0)
    assert detecting.chunk(said(b"?", 10)) == Detected(0, "unknown", None, {})
    assert Hearing.asked[-2:] == ((b"?", NOISE), (b"as", NOISE))
    assert detecting.state_size == len(NOISE) + 3


def test_what_was_said_before_a_loss_counts_where_the_peer_answered_it():
    detecting = hearing()
    assert detecting.chunk(said(b"reply", direction=1)) is None
    detecting.gap(1)
    assert detecting.chunk(said(b"?", 9, direction=1)) is None
    assert detecting.chunk(said(b"ask")) == Detected(0, "hearing", CLAIMED, {})
    assert Hearing.asked[-2:] == ((b"ask", b"?"), (b"ask", b"reply"))


def test_of_several_losses_the_sample_before_the_first_and_before_the_last_are_kept():
    detecting = hearing(from_start=True)
    for at, data in enumerate((b"1", b"2", b"3")):
        detecting.chunk(said(data, 10 * at))
        detecting.gap(0)
    detecting.chunk(said(b"4", 40))
    assert [client for client, _ in Hearing.asked[-3:]] == [b"4", b"1", b"3"]
    assert detecting.state_size == 3


def test_of_the_bytes_before_a_loss_the_first_are_kept():
    detecting = hearing()
    detecting.chunk(said(bytes(8193)))
    detecting.gap(0)
    assert detecting.state_size == 8192
    detecting.chunk(said(b"?", 8201))
    assert detecting.state_size == 8193


# ---- replies to what nobody took


@pytest.mark.parametrize(("size", "awaits"), [(63, True), (64, False)])
def test_an_answer_is_awaited_while_one_side_has_said_nearly_nothing(size, awaits):
    detecting = hearing(limits=Limits(detect_max=4096))
    assert detecting.awaits_answer
    detecting.chunk(said(b"\x80" * 4096))
    assert detecting.awaits_answer
    detecting.chunk(said(b"\x80" * size, direction=1))
    assert detecting.awaits_answer is awaits
    detecting.chunk(said(b"\x80", 4096))
    assert not detecting.awaits_answer


@pytest.mark.parametrize(("size", "found"), [(64, True), (65, False)])
def test_a_short_answer_may_show_the_protocol_of_a_request_that_nobody_took(size, found):
    class Answering(Hearing):
        """Sure of servers that begin with b"reply"."""

        @classmethod
        def detect(cls, client, server):
            return Verdict.YES if server.data.startswith(b"reply") else Verdict.NO

    registry = Registry([LoadedDissector("hearing", Answering)])
    detecting = Detection(registry, Limits(), (1, 2), 0, from_start=True)
    assert detecting.reply_to(said(b"reply", direction=1)) is None, "to nothing"
    assert detecting.chunk(said(NOISE)) == Detected(0, "hearing", Claim(Answering, "content"), {})
    detecting = Detection(registry, Limits(), (1, 2), 0, from_start=True)
    assert detecting.chunk(said(REQUEST)) == Detected(0, "http", None, {})
    verdict = detecting.reply_to(said(b"reply".ljust(size), direction=1))
    assert verdict == (Detected(0, "hearing", Claim(Answering, "content"), {}) if found else None)


def test_an_answer_that_only_has_a_name_shows_no_protocol():
    detecting = hearing()
    assert detecting.chunk(said(PREFACE)) == Detected(0, "http2", None, {})
    assert detecting.reply_to(said(STATUS, direction=1)) is None


# ---- streams of many packets that are joined late (rule 5)


def test_of_tiny_packets_the_last_ones_are_tried_and_a_look_is_taken_after_each_eighth_more():
    class Looking(Undecided):
        starts: tuple[tuple[int, ...], ...] = ()

        @classmethod
        def detect(cls, client, server):
            cls.starts += (client.starts,)
            return Verdict.MORE

    detecting = Detection(Registry([LoadedDissector("sure", Looking)]), Limits(), (1, 2), 0, from_start=False)
    looks = []
    for number in range(1, 101):
        before = len(Looking.starts)
        assert detecting.chunk(said(b"\x80", number - 1)) is None
        looks += [number] * (len(Looking.starts) - before)
    assert looks == [*range(1, 66), 73, 82, 92]
    assert Looking.starts[-1] == tuple(range(28, 92))
    assert detecting.last() is None
    assert len(Looking.starts[-1]) == 64
    assert Looking.starts[-1][-1] == 99
    assert detecting.last() is None


@pytest.mark.parametrize(
    ("ports", "client"), [((PORT, 9), 1), ((9, PORT), 0), ((PORT, 40_000), 1), ((3, 4), 1), ((4, 3), 0), ((5, 5), 1)]
)
def test_by_its_port_the_server_is_the_known_one_or_else_the_lower_one(ports, client):
    assert client_by_ports(Registry([LoadedDissector("sure", Sure)]), ports) == client
