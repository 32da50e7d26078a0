"""One connection from its first packet to its last: stream events in, Items out, in the order of their release.

1. A connection is detected first, then it talks or stays a stranger; what waited for the verdict is replayed in order.
2. A connection that did not begin in the capture, and that is unknown or was only named (``foreign``), is looked at
   again at each later segment. One that did begin in it, and that what its opener said gave to nobody, is looked at
   again with the first bytes of its peer: brokers refuse what is not their protocol in their own words.
3. Directions become sides here: by handshake, else by content, else by port.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from mqsniff.decode.detection import Detected, Detection
from mqsniff.decode.foreign import TITLES
from mqsniff.decode.layers import packets_of
from mqsniff.decode.opaque import OpaqueConnection
from mqsniff.decode.registry import Claim, Registry
from mqsniff.decode.session import ProtocolSession
from mqsniff.dissector import Settings
from mqsniff.model import UNMET, Chunk, ClosedItem, ConnectionInfo, Gap, Item, OpenedItem, Problem, ProblemItem, Side
from mqsniff.streams.connection import Connection
from mqsniff.streams.events import (
    ConnectionClosed,
    ConnectionEstablished,
    ConnectionOpened,
    ConnectionStats,
    SideClosed,
    StreamEvent,
    StreamProblem,
)

_SIDES: Final = tuple(Side)

Placed: TypeAlias = tuple[int, int, Item]
"""(ordinal of the packet that released it, ordinal of the connection's first packet, item)."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all connections of a run share."""

    registry: Registry
    settings: Settings


class Conversation:
    """Everything that is decoded of one connection."""

    def __init__(self, connection: Connection, context: RunContext) -> None:
        self._connection = connection
        self._context = context
        self._first = connection.first_ordinal
        self._now = self._first
        self._waiting: list[tuple[int, Chunk | Gap | SideClosed]] = []
        self._detection: Detection | None = None
        self._talk: ProtocolSession | None = None
        self._stranger: OpaqueConnection | None = None
        self._doubt: list[tuple[int, Chunk | Gap | SideClosed]] | None = None
        """What a stranger said so far whose peer may still tell whose it is (rule 2)."""
        self._from_start = True
        self._client = self._detector(from_start=False).likely_client()
        self._closed = [False, False]
        self._over = False
        self._told = False
        self.info = _info(connection, self._client)

    def _detector(self, *, from_start: bool) -> Detection:
        key, shared = self._connection.key, self._context
        ports = (key.low_port, key.high_port)
        client = self._connection.client_direction
        return Detection(shared.registry, shared.settings.limits, ports, client, from_start=from_start)

    def items(self, release: int, event: StreamEvent) -> Iterable[Placed]:
        """Items of the connection's next event, each with the ordinal that released it.

        Hot: most of a connection are bytes that somebody takes already, and most packets are released by themselves.
        """
        self._now = max(self._now, release)
        talk = self._talk
        if talk is None or not isinstance(event, Chunk):
            return self._placed(self._event(event))
        event.side = _SIDES[event.side ^ self._client]
        items = talk.take(event)
        if type(items) is not list:
            return self._placed(items)
        now, first = talk.now, self._first
        if now > self._now:
            self._now = now
        else:
            now = self._now
        return [(now, first, item) for item in items]

    def _placed(self, items: Iterable[Item]) -> Iterator[Placed]:
        for item in items:
            talk = self._talk
            if talk is not None and (now := talk.now) > self._now:
                self._now = now
            yield self._now, self._first, item

    def _event(self, event: StreamEvent) -> Iterator[Item]:
        match event:
            case Chunk() | SideClosed():
                yield from self._stream(event.side, event)
            case Gap():
                yield self._lost(event)
                yield from self._stream(event.side, event)
            case ConnectionOpened():
                if event.client_direction is not None:
                    self._turn(event.client_direction)
            case ConnectionEstablished(mark):
                yield from self._tell(mark.ts_ns)
            case StreamProblem():
                yield self._odd(event)
            case ConnectionClosed():
                yield from self._end(event.facts)
            case _:
                assert_never(event)

    def _side(self, direction: int) -> Side:
        return _SIDES[direction ^ self._client]

    def _tell(self, ts_ns: int) -> Iterator[Item]:
        if not self._told:
            self._told = True
            yield OpenedItem(self.info, ts_ns)

    # ---- bytes, losses and ends of a direction

    def _stream(self, direction: int, event: Chunk | Gap | SideClosed) -> Iterator[Item]:
        """Hand an event on; bytes go packet by packet while who takes them may still change."""
        if isinstance(event, Chunk) and not self._settled:
            for packet in packets_of(event):
                self._now = max(self._now, packet.marks[0].release)
                yield from self._take(direction, packet)
        else:
            yield from self._take(direction, event)

    @property
    def _settled(self) -> bool:
        return self._talk is not None or self._over or (self._stranger is not None and not self._may_change)

    @property
    def _may_be_answered(self) -> bool:
        """Whether the peer of a stranger may still tell whose it is."""
        return self._from_start and self._detection is not None and self._detection.awaits_answer

    @property
    def _may_change(self) -> bool:
        """Whether a stranger is looked at again: its beginning was not captured, and what it is stands on one frame."""
        named = self.info.protocol == "unknown" or self.info.protocol in TITLES
        return self._doubt is not None or (named and not self._from_start)

    def _take(self, direction: int, event: Chunk | Gap | SideClosed) -> Iterator[Item]:
        if self._talk is not None or self._stranger is not None or self._over:
            yield from self._hand_on(direction, event)
            return
        if self._detection is None:
            self._from_start = self._connection.seen_from_start
            self._detection = self._detector(from_start=self._from_start)
        self._waiting.append((direction, event))
        if isinstance(event, Gap):
            self._detection.gap(direction)
        elif isinstance(event, Chunk):
            verdict = self._detection.chunk(direction, event)
            yield from self._faults()
            if verdict is not None:
                yield from self._take_up(verdict)

    def _take_up(self, verdict: Detected) -> Iterator[Item]:
        """Somebody takes the connection: say so, then replay what waited."""
        self._turn(verdict.client_direction)
        info = self.info
        info.protocol = verdict.protocol
        head = verdict.heads.get(verdict.client_direction)
        if head is not None:
            info.proxy_client, info.proxy_server, info.proxy_bytes = head.source, head.destination, head.size
        talk = None if verdict.claim is None else self._talk_by(verdict.claim)
        if talk is None:
            info.protocol = "unknown" if verdict.claim else verdict.protocol
            info.detected_by = None if info.protocol == "unknown" else "content"
            self._stranger = OpaqueConnection(info.protocol, info)
            yield from self._faults()
        self._talk = talk
        if self.info.outcome not in UNMET:
            yield from self._tell(self.info.first_ts_ns)
        waiting, self._waiting = self._waiting, []
        for direction, event in waiting:
            skip = head.size if head is not None and direction == verdict.client_direction else 0
            kept = _behind(event, skip) if isinstance(event, Chunk) else event
            if kept is not None:
                yield from self._hand_on(direction, kept)
        if self._stranger is not None and verdict.claim is None and self._may_be_answered:
            self._doubt = waiting

    def _talk_by(self, claim: Claim) -> ProtocolSession | None:
        """The claimant at work; None, with a fault to tell, for one that cannot be made."""
        settings, registry = self._context.settings, self._context.registry
        try:
            dissector = claim.dissector(settings)
        except Exception as error:  # noqa: BLE001  # the border of the plugin
            registry.faults.append(f"{type(error).__name__}: no {claim.dissector.__name__} can be made: {error}")
            return None
        self.info.detected_by = claim.detected_by
        talk = ProtocolSession(dissector, settings, self.info)
        talk.begin(in_step=self._from_start)
        return talk

    def _hand_on(self, direction: int, event: Chunk | Gap | SideClosed) -> Iterator[Item]:
        side = self._side(direction)
        event.side = side
        if self._doubt is not None and (verdict := self._answered(self._doubt, direction, event)) is not None:
            self._waiting, self._doubt, self._stranger = self._doubt, None, None
            yield from self._take_up(verdict)
            return
        if isinstance(event, SideClosed):
            self._closed[side] = True
            if self._talk is not None:
                yield from self._talk.close(side, _reset_by(side, own=event.reason == "rst", peers=event.peer_reset))
                if all(self._closed):
                    yield from self._end_talk(self._talk, (True, True), open_at_end=False)
        elif self._talk is not None:
            yield from self._talk.take(event)
        elif self._stranger is not None:
            if isinstance(event, Chunk) and (verdict := self._second_look(direction, event)) is not None:
                yield from self._stranger.end()
                self._stranger = None
                self._waiting = [(direction, event)]
                yield from self._take_up(verdict)
                return
            self._stranger.take(event)

    def _answered(
        self, doubt: list[tuple[int, Chunk | Gap | SideClosed]], direction: int, event: Chunk | Gap | SideClosed
    ) -> Detected | None:
        """Whether the peer's first bytes tell whose the connection of a stranger is."""
        doubt.append((direction, event))
        verdict = None
        if isinstance(event, Chunk) and self._detection is not None:
            verdict = self._detection.reply_to(direction, event)
        if verdict is None and (isinstance(event, Gap) or not self._may_be_answered):
            self._doubt = None
        return verdict

    def _second_look(self, direction: int, chunk: Chunk) -> Detected | None:
        """Whether a segment of a connection that was joined in the middle shows who takes it after all.

        One that shows a foreign protocol gives an unknown connection its name.
        """
        if not self._may_change or self._from_start:
            return None
        verdict = self._detector(from_start=False).chunk(direction, chunk)
        if verdict is None or verdict.claim is not None:
            return verdict
        if self._stranger is not None and self.info.protocol == "unknown" and verdict.protocol in TITLES:
            self._stranger.rename(verdict.protocol)
        return None

    def _turn(self, client: int) -> None:
        """Content has told who the client is."""
        if client != self._client:
            self._client = client
            info = self.info
            info.client_ip, info.server_ip = info.server_ip, info.client_ip
            info.client_port, info.server_port = info.server_port, info.client_port

    # ---- oddities

    def _faults(self) -> Iterator[Item]:
        faults = self._context.registry.faults
        while faults:
            problem = Problem("internal", "error", faults.pop(0))
            yield ProblemItem(self.info, problem, self.info.first_ts_ns, self.info.first_packet)

    def _lost(self, gap: Gap) -> Item:
        side = self._side(gap.side)
        detail = f"{gap.length} bytes were lost by the capture"
        problem = Problem("gap", "error", detail, "", side, gap.offset, gap.length)
        return ProblemItem(self.info, problem, gap.mark.ts_ns, gap.mark.packet)

    def _odd(self, event: StreamProblem) -> Item:
        problem = event.problem
        if problem.side is not None:
            problem.side = self._side(problem.side)
        return ProblemItem(self.info, problem, event.mark.ts_ns, event.mark.packet)

    # ---- the end

    def _end(self, facts: ConnectionStats) -> Iterator[Item]:
        self.info.outcome = facts.outcome
        if self._talk is None and self._stranger is None and not self._over:
            yield from self._take_up(Detected(self._client, "unknown"))
        if self._talk is not None:
            for side in Side:
                if not self._closed[side]:
                    own, peers = facts.resets[side ^ self._client], facts.resets[side.peer ^ self._client]
                    reset_by = _reset_by(side, own=own, peers=peers)
                    yield from self._talk.close(side, reset_by, open_at_end=facts.open_at_end)
            seen = (facts.seen[self._client], facts.seen[1 - self._client])
            yield from self._end_talk(self._talk, seen, open_at_end=facts.open_at_end)
        elif self._stranger is not None:
            yield from self._stranger.end()
        self._fill(facts)
        yield ClosedItem(self.info)

    def _end_talk(self, talk: ProtocolSession, seen: tuple[bool, bool], *, open_at_end: bool) -> Iterator[Item]:
        """Nothing more will be said: tell what stayed open, and let the memory of the talk go."""
        yield from talk.end(open_at_end=open_at_end, seen=seen)
        self._talk, self._over = None, True

    def _fill(self, facts: ConnectionStats) -> None:
        info, client, server = self.info, self._client, 1 - self._client
        info.forgotten = facts.forgotten
        info.last_ts_ns = facts.last_ts_ns
        info.client_packets, info.server_packets = facts.packets[client], facts.packets[server]
        info.client_bytes, info.server_bytes = facts.sizes[client], facts.sizes[server]
        info.gap_bytes = sum(facts.gap_bytes)
        info.retransmitted_segments = facts.retransmitted_segments
        info.out_of_order_segments = facts.out_of_order_segments
        info.duplicate_packets = facts.duplicate_packets
        info.sides_seen = "both" if all(facts.seen) else "client" if facts.seen[client] else "server"
        info.handshake_seen = facts.handshake_seen
        info.close_reason = info.identity.close_reason or facts.close_reason
        info.open_at_end = facts.open_at_end
        info.client_rtt_ns, info.server_rtt_ns = facts.client_rtt_ns, facts.server_rtt_ns
        info.closed_by = None if facts.closed_by is None else self._side(facts.closed_by).text
        info.client_zero_windows, info.server_zero_windows = facts.zero_windows[client], facts.zero_windows[server]
        stalls = facts.longest_stall_ns
        info.client_longest_stall_ns, info.server_longest_stall_ns = stalls[client], stalls[server]


def _reset_by(side: Side, *, own: bool, peers: bool) -> Side | None:
    """Who reset a connection on which a side says no more; the peer where both did, as then nobody reads on."""
    if peers:
        return side.peer
    return side if own else None


def _info(connection: Connection, client: int) -> ConnectionInfo:
    key = connection.key
    ends = (
        (str(ipaddress.ip_address(key.low_ip)), key.low_port),
        (str(ipaddress.ip_address(key.high_ip)), key.high_port),
    )
    (client_ip, client_port), (server_ip, server_port) = ends[client], ends[1 - client]
    return ConnectionInfo(
        connection.id,
        key.tunnel,
        client_ip,
        client_port,
        server_ip,
        server_port,
        connection.first_ts_ns,
        connection.first_packet,
    )


def _behind(chunk: Chunk, offset: int) -> Chunk | None:
    """What stands in a chunk from a stream offset on."""
    if chunk.offset >= offset:
        return chunk
    if chunk.offset + len(chunk.data) <= offset:
        return None
    marks = [mark for mark in chunk.marks if mark.offset > offset]
    first = [mark for mark in chunk.marks if mark.offset <= offset][-1]
    return Chunk(chunk.side, offset, chunk.data[offset - chunk.offset :], [first, *marks])
