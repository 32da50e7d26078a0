"""mqsniff: a packet-capture protocol analyser for Apache Kafka, Apache Pulsar, Apache RocketMQ and NSQ.

``read``, ``live`` and ``decode_bytes`` are the library; docs/library.md shows them. Nothing heavy is imported before
one of these names is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mqsniff.errors import CaptureError, MqsniffError, OptionError, QueryError, UnreadableError
    from mqsniff.library.capture import Capture, read
    from mqsniff.library.livecapture import LiveCapture, live
    from mqsniff.library.queryresult import QueryResult
    from mqsniff.library.rows import (
        ConnectionsRow,
        ExchangesRow,
        MessagesRow,
        PartitionsRow,
        ProblemsRow,
        RecordsRow,
        TopicsRow,
    )
    from mqsniff.library.spokenbytes import decode_bytes
    from mqsniff.library.typedrows import Rows

_PLACES: Final = {
    "mqsniff.errors": ("CaptureError", "MqsniffError", "OptionError", "QueryError", "UnreadableError"),
    "mqsniff.library.capture": ("Capture", "read"),
    "mqsniff.library.livecapture": ("LiveCapture", "live"),
    "mqsniff.library.queryresult": ("QueryResult",),
    "mqsniff.library.rows": (
        *("ConnectionsRow", "ExchangesRow", "MessagesRow", "PartitionsRow", "ProblemsRow", "RecordsRow"),
        "TopicsRow",
    ),
    "mqsniff.library.spokenbytes": ("decode_bytes",),
    "mqsniff.library.typedrows": ("Rows",),
}
_PLACE_OF: Final = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Capture",
    "CaptureError",
    "ConnectionsRow",
    "ExchangesRow",
    "LiveCapture",
    "MessagesRow",
    "MqsniffError",
    "OptionError",
    "PartitionsRow",
    "ProblemsRow",
    "QueryError",
    "QueryResult",
    "RecordsRow",
    "Rows",
    "TopicsRow",
    "UnreadableError",
    "__version__",
    "decode_bytes",
    "live",
    "read",
]


def __getattr__(name: str) -> Any:
    """The library's names, imported when they are first used (PEP 562)."""
    if name not in _PLACE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
