"""The row of a connection: what its streams tell of it at its beginning and its end."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

from mqsniff.model import ConnectionInfo, Identity, Side
from mqsniff.streams.connection import Connection
from mqsniff.streams.events import ConnectionStats

_NOBODY: Final = Identity()
"""Of all connections without a dissector, which would fill in one of its own."""


def new_info(connection: Connection, client: int) -> ConnectionInfo:
    """The row of a new connection; ``client`` is the direction that is taken for the client."""
    key = connection.key
    ends = (_address(key.low_ip), key.low_port), (_address(key.high_ip), key.high_port)
    (client_ip, client_port), (server_ip, server_port) = ends[client], ends[1 - client]
    return ConnectionInfo(
        connection.id,
        key.tunnel,
        client_ip,
        client_port,
        server_ip,
        server_port,
        connection.first_ts_ns,
        connection.first_packet,
        identity=_NOBODY,
    )


@lru_cache(maxsize=4096)
def _address(packed: bytes) -> str:
    """An address as text: one text for all connections of a host."""
    return str(ipaddress.ip_address(packed))


def fill_info(info: ConnectionInfo, facts: ConnectionStats, client: int) -> None:
    """Write the figures of a connection that is over into its row."""
    server = 1 - client
    info.forgotten = facts.forgotten
    info.last_ts_ns = facts.last_ts_ns
    info.client_packets, info.server_packets = facts.packets[client], facts.packets[server]
    info.client_bytes, info.server_bytes = facts.sizes[client], facts.sizes[server]
    info.gap_bytes = sum(facts.gap_bytes)
    info.retransmitted_segments = facts.retransmitted_segments
    info.out_of_order_segments = facts.out_of_order_segments
    info.duplicate_packets = facts.duplicate_packets
    info.sides_seen = "both" if all(facts.seen) else "client" if facts.seen[client] else "server"
    info.handshake_seen = facts.handshake_seen
    info.close_reason = info.identity.close_reason or facts.close_reason
    info.open_at_end = facts.open_at_end
    info.client_rtt_ns, info.server_rtt_ns = facts.client_rtt_ns, facts.server_rtt_ns
    info.closed_by = (
        None if facts.closed_by is None else (Side.CLIENT if facts.closed_by == client else Side.SERVER).text
    )
    info.client_zero_windows, info.server_zero_windows = facts.zero_windows[client], facts.zero_windows[server]
    stalls = facts.longest_stall_ns
    info.client_longest_stall_ns, info.server_longest_stall_ns = stalls[client], stalls[server]
