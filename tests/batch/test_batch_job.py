"""A job from inputs to tables: what is done again and what is not, bad inputs, options; tasks in this process."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import capturecraft as craft
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from batchrows import PCAPS, committed, decoded, records_of
from inprocess import InProcess
from tinycapture import ip_tcp

from mqsniff.batch.commit import Archive, CommitError
from mqsniff.batch.driver import run_job
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions, JobReport
from mqsniff.batch.jobruns import partitions_of
from mqsniff.batch.plan import ScanPlan, Split, split_size_of
from mqsniff.batch.store import Store, StoreError
from mqsniff.filters.itemfilter import Filters
from mqsniff.limits import MIB
from mqsniff.tables.schemas import TABLES, arrow_schema
from mqsniff_nsq import Nsq

ONE, OTHER = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap", PCAPS / "kafka" / "kafka-3.9.1-portreuse-rua.pcap"
PUBLISHED = PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap"


class Broken(InProcess):
    """Fails at one step, after tasks have written."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self._step = step

    def reduce(self, *args: Any) -> list[str]:
        done = super().reduce(*args)
        if self._step == "reduce":
            raise RuntimeError("the cluster is gone")
        return done

    def rewrite(self, *args: Any) -> list[str]:
        super().rewrite(*args)
        raise RuntimeError("the cluster is gone")


