"""TCP connections as networks, attackers and captures mangle them: a seed in, packets out, and a capture of many.

1. A byte tells its offset and who sent it: lower-case letters are the stream as it was sent first, upper-case letters
   and digits are other bytes for the same offsets. So a stream shows by itself which packet each byte came from.
2. Every mangling has a name; a seed chooses one to three of them. The same seed gives the same packets.
3. Each connection has an address of its own: the flow of seed 7 is 10.1.0.7.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
START_NS: Final = 1_700_000_000 * 10**9
STEP_NS: Final = 1_000_000
CLIENT_PORT, SERVER_PORT = 40_000, 40_001
"""Ports of no protocol that tshark knows."""
TRUE, OTHER, THIRD = 0, 1, 2
_ALPHABETS: Final = (b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789")


def text(start: int, stop: int, variant: int = TRUE) -> bytes:
    """The bytes of a stream between two offsets; they repeat after 676 bytes (digits: 100)."""
    letters = _ALPHABETS[variant]
    count = len(letters)
    return bytes(letters[(offset + offset // count) % count] for offset in range(start, stop))


@dataclass(frozen=True)
class MangledPacket:
    """A segment; ``seq`` and ``ack`` are offsets into the streams, -1 for a SYN."""

    side: int
    seq: int
    data: bytes = b""
    ack: int | None = 0
    flags: int = ACK
    window: int = 8192
    tsval: int | None = None
    delay_ns: int = STEP_NS
    life: int = 0
    """Number of the connection on these ports."""

    @property
    def stop(self) -> int:
        """Offset after its last byte."""
        return self.seq + len(self.data)


@dataclass
class Script:
    """The packets of one flow while they are mangled."""

    dice: random.Random
    packets: list[MangledPacket] = field(default_factory=list)
    first_numbers: list[tuple[int, int]] = field(default_factory=list)
    """Of each connection the sequence numbers of its SYNs."""

    def data_places(self, least: int = 1) -> list[int]:
        """Indices of packets with payload of at least so many bytes, but SYNs."""
        return [at for at, packet in enumerate(self.packets) if len(packet.data) >= least and not packet.flags & SYN]

    def choose(self, places: list[int]) -> int | None:
        """One of them, or None."""
        return self.dice.choice(places) if places else None

    def insert(self, place: int, *packets: MangledPacket) -> None:
        """Put packets before the one at an index."""
        self.packets[place:place] = packets


# ---- the honest connection


def conversation(dice: random.Random, life: int = 0, *, close: bool = True) -> list[MangledPacket]:
    """A handshake, some turns of both sides, acknowledgements, an orderly end."""
    packets = [
        MangledPacket(0, -1, ack=None, flags=SYN, life=life),
        MangledPacket(1, -1, ack=0, flags=SYN | ACK, life=life),
        MangledPacket(0, 0, life=life),
    ]
    sent = [0, 0]
    for turn in range(dice.randint(3, 6)):
        side = turn % 2
        for _ in range(dice.randint(1, 4)):
            size = dice.randint(4, 24)
            data = text(sent[side], sent[side] + size)
            packets.append(MangledPacket(side, sent[side], data, sent[1 - side], ACK | PSH, life=life))
            sent[side] += size
        packets.append(MangledPacket(1 - side, sent[1 - side], b"", sent[side], life=life))
    if close:
        packets += [
            MangledPacket(0, sent[0], b"", sent[1], FIN | ACK, life=life),
            MangledPacket(1, sent[1], b"", sent[0] + 1, FIN | ACK, life=life),
            MangledPacket(0, sent[0] + 1, b"", sent[1] + 1, life=life),
        ]
    return packets


# ---- manglings: each changes a script

Mangling = Callable[[Script], None]
MANGLINGS: Final[dict[str, Mangling]] = {}


def _mangling(function: Mangling) -> Mangling:
    MANGLINGS[function.__name__.strip("_").replace("_", " ")] = function
    return function


def _again(packet: MangledPacket, start: int, stop: int, variant: int = TRUE) -> MangledPacket:
    """A segment with other bounds, and perhaps other bytes."""
    start = max(start, 0)
    return replace(packet, seq=start, data=text(start, stop, variant), flags=ACK | PSH)


@_mangling
def _sent_again(script: Script) -> None:
    """The same bytes once more, some packets later."""
    if (place := script.choose(script.data_places())) is not None:
        script.insert(min(place + script.dice.randint(1, 5), len(script.packets)), script.packets[place])


@_mangling
def _sent_again_with_other_bytes(script: Script) -> None:
    """Bytes that were delivered before, changed."""
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        again = _again(packet, packet.seq, packet.stop, OTHER)
        script.insert(min(place + script.dice.randint(1, 5), len(script.packets)), again)


@_mangling
def _overlap_same_bytes(script: Script) -> None:
    """A segment that begins before the last one's end and ends behind it."""
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        wide = _again(packet, packet.seq - script.dice.randint(1, 6), packet.stop + script.dice.randint(1, 6))
        script.insert(place + 1, wide)


