"""The contract of a layer inside a connection: captured bytes of one direction in, plain bytes and losses out.

1. The output does not depend on how the input is cut, except for the cuts between plain pieces. An output never waits
   for more bytes than it needs.
2. A plain piece holds at most ``limits.layer_piece`` bytes and is made on demand, so that a bomb is decoded piece by
   piece. Each iterator is exhausted before the next call.
3. Traffic never raises. Plain bytes that cannot be decoded become ``LayerLoss``, in order between the plain pieces;
   ``LayerStop`` ends a direction: nothing comes after it.
4. Offsets count all input bytes, gaps included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from mqsniff.limits import Limits
from mqsniff.model import ProblemKind


class LayerLoss(NamedTuple):
    """Part of the stream is lost here, and the stream continues.

    ``size`` captured input bytes from ``offset`` on could not be used (gaps between them do not count). ``plain`` plain
    bytes are missing here: None if unknown; 0 if an earlier ``LayerLoss`` has reported them, and this one only accounts
    for input bytes.
    """

    offset: int
    size: int
    plain: int | None
    kind: ProblemKind
    why: str


class LayerStop(NamedTuple):
    """Nothing of this direction can be decoded from the input byte at ``offset`` on."""

    offset: int
    kind: ProblemKind
    why: str


TransformOutput: TypeAlias = bytes | LayerLoss | LayerStop


class Transform(Protocol):
    """One direction of one layer of a connection."""

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        """The next captured bytes."""
        ...

    def gap(self, length: int) -> Iterator[TransformOutput]:
        """``length`` bytes were not captured here."""
        ...

    def close(self) -> Iterator[TransformOutput]:
        """The direction ended: bytes that were held back are delivered, or reported as lost."""
        ...


def pieces(plain: bytes, most: int) -> Iterator[bytes]:
    """``plain`` in pieces of at most ``most`` bytes."""
    for start in range(0, len(plain), most):
        yield plain[start : start + most]


Maker: TypeAlias = Callable[..., tuple[Transform, Transform]]
"""Makes both directions of a layer from limits and settings, the client's first; they may share state (TLS does)."""


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
"""The transforms of the engine, by the name in ``Upgrade.to``."""
