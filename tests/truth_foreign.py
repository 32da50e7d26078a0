"""Truth of captures that hold none of our protocols: nobody claims a connection, and every byte is named undecoded.

Connections of protocols that the engine names without decoding carry that name. Clients may have others beside them:
some libraries wake themselves through a TCP connection of their own, which stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

NAMED: Final = {
    "http1": "http",
    "http2": "http2",
    "grpc": "http2",
    "RocketMQ remoting": "rocketmq-ha",
    "amqp091": "amqp-0-9-1",
    **{name: name for name in ("mqtt", "nats", "stomp", "redis", "zookeeper", "postgresql", "mysql")},
}
"""Protocol of the truth -> what the engine calls it. What is foreign of RocketMQ is replication between its brokers."""


def check(truth: dict[str, Any], rows: Iterable[dict[str, Any]]) -> list[tuple[str, Any, Any, str]]:
    """Compare what the connections are called, and what became of their bytes."""
    connections = messages = 0
    protocols: set[str] = set()
    sent = undecoded = 0
    for row in rows:
        messages += row["table"] == "messages"
        if row["table"] == "connections":
            connections += 1
            protocols.add(row["protocol"])
            sent += row["client_bytes"] + row["server_bytes"]
            undecoded += row["undecoded_bytes"]
    return [
        ("messages", 0, messages, ""),
        ("claimed as", {NAMED.get(truth["protocol"], "unknown")}, protocols - {"unknown"} or protocols, ""),
        ("undecoded bytes", sent, undecoded, ""),
        ("connections are there", True, connections > 0, ""),
    ]
