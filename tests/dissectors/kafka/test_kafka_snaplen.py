"""Captures that kept the beginning of each packet only: who speaks, what was asked and answered is still told."""

from __future__ import annotations

import io
import struct
from collections import Counter
from pathlib import Path

import dpkt
import pytest

from mqsniff.dissector import Settings
from mqsniff.model import MessageItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

SAMPLES = Path(__file__).parents[3] / "pcaps" / "kafka"
HEADERS = 14 + 20 + 32
"""Ethernet, IPv4, TCP with time stamps."""


def messages(path: Path) -> Counter[tuple[object, ...]]:
    run = Pipeline(FileSource([str(path)]), Settings())
    return Counter(
        (item.connection.client, item.message.name, item.message.kind, item.message.correlation, item.message.version)
        for item in run.items()
        if isinstance(item, MessageItem)
    )


def cut(path: Path, payload: int, folder: Path) -> Path:
    """The same capture with so many bytes of payload at most."""
    snaplen, out = HEADERS + payload, io.BytesIO()
    with path.open("rb") as file:
        reader = dpkt.pcap.Reader(file)
        out.write(struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snaplen, reader.datalink()))
        for ts, packet in reader:
            seconds, micros = divmod(round(ts * 1_000_000), 1_000_000)
            kept = packet[:snaplen]
            out.write(struct.pack(">IIII", seconds, micros, len(kept), len(packet)) + kept)
    cut_path = folder / path.name
    cut_path.write_bytes(out.getvalue())
    return cut_path


@pytest.mark.parametrize("payload", [64, 134, 400])
@pytest.mark.parametrize(
    "name",
    [
        "kafka-0.10.2.2-mixed-magic-mix.c",
        "kafka-3.9.1-franz-go-max-0.8.0-codecs-fz39080s",
        "kafka-4.4-sasl-oauthbearer-librdkafka",
        "kafka-4.4-sasl-scram-sha-256-librdkafka",
        "kafka-4.4.0-midstream-java-4.4.0-mje",
    ],
)
def test_every_message_is_there_whose_header_was_captured(name: str, payload: int, tmp_path: Path) -> None:
    path = SAMPLES / f"{name}.pcap"
    whole, found = messages(path), messages(cut(path, payload, tmp_path))
    assert whole
    assert found == whole
