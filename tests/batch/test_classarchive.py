"""Archives of Spark's classes: which sessions make one, which start from it, and when nobody trusts it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqsniff.batch.classarchive import CLASSES, archive_options

JVM = ("-XX:+UseParallelGC",)
ARCHIVE = b"\xf0\x0b\xab\xa8 classes"


class User:
    """A user with a home of their own, and a Java."""

    def __init__(self, home: Path) -> None:
        self.java = home / "java"
        (self.java / "lib" / "server").mkdir(parents=True)
        (self.java / "bin").mkdir()
        (self.java / "bin" / "java").touch()
        (self.java / "lib" / "server" / "libjvm.so").touch()
        self.cache = home / "cache"
        self.environment = {"JAVA_HOME": str(self.java), "XDG_CACHE_HOME": str(self.cache)}

    @property
    def folder(self) -> Path:
        return self.cache / "mqsniff"

    def session(self, options: tuple[str, ...] = JVM) -> str:
        """What a session does: an option's name and a file, or nothing."""
        given = archive_options(options, self.environment)
        assert not given or given[1:] == ("-Xlog:cds*=off", "-Xlog:class+path=off")  # the report stands alone on stdout
        return given[0] if given else ""

    def made(self, content: bytes = ARCHIVE) -> Path:
        """The archive, after two sessions."""
        self.session()
        archive = Path(self.session().removeprefix("-XX:ArchiveClassesAtExit="))
        archive.write_bytes(content)
        archive.chmod(0o444)
        return archive


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    before = os.umask(0o022)
    yield User(tmp_path)
    os.umask(before)


def test_the_second_session_makes_the_archive_and_later_ones_start_from_it(user: User) -> None:
    assert user.session() == ""
    archive = user.made()
    assert archive.parent == user.folder
    assert user.folder.stat().st_mode & 0o777 == 0o700
    assert [user.session() for _ in range(2)] == [f"-XX:SharedArchiveFile={archive}"] * 2


def test_a_machine_where_it_cannot_be_made_stops_to_try(user: User) -> None:
    does = [user.session().partition("=")[0] for _ in range(7)]
    assert does == ["", *["-XX:ArchiveClassesAtExit"] * 3, "", "", ""]


def test_an_archive_that_was_not_written_to_its_end_is_made_again(user: User) -> None:
    archive = user.made(bytes(4096) + b"classes")
    assert user.session() == f"-XX:ArchiveClassesAtExit={archive}"


def test_another_java_and_other_options_have_an_archive_of_their_own(user: User) -> None:
    user.made()
    assert user.session((*JVM, "-XX:TieredStopAtLevel=1")) == ""
    (user.java / "lib" / "server" / "libjvm.so").write_bytes(b"a newer one")
    assert user.session() == ""


@pytest.mark.parametrize("what", ["folder", "archive"])
def test_nothing_that_others_may_write_to_is_used(user: User, what: str) -> None:
    archive = user.made()
    (user.folder if what == "folder" else archive).chmod(0o777)
    assert user.session() == ""


def test_a_link_is_not_used(user: User, tmp_path: Path) -> None:
    archive = user.made()
    archive.rename(tmp_path / "elsewhere")
    archive.symlink_to(tmp_path / "elsewhere")
    assert user.session() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["cache", "folder", "archive"])
def test_nothing_of_another_user_is_used(user: User, what: str) -> None:
    archive = user.made()
    os.chown({"cache": user.cache, "folder": user.folder, "archive": archive}[what], 12345, -1)
    assert user.session() == ""


def test_no_folder_is_made_in_the_home_of_another_user(user: User, tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("only root can give files away")
    os.chown(tmp_path, 12345, -1)
    assert [user.session() for _ in range(2)] == ["", ""]
    assert not user.cache.exists()


@pytest.mark.parametrize("name", ["SPARK_HOME", "HADOOP_CONF_DIR", "SPARK_CLASSPATH", "PYSPARK_SUBMIT_ARGS"])
def test_with_classes_of_the_user_there_is_no_archive(user: User, name: str) -> None:
    user.environment[name] = "--driver-class-path /opt/mine pyspark-shell"
    assert [user.session() for _ in range(2)] == ["", ""]
    assert not user.cache.exists()


def test_a_java_of_another_kind_has_no_archive(user: User) -> None:
    (user.java / "lib" / "server" / "libjvm.so").unlink()
    assert [user.session() for _ in range(2)] == ["", ""]


def test_archives_that_nobody_used_for_long_go_when_another_one_is_made(user: User) -> None:
    old, used = user.folder / "spark-old.jsa", user.folder / "spark-used.jsa"
    user.folder.mkdir(mode=0o700, parents=True)
    for archive in (old, used):
        archive.touch()
    os.utime(old, (time.time() - 61 * 24 * 3600,) * 2)
    user.made()
    assert used.exists()
    assert not old.exists()


def test_a_file_that_the_user_names_is_made_by_the_first_session(user: User, tmp_path: Path) -> None:
    archive = tmp_path / "mine.jsa"
    user.environment[CLASSES] = str(archive)
    assert user.session() == f"-XX:ArchiveClassesAtExit={archive}"
    archive.write_bytes(ARCHIVE)
    assert user.session() == f"-XX:SharedArchiveFile={archive}"
    assert not user.cache.exists()


def test_an_empty_name_turns_it_off(user: User) -> None:
    user.environment[CLASSES] = ""
    assert [user.session() for _ in range(3)] == [""] * 3
    assert not user.cache.exists()
