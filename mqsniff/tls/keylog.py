"""Key logs in, the secrets of a connection out: NSS key log files, and the same lines in pcapng blocks.

Source: the SSLKEYLOGFILE format (draft-ietf-tls-keylogfile), and the older lines of NSS that Wireshark reads.

1. A file is read once, in blocks; only where its lines stand is kept, 16 bytes a line, whatever is in them. A line is
   read again when a connection asks for it.
2. Lines that are none are counted, never shown: a key log is a secret.
3. A log that may grow is looked at again when a connection is not in it, at most every ``PAUSE_S``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import IO, Final, NoReturn, TypeAlias

import numpy as np

from mqsniff.limits import KIB, MIB

SecretsByLabel: TypeAlias = dict[str, bytes]
"""What the lines of one connection hold: label -> secret."""

TLS_KEY_LOG: Final = 0x544C534B
"""Type of decryption secrets of pcapng that are a key log."""
BLOCK: Final = MIB
LINE_MAX: Final = 4 * KIB
PAUSE_S: Final = 0.2
ENCRYPTED_SIZE: Final = 8
"""Bytes of an encrypted premaster secret that a line names."""
REMEMBERED: Final = 256
"""Connections whose secrets are kept at hand."""

_LABELS: Final = (
    rb"CLIENT_RANDOM|PMS_CLIENT_RANDOM|CLIENT_EARLY_TRAFFIC_SECRET|(?:CLIENT|SERVER)_HANDSHAKE_TRAFFIC_SECRET|"
    rb"(?:CLIENT|SERVER)_TRAFFIC_SECRET_0|RSA"
)
_LINE: Final = re.compile(
    rb"^(?P<label>" + _LABELS + rb") (?:Session-ID:)?(?P<id>(?:[0-9A-Fa-f]{2}){8,32}) "
    rb"(?:Master-Key:)?(?P<secret>(?:[0-9A-Fa-f]{2}){1,96})[ \t]*\r?$",
    re.MULTILINE,
)
_KNOWN: Final = re.compile(rb"^(?:" + _LABELS + rb") ", re.MULTILINE)
_DAMAGED: Final = re.compile(
    rb"^(?!(?:"
    + _LABELS
    + rb") |[A-Z][A-Z0-9_]* (?:Session-ID:)?[0-9A-Fa-f]{2,512} (?:Master-Key:)?[0-9A-Fa-f]+[ \t]*\r?$"
    rb"|[ \t]*(?:#|\r?$)).",
    re.MULTILINE,
)
"""Lines without a label, other than comments and empty ones."""


class LineIndex:
    """Where the lines of some bytes stand: sorted by the first eight bytes of what they are about."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []
        self._ids: list[int] = []
        self._places: list[int] = []
        self._sorted = False
        self.lines = 0
        self.damaged = 0

    def read(self, block: bytes, offset: int) -> None:
        """Take whole lines, the first of which stands at an offset."""
        before = self.lines
        for match in _LINE.finditer(block):
            self._ids.append(int(match["id"][:16], 16))
            self._places.append(offset + match.start())
            self.lines += 1
        found = self.lines - before
        if found != block.count(b"\n"):
            self.damaged += len(_DAMAGED.findall(block)) + len(_KNOWN.findall(block)) - found
        if len(self._ids) >= 1 << 16:
            self._pack()

    def _pack(self) -> None:
        if self._ids:
            ids, places = np.array(self._ids, np.uint64), np.array(self._places, np.int64)
            self._parts.append((ids, places))
            self._ids, self._places = [], []

    def _sort(self) -> None:
        """Merge what was read into one sorted part."""
        self._pack()
        if len(self._parts) > 1 or (self._parts and not self._sorted):  # one part more than the sorted one, or none
            ids = np.concatenate([part[0] for part in self._parts])
            places = np.concatenate([part[1] for part in self._parts])
            order = np.argsort(ids, kind="stable")
            self._parts = [(ids[order], places[order])]
            self._sorted = True

    def find(self, about: bytes) -> list[int]:
        """Places of the lines that may be about a random or a session."""
        self._sort()
        if not self._parts:
            return []
        ids, places = self._parts[0]
        first = np.uint64(int.from_bytes(about[:8], "big"))
        start, stop = np.searchsorted(ids, first, "left"), np.searchsorted(ids, first, "right")
        found: list[int] = places[start:stop].tolist()
        return found

    def places(self) -> Iterator[int]:
        """Places of all lines, as they stand in the log."""
        self._sort()
        if self._parts:
            yield from np.sort(self._parts[0][1]).tolist()


