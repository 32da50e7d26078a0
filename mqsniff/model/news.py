"""What an exchange tells beside its rows: members of groups, and where clients are sent. Plain values of dissectors."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

OffsetMeaning: TypeAlias = Literal["position", "commit"]
"""What ``offset`` of a row of ``partitions`` says: where a reader reads next, or how far a group has come."""

MemberEvent: TypeAlias = Literal["joined", "assigned", "left", "told"]
"""``joined``: taken into a generation; ``assigned``: got its partitions; ``left``: gone; ``told``: the server told
it that its group changes."""

EndpointReason: TypeAlias = Literal["lookup", "redirect", "move"]
"""``lookup``: the client asked where to go; ``redirect``: it asked the wrong server; ``move``: what it used moved."""

TopicRole: TypeAlias = Literal["internal", "retry", "dead letter"]
"""What a topic is for, where it is not for users' data."""

Assignment: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic or its id, partitions) pairs."""


class MemberNews(NamedTuple):
    """Something happened to a member of a group."""

    group: str
    event: MemberEvent
    member: str | None = None
    generation: int | None = None
    assignment: Assignment | None = None
    """Its partitions from now on; None where they are not told."""
    leader: bool = False


class EndpointNews(NamedTuple):
    """A server told its client where to connect to."""

    reason: EndpointReason
    host: str
    port: int


News: TypeAlias = MemberNews | EndpointNews
