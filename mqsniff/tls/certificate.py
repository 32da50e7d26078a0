"""A certificate in DER in, the names of its subject and issuer out.

Sources: RFC 5280 section 4.1, X.690 (DER), RFC 4514 (names as text: the most specific part first).

Nothing here raises, and nothing is believed: names are what the peer sent, checked by nobody.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NAME_MAX: Final = 1024
"""Characters of a name that are shown."""

_SHORT: Final = {
    bytes.fromhex("550403"): "CN", bytes.fromhex("550404"): "SN", bytes.fromhex("550405"): "serialNumber",
    bytes.fromhex("550406"): "C", bytes.fromhex("550407"): "L", bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET", bytes.fromhex("55040a"): "O", bytes.fromhex("55040b"): "OU",
    bytes.fromhex("55040c"): "title", bytes.fromhex("2a864886f70d010901"): "emailAddress",
    bytes.fromhex("0992268993f22c640119"): "DC", bytes.fromhex("0992268993f22c640101"): "UID",
}  # fmt: skip
_ENCODINGS: Final = {
    12: "utf-8",
    19: "ascii",
    20: "latin-1",
    22: "ascii",
    26: "ascii",
    28: "utf-32-be",
    30: "utf-16-be",
}


class CertificateNames(NamedTuple):
    """Whom a certificate names, as text; None where it cannot be read."""

    subject: str | None
    issuer: str | None


class _Element(NamedTuple):
    tag: int
    start: int
    stop: int
    """Its content is between them."""


def names_of(certificate: bytes) -> CertificateNames:
    """Subject and issuer."""
    outer = _element(certificate, 0, len(certificate))
    inner = None if outer is None else _element(certificate, outer.start, outer.stop)
    if inner is None:
        return CertificateNames(None, None)
    fields = _elements(certificate, inner)
    if fields and fields[0].tag == 0xA0:  # version; the first one leaves it out
        fields = fields[1:]
    if len(fields) < 5:
        return CertificateNames(None, None)
    return CertificateNames(_name(certificate, fields[4]), _name(certificate, fields[2]))


def _element(data: bytes, at: int, stop: int) -> _Element | None:
    """The element at a place; None where none fits."""
    if at + 2 > stop:
        return None
    size, start = data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, start = int.from_bytes(data[start : start + count], "big"), start + count
    return _Element(data[at], start, start + size) if start + size <= stop else None


def _elements(data: bytes, outer: _Element) -> list[_Element]:
    """The elements in one that holds others."""
    found, at = [], outer.start
    while (each := _element(data, at, outer.stop)) is not None:
        found.append(each)
        at = each.stop
    return found


def _name(data: bytes, name: _Element) -> str | None:
    """A name as text; empty names are None."""
    parts = []
    for relative in reversed(_elements(data, name)):
        values = [_value(data, each) for each in _elements(data, relative)]
        parts.append("+".join(value for value in values if value))
    return ",".join(part for part in parts if part)[:NAME_MAX] or None


def _value(data: bytes, pair: _Element) -> str | None:
    """A type and its value, as ``CN=broker``."""
    found = _elements(data, pair)
    if len(found) != 2:
        return None
    kind, value = found
    oid = data[kind.start : kind.stop]
    text = data[value.start : value.stop].decode(_ENCODINGS.get(value.tag, "latin-1"), "replace")
    return f"{_SHORT.get(oid) or _dotted(oid)}={_escaped(text)}"


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if numbers:
        first = min(numbers[0] // 40, 2)
        numbers[:1] = [first, numbers[0] - 40 * first]
    return ".".join(map(str, numbers))


def _escaped(text: str) -> str:
    """With backslashes before what would read as another part (RFC 4514 section 2.4)."""
    shown = "".join(f"\\{c}" if c in '"+,;<>\\' else c for c in text)
    return f"\\{shown}" if shown[:1] in ("#", " ") else shown
