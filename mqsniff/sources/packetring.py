"""Packets of Linux's interfaces in, PacketBatches out: a packet socket (AF_PACKET) with a TPACKET_V3 ring.

1. The kernel writes packets to blocks of shared memory. A block is ours when it is full, or ``RETIRE_MS`` old; it is
   copied, and given back at once. So a batch is blocks of bytes, and no object is made for a packet.
2. What does not fit into the ring is dropped by the kernel, and counted by it.
3. A VLAN tag that the kernel removed is put back.
4. The socket stays what it is when the interface goes away; ``bind`` takes the interface up again. That needs no right,
   opening the socket does.

Sources: Documentation/networking/packet_mmap.rst and include/uapi/linux/if_packet.h of Linux.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from mqsniff.limits import KIB, MIB
from mqsniff.model import Int32s, Int64s
from mqsniff.sources.parsers import gather

BLOCK_SIZE: Final = 256 * KIB
SNAPLEN: Final = 240 * KIB
"""Bytes of a packet that are taken by default: more than any that is not larger than a segment of offloading."""
RETIRE_MS: Final = 8
"""Age at which a block is ours though it is not full: how late a packet of a silent interface comes.

A smaller age would give blocks that are nearly empty, and a ring of them is full after a shorter pause of ours."""
BUFFER: Final = 48 * MIB
PACKETS: Final = 4096
"""Packets after which a batch ends, when it has not by its bytes."""

_SOL_PACKET: Final = 263
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, _VERSION, _RESERVE = 1, 5, 6, 10, 12
_TPACKET_V3: Final = 2
_PROMISCUOUS: Final = 1
_SO_ATTACH_FILTER: Final = 26
_EVERY_PROTOCOL: Final = 3
_USER, _KERNEL = 1, 0
_VLAN_VALID, _TPID_VALID, _TPID_8021Q = 0x10, 0x40, 0x8100
_MACS_SIZE, _TAG_SIZE = 12, 4
_STATUS_AT, _COUNT_AT = 8, 12
"""In a block: its status; number of packets, offset of the first, bytes in use."""
_HEAD_WORDS: Final = 9
"""Words of struct tpacket3_hdr: next, seconds, nanoseconds, captured, length, status, offsets, hash, VLAN TCI; TPID
follows."""
_ADDRESS_AT: Final = 48
"""struct sockaddr_ll follows the head: family, protocol, index, hardware type, kind of packet."""
_FILTER_MAX: Final = 4096
_RETURN: Final = 0x06


class BpfStep(NamedTuple):
    """An instruction of the kernel's packet filter (struct sock_filter)."""

    code: int
    jt: int
    jf: int
    k: int


class RingPackets(NamedTuple):
    """Packets of one or more blocks, as columns over ``buffer``."""

    buffer: bytearray
    ts_ns: Int64s
    start: Int64s
    caplen: Int64s
    wirelen: Int64s
    ifindex: Int32s
    hatype: Int32s
    """ARPHRD_*: the kind of hardware."""


class RingCounts(NamedTuple):
    """What the kernel counted since it was asked last."""

    received: int
    """Packets that passed the filter, the dropped ones too."""
    dropped: int


