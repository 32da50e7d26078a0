"""Decoded responses in; whether they went well, in part, or not, and whether the broker made the client wait, out."""

from __future__ import annotations

from typing import Any, Final

from mqsniff.limits import MILLISECOND_NS
from mqsniff_kafka import rows
from mqsniff_kafka.marks import BodyFields, Branch, collect
from mqsniff_kafka.ordinary import ORDINARY
from mqsniff_kafka.questions import ResponseContext

SERVED_NS: Final = 20 * MILLISECOND_NS
"""An answer within this time, and nine tenths of its limit, was not held, whatever it says."""
REFUSED_NS: Final = 100 * MILLISECOND_NS
"""An error of a fetch within this time was not waited for: brokers refuse at once, nine in ten within 20 ms. Later ones
have ended a wait, as when a partition's leader changes."""
OLD_NS: Final = 1000 * MILLISECOND_NS
"""Data that are older than their request by this much were there when it came; clocks differ by less."""
WAITED_ERRORS: Final = frozenset({25, 27})
"""UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS: errors of JoinGroup and SyncGroup that may end a wait; others never do."""
TIME_MAX: Final = (1 << 63) - 1


def judge(reply: ResponseContext, errors: Branch, body: BodyFields) -> None:
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
    pending = reply.pending.message.body if reply.pending.message is not None else {}
    failed = [code for code in told if not ORDINARY.has(message.name, code, pending)]
    message.error_count = len(failed)
    message.error_code = (failed or told)[0]
    message.error_name = rows.error_name(message.error_code)
    own = sum(name in body for name in errors.fields)
    if failed and not any(codes[:own]) and len(failed) < len(codes) - own:
        reply.pending.status = "partial"


def was_held(reply: ResponseContext, limit_ns: int, previous_ns: int) -> bool:
    """Whether the broker made the client wait; ``previous_ns``: when the answer before this one was through.

    It did where the answer came late and says nothing else: no error that is told at once, no data that were there.
    """
    message, fetch = reply.message, reply.question.fetching
    elapsed = message.frame.first_ts_ns - max(reply.pending.frame.last_ts_ns, previous_ns)
    if elapsed <= min(SERVED_NS, limit_ns * 9 // 10):
        return False
    if message.error_code:
        return elapsed > REFUSED_NS if fetch is not None else message.error_code in WAITED_ERRORS
    if fetch is None or not any(row.get("wire_bytes") for row in message.partitions):
        return True
    if fetch.there or fetch.patient:
        return fetch.patient
    return not fetch.unsure or _newest_ns(reply.body) >= reply.pending.frame.last_ts_ns - OLD_NS


def _newest_ns(body: BodyFields) -> int:
    """The time of the newest batch of a fetch; the end of all time where one tells none."""
    times = [
        head.get("max_timestamp", head.get("timestamp", -1))
        for topic in body.get("responses") or ()
        for partition in topic.get("partitions") or ()
        for head in (partition.get("records") or {}).get("batches", ())
    ]
    return max(times) * MILLISECOND_NS if times and min(times) >= 0 else TIME_MAX
