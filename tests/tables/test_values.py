"""The rules for values, against the standard library's JSON and base64."""

from __future__ import annotations

import base64 as stdlib_base64
import hmac
import json
import math
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.model import PayloadBytes, PayloadChecksum, PayloadMap, PayloadText, Secret, Undecoded, payload
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import NESTING_MAX, Redaction, text_of

KEY = b"a key of a test, long enough"
HMAC_OF_ABC = hmac.digest(KEY, b"abc", "sha256").hex()


def shown_json(value, **options):
    return json.loads(Redaction(**options, hash_key=HashKey(KEY)).json(value))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"plain", "plain"),
        (b"tab\tcr\rlf\n", "tab\tcr\rlf\n"),
        ("größe €".encode(), "größe €"),
        (b"nul\x00", None),
        (b"escape\x1b[31m", None),
        (b"delete\x7f", None),
        ("c1 \x9b".encode(), None),
        ("not c1: \xc2 Â".encode(), "not c1: \xc2 Â"),
        (b"\xff\xfe", None),
        (b"overlong \xc0\xaf", None),
        ("surrogate \ud800".encode(errors="surrogatepass"), None),
    ],
)
def test_bytes_are_text_where_they_are_utf8_without_control_characters(data, text):
    expected = text if text is not None else {"base64": stdlib_base64.b64encode(data).decode()}
    assert text_of(data) == text
    assert shown_json({"data": data, "again": bytearray(data), "view": memoryview(data)}) == {
        "data": expected,
        "again": expected,
        "view": expected,
    }


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=6) | st.text(st.characters(max_codepoint=0x120), max_size=6).map(str.encode))
def test_text_has_no_character_of_the_class_of_controls(data):
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert text_of(data) is None
        return
    controls = [char for char in text if unicodedata.category(char) == "Cc" and char not in "\t\r\n"]
    assert text_of(data) == (None if controls else text)


def test_secrets_are_their_length_until_the_user_asks():
    body = {"token": Secret(b"hush"), "salt": [Secret(b"\xff")]}
    assert shown_json(body) == {"token": {"redacted": 4}, "salt": [{"redacted": 1}]}
    assert shown_json(body, secrets=True) == {"token": "hush", "salt": [{"base64": "/w=="}]}
    assert shown_json(body, raw=True) == shown_json(body)


def test_undecoded_bytes_are_size_and_hash_until_the_user_asks():
    body = {"rest": Undecoded(b"abc")}
    assert shown_json(body) == {"rest": {"undecoded": 3, "hmac_sha256": HMAC_OF_ABC}}
    assert shown_json(body, raw=True) == {"rest": "abc"}
    assert shown_json(body, secrets=True) == shown_json(body)


def test_without_a_key_there_are_no_hashes():
    body = {"rest": Undecoded(b"abc"), "key": payload("abc")}
    assert json.loads(Redaction(payload=False).json(body)) == {"rest": {"undecoded": 3}, "key": {"redacted": 3}}


def test_nan_and_infinities_are_text_wherever_they_stand():
    body = {"a": math.nan, "b": [math.inf, {"c": -math.inf}], "null": None, "half": 0.5}
    assert shown_json(body) == {"a": "NaN", "b": ["Infinity", {"c": "-Infinity"}], "null": None, "half": 0.5}


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 10**4000])
def test_integers_stay_integers_however_long(number):
    assert shown_json({"n": number}) == {"n": number}


def test_an_integer_too_long_for_decimal_text_is_hex_text():
    number = 1 << 20_000
    assert shown_json({"n": number}) == {"n": hex(number)}


def test_a_lone_surrogate_does_not_stop_a_row():
    surrogate = "\udc80"
    encoded = {"base64": stdlib_base64.b64encode(b"\xed\xb2\x80").decode()}
    assert shown_json({"name": surrogate, surrogate: 1}) == {"name": encoded, "\\udc80": 1}


def test_nesting_ends_with_a_note_instead_of_a_failure():
    value: object = "bottom"
    for _ in range(5000):
        value = [value]
    shown = shown_json({"deep": value})["deep"]
    for _ in range(NESTING_MAX - 1):
        (shown,) = shown
    assert shown == {"nested_deeper_than": NESTING_MAX}


