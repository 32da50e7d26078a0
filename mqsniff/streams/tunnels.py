"""Tunnel headers: the first bytes of a packet in a tunnel in, the inner EtherType and offset out.

1. A reader returns None if the bytes are no such tunnel, or carry no TCP. Bytes that end inside a header raise
   ``struct.error`` or ``dpkt.UnpackError``, which the caller catches.
2. dpkt reads single headers only: by itself it would follow nested packets to any depth.
3. Both directions of a connection must give the same name, which holds for the numbers of VXLAN, GENEVE, ERSPAN and
   PPPoE; MPLS labels and GRE keys may differ, and are left out.
4. Sources: RFC 1701, 2784, 2890 (GRE), draft-foschiano-erspan-03, RFC 7348 (VXLAN), RFC 8926 (GENEVE), RFC 3032, 4385,
   4448 (MPLS), RFC 2516, 1661 (PPPoE), RFC 2003, 2473, 4213 (IP in IP).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import dpkt

from mqsniff.streams.columns import Odd
from mqsniff.streams.linklayers import (
    ETHERTYPE_BRIDGED,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPES_MPLS,
    ETHERTYPES_VLAN,
)

HEAD_MAX: Final = 512
"""Bytes that a reader needs at most; the longest valid header is GENEVE's with 268."""


class Inside(NamedTuple):
    """The content of a tunnel: after ``size`` bytes of header, a packet of this EtherType."""

    tunnel: str
    ethertype: int
    size: int


HeadReader: TypeAlias = Callable[[bytes], Inside | None]

_CARRIED: Final = frozenset((ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_BRIDGED, *ETHERTYPES_MPLS))
_IN_ETHERNET: Final = frozenset((ETHERTYPE_IPV4, ETHERTYPE_IPV6, 0x0806, *ETHERTYPES_VLAN))
"""EtherTypes by which a frame is recognised; ARP too, so that an ARP frame is not taken for IP."""
_CONTROL_WORD: Final = b"\0\0"
"""First half of the control word (RFC 4448, 4.6)."""
_OF_VERSION: Final = {4: ETHERTYPE_IPV4, 6: ETHERTYPE_IPV6}
_OF_PPP_PROTOCOL: Final = {0x0021: ETHERTYPE_IPV4, 0x0057: ETHERTYPE_IPV6}

_ERSPAN_II: Final = 0x88BE
_ERSPAN_III: Final = 0x22EB
_ERSPAN_OF_VERSION: Final = {1: _ERSPAN_II, 2: _ERSPAN_III}

_VXLAN = struct.Struct("!B3xI")
_GENEVE = struct.Struct("!BBHI")
_ERSPAN = struct.Struct("!HH")
_U16 = struct.Struct("!H")
_U8 = struct.Struct("!B")


def read_header(kind: type[Any], data: bytes) -> Any:
    """One header by dpkt, with the bytes after it as ``data``; struct.error if there are too few."""
    header = object.__new__(kind)
    dpkt.Packet.unpack(header, data)
    return header


def _read_gre(head: bytes) -> Inside | None:
    gre = read_header(dpkt.gre.GRE, head)
    if gre.v != 0:
        return None  # version 1 carries PPTP's compressed and encrypted PPP
    _, formats = gre.opt_fields_fmts()
    size = gre.__hdr_len__ + struct.calcsize("!" + "".join(formats))
    if gre.flags & dpkt.gre.GRE_RP:
        size = _past_routes(head, size)
    if gre.p in (_ERSPAN_II, _ERSPAN_III):
        return _read_erspan(head, size, has_header=bool(gre.flags & dpkt.gre.GRE_SP))
    return Inside("gre", gre.p, size) if gre.p in _CARRIED else None


def _past_routes(head: bytes, at: int) -> int:
    """Skip the source routes of RFC 1701, the last of which is empty."""
    while True:
        route = read_header(dpkt.gre.GRE.SRE, head[at:])
        at += route.__hdr_len__ + route.len
        if route.len == 0:
            return at


