"""Ack sets: words of 64 bits in, lowest first; the numbers of the messages whose bits are set, or one integer, out.

An ack set has one meaning in every command: its bits are the messages of a batch that are not acknowledged. An ACK
leaves these for later, a MESSAGE delivers them, a SEEK goes back to them. Bodies show the words under the name of the
specification, and the numbers beside them as ``unacknowledged``.

Sources: ``MessageIdData`` of PulsarApi.proto; ``BitSetRecyclable`` of Apache Pulsar, Java's ``BitSet.toLongArray``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mqsniff.limits import Limits

WORDS: Final = "ack_set"
"""The field, beside message ids and in them."""
OPENED: Final = "unacknowledged"
"""Under this name a body holds the numbers of an ack set."""
WORDS_MAX: Final = 1_024
"""Words that are opened: one of ten bytes becomes 64 numbers. Sets for batches of more messages stay words."""
_WORD: Final = 0xFFFFFFFFFFFFFFFF


def count(words: Sequence[int]) -> int:
    """How many bits are set."""
    return sum((word & _WORD).bit_count() for word in words)


def indexes(words: Sequence[int]) -> list[int]:
    """The numbers of the bits that are set, ascending."""
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
    """The ack set of a command or message id as one integer, None where it has none."""
    return bits(holder[WORDS]) if WORDS in holder else None


def open_sets(body: dict[str, Any], fields: Sequence[str], limits: Limits) -> int:
    """Put the numbers of all ack sets of a body beside their words; how many sets were too long for that.

    ``fields`` hold its message ids, or lists of them.
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
    """The body and the message ids in it, as far as they have an ack set; the ids of first chunks among them."""
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
