"""One SASL exchange: user, mechanism, and whether its tokens have no Kafka headers.

1. After a successful handshake of version 0, tokens are sent raw (size and token) until the mechanism has finished;
   after one of version 1 in SaslAuthenticate requests.
2. PLAIN and OAUTHBEARER have one raw token each way, SCRAM two. For other mechanisms, and after lost tokens, the first
   frame that passes ``probe_request`` ends the tokens.
3. User and authorisation id are shown; passwords, proofs, nonces, salts and signatures are not.

Sources: ``SaslServerAuthenticator`` of Apache Kafka; RFC 4616 (PLAIN), 5802 (SCRAM), 7628 and 7515 (OAUTHBEARER).
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from typing import Any, Final, NamedTuple

from mqsniff.model import Value
from mqsniff_kafka import heads

ROUNDS: Final = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""Tokens that each side sends."""
MECHANISMS: Final = frozenset({*ROUNDS, "GSSAPI", "AWS_MSK_IAM"})

CLAIMS: Final = ("sub", "iss", "aud", "scope", "client_id", "exp")
CLAIM_MAX: Final = 256
TOKEN_READ_MAX: Final = 64 * 1024
"""Larger tokens are not parsed: bounds the cost of the JSON parser."""

_GS2: Final = re.compile(rb"[ny],(?:a=([^,]*))?,")
_SCRAM_USER: Final = re.compile(rb"n=([^,]*)")
_BEARER: Final = re.compile(rb"auth=[Bb]earer ([^\x01]+)\x01")


class Login(NamedTuple):
    """The parts of a token that are no secret."""

    user: str | None = None
    authzid: str | None = None
    claims: tuple[tuple[str, Value], ...] = ()


class Sasl:
    """The SASL exchange of a connection."""

    __slots__ = ("_sent", "_told", "mechanism", "raw")

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.raw = False
        """Whether tokens are sent without Kafka headers."""
        self._sent = 0
        self._told = 0

    def begin(self, mechanism: str | None, *, raw: bool) -> None:
        """Note a successful handshake."""
        self.mechanism, self.raw = mechanism, raw
        self._sent = self._told = 0

    def end_raw(self) -> None:
        """The raw tokens have ended: Kafka frames follow."""
        self.raw = False

    def is_token(self, head: bytes) -> bool:
        """Whether a client's frame is a raw token (rule 2)."""
        return self.raw and not isinstance(heads.probe_request(head), int)

    def client_token(self, token: bytes) -> Login:
        """Read a token of the client."""
        self._sent += 1
        return read_login(self.mechanism, token) if self._sent == 1 or self.mechanism is None else Login()

    def server_token(self, token: bytes) -> bool | None:
        """Read a raw token of the server: True if it ends the exchange with success, False if it reports a failure."""
        self._told += 1
        rounds = ROUNDS.get(self.mechanism or "")
        if token.startswith(b"e=") or (self.mechanism == "OAUTHBEARER" and token):
            return False
        if rounds is not None and self._told >= rounds:
            self.raw = False
            return True
        return None


def read_login(mechanism: str | None, token: bytes) -> Login:
    """The public parts of a client's first token; empty if it does not have the form of its mechanism."""
    if len(token) > TOKEN_READ_MAX or mechanism is None:
        return Login()
    if mechanism == "PLAIN":
        parts = token.split(b"\0")
        return Login(_text(parts[1]), _text(parts[0])) if len(parts) == 3 else Login()
    if mechanism.startswith("SCRAM-"):
        head = _GS2.match(token)
        user = _SCRAM_USER.match(token, head.end()) if head else None
        return Login(_saslname(user[1]), _saslname(head[1])) if head and user else Login()
    if mechanism == "OAUTHBEARER":
        head, bearer = _GS2.match(token), _BEARER.search(token)
        claims = _claims(bearer[1]) if bearer else {}
        user = claims.get("sub")
        shown = tuple((name, claims[name]) for name in CLAIMS if name in claims)
        return Login(user if isinstance(user, str) else None, _saslname(head[1]) if head else None, shown)
    return Login()


def _claims(token: bytes) -> dict[str, Any]:
    """Claims of an unsecured token (RFC 7515, appendix A.5); none for a signed one."""
    header, _, rest = token.partition(b".")
    payload, _, _ = rest.partition(b".")
    try:
        if json.loads(_unpadded(header)).get("alg") != "none":
            return {}
        claims = json.loads(_unpadded(payload))
    except (ValueError, AttributeError, RecursionError):
        return {}
    if not isinstance(claims, dict):
        return {}
    return {name: value for name, value in claims.items() if len(repr(value)) <= CLAIM_MAX}


def _unpadded(part: bytes) -> bytes:
    return urlsafe_b64decode(part + b"=" * (-len(part) % 4))


def _saslname(raw: bytes | None) -> str | None:
    """A SASL name, its commas and equals signs unescaped (RFC 5802, section 5.1)."""
    text = _text(raw)
    return text.replace("=2C", ",").replace("=3D", "=") if text else text


def _text(raw: bytes | None) -> str | None:
    return raw.decode(errors="backslashreplace") if raw else None
