"""The list of protocols that are named and not decoded, as data.

``foreign.py`` recognises them by their first bytes; ``--protocol``, ``mqsniff protocols`` and tests use this list.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mqsniff.decode.foreign import TITLES


class Foreign(NamedTuple):
    """A protocol that is named and not decoded."""

    title: str
    """Its usual name."""
    known_by: str
    """Bytes by which it is recognised."""
    what_is_shown: str
    what_to_do: str


UNKNOWN: Final = "unknown"

FOREIGN: Final[dict[str, Foreign]] = {
    "tls": Foreign(
        "TLS",
        "a ClientHello or ServerHello; in the middle of a connection a run of records",
        "version, cipher, server name, ALPN, names of certificates: columns tls_* of connections",
        "give its key log with --tls-keys (docs/tls.md): what is inside is decoded as if it were plain",
    ),
    "http": Foreign(
        "HTTP/1",
        "a request line or a status line",
        "method and path of the first request, without its query",
        "nothing: it is no message queue",
    ),
    "http2": Foreign(
        "HTTP/2",
        "the client's connection preface",
        "its name and size",
        "nothing: it is no message queue; RocketMQ's gRPC clients speak it to a proxy",
    ),
    **{
        name: Foreign(
            title,
            "what its specification makes every peer send: magic bytes, lengths that fit, words at their places",
            "its name and size",
            "nothing: it is not decoded here",
        )
        for name, title in TITLES.items()
        if name not in ("http", "http2")
    },
    UNKNOWN: Foreign(
        "unknown",
        "bytes that no dissector takes and that are none of the above",
        "the first 4 bytes of each side",
        "name its protocol with --decode-as PORT=PROTO if it is a message queue",
    ),
}
"""Value of the column ``protocol`` of connections and problems -> protocol; ``unknown`` is last."""
