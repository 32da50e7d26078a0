"""Questions and answers of one connection in, Exchange nouns and record batches that are complete out.

1. Every question becomes exactly one Exchange; an answer that nobody asked for becomes one too, and so does a request
   that opened no question: one-way, or cut where it says which answer is its own.
2. Latency runs from the last byte of the question to the first byte of its answer; a negative time is None (the answer
   has a ``clock`` problem, see mqsniff.framing.pending).
3. Records of a question wait for its answer, which tells their offsets, at most ``records_wait_max`` of them and
   ``records_wait_size`` bytes. Of those that go out before it, whoever still waits for the answer keeps nothing.
4. A settlement whose command may be refused has the status of that command; what has no answer unless it fails, and
   got none, was a success. Latency runs to the command, not to the answer to it.
5. An answer is ok when all that tells success was read. One that did not come to its end is none (unanswered; pending
   where the capture ended); one whose telling bytes the capture lost is lost; one that cannot be read is unseen.
6. Of a held question, waiting and work cannot be told apart within its limit; what it took beyond it was work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mqsniff.limits import Limits
from mqsniff.model import Exchange, ExchangeStatus, Message, Pending, RecordBatch

Ready = tuple[Message, RecordBatch]

_ACK = {"ok": "acked", "partial": "acked", "error": "failed", "oneway": "none"}


class Exchanges:
    """What the answers of one connection say of its questions."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._answered_ns: int | None = None
        self.capture_ended = False
        """Whether frames that are cut short now are so since the capture has ended, not their connection."""
        self.waiting: dict[int, tuple[Pending, list[Ready]]] = {}
        """Questions whose records wait for the answer, by identity."""
        self._waiting_records = self._waiting_size = 0

    def of(self, message: Message) -> list[Exchange]:
        """The exchanges that end with this message. Hot: once a message."""
        done: list[Exchange] = []
        answered = False
        for pending in message.resolved:
            answer = pending.answer
            if answer is None:
                done.append(Exchange(pending, None, pending.status or "unanswered"))
            else:
                done.append(self._timed(pending, answer))
                answered |= answer is message and pending.link == "answer"
        if answered:
            self._answered_ns = message.frame.last_ts_ns
        if message.kind == "response":
            if not message.answers:
                done.append(Exchange(None, message, "unasked"))
        elif message.kind != "push" and not _asks(message):
            status: ExchangeStatus = "oneway" if message.kind == "oneway" else "lost"
            done.append(Exchange(Pending(None, "answer", message.frame, message=message, status=status), None, status))
        return done

    def _timed(self, pending: Pending, answer: Message) -> Exchange:
        status = pending.status
        if status is None:
            status = (
                ("error" if answer.error_count else "ok")
                if pending.awaits is None
                else _fate_of(pending.awaits, answer)
            )
        if status == "ok" and pending.link == "answer" and (doubt := self._doubt(answer)) is not None:
            status = doubt
        question, last = pending.frame, (pending.last_answer or answer).frame
        latency = answer.frame.first_ts_ns - question.last_ts_ns
        if latency < 0:
            return Exchange(pending, answer, status)
        total = last.last_ts_ns - question.first_ts_ns
        queued = self._queued(pending)
        return Exchange(pending, answer, status, latency, total, queued, _worked(pending, latency - (queued or 0)))

    def _doubt(self, answer: Message) -> ExchangeStatus | None:
        """Why an answer without an error is no proof of success; None where it is (rule 5)."""
        frame = answer.frame
        if frame.whole and answer.judged is not False:
            return None
        if frame.cut_short:
            return "pending" if self.capture_ended else "unanswered"
        judged = answer.error_count is not None if answer.judged is None else answer.judged
        if judged:
            return None
        return "lost" if frame.holes else "unseen"

    def _queued(self, pending: Pending) -> int | None:
        """How long the question stood behind the answer before its own."""
        if pending.link != "answer" or not pending.in_order:
            return None
        return 0 if self._answered_ns is None else max(0, self._answered_ns - pending.frame.last_ts_ns)

    def rest(self, pending: Pending, *, open_at_end: bool, seen: tuple[bool, bool], gaps: tuple[int, int]) -> Exchange:
        """The exchange of a question that was still open at the end; ``seen`` and ``gaps`` are those of each side."""
        command = pending.awaits
        if command is not None and command.answer is None and pending.status is None:
            pending.status = _why_unsettled(command, open_at_end=open_at_end, seen=seen, gaps=gaps)
        if pending.answer is not None:
            return self._timed(pending, pending.answer)
        if pending.status is None:
            pending.status = _why_open(pending, open_at_end=open_at_end, seen=seen, gaps=gaps)
        return Exchange(pending, None, pending.status)

    # ---- records

    def records_of(self, message: Message, ended: list[Exchange]) -> Iterator[Ready]:
        """Record batches that can go out with this message: its own, and those whose question it ended."""
        if self.waiting:
            for exchange in ended:
                yield from self.settled(exchange)
        question = next((pending for pending in message.pending if pending.link == "answer"), None)
        for batch in message.records:
            if question is None or question.status is not None:
                yield message, batch
            elif question.expects == 0:
                batch.constant.setdefault("ack", "none")
                yield message, batch
            else:
                self.waiting.setdefault(id(question), (question, []))[1].append((message, batch))
                self._waiting_records += batch.count
                self._waiting_size += len(batch.data)
        while self.waiting and self._too_many:
            for waiting, batch in self._release(next(iter(self.waiting))):
                yield waiting, replace(batch)
                _empty(batch)

    @property
    def _too_many(self) -> bool:
        limits = self._limits
        return self._waiting_records > limits.records_wait_max or self._waiting_size > limits.records_wait_size

    def settled(self, exchange: Exchange) -> Iterator[Ready]:
        """The batches whose question this exchange ends."""
        if exchange.pending is not None and id(exchange.pending) in self.waiting:
            ack = _ACK.get(exchange.status, "unseen")
            for message, batch in self._release(id(exchange.pending)):
                batch.constant.setdefault("ack", ack)
                yield message, batch

    def _release(self, key: int) -> list[Ready]:
        _, batches = self.waiting.pop(key)
        self._waiting_records -= sum(batch.count for _, batch in batches)
        self._waiting_size -= sum(len(batch.data) for _, batch in batches)
        return batches


