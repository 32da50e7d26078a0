"""The layers that IDENTIFY requests and its reply grants.

1. The reply decides, never the request. Only requested layers can be granted, so a client that requested none does not
   wait.
2. TLS comes first, then compression, each in both directions; the server sends an OK in each new layer.
3. The client uses the new layer from the end of its IDENTIFY on, the server from the end of the granting frame on.
4. If the reply is lost or cannot be read, the next bytes of each side decide which layer it uses.

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
    """Patterns of a layer's first bytes: whole, and cut short. Raw DEFLATE has none."""

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
    """The negotiated layers of one connection."""

    def __init__(self) -> None:
        self.waiting = False
        """Whether the client's next bytes cannot be read before the server has replied."""
        self.undecided = [False, False]
        """By side: whether its next bytes have to show its layer."""
        self._requested: frozenset[str] | None = None
        self._client_at: int | None = None
        self._due: list[str] = []
        self._ahead: list[str] | None = None

    @property
    def due(self) -> bool:
        """Whether the next OK of the server switches on another layer."""
        return bool(self._due)

    def must_detect(self, side: Side) -> bool:
        """Whether the next bytes of a side have to show its layer."""
        return self.undecided[side] or (self.waiting and side is Side.CLIENT)

    def request(self, fields: dict[str, Value] | None, end: int) -> list[Upgrade]:
        """Note an IDENTIFY that ends at stream offset ``end``; ``fields`` is None if it cannot be read.

        Returns the layers that begin after it, if the reply was seen before.
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
        """Note the reply to IDENTIFY (None: cannot be read); returns the number of layers that it grants."""
        if self._client_at is None:
            self._ahead = []
        if fields is None:
            self.lose_answer()
            return 0
        granted = _layers(fields)
        self._due = [
            layer for layer in _FIELDS if layer in granted and (self._requested is None or layer in self._requested)
        ]
        self.waiting = False
        return len(self._due)

    def refuse(self) -> None:
        """IDENTIFY was answered without a layer."""
        self.waiting = False
        self._due = []

    def lose_answer(self) -> None:
        """The reply or its content is lost: the next bytes of both sides have to show the layer."""
        self.refuse()
        self.undecided = [self._requested != frozenset()] * 2

    def begin(self, server_at: int, client_at: int | None) -> Upgrade:
        """Begin the next granted layer after the server's frame that ends at ``server_at``.

        ``client_at``: where it begins on the client's side if IDENTIFY was lost; None if IDENTIFY is still to come.
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
        """The layer that begins on a side with ``head``; None: no new one. Not called again once it returned one.

        ``is_plain``: whether bytes begin a frame of the present layer; None: needs more bytes.
        """
        layer = self._layer_of(head, is_plain)
        if not isinstance(layer, str):
            return layer
        self.undecided[side] = False
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
