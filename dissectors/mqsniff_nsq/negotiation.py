"""From IDENTIFY to the layers that it switches on: the requested and the granted ones in, Upgrades out.

1. The answer decides, never the request; but nothing can be granted that was not asked for, so a client that asked for
   no layer is never held up.
2. Layers come in the order TLS, then compression, each in both directions; behind each stands an OK of its own.
3. A client speaks in the new layer from the end of its IDENTIFY on, a server from the end of the frame that granted it.
4. Where the answer is lost or cannot be read, the next bytes of a side tell which layer it went on in.

Source: nsqio/nsq 1.3.0, ``nsqd/protocol_v2.go``, IDENTIFY.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mqsniff.dissector import NEED, FrameAnswer, LayerChange
from mqsniff.model import Side, Upgrade, Value
from mqsniff_nsq.tables import UPGRADES


class _Sign(NamedTuple):
    """How the first bytes of a layer look, and how as long as more of them must tell. Raw DEFLATE has no sign."""

    layer: str
    whole: re.Pattern[bytes]
    begun: re.Pattern[bytes]


_SIGNS: Final = (
    _Sign("snappy", re.compile(rb"\xff\x06\x00\x00sNaPpY"), re.compile(rb"(?:\xff\x06?\x00{0,2}s?N?a?P?p?)?\Z")),
    _Sign("tls", re.compile(rb"[\x14-\x17]\x03[\x00-\x04]"), re.compile(rb"(?:[\x14-\x17]\x03?)?\Z")),
)
Need: TypeAlias = Literal[FrameAnswer.NEED]
IsPlain: TypeAlias = Callable[[bytes], bool | None]

_FIELDS: Final = {upgrade.to: upgrade.field for upgrade in UPGRADES}


class Negotiation:
    """What IDENTIFY and its answers say of the layers of one connection."""

    def __init__(self) -> None:
        self.waiting = False
        """Whether the client's next byte means nothing before the server has answered."""
        self.looking = [False, False]
        """Sides whose next bytes tell in which layer they are."""
        self._requested: frozenset[str] | None = None
        self._client_at: int | None = None
        self._due: list[str] = []
        self._ahead: list[str] | None = None

    @property
    def due(self) -> bool:
        """Whether the next OK of the server switches on another layer."""
        return bool(self._due)

    def unsure_of(self, side: Side) -> bool:
        """Whether the next bytes of a side have to tell in which layer they are."""
        return self.looking[side] or (self.waiting and side is Side.CLIENT)

    def request(self, fields: dict[str, Value] | None, end: int) -> list[Upgrade]:
        """An IDENTIFY that ends at a stream offset; ``fields`` is None where they cannot be read.

        Gives the layers in which the client goes on if the reply was seen before the request.
        """
        self._client_at = end
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return [Upgrade({Side.CLIENT: end}, layer, _SETTINGS.get(layer, {})) for layer in ahead]
        negotiates = fields is None or fields.get("feature_negotiation") is True
        self._requested = None if fields is None else _layers(fields) if negotiates else frozenset()
        self.waiting = self._requested != frozenset()
        return []

    def answer(self, fields: dict[str, Value] | None) -> int:
        """The answer to IDENTIFY, None where it cannot be read; gives how many layers it switches on."""
        if self._client_at is None:
            self._ahead = []
        if fields is None:
            self.look()
            return 0
        granted = _layers(fields)
        self._due = [
            layer for layer in _FIELDS if layer in granted and (self._requested is None or layer in self._requested)
        ]
        self.waiting = False
        return len(self._due)

    def refuse(self) -> None:
        """IDENTIFY was answered without any layer."""
        self.waiting = False
        self._due = []

    def look(self) -> None:
        """The answer, or what it granted, is lost: the next bytes of both sides have to tell."""
        self.refuse()
        self.looking = [self._requested != frozenset()] * 2

    def begin(self, server_at: int, client_at: int | None) -> Upgrade:
        """Switch on the next layer behind the frame of the server that ends at ``server_at``.

        ``client_at`` is where the client goes on if its IDENTIFY was lost; None if that is still to come.
        """
        layer = self._due.pop(0)
        at = {Side.SERVER: server_at}
        if self._client_at is not None:
            at[Side.CLIENT] = self._client_at
        elif client_at is not None:
            at[Side.CLIENT] = client_at
        elif self._ahead is not None:
            self._ahead.append(layer)
        self.waiting = bool(self._due)
        return Upgrade(at, layer, _SETTINGS.get(layer, {}))

    def layer_of(self, side: Side, head: bytes, is_plain: IsPlain) -> LayerChange | Need | None:
        """The layer in which a side goes on, None for the one it is in; not called any more once it gave one.

        ``is_plain`` tells whether bytes begin a frame of the layer at hand, None where it needs more of them.
        """
        layer = self._layer_of(head, is_plain)
        if not isinstance(layer, str):
            return layer
        self.looking[side] = False
        self.waiting = self.waiting and side is Side.SERVER
        told_by = range(1, len(head) + 1)
        return LayerChange(layer, next(n for n in told_by if isinstance(self._layer_of(head[:n], is_plain), str)))

    def _layer_of(self, head: bytes, is_plain: IsPlain) -> str | Need | None:
        for layer, whole, begun in _SIGNS:
            if self._requested is None or layer in self._requested:
                if whole.match(head):
                    return layer
                if begun.match(head):
                    return NEED
        plain = is_plain(head)
        if plain is None:
            return NEED
        return "deflate" if not plain and self._requested is not None and "deflate" in self._requested else None


_SETTINGS: Final[dict[str, dict[str, Any]]] = {"deflate": {"clear_tail": b"CLS\n"}}
"""nsqjs ends a compressed connection with a command in clear text, which reads as DEFLATE for some bytes."""


def _layers(fields: dict[str, Value]) -> frozenset[str]:
    """The layers whose fields are true."""
    return frozenset(layer for layer, name in _FIELDS.items() if fields.get(name) is True)
