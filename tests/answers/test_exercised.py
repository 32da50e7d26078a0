"""What captures exercise of what dissectors describe."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqsniff.answers.exercised import ALL, Sightings, exercised
from mqsniff.decode.registry import load_dissectors

PCAPS = Path(__file__).parents[2] / "pcaps"


@pytest.fixture(scope="module")
def found():
    sightings = Sightings()
    sightings.read(PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap")
    sightings.read(PCAPS / "kafka" / "kafka-0.10.2.2-mixed-magic-mix.c.pcap")
    return {(each.protocol, each.what): each for each in exercised(sightings, load_dissectors())}


def test_commands_are_seen_or_not(found):
    nsq = found["nsq", "commands"]
    assert {"IDENTIFY", "SUB", "ERROR"} <= set(nsq.seen)
    assert all(count > 0 for count in nsq.seen.values())
    assert not {*nsq.seen} & {*nsq.unseen}
    assert any(name.startswith("unknown(") for name in nsq.other)


def test_commands_of_a_sister_protocol_are_not_those_of_the_other(found):
    assert "REGISTER" not in found["nsq", "commands"].unseen
    assert "REGISTER" in found["nsqlookupd", "commands"].unseen


def test_versions_are_counted_where_commands_have_them(found):
    versions = found["kafka", "versions"]
    assert "Produce v13" in versions.unseen
    assert any(name.startswith("Produce v") for name in versions.seen)
    assert ("nsq", "versions") not in found


def test_codes_are_names_without_success(found):
    assert "E_INVALID" in found["nsq", "codes"].seen
    kafka = found["kafka", "codes"]
    assert "OFFSET_OUT_OF_RANGE" in {*kafka.seen, *kafka.unseen}
    assert not {"NONE", "0", "-1"} & {*kafka.seen, *kafka.unseen}


def test_the_engine_lists_kinds_of_problems_protocols_and_formats(found):
    assert "format" in found[ALL, "kinds of problems"].seen
    assert "redis" in found[ALL, "protocols"].unseen
    assert found[ALL, "capture formats"].other == {"pcap": 2}


def test_names_that_differ_in_case_are_the_same():
    sightings = Sightings()
    sightings.read(PCAPS / "rocketmq" / "rocketmq-5.5.0-var-ipv6.pcapng")
    found = {(each.protocol, each.what): each for each in exercised(sightings, load_dissectors())}
    assert found["kafka", "commands"].seen == {}
    assert len(found["rocketmq", "commands"].seen) > 3


def test_an_unreadable_capture_is_remembered(tmp_path):
    (tmp_path / "x.pcap").write_text("no capture")
    sightings = Sightings()
    sightings.read(tmp_path / "x.pcap")
    assert list(sightings.unreadable) == [str(tmp_path / "x.pcap")]
