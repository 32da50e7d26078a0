"""Captures in, and tables out, on an S3 server of this machine (moto), as Hadoop names and configures it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from batchrows import PCAPS, committed, decoded, differing
from pyarrow.fs import LocalFileSystem, S3FileSystem, copy_files

from mqsniff.batch.commit import Archive
from mqsniff.batch.datasource import register
from mqsniff.batch.filesystems import with_settings
from mqsniff.batch.inputs import list_inputs, read_range
from mqsniff.batch.spark import run
from mqsniff.batch.sparksteps import hadoop_setting
from mqsniff.batch.store import Store

pytest.importorskip("moto.server", reason="pip install 'moto[server]'")

NAMES = ("nsq-1.3.0-auth.pcap", "nsqlookupd-1.3.0-raw.pcap")
KEY, SECRET = "KEY-of-a-test", "a/SECRET+of=a-test"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of a server with two captures in the bucket ``taps``, and an empty bucket ``tables``."""
    from moto.server import ThreadedMotoServer  # it may be missing

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    address = "{}:{}".format(*server.get_host_and_port())
    client = S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=address,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    for bucket in ("taps", "tables"):
        client.create_dir(bucket)
    for name in NAMES:
        with client.open_output_stream(f"taps/site a/{name}") as stream:
            stream.write((PCAPS / "nsq" / name).read_bytes())
    yield address
    server.stop()


@pytest.fixture
def configured(spark: Any, endpoint: str) -> Iterator[Any]:
    """A session whose Hadoop configuration knows the server and the keys."""
    settings = {
        "fs.s3a.endpoint": f"http://{endpoint}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


def test_sparks_name_for_s3_lists_and_reads_with_hadoops_settings(configured: Any) -> None:
    setting = hadoop_setting(configured)
    for given in ("s3a://taps/site a", "s3n://taps/**/*.pcap", "s3a://taps"):
        listed = list_inputs([with_settings(given, setting)])
        assert [file.uri for file in listed] == [f"s3://taps/site a/{name}" for name in NAMES]
        for file, name in zip(listed, NAMES, strict=True):
            data = (PCAPS / "nsq" / name).read_bytes()
            assert read_range(file.location, 0, len(data)) == data
    (one,) = list_inputs([with_settings(f"s3a://taps/site a/{NAMES[0]}?session_token=T", setting)])
    assert read_range(one.location, 0, 4) == (PCAPS / "nsq" / NAMES[0]).read_bytes()[:4]


def test_a_job_reads_and_writes_s3_and_tells_nobody_the_keys(configured: Any, tmp_path: Path) -> None:
    expected = decoded(PCAPS / "nsq", NAMES, tmp_path / "decode")
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        report = run(configured, ["s3a://taps/site a"], "s3a://tables/mq", partitions=2)
        again = run(configured, ["s3a://taps"], "s3a://tables/mq")
    assert (report.status, again.status) == ("finished", "nothing to do")
    store = Store.at(with_settings("s3a://tables/mq", hadoop_setting(configured)))
    copy_files(
        store.root, str(tmp_path / "copy"), source_filesystem=store.filesystem, destination_filesystem=LocalFileSystem()
    )
    assert differing(expected, committed(tmp_path / "copy")) == {}
    (manifest,) = Archive(Store.at(str(tmp_path / "copy"))).runs()
    everything = said.getvalue() + repr(report) + repr(manifest)
    everything += "".join(
        path.read_bytes().decode("latin-1") for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    assert "s3://taps/site a" in everything
    assert not [secret for secret in (KEY, SECRET) if secret in everything]


def test_the_data_source_reads_s3_with_a_file_of_settings(spark: Any, endpoint: str, tmp_path: Path) -> None:
    place = tmp_path / "core-site.xml"
    settings = {"endpoint": f"http://{endpoint}", "endpoint.region": "us-east-1", "path.style.access": "true"}
    settings |= {"access.key": KEY, "secret.key": SECRET}
    properties = (
        f"<property><name>fs.s3a.{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    place.write_text(f"<configuration>{''.join(properties)}</configuration>")
    register(spark)
    packets = spark.read.format("mqsniff").option("storage", str(place)).option("columns", "size")
    local = spark.read.format("mqsniff").load([str(PCAPS / "nsq" / name) for name in NAMES])
    found = packets.load("s3a://taps")
    assert found.count() == local.count() > 0
    plan = found._jdf.queryExecution().toString()
    assert not [secret for secret in (KEY, SECRET) if secret in plan]
