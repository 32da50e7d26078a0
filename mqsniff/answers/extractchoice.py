"""Items of a run in, those that the filters chose out of it in, what an extract has to hold out: places in streams.

1. A chosen message is wanted, and with it both sides of its exchange.
2. Messages that make others readable come along: the first of a connection (logins, handles, subscriptions), up to
   ``OPENING_MAX`` and to the first that carries records; and those that taught the topic ids of what was chosen.
3. Of a connection of which every message was chosen, and of one that was chosen and has none, every packet is wanted.
4. Rows of what was chosen are remembered by their hash, to prove that the extract decodes to the same.
5. Memory: what was chosen, and the openings of connections that may still be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from mqsniff.model import (
    ClosedItem,
    ConnectionInfo,
    ExchangeItem,
    Frame,
    Item,
    Message,
    MessageItem,
    PartitionItem,
    Pending,
    ProblemItem,
    RecordItem,
    Side,
    TlsStart,
)
from mqsniff.sinks.lines import message_parts
from mqsniff.tables.escape import safe
from mqsniff.tables.rows import Captures, rows_of
from mqsniff.tables.values import Redaction

OPENING_MAX: Final = 32
"""Messages at the beginning of a connection that come along."""
_PLAIN: Final = Redaction(secrets=True, raw=True)
_PROVEN: Final = ("messages", "exchanges")
_BY_OTHERS: Final = frozenset(("queue_ns", "work_ns"))
"""Columns that depend on messages before, which an extract need not hold."""
_OFFSETS: Final = frozenset(("stream_offset", "request_stream_offset", "response_stream_offset"))

RowKey: TypeAlias = tuple[str, str, int, int]
"""Table, connection, side and stream offset of a row; of a decrypted one its hash stands with the table, and how many
like it came before instead of the offset, which counts no bytes that a cut in TLS hides."""


class ChosenFrame(NamedTuple):
    """A message's bytes in the stream of its side; ``line`` tells of it where it was chosen itself."""

    side: Side
    start: int
    stop: int
    first_packet: int
    last_packet: int
    line: str = ""


@dataclass(slots=True)
class ChosenConnection:
    """What is wanted of a connection."""

    info: ConnectionInfo
    frames: dict[tuple[Side, int], ChosenFrame] = field(default_factory=dict)
    packets: set[int] = field(default_factory=set)
    """Packets that are wanted for themselves: what is odd about them was chosen."""
    messages: int = 0
    """How many messages of it were chosen themselves."""
    whole: bool = False
    """Whether every packet of it is wanted."""
    records: dict[Side, list[tuple[int, int]]] | None = None
    """By side: the places of the records of TLS that are wanted; None where places of messages are those of bytes."""

    @property
    def is_decrypted(self) -> bool:
        """Whether its TLS was opened."""
        return self.info.tls_start is not None and self.info.tls_keys == "used"

    @property
    def can_be_plain(self) -> bool:
        """Whether it can go out as plain TCP: what is in a tunnel stays as it is."""
        return self.is_decrypted and not self.info.tunnel

    @property
    def cannot_be_cut(self) -> bool:
        """Whether a layer can be read as a whole only: compression, or TLS that was not opened."""
        return self.info.decompressed or (self.info.layered and not self.is_decrypted)


@dataclass(slots=True)
class _SeenConnection:
    """What is known of a connection, chosen or not."""

    info: ConnectionInfo
    opening: list[ChosenFrame] = field(default_factory=list)
    opened: bool = False
    """Whether the opening is over."""
    messages: int = 0


class RowHashes:
    """The rows of messages and exchanges, by what they are, as hashes; of one run."""

    def __init__(self, starts: Mapping[str, TlsStart] | None = None) -> None:
        """``starts``: where TLS began in connections that are plain TCP now."""
        self._starts = starts or {}
        self._counts: Counter[tuple[str, str, int]] = Counter()

    def of(self, item: Item, captures: Captures) -> Iterator[tuple[RowKey, bytes]]:
        """The rows of an item."""
        if not isinstance(item, MessageItem | ExchangeItem):
            return
        for table, row in rows_of(item, captures, _PROVEN, _PLAIN):
            side = Side.CLIENT if row["side"] == Side.CLIENT.text else Side.SERVER
            told = {name: value for name, value in row.items() if name not in _BY_OTHERS}
            name, offset = str(row["connection_id"]), row["stream_offset"]
            start = self._starts.get(name) or item.connection.tls_start
            if start is None or (start.upgraded and offset < start.at.get(side, offset + 1)):
                yield (f"{table}.{row.get('link')}", name, side, offset), _hash_of(told)
                continue
            row_hash = _hash_of({name: value for name, value in told.items() if name not in _OFFSETS})
            alike = (f"{table}.{row.get('link')}.{row_hash.hex()}", name, int(side))
            yield (*alike, self._counts[alike]), row_hash
            self._counts[alike] += 1


def _hash_of(row: dict[str, Any]) -> bytes:
    return blake2b(_PLAIN.json(row), digest_size=12).digest()


