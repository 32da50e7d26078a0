"""Writes captures by ``struct`` for the tests of the readers: what goes in is what must come out."""

import struct
from pathlib import Path

from mqsniff.limits import Limits
from mqsniff.sources.files import FileSource

COMMENT = 1
PCAP_MAGICS = {"micro": 0xA1B2C3D4, "nano": 0xA1B23C4D, "modified": 0xA1B2CD34}


def pcap_head(order="<", kind="micro", linktype=1, snaplen=262_144, version=(2, 4)):
    return struct.pack(order + "IHHiIII", PCAP_MAGICS[kind], *version, 0, 0, snaplen, linktype)


def pcap_record(ts_ns, data, order="<", kind="micro", *, wirelen=None, interface=0, caplen=None):
    second, fraction = divmod(ts_ns, 10**9)
    if kind != "nano":
        fraction //= 1000
    caplen = len(data) if caplen is None else caplen
    head = struct.pack(order + "4I", second, fraction, caplen, len(data) if wirelen is None else wirelen)
    if kind == "modified":
        head += struct.pack(order + "IHBB", interface, 0x0800, 0, 0)
    return head + data


def pcap(packets, order="<", kind="micro", **head):
    """A pcap file of (ts_ns, data) packets."""
    return pcap_head(order, kind, **head) + b"".join(pcap_record(ts, data, order, kind) for ts, data in packets)


def option(code, value, order="<"):
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def options(pairs, order="<"):
    """A list of options with its end, or nothing."""
    return b"".join(option(code, value, order) for code, value in pairs) + (bytes(4) if pairs else b"")


def block(kind, body, order="<", trailer=None):
    size = len(body) + 12
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size if trailer is None else trailer)


def section(order="<", opts=(), version=(1, 0), length=-1):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, *version, length) + options(opts, order), order)


def interface(order="<", *, linktype=1, snaplen=0, resolution=None, offset=None, opts=()):
    opts = list(opts)
    if resolution is not None:
        opts.append((9, bytes([resolution])))
    if offset is not None:
        opts.append((14, struct.pack(order + "q", offset)))
    return block(1, struct.pack(order + "HHI", linktype, 0, snaplen) + options(opts, order), order)


def packet(ticks, data, order="<", *, number=0, wirelen=None, opts=(), caplen=None, trailer=None):
    body = struct.pack(
        order + "5I",
        number,
        ticks >> 32,
        ticks & 0xFFFFFFFF,
        len(data) if caplen is None else caplen,
        len(data) if wirelen is None else wirelen,
    )
    return block(6, body + data + bytes(-len(data) % 4) + options(opts, order), order, trailer)


def simple_packet(data, order="<", wirelen=None):
    return block(3, struct.pack(order + "I", wirelen or len(data)) + data + bytes(-len(data) % 4), order)


def old_packet(ticks, data, order="<", *, number=0, drops=0xFFFF, opts=()):
    body = struct.pack(order + "HH4I", number, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(2, body + data + bytes(-len(data) % 4) + options(opts, order), order)


def statistics(pairs, order="<", number=0):
    """An interface statistics block of (code, count) options."""
    body = struct.pack(order + "III", number, 0, 0)
    return block(5, body + options([(code, struct.pack(order + "Q", count)) for code, count in pairs], order), order)


def names(records, order="<"):
    """A name resolution block of (type, address + names) records."""
    return block(4, b"".join(option(kind, value, order) for kind, value in records) + bytes(4), order)


def secrets(kind, data, order="<"):
    return block(10, struct.pack(order + "II", kind, len(data)) + data + bytes(-len(data) % 4), order)


def rows(source):
    """All packets of a source as plain tuples; checks what every batch promises."""
    found = []
    for batch in source.batches():
        assert len(batch) > 0
        assert batch.ordinal == len(found)
        view = memoryview(batch.buffer)
        columns = (batch.ts_ns, batch.packet, batch.wirelen, batch.linktype, batch.interface, batch.start, batch.caplen)
        for ts, number, wirelen, linktype, number_of, start, caplen in zip(*(c.tolist() for c in columns), strict=True):
            assert len(view[start : start + caplen]) == caplen
            found.append((ts, bytes(view[start : start + caplen]), wirelen, linktype, number_of, number))
    return found


def read(data, folder, name="capture", **limits):
    """Write bytes to a file and read it: (rows, CaptureInfo)."""
    path = Path(folder, name)
    path.write_bytes(data)
    source = FileSource([str(path)], Limits(**limits))
    found = rows(source)
    return found, source.captures[0]


def packets_of(found):
    """(ts_ns, data) of rows."""
    return [row[:2] for row in found]


def read_at_all_windows(data, folder):
    """Rows and info, which are the same for each window."""
    first, *others = [read(data, folder, window=window) for window in (1 << 20, 1, 97, 1000)]
    for found, info in others:
        assert found == first[0]
        assert (info.problems, info.comments, info.names, info.secrets, info.dropped, info.unreadable) == (
            first[1].problems,
            first[1].comments,
            first[1].names,
            first[1].secrets,
            first[1].dropped,
            first[1].unreadable,
        )
    return first


def details(info):
    return [problem.detail for problem in info.problems]
