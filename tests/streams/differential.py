"""Reassembly beside that of tshark, on mangled TCP connections: ``python tests/streams/differential.py 1000``.

1. Both read the same capture (mangledtcp.py) and give the bytes of each direction as text, in which ``[7]`` stands for
   seven missing bytes. tshark is asked by ``-z follow,tcp,raw,N``, we by the table of flows: no dissector runs.
2. Each difference belongs to a class of ``CLASSES``, or the run fails. docs/reassembly.md explains the classes.
3. ``--write`` stores tshark's answers to the first seeds beside this file: tests use these without tshark.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from mqsniff.limits import Limits
from mqsniff.sources.files import FileSource
from mqsniff.streams.events import StreamChunk, StreamGap, StreamProblem
from mqsniff.streams.flows import FlowTable
from mqsniff.streams.packets import PacketDecoder

sys.path.insert(0, str(Path(__file__).parent))
from mangledtcp import MangledPacket, Script, capture, script_of

_MISSING: Final = re.compile(rb"\[(\d+) bytes missing in capture file\]\0?")
_NODE: Final = re.compile(r"Node \d: (\d+)\.(\d+)\.(\d+)\.(\d+):\d+")


class Reading(NamedTuple):
    """What one reader made of a flow: of each connection the client's text and the server's."""

    connections: tuple[tuple[str, str], ...]
    problems: frozenset[str] = frozenset()
    """Kinds of problems; tshark's are not asked for."""


# ---- ours


def ours(path: Path, limits: Limits | None = None) -> dict[int, Reading]:
    """Of each seed, what our reassembly made of it."""
    limits = limits or Limits()
    decoder, flows = PacketDecoder(limits), FlowTable(limits)
    events = []
    for batch in FileSource([str(path)], limits).batches():
        for told in flows.feed(decoder.decode(batch)):
            events += told
    for told in flows.end():
        events += told
    made: dict[object, tuple[list[str], list[str], set[str]]] = {}
    for _, connection, event in sorted(events, key=lambda told: told[0]):
        sides = made.setdefault(connection, ([], [], set()))
        match event:
            case StreamChunk():
                sides[event.direction].append(event.data.decode("latin-1"))
            case StreamGap():
                sides[event.direction].append(f"[{event.length}]")
            case StreamProblem():
                sides[2].add(event.problem.kind)
    readings: dict[int, Reading] = {}
    for connection, (low, high, problems) in made.items():
        seed = int.from_bytes(connection.key.low_ip[2:])
        before = readings.get(seed, Reading(()))
        texts = (*before.connections, ("".join(low), "".join(high)))
        readings[seed] = Reading(texts, before.problems | problems)
    return readings


# ---- tshark's


def tsharks(path: Path, *options: str) -> dict[int, Reading]:
    """Of each seed, what tshark's ``follow`` made of it."""
    streams = set(_tshark(path, *options, "-T", "fields", "-e", "tcp.stream").split())
    asked = [part for stream in sorted(streams, key=int) for part in ("-z", f"follow,tcp,raw,{stream}")]
    blocks = _tshark(path, *options, "-q", *asked).split("Follow: tcp,raw\n")[1:]
    readings: dict[int, Reading] = {}
    for stream, seed, texts in sorted(map(_block, blocks)):
        assert str(stream) in streams
        readings[seed] = Reading((*readings.get(seed, Reading(())).connections, texts))
    return readings


def _tshark(path: Path, *arguments: str) -> str:
    run = ["tshark", "-n", "-r", str(path), *arguments]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout


def _block(block: str) -> tuple[int, int, tuple[str, str]]:
    """(stream, seed, texts of client and server) of one answer."""
    head, _, body = block.partition("Node 1")
    (stream,) = re.findall(r"tcp\.stream eq (\d+)", head)
    first = _NODE.search(head)
    assert first is not None
    seed, swapped = 256 * int(first[3]) + int(first[4]), first[2] == "2"
    said = [b"", b""]
    for line in body.splitlines()[1:]:
        if re.fullmatch("\t?[0-9a-f]+", line):
            said[line.startswith("\t") ^ swapped] += bytes.fromhex(line)
    if swapped:
        other = _NODE.search("Node 1" + body)
        assert other is not None
        seed = 256 * int(other[3]) + int(other[4])
    client, server = (_MISSING.sub(rb"[\1]", each).decode("latin-1") for each in said)
    return int(stream), seed, (client, server)


# ---- differences

STORED: Final = Path(__file__).with_name("tshark_streams.txt")
STORED_SEEDS: Final = (*range(160), 320, 503, 549, 629)
CLASSES: Final = (
    "overlap",
    "late bytes",
    "lost at the end",
    "after a hole at the end",
    "after the end",
    "same ports and number",
    "after a reset",
    "no SYN captured",
)
_SAME_NUMBER, _ONE_SIDE = "ports used again with the same number", "one side"


