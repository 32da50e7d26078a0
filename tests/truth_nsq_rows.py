"""Rows of an NSQ capture in, answers to a truth's questions out; and what a capture cannot show, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
Finding = tuple[str, Any, Any, str]
"""(what, expected, found, note), as ``truth.Finding``."""


class Seen:
    """The rows of a capture, sorted for questions."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        of = {name: [row for row in self.rows if row["table"] == name] for name in {r["table"] for r in self.rows}}
        self.messages: list[Row] = of.get("messages", [])
        self.records: list[Row] = of.get("records", [])
        self.exchanges: list[Row] = of.get("exchanges", [])
        self.connections: list[Row] = of.get("connections", [])
        self.foreign_ports = {r["client_port"] for r in self.connections if r["protocol"] == "http"}
        """Client ports whose connections are named, not decoded."""

    def produced(self, topic: str, server_port: int | None = None) -> list[Row]:
        """Records that nsqd took."""
        return [
            row
            for row in self.records
            if (row["direction"], row["topic"], row["ack"]) == ("produce", topic, "acked")
            and server_port in (None, int(row["server"].rpartition(":")[2]))
        ]

    def delivered(self, topic: str, channel: str) -> list[Row]:
        """Records that a channel was given."""
        return [r for r in self.records if (r["direction"], r["topic"], r["group"]) == ("deliver", topic, channel)]

    def commands(self, name: str, topics: tuple[str] | None, channel: str | None) -> int:
        """How many commands of a consumer there were; after a SUB that was not captured neither is known."""
        return sum((r["name"], r["topics"], r["group"]) == (name, topics, channel) for r in self.messages)

    def errors(self) -> Counter[str]:
        """Texts of error frames."""
        return Counter(error_text(row["body"]) for row in self.messages if row["name"] == "ERROR")

    def of_port(self, client_port: int) -> list[Row]:
        """Messages of the connection from this client port."""
        ids = {row["connection_id"] for row in self.connections if row["client_port"] == client_port}
        return [row for row in self.messages if row["connection_id"] in ids]


def is_delivery(row: Row) -> bool:
    """Whether a record was delivered."""
    return bool(row["direction"] == "deliver")


def error_text(body: Row) -> str:
    """An error as the client got it."""
    return f"{body['code']} {body['description']}" if body["description"] else str(body["code"])


class Loss:
    """What the truth says the capture cannot show; ``note`` explains a difference that this can have caused."""

    def __init__(self, truth: dict[str, Any], seen: Seen) -> None:
        variant = truth.get("variant", {})
        self.lost = variant.get("packets", []) if variant.get("kind") == "loss" else []
        self.cut = truth["snaplen"] < 262_144
        self.midstream = "middle of the connection" in truth.get("notes", "")
        self.dark = self.midstream and bool(
            {name for name in ("snappy", "deflate", "tls_v1") if truth.get("identify_reply", {}).get(name)}
        )
        self.encrypted = sum(row["tls_keys"] in ("missing", "wrong") for row in seen.connections)
        self.brokers = 1
        """To how many nsqd a consumer connects that the truth counts as one connection."""
        if truth.get("connections_note", "").startswith("consumers: one to each nsqd"):
            self.brokers = len(truth["nsqd_tcp_ports"])
        self.tls = self.encrypted > 0 and bool(truth.get("keylog") or "secrets block" in variant.get("kind", ""))

    def note(self, expected: int, found: int, size: int = 0) -> str:
        """Why ``found`` units of ``size`` bytes may be fewer than ``expected``; empty where nothing explains it."""
        if found >= expected:
            return ""
        if self.tls and not found:
            return "inside TLS, which is named and counted here, not decrypted"
        if self.dark:
            return "the compressed stream was joined in the middle: named undecoded"
        if self.cut:
            return "cut by the snap length"
        if self.lost:
            gone = sum(packet["tcp_payload"] for packet in self.lost)
            most = gone // size + 2 * len(self.lost) if size else gone
            return f"{len(self.lost)} packets ({gone} bytes) taken out" if expected - found <= most else ""
        return ""
