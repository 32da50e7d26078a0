"""A capture in; the same capture without the ends of its longest connections, so that it is small enough for a sample.

1. Nodes of a cluster ask each other all the time whether there is something new; one look at each is enough.
2. Connections of clients whose log is the truth must stay whole: they have ports of their own.
3. Reads what tcpdump writes of ``lo``: pcap in the byte order of this machine, Ethernet, IPv4, TCP.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final

_HEAD: Final = 24
_RECORD: Final = struct.Struct("=IIII")
_ETHERNET: Final = 14
_SYN_ACK: Final = 0x12
_SYN: Final = 0x02


def cut_long(capture: Path, whole: Collection[int] = (), *, long: int = 40, kept: int = 12) -> int:
    """Cut connections of more than ``long`` packets to their first ``kept``, but for the ports in ``whole``.

    Gives the number of packets that are left.
    """
    spared = {port.to_bytes(2, "big") for port in whole}
    content = capture.read_bytes()
    packets, openings = [], Counter[tuple[bytes, ...]]()
    at = _HEAD
    while at < len(content):
        end = at + _RECORD.size + _RECORD.unpack_from(content, at)[2]
        ends, opens = _connection(content[at + _RECORD.size : end])
        openings[ends] += opens
        packets.append((content[at:end], (*ends, openings[ends])))
        at = end
    sizes = Counter(connection for _, connection in packets)
    seen: Counter[tuple[object, ...]] = Counter()
    left = [content[:_HEAD]]
    for packet, connection in packets:
        seen[connection] += 1
        ends = connection[:2]
        if sizes[connection] <= long or seen[connection] <= kept or any(end[4:] in spared for end in ends):
            left.append(packet)
    capture.write_bytes(b"".join(left))
    return len(left) - 1


def _connection(frame: bytes) -> tuple[tuple[bytes, ...], bool]:
    """(both ends of a packet's connection in one order, whether it opens it)."""
    network = frame[_ETHERNET:]
    transport = network[(network[0] & 0x0F) * 4 :]
    ends = (network[12:16] + transport[0:2], network[16:20] + transport[2:4])
    return tuple(sorted(ends)), transport[13] & _SYN_ACK == _SYN
