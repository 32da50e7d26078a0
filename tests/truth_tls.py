"""Plain bytes of TLS, ours beside tshark's, stream by stream: ``python tests/truth_tls.py DIR`` (a chore, not a test).

It takes every capture under DIR that has a key log beside it (``x.pcap`` and ``x.keys``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from mqsniff.decode.layers import TlsLayer
from mqsniff.decode.session import ProtocolSession
from mqsniff.decode.tlsstage import TlsStage
from mqsniff.dissector import WITH_RECORDS, Settings
from mqsniff.model import ClosedItem, MessageItem, ProblemItem, Side
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.tls.keylog import KeyLog


class Ours(NamedTuple):
    """What decoding gave."""

    streams: dict[tuple[str, str], dict[Side, bytes]]
    """(client, server) -> plain bytes by side."""
    connections: list[Any]
    messages: int
    problems: Counter[str]


def decoded(capture: Path, keys: Path) -> Ours:
    """Decode a capture, and keep what comes out of TLS."""
    plain: dict[int, dict[Side, bytearray]] = {}
    owners: dict[int, tuple[str, str]] = {}
    joined, end, fill = TlsLayer.joined, TlsStage.end, ProtocolSession._fill

    def keep(self, run):
        chunk = joined(self, run)
        plain.setdefault(id(self._decoder), {side: bytearray() for side in Side})[self.side].extend(chunk.data)
        held.append(self._decoder)
        return chunk

    def end_stage(self):
        owners[id(self._decoder)] = (self._info.client, self._info.server)
        return end(self)

    def fill_session(self, layers):
        if layers._decoder is not None:
            owners[id(layers._decoder)] = (self._info.client, self._info.server)
        fill(self, layers)

    held: list[Any] = []
    TlsLayer.joined, TlsStage.end, ProtocolSession._fill = keep, end_stage, fill_session
    try:
        pipeline = Pipeline(FileSource([str(capture)]), Settings(wanted=WITH_RECORDS), keys=[KeyLog(str(keys))])
        items = [item for item in pipeline.items() if item is not None]
    finally:
        TlsLayer.joined, TlsStage.end, ProtocolSession._fill = joined, end, fill
    return Ours(
        {owners[key]: {side: bytes(data) for side, data in sides.items()} for key, sides in plain.items()},
        [item.connection for item in items if isinstance(item, ClosedItem)],
        sum(isinstance(item, MessageItem) for item in items),
        Counter(f"{i.problem.severity} {i.problem.kind}" for i in items if isinstance(i, ProblemItem)),
    )


def follow(capture: Path, keys: Path, ports: set[int]) -> dict[tuple[str, str], dict[Side, bytes]]:
    """What ``tshark -z follow,tls`` gives, by (client, server)."""
    tshark = ["tshark", "-r", str(capture), "-o", f"tls.keylog_file:{keys}"]
    tshark += [part for port in sorted(ports) for part in ("-d", f"tcp.port=={port},tls")]
    fields = ("tcp.stream", "ip.src", "tcp.srcport", "ip.dst", "tcp.dstport")
    asked = [*tshark, "-T", "fields", *(part for field in fields for part in ("-e", field))]
    rows = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    ends: dict[str, tuple[str, str]] = {}
    for stream, *others in (row.split("\t") for row in rows):
        if stream:
            ends.setdefault(stream, (":".join(others[:2]), ":".join(others[2:])))
    found: dict[tuple[str, str], dict[Side, bytes]] = {}
    for stream, (one, other) in ends.items():  # several in one run hide each other, and node 1 has no name
        asked = [*tshark, "-q", "-z", f"follow,tls,raw,{stream}"]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        first = Side.CLIENT if f"Node 0: {one}\n" in said else Side.SERVER
        data = {Side.CLIENT: bytearray(), Side.SERVER: bytearray()}
        for line in said.splitlines():
            if re.fullmatch(r"\t?(?:[0-9a-f]{2})+", line):
                data[first.peer if line.startswith("\t") else first] += bytes.fromhex(line.strip())
        found[one, other] = {side: bytes(each) for side, each in data.items()}
    return found


def compare(capture: Path, keys: Path) -> str:
    """One line of the table."""
    ours = decoded(capture, keys)
    used = [info for info in ours.connections if info.tls_keys == "used"]
    theirs = follow(capture, keys, {info.server_port for info in ours.connections if info.tls_version})
    same = different = only = 0
    for (client, server), sides in ours.streams.items():
        other = theirs.get((client, server))
        if other is None and (server, client) in theirs:
            turned = theirs[server, client]
            other = {side: turned[side.peer] for side in Side}
        if other is None or not any(other.values()):
            only += any(sides.values())
        elif other == sides:
            same += 1
        else:
            different += 1
            sizes = [f"{len(sides[side])} and {len(other[side])} bytes" for side in Side if sides[side] != other[side]]
            sys.stderr.write(f"{client} {server}: ours and tshark's differ: {', '.join(sizes)}\n")
    known = {ends for one, other in ours.streams for ends in ((one, other), (other, one))}
    missed = sum(any(sides.values()) and ends not in known for ends, sides in theirs.items())
    tls = sum(info.tls_version is not None for info in ours.connections)
    undecoded = sum(info.undecoded_bytes for info in ours.connections)
    bad = ", ".join(f"{kind} {count}" for kind, count in sorted(ours.problems.items()) if not kind.startswith("info"))
    numbers = (tls, len(used), same, different, only, missed, ours.messages, undecoded)
    return " | ".join((capture.name, *map(str, numbers), bad))


HEAD = (
    "capture | TLS connections | keys used | same as tshark | different | only ours | only tshark's | messages "
    "| undecoded bytes | problems"
)


def main(folders: list[str]) -> int:
    """The table for all captures with keys; 1 where anything differs."""
    if shutil.which("tshark") is None:
        sys.stderr.write("there is no tshark\n")
        return 0
    sys.stdout.write(f"{HEAD}\n")
    failed = False
    for keys in sorted(path for folder in folders for path in Path(folder).rglob("*.keys")):
        for capture in sorted(keys.parent.glob(keys.stem + ".pcap*")):
            if capture.suffix in (".pcap", ".pcapng"):
                line = compare(capture, keys)
                sys.stdout.write(f"{line}\n")
                failed = failed or line.split(" | ")[4] != "0" or line.split(" | ")[6] != "0"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
