"""Both sides of a connection's TLS in, plain bytes and losses out.

Sources: RFC 8446 sections 2, 4, 5 and 6, RFC 5246 sections 6 and 7.

1. Sides come in the order of cause. A client's records wait for the server's hello, which tells how they are protected;
   early data waits until it is known whether the server took it. What waits is bounded.
2. Plain bytes have the mark of the packet that completed their record.
3. What cannot be opened becomes a hole of unknown size; what opens after it goes on. ``why_not`` tells the reason.
4. Without keys the same walk tells the facts of the hellos, and that nothing was read.
"""

from __future__ import annotations

from typing import Final

from mqsniff.limits import Limits
from mqsniff.model import Chunk, Gap, Mark, Problem, Severity, Side
from mqsniff.tls.agreement import EARLY, HANDSHAKE
from mqsniff.tls.handshake import Handshakes
from mqsniff.tls.hello import TlsFacts, alert_name
from mqsniff.tls.keylog import KeyRing
from mqsniff.tls.keyschedule import TLS_1_3
from mqsniff.tls.output import Hole, Plain, TlsNotice, TlsOutput
from mqsniff.tls.protection import Opened
from mqsniff.tls.recordside import (
    ALERT,
    APPLICATION,
    CHANGE_CIPHER,
    HANDSHAKE_RECORD,
    HEAD_SIZE,
    RecordCursor,
    RecordSide,
    TlsRecord,
    is_head,
    is_kind,
    is_message,
)

ASKED_FIRST: Final = 16
ASKED_EACH: Final = 64
"""The key log is asked for each of the first protected records of a side, then for each so many."""
GUESSES_MAX: Final = 3
"""Records of a side that are tried with all secrets of a key log, where a hello is missing."""


