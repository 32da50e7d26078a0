"""Bodies as trees."""

from __future__ import annotations

import pytest

from mqsniff.model import Secret, Undecoded
from mqsniff.sinks.tree import brief, inline, tree_lines
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.values import NESTING_MAX, Redaction


def test_a_body_is_indented_member_by_member():
    body = {
        "topic": "retry",
        "defer_time": None,
        "flags": [1, True, 0.5],
        "empty": {},
        "nothing": [],
        "metadata": {"size": 40, "inner": {"codec": "lz4"}},
        "batches": [{"offset": 1, "records": [{"n": 1}]}, {"offset": 2}, 3, ["a", ["b"]]],
    }
    assert list(tree_lines(body, Redaction(), 2)) == [
        '  topic: "retry"',
        "  defer_time: null",
        "  flags: [1,true,0.5]",
        "  empty: {}",
        "  nothing: []",
        "  metadata:",
        "    size: 40",
        "    inner:",
        '      codec: "lz4"',
        "  batches:",
        "    - offset: 1",
        "      records:",
        "        - n: 1",
        "    - offset: 2",
        "    - 3",
        "    -",
        '      - "a"',
        '      - ["b"]',
    ]


def test_no_string_can_pass_for_another_line_or_for_a_redaction():
    body = {"to\npic": 'x"\ny: 1', "fake": "<redacted, 4 bytes>", "auth": Secret(b"hush")}
    assert list(tree_lines(body, Redaction(), 0)) == [
        'to\\npic: "x\\"\\ny: 1"',
        'fake: "<redacted, 4 bytes>"',
        "auth: <redacted, 4 bytes>",
    ]


@pytest.mark.parametrize(
    ("value", "options", "text"),
    [
        (b"text", {}, '"text"'),
        (b"\xff", {}, "<base64 /w==>"),
        (Secret(b"hush"), {"secrets": True}, '"hush"'),
        (Undecoded(b"abc"), {"raw": True}, '"abc"'),
        (
            Undecoded(b"abc"),
            {"hash_key": HashKey(b"Jefe")},
            f"<undecoded, 3 bytes, hmac_sha256 {HashKey(b'Jefe').hash(b'abc')}>",
        ),
        (
            Undecoded(b"abc"),
            {},
            "<undecoded, 3 bytes>",
        ),
        (float("nan"), {}, '"NaN"'),
        ([b"\xff", Secret(b"x")], {}, '[{"base64":"/w=="},{"redacted":1}]'),
    ],
)
def test_single_values_have_a_form_on_one_line(value, options, text):
    assert inline(value, Redaction(**options)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [("OK", "OK"), ("", '""'), ("two words", '"two words"'), ("a=b", '"a=b"'), ("\x1b[2J", '"\\x1b[2J"'), (7, "7")],
)
def test_plain_words_go_without_quotes(value, text):
    assert brief(value, Redaction()) == text


def test_a_bottomless_body_has_a_bottom():
    value: object = "bottom"
    for _ in range(5000):
        value = {"in": value}
    assert len(list(tree_lines({"deep": value}, Redaction(), 0))) == NESTING_MAX + 1
