"""Places of bytes that must not be shown."""

from __future__ import annotations

import pytest

from mqsniff.model import OpenedBytes, Secret, Span, Undecoded, payload
from mqsniff.tables.masking import hidden_ranges
from mqsniff.tables.values import Redaction


def hidden(span: Span, data: bytes, **shown: bool) -> list[tuple[int, int, str]]:
    return [tuple(each) for each in hidden_ranges([span], data, Redaction(**shown))]


def test_a_secret_behind_its_length_leaves_the_length():
    data = b"\0\x04hush"
    assert hidden(Span("a", 0, 6, Secret(b"hush")), data) == [(2, 6, "secret")]
    assert hidden(Span("a", 0, 6, Secret(b"hush")), data, secrets=True) == []


def test_a_secret_in_json_leaves_the_quotes():
    data = b',"password":"hush"'
    assert hidden(Span("a", 0, len(data), Secret(b"hush")), data) == [(13, 17, "secret")]
    escaped = b',"password":"a\\"b"'
    assert hidden(Span("a", 0, len(escaped), Secret(b'a"b')), escaped) == [(13, 17, "secret")]


def test_a_secret_that_is_not_found_hides_the_field():
    assert hidden(Span("a", 2, 6, Secret(b"hush")), b"..h*sh..") == [(2, 6, "secret")]


@pytest.mark.parametrize(
    ("field", "place"),
    [
        (b'"a\\u0062"', (1, 8)),
        (b'"k":"a\\u0062"', (5, 12)),
        (b'"k":"\\"a\\\\"', (5, 10)),
        (b'"', (0, 1)),
        (b"", (0, 0)),
        (b'a\\u0062"', (0, 8)),
        (b'"a\\u0062', (0, 8)),
    ],
    ids=[
        "all of it",
        "behind its key",
        "with escaped quotes",
        "one quote",
        "nothing",
        "no first quote",
        "no last quote",
    ],
)
def test_a_secret_that_is_escaped_hides_the_text_that_ends_the_field_or_all_of_it(field, place):
    start, stop = place
    data = b'""' + field + b'""'
    assert hidden(Span("a", 2, 2 + len(field), Secret(b"ab")), data) == [(2 + start, 2 + stop, "secret")]


def test_a_secret_deep_in_a_value_hides_its_own_bytes():
    data = b'{"user":"u","pass":"hush","n":1}'
    assert hidden(Span("a", 0, len(data), {"user": "u", "pass": [Secret(b"hush")]}), data) == [(20, 24, "secret")]


def test_undecoded_bytes_and_payload_are_hidden_as_the_user_says():
    assert hidden(Span("a", 0, 4, Undecoded(b"abcd")), b"abcd") == [(0, 4, "undecoded")]
    assert hidden(Span("a", 0, 4, Undecoded(b"abcd")), b"abcd", raw=True) == []
    assert hidden(Span("a", 0, 5, payload(b"abcd")), b"\4abcd") == []
    assert hidden(Span("a", 0, 5, payload("abcd")), b"\4abcd", payload=False) == [(1, 5, "payload")]


def test_what_is_compressed_is_hidden_as_a_whole_if_anything_in_it_is():
    inside = OpenedBytes("gzip", b"k=hush", (Span("k", 0, 2, "k="), Span("v", 2, 6, Secret(b"hush"))))
    span = Span("records", 0, 9, 5, "", inside)
    assert hidden(span, b"\0\0\0\5zzzzz") == [(4, 9, "compressed")]
    assert hidden(span, b"\0\0\0\5zzzzz", secrets=True) == []
