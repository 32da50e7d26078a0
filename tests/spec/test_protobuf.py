"""The fast path of the runtime and the slow interpreter, compared with each other and with what the runtime reports."""

from __future__ import annotations

import math
import struct

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_messages import SCALARS, descriptor_set, sized, tag

from mqsniff.limits import Limits
from mqsniff.model import Secret, Undecoded
from mqsniff.spec import protowire
from mqsniff.spec.protobuf import FALLBACK_ERRORS, MessageTypes

SET = descriptor_set()
TYPES = MessageTypes(SET)
POOL = descriptor_pool.DescriptorPool()
for one in descriptor_pb2.FileDescriptorSet.FromString(SET).file:
    POOL.Add(one)
NAMES = ["proto2.All", "proto3.All", "proto2.Strict"]


def runtime(name):
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


def interpret(name: str, data: bytes, **more):
    return protowire.interpret(TYPES[name], data, **more)


def notes(decoded) -> list[tuple[str, str, str]]:
    return [(problem.kind, problem.severity, problem.path) for problem in decoded.problems]


# ---- messages as the runtime writes them

INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), st.integers(-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys(("uint32", "fixed32"), st.integers(0, (1 << 32) - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), st.integers(-(1 << 63), (1 << 63) - 1)),
    **dict.fromkeys(("uint64", "fixed64"), st.integers(0, (1 << 64) - 1)),
}
VALUES = {
    **INTEGERS,
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8),  # see the test of control characters
    "bytes": st.binary(max_size=8),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
}


@st.composite
def bodies(draw, depth=0):
    """A body of ``All`` as rule 2 has it."""
    body = {}
    for kind in draw(st.sets(st.sampled_from(SCALARS), max_size=4)):
        body[f"one_{kind}"] = draw(VALUES[kind])
        body[f"many_{kind}"] = draw(st.lists(VALUES[kind], min_size=1, max_size=3))
    if draw(st.booleans()):
        body["color"] = draw(st.sampled_from(["RED", "BLUE"]))
        body["colors"] = draw(st.lists(st.sampled_from(["NONE", "RED", "BLUE"]), min_size=1, max_size=3))
    if draw(st.booleans()):
        body["token"] = Secret(draw(st.binary(min_size=1, max_size=5)))
        body["password"] = Secret(draw(st.text(min_size=1, max_size=5)).encode())
    if depth < 2 and draw(st.booleans()):
        body[draw(st.sampled_from(["inner", "right"]))] = draw(bodies(depth + 1))
        body["inners"] = draw(st.lists(bodies(depth + 1), min_size=1, max_size=2))
    return body


def write(message, body) -> None:
    """Put a body into a message of the runtime."""
    for name, value in body.items():
        if isinstance(value, dict):
            getattr(message, name).SetInParent()
            write(getattr(message, name), value)
        elif isinstance(value, list) and isinstance(value[0], dict):
            for inner in value:
                write(getattr(message, name).add(), inner)
        elif name == "colors":
            message.colors.extend(("NONE", "RED", "BLUE").index(color) for color in value)
        elif isinstance(value, list):
            getattr(message, name).extend(value)
        elif isinstance(value, Secret):
            setattr(message, name, value.data if name == "token" else value.data.decode())
        else:
            setattr(message, name, value)


def without_zeros(body):
    """What proto3 leaves of a body: no scalar that is zero."""
    kept = {}
    for name, value in body.items():
        if isinstance(value, dict):
            kept[name] = without_zeros(value)
        elif isinstance(value, list) and isinstance(value[0], dict):
            kept[name] = [without_zeros(inner) for inner in value]
        elif value or (isinstance(value, float) and math.copysign(1, value) < 0):
            kept[name] = value
    return kept


@settings(max_examples=50, deadline=None)
@given(body=bodies(), syntax=st.sampled_from(["proto2", "proto3"]))
def test_both_paths_give_what_the_runtime_was_told_to_write(body, syntax):
    message = runtime(f"{syntax}.All")()
    write(message, body)
    data = message.SerializeToString()
    expected = body if syntax == "proto2" else without_zeros(body)
    slow = interpret(f"{syntax}.All", data)
    assert slow.body == expected
    assert (slow.problems, slow.broken, slow.stop) == ((), None, len(data))
    assert TYPES[f"{syntax}.All"].plain(TYPES[f"{syntax}.All"]._parse(data)) == expected


# ---- any bytes

PIECES = st.one_of(
    st.binary(max_size=6),
    st.builds(
        lambda number, wire_type, content: tag(number, wire_type) + content,
        st.sampled_from([0, *range(1, 50), 2000]),
        st.integers(0, 7),
        st.sampled_from(
            [b"", b"\x00", b"\x01a", b"\x02\x08\x01", b"\x04\x0a\x02\x0a\x00", b"\x96\x01", bytes(8), b"\xff" * 9]
        ),
    ),
)


