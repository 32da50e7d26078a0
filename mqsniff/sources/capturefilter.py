"""The text of a capture filter in, a program for the kernel's packet filter out.

1. libpcap compiles, so a filter means what it means to tcpdump. It is loaded by ctypes, and only where it is needed.
2. A program is made for Ethernet and one for raw IP (tun, wireguard); the kernel takes the one for the packet's
   interface. So one filter serves ``any``.
3. The loopback gives every packet twice, outgoing and incoming: the program drops the outgoing copy, so that it costs
   nothing and is not counted.
4. By default everything that can carry TCP is taken, tunnels and fragments too, but not the ssh connection of this
   terminal: what it shows would be captured again.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final

from mqsniff.sources.packetring import BpfStep

ETHERNET: Final = 1
RAW_IP: Final = 12
"""DLT_RAW of libpcap."""
HATYPE_LOOPBACK: Final = 772
HATYPES_RAW: Final = (65534, 768, 769, 776)
"""ARPHRD_* of interfaces whose packets begin with the IP header: none (tun, wireguard), and tunnels."""

_UDP_TUNNELS: Final = (4789, 8472, 6081)
_IN_IP: Final = (4, 41, 47)
"""IP, IPv6 and GRE in IP."""
_IN_IPV6: Final = (0, 43, 60, *_IN_IP)
"""Also after options and routing headers, where libpcap does not look for TCP."""
_IN_ETHERNET: Final = (0x8100, 0x88A8, 0x9100, 0x8847, 0x8848, 0x8864)
"""VLAN tags that stay in the packet, MPLS, PPPoE."""

_STEP = struct.Struct("=HBBI")
_LOAD_WORD, _JUMP, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x05, 0x15, 0x06
_AUXILIARY: Final = 0xFFFF_F000
_PACKET_KIND, _HARDWARE = _AUXILIARY + 4, _AUXILIARY + 28
_OUTGOING: Final = 4
_EVERYTHING: Final = 0x7FFF_FFFF
_NO_MASK: Final = 0xFFFF_FFFF
_ERROR_SIZE: Final = 256


class FilterError(Exception):
    """A filter cannot be compiled; the text says why."""


class _Program(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("steps", ctypes.c_void_p))


def default_filter(environment: Mapping[str, str], ports: Iterable[int] = ()) -> str:
    """The filter of who gives none; only for ``ports``, if there are any."""
    chosen = " or ".join(f"tcp port {port}" for port in sorted(set(ports)))
    wanted = chosen or " or ".join((
        "tcp",
        *(f"ip proto {number}" for number in _IN_IP),
        *(f"ip6[6] = {number}" for number in _IN_IPV6),
        *(f"udp port {port}" for port in _UDP_TUNNELS),
    ))  # fmt: skip
    own = ssh_connection(environment)
    return f"({wanted}) and not ({own})" if own else wanted


def ssh_connection(environment: Mapping[str, str]) -> str | None:
    """A filter for the ssh connection of this terminal; None if there is none."""
    match environment.get("SSH_CONNECTION", "").split():
        case [client, client_port, server, server_port] if client_port.isdecimal() and server_port.isdecimal():
            try:
                hosts = [str(ip_address(each.partition("%")[0])) for each in (client, server)]
            except ValueError:
                return None
            return f"tcp port {client_port} and tcp port {server_port} and host {hosts[0]} and host {hosts[1]}"
    return None


def capture_program(text: str, *, is_default: bool, interface: str = "") -> list[BpfStep]:
    """The program of a filter, for all kinds of interfaces; FilterError if it cannot be compiled.

    ``interface`` lets libpcap know where VLAN tags are; '' if it is not one interface.
    """
    of_ethernet = " or ".join((*(f"ether proto {kind}" for kind in _IN_ETHERNET), f"({text})"))
    ethernet = compile_filter(of_ethernet if is_default else text, ETHERNET, interface)
    try:
        raw = compile_filter(text, RAW_IP)
    except FilterError:  # it asks for what only Ethernet has
        raw = [BpfStep(_RETURN, 0, 0, 0)]
    return joined_programs(ethernet, raw)


def joined_programs(ethernet: list[BpfStep], raw: list[BpfStep]) -> list[BpfStep]:
    """One program of two, without the outgoing copies of a loopback."""
    ahead = [
        BpfStep(_LOAD_WORD, 0, 0, _HARDWARE),
        BpfStep(_JUMP_IF_EQUAL, 0, 3, HATYPE_LOOPBACK),
        BpfStep(_LOAD_WORD, 0, 0, _PACKET_KIND),
        BpfStep(_JUMP_IF_EQUAL, 0, 1, _OUTGOING),
        BpfStep(_RETURN, 0, 0, 0),
        BpfStep(_LOAD_WORD, 0, 0, _HARDWARE),
    ]
    count = len(HATYPES_RAW)
    ahead += [BpfStep(_JUMP_IF_EQUAL, count - number, 0, hatype) for number, hatype in enumerate(HATYPES_RAW)]
    ahead += [BpfStep(_JUMP, 0, 0, 1), BpfStep(_JUMP, 0, 0, len(ethernet))]
    return [*ahead, *ethernet, *raw]


def everything() -> list[BpfStep]:
    """The program that takes every packet once."""
    steps = [BpfStep(_RETURN, 0, 0, _EVERYTHING)]
    return joined_programs(steps, steps)


def compile_filter(text: str, linktype: int, interface: str = "") -> list[BpfStep]:
    """A filter as libpcap compiles it; FilterError if it cannot."""
    library = _library()
    if "\0" in text:
        raise FilterError("it holds a zero byte")
    error = ctypes.create_string_buffer(_ERROR_SIZE)
    handle = None
    if interface and linktype == ETHERNET:
        handle = library.pcap_open_live(interface.encode(), 96, 0, 0, error)
        if handle and library.pcap_datalink(handle) != ETHERNET:
            library.pcap_close(handle)
            handle = None
    handle = handle or library.pcap_open_dead(linktype, _EVERYTHING)
    program = _Program()
    try:
        if library.pcap_compile(handle, ctypes.byref(program), text.encode(errors="replace"), 1, _NO_MASK):
            raise FilterError(library.pcap_geterr(handle).decode(errors="replace"))
        steps = ctypes.string_at(program.steps, program.size * 8)
        library.pcap_freecode(ctypes.byref(program))
    finally:
        library.pcap_close(handle)
    return [_step(steps[at : at + 8]) for at in range(0, len(steps), 8)]


def _step(raw: bytes) -> BpfStep:
    return BpfStep(*_STEP.unpack(raw))


def _library() -> Any:
    """libpcap; FilterError without it."""
    name = ctypes.util.find_library("pcap") or "libpcap.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        raise FilterError("filters need libpcap (Debian: apt install libpcap0.8)") from None
    for function in (library.pcap_open_dead, library.pcap_open_live):
        function.restype = ctypes.c_void_p
    library.pcap_open_live.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_char_p)
    for function in (library.pcap_close, library.pcap_datalink):
        function.argtypes = (ctypes.c_void_p,)
    library.pcap_compile.argtypes = (
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32,
    )  # fmt: skip
    library.pcap_geterr.argtypes = (ctypes.c_void_p,)
    library.pcap_geterr.restype = ctypes.c_char_p
    return library
