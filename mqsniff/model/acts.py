"""What messages do to records, members of groups and transactions, as plain data; given on demand, for ``trace``."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from mqsniff.model.messages import LineNotes

ActKind: TypeAlias = Literal[
    "commit", "ack", "nack", "extend", "member", "renew", "begin", "transaction", "end", "marker"
]
"""``commit``: a group has read what stands up to an offset; ``ack``, ``nack`` (deliver it again, or reject it),
``extend`` (give more time): of delivered records; ``member``: joins, leaves and assignments of the message's group;
``renew``: asks for the right to use an id of transactions; what was open under it is over once that is granted;
``begin``, ``transaction``, ``end``: the first, any other and the last step of a transaction; ``marker``: how a
transaction ended, as it stands in a partition after its records (offset ``last``, ``producer_id`` in the details)."""


class Act(NamedTuple):
    """One thing that a message does, beside what its rows and record batches tell.

    Records are named by topic, partition and offsets, or by message id; the group is that of the message.
    """

    kind: ActKind
    what: str
    """In words: "acknowledged", "asked to join"."""
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    first: int | None = None
    """First offset that it is about; None: all up to ``last``."""
    last: int | None = None
    """Last offset that it is about, this one included."""
    message_id: str | None = None
    """As in the column ``message_id``; that of a whole batch stands for its records."""
    before: bool = False
    """Whether it is about every message up to ``message_id``."""
    left: frozenset[int] = frozenset()
    """Records of the batch ``message_id``, by index, that it is not about."""
    transaction: str | None = None
    member: str | None = None
    generation: int | None = None
    """Generation or epoch of the group."""
    details: LineNotes = ()


class RecordOrigin(NamedTuple):
    """Where the record comes from that a retry or dead letter topic holds a copy of."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    message_id: str | None = None
