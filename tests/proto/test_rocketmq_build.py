"""The notation of proto/rocketmq: what it says, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import rocketmq_build
from rocketmq_notation import (
    NotationError,
    blocks,
    parse_classes,
    parse_names,
    parse_requests,
    parse_responses,
    parse_type,
    snake_case,
)

HOME = Path(__file__).parents[2] / "proto" / "rocketmq"


def test_a_request_says_who_sends_what_and_what_is_answered() -> None:
    page = (
        "# a page\n10 SEND  C>B B>B\n    request   Head? + message  # older ones\n    response  + [Info]\n    waits f\n"
    )
    assert parse_requests(page) == [
        {
            "code": 10,
            "name": "SEND",
            "status": "current",
            "who": ["C>B", "B>B"],
            "request": {"header": "Head", "optional": True, "body": "message"},
            "response": {"body": "[Info]"},
            "waits": "f",
        }
    ]


def test_a_class_has_fields_with_types_names_and_marks() -> None:
    classes, enums = parse_classes(
        "class A < B newer\n    x as long_x  Integer!  queue\n    s  String  secret\nenum E\n    P Q\n    R\n"
    )
    block = classes["A"]
    assert (block.parent, block.status) == ("B", "newer")
    assert [(f.wire, f.name, f.type, f.required, f.role, f.secret) for f in block.fields] == [
        ("x", "long_x", "Integer", True, "queue", False),
        ("s", "s", "String", False, "", True),
    ]
    assert enums == {"E": ["P", "Q", "R"]}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("String", "String"),
        ("long[]", ["list", "long"]),
        ("Set<A>", ["list", "A"]),
        ("Map<String, Map<A, List<B>>>", ["map", "String", ["map", "A", ["list", "B"]]]),
        ("Properties", ["map", "String", "String"]),
    ],
)
def test_types_of_bodies_are_javas(text: str, parsed: object) -> None:
    assert parse_type(text) == parsed


@pytest.mark.parametrize(
    ("name", "snake"),
    [("queueId", "queue_id"), ("clientID", "client_id"), ("MSG_REGION", "msg_region"), ("bodyCrc32", "body_crc32")],
)
def test_names_become_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


@pytest.mark.parametrize(
    "page",
    [
        "    indented first\n",
        "ten SEND\n",
        "10 SEND sometimes\n",
        "10 SEND\n    request + mesage\n",
        "10 SEND\n    records lost\n",
        "10 SEND\n    request A\n    request B\n",
        "10 SEND\n    hopes for the best\n",
    ],
)
def test_what_a_page_of_requests_does_not_know_is_an_error(page: str) -> None:
    with pytest.raises(NotationError):
        parse_requests(page)


@pytest.mark.parametrize(
    "page", ["class\n", "class A\nclass A\n", "class A\n    x\n", "class A\n    x  int  important\n", "thing A\n"]
)
def test_what_a_page_of_classes_does_not_know_is_an_error(page: str) -> None:
    with pytest.raises(NotationError):
        parse_classes(page)


def test_other_pages_refuse_what_stands_twice() -> None:
    with pytest.raises(NotationError):
        parse_responses("1 A\n1 B\n")
    with pytest.raises(NotationError):
        parse_responses("one A\n")
    with pytest.raises(NotationError):
        parse_names("table a\n    1 x\ntable a\n")
    with pytest.raises(NotationError):
        parse_type("Maybe<String>")


def test_comments_belong_to_nobody() -> None:
    page = "# head\n\na  # why\n    b#c  # more\n# between\nd\n"
    assert [(head, [line for _, line in lines]) for _, head, lines in blocks(page)] == [("a", ["b#c"]), ("d", [])]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HOME, tmp_path / "rocketmq"))


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        ("requests", "request   PullMessageRequestHeader", "request   PulMessageRequestHeader"),
        ("requests", "+ HeartbeatData", "+ HeartBeatData"),
        ("requests", "codes     acl1", "codes     acl3"),
        (
            "headers",
            "class PopMessageRequestHeader < TopicQueueRequestHeader",
            "class PopMessageRequestHeader < Nobody",
        ),
        ("headers", "Boolean", "Bolean"),
        ("headers", "accessKey as config_access_key", "accessKey"),
        ("bodies", "List<QueueData>", "List<QueData>"),
    ],
)
def test_a_name_that_stands_nowhere_is_an_error(pages: Path, page: str, old: str, new: str) -> None:
    path = pages / f"{page}.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(NotationError):
        rocketmq_build.build(pages)


def test_a_part_stands_on_one_line_so_that_a_change_shows(pages: Path) -> None:
    content = rocketmq_build.build(pages)
    parts = json.loads(content)
    assert len(content.splitlines()) == len(parts)
    assert rocketmq_build.build() == content


def test_the_script_checks_and_writes_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rocketmq_build, "TARGET", tmp_path / "rocketmq.json")
    monkeypatch.setattr("sys.argv", ["rocketmq_build.py", "--check"])
    assert rocketmq_build.main() == 1
    assert "stale: dissectors/mqsniff_rocketmq/data/rocketmq.json" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["rocketmq_build.py"])
    assert rocketmq_build.main() == 0
    monkeypatch.setattr("sys.argv", ["rocketmq_build.py", "--check"])
    assert rocketmq_build.main() == 0
