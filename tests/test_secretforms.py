"""The search for secrets finds every form, whatever stands around it."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secretforms import found_in

SECRET = b"pass/w\xf6rd+1 \xff\xfe"
WRITERS = {
    "as it is": bytes,
    "base64": b64encode,
    "base64 for URLs": urlsafe_b64encode,
    "hex": lambda data: data.hex().encode(),
    "HEX": lambda data: data.hex().upper().encode(),
    "dump": lambda data: data.hex(" ").encode(),
    "URL": lambda data: quote(data, safe="").encode(),
    "url": lambda data: quote(data, safe="").lower().encode() if data.islower() else quote(data, safe="").encode(),
    "all escapes": lambda data: "".join(f"%{byte:02x}" for byte in data).encode(),
}


@pytest.mark.parametrize("form", WRITERS)
@given(before=st.binary(max_size=7), after=st.binary(max_size=7))
def test_a_secret_is_found_in_every_form(form, before, after):
    write = WRITERS[form]
    assert found_in(b"<" + write(before + SECRET + after) + b">", frozenset([SECRET])) == {SECRET}


@given(text=st.binary(max_size=60))
def test_what_is_not_there_is_not_found(text):
    assert found_in(text, frozenset([SECRET])) == set()
