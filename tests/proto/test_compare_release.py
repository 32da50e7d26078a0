"""A release's jar against our pages: what is new is found, in all three protocols."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path

import compare_release
import pytest
from classfiles import read_class


def class_file(name: str, fields: dict[str, str | int], parent: str = "java/lang/Object") -> bytes:
    """A class as javac writes it: fields with a type, or static ones with a constant; a long before them."""
    pool: list[bytes] = []

    def put(data: bytes) -> int:
        pool.append(data)
        return len(pool)

    def text(value: str) -> int:
        return put(b"\x01" + struct.pack(">H", len(value)) + value.encode())

    put(b"\x05" + struct.pack(">q", 7))
    pool.append(b"")  # a long takes two places
    this, above = (put(b"\x07" + struct.pack(">H", text(each))) for each in (name, parent))
    label = text("ConstantValue")
    body = struct.pack(">HHHH", 0x21, this, above, 0) + struct.pack(">H", len(fields))
    for field, value in fields.items():
        if isinstance(value, int):
            number = put(b"\x03" + struct.pack(">i", value))
            body += struct.pack(">HHHH", 0x19, text(field), text("I"), 1) + struct.pack(">HIH", label, 2, number)
        else:
            body += struct.pack(">HHHH", 0x02, text(field), text(value), 0)
    body += struct.pack(">HH", 0, 0)
    return struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(pool) + 1) + b"".join(pool) + body


def jar(tmp_path: Path, files: dict[str, bytes]) -> Path:
    path = tmp_path / "release.jar"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_class_file_gives_its_fields_and_constants():
    found = read_class(class_file("a/B", {"topic": "Ljava/lang/String;", "SEND": 10, "LESS": -1}, "a/Parent"))
    assert (found.name, found.parent) == ("a/B", "a/Parent")
    assert found.fields == {"topic": "Ljava/lang/String;"}
    assert found.constants == {"SEND": 10, "LESS": -1}


def test_what_is_no_class_file_is_refused():
    with pytest.raises(ValueError, match="not a Java class file"):
        read_class(bytes(20))


def test_new_codes_and_header_fields_of_rocketmq_are_found(tmp_path):
    home = "org/apache/rocketmq/remoting/protocol/"
    files = {
        "RequestCode": {"SEND_MESSAGE": 10, "FLY_TO_THE_MOON": 987_654},
        "ResponseCode": {"SYSTEM_ERROR": 1, "MOON_IS_FULL": 987_655},
        "header/AckMessageRequestHeader": {"topic": "Ljava/lang/String;", "moon": "Ljava/lang/Integer;"},
        "header/MoonRequestHeader": {"crater": "Ljava/lang/String;"},
    }
    path = jar(tmp_path, {f"{home}{name}.class": class_file(home + name, fields) for name, fields in files.items()})
    assert list(compare_release.news_of(path)) == [
        "request 987654 FLY_TO_THE_MOON: new",
        "response 987655 MOON_IS_FULL: new",
        "header AckMessageRequestHeader: new field moon Integer",
        "header MoonRequestHeader: new, fields crater",
    ]


def test_new_messages_fields_and_values_of_pulsar_are_found(tmp_path):
    home = "org/apache/pulsar/common/api/proto/"
    files = {
        "BaseCommand": {"_TYPE_FIELD_NUMBER": 1, "_MOON_FIELD_NUMBER": 999},
        "BaseCommand$Type": {"CONNECT_VALUE": 2, "MOON_VALUE": 999},
        "CommandMoon": {"_CRATER_FIELD_NUMBER": 1},
    }
    path = jar(tmp_path, {f"{home}{name}.class": class_file(home + name, fields) for name, fields in files.items()})
    assert list(compare_release.news_of(path)) == [
        "message BaseCommand: new field 999 moon",
        "enum Type: new value 999 MOON",
        "message CommandMoon: new, fields CRATER",
    ]


def test_a_new_api_of_kafka_is_found(tmp_path):
    common = {"name": "MoonRequest", "apiKey": 987, "validVersions": "0", "flexibleVersions": "0+"}
    fields = [{"name": "Crater", "type": "string", "versions": "0+", "about": "Where."}]
    request = common | {"type": "request", "listeners": ["broker"], "fields": fields}
    response = common | {"name": "MoonResponse", "type": "response", "fields": fields}
    path = jar(
        tmp_path,
        {
            "common/message/MoonRequest.json": json.dumps(request).encode(),
            "common/message/MoonResponse.json": json.dumps(response).encode(),
        },
    )
    assert any("Moon" in line and "new" in line for line in compare_release.news_of(path))


def test_another_jar_is_refused(tmp_path, monkeypatch, capsys):
    path = jar(tmp_path, {"a/B.class": b""})
    monkeypatch.setattr("sys.argv", ["compare_release.py", str(path)])
    assert compare_release.main() == 2
    assert "neither kafka-clients" in capsys.readouterr().err
