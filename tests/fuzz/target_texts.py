"""Texts: RocketMQ's JSON and headers from the wire; filter options and conditions from a user's script."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from functools import cache

import handmade
import lawsamples
import orjson
import pyarrow as pa
import remotingcraft

from mqsniff.decode.registry import load_dissectors
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.filters.chain import FilterChain
from mqsniff.filters.counting import CountingFilter
from mqsniff.filters.moments import resolved
from mqsniff.filters.options import FILTER_OPTIONS
from mqsniff.filters.readings import asked_filters, unknown_names
from mqsniff.filters.where import WhereFilter
from mqsniff.limits import Limits
from mqsniff.lockedsql.database import QueryError, QueryProcess, condition_process
from mqsniff.model import Item, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.spec.wire import Malformed
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction
from mqsniff.testing.conversations import streams
from mqsniff_rocketmq.fastjson import read_json, read_tolerant
from mqsniff_rocketmq.headers import read_header
from mqsniff_rocketmq.notes import ProblemNotes

from .judging import Target
from .target_dissectors import HIDDEN

# ---- RocketMQ's JSON

LIMITS = Limits(elements_max=1000)


def read_text(data: bytes) -> None:
    """JSON: what orjson reads, ours reads alike; what is cut gives values, or is Malformed."""
    found = _read(data)
    with contextlib.suppress(Malformed):
        HIDDEN.json({"value": read_tolerant(data, ProblemNotes(LIMITS), "", cut=True)})
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    notes = ProblemNotes(LIMITS)
    with contextlib.suppress(Malformed):
        slow = read_tolerant(data, notes, "")
        if isinstance(plain, dict | list) and not notes.problems:
            assert _same(slow, plain), "our reader and orjson differ"
            assert found is None or _same(found[0], plain)


def _read(data: bytes) -> tuple[object] | None:
    try:
        value = read_json(data, ProblemNotes(LIMITS), "")
    except Malformed:
        return None
    orjson.loads(HIDDEN.json({"value": value}))
    return (value,)


def _same(one: object, other: object) -> bool:
    """Whether values are alike; numbers beyond 64 bits are floats to orjson."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case ((int() | float()), (int() | float())):
            return one == other or math.isclose(one, other, rel_tol=1e-9)
        case str(), (int() | float()):  # a number longer than ours: its text
            return float(one) == other
    return one == other


def texts() -> Iterator[bytes]:
    """Bodies and headers of the conversations, and JSON as no standard has it."""
    yield from (remotingcraft.HEARTBEAT, remotingcraft.ROUTE, remotingcraft.RUNNING_INFO)
    yield b'{0:"a",{"x":1}:2,\'k\':\'v\',"$ref":"$.a[0]",b:NaN,c:[1,,2],"d":"\\u0041\\uD800"}'
    yield b'{"a":1e999,"b":-0,"c":12345678901234567890123,"d":{"e":[[[]]]},"a":2}'
    yield json.dumps({"subscriptionTable": {"%RETRY%g": {"codes": [1, 2], "é": None}}}).encode()


