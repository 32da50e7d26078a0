"""Decrypted TLS: conversations of OpenSSL with itself, and some that are written by hand."""

from __future__ import annotations

import re
import ssl
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tlscraft import (
    NO_ENCRYPT_THEN_MAC,
    RANDOM,
    OpenSslPair,
    TlsTape,
    Written13,
    certificate,
    clear,
    client_hello,
    contexts,
    cut,
    decode,
    extension,
    message,
    server_hello,
    talk,
    whole,
    without,
)

from mqsniff.limits import Limits
from mqsniff.model import Chunk, Mark, Side
from mqsniff.tls import keylog
from mqsniff.tls.decoder import TlsDecoder
from mqsniff.tls.keylog import KeyLog, KeyRing
from mqsniff.tls.output import Plain
from mqsniff.tls.suites import suite_of

TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 = (
    ssl.TLSVersion.TLSv1,
    ssl.TLSVersion.TLSv1_1,
    ssl.TLSVersion.TLSv1_2,
    ssl.TLSVersion.TLSv1_3,
)


@cache
def spoken(version: ssl.TLSVersion = TLS_1_3, ciphers: str = "", kind: str = "ec", options: int = 0) -> TlsTape:
    return talk(*contexts(version, ciphers, kind, options=options))


def test_tls_1_3_is_decrypted():
    tape = spoken()
    done = decode(whole(tape), tape.keys)
    assert done.plain == tape.said
    assert (done.dark(Side.CLIENT), done.dark(Side.SERVER)) == (0, 0)
    facts = done.facts
    assert (facts.version, facts.keys, facts.resumed) == ("TLS 1.3", "used", False)
    assert facts.cipher == tape.suite
    assert facts.server_name == "broker.example"
    assert facts.certificate_subject == facts.certificate_issuer == r"CN=broker.example,O=Queues\, Inc.,C=DE"
    assert done.problems == []


KINDS_OF_KEYS = ("ec", "rsa")


