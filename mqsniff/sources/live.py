"""Network interfaces in, batches of their packets out as they come; an empty batch while there are none.

1. All interfaces are one capture, as in a pcapng file: packets are numbered in the order in which they are passed on,
   and ``interface`` counts interfaces in the order of ``interfaces``.
2. A batch ends after ``window`` bytes. What cannot be taken meanwhile is dropped by the kernel: ``counts`` and
   ``CaptureInfo.dropped`` tell how much, at any time.
3. An interface that disappears is told, and taken up again when it is back.
4. ``stop`` ends the capture after the packets that have arrived, or after ``LAST_S`` seconds; then the number of
   packets that were not taken is told.
5. Linux only: other systems get one line that says so; ``tcpdump -w - | mqsniff decode -`` works everywhere.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from mqsniff.errors import CaptureError as CaptureError  # noqa: PLC0414  # users of this module catch it
from mqsniff.limits import MIB, SECOND_NS
from mqsniff.model import CaptureInfo, Int32s, PacketBatch
from mqsniff.sources.batches import empty_batch, merge_batches, new_batch, report, slice_batch
from mqsniff.sources.capturefilter import (
    HATYPE_LOOPBACK,
    HATYPES_RAW,
    FilterError,
    capture_program,
    everything,
)
from mqsniff.sources.packetring import BUFFER, SNAPLEN, BpfStep, PacketRing, RingPackets

TICK_S: Final = 0.2
"""Longest time without a batch."""
TOLD_S: Final = 10.0
"""Least time between two sentences about drops."""
LAST_S: Final = 0.5
"""Longest time in which packets that have arrived are still taken after ``stop``."""
WINDOW: Final = 8 * MIB
ANY: Final = "any"
_DRAIN_S: Final = 0.02
"""Time in which the kernel gives a block that is not full."""

_LINKTYPES: Final = {1: 1, HATYPE_LOOPBACK: 1, 512: 9, **dict.fromkeys(HATYPES_RAW, 101)}
"""ARPHRD_* of Linux -> link type: Ethernet, loopback (as Ethernet), PPP, raw IP."""


@dataclass(slots=True)
class InterfaceCounts:
    """What one interface gave so far."""

    name: str
    received: int = 0
    """Packets that passed the filter, the dropped ones too, as the kernel counts."""
    dropped: int = 0
    """Of these, packets that the kernel dropped because the ring was full."""
    taken: int = 0
    """Packets that were passed on."""
    taken_bytes: int = 0
    """Bytes of these on the wire."""
    is_away: bool = False
    """Whether the interface is not there now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureWishes:
    """What is to be captured, and for how long."""

    bpf: str | None = None
    is_default: bool = False
    """Whether nobody asked for this filter: then it is not needed either."""
    count: int | None = None
    duration_ns: int | None = None
    idle_ns: int | None = None
    """The capture ends when no packet came for so long."""
    snaplen: int = SNAPLEN
    buffer: int = BUFFER
    """Bytes of all rings."""
    window: int = WINDOW
    promiscuous: bool = True


