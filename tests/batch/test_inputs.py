"""Inputs: what paths, folders, globs and URIs name, how files are called, and their bytes."""

import errno
import os

import pytest

from mqsniff.batch import inputs
from mqsniff.batch.inputs import (
    ByteRange,
    ChangedError,
    InputError,
    Location,
    list_inputs,
    names_of,
    read_range,
    why,
    why_changed,
)

NAMES = ("a/1.pcap", "a/2.PCAPNG.gz", "a/b/3.pcap12", "a/b/notes.txt", "c/4.cap", "c/odd")


@pytest.fixture
def archive(tmp_path, monkeypatch):
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*given):
    return names_of([file.uri for file in list_inputs(given)])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["."], ["a/1.pcap", "a/2.PCAPNG.gz", "a/b/3.pcap12", "c/4.cap"]),
        (["a"], ["1.pcap", "2.PCAPNG.gz", "b/3.pcap12"]),
        (["a/1.pcap"], ["1.pcap"]),
        (["c/odd", "c"], ["4.cap", "odd"]),
        (["c/o*"], ["odd"]),
        (["*/[14].*"], ["a/1.pcap", "c/4.cap"]),
        (["**/*.pcap*"], ["1.pcap", "b/3.pcap12"]),
        (["a/b*"], ["3.pcap12"]),
        (["a/1.pcap", "./a/../a/1.pcap", "a"], ["1.pcap", "2.PCAPNG.gz", "b/3.pcap12"]),
        (["a/gone.pcap", "c/4.cap"], ["a/gone.pcap", "c/4.cap"]),
    ],
)
@pytest.mark.usefixtures("archive")
def test_paths_folders_and_globs_name_files_once(given, found):
    assert names(*given) == found


@pytest.mark.parametrize("given", ["a/*.nothing", "empty"])
def test_a_glob_or_folder_without_captures_is_an_error(archive, given):
    (archive / "empty").mkdir()
    with pytest.raises(InputError, match="no captures there"):
        list_inputs([given])


def test_a_uri_names_the_files_that_its_path_names(archive):
    local = list_inputs([str(archive)])
    for given in (
        archive.as_uri(),
        (archive / "a").as_uri(),
        f"{archive.as_uri()}/**/*.p*",
        f"{archive.as_uri()}/?/1*",
    ):
        remote = list_inputs([given])
        known = {file.uri: file for file in local}
        assert remote
        for file in remote:
            own = known[file.uri.removeprefix("file://")]
            assert (file.size, file.mtime_ns) == (own.size, own.mtime_ns)
            assert file.location.store == given
            assert read_range(file.location, 2, 5) == read_range(own.location, 2, 5)
    assert len(list_inputs([archive.as_uri()])) == len(local)
    assert len(list_inputs([f"{archive.as_uri()}/**/*.p*"])) == 2
    assert [file.uri for file in list_inputs([f"{archive.as_uri()}/c/odd"])] == [f"{archive.as_uri()}/c/odd"]


def test_names_are_relative_to_what_all_have_in_common():
    assert names_of(["/data/x/1.pcap", "/data/xy/2.pcap"]) == ["x/1.pcap", "xy/2.pcap"]
    assert names_of(["s3://one/1.pcap", "s3://two/a/2.pcap"]) == ["one/1.pcap", "two/a/2.pcap"]
    assert names_of(["/data/1.pcap", "s3://two/2.pcap"]) == ["/data/1.pcap", "s3://two/2.pcap"]
    assert names_of([]) == []


def test_credentials_are_in_no_uri_and_in_no_error():
    for given in ("s3://KEY:SECRET@bucket/x?nonsense=SECRET", "nothing://SECRET@x/y", "s3://SECRET@[x/y"):
        with pytest.raises(InputError) as caught:
            list_inputs([given])
        assert "SECRET" not in str(caught.value)
    assert inputs._uri_of("s3://KEY:SECRET@bucket/x?token=SECRET", "bucket/x/1.pcap") == "s3://bucket/x/1.pcap"
    assert inputs._uri_of("hdfs://user@host:8020/x", "/x/1.pcap") == "hdfs://host:8020/x/1.pcap"


