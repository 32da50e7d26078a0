"""Which oracle vouches for which layout, as ``mqsniff protocols kafka`` tells it."""

from __future__ import annotations

from kafka_oracle_table import encoders

from dissectors.kafka import Kafka, specs
from dissectors.kafka.oracles import SELF, oracles_of, vouchers

TOO_OLD_OR_TOO_NEW = {
    "AlterPartition",
    "ControlledShutdown",
    "ExpireDelegationToken",
    "LeaderAndIsr",
    "RenewDelegationToken",
    "ShareAcknowledge",
    "ShareFetch",
    "ShareGroupDescribe",
    "ShareGroupHeartbeat",
    "StopReplica",
    "StreamsGroupDescribe",
    "StreamsGroupHeartbeat",
    "StreamsGroupTopologyDescriptionUpdate",
    "UnregisterController",
    "UpdateMetadata",
}
"""APIs with a version that no library here can write and no broker of the captures spoke: ended with 3.x, early access
of 4.0, or of an unreleased version."""


def test_the_table_says_what_the_encoders_can_write():
    for oracle, layouts in encoders().items():
        assert vouchers()[oracle] == layouts


def test_every_layout_without_an_oracle_has_a_reason():
    alone = {
        api.name
        for key, api in specs.apis().items()
        for kind in ("request", "response")
        for version in range(api.versions.first, api.versions.last + 1)
        if oracles_of(key, kind, version) == (SELF,)
    }
    assert alone == TOO_OLD_OR_TOO_NEW


def test_the_description_counts_layouts_by_oracle():
    coverage = {row["what"]: row["number"] for row in Kafka.describe()["coverage"]}
    assert coverage["layouts (API, version, direction)"] == 736
    assert coverage["held against kio"] == 604
    assert coverage["held against kafka-python"] == 524
    assert coverage["held against captures"] == 652
    assert coverage["held against our own encoder only"] == 48
