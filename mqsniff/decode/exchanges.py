"""Questions and answers of one connection in, Exchange nouns and record batches that are complete out.

1. Every question becomes exactly one Exchange; an answer that nobody asked for becomes one too.
2. Latency runs from the last byte of the question to the first byte of its answer; a negative time is None, with a
   ``clock`` problem.
3. Records of a question wait for its answer, which tells their offsets, at most ``records_wait_max`` of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqsniff.limits import Limits
from mqsniff.model import Asked, Exchange, Message, Problem, RecordBatch, Status

Ready = tuple[Message, RecordBatch]

_ACK = {"ok": "acked", "partial": "acked", "error": "failed", "oneway": "none"}


class Exchanges:
    """What the answers of one connection say of its questions."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._previous_answer: Message | None = None
        self._waiting: dict[int, tuple[Asked, list[Ready]]] = {}
        self._waiting_records = 0

    def of(self, message: Message) -> list[Exchange]:
        """The exchanges that end with this message."""
        done = [self._close(asked) for asked in message.closed]
        if message.kind == "response" and not message.answers:
            done.append(Exchange(None, message, "unasked"))
        if any(asked.link == "answer" and asked.answer is message for asked in message.closed):
            self._previous_answer = message
        return done

    def _close(self, asked: Asked) -> Exchange:
        if asked.answer is None:
            return Exchange(asked, None, asked.status or "unanswered")
        return self._timed(asked, asked.answer)

    def _timed(self, asked: Asked, answer: Message) -> Exchange:
        status: Status = asked.status or ("error" if answer.error_count else "ok")
        question, last = asked.frame, (asked.last_answer or answer).frame
        latency = answer.frame.first_ts_ns - question.last_ts_ns
        if latency < 0:
            answer.problems.append(Problem("clock", "warning", "the answer is older than its question"))
            return Exchange(asked, answer, status)
        total = last.last_ts_ns - question.first_ts_ns
        return Exchange(asked, answer, status, latency, total, self._queued(asked))

    def _queued(self, asked: Asked) -> int | None:
        """How long the question stood behind the answer before its own."""
        if asked.link != "answer" or not asked.in_order:
            return None
        previous = self._previous_answer
        if previous is None:
            return 0
        return max(0, previous.frame.last_ts_ns - asked.frame.last_ts_ns)

    def rest(self, asked: Asked, *, open_at_end: bool, peer_seen: bool, peer_gaps: int) -> Exchange:
        """The exchange of a question that was still open when the connection ended."""
        if asked.answer is not None:
            return self._timed(asked, asked.answer)
        if asked.status is None:
            asked.status = _why_open(asked, open_at_end=open_at_end, peer_seen=peer_seen, peer_gaps=peer_gaps)
        return Exchange(asked, None, asked.status)

    # ---- records

    def records_of(self, message: Message, ended: list[Exchange]) -> Iterator[Ready]:
        """Record batches that can go out with this message: its own, and those whose question it ended."""
        for exchange in ended:
            yield from self.settled(exchange)
        question = next((asked for asked in message.asked if asked.link == "answer"), None)
        for batch in message.records:
            if question is None or question.status is not None:
                yield message, batch
            elif question.expects == 0:
                batch.constant.setdefault("ack", "none")
                yield message, batch
            else:
                self._waiting.setdefault(id(question), (question, []))[1].append((message, batch))
                self._waiting_records += batch.count
        while self._waiting_records > self._limits.records_wait_max:
            yield from self._release(next(iter(self._waiting)))

    def settled(self, exchange: Exchange) -> Iterator[Ready]:
        """The batches whose question this exchange ends."""
        if exchange.asked is not None and id(exchange.asked) in self._waiting:
            ack = _ACK.get(exchange.status, "unseen")
            for message, batch in self._release(id(exchange.asked)):
                batch.constant.setdefault("ack", ack)
                yield message, batch

    def _release(self, key: int) -> list[Ready]:
        _, batches = self._waiting.pop(key)
        self._waiting_records -= sum(batch.count for _, batch in batches)
        return batches


def _why_open(asked: Asked, *, open_at_end: bool, peer_seen: bool, peer_gaps: int) -> Status:
    if asked.expects == 0:
        return "oneway"
    if not peer_seen:
        return "unseen"
    if peer_gaps > asked.gaps_before:
        return "lost"
    return "pending" if open_at_end else "unanswered"
