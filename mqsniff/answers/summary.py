"""The items of a run in, what is said of it at its end out: totals, why there is little to see, what was found.

1. An empty or poor result explains itself: every connection that gave no messages is counted under a reason.
2. A hint names only options that exist.
3. Memory is bounded: counters by protocol, kind and at most ``_PORTS_COUNTED`` ports.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mqsniff.decode.foreign import TITLES
from mqsniff.model import (
    UNMET,
    ClosedItem,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Item,
    MessageItem,
    ProblemItem,
    ProblemKind,
    Severity,
)
from mqsniff.tables.times import SECOND_NS

if TYPE_CHECKING:
    from mqsniff.pipeline import Totals

_TIMED_OUT: Final = re.compile("TIME(D_)?_?OUT", re.IGNORECASE)
"""What the names of errors that tell of a time-out have in common, in all protocols."""
_GAVE_UP_NS: Final = SECOND_NS
"""From here on a connection was closed because no answer came; clients wait for seconds."""
_PORTS_COUNTED: Final = 1000
_PORTS_SHOWN: Final = 3
_AS_BAD: Final[dict[str, tuple[Severity, ...]]] = {
    "error": ("error",),
    "warning": ("error", "warning"),
    "info": ("error", "warning", "info"),
}
_ELSEWHERE: Final[dict[int, str]] = {
    22: "ssh",
    25: "smtp",
    53: "dns",
    88: "kerberos",
    110: "pop3",
    123: "ntp",
    143: "imap",
    179: "bgp",
    389: "ldap",
    443: "https",
    445: "smb",
    587: "smtp",
    636: "ldaps",
    993: "imaps",
    995: "pop3s",
    1433: "mssql",
    1521: "oracle",
    1883: "mqtt",
    2049: "nfs",
    2181: "zookeeper",
    2379: "etcd",
    2380: "etcd",
    3306: "mysql",
    3389: "rdp",
    4222: "nats",
    5432: "postgresql",
    5671: "amqps",
    5672: "amqp",
    6379: "redis",
    8883: "mqtts",
    9042: "cassandra",
    9200: "elasticsearch",
    11211: "memcached",
    11300: "beanstalkd",
    27017: "mongodb",
    61613: "stomp",
    61616: "openwire",
}
"""Ports that belong to others (IANA's registry, and the defaults of their servers): no hint to decode them as ours."""


_NETWORK: Final[dict[ProblemKind, str]] = {
    "retransmission": "retransmission",
    "zero_window": "zero window",
    "stall": "stall",
}
"""What the network did, as it is counted: no problem of the traffic."""


_TLS_WHOLE: Final = ("TLS connection", "TLS connections")
_TLS_INSIDE: Final = ("connection after the change to TLS", "connections after the change to TLS")
_NEEDS_KEYS: Final = "encrypted; its keys are needed: --tls-keys FILE"
_WRONG_KEYS: Final = "encrypted, and the keys of --tls-keys do not open it"
_TLS: Final = {
    "tls missing": (_TLS_WHOLE, _NEEDS_KEYS),
    "tls wrong": (_TLS_WHOLE, _WRONG_KEYS),
    "tls": (_TLS_WHOLE, "nothing but a handshake"),
    "tls part": (_TLS_WHOLE, "the keys open a part without messages; the problems say what is lacking"),
    "inside tls missing": (_TLS_INSIDE, _NEEDS_KEYS),
    "inside tls wrong": (_TLS_INSIDE, _WRONG_KEYS),
}
"""Reason -> what is counted, and why it gave no messages."""


class Summary:
    """Counts what passes by."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.kinds: Counter[ProblemKind] = Counter()
        self.severities: Counter[Severity] = Counter()
        self.answer_errors = 0
        self.unanswered = 0
        """Requests; not deliveries that nobody settled."""
        self.timeouts = 0
        self.resets: Counter[str] = Counter()
        """Connections that a RST ended, by the side that sent it."""
        self.gap_bytes = 0
        self.undecoded_bytes = 0
        self._reasons: Counter[str] = Counter()
        self._unknown_ports: Counter[int] = Counter()
        self._known_ports: set[int] = set()
        """Server ports of connections whose protocol was found."""
        self._partly = self._partly_bytes = 0

    def take(self, item: Item) -> None:
        """Count an item."""
        if isinstance(item, MessageItem):  # hot: a pattern that takes an item apart costs three times as much
            self.messages[item.message.protocol] += 1
            if item.message.failed:
                self.answer_errors += 1
                if _TIMED_OUT.search(item.message.error_name or ""):
                    self.timeouts += 1
        elif isinstance(item, ExchangeItem):
            if item.exchange.status == "unanswered":
                self._unanswered(item.exchange)
        elif isinstance(item, ProblemItem):
            self.kinds[item.problem.kind] += 1
            self.severities[item.problem.severity] += 1
        elif isinstance(item, ClosedItem):
            self._closed(item.connection)

    def plain(self) -> dict[str, Any]:
        """Everything that was counted, as plain values."""
        return {
            "counters": [dict(counter) for counter in self._counters()],
            "numbers": [
                *(self.answer_errors, self.unanswered, self.timeouts, self.gap_bytes, self.undecoded_bytes),
                *(self._partly, self._partly_bytes),
            ],
            "known_ports": list(self._known_ports),
        }

    def add(self, plain: Mapping[str, Any]) -> None:
        """Add what another process counted, as ``plain`` gave it."""
        for counter, counts in zip(self._counters(), plain["counters"], strict=True):
            counter.update(counts)
        numbers = plain["numbers"]
        self.answer_errors += numbers[0]
        self.unanswered += numbers[1]
        self.timeouts += numbers[2]
        self.gap_bytes += numbers[3]
        self.undecoded_bytes += numbers[4]
        self._partly += numbers[5]
        self._partly_bytes += numbers[6]
        self._known_ports.update(plain["known_ports"])

    def _counters(self) -> list[Counter[Any]]:
        ports: Counter[Any] = self._unknown_ports
        return [self.messages, self.kinds, self.severities, self.resets, self._reasons, ports]

    def totals(self, totals: Totals, dropped: int, seconds: float) -> str:
        """The run in one line; ``dropped`` are packets that the capturing host reports as lost."""
        count = self.messages.total()
        protocols = ", ".join(f"{name} {number}" for name, number in _ranked(self.messages))
        asides = ((totals.other_packets, "not TCP"), (dropped, "more dropped by the capture"))
        aside = ", ".join(f"{number} {what}" for number, what in asides if number)
        problems = ", ".join(f"{severity} {number}" for severity, number in _ranked(self._odd()))
        network = ", ".join(_counted(self.kinds[kind], each) for kind, each in _NETWORK.items() if self.kinds[kind])
        return (
            f"{_counted(totals.packets, 'packet')}{f' ({aside})' if aside else ''}, "
            f"{_counted(totals.connections, 'connection')}, "
            f"{_counted(count, 'message')}{f' ({protocols})' if protocols else ''}, "
            f"{''.join(f'{ending}, ' for ending in self._endings())}"
            f"{f'problems: {problems}' if problems else 'no problems'}"
            f"{f' (network: {network})' if network else ''}, {seconds:.2f} s"
        )

    def _endings(self) -> Iterator[str]:
        """What ended without an answer or a proper close."""
        if self.answer_errors:
            yield _counted(self.answer_errors, "answer with an error", "answers with errors")
        if self.unanswered:
            yield f"{self.unanswered} unanswered"
        if self.resets:
            sides = ", ".join(f"{side} {number}" for side, number in _ranked(self.resets))
            yield f"{_counted(self.resets.total(), 'reset')} ({sides})"
        if self.timeouts:
            yield _counted(self.timeouts, "time-out")

    def _unanswered(self, exchange: Exchange) -> None:
        """A request without an answer; whoever closed the connection after a long wait for it gave up."""
        pending = exchange.pending
        if pending is None or pending.link != "answer":
            return
        self.unanswered += 1
        waited_ns = (exchange.ended_ns or 0) - pending.frame.last_ts_ns - (pending.wait_limit_ns or 0)
        if exchange.ended_by is pending.frame.side and waited_ns >= _GAVE_UP_NS:
            self.timeouts += 1

    def _odd(self) -> Counter[Severity]:
        """Problems by severity, without what the network did."""
        return self.severities - Counter[Severity]({"info": sum(self.kinds[kind] for kind in _NETWORK)})

    def explanation(self, totals: Totals) -> str | None:
        """Why there are no messages, or what was there beside them; None when nothing is missing."""
        reasons = [*_why_nothing(totals), *self._undecoded_connections()]
        if not self.messages:
            return f"0 messages: {', '.join(reasons) or 'no connection carried any'}"
        return f"not decoded: {', '.join(reasons)}" if reasons else None

    def found(self, conditions: Sequence[str]) -> Iterator[str]:
        """What was found of the conditions of ``--fail-on``, in words."""
        for condition in conditions:
            count = self._count_of(condition)
            if count:
                yield f"{condition} ({count})"

    def _count_of(self, condition: str) -> int:
        if condition in _AS_BAD:
            return sum(self.severities[severity] for severity in _AS_BAD[condition])
        match condition:
            case "empty":
                return int(not self.messages)
            case "answer-error":
                return self.answer_errors
            case "unanswered":
                return self.unanswered
            case "reset":
                return self.resets.total()
            case "timeout":
                return self.timeouts
            case "gap":
                return self.kinds["gap"] or self.gap_bytes
            case "undecoded":
                return self.kinds["undecoded"] or self.undecoded_bytes
        return sum(number for kind, number in self.kinds.items() if kind == condition)

    def _closed(self, connection: ConnectionInfo) -> None:
        self.gap_bytes += connection.gap_bytes
        self.undecoded_bytes += connection.undecoded_bytes
        if connection.outcome not in UNMET and connection.close_reason == "rst":
            self.resets[connection.closed_by or "unknown"] += 1
        if connection.outcome == "no answer" or connection.close_reason == "keepalive missed":
            self.timeouts += 1
        protocol = connection.protocol
        if protocol != "unknown" and len(self._known_ports) < _PORTS_COUNTED:
            self._known_ports.add(connection.server_port)
        if connection.outcome in UNMET:
            self._reasons[connection.outcome] += 1
        elif not connection.client_bytes and not connection.server_bytes:
            self._reasons["silent"] += 1
        elif protocol == "unknown":
            self._reasons["unknown"] += 1
            port = connection.server_port
            if port in self._unknown_ports or len(self._unknown_ports) < _PORTS_COUNTED:
                self._unknown_ports[port] += 1
        elif protocol == "tls":
            partly = "tls part" if connection.undecoded_bytes else "tls"
            self._reasons[partly if connection.tls_keys in (None, "used") else f"tls {connection.tls_keys}"] += 1
        elif protocol in TITLES and not self.messages[protocol]:  # a plugin may decode it
            self._reasons[protocol] += 1
        elif connection.tls_keys in ("missing", "wrong"):
            self._reasons[f"inside tls {connection.tls_keys}"] += 1
        elif connection.undecoded_bytes:
            self._partly += 1
            self._partly_bytes += connection.undecoded_bytes

    def _undecoded_connections(self) -> Iterator[str]:
        reasons = self._reasons
        for reason, (what, why) in _TLS.items():
            if reasons[reason]:
                yield f"{_counted(reasons[reason], *what)} ({why})"
        if reasons["unknown"]:
            yield self._unknown()
        for protocol, title in TITLES.items():
            if reasons[protocol]:
                yield f"{_counted(reasons[protocol], f'{title} connection')} (another protocol)"
        if self._partly:
            yield f"{self._partly_bytes} B of {_counted(self._partly, 'connection')} (the problems say why)"
        if self.gap_bytes:
            yield f"{self.gap_bytes} B that the capture lost"
        if self.messages:
            return
        for reason, singular, plural in (
            ("no answer", "handshake without an answer", "handshakes without an answer"),
            ("refused", "refused connection", "refused connections"),
            ("silent", "connection without content", "connections without content"),
        ):
            if reasons[reason]:
                yield _counted(reasons[reason], singular, plural)

    def _unknown(self) -> str:
        """Unknown connections, with a port to give to --decode-as where nothing explains it."""
        counted = [port for port, _ in _ranked(self._unknown_ports)]
        puzzling = [port for port in counted if port not in _ELSEWHERE and port not in self._known_ports]
        ports = [*puzzling, *(port for port in counted if port not in puzzling)][:_PORTS_SHOWN]
        more = len(counted) - len(ports)
        named = ", ".join(f"{port} ({_ELSEWHERE[port]}?)" if port in _ELSEWHERE else str(port) for port in ports)
        return (
            f"{self._reasons['unknown']} unknown on port{'s' if len(counted) > 1 else ''} {named}"
            f"{f' and {more} more' if more else ''}{f' (try --decode-as {puzzling[0]}=PROTO)' if puzzling else ''}"
        )


def _why_nothing(totals: Totals) -> Iterator[str]:
    if not totals.packets:
        yield "no packets"
    elif totals.packets == totals.other_packets:
        yield f"{_counted(totals.packets, 'packet')}, none of them TCP"


def _ranked(counter: Counter[Any]) -> list[tuple[Any, int]]:
    """What was counted, the most frequent first; ties by name, not by the order in which they came."""
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


def _counted(number: int, singular: str, plural: str = "") -> str:
    """A number and its noun."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
