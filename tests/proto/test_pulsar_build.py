"""Pulsar's .proto files: what they build is what is committed, and its names are those that rows show."""

from __future__ import annotations

import re
import shutil

import pulsar_build
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

FILES = FileDescriptorSet.FromString(pulsar_build.TARGET.read_bytes()).file


def test_the_committed_descriptors_are_what_the_sources_give():
    assert pulsar_build.build() == pulsar_build.TARGET.read_bytes()


def test_a_source_that_protoc_refuses_is_an_error(tmp_path, capfd):
    for name in pulsar_build.SOURCES:
        shutil.copy(pulsar_build.HERE / name, tmp_path / name)
    with (tmp_path / "pulsar.proto").open("a") as file:
        file.write("message Twice { optional int32 a = 1; optional int32 b = 1; }\n")
    with pytest.raises(SyntaxError):
        pulsar_build.build(tmp_path)
    assert "Twice" in capfd.readouterr().err


def test_fields_have_names_in_snake_case_which_rows_show():
    names = {field.name for file in FILES for message in file.message_type for field in message.field}
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name)] == []


def test_nothing_was_lost_on_the_way():
    messages = [message for file in FILES for message in file.message_type]
    enums = [enum for one in (*FILES, *messages) for enum in one.enum_type]
    assert (len(messages), len(enums)) == (93 + 6, 19 + 1)
    assert sum(len(message.field) for message in messages) == 510 + 13
