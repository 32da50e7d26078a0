"""What the filters came to, in one line."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from handmade import START, connection, noticed, pub

from mqsniff.filters.counting import CountingFilter, described
from mqsniff.filters.itemfilter import Filters
from mqsniff.filters.recordfilter import OffsetRange
from mqsniff.model import MessageItem


def sentence(messages, **options):
    chosen = CountingFilter(Filters(**options))
    out = list(chosen.of([*(MessageItem(connection(), message) for message in messages), None, noticed()]))
    assert None in out
    return chosen.sentence()


def topics(*names):
    return [pub(topics=(name,)) for name in names]


@pytest.mark.parametrize(
    ("messages", "options", "told"),
    [
        (topics("orders", "payments"), {"topics": ("orders",)}, "1 of 2 messages matched --topic orders"),
        (
            topics("orders", "payments", "payments"),
            {"topics": ("ordrs",)},
            "0 of 3 messages matched --topic ordrs; topics seen: orders, payments",
        ),
        (topics("a"), {"names": ("MPUB",)}, "0 of 1 messages matched --name MPUB; names seen: PUB"),
        (topics("a"), {"groups": ("g",)}, "0 of 1 messages matched --group g; no group was seen"),
        (
            topics("a"),
            {"clients": ("127.0.0.2",)},
            "0 of 1 messages matched --client 127.0.0.2; clients seen: 127.0.0.1, 127.0.0.1:57938",
        ),
        (topics("a"), {"protocols": ("kafka",)}, "0 of 1 messages matched --protocol kafka; protocols seen: nsq"),
        (
            topics("a"),
            {"topics": ("a",), "keys": (b"k",)},
            "0 of 1 messages matched --topic a --key k; none met all of these",
        ),
        (topics("a"), {"keys": (b"k",)}, "0 of 1 messages matched --key k"),
        ([], {"topics": ("a",)}, "0 of 0 messages matched --topic a"),
        (
            topics("a"),
            {"to_ns": START},
            (
                "0 of 1 messages matched --to 2026-11-21T09:38:50.702681250Z; times seen: "
                "2026-11-21T09:38:50.702681250Z to 2026-11-21T09:38:50.702681250Z"
            ),
        ),
        (
            topics(*(f"t{number}" for number in range(9))),
            {"topics": ("t77",)},
            "0 of 9 messages matched --topic t77; topics seen: t7, t0, t1, t2, t3 and 4 more",
        ),
        (
            topics("\x1b[2J"),
            {"topics": ("a\x1b",)},
            "0 of 1 messages matched --topic 'a\\x1b'; topics seen: \\x1b[2J",
        ),
        (
            topics("persistent://public/default/orders"),
            {"topics": ("orders",), "names": ("SEND",)},
            "0 of 1 messages matched --name SEND --topic orders; names seen: PUB",
        ),
    ],
)
def test_an_empty_result_says_what_there_is_instead(messages, options, told):
    assert sentence(messages, **options) == told


def test_topics_that_had_no_name_yet_are_counted():
    messages = [*topics("orders"), pub(topics=(), topic_ids=("AAAAAAAAAAAAAAAAAAAAAQ",))]
    told = "1 of 2 messages matched --topic orders; 1 name topics by ids whose names were not known yet"
    assert sentence(messages, topics=("orders",)) == told
    assert sentence(messages, protocols=("nsq",)) == "2 of 2 messages matched --protocol nsq"


def test_large_numbers_can_be_read():
    assert sentence(topics("a") * 1204, topics=("b",)).startswith("0 of 1,204 messages matched")


def test_filters_are_described_as_they_were_written():
    filters = Filters(
        protocols=("kafka",),
        names=("Fetch", "Produce"),
        topics=("orders*",),
        groups=("g",),
        partitions=(3,),
        offsets=(OffsetRange(5, 5), OffsetRange(7, 9)),
        keys=(b"\xffk",),
        clients=("c",),
        hosts=(ip_network("10.0.0.7"), ip_network("10.0.0.0/8")),
        ports=(9092,),
        connections=("ab",),
        errors=True,
        from_ns=0,
    )
    assert described(filters) == (
        "--protocol kafka --name Fetch --name Produce --topic 'orders*' --group g --partition 3 --offset 5 "
        "--offset 7-9 --key '\\xffk' --client c --host 10.0.0.7 --host 10.0.0.0/8 --port 9092 --connection ab --errors "
        "--from 1970-01-01T00:00:00.000000000Z"
    )
