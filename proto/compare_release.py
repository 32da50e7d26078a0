"""The jar of a broker's release in; what it has and our pages do not, out.

    mvn dependency:get -Dartifact=org.apache.kafka:kafka-clients:LATEST         (rocketmq-remoting, pulsar-common)
    python proto/compare_release.py ~/.m2/repository/org/apache/kafka/kafka-clients/4.4.0/kafka-clients-4.4.0.jar

The jar says itself which protocol it is of: Kafka's holds its message definitions, Pulsar's and RocketMQ's classes with
field numbers, codes and header fields. Exit 1 if something is new. CONTRIBUTING.md says what to do then.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kafka_import
import pulsar_build
from classfiles import ClassFile, read_class
from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FileDescriptorSet
from rocketmq_notation import ClassBlock, parse_classes, parse_requests, parse_responses

HERE: Final = Path(__file__).parent
_KAFKA: Final = "common/message/"
_PULSAR: Final = "org/apache/pulsar/common/api/proto/"
_ROCKETMQ: Final = "org/apache/rocketmq/remoting/protocol/"
_RELEASE: Final = re.compile(r"\d+(\.\d+)+")
_FIELD: Final = "_FIELD_NUMBER"
_VALUE: Final = "_VALUE"
_IMPORTER_ASIDES: Final = "not in this release"
"""What the importer says of pages that stay: nothing new."""


def news_of(jar: Path) -> Iterator[str]:
    """What a jar has and our pages do not, a line each; ValueError for a jar of something else."""
    with zipfile.ZipFile(jar) as archive:
        names = archive.namelist()
        if any(name.startswith(_KAFKA) and name.endswith(".json") for name in names):
            yield from _kafka_news(archive)
        elif f"{_PULSAR}BaseCommand.class" in names:
            yield from _pulsar_news(dict(_classes(archive, _PULSAR)))
        elif f"{_ROCKETMQ}RequestCode.class" in names:
            yield from _rocketmq_news(dict(_classes(archive, _ROCKETMQ)))
        else:
            raise ValueError(f"{jar}: neither kafka-clients nor pulsar-common nor rocketmq-remoting")


def _classes(archive: zipfile.ZipFile, folder: str) -> Iterator[tuple[str, ClassFile]]:
    """The classes below a folder, by their simple names (``CommandAck$AckType``)."""
    for name in archive.namelist():
        if name.startswith(folder) and name.endswith(".class"):
            found = read_class(archive.read(name))
            yield found.name.rpartition("/")[2], found


# ---- Kafka


def _kafka_news(archive: zipfile.ZipFile) -> Iterator[str]:
    """What the importer says when it takes the definitions into a copy of our pages."""
    lines = (HERE / "kafka" / "releases.txt").read_text().splitlines()
    newest = [line for line in lines if _RELEASE.fullmatch(line)][-1]
    with tempfile.TemporaryDirectory() as place:
        pages = Path(place, "pages")
        shutil.copytree(HERE / "kafka", pages)
        for name in archive.namelist():
            if name.startswith(_KAFKA) and name.endswith(".json"):
                archive.extract(name, place)
        for line in kafka_import.take_in(Path(place, _KAFKA), pages, newest):
            if _IMPORTER_ASIDES not in line:
                yield line


# ---- Pulsar


def _pulsar_news(classes: dict[str, ClassFile]) -> Iterator[str]:
    """Messages, fields and enum values, by the numbers in the generated classes."""
    messages, enums = _pulsar_known()
    for name, found in sorted(classes.items()):
        simple = name.rpartition("$")[2]
        numbers = {key[1 : -len(_FIELD)]: value for key, value in found.constants.items() if key.endswith(_FIELD)}
        values = {key[: -len(_VALUE)]: value for key, value in found.constants.items() if key.endswith(_VALUE)}
        if numbers and simple not in messages:
            yield f"message {simple}: new, fields {', '.join(sorted(numbers))}"
        for field, number in numbers.items():
            if simple in messages and number not in messages[simple]:
                yield f"message {simple}: new field {number} {field.lower()}"
        if values and simple not in enums:
            yield f"enum {simple}: new"
        for word, number in values.items():
            if simple in enums and number not in enums[simple]:
                yield f"enum {simple}: new value {number} {word}"


def _pulsar_known() -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Field numbers of our messages and values of our enums, by simple name."""
    messages: dict[str, set[int]] = {}
    enums: dict[str, set[int]] = {}

    def take_enum(enum: EnumDescriptorProto) -> None:
        enums.setdefault(enum.name, set()).update(value.number for value in enum.value)

    def take(message: DescriptorProto) -> None:
        messages.setdefault(message.name, set()).update(field.number for field in message.field)
        for inner in message.nested_type:
            take(inner)
        for enum in message.enum_type:
            take_enum(enum)

    for file in FileDescriptorSet.FromString(pulsar_build.build()).file:
        for message in file.message_type:
            take(message)
        for enum in file.enum_type:
            take_enum(enum)
    return messages, enums


# ---- RocketMQ


def _rocketmq_news(classes: dict[str, ClassFile]) -> Iterator[str]:
    """Request codes, response codes, header classes and their fields."""
    pages = HERE / "rocketmq"
    requests = {row["code"] for row in parse_requests((pages / "requests.txt").read_text())}
    responses = {code for group in parse_responses((pages / "responses.txt").read_text()).values() for code in group}
    for word, number in classes["RequestCode"].constants.items():
        if number not in requests:
            yield f"request {number} {word}: new"
    for name in ("ResponseCode", "RemotingSysResponseCode"):
        for word, number in classes[name].constants.items() if name in classes else ():
            if str(number) not in responses:
                yield f"response {number} {word}: new"
    known, _ = parse_classes((pages / "headers.txt").read_text())
    for name, found in sorted(classes.items()):
        if not name.endswith(("RequestHeader", "ResponseHeader")):
            continue
        if name not in known:
            if found.fields:
                yield f"header {name}: new, fields {', '.join(found.fields)}"
            continue
        have = _fields_of(known, name)
        for field in found.fields:
            if field not in have:
                yield f"header {name}: new field {field} {found.fields[field].rpartition('/')[2].rstrip(';')}"


def _fields_of(known: dict[str, ClassBlock], name: str) -> set[str]:
    """The wire names of a class and its parents."""
    block = known.get(name)
    if block is None:
        return set()
    return {field.wire for field in block.fields} | _fields_of(known, block.parent)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Print what a broker's release has and our pages do not.")
    parser.add_argument(
        "jars", type=Path, nargs="+", metavar="JAR", help="kafka-clients, pulsar-common, rocketmq-remoting"
    )
    found = False
    for jar in parser.parse_args().jars:
        try:
            news = list(news_of(jar))
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            print(f"{jar.name}: {error}", file=sys.stderr)
            return 2
        print(f"{jar.name}: {f'{len(news)} new' if news else 'nothing new'}")
        for line in news:
            print(f"  {line}")
        found = found or bool(news)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
