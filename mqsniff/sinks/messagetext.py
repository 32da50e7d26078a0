"""A message that reports no error in, the end of its line of text out: what many lines share is made once. Hot.

1. The text equals the joined parts of ``lines.message_parts``, which is the slow twin; a line that is coloured, cut or
   wrapped is made of those.
2. Parts that many messages share (names, topics, groups, labels and texts of notes) are rendered once and cached,
   unless they are long: most of them come from the traffic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from mqsniff.model import Message
from mqsniff.sinks.lines import listed_topics, milliseconds
from mqsniff.sinks.tree import brief
from mqsniff.tables.escape import safe
from mqsniff.tables.values import Redaction

REMEMBERED: Final = 1024
"""Cached parts of lines, of each kind."""
LONG: Final = 256
"""Longer texts, in characters, are not cached."""
_INT_MAX: Final = 1 << 63


def message_text(message: Message, latency_ns: int | None, shown: Redaction) -> str:
    """What a line tells of a message after its name; the message has not failed."""
    told = "" if not message.answered and latency_ns is None else _answer(message, latency_ns)
    topics = message.topics or message.topic_ids
    if topics:
        told += _topics(topics) if len(topics) == 1 and len(topics[0]) < LONG else "  " + listed_topics(topics)
    if message.group:
        told += "  group=" + _text(message.group, shown)
    if message.error_code:
        told += "  code=" + safe(message.error_name or str(message.error_code))
    if message.answered:
        told += _asked(message)
    for label, value in message.notes:
        told += _label(label) + (str(value) if _is_number(value) else _text(value, shown))
    correlation = message.correlation
    if correlation is None:
        return f"{told}  {message.frame.size} B"
    if not (correlation.isdecimal() and correlation.isascii()):
        correlation = brief(correlation, shown)
    return f"{told}  {message.frame.size} B  id={correlation}"


def _answer(message: Message, latency_ns: int | None) -> str:
    """How long the reply took."""
    pending = message.answered[0] if message.answered else None
    if latency_ns is None:
        return ""
    settles = pending is not None and pending.link == "settlement"
    took = f"  {'after' if settles else 'in'} {milliseconds(latency_ns)}"
    return took + "  held" if pending is not None and pending.held else took


def _asked(message: Message) -> str:
    """The request, if its name is another one."""
    pending = message.answered[0]
    if pending.link == "settlement" or pending.message is None or pending.message.name == message.name:
        return ""
    return "  to " + safe(pending.message.name)


def _is_number(value: Any) -> bool:
    """Whether a value is its own text; a bool is none."""
    return type(value) is int and -_INT_MAX < value < _INT_MAX


def _text(value: Any, shown: Redaction) -> str:
    return _word(value) if type(value) is str and len(value) < LONG else brief(value, shown)


@lru_cache(REMEMBERED)
def _word(value: str) -> str:
    return brief(value, Redaction())  # of a string that is no payload, all redactions show the same


@lru_cache(REMEMBERED)
def _topics(topics: tuple[str, ...]) -> str:
    return "  " + listed_topics(topics)


@lru_cache(REMEMBERED)
def _label(label: str) -> str:
    return f"  {safe(label)}="


def name_of(message: Message) -> str:
    """The name with its version, escaped."""
    name = _name if len(message.name) < LONG else _name.__wrapped__
    return name(message.name, message.version)


@lru_cache(REMEMBERED)
def _name(name: str, version: int | None) -> str:
    return safe(name if version is None else f"{name} v{version}")
