"""TLS without keys: hellos made by OpenSSL (the ssl module), records in any cuts."""

from __future__ import annotations

import ssl
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqsniff.decode.tls import is_hello, is_record_run
from mqsniff.limits import Limits
from mqsniff.model import Chunk, Gap, Mark, Side
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.output import Plain


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


class Walk:
    """One side of TLS without keys."""

    def __init__(self, side: Side = Side.CLIENT) -> None:
        self._decoder = TlsDecoder(None, Limits())
        self._side = side
        self._at = 0
        self.facts = self._decoder.facts

    def feed(self, data: bytes) -> bytes:
        """Feed bytes; what comes out as clear text."""
        chunk = Chunk(self._side, self._at, data, [Mark(self._at, 0, 1, 1)])
        self._at += len(data)
        return b"".join(item.data for item in self._decoder.feed(chunk) if isinstance(item, Plain))

    def gap(self, length: int) -> None:
        self._decoder.feed(Gap(self._side, self._at, length, Mark(self._at, 0, 1, 1)))
        self._at += length

    @property
    def dark(self) -> int:
        """Bytes that belong to TLS."""
        return self._decoder.unread(self._side)


def test_a_client_hello_tells_server_name_and_alpn():
    walk = Walk()
    walk.feed(client_hello())
    assert (walk.facts.server_name, walk.facts.alpn) == ("broker.example", "h2,mq")


@pytest.mark.parametrize(
    ("hello", "version", "cipher"),
    [
        (SERVER_HELLO_12, "TLS 1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        (SERVER_HELLO_13, "TLS 1.3", "TLS_AES_128_GCM_SHA256"),
    ],
)
def test_a_server_hello_tells_version_and_cipher(hello, version, cipher):
    walk = Walk(Side.SERVER)
    walk.feed(record(handshake(hello, 2)))
    assert (walk.facts.version, walk.facts.cipher) == (version, cipher)


def test_a_hello_over_two_records_is_read():
    walk, hello = Walk(Side.SERVER), handshake(SERVER_HELLO_13, 2)
    walk.feed(record(hello[:20]) + record(hello[20:]))
    assert walk.facts.version == "TLS 1.3"


@given(cuts=st.lists(st.integers(1, 600), max_size=6))
def test_cuts_do_not_matter(cuts):
    data = client_hello()
    walk, at = Walk(), 0
    for stop in [*sorted(cuts), len(data)]:
        assert walk.feed(data[at:stop]) == b""
        at = max(at, stop)
        assert walk.dark == min(at, len(data))
    assert walk.facts.server_name == "broker.example"


def test_clear_text_behind_an_alert_is_handed_back():
    walk = Walk()
    assert (
        walk.feed(ALERT + b"\x00\x00\x00\x10\x00\x00\x00\x01E_IDENTIFY")
        == b"\x00\x00\x00\x10\x00\x00\x00\x01E_IDENTIFY"
    )
    assert walk.dark == len(ALERT)


@pytest.mark.parametrize("cut", [1, 3, 200])
def test_clear_text_where_tls_was_to_begin_is_handed_back(cut):
    clear = b"\0\0\0\x5a\0\0\0\x01E_IDENTIFY_FAILED IDENTIFY failed tls"
    walk = Walk()
    assert walk.feed(clear[:cut]) == clear[:cut]
    assert walk.dark == 0


def test_other_bytes_without_an_alert_stay_with_tls():
    walk = Walk()
    assert walk.feed(record(b"x" * 9) + b"clear") == b""
    assert walk.dark == len(record(b"x" * 9)) + 5


def test_a_gap_inside_a_record_keeps_the_walk():
    walk = Walk()
    walk.feed(record(b"x" * 100, 23)[:50])
    walk.gap(55)
    assert walk.feed(ALERT + b"\x00clear") == b"\x00clear"


@given(data=st.binary(max_size=200))
def test_rubbish_never_raises(data):
    walk = Walk()
    clear = walk.feed(b"\x16\x03\x03\x00\x60" + data)
    assert walk.dark + len(clear) == len(data) + 5


def test_hellos_are_recognised_at_any_cut():
    hello = client_hello()
    assert [is_hello(hello[:cut]) for cut in range(8)] == [None] * 6 + [True] * 2
    assert is_hello(b"  V2 command") is False


def test_a_record_run_needs_a_second_record_or_the_exact_end():
    assert is_record_run(record(b"abc", 23))
    assert is_record_run(record(b"abc", 23) + record(b"d", 23) + b"rest")
    assert not is_record_run(record(b"abc", 23) + b"rest of something")
    assert not is_record_run(b"\x17\x03\x03\x00")


@pytest.mark.parametrize(
    ("head", "hello"),
    [
        ("16 0300 0004 01", True),
        ("16 0304 4800 02", True),
        ("16 0305 0004 01", False),
        ("16 0203 0004 01", False),
        ("15 0303 0004 01", False),
        ("17 0303 0004 01", False),
        ("16 0303 0003 01", False),
        ("16 0303 4801 01", False),
        ("16 0303 0004 00", False),
        ("16 0303 0004 03", False),
    ],
)
def test_a_hello_is_a_record_of_a_handshake_of_a_length_that_may_be(head, hello):
    assert is_hello(bytes.fromhex(head)) is hello


def test_a_hello_is_waited_for_only_where_its_first_bytes_fit():
    assert [is_hello(data) for data in (b"", b"\x16", b"\x16\x03", b"\x16\x03\0\0\0")] == [None] * 4
    assert [is_hello(data) for data in (b"\x15", b"\x16\x02", b"\x16\x02\0\0\0")] == [False] * 3


@pytest.mark.parametrize("body", [b"", b"a", b"abc"])
def test_records_in_the_middle_end_at_the_last_byte_or_at_another_one(body):
    one = record(body or b"x", 23)
    assert [is_record_run(one[:cut]) for cut in range(len(one))] == [False] * len(one)
    assert is_record_run(one)
    two = one + record(b"d", 23)
    assert [is_record_run(two[:cut]) for cut in range(len(one) + 1, len(two))] == [False] * (len(two) - len(one) - 1)
    assert is_record_run(two)
    assert is_record_run(two + b"anything")
