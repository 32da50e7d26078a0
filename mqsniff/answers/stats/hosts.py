"""Connections in, the hosts of the capture out: what runs on them, and which servers clients were told to go to."""

from __future__ import annotations

from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow, counted
from mqsniff.model import UNMET, ConnectionInfo, EndpointNews

_SOFTWARE_NAMES = 20
"""Names of software of one host that are kept."""


class HostTally:
    """One address in one role."""

    __slots__ = ("connections", "outcomes", "protocols", "received", "sent", "software", "told")

    def __init__(self) -> None:
        self.connections = self.sent = self.received = 0
        self.told: dict[str, int] = {}
        """How often clients were told to connect to it, by reason."""
        self.outcomes: dict[str, int] = {}
        """Connections that never came about, by outcome."""
        self.protocols: dict[str, int] = {}
        self.software: dict[str, int] = {}

    def take(self, protocol: str | None, software: str | None, sent: int, received: int) -> None:
        """Count a connection; without a protocol where it never came about."""
        self.connections += 1
        self.sent += sent
        self.received += received
        if protocol is not None:
            self.protocols[protocol] = self.protocols.get(protocol, 0) + 1
        if software is not None and (software in self.software or len(self.software) < _SOFTWARE_NAMES):
            self.software[software] = self.software.get(software, 0) + 1

    def row(self) -> StatRow:
        """The figures as columns."""
        return {
            "protocols": list(counted(self.protocols)),
            "software": list(counted(self.software)),
            "connections": self.connections,
            "refused": self.outcomes.get("refused", 0),
            "no_answer": self.outcomes.get("no answer", 0),
            "told_by_lookup": self.told.get("lookup", 0),
            "told_by_redirect": self.told.get("redirect", 0),
            "told_by_move": self.told.get("move", 0),
            "sent_bytes": self.sent,
            "received_bytes": self.received,
        }


class HostStats:
    """Servers by address and port, clients by address."""

    def __init__(self, limit: int) -> None:
        self._hosts: KeptTallies[tuple[str, str, int | None], HostTally] = KeptTallies(limit, HostTally)

    def closed(self, connection: ConnectionInfo) -> None:
        """Count a connection on both sides."""
        c, identity = connection, connection.identity
        server = self._hosts.of(("server", c.server_ip, c.server_port))
        protocol = None if c.outcome in UNMET else c.protocol
        server.take(protocol, identity.server_software, c.server_bytes, c.client_bytes)
        if c.outcome in UNMET:
            server.outcomes[c.outcome] = server.outcomes.get(c.outcome, 0) + 1
        client = self._hosts.of(("client", c.client_ip, None))
        client.take(protocol, identity.client_software, c.client_bytes, c.server_bytes)

    def told(self, protocol: str, news: EndpointNews) -> None:
        """Count that a client was told to connect somewhere."""
        tally = self._hosts.of(("server", news.host, news.port))
        tally.told[news.reason] = tally.told.get(news.reason, 0) + 1
        tally.protocols.setdefault(protocol, 0)

    def rows(self) -> list[StatRow]:
        """Servers first, then clients, those with most connections first."""
        found = []
        for key, tally in self._hosts:
            role, ip, port = key or (OTHERS, OTHERS, None)
            found.append({"role": role, "host": ip, "port": port, **tally.row()})
        return sorted(
            found, key=lambda row: (_ROLES.index(row["role"]), -row["connections"], row["host"], row["port"] or 0)
        )


_ROLES = ("server", "client", OTHERS)
