"""Finds commands of clients of nsqd, and the end of an MPUB.

1. The end of an MPUB is found message by message: nsqd uses their count and sizes, and only range-checks the body size.
2. ``probe`` accepts what nsqd accepts, except lines that end with CR: those of NATS, which look similar, do.
"""

from __future__ import annotations

import re
from struct import Struct
from typing import Final

from mqsniff.dissector import NEED, NO_FRAME, IncrementalSize, Probed, WalkAborted, Walked
from mqsniff_nsq.lines import INT32
from mqsniff_nsq.tables import COMMANDS, MAX_MSG_SIZE, NAME_PATTERN

_TWO_INT32: Final = Struct(">ii")

_ID = rb"[0-9a-f]{16}"
_STRICT: Final = re.compile(
    rb"(?:(?P<bare>NOP|CLS|RDY(?: [0-9]{1,7})?|FIN %(id)s|TOUCH %(id)s|REQ %(id)s [0-9]{1,9}|SUB %(name)s %(name)s)"
    rb"|(?P<sized>PUB %(name)s|DPUB %(name)s [0-9]{1,9}|AUTH)|(?P<json>IDENTIFY)|(?P<messages>MPUB %(name)s))\n"
    % {b"name": NAME_PATTERN, b"id": _ID}
)
_BEGUN: Final = re.compile(rb"[A-Z]{1,8}(?: [ -~]{0,160})?\Z")
_WORDS: Final = tuple(COMMANDS)
_LIKELY: Final = re.compile(rb"(?:%s)[ \n]" % b"|".join(_WORDS))
_KNOWN: Final = re.compile(rb"(?:%s)(?:[ \n]|\r\n)" % b"|".join(_WORDS))
_KNOWN_STARTS: Final = tuple(word + end for word in _WORDS for end in (b" ", b"\r\n"))
_WEAK: Final = re.compile(rb"(?:NOP|CLS|AUTH|RDY[^\n]*)\n")

_PROVING: Final = re.compile(rb"(?:FIN|TOUCH|REQ|D?PUB|MPUB) ")
"""Commands that prove nsqd: not SUB, which is only words, and not IDENTIFY, which nsqlookupd has too."""

STRICT_MAX: Final = 160
"""Bytes that suffice for every line that ``probe`` accepts."""
WORD_MAX: Final = max(map(len, _WORDS))

IDENTIFY_MAX: Final = 65_536
"""Largest IDENTIFY that a search accepts."""


def walk_messages(walk: IncrementalSize, data: bytes) -> Walked:
    """Continue through the messages of an MPUB; ``state`` is the number of those left, None before the count.

    A message that nsqd would refuse ends the walk: the promised size is used.
    """
    left, at, end = walk.state, 0, len(data)
    if left is None:
        if end < 4:
            return NEED
        (left,) = INT32.unpack_from(data)
        if left <= 0:
            return WalkAborted(4)
        at = 4
    while left and at + 4 <= end:
        (size,) = INT32.unpack_from(data, at)
        if size <= 0 or (size > MAX_MSG_SIZE and walk.size + at + 4 + size > walk.promised):
            return WalkAborted(at + 4)
        at += 4 + size
        left -= 1
    if not left:
        return walk.size + at
    return IncrementalSize(walk.size + at, walk.promised, left) if at else NEED


def probe(head: bytes) -> Probed:
    """Size of the command that must start ``head``."""
    match = _STRICT.match(head)
    if match is None:
        return NEED if b"\n" not in head and (_BEGUN.match(head) or not head) else NO_FRAME
    start = match.end()
    if match.lastgroup == "bare":
        return start
    needed = {"sized": 4, "json": 5, "messages": 12}[match.lastgroup or ""]
    if len(head) < start + needed:
        return NEED
    (size,) = INT32.unpack_from(head, start)
    match match.lastgroup:
        case "json":
            fits = 2 <= size <= IDENTIFY_MAX and head[start + 4 : start + 5] == b"{"
        case "messages":
            count, first = _TWO_INT32.unpack_from(head, start + 4)
            fits = count >= 1 and first >= 1 and 4 + 5 * count <= size and 8 + first <= size
        case _:
            fits = size >= 1
    return start + 4 + size if fits else NO_FRAME


def scan(data: bytes, start: int) -> int:
    """First offset >= ``start`` where the line of a command may start."""
    tail, at = len(data) - STRICT_MAX, start
    while (match := _LIKELY.search(data, at)) is not None:
        at = match.start()
        if at >= tail or _STRICT.match(data, at):
            return at
        at += 1  # one word may contain another: DPUB, PUB
    return max(start, len(data) - WORD_MAX)


def is_proof(data: bytes) -> bool:
    """Whether bytes are one command that proves the protocol: by a message id, or a size that fits them."""
    return _PROVING.match(data) is not None and probe(data) == len(data)


def is_weak(line: bytes) -> bool:
    """Whether a command is too short to prove much alone."""
    return _WEAK.match(line) is not None


def may_begin(head: bytes) -> bool | None:
    """Whether a known command begins here; None: more bytes are needed."""
    if _KNOWN.match(head):
        return True
    return None if any(word.startswith(head) for word in _KNOWN_STARTS) else False
