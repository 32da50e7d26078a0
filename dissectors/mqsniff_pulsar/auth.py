"""Authentication data in, the name of who logs in out; the rest of it stays secret.

1. ``token``: a JSON Web Token; its subject is the principal (RFC 7519 section 4.1.2). Signatures are not checked.
2. ``basic``: user, colon, password.
3. Other methods tell no name that could be read without their keys.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from typing import Final

import orjson

from mqsniff.limits import KIB

REFRESH: Final = b"PulsarAuthRefresh"
"""What a broker sends as challenge when it wants new credentials on a live connection: no secret."""

TOKEN_MAX: Final = 64 * KIB
"""Bytes of a token that are looked into."""
USER_MAX: Final = KIB
"""Bytes of a user's name that are kept."""


def principal(method: str, data: bytes) -> str | None:
    """Who logs in, None where that cannot be told."""
    match method:
        case "token" if len(data) <= TOKEN_MAX:
            return _subject(data)
        case "basic":
            user, colon, _ = data.partition(b":")
            return user[:USER_MAX].decode(errors="replace") if colon else None
    return None


def _subject(token: bytes) -> str | None:
    parts = token.split(b".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (Base64Error, orjson.JSONDecodeError):
        return None
    subject = claims.get("sub") if isinstance(claims, dict) else None
    return subject if isinstance(subject, str) else None
