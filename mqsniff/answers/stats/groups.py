"""Messages, settlements and news of members in; a row for each group out: members, lag, rebalances, open deliveries.

1. What an offset means, its dissector says (``Dissector.offset_meanings``); a row's ``high_watermark`` is the end of
   its partition, whoever asked.
2. Where a request names no group, its reader is of the group that its client names elsewhere (client id and address
   together); of several, of the one that has something to do with the topic, if that is one.
3. A position is the last offset that was asked for, or the one after the last record that was delivered.
4. A commit that is answered counts unless the answer refuses it, others at once.
5. Lag is the end less the position, ``commit_lag`` the end less the commit; unknown where one of both is.
6. Memory: ``stats_rows_max`` groups, and ten times as many partitions in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mqsniff.answers.stats.deliveries import DeliveryTally
from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow
from mqsniff.answers.stats.rebalances import GroupLife, NewsPlace
from mqsniff.dissector import Dissector
from mqsniff.model import ConnectionInfo, Exchange, MemberNews, Message, RecordBatch

_PARTITIONS: Final = 10
_GROUPS_OF_A_READER: Final = 8
"""Groups of one client that are remembered."""

GroupKey = tuple[str, str]
"""(protocol, group)."""
PartitionPlace = tuple[str, str, int]
"""(protocol, topic, partition)."""
ReaderKey = tuple[str | None, str]
"""(client id, address): who reads where no group is named."""


class GroupTally:
    """What is known of one group."""

    __slots__ = ("commits", "deliveries", "members", "positions")

    def __init__(self) -> None:
        self.members = GroupLife()
        self.positions: dict[PartitionPlace, int] = {}
        self.commits: dict[PartitionPlace, int] = {}
        self.deliveries: dict[str | None, DeliveryTally] = {}

    def reads(self, place: PartitionPlace, names: Mapping[str, str]) -> bool:
        """Whether it committed an offset of this partition, or has a member that it is assigned to."""
        _, topic, partition = place
        return place in self.commits or any(
            topic in {name, names.get(name)} and partition in partitions
            for member in self.members.members.values()
            for name, partitions in member.assignment or ()
        )


class GroupStats:
    """Groups by protocol and name."""

    def __init__(self, limit: int, dissectors: Iterable[type[Dissector]]) -> None:
        self._groups: KeptTallies[GroupKey, GroupTally] = KeptTallies(limit, GroupTally)
        self._meanings = {
            (name, *key): meaning
            for cls in dissectors
            for name in cls.names
            for key, meaning in cls.offset_meanings.items()
        }
        self._positioned = {protocol for protocol, _, _ in self._meanings}
        self._room = limit * _PARTITIONS
        self._ends: dict[PartitionPlace, int] = {}
        self._readers: dict[ReaderKey, dict[PartitionPlace, int]] = {}
        self._names: dict[str, str] = {}
        self._groups_of: dict[ReaderKey, set[GroupKey]] = {}

    # ---- offsets

    def heard(self, connection: ConnectionInfo, message: Message) -> None:
        """Take note of a message's group and partitions. Hot: once a message."""
        if message.group is not None:
            self._know(connection, message)
        if message.partitions and message.protocol in self._positioned:
            self._place(connection, message)

    def _know(self, connection: ConnectionInfo, message: Message) -> None:
        """The client of this message is of this group."""
        reader = _reader(connection, message)
        known = self._groups_of.get(reader)
        if known is None:
            if len(self._groups_of) >= self._room:
                return
            known = self._groups_of[reader] = set()
        if len(known) < _GROUPS_OF_A_READER:
            known.add((message.protocol, message.group or ""))

    def exchanged(self, connection: ConnectionInfo, request: Message) -> None:
        """Take note of what a request committed, which did not fail."""
        if self._meanings.get((request.protocol, request.name, request.kind)) == "commit" and request.partitions:
            self._place(connection, request, answered=True)

    def _place(self, connection: ConnectionInfo, message: Message, *, answered: bool = False) -> None:
        protocol = message.protocol
        meaning = self._meanings.get((protocol, message.name, message.kind))
        waits = meaning == "commit" and message.kind == "request" and not answered
        target: dict[PartitionPlace, int] | None = None
        for row in message.partitions:
            topic, partition = row.get("topic") or row.get("topic_id"), row.get("partition")
            if topic is None or not isinstance(partition, int):
                continue
            place = (protocol, topic, partition)
            end = row.get("high_watermark")
            if isinstance(end, int) and end >= 0:
                self._put(self._ends, place, end)
            offset = row.get("offset")
            if meaning is None or waits or not isinstance(offset, int) or offset < 0 or row.get("reader") == "follower":
                continue
            if target is None:
                target = self._offsets_of(connection, message, commits=meaning == "commit")
            self._put(target, place, offset)

    def _offsets_of(self, connection: ConnectionInfo, message: Message, *, commits: bool) -> dict[PartitionPlace, int]:
        """Where offsets of a message belong: to its group, or to its client until a group is known."""
        if message.group is None:
            return self._readers.setdefault(_reader(connection, message), {})
        group = self._groups.of((message.protocol, message.group))
        return group.commits if commits else group.positions

    def _put(self, offsets: dict[PartitionPlace, int], place: PartitionPlace, offset: int) -> None:
        if place not in offsets:
            if not self._room:
                return
            self._room -= 1
        offsets[place] = offset

    def delivered(self, connection: ConnectionInfo, message: Message, batch: RecordBatch) -> None:
        """Move the position of a reader after what it got. Hot: once a batch."""
        constant = batch.constant
        if message.protocol not in self._positioned or constant.get("direction") != "deliver" or not batch.count:
            return
        topic, partition = constant.get("topic") or constant.get("topic_id"), constant.get("partition")
        offsets = batch.columns.get("offset")
        if topic is None or partition is None or offsets is None or constant.get("reader") == "follower":
            return
        last = offsets[-1]
        if last is not None:
            self._put(
                self._offsets_of(connection, message, commits=False), (message.protocol, topic, partition), last + 1
            )

    # ---- members and deliveries

    def named(self, topic_id: str, name: str) -> None:
        """Learn the name of a topic id: assignments may hold ids."""
        if len(self._names) < self._room:
            self._names[topic_id] = name

    def told(self, protocol: str, news: MemberNews, place: NewsPlace) -> None:
        """Take note of what happened to a member."""
        self._groups.of((protocol, news.group)).members.take(news, place)

    def settled(self, exchange: Exchange) -> None:
        """Count a delivery."""
        message = exchange.pending.message if exchange.pending is not None else None
        if message is None:
            return
        deliveries = self._groups.of((message.protocol, message.group or "(no name)")).deliveries
        topic = message.topics[0] if message.topics else None
        if topic not in deliveries:
            if not self._room:
                topic = OTHERS
            else:
                self._room -= 1
        tally = deliveries.get(topic)
        if tally is None:
            tally = deliveries[topic] = DeliveryTally()
        tally.take(exchange)

    # ---- rows

    def rows(self) -> list[StatRow]:
        """A row a group, the one that lags most first."""
        self._assign_readers()
        found = [self._row(key, tally) for key, tally in self._groups]
        return sorted(found, key=lambda row: (-(row["lag"] or row["commit_lag"] or 0), row["protocol"], row["group"]))

    def lags(self) -> dict[GroupKey, tuple[int | None, int | None]]:
        """The (lag, commit lag) of each group by now; nothing changes, as later messages may name a reader's group."""
        positions = {key: tally.positions for key, tally in self._groups.kept.items()}
        for reader, offsets in self._readers.items():
            groups = self._groups_of.get(reader, set())
            for place, offset in offsets.items():
                fitting = [group for group in groups if len(groups) == 1 or self._reads(group, place)]
                if len(fitting) == 1:
                    positions[fitting[0]] = positions.get(fitting[0], {}) | {place: offset}
        found = {}
        for key, read in positions.items():
            tally = self._groups.kept.get(key)
            lags = self._behind(read), self._behind(tally.commits if tally is not None else {})
            if lags != (None, None):
                found[key] = lags
        return found

    def _behind(self, offsets: Mapping[PartitionPlace, int]) -> int | None:
        """How far these offsets are after the ends of their partitions, in all."""
        return _sum(max(0, self._ends[place] - offset) for place, offset in offsets.items() if place in self._ends)

    def _assign_readers(self) -> None:
        """Give positions of clients to the group that they turned out to be of."""
        for reader, offsets in self._readers.items():
            groups = self._groups_of.get(reader, set())
            for place, offset in list(offsets.items()):
                fitting = [group for group in groups if len(groups) == 1 or self._reads(group, place)]
                if len(fitting) == 1:
                    self._groups.of(fitting[0]).positions[place] = offset
                    del offsets[place]

    def _reads(self, group: GroupKey, place: PartitionPlace) -> bool:
        tally = self._groups.kept.get(group)
        return tally is not None and tally.reads(place, self._names)

    def _row(self, key: GroupKey | None, tally: GroupTally) -> StatRow:
        protocol, group = key or (OTHERS, OTHERS)
        partitions = list(self._partitions(tally)) if key is not None else []
        deliveries = [{"topic": topic, **one.row()} for topic, one in tally.deliveries.items()]
        members = tally.members
        return {
            "protocol": protocol,
            "group": group,
            "generation": members.generation,
            "members": members.rows(self._names),
            "lag": _sum(row["lag"] for row in partitions),
            "commit_lag": _sum(row["commit_lag"] for row in partitions),
            "partitions": partitions,
            "rebalances": members.count,
            "timeline": [rebalance.row() for rebalance in members.timeline],
            "deliveries": sum(row["deliveries"] for row in deliveries),
            "redelivered": sum(row["redelivered"] for row in deliveries),
            "unacknowledged": sum(row["unacknowledged"] for row in deliveries),
            "timed_out": sum(row["timed_out"] for row in deliveries),
            "by_topic": deliveries,
        }

    def _partitions(self, tally: GroupTally) -> Iterator[StatRow]:
        """Where a group stands in each partition, the one that lags most first."""
        rows: list[StatRow] = []
        for place in dict.fromkeys((*tally.positions, *tally.commits)):
            _, topic, partition = place
            end, position, commit = self._ends.get(place), tally.positions.get(place), tally.commits.get(place)
            rows.append(
                {
                    "topic": topic,
                    "partition": partition,
                    "position": position,
                    "committed": commit,
                    "end": end,
                    "lag": None if end is None or position is None else max(0, end - position),
                    "commit_lag": None if end is None or commit is None else max(0, end - commit),
                }
            )
        yield from sorted(rows, key=lambda row: (-(row["lag"] or 0), str(row["topic"]), row["partition"]))


def _reader(connection: ConnectionInfo, message: Message) -> ReaderKey:
    return message.client_id or connection.identity.client_id, connection.client_ip


def _sum(numbers: Iterable[Any]) -> int | None:
    """The sum of those that are known; None where none is."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
