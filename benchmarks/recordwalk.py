"""How fast record batches of Kafka become columns, on one core: ``python benchmarks/recordwalk.py``.

Batches of 16 KiB, the producer's default, as kafka-python builds them: values of 20 to 4096 bytes, log-uniform, two
headers on a third of the records; and values of 30 bytes without headers. The best of seven passes is printed.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Sequence

from mqsniff.limits import Limits
from mqsniff_kafka.records.batches import HEAD, read_batches
from mqsniff_kafka.records.walk import walk, walk_slowly

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas by a call that Python gave up
    from kafka.record.default_records import DefaultRecordBatchBuilder

BATCH = 16_384
BATCHES = 100
PASSES = 7
HEADERS = [("trace", b"x" * 16), ("k", b"v")]


def batch(chance: random.Random, *, mixed: bool) -> bytes:
    """A full batch."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH)
    for index in range(BATCH):
        size = int(20 * (4096 / 20) ** chance.random()) if mixed else 30
        headers = HEADERS if mixed and chance.random() < 1 / 3 else []
        key = b"key%d" % index if mixed and index % 2 else None
        value = chance.randbytes(size)
        if builder.append(index, timestamp=1_700_000_000_000 + index, key=key, value=value, headers=headers) is None:
            break
    return bytes(builder.build())


def best_us(work: Callable[[bytes], object], batches: Sequence[bytes], units: int) -> float:
    """Microseconds of CPU a unit."""
    seconds = []
    for _ in range(PASSES):
        start = time.process_time()
        for data in batches:
            work(data)
        seconds.append(time.process_time() - start)
    return min(seconds) / units * 1e6


def opened(data: bytes, *, records: bool) -> object:
    """All that a field takes."""
    return read_batches(data, 0, len(data), decompress_max=Limits().decompress_max, open_records=records)


def main() -> None:
    """Print the figures."""
    for name, mixed in (("values of 20 to 4096 bytes", True), ("values of 30 bytes", False)):
        chance = random.Random(1)
        batches = [batch(chance, mixed=mixed) for _ in range(BATCHES)]
        counts = [int.from_bytes(data[57:61], "big") for data in batches]
        records = sum(counts)
        print(f"{name}: {records / BATCHES:.0f} records a batch")
        for title, walker in (("walk", walk), ("its slow twin", walk_slowly)):
            by_size = dict(zip(map(id, batches), counts, strict=True))
            figure = best_us(lambda d, w=walker, c=by_size: w(d, HEAD.size, len(d), c[id(d)]), batches, records)
            print(f"  {title:15} {figure:6.2f} µs a record")
        print(f"  {'to columns':15} {best_us(lambda d: opened(d, records=True), batches, records):6.2f} µs a record")
        print(f"  {'heads only':15} {best_us(lambda d: opened(d, records=False), batches, BATCHES):6.2f} µs a batch")


if __name__ == "__main__":
    main()
