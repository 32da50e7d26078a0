"""Hypothesis strategies: TCP conversations, and what networks, taps and captures do to them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from tcpscript import ACK, FIN, RST, SYN, A, B, Packet, goodbye, handshake

from mqsniff.streams.segment import ZERO_WINDOW


@dataclass(frozen=True)
class Conversation:
    """Packets in the order in which they were sent, and the bytes of both directions."""

    packets: list[Packet]
    sent: dict[int, bytes]
    opening: int
    """How many packets the handshake takes."""


@st.composite
def conversations(draw: st.DrawFn, max_turns: int = 8) -> Conversation:
    """A whole connection: payload of both sides, pure acknowledgements, an orderly end or none."""
    packets = handshake(ip_id=7) if draw(st.booleans()) else []
    opening = len(packets)
    sent = {A: b"", B: b""}
    turns = st.tuples(st.sampled_from((A, B)), st.lists(st.integers(0, 40), max_size=10))
    for direction, sizes in draw(st.lists(turns, max_size=max_turns)):
        for size in sizes:
            data = draw(st.binary(min_size=size, max_size=size))
            # Each side has received everything that was sent before.
            packets.append(Packet(direction, len(sent[direction]), data, len(sent[1 - direction])))
            sent[direction] += data
            if draw(st.sampled_from((False, False, True))):
                flags = draw(st.sampled_from((0, 0, 0, ZERO_WINDOW)))
                packets.append(Packet(1 - direction, len(sent[1 - direction]), b"", len(sent[direction]), flags))
    if opening and draw(st.booleans()):
        packets += goodbye(len(sent[A]), len(sent[B]))
    numbered = [packet.but(ip_id=100 + place) for place, packet in enumerate(packets)]
    return Conversation(numbered, sent, opening)


@st.composite
def shuffled(draw: st.DrawFn, packets: list[Packet], first: int, reach: int = 6) -> list[Packet]:
    """Packets from ``first`` on, each at most about ``reach`` places from where it was."""
    delays = draw(st.lists(st.integers(0, reach), min_size=len(packets) - first, max_size=len(packets) - first))
    moved = sorted(range(len(delays)), key=lambda place: place + delays[place])
    return packets[:first] + [packets[first + place] for place in moved]


@st.composite
def doubled(draw: st.DrawFn, packets: list[Packet], first: int) -> tuple[list[Packet], int, int]:
    """(packets, copies, retransmissions): some packets once more, by the tap or by their sender."""
    told, copies, again = [*packets[:first]], 0, 0
    for packet in packets[first:]:
        told.append(packet)
        match draw(st.sampled_from(("once", "once", "copied", "sent again"))) if packet.data else "once":
            case "copied":
                told.append(packet)
                copies += 1
            case "sent again":
                told.append(packet.but(ip_id=packet.ip_id + 10_000))
                again += 1
    return told, copies, again


@st.composite
def damaged(draw: st.DrawFn, max_turns: int = 8) -> list[Packet]:
    """A connection, or two on the same ports, with everything that captures show: lost, cut, doubled, swapped."""
    packets: list[Packet] = []
    for _ in range(draw(st.integers(1, 2))):
        conversation = draw(conversations(max_turns))
        told, _, _ = draw(doubled(conversation.packets, 0))
        told = draw(shuffled(told, 0, draw(st.sampled_from((0, 3, 40)))))
        shift = draw(st.integers(0, 1)) * 100_000
        unseen = draw(st.sampled_from((None, None, A, B)))
        unseen_until = draw(st.integers(0, len(told)))
        for place, packet in enumerate(told):
            if packet.direction == unseen and place < unseen_until:
                continue
            match draw(st.sampled_from(("fine",) * 60 + ("lost", "lost", "cut", "forged"))):
                case "fine":
                    packets.append(packet.but(isn=_isn(packet, shift)))
                case "cut":
                    packets.append(packet.but(data=packet.data[:3], size=len(packet.data), isn=_isn(packet, shift)))
                case "forged":
                    packets.append(draw(garbage()))
    return draw(timed(packets))


def _isn(packet: Packet, shift: int) -> int | None:
    return None if not shift else {A: 1_000, B: 5_000}[packet.direction] + shift


@st.composite
def timed(draw: st.DrawFn, packets: list[Packet]) -> list[Packet]:
    """Packets with times: a millisecond apart, with a few steps back, pauses and very long pauses."""
    pauses = st.sampled_from((-5.0, 30.0, 250.0, 15_000.0, 70_000.0, 4_000_000.0))
    steps = draw(st.dictionaries(st.integers(0, len(packets)), pauses, max_size=4))
    now, told = 10.0, []
    for place, packet in enumerate(packets):
        now += steps.get(place, 1.0)
        told.append(packet.but(ms=now))
    return told


@st.composite
def garbage(draw: st.DrawFn) -> Packet:
    """A segment whose fields say anything."""
    return Packet(
        direction=draw(st.sampled_from((A, B))),
        seq=draw(st.one_of(st.integers(-100, 400), st.integers(0, (1 << 32) - 1))),
        data=draw(st.binary(max_size=20)),
        ack=draw(st.one_of(st.none(), st.integers(-100, 400), st.integers(0, (1 << 32) - 1))),
        flags=draw(st.sampled_from((0, 0, 0, 0, FIN, SYN, RST, SYN | FIN, ACK | 32))),
        ip_id=draw(st.integers(-1, 3)),
        interface=draw(st.integers(0, 1)),
    )
