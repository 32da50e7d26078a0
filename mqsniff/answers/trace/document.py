"""Finished traces in, one JSON document out: times, names and values as in NDJSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mqsniff.answers.trace.steps import Trace, TraceStep
from mqsniff.model import packet_capture, packet_number
from mqsniff.tables.rows import Captures
from mqsniff.tables.times import rfc3339
from mqsniff.tables.values import Redaction, base64

_PAYLOADS: Final = ("key", "value")
_LEFT_OUT: Final = (
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
TRACE_KEYS: Final = ("kind", "about", "steps", "steps_left_out", "waits", "total_ns", "not_seen")
STEP_KEYS: Final = (
    *("ts", "ts_ns", "wait_ns", "kind", "what", "error", "name", "capture", "packet"),
    *("connection_id", "client", "server", "client_id", "group", "topic", "member", "generation", "details"),
)
_TIMES: Final = ("record_ts", "deliver_at_ts", "store_ts", "event_ts", "publish_ts")


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
    told: dict[str, Any] = {name: getattr(step, name, None) for name in STEP_KEYS}
    told |= {"ts": rfc3339(step.ts_ns), "details": dict(step.details) or None}
    if step.packet is not None:
        told |= {"capture": captures[packet_capture(step.packet)].name, "packet": packet_number(step.packet)}
    if connection is not None:
        told |= {name: getattr(connection, name) for name in ("connection_id", "client", "server")}
    return {name: value for name, value in told.items() if value is not None}
