"""Kafka against tshark over the same captures in one run: ``python benchmarks/run.py kafka-messages`` and its siblings.

1. ``kafka-messages``: 200,000 small requests and their answers as rows of ``messages``, against the fields of tshark
   that tell as much of a message, and against its JSON, which holds the whole body as ours does.
2. ``kafka-records``: at least 100 MB and 500,000 rows of records in five codecs; NDJSON of all messages, and of all
   records, against tshark's JSON, in which both stand. Then the same by codec, a tenth as large.
3. ``kafka-parquet``: all tables with keys and values against the fields offset, key and value of tshark.
4. ``kafka-even``: 800,000 records of 100 bytes in batches of 100 (K). ``kafka-single``: 200,000 messages with 100,000
   batches of one record (S), NDJSON and text.
5. tshark puts segments that were lost and sent again in order only when it is told to; without that it would leave out
   what follows them.
"""

from __future__ import annotations

import subprocess

from kafkarecords import CODECS
from measuring import COMPARED, MQSNIFF, OUTPUT, Capture, builds, compared, has_tshark, made, show

SEED = 7
PRESENT = (
    *("frame.number", "frame.time_epoch", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.stream"),
    *("kafka.len", "kafka.request_key", "kafka.response_key", "kafka.api_version", "kafka.correlation_id"),
    *("kafka.client_id", "kafka.error", "kafka.topic_name", "kafka.partition_id", "kafka.offset"),
    *("kafka.consumer_group", "kafka.generation_id", "kafka.member_id", "kafka.throttle_time"),
    *("kafka.required_acks", "kafka.timeout", "kafka.request_frame", "kafka.response_frame"),
)
"""What a row of ``messages`` tells, as fields of tshark."""
RECORD_FIELDS = ("kafka.offset", "kafka.message_key", "kafka.message_value")
SIZES = {1: (10, 50_000), 10: (100, 500_000), 100: (1000, 2_200_000)}
"""Scale -> MB and rows of records that the large capture has at least."""


def tshark(capture: Capture, *arguments: str) -> list[str]:
    """A capture to tshark."""
    return ["tshark", "-n", "-r", str(capture.path), "-o", "tcp.reassemble_out_of_order:TRUE", *arguments]


def fields(names: tuple[str, ...]) -> list[str]:
    """Options that make tshark write these fields."""
    return ["-T", "fields", *(word for name in names for word in ("-e", name))]


def ndjson(capture: Capture, table: str) -> list[str]:
    """Rows of a table as NDJSON, by one process: its CPU seconds are compared."""
    return [*MQSNIFF, "decode", str(capture.path), "--jobs", "1", "-o", "ndjson", "--table", table]


def record_capture(scale: int, codec: str = "") -> Capture:
    """The large capture, or one of a single codec and a tenth of its size."""
    mb, records = SIZES[scale]
    if not codec:
        name = f"kafka-records-{mb}mb-{records}-seed{SEED}"
        return made("kafkatraffic.py", name, mb, records, SEED, mode="records")
    name = f"kafka-records-{codec}-{records // 10}-seed{SEED}"
    return made("kafkatraffic.py", name, 0, records // 10, SEED, codec, mode="records")


def messages(scale: int) -> None:
    """Many small messages."""
    requests = 20_000 * scale
    name = f"kafka-small-acknowledged-{requests}-seed{SEED}"
    capture = made("kafkatraffic.py", name, requests, SEED, mode="small")
    theirs = {
        f"tshark -T fields, {len(PRESENT)} fields": tshark(capture, *fields(PRESENT)),
        "tshark -T json": tshark(capture, "-T", "json"),
    }
    ours = builds("NDJSON of messages", ndjson(capture, "messages"))
    title = f"{capture.messages:,} small messages; times faster than tshark's fields, than its JSON"
    show(title, COMPARED, compared(capture, theirs if has_tshark() else {}, ours, 1))


def records(scale: int) -> None:
    """Records in batches."""
    for capture in (record_capture(scale), *(record_capture(scale, codec) for codec in CODECS)):
        theirs = {"tshark -T json": tshark(capture, "-T", "json")} if has_tshark() else {}
        ours: dict[str, list[str]] = {}
        for table in ("messages", "records"):
            ours |= builds(f"NDJSON of {table}", ndjson(capture, table))
        title = f"messages and records; {capture.mb:.0f} MB with {capture.records:,} rows of records"
        show(title, COMPARED, compared(capture, theirs, ours, 1))


def even(scale: int) -> None:
    """Records of one size in batches of one size."""
    requests = 800 * scale
    capture = made("kafkatraffic.py", f"kafka-even-{requests}-seed{SEED}", requests, SEED, mode="even")
    theirs = {"tshark -T json": tshark(capture, "-T", "json")} if has_tshark() else {}
    ours = builds("NDJSON of records", ndjson(capture, "records"))
    show(f"{capture.records:,} records of 100 bytes, 100 in a batch", COMPARED, compared(capture, theirs, ours, 3))


def single(scale: int) -> None:
    """Messages with batches of one record."""
    requests = 10_000 * scale
    capture = made("kafkatraffic.py", f"kafka-single-{requests}-seed{SEED}", requests, SEED, mode="single")
    theirs = {
        "tshark -T json": tshark(capture, "-T", "json"),
        "tshark -T fields: offset, key, value": tshark(capture, *fields(RECORD_FIELDS)),
    }
    ours = builds("NDJSON of messages", ndjson(capture, "messages"))
    ours |= builds("text", [*MQSNIFF, "decode", str(capture.path), "-o", "text"])
    title = f"{capture.messages:,} messages, {capture.records:,} batches of one record; than JSON, than fields"
    show(title, COMPARED, compared(capture, theirs if has_tshark() else {}, ours, 3))


def parquet(scale: int) -> None:
    """All tables."""
    capture = record_capture(scale)
    if "parquet" not in help_of("decode"):
        print("\nParquet is not there yet: no comparison")
        return
    theirs = {"tshark -T fields: offset, key, value": tshark(capture, *fields(RECORD_FIELDS))} if has_tshark() else {}
    command = [*MQSNIFF, "decode", str(capture.path), "--jobs", "1", "-o", "parquet", "--out", str(OUTPUT)]
    ours = builds("Parquet of all tables", command)
    title = f"Parquet; {capture.mb:.0f} MB with {capture.records:,} rows of records"
    show(title, COMPARED, compared(capture, theirs, ours, 3))


def help_of(command: str) -> str:
    """What a command says of itself."""
    return subprocess.run([*MQSNIFF, command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
