"""The batch job's scan on one core, without Spark: ``python benchmarks/run.py batch-scan``.

The capture is Kafka traffic of large and of small messages in turn, about 1 GB. For other captures:
``python benchmarks/batchscan.py FILE …`` prints the same figures, one in a line: MB, splits, packets, CPU seconds, MB a
CPU second, peak of memory in MB, bundles, bytes of the shuffle for each byte of the input, milliseconds for a cut.
"""

from __future__ import annotations

import resource
import shutil
import sys
import time
from pathlib import Path
from typing import BinaryIO

from measuring import DATA, MB, made, script, show

from mqsniff.batch.cuts import find_cut
from mqsniff.batch.inputs import list_inputs, read_range
from mqsniff.batch.plan import ScanPlan, plan
from mqsniff.batch.prefix import Rescan, prefix
from mqsniff.batch.report import PieceReport
from mqsniff.batch.scan import scan as scan_split

PCAP_HEAD = 24
CUTS = 20
COLUMNS = ["MB", "splits", "packets", "CPU s", "MB/CPU s", "peak MB", "bundles", "shuffle/input", "ms a cut"]


def scan(scale: int) -> None:
    """Scan a capture of so many hundred MB."""
    figures = script("batchscan.py", str(large_capture(scale))).split()
    show("scan of the batch job", COLUMNS, [figures])


def large_capture(scale: int) -> Path:
    """One file of large and of small messages in turn."""
    path = DATA / f"batchscan-{scale}.pcap"
    if not path.exists():
        records = made("kafkatraffic.py", "kafka-records-128", 128, 100, 1, mode="records").path
        small = made("kafkatraffic.py", "kafka-small-acknowledged-200000", 200_000, 1, mode="small").path
        with path.open("wb") as out:
            append(out, records, 0)
            for _ in range(scale // 2):
                append(out, small, PCAP_HEAD)
                append(out, records, PCAP_HEAD)
    return path


def append(out: BinaryIO, path: Path, start: int) -> None:
    """The bytes of a file from ``start`` on."""
    with path.open("rb") as file:
        file.seek(start)
        shutil.copyfileobj(file, out)


def scanned(work: ScanPlan) -> tuple[list[PieceReport], int]:
    """The reports of all pieces, and how many bundles there were."""
    reports, bundles = [], 0
    for split in work.splits:
        for item in scan_split(split, work.files, work.options):
            if isinstance(item, PieceReport):
                reports.append(item)
            else:
                bundles += 1
    return reports, bundles


def cut_seconds(work: ScanPlan) -> float:
    """CPU seconds for one cut of the largest file."""
    file = max(work.files, key=lambda each: each.size)
    started = time.process_time()
    for number in range(1, CUTS + 1):
        nominal = file.size * number // (CUTS + 1)
        find_cut(lambda start, stop: read_range(file.location, start, stop), file.size, nominal, file.heads)
    return (time.process_time() - started) / CUTS


def main(paths: list[str]) -> None:
    """Scan some files and print the figures."""
    work = plan(list_inputs(paths))
    started = time.process_time()
    reports, bundles = scanned(work)
    cpu_s = time.process_time() - started
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB
    found = prefix(work, reports)
    assert not isinstance(found, Rescan), "cuts that are no cuts: captures inside of captures"
    figures = [f"{work.size / MB:.0f}", str(len(work.splits)), f"{found.packets:,}", f"{cpu_s:.2f}"]
    figures += [f"{work.size / MB / cpu_s:.0f}", f"{peak_mb:.0f}", f"{bundles:,}"]
    figures += [f"{found.bundle_bytes / work.size:.2f}", f"{1000 * cut_seconds(work):.1f}"]
    print("\n".join(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
