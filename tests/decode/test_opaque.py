"""Connections that nobody takes are counted and named, and give nothing away."""

from __future__ import annotations

import pytest
from toymq import chunk, gap

from mqsniff.decode.opaque import OpaqueConnection
from mqsniff.model import ConnectionInfo, Problem, ProblemItem, Side


def detail(protocol: str, client: bytes, server: bytes = b"") -> tuple[str, int]:
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 80, 0, 1)
    stranger = OpaqueConnection(protocol, info)
    for side, data in ((Side.CLIENT, client), (Side.SERVER, server)):
        if data:
            stranger.take(chunk(data, side=side))
    (item,) = stranger.end()
    assert isinstance(item, ProblemItem)
    return item.problem.detail, info.undecoded_bytes


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"GET /auth?secret=hush&tls=false HTTP/1.1\r\n", "GET /auth"),
        (b"GET http://user:hush@proxy/path?x=hush HTTP/1.1\r\n", "GET http://proxy/path"),
        (b"GET http://us@er:hush@proxy/ HTTP/1.1\r\n", "GET http://proxy/"),
        (b"GET /authsecret=hush&tls=false HTTP/1.1\r\n", "GET /authsecret"),
        (b"\x01\x02 / HTTP/1.1\r\n", "middle of a connection"),
    ],
)
def test_http_shows_method_and_path_without_query_and_credentials(line, shown):
    told, undecoded = detail("http", line)
    assert told == f"HTTP ({shown}): {len(line)} bytes not decoded"
    assert undecoded == len(line)


def test_an_unknown_connection_shows_four_bytes_a_side_as_more_may_be_a_secret():
    told, undecoded = detail("unknown", b"A" * 100, b"B" * 20)
    assert told == "unknown protocol: 120 bytes not decoded (client begins 41 41 41 41; server begins 42 42 42 42)"
    assert undecoded == 120


def test_a_connection_that_later_bytes_name_is_of_that_protocol_with_all_its_bytes():
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 80, 0, 1)
    stranger = OpaqueConnection("unknown", info)
    stranger.take(chunk(b"\x07" * 50))
    stranger.rename("zookeeper")
    (item,) = stranger.end()
    assert isinstance(item, ProblemItem)
    assert item.problem.detail == "ZooKeeper: 50 bytes not decoded"
    assert (info.protocol, info.detected_by, info.undecoded_bytes) == ("zookeeper", "content", 50)


def both_sides(protocol: str = "unknown") -> tuple[OpaqueConnection, ConnectionInfo]:
    """The server says more first, the client less behind it; then 4 bytes are lost."""
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 80, 0, 1)
    opaque = OpaqueConnection(protocol, info)
    opaque.take(gap(0, 10, Side.SERVER, packet=3))
    opaque.take(chunk(b"server", 10, Side.SERVER, packet=4))
    opaque.take(chunk(b"cli", 20, packet=5))
    opaque.take(chunk(b"ent", 23, packet=6))
    opaque.take(gap(26, 4, packet=7))
    return opaque, info


def test_at_the_end_one_problem_counts_the_bytes_of_both_sides_at_their_first_packet():
    opaque, info = both_sides()
    detail = "unknown protocol: 12 bytes not decoded (client begins 63 6c 69 65; server begins 73 65 72 76)"
    assert list(opaque.end()) == [ProblemItem(info, Problem("undecoded", "warning", detail, size=12), 1004, 4)]
    assert info.undecoded_bytes == 12


@pytest.mark.parametrize(("turned", "client", "server"), [(False, "client", "server"), (True, "server", "client")])
def test_bytes_before_a_protocol_was_found_are_a_problem_of_each_side_at_its_place(turned, client, server):
    opaque, info = both_sides()
    texts = {
        client: "unknown protocol: 6 bytes not decoded ({} begins 63 6c 69 65)",
        server: "unknown protocol: 6 bytes not decoded ({} begins 73 65 72 76)",
    }
    sides = {side.text: side for side in Side}
    assert list(opaque.end_before_protocol(turned=turned)) == [
        ProblemItem(
            info,
            Problem("undecoded", "warning", texts[name].format(name), side=sides[name], offset=offset, size=6),
            1000 + packet,
            packet,
        )
        for name, offset, packet in ((client, 20, 5), (server, 10, 4))
    ]
    assert info.undecoded_bytes == 12


def test_a_side_that_said_nothing_has_no_problem():
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 80, 0, 1)
    opaque = OpaqueConnection("unknown", info)
    opaque.take(gap(0, 5))
    assert (list(opaque.end()), list(opaque.end_before_protocol(turned=False)), info.undecoded_bytes) == ([], [], 0)


def test_a_request_line_is_shown_as_far_as_it_is_kept():
    line = b"GET /" + b"x" * 512
    whole, _ = detail("http", line)
    assert whole == f"HTTP (GET /{'x' * 507}): {len(line)} bytes not decoded"
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 80, 0, 1)
    opaque = OpaqueConnection("http", info)
    for at in range(0, len(line), 100):
        opaque.take(chunk(line[at : at + 100], at))
    (item,) = opaque.end()
    assert isinstance(item, ProblemItem)
    assert item.problem.detail == whole
