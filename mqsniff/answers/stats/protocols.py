"""Connections and commands in, a row for each protocol out: how much traffic it has, and how much is encrypted."""

from __future__ import annotations

from mqsniff.answers.stats.commands import CommandTally
from mqsniff.answers.stats.keeping import StatRow
from mqsniff.model import ConnectionInfo

_TLS = "tls"


class ProtocolTally:
    """Connections of one protocol."""

    __slots__ = ("connections", "encrypted", "encrypted_bytes", "undecoded", "wire_bytes")

    def __init__(self) -> None:
        self.connections = self.wire_bytes = self.encrypted = self.encrypted_bytes = self.undecoded = 0

    def take(self, connection: ConnectionInfo) -> None:
        """Count a connection."""
        size = connection.client_bytes + connection.server_bytes
        self.connections += 1
        self.wire_bytes += size
        self.undecoded += connection.undecoded_bytes
        if connection.protocol == _TLS or connection.tls_version is not None:
            self.encrypted += 1
            self.encrypted_bytes += size


class ProtocolStats:
    """Connections by protocol: there are no more of these than the registry knows."""

    def __init__(self) -> None:
        self.tallies: dict[str, ProtocolTally] = {}

    def closed(self, connection: ConnectionInfo) -> None:
        """Count a connection."""
        self.tallies.setdefault(connection.protocol, ProtocolTally()).take(connection)

    def rows(self, commands: dict[str, CommandTally]) -> list[StatRow]:
        """A row a protocol, the one with most bytes on the wire first; ``commands`` are tallies by protocol."""
        none, nothing = ProtocolTally(), CommandTally()
        rows = []
        for name in {**self.tallies, **commands}:
            tally, messages = self.tallies.get(name, none), commands.get(name, nothing)
            rows.append(
                {
                    "protocol": name,
                    "connections": tally.connections,
                    "messages": messages.count,
                    "bytes": messages.size,
                    "wire_bytes": tally.wire_bytes,
                    "encrypted_connections": tally.encrypted,
                    "encrypted_bytes": tally.encrypted_bytes,
                    "encrypted_share": round(tally.encrypted_bytes / tally.wire_bytes, 4) if tally.wire_bytes else None,
                    "undecoded_bytes": tally.undecoded,
                    "errors": messages.errors,
                    "unanswered": messages.statuses.get("unanswered", 0),
                }
            )
        return sorted(rows, key=lambda row: (-row["wire_bytes"], -row["messages"], row["protocol"]))