class Elsewhere(InProcess):
    """Its tasks run in another folder than the driver, as those of a cluster do."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def scan(self, *args: Any) -> list[bytes]:
        with contextlib.chdir(self._folder):
            return super().scan(*args)

    def reduce(self, *args: Any) -> list[str]:
        with contextlib.chdir(self._folder):
            return super().reduce(*args)


def job(inputs: list[Path] | list[str], out: Path, **options: Any) -> JobReport:
    return run_job(InProcess(), map(str, inputs), str(out), JobOptions(**options))


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    store = Store.at(str(out))
    paths = [out / part.path for part in Archive(store).committed(table)]
    return [row for path in paths for row in pq.ParquetFile(io.BytesIO(path.read_bytes())).read().to_pylist()]


def test_the_manifest_holds_the_whole_report(tmp_path: Path) -> None:
    report = run_job(InProcess(), [str(ONE)], str(tmp_path / "out"))
    [manifest] = Archive(Store.at(str(tmp_path / "out"))).runs()
    assert 0 < manifest.report["start_seconds"] < manifest.report["seconds"] <= report.seconds
    again = report.plain()
    assert manifest.report == again | {name: manifest.report[name] for name in ("seconds", "mb_per_second")}
    assert manifest.report["out"] == str(tmp_path / "out")


def test_relative_paths_mean_the_same_for_tasks_that_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("driver", "worker"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    shutil.copy(ONE, "x.pcap")
    report = run_job(Elsewhere(tmp_path / "worker"), ["x.pcap"], "out")
    assert len(rows(tmp_path / "driver" / "out", "messages")) == report.tables["messages"] > 0
    assert not [*(tmp_path / "worker").iterdir()]


def test_every_row_says_its_run_and_files_say_where_it_came_from(tmp_path: Path) -> None:
    report = job([ONE, OTHER], tmp_path / "out")
    for table in TABLES:
        assert {row["run_id"] for row in rows(tmp_path / "out", table)} <= {report.run}
    files = {row["capture"]: row for row in rows(tmp_path / "out", "files")}
    assert set(files) == {"nsq/nsq-1.3.0-auth.pcap", "kafka/kafka-3.9.1-portreuse-rua.pcap"}
    one = files["nsq/nsq-1.3.0-auth.pcap"]
    assert (one["uri"], one["size"], one["status"], one["format"]) == (str(ONE), ONE.stat().st_size, "ok", "pcap")
    assert sum(file["packets"] for file in files.values()) == report.packets
    assert one["first_ts"] <= one["last_ts"]
    assert one["linktypes"]
    assert {row["capture"] for row in rows(tmp_path / "out", "messages")} == set(files)


def test_tables_have_their_schemas_and_the_run_behind_them_and_each_has_a_file(tmp_path: Path) -> None:
    job([ONE], tmp_path / "out")
    for table in TABLES:
        schema = ds.dataset(str(tmp_path / "out" / table)).schema
        assert schema.names == [*arrow_schema(table).names, "run_id"]
        assert schema.metadata[b"mqsniff.table"] == table.encode()


def test_the_same_command_again_does_nothing_and_says_so(tmp_path: Path) -> None:
    first = job([ONE, OTHER], tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.parquet")}
    again = job([OTHER, ONE], tmp_path / "out")
    assert (again.status, again.run, again.tables) == ("nothing to do", first.run, first.tables)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.parquet")} == before
    assert "nothing to do" in "\n".join(again.lines())


@pytest.mark.parametrize(("inputs", "options"), [([OTHER], {}), ([ONE], {"body": False})], ids=["inputs", "options"])
def test_other_work_in_a_folder_that_is_taken_is_refused_with_what_to_say(
    tmp_path: Path, inputs: list[Path], options: dict[str, Any]
) -> None:
    job([ONE], tmp_path / "out")
    with pytest.raises(CommitError, match=r"--append adds to it, --overwrite replaces it"):
        job(inputs, tmp_path / "out", **options)


def test_overwrite_replaces_and_append_adds_what_was_not_taken(tmp_path: Path) -> None:
    out = tmp_path / "out"
    job([ONE], out)
    second = job([OTHER], out, overwrite=True)
    assert {row["run_id"] for row in rows(out, "messages")} == {second.run}
    third = job([ONE, OTHER], out, append=True)
    assert third.skipped == [str(OTHER)]
    assert {row["run_id"] for row in rows(out, "messages")} == {second.run, third.run}
    assert committed(out)["messages"] == sorted({*committed(out)["messages"]})
    nothing = job([ONE, OTHER], out, append=True)
    assert nothing.status == "nothing to do"
    assert nothing.skipped == sorted(map(str, (ONE, OTHER)))


def test_appending_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    shutil.copy(ONE, capture)
    job([capture], tmp_path / "out")
    shutil.copy(OTHER, capture)
    with pytest.raises(CommitError, match=r"a\.pcap has changed since it was decoded"):
        job([capture], tmp_path / "out", append=True)


def test_a_folder_with_files_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages" / "part-00000.parquet").write_bytes(b"mine")
    with pytest.raises(CommitError, match="holds files of another program"):
        job([ONE], tmp_path)


def test_a_folder_that_holds_other_files_but_no_tables_is_taken(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    others = [tmp_path / "README", tmp_path / "messages" / "notes.txt"]
    for path in others:
        path.write_text("mine")
    job([ONE], tmp_path)
    assert rows(tmp_path, "messages")
    assert [path.read_text() for path in others] == ["mine"] * len(others)


def test_a_plugin_that_raises_in_records_of_an_internal_topic_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Nsq, "internal_topic", lambda _: True)
    monkeypatch.setattr(Nsq, "decode_record", broken)
    job([PUBLISHED], tmp_path)
    found = [row for row in rows(tmp_path, "problems") if row["kind"] == "internal"]
    assert [row["detail"] for row in found] == ["RuntimeError in the records of an internal topic of nsq"]
    assert len(rows(tmp_path, "records")) > 1


@pytest.mark.parametrize("step", ["reduce", "rewrite"])
def test_a_job_that_fails_leaves_nothing_and_keeps_what_was_there(tmp_path: Path, step: str) -> None:
    out = tmp_path / "out"
    job([ONE], out)
    before = sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())
    with pytest.raises(RuntimeError, match="gone"):
        run_job(Broken(step), [str(OTHER)], str(out), JobOptions(append=True, folders=("day",)))
    assert sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file()) == before


@pytest.fixture
def bad_inputs(tmp_path: Path) -> Path:
    """A good capture among bad ones."""
    folder = tmp_path / "captures"
    folder.mkdir()
    shutil.copy(ONE, folder / "good.pcap")
    (folder / "cut.pcap").write_bytes(OTHER.read_bytes()[:-100])
    (folder / "empty.pcap").write_bytes(b"")
    (folder / "text.pcap").write_text("no capture at all, just words")
    return folder


def test_bad_inputs_are_rows_and_the_job_goes_on(bad_inputs: Path, tmp_path: Path) -> None:
    report = job([bad_inputs, bad_inputs / "vanished.pcap"], tmp_path / "out")
    statuses = {row["capture"]: row["status"] for row in rows(tmp_path / "out", "files")}
    assert statuses == {
        "good.pcap": "ok",
        "cut.pcap": "damaged",
        "empty.pcap": "unreadable",
        "text.pcap": "unreadable",
        "vanished.pcap": "unreadable",
    }
    told = {Path(uri).name for uri, _ in report.unreadable}
    assert told == {"empty.pcap", "text.pcap", "vanished.pcap"}
    problems = [row for row in rows(tmp_path / "out", "problems") if row["kind"] == "input"]
    assert told <= {row["capture"] for row in problems}
    assert {row["capture"] for row in rows(tmp_path / "out", "messages")} == {"good.pcap", "cut.pcap"}


class Vanishing(InProcess):
    """A file goes between the plan and the scan."""

    def scan(self, work: ScanPlan, splits: Sequence[Split]) -> list[bytes]:
        Path(work.files[0].uri).unlink(missing_ok=True)
        return super().scan(work, splits)


def test_a_file_that_vanishes_in_the_middle_is_a_row_and_the_job_goes_on(bad_inputs: Path, tmp_path: Path) -> None:
    report = run_job(Vanishing(), [str(bad_inputs)], str(tmp_path / "out"), JobOptions())
    [gone] = [row for row in rows(tmp_path / "out", "files") if row["error"] == "no such file or directory"]
    assert gone["status"] == "unreadable"
    assert gone["uri"] in {uri for uri, _ in report.unreadable}
    assert rows(tmp_path / "out", "messages")


class Dying(InProcess):
    """Executors die between scan and reduce; meanwhile something happens to the inputs."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def reduce(self, *args: Any) -> list[str]:
        self._meanwhile()
        self.lose_executor()
        return super().reduce(*args)


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def overwritten(path: Path) -> None:
    path.write_bytes(path.read_bytes())


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (Path.unlink, "no such file or directory"),
        (shortened, "changed since it was listed"),
        (overwritten, "changed since it was listed"),
    ],
)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_lost_executor_whose_input_is_no_longer_there_fails_the_run_in_one_line(
    tmp_path: Path, harm: Callable[[Path], object], said: str, partitions: int
) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    for path in (ONE, OTHER):
        shutil.copy(path, folder)
    with pytest.raises(InputError) as caught:
        run_job(
            Dying(lambda: harm(folder / OTHER.name)),
            [str(folder)],
            str(tmp_path / "out"),
            JobOptions(partitions=partitions),
        )
    segments = re.search(r"([\d,]+) of ([\d,]+) segments were decoded", str(caught.value))
    assert segments is not None
    assert 0 < int(segments[1].replace(",", "")) < int(segments[2].replace(",", ""))
    assert str(caught.value).startswith(f"{folder / OTHER.name}: {said}; ")
    assert "\n" not in str(caught.value)
    assert Archive(Store.at(str(tmp_path / "out"))).runs() == []
    assert not list((tmp_path / "out").rglob("*.parquet"))


