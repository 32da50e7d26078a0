"""What every run costs before a protocol is met: ``python benchmarks/run.py packets`` and ``startup``."""

from __future__ import annotations

from measuring import HERE, MQSNIFF, best, script, show

SAMPLE = HERE.parent / "pcaps" / "nsq" / "nsq-1.3.0-go-req-touch.pcap"


def packets(_: int) -> None:
    """Packets to segments."""
    print(f"\npackets to segments\n{script('packets.py')}", end="")


def startup(_: int) -> None:
    """Whole processes that have little to do."""
    tasks = {"--help": ["--help"], "decode a capture of 137 packets": ["decode", str(SAMPLE)]}
    rows = []
    for task, arguments in tasks.items():
        used = best(*MQSNIFF, *arguments, passes=10)
        rows.append([task, f"{used.wall_s:.2f}", f"{used.cpu_s:.2f}", f"{used.peak_mb:.0f}"])
    show("start-up", ["command", "wall s", "CPU s", "peak MB"], rows)
