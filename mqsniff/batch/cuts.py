"""A nominal offset in a capture in; the offset of a packet record or block near it, where the file is cut, out.

1. Every offset that could begin a record is a candidate. Chains of candidates are followed until all that go on pass
   through one offset. Chains that reach something that is no record are dropped.
2. The result depends only on the bytes after the nominal offset and on the file head, so that the tasks on both sides
   find the same cut.
3. The result is a guess. Payloads may hold captures, and chains in them may look better than the true one; the landing
   check (prefix.py) decides whether a record begins at the cut.
4. No Python code runs per byte or per packet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from mqsniff.limits import KIB, MIB, SECOND_NS
from mqsniff.sources.parsers import Head
from mqsniff.sources.pcap import FILE_HEAD, MAGICS, SNAPLEN_MIN
from mqsniff.sources.pcapng import BLOCK_MIN
from mqsniff.sources.pcapng_blocks import BlockType

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mqsniff.model import Int64s

REACH_MAX: Final = SNAPLEN_MIN + 64
"""After this many bytes past the nominal offset, the largest usual record has ended: the true chain has begun."""
FOLLOW_MIN: Final = 256 * KIB
"""How far beyond that chains are followed at first."""
FOLLOW_MAX: Final = 4 * MIB
"""If chains have not met by then, there is no cut; following costs up to twenty times as much memory."""

RECORD_MAX: Final = SNAPLEN_MIN
"""Readers accept larger packets, but they are rare; a record head that is read one byte too early looks like one."""
BLOCK_MAX: Final = 2 * RECORD_MAX

ReadAt: TypeAlias = Callable[[int, int], bytes]
"""Gives the bytes of the file from one offset to another, fewer at its end."""


class Links(NamedTuple):
    """Candidates for records in some bytes."""

    at: Int64s
    """Their offsets, ascending."""
    next: Int64s
    """Where the record after each would begin."""
    is_end: NDArray[np.bool_]
    """A chain ends here: a file head, after which records may look different."""
    seen: int
    """Offsets below this were examined; the others are too near the end of the bytes."""


def find_cut(read: ReadAt, size: int, nominal: int, heads: Sequence[Head], reach: int = REACH_MAX) -> int | None:
    """The offset of a record at or after ``nominal + reach``; None if chains do not meet.

    It is ``size``, the size of the file, if no more records follow. ``heads`` are the heads before the nominal offset.
    """
    find_links = links_of(heads)
    follow = FOLLOW_MIN
    while True:
        stop = min(nominal + reach + follow, size)
        data = read(nominal, stop)
        is_end = stop >= size
        cut = converge(find_links(np.frombuffer(data, np.uint8)), len(data), min(reach, len(data)), is_end=is_end)
        if cut is not None:
            return nominal + cut
        if is_end or follow >= FOLLOW_MAX:
            return None
        follow *= 4


def links_of(heads: Sequence[Head]) -> Callable[[NDArray[np.uint8]], Links]:
    """The function that finds candidates after these heads."""
    head = heads[-1].data
    magic = MAGICS.get(head[:4])
    if magic is None:
        return _blocks
    return lambda data: _records(data, magic.order, SECOND_NS // magic.tick_ns, magic.record_head)


def converge(links: Links, size: int, reach: int, *, is_end: bool) -> int | None:
    """The first offset from ``reach`` on that is in every chain that reaches the end of the bytes.

    At the end of the file, chains that end exactly there win over those that reach beyond; if no record begins from
    ``reach`` on, the end itself is returned.
    """
    lives = _lives(links, size, is_end=is_end)
    at, furthest = links.at[lives], np.maximum.accumulate(links.next[lives])
    if not len(at) or at[-1] < reach:
        return size if is_end else None
    passed = np.concatenate([[0], furthest[:-1]])
    certain = np.flatnonzero((at >= reach) & (passed <= at))
    return int(at[certain[0]]) if len(certain) else None


def _lives(links: Links, size: int, *, is_end: bool) -> NDArray[np.bool_]:
    """Which candidates are in chains that reach the end of the bytes."""
    count = len(links.at)
    place = np.searchsorted(links.at, links.next)
    known = place < count
    known[known] = links.at[place[known]] == links.next[known]
    exact, beyond, dead = count, count + 1, count + 2
    outside = np.where(links.next == size, exact, np.where(links.next >= links.seen, beyond, dead))
    target = np.where(links.is_end, beyond, np.where(known, place, outside))
    target = np.concatenate([target, [exact, beyond, dead]])
    for _ in range(count.bit_length()):
        target = target[target]
    fits: NDArray[np.bool_] = target[:count] == exact
    return fits if is_end and fits.any() else target[:count] != dead


def _words(data: NDArray[np.uint8], order: str) -> NDArray[np.uint32]:
    """The 32-bit word at each offset."""
    return np.ndarray((max(len(data) - 3, 0),), order + "u4", data, 0, (1,))


def _records(data: NDArray[np.uint8], order: str, ticks: int, head_size: int) -> Links:
    """Candidates for pcap records (a fraction below one second, lengths that fit each other), and file heads."""
    words = _words(data, order)
    count = max(len(data) - head_size + 1, 0)
    caplen = words[8 : 8 + count]
    at = np.flatnonzero(caplen <= RECORD_MAX)
    at = at[words[at + 4] < ticks]
    at = at[words[at + 8] <= words[at + 12]]
    at = at[words[at + 12] <= 64 * MIB]
    at = at[(words[at] | words[at + 4] | words[at + 8]) != 0]
    following = at + head_size + words[at + 8].astype(np.int64)
    heads = _file_heads(data)
    at, first = np.unique(np.concatenate([heads, at]), return_index=True)
    return Links(at, np.concatenate([heads + FILE_HEAD, following])[first], first < len(heads), count)


def _file_heads(data: NDArray[np.uint8]) -> Int64s:
    """Candidates for heads of pcap files."""
    words = _words(data, "<")
    found = [words[:-20] == int.from_bytes(magic, "little") for magic in MAGICS]
    at: Int64s = np.flatnonzero(np.logical_or.reduce(found))
    no_zone: NDArray[np.bool_] = (words[at + 8] | words[at + 12]) == 0
    return at[no_zone]


_KINDS: Final = np.array([*BlockType, 0x0BAD, 0x40000BAD], np.uint32)
"""Blocks that are read, and the two kinds of custom blocks."""
_KIND_MAX: Final = 0x20F
"""The highest number that the draft lists below the custom blocks."""


def _blocks(data: NDArray[np.uint8]) -> Links:
    """Candidates for pcapng blocks in both byte orders: each section has its own."""
    found = [_blocks_in(data, order) for order in "<>"]
    at, first = np.unique(np.concatenate([at for at, _ in found]), return_index=True)
    following = np.concatenate([following for _, following in found])[first]
    return Links(at, following, np.zeros(len(at), np.bool_), max(len(data) - BLOCK_MIN + 1, 0))


def _blocks_in(data: NDArray[np.uint8], order: str) -> tuple[Int64s, Int64s]:
    """(at, next) of candidates: a type that the draft lists or leaves to vendors, and the same length twice.

    If the second length is beyond the bytes, only types that we read are accepted: half of all words are some type.
    """
    words = _words(data, order)
    size = words[4 : max(len(data) - BLOCK_MIN + 1, 0) + 4]
    at = np.flatnonzero((size >= BLOCK_MIN) & (size <= BLOCK_MAX) & (size & 3 == 0))
    is_read = np.isin(words[at], _KINDS)
    kind = words[at]
    keep = is_read | (kind <= _KIND_MAX) | (kind >> 31 == 1)
    at, is_read = at[keep], is_read[keep]
    following = at + words[at + 4].astype(np.int64)
    inside = following <= len(data)
    good = ~inside & is_read
    good[inside] = words[following[inside] - 4] == words[at[inside] + 4]
    return at[good], following[good]
