"""The notation of Kafka's pages: text and pages say the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_notation import Block, Field, NotationError, Page, parse_page, plain_block, print_page

PAGES = sorted((Path(__file__).parents[2] / "proto" / "kafka").rglob("*.kafka"))

TEXT = """\
# Asks for things.
# Two lines of it.
api 7 Example listeners broker controller

# What came first.
request 0-5  flexible 3+  legacy 0-1  unstable
  group_id    string?2+           @group_id
  topics      []Topic?     1+
    name      string              @topic_name  # not the id
    secret    bytes        4+     tag 0:5+  = null  @token  @secret
  partitions  []Part
  client      string       0-2    old-encoding
  struct Part
    index     int32

response 0-5  flexible 3+

request 0  variant 2.7-2.8
  id  uuid
"""

PAGE = Page(
    key=7,
    name="Example",
    listeners=["broker", "controller"],
    comment=["Asks for things.", "Two lines of it."],
    blocks=[
        Block(
            "request",
            7,
            "ExampleRequest",
            "0-5",
            flexible="3+",
            legacy="0-1",
            unstable=True,
            comment=["What came first."],
            fields=[
                Field("group_id", "string", nullable="2+", marks=["group_id"]),
                Field(
                    "topics",
                    "Topic",
                    array=True,
                    nullable="",
                    versions="1+",
                    fields=[
                        Field("name", "string", marks=["topic_name"], comment="not the id"),
                        Field(
                            "secret",
                            "bytes",
                            versions="4+",
                            tag=0,
                            tagged="5+",
                            default="null",
                            marks=["token", "secret"],
                        ),
                    ],
                ),
                Field("partitions", "Part", array=True),
                Field("client", "string", versions="0-2", old_encoding=True),
            ],
            structs={"Part": [Field("index", "int32")]},
        ),
        Block("response", 7, "ExampleResponse", "0-5", flexible="3+"),
        Block("request", 7, "ExampleRequest", "0", variant="2.7-2.8", fields=[Field("id", "uuid")]),
    ],
)


def test_text_becomes_a_page() -> None:
    assert parse_page(TEXT) == PAGE


def test_a_page_becomes_text_that_means_the_same() -> None:
    assert parse_page(print_page(PAGE)) == PAGE


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_page_is_written_as_it_would_be_printed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert print_page(parse_page(text)) == text


def test_records_have_their_own_keys_and_names() -> None:
    page = parse_page("key 2 GroupMetadataKey 0\n  group  string\n\ndata EndTxnMarker 0\n  epoch  int32\n")
    assert [(block.kind, block.key, block.name) for block in page.blocks] == [
        ("key", 2, "GroupMetadataKey"),
        ("data", None, "EndTxnMarker"),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("  name  strange", "expected a field"),
        ("  Name  string", "expected a field"),
        ("  name  string  soon", "unknown word soon"),
        ("  name  string\n    inner  int8", "only a struct has fields"),
        ("      name  string", "indented too far"),
    ],
)
def test_what_is_no_field_is_an_error_with_its_line(line: str, why: str) -> None:
    with pytest.raises(NotationError, match=rf"some\.kafka:\d: {why}"):
        parse_page(f"api 1 Example\n\nrequest 0\n  first  int8\n{line}\n", "some.kafka")


@pytest.mark.parametrize("head", ["request", "request soon", "request 0  maybe", "question 0", "api 1"])
def test_what_is_no_definition_is_an_error(head: str) -> None:
    with pytest.raises((NotationError, ValueError), match=r"page:1|unpack"):
        parse_page(f"{head}\n  first  int8\n")


def test_plain_data_puts_structs_where_they_are_used_and_leaves_out_what_is_usual() -> None:
    plain = plain_block(PAGE.blocks[0])
    part = {"name": "index", "type": "int32"}
    assert {key: value for key, value in plain.items() if key != "fields"} == {
        "kind": "request",
        "name": "ExampleRequest",
        "versions": "0-5",
        "flexible": "3+",
        "legacy": "0-1",
        "unstable": True,
    }
    assert plain["fields"][0] == {"name": "group_id", "type": "string", "nullable": "2+", "mark": "group_id"}
    assert plain["fields"][1]["fields"][1] == {
        "name": "secret",
        "type": "bytes",
        "versions": "4+",
        "tag": 0,
        "tagged": "5+",
        "mark": "token",
        "secret": True,
    }
    assert plain["fields"][2] == {"name": "partitions", "type": "struct", "array": True, "fields": [part]}
    assert plain["fields"][3] == {"name": "client", "type": "string", "versions": "0-2", "flexible": False}


def test_a_struct_that_nobody_defines_is_an_error() -> None:
    page = parse_page("api 1 Example\n\nrequest 0\n  topics  []Topic\n")
    with pytest.raises(NotationError, match="topics: no struct Topic"):
        plain_block(page.blocks[0])
