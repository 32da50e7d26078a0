"""RocketMQ's responses with error codes that are part of normal operation.

Left out, since a fault may cause them too: POLLING_FULL (too many polls wait), PULL_OFFSET_MOVED
(messages are gone, or the offset is wrong), NO_MESSAGE (an ACK that was refused), TOPIC_NOT_EXIST of other topics,
SUBSCRIPTION_NOT_EXIST and SUBSCRIPTION_NOT_LATEST, SYSTEM_BUSY, GO_AWAY.

Sources: PullMessageProcessor, PopMessageProcessor, PeekMessageProcessor, NotificationProcessor,
ConsumerManageProcessor, QueryMessageProcessor, and MQClientInstance.updateTopicRouteInfoFromNameServer of
apache/rocketmq.
"""

from __future__ import annotations

from typing import Final

from mqsniff.model import Ordinary, OrdinaryAnswers

_NONE: Final = "there is no message yet"
_AGAIN: Final = "the messages that were there are not for this subscription: the client continues after them"
_OVER: Final = "the poll's time is over and no message came"

ORDINARY: Final = OrdinaryAnswers(
    Ordinary("PULL_MESSAGE", 19, "PULL_NOT_FOUND", _NONE),
    Ordinary("PULL_MESSAGE", 20, "PULL_RETRY_IMMEDIATELY", _AGAIN),
    Ordinary("LITE_PULL_MESSAGE", 19, "PULL_NOT_FOUND", _NONE),
    Ordinary("LITE_PULL_MESSAGE", 20, "PULL_RETRY_IMMEDIATELY", _AGAIN),
    Ordinary("POP_MESSAGE", 19, "PULL_NOT_FOUND", _NONE),
    Ordinary("POP_MESSAGE", 210, "POLLING_TIMEOUT", _OVER),
    Ordinary("POP_LITE_MESSAGE", 19, "PULL_NOT_FOUND", _NONE),
    Ordinary("POP_LITE_MESSAGE", 210, "POLLING_TIMEOUT", _OVER),
    Ordinary("PEEK_MESSAGE", 19, "PULL_NOT_FOUND", _NONE),
    Ordinary("NOTIFICATION", 19, "PULL_NOT_FOUND", _NONE),
    Ordinary("NOTIFICATION", 210, "POLLING_TIMEOUT", _OVER),
    Ordinary("QUERY_CONSUMER_OFFSET", 22, "QUERY_NOT_FOUND", "the group has no offset yet: its first start"),
    Ordinary("QUERY_MESSAGE", 22, "QUERY_NOT_FOUND", "none found; every broker is asked, one may have it"),
    Ordinary(
        "GET_ROUTEINFO_BY_TOPIC",
        17,
        "TOPIC_NOT_EXIST",
        "topics that are made when they are first needed, or that many clusters do without",
        "topic",
        ("%RETRY%*", "TBW102"),
    ),
)
