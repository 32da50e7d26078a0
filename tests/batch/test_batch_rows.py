"""Row for row the tables of ``decode``, whatever the splits, partitions, files and order: tasks in this process."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from batchrows import (
    PCAPS,
    Place,
    Tables,
    committed,
    decoded,
    differing,
    never_falls,
    records_of,
    rotated,
    seconds_of,
    with_seconds,
)
from inprocess import InProcess

from mqsniff.batch.driver import run_job
from mqsniff.batch.inputs import is_capture
from mqsniff.batch.job import JobOptions
from mqsniff.filters.itemfilter import Filters
from mqsniff.model import NETWORK_KINDS, Side
from mqsniff.testing.conversations import STEP_NS, client, segments, write_pcap

SAMPLES = sorted(
    path.relative_to(PCAPS).as_posix() for path in PCAPS.rglob("*") if is_capture(path.name) and path.is_file()
)
MIXED = (
    "kafka/kafka-3.9.1-portreuse-rua.pcap",
    "kafka/kafka-4.4-sasl-scram-sha-256-librdkafka.pcap",
    "nsq/nsq-1.3.0-raw-errors.pcap",
    "nsq/nsq-1.3.0-var-reorder-deflate.pcap",
    "rocketmq/rocketmq-5.5.0-b-bserrocket-pop-raw.pcap",
)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """All samples as one capture."""
    tables = decoded(PCAPS, SAMPLES, tmp_path_factory.mktemp("decode"))
    assert all(tables.values())
    return tables


@pytest.mark.parametrize(("partitions", "split_size"), [(1, 1 << 27), (2, 1 << 14), (7, 3000)])
def test_all_samples_together_give_the_rows_of_one_process(
    one_process: Tables, tmp_path: Path, partitions: int, split_size: int
) -> None:
    tasks = InProcess()
    report = run_job(tasks, [str(PCAPS)], str(tmp_path), JobOptions(partitions=partitions, split_size=split_size))
    assert differing(one_process, committed(tmp_path)) == {}
    assert report.tables["messages"] == len(one_process["messages"])
    assert report.messages.total() == len(one_process["messages"])
    assert tasks.stale or partitions == 1  # names were taught to one task that another needs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some samples in one folder."""
    found = tmp_path / "captures"
    found.mkdir()
    for name in MIXED:
        shutil.copy(PCAPS / name, found)
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_rotated_files_give_the_rows_of_the_file_that_they_were(folder: Path, tmp_path: Path) -> None:
    whole = [path for path in sorted(folder.iterdir()) if never_falls(path)]
    assert len(whole) >= 3
    expected = decoded(folder, [path.name for path in whole], tmp_path / "decode")
    pieces = tmp_path / "rotated"
    pieces.mkdir()
    maps = [rotated(path, pieces, 6) for path in whole]
    run_job(InProcess(), [str(pieces)], str(tmp_path / "out"), JobOptions(partitions=2))
    assert differing(expected, committed(tmp_path / "out", through(maps))) == {}


def through(maps: list[Callable[[Place], Place]]) -> Callable[[Place], Place]:
    def original(place: Place) -> Place:
        return next((mapped for one in maps if (mapped := one(place)) != place), place)

    return original


def test_the_order_of_inputs_changes_nothing(folder: Path, tmp_path: Path) -> None:
    expected = decoded(folder, names_in(folder), tmp_path / "decode")
    inputs = [str(path) for path in folder.iterdir()]
    random.Random(7).shuffle(inputs)
    run_job(InProcess(), [*inputs, inputs[0]], str(tmp_path / "out"), JobOptions(partitions=2))
    assert differing(expected, committed(tmp_path / "out")) == {}


def test_compressed_files_are_those_that_were_compressed(folder: Path, tmp_path: Path) -> None:
    expected = decoded(folder, names_in(folder), tmp_path / "decode")
    packed = tmp_path / "packed"
    packed.mkdir()
    for index, path in enumerate(sorted(folder.iterdir())):
        data = path.read_bytes()
        if index % 2:
            (packed / f"{path.name}.gz").write_bytes(gzip.compress(data))
        else:
            (packed / f"{path.name}.zst").write_bytes(zstandard.compress(data))
    run_job(InProcess(), [str(packed)], str(tmp_path / "out"), JobOptions(partitions=2, split_size=3000))
    plain = committed(tmp_path / "out", lambda place: (place[0].rpartition(".")[0], place[1]))
    assert differing(expected, plain) == {}


