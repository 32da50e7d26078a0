"""Every capture goes through every output whole: no traceback, no ``internal`` problem, the same rows in all of them.

MQSNIFF_CAPTURES names more folders to try, as in ``test_adding_up.py``, which adds bytes up.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from mqsniff.answers.captures import captures_under
from mqsniff.answers.folders import table_dataset, table_files
from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES

PCAPS = Path(__file__).parents[1] / "pcaps"
FEW = (
    "broken/cut.pcap.gz",
    "broken/record-lost.pcap",
    "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng",
    "nsq/nsq-1.3.0-go-req-touch.pcap",
    "nsq/nsq-1.3.0-var-loss-client.pcap",
    "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap",
    "rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng",
)
MORE = [Path(folder) for folder in os.environ.get("MQSNIFF_CAPTURES", "").split(os.pathsep) if folder]
CAPTURES = {name: PCAPS / name for name in FEW} | {
    str(path.relative_to(folder)): path for folder in MORE for path in captures_under([folder])
}
EVERYTHING = [argument for table in TABLES for argument in ("--table", table)]

csv.field_size_limit(1 << 30)

every_capture = pytest.mark.parametrize("name", CAPTURES)


def decoded(name, *arguments):
    """What ``mqsniff decode`` gives of a capture; nothing but an exit code may end it."""
    done = CliRunner().invoke(main, ["decode", *map(str, arguments), str(CAPTURES[name])])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def rows_of(name):
    """How many rows each table has in NDJSON, and the problems of kind ``internal``."""
    rows = [orjson.loads(line) for line in decoded(name, "-o", "ndjson", *EVERYTHING).stdout_bytes.splitlines()]
    internal = [row["detail"] for row in rows if row["table"] == "problems" and row["kind"] == "internal"]
    return Counter(row["table"] for row in rows), internal


@every_capture
def test_no_output_falls_and_all_have_the_same_rows(name, tmp_path):
    counts, internal = rows_of(name)
    assert internal == []
    decoded(name, "-o", "parquet", "--out", tmp_path / "tables")
    files = table_files(tmp_path / "tables")
    stored = {table: table_dataset(table, [(tmp_path / "tables", files[table])]).count_rows() for table in files}
    assert +Counter(stored) == counts
    text = decoded(name, "-o", "text", "-v", "--records", *EVERYTHING, "--color", "always").stdout
    assert text or not counts
    for table in TABLES:
        # problems inside of records are found where records are opened, as in the other outputs
        shown = decoded(name, "-o", "csv", "--records", "--table", table).stdout
        assert sum(1 for _ in csv.reader(io.StringIO(shown, newline=""))) == counts[table] + 1
