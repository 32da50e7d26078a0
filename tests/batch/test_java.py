"""Options for the JVM: an archive of classes is made when it is worth it, used when it is whole, and nobody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqsniff.batch import java

VERSION = 'openjdk version "17.0.15"\nOpenJDK 64-Bit Server VM (build 17.0.15+6, mixed mode, sharing)\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for archives, and no choice of the user's."""
    for name in ("SPARK_CONF_DIR", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("SPARK_CLASSPATH", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "jars").mkdir()
    return tmp_path / "cache" / "mqsniff"


def extra(tmp_path: Path, version: str = VERSION) -> list[str]:
    """Options beside those that are always given."""
    return java.options(version, tmp_path / "jars").split()[len(java.OPTIONS) :]


def archive_in(option: str) -> Path:
    return Path(option.partition("=")[2])


def test_the_second_session_makes_an_archive_and_the_third_uses_it(cache: Path, tmp_path: Path) -> None:
    assert extra(tmp_path) == []
    made, *quiet = extra(tmp_path)
    assert made.startswith("-XX:ArchiveClassesAtExit=")
    assert quiet == list(java.QUIET)
    archive = archive_in(made)
    assert archive.parent == cache
    archive.write_bytes(b"\xa8\xab\x0b\xf0 and the rest")
    assert extra(tmp_path) == [f"-XX:SharedArchiveFile={archive}", *java.QUIET]


@pytest.mark.usefixtures("cache")
def test_an_archive_without_its_head_was_not_made_to_its_end_and_is_made_again(tmp_path: Path) -> None:
    extra(tmp_path)
    made = extra(tmp_path)
    archive_in(made[0]).write_bytes(bytes(4096))
    assert extra(tmp_path) == made


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("change", ["java", "spark"])
def test_another_java_or_another_spark_begins_anew(tmp_path: Path, change: str) -> None:
    extra(tmp_path)
    archive_in(extra(tmp_path)[0]).write_bytes(b"whole")
    version = VERSION.replace("17.0.15", "17.0.16") if change == "java" else VERSION
    if change == "spark":
        os.utime(tmp_path / "jars", (1, 1))
    assert extra(tmp_path, version) == []


def test_few_archives_stay(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(mode=0o700, parents=True)
    for age in range(5):
        (cache / f"spark-{age}.jsa").write_bytes(b"whole")
        os.utime(cache / f"spark-{age}.jsa", (1000 - age, 1000 - age))
    extra(tmp_path)
    extra(tmp_path)
    assert sorted(path.name for path in cache.glob("*.jsa")) == ["spark-0.jsa", "spark-1.jsa"]


@pytest.mark.usefixtures("cache")
def test_there_is_no_archive_of_classes_in_folders_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert [extra(tmp_path) for _ in range(2)] == [[], []]


@pytest.mark.usefixtures("cache")
def test_there_is_no_archive_where_java_itself_has_none(tmp_path: Path) -> None:
    assert [extra(tmp_path, VERSION.replace(", sharing", "")) for _ in range(2)] == [[], []]


def test_there_is_no_archive_in_a_folder_that_others_write_to(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert [extra(tmp_path) for _ in range(2)] == [[], []]


def test_there_is_no_archive_where_no_folder_can_be(cache: Path, tmp_path: Path) -> None:
    cache.parent.write_text("a file")
    assert [extra(tmp_path) for _ in range(2)] == [[], []]


@pytest.mark.usefixtures("cache")
def test_there_is_no_archive_under_a_name_that_needs_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert [extra(tmp_path) for _ in range(2)] == [[], []]
