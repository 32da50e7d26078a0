"""From the bytes of a capture to the bytes of a connection: readers, packet columns, reassembly."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import struct
from collections.abc import Iterator
from functools import cache

import lawsamples
import lz4.frame
import numpy as np
import tcpscript
import zstandard
from dpkt_oracle import captured_packets
from packet_batches import Captured, batch_of

from mqsniff.codecs.files import MAGIC_SIZE, codec_of
from mqsniff.limits import KIB, MIB, Limits
from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sources.capture import CaptureReader
from mqsniff.streams.packets import PacketDecoder

from .judging import Target

SMALL = Limits(packet_max=256 * KIB, capture_free=MIB, codec_memory=8 * MIB)

# ---- readers of captures


class BytesInMemory:
    """An input that gives at most ``most`` bytes at once."""

    compression = failure = ""
    limited = False

    def __init__(self, data: bytes, most: int) -> None:
        self._data, self._most = data, most
        self.size, self.taken = len(data), 0

    def head(self, size: int) -> bytes:
        """The first bytes."""
        return self._data[:size]

    def read(self, size: int, timeout_s: float | None = None) -> bytes:
        """The next bytes."""
        part = self._data[self.taken : self.taken + min(size, self._most)]
        self.taken += len(part)
        return part

    def readinto(self, view: memoryview, timeout_s: float | None = None) -> int:
        """As ``read``."""
        part = self.read(len(view))
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Nothing is open."""


