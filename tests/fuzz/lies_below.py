"""Lies below the protocols: capture files, IP and TCP, TLS, and what is compressed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import cramjam
import lz4.block
import tlscraft
from crc32c import crc32c
from lengths import Length, Part, honest, sized, uvarint

from mqsniff.codecs.blocks import decompress_partly
from mqsniff.model import Side

from . import dialogues, target_codecs, target_packets, target_tls
from .lying import LengthCase

PACKET = bytes(range(60))

# ---- captures


def _reads(data: bytes) -> Any:
    target_packets.read_capture(data)
    return data, target_packets._read(data, 1 << 30)


def pcaps() -> Iterator[LengthCase]:
    """pcap in both orders: the snap length of the file, both sizes of each packet."""
    for order, magic in (("<", b"\xd4\xc3\xb2\xa1"), (">", b"\xa1\xb2\xc3\xd4")):
        parts: list[Part] = [magic, struct.pack(order + "HHiI", 2, 4, 0, 0), Length(order + "I", 1000)]
        parts.append(struct.pack(order + "I", 1))
        for second in range(3):
            stamp = struct.pack(order + "II", second, 0)
            parts += [stamp, Length(order + "I", len(PACKET)), Length(order + "I", len(PACKET)), PACKET]
        yield LengthCase(f"pcap {order}", parts, _reads)


def _block(order: str, kind: int, body: list[Part]) -> list[Part]:
    size = Length(order + "I", len(honest(body)) + 12)
    return [struct.pack(order + "I", kind), size, *body, size]


def _options(order: str, *pairs: tuple[int, bytes]) -> list[Part]:
    out: list[Part] = []
    for code, value in pairs:
        out += [struct.pack(order + "H", code), Length(order + "H", len(value)), value + bytes(-len(value) % 4)]
    return [*out, bytes(4)]


def pcapngs() -> Iterator[LengthCase]:
    """pcapng in both orders: sections, interfaces, packets of all kinds, names, statistics, secrets, options."""
    for order in "<>":
        comment = _options(order, (1, b"a comment"))
        head = struct.pack(order + "IHH", 0x1A2B3C4D, 1, 0)
        parts = _block(order, 0x0A0D0D0A, [head, Length(order + "q", -1), *comment])
        interface = [
            struct.pack(order + "HH", 1, 0),
            Length(order + "I", 1000),
            *_options(order, (2, b"eth0"), (9, b"\6")),
        ]
        parts += _block(order, 1, interface)
        sizes = [Length(order + "I", len(PACKET)), Length(order + "I", len(PACKET))]
        stamp = struct.pack(order + "III", 0, 0, 7)
        parts += _block(order, 6, [stamp, *sizes, PACKET, *comment])
        parts += _block(order, 3, [sizes[0], PACKET])
        parts += _block(order, 2, [struct.pack(order + "HHII", 0, 0, 0, 9), *sizes, PACKET, *comment])
        name = [struct.pack(order + "H", 1), Length(order + "H", 9), b"\x0a\0\0\1host\0" + bytes(3), bytes(4)]
        parts += _block(order, 4, [*name, *comment])
        parts += _block(order, 5, [bytes(12), *_options(order, (5, bytes(8)))])
        keys = b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"11" * 48 + b"\n"
        parts += _block(
            order, 10, [struct.pack(order + "I", 0x544C534B), *sized(order + "I", [keys + bytes(-len(keys) % 4)])]
        )
        yield LengthCase(f"pcapng {order}", parts, _reads)


# ---- packets


def _decodes(*before: bytes) -> Any:
    def attempt(data: bytes) -> Any:
        packets = [*before, data]
        written = b"".join(struct.pack("<HHH", 1, len(each), 0) + each for each in packets)
        target_packets.decode_packets(written)
        return data, target_packets._segments(
            target_packets.PacketDecoder(target_packets.Limits()), [*_one(written)], 0
        )

    return attempt


def _one(written: bytes) -> Any:
    return target_packets._packets(written)


def packets() -> Iterator[LengthCase]:
    """IPv4, IPv6 with extensions, TCP with options; alone, tagged, and in a tunnel over UDP."""
    options: list[Part] = [b"\1\1\x08", Length(">B", 10), bytes(8)]
    ports = struct.pack(">HHII", 40_000, 9092, 7, 8)
    for words in range(16):
        tcp: list[Part] = [ports, bytes([words << 4, 24]), bytes(6), *options, b"payload"]
        yield LengthCase(f"TCP of {words} words", _ethernet(_ipv4(tcp)), _decodes())
        yield LengthCase(f"IPv4 of {words} words", _ethernet(_ipv4(tcp, words=words)), _decodes())
    tcp = [ports, bytes([8 << 4, 24]), bytes(6), *options, b"payload"]
    inside = _ethernet(_ipv4(tcp))
    size = len(honest(inside))
    for port, head in (
        (4789, b"\x08\0\0\0\0\0\7\0"),
        (6081, b"\0\0\x65\x58\0\0\7\0"),
        (6081, b"\x3f\0\x65\x58\0\0\7\0"),
    ):
        udp: list[Part] = [struct.pack(">HH", 1, port), Length(">H", 16 + size), b"\0\0", head, *inside]
        yield LengthCase(f"tunnel {port} {head[0]}", _ethernet(_ipv4(udp, protocol=17)), _decodes())
    for first in (0, 43, 51, 60, 44, 135):
        extension: list[Part] = [b"\6", Length(">B", 1 if first == 51 else 0), bytes(10 if first == 51 else 6)]
        body: list[Part] = [*extension, *tcp]
        head6: list[Part] = [b"\x60\0\0\0", Length(">H", len(honest(body))), bytes([first, 64]), b"\xfd" + bytes(31)]
        yield LengthCase(f"IPv6 with {first}", [bytes(12), b"\x86\xdd", *head6, *body], _decodes())


def _ipv4(body: list[Part], *, protocol: int = 6, words: int = 5) -> list[Part]:
    size = Length(">H", 20 + len(honest(body)))
    return [
        bytes([0x40 | words, 0]),
        size,
        struct.pack(">HHBBH", 1, 0, 64, protocol, 0),
        b"\x0a\0\0\1\x0a\0\0\2",
        *body,
    ]


def _ethernet(body: list[Part]) -> list[Part]:
    return [bytes(12), b"\x08\0", *body]


# ---- TLS


def _record(kind: int, body: list[Part]) -> list[Part]:
    return [bytes([kind, 3, 3]), *sized(">H", body)]


def _extension(kind: int, body: list[Part]) -> list[Part]:
    return [struct.pack(">H", kind), *sized(">H", body)]


def hellos() -> Iterator[LengthCase]:
    """Hellos of both sides with their extensions, a certificate, and protected records."""
    name = _extension(0, sized(">H", [b"\0", *sized(">H", [b"broker.example"])]))
    alpn = _extension(16, sized(">H", [*sized(">B", [b"kafka"]), *sized(">B", [b"h2"])]))
    versions = _extension(43, sized(">B", [b"\3\4\3\3"]))
    shares = _extension(51, sized(">H", [b"\0\x1d", *sized(">H", [bytes(32)])]))
    psk = _extension(41, [*sized(">H", [*sized(">H", [b"ticket"]), bytes(4)]), *sized(">H", sized(">B", [bytes(32)]))])
    suites = [*sized(">H", [b"\x13\1\xc0\x2b"]), *sized(">B", [b"\0"])]
    body = [b"\3\3", tlscraft.RANDOM, *sized(">B", [bytes(32)]), *suites]
    hello = [b"\1", *sized("u24", [*body, *sized(">H", [*name, *alpn, *versions, *shares, *psk])])]
    for version in (0x0304, 0x0303):
        extra = _extension(43, [b"\3\4"]) if version == 0x0304 else []
        chosen = [b"\3\3", bytes(32), *sized(">B", [bytes(32)]), b"\x13\1" if extra else b"\xc0\x2b", b"\0"]
        answer = [b"\2", *sized("u24", [*chosen, *sized(">H", [*extra, *alpn])])]
        pem = tlscraft.certificate()[0]
        der = _der(pem)
        chain = [b"\x0b", *sized("u24", sized("u24", sized("u24", [der])))]
        server_says = [*_record(22, answer), *([] if extra else _record(22, chain)), *_record(20, [b"\1"])]
        server_says += _record(23, [bytes(40)])
        for side, parts in ((Side.CLIENT, _record(22, hello)), (Side.SERVER, server_says)):
            yield LengthCase(
                f"TLS {version:x} {side.text}", parts, _opens(side, honest(_record(22, hello)), honest(server_says))
            )


def _der(pem: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def _opens(lying: Side, client_says: bytes, server_says: bytes) -> Any:
    keys = tlscraft.Written13().tape.keys.encode()

    def attempt(data: bytes) -> Any:
        said = {Side.CLIENT: client_says, Side.SERVER: server_says} | {lying: data}
        says = [dialogues.Say(side, said[side]) for side in Side]
        told = []
        for options in (0, target_tls.KEYLESS, target_tls.LATE):
            written = len(keys).to_bytes(2, "little") + keys + dialogues.written(says, options)
            target_tls.open_records(written)
            told.append(
                target_tls._decoded(dialogues.events(dialogues.read(dialogues.written(says))[1]), keys, options)
            )
        return data, told

    return attempt


# ---- what is compressed


def compressed() -> Iterator[LengthCase]:
    """Snappy blocks and chunks, LZ4 and zstd frames, stored blocks of DEFLATE."""
    text = b"orders " * 30
    raw = bytes(cramjam.snappy.compress_raw(text))
    yield LengthCase(
        "Snappy block", [Length("uvarint", len(text)), raw[len(uvarint(len(text))) :]], _opens_block("snappy")
    )
    block = lz4.block.compress(text, store_size=False)
    frame = [b"\x04\x22\x4d\x18\x60\x40\x82", *sized("<I", [block]), bytes(4)]
    yield LengthCase("LZ4 frame", frame, _opens_block("lz4"))
    zstd = [b"\x28\xb5\x2f\xfd\x20", Length(">B", len(text)), Length("u24le", len(text) << 3 | 1), text]
    yield LengthCase("zstd frame", zstd, _opens_block("zstd"))
    skipped = [b"\x50\x2a\x4d\x18", *sized("<I", [b"skip"]), honest(zstd)]
    yield LengthCase("zstd frame that is skipped", skipped, _opens_block("zstd"))
    stored: list[Part] = [b"\x78\x01\x01", Length("<H", len(text)), Length("<H", len(text) ^ 0xFFFF), text]
    stored.append(struct.pack(">I", zlib.adler32(text)))
    yield LengthCase("stored block of DEFLATE", stored, _opens_block("zlib"))
    chunks: list[Part] = [b"\xff", *sized("u24le", [b"sNaPpY"])]
    crc = struct.pack("<I", ((crc32c(text) >> 15 | crc32c(text) << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    chunks += [
        b"\0",
        *sized("u24le", [crc, raw]),
        b"\1",
        *sized("u24le", [crc, text]),
        b"\xfe",
        *sized("u24le", [bytes(9)]),
    ]
    yield LengthCase("chunks of a Snappy layer", chunks, _passes)


def _opens_block(codec: str) -> Any:
    number = target_codecs.NAMES.index(codec)

    def attempt(data: bytes) -> Any:
        target_codecs.open_block(bytes([number]) + data)
        return data, decompress_partly(codec, data, target_codecs.CAP)

    return attempt


def _passes(data: bytes) -> Any:
    for options in (1, 3):
        target_codecs.pass_layer(bytes([options, 3]) + data)
    return data


def cases() -> Iterator[LengthCase]:
    """All of them."""
    yield from pcaps()
    yield from pcapngs()
    yield from packets()
    yield from hellos()
    yield from compressed()
