"""Protected records of one side in, their contents out: which keys, and which sequence number.

Sources: RFC 8446 sections 4.6.3 and 5.3, RFC 5246 section 6.1.

1. A side goes up a ladder of protections: early data, handshake, application data and one more for each KeyUpdate; up
   to TLS 1.2 one for each ChangeCipherSpec.
2. A record that the next sequence number does not open is tried with later protections; after lost or damaged records
   with later numbers too. What opens a record is right, since records are authenticated.
3. Tries since the last success are bounded.
"""

from __future__ import annotations

from typing import Final

from mqsniff.tls.protection import Aead13, Opened, Protection

RECORD_MIN: Final = 5 + 16 + 1
"""Bytes of the shortest protected record: what a loss divides by to tell how many records it may hold."""
REFUSED_MAX: Final = 64
"""Records that do not open before a side whose keys never fitted is given up."""
UPDATES_MAX: Final = 2
"""KeyUpdates that a loss may have hidden."""


class Opener:
    """Opens the records of one side, one after the other."""

    def __init__(self, trials_max: int) -> None:
        self._trials_max = trials_max
        self._ladder: list[Protection] = []
        self._rung = 0
        self._number = 0
        self._slack = 0
        """Records that may have passed since the last one that was opened."""
        self._trials = 0
        self.opened = 0
        """Records that were opened."""
        self.refused = 0
        """Records that were not, although there were keys."""
        self.lost = False
        """Whether bytes were lost since the last record that was opened."""

    @property
    def ready(self) -> bool:
        """Whether there is a key to try."""
        return bool(self._ladder)

    @property
    def exhausted(self) -> bool:
        """Whether to try no more."""
        return self._trials >= self._trials_max or (not self.opened and not self.lost and self.refused > REFUSED_MAX)

    @property
    def in_handshake(self) -> bool:
        """Whether records are protected with a handshake secret of TLS 1.3, or with an early one."""
        return self.ready and isinstance(rung := self._ladder[self._rung], Aead13) and rung.name != "traffic"

    @property
    def in_early_data(self) -> bool:
        """Whether records are protected with an early secret."""
        return self.ready and isinstance(rung := self._ladder[self._rung], Aead13) and rung.name == "early"

    @property
    def trials(self) -> int:
        """Tries since the last record that was opened without any."""
        return self._trials

    def hides_nothing(self, opened: Opened) -> bool:
        """Whether no data can have been lost before a record: it is one of a handshake, or the first after it."""
        rung = self._ladder[self._rung]
        if isinstance(rung, Aead13):
            return rung.name == "handshake" or (rung.name == "traffic" and opened.number == 0)
        return opened.number == 0

    def begin(self, ladder: list[Protection], slack: int = 0) -> None:
        """Go on with other protections; ``slack`` records may have passed already."""
        self._ladder, self._rung, self._number, self._trials = ladder, 0, 0, 0
        self._slack = max(self._slack, slack) if self.lost or slack else 0

    def follow(self, rung: Protection, number: int, ladder: list[Protection]) -> None:
        """Go on after a record that was opened without this."""
        names = [each.name if isinstance(each, Aead13) else "" for each in ladder]
        self._ladder = ladder
        self._rung = names.index(rung.name) if isinstance(rung, Aead13) and rung.name in names else 0
        self._ladder[self._rung] = rung
        self._passed(number)

    def advance(self, name: str) -> None:
        """Go on with the secret of this name, if there is one; what is behind it stays as it is."""
        for place in range(self._rung, len(self._ladder)):
            rung = self._ladder[place]
            if isinstance(rung, Aead13) and rung.name == name:
                if place > self._rung:
                    self._rung, self._number, self._slack = place, 0, 0
                return
        self._slack += 1

    def update(self) -> None:
        """A KeyUpdate: the next secret."""
        following = self._ladder[self._rung].following() if self._ladder else None
        if following is not None:
            self._ladder, self._rung, self._number, self._slack = [following], 0, 0, 0

    def lose(self, length: int | None) -> None:
        """Lost bytes: this many records at most; None: unknown number."""
        self.lost = True
        self._slack += self._trials_max if length is None else length // RECORD_MIN + 1
        for rung in self._ladder:
            rung.lose()

    def skip(self, end: bytes) -> None:
        """A record of which only the end was captured."""
        for rung in self._ladder:
            rung.pass_over(end)

    def open(self, head: bytes, body: bytes) -> Opened | None:
        """Open the next record; None where nothing fits. Hot: once a record."""
        rung = self._ladder[self._rung]
        opened = rung.open(self._number, head, body) or self._search(head, body)
        self._ladder[self._rung].pass_over(body)
        if opened is None:
            self.refused += 1
            self._slack += 1
            return None
        self._passed(opened.number)
        return opened

    def _passed(self, number: int) -> None:
        self._number = number + 1
        self._slack = 0
        self.opened += 1

    def settled(self) -> None:
        """What was lost before the last record is told."""
        self.lost, self._trials = False, 0

    def _search(self, head: bytes, body: bytes) -> Opened | None:
        """Try later numbers and later protections (rule 2)."""
        if self._slack:
            opened = self._try(self._ladder[self._rung], self._number + 1, head, body)
            if opened is not None:
                return opened
        for place in range(self._rung + 1, len(self._ladder)):
            opened = self._try(self._ladder[place], 0, head, body)
            if opened is not None:
                self._rung = place
                return opened
        return self._search_updated(head, body) if self._slack else None

    def _search_updated(self, head: bytes, body: bytes) -> Opened | None:
        """Try the secrets after KeyUpdates that were lost."""
        rung: Protection | None = self._ladder[-1]
        for _ in range(UPDATES_MAX):
            rung = rung.following() if rung is not None else None
            if rung is None:
                return None
            opened = self._try(rung, 0, head, body)
            if opened is not None:
                self._ladder, self._rung = [rung], 0
                return opened
        return None

    def _try(self, rung: Protection, first: int, head: bytes, body: bytes) -> Opened | None:
        count = min(self._slack + 1, self._trials_max - self._trials)
        if count <= 0:
            return None
        opened = rung.find(range(first, first + count), head, body)
        self._trials += count if opened is None else opened.number - first + 1
        return opened
