"""Packets and flows in, those that a batch job decodes out: by time, port and host.

1. Packets are dropped before decoding: the tables are those of captures without these packets, except that packet
   numbers, files and the merge order do not change.
2. The time span begins at ``from_ns`` and ends before ``to_ns``, by the packets' own times.
3. A port or a host is that of either end; a host may be a network. Both are checked for TCP segments only: problems of
   packets that cannot be decoded are reported for all hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

import numpy as np

from mqsniff.filters.itemfilter import Network
from mqsniff.model import FlowKey, PacketBatch, SegmentBatch
from mqsniff.sources.batches import COLUMNS
from mqsniff.streams.selection import select_segments


@dataclass(frozen=True, slots=True)
class PacketFilter:
    """Which packets a job decodes; unset fields choose all."""

    from_ns: int | None = None
    to_ns: int | None = None
    ports: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    """Addresses and networks, as ``ipaddress.ip_network`` reads them."""

    def packets(self, batch: PacketBatch) -> PacketBatch:
        """The packets inside the time span; the same batch if all are."""
        if self.from_ns is None and self.to_ns is None:
            return batch
        inside = np.ones(len(batch), np.bool_)
        if self.from_ns is not None:
            inside &= batch.ts_ns >= self.from_ns
        if self.to_ns is not None:
            inside &= batch.ts_ns < self.to_ns
        if inside.all():
            return batch
        columns: dict[str, Any] = {name: getattr(batch, name)[inside] for name in COLUMNS}
        return replace(batch, **columns)

    def segments(self, batch: SegmentBatch) -> SegmentBatch:
        """The segments of chosen flows; the same batch if all are."""
        if not (self.ports or self.hosts) or not len(batch):
            return batch
        wanted = np.array([self.is_wanted(key) for key in batch.flows], np.bool_)
        return select_segments(batch, wanted[batch.flow])

    def is_wanted(self, key: FlowKey) -> bool:
        """Whether a flow is chosen."""
        if self.ports and not {key.low_port, key.high_port} & set(self.ports):
            return False
        return not self.hosts or any(_is_inside(self.hosts, address) for address in (key.low_ip, key.high_ip))

    def is_over_before(self, first_ns: int) -> bool:
        """Whether packets from this time on are after the time span, unless clocks step back."""
        return self.to_ns is not None and first_ns >= self.to_ns


@lru_cache(maxsize=65_536)
def _is_inside(hosts: tuple[str, ...], address: bytes) -> bool:
    packed = ip_address(address)
    return any(packed in network for network in _networks(hosts))


@lru_cache(maxsize=64)
def _networks(hosts: tuple[str, ...]) -> list[Network]:
    return [ip_network(host, strict=False) for host in hosts]