@_mangling
def _overlap_other_bytes(script: Script) -> None:
    """As before, with other bytes: the old ones were delivered, the new ones go beyond them."""
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        low, high = script.dice.randint(0, 6), script.dice.randint(1, 6)
        script.insert(place + 1, _again(packet, packet.seq - low, packet.stop + high, OTHER))


@_mangling
def _overlap_in_the_queue(script: Script) -> None:
    """Behind missing bytes two segments overlap with other bytes; then the missing ones come, alone or with more."""
    if (place := script.choose(script.data_places(10))) is None:
        return
    packet = script.packets[place]
    middle = packet.seq + 4
    first = _again(packet, middle + 1, packet.stop - 1, script.dice.choice((TRUE, OTHER)))
    other = OTHER if first.data[:1].islower() else TRUE
    starts_before, ends_after = script.dice.choice((-1, 0, 1)), script.dice.choice((-1, 0, 1))
    second = _again(packet, first.seq + starts_before, first.stop + ends_after, other)
    fill = _again(packet, packet.seq, script.dice.choice((middle, packet.stop - 2, packet.stop)), TRUE)
    script.packets[place : place + 1] = [first, second, fill, packet]


@_mangling
def _filled_with_other_bytes(script: Script) -> None:
    """Missing bytes come in a segment that also has other bytes for those which wait."""
    if (place := script.choose(script.data_places(8))) is None:
        return
    packet = script.packets[place]
    cut = packet.seq + script.dice.randint(2, 5)
    waiting = _again(packet, cut, packet.stop)
    fill = _again(packet, packet.seq, script.dice.randint(cut + 1, packet.stop), OTHER)
    script.packets[place : place + 1] = [waiting, fill]


@_mangling
def _numbers_wrap(script: Script) -> None:
    """The sequence numbers pass 2**32."""
    script.first_numbers = [(-script.dice.randint(0, 60) & 0xFFFFFFFF, -script.dice.randint(0, 60) & 0xFFFFFFFF)]


@_mangling
def _reordered(script: Script) -> None:
    """Packets after the handshake change places."""
    head, tail = script.packets[:3], script.packets[3:]
    moved = sorted(range(len(tail)), key=lambda place: place + script.dice.choice((0, 0, 0, 1.5, 2.5, 4.5)))
    script.packets = head + [tail[place] for place in moved]


@_mangling
def _lost(script: Script) -> None:
    """The capture lacks packets with payload."""
    for _ in range(script.dice.randint(1, 3)):
        if (place := script.choose(script.data_places())) is not None:
            del script.packets[place]


@_mangling
def _zero_window_probes(script: Script) -> None:
    """A window of zero; the peer sends the next byte alone, right or other, and then again with all."""
    if (place := script.choose(script.data_places(2))) is None:
        return
    packet = script.packets[place]
    shut = MangledPacket(1 - packet.side, packet.ack or 0, b"", packet.seq, window=0)
    probe = _again(packet, packet.seq, packet.seq + 1, script.dice.choice((TRUE, OTHER)))
    script.insert(place, shut, probe, shut, probe, replace(shut, window=8192))


@_mangling
def _keep_alives(script: Script) -> None:
    """One byte, or none, before the next one."""
    if (place := script.choose(script.data_places())) is None:
        return
    packet = script.packets[place]
    probe = replace(packet, seq=packet.stop - 1, data=script.dice.choice((b"", b"\0")), flags=ACK)
    answer = MangledPacket(1 - packet.side, packet.ack or 0, b"", packet.stop)
    script.insert(place + 1, *[probe, answer] * script.dice.randint(1, 3))


@_mangling
def _ports_used_again(script: Script) -> None:
    """A second connection on the same ports, with other initial numbers."""
    script.first_numbers.append((script.dice.getrandbits(32), script.dice.getrandbits(32)))
    script.packets += conversation(script.dice, len(script.first_numbers) - 1)


@_mangling
def _ports_used_again_with_the_same_number(script: Script) -> None:
    """A second connection with the client's number of the first; after FINs or after a RST."""
    first = script.first_numbers[0]
    server = script.dice.choice((first[1], script.dice.getrandbits(32)))
    script.first_numbers.append((first[0], server))
    if script.dice.random() < 0.5:
        last = script.packets[-1]
        script.packets.append(MangledPacket(last.side, last.stop, b"", last.ack, RST | ACK))
    script.packets += conversation(script.dice, len(script.first_numbers) - 1)


@_mangling
def _data_in_the_syn(script: Script) -> None:
    """TCP Fast Open: the first bytes are in the SYN (RFC 7413); the server takes them, or not and they come again."""
    place = next((place for place in script.data_places() if script.packets[place].side == 0), None)
    if place is not None:
        script.packets[0] = replace(script.packets[0], data=script.packets[place].data)
        if script.dice.random() < 0.5:
            del script.packets[place]


@_mangling
def _fin_before_data(script: Script) -> None:
    """A FIN overtakes the last bytes of its side."""
    fins = [place for place, packet in enumerate(script.packets) if packet.flags & FIN]
    if (place := script.choose(fins)) is not None:
        fin = script.packets.pop(place)
        earlier = [each for each in script.data_places() if script.packets[each].side == fin.side and each < place]
        script.insert(earlier[-1] if earlier else place, fin)


