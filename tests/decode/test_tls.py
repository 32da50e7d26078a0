"""TLS without keys: hellos made by OpenSSL (the ssl module), records in any cuts."""

from __future__ import annotations

import ssl
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.decode.tls import RecordWalk, TlsFacts, is_hello, is_record_run


@cache
def client_hello(name: str = "broker.example", alpn: tuple[str, ...] = ("h2", "mq")) -> bytes:
    """What OpenSSL sends first."""
    context = ssl.create_default_context()
    if alpn:
        context.set_alpn_protocols(list(alpn))
    out = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return out.read()


SERVER_HELLO_12 = bytes.fromhex("0303" + "11" * 32 + "00" + "c02f" + "00" + "0000")
SERVER_HELLO_13 = bytes.fromhex("0303" + "11" * 32 + "00" + "1301" + "00" + "0006" + "002b00020304")
ALERT = bytes.fromhex("15030300020228")


def record(body: bytes, kind: int = 22) -> bytes:
    return bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body


def handshake(body: bytes, kind: int) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def test_a_client_hello_tells_server_name_and_alpn():
    facts = TlsFacts()
    RecordWalk(facts).feed(client_hello())
    assert (facts.server_name, facts.alpn) == ("broker.example", "h2,mq")


@pytest.mark.parametrize(
    ("hello", "version", "cipher"),
    [
        (SERVER_HELLO_12, "TLS 1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        (SERVER_HELLO_13, "TLS 1.3", "TLS_AES_128_GCM_SHA256"),
    ],
)
def test_a_server_hello_tells_version_and_cipher(hello, version, cipher):
    facts = TlsFacts()
    RecordWalk(facts).feed(record(handshake(hello, 2)))
    assert (facts.version, facts.cipher) == (version, cipher)


def test_a_hello_over_two_records_is_read():
    facts, hello = TlsFacts(), handshake(SERVER_HELLO_13, 2)
    RecordWalk(facts).feed(record(hello[:20]) + record(hello[20:]))
    assert facts.version == "TLS 1.3"


@given(cuts=st.lists(st.integers(1, 600), max_size=6))
def test_cuts_do_not_matter(cuts):
    data, facts = client_hello(), TlsFacts()
    walk, at = RecordWalk(facts), 0
    for stop in [*sorted(cuts), len(data)]:
        assert walk.feed(data[at:stop]) == len(data[at:stop])
        at = max(at, stop)
    assert facts.server_name == "broker.example"


def test_clear_text_behind_an_alert_is_handed_back():
    assert RecordWalk(TlsFacts()).feed(ALERT + b"\x00\x00\x00\x10\x00\x00\x00\x01E_IDENTIFY") == len(ALERT)


@pytest.mark.parametrize("cut", [1, 3, 200])
def test_clear_text_where_tls_was_to_begin_is_handed_back(cut):
    clear = b"\0\0\0\x5a\0\0\0\x01E_IDENTIFY_FAILED IDENTIFY failed tls"
    walk = RecordWalk(TlsFacts())
    assert walk.feed(clear[:cut]) == 0


def test_other_bytes_without_an_alert_stay_with_tls():
    assert RecordWalk(TlsFacts()).feed(record(b"x" * 9) + b"clear") == len(record(b"x" * 9)) + 5


def test_a_gap_inside_a_record_keeps_the_walk():
    walk = RecordWalk(TlsFacts())
    walk.feed(record(b"x" * 100, 23)[:50])
    walk.gap(55)
    assert walk.feed(ALERT + b"\x00clear") == len(ALERT)


@given(data=st.binary(max_size=200))
def test_rubbish_never_raises(data):
    assert 0 <= RecordWalk(TlsFacts()).feed(b"\x16\x03\x03\x00\x60" + data) <= len(data) + 5


def test_hellos_are_recognised_at_any_cut():
    hello = client_hello()
    assert [is_hello(hello[:cut]) for cut in range(8)] == [None] * 6 + [True] * 2
    assert is_hello(b"  V2 command") is False


def test_a_record_run_needs_a_second_record_or_the_exact_end():
    assert is_record_run(record(b"abc", 23))
    assert is_record_run(record(b"abc", 23) + record(b"d", 23) + b"rest")
    assert not is_record_run(record(b"abc", 23) + b"rest of something")
    assert not is_record_run(b"\x17\x03\x03\x00")
