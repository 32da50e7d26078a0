"""Vectors of RFC 8448 (TLS 1.3), of the TLS 1.2 PRF, and certificates that somebody else's code made."""

from __future__ import annotations

import hmac
import ssl
import struct

import pytest
from cryptography import x509
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st
from tlscraft import certificate, contexts, decode, talk, whole

from mqsniff.model import Side
from mqsniff.tls.certificate import names_of
from mqsniff.tls.keyschedule import TLS_1_2, expand_label, key_block, prf, traffic_keys
from mqsniff.tls.protection import Aead13, Opened, protection_of
from mqsniff.tls.suites import suite_name, suite_of

AES_128_GCM = suite_of(0x1301)

# RFC 8448 section 3, Simple 1-RTT Handshake
SERVER_HANDSHAKE = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
CLIENT_TRAFFIC = bytes.fromhex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
CLIENT_RECORD = bytes.fromhex(
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a"
    "6292a2977014bd1e3deae63aeebb21694915e4"
)


def test_keys_of_a_traffic_secret():
    keys = traffic_keys(AES_128_GCM, SERVER_HANDSHAKE)
    assert keys.key.hex() == "3fce516009c21727d0f2e4e86ee403bc"
    assert keys.iv.hex() == "5d313eb2671276ee13000b30"


def test_a_record_of_application_data():
    opened = Aead13(AES_128_GCM, CLIENT_TRAFFIC, "traffic").open(0, CLIENT_RECORD[:5], CLIENT_RECORD[5:])
    assert opened == Opened(23, bytes(range(50)), 0)
    assert Aead13(AES_128_GCM, CLIENT_TRAFFIC, "traffic").open(1, CLIENT_RECORD[:5], CLIENT_RECORD[5:]) is None


def test_the_prf_of_tls_1_2():
    """P_SHA256, a vector that was given to the TLS working group's list and is used by many implementations."""
    secret = bytes.fromhex("9bbe436ba940f017b17652849a71db35")
    seed = bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c")
    found = prf(TLS_1_2, "sha256", secret, b"test label" + seed, 100)
    assert found.hex().startswith("e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a")


def test_expanding_is_as_long_as_asked_for():
    assert len(expand_label("sha256", SERVER_HANDSHAKE, b"x", 70)) == 70


@pytest.mark.parametrize("extended", [True, False])
def test_an_rsa_line_gives_the_premaster_secret(extended):
    """What NSS logs of RSA key exchange; OpenSSL logs master secrets, so the test decrypts the exchange itself."""
    options = 0 if extended else 1  # SSL_OP_NO_EXTENDED_MASTER_SECRET
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256", "rsa", options=options))
    flight = [data for side, data in tape.sent if side is Side.CLIENT][1]
    size = int.from_bytes(flight[9:11], "big")
    encrypted = flight[11 : 11 + size]
    key = load_pem_private_key(certificate("rsa", "broker.example")[1], None)
    premaster = key.decrypt(encrypted, padding.PKCS1v15())
    random = tape.sent[0][1][11:43]
    for line in (f"RSA {encrypted[:8].hex()} {premaster.hex()}", f"PMS_CLIENT_RANDOM {random.hex()} {premaster.hex()}"):
        assert decode(whole(tape), line).plain == tape.said


# ---- ciphers that OpenSSL does not offer any more


@pytest.mark.parametrize("version", [0x0301, 0x0302, 0x0303])
@pytest.mark.parametrize("mac_last", [True, False])
def test_3des_is_decrypted(version, mac_last):
    suite = suite_of(0xC012)
    assert (suite_name(0xC012), suite.mac, suite.block) == ("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "sha1", 8)
    keys, _ = key_block(version, suite, bytes(range(48)), b"c" * 32, b"s" * 32)
    assert (len(keys.key), len(keys.mac), len(keys.iv)) == (24, 20, 8 if version == 0x0301 else 0)
    opener = protection_of(version, suite, keys, mac_last=mac_last)
    iv = keys.iv
    for number, content in enumerate((b"first", b"second" * 9, b"")):
        iv = iv if version == 0x0301 else bytes((number,)) * 8
        head = struct.pack(">BH", 23, version)
        body = sealed_3des(keys, head, iv, number, content, mac_last=mac_last)
        body = body if version == 0x0301 else iv + body
        assert opener.open(number, head + len(body).to_bytes(2), body) == Opened(23, content, number)
        assert opener.open(number + 1, head + len(body).to_bytes(2), body) is None
        opener.pass_over(body)
        iv = body[:-20][-8:] if mac_last else body[-8:]


def sealed_3des(keys, head, iv, number, content, *, mac_last):
    """A record as RFC 5246 section 6.2.3.2, or RFC 7366, has it; without its IV."""

    def mac(data):
        size = len(data) + (len(iv) if mac_last and head[2] != 1 else 0)
        told = number.to_bytes(8) + head + size.to_bytes(2) + (iv if mac_last and head[2] != 1 else b"") + data
        return hmac.digest(keys.mac, told, "sha1")

    plain = content if mac_last else content + mac(content)
    count = 8 - len(plain) % 8
    plain += bytes((count - 1,)) * count
    encryptor = Cipher(TripleDES(keys.key), modes.CBC(iv)).encryptor()
    body = encryptor.update(plain) + encryptor.finalize()
    return body + mac(body) if mac_last else body


# ---- suites


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0x002F, "TLS_RSA_WITH_AES_128_CBC_SHA"),
        (0x003D, "TLS_RSA_WITH_AES_256_CBC_SHA256"),
        (0x0067, "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256"),
        (0x006B, "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256"),
        (0x009D, "TLS_RSA_WITH_AES_256_GCM_SHA384"),
        (0x009F, "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"),
        (0x00A8, "TLS_PSK_WITH_AES_128_GCM_SHA256"),
        (0x00AF, "TLS_PSK_WITH_AES_256_CBC_SHA384"),
        (0xC014, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
        (0xC028, "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
        (0xC02C, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        (0xC030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        (0xC0AE, "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
        (0xCCAA, "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        (0x1305, "TLS_AES_128_CCM_8_SHA256"),
        (0xFACE, "0xface"),
    ],
)
def test_names_of_suites(code, name):
    assert suite_name(code) == name


@pytest.mark.parametrize("code", [0x0005, 0xC060, 0xFACE])
def test_suites_that_are_not_decrypted(code):
    assert suite_of(code) is None


# ---- certificates


def test_names_are_those_that_cryptography_reads():
    made = x509.load_pem_x509_certificate(certificate("rsa")[0])
    found = names_of(made.public_bytes(Encoding.DER))
    assert found == (made.subject.rfc4514_string(), made.issuer.rfc4514_string())


@given(data=st.binary(max_size=300), cut=st.integers(0, 600), place=st.integers(0, 500))
def test_rubbish_has_no_names_and_never_raises(data, cut, place):
    made = x509.load_pem_x509_certificate(certificate("ec")[0]).public_bytes(Encoding.DER)
    names_of(data)
    names_of(made[:cut])
    names_of(made[:place] + data + made[place + len(data) :])
