"""Readers by table: what they read, where they stop, and that nothing after ``end`` is touched."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lengths import uvarint, zigzag

from mqsniff.spec import wire
from mqsniff.spec.wire import Malformed

Reader = Callable[[bytes, int, int], tuple[Any, int]]

FIXED: list[tuple[Reader, str, Any]] = [
    (wire.read_bool, "00", False),
    (wire.read_bool, "01", True),
    (wire.read_bool, "7f", True),
    (wire.read_int8, "80", -128),
    (wire.read_int16, "fffe", -2),
    (wire.read_int16, "7fff", 32767),
    (wire.read_int32, "80000000", -(2**31)),
    (wire.read_int64, "ffffffffffffffff", -1),
    (wire.read_uint16, "ffff", 65535),
    (wire.read_uint32, "ffffffff", 2**32 - 1),
    (wire.read_float64, "3ff8000000000000", 1.5),
    (wire.read_float64, "7ff0000000000000", math.inf),
    (wire.read_uuid, "00" * 16, "A" * 22),
    (wire.read_uuid, "ff" * 16, "_" * 21 + "w"),
    (wire.read_uuid, "00" * 15 + "01", "A" * 21 + "Q"),
]

VARIABLE: list[tuple[Reader, str, Any]] = [
    (wire.read_uvarint, "00", 0),
    (wire.read_uvarint, "7f", 127),
    (wire.read_uvarint, "8001", 128),
    (wire.read_uvarint, "ffffffff0f", 2**32 - 1),
    (wire.read_uvarint, "ffffffff7f", 2**32 - 1),
    (wire.read_uvarint, "8000", 0),
    (wire.read_varint, "01", -1),
    (wire.read_varint, "feffffff0f", 2**31 - 1),
    (wire.read_varint, "ffffffff0f", -(2**31)),
    (wire.read_varlong, "ffffffffffffffffff01", -(2**63)),
    (wire.read_varlong, "80808080808080808001", 2**62),
    (wire.read_string, "000268c3", b"h\xc3"),
    (wire.read_string, "0003e282ac", "€"),
    (wire.read_string, "0000", ""),
    (wire.read_string, "ffff", None),
    (wire.read_string, "fffe", None),
    (wire.read_bytes, "00000002fffe", b"\xff\xfe"),
    (wire.read_bytes, "00000000", b""),
    (wire.read_bytes, "ffffffff", None),
    (wire.read_count, "00000000", 0),
    (wire.read_count, "ffffffff", -1),
]


@pytest.mark.parametrize(("reader", "hexadecimal", "value"), FIXED + VARIABLE)
def test_a_reader_gives_the_value_and_the_place_behind_it(reader: Reader, hexadecimal: str, value: Any) -> None:
    data = bytes.fromhex(hexadecimal)
    assert reader(b"\xee\xee" + data + b"\xee", 2, 3 + len(data)) == (value, 2 + len(data))


@pytest.mark.parametrize(("reader", "hexadecimal"), [case[:2] for case in FIXED + VARIABLE])
def test_a_reader_reads_nothing_behind_the_end(reader: Reader, hexadecimal: str) -> None:
    data = bytes.fromhex(hexadecimal)
    for end in range(len(data)):
        with pytest.raises(Malformed):
            reader(data, 0, end)


COMPACT: list[tuple[Any, str, Any]] = [
    (wire.read_string, "0168", ""),
    (wire.read_string, "00", None),
    (wire.read_string, "0468c3a9", "hé"),
    (wire.read_bytes, "03fffe", b"\xff\xfe"),
    (wire.read_bytes, "00", None),
    (wire.read_count, "00", -1),
    (wire.read_count, "020000", 1),
]


@pytest.mark.parametrize(("reader", "hexadecimal", "value"), COMPACT)
def test_compact_lengths_are_one_more_and_zero_is_null(reader: Any, hexadecimal: str, value: Any) -> None:
    data = bytes.fromhex(hexadecimal)
    assert reader(data, 0, len(data), compact=True)[0] == value


@pytest.mark.parametrize("reader", [wire.read_uvarint, wire.read_varint])
def test_a_varint_of_six_bytes_is_refused(reader: Reader) -> None:
    with pytest.raises(Malformed, match="varint too long"):
        reader(b"\x80" * 5 + b"\x01", 0, 6)


def test_a_varlong_of_eleven_bytes_is_refused() -> None:
    with pytest.raises(Malformed, match="varint too long"):
        wire.read_varlong(b"\x80" * 10 + b"\x01", 0, 11)


def test_a_compact_string_keeps_the_bound_that_an_int16_gave() -> None:
    longest = uvarint(32768) + b"x" * 32767
    assert wire.read_string(longest, 0, len(longest), compact=True) == ("x" * 32767, len(longest))
    longer = uvarint(32769) + b"x" * 32768
    with pytest.raises(Malformed, match="string too long"):
        wire.read_string(longer, 0, len(longer), compact=True)


@pytest.mark.parametrize(
    ("read", "hexadecimal"),
    [
        (lambda data: wire.read_bytes(data, 0, len(data)), "7fffffff"),
        (lambda data: wire.read_bytes(data, 0, len(data), compact=True), "ffffffff0f"),
        (lambda data: wire.read_string(data, 0, len(data)), "7fff78"),
        (lambda data: wire.read_count(data, 0, len(data)), "7fffffff00"),
        (lambda data: wire.read_count(data, 0, len(data), compact=True), "ffffffff0f00"),
        (lambda data: wire.read_tag_count(data, 0, len(data)), "020000"),
        (lambda data: wire.read_tag(data, 0, len(data)), "0002ff"),
    ],
)
def test_a_lying_length_is_refused_before_it_is_believed(read: Callable[[bytes], Any], hexadecimal: str) -> None:
    with pytest.raises(Malformed):
        read(bytes.fromhex(hexadecimal))


def test_a_count_may_reach_as_far_as_the_message_did_before_bytes_were_lost() -> None:
    assert wire.read_count(b"\x00\x00\x00\x09\x01", 0, 5, claimed=13) == (9, 4)
    assert wire.read_tag_count(b"\x03\x01", 0, 2, claimed=7) == (3, 1)


def test_a_tag_has_a_number_and_the_extent_of_its_bytes() -> None:
    assert wire.read_tag(bytes.fromhex("8001 02 aabb cc"), 0, 6) == (128, 3, 5)


@pytest.mark.parametrize(
    ("tagged", "hexadecimal", "presence"), [(True, "00", 0), (True, "01", 1), (False, "ff", -1), (False, "01", 1)]
)
def test_presence_of_a_struct(tagged: bool, hexadecimal: str, presence: int) -> None:
    assert wire.read_presence(bytes.fromhex(hexadecimal), 0, 1, tagged=tagged) == (presence, 1)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_come_back(number: int) -> None:
    data = uvarint(number)
    assert wire.read_uvarint(data, 0, len(data)) == (number, len(data))


@settings(max_examples=50, deadline=None)
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_zigzag_varints_come_back(number: int, long: int) -> None:
    data = zigzag(number, 32)
    assert wire.read_varint(data, 0, len(data)) == (number, len(data))
    data = zigzag(long, 64)
    assert wire.read_varlong(data, 0, len(data)) == (long, len(data))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=40), st.integers(0, 40))
def test_no_reader_goes_past_the_end_or_raises_anything_but_malformed(data: bytes, end: int) -> None:
    end = min(end, len(data))
    for reader in {reader for reader, _, _ in FIXED + VARIABLE}:
        with contextlib.suppress(Malformed):
            _, stop = reader(data, 0, end)
            assert 0 < stop <= end


def test_text_of_an_error_holds_no_payload() -> None:
    with pytest.raises(Malformed) as raised:
        wire.read_string(struct.pack(">h", 9) + b"hunter2", 0, 9)
    assert str(raised.value) == wire.CUT