def read_capture(data: bytes) -> None:
    """A capture, read at once and in small pieces: the same packets, all inside their buffer.

    Damage inside compressed data loses up to one piece of good bytes (codecs/files.py, rule 2): there, a piece is what
    was read at once.
    """
    whole, again = _read(data, 1 << 30), _read(data, 7 + len(data) // 50)
    if codec_of(data[:MAGIC_SIZE]) is None or whole == again:
        assert whole == again, "other reads give other packets"
        return
    one, other = sorted(([each for each in told if isinstance(each, tuple)] for told in (whole, again)), key=len)
    assert other[: len(one)] == one, "other reads of damaged bytes give other packets"


def _read(data: bytes, most: int) -> list[object]:
    info = CaptureInfo(0, "fuzzed")
    reader = CaptureReader(BytesInMemory(data, most), info, SMALL, 64 * KIB)
    told: list[object] = []
    packets = 0
    while (batch := reader.next_batch()) is not None:
        packets += len(batch)
        told += _told(batch)
    assert packets == info.packets
    assert not (info.unreadable and packets)
    kinds = [(problem.kind, problem.detail, problem.offset) for problem in info.problems]
    return [*told, kinds, info.unreadable, info.format, info.names, info.comments, info.secrets]


def _told(batch: PacketBatch) -> Iterator[tuple[object, ...]]:
    assert len(batch), "empty batches are none"
    assert (batch.start >= 0).all()
    assert (batch.caplen >= 0).all()
    assert (batch.wirelen >= 0).all()
    assert (batch.start + batch.caplen <= len(batch.buffer)).all()
    columns = (batch.ts_ns, batch.wirelen, batch.linktype, batch.packet, batch.interface, batch.start, batch.caplen)
    for *rest, start, size in zip(*(column.tolist() for column in columns), strict=True):
        yield (*rest, bytes(batch.buffer[start : start + size]))


def captures() -> Iterator[bytes]:
    """Small captures in both formats, plain and in all compressions."""
    for path in sorted(lawsamples.PCAPS.rglob("*.pcap*")):
        if path.suffix in (".pcap", ".pcapng", ".gz", ".zst") and path.stat().st_size <= 32 * KIB:
            data = path.read_bytes()
            yield data
            if path.stat().st_size < 6 * KIB:
                yield gzip.compress(data, mtime=0)
                yield zstandard.compress(data)
                yield lz4.frame.compress(data)
                yield lzma.compress(data)
                yield bz2.compress(data)
                yield gzip.compress(data[:600], mtime=0) + gzip.compress(data[600:], mtime=0)


# ---- packet columns


def decode_packets(data: bytes) -> None:
    """Packets, together and one by one: each ends in one place, and gives the same segment."""
    packets = list(_packets(data))
    together, apart = PacketDecoder(Limits()), PacketDecoder(Limits())
    found = _segments(together, packets, 0)
    found += [str(problem.problem) for problem in together.close()]
    single = [each for index, packet in enumerate(packets) for each in _segments(apart, [packet], index)]
    single += [str(problem.problem) for problem in apart.close()]
    assert sorted(map(str, found)) == sorted(map(str, single)), "packets together are not what they are one by one"


def _segments(decoder: PacketDecoder, packets: list[Captured], ordinal: int) -> list[object]:
    given = batch_of(packets, ordinal)
    batch = decoder.decode(given)
    view = memoryview(batch.buffer)
    assert (batch.start >= 0).all()
    assert (batch.start <= batch.stop).all()
    assert (batch.stop <= len(view)).all()
    assert (batch.size >= 0).all()
    assert (np.diff(batch.ordinal) >= 0).all()
    places = [*batch.ordinal.tolist(), *(problem.ordinal for problem in batch.problems)]
    assert len(places) == len(set(places)), "a packet is two things"
    columns = zip(
        *(getattr(batch, name).tolist() for name in ("flow", "ordinal", "direction", "seq", "ack", "flags", "ip_id")),
        *(column.tolist() for column in (batch.size, batch.start, batch.stop)),
        strict=True,
    )
    found: list[object] = [(batch.flows[flow], *rest, bytes(view[start:stop])) for flow, *rest, start, stop in columns]
    found += [(problem.ordinal, str(problem.problem)) for problem in batch.problems]
    return [*found, *["skipped"] * batch.skipped_packets]


def _packets(data: bytes) -> Iterator[Captured]:
    """linktype u16 | size u16 | bytes lost at the end u16 | bytes, over and over."""
    at, number = 0, 0
    while at + 6 <= len(data) and number < 32:
        linktype, size, lost = struct.unpack_from("<HHH", data, at)
        packet = data[at + 6 : at + 6 + size]
        at, number = at + 6 + size, number + 1
        yield Captured(packet, linktype, len(packet) + lost, ts_ns=number * 1000, packet=number)


@cache
def _some_packets() -> tuple[Captured, ...]:
    paths = sorted(path for path in lawsamples.PCAPS.glob("*/*.pcap*") if path.suffix in (".pcap", ".pcapng"))
    good = [path for path in paths if path.parent.name != "broken"]
    return tuple(packet for path in good for packet in itertools.islice(captured_packets(path), 8))


def packets() -> Iterator[bytes]:
    """The first packets of each sample, and packets of all the layers that are read."""
    from test_packets import PACKETS

    for group in _groups(PACKETS):
        yield b"".join(
            struct.pack("<HHH", packet.linktype, len(packet.data), 0) + packet.data
            for packet in group
            if len(packet.data) < 1600
        )


def _groups(first: list[Captured]) -> Iterator[list[Captured]]:
    yield first
    yield from ([packet] for packet in first)
    every = _some_packets()
    for start in range(0, len(every), 4):
        yield list(every[start : start + 4])


# ---- reassembly

_SEGMENT = struct.Struct("<BBhhB")
_FLAGS = (0, 0, 0, tcpscript.SYN, tcpscript.FIN, tcpscript.RST, tcpscript.SYN | tcpscript.FIN, tcpscript.PSH)


def reassemble(data: bytes) -> None:
    """Segments of one flow, whatever they say: the slow path tells the same, and bytes are those that were sent."""
    packets = list(_script(data))
    if not packets:
        return
    cut = (len(packets) // 2,) if data[0] & 1 else ()
    step = 1.0 if data[0] & 2 else 4000.0
    limits = Limits(gap_grace_packets=8, reorder_segments=16, recent_segments=8, overlap_history=64 * KIB)
    for tale in tcpscript.play(packets, limits, cuts=cut, step_ms=step):
        for side in (tcpscript.A, tcpscript.B):
            _check_stream(tale, side)


def _check_stream(tale: tcpscript.Tale, side: int) -> None:
    """Bytes and gaps of a direction follow each other without overlap."""
    told = [(offset, len(part)) for offset, part in tale.streams[side].items()]
    told += [(offset, length) for direction, offset, length in tale.gaps if direction == side]
    at = None
    for offset, length in sorted(told):
        assert length > 0
        assert at in (None, offset), "bytes of a stream are told twice, or left out"
        at = offset + length
    assert tale.facts is not None
    gaps = sum(length for direction, _, length in tale.gaps if direction == side)
    assert tale.facts.gap_bytes[side] == gaps, "gap_bytes are not the gaps that were told"
    assert tale.facts.sizes[side] == sum(length for _, length in told), "sizes are not what was told"


def _script(data: bytes) -> Iterator[tcpscript.Packet]:
    """kind u8 | size u8 | seq i16 | ack i16 | lost u8; the bytes are a function of their offset, or differ."""
    for number, at in enumerate(range(1, len(data) - _SEGMENT.size + 1, _SEGMENT.size)):
        if number >= 48:
            return
        kind, size, seq, ack, lost = _SEGMENT.unpack_from(data, at)
        flags = _FLAGS[kind >> 1 & 7]
        far = kind >> 4 & 3
        seq += (0, 0, 70_000, 1 << 31)[far]
        salt = 1 if kind & 0x80 else 0
        payload = bytes((seq + place + salt) & 0xFF for place in range(size % 64))
        yield tcpscript.Packet(
            kind & 1,
            seq,
            payload,
            None if kind & 0x40 else ack,
            flags,
            size=len(payload) + (lost if lost < 16 else 0),
            isn=0xFFFFFFF0 if data[0] & 4 else None,
        )


def scripts() -> Iterator[bytes]:
    """A handshake, bytes of both sides, and what networks do to them."""

    def step(side: int, seq: int, size: int, ack: int = 0, flags: int = 0, more: int = 0, lost: int = 0) -> bytes:
        return _SEGMENT.pack(side | flags << 1 | more, size, seq, ack, lost)

    opening = step(0, 0, 0, 0, 3, 0x40) + step(1, 0, 0, 0, 3) + step(0, 0, 0)
    talk = step(0, 0, 20) + step(1, 0, 30, 20) + step(0, 20, 10, 30) + step(1, 30, 5, 30)
    closing = step(0, 30, 0, 35, 4) + step(1, 35, 0, 31, 4) + step(0, 31, 0, 36)
    swapped = step(0, 20, 10, 30) + step(0, 0, 20) + step(1, 0, 30, 30)
    hole = step(0, 0, 20) + step(0, 40, 20) + step(1, 0, 5, 60) * 12
    overlap = step(0, 0, 20) + step(0, 10, 20, 0, 0, 0x80) + step(0, 5, 40)
    cut = step(0, 0, 20, lost=9) + step(0, 29, 20)
    for options in (0, 1, 2, 5):
        for middle in (talk, swapped, hole, overlap, cut, talk + opening + talk, step(0, 0, 20, 0, 5) + talk):
            yield bytes([options]) + opening + middle + closing
            yield bytes([options]) + middle


# ----


def targets() -> Iterator[Target]:
    """Three targets."""
    readers = ("mqsniff/sources/capture.py", "mqsniff/sources/pcap*.py", "mqsniff/sources/heads.py")
    yield Target(
        "captures",
        "capture files: pcap, pcapng, compressed ones",
        read_capture,
        captures,
        (*readers, "mqsniff/sources/parsers.py", "mqsniff/codecs/files.py"),
        size_max=32 * KIB,
    )
    columns = ("packets", "columns", "flowkeys", "fragments", "internet", "linklayers", "oddpackets", "transport")
    yield Target(
        "packets",
        "packets to segments: link layers, IP, tunnels, fragments, TCP",
        decode_packets,
        packets,
        (*(f"mqsniff/streams/{name}.py" for name in columns), "mqsniff/streams/tunnels.py"),
        size_max=8 * KIB,
    )
    states = ("flows", "connection", "reassembly", "ordering", "waiting", "runs", "intake", "handshake", "segment")
    yield Target(
        "reassembly",
        "segments of one flow to bytes, gaps and problems",
        reassemble,
        scripts,
        (*(f"mqsniff/streams/{name}.py" for name in states), "mqsniff/streams/troubles.py"),
        size_max=512,
    )
