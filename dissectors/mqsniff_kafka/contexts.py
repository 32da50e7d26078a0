"""What responses need of their requests, and the input of rules for single APIs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mqsniff.model import Message, Pending
from mqsniff_kafka.bodies import Version
from mqsniff_kafka.fetching import Fetching
from mqsniff_kafka.formats import NO_CONTEXT, FormatContext
from mqsniff_kafka.records.data import Produced

PROTOCOL: Final = "kafka"

PRODUCE: Final = 0
ENVELOPE: Final = 58
FETCH_SNAPSHOT: Final = 59


@dataclass(slots=True)
class RequestContext:
    """What a response needs of its request."""

    version: Version
    fetching: Fetching | None = None
    produced: tuple[Produced, ...] = ()
    group: FormatContext = NO_CONTEXT
    """What is known of the group that it is about."""
    losses: int = 0
    """How often responses had been lost when it was sent (``pairing``)."""
    inner: Version | None = None
    """The request that an envelope forwards."""


@dataclass(slots=True)
class ResponseContext:
    """A response being read, and what it answers."""

    message: Message
    body: dict[str, Any]
    pending: Pending
    request: RequestContext


RequestRule: TypeAlias = Callable[[Message, dict[str, Any], RequestContext], None]
ResponseRule: TypeAlias = Callable[[ResponseContext], None]
