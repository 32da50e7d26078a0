"""Connections and commands in, a row for each protocol out: how much traffic it has, and how much is encrypted."""

from __future__ import annotations

from collections.abc import Sequence

from mqsniff.answers.stats.commands import CommandTally
from mqsniff.answers.stats.keeping import StatRow, counted
from mqsniff.model import ConnectionInfo

_TLS = "tls"


def is_encrypted(connection: ConnectionInfo) -> bool:
    """Whether a connection has TLS."""
    return connection.protocol == _TLS or connection.tls_version is not None


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
        if is_encrypted(connection):
            self.encrypted += 1
            self.encrypted_bytes += size


class ProtocolStats:
    """Connections by protocol: there are no more of these than the registry knows."""

    def __init__(self) -> None:
        self.tallies: dict[str, ProtocolTally] = {}

    def closed(self, connection: ConnectionInfo) -> None:
        """Count a connection."""
        self.tallies.setdefault(connection.protocol, ProtocolTally()).take(connection)

    def rows(self, commands: dict[str, CommandTally], by_name: Sequence[StatRow]) -> list[StatRow]:
        """A row a protocol, the one with most bytes on the wire first.

        ``commands`` are tallies by protocol, ``by_name`` rows of commands that are divided by nothing else.
        """
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
                    "errors_by_command": counted(_failures(name, by_name)),
                    "unanswered_by_command": counted(_unanswered(name, by_name)),
                }
            )
        return sorted(rows, key=lambda row: (-row["wire_bytes"], -row["messages"], row["protocol"]))


def _failures(protocol: str, commands: Sequence[StatRow]) -> dict[str, int]:
    """Errors of a protocol by command and name."""
    return {
        f"{row['name']} {error}": count
        for row in commands
        if row["protocol"] == protocol
        for error, count in row["errors_by_name"].items()
    }


def _unanswered(protocol: str, commands: Sequence[StatRow]) -> dict[str, int]:
    return {row["name"]: row["unanswered"] for row in commands if row["protocol"] == protocol and row["unanswered"]}