@settings(max_examples=300, deadline=None)
@given(pieces=st.lists(PIECES, max_size=5), name=st.sampled_from(NAMES))
def test_on_any_bytes_the_two_paths_agree_and_damage_is_what_the_runtime_refuses(pieces, name):
    data = b"".join(pieces)
    slow = interpret(name, data)
    try:
        message = TYPES[name]._parse(data)
    except DecodeError:
        assert slow.broken is not None
        return
    try:
        fast = TYPES[name].plain(message)
    except FALLBACK_ERRORS:
        return
    assert repr(fast) == repr(slow.body) or fast == slow.body
    assert slow.problems == ()
    assert slow.broken is None


@settings(max_examples=200, deadline=None)
@given(pieces=st.lists(PIECES, max_size=5), name=st.sampled_from(NAMES))
def test_spans_tile_any_bytes(pieces, name):
    data = b"".join(pieces)
    spans = []
    interpret(name, data, spans=spans)
    assert [span.start for span in spans] == [0, *(span.stop for span in spans)][: len(spans)]
    assert (spans[-1].stop if spans else 0) == len(data)


@settings(max_examples=50, deadline=None)
@given(body=bodies(), at=st.integers(0, 400))
def test_a_message_cut_anywhere_keeps_what_was_there_and_names_the_rest(body, at):
    message = runtime("proto2.All")()
    write(message, body)
    data = message.SerializeToString()
    cut = data[: at % (len(data) + 1)]
    slow = TYPES["proto2.All"].decode(cut)
    try:
        expected = message_as_body(runtime("proto2.All").FromString(cut))
    except DecodeError:
        assert slow.broken is not None
        assert slow.problems[0].kind == "malformed"
        assert "undecoded" in repr(slow.body)
    else:
        assert slow.body == expected


def message_as_body(message):
    return TYPES["proto2.All"].plain(TYPES["proto2.All"]._parse(message.SerializePartialToString()))


# ---- oddities, one by one

ODD = [
    (
        "an unknown enum value",
        "proto2.All",
        tag(40, 0) + b"\x63",
        {"color": 99},
        [("unknown_code", "warning", "color")],
    ),
    (
        "an unknown enum value in a list",
        "proto2.All",
        tag(41, 0) + b"\x01" + tag(41, 0) + b"\x63",
        {"colors": ["RED", 99]},
        [("unknown_code", "warning", "colors[1]")],
    ),
    ("an open enum", "proto3.All", tag(40, 0) + b"\x63", {"color": 99}, [("unknown_code", "warning", "color")]),
    (
        "text that is none, in a message with secrets",
        "proto2.All",
        sized(9, b"\xff"),
        {"one_string": Secret(b"\xff")},
        [("format", "info", "one_string")],
    ),
    ("control characters there", "proto2.All", sized(9, b"a\x1f"), {"one_string": Secret(b"a\x1f")}, []),
    ("text that is none, without", "proto2.Strict", sized(1, b"\xff"), {"name": b"\xff"}, [("format", "info", "name")]),
    (
        "a known field on another wire type",
        "proto2.All",
        tag(9, 0) + b"\x05",
        {"unknown_fields": {"9": 5}},
        [("format", "warning", "unknown_fields.9")],
    ),
    ("a required field that is missing", "proto2.Strict", b"", {}, [("missing_field", "warning", "name")]),
    (
        "one that is missing inside",
        "proto2.Strict",
        sized(1, b"a") + sized(3, b""),
        {"name": "a", "inners": [{}]},
        [("missing_field", "warning", "inners[0].name")],
    ),
    ("a group", "proto2.Grouped", b"\x0b\x08\x01\x0c", {"unknown_fields": {"1": b"\x08\x01\x0c"}}, []),
    (
        "a map",
        "proto3.Mapped",
        sized(1, sized(1, b"a") + b"\x10\x05") + sized(1, b""),
        {"places": [{"key": "a", "value": 5}, {}]},
        [],
    ),
]


@pytest.mark.parametrize(("name", "data", "body", "noted"), [case[1:] for case in ODD], ids=[case[0] for case in ODD])
def test_what_is_odd_is_kept_and_noted(name, data, body, noted):
    decoded = TYPES[name].decode(data)
    assert decoded.body == body
    assert notes(decoded) == noted


def test_unknown_fields_are_kept_by_number_on_both_paths():
    data = (
        tag(100, 0)
        + b"\x05"
        + tag(101, 2)
        + b"\x01x"
        + tag(102, 1)
        + bytes(7)
        + b"\x01"
        + tag(103, 5)
        + b"\x02"
        + bytes(3)
    )
    expected = {"unknown_fields": {"100": [5, 6], "101": b"x", "102": 1 << 56, "103": 2}}
    data += tag(100, 0) + b"\x06"
    assert interpret("proto2.All", data).body == expected
    assert TYPES["proto2.All"].plain(TYPES["proto2.All"]._parse(data)) == expected


