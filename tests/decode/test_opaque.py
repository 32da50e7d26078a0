"""Connections that nobody takes are counted and named, and give nothing away."""

from __future__ import annotations

import pytest
from toymq import chunk

from mqsniff.decode.opaque import OpaqueConnection
from mqsniff.model import ConnectionInfo, ProblemItem, Side


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
