"""What happened to the members of a group in; who is in it, and its rebalances as a timeline, out.

1. A rebalance is a generation: it begins with the first member that asked to join it, and ends with the last answer
   that took a member in or gave it its partitions. Who asked last is the one that all others waited for.
2. Without generations, notices of the server within a second are a rebalance.
3. The last ``REBALANCES_KEPT`` of a group are kept, all are counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from mqsniff.answers.stats.keeping import StatRow
from mqsniff.model import Assignment, MemberNews
from mqsniff.tables.times import SECOND_NS, rfc3339

REBALANCES_KEPT: Final = 100
MEMBERS_KEPT: Final = 1000


class NewsPlace(NamedTuple):
    """When something was asked and answered, and who asked."""

    asked_ns: int
    told_ns: int
    client: str
    """Its address and port."""
    client_id: str | None


class GroupMember:
    """A member as it was last heard of; one that left keeps what it had."""

    __slots__ = ("assignment", "client_id", "gone", "host", "leader")

    def __init__(self) -> None:
        self.assignment: Assignment | None = None
        self.client_id: str | None = None
        self.host = ""
        self.gone = self.leader = False


class Rebalance:
    """One generation of a group coming about."""

    __slots__ = ("ended_ns", "generation", "members", "started_ns")

    def __init__(self, generation: int | None, place: NewsPlace) -> None:
        self.generation = generation
        self.started_ns, self.ended_ns = place.asked_ns, place.told_ns
        self.members: dict[str, tuple[int, int]] = {}
        """When each member asked to join, and when it was told."""

    def take(self, place: NewsPlace) -> None:
        """It lasts at least until then."""
        self.started_ns = min(self.started_ns, place.asked_ns)
        self.ended_ns = max(self.ended_ns, place.told_ns)

    def row(self) -> StatRow:
        """When, how long, who waited and for whom."""
        last = max(self.members, key=lambda member: self.members[member][0], default=None)
        waited = [
            {"member": member, "joined_ts": rfc3339(asked), "waited_ns": max(0, told - asked)}
            for member, (asked, told) in sorted(self.members.items(), key=lambda one: one[1])
        ]
        return {
            "generation": self.generation,
            "started_ts": rfc3339(self.started_ns),
            "ended_ts": rfc3339(self.ended_ns),
            "duration_ns": self.ended_ns - self.started_ns,
            "members": waited,
            "waited_for": last if len(waited) > 1 else None,
        }


class GroupLife:
    """The members of one group and its rebalances."""

    __slots__ = ("_last", "count", "generation", "members", "timeline")

    def __init__(self) -> None:
        self.members: dict[str, GroupMember] = {}
        self.timeline: deque[Rebalance] = deque(maxlen=REBALANCES_KEPT)
        self.count = 0
        self.generation: int | None = None
        self._last: dict[int, Rebalance] = {}

    def take(self, news: MemberNews, place: NewsPlace) -> None:
        """Take note of what happened."""
        name = news.member or (place.client_id if news.event == "told" else None) or place.client
        member = self.members.get(name)
        if member is None and len(self.members) < MEMBERS_KEPT:
            member = self.members[name] = GroupMember()
        if member is not None:
            self._note(member, news, place)
        if news.event == "left":
            return
        if news.generation is not None and news.generation >= 0:
            self.generation = max(self.generation or 0, news.generation)
            rebalance = self._of(news.generation, place)
            rebalance.take(place)
            if news.event == "joined" and len(rebalance.members) < MEMBERS_KEPT:
                rebalance.members[name] = (place.asked_ns, place.told_ns)
        elif news.event == "told":
            rebalance = self._of(None, place)
            rebalance.take(place)
            rebalance.members[name] = (place.asked_ns, place.told_ns)

    def _note(self, member: GroupMember, news: MemberNews, place: NewsPlace) -> None:
        member.gone = news.event == "left"
        member.client_id, member.host = place.client_id, place.client.rpartition(":")[0]
        if news.event in {"joined", "told"}:
            for other in self.members.values() if news.leader else ():
                other.leader = False
            member.leader = news.leader
        if news.assignment is not None:
            member.assignment = news.assignment

    def _of(self, generation: int | None, place: NewsPlace) -> Rebalance:
        """The rebalance of a generation; a new one where there is none."""
        found = self._last.get(generation) if generation is not None else self._notices(place)
        if found is None:
            found = Rebalance(generation, place)
            self.count += 1
            if len(self.timeline) == REBALANCES_KEPT and (oldest := self.timeline[0].generation) is not None:
                self._last.pop(oldest, None)
            self.timeline.append(found)
            if generation is not None:
                self._last[generation] = found
        return found

    def _notices(self, place: NewsPlace) -> Rebalance | None:
        """The last rebalance, if it is one of notices and not over."""
        last = self.timeline[-1] if self.timeline else None
        if last is None or last.generation is not None or place.told_ns - last.ended_ns > SECOND_NS:
            return None
        return last

    def rows(self, names: Mapping[str, str]) -> list[StatRow]:
        """The members, those that left last; ``names`` are those of topic ids."""
        found = [
            {
                "member": name,
                "client_id": member.client_id,
                "host": member.host,
                "leader": member.leader,
                "left": member.gone,
                "assigned": [
                    {"topic": names.get(topic, topic), "partitions": list(of)} for topic, of in member.assignment or ()
                ],
            }
            for name, member in self.members.items()
        ]
        return sorted(found, key=lambda row: (row["left"], str(row["client_id"]), row["member"]))
