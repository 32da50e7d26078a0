"""Plans for any number of files that are not there."""

from __future__ import annotations

from mqsniff.batch.inputs import Location
from mqsniff.batch.plan import InputFile, PieceMaker, ScanOptions, ScanPlan
from mqsniff.limits import MIB
from mqsniff.sources.parsers import Head

HEADS = (Head(0, b"\xd4\xc3\xb2\xa1"), Head(70, b"\xff\x00"))


def simulated(count: int, size: int = 20_000) -> ScanPlan:
    """A plan for files that are not there."""
    files = [
        InputFile(
            index,
            count - index,
            f"site/{index:07d}.pcap",
            f"/taps/site/{index:07d}.pcap",
            Location(f"/taps/site/{index:07d}.pcap", "", size, 17),
            size,
            17,
            heads=HEADS,
        )
        for index in range(count)
    ]
    return ScanPlan(tuple(files), tuple(PieceMaker(4 * MIB).whole(files)), ScanOptions())