class Noticing(InProcess):
    """An engine that sees by itself that what it scanned again is not what it was."""

    def __init__(self, gone: Path | None) -> None:
        super().__init__()
        self._gone = gone

    def reduce(self, *args: Any) -> list[str]:
        if self._gone is not None:
            self._gone.unlink()
        raise RuntimeError("a stage with indeterminate output was retried")


def test_an_engine_that_fails_because_an_input_went_is_told_with_the_input(tmp_path: Path) -> None:
    for path in (ONE, OTHER):
        shutil.copy(path, tmp_path)
    gone = tmp_path / ONE.name
    with pytest.raises(
        InputError, match=f"^{gone}: no such file or directory; .* nothing was committed; run it again$"
    ):
        run_job(Noticing(gone), [str(gone), str(tmp_path / OTHER.name)], str(tmp_path / "out"))
    with pytest.raises(RuntimeError, match="indeterminate"):
        run_job(Noticing(None), [str(tmp_path / OTHER.name)], str(tmp_path / "out"))


def test_a_lost_executor_whose_inputs_are_what_they_were_changes_no_row(tmp_path: Path) -> None:
    job([ONE, OTHER], tmp_path / "expected")
    run_job(Dying(lambda: None), map(str, (ONE, OTHER)), str(tmp_path / "out"), JobOptions(partitions=3))
    assert committed(tmp_path / "out") == committed(tmp_path / "expected")


