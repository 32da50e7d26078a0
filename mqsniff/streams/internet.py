"""IPv4 and IPv6: packets at an IP header in, packets at its payload out.

1. An IP packet ends where its header says, so padding of the link layer is cut off. A length of 0 (segmentation
   offload, jumbograms) means up to the end of the packet.
2. A length past the end of the packet is malformed, except inside a tunnel: mirror ports and cloud taps may wrap only
   the first bytes of a packet.
3. Only protocols that can carry TCP are read further (``CARRIERS``); their fragments are reassembled, the rest is
   skipped.
4. Sources: RFC 791, RFC 8200, RFC 4302; checksums are not verified, since offload makes them wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mqsniff.streams.columns import Odd, Packets, SetAside, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mqsniff.model import Bytes8
    from mqsniff.streams.columns import Mask

PROTOCOL_IPV4: Final = 4
PROTOCOL_TCP: Final = 6
PROTOCOL_UDP: Final = 17
PROTOCOL_IPV6: Final = 41
PROTOCOL_FRAGMENT: Final = 44
PROTOCOL_GRE: Final = 47
PROTOCOL_AUTHENTICATION: Final = 51
PROTOCOL_MPLS: Final = 137

CARRIERS: Final = (PROTOCOL_TCP, PROTOCOL_UDP, PROTOCOL_IPV4, PROTOCOL_IPV6, PROTOCOL_GRE, PROTOCOL_MPLS)
EXTENSIONS: Final = (0, 43, PROTOCOL_FRAGMENT, PROTOCOL_AUTHENTICATION, 60, 135, 139, 140)
"""Hop-by-hop, routing, fragment, authentication, destination options, mobility, host identity, shim6."""
EXTENSIONS_MAX: Final = 8
"""Each costs a pass over the batch, and a crafted packet may consist of extensions only."""
OFFLOADED_MAX: Final = 1 << 20
"""Twice the maximum that Linux offloads; a larger packet without a length would claim bytes that never existed."""

IPV4 = np.dtype(
    [
        ("version_size", "u1"),
        ("service", "u1"),
        ("total_length", ">u2"),
        ("identification", ">u2"),
        ("flags_offset", ">u2"),
        ("time_to_live", "u1"),
        ("protocol", "u1"),
        ("checksum", ">u2"),
        ("source", ">u4"),
        ("destination", ">u4"),
    ]
)
IPV6 = np.dtype(
    [
        ("version_class_label", ">u4"),
        ("payload_length", ">u2"),
        ("next_header", "u1"),
        ("hop_limit", "u1"),
        ("source_high", ">u8"),
        ("source_low", ">u8"),
        ("destination_high", ">u8"),
        ("destination_low", ">u8"),
    ]
)
_EXTENSION = np.dtype([("next_header", "u1"), ("size", "u1"), ("offset_more", ">u2"), ("rest", ">u4")])

_MORE_OR_OFFSET_V4: Final = 0x3FFF
_MORE_OR_OFFSET_V6: Final = 0xFFF9


def _members(protocols: tuple[int, ...]) -> Mask:
    table = np.zeros(256, np.bool_)
    table[list(protocols)] = True
    return table


_IS_CARRIER = _members(CARRIERS)
_IS_EXTENSION_V4 = _members((PROTOCOL_AUTHENTICATION,))
_IS_EXTENSION_V6 = _members(EXTENSIONS)


def read_ipv4(raw: Bytes8, packets: Packets, outcome: SetAside, *, tunnelled: bool) -> Packets:
    """Read IPv4 headers and options; sets ``network`` to ``IPV4`` headers, and ``protocol``."""
    packets = outcome.whole(packets, IPV4.itemsize, "IPv4 header")
    header = gather(raw, packets.at, IPV4)
    packets = replace(packets, protocol=header["protocol"].astype(np.int64), network=header)
    version_4 = header["version_size"] >> 4 == 4
    packets = outcome.require(packets, "malformed", (version_4, "IPv4 packet of another version"))
    packets = _only(packets, _IS_CARRIER | _IS_EXTENSION_V4, outcome)
    packets = _past_ipv4(packets, outcome, tunnelled=tunnelled)
    fragment = packets.ip("flags_offset") & _MORE_OR_OFFSET_V4 != 0
    outcome.leave(Odd.IPV4_FRAGMENT, packets.where(fragment))
    return _past_extensions(raw, packets.where(~fragment), _IS_EXTENSION_V4, outcome)


def _past_ipv4(packets: Packets, outcome: SetAside, *, tunnelled: bool) -> Packets:
    size = (packets.ip("version_size") & 15).astype(np.int64) * 4
    total = packets.ip("total_length").astype(np.int64)
    start = packets.at + size
    end = np.where(total == 0, packets.end, packets.at + total)
    return outcome.require(
        replace(packets, at=start, stop=np.minimum(packets.stop, end), end=end),
        "malformed",
        (size >= IPV4.itemsize, "IPv4 header length below 20 bytes"),
        (start <= end, "IPv4 total length below the header length"),
        (tunnelled | (end <= packets.end), "IPv4 total length beyond the packet"),
        (end - packets.at <= OFFLOADED_MAX, "IPv4 without a length in too large a packet"),
    )


def read_ipv6(raw: Bytes8, packets: Packets, outcome: SetAside, *, tunnelled: bool) -> Packets:
    """Read IPv6 headers and extensions; sets ``network`` to ``IPV6`` headers, and ``protocol``."""
    packets = outcome.whole(packets, IPV6.itemsize, "IPv6 header")
    header = gather(raw, packets.at, IPV6)
    payload = header["payload_length"].astype(np.int64)
    start = packets.at + IPV6.itemsize
    end = np.where(payload == 0, packets.end, start + payload)
    packets = outcome.require(
        Packets(packets.row, start, np.minimum(packets.stop, end), end, header["next_header"].astype(np.int64), header),
        "malformed",
        (header["version_class_label"] >> 28 == 6, "IPv6 packet of another version"),
        (tunnelled | (end <= packets.end), "IPv6 payload length beyond the packet"),
        (end - packets.at <= OFFLOADED_MAX, "IPv6 without a length in too large a packet"),
    )
    packets = _only(packets, _IS_CARRIER | _IS_EXTENSION_V6, outcome)
    return _past_extensions(raw, packets, _IS_EXTENSION_V6, outcome)


def identification(packets: Packets) -> NDArray[np.integer]:
    """The identification of IPv4 packets; -1 for IPv6."""
    assert packets.network is not None
    return np.full(len(packets), -1) if packets.network.dtype == IPV6 else packets.ip("identification")


def _only(packets: Packets, wanted: Mask, outcome: SetAside) -> Packets:
    """The packets whose protocol is wanted; the others are skipped."""
    mask = wanted[packets.protocol]
    outcome.skipped += len(mask) - int(np.count_nonzero(mask))
    return packets.where(mask)


def _past_extensions(raw: Bytes8, packets: Packets, is_extension: Mask, outcome: SetAside) -> Packets:
    """Skip the chain of extension headers; keeps packets that can carry TCP."""
    parts = []
    for _ in range(EXTENSIONS_MAX):
        extended = is_extension[packets.protocol]
        if not extended.any():
            break
        parts.append(packets.where(~extended))
        packets = _past_extension(raw, packets.where(extended), outcome)
    extended = is_extension[packets.protocol]
    outcome.refuse(packets.row[extended], "limit", f"more than {EXTENSIONS_MAX} IP extension headers")
    parts.append(packets.where(~extended))
    return _only(Packets.joined(parts), _IS_CARRIER, outcome) if len(parts) > 1 else parts[0]


def _past_extension(raw: Bytes8, packets: Packets, outcome: SetAside) -> Packets:
    packets = outcome.whole(packets, _EXTENSION.itemsize, "IP extension header")
    header = gather(raw, packets.at, _EXTENSION)
    following = header["next_header"].astype(np.int64)
    units = header["size"].astype(np.int64)
    size = np.where(packets.protocol == PROTOCOL_AUTHENTICATION, 4 * (units + 2), 8 * (units + 1))
    size[packets.protocol == PROTOCOL_FRAGMENT] = _EXTENSION.itemsize
    fragment = (packets.protocol == PROTOCOL_FRAGMENT) & (header["offset_more"] & _MORE_OR_OFFSET_V6 != 0)
    fragments = replace(packets, protocol=following).where(fragment)
    outcome.leave(Odd.IPV6_FRAGMENT, _only(fragments, _IS_CARRIER | _IS_EXTENSION_V6, outcome))
    return replace(packets, at=packets.at + size, protocol=following).where(~fragment)
