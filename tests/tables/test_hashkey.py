"""Hashes with a key: against the standard library and RFC 4231; and the file of a key."""

from __future__ import annotations

import hmac
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.tables.hashkey import KEY_MAX, KEY_MIN, PUBLISHED, HashKey, HashKeyError, others_can_read


def test_the_vector_of_rfc_4231():
    found = HashKey(b"Jefe").hash(b"what do ya want for nothing?")
    assert found == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_hashes_are_those_of_the_standard_library(key, data):
    assert HashKey(key).hash(data) == hmac.digest(key, data, "sha256").hex()


def test_each_run_has_another_key():
    assert HashKey.random().hash(b"x") != HashKey.random().hash(b"x")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_key_ends_where_its_line_ends(tmp_path, end):
    path = tmp_path / "key"
    path.write_bytes(b"0123456789abcdef" + end)
    assert HashKey.of_file(path).hash(b"x") == HashKey(b"0123456789abcdef").hash(b"x")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", f"holds 0 bytes; a key has {KEY_MIN} or more: openssl rand -hex 32 makes one"),
        (b"short\n", f"holds 5 bytes; a key has {KEY_MIN} or more: openssl rand -hex 32 makes one"),
        (bytes(KEY_MAX + 1), "holds more than 4,096 bytes, which is no key"),
    ],
)
def test_a_file_that_is_no_key_is_refused(tmp_path, content, words):
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(HashKeyError) as error:
        HashKey.of_file(path)
    assert str(error.value) == words


def test_a_key_is_the_same_behind_a_file(tmp_path):
    key, path = HashKey.random(), tmp_path / "key"
    key.copy_to(path)
    assert HashKey.of_file(path).hash(b"x") == key.hash(b"x")


def test_a_key_shows_itself_nowhere():
    key = HashKey(b"0123456789abcdef")
    assert repr(key) == "HashKey(...)"
    with pytest.raises(TypeError, match="does not travel"):
        pickle.dumps(key)
    assert key.about() != PUBLISHED.about()
    assert key.about() == HashKey(b"0123456789abcdef").about()


@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o640, True), (0o604, True)])
def test_who_else_can_read_it_is_known(tmp_path, mode, told):
    path = tmp_path / "key"
    path.touch()
    path.chmod(mode)
    assert others_can_read(path) is told


def test_a_pipe_and_a_file_that_is_gone_have_no_permissions_to_speak_of(tmp_path):
    assert not others_can_read("/dev/null")
    assert not others_can_read(tmp_path / "none")
