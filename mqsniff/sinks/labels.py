"""Connections in, how a line of text calls them out: c1, c2, … and their ends, with an arrow for its sender.

1. The short name is the connection's place in the run (``ConnectionInfo.number``): ``--connection c3`` finds it again.
2. A wide line has both ends, client left; a narrow one the short name and the server's port. The line at the open has
   both ends in full.
3. Names are padded to the widest so far, up to ``_WIDTH_MAX``, so that the next column is aligned.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.model import ConnectionInfo, Side

_WIDTH_MAX: Final = 52
_ARROWS: Final = (">", "<", "-")
_NEITHER: Final = 2


class _Names(NamedTuple):
    """How a connection is shown, for as long as its client stays who it is."""

    client: tuple[str, int]
    sent: tuple[str, str, str]
    """By the client, by the server, by neither."""


class Labels:
    """Remembers the open connections."""

    def __init__(self, *, narrow: bool) -> None:
        self._narrow = narrow
        self._names: dict[str, _Names] = {}
        self._width = 0

    def of(self, connection: ConnectionInfo, side: Side | None) -> str:
        """The name with the arrow of a side, or with a dash for none. Hot: once a line."""
        names = self._names.get(connection.connection_id)
        if names is None or names.client != (connection.client_ip, connection.client_port):
            names = self._learn(connection)
        text = names.sent[_NEITHER if side is None else side]
        return text if len(text) >= self._width else text.ljust(self._width)

    def forget(self, connection: ConnectionInfo) -> None:
        """The connection has ended."""
        self._names.pop(connection.connection_id, None)

    def _learn(self, connection: ConnectionInfo) -> _Names:
        """Name a connection that is new, or whose sides turned out the other way round."""
        name = short_name(connection)
        if self._narrow:
            left, right = name or str(connection.client_port), str(connection.server_port)
        else:
            left, right = f"{name} {connection.client}".lstrip(), connection.server
        sent = tuple(f"{left} {arrow} {right}" for arrow in _ARROWS)
        names = _Names((connection.client_ip, connection.client_port), (sent[0], sent[1], sent[2]))
        self._names[connection.connection_id] = names
        self._width = max(self._width, min(len(sent[0]), _WIDTH_MAX))
        return names


def short_name(connection: ConnectionInfo) -> str:
    """The name that ``--connection`` takes too; empty where nobody counts connections."""
    return f"c{connection.number}" if connection.number else ""
