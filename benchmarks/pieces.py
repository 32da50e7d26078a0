"""Pulsar and RocketMQ, piece by piece and as users decode them: ``python benchmarks/run.py pulsar`` and ``rocketmq``.

1. One by one: commands, metadata and messages of Pulsar's batches by the fast path and by the slow one; headers of
   RocketMQ in both serialisations and messages as a broker stores them. The best of seven passes.
2. ``mqsniff decode`` over captures of sends and deliveries (``pulsartraffic.py``, ``rocketmqtraffic.py``): whole
   processes, the best of three.
"""

from __future__ import annotations

from measuring import PASSES, best, made, microseconds, show
from nsqruns import forms
from pulsartraffic import batch, encoded
from rocketmqtraffic import PULL, SEND, binary_frame, json_frame, properties, pull_fields, send_fields, stored

from mqsniff.limits import Limits
from mqsniff.spec.protowire import interpret
from mqsniff_pulsar.batches import _read_single, _read_slowly
from mqsniff_pulsar.messages import message_type
from mqsniff_rocketmq.extfields import read_ext
from mqsniff_rocketmq.headers import read_header
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.stored import read_stored
from mqsniff_rocketmq.tables import tables

NUMBER = 10_000
MESSAGES = 32
LIMITS = Limits()


def decode(protocol: str, scale: int) -> None:
    """Whole runs over a capture of a protocol."""
    capture = made(f"{protocol}traffic.py", f"{protocol}-{6 * scale}", 6 * scale)
    rows = []
    for form, command in forms(capture).items():
        used = best(*command, passes=PASSES)
        speeds = [f"{capture.messages / used.cpu_s:,.0f}", f"{capture.mb / used.cpu_s:.1f}"]
        rows.append([form, f"{used.cpu_s:.2f}", f"{used.wall_s:.2f}", f"{used.peak_mb:.0f}", *speeds])
    columns = ["output", "CPU s", "wall s", "peak MB", "messages/CPU s", "MB/CPU s"]
    show(f"{protocol}, decode of {capture.mb:.0f} MB", columns, rows)


def pulsar(scale: int) -> None:
    """Messages of protobuf by both paths, and whole runs."""
    told = {
        "CommandSend": {"producer_id": 1, "sequence_id": 1000, "num_messages": 50},
        "CommandMessage": {"consumer_id": 1, "message_id": {"ledger_id": 7, "entry_id": 9, "partition": -1}},
        "MessageMetadata": {"producer_name": "p", "sequence_id": 9, "publish_time": 1 << 40, "uncompressed_size": 500},
    }
    rows = []
    for name, fields in told.items():
        data, shape = encoded(name, **fields), message_type(name)
        fast, slow = (lambda: shape.decode(data)), (lambda: interpret(shape, data))  # noqa: B023  # called at once
        rows.append([name, str(len(data)), microseconds(fast, NUMBER), microseconds(slow, NUMBER)])
    slot = batch((b"", {"partition_key": "key-1", "properties": [{"key": "a", "value": "b"}], "sequence_id": 77}))
    stop = len(slot)
    fast, slow = (lambda: _read_single(slot, 4, stop)), (lambda: _read_slowly(slot, 4, stop, LIMITS))
    rows.append(["SingleMessageMetadata", str(stop - 4), microseconds(fast, NUMBER), microseconds(slow, NUMBER)])
    show("pulsar, one message, microseconds of CPU", ["message", "bytes", "fast", "slow"], rows)
    decode("pulsar", scale)


def rocketmq(scale: int) -> None:
    """Headers with their fields typed, messages with their properties, and whole runs."""
    rows = []
    for code, fields in ((SEND, send_fields()), (PULL, pull_fields())):
        for kind, frame in (("JSON", json_frame), ("ROCKETMQ", binary_frame)):
            data = frame(code, 7, fields)
            request = tables().requests[code]

            def header(data: bytes = data) -> object:
                return read_header(data, ProblemNotes(LIMITS))

            def typed(data: bytes = data, part: object = request.request.header) -> object:
                notes = ProblemNotes(LIMITS)
                return read_ext(read_header(data, notes)[0].ext, part, notes)

            figures = microseconds(header, NUMBER), microseconds(typed, NUMBER)
            rows.append([f"{request.name}, {kind}", str(len(data)), *figures])
    one = stored(b"x" * 500, properties(KEYS="k", UNIQ_KEY="u" * 32, WAIT="true", TAGS="created"))
    body = one * MESSAGES
    plain = microseconds(lambda: read_stored(body, ProblemNotes(LIMITS), ""), NUMBER, MESSAGES)
    rows.append(["stored message", str(len(one)), plain, ""])
    show("rocketmq, one piece, microseconds of CPU", ["piece", "bytes", "header", "with typed fields"], rows)
    decode("rocketmq", scale)
