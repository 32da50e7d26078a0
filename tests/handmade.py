"""Items as the pipeline gives them, made by hand: the small world on which tables, sinks and answers are tested."""

from __future__ import annotations

from typing import Any

from mqsniff.model import (
    CaptureInfo,
    ConnectionInfo,
    Frame,
    Message,
    Pending,
    Problem,
    ProblemItem,
    RecordBatch,
    Side,
    packet_id,
)

START = 1_795_253_930_702_681_250
"""2026-11-21T09:38:50.702681250Z"""
MILLISECOND = 1_000_000


def captures() -> list[CaptureInfo]:
    return [CaptureInfo(0, "a.pcap"), CaptureInfo(1, "b.pcap")]


def connection(connection_id: str = "c1", client_port: int = 57938, **fields: Any) -> ConnectionInfo:
    info = ConnectionInfo(connection_id, "", "127.0.0.1", client_port, "127.0.0.1", 4150, START, packet_id(0, 1))
    info.protocol, info.outcome, info.detected_by = "nsq", "established", "content"
    info.last_ts_ns = START + 1500 * MILLISECOND
    for name, value in fields.items():
        setattr(info, name, value)
    return info


def frame(side: Side = Side.CLIENT, offset: int = 4, size: int = 50, *, at: int = 0, packet: int = 7) -> Frame:
    ts_ns = START + at
    return Frame(side, offset, size, b"", ts_ns, ts_ns + 1000, packet_id(0, packet), packet_id(1, packet + 1), packet)


def pub(**fields: Any) -> Message:
    made: dict[str, Any] = {"topics": ("retry",), "body": {"topic": "retry", "body": {"size": 40}}} | fields
    return Message(made.pop("frame", frame()), "nsq", "PUB", "request", **made)


def answer_to(question: Message, **fields: Any) -> tuple[Message, Pending]:
    """An answer 78 µs after the question, and what ties them together."""
    pending = Pending("pub", "answer", question.frame, message=question)
    reply = frame(Side.SERVER, 0, 10, at=79_000, packet=9)
    response = Message(reply, "nsq", "RESPONSE", "response", {"data": "OK"}, error_code=0, error_count=0, **fields)
    pending.answer = pending.last_answer = response
    response.resolved = response.answered = (pending,)
    response.answers = 1
    return response, pending


def batch(*records: tuple[bytes | None, bytes | None], **constant: Any) -> RecordBatch:
    """Records one after another: key, value, key, value, …"""
    data, spans = b"", ([], [], [], [])
    for record in records:
        for part, starts, stops in zip(record, spans[::2], spans[1::2], strict=True):
            starts.append(-1 if part is None else len(data))
            data += part or b""
            stops.append(len(data))
    return RecordBatch(data, len(records), constant, {}, (spans[0], spans[1]), (spans[2], spans[3]))


def noticed(kind: str = "out_of_range", severity: str = "info", **fields: Any) -> ProblemItem:
    problem = Problem(kind, severity, fields.pop("detail", "RDY count 9999 is over 2500"), fields.pop("path", "count"))
    made: dict[str, Any] = {"connection": connection(), "ts_ns": START, "packet": packet_id(0, 12)} | fields
    return ProblemItem(made["connection"], problem, made["ts_ns"], made["packet"], made.get("message"))