def _worked(pending: Pending, elapsed_ns: int) -> int | None:
    """How long the answering side was at work, of the time that the question did not stand in a queue (rule 6)."""
    if pending.link != "answer":
        return None
    if pending.held and pending.wait_limit_ns is not None:
        elapsed_ns -= pending.wait_limit_ns
        return elapsed_ns if elapsed_ns > 0 else None
    return max(0, elapsed_ns)


def _empty(batch: RecordBatch) -> None:
    """Let go what a batch holds, in place: its dissector remembers it for an answer that may never come."""
    batch.data, batch.count, batch.constant, batch.columns = b"", 0, {}, {}
    batch.keys = batch.values = batch.headers = batch.header_spans = None


def _asks(message: Message) -> bool:
    """Whether a message waits for an answer, or has been told that it will get none."""
    for pending in message.pending:  # noqa: SIM110  # hot: any() makes a generator for each message
        if pending.link == "answer":
            return True
    return False


def _why_open(pending: Pending, *, open_at_end: bool, seen: tuple[bool, bool], gaps: tuple[int, int]) -> ExchangeStatus:
    if pending.expects == 0:
        return "oneway"
    peer = pending.frame.side.peer
    if not seen[peer]:
        return "unseen"
    if gaps[peer] > pending.gaps_before:
        return "lost"
    return "pending" if open_at_end else "unanswered"


def _why_unsettled(
    command: Pending, *, open_at_end: bool, seen: tuple[bool, bool], gaps: tuple[int, int]
) -> ExchangeStatus | None:
    """The status of a settlement whose command was still open at the end; None where it was not refused in time."""
    if command.status is not None:
        return None if command.status == "oneway" else command.status
    if command.expects == 0:
        if not seen[command.frame.side.peer]:
            return "unseen"
        return "pending" if open_at_end else None
    return _why_open(command, open_at_end=open_at_end, seen=seen, gaps=gaps)


def _fate_of(command: Pending, settling: Message) -> ExchangeStatus:
    """What became of the command that settled a delivery, ``settling``, and so of the delivery (rule 4)."""
    if command.status is not None and command.status != "oneway":
        return command.status
    refused = command.answer is not None and command.answer.error_count
    return "error" if refused or settling.error_count else "ok"
