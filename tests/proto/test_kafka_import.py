"""Taking in a release of Kafka: its definitions become pages, and nothing that we could read is lost."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from kafka_import import Book, block_of, definitions_in, read_definition, snake_case, strip_comments, take_in
from kafka_merge import bytes_of, inside, layout
from kafka_notation import Block, Page, parse_page, print_page

HOME = Path(__file__).parents[2] / "proto" / "kafka"

RELEASES = "# What changed.\n\n1.0\n  Sample  0-2\n  Other   0\n"

SAMPLE = """\
# Made for this test.
api 7 Sample listeners broker

request 0-2  flexible 2+
  group_id  string     @group_id
  old_hint  int16      0-1
  topics    []Topic?1+
    name    string       @topic_name  # looked at by hand
    mode    int8         1+           @sample_mode

response 0-2  flexible 2+
  error_code  int16  @error
"""

OTHER = "api 8 Other\n\nrequest 0\n  id  int32\n\nresponse 0\n  id  int32\n"


def definition(kind: str = "request", key: int = 7, name: str = "Sample", **rest: Any) -> dict[str, Any]:
    usual = {"flexibleVersions": "2+", "fields": [{"name": "ErrorCode", "type": "int16", "versions": "0+"}]}
    return {"apiKey": key, "type": kind, "name": f"{name}{kind.capitalize()}", "validVersions": "0-2"} | usual | rest


NEW_FIELDS = [
    {"name": "GroupId", "type": "string", "versions": "0+", "entityType": "groupId", "about": "Words of Kafka's."},
    {
        "name": "Topics",
        "type": "[]Topic",
        "versions": "0+",
        "nullableVersions": "1+",
        "fields": [
            {"name": "TopicName", "type": "string", "versions": "3+"},
            {"name": "Name", "type": "string", "versions": "0-2", "entityType": "topicName", "mapKey": True},
            {"name": "Mode", "type": "int8", "versions": "1+", "default": 1},
        ],
    },
    {"name": "AuthBytes", "type": "bytes", "versions": "3+", "tag": "0", "taggedVersions": "3+", "default": None},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A small proto/kafka."""
    home = tmp_path / "kafka"
    (home / "apis").mkdir(parents=True)
    (home / "apis" / "sample.kafka").write_text(print_page(parse_page(SAMPLE)))
    (home / "apis" / "other.kafka").write_text(OTHER)
    (home / "releases.txt").write_text(RELEASES)
    return home


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory of definitions that a test fills."""
    source = tmp_path / "source" / "clients" / "src" / "main" / "resources"
    source.mkdir(parents=True)
    return source


def put(source: Path, *definitions: dict[str, Any]) -> None:
    for one in definitions:
        (source / f"{one['name']}.json").write_text("// Licensed\n" + json.dumps(one))


def page(home: Path, name: str = "sample") -> Page:
    return parse_page((home / "apis" / f"{name}.kafka").read_text())


def request(home: Path, variant: str = "") -> Block:
    (block,) = (one for one in page(home).blocks if one.kind == "request" and one.variant == variant)
    return block


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("TopicId", "topic_id"),
        ("KRaftVersion", "kraft_version"),
        ("IsKRaftController", "is_kraft_controller"),
        ("V0Host", "v0_host"),
        ("Enable2Pc", "enable2_pc"),
        ("Isr", "isr"),
    ],
)
def test_a_capital_starts_a_word_unless_a_capital_stands_before_it(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_comments_are_no_json_but_what_looks_like_one_in_a_string_is() -> None:
    text = '{ // one\n "a": "http://x/*y*/", /* two\n lines */ "b": "\\"//"}'
    assert json.loads(strip_comments(text)) == {"a": "http://x/*y*/", "b": '"//'}


def test_text_behind_a_definition_is_ignored_and_other_json_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(definition()) + "\n} // left over")
    (tmp_path / "b.json").write_text('{"just": "json"}')
    (tmp_path / "c.json").write_text("no json")
    assert [bool(read_definition(tmp_path / name)) for name in ("a.json", "b.json", "c.json")] == [True, False, False]


def test_a_definition_becomes_a_block() -> None:
    text = print_page(Page([block_of(definition(validVersions="1-3", fields=NEW_FIELDS))], key=7, name="Sample"))
    assert text == (
        "api 7 Sample\n\n"
        "request 1-3  flexible 2+\n"
        "  group_id      string         @group_id\n"
        "  topics        []Topic?\n"
        "    topic_name  string    3+\n"
        "    name        string    1-2  @topic_name\n"
        "    mode        int8           = 1\n"
        "  auth_bytes    bytes     3+   tag 0  = null\n"
    )


def test_new_and_dropped_versions_live_in_one_definition_and_marks_stay(home: Path, source: Path) -> None:
    put(source, definition(validVersions="1-3", fields=NEW_FIELDS), definition("response", validVersions="1-3"))
    old = request(home)
    notes = take_in(source, home, "1.1")
    new = request(home)
    assert (new.versions, new.legacy) == ("0-3", "0")
    assert layout(new, 0) == layout(old, 0)
    (topics,) = (one for one in new.fields if one.name == "topics")
    marks = {one.name: (one.marks, one.comment) for one in topics.fields}
    assert marks == {
        "topic_name": ([], ""),
        "name": (["topic_name"], "looked at by hand"),
        "mode": (["sample_mode"], ""),
    }
    assert page(home).comment == ["Made for this test."]
    assert "SampleRequest: new versions [3]" in notes
    assert "SampleRequest: versions [0] dropped, kept as legacy" in notes
    assert "SampleRequest: auth_bytes is bytes: a secret, or a format of its own?" in notes


def test_a_version_that_means_other_bytes_keeps_its_old_meaning_as_a_variant(home: Path, source: Path) -> None:
    fields = [*NEW_FIELDS[:2], {"name": "OldHint", "type": "int64", "versions": "1+"}]
    put(source, definition(validVersions="0-2", fields=fields), definition("response"))
    old = request(home)
    notes = take_in(source, home, "1.1")
    assert any("versions [0, 1, 2] mean other bytes now" in note for note in notes)
    kept = request(home, "before-1.1")
    assert kept.versions == "0-2"
    assert [layout(kept, version) for version in range(3)] == [layout(old, version) for version in range(3)]


def test_a_new_name_or_a_new_tag_is_no_other_meaning(home: Path, source: Path) -> None:
    fields = [
        {"name": "GroupName", "type": "string", "versions": "0+"},
        {"name": "OldHint", "type": "int16", "versions": "0-1"},
        NEW_FIELDS[1] | {"fields": NEW_FIELDS[1]["fields"][1:]},  # type: ignore[dict-item]
        {"name": "Extra", "type": "int8", "versions": "2+", "tag": 0, "taggedVersions": "2+"},
    ]
    put(source, definition(fields=fields), definition("response"))
    take_in(source, home, "1.1")
    assert [block.variant for block in page(home).blocks] == ["", ""]
    assert [one.name for one in request(home).fields] == ["group_name", "old_hint", "topics", "extra"]


def test_an_api_that_is_gone_stays_whole_as_legacy(home: Path, source: Path) -> None:
    gone = {"validVersions": "none", "fields": []}
    put(source, definition(), definition("response"), definition(key=8, name="Other", **gone))
    put(source, definition("response", key=8, name="Other", **gone))
    take_in(source, home, "1.1")
    assert [(block.versions, block.legacy) for block in page(home, "other").blocks] == [("0", "0"), ("0", "0")]
    assert "Other" in (home / "releases.txt").read_text().partition("1.1")[2]


def test_a_new_api_gets_a_page_and_a_renamed_one_keeps_its_own(home: Path, source: Path) -> None:
    put(source, definition(name="Example"), definition("response", name="Example"))
    put(source, definition(key=95, name="BrandNew"), definition("response", key=95, name="BrandNew"))
    notes = take_in(source, home, "1.1")
    assert page(home).name == "Example"
    assert page(home, "brand_new").key == 95
    assert "BrandNewRequest: new" in notes
    assert "Other: not in this release; its page stays as it was" in notes


def test_releases_get_a_line_of_what_changed(home: Path, source: Path) -> None:
    put(source, definition(validVersions="1-3", fields=NEW_FIELDS, latestVersionUnstable=True))
    put(source, definition("response", validVersions="1-3"))
    take_in(source, home, "1.1")
    assert (home / "releases.txt").read_text().endswith("\n1.1\n  Sample  1-3  unstable\n  Other   none\n")


def test_records_go_to_the_page_of_their_module(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source" / "group-coordinator" / "src" / "main"
    folder.mkdir(parents=True)
    record = {"type": "coordinator-key", "apiKey": 3, "validVersions": "0", "flexibleVersions": "none"}
    put(folder, record | {"name": "SampleKey", "fields": [{"name": "Group", "type": "string", "versions": "0"}]})
    put(folder, definition(), definition("response"))
    take_in(tmp_path / "source", home, "1.1")
    text = (home / "records" / "consumer_offsets.kafka").read_text()
    assert text == "key 3 SampleKey 0\n  group  string\n"


def test_definitions_of_kafkas_own_tests_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "clients" / "src" / "test" / "resources"
    folder.mkdir(parents=True)
    put(folder, definition())
    assert list(definitions_in(tmp_path)) == []


def test_a_directory_without_definitions_changes_nothing(home: Path, tmp_path: Path) -> None:
    before = {path: path.read_text() for path in home.rglob("*") if path.is_file()}
    assert take_in(tmp_path / "nowhere", home, "1.1") == ["no message definitions found: nothing changed"]
    assert {path: path.read_text() for path in home.rglob("*") if path.is_file()} == before


def test_taking_in_the_same_twice_changes_nothing_more(home: Path, source: Path) -> None:
    put(source, definition(validVersions="1-3", fields=NEW_FIELDS), definition("response", validVersions="1-3"))
    take_in(source, home, "1.1")
    once = {path: path.read_text() for path in home.rglob("*") if path.is_file()}
    assert take_in(source, home, "1.1") == ["Other: not in this release; its page stays as it was"]
    assert {path: path.read_text() for path in home.rglob("*") if path.is_file()} == once


# ---- on definitions that Kafka wrote


KAFKAS_OWN = Path(str(find_spec("kafka").origin)).parent / "protocol" / "schemas" / "resources"
"""Kafka's definitions of 55 APIs, as kafka-python ships them: of release 4.1, some cut back to old versions."""

