"""Messages, exchanges and partitions in, the values of their rows out: lists in the order of the table's columns. Hot.

1. ``rows`` makes dicts of them, and says what holds for all rows.
2. A number beyond int64 is in ``beyond_int64`` under the name of its column, which is None then: the same in every
   output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

from mqsniff.model import (
    CaptureInfo,
    ConnectionInfo,
    Exchange,
    Frame,
    Message,
    Pending,
    packet_capture,
    packet_number,
)
from mqsniff.tables.schemas import names_of

Row: TypeAlias = dict[str, Any]
RowValues: TypeAlias = list[Any]
"""The values of a row, in the order of its table's columns."""
Captures: TypeAlias = Sequence[CaptureInfo]

MESSAGE_COLUMNS: Final = names_of("messages")
EXCHANGE_COLUMNS: Final = names_of("exchanges")
PARTITION_COLUMNS: Final = names_of("partitions")
_PARTITION_FILLED: Final = frozenset(PARTITION_COLUMNS[: PARTITION_COLUMNS.index("topic")])
"""Columns of ``partitions`` that the message fills."""
_PARTITION_OWN: Final = PARTITION_COLUMNS[len(_PARTITION_FILLED) : -1]
"""Those that dissectors fill, without ``beyond_int64``."""
_PARTITION_NUMBERS: Final = frozenset(names_of("partitions", "int64"))
_MESSAGE_NUMBERS: Final = ("error_code", "error_count", "version")
"""Columns that dissectors fill with numbers."""
_EXCHANGE_NUMBERS: Final = (
    *("version", "wait_limit_ns", "throttle_ns", "error_code", "attempts", "touches", "in_flight", "credit"),
)
_SETTLEMENT_COLUMNS: Final = ("attempts", "touches", "in_flight", "credit", "settled_by")
_NO_SETTLEMENT: Final = (None,) * len(_SETTLEMENT_COLUMNS)
_NOTHING: Final[dict[str, Any]] = {}
SIDES: Final = ("client", "server")
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 63) - 1


def message_values(connection: ConnectionInfo, message: Message, captures: Captures) -> RowValues:
    """The values of a row of ``messages``. Hot: once per message."""
    frame, identity = message.frame, connection.identity
    first, last = frame.first_packet, frame.last_packet
    values: RowValues = [
        connection.connection_id,
        SIDES[frame.side],
        frame.offset,
        connection.client,
        connection.server,
        message.client_id or identity.client_id,
        message.group,
        captures[packet_capture(first)].name,
        packet_number(first),
        captures[packet_capture(last)].name,
        packet_number(last),
        frame.first_ts_ns,
        frame.first_ts_ns,
        frame.last_ts_ns,
        frame.size,
        message.protocol,
        message.name,
        message.version,
        message.kind,
        message.correlation,
        message.topics or None,
        message.topic_ids or None,
        message.error_code,
        message.error_name,
        message.error_count,
        message.body,
        len(message.problems),
        None,
    ]
    return values if fits(message) else _fitted_values(MESSAGE_COLUMNS, values, _MESSAGE_NUMBERS)


def exchange_values(connection: ConnectionInfo, exchange: Exchange, captures: Captures) -> RowValues:
    """The values of a row of ``exchanges``. Hot: once per request."""
    pending, answer, identity = exchange.pending, exchange.answer, connection.identity
    request = pending.message if pending is not None else None
    named = request or answer
    asked_frame = pending.frame if pending is not None else None
    answer_frame = answer.frame if answer is not None else None
    frame = asked_frame or answer_frame
    extra = pending.extra if pending is not None else _NOTHING
    verdict = answer
    if pending is not None and (pending.awaits is not None or pending.last_answer is not answer):
        verdict = _verdict(pending, answer)
    wait_limit_ns = pending.wait_limit_ns if pending is not None else None
    throttle_ns = pending.throttle_ns if pending is not None else None
    values: RowValues = [
        connection.connection_id,
        SIDES[frame.side] if frame is not None else None,
        frame.offset if frame is not None else None,
        connection.client,
        connection.server,
        (named.client_id if named is not None else None) or identity.client_id,
        named.group if named is not None else identity.group,
        pending.link if pending is not None else "answer",
        named.protocol if named is not None else connection.protocol,
        request.name if request is not None else None,
        named.version if named is not None else None,
        named.correlation if named is not None else None,
        asked_frame.first_ts_ns if asked_frame is not None else None,
        answer_frame.first_ts_ns if answer_frame is not None else None,
        *_half(asked_frame, captures),
        *_half(answer_frame, captures),
        exchange.latency_ns,
        exchange.total_ns,
        exchange.queue_ns,
        wait_limit_ns,
        pending.held if pending is not None else None,
        throttle_ns,
        exchange.status,
        verdict.error_code if verdict is not None else None,
        verdict.error_name if verdict is not None else None,
        _each_once(request.topics if request is not None else (), answer.topics if answer is not None else ()),
        answer.name if answer is not None else None,
        *([extra.get(column) for column in _SETTLEMENT_COLUMNS] if extra else _NO_SETTLEMENT),
        _each_once(request.topic_ids if request is not None else (), answer.topic_ids if answer is not None else ()),
        extra.get("timed_out"),
        exchange.work_ns,
        None,
    ]
    if (
        extra
        or not (named is None or fits(named))
        or not (verdict is None or verdict is named or fits(verdict))
        or is_beyond(wait_limit_ns)
        or is_beyond(throttle_ns)
    ):
        return _fitted_values(EXCHANGE_COLUMNS, values, _EXCHANGE_NUMBERS)
    return values


