"""The plain decoder: what it gives, what it notes, what it keeps of damaged bytes, and which bytes a field had."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from struct_encoder import bodies, encode, with_records
from toy_layouts import TOYS, toy

from mqsniff.limits import Limits
from mqsniff.model import Secret
from mqsniff.spec.interpret import DecodedBody, DecodeStop, DecodeWindow, interpret
from mqsniff.spec.layout import Layout
from mqsniff.spec.schema import FieldLayout
from mqsniff.spec.wire import CUT, Extent

from_toys = st.sampled_from(TOYS)


def read(layout: Layout, data: bytes, **options: Any) -> DecodedBody:
    return interpret(layout.struct, data, DecodeWindow(0, len(data), len(data)), **options)


def notes(decoded: DecodedBody) -> list[tuple[str, str, str]]:
    return [(problem.kind, problem.severity, problem.path) for problem in decoded.problems]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_what_was_written_is_read(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    body = data.draw(bodies(layout.struct))
    wire = encode(layout.struct, body)
    decoded = read(layout, wire)
    assert (with_records(decoded.body, wire), decoded.stop) == (body, len(wire))
    assert (decoded.problems, decoded.broken) == ((), None)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_spans_tile_the_message(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    wire = encode(layout.struct, data.draw(bodies(layout.struct)))
    spans = layout.spans(b"\xee" * 3 + wire, 3)
    places = [3, *(span.stop for span in spans)]
    assert [span.start for span in spans] == places[:-1]
    assert places[-1] == 3 + len(wire)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_cut_keeps_what_stood_before_it_and_names_the_field(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    whole = encode(layout.struct, data.draw(bodies(layout.struct)))
    spans = layout.spans(whole)
    for end in range(len(whole)):
        decoded = read(layout, whole[:end])
        assert decoded.broken is not None
        before = [span for span in spans if span.stop <= decoded.broken.offset]
        assert decoded.stop == decoded.broken.offset == (before[-1].stop if before else 0) <= end
        assert decoded.broken.path == spans[len(before)].path


def names_of(items: Iterable[FieldLayout]) -> Iterator[str]:
    """Names of fields, and of all inside them."""
    for item in items:
        yield item.name
        if item.struct is not None:
            yield from names_of((*item.struct.items, *item.struct.tagged))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_what_a_cut_leaves_unread_is_told(data: st.DataObject) -> None:
    layout = data.draw(from_toys)
    wire = encode(layout.struct, data.draw(bodies(layout.struct)))
    end = data.draw(st.integers(0, len(wire)))
    decoded = interpret(layout.struct, wire, DecodeWindow(0, end, len(wire)))
    if decoded.broken is None:
        assert decoded.unread == ()
        return
    names = {*names_of(layout.struct.items), *names_of(layout.struct.tagged)}
    behind = {re.sub(r".*\.|\[.*", "", span.path) for span in layout.spans(wire) if span.stop > end}
    assert behind & names <= set(names_of(decoded.unread))


def test_an_array_is_unread_while_elements_are_missing() -> None:
    layout = toy("nested", 0)
    partition = {"index": 1, "inner": {"id": "A" * 22, "label": None, "weights": [7], "note": "n"}}
    whole = encode(layout.struct, {"topics": [{"name": "t", "partitions": [partition, partition]}]})
    first, last = (whole.index(bytes(16)) + 20, len(whole) - 2)
    assert "index" in names_of(interpret(layout.struct, whole, DecodeWindow(0, first, len(whole))).unread)
    assert "index" not in names_of(interpret(layout.struct, whole, DecodeWindow(0, last, len(whole))).unread)


def test_fields_before_the_break_are_kept_at_every_depth() -> None:
    layout = toy("nested", 0)
    inner = {"id": "A" * 22, "label": None, "weights": [7], "note": "n"}
    body = {"topics": [{"name": "t", "partitions": [{"index": 1, "inner": inner}, {"index": 2, "inner": inner}]}]}
    whole = encode(layout.struct, body)
    decoded = read(layout, whole[: -len(b"\x00\x01n") - 7])
    kept = {"id": "A" * 22, "label": None, "weights": []}
    assert decoded.body["topics"][0]["partitions"] == [{"index": 1, "inner": inner}, {"index": 2, "inner": kept}]
    assert decoded.broken == DecodeStop("topics[0].partitions[1].inner.weights[0]", len(whole) - 11, CUT)


def test_an_element_of_which_nothing_was_read_is_left_out() -> None:
    layout = toy("nested", 0)
    decoded = read(layout, bytes.fromhex("00000001 00"))
    assert decoded.body == {"topics": []}
    assert decoded.broken == DecodeStop("topics[0].name", 4, CUT)


def test_records_that_were_cut_are_kept_as_far_as_they_go() -> None:
    layout = toy("sized", 0)
    data = bytes.fromhex("0000 ffff 00000000 ffffffff 00000064 aabbcc")
    decoded = read(layout, data)
    assert decoded.body["batches"] == Extent(16, 19)
    assert decoded.broken == DecodeStop("batches", 12, CUT)


def test_lost_bytes_do_not_make_an_array_a_lie() -> None:
    layout = toy("arrays_of_sized", 0)
    data = bytes.fromhex("00000009 000161 000162 0001")
    assert read(layout, data).body == {}
    decoded = interpret(layout.struct, data, DecodeWindow(0, len(data), 40))
    assert decoded.body == {"texts": ["a", "b"]}
    assert decoded.broken == DecodeStop("texts[2]", 10, CUT)


@pytest.mark.parametrize("version", [0, 1])
def test_null_where_none_may_be_is_a_problem_and_no_failure(version: int) -> None:
    layout = toy("sized", version)
    null = {0: b"\xff\xff", 1: b"\x00"}[version]
    whole = encode(
        layout.struct,
        dict.fromkeys(("maybe_text", "maybe_blob", "batches", "password"))
        | {
            "text": "",
            "blob": b"",
            "token": Secret(b""),
            "old": "",
        },
    )
    empty_text = {0: b"\x00\x00", 1: b"\x01"}[version]
    assert whole.startswith(empty_text)
    decoded = read(layout, null + whole[len(empty_text) :])
    assert decoded.body["text"] is None
    assert decoded.broken is None
    assert notes(decoded) == [("missing_field", "warning", "text")]


def test_null_elements_are_problems_at_their_index() -> None:
    layout = toy("arrays_of_sized", 0)
    decoded = read(layout, bytes.fromhex("00000002 000161 ffff 00000001 ffffffff"))
    assert decoded.body == {"texts": ["a", None], "blobs": [None]}
    assert notes(decoded) == [("missing_field", "warning", "texts[1]"), ("missing_field", "warning", "blobs[0]")]


def test_null_and_empty_stay_different() -> None:
    layout = toy("nullable_arrays", 0)
    null = read(layout, bytes.fromhex("ffffffff 0001 ffffffff 00000000")).body
    empty = read(layout, bytes.fromhex("00000000 0001 00000000 00000000")).body
    assert (null["numbers"], null["inner"]) == (None, None)
    assert (empty["numbers"], empty["inner"]) == ([], [])


def test_a_null_that_is_not_minus_one_is_noted() -> None:
    layout = toy("nullable_arrays", 0)
    decoded = read(layout, bytes.fromhex("fffffff0 0001 ffffffff 00000000"))
    assert decoded.body["numbers"] is None
    assert notes(decoded) == [("out_of_range", "info", "numbers")]


def test_text_that_is_no_utf8_is_kept_as_bytes() -> None:
    decoded = read(toy("arrays_of_sized", 1), bytes.fromhex("02 03c328 01 00"))
    assert decoded.body == {"texts": [b"\xc3("], "blobs": []}
    assert notes(decoded) == [("format", "info", "texts[0]")]


def test_secrets_are_wrapped() -> None:
    layout = toy("sized", 1)
    body = {
        "text": "t", "maybe_text": None, "blob": b"b", "maybe_blob": b"", "batches": b"rrr",
        "token": Secret(b"\x00\xff"), "password": Secret("pässword".encode()), "old": "o",
    }  # fmt: skip
    decoded = read(layout, encode(layout.struct, body))
    assert decoded.body["token"] == Secret(b"\x00\xff")
    assert decoded.body["password"] == Secret("pässword".encode())


@pytest.mark.parametrize(
    ("hexadecimal", "tags", "noted"),
    [
        ("00000001 01 0702abcd", {"unknown_tags": {"7": b"\xab\xcd"}}, []),
        ("00000001 02 0700 0800", {"unknown_tags": {"7": b"", "8": b""}}, []),
        ("00000001 02 0800 0700", {"unknown_tags": {"8": b"", "7": b""}}, ["tags"]),
        ("00000001 02 0701aa 0701bb", {"unknown_tags": {"7": b"\xbb"}}, ["tags"]),
        ("00000001 02 010101 810101cc", {"tagged_numbers": [], "unknown_tags": {"129": b"\xcc"}}, []),
        ("00000001 01 000100", {"tagged_text": None}, []),
        ("00000001 01 020100", {"tagged_struct": None}, []),
    ],
)
def test_tagged_fields(hexadecimal: str, tags: dict[str, Any], noted: list[str]) -> None:
    decoded = read(toy("tags", 1), bytes.fromhex(hexadecimal))
    assert decoded.body == {"first": 1} | tags
    assert [path for _, _, path in notes(decoded)] == noted
    assert decoded.broken is None


@pytest.mark.parametrize(
    ("hexadecimal", "broken"),
    [
        ("00000001 01 00 04 0261 ffff", DecodeStop("tagged_text", 9, "tagged field of another size")),
        ("00000001 01 00 02 0361 62", DecodeStop("tagged_text", 7, CUT)),
        ("00000001 01 07 05 00", DecodeStop("tags", 5, CUT)),
        ("00000001 05 0000", DecodeStop("tags", 4, "more tagged fields than bytes")),
    ],
)
def test_tagged_fields_that_lie_about_their_size_break_the_message_there(hexadecimal: str, broken: DecodeStop) -> None:
    assert read(toy("tags", 1), bytes.fromhex(hexadecimal)).broken == broken


def test_presence_of_a_struct_other_than_one_is_noted() -> None:
    layout = toy("structs", 0)
    inner = "00" * 16 + "ffff 00000000 0000"
    decoded = read(layout, bytes.fromhex(f"0001 {inner} 05 {inner} 09"))
    assert decoded.body["maybe"] == decoded.body["inner"]
    assert notes(decoded) == [("out_of_range", "info", "maybe")]
    assert read(layout, bytes.fromhex(f"0001 {inner} ff 09")).body["maybe"] is None


def test_elements_are_bounded() -> None:
    layout = toy("arrays_of_sized", 1)
    data = encode(layout.struct, {"texts": [""] * 50, "blobs": []})
    assert read(layout, data, limits=Limits(elements_max=50)).broken is None
    assert read(layout, data, limits=Limits(elements_max=49)).broken == DecodeStop("texts", 0, "too many elements")


def test_notes_are_bounded() -> None:
    layout = toy("arrays_of_sized", 1)
    data = bytes([101]) + bytes(100) + b"\x01\x00"
    kinds = [kind for kind, _, _ in notes(read(layout, data, limits=Limits(message_problems_max=5)))]
    assert kinds == ["missing_field"] * 4 + ["limit"]


@settings(max_examples=50, deadline=None)
@given(from_toys, st.binary(max_size=60))
def test_nothing_raises_and_nothing_is_read_past_the_end(layout: Layout, data: bytes) -> None:
    decoded = read(layout, data)
    assert 0 <= decoded.stop <= len(data)
    assert decoded.broken is None or decoded.broken.offset == decoded.stop
