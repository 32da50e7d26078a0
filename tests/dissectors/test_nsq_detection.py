"""How NSQ connections are found: by their opening, by strict frames in the middle, and what is not NSQ."""

from __future__ import annotations

import nsqcraft
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nsqcraft import HEARTBEAT, MAGIC, OK, error, identify, line, message, mpub, negotiated, pub, sized

from mqsniff.codecs.snappy_chunks import IDENTIFIER
from mqsniff.dissector import NEED, Sample, Verdict
from mqsniff.model import Side
from mqsniff_nsq import Nsq, Nsqlookupd

ID = "18a2f48040acf000"
NOTHING = Sample()


def middle(data: bytes, *starts: int) -> Sample:
    return Sample(data, starts or (0,), from_start=False)


VERDICTS = [
    ("the opening alone", Nsq, Sample(MAGIC), NOTHING, Verdict.MAYBE),
    ("part of the opening", Nsq, Sample(b"  "), NOTHING, Verdict.MORE),
    ("a command after it", Nsq, Sample(MAGIC + identify()), NOTHING, Verdict.YES),
    ("an odd command after it", Nsq, Sample(MAGIC + b"HELLO\n"), NOTHING, Verdict.MAYBE),
    (
        "and an answer in frames",
        Nsq,
        Sample(MAGIC + b"HELLO\n"),
        Sample(error("E_INVALID invalid command HELLO")),
        Verdict.YES,
    ),
    ("commands without the opening", Nsq, Sample(line("NOP") * 3), NOTHING, Verdict.NO),
    ("a bad opening that nsqd refused", Nsq, Sample(b"  V9"), Sample(error("E_BAD_PROTOCOL")), Verdict.YES),
    ("nsqlookupd's opening", Nsq, Sample(b"  V1PING\n"), NOTHING, Verdict.NO),
    ("a server that answers IDENTIFY", Nsq, NOTHING, Sample(negotiated()), Verdict.YES),
    (
        "and goes on in another layer",
        Nsq,
        Sample(MAGIC + identify()),
        Sample(negotiated() + b"\xff\x06\x00"),
        Verdict.YES,
    ),
    ("a server that says OK", Nsq, NOTHING, Sample(OK), Verdict.MAYBE),
    ("and OK again", Nsq, NOTHING, Sample(OK + OK), Verdict.YES),
    ("a server that says something else", Nsq, Sample(MAGIC + identify()), Sample(b"HTTP/1.1 200 OK\r\n"), Verdict.NO),
    ("a middle of deliveries", Nsq, NOTHING, middle(message(ID, b"x") * 2), Verdict.YES),
    ("a middle in the middle of a message", Nsq, NOTHING, middle(b"rest" + OK + OK, 0, 4), Verdict.YES),
    ("a middle of settlements", Nsq, middle(line("FIN", ID) * 2), NOTHING, Verdict.YES),
    ("a middle of short commands", Nsq, middle(line("NOP") * 5), NOTHING, Verdict.MAYBE),
    ("with heartbeats on the other side", Nsq, middle(line("NOP") * 5), middle(HEARTBEAT), Verdict.YES),
    ("a middle of nothing that is known", Nsq, middle(b"x" * 100), NOTHING, Verdict.MORE),
    ("lines of NATS", Nsq, middle(b"SUB orders 1\r\nSUB orders 2\r\nPING\r\n"), NOTHING, Verdict.MORE),
    ("nsqlookupd's opening", Nsqlookupd, Sample(b"  V1"), NOTHING, Verdict.MAYBE),
    ("a command after it", Nsqlookupd, Sample(b"  V1PING\n"), NOTHING, Verdict.YES),
    ("refused by an nsqd", Nsqlookupd, Sample(b"  V1PING\n"), Sample(error("E_BAD_PROTOCOL")), Verdict.NO),
    (
        "a bad opening that nsqlookupd refused",
        Nsqlookupd,
        Sample(b"GET /"),
        Sample(sized(b"E_BAD_PROTOCOL")),
        Verdict.YES,
    ),
    ("a middle of pings", Nsqlookupd, middle(b"PING\n" * 3), NOTHING, Verdict.MAYBE),
    ("answered by OK", Nsqlookupd, middle(b"PING\n" * 3), middle(sized(b"OK")), Verdict.YES),
    ("a middle of registrations", Nsqlookupd, middle(line("REGISTER", "t") * 2), NOTHING, Verdict.YES),
]