@dataclass(slots=True)
class ExtractChoice:
    """Gathers what is wanted; ``late``: whether items are chosen long after they were seen (``--where``)."""

    captures: Captures
    shown: Redaction
    late: bool = False
    connections: dict[str, ChosenConnection] = field(default_factory=dict)
    hashes: dict[RowKey, bytes] = field(default_factory=dict)
    """Of the rows of what was chosen."""
    _row_hashes: RowHashes = field(default_factory=RowHashes)
    _seen: dict[str, _SeenConnection] = field(default_factory=dict)
    _teachers: dict[tuple[str, str], tuple[str, ChosenFrame]] = field(default_factory=dict)
    """(protocol, topic id) -> connection and place of the message that taught its name first."""
    _teaching: set[str] = field(default_factory=set)
    """The connections of these."""
    _asked: set[tuple[str, str]] = field(default_factory=set)
    """Topic ids of what was chosen."""

    # ---- what is there

    def noting(self, items: Iterable[Item | None]) -> Iterator[Item | None]:
        """The items, of which openings and teachers are noted."""
        for item in items:
            if isinstance(item, MessageItem):
                self._note(item)
            yield item
            if isinstance(item, ClosedItem) and not self.late:
                self._forget(item.connection)

    def _note(self, item: MessageItem) -> None:
        info, message = item.connection, item.message
        seen = self._seen.get(info.connection_id)
        if seen is None:
            seen = self._seen[info.connection_id] = _SeenConnection(info)
        seen.messages += 1
        for topic_id, _ in message.teaches:
            if (message.protocol, topic_id) not in self._teachers:
                self._teachers[message.protocol, topic_id] = info.connection_id, frame_place(message.frame)
                self._teaching.add(info.connection_id)
        if not seen.opened:
            seen.opened = bool(message.records) or len(seen.opening) >= OPENING_MAX
            if not seen.opened:
                seen.opening.append(frame_place(message.frame))

    def _forget(self, info: ConnectionInfo) -> None:
        if info.connection_id not in self.connections and info.connection_id not in self._teaching:
            self._seen.pop(info.connection_id, None)

    # ---- what was chosen

    def take(self, item: Item) -> None:
        """Want what a chosen item tells of."""
        match item:
            case MessageItem(connection, message):
                self._want(connection, message)
                self._prove(item)
            case PartitionItem(connection, message) | RecordItem(connection, message):
                self._want(connection, message)
            case ExchangeItem(connection, exchange):
                if exchange.pending is not None:
                    self._want_pending(connection, exchange.pending)
                if exchange.answer is not None:
                    self._want(connection, exchange.answer)
                self._prove(item)
            case ProblemItem(connection, _, _, packet, message) if connection is not None:
                if message is not None:
                    self._want(connection, message)
                elif packet is not None:
                    self._of(connection).packets.add(packet)
            case ClosedItem(connection):
                chosen, seen = self._of(connection), self._seen.get(connection.connection_id)
                chosen.whole = chosen.whole or seen is None

    def _of(self, info: ConnectionInfo) -> ChosenConnection:
        chosen = self.connections.get(info.connection_id)
        if chosen is None:
            seen = self._seen.get(info.connection_id)
            chosen = self.connections[info.connection_id] = ChosenConnection(info if seen is None else seen.info)
        return chosen

    def _want(self, info: ConnectionInfo, message: Message) -> None:
        chosen, frame = self._of(info), message.frame
        known = chosen.frames.get((frame.side, frame.offset))
        if known is None or not known.line:
            chosen.messages += 1
            chosen.frames[frame.side, frame.offset] = frame_place(frame, _line(message, self.shown))
            self._asked |= {(message.protocol, topic_id) for topic_id in message.topic_ids}

    def _want_pending(self, info: ConnectionInfo, pending: Pending) -> None:
        for message in (pending.message, pending.last_answer):
            if message is not None:
                self._want(info, message)

    def _prove(self, item: MessageItem | ExchangeItem) -> None:
        for key, row_hash in self._row_hashes.of(item, self.captures):
            self.hashes[key] = row_hash

    # ---- the end

    def finish(self) -> None:
        """All items were seen: add what makes the chosen ones readable."""
        for asked in self._asked & self._teachers.keys():
            connection_id, frame = self._teachers[asked]
            self._of(self._seen[connection_id].info).frames.setdefault((frame.side, frame.start), frame)
        for connection_id, chosen in self.connections.items():
            seen = self._seen.get(connection_id)
            if seen is None:
                continue
            chosen.info = seen.info
            chosen.whole = chosen.whole or chosen.messages >= seen.messages or chosen.cannot_be_cut
            for frame in seen.opening:
                chosen.frames.setdefault((frame.side, frame.start), frame)
        self._seen.clear()
        self._teachers.clear()


def frame_place(frame: Frame, line: str = "") -> ChosenFrame:
    """The place of a frame, with what a comment says of its message."""
    return ChosenFrame(
        frame.side, frame.offset, frame.offset + max(frame.size, 1), frame.first_packet, frame.last_packet, line
    )


def _line(message: Message, shown: Redaction) -> str:
    """A message as a text line tells of it, without time and connection."""
    name = message.name if message.version is None else f"{message.name} v{message.version}"
    parts = "".join(text for _, text in message_parts(message, None, shown))
    return f"{message.protocol} {safe(name)} {message.kind}{parts}"
