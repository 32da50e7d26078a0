"""The contract of a layer inside a connection: captured bytes of one direction in, plain bytes and losses out.

1. Bytes come in any cuts and mean the same: byte by byte gives the items of the whole, but for the cuts between plain
   pieces. An item never waits for more bytes than it needs.
2. A plain piece holds at most ``limits.layer_piece`` bytes and is made when it is asked for, so a bomb is fed by the
   piece. An iterator is used up before the next call.
3. Traffic never raises. Plain bytes that cannot be had become ``Lost``, each at its place between the plain pieces;
   ``Dark`` ends a direction for good: nothing comes after it, whatever is fed.
4. Input bytes are counted, holes included: byte n of a direction has the same offset in each item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import ProblemKind


class Lost(NamedTuple):
    """Something of the stream is lost here, and the stream goes on.

    ``size`` input bytes that were captured, the first of them at ``offset`` (holes between them are not counted),
    could not be used. ``plain`` plain bytes are missing at this place: None where nobody can tell how many, 0 where an
    earlier ``Lost`` has told it already and this one only accounts for input bytes.
    """

    offset: int
    size: int
    plain: int | None
    kind: ProblemKind
    why: str


class Dark(NamedTuple):
    """From the input byte at ``offset`` on, nothing of this direction can be read any more."""

    offset: int
    kind: ProblemKind
    why: str


TransformOutput: TypeAlias = bytes | Lost | Dark


class Transform(Protocol):
    """One direction of one layer of a connection."""

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        """The next captured bytes."""
        ...

    def gap(self, length: int) -> Iterator[TransformOutput]:
        """So many bytes were not captured here."""
        ...

    def close(self) -> Iterator[TransformOutput]:
        """The direction ended: what was held back comes out, or is accounted for."""
        ...


def pieces(plain: bytes, most: int) -> Iterator[bytes]:
    """``plain`` in pieces of at most ``most`` bytes."""
    for start in range(0, len(plain), most):
        yield plain[start : start + most]


Maker: TypeAlias = Callable[..., tuple[Transform, Transform]]
"""Makes the two directions of a layer from limits and settings, the client's first; they may share state (TLS does)."""


def maker(module: str, name: str) -> Maker:
    """A Maker of two independent ``module.name(limits, **settings)``; the module is imported at first use."""

    def make(limits: Limits, **settings: object) -> tuple[Transform, Transform]:
        transform: Callable[..., Transform] = getattr(import_module(module), name)
        return transform(limits, **settings), transform(limits, **settings)

    return make


TRANSFORMS: Final[Mapping[str, Maker]] = MappingProxyType(
    {
        "deflate": maker("mqsniff.codecs.deflate", "Deflate"),
        "snappy": maker("mqsniff.codecs.snappy", "Snappy"),
    }
)
"""The transforms that the engine brings, by the name that ``Upgrade.to`` uses."""
