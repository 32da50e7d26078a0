"""What the traffic writes must not act on a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.tables.escape import quoted, safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders.eu", "orders.eu"),
        ("größe €", "größe €"),
        ("red\x1b[31m", "red\\x1b[31m"),
        ("two\nlines\r\t", "two\\nlines\\r\\t"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("bell\x07\x00\x7f", "bell\\x07\\x00\\x7f"),
        ("right to left \u202etxt", "right to left \\u202etxt"),
        ("line\u2028separator", "line\\u2028separator"),
        ("lone \ud800", "lone \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_what_a_terminal_would_act_on_is_an_escape(text, shown):
    assert safe(text) == shown


@settings(max_examples=50)
@given(st.text(st.characters()))
def test_safe_text_is_printable_on_one_line(text):
    assert safe(text).isprintable()
    safe(text).encode()


@settings(max_examples=50)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_quoted_ascii_is_a_json_string(text):
    assert json.loads(quoted(text)) == text