class KeyLog:
    """One key log: a file, which may grow, or bytes."""

    def __init__(self, source: str | bytes, *, name: str = "", follow: bool = False) -> None:
        """``source``: path or content; OSError for a file that cannot be read. ``follow``: it may come, or grow."""
        self.name = name or (source if isinstance(source, str) else "decryption secrets")
        self.generation = 0
        """Changes when lines came."""
        self._index = LineIndex()
        self._data: bytes | None = source if isinstance(source, bytes) else None
        self._path = source if isinstance(source, str) else ""
        self._follow = follow and self._data is None
        self._fd = -1
        self._read_to = 0
        self._looked = 0.0
        if self._data is not None:
            self._index.read(self._data, 0)
        elif not (follow and not os.path.exists(source)):  # noqa: PTH110  # a path of bytes may be no text
            self._open()

    def __repr__(self) -> str:
        return f"KeyLog({self._index.lines} lines)"

    @property
    def lines(self) -> int:
        """Lines with secrets."""
        return self._index.lines

    @property
    def damaged(self) -> int:
        """Lines that are none of a key log."""
        return self._index.damaged

    def sentence(self) -> str | None:
        """What is wrong with the log, in words; None where nothing is."""
        if self.damaged:
            count = self.lines + self.damaged
            return f"{self.name}: {self.damaged} of {count} lines are no lines of a key log, and were passed over"
        return None if self.lines else f"{self.name}: there are no keys of TLS in it"

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_RDONLY)
        self._read_on()

    def _regular(self) -> bool:
        return os.path.isfile(self._path)  # noqa: PTH113

    def _read_on(self) -> None:
        """Read from where reading ended to the last whole line."""
        if not self._regular():
            self._slurp()
            return
        before = self._index.lines
        while block := os.pread(self._fd, BLOCK, self._read_to):
            end = block.rfind(b"\n") + 1
            if not end and len(block) >= LINE_MAX:
                end = len(block)
            elif not end:
                if self._follow:
                    break
                end = len(block)
            self._index.read(block[:end], self._read_to)
            self._read_to += end
        if self._index.lines != before:
            self.generation += 1

    def _slurp(self) -> None:
        """A pipe cannot be asked again: its content is kept."""
        parts = []
        while part := os.read(self._fd, BLOCK):
            parts.append(part)
        os.close(self._fd)
        self._data, self._follow = b"".join(parts), False
        self._index.read(self._data, 0)

    def look_again(self) -> None:
        """Read what came since, if enough time has passed."""
        now = time.monotonic()
        if not self._follow or now - self._looked < PAUSE_S:
            return
        self._looked = now
        try:
            if self._fd < 0:
                self._open()
            elif os.fstat(self._fd).st_size > self._read_to:
                self._read_on()
        except OSError:
            return

    def find(self, about: bytes) -> SecretsByLabel:
        """The secrets of a client random, a session id or an encrypted premaster secret; empty for one not here."""
        secrets: SecretsByLabel = {}
        wanted = about.hex()
        for place in self._index.find(about):
            line = self._line(place)
            if line is not None and line["id"].decode().lower() == wanted:
                secrets[line["label"].decode()] = bytes.fromhex(line["secret"].decode())
        return secrets

    def all(self) -> Iterator[tuple[str, bytes, bytes]]:
        """(label, what it is about, secret) of every line."""
        for place in self._index.places():
            line = self._line(place)
            if line is not None:
                yield line["label"].decode(), bytes.fromhex(line["id"].decode()), bytes.fromhex(line["secret"].decode())

    def copy_to(self, out: IO[bytes]) -> None:
        """Write the log to a file, with an end of line at its end."""
        at = 0
        while block := self._block(at):
            out.write(block)
            at += len(block)
        out.write(b"\n")

    def _block(self, at: int) -> bytes:
        if self._data is not None:
            return self._data[at : at + BLOCK]
        return os.pread(self._fd, BLOCK, at) if self._fd >= 0 else b""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key log does not travel")

    def about(self) -> str:
        """A digest of what its lines are about, client randoms for the most part, which every capture shows."""
        digest = blake2b(digest_size=8)
        for label, about, _ in self.all():
            digest.update(label.encode() + about)
        return digest.hexdigest()

    def _line(self, place: int) -> re.Match[bytes] | None:
        if self._data is not None:
            return _LINE.match(self._data, place)
        return _LINE.match(os.pread(self._fd, LINE_MAX, place))


