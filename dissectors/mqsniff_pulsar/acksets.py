"""Ack sets: 64-bit words, lowest first, as indexes of messages or as one integer.

In every command the bits of an ack set are the messages of a batch that are not acknowledged: an ACK leaves them for
later, a MESSAGE delivers them, a SEEK goes back to them. Bodies show the words under the name of the specification, and
the indexes beside them as ``unacknowledged``.

Sources: ``MessageIdData`` of PulsarApi.proto; ``BitSetRecyclable`` of Apache Pulsar, Java's ``BitSet.toLongArray``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mqsniff.limits import Limits

WORDS: Final = "ack_set"
"""The field, beside message ids and in them."""
OPENED: Final = "unacknowledged"
"""Name in bodies of the indexes of an ack set."""
WORDS_MAX: Final = 1_024
"""Largest set that is expanded: a word of ten bytes becomes 64 numbers. Larger sets stay words."""
_WORD: Final = 0xFFFFFFFFFFFFFFFF


def count(words: Sequence[int]) -> int:
    """Number of bits that are set."""
    return sum((word & _WORD).bit_count() for word in words)


def indexes(words: Sequence[int]) -> list[int]:
    """Indexes of the bits that are set, ascending."""
    found = []
    for base, signed in enumerate(words):
        word = signed & _WORD
        while word:
            low = word & -word
            found.append(64 * base + low.bit_length() - 1)
            word ^= low
    return found


def bits(words: Sequence[int]) -> int:
    """The words as one integer: bit i for message i."""
    if len(words) == 1:
        return words[0] & _WORD
    return int.from_bytes(b"".join([(word & _WORD).to_bytes(8, "little") for word in words]), "little")


def bits_of(holder: Mapping[str, Any]) -> int | None:
    """The ack set of a command or message id as one integer; None if it has none."""
    return bits(holder[WORDS]) if WORDS in holder else None


def open_sets(body: dict[str, Any], fields: Sequence[str], limits: Limits) -> int:
    """Add the indexes of all ack sets of a body; returns the number of sets that were too long.

    ``fields``: names of its fields with message ids or lists of them.
    """
    room, left_out = limits.elements_max, 0
    for holder in _holders(body, fields):
        words = holder[WORDS]
        room -= count(words)
        if room >= 0 and len(words) <= WORDS_MAX:
            holder[OPENED] = indexes(words)
        else:
            left_out += 1
    return left_out


def _holders(body: dict[str, Any], fields: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The body and its message ids (also those of first chunks) that have an ack set."""
    if WORDS in body:
        yield body
    for field in fields:
        ids = body.get(field)
        for one in ids if isinstance(ids, list) else (ids,):
            message_id = one
            while isinstance(message_id, dict):
                if WORDS in message_id:
                    yield message_id
                message_id = message_id.get("first_chunk_message_id")
