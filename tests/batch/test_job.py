"""The options of a run, and its report: figures that add up, and what is said of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from mqsniff.batch.job import JobOptions, JobReport, JobStage, counted
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.packetfilter import PacketFilter
from mqsniff.limits import Limits
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import Redaction

MIB = 1 << 20

# ---- options


@pytest.mark.parametrize(
    ("options", "carries"), [({}, False), ({"append": True}, True), ({"window_ns": 5}, True), ({"window_ns": 0}, True)]
)
def test_open_connections_go_on_in_runs_that_follow_each_other(options: dict[str, object], *, carries: bool) -> None:
    assert JobOptions(**options).carries is carries  # type: ignore[arg-type]  # any of them


def test_what_is_shown_is_what_was_asked_for() -> None:
    assert JobOptions().shown == Redaction()
    shown = JobOptions(show_secrets=True, show_raw=True, redact=("payload",), value_bytes=9).shown
    assert shown == Redaction(secrets=True, raw=True, payload=False, max_bytes=9)


def test_records_are_opened_for_their_table() -> None:
    assert JobOptions().needs_records
    assert not JobOptions(tables=("messages",)).needs_records


def test_scan_drops_what_no_task_needs() -> None:
    options = JobOptions(
        *(), limits=Limits(chunk_max=2048), domain="folder", fail_fast=True, cut_from_ns=5, cut_to_ns=9, split_size=77,
        filters=Filters(ports=(9092,)),
    )  # fmt: skip
    found = options.scan_options
    assert (found.limits, found.split_size, found.domain, found.fail_fast) == (options.limits, 77, "folder", True)
    assert found.packet_filter == PacketFilter(5, 9, (9092,), ())
    assert JobOptions().scan_options.split_size == 128 * MIB


LAYOUT = ("split_size", "partitions", "fail_fast", "overwrite", "append", "window_ns")


def test_options_that_change_no_row_are_no_part_of_the_digest() -> None:
    plain = JobOptions().row_options()
    changed = replace(
        JobOptions(), split_size=5, partitions=3, fail_fast=True, overwrite=True, append=True, window_ns=7
    )
    assert changed.row_options() == plain
    assert set(plain) == {entry.name for entry in fields(JobOptions)} - {*LAYOUT} | {"schema_version"}
    assert (plain["filters"], plain["tls_keys"], plain["hash_key"]) == ("", [], "random")


@pytest.mark.parametrize(
    "changed",
    [
        {"tables": ("messages",)},
        {"body": False},
        {"value_bytes": 5},
        {"show_secrets": True},
        {"redact": ("payload",)},
        {"decode_as": {5000: "nsq"}},
        {"limits": Limits(chunk_max=2048)},
        {"domain": "folder"},
        {"filters": Filters(ports=(9092,))},
        {"cut_to_ns": 5},
        {"folders": ("day",)},
        {"hash_key": HashKey(b"a key of a test, long enough")},
    ],
)
def test_options_that_change_rows_change_the_digest(changed: dict[str, object]) -> None:
    assert JobOptions(**changed).row_options() != JobOptions().row_options()  # type: ignore[arg-type]  # any of them


def test_the_order_of_tables_and_ports_changes_nothing() -> None:
    one = JobOptions(tables=("records", "messages"), decode_as={2: "nsq", 1: "kafka"}).row_options()
    assert one == JobOptions(tables=("messages", "records"), decode_as={1: "kafka", 2: "nsq"}).row_options()
    assert list(one["decode_as"].items()) == [("1", "kafka"), ("2", "nsq")]


# ---- the report


def report(number: int, run: str = "r1") -> JobReport:
    """A report whose numbers are all different."""
    return JobReport(
        run,
        "/out",
        files=number + 1,
        unreadable=[(f"/{number}", "gone")],
        skipped=[f"/done{number}"],
        packets=number + 2,
        other_packets=number + 3,
        dropped=number + 4,
        duplicate_packets=number + 5,
        bytes=number + 6,
        connections=number + 7,
        messages=Counter(kafka=number + 8),
        problems=Counter(error=number + 9),
        encrypted=Counter(missing=number + 10),
        tables=Counter(records=number + 11),
        splits=number + 12,
        scanned_again=number + 13,
        partitions=number + 14,
        shuffle_bytes=number + 15,
        rewritten=number + 16,
        seconds=number + 17.0,
        start_seconds=number + 18.0,
        worker_memory=number + 19,
        recovered=["one"],
        windows=number + 20,
        carried=number + 21,
        carried_bytes=number + 22,
        anew=f"why {number}",
        late=number + 23,
    )


def test_reports_of_windows_add_up_and_the_last_one_names_the_run() -> None:
    both = report(100)
    both.add(replace(report(1000, "r2"), status="nothing to do"))
    assert both == JobReport(
        "r2",
        "/out",
        "nothing to do",
        files=1102,
        unreadable=[("/100", "gone"), ("/1000", "gone")],
        skipped=["/done100"],
        packets=1104,
        other_packets=1106,
        dropped=1108,
        duplicate_packets=1110,
        bytes=1112,
        connections=1114,
        messages=Counter(kafka=1116),
        problems=Counter(error=1118),
        encrypted=Counter(missing=1120),
        tables=Counter(records=1122),
        splits=1124,
        scanned_again=1126,
        partitions=1128,
        shuffle_bytes=1130,
        rewritten=1132,
        seconds=117.0,
        start_seconds=1136.0,
        worker_memory=1019,
        recovered=["one"],
        windows=1140,
        carried=1021,
        carried_bytes=1022,
        anew="why 100",
        late=1146,
    )
    empty = JobReport("r0", "/out")
    empty.add(report(5))
    assert (empty.skipped, empty.anew, empty.worker_memory) == (["/done5"], "why 5", 24)


def test_a_report_as_json_has_all_figures_and_the_rate() -> None:
    plain = replace(report(0), bytes=10 * 10**6, seconds=4.0).plain()
    assert set(plain) == {entry.name for entry in fields(JobReport)} | {"mb_per_second"}
    assert (plain["mb_per_second"], plain["messages"], type(plain["messages"])) == (2.5, {"kafka": 8}, dict)
    assert [type(plain[name]) for name in ("problems", "encrypted", "tables")] == [dict] * 3
    assert JobReport("r", "/out", bytes=5).mb_per_second == 0.0


def test_the_figures_that_matter_most_are_those_of_the_headline() -> None:
    done = replace(report(0), bytes=2_340_000, files=1)
    assert done.figures() == {
        "files": 1,
        "bytes": 2_340_000,
        "packets": 2,
        "connections": 7,
        "messages": 8,
        "records": 11,
        "problems": 9,
    }
    assert done.headline() == ("1 file, 2.3 MB, 2 packets, 7 connections, 8 messages, 11 records, 9 problems; run r1")


def test_a_report_as_text_says_what_happened() -> None:
    done = JobReport(
        *("r1", "/out"),
        files=2,
        packets=1_000,
        other_packets=3,
        dropped=4,
        bytes=2_000_000,
        connections=1,
        messages=Counter(kafka=5, nsq=2),
        problems=Counter(info=2, error=1),
        tables=Counter(messages=7),
        splits=3,
        partitions=1,
        seconds=2.0,
        worker_memory=150_000_000,
    )
    assert list(done.lines()) == [
        (
            "2 files, 2.0 MB, 1000 packets (3 not TCP, 4 more dropped by the capture), 1 connection, "
            "7 messages (kafka 5, nsq 2), problems: info 2, error 1"
        ),
        "3 splits, 1 reduce task, 2.0 s, 1.0 MB/s, workers up to 150 MB",
        "/out holds run r1: messages 7",
    ]


def test_what_did_not_happen_is_not_said() -> None:
    first, *_ = JobReport("r1", "/out", files=1, packets=1, connections=2).lines()
    assert first == "1 file, 0.0 MB, 1 packet, 2 connections, 0 messages, no problems"
    nothing = JobReport("r1", "/out", "nothing to do", skipped=["/a", "/b"])
    assert list(nothing.lines()) == ["nothing to do: 2 inputs decoded before", "/out holds run r1: "]


@pytest.mark.parametrize(
    ("fields_", "line"),
    [
        (
            {"encrypted": Counter(missing=1)},
            "not decoded: 1 TLS connection (encrypted; its keys are needed: --tls-keys FILE)",
        ),
        (
            {"encrypted": Counter(wrong=2)},
            "not decoded: 2 TLS connections (encrypted, and the keys of --tls-keys do not open it)",
        ),
        (
            {"duplicate_packets": 11},
            (
                "11 of these packets were captured twice, and count once: if the captures are of taps or networks "
                "that should not be put together, give --domain"
            ),
        ),
        ({"duplicate_packets": 10}, None),
        ({"anew": "why"}, "connections that were open do not go on here: why"),
        ({"late": 1}, "1 capture with packets older than the last run: read as if they came after it"),
        (
            {"carried": 2, "carried_bytes": 1_500_000},
            "2 open connections (1.5 MB) can go on in the next run with --append",
        ),
        ({"windows": 1}, None),
    ],
)
def test_what_a_user_may_have_to_do_is_said_in_a_line_of_its_own(fields_: dict[str, object], line: str | None) -> None:
    told = list(JobReport("r1", "/out", packets=1000, **fields_).lines())  # type: ignore[arg-type]  # any of them
    assert told[1:-2] == ([] if line is None else [line])


def test_windows_are_counted_where_there_are_several() -> None:
    told = list(JobReport("r1", "/out", windows=2).lines())
    assert told[-2].startswith("2 windows, 0 splits, 0 reduce tasks, ")


def test_a_stage_is_a_text_with_the_bytes_that_it_works_on() -> None:
    assert (JobStage("scan", 5), JobStage("scan", 5).size, JobStage("sort").size) == ("scan", 5, None)


def test_a_number_comes_with_its_noun() -> None:
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
