"""Whose group a message is of: only a group that it names, or that its request named."""

from __future__ import annotations

from typing import Any

import kafkacraft as craft
import pytest
from kafkacraft import FIND_COORDINATOR, HEARTBEAT, METADATA, fetch, fetched, request, response

from mqsniff.testing.conversations import Say, chunks, client, server
from mqsniff.testing.driver import Driver
from mqsniff_kafka import Kafka

BEATS = [
    client(request(HEARTBEAT, 4, 1, {"group_id": "g"})),
    server(response(HEARTBEAT, 4, 1)),
]
GROUP, TRANSACTION, SHARE = 0, 1, 2


def driven(*said: Say) -> Driver:
    return Driver(Kafka).run(chunks(said))


def groups(*said: Say) -> list[str | None]:
    return [message.group for message in driven(*said).messages]


def finds(version: int, kind: int, *keys: str) -> list[Say]:
    named: dict[str, Any] = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
    return [
        client(request(FIND_COORDINATOR, version, 2, {"key_type": kind} | named)),
        server(response(FIND_COORDINATOR, version, 2)),
    ]


@pytest.mark.parametrize("version", [1, 3, 4])
def test_the_coordinator_of_a_transaction_is_looked_for_by_no_group(version: int) -> None:
    assert groups(*BEATS, *finds(version, TRANSACTION, "tx")) == ["g", "g", None, None]


@pytest.mark.parametrize(
    ("kind", "keys", "group"),
    [
        (GROUP, ["h"], "h"),
        (GROUP, ["h", "i"], None),
        (SHARE, ["h:2:AAAAAAAAQACAAAAAAAAAAw:0"], "h:2"),
        (SHARE, ["h:AAAAAAAAQACAAAAAAAAAAw:0", "h:AAAAAAAAQACAAAAAAAAAAw:1"], "h"),
        (SHARE, ["h:AAAAAAAAQACAAAAAAAAAAw:0", "i:AAAAAAAAQACAAAAAAAAAAw:0"], None),
    ],
)
def test_the_coordinator_of_one_group_is_looked_for_by_its_name(kind: int, keys: list[str], group: str | None) -> None:
    assert groups(*BEATS, *finds(6, kind, *keys)) == ["g", "g", group, group]


def test_what_names_no_group_has_none_on_the_connection_of_a_member_either() -> None:
    said = [
        client(request(METADATA, 12, 2), fetch(3, topics=craft.ASKED)),
        server(response(METADATA, 12, 2), fetched(3, craft.record_batch(b"v", base=5))),
    ]
    assert groups(*BEATS, *said) == ["g", "g", None, None, None, None]


def test_a_connection_has_a_group_and_a_client_while_they_are_the_only_ones() -> None:
    driver = driven(*BEATS, *finds(4, TRANSACTION, "tx"))
    assert (driver.dissector.identity.group, driver.dissector.identity.client_id) == ("g", "craft")
    other = client(request(HEARTBEAT, 4, 3, {"group_id": "h"}, "other"))
    driver = driven(*BEATS, other, *BEATS)
    assert (driver.dissector.identity.group, driver.dissector.identity.client_id) == (None, None)
    assert [message.client_id for message in driver.messages] == ["craft", "craft", "other", "craft", "craft"]
