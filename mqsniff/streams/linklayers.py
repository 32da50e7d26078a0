"""Link layers: packets as captured in, packets at their network header out, with its EtherType.

1. A link type is a row of ``LINK_LAYERS``; the caller handles types without a row.
2. VLAN tags and a SNAP header belong to the link layer; at most ``TAGS_MAX`` tags are read.
3. Link types are those of https://www.tcpdump.org/linktypes.html, EtherTypes those of the IEEE registry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from mqsniff.streams.columns import Packets, SetAside, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mqsniff.model import Bytes8

LinkReader: TypeAlias = "Callable[[Bytes8, Packets, SetAside], Packets]"

ETHERTYPE_NONE: Final = 0
ETHERTYPE_IPV4: Final = 0x0800
ETHERTYPE_BRIDGED: Final = 0x6558
"""Transparent Ethernet bridging: a whole Ethernet frame follows."""
ETHERTYPE_IPV6: Final = 0x86DD
ETHERTYPES_MPLS: Final = (0x8847, 0x8848)
ETHERTYPE_PPPOE: Final = 0x8864
ETHERTYPES_VLAN: Final = (0x8100, 0x88A8, 0x9100, 0x9200)

TAGS_MAX: Final = 8
"""More than any network stacks; each costs a pass over the batch, and a crafted packet may consist of tags only."""
LENGTH_MAX: Final = 1500
"""An EtherType up to this is the length of an 802.3 frame (IEEE 802.3, 3.2.6)."""
SNAP_HEADS: Final = (0x03_000000, 0x03_0000F8)
"""Control and organisation that are followed by an EtherType (RFC 1042, IEEE 802.1H)."""

_ETHERNET = np.dtype([("addresses", "V12"), ("ethertype", ">u2")])
_SLL = np.dtype([("before", "V14"), ("ethertype", ">u2")])
_SLL2 = np.dtype([("ethertype", ">u2"), ("after", "V18")])
_TAG = np.dtype([("control", ">u2"), ("ethertype", ">u2")])
_SNAP = np.dtype([("access_points", ">u2"), ("head", ">u4"), ("ethertype", ">u2")])
_FAMILY = np.dtype([("first", "u1"), ("middle", ">u2"), ("last", "u1")])
_VERSION = np.dtype([("version", "u1")])

_IS_TAG = np.zeros(65_536, np.bool_)
_IS_TAG[list(ETHERTYPES_VLAN)] = True

_OF_FAMILY = np.full(256, ETHERTYPE_NONE, np.int64)
_OF_FAMILY[2] = ETHERTYPE_IPV4
_OF_FAMILY[[10, 24, 28, 30]] = ETHERTYPE_IPV6  # Linux; NetBSD and OpenBSD; FreeBSD; Darwin

_OF_VERSION = np.full(16, ETHERTYPE_NONE, np.int64)
_OF_VERSION[[4, 6]] = ETHERTYPE_IPV4, ETHERTYPE_IPV6


def read_ethernet(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    """Ethernet II, and 802.3 with SNAP."""
    packets = outcome.whole(packets, _ETHERNET.itemsize, "Ethernet header")
    ethertype = gather(raw, packets.at, _ETHERNET)["ethertype"]
    return _read_shims(raw, _step(packets, _ETHERNET.itemsize, ethertype), outcome)


def _read_sll(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    packets = outcome.whole(packets, _SLL.itemsize, "Linux cooked header")
    ethertype = gather(raw, packets.at, _SLL)["ethertype"]
    return _read_shims(raw, _step(packets, _SLL.itemsize, ethertype), outcome)


def _read_sll2(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    packets = outcome.whole(packets, _SLL2.itemsize, "Linux cooked header v2")
    ethertype = gather(raw, packets.at, _SLL2)["ethertype"]
    return _read_shims(raw, _step(packets, _SLL2.itemsize, ethertype), outcome)


def _read_family(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    """BSD null and loop: an address family below 256 in four bytes, in either byte order."""
    packets = outcome.whole(packets, _FAMILY.itemsize, "address family")
    family = gather(raw, packets.at, _FAMILY)
    small = (family["middle"] == 0) & ((family["first"] == 0) | (family["last"] == 0))
    ethertype = np.where(small, _OF_FAMILY[family["first"] | family["last"]], ETHERTYPE_NONE)
    return _step(packets, _FAMILY.itemsize, ethertype)


def _read_raw(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    """No link header: the first bits are the version of IP."""
    packets = outcome.whole(packets, _VERSION.itemsize, "IP header")
    ethertype = _OF_VERSION[gather(raw, packets.at, _VERSION)["version"] >> 4]
    packets = _step(packets, 0, ethertype)
    return outcome.require(packets, "malformed", (ethertype != ETHERTYPE_NONE, "neither IP version 4 nor 6"))


def _read_ipv4(_raw: Bytes8, packets: Packets, _outcome: SetAside) -> Packets:
    return _step(packets, 0, np.full(len(packets), ETHERTYPE_IPV4))


def _read_ipv6(_raw: Bytes8, packets: Packets, _outcome: SetAside) -> Packets:
    return _step(packets, 0, np.full(len(packets), ETHERTYPE_IPV6))


LINK_LAYERS: Final[dict[int, LinkReader]] = {
    0: _read_family,
    1: read_ethernet,
    12: _read_raw,
    14: _read_raw,
    101: _read_raw,
    108: _read_family,
    113: _read_sll,
    228: _read_ipv4,
    229: _read_ipv6,
    276: _read_sll2,
}


def _step(packets: Packets, size: int, ethertype: NDArray[np.integer]) -> Packets:
    """Skip a link header. ``at`` and ``protocol`` are new arrays, which the functions below change in place."""
    return Packets(packets.row, packets.at + size, packets.stop, packets.end, ethertype.astype(np.int64))


def _read_shims(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    """Skip VLAN tags, then a SNAP header."""
    if (packets.protocol == ETHERTYPE_IPV4).all():
        return packets
    for _ in range(TAGS_MAX):
        tagged = _IS_TAG[packets.protocol]
        if not tagged.any():
            break
        packets = outcome.whole(packets, np.where(tagged, _TAG.itemsize, 0), "VLAN tag")
        index = np.flatnonzero(_IS_TAG[packets.protocol])
        packets.protocol[index] = gather(raw, packets.at[index], _TAG)["ethertype"]
        packets.at[index] += _TAG.itemsize
    _read_snap(raw, packets)
    return outcome.require(packets, "limit", (~_IS_TAG[packets.protocol], f"more than {TAGS_MAX} VLAN tags"))


def _read_snap(raw: Bytes8, packets: Packets) -> None:
    """Skip SNAP headers, in place; other 802.3 frames (spanning tree, …) keep their length as EtherType: no IP."""
    index = np.flatnonzero(packets.protocol <= LENGTH_MAX)
    snap = gather(raw, packets.at[index], _SNAP)
    found = (snap["access_points"] == 0xAAAA) & np.isin(snap["head"], SNAP_HEADS)
    found &= packets.stop[index] - packets.at[index] >= _SNAP.itemsize
    packets.protocol[index[found]] = snap["ethertype"][found]
    packets.at[index[found]] += _SNAP.itemsize
