"""File systems of URIs: names and settings of Hadoop, what is missing, and the times that fsspec gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqsniff.batch import filesystems
from mqsniff.batch.filesystems import FileSystemError, normal_uri, open_filesystem, with_settings
from mqsniff.batch.inputs import InputError, _uri_of, list_inputs, read_range
from mqsniff.batch.sourceoptions import SourceRequest
from mqsniff.batch.store import Store, shown_uri

KEYS = {"fs.s3a.access.key": "K", "fs.s3a.secret.key": "s/e+c"}
ENDPOINT = {"fs.s3a.endpoint": "http://10.0.0.7:9000", "fs.s3a.path.style.access": "false"}
CLOUD = {"fs.s3a.endpoint": "oss.example.com", "fs.s3a.connection.ssl.enabled": "false"}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("s3a://taps/x", "s3://taps/x"),
        ("S3N://taps/x", "s3://taps/x"),
        ("wasbs://taps@me.blob.core.windows.net/x", "abfss://taps@me.blob.core.windows.net/x"),
        ("hdfs://host/x", "hdfs://host/x"),
        ("/data/s3a/x", "/data/s3a/x"),
    ],
)
def test_names_of_hadoop_mean_file_systems_of_pyarrow(given: str, meant: str) -> None:
    assert normal_uri(given) == meant
    assert normal_uri(meant) == meant


def test_dbfs_is_a_folder_where_it_is_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystems, "_DBFS", str(tmp_path))
    (tmp_path / "taps").mkdir()
    (tmp_path / "taps" / "1.pcap").write_bytes(b"x")
    for given in ("dbfs:/taps", "dbfs:///taps"):
        assert [file.uri for file in list_inputs([given])] == [f"{tmp_path}/taps/1.pcap"]
        assert Store.at(given).folder == tmp_path / "taps"
    monkeypatch.setattr(filesystems, "_DBFS", str(tmp_path / "none"))
    assert normal_uri("dbfs:/taps") == "dbfs:///taps"


@pytest.mark.parametrize(
    ("given", "settings", "meant"),
    [
        ("s3a://b/x", {}, "s3://b/x"),
        ("s3://b/x", KEYS, "s3://b/x"),
        ("/b/x", KEYS, "/b/x"),
        ("s3a://b/x", KEYS, "s3://K:s%2Fe%2Bc@b/x"),
        ("s3a://me:own@b/x", KEYS, "s3://me:own@b/x"),
        ("s3a://b/x", KEYS | {"fs.s3a.bucket.b.access.key": "B"}, "s3://B:s%2Fe%2Bc@b/x"),
        ("s3a://b/x", KEYS | {"fs.s3a.session.token": "T="}, "s3://K:s%2Fe%2Bc@b/x?session_token=T%3D"),
        ("s3a://b/x", ENDPOINT, "s3://b/x?endpoint_override=10.0.0.7%3A9000&scheme=http"),
        ("s3a://b/x", CLOUD, "s3://b/x?endpoint_override=oss.example.com&scheme=http&force_virtual_addressing=true"),
        ("s3a://b/x", {"fs.s3a.endpoint.region": "eu-west-1"}, "s3://b/x?region=eu-west-1"),
        ("s3a://b/x?region=here", {"fs.s3a.endpoint.region": "eu-west-1"}, "s3://b/x?region=here"),
        ("hdfs:///x", {"fs.defaultFS": "hdfs://nn:8020"}, "hdfs://nn:8020/x?web_user=me"),
        ("hdfs://nn/x", {"dfs.namenode.http-address": "0.0.0.0:9"}, "hdfs://nn/x?web=0.0.0.0%3A9&web_user=me"),
        ("hdfs://you@nn/x", {}, "hdfs://you@nn/x?web_user=you"),
        (
            "wasbs://c@me.blob.core.windows.net/x",
            {"fs.azure.account.key.me.blob.core.windows.net": "k=="},
            "abfss://c:k%3D%3D@me.blob.core.windows.net/x",
        ),
    ],
)
def test_settings_of_hadoop_are_in_the_uri(
    given: str, settings: dict[str, str], meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "me")
    assert with_settings(given, settings.get) == meant
    for secret in ("s/e+c", "s%2Fe%2Bc", "T%3D", "k%3D"):
        assert secret not in shown_uri(meant)


def test_settings_of_a_data_source_are_in_a_file_of_hadoop(tmp_path: Path) -> None:
    place = tmp_path / "core-site.xml"
    place.write_text(
        "<configuration><property><name>fs.s3a.access.key</name><value>K</value></property>"
        "<property><name>fs.s3a.secret.key</name><value>S</value></property></configuration>"
    )
    options = {"path": "s3a://b/x", "storage": str(place)}
    request = SourceRequest.of(options)
    assert request.paths == ("s3://K:S@b/x",)
    assert "K:S" not in repr(request)
    assert SourceRequest.of({"path": "/b/x", "storage": str(place)}).paths == ("/b/x",)
    with pytest.raises(ValueError, match=r"^option storage: .*gone: no such file or directory$"):
        SourceRequest.of(options | {"storage": str(tmp_path / "gone")})
    for text in ("<x", "<x/>"):
        place.write_text(text)
        with pytest.raises(ValueError, match=r"no xml file of hadoop$"):
            SourceRequest.of(options)


def test_keys_of_hadoop_open_s3_and_are_shown_nowhere() -> None:
    settings = KEYS | CLOUD | {"fs.s3a.session.token": "T", "fs.s3a.endpoint.region": "x"}
    uri = with_settings("s3a://b/a b/c", settings.get)
    opened = open_filesystem(uri)
    assert (opened.filesystem.type_name, opened.path, opened.renames) == ("s3", "b/a b/c", False)
    assert "s%2Fe" not in shown_uri(uri)
    assert "token" not in shown_uri(uri)
    assert _uri_of(uri, "b/a b/c/1.pcap") == "s3://b/a b/c/1.pcap"


def test_the_container_of_azure_is_no_user() -> None:
    uri = "abfss://taps:KEY@me.dfs.core.windows.net/x"
    assert shown_uri(uri) == "abfss://taps@me.dfs.core.windows.net/x"
    assert _uri_of(uri, "taps/x/1.pcap") == "abfss://taps@me.dfs.core.windows.net/x/1.pcap"
    opened = open_filesystem(uri.replace("KEY", "S0VZ"))
    assert (opened.filesystem.type_name, opened.path) == ("abfs", "taps/x")


def test_what_nothing_opens_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^nosuch://host/x: neither pyarrow nor fsspec opens nosuch://$"):
        list_inputs(["nosuch://host/x"])
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(FileSystemError, match=r"does not open oss://, .* pip install fsspec ossfs$"):
        open_filesystem("oss://bucket/x")
    with pytest.raises(FileSystemError, match=r"libhdfs .* is missing .* pip install fsspec requests$"):
        open_filesystem("hdfs://without-fsspec:8020/x")


def test_webhdfs_has_the_user_of_hadoop_and_the_port_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(filesystems, "_open_by_fsspec", asked.append)
    monkeypatch.setattr(filesystems, "_open_by_pyarrow", _no_library)
    monkeypatch.setenv("HADOOP_USER_NAME", "me")
    open_filesystem.cache_clear()
    for uri in (
        "hdfs://nn:8020/a b",
        "hdfs://you@nn/x",
        "hdfs://nn/x?web=0.0.0.0:1&web_user=her",
        "hdfs://nn/x?web=w:2",
    ):
        open_filesystem(uri)
    open_filesystem.cache_clear()
    assert asked == [
        "webhdfs://me@nn:9870/a b",
        "webhdfs://you@nn:9870/x",
        "webhdfs://her@nn:1/x",
        "webhdfs://me@w:2/x",
    ]


@pytest.mark.parametrize("scheme", ["file", "s3", "gs", "gcs", "abfs", "abfss", "viewfs", "memory", "oss"])
def test_pyarrow_opens_what_it_knows_and_fsspec_the_rest(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    monkeypatch.setattr(filesystems, "_open_by_pyarrow", lambda uri: opened.append(("pyarrow", uri)))
    monkeypatch.setattr(filesystems, "_open_by_fsspec", lambda uri: opened.append(("fsspec", uri)))
    open_filesystem.cache_clear()
    open_filesystem(f"{scheme}://host/x")
    open_filesystem.cache_clear()
    assert opened == [("fsspec" if scheme in ("memory", "oss") else "pyarrow", f"{scheme}://host/x")]


def _no_library(_uri: str) -> None:
    raise OSError("no libhdfs")


def test_file_systems_of_fsspec_list_read_and_write() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    store = Store.at("memory://out")
    store.replace("runs/1", b"one")
    store.replace("runs/1", b"another")
    assert store.read("runs/1") == b"another"
    assert [file.path for file in store.files()] == ["runs/1"]
    assert store.read("runs/2") is None
    memory.pipe("/taps/a/1.pcap", b"0123456789")
    memory.pipe("/taps/a/notes.txt", b"x")
    (listed,) = list_inputs(["memory://taps"])
    assert (listed.size, read_range(listed.location, 2, 5)) == (10, b"234")
    memory.rm("/", recursive=True)


@pytest.mark.parametrize(("name", "time"), [("modificationTime", 1_500), ("mtime", 1.5), ("LastModified", None)])
def test_times_of_fsspec_have_many_names(name: str, time: Any) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    handler = filesystems._timed_handler(memory)
    info = handler._create_file_info("x", {"size": 1, "type": "file", name: time})
    assert info.mtime_ns == (None if time is None else 1_500_000_000)


def test_a_file_that_was_not_moved_is_an_error() -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe("/here", b"x")
    handler = filesystems._timed_handler(memory)
    handler.fs = _NothingMoves(memory)
    with pytest.raises(FileExistsError):
        handler.move("/here", "/there")
    memory.rm("/here")


class _NothingMoves:
    """A file system whose moves do nothing, as WebHDFS onto an existing file."""

    def __init__(self, filesystem: Any) -> None:
        self.exists = filesystem.exists

    def mv(self, *_paths: str, **_options: bool) -> None:
        """Nothing."""