def _read_erspan(head: bytes, at: int, *, has_header: bool) -> Inside | None:
    """ERSPAN I (only GRE, without sequence number), II and III."""
    if not has_header:
        return Inside("erspan", ETHERTYPE_BRIDGED, at)
    version, session = _ERSPAN.unpack_from(head, at)
    tunnel = f"erspan:{session & 0x3FF}"
    match version >> 12:
        case 1:
            return Inside(tunnel, ETHERTYPE_BRIDGED, at + 8)
        case 2:
            (flags,) = _U16.unpack_from(head, at + 10)
            size = at + (20 if flags & 1 else 12)
            frame_type = flags >> 10 & 31
            if frame_type == 2:
                return _version_inside(tunnel, head, size)
            return Inside(tunnel, ETHERTYPE_BRIDGED, size) if frame_type == 0 else None
        case _:
            return None


def _read_mpls(head: bytes) -> Inside | None:
    """Skip the label stack; only the first bits after it show what it carries (RFC 4928)."""
    at = 0
    while True:
        label = read_header(dpkt.ethernet.MPLSlabel, head[at:])
        at += label.__hdr_len__
        if label.s:
            break
    inside = _version_inside("mpls", head, at)
    if inside is not None:
        return inside
    if _is_ethernet(head[at:]):
        return Inside("mpls", ETHERTYPE_BRIDGED, at)
    if head.startswith(_CONTROL_WORD, at) and _is_ethernet(head[at + 4 :]):
        return Inside("mpls", ETHERTYPE_BRIDGED, at + 4)
    return None


def _is_ethernet(head: bytes) -> bool:
    return int.from_bytes(head[12:14], "big") in _IN_ETHERNET


def _version_inside(tunnel: str, head: bytes, at: int) -> Inside | None:
    """IP, with the version in its first bits."""
    (first,) = _U8.unpack_from(head, at)
    ethertype = _OF_VERSION.get(first >> 4)
    return None if ethertype is None else Inside(tunnel, ethertype, at)


def _read_pppoe(head: bytes) -> Inside | None:
    session = read_header(dpkt.pppoe.PPPoE, head)
    if session.code != dpkt.pppoe.PPPoE_SESSION:
        return None
    at = session.__hdr_len__
    (protocol,) = _U8.unpack_from(head, at)
    if protocol & dpkt.ppp.PFC_BIT == 0:
        (protocol,) = _U16.unpack_from(head, at)
        at += 1
    ethertype = _OF_PPP_PROTOCOL.get(protocol)
    return None if ethertype is None else Inside(f"pppoe:{session.session}", ethertype, at + 1)


def _read_vxlan(head: bytes) -> Inside | None:
    flags, network = _VXLAN.unpack_from(head)
    if not flags & 0x08 or network & 0xFF:
        return None  # another protocol that uses this port by chance
    return Inside(f"vxlan:{network >> 8}", ETHERTYPE_BRIDGED, _VXLAN.size)


def _read_geneve(head: bytes) -> Inside | None:
    version_options, _flags, ethertype, network = _GENEVE.unpack_from(head)
    if version_options >> 6 or network & 0xFF or ethertype not in _CARRIED:
        return None
    return Inside(f"geneve:{network >> 8}", ethertype, _GENEVE.size + 4 * (version_options & 0x3F))


def _read_ipv4_in_ip(_head: bytes) -> Inside:
    return Inside("ipip", ETHERTYPE_IPV4, 0)


def _read_ipv6_in_ip(_head: bytes) -> Inside:
    return Inside("ip6ip", ETHERTYPE_IPV6, 0)


HEAD_READERS: Final[dict[Odd, HeadReader]] = {
    Odd.GRE: _read_gre,
    Odd.MPLS: _read_mpls,
    Odd.PPPOE: _read_pppoe,
    Odd.VXLAN: _read_vxlan,
    Odd.GENEVE: _read_geneve,
    Odd.IPV4_IN_IP: _read_ipv4_in_ip,
    Odd.IPV6_IN_IP: _read_ipv6_in_ip,
}
