"""What two sides of a connection said in, a source of TCP packets that carry it out: for streams without packets.

1. The client speaks first; where a side is given in parts, they are said in turns.
2. The packets have a handshake, ends, and times that are made up: one each millisecond.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final, Unpack

import numpy as np

from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.errors import OptionError
from mqsniff.filters.known import unknown
from mqsniff.library.capture import Capture
from mqsniff.library.request import DecodeOptions, ReadRequest
from mqsniff.model import CaptureInfo, PacketBatch, Side
from mqsniff.sources.batches import new_batch

NAME: Final = "bytes"
"""The name of the capture, as the column ``capture`` has it."""
SERVER_PORT: Final = 40_000
_CLIENT_PORT: Final = 50_000
_ENDS: Final = ((bytes((127, 0, 0, 1)), _CLIENT_PORT), (bytes((127, 0, 0, 2)), SERVER_PORT))
_START_NS: Final = 1_700_000_000_000_000_000
_STEP_NS: Final = 1_000_000
_RAW_IP: Final = 101
_SEGMENT_MAX: Final = 60_000
_ISN: Final = 1000
_FIN, _SYN, _PSH, _ACK = 1, 2, 8, 16


class SpokenSource:
    """A source of the packets that carry a conversation."""

    def __init__(self, parts: Iterable[tuple[Side, bytes]]) -> None:
        self.captures = [CaptureInfo(0, NAME)]
        self._parts = tuple(parts)

    def batches(self) -> Iterator[PacketBatch]:
        """All packets as one batch."""
        packets = list(self._packets())
        sizes = np.array(list(map(len, packets)), np.int64)
        yield new_batch(
            self.captures[0],
            b"".join(packets),
            ts_ns=_START_NS + _STEP_NS * np.arange(len(packets), dtype=np.int64),
            start=np.cumsum(sizes) - sizes,
            caplen=sizes,
            wirelen=sizes,
            linktype=np.full(len(packets), _RAW_IP, np.int32),
            interface=np.zeros(len(packets), np.int32),
        )

    def _packets(self) -> Iterator[bytes]:
        sent = [_ISN + 1, _ISN + 1]
        yield _packet(Side.CLIENT, _ISN, 0, _SYN)
        yield _packet(Side.SERVER, _ISN, sent[Side.CLIENT], _SYN | _ACK)
        yield _packet(Side.CLIENT, sent[Side.CLIENT], sent[Side.SERVER], _ACK)
        for side, data in self._parts:
            for at in range(0, len(data), _SEGMENT_MAX):
                piece = data[at : at + _SEGMENT_MAX]
                yield _packet(side, sent[side], sent[side.peer], _PSH | _ACK, piece)
                sent[side] += len(piece)
        for side in Side:
            yield _packet(side, sent[side], sent[side.peer], _FIN | _ACK)
            sent[side] += 1


def _packet(side: Side, seq: int, ack: int, flags: int, data: bytes = b"") -> bytes:
    """An IPv4 packet with a TCP segment (RFC 791, RFC 9293), without checksums."""
    (source, source_port), (target, target_port) = _ENDS[side], _ENDS[side.peer]
    size = 40 + len(data)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 0, 0, 64, 6, 0, source, target)
    numbers = seq & 0xFFFF_FFFF, ack & 0xFFFF_FFFF
    return head + struct.pack(">HHIIBBHHH", source_port, target_port, *numbers, 0x50, flags, 65_535, 0, 0) + data


def decode_bytes(
    protocol: str,
    *,
    client: bytes | Iterable[bytes] = b"",
    server: bytes | Iterable[bytes] = b"",
    **options: Unpack[DecodeOptions],
) -> Capture:
    """A capture of one connection, made of what its sides sent: for tests that have streams but no packets.

    ``client`` and ``server`` are all bytes of a side from the start of the connection; the client speaks first. Lists
    of parts are said in turns, which matters where an answer changes what follows (SASL, NSQ's snappy). Times are made
    up. The other keywords are those of ``read`` that say how to decode. Raises OptionError for an unknown protocol.
    """
    known = Registry(load_dissectors()).names()
    if protocol not in known:
        raise OptionError(unknown("protocol", protocol, known))
    sides = [(said,) if isinstance(said, bytes | bytearray | memoryview) else tuple(said) for said in (client, server)]
    turns = zip_longest(*sides, fillvalue=b"")
    parts = [(side, bytes(turn[side])) for turn in turns for side in Side if turn[side]]
    request = ReadRequest.of({"decode_as": {SERVER_PORT: protocol}, **options})
    return Capture((NAME,), lambda: SpokenSource(parts), request)