class PacketRing:
    """The ring of one interface, or of all."""

    def __init__(self, interface: str, program: list[BpfStep], *, size: int, snaplen: int, promiscuous: bool) -> None:
        """``interface`` '': all there are, and will be. OSError if that cannot be."""
        self.interface = interface
        self._promiscuous = promiscuous
        self._snaplen = snaplen
        self._block_size = block_size_for(snaplen)
        self._blocks = max(size // self._block_size, 4)
        self._next = 0
        self._index = 0
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._prepare(program)
            self.bind()
        except BaseException:
            self.socket.close()
            raise

    def _prepare(self, program: list[BpfStep]) -> None:
        own, size = self.socket, self._block_size
        attach_filter(own, [_cut(step, self._snaplen) for step in program])
        own.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        own.setsockopt(_SOL_PACKET, _RESERVE, _TAG_SIZE)
        frame = 2048
        ring = (size, self._blocks, frame, size // frame * self._blocks, RETIRE_MS, 0, 0)
        own.setsockopt(_SOL_PACKET, _RX_RING, struct.pack("=7I", *ring))
        self._map = mmap.mmap(own.fileno(), size * self._blocks, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._view = memoryview(self._map)

    def bind(self) -> None:
        """Take up the interface; OSError if it is not there. Nothing comes before."""
        if not self.interface:
            _bind_to_all(self.socket)
            return
        self.socket.bind((self.interface, _EVERY_PROTOCOL))
        self._index = socket.if_nametoindex(self.interface)
        if self._promiscuous:
            wish = struct.pack("=iHH8s", self._index, _PROMISCUOUS, 0, b"")
            self.socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, wish)

    def state(self) -> Literal["here", "down", "gone", "other"]:
        """Whether packets can come; ``other``: an interface with the same name is there, and ``rebind`` takes it up."""
        try:
            index = socket.if_nametoindex(self.interface)
        except OSError:
            self._index = 0
            return "gone"
        if index != self._index:
            return "other"
        return "here" if _is_up(self.interface) else "down"

    def rebind(self) -> bool:
        """Take up the interface again; False if that cannot be yet."""
        try:
            self.bind()
        except OSError:
            return False
        return True

    def counts(self) -> RingCounts:
        """What was received and dropped since the last call."""
        try:
            received, dropped, _ = struct.unpack("=III", self.socket.getsockopt(_SOL_PACKET, _STATISTICS, 12))
        except OSError:
            return RingCounts(0, 0)
        return RingCounts(received, dropped)

    def read(self, most: int) -> RingPackets | None:
        """The packets of the blocks that are ours, about ``most`` bytes and ``PACKETS``; None if there are none."""
        buffer = bytearray()
        heads: list[Int64s] = []
        packets = 0
        while len(buffer) < most and packets < PACKETS and self._status() & _USER:
            at = self._next * self._block_size
            count, first, size = struct.unpack_from("=III", self._view, at + _COUNT_AT)
            packets += count
            if count:
                heads.append(packet_heads(self._view[at : at + size], first, count) + len(buffer))
                buffer += self._view[at : at + size]
            struct.pack_into("=I", self._view, at + _STATUS_AT, _KERNEL)
            self._next = (self._next + 1) % self._blocks
        return read_packets(buffer, np.concatenate(heads)) if heads else None

    def _status(self) -> int:
        return int(struct.unpack_from("=I", self._view, self._next * self._block_size + _STATUS_AT)[0])

    def close(self) -> None:
        """Close the socket; the ring goes with it."""
        self._view.release()
        self._map.close()
        self.socket.close()


def _bind_to_all(own: socket.socket) -> None:
    """Bind to interface 0, which Python has no name for."""
    address = struct.pack("=HHiHBB8s", socket.AF_PACKET, socket.htons(_EVERY_PROTOCOL), 0, 0, 0, 0, b"")
    library = ctypes.CDLL(None, use_errno=True)
    if library.bind(own.fileno(), address, len(address)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _is_up(interface: str) -> bool:
    """Whether an interface is switched on; an interface that nobody can tell of is."""
    try:
        return bool(int(Path("/sys/class/net", interface, "flags").read_text(), 16) & 1)
    except (OSError, ValueError):
        return True


def block_size_for(snaplen: int) -> int:
    """A block that holds a packet of this size: a power of two."""
    size = BLOCK_SIZE
    while size < snaplen + 4 * KIB:
        size *= 2
    return size


def attach_filter(own: socket.socket, program: list[BpfStep]) -> None:
    """Let the kernel drop what a filter does not want."""
    if not program:
        return
    if len(program) > _FILTER_MAX:
        raise OSError(None, f"the filter has {len(program)} instructions, and the kernel takes {_FILTER_MAX}")
    steps = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    own.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(program), ctypes.addressof(steps)))


def _cut(step: BpfStep, snaplen: int) -> BpfStep:
    """A step that takes a packet takes as much of it as the snap length says: libpcap wrote its own in there."""
    return step._replace(k=snaplen) if step.code == _RETURN and step.k else step


def packet_heads(block: memoryview, first: int, count: int) -> Int64s:
    """The places of the heads of a block's packets."""
    words = np.frombuffer(block, np.uint32, len(block) // 4)
    step = words.item
    places = []
    at = first
    for _ in range(count):
        places.append(at)
        at += step(at >> 2)
    return np.array(places, np.int64)


def read_packets(buffer: bytearray, heads: Int64s) -> RingPackets:
    """Packets with their heads at these places."""
    words = gather(buffer, heads, _HEAD_WORDS + 1, "=u4")
    offsets, tags = words[:, 6], words[:, 5] & _VLAN_VALID != 0
    start = heads + (offsets & 0xFFFF)
    caplen, wirelen = words[:, 3].copy(), words[:, 4].copy()
    address = gather(buffer, heads + _ADDRESS_AT, 3, "=u4")
    for row in np.flatnonzero(tags & (caplen >= _MACS_SIZE)).tolist():
        tpid = int(words[row, 9] & 0xFFFF) if words[row, 5] & _TPID_VALID else _TPID_8021Q
        start[row] = _put_tag(buffer, int(start[row]), tpid, int(words[row, 8] & 0xFFFF))
        caplen[row] += _TAG_SIZE
        wirelen[row] += _TAG_SIZE
    return RingPackets(
        buffer,
        words[:, 1] * 1_000_000_000 + words[:, 2],
        start,
        caplen,
        np.maximum(wirelen, caplen),
        address[:, 1].astype(np.int32),
        (address[:, 2] & 0xFFFF).astype(np.int32),
    )


def _put_tag(buffer: bytearray, start: int, tpid: int, tci: int) -> int:
    """Put a VLAN tag after the MAC addresses, into the space that was reserved; the packet's new place."""
    moved = start - _TAG_SIZE
    macs = buffer[start : start + _MACS_SIZE]
    buffer[moved : moved + _MACS_SIZE] = macs
    struct.pack_into("!HH", buffer, moved + _MACS_SIZE, tpid, tci)
    return moved