RENAMED = {"generation_id": "generation_id_or_member_epoch"}


def renamed(shape: Any) -> Any:
    """A layout by today's names, without what says nothing of the bytes."""
    match shape:
        case tuple((str(name), kind, array, null, tag, old, fields)):
            return (RENAMED.get(name, name), kind, array, null, tag, old, renamed(fields))
        case tuple():
            return tuple(map(renamed, shape))
        case _:
            return shape


def test_kafkas_own_definitions_read_as_our_pages_do() -> None:
    today = [block for page in Book(HOME).pages.values() for block in page.blocks if not block.variant]
    compared = 0
    for _, found in definitions_in(KAFKAS_OWN):
        block = block_of(found)
        (ours,) = (one for one in today if one.name == block.name)
        for version in inside(block.versions, range(64)) & inside(ours.versions, range(64)):
            assert renamed(layout(block, version)) == renamed(layout(ours, version)), (block.name, version)
            compared += 1
    assert compared > 400


def test_taking_in_another_release_leaves_every_version_readable_as_before(tmp_path: Path) -> None:
    home = tmp_path / "kafka"
    shutil.copytree(HOME, home)
    take_in(KAFKAS_OWN, home, "9.9")
    before, after = Book(HOME), Book(home)
    for path, old_page in before.pages.items():
        left = [block for block in after.pages[home / path.relative_to(HOME)].blocks if not block.variant]
        for block in (block for block in old_page.blocks if not block.variant):
            for version in inside(block.versions, range(64)):
                found = [one for one in left if one.name == block.name and inside(one.versions, [version])]
                assert [bytes_of(layout(one, version)) for one in found] == [bytes_of(layout(block, version))]
