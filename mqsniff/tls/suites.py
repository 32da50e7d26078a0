"""Cipher suites: their numbers on the wire, names, and what their records are protected with.

Source: the IANA registry of TLS cipher suites; RFC 5246 appendix C, RFC 5288, 5289, 6655, 7251, 7905, 8446, 8442.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

CipherMode: TypeAlias = Literal["gcm", "ccm", "ccm_8", "chacha20", "cbc", "3des", "null"]

_AES_CBC_SHA: Final = (
    "RSA DH_DSS DH_RSA DHE_DSS DHE_RSA DH_anon",
    {0x2F: "AES_128_CBC_SHA", 0x35: "AES_256_CBC_SHA"},
)
_BY_EXCHANGE: Final[tuple[tuple[str, dict[int, str]], ...]] = (
    _AES_CBC_SHA,
    ("RSA", {0x01: "NULL_MD5", 0x02: "NULL_SHA", 0x04: "RC4_128_MD5", 0x05: "RC4_128_SHA"}),
    ("RSA", {0x0A: "3DES_EDE_CBC_SHA", 0x3B: "NULL_SHA256"}),
    ("DHE_DSS", {0x13: "3DES_EDE_CBC_SHA"}),
    ("DHE_RSA", {0x16: "3DES_EDE_CBC_SHA", 0x67: "AES_128_CBC_SHA256"}),
    ("DH_anon", {0x1B: "3DES_EDE_CBC_SHA"}),
    ("PSK DHE_PSK RSA_PSK", {0x2C: "NULL_SHA"}),
    ("PSK", {0x8B: "3DES_EDE_CBC_SHA", 0xB0: "NULL_SHA256", 0xB1: "NULL_SHA384"}),
    ("DHE_PSK", {0x8F: "3DES_EDE_CBC_SHA", 0xB4: "NULL_SHA256", 0xB5: "NULL_SHA384"}),
    ("RSA_PSK", {0x93: "3DES_EDE_CBC_SHA", 0xB8: "NULL_SHA256", 0xB9: "NULL_SHA384"}),
    ("ECDHE_PSK", {0xC034: "3DES_EDE_CBC_SHA", 0xC039: "NULL_SHA", 0xC03A: "NULL_SHA256", 0xC03B: "NULL_SHA384"}),
    ("ECDHE_ECDSA", {0xC006: "NULL_SHA"}),
    ("ECDHE_RSA", {0xC010: "NULL_SHA"}),
    ("ECDH_anon", {0xC015: "NULL_SHA", 0xC017: "3DES_EDE_CBC_SHA"}),
    ("RSA", {0x3C: "AES_128_CBC_SHA256", 0x3D: "AES_256_CBC_SHA256"}),
    ("DH_DSS DH_RSA DHE_DSS", {0x3E: "AES_128_CBC_SHA256"}),
    ("DH_DSS DH_RSA DHE_DSS DHE_RSA", {0x68: "AES_256_CBC_SHA256"}),
    ("DH_anon", {0x6C: "AES_128_CBC_SHA256", 0x6D: "AES_256_CBC_SHA256"}),
    ("PSK", {0x8C: "AES_128_CBC_SHA", 0x8D: "AES_256_CBC_SHA"}),
    ("DHE_PSK", {0x90: "AES_128_CBC_SHA", 0x91: "AES_256_CBC_SHA"}),
    ("RSA_PSK", {0x94: "AES_128_CBC_SHA", 0x95: "AES_256_CBC_SHA"}),
)
_IN_PAIRS: Final[tuple[tuple[int, str, str, str], ...]] = (
    (0x9C, "RSA DHE_RSA DH_RSA DHE_DSS DH_DSS DH_anon PSK DHE_PSK RSA_PSK", "AES_128_GCM_SHA256", "AES_256_GCM_SHA384"),
    (0xC004, "ECDH_ECDSA", "AES_128_CBC_SHA", "AES_256_CBC_SHA"),
    (0xC009, "ECDHE_ECDSA", "AES_128_CBC_SHA", "AES_256_CBC_SHA"),
    (0xC00E, "ECDH_RSA", "AES_128_CBC_SHA", "AES_256_CBC_SHA"),
    (0xC013, "ECDHE_RSA", "AES_128_CBC_SHA", "AES_256_CBC_SHA"),
    (0xC018, "ECDH_anon", "AES_128_CBC_SHA", "AES_256_CBC_SHA"),
    (0xC007, "ECDHE_ECDSA", "RC4_128_SHA", "3DES_EDE_CBC_SHA"),
    (0xC011, "ECDHE_RSA", "RC4_128_SHA", "3DES_EDE_CBC_SHA"),
    (0xC023, "ECDHE_ECDSA ECDH_ECDSA ECDHE_RSA ECDH_RSA", "AES_128_CBC_SHA256", "AES_256_CBC_SHA384"),
    (0xC02B, "ECDHE_ECDSA ECDH_ECDSA ECDHE_RSA ECDH_RSA", "AES_128_GCM_SHA256", "AES_256_GCM_SHA384"),
    (0xC035, "ECDHE_PSK", "AES_128_CBC_SHA", "AES_256_CBC_SHA"),
    (0xC037, "ECDHE_PSK", "AES_128_CBC_SHA256", "AES_256_CBC_SHA384"),
    (0xC09C, "RSA DHE_RSA", "AES_128_CCM", "AES_256_CCM"),
    (0xC0A0, "RSA DHE_RSA", "AES_128_CCM_8", "AES_256_CCM_8"),
    (0xC0A4, "PSK DHE_PSK", "AES_128_CCM", "AES_256_CCM"),
    (0xC0A8, "PSK DHE_PSK", "AES_128_CCM_8", "AES_256_CCM_8"),
    (0xC0AC, "ECDHE_ECDSA", "AES_128_CCM", "AES_256_CCM"),
    (0xC0AE, "ECDHE_ECDSA", "AES_128_CCM_8", "AES_256_CCM_8"),
    (0xD001, "ECDHE_PSK", "AES_128_GCM_SHA256", "AES_256_GCM_SHA384"),
)
_SINGLE: Final = {
    **{0xAE + 4 * n: f"TLS_{kx}_WITH_AES_128_CBC_SHA256" for n, kx in enumerate(("PSK", "DHE_PSK", "RSA_PSK"))},
    **{0xAF + 4 * n: f"TLS_{kx}_WITH_AES_256_CBC_SHA384" for n, kx in enumerate(("PSK", "DHE_PSK", "RSA_PSK"))},
    **{0xC01D + n: f"TLS_SRP_{kx}_WITH_AES_128_CBC_SHA" for n, kx in enumerate(("SHA", "SHA_RSA", "SHA_DSS"))},
    **{0xC020 + n: f"TLS_SRP_{kx}_WITH_AES_256_CBC_SHA" for n, kx in enumerate(("SHA", "SHA_RSA", "SHA_DSS"))},
    **{
        0xCCA8 + n: f"TLS_{kx}_WITH_CHACHA20_POLY1305_SHA256"
        for n, kx in enumerate(("ECDHE_RSA", "ECDHE_ECDSA", "DHE_RSA", "PSK", "ECDHE_PSK", "DHE_PSK", "RSA_PSK"))
    },
    0xD003: "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256",
    0xD005: "TLS_ECDHE_PSK_WITH_AES_128_CCM_SHA256",
    0x1301: "TLS_AES_128_GCM_SHA256",
    0x1302: "TLS_AES_256_GCM_SHA384",
    0x1303: "TLS_CHACHA20_POLY1305_SHA256",
    0x1304: "TLS_AES_128_CCM_SHA256",
    0x1305: "TLS_AES_128_CCM_8_SHA256",
}


class Suite(NamedTuple):
    """How records of a suite are protected; ``hash`` is that of the key schedule of TLS 1.2 and 1.3."""

    name: str
    mode: CipherMode
    key_size: int
    hash: str
    mac: str = ""
    """Hash of the MAC of a record (CBC and NULL)."""

    @property
    def block(self) -> int:
        """Bytes of a block of its cipher in CBC mode; 0: it is no such suite."""
        return {"cbc": 16, "3des": 8}.get(self.mode, 0)


SUITES_13: Final = (0x1301, 0x1302, 0x1303, 0x1304, 0x1305)

_PARTS: Final = re.compile(
    r"TLS_(?:\w+_WITH_)?(?:AES_(?P<bits>128|256)_(?P<mode>CBC|GCM|CCM_8|CCM)|(?P<other>CHACHA20_POLY1305|3DES_EDE_CBC|NULL))"
    r"(?:_(?P<hash>SHA\d*|MD5))?"
)


@cache
def suite_names() -> dict[int, str]:
    """Number -> name of every suite that is known, those that cannot be decrypted too."""
    names = {0x1301: ""}
    for exchanges, suites in _BY_EXCHANGE:
        for first, protection in suites.items():
            names |= {first + n: f"TLS_{kx}_WITH_{protection}" for n, kx in enumerate(exchanges.split())}
    for first, exchanges, one, other in _IN_PAIRS:
        for n, kx in enumerate(exchanges.split()):
            names |= {first + 2 * n: f"TLS_{kx}_WITH_{one}", first + 2 * n + 1: f"TLS_{kx}_WITH_{other}"}
    return names | _SINGLE


def suite_name(code: int) -> str:
    """Name of a suite, its number where it has none here."""
    return suite_names().get(code) or f"0x{code:04x}"


@cache
def suite_of(code: int) -> Suite | None:
    """How records of a suite are protected; None for one that cannot be decrypted here."""
    name = suite_name(code)
    found = _PARTS.fullmatch(name)
    if found is None:
        return None
    hashed = (found["hash"] or "SHA256").lower()
    mac = "sha1" if hashed == "sha" else hashed
    of_prf = "sha384" if mac == "sha384" else "sha256"
    match found["other"]:
        case "CHACHA20_POLY1305":
            return Suite(name, "chacha20", 32, hashed)
        case "3DES_EDE_CBC":
            return Suite(name, "3des", 24, of_prf, mac)
        case "NULL":
            return Suite(name, "null", 0, of_prf, mac)
    key_size = int(found["bits"]) // 8
    mode: CipherMode = {"GCM": "gcm", "CCM": "ccm", "CCM_8": "ccm_8", "CBC": "cbc"}[found["mode"]]  # type: ignore[assignment]
    if mode != "cbc":
        return Suite(name, mode, key_size, hashed)
    return Suite(name, mode, key_size, of_prf, mac)
