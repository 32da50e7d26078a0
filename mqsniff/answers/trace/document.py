"""Finished traces in, one JSON document out: times, names and values as in NDJSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mqsniff.answers.trace.steps import Trace, TraceStep
from mqsniff.model import packet_capture, packet_number
from mqsniff.tables.rows import Captures
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction, base64

_PAYLOADS = ("key", "value")
_LEFT_OUT = (
    "headers",
    "decoded",
    "ordering_key",
    "ts",
    "ts_ns",
    "capture",
    "packet",
    "side",
    "stream_offset",
    "beyond_int64",
)
_TIMES = ("record_ts", "deliver_at_ts", "store_ts", "event_ts", "publish_ts")


def document(traces: Iterable[Trace], captures: Captures, shown: Redaction, *, found: int, more: bool) -> bytes:
    """The document: ``found`` and ``traces``, each with what it is about, steps, waits and what was not seen."""
    body = {"found": found, "found_more": more, "traces": [_trace(trace, captures) for trace in traces]}
    return shown.json(body) + b"\n"


def _trace(trace: Trace, captures: Captures) -> dict[str, Any]:
    return {
        "kind": trace.kind,
        "about": _about(trace.about),
        "steps": [_step(step, captures) for step in trace.steps],
        "steps_left_out": trace.left_out,
        "waits": [
            {"what": wait.what, "wait_ns": wait.ns, "from_step": wait.start, "to_step": wait.stop}
            for wait in trace.waits
        ],
        "total_ns": trace.total_ns,
        "not_seen": trace.unseen,
    }


def _about(row: dict[str, Any]) -> dict[str, Any]:
    """What is traced; keys and values as text, in base64 where their encoding says so."""
    about: dict[str, Any] = {}
    for name, value in row.items():
        if value is None or name in _LEFT_OUT:
            continue
        if name in _PAYLOADS:
            about[name] = base64(value) if row[f"{name}_encoding"] == "base64" else value.decode()
        else:
            about[name] = rfc3339(value) if name in _TIMES else value
    return about


def _step(step: TraceStep, captures: Captures) -> dict[str, Any]:
    connection = step.connection
    told = {
        "ts": rfc3339(step.ts_ns),
        "ts_ns": step.ts_ns,
        "wait_ns": step.wait_ns,
        "kind": step.kind,
        "what": step.what,
        "error": step.error,
        "name": step.name,
        "capture": None if step.packet is None else captures[packet_capture(step.packet)].name,
        "packet": None if step.packet is None else packet_number(step.packet),
        "connection_id": None if connection is None else connection.connection_id,
        "client": None if connection is None else connection.client,
        "server": None if connection is None else connection.server,
        "client_id": step.client_id,
        "group": step.group,
        "topic": step.topic,
        "member": step.member,
        "generation": step.generation,
        "details": dict(step.details) or None,
    }
    return {name: value for name, value in told.items() if value is not None}
