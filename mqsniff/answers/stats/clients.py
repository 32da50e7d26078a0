"""Connections and what clients asked in, a row for each client out: its library, its APIs, and which have no future."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from mqsniff.answers.stats.keeping import OTHERS, CellKey, KeptTallies, StatRow
from mqsniff.dissector import Dissector, DroppedVersions
from mqsniff.model import ConnectionInfo

_SOFTWARE: Final = re.compile(r"(?P<library>.+?)(?:[ /]|-v|-(?=\d))(?P<version>\d[\w.+-]*)")
"""How clients write what they are: "apache-kafka-java 4.4.0", "go-nsq/1.1.0", "Pulsar-CPP-v4.2.0"."""

ClientKey = tuple[str, str | None, str | None, str]
"""(protocol, software, client id, address)."""


class ClientTally:
    """One client: all connections from an address with the same name and software."""

    __slots__ = ("apis", "connections", "messages", "received", "sent", "users")

    def __init__(self) -> None:
        self.connections = self.messages = self.sent = self.received = 0
        self.apis: dict[str, dict[int | None, int]] = {}
        self.users: dict[str, None] = {}


class ClientStats:
    """Clients, and what newer brokers refuse of what they say."""

    def __init__(self, limit: int, dissectors: Iterable[type[Dissector]]) -> None:
        self._tallies: KeptTallies[ClientKey, ClientTally] = KeptTallies(limit, ClientTally)
        self._dropped: dict[str, Mapping[str, DroppedVersions]] = {
            name: cls.dropped_versions() for cls in dissectors for name in cls.names
        }

    def said(self, connection: ConnectionInfo, cell: CellKey, count: int) -> None:
        """Count messages; those of servers tell nothing of a client."""
        protocol, name, version, kind, _ = cell
        if kind in {"response", "push"}:
            return
        tally = self._tallies.of(_key(connection, protocol))
        tally.messages += count
        versions = tally.apis.setdefault(name, {})
        versions[version] = versions.get(version, 0) + count

    def closed(self, connection: ConnectionInfo) -> None:
        """Count a connection, if it was one of a client that said something."""
        c = connection
        if c.protocol not in self._dropped:
            return
        tally = self._tallies.of(_key(c, c.protocol))
        tally.connections += 1
        tally.sent += c.client_bytes
        tally.received += c.server_bytes
        if c.identity.user is not None:
            tally.users[c.identity.user] = None

    def rows(self) -> list[StatRow]:
        """A row a client: those first that a newer broker would refuse, then by messages."""
        found = [self._row(key, tally) for key, tally in self._tallies if tally.connections or tally.messages]
        return sorted(found, key=lambda row: (not row["dropped"], -row["messages"], str(row["client_id"]), row["host"]))

    def _row(self, key: ClientKey | None, tally: ClientTally) -> StatRow:
        protocol, software, client_id, host = key or (OTHERS, None, None, OTHERS)
        library, version = split_software(software)
        return {
            "protocol": protocol,
            "client_id": client_id,
            "host": host,
            "software": software,
            "library": library,
            "version": version,
            "connections": tally.connections,
            "messages": tally.messages,
            "sent_bytes": tally.sent,
            "received_bytes": tally.received,
            "users": list(tally.users),
            "apis": [_api(name, versions) for name, versions in sorted(tally.apis.items())],
            "dropped": self._refused(protocol, tally),
        }

    def _refused(self, protocol: str, tally: ClientTally) -> list[StatRow]:
        """APIs whose versions, as this client used them, newer brokers no longer take."""
        dropped = self._dropped.get(protocol, {})
        refused = []
        for name, versions in sorted(tally.apis.items()):
            rule = dropped.get(name)
            used = sorted(v for v in versions if v is not None and rule is not None and v < rule.before)
            if rule is not None and used:
                count = sum(versions[v] for v in used)
                refused.append({"name": name, "versions": used, "count": count, "dropped_by": rule.release})
        return refused


def split_software(software: str | None) -> tuple[str | None, str | None]:
    """(library, version) of what a client says that it is."""
    found = _SOFTWARE.fullmatch(software) if software is not None else None
    return (software, None) if found is None else (found["library"], found["version"])


def _api(name: str, versions: dict[int | None, int]) -> StatRow:
    numbers = sorted(version for version in versions if version is not None)
    return {"name": name, "versions": numbers, "count": sum(versions.values())}


def _key(connection: ConnectionInfo, protocol: str) -> ClientKey:
    identity = connection.identity
    return protocol, identity.client_software, identity.client_id, connection.client_ip
