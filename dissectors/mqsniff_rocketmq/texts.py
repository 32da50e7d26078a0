"""Readers of formatted text inside extFields, bodies and messages; None if the text has another format.

Also decides by names and texts which values are secrets.

Sources: MessageDecoder.string2messageProperties, ExtraInfoUtil, RecallMessageHandle and BatchAck of apache/rocketmq.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from mqsniff.model import PayloadMap, Value

NAME_END: Final = "\x01"
ENTRY_END: Final = "\x02"
BITS_MAX: Final = 1 << 16
"""Most bits of a set that are read: brokers put far fewer messages into an entry."""


def read_properties(text: str) -> PayloadMap | None:
    r"""Message properties: entries ``name \x01 value \x02``; the last \x02 may be missing.

    If a name occurs twice, the last value counts, as in Java: properties of a batch follow those of a message.
    """
    found = PayloadMap()
    for entry in text.removesuffix(ENTRY_END).split(ENTRY_END) if text else ():
        name, end, value = entry.partition(NAME_END)
        if not end or not name:
            return None
        found[name] = value
    return found


class PopHandle(NamedTuple):
    """The handle by which a client settles a popped message: extraInfo of an ACK, property POP_CK."""

    ck_queue_offset: int
    """Offset of the checkpoint in the revive queue, or the first offset of the pop."""
    pop_time: int
    """Milliseconds since 1970."""
    invisible_time: int
    """Milliseconds."""
    revive_qid: int
    """999 for an ordered pop."""
    retry: int
    """0: the topic, 1: its retry topic, 2: its retry topic in the new form."""
    broker_name: str
    queue_id: int
    msg_queue_offset: int | None = None
    """None from older peers."""


def split_pop_handle(text: str) -> PopHandle | None:
    """A handle from its seven or eight words; None if the text is none."""
    words = text.split(" ")
    if len(words) not in (7, 8):
        return None
    numbers = [_integer(word) for index, word in enumerate(words) if index != 5]
    if None in numbers:
        return None
    offset, time, invisible, revive, retry, queue, *message = numbers
    return PopHandle(offset, time, invisible, revive, retry, words[5], queue, *message)  # type: ignore[arg-type]


def read_pop_handle(text: str) -> dict[str, Value] | None:
    """The fields of a handle by name; None if the text is none."""
    handle = split_pop_handle(text)
    if handle is None:
        return None
    return {name: value for name, value in zip(PopHandle._fields, handle, strict=True) if value is not None}


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) < 20 else None


def _items(text: str) -> list[list[str]]:
    return [item.split(" ") for item in text.split(";")] if text else []


def read_pop_start_offsets(text: str) -> list[Value] | None:
    """startOffsetInfo: ``retry queueId startOffset`` for each queue."""
    found: list[Value] = []
    for words in _items(text):
        numbers = [_integer(word) for word in words]
        if len(numbers) != 3 or None in numbers:
            return None
        found.append({"retry": numbers[0], "queue_id": numbers[1], "start_offset": numbers[2]})
    return found


def read_pop_message_offsets(text: str) -> list[Value] | None:
    """msgOffsetInfo: ``retry queueId offset,offset,…`` for each queue."""
    found: list[Value] = []
    for words in _items(text):
        if len(words) != 3:
            return None
        offsets: list[Value] = [_integer(word) for word in words[2].split(",")]
        head = [_integer(word) for word in words[:2]]
        if None in offsets or None in head:
            return None
        found.append({"retry": head[0], "queue_id": head[1], "offsets": offsets})
    return found


def read_pop_order_counts(text: str) -> list[Value] | None:
    """orderCountInfo: ``retry queueId count`` or ``retry qo<queueId>%<queueOffset> count``; lite pops: ``count``."""
    found: list[Value] = []
    for words in _items(text):
        count = _integer(words[-1])
        if count is None:
            return None
        item: dict[str, Value] = {"count": count}
        if len(words) == 3:
            queue, _, offset = words[1].removeprefix("qo").partition("%")
            numbers = [_integer(word) for word in (words[0], queue, offset) if word]
            if None in numbers or len(numbers) < 2:
                return None
            item = dict(zip(("retry", "queue_id", "queue_offset"), numbers, strict=False)) | item
        elif len(words) != 1:
            return None
        found.append(item)
    return found


def read_recall_handle(text: str) -> dict[str, Value] | None:
    """recallHandle: URL-safe base64 of ``v1 topic brokerName deliverTime messageId``."""
    try:
        words = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().split(" ")
    except (binascii.Error, ValueError):
        return None
    if len(words) != 5 or (time := _integer(words[3])) is None:
        return None
    names = ("version", "topic", "broker_name", "deliver_time", "message_id")
    return dict(zip(names, (*words[:3], time, words[4]), strict=True))


def read_bit_set(text: str) -> list[Value] | None:
    """The indexes whose bits are set, ascending: base64 of java.util.BitSet.toByteArray, the lowest bit first."""
    if len(text) > BITS_MAX // 6 + 4:
        return None
    try:
        bits = int.from_bytes(b64decode(text, validate=True), "little")
    except (binascii.Error, ValueError):
        return None
    found: list[Value] = []
    while bits:
        lowest = bits & -bits
        bits ^= lowest
        found.append(lowest.bit_length() - 1)
    return found


FORMATS: Final[Mapping[str, Callable[[str], Value]]] = MappingProxyType(
    {
        "properties": read_properties,
        "pop_handle": read_pop_handle,
        "pop_start_offsets": read_pop_start_offsets,
        "pop_message_offsets": read_pop_message_offsets,
        "pop_order_counts": read_pop_order_counts,
        "recall_handle": read_recall_handle,
    }
)
"""Name of a format in the tables -> its reader, which returns None for text of another format."""


# ---- secrets

_NAME: Final = re.compile(r"pass(?:word|wd|phrase)|secret|token|credential|jaas|signature|private_?key", re.IGNORECASE)
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9+/]{27}=|[A-Za-z0-9+/]{43}=")
"""HMAC-SHA1 or HMAC-SHA256 in base64, under whatever name: that of a damaged frame may be another."""
_TEXT: Final = re.compile(
    r"\b(?:[\w.-]*(?:password|passwd|secret|token)[\w.-]*)[\"']?\s*[:=]|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Whether a property, key or field of this name is a secret. AccessKey is not."""
    return _NAME.search(name) is not None


def holds_secret(text: str) -> bool:
    """Whether a text contains a secret: JSON or pairs with a secret name, credentials in a URI; or is a signature."""
    return _TEXT.search(text) is not None or _SIGNATURE.fullmatch(text) is not None
