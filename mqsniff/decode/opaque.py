"""A connection that no dissector takes: its bytes are counted and named, never decoded.

1. Of HTTP the first method and path are shown, without the query, and up to what may be one; of others the name.
2. Of an unknown connection the first 4 bytes of a side are shown, a size or a magic: what follows may be a secret, such
   as a SASL token where the capture begins before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mqsniff.decode.foreign import TITLES
from mqsniff.model import Chunk, ConnectionInfo, Gap, Item, Mark, Problem, ProblemItem, Side

SHOWN = 4
_QUERY = re.compile(rb"[?&=;]")
_USER_INFO = re.compile(rb"//[^/]*@")
REQUEST_LINE_MAX = 512


class OpaqueConnection:
    """Counts and names one such connection."""

    __slots__ = ("_bytes", "_first", "_info", "_mark", "_protocol", "_starts")

    def __init__(self, protocol: str, info: ConnectionInfo) -> None:
        self._protocol = protocol
        self._info = info
        self._bytes = [0, 0]
        self._first: list[bytes] = [b"", b""]
        self._mark: Mark | None = None
        self._starts: list[tuple[int, Mark] | None] = [None, None]
        """By side, offset and packet of its first byte."""

    def rename(self, protocol: str) -> None:
        """Set the protocol of an unknown connection, which later bytes have shown."""
        self._protocol = self._info.protocol = protocol
        self._info.detected_by = "content"

    def take(self, event: Chunk | Gap) -> None:
        """Count bytes."""
        if isinstance(event, Gap):
            return
        self._mark = self._mark or event.marks[0]
        self._starts[event.side] = self._starts[event.side] or (event.offset, event.marks[0])
        self._bytes[event.side] += len(event.data)
        if len(self._first[event.side]) < REQUEST_LINE_MAX:
            self._first[event.side] = (self._first[event.side] + event.data)[:REQUEST_LINE_MAX]

    def end(self) -> Iterator[Item]:
        """The connection is over: one problem counts the undecoded bytes."""
        info, total = self._info, sum(self._bytes)
        info.undecoded_bytes += total
        if not total or self._mark is None:
            return
        shown = "; ".join(self._begins(side, side) for side in Side if self._first[side])
        problem = Problem("undecoded", "warning", self._detail(total, shown), size=total)
        yield ProblemItem(info, problem, self._mark.ts_ns, self._mark.packet)

    def end_before_protocol(self, *, turned: bool) -> Iterator[Item]:
        """Later bytes have shown a protocol: a problem for each side counts those before, with their place.

        ``turned``: the sides are the other way round than they were taken for.
        """
        for taken in Side:
            start, size = self._starts[taken], self._bytes[taken]
            if start is not None:
                offset, mark = start
                side = taken.peer if turned else taken
                detail = self._detail(size, self._begins(taken, side))
                self._info.undecoded_bytes += size
                problem = Problem("undecoded", "warning", detail, side=side, offset=offset, size=size)
                yield ProblemItem(self._info, problem, mark.ts_ns, mark.packet)

    def _begins(self, taken: Side, side: Side) -> str:
        return f"{side.text} begins {self._first[taken][:SHOWN].hex(' ')}"

    def _detail(self, total: int, shown: str) -> str:
        match self._protocol:
            case "http":
                return f"HTTP ({_request(self._first[Side.CLIENT])}): {total} bytes not decoded"
            case protocol if protocol in TITLES:
                return f"{TITLES[protocol]}: {total} bytes not decoded"
            case _:
                return f"unknown protocol: {total} bytes not decoded ({shown})"


def _request(first: bytes) -> str:
    """Method and path of a request line, printable, without the query and without credentials."""
    words = first.split(b"\r\n", 1)[0].split(b" ")
    if len(words) < 2 or not words[0].isalpha():
        return "middle of a connection"
    target = _USER_INFO.sub(b"//", _QUERY.split(words[1], maxsplit=1)[0])
    path = target.decode("ascii", "backslashreplace")
    return f"{words[0].decode('ascii', 'backslashreplace')} {path}"