def test_where_all_inputs_go_while_they_are_scanned_nothing_is_committed(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    shutil.copy(ONE, capture)
    with pytest.raises(InputError, match=r"a\.pcap: no such file or directory$"):
        run_job(Vanishing(), [str(capture)], str(tmp_path / "out"))
    assert Archive(Store.at(str(tmp_path / "out"))).runs() == []


def test_what_could_not_be_read_is_taken_when_it_is_there(bad_inputs: Path, tmp_path: Path) -> None:
    job([bad_inputs, bad_inputs / "late.pcap"], tmp_path / "out")
    shutil.copy(PCAPS / "nsq" / "nsqlookupd-1.3.0-raw.pcap", bad_inputs / "late.pcap")
    report = job([bad_inputs], tmp_path / "out", append=True)
    assert "late.pcap" in {row["capture"] for row in rows(tmp_path / "out", "messages")}
    assert {Path(uri).name for uri in report.skipped} == {"good.pcap", "cut.pcap"}


def test_fail_fast_stops_at_bad_inputs_and_leaves_nothing(bad_inputs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.pcap: "):
        job([bad_inputs], tmp_path / "out", fail_fast=True)
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_where_nothing_can_be_read_nothing_is_committed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.pcap: .*1 more cannot be read"):
        job([tmp_path / "a.pcap", tmp_path / "b.pcap"], tmp_path / "out" / "tables")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("link", ["messages", "files", "_mqsniff", "_mqsniff/staging"])
@pytest.mark.parametrize("options", [{"overwrite": True}, {"append": True}])
def test_a_link_in_the_folder_is_refused_before_anything_is_done(
    tmp_path: Path, link: str, options: dict[str, Any]
) -> None:
    job([ONE], tmp_path / "precious")
    job([ONE], tmp_path / "out")
    place, away = tmp_path / "out" / link, tmp_path / "precious" / link
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(away)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "precious").rglob("*")}
    with pytest.raises(StoreError, match=f"out/{link} is a link, and nothing is written or deleted through links"):
        job([OTHER], tmp_path / "out", **options)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "precious").rglob("*")} == before


def test_tables_that_a_link_beside_ours_leads_to_are_no_orphans(tmp_path: Path) -> None:
    job([ONE], tmp_path / "precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").symlink_to(tmp_path / "precious")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "precious").rglob("*.parquet")}
    assert job([OTHER], tmp_path / "out").recovered == []
    job([ONE], tmp_path / "out", overwrite=True)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "precious").rglob("*.parquet")} == before != {}


