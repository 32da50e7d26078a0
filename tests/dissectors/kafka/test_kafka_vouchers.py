"""Which oracle vouches for which layout, as ``mqsniff protocols kafka`` tells it."""

from __future__ import annotations

from typing import Any

from kafka_oracle_table import REASONS, encoders

from mqsniff_kafka import Kafka, description, specs
from mqsniff_kafka.oracles import SELF, oracles_of, reasons, vouchers


def every_place() -> set[tuple[int, specs.DefinitionKind, int]]:
    kinds: tuple[specs.DefinitionKind, ...] = ("request", "response")
    return {
        (key, kind, version)
        for key, api in specs.apis().items()
        for kind in kinds
        for version in range(api.versions.first, api.versions.last + 1)
    }


def tables() -> dict[str, Any]:
    return dict(Kafka.describe())


def test_the_file_says_what_the_encoders_can_write() -> None:
    written = encoders()
    assert [*vouchers()] == [*written, "captures"]
    for oracle, layouts in written.items():
        assert vouchers()[oracle] == layouts, oracle


def test_what_only_our_own_encoder_wrote_has_a_reason() -> None:
    alone = {place for place in every_place() if oracles_of(*place) == (SELF,)}
    assert alone == set(reasons()) == set().union(*REASONS.values())


def test_every_layout_has_an_oracle() -> None:
    assert not reasons()


def test_the_description_counts_layouts_by_oracle() -> None:
    coverage = {row["what"]: row["number"] for row in tables()["coverage"]}
    assert coverage["layouts (API, version, direction)"] == 736
    assert coverage["of these, compared with other encoders"] == "736/736"
    counts = {row["oracle"]: row["layouts"] for row in tables()["oracles"]}
    assert [*counts] == [*vouchers(), SELF]
    assert counts["Kafka 4.4.0"] == 618
    assert counts["Kafka 3.9.2"] == 645
    assert counts["Kafka 2.8.2"] == 488
    assert counts["Kafka 1.1.1"] == 176
    assert counts["kio"] == 604
    assert counts["kafka-python"] == 524
    assert counts["captures"] == 652
    assert counts[SELF] == 0


def test_layouts_without_an_oracle_are_described_with_their_reason() -> None:
    assert "without_oracle" not in tables()
    assert description.without_oracle({(3, "request", 13): "too new", (0, "response", 2): "too old"}) == [
        {"api": "Produce", "kind": "response", "version": 2, "reason": "too old"},
        {"api": "Metadata", "kind": "request", "version": 13, "reason": "too new"},
    ]
