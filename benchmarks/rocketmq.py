"""How fast RocketMQ is decoded, on one core: ``python benchmarks/rocketmq.py [--quick]``.

1. One by one: headers in both serialisations, and messages as a broker stores them; the best of seven passes.
2. As users run it: ``mqsniff decode`` over a capture of sends and pulls; whole processes, the best of three (see
   ``run.py``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rocketmqtraffic import PULL, SEND, binary_frame, json_frame, properties, pull_fields, send_fields, stored
from run import DATA, FORMS, MQSNIFF, best, script, show

from dissectors.rocketmq.extfields import read_ext
from dissectors.rocketmq.headers import read_header
from dissectors.rocketmq.notes import Notes
from dissectors.rocketmq.stored import read_stored
from dissectors.rocketmq.tables import tables
from mqsniff.limits import Limits

PASSES = 7
NUMBER = 10_000
MESSAGES = 32
LIMITS = Limits()


def microseconds(work: Callable[[], object], units: int = 1) -> str:
    """CPU time of one unit."""
    seconds = []
    for _ in range(PASSES):
        started = time.process_time()
        for _ in range(NUMBER // units):
            work()
        seconds.append(time.process_time() - started)
    return f"{min(seconds) / (NUMBER // units * units) * 1e6:.1f}"


def piece_rows() -> list[list[str]]:
    """Headers with their fields typed, and messages without and with their properties."""
    rows = []
    for code, fields in ((SEND, send_fields()), (PULL, pull_fields())):
        for kind, made in (("JSON", json_frame), ("ROCKETMQ", binary_frame)):
            data = made(code, 7, fields)
            request = tables().requests[code]

            def header(data: bytes = data) -> object:
                return read_header(data, Notes(LIMITS))

            def typed(data: bytes = data, part: object = request.request.header) -> object:
                notes = Notes(LIMITS)
                return read_ext(read_header(data, notes)[0].ext, part, notes)

            rows.append([f"{request.name}, {kind}", str(len(data)), microseconds(header), microseconds(typed)])
    one = stored(b"x" * 500, properties(KEYS="k", UNIQ_KEY="u" * 32, WAIT="true", TAGS="created"))
    body = one * MESSAGES
    plain = microseconds(lambda: read_stored(body, Notes(LIMITS), ""), MESSAGES)
    return [*rows, ["stored message", str(len(one)), plain, ""]]


def decode_rows(mb: int) -> list[list[str]]:
    """Whole runs over a capture of this size."""
    DATA.mkdir(exist_ok=True)
    path, count = DATA / f"rocketmq-{mb}.pcap", DATA / f"rocketmq-{mb}.messages"
    if not count.exists():
        count.write_text(script("rocketmqtraffic.py", str(path), str(mb)))
    frames, size = int(count.read_text()), path.stat().st_size / 1e6
    rows = []
    for form, options in FORMS.items():
        used = best(*MQSNIFF, "decode", str(path), *options)
        speeds = [f"{frames / used.cpu_s:,.0f}", f"{size / used.cpu_s:.1f}"]
        rows.append([form, f"{used.cpu_s:.2f}", f"{used.wall_s:.2f}", f"{used.peak_mb:.0f}", *speeds])
    return rows


def main() -> None:
    """Print both tables."""
    show("one piece, microseconds of CPU", ["piece", "bytes", "header", "with typed fields"], piece_rows())
    mb = 6 if "--quick" in sys.argv[1:] else 60
    columns = ["output", "CPU s", "wall s", "peak MB", "messages/CPU s", "MB/CPU s"]
    show(f"decode of {mb} MB", columns, decode_rows(mb))


if __name__ == "__main__":
    main()