def test_names_may_be_any_bytes(tmp_path: Path) -> None:
    raw = os.fsdecode(b"caf\xe9")
    folder, out = tmp_path / f"in-{raw}", tmp_path / f"out-{raw}"
    folder.mkdir()
    for path, name in ((ONE, f"{raw}.pcap"), (OTHER, "b.pcap")):
        shutil.copy(path, folder / name)
    first = job([folder], out, domain=".*", partitions=2)
    assert {row["capture"] for row in rows(out, "messages")} == {"caf\\udce9.pcap", "b.pcap"}
    assert committed(out) == decoded(folder, [f"{raw}.pcap", "b.pcap"], tmp_path / "decoded", domain=".*")
    assert {Path(row["uri"]).name for row in rows(out, "files")} == {"caf\\udce9.pcap", "b.pcap"}
    assert job([folder], out, domain=".*").status == "nothing to do"
    shutil.copy(ONE, folder / os.fsdecode(b"new\xff.pcap"))
    again = job([folder], out, domain=".*", append=True)
    assert again.skipped == [str(folder / "b.pcap"), str(folder / f"{raw}.pcap")]
    assert {row["capture"] for row in rows(out, "files") if row["run_id"] != first.run} == {"new\\udcff.pcap"}
    (tmp_path / "file.parquet").write_bytes(b"mine")
    (tmp_path / os.fsdecode(b"mine\xff.parquet")).write_bytes(b"mine")
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(CommitError, match="holds files of another program"):
        job([ONE], tmp_path)
    assert sorted(tmp_path.rglob("*.parquet")) == before


def test_options_bound_what_is_written(tmp_path: Path) -> None:
    job([ONE], tmp_path / "all")
    job([ONE], tmp_path / "less", tables=("messages", "records"), body=False, value_bytes=3)
    assert {path.name for path in (tmp_path / "less").iterdir()} == {"_mqsniff", "files", "messages", "records"}
    assert {row["body"] for row in rows(tmp_path / "less", "messages")} == {"{}"}
    assert len(rows(tmp_path / "less", "messages")) == len(rows(tmp_path / "all", "messages"))
    whole = [row["value"] for row in rows(tmp_path / "all", "records")]
    cut = [row["value"] for row in rows(tmp_path / "less", "records")]
    assert max(len(value) for value in whole if value) > 3
    assert sorted(value[:3] for value in whole if value) == sorted(value for value in cut if value)


def test_filters_choose_what_they_choose_in_decode(tmp_path: Path) -> None:
    job([ONE, OTHER], tmp_path / "out", filters=Filters(protocols=("nsq",), names=("PUB",)))
    assert {row["name"] for row in rows(tmp_path / "out", "messages")} <= {"PUB", "RESPONSE", "ERROR"}
    assert "PUB" in {row["name"] for row in rows(tmp_path / "out", "messages")}


def test_folders_by_protocol_and_day_hold_every_row_where_it_belongs(tmp_path: Path) -> None:
    job([ONE, OTHER], tmp_path / "flat")
    job([ONE, OTHER], tmp_path / "out", folders=("protocol", "day"), partitions=2)
    assert committed(tmp_path / "out") == committed(tmp_path / "flat")
    store = Store.at(str(tmp_path / "out"))
    for part in Archive(store).committed("messages"):
        _, protocol, day, _ = part.path.split("/")
        for row in pq.ParquetFile(store.place(part.path)).read().to_pylist():
            assert (protocol, day) == (f"protocol={row['protocol']}", f"day={row['ts']:%Y-%m-%d}")
    assert len({part.path.split("/")[1] for part in Archive(store).committed("messages")}) == 2


