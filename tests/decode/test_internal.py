"""Records of internal topics: decoded when asked for, by the dissector that knows the topic; others cost nothing."""

from __future__ import annotations

from typing import ClassVar

import pytest
from handmade import batch

from mqsniff.decode.internal import InternalTopics
from mqsniff.decode.registry import Registry, load_dissectors
from mqsniff.dissector import Dissector


class Diary(Dissector):
    """Knows the topic "diary", whose records are pairs; one of them is too much for it."""

    names = ("toy",)
    pending: ClassVar[list[str]] = []

    @classmethod
    def internal_topic(cls, topic):
        cls.pending.append(topic)
        return topic == "diary"

    @classmethod
    def decode_record(cls, topic, key, value):
        if value == b"boom":
            raise RuntimeError(value)
        return {"topic": topic, "key": key, "value": value}


@pytest.fixture
def known():
    Diary.pending.clear()
    return InternalTopics([Diary])


def test_records_of_an_internal_topic_get_their_content(known):
    given = batch((b"k", b"v"), (None, None), topic="diary")
    records = known.decoded("toy", given)
    assert given.columns == {}
    assert list(records.columns["decoded"]) == [
        {"topic": "diary", "key": b"k", "value": b"v"},
        {"topic": "diary", "key": None, "value": None},
    ]
    assert records.columns["decoded"][1:] == [{"topic": "diary", "key": None, "value": None}]


@pytest.mark.parametrize(
    ("protocol", "constant"),
    [("toy", {"topic": "orders"}), ("toy", {"topic": None}), ("other", {"topic": "diary"}), ("toy", {})],
)
def test_records_of_other_topics_stay_as_they_are(known, protocol, constant):
    records = batch((b"k", b"v"), **constant)
    assert known.decoded(protocol, records) is records


def test_control_records_have_a_format_of_their_own(known):
    records = batch((b"k", b"v"), topic="diary", control=True)
    assert known.decoded("toy", records) is records


def test_what_the_dissector_decoded_itself_stays(known):
    records = batch((b"k", b"v"), topic="diary")
    records.columns["decoded"] = ["mine"]
    assert known.decoded("toy", records).columns["decoded"] == ["mine"]


def test_each_record_may_have_a_topic_of_its_own(known):
    records = batch((b"1", b"v"), (b"2", b"v"), (b"3", b"v"))
    records.columns["topic"] = ["orders", "diary", None]
    records = known.decoded("toy", records)
    assert [one and one["key"] for one in records.columns["decoded"]] == [None, b"2", None]


def test_a_topic_is_asked_for_once(known):
    for _ in range(3):
        known.decoded("toy", batch((b"k", b"v"), topic="orders"))
    assert Diary.pending == ["orders"]


def test_what_a_dissector_raises_is_told_and_not_raised(known):
    records = known.decoded("toy", batch((b"k", b"boom"), (b"k", b"v"), topic="diary"))
    assert [bool(one) for one in records.columns["decoded"]] == [False, True]
    assert known.faults == ["RuntimeError in the records of an internal topic of toy"]


@pytest.mark.parametrize(
    ("protocol", "topic", "expected"),
    [
        ("kafka", "__consumer_offsets", True),
        ("kafka", "__transaction_state", True),
        ("kafka", "mm2-offset-syncs.east.internal", True),
        ("kafka", "orders", False),
        ("rocketmq", "RMQ_SYS_TRACE_TOPIC", True),
        ("rocketmq", "__consumer_offsets", False),
        ("pulsar", "persistent://public/functions/assignments", False),
        ("nsq", "orders", False),
    ],
)
def test_protocols_know_their_internal_topics(protocol, topic, expected):
    assert InternalTopics(Registry(load_dissectors()).dissectors).knows(protocol, topic) is expected


def test_what_is_asked_of_a_dissector_is_the_bytes_of_a_record_at_their_place(known):
    given = batch((None, b"first"), (b"", b""), (b"k", None), topic="diary")
    decoded = known.decoded("toy", given).columns["decoded"]
    told = [
        {"topic": "diary", "key": key, "value": value} for key, value in ((None, b"first"), (b"", b""), (b"k", None))
    ]
    assert (len(decoded), list(decoded)) == (3, told)
    assert (decoded[-1], decoded[::2], decoded[5:]) == (told[2], told[::2], [])


def test_records_without_keys_or_values_are_decoded_from_what_is_there(known):
    given = batch((b"k", b"v"), topic="diary")
    given.keys = None
    assert list(known.decoded("toy", given).columns["decoded"]) == [{"topic": "diary", "key": None, "value": b"v"}]


def test_columns_of_a_batch_stay_beside_the_decoded_ones(known):
    given = batch((b"k", b"v"), topic="diary")
    given.columns["offset"] = [7]
    shown = known.decoded("toy", given)
    assert (list(shown.columns), given.columns) == (["offset", "decoded"], {"offset": [7]})
    assert (shown.data, shown.count, shown.keys) == (given.data, given.count, given.keys)


def test_topics_of_their_own_that_nobody_knows_leave_a_batch_as_it_is(known):
    records = batch((b"1", b"v"), (b"2", b"v"), topic="diary")
    records.columns["topic"] = ["orders", None]
    assert known.decoded("toy", records) is records


def test_only_the_first_fault_is_kept_until_its_owner_takes_it(known):
    records = known.decoded("toy", batch((b"k", b"boom"), (b"k", b"boom"), topic="diary"))
    assert list(records.columns["decoded"]) == [None, None]
    assert len(known.faults) == 1
    known.faults.clear()
    assert records.columns["decoded"][0] is None
    assert len(known.faults) == 1
