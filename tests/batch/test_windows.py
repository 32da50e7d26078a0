"""Runs that carry open connections from one to the next: their rows are those of one run, whatever comes between."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kafkacraft as kafka
import pyarrow.parquet as pq
import pytest
from batchrows import PCAPS, Tables, committed, decoded, differing, records_of, rotated
from hypothesis import given, settings
from hypothesis import strategies as st
from inprocess import InProcess
from kafkacraft import LATE, TOPIC_ID
from tinycapture import conversation, pcap

from mqsniff.answers.folders import table_files
from mqsniff.batch import handover
from mqsniff.batch.carried import CARRIED, CarriedError
from mqsniff.batch.commit import Archive, CommitError
from mqsniff.batch.driver import run_job
from mqsniff.batch.flowitems import FlowDecoder
from mqsniff.batch.flowpickles import KnownFlow, Pickles
from mqsniff.batch.job import JobOptions, JobReport
from mqsniff.batch.manifest import Manifest
from mqsniff.batch.store import Store
from mqsniff.decode.conversation import RunContext
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import Settings
from mqsniff.filters.itemfilter import Filters
from mqsniff.limits import Limits
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.schemas import TABLES
from mqsniff.tls.keylog import KeyLog

SAMPLES = (
    "kafka/kafka-3.9.1-portreuse-rua",
    "pulsar/pulsar-4.2.4-go-tls13-a",
    "rocketmq/rocketmq-5.5.0-b-bserrocket-pop-raw",
    "nsq/nsq-1.3.0-rust-snappy",
    "nsq/nsq-1.3.0-nsqjs-deflate",
    "kafka/kafka-4.4-tls-unknown-ca",
)
NSQ = PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap"
KEY = HashKey(b"a key of a test, 32 bytes long ..")
NANOSECOND, SECOND = 1, 10**9


def job(files: Sequence[Path], out: Path, **options: Any) -> JobReport:
    return run_job(InProcess(), map(str, files), str(out), JobOptions(hash_key=KEY, partitions=2, **options))


def one_by_one(files: Sequence[Path], out: Path, **options: Any) -> list[JobReport]:
    return [job(files[: number + 1], out, append=True, **options) for number in range(len(files))]


def rows_of_one_run(files: Sequence[Path], out: Path, **options: Any) -> Tables:
    job(files, out, **options)
    return committed(out, hashes=True)


def archive(out: Path) -> Archive:
    return Archive(Store.at(str(out)))


def cut(capture: Path, folder: Path, edges: Sequence[int]) -> list[Path]:
    """The capture as files that begin at some packets."""
    folder.mkdir()
    head, records = records_of(capture.read_bytes())
    files = []
    for number, (first, stop) in enumerate(pairwise([0, *edges, len(records)])):
        files.append(folder / f"part-{number:02d}.pcap")
        files[-1].write_bytes(head + b"".join(records[first:stop]))
    return files


def coarse(capture: Path, folder: Path) -> Path:
    """The capture with times of whole tens of milliseconds, so that many packets have the same."""
    head, records = records_of(capture.read_bytes())
    order = "<" if head[0] in b"\xd4\x4d" else ">"
    made = folder / capture.name
    rounded = []
    for record in records:
        seconds, fraction = struct.unpack_from(f"{order}II", record)
        rounded.append(struct.pack(f"{order}II", seconds, fraction // 10_000 * 10_000) + record[8:])
    made.write_bytes(head + b"".join(rounded))
    return made


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "captures").mkdir()
    rotated(NSQ, tmp_path / "captures", 4)
    return sorted((tmp_path / "captures").iterdir())


# ---- the same rows


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=6)
@given(st.data())
def test_runs_over_any_parts_of_a_capture_give_the_rows_of_one(name: str, data: st.DataObject) -> None:
    sample = PCAPS / f"{name}.pcap"
    keys = sample.with_suffix(".keys")
    given_keys: dict[str, Any] = {"tls_keys": (KeyLog(str(keys)),)} if keys.exists() else {}
    packets = len(records_of(sample.read_bytes())[1])
    edges = sorted(data.draw(st.sets(st.integers(1, packets - 1), min_size=1, max_size=4)))
    window_ns = data.draw(st.sampled_from((NANOSECOND, SECOND // 100, SECOND)))
    with TemporaryDirectory() as place:
        folder = Path(place)
        source = coarse(sample, folder) if data.draw(st.booleans()) else sample
        parts = cut(source, folder / "parts", edges)
        expected = rows_of_one_run(parts, folder / "one", **given_keys)
        one_by_one(parts, folder / "append", **given_keys)
        assert not differing(expected, committed(folder / "append", hashes=True))
        assert not differing(expected, rows_of_one_run(parts, folder / "windows", window_ns=window_ns, **given_keys))


@pytest.mark.parametrize(
    "filters",
    [Filters(topics=("req*",)), Filters(names=("FIN", "PUB")), Filters(keys=(b"no",)), Filters(slower_ns=10**6)],
    ids=["topics", "names", "keys", "slow"],
)
def test_filters_go_on_too(files: list[Path], tmp_path: Path, filters: Filters) -> None:
    expected = rows_of_one_run(files, tmp_path / "one", filters=filters)
    one_by_one(files, tmp_path / "append", filters=filters)
    assert not differing(expected, committed(tmp_path / "append", hashes=True))


@pytest.mark.parametrize("filters", [Filters(), Filters(topics=("orders",))], ids=["all", "of a topic"])
def test_topic_names_that_a_later_run_learns_are_filled_into_rows_of_earlier_ones(
    tmp_path: Path, filters: Filters
) -> None:
    dialogues = (kafka.fetches_by_id(LATE, TOPIC_ID), kafka.metadata("orders", TOPIC_ID), kafka.metadata("bills", LATE))
    spoken = [list(conversation(says, client=40_000 + at, server=9092)) for at, says in enumerate(dialogues)]
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(pcap(packet for packets in spoken for packet in packets))
    lengths = [len(packets) for packets in spoken]
    parts = cut(whole, tmp_path / "parts", [lengths[0], lengths[0] + lengths[1]])
    expected = rows_of_one_run(parts, tmp_path / "one", filters=filters)
    one_by_one(parts, tmp_path / "append", filters=filters)
    assert not differing(expected, committed(tmp_path / "append", hashes=True))
    assert any("'orders', 'bills'" in row or "'bills', 'orders'" in row for row in expected["messages"]) != bool(
        filters
    )


def test_readers_of_the_folder_see_each_row_once(files: list[Path], tmp_path: Path) -> None:
    one_by_one(files, tmp_path / "out")
    seen = table_files(tmp_path / "out")
    counted = {name: sum(pq.ParquetFile(path).metadata.num_rows for path in seen[name]) for name in TABLES}
    assert counted == {name: len(rows) for name, rows in committed(tmp_path / "out").items()}
    expected = decoded(tmp_path / "captures", [file.name for file in files], tmp_path / "decode")
    assert counted == {name: len(rows) for name, rows in expected.items()}


# ---- what is handed on


def test_a_run_says_what_it_hands_on_and_the_next_one_takes_it_away(files: list[Path], tmp_path: Path) -> None:
    reports = one_by_one(files[:2], tmp_path / "out")
    assert reports[0].carried > 0
    assert "can go on in the next run with --append" in "\n".join(reports[0].lines())
    first, second = archive(tmp_path / "out").runs()
    assert {part.path for part in first.carried} & {part.path for part in second.carried} == set()
    there = {path.name for path in (tmp_path / "out" / CARRIED).iterdir()}
    assert there == {Path(part.path).name for part in second.carried}


def test_a_run_without_append_hands_on_nothing(files: list[Path], tmp_path: Path) -> None:
    assert job(files, tmp_path / "out").carried == 0
    assert not (tmp_path / "out" / CARRIED).exists()


def test_a_connection_that_is_over_is_not_handed_on(tmp_path: Path) -> None:
    """An hour of silence ends one: its packets after that are those of another."""
    head, records = records_of(NSQ.read_bytes())
    order = "<" if head[0] in b"\xd4\x4d" else ">"
    [seconds] = struct.unpack_from(f"{order}I", records[-1])
    far = struct.pack(f"{order}I", seconds + 3 * 3600) + records[-1][4:]
    place = tmp_path / "x.pcap"
    place.write_bytes(head + b"".join(records[: len(records) // 2]) + far)
    [connection] = [row for row in rows_of_one_run([place], tmp_path / "one")["connections"] if "mid-stream" in row]
    report = job([place], tmp_path / "out", append=True)
    assert connection
    assert report.carried == 1


@pytest.mark.parametrize("change", ["options", "versions", "gone", "without"])
def test_where_a_run_cannot_go_on_from_the_one_before_it_begins_anew_and_says_why(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    out = tmp_path / "out"
    job(files[:2], out, append=change != "without")
    if change == "gone":
        shutil.rmtree(out / CARRIED)
    if change == "versions":
        monkeypatch.setattr(handover, "difference", lambda *_: "mqsniff 0.0, and 1.0 here")
    report = job(files, out, append=True, body=change != "options")
    why = {"options": "other options", "versions": "mqsniff 0.0", "gone": "is gone", "without": "without --append"}
    assert why[change] in report.anew
    assert f"do not go on here: {report.anew}" in "\n".join(report.lines())
    rows = committed(out)["connections"]
    assert len(rows) > len(rows_of_one_run(files, tmp_path / "one")["connections"])
    assert len(rows) == len(set(rows))


def test_captures_from_before_the_last_run_are_read_after_it_and_counted(files: list[Path], tmp_path: Path) -> None:
    job(files[2:], tmp_path / "out", append=True)
    report = job(files, tmp_path / "out", append=True)
    assert report.late == 2
    assert "2 captures with packets older than the last run" in "\n".join(report.lines())


def test_what_cannot_be_pickled_is_decoded_again_up_to_a_limit(tmp_path: Path) -> None:
    parts = cut(PCAPS / "nsq" / "nsq-1.3.0-nsqjs-deflate.pcap", tmp_path / "parts", [40])
    expected = rows_of_one_run(parts, tmp_path / "one")
    one_by_one(parts, tmp_path / "whole")
    assert not differing(expected, committed(tmp_path / "whole", hashes=True))
    one_by_one(parts, tmp_path / "cut", limits=Limits(replay_max=1024))
    found = committed(tmp_path / "cut", hashes=True)
    told = [row for row in found["problems"] if "'limit'" in row]
    assert told
    assert all("more than 1024 bytes of it when a run ended" in row for row in told)


@pytest.mark.parametrize("name", ["kafka/kafka-4.4-tls12-kafka-python-ciphers", "pulsar/pulsar-4.2.4-go-tls13-a"])
def test_no_key_and_nothing_that_a_key_opened_is_handed_on(tmp_path: Path, name: str) -> None:
    sample = PCAPS / f"{name}.pcap"
    log = KeyLog(str(sample.with_suffix(".keys")))
    packets = len(records_of(sample.read_bytes())[1])
    parts = cut(sample, tmp_path / "parts", [packets * 2 // 3])
    job(parts[:1], tmp_path / "out", append=True, tls_keys=(log,))
    rows = [row for path in (tmp_path / "out" / CARRIED).glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    held = b"".join(row["columns"] + row["payload"] for row in rows)
    secrets = re.findall(r"\b[0-9a-fA-F]{64,}$", sample.with_suffix(".keys").read_text(), re.MULTILINE)
    assert held
    assert secrets
    assert not any(bytes.fromhex(secret) in held or secret.encode() in held for secret in secrets)
    assert b"DirectionKeys" not in held
    assert b"mqsniff.tls.protection" not in held


# ---- windows


@pytest.mark.parametrize("died", [1, 2, 3])
def test_a_job_that_dies_between_windows_is_finished_by_the_same_command(
    files: list[Path], tmp_path: Path, died: int
) -> None:
    class Dying(InProcess):
        runs = 0

        def reduce(self, *args: Any) -> list[str]:
            self.runs += 1
            if self.runs == died:
                raise RuntimeError("the cluster is gone")
            return super().reduce(*args)

    options = JobOptions(hash_key=KEY, partitions=2, window_ns=NANOSECOND)
    inputs = [str(file) for file in files]
    with pytest.raises(RuntimeError):
        run_job(Dying(), inputs, str(tmp_path / "out"), options)
    assert len(archive(tmp_path / "out").runs()) == died - 1
    report = run_job(InProcess(), inputs, str(tmp_path / "out"), options)
    assert report.windows == len(files) - died + 1
    assert not differing(rows_of_one_run(files, tmp_path / "one"), committed(tmp_path / "out", hashes=True))
    assert run_job(InProcess(), inputs, str(tmp_path / "out"), options).status == "nothing to do"


def test_windows_refuse_a_folder_of_other_inputs_and_replace_it_when_asked(files: list[Path], tmp_path: Path) -> None:
    job([NSQ], tmp_path / "out")
    with pytest.raises(CommitError, match="holds other inputs"):
        job(files, tmp_path / "out", window_ns=NANOSECOND)
    report = job(files, tmp_path / "out", window_ns=NANOSECOND, overwrite=True)
    assert report.windows == len(files)
    assert not differing(rows_of_one_run(files, tmp_path / "one"), committed(tmp_path / "out", hashes=True))


def test_files_without_a_time_are_read_with_the_last_window(files: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "captures" / "broken.pcap"
    broken.write_bytes(b"no capture at all")
    report = job([*files, broken], tmp_path / "out", window_ns=NANOSECOND)
    assert [uri for uri, _ in report.unreadable] == [str(broken)]
    assert report.windows == len(files)


def test_dropped_files_go_after_a_day(files: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    one_by_one(files[:2], out)
    first, second = archive(out).runs()
    assert second.drops
    aside = [out / "_mqsniff" / "replaced" / first.run / path for path in second.drops]
    assert all(path.exists() for path in aside)
    os.utime(out / "_mqsniff" / "runs" / f"{second.run}.json", (0, 0))
    job(files[:3], out, append=True)
    assert not any(path.exists() for path in aside)


def test_manifests_of_before_windows_are_read(files: list[Path], tmp_path: Path) -> None:
    job(files[:1], tmp_path / "out")
    [run] = archive(tmp_path / "out").runs()
    old = run.encoded().replace(b'"drops": [],', b"").replace(b'"carried": [],', b"")
    assert Manifest.decoded(old) == run
    assert b"carried" not in old.partition(b'"report"')[0]


# ---- a state of unknown origin


class Evil:
    """Pickles as a call."""

    def __init__(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._call = call, arguments

    def __reduce__(self) -> Any:
        return self._call


CONTEXT = RunContext(Registry(load_dissectors()), Settings(Limits()))


@pytest.mark.parametrize(
    "evil",
    [
        Evil(os.system, "true"),
        Evil(eval, "1"),
        Evil(getattr, pickle.Pickler, "dump"),
        Evil(getattr, Archive(Store.at("/")), "recover"),
        Evil(Store.at, "/"),
        Evil(Archive, None),
        Evil(getattr, FlowDecoder("", CONTEXT), "__init__"),
    ],
    ids=["os", "eval", "getattr", "method", "classmethod", "class", "dunder"],
)
def test_a_forged_state_calls_nothing_but_what_decodes(evil: Evil) -> None:
    forged = pickle.dumps((evil, None, {}), protocol=5)
    with pytest.raises(CarriedError, match="UnpicklingError"):
        Pickles(CONTEXT).loaded(forged)


def test_a_state_may_hold_limits_of_its_own() -> None:
    own: Any = Limits(frame_max=7)
    pickled = Pickles(CONTEXT).dumped(KnownFlow(FlowDecoder("", CONTEXT), own, {}))
    assert pickled is not None
    assert Pickles(CONTEXT).loaded(pickled).filtered == own


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("mqsniff.decode.registry", "importlib.import_module"),
        ("mqsniff.tls.keylog", "os.system"),
        ("mqsniff.tls.keylog", "np"),
        ("mqsniff_nsq.session", "Settings"),
        ("builtins", "eval"),
    ],
)
def test_names_are_not_reached_through_a_module_that_imports_them(module: str, name: str) -> None:
    named = b"".join(b"\x8c" + bytes((len(text),)) + text.encode() for text in (module, name))
    with pytest.raises(CarriedError, match=f"is no part of a connection's state|Can't get attribute '{name}'"):
        Pickles(CONTEXT).loaded(b"\x80\x05" + named + b"\x93.")


@pytest.mark.parametrize("ending", [".parquet", "-state.json"])
def test_a_damaged_file_says_what_to_do(files: list[Path], tmp_path: Path, ending: str) -> None:
    job(files[:2], tmp_path / "out", append=True)
    for path in (tmp_path / "out" / CARRIED).glob(f"*{ending}"):
        path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises((CarriedError, CommitError), match="delete _mqsniff/carried"):
        job(files, tmp_path / "out", append=True)
    shutil.rmtree(tmp_path / "out" / CARRIED)
    assert "is gone" in job(files, tmp_path / "out", append=True).anew


def test_a_state_comes_back_as_it_was() -> None:
    state = KnownFlow(FlowDecoder("tap", CONTEXT), None, {3: "a.pcap"})
    dumped = Pickles(CONTEXT).dumped(state)
    assert dumped is not None
    assert Pickles(CONTEXT).loaded(dumped).captures == {3: "a.pcap"}
