"""An act and the names of a record in, whether the act is about it out.

1. A message id of a whole batch stands for its records, but for those that the act leaves out.
2. Ids that are numbers have an order, "ledger:entry:partition": an act may be about all before one.
"""

from __future__ import annotations

from typing import Any

from mqsniff.model import Act, ConnectionInfo


def names_record(act: Act, name: tuple[Any, ...]) -> bool:
    """Whether an act is about the record of this name."""
    match name:
        case ("id", _, str(text)):
            return act.message_id is not None and _covers(act, text)
        case ("unique", _, str(text)):
            return act.message_id == text
    return False


def holds_place(act: Act, place: tuple[Any, ...], connection: ConnectionInfo) -> bool:
    """Whether a place is among the offsets that an act is about."""
    topic, partition, offset, broker = place
    return bool(
        act.last is not None
        and topic in (act.topic, act.topic_id)
        and partition == act.partition
        and (0 if act.first is None else act.first) <= offset <= act.last
        and broker in (None, connection.server)
    )


def _covers(act: Act, text: str) -> bool:
    """Whether an act that names a message id is about the record of the id ``text``, maybe one of its batch."""
    named = act.message_id or ""
    if text == named:
        return True
    batch, _, index = text.rpartition(":")
    if batch == named and index.isdecimal():
        return int(index) not in act.left
    return act.before and _order(text) is not None and _order(named) is not None and _before(text, named)


def _before(text: str, named: str) -> bool:
    first, last = _order(text), _order(named)
    return first is not None and last is not None and first[:2] < last[:2] and first[2:3] == last[2:3]


def _order(text: str) -> tuple[int, ...] | None:
    """The numbers of an id that has an order: "ledger:entry:partition"."""
    parts = text.split(":")
    if len(parts) < 3 or not all(part.lstrip("-").isdecimal() for part in parts):
        return None
    return tuple(map(int, parts))
