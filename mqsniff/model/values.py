"""Values of bodies, secrets and problems."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, TypeAlias


class Side(IntEnum):
    """One of the two ends of a connection."""

    CLIENT = 0
    SERVER = 1

    __hash__ = int.__hash__  # an enumeration hashes by name, in Python code

    @property
    def peer(self) -> Side:
        """The other end."""
        return _PEERS[self]

    @property
    def text(self) -> str:
        """Text in tables."""
        return ("client", "server")[self]


_PEERS: Final = (Side.SERVER, Side.CLIENT)


class Secret:  # no dataclass: orjson would write its bytes
    """Bytes that are shown as their length only, unless the user asks for secrets."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Secret({len(self.data)})"


class Undecoded:  # no dataclass, as Secret
    """Bytes of a message that were not decoded: shown as size and hash, unless the user asks for raw bytes."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undecoded) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Undecoded({len(self.data)})"


Value: TypeAlias = "bool | int | float | str | bytes | Secret | Undecoded | list[Value] | dict[str, Value] | None"

Severity: TypeAlias = Literal["error", "warning", "info"]

ProblemKind: TypeAlias = Literal[
    "malformed",
    "truncated",
    "gap",
    "overlap",
    "checksum",
    "limit",
    "unknown_code",
    "unknown_version",
    "trailing_bytes",
    "missing_field",
    "out_of_range",
    "unmatched",
    "codec",
    "format",
    "tls",
    "clock",
    "retransmission",  # these three are the network's, severity info (mqsniff.streams.troubles)
    "zero_window",
    "stall",
    "undecoded",
    "input",
    "internal",
]

NETWORK_KINDS: Final[frozenset[ProblemKind]] = frozenset(("retransmission", "zero_window", "stall"))
"""Problems of the network, not of bytes: ordinary captures have some."""


@dataclass(slots=True)
class Problem:
    """Anything odd. ``detail`` is fixed text and numbers, never payload bytes.

    Its place (``side`` and all that follows) is filled by the framing layer where the dissector leaves it out.
    """

    kind: ProblemKind
    severity: Severity
    detail: str
    path: str = ""
    side: Side | None = None
    offset: int | None = None
    size: int | None = None
    ts_ns: int | None = None
    packet: int | None = None