@pytest.mark.parametrize("split_size", [2000, 1 << 20])
def test_clocks_that_step_back_and_forth_change_nothing(folder: Path, tmp_path: Path, split_size: int) -> None:
    for path in folder.iterdir():
        data = path.read_bytes()
        head, records = records_of(data)
        quarter = len(records) // 4
        shifted = [
            with_seconds(data, record, seconds_of(data, record) + (0, 40, -20, 5)[min(index // max(quarter, 1), 3)])
            for index, record in enumerate(records)
        ]
        path.write_bytes(head + b"".join(shifted))
    expected = decoded(folder, names_in(folder), tmp_path / "decode")
    run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions(partitions=3, split_size=split_size))
    assert differing(expected, committed(tmp_path / "out")) == {}


def test_what_the_network_did_has_the_same_rows(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    packets = segments([client(b"  V2"), *(client(b"NOP\n") for _ in range(20))], fin=Side.SERVER)
    again = [replace(packets[5], ts_ns=packets[-4].ts_ns + index * STEP_NS) for index in range(40)]
    shut = replace(packets[2], side=Side.SERVER, seq=packets[1].seq + 1, ack=packets[9].ack, window=0)
    middle = [replace(shut, ts_ns=again[-1].ts_ns + 1), replace(shut, window=9, ts_ns=again[-1].ts_ns + 50 * STEP_NS)]
    late = [replace(packet, ts_ns=packet.ts_ns + 200 * STEP_NS) for packet in packets[-3:]]
    write_pcap(folder / "a.pcap", [*packets[:8], packets[9], packets[8], *packets[10:-3], *again, *middle, *late])
    expected = decoded(folder, ["a.pcap"], tmp_path / "decode")
    run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions(partitions=2, split_size=1024))
    assert differing(expected, committed(tmp_path / "out")) == {}
    (row,) = expected["connections"]
    assert "'closed_by': 'server'" in row
    assert "'server_zero_windows': 1" in row
    text = "".join(expected["problems"])
    assert all(f"'kind': '{kind}'" in text for kind in NETWORK_KINDS)
    assert " more: 16 are told one by one" in text


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize(
    "filters", [Filters(topics=("[a-m]*",)), Filters(topics=("*",), names=("Fetch",)), Filters(names=("Fetch",))]
)
def test_topics_are_chosen_by_the_names_that_any_connection_taught_before(
    tmp_path: Path, partitions: int, filters: Filters
) -> None:
    samples = [name for name in SAMPLES if name.startswith("kafka/")]
    expected = decoded(PCAPS, samples, tmp_path / "decode", filters=filters)
    assert expected["messages"]
    inputs = [str(PCAPS / name) for name in samples]
    tasks = InProcess()
    run_job(tasks, inputs, str(tmp_path / "out"), JobOptions(partitions=partitions, filters=filters))
    found = committed(tmp_path / "out", lambda place: (f"kafka/{Path(place[0]).name}", place[1]))
    assert differing(expected, found) == {}


def test_a_clock_that_runs_ahead_for_others_changes_nothing(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    one = segments([client(b"  V2"), *(client(b"NOP\n") for _ in range(4))])
    other = [packet for _ in range(40) for packet in segments([client(b"  V2"), client(b"NOP\n")], fin=None)]
    ahead = [replace(packet, ts_ns=one[5].ts_ns + 7200 * 10**9 + index) for index, packet in enumerate(other)]
    write_pcap(tmp_path / "one.pcap", one)
    write_pcap(tmp_path / "other.pcap", ahead, ports=(40_001, 4150))
    head, records = records_of((tmp_path / "one.pcap").read_bytes())
    between = records_of((tmp_path / "other.pcap").read_bytes())[1]
    (captures / "a.pcap").write_bytes(head + b"".join([*records[:6], *between, *records[6:]]))
    expected = decoded(captures, ["a.pcap"], tmp_path / "decode")
    run_job(InProcess(), [str(captures)], str(tmp_path / "out"), JobOptions(partitions=2))
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert len(expected["connections"]) == 2
