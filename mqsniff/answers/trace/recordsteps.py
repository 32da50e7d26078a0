"""Rows of records in, the steps that they are out: sent, delivered, fetched by a follower."""

from __future__ import annotations

from typing import Final

from mqsniff.answers.trace.steps import TraceStep, step_of
from mqsniff.limits import MILLISECOND_NS
from mqsniff.model import ConnectionInfo, Message, Pending, RecordBatch
from mqsniff.tables.rows import Row

_NOTES: Final = ("acks",)
"""Notes of a request that matter to its records."""


def sent_step(
    connection: ConnectionInfo, message: Message, row: Row, ended: Pending | None, *, copied: bool
) -> TraceStep:
    """A record was sent; ``ended`` is its request, where the message has forgotten it."""
    what = "copied to another topic" if copied else "produced"
    step = step_of(connection, message, "copied" if copied else "produced", what)
    if row["sequence"] is not None:
        step.details.append(("sequence", row["sequence"]))
    step.details += [(label, value) for label, value in message.notes if label in _NOTES]
    if row["transactional"]:
        step.details.append(("transactional", True))
    if row["deliver_at_ts"] is not None:
        step.details.append(("delayed_ms", (row["deliver_at_ts"] - step.ts_ns) // MILLISECOND_NS))
    step.told = [(name, row[name]) for name in ("offset", "message_id") if row[name] is not None]
    own = (pending for pending in message.pending if pending.link == "answer")
    step.pending = tuple(own) if ended is None else (ended,)
    return step


def delivered_step(connection: ConnectionInfo, message: Message, batch: RecordBatch, index: int, row: Row) -> TraceStep:
    """A record was delivered, or only fetched."""
    if row["left_out"] or (row["attempts"] is None and "attempts" in batch.columns):
        return step_of(connection, message, "followed", "in a batch that was delivered for its other records")
    reader = row["reader"]
    if reader in (None, "consumer"):
        step = step_of(connection, message, "delivered", "delivered")
    else:
        step = step_of(connection, message, "followed", "fetched by a follower" if reader == "follower" else "fetched")
    if row["attempts"] is not None and row["attempts"] > 1:
        step.what += f" again (attempt {row['attempts']})"
    step.details = [(name, row[name]) for name in ("aborted", "before_asked") if row[name]]
    asked = next((each for each in message.answered if each.link == "answer"), None)
    if asked is not None:
        step.details.append(("asked_before_ns", message.frame.first_ts_ns - asked.frame.last_ts_ns))
    settlements = [pending for pending in message.pending if pending.link == "settlement"]
    if len(settlements) == batch.count > 1:
        settlements = [settlements[index]]
    step.pending = tuple(settlements) if len(settlements) == 1 else ()
    return step
