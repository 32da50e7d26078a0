"""Keys of TLS in the batch job: the rows of one process, and secrets nowhere but in one private file."""

from __future__ import annotations

import pickle
import re
import shutil
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from batchrows import PCAPS, committed, decoded, differing
from inprocess import InProcess
from pyspark.errors import PythonException
from sparklogs import logged, plans

from mqsniff.batch.commit import CommitError
from mqsniff.batch.datasource import register
from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions
from mqsniff.batch.spark import run, share_keys
from mqsniff.batch.taskkeys import TaskKeys
from mqsniff.filters.itemfilter import Filters
from mqsniff.sinks.privatefolder import process_folder
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import Redaction
from mqsniff.tls.keylog import TLS_KEY_LOG, KeyLog

SAMPLES = ("kafka/kafka-4.4-mtls-java", "pulsar/pulsar-4.2.4-go-tls13-a", "nsq/nsq-1.3.0-go-tls12-deflate-dsb")
HASH_KEY = "a-key-of-a-test-that-nobody-else-has"
KEY_FILES = [path for name in SAMPLES if (path := PCAPS / f"{name}.keys").exists()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Captures with keys, beside them or in them."""
    made = tmp_path / "captures"
    made.mkdir()
    for name in SAMPLES:
        for path in PCAPS.glob(f"{name}.pcap*"):
            if path.suffix in (".pcap", ".pcapng"):
                shutil.copy(path, made)
    return made


@pytest.fixture
def logs() -> tuple[KeyLog, ...]:
    return tuple(KeyLog(str(path)) for path in KEY_FILES)


def secrets() -> list[str]:
    """The secrets of all key logs, as hex."""
    return [line.split()[2] for path in KEY_FILES for line in path.read_text().splitlines() if not line.startswith("#")]


class Watched(InProcess):
    """Looks at the files of keys when they are shared; that of TLS is the last."""

    shared: Path
    mode: int
    content: str

    def share(self, key_file: str) -> str:
        self.shared = Path(key_file)
        self.mode, self.content = stat.S_IMODE(self.shared.stat().st_mode), self.shared.read_text(errors="replace")
        return super().share(key_file)


@pytest.mark.parametrize("filters", [Filters(), Filters(topics=("ta-tls",))])
def test_tasks_decrypt_as_one_process_does(
    folder: Path, tmp_path: Path, logs: Sequence[KeyLog], filters: Filters
) -> None:
    names = [path.name for path in folder.iterdir()]
    expected = decoded(folder, names, tmp_path / "decode", filters=filters, keys=logs)
    assert any("'tls_keys': 'used'" in row for row in expected["connections"])
    tasks = Watched()
    options = JobOptions(partitions=3, split_size=20_000, tls_keys=tuple(logs), filters=filters)
    run_job(tasks, [str(folder)], str(tmp_path / "out"), options)
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert all(secret in tasks.content for secret in secrets())
    assert tasks.mode == 0o600
    assert stat.S_IMODE(tasks.shared.parent.stat().st_mode) == 0o700
    assert tasks.shared.read_bytes() == b""


def test_secrets_are_in_no_manifest_and_no_table(folder: Path, tmp_path: Path, logs: Sequence[KeyLog]) -> None:
    options = JobOptions(tls_keys=tuple(logs))
    run_job(InProcess(), [str(folder)], str(tmp_path / "out"), options)
    assert_absent(b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()))
    assert_absent(repr(options).encode())


def assert_absent(data: bytes) -> None:
    found = secrets()
    assert len(found) > 10
    assert HASH_KEY.encode() not in data
    for secret in found:
        for form in (secret.encode(), secret.lower().encode(), bytes.fromhex(secret)):
            assert form not in data


def hashes_of(out: Path) -> Counter[str]:
    """How often each hash of a record's value stands in tables."""
    paths = (out / "records").rglob("*.parquet")
    return Counter(row["value_hmac_sha256"] for path in paths for row in pq.read_table(path).to_pylist())


def test_tasks_share_the_random_key_of_their_run(tmp_path: Path) -> None:
    captures = [str(path) for path in sorted((PCAPS / "nsq").glob("nsq-1.3.0-go-*.pcap"))]
    runs = []
    for name, options in (
        ("one", JobOptions(redact=("payload",), partitions=1)),
        ("many", JobOptions(redact=("payload",), partitions=5)),
    ):
        run_job(InProcess(), captures, str(tmp_path / name), options)
        runs.append(hashes_of(tmp_path / name))
    one, many = runs
    assert one.keys().isdisjoint(many)
    assert sorted(one.values()) == sorted(many.values())
    assert max(one.values()) > 1


def test_the_key_of_hashes_is_in_no_manifest_and_decides_whether_rows_are_the_same(tmp_path: Path) -> None:
    capture, out = str(PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap"), tmp_path / "out"
    options = JobOptions(hash_key=HashKey(HASH_KEY.encode()))
    run_job(InProcess(), [capture], str(out), options)
    assert run_job(InProcess(), [capture], str(out), options).status == "nothing to do"
    written = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file()) + repr(options).encode()
    assert HASH_KEY.encode() not in written
    with pytest.raises(CommitError, match="other inputs or options"):
        run_job(InProcess(), [capture], str(out), JobOptions(hash_key=HashKey(b"another key of a test")))
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(options)


def test_other_keys_are_other_rows(folder: Path, tmp_path: Path, logs: Sequence[KeyLog]) -> None:
    run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions(tls_keys=tuple(logs)))
    again = run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions(tls_keys=tuple(logs)))
    assert again.status == "nothing to do"
    with pytest.raises(CommitError, match="other inputs or options"):
        run_job(InProcess(), [str(folder)], str(tmp_path / "out"), JobOptions())