def differences(mine: Reading, its: Reading, names: list[str]) -> set[str]:
    """The classes of all differences of a flow with these manglings; ``unexplained`` is none of ``CLASSES``."""
    if mine.connections == its.connections:
        return set()
    if len(mine.connections) != len(its.connections):
        return {_split(mine, its, names)}
    found: set[str] = set()
    for our_texts, its_texts in zip(mine.connections, its.connections, strict=True):
        for our_text, its_text in zip(our_texts, its_texts, strict=True):
            found |= _of_texts(our_text, its_text, mine.problems)
    if "unexplained" in found and "begins in the middle" in names:
        return {"no SYN captured"}
    return found


def _split(mine: Reading, its: Reading, names: list[str]) -> str:
    """Why the packets are another number of connections."""
    if _SAME_NUMBER in names and len(mine.connections) > len(its.connections):
        return "same ports and number"
    if "rst in the middle" in names and "trailing_bytes" in mine.problems:
        return "after a reset"
    if _ONE_SIDE in names and len(mine.connections) > len(its.connections):
        return "no SYN captured"
    return "unexplained"


def _of_texts(our_text: str, its_text: str, problems: frozenset[str]) -> set[str]:
    ours_wide, its_wide = _wide(our_text), _wide(its_text)
    found = set()
    for our_byte, its_byte in zip(ours_wide, its_wide, strict=False):
        if its_byte == "?" != our_byte:
            found.add("late bytes")
        elif our_byte != its_byte:
            found.add("overlap" if "overlap" in problems and our_byte != "?" else "unexplained")
    rest, its_rest = ours_wide[len(its_wide) :], its_wide[len(ours_wide) :]
    if its_rest:
        found.add("after the end" if "trailing_bytes" in problems else "unexplained")
    elif rest and not rest.strip("?"):
        found.add("lost at the end")
    elif rest:
        found.add("after a hole at the end" if rest[0] == "?" else "unexplained")
    return found


def _wide(text: str) -> str:
    """A text with a question mark for each missing byte."""
    return re.sub(r"\[(\d+)\]", lambda gap: "?" * int(gap[1]), text)


def first_captured(script: Script, life: int, side: int) -> dict[int, str]:
    """Of each offset of a stream the byte that came first in the capture."""
    bytes_at: dict[int, str] = {}
    for packet in script.packets:
        if (packet.life, packet.side) == (life, side):
            for offset, byte in enumerate(packet.data.decode("latin-1"), _first_offset(packet)):
                bytes_at.setdefault(offset, byte)
    return bytes_at


def _first_offset(packet: MangledPacket) -> int:
    return packet.seq + (packet.flags >> 1 & 1)


# ---- stored answers


def stored() -> dict[int, tuple[Reading, set[str]]]:
    """Of each stored seed what tshark made of it, and the classes of the differences."""
    found = {}
    for line in STORED.read_text().splitlines():
        seed, classes, *texts = line.split("|")
        pairs = tuple(zip(texts[::2], texts[1::2], strict=True))
        found[int(seed)] = Reading(pairs), {each for each in classes.split(",") if each}
    return found


def _store(its: dict[int, Reading], classes: dict[int, set[str]]) -> None:
    lines = (
        "|".join(
            (str(seed), ",".join(sorted(classes[seed])), *(text for pair in its[seed].connections for text in pair))
        )
        for seed in STORED_SEEDS
    )
    STORED.write_text("\n".join(lines) + "\n")


def main(count: int, *, write: bool) -> int:
    """Compare both readers on the flows of so many seeds; 1 if a difference has no class."""
    seeds = sorted({*range(count), *(STORED_SEEDS if write else ())})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mangled.pcap"
        path.write_bytes(capture(seeds))
        mine, its = ours(path), tsharks(path)
        again = tsharks(path, "-o", "tcp.reassemble_out_of_order:TRUE")
    classes = {seed: differences(mine[seed], its[seed], script_of(seed)[0]) for seed in seeds}
    if write:
        _store(its, classes)
    counts = Counter(each for found in classes.values() for each in found)
    same = sum(not found for found in classes.values())
    sys.stdout.write(f"{len(seeds)} flows, {same} the same\n")
    sys.stdout.writelines(f"{counts[each]:6} {each}\n" for each in (*CLASSES, "unexplained"))
    changed = sum(its[seed] != again[seed] for seed in seeds)
    sys.stdout.write(f"{changed} change with tshark's tcp.reassemble_out_of_order\n")
    for seed in (seed for seed in seeds if "unexplained" in classes[seed]):
        sys.stdout.write(f"unexplained: seed {seed}, {script_of(seed)[0]}, problems {sorted(mine[seed].problems)}\n")
        for pairs in zip_longest(mine[seed].connections, its[seed].connections, fillvalue=("-", "-")):
            sys.stdout.writelines(f"  ours   {one}\n  tshark {two}\n" for one, two in zip(*pairs, strict=True))
    return 1 if counts["unexplained"] else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--write", action="store_true", help="store tshark's answers for the tests")
    arguments = parser.parse_args()
    if shutil.which("tshark") is None:
        sys.exit("there is no tshark")
    sys.exit(main(arguments.count, write=arguments.write))
