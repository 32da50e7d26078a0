"""How fast Pulsar is decoded, on one core: ``python benchmarks/pulsar.py [--quick]``.

1. One by one: commands, metadata and messages of batches, by the fast path and by the slow one, the best of seven.
2. As users run it: ``mqsniff decode`` over a capture of SEND and MESSAGE, most of them batches, half of these
   compressed; whole processes, the best of three (see ``run.py``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from pulsartraffic import batch, encoded
from run import DATA, FORMS, MQSNIFF, best, script, show

from dissectors.pulsar.batches import _read_single, _read_slowly
from dissectors.pulsar.messages import message_type
from mqsniff.limits import Limits
from mqsniff.spec.protowire import interpret

PASSES = 7
NUMBER = 20_000
LIMITS = Limits()


def microseconds(work: Callable[[], object]) -> str:
    """CPU time of one call."""
    seconds = []
    for _ in range(PASSES):
        started = time.process_time()
        for _ in range(NUMBER):
            work()
        seconds.append(time.process_time() - started)
    return f"{min(seconds) / NUMBER * 1e6:.1f}"


def message_rows() -> list[list[str]]:
    """Messages of protobuf by both paths."""
    told = {
        "CommandSend": {"producer_id": 1, "sequence_id": 1000, "num_messages": 50},
        "CommandMessage": {"consumer_id": 1, "message_id": {"ledger_id": 7, "entry_id": 9, "partition": -1}},
        "MessageMetadata": {"producer_name": "p", "sequence_id": 9, "publish_time": 1 << 40, "uncompressed_size": 500},
    }
    rows = []
    for name, fields in told.items():
        data, shape = encoded(name, **fields), message_type(name)
        fast, slow = (lambda: shape.decode(data)), (lambda: interpret(shape, data))  # noqa: B023  # called at once
        rows.append([name, str(len(data)), microseconds(fast), microseconds(slow)])
    slot = batch((b"", {"partition_key": "key-1", "properties": [{"key": "a", "value": "b"}], "sequence_id": 77}))
    stop = len(slot)
    fast, slow = (lambda: _read_single(slot, 4, stop)), (lambda: _read_slowly(slot, 4, stop, LIMITS))
    return [*rows, ["SingleMessageMetadata", str(stop - 4), microseconds(fast), microseconds(slow)]]


def decode_rows(mb: int) -> list[list[str]]:
    """Whole runs over a capture of this size."""
    DATA.mkdir(exist_ok=True)
    path, count = DATA / f"pulsar-{mb}.pcap", DATA / f"pulsar-{mb}.messages"
    if not count.exists():
        count.write_text(script("pulsartraffic.py", str(path), str(mb)))
    commands, size = int(count.read_text()), path.stat().st_size / 1e6
    rows = []
    for form, options in FORMS.items():
        used = best(*MQSNIFF, "decode", str(path), *options)
        speeds = [f"{commands / used.cpu_s:,.0f}", f"{size / used.cpu_s:.1f}"]
        rows.append([form, f"{used.cpu_s:.2f}", f"{used.wall_s:.2f}", f"{used.peak_mb:.0f}", *speeds])
    return rows


def main() -> None:
    """Print both tables."""
    show("one message, microseconds of CPU", ["message", "bytes", "fast", "slow"], message_rows())
    mb = 6 if "--quick" in sys.argv[1:] else 60
    columns = ["output", "CPU s", "wall s", "peak MB", "messages/CPU s", "MB/CPU s"]
    show(f"decode of {mb} MB", columns, decode_rows(mb))


if __name__ == "__main__":
    main()
