"""Secrets of a sample in, the bytes by which an output would show them out."""

from __future__ import annotations

import json
import re
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote_from_bytes

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import MessageItem, Secret, packet_number
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

PCAPS = Path(__file__).parents[1] / "pcaps"

_NAMED = re.compile(
    r"secrets/\d+|users/[^/]+/password|steps/\d+/conf/sasl[._](plain_)?password"
    r"|facts/hmac_base64|steps/\d+/result/hmacBase64"
)
"""Where a ``.json`` names secrets."""
_BASE64 = re.compile(r"base64", re.IGNORECASE)
_SIZE_MIN = 8
"""Bytes of a value of a dissector that is searched: a shorter one may stand anywhere by chance."""
_PIECE = re.compile(rb"[\w+/=.~^\]\[{}!@#$%&*-]{12,}")
"""What a SASL message carries: nonces, salts, proofs, tokens."""
_KEY = re.compile(r"^[A-Z_0-9]+ [0-9A-Fa-f]{64} ([0-9A-Fa-f]+)$", re.MULTILINE)


class SampleSecrets(NamedTuple):
    """The secrets of a sample."""

    named: frozenset[bytes]
    """Those that ``.json`` and secrets.toml name."""
    absent: dict[str, str]
    """Named secrets that are not on the wire -> why."""
    marked: frozenset[bytes]
    """Those that dissectors mark, and what these carry."""
    packets: dict[int, frozenset[bytes]]
    """Packets with marked ones, one for each name of a message -> what is marked in that message."""
    keys: frozenset[bytes]
    """Those of its key log, which no option shows."""


def samples() -> list[str]:
    """All samples, by their path below ``pcaps``."""
    return [str(path.relative_to(PCAPS)) for path in captures_under([PCAPS])]


@cache
def secrets_of(name: str) -> SampleSecrets:
    """The secrets of a sample."""
    told = tomllib.loads((PCAPS / "secrets.toml").read_text()).get(name, {})
    named = {secret.encode() for secret in told.get("secrets", ())}
    beside = (PCAPS / name).with_suffix(".json")
    if beside.exists():
        named |= set(_named_in(json.loads(beside.read_text()), ""))
    marked, packets = _marked(name)
    return SampleSecrets(
        frozenset(named), told.get("not_on_the_wire", {}), frozenset(marked), packets, frozenset(_keys_of(name))
    )


def _named_in(value: Any, path: str) -> Iterator[bytes]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _named_in(inner, f"{path}/{name}" if path else name)
        case list():
            for index, inner in enumerate(value):
                yield from _named_in(inner, f"{path}/{index}")
        case str() if _NAMED.fullmatch(path):
            yield b64decode(value) if _BASE64.search(path) else value.encode()


def _marked(name: str) -> tuple[set[bytes], dict[int, frozenset[bytes]]]:
    """(what dissectors mark as secret, some packets with it)."""
    capture = PCAPS / name
    settings = Settings(wanted=WITH_RECORDS, show_secrets=True)
    pipeline = Pipeline(FileSource([str(capture)]), settings, keys=key_logs_beside(capture))
    found: set[bytes] = set()
    packets: dict[int, frozenset[bytes]] = {}
    names: set[str] = set()
    for item in pipeline.items():
        if isinstance(item, MessageItem):
            here = {
                piece
                for secret in secrets_in(item.message.body)
                for piece in (secret, *_PIECE.findall(secret))
                if len(piece) >= _SIZE_MIN and not piece.isdigit()  # a number stands in other fields too
            }
            if here and item.message.name not in names:
                names.add(item.message.name)
                packets[packet_number(item.message.frame.first_packet)] = frozenset(here)
            found |= here
    return found, packets


def secrets_in(value: Any) -> Iterator[bytes]:
    """The secrets in a body."""
    match value:
        case Secret():
            yield value.data
        case dict():
            for inner in value.values():
                yield from secrets_in(inner)
        case list() | tuple():
            for inner in value:
                yield from secrets_in(inner)


def _keys_of(name: str) -> Iterator[bytes]:
    """Secrets of the key log beside a capture, and of blocks in it."""
    for path in (PCAPS / name, (PCAPS / name).with_suffix(".keys")):
        for secret in _KEY.findall(path.read_text("latin-1")) if path.exists() else ():
            yield bytes.fromhex(secret)


def forms(secret: bytes) -> frozenset[bytes]:
    """A secret as it is, as JSON and a URL escape it, in base64 at any place of a group, and in hex."""
    hexes = {secret.hex(), secret.hex(" "), secret.hex(":")}
    if len(secret) > 8:  # a line of a dump has 16 bytes
        hexes |= {secret[at : at + 8].hex(" ") for at in range(min(len(secret) - 7, 16))}
    texts = {text for each in hexes for text in (each, each.upper())}
    texts |= {quote_from_bytes(secret, safe=safe) for safe in ("", "/")}
    texts |= {"".join(f"%{byte:02{case}}" for byte in secret) for case in "xX"}
    texts |= {re.sub("%..", lambda escape: escape[0].lower(), text) for text in texts if "%" in text}
    made = {secret, *(text.encode() for text in texts)}
    made.add(
        json.dumps(secret.decode(errors="surrogateescape"), ensure_ascii=False)[1:-1].encode(errors="surrogateescape")
    )
    for shift in range(3):
        whole = b64encode(bytes(shift) + secret)
        inner = whole[-(-shift * 8 // 6) : (shift + len(secret)) * 8 // 6]
        made |= {inner, inner.translate(bytes.maketrans(b"+/", b"-_"))}
    return frozenset(made)


def found_in(data: bytes, secrets: frozenset[bytes]) -> set[bytes]:
    """The secrets that some bytes show, in any form."""
    return {secret for secret in secrets if any(form in data for form in _forms(secret))}


_forms = cache(forms)
