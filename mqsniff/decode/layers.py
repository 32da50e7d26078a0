"""Layers between a connection and its dissector: the bytes of a side in, plain bytes at plain offsets out.

1. A layer starts at a stream offset that a dissector named (``Upgrade``); plain offsets go on from there.
2. Each captured packet's bytes go through by themselves, so that plain bytes keep the time and place of their packet.
3. Captured bytes that a layer could not use are counted in ``undecoded``, and each loss has a problem that says why.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from mqsniff.codecs.inflation import PLAIN_SPENT, InflationBudget, PlainCount
from mqsniff.codecs.transforms import TRANSFORMS, LayerLoss, LayerStop, Transform
from mqsniff.codecs.transforms import TransformOutput as Output
from mqsniff.decode.observer import LayersView
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Gap, Mark, Problem, Side, Upgrade
from mqsniff.streams.events import StreamChunk
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.hello import TlsFacts
from mqsniff.tls.keylog import KeyRing
from mqsniff.tls.output import Hole, Plain, SeenRecord, TlsNotice, TlsOutput

LayerEvent: TypeAlias = Chunk | Gap
Notice: TypeAlias = tuple[Problem, Mark]

START: Final = Mark(0, 0, 0, 0)
SYNC_MARK: Final = b"\0\0\xff\xff"
"""The end of what a flush of deflate gives (RFC 1951 section 3.2.4): it belongs to nothing after it."""


def pieces(chunk: Chunk | StreamChunk) -> Iterator[tuple[Mark, bytes]]:
    """The bytes of a chunk packet by packet, each with its mark."""
    marks, stop = chunk.marks, chunk.offset + len(chunk.data)
    for index, mark in enumerate(marks):
        start = max(mark.offset, chunk.offset)
        end = marks[index + 1].offset if index + 1 < len(marks) else stop
        if end > start:
            yield mark, chunk.data[start - chunk.offset : end - chunk.offset]


class Layer(ABC):
    """One side's bytes become other bytes from ``at`` on."""

    def __init__(self, side: Side, at: int) -> None:
        self.side = side
        self.at = at
        self.undecoded = 0
        self.unread_at: int | None = None
        """Stream offset of the layer below from which on bytes may have given nothing; None: all were read."""
        self.notices: list[Notice] = []
        """Problems of bytes that were lost on the way; the owner empties it."""
        self._plain = at
        self._last = START

    @abstractmethod
    def feed(self, chunk: Chunk) -> Iterator[LayerEvent]:
        """Take the next bytes of the layer below."""

    @abstractmethod
    def gap(self, gap: Gap) -> Iterator[LayerEvent]:
        """Take note of bytes that the layer below lost."""

    def close(self) -> Iterator[LayerEvent]:
        """No more bytes will come."""
        return iter(())

    @abstractmethod
    def end(self) -> None:
        """The connection is over: add the last problems."""

    def _chunk(self, data: bytes, mark: Mark) -> Chunk:
        chunk = Chunk(self.side, self._plain, data, [mark._replace(offset=self._plain)])
        self._plain += len(data)
        return chunk

    def _gap(self, length: int | None, mark: Mark) -> Gap:
        gap = Gap(self.side, self._plain, length or 0, mark._replace(offset=self._plain), known=length is not None)
        self._plain += length or 0
        return gap


class TransformLayer(Layer):
    """Bytes through a transform: decompression."""

    def __init__(self, side: Side, at: int, transform: Transform, budget: InflationBudget) -> None:
        super().__init__(side, at)
        self.held_from: int | None = None
        """Where the bytes begin that have given nothing yet; told only where somebody watches."""
        self._transform = transform
        self._budget = budget
        self._fed = 0
        self._stop: LayerStop | None = None
        self._stop_mark = START

    def feed(self, chunk: Chunk) -> Iterator[LayerEvent]:
        """Take the next bytes of the layer below."""
        for mark, data in pieces(chunk):
            self._fed += len(data)
            if self._stop is None:
                self._budget.earn(len(data))
                yield from self._pass(self._transform.feed(data), mark, len(data))
            else:
                self.undecoded += len(data)

    def gap(self, gap: Gap) -> Iterator[LayerEvent]:
        """Pass a gap of the layer below on; one of unknown length counts as at least one byte."""
        if self._stop is None:
            yield from self._pass(self._transform.gap(gap.length if gap.known else max(gap.length, 1)), gap.mark)
        self._fed += gap.length

    def close(self) -> Iterator[LayerEvent]:
        """No more bytes will come."""
        if self._stop is None:
            yield from self._pass(self._transform.close(), self._last)

    def _pass(self, output: Iterator[Output], mark: Mark, size: int = 0) -> Iterator[LayerEvent]:
        """Events of what a transform gives for a packet's ``size`` bytes.

        The layer stops before the packet with which the budget is spent.
        """
        self._last = mark
        for item in output:
            if isinstance(item, LayerLoss):
                self.undecoded += item.size
                self.unread_at = self.at if item.size else self.unread_at
                self.notices.append((Problem(item.kind, "error", item.why, "", self.side, size=item.size), mark))
                if item.plain != 0:
                    yield self._gap(item.plain, mark)
            elif isinstance(item, LayerStop):
                self._stop, self._stop_mark = item, mark
                self.unread_at = self.at + item.offset if self.unread_at is None else self.unread_at
                self.undecoded += max(0, self._fed - item.offset)
            elif len(item) > self._budget.plain_left:
                self._stop, self._stop_mark = LayerStop(self._fed - size, "limit", PLAIN_SPENT), mark
                self.undecoded += size
                return
            else:
                self._budget.spend(len(item))
                yield self._chunk(item, mark)

    def end(self) -> None:
        """Report from which byte on nothing could be decoded, and how many bytes that were."""
        if self._stop is not None:
            stop, self._stop = self._stop, None
            detail = f"{stop.why}: {self.undecoded} bytes not decoded, from byte {stop.offset} of the layer on"
            severity = "warning" if stop.kind == "trailing_bytes" else "error"
            problem = Problem(stop.kind, severity, detail, "", self.side, self._plain, self.undecoded)  # type: ignore[arg-type]
            self.notices.append((problem, self._stop_mark))


