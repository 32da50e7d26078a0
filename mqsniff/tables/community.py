"""Community ID v1 of a TCP connection, which Zeek, Suricata and Wireshark write too: a 5-tuple in, text out.

Source: the Community ID Flow Hashing specification, version 1, with seed 0.
"""

from __future__ import annotations

import socket
import struct
from hashlib import sha1

from mqsniff.tables.values import base64

_TCP = 6


def community_id(client_ip: str, client_port: int, server_ip: str, server_port: int) -> str | None:
    """The id, the same in both directions; None unless both are IP addresses of one family."""
    ends = sorted(((_packed(client_ip), client_port), (_packed(server_ip), server_port)))
    (low, low_port), (high, high_port) = ends
    if not low or len(low) != len(high):
        return None
    hashed = struct.pack("!H", 0) + low + high + struct.pack("!BBHH", _TCP, 0, low_port, high_port)
    return "1:" + base64(sha1(hashed, usedforsecurity=False).digest())


def _packed(ip: str) -> bytes:
    """The 4 or 16 bytes of an address; empty if it is no IP address."""
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in ip else socket.AF_INET, ip)
    except OSError:
        return b""
