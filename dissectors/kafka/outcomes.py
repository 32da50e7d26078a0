"""Decoded responses in; whether they went well, in part, or not, and whether the broker made the client wait, out."""

from __future__ import annotations

from typing import Any, Final

from dissectors.kafka import rows
from dissectors.kafka.marks import Body, Branch, collect
from dissectors.kafka.ordinary import ORDINARY
from dissectors.kafka.questions import Reply
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import Message

HELD_NS: Final = 500 * MILLISECOND_NS
SERVED_NS: Final = 20 * MILLISECOND_NS
"""An answer later than the first, or than nine tenths of its limit, was held; one within the second was not. In
between, one with data may have waited for more of it."""


def judge(reply: Reply, errors: Branch, body: Body) -> None:
    """Errors of a response: its own, else the first inside; partial where some inside went well.

    A code of the normal course (``ordinary``) is told where there is no error, and counts as none.
    """
    message = reply.message
    if errors.lone and body.get(errors.lone) == 0:
        message.error_code = message.error_count = 0
        return
    codes: list[Any] = []
    collect(errors, body, codes)
    if not codes:
        return
    told = [code for code in codes if code]
    message.error_code = message.error_count = 0
    if not told:
        return
    asked = reply.asked.message.body if reply.asked.message is not None else {}
    failed = [code for code in told if not ORDINARY.has(message.name, code, asked)]
    message.error_count = len(failed)
    message.error_code = (failed or told)[0]
    message.error_name = rows.error_name(message.error_code)
    own = sum(name in body for name in errors.fields)
    if failed and not any(codes[:own]) and len(failed) < len(codes) - own:
        reply.asked.status = "partial"


def was_held(reply: Reply, limit_ns: int, previous_ns: int) -> bool | None:
    """Whether the broker made the client wait; ``previous_ns``: when the answer before this one was through."""
    frame = reply.message.frame
    elapsed = frame.first_ts_ns - max(reply.asked.frame.last_ts_ns, previous_ns)
    if elapsed <= SERVED_NS:
        return False
    if elapsed >= min(HELD_NS, limit_ns * 9 // 10) or not _served(reply.message):
        return True
    return None


def _served(message: Message) -> bool:
    """Whether there was something to answer with."""
    return bool(message.error_code) or any(row.get("wire_bytes") for row in message.partitions)
