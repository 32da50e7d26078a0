"""Connections in, their names in text lines out: client left, server right, an arrow between them for who sent it.

1. All names are padded to the widest so far, up to ``_WIDTH_MAX``, so that what follows stands in a column.
2. In narrow form a name is two ports, as long as no other open connection has the same two.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.model import ConnectionInfo, Side

_WIDTH_MAX: Final = 48
_ARROWS: Final[dict[Side | None, str]] = {None: "-", Side.CLIENT: ">", Side.SERVER: "<"}


class _Ends(NamedTuple):
    """How a connection is shown, for as long as its client stays who it is."""

    client: tuple[str, int]
    ports: tuple[int, int]
    left: str
    right: str


class Labels:
    """Remembers the open connections."""

    def __init__(self, *, narrow: bool) -> None:
        self._narrow = narrow
        self._ends: dict[str, _Ends] = {}
        self._ports: dict[tuple[int, int], str] = {}
        self._width = 0

    def of(self, connection: ConnectionInfo, side: Side | None) -> str:
        """The name with the arrow of a side, or with a dash for none."""
        ends = self._ends.get(connection.connection_id)
        if ends is None or ends.client != (connection.client_ip, connection.client_port):
            self.forget(connection)
            ends = self._learn(connection)
        return f"{ends.left} {_ARROWS[side]} {ends.right}".ljust(self._width)

    def forget(self, connection: ConnectionInfo) -> None:
        """The connection has ended, or its sides turned out the other way round."""
        ends = self._ends.pop(connection.connection_id, None)
        if ends is not None and self._ports.get(ends.ports) == connection.connection_id:
            del self._ports[ends.ports]

    def _learn(self, connection: ConnectionInfo) -> _Ends:
        ports = connection.client_port, connection.server_port
        left, right = connection.client, connection.server
        if self._narrow and self._ports.setdefault(ports, connection.connection_id) == connection.connection_id:
            left, right = map(str, ports)
        ends = _Ends((connection.client_ip, connection.client_port), ports, left, right)
        self._ends[connection.connection_id] = ends
        self._width = max(self._width, min(len(left) + len(right) + 3, _WIDTH_MAX))
        return ends
