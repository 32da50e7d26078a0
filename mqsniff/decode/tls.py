"""Where TLS begins, by its bytes: a hello, or records in the middle of a connection; and its facts for a row.

Sources: RFC 8446 sections 4.1.2, 4.1.3 and 5.1, RFC 5246 section 6.2. ``mqsniff.tls`` decodes what is inside.
"""

from __future__ import annotations

from mqsniff.model import ConnectionInfo
from mqsniff.tls.hello import TlsFacts
from mqsniff.tls.recordside import HANDSHAKE_RECORD, RECORD_MAX, is_head


def is_hello(data: bytes) -> bool | None:
    """Whether a stream starts with a client's or server's hello record; None: more bytes are needed."""
    if len(data) < 6:
        return None if b"\x16\x03".startswith(data[:2]) else False
    size = int.from_bytes(data[3:5], "big")
    return (
        data[0] == HANDSHAKE_RECORD and data[1] == 3 and data[2] <= 4 and 4 <= size <= RECORD_MAX and data[5] in (1, 2)
    )


def is_record_run(data: bytes) -> bool:
    """Whether ``data`` begins with two records, or is exactly one: TLS in the middle of a connection."""
    at = 0
    for _ in range(2):
        if not is_head(data[at : at + 5]):
            return False
        at += 5 + int.from_bytes(data[at + 3 : at + 5], "big")
        if at == len(data):
            return True
    return at <= len(data)


def tell_tls(info: ConnectionInfo, facts: TlsFacts) -> None:
    """Write what is known of the TLS of a connection into its row."""
    info.tls_version, info.tls_cipher = facts.version, facts.cipher
    info.tls_alpn, info.tls_server_name = facts.alpn, facts.server_name
    info.tls_certificate_subject, info.tls_certificate_issuer = facts.certificate_subject, facts.certificate_issuer
    info.tls_client_certificate_subject = facts.client_certificate_subject
    info.tls_client_certificate_issuer = facts.client_certificate_issuer
    info.tls_resumed, info.tls_keys = facts.resumed, facts.keys
