"""A folder of very many small captures: ``python benchmarks/manyfiles.py KIND COUNT FOLDER``.

1. ring: one after the other, as a rotating capture leaves them: a connection goes through all, a request in each.
2. overlapping: each begins before any other ends, and holds a connection of its own: a request at both ends.

What commands need for them: ``/usr/bin/time -v mqsniff decode -o ndjson FOLDER > /dev/null``.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Final

CLIENT, SERVER, PORT, START_S = 0x0B000000, 0x0A000002, 9092, 1_795_253_930
REQUEST: Final = struct.pack(">ihhih3s", 13, 18, 0, 1, 3, b"one")
HEAD: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)


def packet(client: int, port: int, number: int, at_s: int, at_us: int) -> bytes:
    """A record of a capture: the request with this number of a connection."""
    tcp = struct.pack(">HHIIBBHHH", port, PORT, 1000 + number * len(REQUEST), 5001, 0x50, 0x18, 65535, 0, 0) + REQUEST
    raw = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, client, SERVER) + tcp
    return struct.pack("<IIII", at_s, at_us, len(raw), len(raw)) + raw


def capture(kind: str, index: int) -> bytes:
    """One capture."""
    if kind == "ring":
        return HEAD + packet(CLIENT, 40_000, index, START_S + index // 100, index % 100 * 10_000)
    client, port = CLIENT + index // 50_000, 1024 + index % 50_000
    early, late = divmod(index, 1_000_000)
    return (
        HEAD + packet(client, port, 0, START_S + early, late) + packet(client, port, 1, START_S + 60, index % 1_000_000)
    )


def main() -> None:
    """Write the files, a thousand in each folder below."""
    kind, count, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if kind not in ("ring", "overlapping"):
        sys.exit(f"{kind}: ring or overlapping")
    for index in range(count):
        if index % 1000 == 0:
            below = folder / f"{index // 1000:05}"
            below.mkdir(parents=True, exist_ok=True)
        (below / f"{index:07}.pcap").write_bytes(capture(kind, index))


if __name__ == "__main__":
    main()