def _verdict(pending: Pending, answer: Message | None) -> Message | None:
    """The message whose error a row of ``exchanges`` shows: a later answer or a refusal may have one too."""
    later = pending.awaits.answer if pending.awaits is not None else pending.last_answer
    if later is not None and later.failed and (pending.awaits is not None or answer is None or not answer.failed):
        return later
    return answer


def _half(frame: Frame | None, captures: Captures) -> tuple[str | None, int | None, int | None, int | None]:
    """Position and size of one half of an exchange: capture, packet, size, offset in its stream."""
    if frame is None:
        return None, None, None, None
    first = frame.first_packet
    return captures[packet_capture(first)].name, packet_number(first), frame.size, frame.offset


def _each_once(asked: tuple[str, ...], answered: tuple[str, ...]) -> tuple[str, ...] | None:
    """Topics or topic ids of a request and its answer, each once."""
    if asked or answered:
        return tuple(dict.fromkeys((*asked, *answered)))
    return None


def partition_values(connection: ConnectionInfo, message: Message) -> list[RowValues]:
    """The values of the rows of ``partitions`` of a message. Hot: once per partition."""
    frame = message.frame
    common: RowValues = [
        connection.connection_id,
        SIDES[frame.side],
        frame.offset,
        connection.client,
        connection.server,
        message.client_id or connection.identity.client_id,
        message.group,
        frame.first_ts_ns,
        message.protocol,
        message.name,
        message.kind,
    ]
    rows: list[RowValues] = []
    for partition in message.partitions:
        get = partition.get
        values: RowValues = [*common, *map(get, _PARTITION_OWN), None]
        if not _PARTITION_FILLED.isdisjoint(partition):
            values[: len(common)] = [get(name, own) for name, own in zip(PARTITION_COLUMNS, common, strict=False)]
        for value in partition.values():
            if type(value) is int and not _INT_MIN <= value <= _INT_MAX:
                own_numbers = [name for name in partition if name in _PARTITION_NUMBERS]
                values = _fitted_values(PARTITION_COLUMNS, values, own_numbers)
                break
        rows.append(values)
    return rows


def fits(message: Message) -> bool:
    """Whether all numbers of a message's row fit int64. Hot: once per message."""
    code, count, version = message.error_code, message.error_count, message.version
    return (
        (not code or _INT_MIN <= code <= _INT_MAX)
        and (not count or _INT_MIN <= count <= _INT_MAX)
        and (not version or _INT_MIN <= version <= _INT_MAX)
    )


def fitted(row: Row, names: Iterable[str]) -> Row:
    """Move numbers beyond int64 from these columns of the row to ``beyond_int64``, in place (rule 5)."""
    beyond = {name: value for name in names if (value := row[name]) and is_beyond(value)}
    if beyond:
        row |= dict.fromkeys(beyond)
        row["beyond_int64"] = beyond
    return row


def _fitted_values(columns: tuple[str, ...], values: RowValues, names: Iterable[str]) -> RowValues:
    """As ``fitted``, of the values of a row."""
    return list(fitted(dict(zip(columns, values, strict=True)), names).values())


def is_beyond(value: Any) -> bool:
    """Whether a value is a number beyond int64."""
    return type(value) is int and not _INT_MIN <= value <= _INT_MAX