def test_a_key_log_does_not_travel(logs: Sequence[KeyLog]) -> None:
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(JobOptions(tls_keys=tuple(logs)))


def test_the_file_holds_what_captures_hold_and_is_emptied_at_the_end() -> None:
    with TaskKeys([]) as keys:
        path = keys.write_key_logs([(TLS_KEY_LOG, b"CLIENT_RANDOM"), (1, b"something else")])
        assert path is not None
        assert Path(path).read_bytes() == b"CLIENT_RANDOM\n"
        assert Path(path).parent == process_folder()  # if this process is killed, the next run deletes it
    assert Path(path).read_bytes() == b""


def test_the_data_source_takes_names_of_files_of_keys(spark: Any, tmp_path: Path) -> None:
    register(spark)
    hash_key = tmp_path / "hash.key"
    hash_key.write_text(HASH_KEY)
    capture = str(PCAPS / "kafka" / "kafka-4.4-mtls-java.pcap")
    keys = tmp_path / "sent.keys"
    shutil.copy(KEY_FILES[0], keys)
    connections = spark.read.format("mqsniff").option("table", "connections").option("scope", "file")
    with logged(spark, tmp_path / "log"):
        assert {row["tls_keys"] for row in connections.load(capture).collect()} == {"missing"}
        name = share_keys(spark, str(keys))
        for given in (name, str(KEY_FILES[0]), f"{name}, {KEY_FILES[0]}"):
            read = connections.option("tlsKeys", given).load(capture)
            assert {row["tls_keys"] for row in read.collect()} == {"used"}
        with pytest.raises(PythonException, match=r"tlsKeys: /none\.keys: no such file where .*share_keys"):
            connections.option("tlsKeys", "/none.keys").load(capture).collect()
        undecoded = PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap"
        shown = Redaction(hash_key=HashKey(HASH_KEY.encode()))
        expected = decoded(undecoded.parent, [undecoded.name], tmp_path / "decode", shown=shown)["messages"]
        told = {found for row in expected for found in re.findall(r"hmac_sha256.{3}[0-9a-f]{64}", row)}
        messages = spark.read.format("mqsniff").option("table", "messages").option("scope", "file")
        for option, there in (({}, False), ({"hashKey": str(hash_key)}, True)):
            bodies = "".join(row["body"] for row in messages.options(**option).load(str(undecoded)).collect())
            assert '{"undecoded":' in bodies
            assert [found in bodies for found in told] == [there] * len(told) != []
        short = tmp_path / "short.key"
        short.write_text("short")
        with pytest.raises(PythonException, match=r"hashKey: .*short\.key: holds 5 bytes; a key has 16 or more"):
            messages.option("hashKey", str(short)).load(str(undecoded)).collect()
    assert_absent(((tmp_path / "log").read_text() + plans(spark)).encode())


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_cluster_decrypts_and_neither_its_log_nor_its_plans_hold_a_secret(
    spark: Any, folder: Path, tmp_path: Path, logs: Sequence[KeyLog]
) -> None:
    names = [path.name for path in folder.iterdir()]
    shown = Redaction(payload=False, hash_key=HashKey(HASH_KEY.encode()))
    expected = decoded(folder, names, tmp_path / "decode", keys=logs, shown=shown)
    assert any("hmac_sha256" in row for row in expected["messages"])
    with logged(spark, tmp_path / "log"):
        hash_key = HashKey(HASH_KEY.encode())
        options = JobOptions(tls_keys=tuple(logs), partitions=2, redact=("payload",), hash_key=hash_key)
        run(spark, [str(folder)], str(tmp_path / "out"), options)
    assert differing(expected, committed(tmp_path / "out", hashes=True)) == {}
    log = (tmp_path / "log").read_text()
    assert "mqsniff-" in log  # it tells of the file, by its name
    assert "MapInArrow" in plans(spark)
    assert_absent((log + plans(spark)).encode())
