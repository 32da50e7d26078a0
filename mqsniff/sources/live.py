"""A network interface in, small batches of its packets out as they come; an empty batch while there are none.

1. The socket is scapy's (interface, filter, promiscuous mode); its bytes become columns without scapy packets.
   Timestamps are the kernel's, as integers.
2. A loopback interface gives every packet twice, outgoing and incoming: the outgoing copy is dropped and not counted.
3. ``CaptureInfo.dropped`` is the kernel's counter of dropped packets.
4. An interface that disappears ends the capture with a problem.
5. Linux only: other systems get one line that says so; ``tcpdump -w - | mqsniff decode -`` works everywhere.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from select import select
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from mqsniff.errors import CaptureError as CaptureError  # noqa: PLC0414  # users of this module catch it
from mqsniff.limits import SECOND_NS
from mqsniff.model import CaptureInfo, PacketBatch, Problem
from mqsniff.sources.batches import empty_batch, new_batch

TICK_S: Final = 0.2
"""Longest time without a batch."""
BATCH_PACKETS: Final = 4096
RECEIVE_BUFFER: Final = 32 * 1024 * 1024
"""Receive buffer in the kernel, bytes (at most net.core.rmem_max, unless we may force it)."""
SNAPLEN: Final = 262_144
ANCILLARY_SIZE: Final = 256

_SOL_PACKET, _PACKET_STATISTICS, _PACKET_AUXDATA = 263, 6, 8
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_OUTGOING = 4
_HATYPE_LOOPBACK = 772
_LINKTYPES: Final = {1: 1, _HATYPE_LOOPBACK: 1, 65534: 101, 512: 9}
"""ARPHRD_* of Linux -> link type: Ethernet, loopback (as Ethernet), none (raw IP: tun, wireguard), PPP."""
_MACS_SIZE: Final = 12
_VLAN_VALID, _TPID_VALID, _TPID_8021Q = 0x10, 0x40, 0x8100
_AUXDATA = struct.Struct("=IIIHHHH")
"""struct tpacket_auxdata: status, length, captured, MAC and network offsets, VLAN TCI and TPID."""
_TIMESPECS: Final = {16: struct.Struct("=qq"), 8: struct.Struct("=ii")}
"""struct timespec of 64- and of 32-bit systems, by its size."""

Ancillary: TypeAlias = Sequence[tuple[int, int, bytes]]
"""(level, type, data) of the control messages of a packet."""
Address: TypeAlias = tuple[Any, ...]


class Received(NamedTuple):
    """One packet of an interface."""

    ts_ns: int
    linktype: int
    data: bytes


class LiveSource:
    """The packets of an interface until ``stop``, ``count`` packets or ``duration_ns`` have passed."""

    def __init__(
        self, interface: str, *, bpf: str | None = None, count: int | None = None, duration_ns: int | None = None
    ) -> None:
        """CaptureError if the interface or the filter is wrong, or a permission is missing."""
        self.captures = [CaptureInfo(0, interface, "live")]
        self._socket = _listen(interface, bpf)
        self._left = count
        self._until = None if duration_ns is None else time.monotonic() + duration_ns / SECOND_NS
        self._stopped = False

    def stop(self) -> None:
        """End ``batches`` after the packets that were received; may be called from a signal handler."""
        self._stopped = True

    def batches(self) -> Iterator[PacketBatch]:
        """Packets as they come; ``dropped`` is set at the end."""
        try:
            while not self._over():
                ready, _, _ = select([self._socket.ins], [], [], TICK_S)
                packets = self._receive() if ready else []
                yield live_batch(self.captures[0], packets) if packets else empty_batch()
        finally:
            self.captures[0].dropped = _dropped(self._socket.ins)
            self.captures[0].drops_told = True
            self._socket.close()

    def _over(self) -> bool:
        late = self._until is not None and time.monotonic() >= self._until
        return self._stopped or late or self._left == 0

    def _receive(self) -> list[Received]:
        """The packets that have arrived, up to BATCH_PACKETS and the wanted count."""
        packets: list[Received] = []
        most = BATCH_PACKETS if self._left is None else min(BATCH_PACKETS, self._left)
        for _ in range(BATCH_PACKETS * 2):
            try:
                data, ancillary, _, address = self._socket.ins.recvmsg(SNAPLEN, ANCILLARY_SIZE, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError as error:
                detail = f"the capture ended early: {error.strerror or error}"
                self.captures[0].problems.append(Problem("input", "error", detail))
                self._stopped = True
                break
            if (received := received_packet(data, ancillary, address)) is not None:
                packets.append(received)
            if len(packets) == most:
                break
        self._left = None if self._left is None else self._left - len(packets)
        return packets


def received_packet(data: bytes, ancillary: Ancillary, address: Address) -> Received | None:
    """A packet from what ``recvmsg`` of a packet socket returned; None for the outgoing copy on a loopback.

    A VLAN tag that the kernel removed is put back. ``address`` is (interface, protocol, direction, ARPHRD_*, …).
    """
    direction, hardware = address[2], address[3]
    if direction == _OUTGOING and hardware == _HATYPE_LOOPBACK:
        return None
    ts_ns, tag = _notes(ancillary)
    if tag:
        data = data[:_MACS_SIZE] + tag + data[_MACS_SIZE:]
    return Received(ts_ns or time.time_ns(), _LINKTYPES.get(hardware, -hardware), data)


def live_batch(info: CaptureInfo, packets: Sequence[Received]) -> PacketBatch:
    """Packets (at least one) as the next batch of a capture."""
    sizes = np.array([len(packet.data) for packet in packets], np.int64)
    ordinal = info.packets
    batch = new_batch(
        info,
        b"".join(packet.data for packet in packets),
        ts_ns=np.array([packet.ts_ns for packet in packets], np.int64),
        start=np.cumsum(sizes) - sizes,
        caplen=sizes,
        wirelen=sizes,
        linktype=np.array([packet.linktype for packet in packets], np.int32),
        interface=np.zeros(len(packets), np.int32),
    )
    batch.ordinal = ordinal
    return batch


def _listen(interface: str, bpf: str | None) -> Any:
    """The listening socket of scapy for an interface, with timestamps in nanoseconds."""
    if sys.platform != "linux":
        raise CaptureError("live capture works on Linux; elsewhere use: tcpdump -w - | mqsniff decode -")
    if interface not in {name for _, name in socket.if_nameindex()}:
        there = ", ".join(name for _, name in socket.if_nameindex())
        raise CaptureError(f"{interface}: no such interface (there are {there})")
    logging.getLogger("scapy").setLevel(logging.ERROR)  # it warns of link types that it has no class for; we use none
    from scapy.arch.linux import L2ListenSocket  # noqa: PLC0415  # heavy, and Linux only
    from scapy.error import Scapy_Exception  # noqa: PLC0415

    try:
        listening = L2ListenSocket(iface=interface, filter=bpf)
    except PermissionError:
        python = os.path.realpath(sys.executable)
        raise CaptureError(
            f"{interface}: not allowed to capture; CAP_NET_RAW is missing: run as root, or once: "
            f"sudo setcap cap_net_raw,cap_net_admin+ep {python}"
        ) from None
    except (Scapy_Exception, UnicodeEncodeError) as error:
        raise CaptureError(f"{interface}: filter {bpf!r} cannot be used: {error}") from None
    except OSError as error:
        raise CaptureError(f"{interface}: {error.strerror or error}") from None
    _enlarge(listening.ins)
    return listening


def _enlarge(raw: socket.socket) -> None:
    for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
        try:
            raw.setsockopt(socket.SOL_SOCKET, option, RECEIVE_BUFFER)
        except OSError:
            continue
        return


def _notes(ancillary: Ancillary) -> tuple[int, bytes]:
    """(time in nanoseconds or 0, VLAN tag that the kernel removed or empty) from a packet's control messages."""
    ts_ns, tag = 0, b""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and len(data) in _TIMESPECS:
            seconds, nanoseconds = _TIMESPECS[len(data)].unpack(data)
            ts_ns = seconds * SECOND_NS + nanoseconds
        elif (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA) and len(data) >= _AUXDATA.size:
            status, _, _, _, _, tci, tpid = _AUXDATA.unpack_from(data)
            if status & _VLAN_VALID:
                tag = struct.pack("!HH", tpid if status & _TPID_VALID else _TPID_8021Q, tci)
    return ts_ns, tag


def _dropped(raw: socket.socket) -> int:
    """Packets that the kernel dropped since the last call (struct tpacket_stats)."""
    try:
        return int(struct.unpack("=II", raw.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1])
    except OSError:
        return 0
