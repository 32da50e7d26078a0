"""What the truth of a capture says of message bodies in, those bodies out: made anew by the rule that made them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

LOREM: Final = b"lorem ipsum dolor sit amet "


def text_body(topic: str, index: int, size: int) -> bytes:
    """The topic, a number, and filler."""
    body = b"%s-%05d-" % (topic.encode(), index)
    body += LOREM * (1 + size // len(LOREM))
    return body[:size]


def binary_body(_topic: str, index: int, size: int) -> bytes:
    """Every byte value, in steps of 31."""
    return bytes((index * 7 + at * 31) & 255 for at in range(size))


def json_body(topic: str, index: int, size: int) -> bytes:
    """An object of about that size."""
    body = b'{"seq":%d,"topic":"%s","pad":"' % (index, topic.encode())
    return body.ljust(size - 2, b"x") + b'"}'


def lcg_body(_topic: str, index: int, size: int) -> bytes:
    """The high bytes of a linear congruential generator: nothing that compresses."""
    state = (index * 2654435761 + 12345) & 0xFFFFFFFF
    body = bytearray()
    for _ in range(size):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        body.append(state >> 24)
    return bytes(body)


RULES: Final[dict[str, Callable[[str, int, int], bytes]]] = {
    "'%s-%05d-' % (topic, i)": text_body,
    "byte j = (i*7 + j*31) & 255": binary_body,
    '{"seq":i': json_body,
    "x0 = (i*2654435761+12345)": lcg_body,
}
"""How a rule's description begins -> the rule."""


def bodies_of(topic: str, told: dict[str, Any], first: int) -> Counter[bytes] | None:
    """The bodies that were published by a topic's rule; None for one that gives no sizes."""
    rule, count = told.get("body_rule", ""), told.get("published_over_tcp", told["published"])
    if literal := re.fullmatch(r"'([^']*%d)' % i", rule):
        return Counter(literal[1].encode() % index for index in range(count))
    made = next((make for start, make in RULES.items() if rule.startswith(start)), None)
    if made is None or "body_size" not in told:
        return None
    return Counter(made(topic, index, told["body_size"]) for index in range(first, first + count))
