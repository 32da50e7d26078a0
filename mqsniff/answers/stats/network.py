"""Connections in, what the network did to them by server out; handshakes, ends, retransmissions, stalls."""

from __future__ import annotations

from mqsniff.answers.stats.keeping import OTHERS, KeptTallies, StatRow
from mqsniff.answers.stats.sketch import LatencySketch
from mqsniff.model import ConnectionInfo

_SUMS = (
    "retransmitted_segments",
    "out_of_order_segments",
    "duplicate_packets",
    "client_zero_windows",
    "server_zero_windows",
    "gap_bytes",
    "client_bytes",
    "server_bytes",
    "client_packets",
    "server_packets",
)
"""Columns of ``connections`` that are added up."""
_OUTCOMES = {"established": "established", "refused": "refused", "no answer": "no_answer", "mid-stream": "mid_stream"}


class ServerTally:
    """Connections to one server."""

    __slots__ = ("counts", "longest", "rtt")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.longest: dict[str, int | None] = {"client_longest_stall_ns": None, "server_longest_stall_ns": None}
        self.rtt = LatencySketch()

    def take(self, connection: ConnectionInfo) -> None:
        """Count a connection that has ended, or whose capture has."""
        self._add("connections", 1)
        self._add(_OUTCOMES[connection.outcome], 1)
        for name in _SUMS:
            self._add(name, getattr(connection, name))
        self._add("one_sided", connection.sides_seen != "both" and connection.outcome not in {"refused", "no answer"})
        if connection.close_reason == "rst" and connection.closed_by is not None:
            self._add(f"resets_by_{connection.closed_by}", 1)
        self._add("open_at_end", connection.open_at_end)
        for name, longest in self.longest.items():
            stall = getattr(connection, name)
            if stall is not None:
                self._add("stalled", 1)
                self.longest[name] = stall if longest is None else max(longest, stall)
        trips = [rtt for rtt in (connection.client_rtt_ns, connection.server_rtt_ns) if rtt is not None]
        if len(trips) == 2:
            self.rtt.add(sum(trips))

    def _add(self, name: str, number: int) -> None:
        if number:
            self.counts[name] = self.counts.get(name, 0) + int(number)

    def row(self) -> StatRow:
        """The figures as columns."""
        (rtt,) = self.rtt.quantiles(0.5)
        names = ("connections", *_OUTCOMES.values(), "one_sided", "resets_by_client", "resets_by_server")
        return {
            **{name: self.counts.get(name, 0) for name in (*names, "open_at_end", "stalled", *_SUMS)},
            **self.longest,
            "handshake_rtt_p50_ns": rtt,
            "handshake_rtt_max_ns": self.rtt.greatest if self.rtt.count else None,
        }

    @property
    def trouble(self) -> int:
        """How much of what nobody wants there was."""
        return sum(self.counts.get(name, 0) for name in TROUBLES)


TROUBLES = (
    *("refused", "no_answer", "one_sided", "resets_by_client", "resets_by_server", "stalled"),
    *("retransmitted_segments", "client_zero_windows", "server_zero_windows"),
)
"""Columns of a row that are no good news."""


class NetworkStats:
    """Connections by server."""

    def __init__(self, limit: int) -> None:
        self._servers: KeptTallies[str, ServerTally] = KeptTallies(limit, ServerTally)

    def closed(self, connection: ConnectionInfo) -> None:
        """Count a connection."""
        self._servers.of(connection.server).take(connection)

    def rows(self) -> list[StatRow]:
        """A row a server, the one with most trouble first."""
        ranked = sorted(self._servers, key=lambda one: (one[0] is None, -one[1].trouble, one[0] or ""))
        return [{"server": server or OTHERS, **tally.row()} for server, tally in ranked]
