"""TLS: records and handshakes with their key log, and key logs by themselves."""

from __future__ import annotations

import io
import ssl
from collections.abc import Iterator
from functools import cache

import lawsamples
import tlscraft

from mqsniff.limits import KIB, Limits
from mqsniff.model import Chunk, Gap, Side
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.keylog import KeyLog, KeyRing
from mqsniff.tls.output import Plain

from . import dialogues
from .judging import Target

LIMITS = Limits(tls_trials_max=64)
LATE, KEYLESS = 1, 2


def open_records(data: bytes) -> None:
    """size of the key log u16 | key log | conversation: no more plain bytes than there are, any cuts the same."""
    size = int.from_bytes(data[:2], "little")
    keys, (options, steps) = data[2 : 2 + size], dialogues.read(data[2 + size :])
    events = dialogues.events(steps)
    events = [piece for event in events for piece in _packets(event)]
    whole = _decoded(events, keys, options)
    assert whole == _decoded(_joined(events), keys, options), "packets together give other plain bytes"


def _decoded(events: list[Chunk | Gap], keys: bytes, options: int) -> tuple[object, ...]:
    ring = None if options & KEYLESS else KeyRing([KeyLog(keys)])
    decoder = TlsDecoder(ring, LIMITS, from_start=not options & LATE)
    plain, fed = [0, 0], [0, 0]
    said = [b"", b""]
    for event in events:
        if isinstance(event, Chunk):
            fed[event.side] += len(event.data)
        _take(decoder.feed(event), plain, said)
    for side in Side:
        _take(decoder.close(side), plain, said)
    decoder.conclude()
    for side in Side:
        assert plain[side] <= fed[side], "more plain bytes than bytes"
        assert 0 <= decoder.unread(side) <= fed[side], "more bytes are unread than there are"
        decoder.why_not(side)
        decoder.is_clear(side)
    facts = decoder.facts
    unread = [decoder.unread(side) for side in Side]
    return said, unread, facts.version, facts.cipher, facts.keys, facts.server_name


def _take(items: list[object], plain: list[int], said: list[bytes]) -> None:
    for item in items:
        if isinstance(item, Plain):
            plain[item.side] += len(item.data)
            said[item.side] += item.data


def _packets(event: Chunk | Gap) -> Iterator[Chunk | Gap]:
    """Small packets."""
    if isinstance(event, Gap):
        yield event
        return
    (mark,) = event.marks
    for start in range(0, len(event.data), 61):
        offset = event.offset + start
        yield Chunk(event.side, offset, event.data[start : start + 61], [mark._replace(offset=offset)])


def _joined(events: list[Chunk | Gap]) -> list[Chunk | Gap]:
    """Packets of a side that follow each other, as one chunk."""
    out: list[Chunk | Gap] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Chunk) and isinstance(last, Chunk) and last.side is event.side:
            out[-1] = Chunk(event.side, last.offset, last.data + event.data, [*last.marks, *event.marks])
        else:
            out.append(event)
    return out


@cache
def _tapes() -> tuple[tlscraft.TlsTape, ...]:
    words = [(Side.CLIENT, b"one"), (Side.SERVER, b"two" * 40), (Side.CLIENT, b"three")]
    versions = ssl.TLSVersion
    cases = [(versions.TLSv1_3, "", 0), (versions.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", 0)]
    cases += [(versions.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305", 0), (versions.TLSv1, "ECDHE-ECDSA-AES128-SHA", 0)]
    cases += [(versions.TLSv1_2, "ECDHE-ECDSA-AES256-SHA", tlscraft.NO_ENCRYPT_THEN_MAC)]
    spoken = [tlscraft.talk(*tlscraft.contexts(one, two, options=three), words) for one, two, three in cases]
    for early in (False, True):
        hand = tlscraft.Written13(0x1301, early=early)
        hand.begin()
        if early:
            hand.send(Side.CLIENT, hand.early.seal(b"early data"))
        hand.answer(accepts=early)
        hand.finish()
        hand.say(Side.CLIENT, b"ask")
        hand.send(Side.CLIENT, hand.sealers[Side.CLIENT].update())
        hand.say(Side.SERVER, b"answer", padding=30)
        spoken.append(hand.tape)
    return tuple(spoken)


def conversations() -> Iterator[bytes]:
    """Conversations of OpenSSL and by hand, with and without keys, from the start and joined late."""
    for tape in _tapes():
        says = [dialogues.Say(side, data) for side, data in tape.sent]
        keys = tape.keys.encode()
        for options in (0, LATE, KEYLESS):
            yield len(keys).to_bytes(2, "little") + keys + dialogues.written(says, options)


def read_log(data: bytes) -> None:
    """A key log: its lines are found by what they are about, and copied as they are."""
    log = KeyLog(data)
    log.sentence()
    lines = list(log.all())
    assert len(lines) <= log.lines
    for label, about, secret in lines[:20]:
        found = log.find(about)
        assert label in found
        assert secret in [one for name, _about, one in lines if name == label]
    copy = io.BytesIO()
    log.copy_to(copy)
    assert copy.getvalue() == data + b"\n"
    ring = KeyRing([log, KeyLog(data[: len(data) // 2])])
    ring.connections(("CLIENT_RANDOM", "CLIENT_TRAFFIC_SECRET_0"), 4)
    ring.note_used()
    for _, about, _ in lines[:5]:
        assert ring.find(about)
    assert KeyLog("\n".join(ring.used_lines()).encode()).damaged == 0
    assert ring.generation >= 0


def logs() -> Iterator[bytes]:
    """Key logs of samples and of tests."""
    for path in sorted(lawsamples.PCAPS.rglob("*.keys")):
        yield path.read_bytes()[: 4 * KIB]
    for tape in _tapes():
        yield tape.keys.encode()
    yield (
        b"# comment\r\n\r\nRSA "
        + b"0" * 16
        + b" "
        + b"1" * 96
        + b"\nRSA Session-ID:"
        + b"ab" * 32
        + b" Master-Key:"
        + b"cd" * 48
    )


def targets() -> Iterator[Target]:
    """Two targets."""
    rooms = ("mqsniff/tls/*",)
    yield Target("tls", "records and handshakes of TLS", open_records, conversations, rooms, size_max=16 * KIB)
    yield Target("keylog", "key logs", read_log, logs, ("mqsniff/tls/keylog.py",))
