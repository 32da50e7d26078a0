"""An interface in, small batches of its packets out as they come; an empty batch is a moment without packets.

1. The socket is scapy's (interface, filter, promiscuous mode); its bytes go straight into columns, no scapy packet is
   made. Time stamps are the kernel's, as integers.
2. A loopback shows every packet twice, on its way out and in: the outgoing copy is dropped and not counted.
3. What the kernel had to drop is asked of the kernel and told in ``CaptureInfo.dropped``.
4. Linux only: other systems get one line that says so; ``tcpdump -w - | mqsniff decode -`` works everywhere.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from select import select
from typing import Any, Final

import numpy as np

from mqsniff.limits import SECOND_NS
from mqsniff.model import CaptureInfo, PacketBatch
from mqsniff.sources.batches import empty_batch, new_batch

TICK_S: Final = 0.2
"""Longest time without a batch."""
BATCH_PACKETS: Final = 4096
RECEIVE_BUFFER: Final = 32 * 1024 * 1024
"""Bytes the kernel may keep for us (it grants what net.core.rmem_max allows, more with the right to force it)."""
SNAPLEN: Final = 262_144

_SOL_PACKET, _PACKET_STATISTICS, _PACKET_AUXDATA = 263, 6, 8
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33
_OUTGOING = 4
_HATYPE_LOOPBACK = 772
_LINKTYPES: Final = {1: 1, _HATYPE_LOOPBACK: 1, 65534: 101, 512: 9}
"""ARPHRD_* of Linux -> link type: Ethernet, loopback (as Ethernet), none (raw IP: tun, wireguard), PPP."""
_VLAN_VALID, _TPID_VALID = 0x10, 0x40
_AUXDATA = struct.Struct("=IIIHHHH")


class CaptureError(Exception):
    """The interface cannot be listened on; the text says why and what to do."""


class LiveSource:
    """The packets of an interface until ``stop``, ``count`` packets or ``duration_ns`` have passed."""

    def __init__(
        self, interface: str, *, bpf: str | None = None, count: int | None = None, duration_ns: int | None = None
    ) -> None:
        """CaptureError where the interface, the right to listen or the filter is wrong."""
        self.captures = [CaptureInfo(0, interface, "live")]
        self._socket = _listen(interface, bpf)
        self._left = count
        self._until = None if duration_ns is None else time.monotonic() + duration_ns / SECOND_NS
        self._stopped = False

    def stop(self) -> None:
        """Let ``batches`` end after what has been received; may be called from a signal handler."""
        self._stopped = True

    def batches(self) -> Iterator[PacketBatch]:
        """Packets as they come; what the kernel dropped is known when they have ended."""
        try:
            while not self._over():
                ready, _, _ = select([self._socket.ins], [], [], TICK_S)
                packets = self._receive() if ready else []
                yield self._batch(packets) if packets else empty_batch()
        finally:
            self.captures[0].dropped = _dropped(self._socket.ins)
            self._socket.close()

    def _over(self) -> bool:
        late = self._until is not None and time.monotonic() >= self._until
        return self._stopped or late or self._left == 0

    def _receive(self) -> list[tuple[int, int, bytes]]:
        """(time, link type, bytes) of the packets that are there, up to BATCH_PACKETS."""
        packets: list[tuple[int, int, bytes]] = []
        most = BATCH_PACKETS if self._left is None else min(BATCH_PACKETS, self._left)
        while len(packets) < most:
            try:
                data, ancillary, _, address = self._socket.ins.recvmsg(SNAPLEN, 256, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            if address[2] == _OUTGOING and address[3] == _HATYPE_LOOPBACK:
                continue
            ts_ns, tag = _ancillary(ancillary)
            linktype = _LINKTYPES.get(address[3], -address[3])
            packets.append((ts_ns, linktype, data[:12] + tag + data[12:] if tag else data))
        return packets

    def _batch(self, packets: list[tuple[int, int, bytes]]) -> PacketBatch:
        sizes = np.array([len(data) for _, _, data in packets], np.int64)
        batch = new_batch(
            self.captures[0],
            b"".join(data for _, _, data in packets),
            ts_ns=np.array([ts_ns for ts_ns, _, _ in packets], np.int64),
            start=np.cumsum(sizes) - sizes,
            caplen=sizes,
            wirelen=sizes,
            linktype=np.array([linktype for _, linktype, _ in packets], np.int32),
            interface=np.zeros(len(packets), np.int32),
        )
        batch.ordinal = self.captures[0].packets - len(packets)
        self._left = None if self._left is None else self._left - len(packets)
        return batch


def _listen(interface: str, bpf: str | None) -> Any:
    """The listening socket of scapy for an interface, ready to give time stamps in nanoseconds."""
    if sys.platform != "linux":
        raise CaptureError("live capture works on Linux; elsewhere use: tcpdump -w - | mqsniff decode -")
    if interface not in {name for _, name in socket.if_nameindex()}:
        there = ", ".join(name for _, name in socket.if_nameindex())
        raise CaptureError(f"{interface}: no such interface (there are {there})")
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
    except Scapy_Exception as error:
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


def _ancillary(messages: list[tuple[int, int, bytes]]) -> tuple[int, bytes]:
    """(time in nanoseconds, VLAN tag that the kernel took off) from a packet's control messages."""
    ts_ns, tag = 0, b""
    for level, kind, data in messages:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = struct.unpack("=qq" if len(data) == 16 else "=ii", data)
            ts_ns = seconds * SECOND_NS + nanoseconds
        elif level == _SOL_PACKET and kind == _PACKET_AUXDATA and len(data) >= _AUXDATA.size:
            status, _, _, _, _, tci, tpid = _AUXDATA.unpack_from(data)
            if status & _VLAN_VALID:
                tag = struct.pack("!HH", tpid if status & _TPID_VALID else 0x8100, tci)
    return ts_ns or time.time_ns(), tag


def _dropped(raw: socket.socket) -> int:
    """Packets that the kernel dropped since it was last asked (struct tpacket_stats)."""
    try:
        return int(struct.unpack("=II", raw.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1])
    except OSError:
        return 0
