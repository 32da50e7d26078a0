"""Requests and replies of one connection in, complete Exchanges and record batches out.

1. Every pending request becomes exactly one Exchange. So does a reply without a request, and a request that opened no
   pending one: it is one-way, or was cut before the field that identifies its reply.
2. Latency runs from the last byte of the request to the first byte of its reply; a negative time is None (the reply has
   a ``clock`` problem, see mqsniff.framing.pending).
3. Records of a request wait for the reply, which has their offsets: at most ``records_wait_max`` of them and
   ``records_wait_size`` bytes. Batches emitted before the reply are emptied in place, to free their memory.
4. A settlement whose command may be refused has the status of that command; a command that gets a reply only if it
   fails, and got none, succeeded. Latency runs to the command, not to the reply to it.
5. A reply is ok if every field that shows success was read. If it did not come to its end, the request is unanswered
   (pending if the capture ended); if the capture lost these fields, it is lost; if they cannot be read, it is unseen.
6. If the broker held a request, the time up to its limit counts as waiting; only time beyond the limit was work.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from mqsniff.limits import Limits
from mqsniff.model import Exchange, ExchangeStatus, Message, Pending, RecordBatch

Ready = tuple[Message, RecordBatch]

_ACK = {"ok": "acked", "partial": "acked", "error": "failed", "oneway": "none"}


class Exchanges:
    """The exchanges of one connection, and the records that wait for replies."""

    __slots__ = ("_answered_ns", "_limits", "_waiting_records", "_waiting_size", "capture_ended", "waiting")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._answered_ns: int | None = None
        self.capture_ended = False
        """Whether frames are cut short because the capture has ended, not their connection."""
        self.waiting: dict[Pending, list[Ready]] = {}
        """Requests whose records wait for the reply."""
        self._waiting_records = self._waiting_size = 0

    def of(self, message: Message) -> list[Exchange]:
        """The exchanges that end with this message. Hot: once a message."""
        done: list[Exchange] = []
        answered = False
        for pending in message.resolved:
            answer = pending.answer
            if answer is None:
                late = message.frame.first_ts_ns
                done.append(Exchange(pending, None, pending.status or "unanswered", ended_ns=late))
            else:
                done.append(self._timed(pending, answer))
                answered |= answer is message and pending.link == "answer"
        if answered:
            self._answered_ns = message.frame.last_ts_ns
        if message.kind == "response":
            if not message.answers:
                done.append(Exchange(None, message, "unasked"))
        elif message.kind != "push" and _request_of(message) is None:
            status: ExchangeStatus = "oneway" if message.kind == "oneway" else "lost"
            done.append(Exchange(Pending(None, "answer", message.frame, message=message, status=status), None, status))
        return done

    def _timed(self, pending: Pending, answer: Message) -> Exchange:
        status = pending.status
        if status is None:
            status = (
                ("error" if answer.error_count else "ok")
                if pending.awaits is None
                else _settled_status(pending.awaits, answer)
            )
        if status == "ok" and pending.link == "answer" and (unproven := self._unproven_status(answer)) is not None:
            status = unproven
        request, last = pending.frame, (pending.last_answer or answer).frame
        latency = answer.frame.first_ts_ns - request.last_ts_ns
        if latency < 0:
            return Exchange(pending, answer, status)
        total = last.last_ts_ns - request.first_ts_ns
        queued = self._queue_ns(pending)
        return Exchange(pending, answer, status, latency, total, queued, _work_ns(pending, latency - (queued or 0)))

    def _unproven_status(self, answer: Message) -> ExchangeStatus | None:
        """Status of a reply that has no error and still does not prove success; None if it does (rule 5)."""
        frame = answer.frame
        if frame.whole and answer.judged is not False:
            return None
        if frame.cut_short:
            return "pending" if self.capture_ended else "unanswered"
        judged = answer.error_count is not None if answer.judged is None else answer.judged
        if judged:
            return None
        return "lost" if frame.holes else "unseen"

    def _queue_ns(self, pending: Pending) -> int | None:
        """How long the request queued until the reply before its own was sent."""
        if pending.link != "answer" or not pending.in_order:
            return None
        return 0 if self._answered_ns is None else max(0, self._answered_ns - pending.frame.last_ts_ns)

    def rest(self, pending: Pending, *, open_at_end: bool, seen: tuple[bool, bool], gaps: tuple[int, int]) -> Exchange:
        """The exchange of a request still pending at the end; ``seen`` and ``gaps`` are by side."""
        command = pending.awaits
        if command is not None and command.answer is None and pending.status is None:
            pending.status = _why_unsettled(command, open_at_end=open_at_end, seen=seen, gaps=gaps)
        if pending.answer is not None:
            return self._timed(pending, pending.answer)
        if pending.status is None:
            pending.status = _why_open(pending, open_at_end=open_at_end, seen=seen, gaps=gaps)
        return Exchange(pending, None, pending.status)

    # ---- records

    def records_of(self, message: Message, ended: list[Exchange]) -> list[Ready]:
        """Record batches to emit with this message: its own, and those whose request it ended. Hot."""
        ready: list[Ready] = []
        if self.waiting:
            for exchange in ended:
                ready += self.settled(exchange)
        if not message.records:
            return ready
        request = _request_of(message)
        for batch in message.records:
            if request is None or request.status is not None:
                ready.append((message, batch))
            elif request.expects == 0:
                batch.constant.setdefault("ack", "none")
                ready.append((message, batch))
            else:
                self.waiting.setdefault(request, []).append((message, batch))
                self._waiting_records += batch.count
                self._waiting_size += len(batch.data)
        while self.waiting and self._too_many:
            if not isinstance(self.waiting, OrderedDict):
                self.waiting = OrderedDict(self.waiting)  # a dict looks for its first entry among all that were deleted
            for waiting, batch in self._release(next(iter(self.waiting))):
                ready.append((waiting, replace(batch)))
                _empty(batch)
        return ready

    @property
    def state_size(self) -> int:
        """Bytes of records that wait."""
        return self._waiting_size

    @property
    def _too_many(self) -> bool:
        limits = self._limits
        return self._waiting_records > limits.records_wait_max or self._waiting_size > limits.records_wait_size

    def settled(self, exchange: Exchange) -> list[Ready]:
        """The batches whose request this exchange ends."""
        if exchange.pending is None or exchange.pending not in self.waiting:
            return []
        ack = _ACK.get(exchange.status, "unseen")
        ready = self._release(exchange.pending)
        for _, batch in ready:
            batch.constant.setdefault("ack", ack)
        return ready

    def _release(self, request: Pending) -> list[Ready]:
        batches = self.waiting.pop(request)
        for _, batch in batches:
            self._waiting_records -= batch.count
            self._waiting_size -= len(batch.data)
        return batches


def _work_ns(pending: Pending, elapsed_ns: int) -> int | None:
    """How long the replying side worked on the request, its time in the queue not counted (rule 6)."""
    if pending.link != "answer":
        return None
    if pending.held and pending.wait_limit_ns is not None:
        elapsed_ns -= pending.wait_limit_ns
        return elapsed_ns if elapsed_ns > 0 else None
    return max(0, elapsed_ns)


def _empty(batch: RecordBatch) -> None:
    """Free the memory of a batch in place: its dissector keeps it for a reply that may never come."""
    batch.data, batch.count, batch.constant, batch.columns = b"", 0, {}, {}
    batch.keys = batch.values = batch.headers = batch.header_spans = None


def _request_of(message: Message) -> Pending | None:
    """The request that a message opened, replied to or not."""
    for pending in message.pending:  # hot: next() of a generator takes three times as long
        if pending.link == "answer":
            return pending
    return None


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
    """Status of a settlement whose command was still pending at the end; None if it was not refused."""
    if command.status is not None:
        return None if command.status == "oneway" else command.status
    if command.expects == 0:
        if not seen[command.frame.side.peer]:
            return "unseen"
        return "pending" if open_at_end else None
    return _why_open(command, open_at_end=open_at_end, seen=seen, gaps=gaps)


def _settled_status(command: Pending, settling: Message) -> ExchangeStatus:
    """Status of a delivery: that of the command that settled it, whose message is ``settling`` (rule 4)."""
    if command.status is not None and command.status != "oneway":
        return command.status
    refused = command.answer is not None and command.answer.error_count
    return "error" if refused or settling.error_count else "ok"