class LiveSource:
    """The packets of interfaces until ``stop``, ``count`` packets or a time has passed."""

    def __init__(
        self,
        interfaces: Sequence[str],
        wishes: CaptureWishes | None = None,
        tell: Callable[[str], object] = lambda _sentence: None,
    ) -> None:
        """CaptureError if an interface or the filter is wrong, or a right is missing. ``tell`` gets sentences."""
        self.wishes = wishes or CaptureWishes()
        self._tell = tell
        names = [ANY] if ANY in interfaces else list(dict.fromkeys(interfaces))
        self.captures = [CaptureInfo(0, ", ".join(names), "live", drops_told=True)]
        self.counts = [InterfaceCounts(name) for name in names]
        self._rings = _open_rings(names, self.wishes, tell)
        self._ordered = _InterfaceNumbers(names)
        self._until: float | None = None
        self._left = self.wishes.count
        self._stopped = False
        self._poll = select.poll()
        for ring in self._rings:
            self._poll.register(ring.socket, select.POLLIN | select.POLLERR)
        self._counted_at = self._told_at = time.monotonic()
        self._told_drops = 0
        self._away_since: dict[int, float] = {}

    @property
    def interfaces(self) -> Sequence[str]:
        """The names after ``PacketBatch.interface``."""
        return self._ordered.names

    def linktype(self, number: int) -> int:
        """The link type of an interface by its number."""
        kind = _first_line(Path("/sys/class/net", self.interfaces[number], "type"))
        return _LINKTYPES.get(int(kind), -int(kind)) if kind.isdecimal() else 1

    def stop(self) -> None:
        """End ``batches`` soon; may be called from a signal handler."""
        self._stopped = True

    def batches(self) -> Iterator[PacketBatch]:
        """Packets as they come."""
        last = time.monotonic()
        self._until = _deadline(self.wishes.duration_ns)
        try:
            while not self._over(last):
                self._poll.poll(TICK_S * 1000)
                batch = self._take()
                if len(batch):
                    last = time.monotonic()
                self._look_after()
                yield batch
            yield from self._rest()
        finally:
            self.count()
            self._tell_drops(at_end=True)
            for ring in self._rings:
                ring.close()

    def _over(self, last: float) -> bool:
        now, idle_ns = time.monotonic(), self.wishes.idle_ns
        late = self._until is not None and now >= self._until
        silent = idle_ns is not None and now - last >= idle_ns / SECOND_NS
        return self._stopped or late or silent or self._left == 0

    def _rest(self) -> Iterator[PacketBatch]:
        """What arrived before the end, as far as there is time for it; what is left is told."""
        until = time.monotonic() + LAST_S
        time.sleep(_DRAIN_S)
        while self._left != 0 and time.monotonic() < until:
            batch = self._take()
            if not len(batch):
                return
            yield batch
        self.count()
        left = sum(each.received - each.dropped - each.taken for each in self.counts)
        if self._left is None and left > 0:
            self.captures[0].dropped += left
            self._tell(f"{left:,} packets that had arrived were not read before the end; they count as dropped")

    def _take(self) -> PacketBatch:
        """The packets that have arrived, about a window of them and up to the wanted count."""
        parts = []
        for ring, counts in zip(self._rings, self.counts, strict=True):
            packets = ring.read(self.wishes.window // len(self._rings))
            if packets is not None:
                parts.append(self._batch(packets, counts))
        if not parts:
            return empty_batch()
        info = self.captures[0]
        batch = parts[0] if len(parts) == 1 else merge_batches(parts, [part.ts_ns for part in parts])
        first = info.packets - sum(map(len, parts))
        batch.packet = np.arange(first + 1, first + 1 + len(batch), dtype=np.int64)
        batch.ordinal = first
        if self._left is not None:
            if len(batch) > self._left:
                info.packets -= len(batch) - self._left
                batch = slice_batch(batch, 0, self._left)
            self._left -= len(batch)
        return batch

    def _batch(self, packets: RingPackets, counts: InterfaceCounts) -> PacketBatch:
        counts.taken += len(packets.ts_ns)
        counts.taken_bytes += int(packets.wirelen.sum())
        return new_batch(
            self.captures[0],
            packets.buffer,
            ts_ns=packets.ts_ns,
            start=packets.start,
            caplen=packets.caplen,
            wirelen=packets.wirelen,
            linktype=linktypes_of(packets.hatype),
            interface=self._ordered.numbers(counts.name, packets.ifindex),
        )

    # ---- what the kernel says of the interfaces

    def _look_after(self) -> None:
        """Once a second: count, tell of drops, and look for interfaces."""
        now = time.monotonic()
        if now - self._counted_at < 1:
            return
        self._counted_at = now
        self.count()
        if now - self._told_at >= TOLD_S:
            self._tell_drops()
        for place, ring in enumerate(self._rings):
            if ring.interface:
                self._look_for(place, ring)

    def count(self) -> None:
        """Ask the kernel what it received and dropped."""
        for ring, counts in zip(self._rings, self.counts, strict=True):
            received, dropped = ring.counts()
            counts.received += received
            counts.dropped += dropped
            self.captures[0].dropped += dropped

    def _tell_drops(self, *, at_end: bool = False) -> None:
        dropped = sum(each.dropped for each in self.counts)
        if dropped > self._told_drops:
            seconds = time.monotonic() - self._told_at
            of = f", {dropped:,} in all" if self._told_drops else ""
            advice = "" if at_end else ": decoding does not keep up; -f or --ports-only take less"
            new = dropped - self._told_drops
            names = ", ".join(each.name for each in self.counts if each.dropped)
            self._tell(f"{names}: {new:,} packet{'s'[: new > 1]} dropped in {seconds:.0f} s{of}{advice}")
            self._told_drops = dropped
        self._told_at = time.monotonic()

    def _look_for(self, place: int, ring: PacketRing) -> None:
        """Tell when an interface goes, and take it up again when it comes."""
        counts = self.counts[place]
        state = ring.state()
        if state == "here" and not counts.is_away:
            return
        if not counts.is_away:
            counts.is_away = True
            self._away_since[place] = time.monotonic()
            self._tell(f"{ring.interface} {'went away' if state == 'gone' else 'is down'}; waiting for it")
        if state == "here" or (state == "other" and ring.rebind()):
            counts.is_away = False
            seconds = time.monotonic() - self._away_since.pop(place)
            self._tell(f"{ring.interface} is back after {seconds:.0f} s")
            detail = f"{ring.interface} was away for {seconds:.0f} s: packets of that time are missing"
            report(self.captures[0], detail, 0, "warning")


class _InterfaceNumbers:
    """Numbers interfaces: those that were asked for, then those that ``any`` shows, as they come."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = [name for name in names if name != ANY]
        self._of: dict[str, int] = {name: number for number, name in enumerate(self.names)}
        self._of_index: dict[int, int] = {}

    def numbers(self, name: str, ifindex: Int32s) -> Int32s:
        """The numbers of packets' interfaces; ``name`` is what was listened on."""
        if name != ANY:
            return np.full(len(ifindex), self._of[name], np.int32)
        indexes, where = np.unique(ifindex, return_inverse=True)
        found = [self._number(index) for index in indexes.tolist()]
        return np.array(found, np.int32)[where.reshape(-1)]

    def _number(self, index: int) -> int:
        number = self._of_index.get(index)
        if number is None:
            try:
                name = socket.if_indextoname(index)
            except OSError:
                name = f"interface {index}"
            number = self._of.get(name)
            if number is None:
                number = self._of[name] = len(self.names)
                self.names.append(name)
            self._of_index[index] = number
        return number


def linktypes_of(hatype: Int32s) -> Int32s:
    """The link types of packets by their hardware; those that are not known get a negative number."""
    kinds, where = np.unique(hatype, return_inverse=True)
    found = [_LINKTYPES.get(kind, -kind) for kind in kinds.tolist()]
    return np.array(found, np.int32)[where.reshape(-1)]


def list_interfaces() -> list[tuple[str, str]]:
    """(name, state and kind) of each interface of this machine."""
    found = []
    for _, name in socket.if_nameindex():
        place = Path("/sys/class/net", name)
        state, kind = (_first_line(place / each) for each in ("operstate", "type"))
        what = "loopback" if kind == str(HATYPE_LOOPBACK) else "raw IP" if kind in map(str, HATYPES_RAW) else ""
        found.append((name, " ".join(word for word in (state if state != "unknown" else "", what) if word)))
    return found


def _first_line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _deadline(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else time.monotonic() + duration_ns / SECOND_NS


def _open_rings(names: Sequence[str], wishes: CaptureWishes, tell: Callable[[str], object]) -> list[PacketRing]:
    """A ring for each interface."""
    if sys.platform != "linux":
        raise CaptureError("live capture works on Linux; elsewhere use: tcpdump -w - | mqsniff decode -")
    there = [name for _, name in socket.if_nameindex()]
    for name in names:
        if name != ANY and name not in there:
            raise CaptureError(f"{name}: no such interface (there are {', '.join((ANY, *there))})")
    rings: list[PacketRing] = []
    try:
        for name in names:
            rings += [_open_ring(name, wishes, len(names), tell)]
    except BaseException:
        for ring in rings:
            ring.close()
        raise
    return rings


def _open_ring(name: str, wishes: CaptureWishes, share: int, tell: Callable[[str], object]) -> PacketRing:
    _check_right(name)
    program = _program(name, wishes, tell)
    promiscuous = wishes.promiscuous and name != ANY
    try:
        return PacketRing(
            "" if name == ANY else name,
            program,
            size=wishes.buffer // share,
            snaplen=wishes.snaplen,
            promiscuous=promiscuous,
        )
    except OSError as error:
        raise CaptureError(f"{name}: {error.strerror or error}") from None


def _check_right(name: str) -> None:
    """CaptureError without the right to capture."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except PermissionError:
        python = os.path.realpath(sys.executable)
        raise CaptureError(
            f"{name}: not allowed to capture; CAP_NET_RAW is missing: run as root, or once: "
            f"sudo setcap cap_net_raw,cap_net_admin+ep {python}"
        ) from None


def _program(name: str, wishes: CaptureWishes, tell: Callable[[str], object]) -> list[BpfStep]:
    if wishes.bpf is None:
        return everything()
    try:
        return capture_program(wishes.bpf, is_default=wishes.is_default, interface="" if name == ANY else name)
    except FilterError as error:
        if wishes.is_default:
            tell(f"everything is captured: {error}")
            return everything()
        raise CaptureError(f"{name}: filter {wishes.bpf!r} cannot be used: {error}") from None