def test_what_is_no_value_at_all_is_named_by_its_type():
    assert shown_json({"fault": {1, 2}, "fine": 1}) == {"fault": {"no_value": "set"}, "fine": 1}


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
anything = st.recursive(
    st.none()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.binary().map(Undecoded)
    | st.just(Secret(b"never show this")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=50)
@given(plain)
def test_plain_values_read_back_as_they_were(value):
    assert json.loads(Redaction().json(value)) == value


@settings(max_examples=50)
@given(anything)
def test_every_value_is_serialisable_and_no_secret_leaves(value):
    encoded = Redaction().json({"value": value})
    json.loads(encoded)
    assert b"never show this" not in encoded


@settings(max_examples=50)
@given(anything)
def test_the_careful_twin_gives_the_same_as_the_fast_path(value):
    shown = Redaction()
    assert json.loads(shown.json([value])) == json.loads(shown.json(shown.plain([value])))


@pytest.mark.parametrize(
    ("data", "size", "options", "expected"),
    [
        (b"", 0, {}, (b"", "utf8")),
        (b"text", 4, {}, (b"text", "utf8")),
        (b"\xff", 1, {}, (b"\xff", "base64")),
        (b"text", 4, {"payload": False}, (None, "redacted")),
        (b"text", 4, {"max_bytes": 4}, (b"text", "utf8")),
        (b"text", 4, {"max_bytes": 3}, (b"tex", "cut")),
        (b"text", 4, {"max_bytes": 0}, (b"", "cut")),
        (b"a\xff\xffb", 4, {"max_bytes": 2}, (b"a\xff", "base64")),
        ("aé".encode(), 3, {"max_bytes": 2}, (b"a", "cut")),
        (b"lost by the cap", 99, {}, (b"lost by the cap", "cut")),
        (b"\x00lost", 99, {}, (b"\x00lost", "base64")),
    ],
)
def test_record_data_says_how_it_stands(data, size, options, expected):
    shown = Redaction(**options)
    assert shown.record_data(data, size) == expected
    found, encoding = expected
    text = (
        None if found is None else stdlib_base64.b64encode(found).decode() if encoding == "base64" else found.decode()
    )
    assert shown.record_text(data, size) == (text, encoding)


ABC = {"redacted": 3, "hmac_sha256": HMAC_OF_ABC}


def test_headers_keep_names_and_lose_values_when_payload_is_redacted():
    headers = [("trace", b"abc"), ("none", None)]
    assert shown_json(Redaction().headers(headers)) == [
        {"key": "trace", "value": "abc"},
        {"key": "none", "value": None},
    ]
    redacted = Redaction(payload=False, hash_key=HashKey(KEY)).headers(headers)
    assert shown_json(redacted) == [{"key": "trace", "value": ABC}, {"key": "none", "value": None}]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    ("value", "hidden", "shown"),
    [
        (PayloadText("abc"), ABC, "abc"),
        (PayloadBytes(b"abc"), ABC, "abc"),
        (PayloadMap(a="abc", b=b"abc", c=None), {"a": ABC, "b": ABC, "c": None}, {"a": "abc", "b": "abc", "c": None}),
        (payload("abc"), ABC, "abc"),
        (payload(b"abc"), ABC, "abc"),
        ("abc", "abc", "abc"),
    ],
)
def test_payload_in_bodies_is_shown_unless_the_payload_is_redacted(value, hidden, shown, slow):
    body = {"inner": [value], "far": 1 << 70} if slow else {"inner": [value]}
    assert shown_json(body, payload=False)["inner"] == [hidden]
    assert shown_json(body)["inner"] == [shown]


@pytest.mark.parametrize(
    ("value", "hidden"),
    [
        (None, None),
        ("abc", {"redacted": 3, "hmac_sha256": HMAC_OF_ABC}),
        (b"abc", {"redacted": 3, "hmac_sha256": HMAC_OF_ABC}),
        ({"a": "abc", "b": None}, {"a": {"redacted": 3, "hmac_sha256": HMAC_OF_ABC}, "b": None}),
        ({"c": 5}, {"c": {"redacted": "int"}}),
        (5, {"redacted": "int"}),
        (1.5, {"redacted": "float"}),
        (True, {"redacted": "bool"}),
        ([1], {"redacted": "list"}),
        (PayloadChecksum(7), {"redacted": "checksum"}),
    ],
)  # fmt: skip
def test_of_payload_that_is_hidden_only_size_hash_and_names_are_told(value, hidden):
    assert Redaction(payload=False, hash_key=HashKey(KEY)).redacted(value) == hidden
    without = Redaction(payload=False).redacted(value)
    assert without == ({"redacted": 3} if value in ("abc", b"abc") else without)
    assert "hmac_sha256" not in str(without)


@pytest.mark.parametrize(
    ("data", "size", "options", "shown"),
    [
        (b"text", 4, {}, (b"text", "utf8")),
        (b"\xff\xfe", 2, {}, (b"\xff\xfe", "base64")),
        (b"text", 5, {}, (b"text", "cut")),
        (b"\xff\xfe", 5, {}, (b"\xff\xfe", "base64")),
        ("ü".encode()[:1], 2, {}, (b"", "cut")),
        (b"text", 4, {"max_bytes": 4}, (b"text", "utf8")),
        (b"text", 4, {"max_bytes": 3}, (b"tex", "cut")),
        (b"text", 4, {"max_bytes": 0}, (b"", "cut")),
        (b"text", 4, {"payload": False}, (None, "redacted")),
        (b"", 0, {}, (b"", "utf8")),
    ],
)
def test_record_data_and_their_text_say_the_same(data, size, options, shown):
    redaction = Redaction(**options)
    assert redaction.record_data(data, size) == shown
    found, encoding = shown
    text = (
        None if found is None else stdlib_base64.b64encode(found).decode() if encoding == "base64" else found.decode()
    )
    assert redaction.record_text(data, size) == (text, encoding)


def test_headers_are_shown_or_hidden_by_their_values():
    given = [("a", b"abc"), ("b", None)]
    assert Redaction().headers(given) == [{"key": "a", "value": b"abc"}, {"key": "b", "value": None}]
    assert Redaction(payload=False).headers(given) == [
        {"key": "a", "value": {"redacted": 3}},
        {"key": "b", "value": None},
    ]
