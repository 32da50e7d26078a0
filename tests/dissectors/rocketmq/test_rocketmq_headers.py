"""Headers in both serialisations: by the book, odd, cut, hostile."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remotingcraft import binary_frame, binary_header, frame, json_frame, send_fields

from mqsniff.limits import Limits
from mqsniff.spec.wire import Malformed
from mqsniff_rocketmq.headers import read_header
from mqsniff_rocketmq.notes import ProblemNotes

quick = settings(max_examples=50, deadline=None)


def read(data: bytes, limits: Limits | None = None):
    notes = ProblemNotes(limits or Limits())
    header, stop = read_header(data, notes)
    return header, stop, [(problem.kind, problem.path) for problem in notes.problems]


def test_a_json_header_keeps_its_fields_and_their_order():
    header, stop, problems = read(json_frame(310, 7, {"b": "orders"}, b"body", flag=2, remark="r"))
    assert (header.code, header.opaque, header.flag, header.ext) == (310, 7, 2, {"b": "orders"})
    assert list(header.fields) == [
        "code",
        "flag",
        "language",
        "opaque",
        "remark",
        "serialize_type_current_rpc",
        "version",
    ]
    assert header.fields["language"] == "JAVA"
    assert problems == []
    assert json_frame(310, 7, {"b": "orders"}, b"body", flag=2, remark="r")[stop:] == b"body"


def test_a_binary_header_has_the_same_fields():
    header, stop, problems = read(binary_frame(310, -7, {"b": "orders", "ü": ""}, b"body", flag=1, remark="größe"))
    assert (header.code, header.opaque, header.flag) == (310, -7, 1)
    assert header.fields == {
        "code": 310,
        "language": "JAVA",
        "version": 513,
        "opaque": -7,
        "flag": 1,
        "remark": "größe",
    }
    assert header.ext == {"b": "orders", "ü": ""}
    assert (stop, problems) == (8 + len(binary_header(310, -7, {"b": "orders", "ü": ""}, flag=1, remark="größe")), [])


LANGUAGES = [
    (b'"GO"', 9, "GO", []),
    (b'"NODE_JS"', 13, "NODE_JS", []),
    (b'"KLINGON"', None, "KLINGON", ["language"]),
    (b"12", None, "RUST", []),
    (b"77", 77, "unknown(77)", ["language"]),
    (b'["GO"]', None, ["GO"], ["language"]),
]


@pytest.mark.parametrize(("text", "number", "name", "odd"), LANGUAGES)
def test_a_language_is_a_name_in_both_serialisations(text, number, name, odd):
    header, _, problems = read(frame(b'{"code":1,"flag":0,"opaque":1,"language":%b}' % text))
    assert (header.fields["language"], problems) == (name, [("unknown_code", path) for path in odd])
    if number is not None:
        header, _, problems = read(binary_frame(310, 1, language=number))
        assert (header.fields["language"], problems) == (name, [("unknown_code", path) for path in odd])


def test_a_header_knows_its_size():
    for made in (json_frame(310, 7, {"b": "orders"}, b"body"), binary_frame(310, 7, {"b": "orders"}, b"body")):
        for data in (made, made[:40]):
            header, stop, _ = read(data)
            assert (header.size, stop) == (len(made) - 8 - len(b"body"), len(made) - len(b"body"))


def test_null_and_absent_and_empty_ext_fields_stay_different():
    absent, _, _ = read(json_frame(1, 1))
    null, _, _ = read(frame(b'{"code":1,"flag":0,"opaque":1,"extFields":null}'))
    empty, _, _ = read(json_frame(1, 1, {}))
    assert [(header.has_ext, header.ext) for header in (absent, null, empty)] == [
        (False, None),
        (True, None),
        (True, {}),
    ]


ODD = {
    "a newline after it": (b'{"code":1,"flag":0,"opaque":2}\n', 1, []),
    "a number as text": (b'{"code":"1","flag":0,"opaque":2}', 1, [("format", "code")]),
    "a number that is none": (b'{"code":"one","flag":0,"opaque":2}', None, [("format", "code")]),
    "a key twice": (b'{"code":1,"code":3,"flag":0,"opaque":2}', 3, [("format", "")]),
    "keys without quotes": (b"{code:1,flag:0,opaque:2}", 1, []),
    "a control character": (b'{"code":1,"flag":0,"opaque":2,"remark":"a\x01b"}', 1, []),
    "ext fields that are a list": (b'{"code":1,"flag":0,"opaque":2,"extFields":[1]}', 1, [("format", "ext_fields")]),
    "nothing but a code": (b'{"code":1}', 1, []),
}


@pytest.mark.parametrize(("raw", "code", "problems"), ODD.values(), ids=ODD)
def test_an_odd_json_header_is_read_and_noted(raw, code, problems):
    header, _, found = read(frame(raw))
    assert (header.code, found) == (code, problems)


def test_keys_that_no_header_has_are_kept():
    header, _, _ = read(frame(b'{"code":1,"flag":0,"opaque":2,"trace":{"a":[1]}}'))
    assert header.fields["unknown_fields"] == {"trace": {"a": [1]}}


@pytest.mark.parametrize("raw", [b"[1,2]", b"no JSON", b'{"code":1', b"{" * 5000, b'{"a":' * 100 + b"1" + b"}" * 100])
def test_what_is_no_json_object_is_malformed(raw):
    with pytest.raises(Malformed):
        read(frame(raw))


@pytest.mark.parametrize(
    ("raw", "kept", "problems"),
    [
        (struct.pack(">i", 7) + b"\0\x01a\0\0\0\0\xff", {"a": ""}, [("malformed", "ext_fields")]),
        (struct.pack(">i", 8) + b"\0\x01a\0\0\0\x09x", {}, [("malformed", "ext_fields")]),
        (struct.pack(">i", 8) + b"\xff\xffa\0\0\0\x01x", {}, [("malformed", "ext_fields")]),
        (struct.pack(">i", 16) + b"\0\x01a\0\0\0\x01x" * 2, {"a": "x"}, [("format", "ext_fields")]),
        (struct.pack(">i", 8) + b"\0\x01\xff\0\0\0\x01\xfe", {"\\xff": b"\xfe"}, []),
        (struct.pack(">i", 99) + b"\0\x01a\0\0\0\x01x", {"a": "x"}, [("malformed", "ext_fields")]),
        (struct.pack(">i", -1), {}, [("malformed", "ext_fields")]),
    ],
)
def test_ext_fields_that_do_not_fit_are_kept_as_far_as_they_go(raw, kept, problems):
    header, _, found = read(frame(binary_header(1, 1)[:-4] + raw, kind=1))
    assert (header.ext, found[-1:]) == (kept, problems)


@pytest.mark.parametrize("raw", [binary_header(1, 1)[:10], binary_header(1, 1)[:13] + b"\x7f\xff\xff\xff" + b"\0" * 4])
def test_a_binary_header_that_cannot_be_is_malformed(raw):
    with pytest.raises(Malformed):
        read(frame(raw, kind=1))


@pytest.mark.parametrize("make", [json_frame, binary_frame])
def test_a_header_that_was_cut_gives_the_fields_before_the_cut(make):
    whole = make(310, 7, send_fields())
    complete, stop, _ = read(whole)
    first = 9 if make is json_frame else 8 + 17
    for size in range(first):
        with pytest.raises(Malformed):
            read(whole[:size])
    for size in range(first, stop):
        header, _, problems = read(whole[:size])
        assert problems == []
        assert header.code in (310, None)
        assert {**complete.fields, **header.fields} == complete.fields
        assert {**complete.ext, **(header.ext or {})} == complete.ext


def test_a_json_header_cut_behind_its_flag_still_tells_it():
    whole = json_frame(310, 7, send_fields(), flag=2)
    header, _, _ = read(whole[: whole.index(b'"opaque"')])
    assert (header.code, header.flag, header.opaque) == (310, 2, None)
    assert header.ext["b"] == "orders"


def test_more_fields_than_elements_max_are_malformed():
    many = {f"k{number}": "v" for number in range(300)}
    for make in (json_frame, binary_frame):
        assert read(make(1, 1, many))[0].ext == many
        with pytest.raises(Malformed):
            read(make(1, 1, many), Limits(elements_max=200))


@quick
@given(st.binary(min_size=8, max_size=200), st.integers(0, 1))
def test_nothing_but_malformed_is_raised(raw, kind):
    try:
        read(frame(raw, kind=kind))
    except Malformed:
        return