class TlsDecoder:
    """The TLS of one connection."""

    def __init__(self, keys: KeyRing | None, limits: Limits, *, from_start: bool = True) -> None:
        """``keys`` may be None, or empty; ``from_start``: the first bytes of both sides are the first of their TLS."""
        self.facts = TlsFacts()
        self._keys = keys or None
        self._limits = limits
        self._handshakes = Handshakes(keys or KeyRing(()), self.facts)
        self._sides = (RecordSide(Side.CLIENT, limits.tls_trials_max), RecordSide(Side.SERVER, limits.tls_trials_max))
        for side in self._sides:
            side.may_be_clear = from_start
        self._out: list[TlsOutput] = []
        self._server_lost = False
        """Whether the server's hello will not come."""

    # ---- what the layer calls

    def feed(self, event: Chunk | Gap) -> list[TlsOutput]:
        """The next bytes, or a loss, of a side; what comes out may be of the other side too."""
        side = self._sides[event.side]
        if side.waiting:
            self._wait(side, event)
        else:
            self._take(side, event)
        self._wake(event.mark.release if isinstance(event, Gap) else event.marks[0].release)
        return self._taken()

    def close(self, which: Side) -> list[TlsOutput]:
        """No more bytes of a side will come: nothing of it waits any longer."""
        side = self._sides[which]
        self._server_lost = self._server_lost or which is Side.SERVER or bool(side.waiting)
        self._wake(0)
        if side.mode == "search" and side.first is not None:
            self._walk(side, side.enter(Chunk(which, 0, b"", [side.first])), final=True)
        if side.hole is not None and side.opener.opened:
            self._out.append(Hole(which, None, side.hole))
        side.hole = None
        return self._taken()

    def _taken(self) -> list[TlsOutput]:
        out, self._out = self._out, []
        return out

    def conclude(self) -> None:
        """The connection is over: tell what became of the keys."""
        if self.opened:
            self.facts.keys = "used"
        elif any(side.sealed_seen for side in self._sides):
            self.facts.keys = "wrong" if any(side.opener.refused for side in self._sides) else "missing"

    def unread(self, which: Side) -> int:
        """Bytes of a side that were not read: without keys, or if they opened nothing, all but clear text."""
        side = self._sides[which]
        dark = not self.opened and any(each.sealed_seen for each in self._sides)
        return side.size if self._keys is None or dark else side.size - side.used

    @property
    def opened(self) -> bool:
        """Whether a record was opened."""
        return any(side.opener.opened for side in self._sides)

    def first(self, which: Side) -> Mark | None:
        """Where the TLS of a side begins."""
        return self._sides[which].first

    def why_not(self, which: Side) -> str | None:
        """Why bytes of a side were not read; None without keys."""
        side = self._sides[which]
        if self._keys is None:
            return None
        refusal = self._handshakes.agreed.refusal()
        if refusal is not None:
            return refusal
        lacking = self._handshakes.lacking(which)
        if lacking is not None:
            return f"the key log has no {lacking} for it"
        if side.opener.opened:
            return (
                "records that a loss cut, or that do not open"
                if not side.opener.exhausted
                else (f"no record after a loss opened within {self._limits.tls_trials_max} tries")
            )
        if side.opener.refused:
            return "the secrets that the key log has for it do not open its records"
        return self._handshakes.why_no_keys()

    # ---- order of the sides

    def _wait(self, side: RecordSide, event: Chunk | Gap) -> None:
        side.waiting.append(event)
        side.waiting_size += len(event.data) if isinstance(event, Chunk) else 0
        if side.waiting_size > self._limits.wait_max:
            self._server_lost = True

    def _wake(self, release: int) -> None:
        """Go on with what waited, released now."""
        side = self._sides[Side.CLIENT]
        while side.waiting and not self._blocked(side, APPLICATION):
            event = side.waiting.popleft()
            if isinstance(event, Gap):
                event.mark = event.mark._replace(release=max(event.mark.release, release))
            else:
                side.waiting_size -= len(event.data)
                event.marks = [mark._replace(release=max(mark.release, release)) for mark in event.marks]
            self._take(side, event)

    def _blocked(self, side: RecordSide, kind: int) -> bool:
        """Whether a record of this kind has to wait for the peer (rule 1)."""
        if side.side is Side.SERVER or self._server_lost or side.sealed or self._keys is None:
            return False
        agreed = self._handshakes.agreed
        if kind not in (CHANGE_CIPHER, APPLICATION) or agreed.client is None:
            return False
        if agreed.server is None:
            return not side.opener.ready
        if agreed.version != TLS_1_3 or not agreed.client.early or agreed.retried or kind != APPLICATION:
            return False
        if self._handshakes.early_accepted is not None:
            return False
        secrets = agreed.secrets()
        return EARLY in secrets and HANDSHAKE[Side.SERVER] in secrets

    # ---- records

    def _take(self, side: RecordSide, event: Chunk | Gap) -> None:
        if isinstance(event, Chunk):
            self._walk(side, side.enter(event))
            return
        length = event.length if event.known else None
        if side.mode == "clear":
            self._out.append(Hole(side.side, length, event.mark))
            return
        side.lose(length, searched=self._keys is not None)
        side.hole = side.hole or event.mark
        self._lost_hello(side)

    def _lost_hello(self, side: RecordSide) -> None:
        """Bytes of the server that were lost or not understood: they may have been its hello."""
        if side.side is Side.SERVER and self._handshakes.agreed.server is None:
            self._server_lost = True

    def _walk(self, side: RecordSide, cursor: RecordCursor, *, final: bool = False) -> None:
        """Read what there is of records, one after the other."""
        while cursor.left:
            if side.skip:
                cursor.skip()
            elif side.mode == "clear" or (side.may_be_clear and not is_kind(cursor.data[cursor.at])):
                self._pass_clear(side, cursor)
            elif side.mode == "lost":
                cursor.at = len(cursor.data)
            elif side.mode == "search":
                if not cursor.search(final=final):
                    return
                self._candidate(side, cursor)
            elif cursor.left < HEAD_SIZE:
                cursor.keep()
            elif not is_head(cursor.head):
                self._lose_track(side)
            elif not self._step(side, cursor):
                return

    def _step(self, side: RecordSide, cursor: RecordCursor) -> bool:
        """Read or pass over the record at the cursor; False where it has to wait."""
        kind = cursor.head[0]
        if self._blocked(side, kind):
            self._wait_first(side, cursor.back())
            return False
        side.may_be_clear = kind == ALERT
        if not self._is_read(side, kind):
            side.sealed_seen = True
            side.passed_over += 1
            side.skip = cursor.size
            self._lost_hello(side)
        elif cursor.left < cursor.size:
            cursor.keep()
        else:
            self._record(side, cursor.record())
        return True

    def _wait_first(self, side: RecordSide, chunk: Chunk) -> None:
        side.waiting.appendleft(chunk)
        side.waiting_size += len(chunk.data)

    def _pass_clear(self, side: RecordSide, cursor: RecordCursor) -> None:
        """Clear text after TLS, or instead of it."""
        side.mode = "clear"
        self._lost_hello(side)
        for piece in cursor.clear():
            self._give(side, piece.data, piece.marks[0])

    def _lose_track(self, side: RecordSide) -> None:
        """No record begins where one should."""
        side.lose(None, searched=self._keys is not None)
        self._lost_hello(side)

    def _candidate(self, side: RecordSide, cursor: RecordCursor) -> None:
        """Open what may be a record; if it does not open, search on after its first byte."""
        at = cursor.at
        record = cursor.record()
        if side.opener.exhausted or not self._is_record(side, record):
            cursor.at = at + 1
            return
        side.mode = "step"

    def _is_record(self, side: RecordSide, record: TlsRecord) -> bool:
        """Whether a candidate is a record, which then is read: it opens, or is one of a handshake in clear."""
        if self._is_read(side, APPLICATION) and (opened := self._open(side, record)) is not None:
            self._opened(side, record, opened)
            return True
        clear = record.kind == CHANGE_CIPHER and record.body == b"\x01"
        if side.sealed or side.opener.opened or not (clear or is_message(record)):
            return False
        self._content(side, record.kind, record.body, record.mark)
        side.used += len(record.head) + len(record.body)
        return True

    def _is_sealed(self, side: RecordSide, kind: int) -> bool:
        """Whether records of a kind are protected: TLS 1.3 gives all of these the outer type of data."""
        return kind == APPLICATION or (side.sealed and self._handshakes.agreed.version != TLS_1_3)

    def _is_read(self, side: RecordSide, kind: int) -> bool:
        """Whether a record is looked at: those in clear always, protected ones where there may be keys."""
        if not self._is_sealed(side, kind):
            return True
        if self._keys is None or side.opener.exhausted:
            return False
        return side.opener.ready or self._may_open(side)

    def _may_open(self, side: RecordSide) -> bool:
        """Look for keys; again only where the key log has grown."""
        assert self._keys is not None
        if side.passed_over > ASKED_FIRST and side.passed_over % ASKED_EACH:
            return False
        handshakes = self._handshakes
        if handshakes.agreed.refusal() is not None:
            return False
        ladder = handshakes.ladder(side.side)
        if ladder:
            late = not handshakes.hello_seen[side.side]
            side.opener.begin(ladder, self._limits.tls_trials_max if late else side.passed_over)
            return True
        grown = side.generation != (generation := self._keys.generation)
        if grown:
            side.generation, side.guesses = generation, 0
        return handshakes.may_guess and side.guesses < GUESSES_MAX

    # ---- contents

    def _record(self, side: RecordSide, record: TlsRecord) -> None:
        """A whole record in step."""
        opened = self._open(side, record) if self._is_sealed(side, record.kind) else None
        if opened is not None:
            self._opened(side, record, opened)
        elif self._is_sealed(side, record.kind):
            side.sealed_seen = True
            side.hole = side.hole or record.mark
        elif not self._opened_lost(side, record):
            side.used += len(record.head) + len(record.body)
            self._content(side, record.kind, record.body, record.mark)

    def _opened_lost(self, side: RecordSide, record: TlsRecord) -> bool:
        """Whether a record is protected because a ChangeCipherSpec was lost (up to TLS 1.2)."""
        if not side.opener.lost or self._handshakes.agreed.version in (0, TLS_1_3) or record.kind == CHANGE_CIPHER:
            return False
        opened = self._open(side, record) if self._is_read(side, APPLICATION) else None
        if opened is not None:
            self._opened(side, record, opened)
        return opened is not None

    def _open(self, side: RecordSide, record: TlsRecord) -> Opened | None:
        """Open a record, with secrets that are found first where there are none yet."""
        if side.opener.ready:
            return side.opener.open(record.head, record.body)
        side.guesses += 1
        guess = self._handshakes.guess(side.side, record.head, record.body, self._limits.tls_trials_max)
        if guess is None:
            return None
        side.opener.follow(guess.rung, guess.opened.number, self._handshakes.ladder(side.side))
        told = f"its client random was found by trying {self._handshakes.tried} candidates of the key log"
        self._tell(side, "info", f"{told}; its first captured record is number {guess.opened.number}", record.mark)
        return guess.opened

    def _opened(self, side: RecordSide, record: TlsRecord, opened: Opened) -> None:
        """A record was opened."""
        side.sealed_seen = True
        side.used += len(record.head) + len(record.body)
        if self._handshakes.agreed.version != TLS_1_3:
            side.sealed = True
        opener = side.opener
        if opener.lost:
            number, tries = opened.number, opener.trials
            text = f"decrypted again after a loss, from record {number} on, which was found by {tries} tries"
            self._tell(side, "info", text, record.mark)
        opener.settled()
        if side.hole is not None and opener.hides_nothing(opened):
            side.hole = None
        self._content(side, opened.kind, opened.content, record.mark)

    def _content(self, side: RecordSide, kind: int, content: bytes, mark: Mark) -> None:
        """The content of a record."""
        if kind == APPLICATION:
            self._data(side, content, mark)
        elif kind == HANDSHAKE_RECORD:
            self._handshakes.take(side.side, side.opener, side.handshake, content)
        elif kind == ALERT:
            side.may_be_clear = True
            self._alert(side, content, mark)
        elif kind == CHANGE_CIPHER and self._handshakes.agreed.version != TLS_1_3:
            self._handshakes.change_cipher(side.side)
            side.sealed = True
            side.opener.begin([])

    def _data(self, side: RecordSide, content: bytes, mark: Mark) -> None:
        taken = self._handshakes.early_accepted is not False and not self._handshakes.agreed.retried
        if side.opener.in_early_data and not taken:
            text = f"early data that the server did not take: {len(content)} bytes, which the client sends again"
            self._tell(side, "info", text, mark)
        elif content:
            self._give(side, content, mark)

    def _give(self, side: RecordSide, data: bytes, mark: Mark) -> None:
        if side.hole is not None:
            hole, side.hole = side.hole, None
            self._out.append(Hole(side.side, None, hole._replace(release=max(hole.release, mark.release))))
        self._out.append(Plain(side.side, data, mark))

    def _alert(self, side: RecordSide, content: bytes, mark: Mark) -> None:
        """Tell an alert that is more than a goodbye."""
        if len(content) == 2 and content[1] not in (0, 90):
            severity: Severity = "error" if content[0] == 2 or self._handshakes.agreed.version == TLS_1_3 else "warning"
            self._tell(
                side, severity, f"the {side.side.text} refused TLS with an alert: {alert_name(content[1])}", mark
            )

    def _tell(self, side: RecordSide, severity: Severity, text: str, mark: Mark) -> None:
        self._out.append(TlsNotice(Problem("tls", severity, f"TLS: {text}", "", side.side), mark))
