"""A run and one packet of it in; the messages that touch the packet with their fields, or why there are none, out.

1. Reading ends as soon as every byte of the packet is explained.
2. Where no message touches the packet, its reason is told, and the nearest packets that have messages: of the same
   connection if there is one, else of any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mqsniff.answers.packetfinder import PacketFinder
from mqsniff.decode.foreign import TITLES
from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    Frame,
    Item,
    MessageItem,
    ProblemItem,
    Side,
    packet_capture,
    packet_number,
)

KAFKA_PORT: Final = 9092
"""The port on which Wireshark takes a connection for Kafka by itself."""
FRAMES_KEPT: Final = 256
"""Frames of a connection whose places are remembered, to find what a packet sends again."""


class NearMessage(NamedTuple):
    """A message near a packet: its name and its packets' ids."""

    name: str
    first_packet: int
    last_packet: int


class _Place(NamedTuple):
    """Where a frame stood."""

    side: Side
    start: int
    stop: int
    message: NearMessage


@dataclass(slots=True)
class Explanation:
    """What is known of a packet."""

    found: list[MessageItem] = field(default_factory=list)
    """The messages that touch it, in order, each with its spans."""
    why: str = ""
    """Why there are none."""
    before: NearMessage | None = None
    after: NearMessage | None = None


