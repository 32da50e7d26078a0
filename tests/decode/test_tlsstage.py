"""TLS under a whole connection, without keys: nothing comes out, and the end says how much it hid and why."""

from __future__ import annotations

import pytest
from test_tls import SERVER_HELLO_12, handshake, record
from toymq import chunk

from mqsniff.decode.tlsstage import TlsStage
from mqsniff.limits import Limits
from mqsniff.model import ConnectionInfo, Mark, Problem, ProblemItem, Side
from mqsniff.tls.keylog import KeyLog, KeyRing

CLIENT, SERVER = Side.CLIENT, Side.SERVER
SECRET = record(b"x" * 20, 23)
HELLO = record(handshake(SERVER_HELLO_12, 2))


def staged(keys: KeyRing | None = None, *, from_start: bool = True) -> tuple[TlsStage, ConnectionInfo]:
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 2, 0, 1)
    return TlsStage(Limits(), keys, info, from_start=from_start), info


def ended(stage: TlsStage) -> list[object]:
    for side in Side:
        assert list(stage.close(side)) == []
    return list(stage.end())


@pytest.mark.parametrize(("first", "second"), [(CLIENT, SERVER), (SERVER, CLIENT)])
def test_what_tls_hid_is_one_problem_of_the_connection_at_its_first_packet(first, second):
    stage, info = staged()
    for packet, side in ((3, first), (4, second)):
        assert list(stage.pass_through(chunk(SECRET, 0, side, packet))) == []
    (item,) = ended(stage)
    detail = f"TLS: {2 * len(SECRET)} bytes not decrypted"
    assert item == ProblemItem(info, Problem("tls", "warning", detail, size=2 * len(SECRET)), 1003, 3)
    assert info.undecoded_bytes == 2 * len(SECRET)
    assert (info.client_plain_bytes, info.server_plain_bytes, info.tls_keys) == (None, None, "missing")


def test_with_a_key_log_that_does_not_help_the_problem_says_why():
    stage, info = staged(KeyRing([KeyLog(b"CLIENT_RANDOM " + b"11" * 32 + b" " + b"22" * 48)]))
    for packet, (side, data) in enumerate([(SERVER, HELLO), (SERVER, SECRET)]):
        list(stage.pass_through(chunk(data, packet * len(HELLO), side, packet)))
    items = ended(stage)
    assert len(items) == 1
    (item,) = items
    assert isinstance(item, ProblemItem)
    head, _, why = item.problem.detail.partition(": ")[2].partition(": ")
    assert head.endswith(" bytes not decrypted")
    assert why
    assert (info.tls_version, info.tls_cipher) == ("TLS 1.2", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")


def test_clear_text_of_a_connection_that_was_never_opened_counts_as_hidden():
    stage, info = staged()
    assert list(stage.pass_through(chunk(b"clear text", 0, CLIENT, 5))) == []
    assert list(stage.pass_through(chunk(SECRET, 0, SERVER, 6))) == []
    (item,) = ended(stage)
    total = len(b"clear text") + len(SECRET)
    assert isinstance(item, ProblemItem)
    assert (item.problem.size, info.undecoded_bytes) == (total, total)


def test_a_connection_of_which_tls_hid_nothing_has_no_problem_and_no_plain_bytes():
    stage, info = staged()
    assert ended(stage) == []
    assert (info.undecoded_bytes, info.client_plain_bytes, info.server_plain_bytes) == (0, 0, 0)


def test_plain_bytes_that_a_layer_above_counted_stay():
    stage, info = staged()
    info.client_plain_bytes, info.server_plain_bytes = 7, 8
    assert ended(stage) == []
    assert (info.client_plain_bytes, info.server_plain_bytes) == (7, 8)


def test_notices_are_given_once():
    stage, _ = staged()
    alert = bytes.fromhex("15030300020228")
    list(stage.pass_through(chunk(record(handshake(bytes(60), 1)), 0, CLIENT, 1)))
    list(stage.pass_through(chunk(alert, 0, SERVER, 2)))
    told = list(stage.notices())
    assert [(problem.kind, problem.side, mark) for problem, mark in told] == [("tls", SERVER, Mark(0, 1002, 2, 2))]
    assert list(stage.notices()) == []
