"""Captures whose payloads hold capture records: made to lead astray who looks for records in the middle of a file.

Every packet is a TCP segment whose payload is a row of records (pcap) or blocks (pcapng) with TCP segments of their
own. The last of them ends with the payload, or leaps over what stands between two payloads into the next row, so that
the false chain never meets the true one. ``sloppy`` writers have headers that look worse than the false ones, though
readers take them: fractions above a second, lengths on the wire below the captured ones, wrong second block lengths.
"""

import struct
from random import Random

from capturecraft import block, interface, pcap_head, section
from tinycapture import ip_tcp

RAW = 101
START_S = 1_700_000_000
HEADERS = 40
"""Bytes of IP and TCP before a payload."""


def segment(random, payload, ports=(40_000, 4150)):
    return ip_tcp(ports, random.getrandbits(32), random.getrandbits(32), 0x18, payload)


def inner_segment(random, size):
    """A segment of another connection, of exactly so many bytes."""
    return segment(random, random.randbytes(size - HEADERS), (random.randrange(1, 65_536), 9092))


def pcap_capture(seed, *, sloppy, packets=60):
    """A hostile pcap file."""
    random = Random(seed)
    order = random.choice("<>")
    kind = random.choice(["micro", "nano"])
    out = bytearray(pcap_head(order, kind, linktype=RAW))
    leap, often = False, random.choice([0.5, 0.9, 1])
    for number in range(packets):
        leaps = random.random() < often and number + 1 < packets
        payload = _records(random, order, number, leap, leaps)
        data = segment(random, payload)
        fraction = random.randrange(10**6) + (2 * 10**9 if sloppy else 0)
        wirelen = random.randrange(len(data)) if sloppy and random.random() < 0.5 else len(data)
        out += struct.pack(order + "4I", START_S + number, fraction, len(data), wirelen) + data
        leap = leaps
    return bytes(out)


def _records(random, order, number, arrives, leaps):
    """A row of pcap records; where it ``leaps`` the last one ends where the next payload begins."""
    out = bytearray()
    if not arrives and random.random() < 0.5:
        out += random.randbytes(random.randrange(40))
    for _ in range(random.randrange(1, 6)):
        data = inner_segment(random, random.randrange(HEADERS, 120))
        out += struct.pack(order + "4I", START_S + number, random.randrange(10**6), len(data), len(data)) + data
    rest = random.randrange(HEADERS, 80)
    size = rest + (16 + HEADERS if leaps else 0)
    data = inner_segment(random, rest)
    return bytes(out + struct.pack(order + "4I", START_S + number, random.randrange(10**6), size, size) + data)


def pcapng_capture(seed, *, sloppy, packets=60):
    """A hostile pcapng file; among the blocks in its payloads are sections and interfaces."""
    random = Random(seed)
    order = random.choice("<>")
    out = bytearray(section(order) + interface(order, linktype=RAW))
    leap, often = 0, random.choice([0.5, 0.9, 1])
    for number in range(packets):
        leaps = random.random() < often and number + 1 < packets
        payload, leap = _blocks(random, order, number, leap, leaps)
        data = segment(random, payload)
        trailer = random.randrange(1 << 20) if sloppy else None
        out += _packet_block(order, number, data, trailer)
    return bytes(out)


def _packet_block(order, number, data, trailer=None):
    ticks = (START_S + number) * 10**6
    body = struct.pack(order + "5I", 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(6, body + data + bytes(-len(data) % 4), order, trailer)


def _blocks(random, order, number, leap, leaps):
    """(row of blocks, size of the block that leaps out of it); ``leap`` is that of the block that leaps into it."""
    out = bytearray(struct.pack(order + "I", leap) if leap else b"")
    for _ in range(random.randrange(1, 5)):
        choice = random.random()
        if choice < 0.1:
            out += interface(order, linktype=random.choice([1, RAW]), resolution=9)
        elif choice < 0.15:
            out += section(order) + interface(order, linktype=RAW)
        else:
            out += _packet_block(order, number, inner_segment(random, 4 * random.randrange(HEADERS // 4, 30)))
    if not leaps:
        return bytes(out), 0
    rest = 4 * random.randrange(10, 20)
    # Over the outer second length, the head of the next block, its IP and TCP, to the second length of its own.
    size = 28 + rest + 4 + 28 + HEADERS + 4
    caplen = size - 32
    ticks = (START_S + number) * 10**6
    head = struct.pack(order + "7I", 6, size, 0, ticks >> 32, ticks & 0xFFFFFFFF, caplen, caplen)
    return bytes(out + head + inner_segment(random, rest)), size
