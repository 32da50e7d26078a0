"""Kafka's responses with error codes that are part of normal operation.

Left out, since a fault may cause them too: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER and NOT_COORDINATOR (a cluster that is not ready, or changes hands),
FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH (a session cache that is too small, or a client that lost
count), REBALANCE_IN_PROGRESS of OffsetCommit (the commit did not happen), CONCURRENT_TRANSACTIONS of InitProducerId (a
producer died with its transaction open), DUPLICATE_SEQUENCE_NUMBER (an answer was lost).

Sources: KIP-35 and KIP-511 (ApiVersions), KIP-394 (JoinGroup), KIP-98 and TransactionManager (transactions), KIP-714
(PushTelemetry), GroupCoordinator and ConsumerCoordinator of Apache Kafka.
"""

from __future__ import annotations

from typing import Final

from mqsniff.model import Ordinary, OrdinaryAnswers

_REJOIN: Final = "how the coordinator tells members that a rebalance began and that they have to join again"
_PREVIOUS: Final = "the markers of the producer's transaction before are still being written: it tries again"

ORDINARY: Final = OrdinaryAnswers(
    Ordinary(
        "ApiVersions",
        35,
        "UNSUPPORTED_VERSION",
        "the client asks in its newest version first; the answer, in version 0, tells what the broker has",
    ),
    Ordinary(
        "JoinGroup",
        79,
        "MEMBER_ID_REQUIRED",
        "the first JoinGroup of a member: the answer gives it the id with which it joins",
        "member_id",
        ("",),
    ),
    Ordinary("Heartbeat", 27, "REBALANCE_IN_PROGRESS", _REJOIN),
    Ordinary("SyncGroup", 27, "REBALANCE_IN_PROGRESS", _REJOIN),
    Ordinary("AddPartitionsToTxn", 51, "CONCURRENT_TRANSACTIONS", _PREVIOUS),
    Ordinary("AddOffsetsToTxn", 51, "CONCURRENT_TRANSACTIONS", _PREVIOUS),
    Ordinary(
        "PushTelemetry",
        117,
        "UNKNOWN_SUBSCRIPTION_ID",
        "how the broker tells clients that what they have to push has changed",
    ),
)
