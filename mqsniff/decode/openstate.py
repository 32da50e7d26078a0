"""Counts the state of all open connections of a process, and picks those to close where it is more than ``state_max``.

1. What a connection holds is a function of its packets: bytes that wait or are kept, and fixed amounts for objects. It
   is counted at every ``COUNTED_PACKETS``th packet, for the connections that had packets since then.
2. Those that are silent for longest are closed, until an eighth of the limit is free. So rows depend on the packets
   only. In batch a task holds one flow at a time, and meets no such limit (decision 017).
3. Connections without packets since the count before are parked if they hold nothing and there are more than
   ``UNPARKED_MAX``: this changes no row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mqsniff.decode.conversation import Conversation
from mqsniff.limits import Limits
from mqsniff.model import FlowKey
from mqsniff.streams.connection import Connection
from mqsniff.streams.flows import FlowTable

COUNTED_PACKETS: Final = 32_768
UNPARKED_MAX: Final = 4_096


class OpenState:
    """What the open connections of a run hold."""

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.state_max
        self.touched: set[Connection] = set()
        """Connections that had packets since the last count."""
        self.size = 0
        """Bytes at the last count, without lone SYNs; what was closed since then is taken off."""
        self._recent: set[Connection] = set()
        """Connections that had packets before the last count and may still be parked."""

    def closed(self, connection: Connection) -> None:
        """Take a connection off."""
        self.size -= connection.counted_state
        self.touched.discard(connection)
        self._recent.discard(connection)

    def count(self, conversations: Mapping[Connection, Conversation]) -> None:
        """Count what had packets since the last time."""
        for connection in self.touched:
            size = connection.state_size
            conversation = conversations.get(connection)
            if conversation is not None:
                size += conversation.state_size
            self.size += size - connection.counted_state
            connection.counted_state = size
        self._park(len(conversations))
        self.touched.clear()

    def _park(self, count: int) -> None:
        """Park what had packets before the last count and none since then."""
        if count > UNPARKED_MAX:
            for connection in self._recent - self.touched:
                connection.park()
            self._recent = set(self.touched)
        else:
            self._recent.update(self.touched)

    def excess(self, tables: list[FlowTable]) -> Iterator[tuple[FlowTable, FlowKey]]:
        """The connections to close, the one that is silent for longest first; each is closed before the next comes."""
        if self._held(tables) <= self._limit:
            return
        silent = [(*since, place) for place, table in enumerate(tables) for since in table.silent_since()]
        silent.sort(key=_silence)
        for _, _, key, place in silent:
            if self._held(tables) <= self._limit - self._limit // 8:
                return
            yield tables[place], key

    def _held(self, tables: list[FlowTable]) -> int:
        return self.size + sum(table.lone_size for table in tables)


def _silence(silent: tuple[int, int, FlowKey, int]) -> tuple[int, int]:
    return silent[0], silent[1]