def read_remoting_header(data: bytes) -> None:
    """A frame's header in either serialisation, whole and cut: fields, or Malformed."""
    for stop in {len(data), len(data) // 2, 12}:
        notes = ProblemNotes(LIMITS)
        try:
            header, at = read_header(data[:stop], notes)
        except Malformed:
            continue
        assert at >= 8
        assert header.size == at - 8
        orjson.loads(HIDDEN.json({**header.fields, "ext": header.ext}))


def headers() -> Iterator[bytes]:
    """Frames of both serialisations."""
    for conversation in remotingcraft.CONVERSATIONS.values():
        for side in Side:
            yield streams(conversation)[side][:2000]
    yield remotingcraft.binary_frame(10, 3, {"topic": "orders", "queueId": 2, "e": ""}, b"body", remark="why")


# ---- filters

SAMPLE = lawsamples.PCAPS / "kafka" / "kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
OPTIONS = tuple(option for option in FILTER_OPTIONS if option.takes != "flag")


@cache
def _items() -> tuple[tuple[Item | None, ...], list[object]]:
    pipeline = Pipeline(FileSource([str(SAMPLE)]), Settings(wanted=WITH_RECORDS))
    load_dissectors()
    return tuple(pipeline.items())[:120], pipeline.captures


def choose(data: bytes) -> None:
    """option u8, text, NUL, over and over: ValueError with one line, or a filter that chooses from a sample."""
    values: dict[str, object] = {}
    for part in data.split(b"\0"):
        option = OPTIONS[part[0] % len(OPTIONS)] if part else None
        if option is None:
            continue
        text = part[1:].decode(errors="surrogateescape")
        try:
            value = option.read(text)
        except ValueError as error:
            assert "\n" not in str(error).replace(text, ""), "an error has several lines"
            return
        values[option.field] = value if option.takes == "one" else (*values.get(option.field, ()), value)
    try:
        filters, times = asked_filters(values)
        start = handmade.START
        filters = resolved(filters, times, start, start + 5_000_000_000)
    except ValueError:
        return
    list(unknown_names(filters))
    chosen = CountingFilter(filters)
    list(FilterChain(chosen, None, None).of(_items()[0]))
    assert "\n" not in chosen.sentence()


def options() -> Iterator[bytes]:
    """Values of every option."""
    words = (
        "kafka",
        "Fetch",
        "PUB*",
        "orders",
        "[::1]:9092",
        "0-12",
        "7-",
        "0x00ff",
        "trace=1*",
        "/or.*/i",
        "/(a|b)+c/",
    )
    words += ("10.0.0.0/8", "fe80::1%eth0", "::ffff:1.2.3.4", "9092", "c3", "abcdef", "100ms", "1.5s", "+30s", "-5m")
    words += ("10:00", "23:59:59.123456789Z", "2026-11-21T09:38:50.7Z", "1795253930.7", "[!a-]", "**?", "1e5", "NaN")
    for number in range(len(OPTIONS)):
        for word in words:
            yield bytes([number]) + word.encode()
    yield b"\x02orders\0\x01Fetch\0\x08/a/\0\x0f+1s\0\x10+2s"


@cache
def _process() -> QueryProcess:
    return condition_process(Limits())


def ask(data: bytes) -> None:
    """A condition of ``--where``: QueryError with one line, or rows of a sample."""
    condition = data.decode(errors="surrogateescape")
    items, captures = _items()
    try:
        where = WhereFilter(condition, tuple(TABLES), captures, Redaction(), _process())
        list(where.of(items[:40]))
    except QueryError as error:
        assert "\n" not in str(error).replace(condition, ""), "an error has several lines"
        if "ended" in str(error) or "killed" in str(error) or "crashed" in str(error):
            _process.cache_clear()
    except pa.ArrowException as error:
        raise AssertionError("an error of Arrow") from error


def conditions() -> Iterator[bytes]:
    """Conditions."""
    told = ("size > 10", "name = 'Fetch' and version >= 4", "topic like 'or%'", "body->>'$.topics' is null", "1")
    told += ("ts > timestamp '2026-11-21 09:38:50'", "not (side = 'client' or size between 1 and 2)", "name in ('a')")
    told += (
        "cast(size as varchar) ~ '[0-9]+'",
        "true -- comment",
        "exists (select 1)",
        "size / 0 = 1",
        "'\\x00' = name",
    )
    yield from (text.encode() for text in told)


def targets() -> Iterator[Target]:
    """Four targets."""
    yield Target("json", "JSON of RocketMQ's peers", read_text, texts, ("dissectors/mqsniff_rocketmq/fastjson.py",))
    rooms = ("dissectors/mqsniff_rocketmq/headers.py", "dissectors/mqsniff_rocketmq/fastjson.py")
    yield Target("headers", "headers of RocketMQ, both serialisations", read_remoting_header, headers, rooms)
    rooms = tuple(
        f"mqsniff/filters/{name}.py" for name in ("readings", "patterns", "moments", "contents", "itemfilter")
    )
    rooms += ("mqsniff/filters/recordfilter.py", "mqsniff/filters/counting.py", "mqsniff/filters/slow.py")
    yield Target(
        "filters", "filter options: times, --grep, --header, networks, …", choose, options, rooms, size_max=200
    )
    yield Target("where", "conditions of --where", ask, conditions, ("mqsniff/filters/where.py",), size_max=300)
