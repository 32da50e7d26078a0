"""The row of a connection: every figure of its streams stands in the column of its side."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from mqsniff.decode.connectionrow import fill_info, new_info
from mqsniff.model import ConnectionInfo, FlowKey, Identity
from mqsniff.streams.events import ConnectionStats

KEY = FlowKey("vlan 7", b"\x0a\0\0\1", 9092, bytes(15) + b"\1", 40_000)
"""The low endpoint has IPv4, the high one IPv6."""
CONNECTION = SimpleNamespace(key=KEY, id="abc", first_ts_ns=1000, first_packet=7)
LOW, HIGH = ("10.0.0.1", 9092), ("::1", 40_000)
STATS = ConnectionStats(
    outcome="established",
    first_ts_ns=1000,
    last_ts_ns=9000,
    packets=(3, 4),
    sizes=(100, 200),
    gap_bytes=(5, 6),
    retransmitted_segments=7,
    out_of_order_segments=8,
    duplicate_packets=9,
    ignored_segments=10,
    handshake_seen=True,
    close_reason="fin",
    open_at_end=False,
    forgotten=True,
    client_rtt_ns=11,
    server_rtt_ns=12,
    closed_by=1,
    zero_windows=(13, 14),
    longest_stall_ns=(15, None),
)


@pytest.mark.parametrize(("client", "ends"), [(0, (LOW, HIGH)), (1, (HIGH, LOW))])
def test_a_new_connection_has_its_ends_and_its_first_packet(client, ends):
    (client_ip, client_port), (server_ip, server_port) = ends
    assert new_info(CONNECTION, client) == ConnectionInfo(
        "abc", "vlan 7", client_ip, client_port, server_ip, server_port, 1000, 7
    )


@pytest.mark.parametrize(
    ("client", "by_side"),
    [
        (0, {"packets": (3, 4), "bytes": (100, 200), "zero_windows": (13, 14), "longest_stall_ns": (15, None)}),
        (1, {"packets": (4, 3), "bytes": (200, 100), "zero_windows": (14, 13), "longest_stall_ns": (None, 15)}),
    ],
)
def test_a_connection_that_is_over_has_all_figures_of_its_streams(client, by_side):
    info, row = new_info(CONNECTION, client), new_info(CONNECTION, client)
    row = replace(
        row,
        last_ts_ns=9000,
        gap_bytes=11,
        retransmitted_segments=7,
        out_of_order_segments=8,
        duplicate_packets=9,
        handshake_seen=True,
        close_reason="fin",
        forgotten=True,
        client_rtt_ns=11,
        server_rtt_ns=12,
        closed_by="server" if client == 0 else "client",
        **{
            f"{side}_{name}": pair[at] for name, pair in by_side.items() for at, side in enumerate(("client", "server"))
        },
    )
    fill_info(info, STATS, client)
    assert info == row


@pytest.mark.parametrize(
    ("packets", "client", "seen"),
    [((1, 1), 0, "both"), ((1, 0), 0, "client"), ((1, 0), 1, "server"), ((0, 1), 0, "server"), ((0, 1), 1, "client")],
)
def test_a_side_was_seen_if_it_has_a_packet(packets, client, seen):
    info = new_info(CONNECTION, client)
    fill_info(info, replace(STATS, packets=packets), client)
    assert info.sides_seen == seen


@pytest.mark.parametrize(("direction", "client", "side"), [(None, 0, None), (0, 0, "client"), (0, 1, "server")])
def test_nobody_closed_a_connection_that_is_open(direction, client, side):
    info = new_info(CONNECTION, client)
    fill_info(info, replace(STATS, closed_by=direction, open_at_end=direction is None), client)
    assert (info.closed_by, info.open_at_end) == (side, direction is None)


def test_the_reason_that_the_protocol_tells_goes_before_that_of_the_streams():
    info = new_info(CONNECTION, 0)
    info.identity = Identity(close_reason="authentication")
    fill_info(info, STATS, 0)
    assert info.close_reason == "authentication"