def openssl_suites() -> list[tuple[str, str]]:
    """(name, kind of certificate) of all suites of TLS 1.2 that this OpenSSL can be asked for with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    named = {
        cipher["name"]: cipher["description"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"
    }
    return [
        (name, kind)
        for name, description in named.items()
        for kind, mark in (("rsa", "Au=RSA"), ("ec", "Au=ECDSA"))
        if mark in description and not re.search(r"Kx=(DH|\S*PSK|SRP)", description)
    ]


@pytest.mark.parametrize(("name", "kind"), openssl_suites())
def test_each_suite_is_decrypted_or_named(name, kind):
    tape = spoken(TLS_1_2, name, kind)
    done = decode(whole(tape), tape.keys)
    known = re.search("AES|CHACHA", name) is not None and "ARIA" not in name
    if known:
        assert done.plain == tape.said
        assert done.facts.keys == "used"
        assert done.facts.cipher.startswith("TLS_")
    else:
        assert done.plain == dict.fromkeys(Side, b"")
        assert "is not decrypted" in done.decoder.why_not(Side.CLIENT)


def test_openssl_has_suites_of_each_mode():
    codes = {cipher["id"] & 0xFFFF for cipher in contexts(TLS_1_2)[0].get_ciphers()}
    assert {suite.mode for code in codes if (suite := suite_of(code))} == {"gcm", "ccm", "ccm_8", "chacha20", "cbc"}


@pytest.mark.parametrize("version", [TLS_1_0, TLS_1_1, TLS_1_2])
@pytest.mark.parametrize("options", [0, NO_ENCRYPT_THEN_MAC])
@pytest.mark.parametrize("ciphers", ["ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA"])
def test_cbc_of_all_versions_with_both_orders_of_the_mac(version, options, ciphers):
    tape = spoken(version, ciphers, "ec", options)
    done = decode(whole(tape), tape.keys)
    assert done.plain == tape.said
    assert done.facts.version == {"TLSv1": "TLS 1.0", "TLSv1.1": "TLS 1.1", "TLSv1.2": "TLS 1.2"}[tape.version]


@pytest.mark.parametrize("suite", [0x1301, 0x1302, 0x1303, 0x1304, 0x1305])
def test_each_suite_of_tls_1_3_with_padding(suite):
    written = Written13(suite)
    written.handshake()
    written.say(Side.CLIENT, b"ask", padding=77)
    written.say(Side.SERVER, b"answer")
    done = decode(whole(written.tape), written.tape.keys)
    assert done.plain == written.tape.said
    assert done.dark(Side.CLIENT) == done.dark(Side.SERVER) == 0


# ---- cuts and order


CASES = [(TLS_1_3, "", 0), (TLS_1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", 0), (TLS_1_0, "ECDHE-ECDSA-AES128-SHA", 0)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 5, 1448])
def test_cuts_do_not_matter(case, size):
    words = [(Side.CLIENT, b"a question"), (Side.SERVER, b"an answer" * 200)]
    tape = talk(*contexts(case[0], case[1], options=case[2]), words)
    done = decode(cut(whole(tape), size), tape.keys)
    assert done.plain == tape.said
    assert done.problems == []
    assert done.dark(Side.CLIENT) == done.dark(Side.SERVER) == 0


def test_plain_bytes_have_the_packet_that_completed_their_record():
    written = Written13()
    written.handshake()
    written.say(Side.CLIENT, b"x" * 100)
    pieces = whole(written.tape)
    side, offset, data = pieces[-1]
    pieces[-1:] = [(side, offset, data[:50]), (side, offset + 50, data[50:])]
    (plain,) = (item for item in decode(pieces, written.tape.keys).items if isinstance(item, Plain))
    assert plain.mark.packet == len(pieces)


def test_a_client_that_comes_before_the_server_waits_for_its_hello():
    written = Written13()
    written.handshake()
    written.say(Side.CLIENT, b"early bird")
    pieces = whole(written.tape)
    pieces.sort(key=lambda piece: piece[0])
    done = decode(pieces, written.tape.keys)
    assert done.plain == written.tape.said
    releases = [item.mark.release for item in done.items]
    assert releases == sorted(releases)
    assert releases[0] >= len(pieces)


def test_what_waits_is_bounded():
    written = Written13()
    written.handshake()
    for _ in range(20):
        written.say(Side.CLIENT, b"x" * 16_000)
    pieces = [piece for piece in whole(written.tape) if piece[0] is Side.CLIENT]
    done = decode(pieces, written.tape.keys, limits=Limits(wait_max=64 * 1024))
    assert done.plain[Side.CLIENT] == written.tape.said[Side.CLIENT]
    assert next(index for index, item in enumerate(done.items) if isinstance(item, Plain)) < 5


# ---- handshakes


def test_a_hello_retry_request():
    client, server = contexts(TLS_1_3)
    server.set_ecdh_curve("secp521r1")
    tape = talk(client, server)
    assert sum(side is Side.CLIENT for side, _ in tape.sent[:4]) >= 2
    done = decode(whole(tape), tape.keys)
    assert done.plain == tape.said
    assert done.dark(Side.CLIENT) == 0


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("tickets", [True, False])
def test_sessions_that_are_resumed(version, tickets):
    client, server = contexts(version)
    if not tickets:
        server.options |= ssl.OP_NO_TICKET
    first = talk(client, server)
    assert decode(whole(first), first.keys).facts.resumed is False
    again = talk(client, server, session=first.client.session)
    assert again.client.session_reused
    done = decode(whole(again), again.keys)
    assert done.plain == again.said
    assert done.facts.resumed is True


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_client_certificates(version):
    client, server = contexts(version)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=certificate("ec", "client 7")[0].decode())
    made, secret = certificate("ec", "client 7")
    load(client, made, secret)
    tape = talk(client, server)
    done = decode(whole(tape), tape.keys)
    assert done.plain == tape.said
    assert done.facts.client_certificate_subject == r"CN=client 7,O=Queues\, Inc.,C=DE"
    assert done.facts.certificate_subject == r"CN=broker.example,O=Queues\, Inc.,C=DE"


def load(context: ssl.SSLContext, made: bytes, secret: bytes) -> None:
    from tlscraft import load_certificate

    load_certificate(context, "ec", "client 7")
    assert (made, secret) == certificate("ec", "client 7")


@pytest.mark.parametrize(("version", "words"), [(TLS_1_2, "unknown CA"), (TLS_1_3, "unknown CA")])
def test_a_client_that_does_not_know_the_authority_says_so(version, words):
    client, server = contexts(version)
    client.verify_mode = ssl.CERT_REQUIRED
    pair = OpenSslPair(client, server)
    with pytest.raises(ssl.SSLError):
        pair.handshake()
    pair._carry(pair._ends[Side.CLIENT])
    tape = pair.finish()
    for keys in (tape.keys, None) if version == TLS_1_2 else (tape.keys,):
        problems = decode(whole(tape), keys).problems
        assert [problem.detail for problem in problems] == [f"TLS: the client refused TLS with an alert: {words}"]
        assert problems[0].severity == "error"
        assert problems[0].side is Side.CLIENT


def test_key_updates_of_both_sides():
    written = Written13(0x1302)
    written.handshake()
    for turn in range(3):
        for side in Side:
            written.say(side, b"before %d" % turn)
            written.send(side, written.sealers[side].update())
            written.say(side, b"behind %d" % turn)
    done = decode(whole(written.tape), written.tape.keys)
    assert done.plain == written.tape.said
    assert done.problems == []


@pytest.mark.parametrize("accepted", [True, False])
def test_early_data_counts_if_the_server_took_it(accepted):
    written = Written13(early=True)
    written.begin()
    written.send(Side.CLIENT, clear(20, b"\1") + written.early.seal(b"early question"))
    written.answer(accepts=accepted)
    if accepted:
        written.send(Side.CLIENT, written.early.seal(message(5, b""), 22))
    written.finish()
    written.say(Side.CLIENT, b" and more")
    done = decode(whole(written.tape), written.tape.keys)
    assert done.plain[Side.CLIENT] == (b"early question and more" if accepted else b" and more")
    told = [problem.detail for problem in done.problems]
    assert told == (
        [] if accepted else ["TLS: early data that the server did not take: 14 bytes, which the client sends again"]
    )


def test_early_data_without_its_secret_costs_only_itself():
    written = Written13(early=True)
    written.begin()
    written.send(Side.CLIENT, written.early.seal(b"early question"))
    written.answer(accepts=True)
    written.send(Side.CLIENT, written.early.seal(message(5, b""), 22))
    written.finish()
    written.say(Side.CLIENT, b"more")
    keys = "".join(line for line in written.tape.keys.splitlines(keepends=True) if "EARLY" not in line)
    assert decode(whole(written.tape), keys).plain[Side.CLIENT] == b"more"


def test_compression_is_refused_in_words():
    pieces = [
        (Side.CLIENT, 0, client_hello(RANDOM, (0xC02F,))),
        (
            Side.SERVER,
            0,
            server_hello(b"S" * 32, 0xC02F, version=0x0303, compression=1) + clear(20, b"\1") + clear(22, b"?" * 40),
        ),
    ]
    done = decode(pieces, f"CLIENT_RANDOM {RANDOM.hex()} {'00' * 48}\n")
    assert done.decoder.why_not(Side.SERVER) == "TLS compression (method 1) is not decrypted"
    assert done.dark(Side.SERVER)


def test_coalesced_and_divided_handshake_messages():
    written = Written13()
    written.begin()
    told = message(8, b"\0\0") + message(11, b"\0\0\0\0") + message(20, bytes(32))
    first, second = written._server_hs.seal(told[:9], 22), written._server_hs.seal(told[9:], 22)
    written.send(Side.SERVER, server_hello(b"S" * 32, 0x1301) + first + second)
    written.finish()
    written.say(Side.SERVER, b"answer")
    assert decode(cut(whole(written.tape), 7), written.tape.keys).plain == written.tape.said


# ---- keys


def test_keys_that_are_missing_wrong_or_shuffled():
    tape, other = spoken(), talk(*contexts(TLS_1_3))
    lines = tape.keys.splitlines(keepends=True)
    assert decode(whole(tape), other.keys).facts.keys == "missing"
    assert (
        decode(whole(tape), other.keys).decoder.why_not(Side.CLIENT) == "the key log has no line for its client random"
    )
    turned = "".join(
        f"{line.split()[0]} {line.split()[1]} {line.split()[2][::-1]}\n" for line in lines if line[0] != "#"
    )
    done = decode(whole(tape), turned)
    assert (done.facts.keys, done.plain) == ("wrong", dict.fromkeys(Side, b""))
    assert done.decoder.why_not(Side.SERVER) == "the secrets that the key log has for it do not open its records"
    mixed = "".join([*reversed(lines), *other.keys.splitlines(keepends=True), "half a li"])
    assert decode(whole(tape), mixed).plain == tape.said


def test_without_any_key_log_only_facts_are_told():
    tape = spoken(TLS_1_2)
    done = decode(whole(tape), None)
    assert done.plain == dict.fromkeys(Side, b"")
    assert (done.facts.version, done.facts.keys) == ("TLS 1.2", "missing")
    assert done.facts.certificate_subject == r"CN=broker.example,O=Queues\, Inc.,C=DE"
    assert done.decoder.why_not(Side.CLIENT) is None
    assert done.dark(Side.CLIENT) == sum(len(data) for side, data in tape.sent if side is Side.CLIENT)


@pytest.mark.parametrize("label", ["HANDSHAKE", "TRAFFIC_SECRET_0"])
def test_part_of_the_lines_decrypts_what_it_can(label):
    tape = spoken()
    kept = "".join(line for line in tape.keys.splitlines(keepends=True) if label not in line)
    done = decode(whole(tape), kept)
    assert done.plain == (tape.said if label == "HANDSHAKE" else dict.fromkeys(Side, b""))
    if label == "HANDSHAKE":
        assert done.facts.keys == "used"
    else:
        assert done.decoder.why_not(Side.CLIENT) == "the key log has no CLIENT_TRAFFIC_SECRET_0 for it"


def test_one_direction_of_secrets_decrypts_one_side():
    tape = spoken()
    kept = "".join(line for line in tape.keys.splitlines(keepends=True) if line.startswith("SERVER"))
    done = decode(whole(tape), kept)
    assert done.plain == {Side.CLIENT: b"", Side.SERVER: tape.said[Side.SERVER]}


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_keys_that_come_later_open_what_follows(version, tmp_path, monkeypatch):
    monkeypatch.setattr(keylog, "PAUSE_S", 0.0)
    tape = talk(*contexts(version), [(side, b"%03d" % number) for number in range(200) for side in Side])
    path = tmp_path / "keys"
    path.write_text("# nothing yet\n")
    decoder = TlsDecoder(KeyRing([KeyLog(str(path), follow=True)]), Limits())
    plain = dict.fromkeys(Side, b"")
    for packet, (side, offset, data) in enumerate(whole(tape)):
        if packet == 100:
            path.write_text("# nothing yet\n" + tape.keys)
        for item in decoder.feed(Chunk(side, offset, data, [Mark(offset, packet, packet, packet)])):
            if isinstance(item, Plain):
                plain[side] += item.data
    for side in Side:
        assert plain[side]
        assert tape.said[side].endswith(plain[side])
        assert len(plain[side]) >= 3 * 80


# ---- losses


AEADS = [(TLS_1_3, ""), (TLS_1_2, "ECDHE-ECDSA-AES128-GCM-SHA256"), (TLS_1_2, "ECDHE-ECDSA-CHACHA20-POLY1305")]
CBCS = [
    (TLS_1_2, "ECDHE-ECDSA-AES128-SHA256"),
    (TLS_1_1, "ECDHE-ECDSA-AES128-SHA"),
    (TLS_1_0, "ECDHE-ECDSA-AES128-SHA"),
]
NUMBERED = [(Side.CLIENT, b"<%03d>" % number * 40) for number in range(60)]


@cache
def numbered(version: ssl.TLSVersion, ciphers: str, options: int = 0) -> TlsTape:
    return talk(*contexts(version, ciphers, options=options), NUMBERED)


@pytest.mark.parametrize("case", [*AEADS, *CBCS])
@pytest.mark.parametrize("options", [0, NO_ENCRYPT_THEN_MAC])
def test_records_behind_a_loss_are_decrypted(case, options):
    tape = numbered(*case, options)
    start = sum(len(data) for side, data in tape.sent if side is Side.CLIENT) // 2
    done = decode(without(cut(whole(tape), 100), Side.CLIENT, start, start + 700), tape.keys)
    found = {int(number) for number in re.findall(rb"<(\d+)>", done.plain[Side.CLIENT])}
    lost = set(range(60)) - found
    assert 0 < len(lost) <= 700 // 200 + (3 if case[0] == TLS_1_0 else 2)
    assert max(lost) - min(lost) < 8
    assert done.holes == [Side.CLIENT]
    (told,) = [problem for problem in done.problems if problem.severity == "info"]
    assert re.fullmatch(
        r"TLS: decrypted again after a loss, from record \d+ on, which was found by \d+ tries", told.detail
    )


def test_a_loss_inside_a_record_costs_that_record():
    tape = numbered(TLS_1_3, "")
    start = sum(len(data) for side, data in tape.sent if side is Side.CLIENT) // 2
    done = decode(without(cut(whole(tape), 1000), Side.CLIENT, start, start + 1), tape.keys)
    assert len(done.plain[Side.CLIENT]) == len(tape.said[Side.CLIENT]) - 200
    assert done.dark(Side.CLIENT) == 200 + 5 + 17 - 1


def test_a_loss_in_the_handshake_loses_no_data():
    tape = spoken(TLS_1_3)
    first = len(next(data for side, data in tape.sent if side is Side.SERVER))
    done = decode(without(cut(whole(tape), 200), Side.SERVER, 300, first - 30), tape.keys)
    assert done.plain == tape.said
    assert done.holes == []


@pytest.mark.parametrize("ciphers", ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256"])
def test_a_lost_change_of_ciphers(ciphers):
    tape = spoken(TLS_1_2, ciphers)
    flight = [data for side, data in tape.sent if side is Side.CLIENT][1]
    hello = len(next(data for side, data in tape.sent if side is Side.CLIENT))
    at = hello + flight.rindex(b"\x14\x03\x03\x00\x01\x01")
    done = decode(without(whole(tape), Side.CLIENT, at - 3, at + 6), tape.keys)
    assert done.plain == tape.said


def test_a_loss_of_a_key_update():
    written = Written13()
    written.handshake()
    written.say(Side.CLIENT, b"before")
    at = sum(len(data) for side, data in written.tape.sent if side is Side.CLIENT)
    update = written.sealers[Side.CLIENT].update()
    written.send(Side.CLIENT, update)
    written.say(Side.CLIENT, b"behind")
    done = decode(without(whole(written.tape), Side.CLIENT, at, at + len(update)), written.tape.keys)
    assert done.plain[Side.CLIENT] == b"beforebehind"


def test_the_search_is_bounded_and_says_so():
    written = Written13()
    written.handshake()
    at = sum(len(data) for side, data in written.tape.sent if side is Side.CLIENT)
    for _ in range(200):
        written.say(Side.CLIENT, b"x")
    lost = sum(len(data) for side, data in written.tape.sent if side is Side.CLIENT) - at
    for _ in range(10):
        written.say(Side.CLIENT, b"y" * 100)
    pieces = list(without(whole(written.tape), Side.CLIENT, at, at + lost))
    assert decode(pieces, written.tape.keys).plain[Side.CLIENT] == b"y" * 1000
    done = decode(pieces, written.tape.keys, limits=Limits(tls_trials_max=64))
    assert done.plain[Side.CLIENT] == b""
    assert done.decoder.why_not(Side.CLIENT) == "no record after a loss opened within 64 tries"


def test_a_damaged_record_costs_itself():
    tape = numbered(TLS_1_3, "")
    pieces = whole(tape)
    index = len(pieces) // 2
    side, offset, data = pieces[index]
    pieces[index] = (side, offset, data[:-1] + bytes([data[-1] ^ 1]))
    assert len(decode(pieces, tape.keys).plain[Side.CLIENT]) == len(tape.said[Side.CLIENT]) - 200


# ---- late starts and lost hellos


def test_tls_1_3_that_was_joined_late():
    tape = numbered(TLS_1_3, "")
    pieces = whole(tape)[20:]
    done = decode(pieces, spoken().keys + tape.keys, from_start=False)
    assert done.plain[Side.CLIENT].endswith(b"<059>" * 40)
    assert (done.facts.version, done.facts.cipher, done.facts.keys) == ("TLS 1.3", tape.suite, "used")
    assert any("client random was found by trying" in problem.detail for problem in done.problems)


def test_tls_1_3_that_was_joined_inside_a_record():
    tape = numbered(TLS_1_3, "")
    side, offset, data = whole(tape)[20]
    pieces = [(side, offset + 50, data[50:]), *whole(tape)[21:]]
    done = decode(cut(pieces, 90), tape.keys, from_start=False)
    assert len(done.plain[Side.CLIENT]) == 200 * len(
        [piece for piece in whole(tape)[21:] if piece[0] is Side.CLIENT][:-1]
    )


def test_tls_1_2_that_was_joined_late_says_what_is_missing():
    tape = numbered(TLS_1_2, "ECDHE-ECDSA-AES128-GCM-SHA256")
    done = decode(whole(tape)[20:], tape.keys, from_start=False)
    assert done.facts.keys == "missing"
    assert "TLS 1.2 needs both hellos" in done.decoder.why_not(Side.CLIENT)


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_a_server_alone_is_decrypted_by_trying(version):
    tape = spoken(version)
    done = decode(
        [piece for piece in whole(tape) if piece[0] is Side.SERVER], spoken(TLS_1_3, "", "rsa").keys + tape.keys
    )
    assert done.plain[Side.SERVER] == tape.said[Side.SERVER]


def test_a_client_alone_is_decrypted_in_tls_1_3_only():
    tape = spoken(TLS_1_3)
    done = decode([piece for piece in whole(tape) if piece[0] is Side.CLIENT], tape.keys)
    assert done.plain[Side.CLIENT] == tape.said[Side.CLIENT]
    tape = spoken(TLS_1_2)
    done = decode([piece for piece in whole(tape) if piece[0] is Side.CLIENT], tape.keys)
    assert done.plain[Side.CLIENT] == b""
    assert done.decoder.why_not(Side.CLIENT) == "the server's hello was not captured"


# ---- laws


@settings(max_examples=40)
@given(data=st.data())
def test_mutations_never_raise_and_every_byte_is_accounted_for(data):
    tape = numbered(*data.draw(st.sampled_from([*AEADS, CBCS[0]])))
    pieces = [list(piece) for piece in whole(tape)[:24]]
    for _ in range(data.draw(st.integers(1, 4))):
        piece = data.draw(st.sampled_from(pieces))
        at = data.draw(st.integers(0, len(piece[2]) - 1))
        piece[2] = piece[2][:at] + data.draw(st.binary(min_size=1, max_size=1)) + piece[2][at + 1 :]
    size = data.draw(st.integers(1, 2000))
    done, once = (decode(each, tape.keys) for each in (cut(map(tuple, pieces), size), map(tuple, pieces)))
    assert done.plain == once.plain
    for side in Side:
        total = sum(len(piece[2]) for piece in pieces if piece[0] is side)
        assert 0 <= done.dark(side) <= total
        assert done.dark(side) == once.dark(side)


@settings(max_examples=40)
@given(data=st.data())
def test_cuts_do_not_matter_around_losses(data):
    tape = numbered(*data.draw(st.sampled_from([*AEADS, *CBCS])))
    pieces = whole(tape)[: data.draw(st.integers(6, 40))]
    for _ in range(data.draw(st.integers(1, 3))):
        side = data.draw(st.sampled_from(list(Side)))
        start = data.draw(st.integers(0, 6000))
        pieces = list(without_more(pieces, side, start, start + data.draw(st.integers(1, 1500))))
    done, other = (decode(cut_around(pieces, size), tape.keys) for size in (data.draw(st.integers(1, 300)), 5000))
    assert done.plain == other.plain
    assert done.holes == other.holes
    for side in Side:
        assert done.dark(side) == other.dark(side)
        assert set(re.findall(rb"<(\d+)>", done.plain[side])) <= set(re.findall(rb"<(\d+)>", tape.said[side]))


def without_more(pieces, side, start, stop):
    """As ``without``, for pieces of which some are lost already."""
    for piece in pieces:
        yield from [piece] if isinstance(piece[2], int) else without([piece], side, start, stop)


def cut_around(pieces, size):
    for piece in pieces:
        yield from [piece] if isinstance(piece[2], int) else cut([piece], size)


@given(garbage=st.binary(max_size=300), random=st.binary(max_size=60))
def test_rubbish_never_raises(garbage, random):
    keys = f"CLIENT_RANDOM {RANDOM.hex()} {'00' * 48}\n"
    pieces = [
        (Side.CLIENT, 0, client_hello(RANDOM, (0x1301,), extension(0, random)) + garbage),
        (Side.SERVER, 0, clear(22, message(2, random)) + garbage),
    ]
    done = decode(pieces, keys)
    assert Counter(type(item).__name__ for item in done.items).keys() <= {"Plain", "Hole", "TlsNotice"}
