"""Batches of segments of several capture domains in, the stream events of each connection out, as from ``FlowTable``.

1. Flows of different domains are separate, even with the same addresses.
2. The events of a domain do not depend on other domains.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mqsniff.limits import Limits
from mqsniff.model import PACKET_BITS, SegmentBatch
from mqsniff.streams.connection import Connection
from mqsniff.streams.flows import FlowEvents, FlowTable
from mqsniff.streams.selection import select_segments

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DomainFlows:
    """All connections of a run, domain by domain."""

    def __init__(
        self,
        limits: Limits,
        domain_of: Callable[[int], str],
        *,
        lone_syns: bool = False,
        touched: set[Connection] | None = None,
    ) -> None:
        """``domain_of`` gives the domain of a capture by its index; the rest is as for ``FlowTable``."""
        self._lone_syns, self._touched = lone_syns, touched
        self._limits = limits
        self._domain_of = domain_of
        self._flows: dict[str, FlowTable] = {}

    def __len__(self) -> int:
        return sum(map(len, self._flows.values()))

    def feed(self, batch: SegmentBatch, own: NDArray[np.bool_] | None = None) -> list[FlowEvents]:
        """See ``FlowTable``; flow by flow in each domain."""
        captures, place = np.unique(batch.packet >> PACKET_BITS, return_inverse=True)
        domains = [self._domain_of(capture) for capture in captures.tolist()]
        events: list[FlowEvents] = []
        for domain in dict.fromkeys(domains):
            rows = np.array([each == domain for each in domains], np.bool_)[place]
            flows = self._flows.get(domain)
            if flows is None:
                flows = FlowTable(self._limits, domain, lone_syns=self._lone_syns, touched=self._touched)
                self._flows[domain] = flows
            events += flows.feed(select_segments(batch, rows), None if own is None else own[rows])
        return events

    def open_connections(self) -> list[Connection]:
        """See ``FlowTable``."""
        return [each for flows in self._flows.values() for each in flows.open_connections()]

    def forget(self, connection: Connection) -> None:
        """See ``FlowTable``."""
        for flows in self._flows.values():
            flows.forget(connection)

    def tables(self) -> list[FlowTable]:
        """The table of each domain."""
        return list(self._flows.values())

    def end(self) -> Iterator[FlowEvents]:
        """See ``FlowTable``."""
        return heapq.merge(*(flows.end() for flows in self._flows.values()), key=_age)


def _age(events: FlowEvents) -> int:
    """The first packet of a flow's last connection."""
    return events[0][1].first_ordinal