def test_domains_tell_captures_apart_that_share_addresses(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    for tap in ("tap-1", "tap-2"):
        (captures / tap).mkdir(parents=True)
        shutil.copy(ONE, captures / tap / "a.pcap")
    together = job([captures], tmp_path / "one")
    apart = job([captures], tmp_path / "two", domain="tap-[0-9]")
    alone = job([ONE], tmp_path / "alone")
    assert len(rows(tmp_path / "two", "connections")) == 2 * alone.connections
    ids = [row["connection_id"] for row in rows(tmp_path / "two", "connections")]
    assert len(set(ids)) == len(ids)
    doubled = sum(row["duplicate_packets"] for row in rows(tmp_path / "one", "connections"))
    assert doubled == together.duplicate_packets > 0
    assert f"{doubled} of these packets were captured twice" in "\n".join(together.lines())
    assert sum(row["duplicate_packets"] for row in rows(tmp_path / "two", "connections")) == 0
    assert "twice" not in "\n".join(apart.lines())


def test_a_manifest_holds_what_was_done_and_no_credentials(tmp_path: Path) -> None:
    report = job([ONE], tmp_path / "out", decode_as={14150: "nsq"})
    manifest = json.loads((tmp_path / "out" / "_mqsniff" / "runs" / f"{report.run}.json").read_text())
    assert manifest["options"]["decode_as"] == {"14150": "nsq"}
    assert manifest["inputs"] == [
        {"uri": str(ONE), "size": ONE.stat().st_size, "mark": str(ONE.stat().st_mtime_ns), "status": "ok"}
    ]
    assert sum(part["rows"] for part in manifest["parts"]) == report.tables.total()
    assert all((tmp_path / "out" / part["path"]).stat().st_size == part["size"] for part in manifest["parts"])


def test_tasks_are_neither_too_small_nor_too_large() -> None:
    assert partitions_of(0, 2) == 1
    assert partitions_of(3 * MIB, 2) == 1
    assert partitions_of(6 * MIB, 2) == 2
    assert partitions_of(46 * MIB, 2) == 4
    assert partitions_of(46 * MIB, 1000) == 12
    assert partitions_of(1000 * MIB, 2) == 32
    assert partitions_of(10_000 * MIB, 2) == 64
    assert partitions_of(10_000 * MIB, 100) == 200
    assert partitions_of(1 << 40, 2) == (1 << 40) // (512 * MIB)


def test_splits_keep_the_cores_busy_and_are_neither_too_small_nor_too_large() -> None:
    assert split_size_of(46 * MIB, 2) == 46 * MIB // 8
    assert split_size_of(6 * MIB, 2) == 4 * MIB
    assert split_size_of(1 << 40, 2) == 128 * MIB
    assert split_size_of(0, 1) == 4 * MIB


@pytest.mark.parametrize(("chosen", "splits"), [(None, 4), (20 * MIB, 1)])
def test_a_job_cuts_by_its_cores_unless_the_user_says_how(tmp_path: Path, chosen: int | None, splits: int) -> None:
    head, *_ = records_of(ONE.read_bytes())
    record = struct.pack("<4I", 1, 0, 60_000, 60_000) + bytes(60_000)
    (tmp_path / "one.pcap").write_bytes(head + record * (16 * MIB // len(record)))
    assert job([tmp_path / "one.pcap"], tmp_path / "out", split_size=chosen).splits == splits


@pytest.fixture(autouse=True)
def no_folder_is_left(tmp_path: Path) -> Iterator[None]:
    """No test leaves a staging folder."""
    yield
    assert [found for found in tmp_path.rglob("staging") for _ in os.scandir(found)] == []


class ManyCores(InProcess):
    """A machine on which eight tasks run at the same time."""

    def check_workers(self) -> int:
        return 8


def test_one_compressed_file_is_read_by_one_task_and_decoded_by_many(tmp_path: Path) -> None:
    packets = [(number, ip_tcp((40_000 + number % 50, 4150), 0, 0, 0x18, bytes(60_000))) for number in range(300)]
    (tmp_path / "one.pcap.gz").write_bytes(gzip.compress(craft.pcap(packets, linktype=101)))
    report = run_job(ManyCores(), [str(tmp_path / "one.pcap.gz")], str(tmp_path / "out"))
    assert (report.splits, report.partitions) == (1, 5)
