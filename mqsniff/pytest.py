"""A pytest plugin: what a test said to a broker, captured on loopback while it ran, or read from a file.

Switch it on with ``pytest_plugins = ["mqsniff.pytest"]`` in a ``conftest.py``; docs/library.md shows it. Capturing
needs Linux and CAP_NET_RAW; without them the fixture raises CaptureError, which says what to do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, Unpack

import pytest

from mqsniff.library.capture import Capture, read
from mqsniff.library.request import PathName, ReadOptions
from mqsniff.model import PacketBatch
from mqsniff.sinks.pcapng import PcapngWriter
from mqsniff.sources.live import CaptureWishes, LiveSource

SETTLE_S: Final = 0.5
"""Seconds without a packet after which what a test sent is taken to be complete."""
SETTLE_MAX_S: Final = 5.0


class BrokerTraffic:
    """What was said to a broker; in a ``with`` statement the interface is captured until its end."""

    def __init__(self, file: Path, interface: str, bpf: str | None) -> None:
        self.file = file
        """The capture, to be kept or looked at with ``mqsniff decode``."""
        self._interface = interface
        self._bpf = bpf
        self._newest = 0.0

    def __enter__(self) -> Self:
        self._source = LiveSource([self._interface], CaptureWishes(bpf=self._bpf))
        self._thread = threading.Thread(target=self._record, name="mqsniff.pytest", daemon=True)
        self._newest = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        limit = time.monotonic() + SETTLE_MAX_S
        self._newest = time.monotonic()
        while time.monotonic() < min(limit, self._newest + SETTLE_S):
            time.sleep(0.05)
        self._source.stop()
        self._thread.join()

    def read(self, **options: Unpack[ReadOptions]) -> Capture:
        """What was captured, as ``mqsniff.read`` gives it: ``traffic.read(name="Produce").messages()``."""
        return read(self.file, **options)

    def _record(self) -> None:
        with self.file.open("wb") as stream:
            writer = PcapngWriter(stream)
            for batch in self._source.batches():
                self._write(writer, batch)

    def _write(self, writer: PcapngWriter, batch: PacketBatch) -> None:
        for ts_ns, start, size, linktype in zip(batch.ts_ns, batch.start, batch.caplen, batch.linktype, strict=True):
            interface = writer.interface(int(linktype), int(linktype), name=self._interface)
            writer.packet(interface, int(ts_ns), bytes(batch.buffer[int(start) : int(start + size)]))
            self._newest = time.monotonic()


TrafficMaker: TypeAlias = Callable[..., BrokerTraffic]


@pytest.fixture
def broker_traffic(tmp_path: Path) -> TrafficMaker:
    """Makes a ``BrokerTraffic``: of a file (``broker_traffic("x.pcap")``), or of loopback during ``with``.

    ``with broker_traffic(port=9092) as traffic:`` captures one port; ``bpf`` is any other filter, ``interface`` another
    interface than ``lo``.
    """
    numbers = count(1)

    def make(
        file: PathName | None = None, *, port: int | None = None, bpf: str | None = None, interface: str = "lo"
    ) -> BrokerTraffic:
        if port is not None:
            bpf = f"tcp port {port}" + (f" and ({bpf})" if bpf else "")
        place = tmp_path / f"traffic-{next(numbers)}.pcapng" if file is None else Path(file)
        return BrokerTraffic(place, interface, bpf)

    return make