@pytest.mark.parametrize(
    ("dissector", "client", "server", "verdict"), [r[1:] for r in VERDICTS], ids=[r[0] for r in VERDICTS]
)
def test_a_connection_is_claimed_by_what_both_sides_say(dissector, client, server, verdict):
    assert dissector.detect(client, server) is verdict


FALSE_FRIENDS = {
    "NATS": b"PUB orders 5\r\nhello\r\nPING\r\nUNSUB 1\r\n",
    "NATS with bare line feeds": b"PUB orders 5\nhello\nPING\nPUB orders 1\nx\n",
    "STOMP": b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\x00SEND\ndestination:/queue/a\n\nhi\x00",
    "SMTP": b"NOOP\r\nMAIL FROM:<a@b>\r\nRSET\r\n",
    "memcached": b"touch key 10\r\nset k 0 0 1\r\nx\r\n",
    "Redis": b"PING\r\n*1\r\n$4\r\nPING\r\n",
    "beanstalkd": b"reserve\r\ntouch 1\r\ndelete 1\r\n",
    "POP3": b"AUTH\r\nNOOP\r\nQUIT\r\n",
    "Kafka": b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01\x00\x06client",
    "upper-case prose": b"SUB MARINE\nPUB CRAWL\nFIN ISHED\nRDY STEADY\n",
}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("data", FALSE_FRIENDS.values(), ids=FALSE_FRIENDS)
def test_false_friends_are_not_claimed(data, side):
    for dissector in (Nsq, Nsqlookupd):
        for sample in (Sample(data), middle(data, *[n + 1 for n, byte in enumerate(data) if byte == 10])):
            both = (sample, NOTHING) if side is Side.CLIENT else (NOTHING, sample)
            assert dissector.detect(*both) is not Verdict.YES


# ---- answers are final

PIECES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            *(MAGIC, OK, HEARTBEAT, negotiated(), identify(), pub("t", b"x"), mpub("t", b"a", b"b"), message(ID, b"x")),
            *(error("E_INVALID x"), line("FIN", ID), line("SUB", "t", "c"), line("REGISTER", "t"), sized(b"OK")),
            *(sized(b"E_BAD_TOPIC x"), nsqcraft.dpub("t", 1, b"x"), b"MPUB t\n\x00\x00", b"\x00\x00\x00\x06"),
            *(b" ", b"\n", b"\r\n"),
        ]
    ).flatmap(lambda whole: st.integers(0, len(whole)).map(lambda stop: whole[:stop])),
)


@given(data=st.lists(PIECES, max_size=4).map(b"".join), at=st.integers(0, 200))
def test_more_bytes_change_no_answer_but_need(data, at):
    for dissector in (Nsq, Nsqlookupd):
        for side in Side:
            early = dissector.probe(side, data[:at])
            assert early is NEED or early == dissector.probe(side, data)


@given(data=st.lists(PIECES, max_size=4).map(b"".join), start=st.integers(0, 60))
def test_a_scan_passes_over_nothing_that_a_probe_takes(data, start):
    for dissector in (Nsq, Nsqlookupd):
        for side in Side:
            found = dissector.scan(side, data, start)
            assert found >= start
            for offset in range(start, min(found, len(data))):
                assert not isinstance(dissector.probe(side, data[offset:]), int)


def test_a_scan_finds_a_command_inside_a_word_that_is_none():
    data = b"DPUB 5f0\n\0\0\0\x05hello" + bytes(1000)
    assert Nsq.probe(Side.CLIENT, data[1:]) == 17
    assert Nsq.scan(Side.CLIENT, data, 0) == 1


@pytest.mark.parametrize(
    ("dissector", "side", "frame"),
    [
        (Nsq, Side.CLIENT, IDENTIFIER),
        (Nsq, Side.SERVER, IDENTIFIER),
        (Nsq, Side.SERVER, message(ID, b"")),
        (Nsq, Side.SERVER, b"\x30" + message(ID, b"x" * 40)[1:]),
        (Nsqlookupd, Side.SERVER, (65_536).to_bytes(4, "big") + b"E_INVALID " + b"x" * 40),
    ],
)
def test_a_scan_stops_wherever_probe_finds_a_frame(dissector, side, frame):
    data = b"\xee" * 7 + frame + b"\xee" * 40
    if isinstance(dissector.probe(side, data[7:]), int):
        assert dissector.scan(side, data, 0) <= 7
    else:
        assert frame.startswith(b"\x30"), "a message of 800 MB is none"