def test_of_a_field_that_comes_twice_the_last_counts_and_messages_are_merged():
    data = tag(5, 0) + b"\x01" + tag(5, 0) + b"\x02" + sized(42, tag(5, 0) + b"\x03") + sized(42, tag(3, 0) + b"\x04")
    expected = {"one_int32": 2, "inner": {"one_int32": 3, "one_int64": 4}}
    assert interpret("proto2.All", data).body == expected
    assert TYPES["proto2.All"].decode(data).body == expected


def test_of_a_oneof_the_last_member_counts():
    data = tag(46, 0) + b"\x01" + sized(47, b"")
    assert interpret("proto3.All", data).body == {"right": {}}
    assert TYPES["proto3.All"].decode(data).body == {"right": {}}


def test_packed_and_unpacked_numbers_mean_the_same():
    packed, unpacked = (
        sized(25, b"\x01\x02\x96\x01"),
        tag(25, 0) + b"\x01" + tag(25, 0) + b"\x02" + tag(25, 0) + b"\x96\x01",
    )
    assert interpret("proto2.All", packed).body == interpret("proto2.All", unpacked).body == {"many_int32": [1, 2, 150]}


def test_damage_inside_a_message_is_contained_in_it():
    data = sized(42, tag(5, 0) + b"\x01" + b"\x2d\x01") + tag(5, 0) + b"\x07"
    decoded = TYPES["proto2.All"].decode(data)
    assert decoded.body == {"inner": {"one_int32": 1, "undecoded": Undecoded(b"\x2d\x01")}, "one_int32": 7}
    assert notes(decoded) == [("malformed", "error", "inner.unknown_fields.5")]
    assert decoded.broken is not None


def test_secrets_stay_secret_where_the_message_is_damaged():
    data = sized(44, b"token") + sized(45, b"password") + b"\xff"
    decoded = TYPES["proto2.All"].decode(data)
    assert decoded.broken is not None
    assert decoded.body["token"] == Secret(b"token")
    assert decoded.body["password"] == Secret(b"password")


def nested(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        data = sized(42, data)
    return data


@pytest.mark.parametrize("levels", [99, 100, 101, 3000])
def test_messages_are_followed_as_deep_as_the_runtime_does(levels):
    data = nested(levels)
    decoded = interpret("proto2.All", data)
    try:
        TYPES["proto2.All"]._parse(data)
    except DecodeError:
        assert decoded.broken is not None
    else:
        assert decoded.broken is None


@pytest.mark.parametrize("levels", [99, 100, 101, 3000])
def test_groups_are_followed_as_deep_as_the_runtime_does(levels):
    data = tag(100, 3) * levels + tag(100, 4) * levels
    decoded = interpret("proto2.All", data)
    try:
        TYPES["proto2.All"]._parse(data)
    except DecodeError:
        assert decoded.broken is not None
    else:
        assert decoded.body == {"unknown_fields": {"100": data[2:]}}


def test_two_bytes_buy_no_more_objects_than_elements_max():
    limits = Limits(elements_max=1000)
    for size in (300, 5000):
        decoded = TYPES["proto2.All"].decode(sized(43, b"") * size, limits=limits)
        assert len(decoded.body["inners"]) == 250, "a message counts as four elements"
        assert decoded.broken is not None
    assert TYPES["proto2.All"].decode(sized(43, b"") * 250, limits=limits).broken is None


def test_problems_of_one_message_are_limited():
    limits = Limits(message_problems_max=10)
    decoded = TYPES["proto2.All"].decode((tag(41, 0) + b"\x63") * 500, limits=limits)
    assert len(decoded.problems) == 10
    assert decoded.problems[-1].kind == "limit"


def test_a_part_of_the_data_is_decoded_where_it_stands():
    data = b"\xff\xff" + sized(9, b"here") + b"\xff"
    assert TYPES["proto2.All"].decode(data, 2, len(data) - 1).body == {"one_string": "here"}
    spans = TYPES["proto2.All"].spans(data, 2, len(data) - 1, prefix="message.")
    assert [(span.path, span.start, span.stop, span.value) for span in spans] == [("message.one_string", 2, 8, "here")]


def test_the_pool_is_private():
    from google.protobuf import descriptor_pool as pools

    with pytest.raises(KeyError):
        pools.Default().FindMessageTypeByName("proto2.All")
    with pytest.raises(KeyError):
        TYPES["google.protobuf.FileDescriptorSet"]


@pytest.mark.parametrize(("data", "value"), [(struct.pack("<d", math.inf), math.inf), (struct.pack("<d", -0.0), -0.0)])
def test_floats_are_read_bit_by_bit(data, value):
    assert repr(interpret("proto2.All", tag(1, 1) + data).body["one_double"]) == repr(value)