@_mangling
def _data_after_fin(script: Script) -> None:
    """Bytes behind the end."""
    fins = [place for place, packet in enumerate(script.packets) if packet.flags & FIN]
    if (place := script.choose(fins)) is not None:
        fin = script.packets[place]
        start = fin.stop + script.dice.choice((0, 1))
        script.insert(place + 1, replace(fin, seq=start, data=text(start, start + 9, THIRD), flags=ACK | PSH))


@_mangling
def _rst_in_the_middle(script: Script) -> None:
    """A RST at, inside or far outside of the window, with or without payload; the rest goes on."""
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        off = script.dice.choice((0, 0, 3, 5_000, 900_000_000))
        data = script.dice.choice((b"", b"", b"reset"))
        script.insert(place, replace(packet, seq=packet.seq + off, data=data, flags=RST | ACK))


@_mangling
def _old_timestamps(script: Script) -> None:
    """A segment with an old timestamp and other bytes comes first: a receiver drops it (RFC 7323, PAWS)."""
    script.packets = [replace(each, tsval=5_000 + place) for place, each in enumerate(script.packets)]
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        script.insert(place, replace(_again(packet, packet.seq, packet.stop, OTHER), tsval=17))


@_mangling
def _beyond_the_window(script: Script) -> None:
    """Bytes far behind the window that the peer offers, which a receiver drops."""
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        start = packet.stop + script.dice.choice((100_000, 900_000_000))
        script.insert(place + 1, replace(packet, seq=start, data=text(0, 12, THIRD)))


@_mangling
def _acknowledged_before_it_comes(script: Script) -> None:
    """The capture shows an acknowledgement before the bytes that it is for."""
    if (place := script.choose(script.data_places())) is not None:
        packet = script.packets[place]
        script.insert(place, MangledPacket(1 - packet.side, packet.ack or 0, b"", packet.stop))


@_mangling
def _begins_in_the_middle(script: Script) -> None:
    """The capture began after the connection."""
    del script.packets[: script.dice.randint(1, max(2, len(script.packets) // 2))]


@_mangling
def _one_side(script: Script) -> None:
    """Only one direction was captured."""
    side = script.dice.choice((0, 1))
    script.packets = [packet for packet in script.packets if packet.side == side]


@_mangling
def _urgent(script: Script) -> None:
    """A segment with urgent data (RFC 6093)."""
    if (place := script.choose(script.data_places())) is not None:
        script.packets[place] = replace(script.packets[place], flags=ACK | PSH | URG)


def script_of(seed: int) -> tuple[list[str], Script]:
    """(names of manglings, script) of a seed. The first seeds have each mangling alone."""
    dice = random.Random(seed)
    names = list(MANGLINGS)
    script = Script(dice, conversation(dice), [(dice.randint(1, 2**31), dice.randint(1, 2**31))])
    chosen = [names[seed % len(names)]]
    if seed >= 3 * len(names):
        chosen += dice.sample(names, dice.randint(0, 2))
    chosen = sorted(set(chosen), key=names.index)
    for name in chosen:
        MANGLINGS[name](script)
    return chosen, script


# ---- as a capture


def _frame(packet: MangledPacket, script: Script, seed: int, ip_id: int) -> bytes:
    client, server = script.first_numbers[packet.life]
    mine, peers = (client, server) if packet.side == 0 else (server, client)
    ack = 0 if packet.ack is None else peers + 1 + packet.ack
    options = b"" if packet.tsval is None else struct.pack(">BBBBII", 1, 1, 8, 10, packet.tsval, 1)
    ports = (CLIENT_PORT, SERVER_PORT) if packet.side == 0 else (SERVER_PORT, CLIENT_PORT)
    urgent = len(packet.data) if packet.flags & URG else 0
    tcp = struct.pack(
        ">HHIIBBHHH",
        *ports,
        mine + 1 + packet.seq & 0xFFFFFFFF,
        ack & 0xFFFFFFFF,
        (5 + len(options) // 4) << 4,
        packet.flags,
        packet.window,
        0,
        urgent,
    )
    ends = bytes((10, 1, *divmod(seed, 256))), bytes((10, 2, 0, 1))
    source, target = ends if packet.side == 0 else ends[::-1]
    size = 20 + len(tcp) + len(options) + len(packet.data)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, ip_id, 0, 64, 6, 0, source, target)
    return b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip + tcp + options + packet.data


def capture(seeds: Iterable[int]) -> bytes:
    """A pcap file with the flows of all seeds behind each other."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)]
    now_ns = START_NS
    for seed in seeds:
        _, script = script_of(seed)
        for number, packet in enumerate(script.packets, 1):
            now_ns += packet.delay_ns
            frame = _frame(packet, script, seed, number)
            parts += (struct.pack("<IIII", *divmod(now_ns, 10**9), len(frame), len(frame)), frame)
    return b"".join(parts)