class Explainer:
    """Gathers what the items of a run tell of a packet."""

    def __init__(self, finder: PacketFinder) -> None:
        self._finder = finder
        self._found: list[MessageItem] = []
        self._explained = 0
        """How many bytes of the packet stand in messages."""
        self._problems: list[ProblemItem] = []
        self._places: dict[str, deque[_Place]] = {}
        self._before: NearMessage | None = None
        self._after: dict[str, NearMessage] = {}
        """The first message after the packet, by connection and (as '') of any."""

    def explain(self, items: Iterable[Item | None]) -> Explanation:
        """Read items until the packet is explained."""
        for item in items:
            match item:
                case MessageItem():
                    self._take_message(item)
                case ProblemItem() if item.problem.offset is not None or item.packet == self._finder.packet:
                    self._take_problem(item)
                case ClosedItem(connection):
                    if connection is not self._finder.connection:
                        self._places.pop(connection.connection_id, None)
                        self._finder.forget(connection)
                    elif self._found:
                        break
            if self._is_done:
                break
        return self._explanation()

    # ---- items

    def _take_message(self, item: MessageItem) -> None:
        info, frame = item.connection, item.message.frame
        finder = self._finder
        if item.spans is not None:
            self._found.append(item)
            self._explained += self._bytes_of(frame)
            return
        packet = finder.packet
        if packet is None:
            return
        near = NearMessage(item.message.name, frame.first_packet, frame.last_packet)
        places = self._places.setdefault(info.connection_id, deque(maxlen=FRAMES_KEPT))
        places.append(_Place(frame.side, frame.offset, frame.offset + frame.size, near))
        if packet_capture(frame.first_packet) != packet_capture(packet):
            return
        if frame.last_packet < packet:
            self._before = near
        elif frame.first_packet > packet:
            for name in ("", info.connection_id):
                self._after.setdefault(name, near)

    def _bytes_of(self, frame: Frame) -> int:
        place = self._finder.place
        if place is None or self._finder.connection is None or self._finder.connection.layered:
            return 0
        return max(0, min(place[1], frame.offset + frame.size) - max(place[0], frame.offset))

    def _take_problem(self, item: ProblemItem) -> None:
        """Keep a problem that may tell why bytes of the packet are in no message."""
        if item.connection is None or item.connection is self._finder.connection or self._finder.connection is None:
            self._problems.append(item)
            del self._problems[:-FRAMES_KEPT]

    # ---- the end

    @property
    def _is_done(self) -> bool:
        """Whether later items have nothing to add."""
        finder = self._finder
        segment, info = finder.segment, finder.connection
        if self._found:
            assert segment is not None
            near = self._after.get(info.connection_id if info is not None else "")
            return self._explained >= segment.size or (near is not None and finder.place is None)
        if finder.problem is not None or (segment is not None and info is None):
            return "" in self._after
        if segment is None or info is None:
            return False
        return not segment.size and info.connection_id in self._after

    def _explanation(self) -> Explanation:
        found = Explanation(self._found)
        if self._found:
            return found
        info = self._finder.connection
        found.why = self._reason(info)
        if info is None:
            found.before, found.after = self._before, self._after.get("")
            return found
        places = [place.message for place in self._places.get(info.connection_id, ())]
        packet = self._finder.packet or 0
        found.before = next((near for near in reversed(places) if near.last_packet < packet), self._before)
        found.after = self._after.get(info.connection_id, self._after.get(""))
        return found

    def _reason(self, info: ConnectionInfo | None) -> str:
        """Why no message touches the packet."""
        finder = self._finder
        segment = finder.segment
        if finder.problem is not None:
            return f"it could not be decoded: {finder.problem.problem.detail}"
        if segment is None:
            return "it carries no TCP segment"
        if not segment.size:
            return f"it is {segment.text}, without bytes of a stream"
        if info is None:
            return f"its {segment.size} bytes of TCP belong to no connection"
        return self._of_bytes(info, segment.size)

    def _of_bytes(self, info: ConnectionInfo, size: int) -> str:
        """Why the bytes of a packet are in no message."""
        again = self._sent_before(info)
        if again is not None:
            return f"it is a retransmission: its bytes stand in {again.name} of {packets_text(again)}"
        place = self._finder.place
        if info.proxy_bytes and place is not None and place[1] <= info.proxy_bytes:
            return f"its {size} bytes are a PROXY protocol head: the client is {info.proxy_client or 'unknown'}"
        for item in self._problems:
            if item.problem.kind == "retransmission" and item.packet == self._finder.packet:
                return f"it is a retransmission: {item.problem.detail}"
        if info.protocol in TITLES or info.protocol == "tls":
            title = "TLS" if info.protocol == "tls" else TITLES[info.protocol]
            return f"its {size} bytes are {title}, which is not decoded{_needs_keys(info)}"
        told = self._told_problem(info)
        if told is not None:
            return f"its {size} bytes are not decoded: {told}"
        if info.tls_version is not None and info.tls_keys != "used":
            return f"its {size} bytes are TLS, which is not decoded{_needs_keys(info)}"
        if info.protocol == "unknown":
            return f"its {size} bytes are of an unknown protocol (port {info.server_port}; --decode-as may name it)"
        if info.layered:
            return f"its {size} bytes are compressed or encrypted, and complete no message"
        return f"its {size} bytes stand in no message that the capture completes"

    def _sent_before(self, info: ConnectionInfo) -> NearMessage | None:
        """The message that has the bytes of the packet, from other packets."""
        place, side = self._finder.place, self._finder.side
        if place is None or info.layered:
            return None
        for known in self._places.get(info.connection_id, ()):
            if known.side is side and known.start < place[1] and place[0] < known.stop:
                return known.message
        return None

    def _told_problem(self, info: ConnectionInfo) -> str | None:
        """A problem of the connection that is about bytes of the packet."""
        place, side = self._finder.place, self._finder.side
        for item in self._problems:
            problem = item.problem
            if item.connection is not info or problem.kind in {"gap", "retransmission", "zero_window", "stall"}:
                continue
            if item.packet == self._finder.packet:
                return problem.detail
            if place is None or problem.offset is None or problem.side not in (side, None):
                continue
            if problem.offset < place[1] and place[0] < problem.offset + (problem.size or 1):
                return problem.detail
        return None


def _needs_keys(info: ConnectionInfo) -> str:
    """What would open the TLS of a connection; nothing for other protocols."""
    if info.protocol in TITLES:
        return ""
    name = f"server name {info.tls_server_name}; " if info.tls_server_name else ""
    return f" ({name}--tls-keys FILE may open it)"


def packets_text(near: NearMessage) -> str:
    """Packets by their numbers: "packet 3", "packets 3 to 5"."""
    first, last = packet_number(near.first_packet), packet_number(near.last_packet)
    return f"packet {first}" if first == last else f"packets {first} to {last}"


def display_filter(item: MessageItem) -> str:
    """What finds a message in Wireshark: its connection, and where Wireshark decodes it, its correlation id."""
    info, message = item.connection, item.message
    version = "ipv6" if ":" in info.client_ip else "ip"
    told = [f"{version}.addr == {info.client_ip}", f"tcp.port == {info.client_port}"]
    told[1:1] = [f"{version}.addr == {info.server_ip}"]
    told.append(f"tcp.port == {info.server_port}")
    if message.protocol == "kafka" and message.correlation is not None and info.server_port == KAFKA_PORT:
        told.append(f"kafka.correlation_id == {message.correlation}")
    return " && ".join(told)
