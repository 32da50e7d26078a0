"""The data source without Spark: options, columns, filters and scopes; ``test_spark_job.py`` reads through Spark."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan
from pyspark.sql.types import StructType

from mqsniff.batch.datasource import CaptureDataSource
from mqsniff.batch.inputs import InputError
from mqsniff.batch.sourceoptions import FILTERS, REFUSED, SourceRequest, plain_name
from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
AUTH = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"
ERRORS = PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap"


def read(*paths: Path, filters: tuple[Any, ...] = (), schema: StructType | None = None, **options: str) -> list[Any]:
    given = {"paths": json.dumps([*map(str, paths)])} | options
    if filters:
        given["pushFilters"] = "true"
    reader: Any = CaptureDataSource(given).reader(schema or StructType())
    if filters:
        assert list(reader.pushFilters([*filters])) == [*filters]
    return [row for part in reader.partitions() for rows in reader.read(part) for row in rows.to_pylist()]


def decoded(table: str, *arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["decode", "-o", "ndjson", "--table", table, *arguments])
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_several_paths_are_read_and_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert {row["capture"] for row in read(AUTH, ERRORS)} == {AUTH.name, ERRORS.name}
    with pytest.raises(InputError, match=r"gone\.pcap: no such file or directory"):
        read(AUTH, tmp_path / "gone.pcap")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tabel": "messages"}, "there is no option 'tabel', did you mean table"),
        ({"where": "size > 1"}, r"option where: use where\(\) of the DataFrame"),
        ({"max-messages": "3"}, r"use limit\(\)"),
        ({"output": "json"}, "Spark's writers do that"),
        ({"table": "messages", "scope": "file", "errors": "perhaps"}, "neither true nor false"),
        ({"table": "messages", "scope": "file", "slower": "soon"}, "option slower"),
        ({"table": "messages", "scope": "file", "limit": "frame_max=x"}, "option limit"),
        ({"table": "messages", "scope": "file", "limit": "frames=1"}, "no limit 'frames'"),
        ({"table": "messages", "scope": "file", "decodeAs": "4150=nfs"}, "no PORT=PROTOCOL"),
        ({"table": "messages", "scope": "file", "redact": "names"}, "no part of records 'names'"),
        ({"table": "messages", "scope": "files"}, "scope"),
        ({"topic": "orders"}, "packets are not decoded"),
        ({"mode": "DROPMALFORMED"}, "no mode 'DROPMALFORMED'"),
        ({"columns": "siez"}, "no column 'siez'"),
    ],
)
def test_no_option_is_ignored(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(AUTH, **options)


def test_every_option_of_decode_is_accepted_or_refused_by_name() -> None:
    command = main.get_command(None, "decode")  # type: ignore[arg-type]
    assert command is not None
    names = {plain_name(param.opts[-1]) for param in command.params if param.opts[-1].startswith("-")}
    accepted = {*FILTERS, "tlskeys", "hashkey", "decodeas", "showsecrets", "showraw", "redact", "maxbytes", "limit"}
    assert names - {"help", "table"} <= accepted | {*REFUSED}
    assert not accepted & {*REFUSED}


@pytest.mark.parametrize(
    ("table", "options", "arguments"),
    [
        ("messages", {"name": "AUTH"}, ["--name", "AUTH"]),
        ("messages", {"name": '["AUTH", "IDENTIFY"]'}, ["--name", "AUTH", "--name", "IDENTIFY"]),
        ("messages", {"errors": "true"}, ["--errors"]),
        ("exchanges", {"port": "4150"}, ["--port", "4150"]),
        ("messages", {"show-secrets": "true"}, ["--show-secrets"]),
        ("messages", {"from": "+1ms"}, ["--from", "+1ms"]),
    ],
    ids=str,
)
def test_options_mean_what_they_mean_to_decode(table: str, options: dict[str, str], arguments: list[str]) -> None:
    rows = read(AUTH, table=table, scope="file", **options)
    expected = decoded(table, *arguments, str(AUTH))
    assert len(rows) == len(expected) > 0
    ids = "stream_offset" if table == "messages" else "request_packet"
    assert [row[ids] for row in rows] == [row[ids] for row in expected]
    if "show-secrets" in options:
        assert [json.loads(row["body"]) for row in rows] == [row["body"] for row in expected]


def test_only_the_columns_that_are_wanted_are_made() -> None:
    assert {*map(tuple, read(AUTH, columns="size,ts_ns"))} == {("size", "ts_ns")}
    schema = StructType().add("name", "string").add("capture", "string")
    rows = read(AUTH, schema=schema, table="messages", scope="file")
    assert rows[0] == {"name": rows[0]["name"], "capture": AUTH.name}


def test_filters_of_spark_make_tasks_read_less_and_never_too_little() -> None:
    times = sorted(row["ts_ns"] for row in read(AUTH))
    middle = times[len(times) // 2]
    late = read(AUTH, filters=(GreaterThanOrEqual(("ts_ns",), middle), LessThan(("ts_ns",), times[-1])))
    assert {row["ts_ns"] for row in late} >= {each for each in times if middle <= each < times[-1]}
    assert len(late) < len(times)
    moment = datetime.fromtimestamp(middle // 1_000_000_000, UTC)
    assert {row["ts_ns"] for row in read(AUTH, filters=(LessThan(("ts",), moment),))} >= {
        each for each in times if each // 1000 < moment.timestamp() * 1_000_000
    }
    chosen = read(AUTH, ERRORS, filters=(EqualTo(("capture",), AUTH.name),))
    assert {row["capture"] for row in chosen} == {AUTH.name}
    assert not read(AUTH, filters=(In(("capture",), ("other",)), In(("capture",), (AUTH.name,))))
    options = {"table": "messages", "scope": "file"}
    assert not read(AUTH, filters=(EqualTo(("protocol",), "kafka"),), **options)
    assert read(AUTH, filters=(EqualTo(("protocol",), "nsq"),), **options) == read(AUTH, **options)


def test_whole_connections_are_those_of_decode_over_all_files(tmp_path: Path) -> None:
    whole = ERRORS.read_bytes()
    at, cut = 24, len(whole) // 2
    while at < cut:
        at += 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
    first, second = tmp_path / "a.pcap", tmp_path / "b.pcap"
    first.write_bytes(whole[:at])
    second.write_bytes(whole[:24] + whole[at:])
    for scope, same in (("connection", True), ("file", False)):
        rows = read(tmp_path, table="connections", scope=scope)
        ids = sorted(row["connection_id"] for row in rows)
        expected = sorted(row["connection_id"] for row in decoded("connections", str(first), str(second)))
        assert (ids == expected) is same
    assert {row["capture"] for row in read(tmp_path, table="messages", scope="connection")} == {"a.pcap", "b.pcap"}


@pytest.mark.parametrize("scope", ["file", "connection"])
def test_a_file_that_cannot_be_read_is_a_problem_or_the_end(tmp_path: Path, scope: str) -> None:
    shutil.copy(AUTH, tmp_path / "a.pcap")
    (tmp_path / "b.pcap").write_text("no capture at all")
    rows = read(tmp_path, table="problems", scope=scope)
    assert [row["capture"] for row in rows if row["kind"] == "input"] == ["b.pcap"]
    with pytest.raises(InputError, match=r"b\.pcap: not a capture"):
        read(tmp_path, table="problems", scope=scope, mode="failfast")


def test_a_request_travels_as_texts() -> None:
    request = SourceRequest.of(
        {"path": "x", "table": "messages", "scope": "file", "Max_Bytes": "3", "decode-as": "1=nsq"}
    )
    assert request.shown(None).max_bytes == 3
    assert request.decode_as == {1: "nsq"}
