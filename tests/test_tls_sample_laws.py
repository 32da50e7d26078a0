"""Samples of TLS with their keys: damaged, lossy, out of order; nothing raises, and every byte is accounted for."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import dpkt
import pytest
from click.testing import CliRunner
from watching import WantsAllSpans

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.cli import main
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import ClosedItem, MessageItem, ProblemItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource

PCAPS = Path(__file__).parents[1] / "pcaps"
SAMPLES = {path.name: path for path in captures_under([PCAPS]) if key_logs_beside(path)}
HEADERS = 54
"""Bytes before a payload that no damage touches: what they say of connections is tried elsewhere."""


def hurt(path: Path, made: Path, seed: int) -> Path:
    """A sample with some of its packets damaged, lost, doubled or swapped."""
    chance = random.Random(seed)
    with path.open("rb") as file:
        reader = dpkt.pcap.UniversalReader(file)
        packets, linktype = list(reader), reader.datalink()
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(3, len(packets) - 1)
        ts, data = packets[at]
        match chance.choice(("damage", "lose", "double", "swap")):
            case "damage" if len(data) > HEADERS + 20:
                place = chance.randrange(HEADERS + 12, len(data))
                packets[at] = ts, data[:place] + bytes((chance.randrange(256),)) + data[place + 1 :]
            case "lose":
                del packets[at]
            case "double":
                packets.insert(at, packets[at])
            case "swap":
                packets[at], packets[at + 1] = (ts, packets[at + 1][1]), (packets[at + 1][0], data)
    with made.open("wb") as file:
        writer = dpkt.pcap.Writer(file, linktype=linktype)
        for ts, data in packets:
            writer.writepkt(data, ts)
    return made


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SAMPLES)
def test_hurt_tls_never_raises_and_its_bytes_add_up(tmp_path, name, seed):
    made = hurt(SAMPLES[name], tmp_path / "hurt.pcap", seed)
    watcher = WantsAllSpans()
    keys = key_logs_beside(SAMPLES[name])
    pipeline = Pipeline(FileSource([str(made)]), Settings(wanted=WITH_RECORDS | {"spans"}), observer=watcher, keys=keys)
    items = [item for item in pipeline.items() if item is not None]
    assert not [item for item in items if isinstance(item, ProblemItem) and item.problem.kind == "internal"]
    closed = [item.connection for item in items if isinstance(item, ClosedItem)]
    there = sum(info.client_bytes + info.server_bytes - info.gap_bytes for info in closed)
    assert 0 <= sum(info.undecoded_bytes for info in closed) <= there
    for item in items:
        if isinstance(item, MessageItem) and item.connection.tls_keys == "used":
            places = watcher.places[item.connection.connection_id]
            records = places.records_of(item.message.frame)
            assert all(before.stop <= after.start for before, after in pairwise(records))


@pytest.mark.parametrize("options", [(), ("--decrypted",)])
@pytest.mark.parametrize("name", SAMPLES)
def test_extracts_of_hurt_tls_decode_alike(tmp_path, name, options):
    made = hurt(SAMPLES[name], tmp_path / "hurt.pcap", 77)
    keys = ["--tls-keys", str(SAMPLES[name].with_suffix(".keys"))]
    arguments = ["extract", str(made), *keys, "-w", str(tmp_path / "out.pcapng"), *options]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "decode differently" not in done.stderr
