"""IP fragments in, whole datagrams out; state that lives across batches, bounded in count, bytes and capture time.

1. A datagram is complete when its fragments cover it once, from 0 to the end of its last fragment.
2. A fragment that repeats an earlier one with the same bytes is a duplicate by the tap and is dropped, for a while also
   after its datagram was complete. Any other overlap rejects the whole datagram (RFC 5722, RFC 8200 section 4.5):
   overlapping fragments can show other bytes to an observer than to the receiver.
3. If the capture cut a fragment, the bytes of the datagram end there; its size is still that on the wire.
4. A datagram that is given up is a problem of its last packet. Time advances only with fragments, so results do not
   depend on batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.model import PacketProblem, Problem, ProblemKind

DATAGRAM_MAX: Final = 65_535
"""Payload of the largest IPv6 packet (RFC 8200, payload length); that of IPv4 is 20 bytes less."""
UNIT: Final = 8
"""The sizes of all fragments but the last are multiples of this (RFC 791, fragment offset)."""


class FragmentPacket(NamedTuple):
    """The packet that brought a fragment."""

    ordinal: int
    ts_ns: int
    packet: int


class Fragment(NamedTuple):
    """A piece of a datagram: ``size`` bytes on the wire, of which ``data`` was captured."""

    key: Hashable
    """Equal for all fragments of a datagram."""
    header: bytes
    """The IP header of the whole datagram, if this is its first fragment."""
    offset: int
    size: int
    more: bool
    data: bytes


class Datagram(NamedTuple):
    """A complete datagram; ``data`` is shorter than ``size`` if the capture cut one of its fragments."""

    header: bytes
    size: int
    data: bytes


@dataclass(slots=True)
class _Train:
    """The fragments of one datagram."""

    since_ns: int
    last: FragmentPacket
    offsets: list[int] = field(default_factory=list)
    """Offsets of ``fragments``, sorted."""
    fragments: list[Fragment] = field(default_factory=list)
    size: int = 0
    """Bytes of the fragments on the wire."""
    captured: int = 0
    total: int | None = None
    """Size of the datagram; None before its last fragment came."""

    def add(self, fragment: Fragment, place: FragmentPacket) -> None:
        index = bisect_left(self.offsets, fragment.offset)
        self.offsets.insert(index, fragment.offset)
        self.fragments.insert(index, fragment)
        self.size += fragment.size
        self.captured += len(fragment.data)
        self.last = place
        if not fragment.more:
            self.total = fragment.offset + fragment.size

    def is_copy(self, fragment: Fragment) -> bool:
        """Whether a fragment is a duplicate: the captured bytes of both have to be equal."""
        index = bisect_left(self.offsets, fragment.offset)
        if index == len(self.offsets):
            return False
        known = self.fragments[index]
        if (known.offset, known.size, known.more) != (fragment.offset, fragment.size, fragment.more):
            return False
        common = min(len(known.data), len(fragment.data))
        return known.data[:common] == fragment.data[:common]

    def fault(self, fragment: Fragment) -> Problem | None:
        """Why a fragment does not fit the others; None if it does."""
        stop = fragment.offset + fragment.size
        if fragment.size < 1 or stop > DATAGRAM_MAX or (fragment.more and fragment.size % UNIT):
            return Problem("malformed", "error", "IP fragment of an impossible size")
        index = bisect_left(self.offsets, fragment.offset)
        before = self.fragments[index - 1] if index else None
        reaches_in = before is not None and before.offset + before.size > fragment.offset
        if reaches_in or (index < len(self.offsets) and self.offsets[index] < stop):
            return Problem("overlap", "error", "IP fragments overlap: datagram dropped")
        is_behind_end = self.total is not None and stop > self.total
        is_end_before_others = not fragment.more and index < len(self.offsets)
        if is_behind_end or is_end_before_others:
            return Problem("malformed", "error", "IP fragment after the end of its datagram")
        return None

    def joined(self) -> Datagram:
        """The datagram, up to where the capture cut it."""
        pieces = []
        for fragment in self.fragments:
            pieces.append(fragment.data)
            if len(fragment.data) < fragment.size:
                break
        return Datagram(self.fragments[0].header, self.size, b"".join(pieces))


class Fragments:
    """All datagrams that wait for fragments."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._trains: OrderedDict[Hashable, _Train] = OrderedDict()  # a dict finds its first entry behind deleted ones
        self._closed: OrderedDict[Hashable, int] = OrderedDict()
        """Finished datagrams -> time until which their fragments are dropped."""
        self._count = 0
        self._captured = 0
        self._problems: list[PacketProblem] = []

    def add(self, fragment: Fragment, place: FragmentPacket) -> Datagram | None:
        """Add a fragment; returns the datagram if this completes it."""
        self._expire(place.ts_ns)
        closed_until_ns = self._closed.get(fragment.key)
        if closed_until_ns is not None and place.ts_ns <= closed_until_ns:
            return None
        train = self._trains.get(fragment.key) or _Train(place.ts_ns, place)
        if train.is_copy(fragment):
            return None
        fault = train.fault(fragment)
        self._trains[fragment.key] = train
        train.add(fragment, place)
        self._count += 1
        self._captured += len(fragment.data)
        if fault is not None:
            self._close(fragment.key, place.ts_ns + self._limits.fragments_ns)
            self._tell(train, fault)
        elif train.size == train.total:
            self._close(fragment.key, place.ts_ns + self._limits.doubled_ns)
            return train.joined()
        self._shed()
        return None

    def take_problems(self) -> list[PacketProblem]:
        """Problems of datagrams that were given up since the last call."""
        problems, self._problems = self._problems, []
        return problems

    def close(self) -> list[PacketProblem]:
        """Problems of datagrams that are incomplete at the end of the input."""
        while self._trains:
            self._give_up("truncated", "IP fragments without the rest of their datagram")
        return self.take_problems()

    def _expire(self, now_ns: int) -> None:
        while self._trains and next(iter(self._trains.values())).since_ns + self._limits.fragments_ns < now_ns:
            self._give_up("truncated", "IP fragments without the rest of their datagram")
        while self._closed and next(iter(self._closed.values())) < now_ns:
            del self._closed[next(iter(self._closed))]

    def _shed(self) -> None:
        while self._count > self._limits.fragments_max or self._captured > self._limits.fragments_size:
            self._give_up("limit", "too many IP fragments wait: the oldest datagram dropped")

    def _give_up(self, kind: ProblemKind, detail: str) -> None:
        """Give up the oldest datagram."""
        key, train = next(iter(self._trains.items()))
        self._forget(key)
        self._tell(train, Problem(kind, "error", detail))

    def _close(self, key: Hashable, until_ns: int) -> None:
        self._forget(key)
        self._closed.pop(key, None)
        self._closed[key] = until_ns
        while len(self._closed) > self._limits.fragments_max:
            del self._closed[next(iter(self._closed))]

    def _forget(self, key: Hashable) -> None:
        train = self._trains.pop(key)
        self._count -= len(train.fragments)
        self._captured -= train.captured

    def _tell(self, train: _Train, problem: Problem) -> None:
        self._problems.append(PacketProblem(*train.last, train.size, problem))
