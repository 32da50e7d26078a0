"""Messages in, what their dissectors say that they do out; a dissector that raises is asked no more and told once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mqsniff.dissector import Dissector
from mqsniff.model import Act, Message, RecordOrigin


class Acts:
    """Asks dissectors."""

    def __init__(self, dissectors: Iterable[type[Dissector]]) -> None:
        self._by_protocol = {name: cls for cls in dissectors for name in cls.names}
        self.faults: dict[str, None] = {}
        """What went wrong, each sentence once."""

    def of(self, message: Message) -> list[Act]:
        """What a message does."""
        cls = self._by_protocol.get(message.protocol)
        if cls is None:
            return []
        try:
            return list(cls.acts(message))
        except Exception as error:  # noqa: BLE001  # the border of the plugin
            self.faults[f"{type(error).__name__} in {cls.__name__}.acts at a {message.name}: it is left out"] = None
            return []

    def tells_origins(self, protocol: str) -> bool:
        """Whether records of a protocol may tell which record they are a copy of."""
        cls = self._by_protocol.get(protocol)
        return cls is not None and cls.origin.__func__ is not Dissector.origin.__func__  # type: ignore[attr-defined]

    def origin(self, protocol: str, headers: Mapping[str, bytes | None]) -> RecordOrigin | None:
        """Which record one with these headers is a copy of."""
        cls = self._by_protocol[protocol]
        try:
            return cls.origin(headers)
        except Exception as error:  # noqa: BLE001  # as above
            self.faults[f"{type(error).__name__} in {cls.__name__}.origin: it is left out"] = None
            return None
