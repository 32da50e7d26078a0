"""One connection from its first packet to its last: stream events in, Items out, in the order of their release.

1. A connection is detected first, then a ProtocolSession decodes it or an OpaqueConnection counts it. Events that
   waited for the verdict are replayed in order.
2. Detection of an opaque connection is repeated at each later segment if the capture does not hold its beginning and it
   is unknown or only named (``foreign``). If the capture does hold it, detection is repeated with the first bytes of
   the peer: a broker refuses foreign protocols with messages of its own protocol.
3. Here a direction of the stream becomes a ``Side``: by handshake, else by content, else by port. Events that wait for
   it stay as the stream gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeAlias, assert_never

from mqsniff.decode.connectionrow import fill_info, new_info
from mqsniff.decode.detection import Detected, Detection, client_by_ports
from mqsniff.decode.foreign import TITLES
from mqsniff.decode.layers import pieces
from mqsniff.decode.nameable import UNKNOWN
from mqsniff.decode.observer import LayersView, RunObserver
from mqsniff.decode.opaque import OpaqueConnection
from mqsniff.decode.proxyhead import StreamInput, without_head
from mqsniff.decode.registry import Claim, Registry
from mqsniff.decode.session import ProtocolSession, SessionEnd
from mqsniff.decode.tlsstage import TlsStage
from mqsniff.dissector import Settings
from mqsniff.model import (
    UNMET,
    Chunk,
    ClosedItem,
    Gap,
    Item,
    OpenedItem,
    Problem,
    ProblemItem,
    Side,
    TlsStart,
)
from mqsniff.streams.connection import Connection
from mqsniff.streams.events import (
    ConnectionClosed,
    ConnectionEstablished,
    ConnectionOpened,
    ConnectionStats,
    StreamChunk,
    StreamClosed,
    StreamEvent,
    StreamGap,
    StreamProblem,
)
from mqsniff.tls.keylog import KeyRing

TLS_STATE: Final = 8192
"""Bytes that the TLS of a connection takes, nearly."""

_BOTH: Final = tuple(Side)
"""Looked up once: to walk through an enumeration costs 1 µs, and a connection does so several times."""
_SIDES: Final = ((Side.CLIENT, Side.SERVER), (Side.SERVER, Side.CLIENT))
"""By the direction of the client: the side of each direction."""

Placed: TypeAlias = tuple[int, int, Item]
"""(ordinal of the packet that released it, ordinal of the connection's first packet, item)."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all connections of a run share."""

    registry: Registry
    settings: Settings
    observer: RunObserver | None = None
    keys: KeyRing | None = None
    """What opens TLS."""


class Conversation:
    """One connection: its detection, then its session or its opaque rest."""

    __slots__ = (
        "_behind_head",
        "_client",
        "_closed",
        "_connection",
        "_context",
        "_detection",
        "_ended_by",
        "_first",
        "_from_start",
        "_now",
        "_opaque",
        "_opened",
        "_over",
        "_session",
        "_sides",
        "_tls",
        "_unanswered",
        "_view",
        "_waiting",
        "_was_reset",
        "info",
    )

    def __init__(self, connection: Connection, context: RunContext) -> None:
        self._connection = connection
        self._context = context
        self._first = connection.first_ordinal
        self._now = self._first
        self._waiting: list[StreamInput] | None = None
        """Events before the verdict."""
        self._detection: Detection | None = None
        self._session: ProtocolSession | None = None
        self._opaque: OpaqueConnection | None = None
        self._unanswered: list[StreamInput] | None = None
        """Events of an opaque connection so far, while its peer's first bytes may still show the protocol (rule 2)."""
        self._tls: TlsStage | None = None
        """TLS under everything else, if the connection begins with it."""
        self._behind_head = (0, 0)
        """Which direction has a PROXY head, and its size."""
        self._from_start = True
        self._client = self._likely_client()
        self._sides = _SIDES[self._client]
        self._closed = (False, False)
        self._ended_by: Side | None = None
        self._was_reset = False
        self._over = False
        self._opened = False
        self.info = new_info(connection, self._client)
        self._view: LayersView | None = None
        if context.observer is not None:
            context.observer.see_connection(connection, self.info)
            self._view = LayersView(context.observer, self.info)

    @property
    def state_size(self) -> int:
        """Bytes of state that it holds, nearly, besides what every connection has."""
        size = 0
        if self._waiting is not None:
            size = sum(len(event.data) for event in self._waiting if isinstance(event, StreamChunk))
        if self._detection is not None:
            size += self._detection.state_size
        if self._tls is not None:
            size += TLS_STATE
        return size if self._session is None else size + self._session.state_size

    def _likely_client(self) -> int:
        """The direction that is the client by handshake or ports."""
        client, key = self._connection.client_direction, self._connection.key
        return client_by_ports(self._context.registry, (key.low_port, key.high_port)) if client is None else client

    def _detector(self, *, from_start: bool) -> Detection:
        key, shared = self._connection.key, self._context
        ports = (key.low_port, key.high_port)
        client = self._connection.client_direction if self._tls is None else self._client
        return Detection(shared.registry, shared.settings.limits, ports, client, from_start=from_start)

    def items(self, release: int, event: StreamEvent) -> Iterable[Placed]:
        """Items of the connection's next event, each with the ordinal that released it.

        Hot: most events are bytes of a connection with a session, and most packets release only their own items.
        """
        self._now = max(self._now, release)
        session = self._session
        if session is None or not isinstance(event, StreamChunk) or self._tls is not None:
            if isinstance(event, ConnectionOpened):
                if event.client_direction is not None:
                    self._set_client(event.client_direction)
                return ()
            return self._placed(self._event(event))
        items = session.take(Chunk(self._sides[event.direction], event.offset, event.data, event.marks))
        if not isinstance(items, list):
            return self._placed(items)
        now, first = session.now, self._first  # what ``_placed`` gives too, without a generator
        if now > self._now:
            self._now = now
        else:
            now = self._now
        return [(now, first, item) for item in items]

    def _placed(self, items: Iterable[Item]) -> Iterator[Placed]:
        for item in items:
            session = self._session
            if session is not None and (now := session.now) > self._now:
                self._now = now
            yield self._now, self._first, item

    def _event(self, event: StreamEvent) -> Iterable[Item]:
        match event:
            case StreamChunk() | StreamClosed():
                return self._stream(event)
            case StreamGap():
                return chain((self._gap_item(event),), self._stream(event))
            case ConnectionOpened():
                return ()  # ``items`` did all
            case ConnectionEstablished(mark):
                return self._open(mark.ts_ns)
            case StreamProblem():
                return (self._problem_item(event),)
            case ConnectionClosed():
                return self._end(event.stats)
            case _:
                assert_never(event)

    def _open(self, ts_ns: int) -> Iterable[Item]:
        if self._opened:
            return ()
        self._opened = True
        return (OpenedItem(self.info, ts_ns),)

    # ---- bytes, losses and ends of a direction

    def _stream(self, event: StreamInput) -> Iterable[Item]:
        """Hand an event on, through TLS if there is some; packet by packet while the verdict may still change."""
        if self._tls is None and (not isinstance(event, StreamChunk) or len(event.marks) == 1):
            return self._take(event)
        return self._take_parts(event)

    def _take_parts(self, event: StreamInput) -> Iterator[Item]:
        for part in self._parts(event) if self._tls is None else (event,):
            yield from self._take(part) if self._tls is None else self._decrypt(self._tls, part)

    def _parts(self, event: StreamInput) -> Iterable[StreamInput]:
        """An event as one for each packet, unless the verdict is final."""
        return self._packets(event) if isinstance(event, StreamChunk) and not self._settled else (event,)

    def _packets(self, chunk: StreamChunk) -> Iterator[StreamChunk]:
        for mark, data in pieces(chunk):
            self._now = max(self._now, mark.release)
            yield StreamChunk(chunk.direction, max(mark.offset, chunk.offset), data, [mark])

    # ---- TLS from the first byte on

    def _begin_tls(self, events: list[StreamInput]) -> Iterator[Item]:
        """The connection speaks TLS: what is inside is detected as if it were plain."""
        self._opaque, self._unanswered, self._detection = None, None, None
        self.info.protocol, self.info.detected_by = "tls", "content"
        shared = self._context
        self.info.tls_start = self._tls_start()
        stage = self._tls = TlsStage(
            shared.settings.limits, shared.keys, self.info, from_start=self._from_start, view=self._view
        )
        for event in without_head(events, *self._behind_head):
            yield from self._decrypt(stage, event)

    def _tls_start(self) -> TlsStart:
        """Where TLS begins: with the connection, or after a PROXY head."""
        direction, size = self._behind_head
        at = {side: size if side is self._sides[direction] else 0 for side in Side}
        return TlsStart(at, upgraded=False, from_start=self._from_start)

    def _decrypt(self, stage: TlsStage, event: StreamInput) -> Iterator[Item]:
        """Send an event through TLS; bytes of one side may release those of the other."""
        if isinstance(event, StreamClosed):
            passed = stage.close(self._sides[event.direction])
        else:
            passed = stage.pass_through(self._sided(event))
        for plain in passed:
            yield from self._inside(plain)
        for problem, mark in stage.notices():
            yield ProblemItem(self.info, problem, mark.ts_ns, mark.packet)
        if isinstance(event, StreamClosed):
            yield from self._take(event)

    def _inside(self, plain: Chunk | Gap) -> Iterator[Item]:
        """Hand on what came out of TLS."""
        if plain.side not in self.info.layer_starts:
            self.info.layer_starts = {**self.info.layer_starts, plain.side: 0}
        self.info.tls_keys = "used"  # what observers know before the connection ends
        direction = plain.side ^ self._client
        event: StreamInput = (
            StreamGap(direction, plain.offset, plain.length, plain.mark, plain.known)
            if isinstance(plain, Gap)
            else StreamChunk(direction, plain.offset, plain.data, plain.marks)
        )
        for part in self._parts(event):
            yield from self._take(part)

    @property
    def _settled(self) -> bool:
        return self._session is not None or self._over or (self._opaque is not None and not self._may_change)

    @property
    def _awaits_answer(self) -> bool:
        """Whether the peer's first bytes may still show the protocol of an opaque connection."""
        return self._from_start and self._detection is not None and self._detection.awaits_answer

    @property
    def _may_change(self) -> bool:
        """Whether the verdict on an opaque connection may still change (rule 2)."""
        named = self.info.protocol == "unknown" or self.info.protocol in TITLES
        return self._unanswered is not None or (named and not self._from_start)

    def _take(self, event: StreamInput) -> Iterator[Item]:
        if self._session is not None or self._opaque is not None or self._over:
            yield from self._pass_on(event)
            return
        if self._detection is None:
            self._from_start = self._connection.seen_from_start
            self._detection = self._detector(from_start=self._from_start)
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(event)
        if isinstance(event, StreamGap):
            self._detection.gap(event.direction)
        elif isinstance(event, StreamChunk):
            verdict = self._detection.chunk(event)
            if self._context.registry.faults:
                yield from self._faults()
            if verdict is not None:
                yield from self._apply_verdict(verdict)

    def _apply_verdict(self, verdict: Detected) -> Iterator[Item]:
        """Act on the verdict: start a session or an opaque connection, then replay the events that waited."""
        self._set_client(verdict.client_direction)
        info = self.info
        info.protocol = verdict.protocol
        head = verdict.heads.get(verdict.client_direction)
        if head is not None:
            info.proxy_client, info.proxy_server, info.proxy_bytes = head.source, head.destination, head.size
        session = None if verdict.claim is None else self._session_by(verdict.claim)
        if self._tls is not None and session is None and verdict.protocol == "tls":
            verdict.protocol = info.protocol = UNKNOWN  # TLS inside of TLS
        if session is None:
            info.protocol = "unknown" if verdict.claim else verdict.protocol
            info.detected_by = None if info.protocol == "unknown" else "content"
            self._opaque = OpaqueConnection(info.protocol, info)
            yield from self._faults()
        self._session = session
        if self.info.outcome not in UNMET:
            yield from self._open(self.info.first_ts_ns)
        waiting, self._waiting = self._waiting or [], None
        if session is not None:
            self._detection = None  # its samples are not needed any more
        self._behind_head = (verdict.client_direction, head.size if head is not None else 0)
        if info.protocol == "tls" and not self._awaits_answer:
            yield from self._begin_tls(waiting)
            return
        for event in waiting if head is None else without_head(waiting, *self._behind_head):
            yield from self._pass_on(event)
        if self._opaque is not None and verdict.claim is None and self._awaits_answer:
            self._unanswered = waiting

    def _session_by(self, claim: Claim) -> ProtocolSession | None:
        """A session of the claimed dissector; None, with a fault noted, if the dissector cannot be made."""
        settings, registry = self._context.settings, self._context.registry
        try:
            dissector = claim.dissector(settings)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
            registry.faults.append(f"{type(error).__name__}: no {claim.dissector.__name__} can be made: {error}")
            return None
        self.info.detected_by = claim.detected_by
        observer = self._context.observer
        explains = None if observer is None else observer.wants_spans
        session = ProtocolSession(dissector, settings, self.info, explains, self._context.keys, view=self._view)
        session.begin(in_step=self._from_start)
        return session

    def _pass_on(self, event: StreamInput) -> Iterator[Item]:
        if (unanswered := self._unanswered) is not None:
            if (verdict := self._answered(unanswered, event)) is not None:
                self._waiting, self._unanswered, self._opaque = unanswered, None, None
                yield from self._apply_verdict(verdict)
                return
            if self._unanswered is None and self.info.protocol == "tls":
                yield from self._begin_tls(unanswered)
                return
        if isinstance(event, StreamClosed):
            yield from self._close(event)
        elif self._session is not None:
            yield from self._session.take(self._sided(event))
        elif self._opaque is not None:
            if isinstance(event, StreamChunk) and (verdict := self._detect_again(event)) is not None:
                yield from self._opaque.end_before_protocol(turned=verdict.client_direction != self._client)
                self._opaque = None
                self._waiting = [event]
                yield from self._apply_verdict(verdict)
                return
            self._opaque.take(self._sided(event))

    def _close(self, event: StreamClosed) -> Iterator[Item]:
        side = self._sides[event.direction]
        self._closed = (True, self._closed[1]) if side is Side.CLIENT else (self._closed[0], True)
        reset_by = _reset_by(side, own=event.reason == "rst", peers=event.peer_reset)
        if reset_by is not None:
            self._ended_by = reset_by
        elif self._ended_by is None:  # whose FIN came first
            self._ended_by = side
        self._was_reset = self._was_reset or reset_by is not None
        if self._session is not None:
            yield from self._session.close(side, reset_by)
            if all(self._closed):
                ended = SessionEnd(event.mark.ts_ns, by=self._ended_by, was_reset=self._was_reset)
                yield from self._end_session(self._session, ended, (True, True))

    def _sided(self, event: StreamChunk | StreamGap) -> Chunk | Gap:
        """An event with the side of its direction."""
        side = self._sides[event.direction]
        if isinstance(event, StreamGap):
            return Gap(side, event.offset, event.length, event.mark, event.known)
        return Chunk(side, event.offset, event.data, event.marks)

    def _answered(self, unanswered: list[StreamInput], event: StreamInput) -> Detected | None:
        """The verdict on an opaque connection after an event of its peer; None: it stays opaque."""
        unanswered.append(event)
        verdict = None
        if isinstance(event, StreamChunk) and self._detection is not None:
            verdict = self._detection.reply_to(event)
        if verdict is None and (isinstance(event, StreamGap) or not self._awaits_answer):
            self._unanswered = None
        return verdict

    def _detect_again(self, chunk: StreamChunk) -> Detected | None:
        """The verdict on a later segment of a connection that was joined in the middle; None: it stays opaque.

        If the segment shows a foreign protocol, an unknown connection gets its name.
        """
        if not self._may_change or self._from_start:
            return None
        verdict = self._detector(from_start=False).chunk(chunk)
        if verdict is None or verdict.claim is not None or (verdict.protocol == "tls" and self._tls is None):
            return verdict
        if self._opaque is not None and self.info.protocol == "unknown" and verdict.protocol in TITLES:
            self._opaque.rename(verdict.protocol)
        return None

    def _set_client(self, client: int) -> None:
        """Set which direction is the client; swaps the endpoints of ``info`` if it was the other."""
        if client != self._client:
            self._client, self._sides = client, _SIDES[client]
            info = self.info
            info.client_ip, info.server_ip = info.server_ip, info.client_ip
            info.client_port, info.server_port = info.server_port, info.client_port

    # ---- oddities

    def _faults(self) -> Iterator[Item]:
        faults = self._context.registry.faults
        while faults:
            problem = Problem("internal", "error", faults.pop(0))
            yield ProblemItem(self.info, problem, self.info.first_ts_ns, self.info.first_packet)

    def _gap_item(self, gap: StreamGap) -> Item:
        side = self._sides[gap.direction]
        detail = f"{gap.length} bytes were lost by the capture"
        problem = Problem("gap", "error", detail, "", side, gap.offset, gap.length)
        return ProblemItem(self.info, problem, gap.mark.ts_ns, gap.mark.packet)

    def _problem_item(self, event: StreamProblem) -> Item:
        problem = event.problem
        if event.direction is not None:
            problem = replace(problem, side=self._sides[event.direction])
        return ProblemItem(self.info, problem, event.mark.ts_ns, event.mark.packet)

    # ---- the end

    def _end(self, facts: ConnectionStats) -> Iterator[Item]:
        self.info.outcome = facts.outcome
        if self._unanswered is not None and self.info.protocol == "tls":
            yield from self._begin_tls(self._unanswered)
        if self._tls is not None:
            yield from self._end_tls(self._tls)
        elif self._session is None and self._opaque is None and not self._over:
            last = None if self._detection is None else self._detection.last()
            yield from self._apply_verdict(last or Detected(self._client, UNKNOWN))
        if self._session is not None:
            for side in _BOTH:
                if not self._closed[side]:
                    own, peers = facts.resets[side ^ self._client], facts.resets[side.peer ^ self._client]
                    reset_by = _reset_by(side, own=own, peers=peers)
                    yield from self._session.close(side, reset_by, open_at_end=facts.open_at_end)
            seen = (facts.seen[self._client], facts.seen[1 - self._client])
            closer = None if facts.closed_by is None else self._sides[facts.closed_by]
            ended = SessionEnd(facts.last_ts_ns, facts.open_at_end, closer, was_reset=facts.close_reason == "rst")
            yield from self._end_session(self._session, ended, seen)
        elif self._opaque is not None:
            yield from self._opaque.end()
        if self._tls is not None:
            yield from self._tls.end()
        fill_info(self.info, facts, self._client)
        yield ClosedItem(self.info)

    def _end_tls(self, stage: TlsStage) -> Iterator[Item]:
        """Get what TLS held back; bytes inside that nobody took are unknown."""
        for side in Side:
            if not self._closed[side]:
                for plain in stage.close(side):
                    yield from self._inside(plain)
        seen = any(isinstance(event, StreamChunk) for event in self._waiting or ())
        if self._session is None and self._opaque is None and not self._over and seen:
            yield from self._apply_verdict(Detected(self._client, UNKNOWN))

    def _end_session(self, session: ProtocolSession, ended: SessionEnd, seen: tuple[bool, bool]) -> Iterator[Item]:
        """End the session: give its last items and free its memory."""
        yield from session.end(ended, seen=seen)
        self._session, self._over = None, True


def _reset_by(side: Side, *, own: bool, peers: bool) -> Side | None:
    """The side that reset the connection on which ``side`` ended; the peer if both did, since it reads no more."""
    if peers:
        return side.peer
    return side if own else None