@pytest.mark.parametrize("store", ["", "file:///"])
def test_a_range_gives_its_bytes_and_no_others(tmp_path, store):
    path = tmp_path / "x"
    path.write_bytes(bytes(range(100)))
    location = Location(str(path), store)
    for start, stop, expected in ((0, None, 100), (10, 20, 10), (90, 200, 10), (200, 300, 0), (7, 7, 0)):
        source = ByteRange(location, start, stop)
        assert source.size == expected
        assert source.head(4) == bytes(range(100))[start:][: min(4, expected)]
        found = b"".join(iter(lambda source=source: source.read(7), b""))
        assert found == bytes(range(100))[start:stop]
        assert source.taken == expected
        source.close()


@pytest.mark.parametrize("store", ["", "file:///"])
def test_a_file_that_is_not_there_says_so_without_its_path(tmp_path, store):
    with pytest.raises(OSError) as caught:  # noqa: PT011  # the reason is checked below
        ByteRange(Location(str(tmp_path / "gone"), store))
    assert why(caught.value) == "no such file or directory"


@pytest.mark.parametrize("given", ["{}", "file://{}"])
def test_a_file_that_changes_gives_no_byte_more_whoever_opens_it(tmp_path, given):
    path = tmp_path / "x.pcap"
    path.write_bytes(bytes(100))
    (listed,) = list_inputs([given.format(path)])
    assert why_changed(listed.location) == ""
    source = ByteRange(listed.location)
    assert source.read(10) == bytes(10)
    os.utime(path, ns=(0, listed.mtime_ns + 1_000))
    with pytest.raises(ChangedError):
        source.read(100)
    source.close()
    for stop in (0, 50, None):
        with pytest.raises(ChangedError, match="changed since it was listed"):
            ByteRange(listed.location, 0, stop)
    assert why_changed(listed.location) == "changed since it was listed"
    os.utime(path, ns=(0, listed.mtime_ns))
    assert read_range(listed.location, 0, 100) == bytes(100)
    path.write_bytes(bytes(101))
    os.utime(path, ns=(0, listed.mtime_ns))
    with pytest.raises(ChangedError):
        read_range(listed.location, 0, 100)
    path.unlink()
    assert why_changed(listed.location) == "no such file or directory"


def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            ByteRange(Location(str(path)))


def test_a_read_that_fails_ends_the_bytes_with_a_reason(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"data")
    source = ByteRange(Location(str(path)))
    folder = os.open(tmp_path, os.O_RDONLY)
    os.dup2(folder, source._file.fileno())
    os.close(folder)
    assert source.read(4) == b""
    assert source.failure == "reading failed: is a directory"
    source.close()


def test_a_folder_that_cannot_be_read_is_named_and_hides_no_other(archive, monkeypatch):
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("/a/b"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = {file.uri: file for file in list_inputs([str(archive)])}
    assert names(".") == ["a/1.pcap", "a/2.PCAPNG.gz", "a/b", "c/4.cap"]
    assert why_changed(found[f"{archive}/a/b"].location) == "permission denied"
    monkeypatch.undo()
    assert why_changed(found[f"{archive}/a/b"].location) == "not a regular file"


def test_links_to_folders_are_not_followed_and_links_to_files_are(archive):
    (archive / "c" / "loop").symlink_to(archive)
    (archive / "c" / "link.pcap").symlink_to(archive / "a" / "1.pcap")
    (archive / "c" / "gone.pcap").symlink_to(archive / "nothing")
    assert names("c") == ["4.cap", "link.pcap"]


def test_many_folders_and_files_are_listed_once_each(tmp_path):
    wanted = []
    for folder in range(40):
        (tmp_path / f"{folder}").mkdir()
        for file in range(300 if not folder else 3):
            path = tmp_path / f"{folder}" / f"{file}.pcap"
            path.write_bytes(bytes(file % 7))
            wanted.append((str(path), file % 7))
    assert [(file.uri, file.size) for file in list_inputs([str(tmp_path)])] == sorted(wanted)
