"""The items of a run in, the slow exchanges with their messages out: what ``--slower`` means.

1. An exchange is slow when the answering side worked that long on it (``work_ns``): what it waited for an earlier
   answer, and what the request allowed the broker to hold it, do not count. So is a request that waited that long for
   an answer that never came.
2. Of a slow exchange the request comes before its answer, though others were sent between them: until the answer
   nobody knows that it is slow. Bodies that were let go meanwhile (``handles_max``) are empty.
3. Problems and records of such messages come along; connections and topics always do.
4. Memory: one message and what belongs to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from mqsniff.model import Exchange, ExchangeItem, Item, Message, MessageItem, ProblemItem, RecordItem

SlowState: TypeAlias = tuple[list[Item], list[Message]]


class SlowFilter:
    """Lets the messages of slow exchanges through."""

    def __init__(self, least_ns: int) -> None:
        self._least_ns = least_ns
        self._waiting: list[Item] = []
        """The last message and its problems, until its exchanges are known."""
        self._told: list[Message] = []
        """Messages of the last slow exchange, whose records may follow."""

    def saved(self) -> SlowState:
        """What it knows, for ``restore``."""
        return self._waiting, self._told

    def restore(self, saved: SlowState) -> None:
        """Go on where another one ended."""
        self._waiting, self._told = saved

    def of(self, item: Item) -> Iterator[Item]:
        """What goes out now."""
        match item:
            case MessageItem():
                self._waiting, self._told = [item], []
            case ProblemItem(_, _, _, _, message) if message is not None:
                self._waiting.append(item)
            case ExchangeItem():
                if self._is_slow(item.exchange):
                    yield from self._messages(item)
                    yield item
            case RecordItem():
                frame = item.message.frame
                if any(told.frame.offset == frame.offset and told.frame.side is frame.side for told in self._told):
                    yield item
            case _:
                yield item

    def _is_slow(self, exchange: Exchange) -> bool:
        if exchange.work_ns is not None:
            return exchange.work_ns >= self._least_ns
        if exchange.status != "unanswered" or exchange.pending is None or exchange.ended_ns is None:
            return False
        return exchange.ended_ns - exchange.pending.frame.last_ts_ns >= self._least_ns

    def _messages(self, item: ExchangeItem) -> Iterator[Item]:
        """The request, then the answer with what waits after it."""
        exchange = item.exchange
        request = None if exchange.pending is None else exchange.pending.message
        if request is not None:
            self._told.append(request)
            yield MessageItem(item.connection, request)
        answer = exchange.answer
        if answer is None or any(told is answer for told in self._told):
            return
        self._told.append(answer)
        waiting = self._waiting[0] if self._waiting else None
        if isinstance(waiting, MessageItem) and waiting.message is answer:
            yield from self._waiting
            self._waiting = []
        else:
            yield MessageItem(item.connection, answer, exchange.latency_ns)
