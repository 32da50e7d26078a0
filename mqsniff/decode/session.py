"""A connection whose protocol is known: chunks and gaps of its sides in, Items out.

1. Bytes pass the layers that the dissector requested (``Upgrade``) before they reach it.
2. An Upgrade takes back the bytes that the dissector has not decoded yet and sends them through the new layer, in the
   order of their packets.
3. Each message, exchange, record batch and problem of the connection becomes an Item; the MessageItem comes first.
4. An exception of a dissector ends the decoding of its connection with an ``internal`` problem; the run goes on.
5. Every byte fed to the plugin is accounted for: it is decoded in a message, lies after a hole of one, or was skipped.
   The rest counts as undecoded too, and is reported at the end.
6. A problem of bytes that a reset cut off says which side reset the connection. It is a warning if a client reset while
   a reply was in flight, which it does not want; in any other case it is an error, since wanted bytes were lost.
7. Spans of a message cover each of its bytes: what a dissector leaves out, or raises at, is an undecoded span, since
   whoever hides secrets relies on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple, TypeVar

from mqsniff.decode.exchanges import Exchanges
from mqsniff.decode.layers import Layers
from mqsniff.decode.observer import LayersView
from mqsniff.decode.tls import tell_tls
from mqsniff.dissector import Dissector, Settings
from mqsniff.model import (
    Chunk,
    ConnectionInfo,
    Event,
    ExchangeItem,
    Frame,
    Gap,
    Item,
    Message,
    MessageItem,
    Problem,
    ProblemItem,
    RecordItem,
    Side,
    Skipped,
    Span,
    TlsStart,
    Undecoded,
    Upgrade,
)
from mqsniff.tls.keylog import KeyRing

SessionInput = TypeVar("SessionInput", Chunk, Gap, Side)


SESSION_STATE: Final = 6144
"""Bytes that a session takes at least, with its dissector."""


_BOTH: Final = tuple(Side)
"""Looked up once: to walk through an enumeration costs 1 µs, and a connection does so several times."""
_NO_SIDES: Final[frozenset[Side]] = frozenset()


class SessionEnd(NamedTuple):
    """How a connection ended."""

    ts_ns: int
    by_input: bool = False
    """Whether nothing ended it but the end of the input."""
    by: Side | None = None
    """Who sent the first FIN, or the RST."""
    was_reset: bool = False


class ProtocolSession:
    """One dissector at work on one connection."""

    __slots__ = (
        "_broken",
        "_claimed",
        "_closed",
        "_dissector",
        "_exchanges",
        "_explains",
        "_fed",
        "_gaps",
        "_handed_back",
        "_info",
        "_keys",
        "_last",
        "_late",
        "_layers",
        "_reset_by",
        "_settings",
        "_view",
        "_without_exchanges",
    )

    def __init__(
        self,
        dissector: Dissector,
        settings: Settings,
        info: ConnectionInfo,
        explains: Callable[[ConnectionInfo, Frame], bool] | None = None,
        keys: KeyRing | None = None,
        *,
        view: LayersView | None = None,
    ) -> None:
        """``explains`` tells of which frames the spans are wanted; None: of none. ``keys`` open TLS.

        ``view`` is shown what layers make of bytes.
        """
        self._dissector = dissector
        self._info = info
        self._settings, self._keys, self._view = settings, keys, view
        self._layers: Layers | None = None
        """Made by the first Upgrade: most connections have no layers."""
        self._exchanges = Exchanges(settings.limits)
        self._handed_back: list[tuple[Chunk | Gap, int]] = []
        self._gaps = [0, 0]
        self._fed = [0, 0]
        self._claimed = [0, 0]
        self._closed: frozenset[Side] = _NO_SIDES
        self._late: frozenset[Side] = _NO_SIDES
        self._broken = False
        self._reset_by: Side | None = None
        self._explains = explains
        self._without_exchanges = "exchanges" not in settings.wanted and explains is None
        self._last: Message | None = None
        """Last message emitted; its links to requests get cleared, else each message would keep all earlier ones."""
        info.identity = dissector.identity

    @property
    def now(self) -> int:
        """Ordinal of the packet that released the last item."""
        return self._dissector.now

    @property
    def state_size(self) -> int:
        """Bytes of state that it holds, nearly."""
        return SESSION_STATE + self._dissector.state_size + self._exchanges.state_size

    def begin(self, *, in_step: bool) -> None:
        """Say whether the streams were seen from their beginning."""
        for side in _BOTH:
            self._dissector.start(side, in_step=in_step)

    def take(self, event: Chunk | Gap) -> Iterable[Item]:
        """Items of the next bytes or of a gap; ``now`` tells which packet released the item just taken."""
        if isinstance(event, Gap):
            self._gaps[event.side] += 1
        return self._feed(event) if self._layers is None else self._run(self._layers, event, 0)

    def _run(self, layers: Layers, event: Chunk | Gap, level: int) -> Iterator[Item]:
        """Send an event up from a layer."""
        return self._pass_up(layers, layers.through(event, level))

    def _pass_up(self, layers: Layers, passed: Iterator[Chunk | Gap]) -> Iterator[Item]:
        for above in passed:
            if self._info.tls_keys is None and layers.opens_tls:
                self._info.tls_keys = "used"  # what observers know before the connection ends
            yield from self._feed(above)
        for problem, mark in layers.notices():
            if problem.kind == "truncated":
                self._name_reset(problem)
            yield ProblemItem(self._info, problem, mark.ts_ns, mark.packet)

    def _feed(self, event: Chunk | Gap) -> Iterable[Item]:
        if isinstance(event, Gap):
            return self._items(self._dissector.gap, event)
        self._fed[event.side] += len(event.data)
        return self._items(self._dissector.feed, event)

    def _catch_up(self) -> Iterator[Item]:
        """Send the bytes that an Upgrade took back through the layers, before any later ones.

        One event after the other: a layer must finish one before it gets the next.
        """
        assert self._layers is not None, "an Upgrade made them"
        while self._handed_back:
            back, self._handed_back = self._handed_back, []
            for event, level in back:
                yield from self._run(self._layers, event, level)

    def close(self, side: Side, reset_by: Side | None = None, *, open_at_end: bool = False) -> Iterator[Item]:
        """No more bytes of a side will come; a side whose bytes an Upgrade took back now is closed once more.

        ``reset_by``: the side that reset the connection (rule 6).
        """
        self._exchanges.capture_ended = open_at_end
        self._closed |= {side}
        self._reset_by = reset_by
        if self._layers is not None:
            yield from self._pass_up(self._layers, self._layers.close(side))
        yield from self._items(self._dissector.close, side)
        late, self._late = self._late, _NO_SIDES
        for other in sorted(late):
            yield from self.close(other, reset_by, open_at_end=open_at_end)
        self._reset_by = None

    def end(self, ended: SessionEnd, *, seen: tuple[bool, bool]) -> Iterator[Item]:
        """The connection is over: give requests without a reply, and problems of undecoded bytes.

        Unanswered requests are given also where exchanges are not wanted: there are few.
        """
        gaps = self._gaps[0], self._gaps[1]
        for pending in self._dissector.unanswered():
            exchange = self._exchanges.rest(pending, open_at_end=ended.by_input, seen=seen, gaps=gaps)
            exchange.ended_ns, exchange.ended_by, exchange.was_reset = ended.ts_ns, ended.by, ended.was_reset
            if not self._without_exchanges or exchange.status == "unanswered":
                yield ExchangeItem(self._info, exchange)
            for message, batch in self._exchanges.settled(exchange):
                yield RecordItem(self._info, message, batch)
        if self._layers is not None:
            self._layers.end()
            yield from self._pass_up(self._layers, iter(()))
        for side in _BOTH:
            if self._fed[side] > self._claimed[side]:
                yield from self._unclaimed(side)
        if self._layers is not None:
            self._fill(self._layers)

    def _unclaimed(self, side: Side) -> Iterator[Item]:
        """Bytes of a side that the dissector did not account for."""
        size = self._fed[side] - self._claimed[side]
        if size > 0:
            self._info.undecoded_bytes += size
            detail = f"{size} bytes that {type(self._dissector).__name__} did not account for"
            yield ProblemItem(self._info, Problem("undecoded", "error", detail, "", side, size=size), None, None)

    def _fill(self, layers: Layers) -> None:
        """Write what layers made of the bytes into the row of the connection."""
        info = self._info
        info.undecoded_bytes += layers.undecoded
        if layers.top(Side.CLIENT):
            info.client_plain_bytes = self._fed[Side.CLIENT]
        if layers.top(Side.SERVER):
            info.server_plain_bytes = self._fed[Side.SERVER]
        for side in info.layer_starts:
            if (unread_at := layers.unread_at(side)) is not None:
                info.unread_at = {**info.unread_at, side: unread_at}
        opaque = {side: at for side, at in info.layer_starts.items() if not layers.is_transparent(side)}
        if len(opaque) < len(info.layer_starts):
            info.layer_starts = opaque
        if layers.tls is not None:
            tell_tls(info, layers.tls)

    def _items(self, tell: Callable[[SessionInput], Iterable[Event]], what: SessionInput) -> Iterable[Item]:
        """Items of the events of one call of the dissector; none after it has raised once. Hot."""
        if self._broken:
            return ()
        if self._last is not None:
            self._last.pending = self._last.resolved = self._last.answered = ()
            self._last = None
        try:
            events = tell(what)
            if isinstance(events, list) and len(events) == 1 and isinstance(events[0], Message):  # no generator: faster
                self._last = message = events[0]
                if self._without_exchanges and not (message.records or self._exchanges.waiting):
                    return self._message_only(message)
                return self._message(message)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
            return [self._fault(error)]
        return () if isinstance(events, tuple) and not events else self._each(events)

    def _each(self, events: Iterable[Event]) -> Iterator[Item]:
        """Items of events that come one by one."""
        try:
            for event in events:
                match event:
                    case Message():
                        if self._reset_by is not None:
                            self._name_reset_in(event)
                        yield from self._message(event)
                        event.pending = event.resolved = event.answered = ()  # as in ``_items``
                    case Skipped():
                        yield self._skipped(event)
                    case Problem():
                        yield ProblemItem(self._info, event, event.ts_ns, event.packet)
                    case Upgrade():
                        yield from self._upgrade(event)
                    case _:
                        yield self._fault(TypeError())  # type: ignore[unreachable]  # plugins need no type checker
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
            yield self._fault(error)
        if self._handed_back:
            yield from self._catch_up()

    def _name_reset_in(self, message: Message) -> None:
        """Adjust the ``truncated`` problems of a message that a reset cut off (rule 6)."""
        if not message.frame.holes:
            for problem in message.problems:
                if problem.kind == "truncated":
                    self._name_reset(problem)

    def _name_reset(self, problem: Problem) -> None:
        """Say in a problem which side reset the connection, and set its severity; no reset: no change (rule 6)."""
        reset_by = self._reset_by
        if reset_by is not None and problem.side is not None:
            problem.detail += f": the {reset_by.text} reset the connection"
            if reset_by is Side.CLIENT and problem.side is Side.SERVER:
                problem.severity = "warning"

    def _fault(self, error: BaseException) -> Item:
        """The dissector has raised: never call it again."""
        self._broken = True
        detail = (
            f"{type(error).__name__} in {type(self._dissector).__name__}: the connection is not decoded any further"
        )
        return ProblemItem(self._info, Problem("internal", "error", detail), None, None)

    def _message(self, message: Message) -> list[Item]:
        """Items of a message: itself, its problems, exchanges and records. Hot: once a message."""
        info, frame = self._info, message.frame
        ended = self._exchanges.of(message)
        if ended and ended[-1].status == "unasked":
            _note_unmatched(message)
        self._claimed[frame.side] += len(frame.data) + frame.unread
        info.undecoded_bytes += frame.unread
        items: list[Item] = [MessageItem(info, message, _latency(message))]
        if self._explains is not None and self._explains(info, frame):
            items[0] = MessageItem(info, message, _latency(message), self._spans(message))
        if message.problems:
            items += [
                ProblemItem(info, odd, frame.first_ts_ns, frame.first_packet, message) for odd in message.problems
            ]
        if not self._without_exchanges:
            items += [ExchangeItem(info, exchange) for exchange in ended]
        elif ended:
            items += [ExchangeItem(info, exchange) for exchange in ended if exchange.status == "unanswered"]
        if message.records or (ended and self._exchanges.waiting):
            items += [RecordItem(info, own, batch) for own, batch in self._exchanges.records_of(message, ended)]
        return items

    def _spans(self, message: Message) -> tuple[Span, ...]:
        """The fields of a message beside its bytes (rule 7)."""
        found: tuple[Span, ...] = ()
        try:
            found = tuple(self._dissector.spans(message.frame))
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the border of the plugin
            detail = f"{type(error).__name__} in {type(self._dissector).__name__}.spans"
            message.problems.append(Problem("internal", "error", detail))
        return _tiled(found, message.frame.data)

    def _message_only(self, message: Message) -> list[Item]:
        """Items of a message if exchanges are not wanted and no records wait. Hot."""
        info, frame = self._info, message.frame
        if message.kind == "response" and not message.answers:
            _note_unmatched(message)
        self._claimed[frame.side] += len(frame.data) + frame.unread
        info.undecoded_bytes += frame.unread
        items: list[Item] = [MessageItem(info, message)]
        if message.problems:
            place = frame.first_ts_ns, frame.first_packet
            items += [ProblemItem(info, odd, *place, message) for odd in message.problems]
        if len(message.resolved) != message.answers:  # rare: some get several replies, some none
            ended = self._exchanges.of(message)
            items += [ExchangeItem(info, exchange) for exchange in ended if exchange.status == "unanswered"]
        return items

    def _skipped(self, skipped: Skipped) -> Item:
        size = skipped.length - skipped.lost
        self._claimed[skipped.side] += size
        self._info.undecoded_bytes += size
        problem = Problem(skipped.kind, "error", skipped.why, "", skipped.side, skipped.offset, size)
        if skipped.kind == "truncated":
            self._name_reset(problem)
        return ProblemItem(self._info, problem, skipped.first_ts_ns, skipped.first_packet)

    def _note_layer(self, upgrade: Upgrade) -> None:
        """Note in the connection what is below its messages."""
        info = self._info
        if upgrade.to == "tls":
            known = {} if info.tls_start is None else info.tls_start.at
            info.tls_start = TlsStart({**upgrade.at, **known}, upgraded=True)
        else:
            info.decompressed = True

    def _upgrade(self, upgrade: Upgrade) -> Iterator[Item]:
        layers = self._layers
        if layers is None:
            layers = self._layers = Layers(self._settings.limits, self._keys, self._view, self._settings.work)
        levels = [layers.top(side) for side in Side]
        try:
            layers.push(upgrade)
            self._note_layer(upgrade)
            for side, offset in upgrade.at.items():
                self._info.layer_starts = {side: offset, **self._info.layer_starts}
        except KeyError:
            yield ProblemItem(self._info, Problem("internal", "error", f"no layer is called {upgrade.to}"), None, None)
            return
        taken = (self._dissector.hand_back(side, offset) for side, offset in upgrade.at.items())
        for event in sorted(chain.from_iterable(taken), key=_release):
            if isinstance(event, Chunk):
                self._fed[event.side] -= len(event.data)
            self._handed_back.append((event, levels[event.side]))
            if event.side in self._closed:
                self._late |= {event.side}


def _tiled(spans: tuple[Span, ...], data: bytes) -> tuple[Span, ...]:
    """Spans that cover ``data``: these, and undecoded ones for what they leave out."""
    made: list[Span] = []
    at = 0
    for span in spans:
        if span.start > at:
            made.append(_undecoded_span(data, at, span.start))
        made.append(span)
        at = max(at, span.stop)
    if at < len(data):
        made.append(_undecoded_span(data, at, len(data)))
    return tuple(made)


def _undecoded_span(data: bytes, start: int, stop: int) -> Span:
    return Span("undecoded", start, stop, Undecoded(data[start:stop]), "the dissector tells no fields")


def _release(event: Chunk | Gap) -> int:
    """Ordinal of the packet that released an event."""
    return event.mark.release if isinstance(event, Gap) else event.marks[0].release


def _note_unmatched(message: Message) -> None:
    """Add an ``unmatched`` problem to a reply without a request, unless its dissector added one."""
    if not any(problem.kind == "unmatched" for problem in message.problems):
        message.problems.append(Problem("unmatched", "warning", "an answer without its request in the capture"))


def _latency(message: Message) -> int | None:
    """Latency of the first request that has this message as its first reply; None if there is none."""
    for pending in message.answered:
        if pending.answer is message:
            latency = message.frame.first_ts_ns - pending.frame.last_ts_ns
            return latency if latency >= 0 else None
    return None
