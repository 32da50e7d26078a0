"""Exchanges and problems in, their lines of JSON out, made without a row. Hot: once a request, and once a stray answer.

1. A line equals, byte for byte, the one that ``ndjson_line`` makes of the row of ``tables.rows``. That slow twin makes
   it where these functions give None: settlements, later answers, numbers that fit no column, times without a name,
   texts that are not Unicode, problems without a packet or a connection.
2. Parts that many lines share are cached (``lineparts``).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mqsniff.model import (
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Frame,
    Message,
    Pending,
    ProblemItem,
    packet_capture,
    packet_number,
)
from mqsniff.sinks.lineparts import LONG, REMEMBERED, cell, ends, place, text, time
from mqsniff.tables.rows import Captures, fits

_MOST: Final = (1 << 63) - 1


def exchange_line(item: ExchangeItem, captures: Captures) -> bytes | None:
    """The line of an exchange with its newline; None if it has to be made from the row (rule 1)."""
    exchange = item.exchange
    pending, answer = exchange.pending, exchange.answer
    request = None if pending is None else pending.message
    named = request or answer
    if named is None or not fits(named) or not (pending is None or _is_plain(pending, answer)):
        return None
    if answer is not None and answer is not named and not fits(answer):
        return None
    asked_frame = None if pending is None else pending.frame
    answer_frame = None if answer is None else answer.frame
    asked, answered = _time_cell("request_ts", asked_frame), _time_cell("response_ts", answer_frame)
    if asked is None or answered is None:
        return None
    frame = asked_frame or named.frame
    link = "answer" if pending is None else pending.link
    try:
        line = (
            f"{place('exchanges', item.connection.connection_id, frame.side)}{frame.offset}"
            f"{_ends_of(item.connection, named)}{_what_of(link, named, request)}"
            f"{cell('correlation', named.correlation)}{asked}{answered}"
            f"{_half('request', asked_frame, captures)}{_half('response', answer_frame, captures)}"
            f"{_spans(exchange)}{_outcome(exchange, request, answer)}}}\n"
        )
        return line.encode()
    except (TypeError, UnicodeEncodeError):  # a lone surrogate
        return None


def _is_plain(pending: Pending, answer: Message | None) -> bool:
    """Whether the row shows no settlement, no later answer, and no number that may not fit."""
    if pending.extra or pending.awaits is not None or pending.last_answer is not answer:
        return False
    return all(span is None or -_MOST <= span <= _MOST for span in (pending.wait_limit_ns, pending.throttle_ns))


def _time_cell(name: str, frame: Frame | None) -> str | None:
    """A time with its name; None if ``rfc3339`` has to make it."""
    if frame is None:
        return ""
    stamp = time(str(frame.first_ts_ns))
    return None if stamp is None else f',"{name}":"{stamp}"'


def _ends_of(connection: ConnectionInfo, message: Message) -> str:
    """The columns ``client`` to ``group``."""
    client_id, group = message.client_id or connection.identity.client_id, message.group
    made = ends if len(client_id or "") + len(group or "") < LONG else ends.__wrapped__
    return made(
        connection.client_ip,
        connection.client_port,
        connection.server_ip,
        connection.server_port,
        client_id,
        group,
    )


def _what_of(link: str, named: Message, request: Message | None) -> str:
    """The columns ``link`` to ``version``."""
    what = _what if len(named.name) < LONG else _what.__wrapped__
    return what(link, named.protocol, None if request is None else request.name, named.version)


@lru_cache(REMEMBERED)
def _what(link: str, protocol: str, name: str | None, version: int | None) -> str:
    number = "" if version is None else f',"version":{version}'
    return f',"link":"{link}","protocol":{text(protocol)}{cell("name", name)}{number}'


def _half(name: str, frame: Frame | None, captures: Captures) -> str:
    """Position and size of one half of an exchange."""
    if frame is None:
        return ""
    first = frame.first_packet
    return (
        f',"{name}_capture":{text(captures[packet_capture(first)].name)},"{name}_packet":{packet_number(first)}'
        f',"{name}_size":{frame.size},"{name}_stream_offset":{frame.offset}'
    )


def _number(name: str, value: int | None) -> str:
    return "" if value is None else f',"{name}":{value}'


def _spans(exchange: Exchange) -> str:
    """The columns ``latency_ns`` to ``throttle_ns``."""
    pending, spans = exchange.pending, ""
    if exchange.latency_ns is not None:
        spans = (
            f',"latency_ns":{exchange.latency_ns}{_number("total_ns", exchange.total_ns)}'
            f"{_number('queue_ns', exchange.queue_ns)}"
        )
    if pending is None:
        return spans
    if pending.wait_limit_ns is not None:
        spans += f',"wait_limit_ns":{pending.wait_limit_ns}'
    if pending.held is not None:
        spans += ',"held":true' if pending.held else ',"held":false'
    return spans if pending.throttle_ns is None else f'{spans},"throttle_ns":{pending.throttle_ns}'


def _outcome(exchange: Exchange, request: Message | None, answer: Message | None) -> str:
    """The columns ``status`` to ``work_ns``, without those of settlements."""
    parts = f',"status":"{exchange.status}"'
    if answer is not None:
        parts += f"{_number('error_code', answer.error_code)}{cell('error_name', answer.error_name)}"
    topics = _each_once(() if request is None else request.topics, () if answer is None else answer.topics)
    if topics:
        parts += cell("topics", topics)
    if answer is not None:
        parts += cell("response_name", answer.name)
    ids = _each_once(() if request is None else request.topic_ids, () if answer is None else answer.topic_ids)
    if ids:
        parts += cell("topic_ids", ids)
    return parts if exchange.work_ns is None else f'{parts},"work_ns":{exchange.work_ns}'


def _each_once(asked: tuple[str, ...], answered: tuple[str, ...]) -> tuple[str, ...]:
    """Topics or topic ids of a request and its answer, each once."""
    return tuple(dict.fromkeys((*asked, *answered))) if asked or answered else ()


def problem_line(item: ProblemItem, captures: Captures) -> bytes | None:
    """The line of a problem with its newline; None if it has to be made from the row (rule 1)."""
    connection, problem, message, packet = item.connection, item.problem, item.message, item.packet
    if connection is None or packet is None or item.ts_ns is None or message is None:
        return None
    frame, size = message.frame, problem.size
    ts_ns = str(item.ts_ns)
    stamp = time(ts_ns)
    if stamp is None or not (size is None or -_MOST <= size <= _MOST):
        return None
    number = packet_number(packet)
    try:
        line = (
            f"{place('problems', connection.connection_id, frame.side)}{frame.offset}"
            f'{_ends_of(connection, message)},"capture":{text(captures[packet_capture(packet)].name)}'
            f'{_number("packet", number or None)},"ts":"{stamp}","ts_ns":{ts_ns}'
            f',"severity":"{problem.severity}","kind":"{problem.kind}"{cell("path", problem.path or None)}'
            f"{cell('detail', problem.detail)}{_number('size', size)}"
            f',"protocol":{text(connection.protocol)}{cell("name", message.name)}}}\n'
        )
        return line.encode()
    except (TypeError, UnicodeEncodeError):  # a lone surrogate
        return None
