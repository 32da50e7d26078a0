"""TLS that a connection begins with: its events in, what is inside out, and at the end its facts.

1. Plain offsets count plain bytes from 0 on.
2. Nothing comes out until a record was opened: clear text in a connection without keys is told with what TLS hides.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.decode.layers import Notice, TlsLayer
from mqsniff.decode.observer import LayersView
from mqsniff.decode.tls import tell_tls
from mqsniff.limits import Limits
from mqsniff.model import Chunk, ConnectionInfo, Gap, Item, Mark, Problem, ProblemItem, Side
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.keylog import KeyRing


class TlsStage:
    """The TLS under a whole connection."""

    def __init__(
        self,
        limits: Limits,
        keys: KeyRing | None,
        info: ConnectionInfo,
        *,
        from_start: bool,
        view: LayersView | None = None,
    ) -> None:
        self._info = info
        self._decoder = TlsDecoder(keys, limits, from_start=from_start, watch=None if view is None else view.record)
        both: dict[Side, TlsLayer] = {}
        self._layers = [TlsLayer(side, 0, self._decoder, both) for side in Side]
        self._plain = [0, 0]
        self._unused = 0

    def pass_through(self, event: Chunk | Gap) -> Iterator[Chunk | Gap]:
        """What comes out of TLS when an event goes in."""
        layer = self._layers[event.side]
        return self._counted(layer.feed(event) if isinstance(event, Chunk) else layer.gap(event))

    def close(self, side: Side) -> Iterator[Chunk | Gap]:
        """What comes out when no more bytes of a side will come."""
        return self._counted(self._layers[side].close())

    def _counted(self, passed: Iterator[Chunk | Gap]) -> Iterator[Chunk | Gap]:
        for above in passed:
            if self._decoder.opened:
                if isinstance(above, Chunk):
                    self._plain[above.side] += len(above.data)
                yield above
            elif isinstance(above, Chunk):
                self._unused += len(above.data)

    def notices(self) -> Iterator[Notice]:
        """Problems that were noticed since the last call."""
        for layer in self._layers:
            yield from layer.notices
            layer.notices.clear()

    def end(self) -> Iterator[Item]:
        """The connection is over: its facts, and what was not decrypted."""
        info = self._info
        for layer in self._layers:
            layer.end()
        tell_tls(info, self._decoder.facts)
        total = sum(layer.undecoded for layer in self._layers) + self._unused
        info.undecoded_bytes += total
        if self._decoder.opened or not total:
            if info.client_plain_bytes is None:
                info.client_plain_bytes = self._plain[Side.CLIENT]
            if info.server_plain_bytes is None:
                info.server_plain_bytes = self._plain[Side.SERVER]
        notices = list(self.notices())
        if not self._decoder.opened and total:
            notices = [self._nothing_decrypted(total)]
        for problem, mark in notices:
            yield ProblemItem(info, problem, mark.ts_ns, mark.packet)

    def _nothing_decrypted(self, total: int) -> Notice:
        """One problem for both sides."""
        firsts: list[Mark] = [mark for side in Side if (mark := self._decoder.first(side)) is not None]
        whys = [why for side in Side if (why := self._decoder.why_not(side)) is not None]
        detail = f"TLS: {total} bytes not decrypted{f': {whys[0]}' if whys else ''}"
        return Problem("tls", "warning", detail, size=total), min(firsts, key=lambda mark: mark.release)
