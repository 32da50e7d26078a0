"""How fast mqsniff is, and how much memory it takes: ``make bench``, or ``python benchmarks/run.py [OPTION] [NAME…]``.

1. Names are those of ``SECTIONS``; without one, all of them. ``--quick`` takes captures of a tenth of the size,
   ``--long`` of ten times the size (``LONG`` only; tshark's output takes 40 GB).
2. What is measured is the command as its users run it (``measuring.py``); nothing is asserted.
3. The captures are made here, the same on every run. tshark, where it is there, takes the same files in the same run.
4. What is imported here counts in the peaks of the children, so sections that import much come last.
"""

from __future__ import annotations

import importlib
import sys

SECTIONS = {
    "packets": "basics",
    "startup": "basics",
    "nsq": "nsqruns",
    "nsq-memory": "nsqruns",
    "kafka-messages": "kafkaruns",
    "kafka-records": "kafkaruns",
    "kafka-parquet": "kafkaruns",
    "kafka-even": "kafkaruns",
    "kafka-single": "kafkaruns",
    "jobs": "jobruns",
    "growth": "growthruns",
    "marks": "markruns",
    "stages": "markruns",
    "pulsar": "pieces",
    "rocketmq": "pieces",
    "tls": "tlsruns",
    "batch-scan": "batchscan",
    "batch-spark": "batchspark",
    "first-table": "firsttable",
}
"""Name -> module; the function has the last word of the name."""
LONG = ("marks", "stages")
"""Sections that have captures of ten times the size."""
SCALES = {"--quick": 1, "--long": 100}


def main() -> None:
    """Run what the command line names."""
    words = sys.argv[1:]
    known = LONG if "--long" in words else tuple(SECTIONS)
    names = [word for word in words if word not in SCALES] or known
    scale = next((SCALES[word] for word in words if word in SCALES), 10)
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"{', '.join(unknown)}: none of {', '.join(known)}")
    for name in names:
        section = getattr(importlib.import_module(SECTIONS[name]), name.rpartition("-")[2])
        section(scale)


if __name__ == "__main__":
    main()
