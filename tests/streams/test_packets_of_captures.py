"""Columns against dpkt, packet by packet, on all captures of ``pcaps/`` but the broken, and of MQSNIFF_CAPTURES."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from dpkt_oracle import FRAGMENT, captured_packets, segment_of
from packet_batches import batch_of, segments

from mqsniff.limits import Limits
from mqsniff.streams.packets import PacketDecoder

FOLDERS = [Path(__file__).parents[2] / "pcaps", *map(Path, filter(None, [os.environ.get("MQSNIFF_CAPTURES")]))]
CAPTURES = sorted(
    path
    for folder in FOLDERS
    for path in folder.rglob("*.pcap*")
    if path.suffix in {".pcap", ".pcapng"} and path.parent.name != "broken"
)
WINDOW = 500


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
def test_every_packet_of_a_capture_is_to_the_columns_what_it_is_to_dpkt(path: Path):
    decoder = PacketDecoder(Limits())
    packets = captured_packets(path)
    while window := list(itertools.islice(packets, WINDOW)):
        decoded = decoder.decode(batch_of(window))
        told = [segment_of(packet) for packet in window]
        wanted = {i: segment for i, segment in enumerate(told) if segment not in (None, FRAGMENT)}
        by_columns = dict(zip(decoded.ordinal.tolist(), segments(decoded), strict=True))
        assert {i: segment for i, segment in by_columns.items() if told[i] != FRAGMENT} == wanted
        assert decoded.skipped_packets + len(decoded.problems) == told.count(None)
        assert [window[i].packet for i in by_columns] == decoded.packet.tolist()
