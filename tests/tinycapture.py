"""Small captures for tests of commands: TCP conversations step by step in, pcap bytes out."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

LINKTYPE_RAW = 101
FIN, SYN, PSH, ACK = 1, 2, 8, 16
START_S = 1_795_253_930

OK = b"\0\0\0\x06\0\0\0\0OK"
INVALID = b"\0\0\0\x0d\0\0\0\x01E_INVALID"
PUB = b"PUB retry\n\0\0\0\x05hello"
NSQ = [("c", b"  V2"), ("c", PUB), ("s", OK)]
"""A client publishes one message to the topic "retry"."""


def pcap(packets: Iterable[bytes]) -> bytes:
    """A pcap file of raw IP packets, a millisecond apart."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINKTYPE_RAW)
    records = (
        struct.pack("<IIII", START_S, 1000 * index, len(packet), len(packet)) + packet
        for index, packet in enumerate(packets)
    )
    return head + b"".join(records)


def conversation(
    steps: Iterable[tuple[str, bytes]], *, client: int = 40_000, server: int = 4150, answered: bool = True
) -> Iterator[bytes]:
    """Packets of a connection: its handshake, ("c" or "s", bytes) for what each side says, its end."""
    ports = {"c": (client, server), "s": (server, client)}
    sent = {"c": 1000, "s": 5000}

    def packet(side: str, flags: int, payload: bytes = b"") -> bytes:
        peer = "s" if side == "c" else "c"
        made = ip_tcp(ports[side], sent[side], sent[peer] if flags & ACK else 0, flags, payload)
        sent[side] += len(payload) + bool(flags & (SYN | FIN))
        return made

    yield packet("c", SYN)
    if not answered:
        return
    yield packet("s", SYN | ACK)
    yield packet("c", ACK)
    for side, payload in steps:
        yield packet(side, PSH | ACK, payload)
    yield packet("c", FIN | ACK)
    yield packet("s", FIN | ACK)
    yield packet("c", ACK)


def ip_tcp(ports: tuple[int, int], seq: int, ack: int, flags: int, payload: bytes) -> bytes:
    """One packet from a port to another one of the same host; its checksums are 0, as after an offloading card."""
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 5 << 4, flags, 65535, 0, 0) + payload
    host = bytes((127, 0, 0, 1))
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), seq & 0xFFFF, 0, 64, 6, 0, host, host) + tcp