class KeyRing:
    """All key logs of a run, as one."""

    def __init__(self, logs: Sequence[KeyLog], more: Callable[[], Sequence[bytes]] = tuple) -> None:
        """``more``: contents of key logs that the captures hold, as far as they are known by now."""
        self._given = list(logs)
        self._more = more
        self._held: list[KeyLog] = []
        """Those of captures."""
        self._taken = 0
        self._known: dict[bytes, SecretsByLabel] = {}
        self._generation = 0
        self._used: dict[bytes, SecretsByLabel] | None = None

    def note_used(self) -> None:
        """Remember from now on which secrets were asked for and found."""
        self._used = {}

    def used_lines(self) -> list[str]:
        """Lines of a key log with the secrets that were found since ``note_used``: secrets themselves."""
        return [
            _line_of(label, about, secret)
            for about, secrets in (self._used or {}).items()
            for label, secret in secrets.items()
        ]

    def __repr__(self) -> str:
        return f"KeyRing({len(self._given) + len(self._held)} logs)"

    def __bool__(self) -> bool:
        """Whether there is anything that could hold a key."""
        return bool(self.logs)

    def __reduce__(self) -> tuple[type[KeyRing], tuple[tuple[()]]]:
        """Pickled without keys only; TypeError for one that has some."""
        if self:
            raise TypeError("key logs stay where they are")
        return KeyRing, ((),)

    @property
    def logs(self) -> list[KeyLog]:
        """All key logs that are known by now."""
        contents = self._more()
        if len(contents) != self._taken:
            self._taken = len(contents)
            self._held = [KeyLog(content) for content in contents]
        return [*self._given, *self._held]

    @property
    def generation(self) -> int:
        """Changes when lines came."""
        return sum(1 + log.generation for log in self.logs)

    def find(self, about: bytes) -> SecretsByLabel:
        """The secrets of a client random, a session id or an encrypted premaster secret, out of all logs."""
        if self.generation != self._generation:
            self._known.clear()
            self._generation = self.generation
        found = self._known.get(about) or self._find_again(about)
        if found and self._used is not None:
            self._used[about] = found
        return found

    def _find_again(self, about: bytes) -> SecretsByLabel:
        found = self._find(about)
        if not found:
            for log in self.logs:
                log.look_again()
            if self.generation != self._generation:
                found = self._find(about)
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[about] = found
        return found

    def _find(self, about: bytes) -> SecretsByLabel:
        found: SecretsByLabel = {}
        for log in self.logs:
            found |= log.find(about)
        return found

    def connections(self, labels: Sequence[str], most: int) -> list[tuple[bytes, SecretsByLabel]]:
        """(client random, secrets) of connections that have one of these labels, the first of all logs."""
        found: dict[bytes, SecretsByLabel] = {}
        lines = (line for log in self.logs for line in log.all() if line[0] in labels)
        for label, about, secret in islice(lines, most * len(labels)):
            found.setdefault(about, {})[label] = secret
        return list(found.items())[:most]


def _line_of(label: str, about: bytes, secret: bytes) -> str:
    """A line of a key log; those of NSS for RSA name a session, or the first bytes of an encrypted premaster secret."""
    if label == "RSA" and len(about) != ENCRYPTED_SIZE:
        return f"RSA Session-ID:{about.hex()} Master-Key:{secret.hex()}"
    return f"{label} {about.hex()} {secret.hex()}"
