"""The fast decoder against the plain one: equal on clean bytes, and out of the way of all others."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lengths import uvarint
from struct_encoder import bodies, encode, some_body
from toy_layouts import FIELDS, TOYS, toy

from mqsniff.spec.compile import FALLBACK_ERRORS, compile_struct, source
from mqsniff.spec.interpret import DecodeWindow, interpret
from mqsniff.spec.layout import Layout

from_toys = st.sampled_from(TOYS)


def agree(layout: Layout, data: bytes, pos: int = 0, end: int | None = None) -> None:
    """What the fast decoder gives is what the plain one gives, without a word of trouble; or it gives nothing."""
    end = len(data) if end is None else end
    slow = interpret(layout.struct, data, DecodeWindow(pos, end, end))
    try:
        body, stop = layout.fast(data, pos, end, end - pos)
    except FALLBACK_ERRORS:
        assert slow.broken is not None or slow.problems
        return
    assert repr(body) == repr(slow.body)
    assert (stop, slow.problems, slow.broken) == (slow.stop, (), None)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_clean_bytes_are_read_alike(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    wire = encode(layout.struct, data.draw(bodies(layout.struct)))
    body, stop = layout.fast(wire, 0, len(wire), len(wire))
    assert stop == len(wire)
    assert repr(body) == repr(interpret(layout.struct, wire, DecodeWindow(0, len(wire), len(wire))).body)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_bytes_cut_anywhere_are_read_alike(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    wire = encode(layout.struct, data.draw(bodies(layout.struct)))
    for end in range(len(wire)):
        agree(layout, wire[:end])
        agree(layout, wire, 0, end)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_mutated_bytes_are_read_alike(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    wire = bytearray(encode(layout.struct, data.draw(bodies(layout.struct))))
    for _ in range(data.draw(st.integers(1, 3))):
        if wire:
            wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    agree(layout, bytes(wire))


@settings(max_examples=50, deadline=None)
@given(from_toys, st.binary(max_size=80))
@example(toy("tags", 1), bytes.fromhex("0000000105") + b"\x00" * 10)
@example(toy("arrays_of_scalars", 1), b"\xff\xff\xff\xff\x0f")
@example(toy("arrays_of_scalars", 0), b"\x01\x7f\xff\xff\xff")
def test_any_bytes_are_read_alike(layout: Layout, data: bytes) -> None:
    agree(layout, data)


@pytest.mark.parametrize("count", [0, 1, 32, 33, 126, 127, 128, 200, 20_000])
@pytest.mark.parametrize("version", [0, 1])
def test_arrays_of_any_length_are_read_alike(count: int, version: int) -> None:
    chance = random.Random(count)
    layout = toy("arrays_of_scalars", version)
    body = some_body(layout.struct, chance, richness=1)
    for item in layout.struct.items:
        some = some_body(layout.struct._replace(items=(item._replace(array=False),)), chance, richness=1)
        body[item.name] = [some[item.name]] * count
    wire = encode(layout.struct, body)
    decoded, stop = layout.fast(wire, 0, len(wire), len(wire))
    assert (decoded, stop) == (body, len(wire))


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 32_767])
@pytest.mark.parametrize("version", [0, 1])
def test_strings_of_any_length_are_read_alike(size: int, version: int) -> None:
    layout = toy("arrays_of_sized", version)
    wire = encode(layout.struct, {"texts": ["x" * size, ""], "blobs": [b"y" * size]})
    assert layout.fast(wire, 0, len(wire), 9)[0] == {"texts": ["x" * size, ""], "blobs": [b"y" * size]}


@pytest.mark.parametrize(
    ("name", "version", "hexadecimal"),
    [
        ("tags", 1, "00000001 02 010101 010101"),
        ("tags", 1, "00000001 02 090110 010101"),
        ("tags", 1, "00000001 01 01020102"),
        ("tags", 1, "00000001 01 010400010001"),
        ("tags", 1, "00000001 01 02020100"),
        ("arrays_of_sized", 1, "01 01 02 0700 0700"),
        ("arrays_of_sized", 1, "01 01 02 0800 0700"),
        ("arrays_of_sized", 1, "02 8000 01 00"),
        ("arrays_of_sized", 1, "01 8000 00"),
        ("arrays_of_sized", 1, "02 00 01 00"),
        ("arrays_of_sized", 1, "02 02ff 01 00"),
        ("arrays_of_sized", 0, "00000001 ffff 00000000"),
        ("arrays_of_sized", 0, "ffffffff ffffffff"),
        ("arrays_of_sized", 0, "fffffffe 00000000"),
        ("sized", 1, "8000 01 00 00 01 00 0000 00"),
        ("structs", 0, "0001" + "00" * 16 + "ffff 00000000 0000 02 00"),
    ],
)
def test_odd_bytes_are_left_to_the_interpreter(name: str, version: int, hexadecimal: str) -> None:
    layout, data = toy(name, version), bytes.fromhex(hexadecimal)
    with pytest.raises(FALLBACK_ERRORS):
        layout.fast(data, 0, len(data), len(data))
    agree(layout, data)


def test_a_string_longer_than_an_int16_could_say_is_left_to_the_interpreter() -> None:
    layout = toy("arrays_of_sized", 1)
    data = b"\x02" + uvarint(32_769) + b"x" * 32_768 + b"\x01\x00"
    with pytest.raises(FALLBACK_ERRORS):
        layout.fast(data, 0, len(data), len(data))
    agree(layout, data)


def test_the_room_for_elements_is_kept_to() -> None:
    layout = toy("arrays_of_sized", 0)
    wire = encode(layout.struct, {"texts": ["a", "b"], "blobs": [b"c"]})
    assert layout.fast(wire, 0, len(wire), 3)[1] == len(wire)
    with pytest.raises(FALLBACK_ERRORS):
        layout.fast(wire, 0, len(wire), 2)


def test_bytes_behind_the_end_are_not_read_even_where_they_are_there() -> None:
    layout = toy("arrays_of_sized", 0)
    wire = encode(layout.struct, {"texts": ["abc"], "blobs": [b"def"]})
    with pytest.raises(FALLBACK_ERRORS):
        layout.fast(wire, 0, len(wire) - 1, 9)


@pytest.mark.parametrize("layout", TOYS, ids=repr)
def test_the_source_is_straight_line_and_readable(layout: Layout) -> None:
    text = layout.source
    assert text.startswith("def ")
    assert "version" not in text
    assert all(f"'{item.name}'" in text for item in layout.struct.items)
    assert compile_struct(layout.struct).__code__.co_argcount == 4


def test_adjacent_fields_of_fixed_width_are_one_call() -> None:
    text = source(toy("scalars", 0).struct)
    assert text.count("unpack") + text.count("UNPACK") == 1


def test_rows_of_fixed_width_are_one_call() -> None:
    assert "for _ in" not in source(toy("fixed_rows", 0).struct)
    assert "for _ in" in source(toy("fixed_rows", 1).struct)


def test_names_that_python_uses_are_names_of_fields_too() -> None:
    layout = toy("names_of_python", 1)
    body = {field["name"]: field["name"].upper() for field in FIELDS["names_of_python"]}
    wire = encode(layout.struct, body)
    assert layout.fast(wire, 0, len(wire), len(wire)) == (body, len(wire))
