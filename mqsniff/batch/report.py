"""The report of scan on one piece: where it began and landed, the heads it used, its counts; plain data.

1. A report is small, whatever the piece holds.
2. Packet numbers are those inside the piece.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any

import orjson

from mqsniff.model import CaptureInfo, PacketProblem, Problem
from mqsniff.sources.capture import CaptureReader
from mqsniff.sources.parsers import Head, Losses, SectionLosses, Spent


@dataclass(slots=True)
class PieceReport:
    """The report on one piece."""

    piece: int
    file: int
    begin: int | None = None
    """Offset of its first record; None if no cut was found, or the file could not be opened."""
    end: int | None = None
    """Where it landed: offset of the first record after the piece."""
    is_last: bool = False
    """Whether it was read up to the end of the file."""
    is_over: bool = False
    """Whether nothing can be read from ``end`` on."""
    failure: str = ""
    """Why the file could not be opened."""
    is_lost: bool = False
    """Whether that is because the file is gone or changed since it was listed."""
    unreadable: str = ""
    """Why the file is no capture."""
    heads_before: str = ""
    """``digest_of`` the heads that were assumed before the piece."""
    heads: list[Head] = field(default_factory=list)
    """Heads found in the piece."""
    heads_whole: bool = True
    """Whether these are all heads in it."""
    begins_untimed: bool = False
    """Whether its first packets have no time of their own and use that of the packet before."""
    last_ns: int = 0
    """Time of its last packet."""
    largest_ns: int | None = None
    first_ns: int | None = None
    linktypes: list[int] = field(default_factory=list)
    packets: int = 0
    other_packets: int = 0
    """Packets that carry no TCP."""
    left_out_packets: int = 0
    """Packets that the packet filter dropped."""
    segments: int = 0
    losses: SectionLosses = field(default_factory=lambda: SectionLosses({}, 0, None))
    notes: Spent = field(default_factory=Spent)
    problems: list[Problem] = field(default_factory=list)
    """Problems of the file; ``packet`` is the number in the text."""
    once: list[PacketProblem] = field(default_factory=list)
    """Problems of packets that are reported once per capture."""
    secrets: list[tuple[int, bytes]] = field(default_factory=list, repr=False)
    """(type, data) of its decryption secrets."""
    bundles: int = 0
    bundle_bytes: int = 0
    cpu_ns: int = 0

    def conclude(self, info: CaptureInfo, reader: CaptureReader, known: int) -> None:
        """Copy what the reader found; the first ``known`` heads were given to it."""
        self.is_over = reader.over
        self.unreadable = info.unreadable
        self.packets = info.packets
        self.first_ns, self.largest_ns = info.first_ts_ns, info.last_ts_ns
        self.linktypes = sorted(info.linktypes)
        self.problems = info.problems
        self.secrets = info.secrets
        parser = reader.parser
        if parser is not None:
            self.heads, self.heads_whole = parser.heads.found[known:], parser.heads.whole
            self.begins_untimed, self.last_ns = parser.begins_untimed, parser.last_ns
            self.losses, self.notes = parser.losses(), parser.notes()

    def to_json(self) -> bytes:
        """As JSON."""
        return orjson.dumps(asdict(self), default=_plain, option=orjson.OPT_NON_STR_KEYS)

    @classmethod
    def from_json(cls, text: bytes | str) -> PieceReport:
        """From what ``to_json`` returned."""
        plain: dict[str, Any] = orjson.loads(text)
        first, between, last = plain["losses"]
        return cls(
            **plain
            | {
                "heads": [Head(offset, b64decode(data)) for offset, data in plain["heads"]],
                "losses": SectionLosses(_losses(first), between, None if last is None else _losses(last)),
                "notes": Spent(*plain["notes"]),
                "problems": [Problem(**problem) for problem in plain["problems"]],
                "once": [_problem(*row) for row in plain["once"]],
                "secrets": [(kind, b64decode(data)) for kind, data in plain["secrets"]],
            }
        )


def digest_of(heads: Sequence[Head]) -> str:
    """A digest of some heads."""
    digest = blake2b(digest_size=8)
    for offset, data in heads:
        digest.update(offset.to_bytes(8, "little") + len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """JSON values for types that JSON does not have: bytes and named tuples."""
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else list(value)


def _problem(ordinal: int, ts_ns: int, packet: int, size: int, problem: dict[str, Any]) -> PacketProblem:
    return PacketProblem(ordinal, ts_ns, packet, size, Problem(**problem))


def _losses(plain: dict[str, list[int]]) -> Losses:
    return {int(interface): (counted, total) for interface, (counted, total) in plain.items()}
