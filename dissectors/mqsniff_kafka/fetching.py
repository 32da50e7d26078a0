"""Fetch sessions: the partitions that each fetch reads. Requests inside a session list changes only.

1. A full fetch (session id 0, epoch 0 or -1) opens a session; the response gives its id. Requests of later epochs add,
   change and forget partitions. A share session belongs to a group and a member, and begins with epoch 0.
2. Only what this connection showed is known. A session that began before the capture has the partitions seen since.
3. Memory is bounded by ``SESSIONS_MAX`` and ``partitions_max``: a session with more partitions is not kept; if pending
   requests have more together, the oldest ones drop theirs; if there are more high watermarks, all are dropped.
4. Data below the high watermark of an earlier response existed when the request was sent.

Source: KIP-227, KIP-932; ``FetchSession`` and ``FetchSessionHandler`` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mqsniff.model import PartitionRow
from mqsniff.spec.wire import as_name
from mqsniff_kafka.fieldpaths import BodyFields

FETCH: Final = 1
SHARE_FETCH: Final = 78
SHARE_ACKNOWLEDGE: Final = 79
KEYS: Final = frozenset({FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE})

SESSIONS_MAX: Final = 64
"""Sessions that are kept for a connection; clients have one."""
CONSUMER: Final = -1
READ_COMMITTED: Final = 1

PartitionKey = tuple[str, int]
"""(topic name or id, partition)."""


@dataclass(slots=True, eq=False)
class Fetching:
    """The partitions of one fetch request."""

    partitions: dict[PartitionKey, int | None]
    """Partition -> fetch offset; None in a share fetch."""
    replica: int = CONSUMER
    session: Any = None
    """Key of its session; None until the response has opened one."""
    opens: bool = False
    patient: bool = False
    """Whether the broker may hold back data that exist: fewer than min_bytes, or not committed yet."""
    there: bool = False
    """Whether data in the response existed when the request was sent (rule 4)."""
    unsure: bool = False
    """Whether that is unknown for some data: no earlier response for their partition, or no fetch offset."""

    @property
    def reader(self) -> str:
        """The kind of reader: consumer, follower or other."""
        return "consumer" if self.replica == CONSUMER else "follower" if self.replica >= 0 else "other"


@dataclass(slots=True)
class FetchSessions:
    """The sessions of one connection."""

    partitions_max: int
    _open: dict[Any, dict[PartitionKey, int | None]] = field(default_factory=dict)
    _waiting: dict[Fetching, None] = field(default_factory=dict)
    """Requests without a response so far, oldest first."""
    _places: int = 0
    """Number of partitions of all these."""
    _watermarks: dict[PartitionKey, int] = field(default_factory=dict)
    """The latest known high watermarks."""

    def request(self, key: int, body: BodyFields, rows: Sequence[PartitionRow]) -> Fetching:
        """Note a request; ``rows`` are the partitions that it lists."""
        fetching = self._about(key, body, rows)
        fetching.patient = (body.get("min_bytes") or 0) > 1 or body.get("isolation_level") == READ_COMMITTED
        self._waiting[fetching] = None
        self._places += len(fetching.partitions)
        while self._places > self.partitions_max and len(self._waiting) > 1:
            oldest = next(iter(self._waiting))
            self._release(oldest)
            oldest.partitions = {}
        return fetching

    def _release(self, fetching: Fetching) -> None:
        if fetching in self._waiting:
            del self._waiting[fetching]
            self._places -= len(fetching.partitions)

    def _about(self, key: int, body: BodyFields, rows: Sequence[PartitionRow]) -> Fetching:
        """The partitions of a request and its session."""
        listed = {place: row.get("offset") for row in rows if (place := place_of(row)) is not None}
        replica = _replica(body)
        if key == FETCH:
            name, epoch = body.get("session_id") or 0, body.get("session_epoch", -1)
        else:
            name, epoch = (body.get("group_id"), body.get("member_id")), body.get("share_session_epoch", -1)
        if epoch == -1:
            self._open.pop(name, None)
            return Fetching(listed, replica)
        if key == FETCH and epoch == 0:
            return Fetching(listed, replica, opens=True)
        held = {} if epoch == 0 else self._open.get(name, {})
        if listed or not held:
            held = {**held, **listed}
        for place in _forgotten(body):
            held.pop(place, None)
        self._keep(name, held)
        return Fetching(held, replica, name)

    def answered(self, fetching: Fetching, body: BodyFields) -> None:
        """Note a response: it may give the id of the session that its request opened."""
        self._release(fetching)
        session = body.get("session_id")
        if fetching.opens and session and not body.get("error_code"):
            fetching.session = session
            self._keep(session, fetching.partitions)

    def answered_partition(self, fetching: Fetching, row: PartitionRow) -> None:
        """Note a partition of a response; its row gets the fetch offset. Hot."""
        place = place_of(row)
        if place is None:
            return
        row["offset"] = pending = fetching.partitions.get(place)
        watermark = row.get("high_watermark")
        if row.get("wire_bytes"):
            known = self._watermarks.get(place)
            if pending is None or known is None:
                fetching.unsure = True
            elif known > pending:
                fetching.there = True
        if watermark is not None:
            if len(self._watermarks) >= self.partitions_max:
                self._watermarks.clear()
            self._watermarks[place] = watermark

    def _keep(self, name: Any, partitions: dict[PartitionKey, int | None]) -> None:
        if len(partitions) > self.partitions_max:
            return
        self._open[name] = partitions
        if len(self._open) > SESSIONS_MAX:
            del self._open[next(iter(self._open))]


def place_of(row: PartitionRow) -> PartitionKey | None:
    """The partition of a row; None if the row is damaged."""
    topic, partition = row["topic"] or row["topic_id"], row.get("partition")
    return (topic, partition) if isinstance(topic, str) and isinstance(partition, int) else None


def _replica(body: BodyFields) -> int:
    replica = body.get("replica_id", (body.get("replica_state") or {}).get("replica_id"))
    return replica if isinstance(replica, int) else CONSUMER


def _forgotten(body: BodyFields) -> Iterator[PartitionKey]:
    for topic in body.get("forgotten_topics_data") or ():
        name = as_name(topic.get("topic") or topic.get("topic_id"))
        if name is not None:
            for partition in topic.get("partitions") or ():
                yield (name, partition)
