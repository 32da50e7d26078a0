"""TLS 1.3 with its keys, beside tshark with the same keys, and beside the same traffic in plain: ``run.py tls``.

1. Kafka, which both decode: batches of records in five codecs, 16 KiB a record of TLS, AES-256-GCM, one segment in a
   hundred lost and sent again. NSQ, which tshark does not know: records of a few bytes to six KiB.
2. tshark writes the data that it decrypted, or the fields of messages.
"""

from __future__ import annotations

from kafkaruns import PRESENT, SEED, SIZES, fields, tshark
from measuring import COMPARED, MQSNIFF, Capture, compared, has_tshark, made, show

DECODE = [*MQSNIFF, "decode", "-o", "ndjson"]
OPENED = ["-T", "fields", "-e", "tls.app_data"]


def theirs(capture: Capture, port: int, task: list[str]) -> list[str]:
    """A capture to tshark, with its keys."""
    keys = str(capture.path.with_suffix(".keys"))
    return tshark(capture, "-d", f"tcp.port=={port},tls", "-o", f"tls.keylog_file:{keys}", *task)


def ours(capture: Capture, *options: str) -> list[str]:
    """A capture to decode, with its keys."""
    return [*DECODE, "--tls-keys", str(capture.path.with_suffix(".keys")), str(capture.path), *options]


def tls(scale: int) -> None:
    """Both captures, sealed and plain."""
    mb, records = SIZES[scale]
    sealed = made("kafkatraffic.py", f"kafka-tls-{mb}-{records}", mb, records, SEED, "--tls", mode="records")
    plain = made("kafkatraffic.py", f"kafka-records-{mb}mb-{records}-seed{SEED}", mb, records, SEED, mode="records")
    kafka = ["-d", "tls.port==9092,kafka", *fields(PRESENT)]
    measure("Kafka", sealed, plain, {"data": OPENED, "messages": kafka}, 9092)
    sealed = made("nsqtraffic.py", f"nsq-tls-{scale}", 0, "--generations", scale, "--tls")
    plain = made("nsqtraffic.py", f"nsq-plain-{scale}", 0, "--generations", scale)
    measure("NSQ", sealed, plain, {"data": OPENED}, 4150)


def measure(title: str, sealed: Capture, plain: Capture, tasks: dict[str, list[str]], port: int) -> None:
    """One run of each command."""
    there = tasks if has_tshark() else {}
    others = {f"tshark, {name}": theirs(sealed, port, task) for name, task in there.items()}
    mine = {
        "messages": ours(sealed, "--table", "messages"),
        "connections": ours(sealed, "--table", "connections"),
        "connections, no keys": [*DECODE, str(sealed.path), "--table", "connections"],
    }
    rows = compared(sealed, others, mine, 1)
    rows += compared(plain, {}, {"messages, the same in plain": [*DECODE, str(plain.path), "--table", "messages"]}, 1)
    show(f"{title} in TLS 1.3 ({sealed.mb:.0f} MB, {sealed.messages:,} messages)", COMPARED, rows)
