"""Messages that the end of a connection cuts: who reset it, and whether anybody wanted the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kafkacraft import HEARTBEAT, METADATA, request, response

from mqsniff.dissector import Settings
from mqsniff.model import ProblemItem, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.testing.conversations import ACK, FIN, RST, Say, SentSegment, client, segments, server, write_pcap

CLIENT, SERVER = Side.CLIENT, Side.SERVER
ASKED = request(METADATA, 12, 1)
ANSWER = response(METADATA, 12, 1, {"topics": [{"name": "orders"}]})
CUT = ASKED, ANSWER[:8]
"""A question, and as much of its answer as was sent before somebody ended the connection."""


def ended(says: list[Say], *ends: tuple[Side, int]) -> list[SentSegment]:
    """A conversation whose last packets are these (side, flags)."""
    packets = segments(says, fin=None)
    for side, flags in ends:
        last = [packet for packet in packets if packet.side is side][-1]
        peer = [packet for packet in packets if packet.side is side.peer][-1]
        seq, ack = (packet.seq + packet.size + bool(packet.flags & FIN) for packet in (last, peer))
        packets.append(replace(last, seq=seq, ack=ack, flags=flags, data=b"", size=0, ts_ns=packets[-1].ts_ns + 1000))
    return packets


def truncations(path, packets: list[SentSegment]) -> list[tuple[str, str]]:
    """(severity, detail) of what the end has cut."""
    write_pcap(path, packets, ports=(50_000, 9092))
    settings = Settings()
    items = Pipeline(FileSource([str(path)], settings.limits), settings).items()
    problems = [item.problem for item in items if isinstance(item, ProblemItem)]
    return [(problem.severity, problem.detail) for problem in problems if problem.kind == "truncated"]


SIZE = len(ANSWER)
MISSING = f"{SIZE - 8} of {SIZE} bytes are not there"
BY_CLIENT, BY_SERVER = ": the client reset the connection", ": the server reset the connection"

ENDS = [
    ("the client resets", [(CLIENT, RST)], ("warning", MISSING + BY_CLIENT)),
    ("the client resets and acknowledges", [(CLIENT, RST | ACK)], ("warning", MISSING + BY_CLIENT)),
    ("the client closes, then resets", [(CLIENT, FIN | ACK), (CLIENT, RST)], ("warning", MISSING + BY_CLIENT)),
    ("both reset", [(CLIENT, RST), (SERVER, RST)], ("warning", MISSING + BY_CLIENT)),
    ("the server resets", [(SERVER, RST)], ("error", MISSING + BY_SERVER)),
    ("both close", [(SERVER, FIN | ACK), (CLIENT, FIN | ACK)], ("error", MISSING)),
    ("the capture ends", [], ("error", MISSING)),
]


@pytest.mark.parametrize(("ends", "expected"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_an_answer_that_a_reset_cut_says_who_reset_and_is_a_warning_where_nobody_waits_for_it(tmp_path, ends, expected):
    packets = ended([client(CUT[0]), server(CUT[1])], *ends)
    assert truncations(tmp_path / "x.pcap", packets) == [expected]


@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_request_that_a_reset_cut_is_an_error_whoever_did(tmp_path, side):
    first = [client(request(HEARTBEAT, 4, 1)), server(response(HEARTBEAT, 4, 1)), client(ASKED[:12])]
    told = truncations(tmp_path / "x.pcap", ended(first, (side, RST)))
    detail = f"{len(ASKED) - 12} of {len(ASKED)} bytes are not there: the {side.text} reset the connection"
    assert told == [("error", detail)]


def test_the_head_of_an_answer_that_a_reset_cut_is_a_warning_too(tmp_path):
    first = [client(request(HEARTBEAT, 4, 1)), server(response(HEARTBEAT, 4, 1)), client(ASKED), server(ANSWER[:3])]
    detail = "the head of a frame was cut by the end" + BY_CLIENT
    assert truncations(tmp_path / "x.pcap", ended(first, (CLIENT, RST))) == [("warning", detail)]


def test_what_the_capture_lost_of_an_answer_stays_an_error_whoever_resets(tmp_path):
    packets = ended([client(ASKED), server(ANSWER[:8]), server(ANSWER[8:])], (CLIENT, RST | ACK))
    kept = [packet for packet in packets if packet.data != ANSWER[8:]]
    assert truncations(tmp_path / "x.pcap", kept) == [("error", f"{SIZE - 8} of {SIZE} bytes were lost by the capture")]
