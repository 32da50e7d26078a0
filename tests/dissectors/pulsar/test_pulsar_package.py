"""The package as others see it: its table of commands, what it describes, what it loads, what it keeps secret."""

from __future__ import annotations

import subprocess
import sys

from pulsarcraft import send

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.testing.conversations import chunks, client
from mqsniff.testing.driver import Driver
from mqsniff_pulsar import Pulsar
from mqsniff_pulsar.commands import BY_NAME, COMMANDS, answers_of
from mqsniff_pulsar.messages import message_type, numbers


def test_the_table_of_commands_is_the_definition():
    fields = message_type("BaseCommand").fields
    assert {name: command.type for name, command in BY_NAME.items()} == numbers("BaseCommand.Type")
    assert set(fields) == {1, *COMMANDS}
    for told in COMMANDS.values():
        shape = fields[told.type].message
        names = {inner.name for inner in shape.fields.values()}
        assert set(told.notes) <= names
        assert {told.error} <= {*names, ""}
        assert set(answers_of(told.name)) <= set(BY_NAME)


def test_every_response_answers_something():
    answered = {answer for name in BY_NAME for answer in answers_of(name)}
    assert {name for name, told in BY_NAME.items() if told.kind == "response"} - answered == {"ERROR"}


def test_the_description_counts_what_there_is():
    tables = Pulsar.describe()
    counts = {name: len(rows) for name, rows in tables.items()}
    assert counts == {
        "commands": 70,
        "metadata_blocks": 3,
        "record_formats": 6,
        "serialisations": 2,
        "errors": 26,
        "ordinary_answers": 1,
        "markers": 8,
        "codecs": 5,
        "schema_types": 23,
    }
    assert {row["name"]: row["answered_by"] for row in tables["commands"]}["SEND"] == ["SEND_RECEIPT", "SEND_ERROR"]


def test_secrets_are_marked_where_they_stand():
    marked = {
        (shape, inner.name)
        for shape in ("CommandConnect", "AuthData", "CommandLookupTopic", "CommandPartitionedTopicMetadata")
        for inner in message_type(shape).fields.values()
        if inner.secret
    }
    assert marked == {
        ("CommandConnect", "auth_data"),
        ("CommandConnect", "original_auth_data"),
        ("AuthData", "auth_data"),
        ("CommandLookupTopic", "original_auth_data"),
        ("CommandPartitionedTopicMetadata", "original_auth_data"),
    }


def test_the_entry_point_loads_nothing_heavy():

    code = "import sys, mqsniff_pulsar; print([m for m in ('google', 'orjson', 'crc32c', 'numpy') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_records_are_made_only_when_somebody_wants_them():
    driver = Driver(Pulsar)
    driver.dissector = Pulsar(Settings(Limits()))
    driver.run(chunks([client(send(b"value"))]))
    assert driver.messages[0].records == ()