class TlsLayer(Layer):
    """One side of TLS; without keys its bytes are not decoded, until clear text follows a closing alert."""

    def __init__(self, side: Side, at: int, decoder: TlsDecoder, both: dict[Side, TlsLayer]) -> None:
        """``both``: the layers of both sides, which share the decoder; this one is added."""
        super().__init__(side, at)
        self.unread_at = at
        self._decoder = decoder
        self._both = both
        both[side] = self

    def feed(self, chunk: Chunk) -> Iterator[LayerEvent]:
        """Take the next bytes of the layer below; what comes out may be of the other side too."""
        return self._passed(self._decoder.feed(chunk))

    def gap(self, gap: Gap) -> Iterator[LayerEvent]:
        """Take note of bytes that the layer below lost."""
        return self._passed(self._decoder.feed(gap))

    def close(self) -> Iterator[LayerEvent]:
        """No more bytes will come."""
        return self._passed(self._decoder.close(self.side))

    def _passed(self, output: list[TlsOutput]) -> Iterator[LayerEvent]:
        """What came out of TLS; runs of plain bytes of one side as one chunk."""
        run: list[Plain] = []
        for item in output:
            if run and (not isinstance(item, Plain) or item.side is not run[0].side):
                yield self._both[run[0].side].joined(run)
                run = []
            match item:
                case Plain():
                    run.append(item)
                case Hole():
                    yield self._both[item.side]._gap(item.size, item.mark)  # noqa: SLF001  # the other side's layer
                case TlsNotice():
                    self.notices.append((item.problem, item.mark))
        if run:
            yield self._both[run[0].side].joined(run)

    def joined(self, run: list[Plain]) -> Chunk:
        """Plain bytes as one chunk; they keep the times and places of their packets."""
        offset, marks = self._plain, []
        for _, data, mark in run:
            marks.append(mark._replace(offset=self._plain))
            self._plain += len(data)
        return Chunk(self.side, offset, b"".join([item.data for item in run]) if len(run) > 1 else run[0].data, marks)

    def end(self) -> None:
        """Say how many bytes TLS hid, and why."""
        decoder, first = self._decoder, self._decoder.first(self.side)
        decoder.conclude()
        self.undecoded = decoder.unread(self.side)
        if first is not None and self.undecoded:
            why = decoder.why_not(self.side)
            detail = f"TLS: {self.undecoded} bytes not decrypted{f': {why}' if why else ''}"
            problem = Problem("tls", "warning", detail, "", self.side, self.at, self.undecoded)
            self.notices.append((problem, first))


