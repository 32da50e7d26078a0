"""The verdict on a connection: which direction is the client, and what a port says beside the bytes."""

from __future__ import annotations

from mqsniff.decode.detection import Detected, Detection
from mqsniff.decode.registry import LoadedDissector, Registry
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
