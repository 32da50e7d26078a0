"""One capture alone: the rows of ``decode`` and of batch jobs with 1 and 7 partitions, all columns of all tables.

``same_rows`` does the same for folders of captures.
"""

from __future__ import annotations

from pathlib import Path

import kafkacraft as kafka
import pytest
import same_rows
from batchrows import PCAPS
from kafkacraft import LATE, TOPIC_ID
from same_rows import differences
from tinycapture import conversation, pcap

CHOSEN = (
    "kafka/kafka-0.10.2.2-franz-go-sweep-swc010.pcapng",
    "kafka/kafka-0.10.2.2-mixed-magic-mix.c.pcap",
    "kafka/kafka-2.8.2-java-1.1.1-cross-xj.pcapng",
    "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng",
    "kafka/kafka-3.9.1-portreuse-rua.pcap",
    "kafka/kafka-4.4-envelope-principal.pcap",
    "kafka/kafka-4.4.0-java-4.4.0-delegation-tokens-toka.pcapng",
    "kafka/kafka-4.4.0-midstream-java-4.4.0-mje.pcap",
    "nsq/nsq-1.3.0-var-reorder-deflate.pcap",
    "nsq/nsqlookupd-1.3.0-restart.pcap",
    "pulsar/pulsar-4.2.4-py-partitioned-a.pcap",
    "rocketmq/rocketmq-5.5.0-b-bserrocket-pop-raw.pcap",
)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_capture_gives_the_same_rows_whoever_decodes_it(tmp_path: Path, name: str) -> None:
    assert list(differences(PCAPS / name, tmp_path, split_size=20_000)) == []


def test_names_of_topics_are_the_same_whoever_was_taught_them_and_when(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    dialogues = (kafka.metadata("orders", TOPIC_ID), kafka.fetches_by_id(LATE, TOPIC_ID), kafka.metadata("bills", LATE))
    path.write_bytes(
        pcap(
            packet
            for number, dialogue in enumerate(dialogues)
            for packet in conversation(dialogue, client=40_000 + number, server=9092)
        )
    )
    assert list(differences(path, tmp_path / "out")) == []


def test_a_row_that_differs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = PCAPS / "nsq" / "nsqlookupd-1.3.0-restart.pcap"
    real = same_rows.decoded

    def another(*given: object) -> dict[str, list[str]]:
        tables = real(*given)
        return tables | {"messages": [row.replace("'IDENTIFY'", "'X'") for row in tables["messages"]]}

    monkeypatch.setattr(same_rows, "decoded", another)
    found = list(differences(capture, tmp_path))
    assert [(each.partitions, each.table) for each in found] == [(1, "messages"), (7, "messages")]
    assert all("'X'" in each.ours and "'IDENTIFY'" in each.theirs for each in found)