class Layers:
    """The stacks of layers of one connection, by side."""

    __slots__ = ("_budget", "_decoder", "_keys", "_limits", "_stacks", "_tls", "_view")

    def __init__(
        self,
        limits: Limits,
        keys: KeyRing | None = None,
        view: LayersView | None = None,
        work: PlainCount | None = None,
    ) -> None:
        """``keys`` open TLS; None where there is no key log at all. ``view`` is shown what becomes of bytes.

        ``work`` counts the bytes that decompression gives.
        """
        self._view = view
        self._limits = limits
        self._budget = InflationBudget(limits, work)
        self._keys = keys
        self._stacks: tuple[list[Layer], list[Layer]] = ([], [])
        self._decoder: TlsDecoder | None = None
        self._tls: dict[Side, TlsLayer] = {}

    @property
    def tls(self) -> TlsFacts | None:
        """What is known of the TLS of the connection; None where there is none."""
        return self._decoder.facts if self._decoder is not None else None

    def push(self, upgrade: Upgrade) -> None:
        """Put the layer of an upgrade on top of its sides; KeyError for a name that is none."""
        if upgrade.to == "tls":
            if self._decoder is None:
                watch = None if self._view is None else self._show_record
                self._decoder = TlsDecoder(self._keys, self._limits, watch=watch, **upgrade.settings)
            for side, at in upgrade.at.items():
                self._stacks[side].append(TlsLayer(side, at, self._decoder, self._tls))
            return
        make = TRANSFORMS[upgrade.to] if isinstance(upgrade.to, str) else upgrade.to
        transforms = make(self._limits, **upgrade.settings)
        for side, at in upgrade.at.items():
            self._stacks[side].append(TransformLayer(side, at, transforms[side], self._budget))

    def _show_record(self, record: SeenRecord) -> None:
        if self._view is not None:
            self._view.record(record, self._tls[record.side].at)

    def top(self, side: Side) -> int:
        """The level above all layers of a side: bytes handed back here enter the layer that is pushed next."""
        return len(self._stacks[side])

    @property
    def opens_tls(self) -> bool:
        """Whether a record of TLS was opened."""
        return self._decoder is not None and self._decoder.opened

    def is_transparent(self, side: Side) -> bool:
        """Whether the only layer of a side is TLS that did not come: the side spoke clear text instead."""
        stack = self._stacks[side]
        clear = self._decoder is not None and self._decoder.is_clear(side)
        return clear and len(stack) == 1 and isinstance(stack[0], TlsLayer)

    def unread_at(self, side: Side) -> int | None:
        """Stream offset of a side from which on its layers may have given nothing for bytes; None: all were read."""
        stack = self._stacks[side]
        if not stack or all(layer.unread_at is None for layer in stack):
            return None
        lowest = stack[0].unread_at
        return stack[0].at if lowest is None else lowest

    def through(self, event: LayerEvent, level: int = 0) -> Iterator[LayerEvent]:
        """The events above all layers when an event enters at a level."""
        stack = self._stacks[event.side]
        if level == len(stack):
            yield event
            return
        layer = stack[level]
        if event.offset < layer.at:
            yield from self._across(event, layer, level)
            return
        if self._view is not None and isinstance(event, Chunk) and isinstance(layer, TransformLayer):
            passed = self._shown(event, layer, self._view)
        else:
            passed = layer.feed(event) if isinstance(event, Chunk) else layer.gap(event)
        for above in passed:
            yield from self.through(above, self._level_above(layer, level, above.side))

    @staticmethod
    def _shown(chunk: Chunk, layer: TransformLayer, view: LayersView) -> Iterator[LayerEvent]:
        """What a transform makes of a chunk, packet by packet, so that an observer sees which bytes gave which."""
        for mark, data in pieces(chunk):
            start = max(mark.offset, chunk.offset)
            first = layer.held_from = start if layer.held_from is None else layer.held_from
            for above in layer.feed(Chunk(chunk.side, start, data, [mark])):
                if isinstance(above, Chunk):
                    stop = above.offset + len(above.data)
                    view.opened(chunk.side, (first, start + len(data)), (above.offset, stop))
                    layer.held_from = None
                yield above
            if data.endswith(SYNC_MARK):
                layer.held_from = None

    def _level_above(self, layer: Layer, level: int, side: Side) -> int:
        """The level above a layer, for a side: bytes of one side of TLS may release those of the other."""
        if side is layer.side:
            return level + 1
        return self._stacks[side].index(self._tls[side]) + 1

    def _across(self, event: LayerEvent, layer: Layer, level: int) -> Iterator[LayerEvent]:
        """Split an event at the start of a layer: the bytes before it bypass the layer."""
        cut = layer.at - event.offset
        if isinstance(event, Gap):
            yield replace(event, length=min(event.length, cut))
            if event.length > cut:
                behind = event.mark._replace(offset=layer.at)
                yield from self.through(Gap(event.side, layer.at, event.length - cut, behind), level)
            return
        if len(event.data) <= cut:
            yield event
            return
        before = [mark for mark in event.marks if mark.offset < layer.at]
        after = [mark for mark in event.marks if mark.offset > layer.at]
        at = [mark for mark in event.marks if mark.offset <= layer.at][-1]
        yield Chunk(event.side, event.offset, event.data[:cut], before)
        yield from self.through(Chunk(event.side, layer.at, event.data[cut:], [at, *after]), level)

    def close(self, side: Side) -> Iterator[LayerEvent]:
        """Close the layers of a side; gives the bytes that they held."""
        for level, layer in enumerate(self._stacks[side], 1):
            for above in layer.close():
                yield from self.through(above, self._level_above(layer, level - 1, above.side))

    def end(self) -> None:
        """The connection is over."""
        for stack in self._stacks:
            for layer in stack:
                layer.end()

    def notices(self) -> Iterator[Notice]:
        """Problems that were noticed since the last call."""
        for stack in self._stacks:
            for layer in stack:
                yield from layer.notices
                layer.notices.clear()

    @property
    def undecoded(self) -> int:
        """Captured bytes that no layer could use."""
        return sum(layer.undecoded for stack in self._stacks for layer in stack)
