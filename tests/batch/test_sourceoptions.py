"""Options of the data source: each is read, refused with what to do, or unknown with a likely name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mqsniff.batch.sourcekeys import KeyFiles
from mqsniff.batch.sourceoptions import SourceRequest, kept_columns, plain_name
from mqsniff.dissector import USUAL
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import Redaction


def asked(**options: str) -> SourceRequest:
    return SourceRequest.of({"path": "/x", "table": "messages", "scope": "file"} | options)


def test_what_is_not_asked_for_has_its_usual_value() -> None:
    assert SourceRequest.of({"path": "/x"}) == SourceRequest(
        paths=("/x",),
        table="packets",
        scope="",
        fails_fast=False,
        columns=(),
        pushes_filters=False,
        keys=KeyFiles(),
        log="",
        settle_s=10.0,
        files_most=SourceRequest.of({"path": "/y"}).files_most,
        options={},
    )


def test_every_option_is_read() -> None:
    request = asked(
        mode="failfast",
        columns=" ts , name,",
        pushFilters="Yes",
        tlsKeys="a.keys, b.keys",
        hashKey="h",
        log="/log",
        settle="2m",
        maxFilesPerTrigger="7",
        topic='["a", "b"]',
    )
    assert (request.fails_fast, request.columns, request.pushes_filters) == (True, ("ts", "name"), True)
    assert (request.keys, request.log, request.settle_s) == (KeyFiles(("a.keys", "b.keys"), "h"), "/log", 120.0)
    assert (request.files_most, request.options) == (7, {"topic": ("a", "b")})
    assert request.filters[0]


@pytest.mark.parametrize("name", ["show-secrets", "show_secrets", "showSecrets", "SHOWSECRETS"])
def test_an_option_has_one_name_however_it_is_written(name: str) -> None:
    assert plain_name(name) == "showsecrets"
    assert asked(**{name: "true"}).shown(None).secrets


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"where": "x"}, r"option where: use where\(\) of the DataFrame"),
        ({"maxMessages": "5"}, r"option maxMessages: use limit\(\)"),
        ({"verbose": "1"}, "option verbose: prints rows"),
        ({"tabel": "x"}, "there is no option 'tabel'.*table"),
        ({"table": "mesages"}, "messages"),
        ({"mode": "DROPMALFORMED"}, "mode"),
        ({"pushFilters": "perhaps"}, "option pushFilters: 'perhaps' is neither true nor false"),
        ({"showSecrets": "perhaps"}, "option showsecrets: 'perhaps' is neither true nor false"),
        ({"redact": "keys"}, "option redact"),
        ({"maxBytes": "many"}, "option maxBytes"),
        ({"settle": "soon"}, "option settle"),
        ({"limit": "nothing=5"}, "option limit"),
        ({"decodeAs": "x=nsq"}, "option decodeAs: 'x=nsq' is no PORT=PROTOCOL"),
        ({"decodeAs": "5000=nqs"}, "option decodeAs: '5000=nqs' is no PORT=PROTOCOL.*nsq"),
        ({"scope": "all"}, "messages need whole connections"),
        ({"scope": ""}, "messages need whole connections"),
        ({"table": "packets", "topic": "a"}, "option topic: packets are not decoded"),
        ({"path": ""}, r"needs \.load\(path\)"),
    ],
)
def test_what_cannot_be_meant_is_an_error_that_says_what_can(options: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asked(**options)


@pytest.mark.parametrize(("value", "meant"), [("1", True), ("TRUE", True), ("yes", True), ("0", False), ("no", False)])
def test_a_flag_has_several_words(value: str, *, meant: bool) -> None:
    assert asked(pushFilters=value).pushes_filters is meant


def test_several_paths_come_as_a_list_and_one_more_beside_it() -> None:
    assert SourceRequest.of({"paths": json.dumps(["/a", "/b"])}).paths == ("/a", "/b")
    assert SourceRequest.of({"paths": json.dumps(["/a"]), "path": "/c"}).paths == ("/a", "/c")


@pytest.mark.parametrize(
    ("value", "values"), [("a", ("a",)), ("[a", ("[a",)), ('["a"]', ("a",)), ("[1, 2]", ("1", "2"))]
)
def test_a_value_may_be_a_list(value: str, values: tuple[str, ...]) -> None:
    assert asked(topic=value).options == {"topic": values}


def test_what_is_shown_is_what_was_asked_for() -> None:
    key = HashKey(b"a key of a test, long enough")
    assert asked().shown(None) == Redaction()
    request = asked(showSecrets="true", showRaw="true", redact="payload", maxBytes="9")
    assert request.shown(key) == Redaction(secrets=True, raw=True, payload=False, max_bytes=9, hash_key=key)


def test_ports_and_limits_are_those_that_were_named() -> None:
    request = asked(decodeAs='["5000=nsq", "5001=kafka"]', limit="chunk_max=2KiB")
    assert (request.decode_as, request.limits.chunk_max) == ({5000: "nsq", 5001: "kafka"}, 2048)
    assert asked().decode_as == {}


@pytest.mark.parametrize(
    ("table", "options", "wanted"),
    [
        ("messages", {}, frozenset()),
        ("partitions", {}, {"partitions"}),
        ("exchanges", {}, {"exchanges"}),
        ("records", {}, {"records"}),
        ("messages", {"topic": "a"}, USUAL),
        ("records", {"topic": "a"}, USUAL | {"records"}),
    ],
)
def test_dissectors_give_what_the_table_and_the_filters_need(table: str, options: dict[str, str], wanted: Any) -> None:
    assert asked(table=table, **options).settings().wanted == wanted


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, r"readStream needs option\('log', FOLDER\)"),
        ({"log": "/l", "scope": "connection"}, "a stream reads each file by itself"),
        ({"log": "/l", "pushFilters": "true"}, "option pushFilters: Spark tells streams of no filters"),
        ({"log": "/l", "maxFilesPerTrigger": "0"}, "option maxFilesPerTrigger: at least one file"),
    ],
)
def test_what_a_stream_cannot_do_is_an_error(options: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        asked(**options).check_stream()


def test_a_stream_with_a_log_is_one() -> None:
    asked(log="/l").check_stream()
    asked(log="/l", maxFilesPerTrigger="1").check_stream()


def test_columns_are_those_that_are_wanted_in_their_order_or_all() -> None:
    assert kept_columns(("a", "b", "c"), ("c", "a")) == ["c", "a"]
    assert kept_columns(("a", "b"), ()) == ["a", "b"]
    with pytest.raises(ValueError, match=r"option columns: .*'bb'"):
        kept_columns(("a", "b"), ("bb",))
