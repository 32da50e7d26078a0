"""A connection whose protocol is known: chunks and gaps of its sides in, Items out.

1. Bytes pass the layers that the dissector asked for (``Upgrade``) before they reach it.
2. An Upgrade takes what the dissector has not decoded yet back, and sends it through the new layer.
3. Each question, answer, record batch and problem of the connection becomes an Item; Decoded comes first.
4. What a dissector raises ends its connection with an ``internal`` problem; the run goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from mqsniff.decode.exchanges import Exchanges, Ready
from mqsniff.decode.layers import Layers
from mqsniff.dissector import Dissector, Settings
from mqsniff.model import (
    Chunk,
    ConnectionInfo,
    Decoded,
    Event,
    Exchange,
    Exchanged,
    Gap,
    Item,
    Message,
    Noticed,
    Problem,
    Recorded,
    Side,
    Skipped,
    Upgrade,
)


class Talk:
    """One dissector at work on one connection."""

    def __init__(self, dissector: Dissector, settings: Settings, info: ConnectionInfo) -> None:
        self._dissector = dissector
        self._info = info
        self._layers = Layers(settings.limits)
        self._exchanges = Exchanges(settings.limits)
        self._again: deque[tuple[Chunk | Gap, int]] = deque()
        self._gaps = [0, 0]
        self._broken = False
        info.identity = dissector.identity

    @property
    def now(self) -> int:
        """Ordinal of the packet that released the last item."""
        return self._dissector.now

    def begin(self, *, in_step: bool) -> None:
        """Say whether the streams were seen from their beginning."""
        for side in Side:
            self._dissector.start(side, in_step=in_step)

    def take(self, event: Chunk | Gap) -> Iterator[Item]:
        """Items of the next bytes, or of their loss."""
        if isinstance(event, Gap):
            self._gaps[event.side] += 1
        yield from self._run(event, 0)

    def _run(self, event: Chunk | Gap, level: int) -> Iterator[Item]:
        """Send an event up from a layer; what an Upgrade took back goes before anything that comes later."""
        yield from self._up(self._layers.through(event, level))

    def _up(self, passed: Iterator[Chunk | Gap]) -> Iterator[Item]:
        for above in passed:
            yield from self._give(above)
            yield from self._catch_up()
        for problem, mark in self._layers.notices():
            yield Noticed(self._info, problem, mark.ts_ns, mark.packet)

    def _catch_up(self) -> Iterator[Item]:
        while self._again:
            yield from self._run(*self._again.popleft())

    def _give(self, event: Chunk | Gap) -> Iterator[Item]:
        if self._broken:
            self._info.undecoded_bytes += len(event.data) if isinstance(event, Chunk) else 0
            return
        events = self._dissector.feed(event) if isinstance(event, Chunk) else self._dissector.gap(event)
        yield from self._items(events)

    def close(self, side: Side) -> Iterator[Item]:
        """No more bytes of a side will come."""
        yield from self._up(self._layers.close(side))
        if not self._broken:
            yield from self._items(self._dissector.close(side))
            yield from self._catch_up()

    def end(self, *, open_at_end: bool, seen: tuple[bool, bool]) -> Iterator[Item]:
        """The connection is over: what was never answered, and what stayed dark."""
        for asked in self._dissector.open_questions():
            peer = asked.frame.side.peer
            exchange = self._exchanges.rest(
                asked, open_at_end=open_at_end, peer_seen=seen[peer], peer_gaps=self._gaps[peer]
            )
            yield Exchanged(self._info, exchange)
            yield from self._recorded(self._exchanges.settled(exchange))
        self._layers.end()
        yield from self._up(iter(()))
        self._info.undecoded_bytes += self._layers.undecoded
        tls = self._layers.tls
        self._info.tls_version, self._info.tls_cipher = tls.version, tls.cipher
        self._info.tls_alpn, self._info.tls_server_name = tls.alpn, tls.server_name

    def _items(self, events: Iterator[Event]) -> Iterator[Item]:
        try:
            for event in events:
                match event:
                    case Message():
                        yield from self._message(event)
                    case Skipped():
                        yield self._skipped(event)
                    case Problem():
                        yield Noticed(self._info, event, event.ts_ns, event.packet)
                    case Upgrade():
                        yield from self._upgrade(event)
        except Exception as error:  # noqa: BLE001  # the border of the plugin
            self._broken = True
            detail = (
                f"{type(error).__name__} in {type(self._dissector).__name__}: the connection is not decoded any further"
            )
            yield Noticed(self._info, Problem("internal", "error", detail), None, None)

    def _message(self, message: Message) -> Iterator[Item]:
        ended = self._exchanges.of(message)
        if ended and ended[-1].status == "unasked":
            message.problems.append(Problem("unmatched", "warning", "an answer to no question in the capture"))
        yield Decoded(self._info, message, _latency(message, ended))
        frame = message.frame
        for problem in message.problems:
            yield Noticed(self._info, problem, frame.first_ts_ns, frame.first_packet, message)
        for exchange in ended:
            yield Exchanged(self._info, exchange)
        yield from self._recorded(self._exchanges.records_of(message, ended))
        # What it ended was ended by a message before it, and so on: the first message would live as long as the last.
        message.asked = message.closed = ()

    def _recorded(self, ready: Iterator[Ready]) -> Iterator[Item]:
        for message, batch in ready:
            yield Recorded(self._info, message, batch)

    def _skipped(self, skipped: Skipped) -> Item:
        self._info.undecoded_bytes += skipped.length
        problem = Problem(skipped.kind, "error", skipped.why, "", skipped.side, skipped.offset, skipped.length)
        return Noticed(self._info, problem, skipped.first_ts_ns, skipped.first_packet)

    def _upgrade(self, upgrade: Upgrade) -> Iterator[Item]:
        levels = {side: self._layers.top(side) for side in upgrade.at}
        try:
            self._layers.push(upgrade)
        except KeyError:
            yield Noticed(self._info, Problem("internal", "error", f"no layer is called {upgrade.to}"), None, None)
            return
        for side, offset in upgrade.at.items():
            self._again += [(event, levels[side]) for event in self._dissector.surrender(side, offset)]


def _latency(message: Message, ended: list[Exchange]) -> int | None:
    """The latency of the question that this message answered, None where it answered none."""
    return next((x.latency_ns for x in ended if x.asked is not None and x.answer is message), None)
