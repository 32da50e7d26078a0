"""The keywords of the library: the same as the options of ``decode``, read in the same way."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest
from click.testing import CliRunner

import mqsniff
from mqsniff.cli import main
from mqsniff.cli.sections import SectionedOption
from mqsniff.filters.itemfilter import NO_FILTERS
from mqsniff.filters.options import FILTER_OPTIONS
from mqsniff.library.request import KEYWORDS, ReadRequest

CAPTURE = "pcaps/kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
OTHERWISE = {"max-messages": "max_messages", "max-bytes": "max_bytes", "from": "from_"}
PRINTING = {"-o", "--table", "--fields", "--out", "--overwrite", "-v", "--records", "--time", "--color", "--wide"} | {
    *("--pager", "--packets", "--fail-on", "-q", "--help", "-h", "--jobs")
}
"""What the options of decode say about its output and its processes."""


def decode_options() -> list[str]:
    """All options of decode, each by its long name."""
    context = click.Context(main, info_name="mqsniff")
    command = main.get_command(context, "decode")
    assert command is not None
    options = [param for param in command.params if isinstance(param, SectionedOption)]
    return [param.opts[-1] for param in options if not PRINTING & {*param.opts}]


def test_every_option_of_decode_that_chooses_or_decodes_is_a_keyword():
    names = [name.removeprefix("--") for name in decode_options()]
    assert len(names) > 20
    assert sorted(OTHERWISE.get(name, name.replace("-", "_")) for name in names) == sorted(KEYWORDS)


def test_every_filter_is_an_option_and_a_field():
    assert {option.option for option in FILTER_OPTIONS} <= {*decode_options()}
    assert [option.field for option in FILTER_OPTIONS] == list(type(NO_FILTERS).__dataclass_fields__)


@pytest.mark.parametrize(
    ("keywords", "options"),
    [
        ({"topic": "xa.zstd"}, ["--topic", "xa.zstd"]),
        ({"name": ["Fetch", "Produce"]}, ["--name", "Fetch", "--name", "Produce"]),
        ({"partition": 0}, ["--partition", "0"]),
        ({"offset": 3}, ["--offset", "3"]),
        ({"offset": "3-5"}, ["--offset", "3-5"]),
        ({"errors": True}, ["--errors"]),
        ({"slower": "1ms"}, ["--slower", "1ms"]),
        ({"port": 9092, "host": "127.0.0.2"}, ["--port", "9092", "--host", "127.0.0.2"]),
        ({"from_": "+300ms"}, ["--from", "+300ms"]),
        ({"from_": "-200ms"}, ["--from", "-200ms"]),
        ({"to": datetime(2026, 11, 21, 10, 0, 54, tzinfo=UTC)}, ["--to", "2026-11-21T10:00:54Z"]),
        ({"to": 1795255254}, ["--to", "1795255254"]),
        ({"where": "size > 100"}, ["--where", "size > 100"]),
        ({"max_messages": 7}, ["-n", "7"]),
        ({"grep": "v2-v2"}, ["--grep", "v2-v2"]),
    ],
    ids=str,
)
def test_a_keyword_chooses_what_the_option_chooses(keywords, options):
    lines = CliRunner().invoke(main, ["decode", "--table", "messages", "-o", "ndjson", *options, CAPTURE]).stdout
    rows = list(mqsniff.read(CAPTURE, **keywords).messages())
    assert len(rows) == len(lines.splitlines())
    assert 0 < len(rows) <= 56


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"slower": "fast"}, "slower: 'fast' is not a duration"),
        ({"host": "here"}, "host: 'here' is not an address"),
        ({"topic": ""}, "topic: the value is empty"),
        ({"port": 0}, "port: '0' is no whole number"),
        ({"protocol": "kafak"}, "did you mean kafka"),
        ({"from_": 10, "to": 5}, "not after"),
        ({"redact": "keys"}, "payload"),
        ({"limit": {"frame": 1}}, "limit"),
        ({"limit": {"topics_max": -1}}, "too small"),
        ({"decode_as": {9092: "kafak"}}, "did you mean kafka"),
        ({"decode_as": {0: "kafka"}}, "no port"),
        ({"max_messages": 0}, "no whole number from 1"),
        ({"domain": "tap-["}, "domain"),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_meant_is_an_option_error(keywords, said):
    with pytest.raises(mqsniff.OptionError, match=said):
        mqsniff.read(CAPTURE, **keywords)


def test_an_unknown_keyword_is_a_type_error_that_names_a_similar_one():
    with pytest.raises(TypeError, match="unexpected keyword 'topics', did you mean topic"):
        mqsniff.read(CAPTURE, topics="orders")


def test_a_key_may_be_bytes():
    assert ReadRequest.of({"key": b"\x00\xff"}).filters.keys == (b"\x00\xff",)
    assert ReadRequest.of({"key": "0x00ff"}).filters.keys == (b"\x00\xff",)
    assert ReadRequest.of({"key": ["a", b"b"]}).filters.keys == (b"a", b"b")


def test_a_key_log_that_is_not_there_is_an_unreadable_error():
    with pytest.raises(mqsniff.UnreadableError, match=r"no\.keys"):
        list(mqsniff.read(CAPTURE, tls_keys="no.keys").messages())


def test_a_key_log_opens_tls():
    rows = mqsniff.read("pcaps/kafka/kafka-4.4-mtls-java.pcap", tls_keys="pcaps/kafka/kafka-4.4-mtls-java.keys")
    assert {row.name for row in rows.messages()} >= {"Produce", "Metadata"}
