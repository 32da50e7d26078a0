"""Pulsar's responses with error codes that are part of normal operation.

Sources: ``ServerCnx.handleGetSchema`` and ``ClientCnx.sendGetRawSchema`` of Apache Pulsar.
"""

from __future__ import annotations

from typing import Final

from mqsniff.model import Ordinary, OrdinaryAnswers

ORDINARY: Final = OrdinaryAnswers(
    Ordinary(
        "GET_SCHEMA_RESPONSE",
        11,
        "TopicNotFound",
        'how a broker says that a topic has no schema: "Topic not found or no-schema"',
    ),
)
