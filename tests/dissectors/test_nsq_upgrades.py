"""Layers that the answer to IDENTIFY switches on: where they begin, what follows, and what if the answer is lost."""

from __future__ import annotations

import nsqcraft
import pytest
from nsqcraft import (
    MAGIC,
    OK,
    consuming,
    deflate,
    error,
    identify,
    inside,
    negotiated,
    opening,
    publishing,
    response,
    snappy,
)

from mqsniff.model import Chunk, Gap, Mark, Side, Upgrade
from mqsniff.testing.conversations import Say, chunks, client, server, streams
from mqsniff.testing.driver import Driver
from mqsniff_nsq import Nsq

LAYERS = {"snappy": snappy, "deflate": deflate}
TALK = [*publishing(), *consuming()]


def names(driver: Driver, side: Side | None = None) -> list[str]:
    return [m.name for m in driver.messages if side is None or m.frame.side is side]


def upgrades(driver: Driver) -> list[tuple[str, dict[Side, int]]]:
    return [(event.to, event.at) for _, event in driver.told if isinstance(event, Upgrade)]


def statuses(driver: Driver, command: str) -> list[str | None]:
    pending = [a for m in driver.messages for a in m.pending if a.link == "answer" and a.context.name == command]
    return [a.status if a.answer is None else f"{a.answer.frame.offset}-{a.last_answer.frame.offset}" for a in pending]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_begins_behind_identify_and_behind_its_answer(layer):
    dialogue = opening(**{layer: True})
    first = streams(dialogue)
    driver = Driver(Nsq).run(chunks([*dialogue, *inside(LAYERS[layer], [server(OK), *TALK])]))
    assert upgrades(driver) == [(layer, {Side.CLIENT: len(first[0]), Side.SERVER: len(first[1])})]
    plain = Driver(Nsq).run(chunks([*opening(), server(OK), *TALK]))
    assert names(driver) == names(plain)
    assert driver.problems == []


@pytest.mark.parametrize("layer", LAYERS)
def test_the_extra_ok_is_another_answer_to_identify(layer):
    driver = Driver(Nsq).run(chunks([*opening(**{layer: True}), *inside(LAYERS[layer], [server(OK), *TALK])]))
    json_at = 0
    ok_at = len(streams(opening(**{layer: True}))[1])
    assert statuses(driver, "IDENTIFY") == [f"{json_at}-{ok_at}"]
    assert "unanswered" not in statuses(driver, "PUB")


def test_what_was_asked_for_and_not_granted_changes_nothing():
    dialogue = [client(MAGIC), client(identify(snappy=True, deflate=True)), server(negotiated()), *TALK]
    assert upgrades(Driver(Nsq).run(chunks(dialogue))) == []


def test_what_was_granted_without_being_asked_for_changes_nothing():
    dialogue = [client(MAGIC), client(identify()), server(negotiated(snappy=True)), *TALK]
    driver = Driver(Nsq).run(chunks(dialogue))
    assert upgrades(driver) == []
    assert driver.skipped == []


def test_a_plain_ok_to_identify_switches_nothing_on():
    pending = identify(snappy=True, feature_negotiation=False)
    driver = Driver(Nsq).run(chunks([client(MAGIC), client(pending), server(OK), *TALK]))
    assert upgrades(driver) == []
    assert statuses(driver, "IDENTIFY") == ["0-0"]


def test_a_client_that_runs_ahead_is_held_until_the_server_has_answered():
    head = [client(MAGIC), client(identify(snappy=True))]
    (begun,) = inside(snappy, [client(nsqcraft.pub("t", b"x" * 40))])
    answer = [server(negotiated(snappy=True)), *inside(snappy, [server(OK, OK)])]
    driver = Driver(Nsq)
    assert names(driver.run(chunks([*head, begun, *answer]))) == [
        "MAGIC",
        "IDENTIFY",
        "RESPONSE",
        "PUB",
        "RESPONSE",
        "RESPONSE",
    ]


def test_a_refused_identify_lets_the_client_go_on():
    refusal = error("E_IDENTIFY_FAILED cannot enable both deflate and snappy compression")
    dialogue = [
        client(MAGIC),
        client(identify(snappy=True, deflate=True)),
        client(nsqcraft.line("NOP")),
        server(refusal),
    ]
    driver = Driver(Nsq).run(chunks(dialogue))
    assert sorted(names(driver)) == ["ERROR", "IDENTIFY", "MAGIC", "NOP"]
    assert statuses(driver, "IDENTIFY") == ["0-0"]


# ---- TLS


class Plaintext:
    """Feeds what a decrypting layer would give: plain bytes, going on at the offsets of the layer below."""

    def __init__(self) -> None:
        self.driver = Driver(Nsq)
        self.at = [0, 0]
        self.packet = 0
        self.held: list[Chunk | Gap] = []

    def say(self, *says: Say) -> list[Upgrade]:
        told = len(self.driver.told)
        for say in says:
            self.packet += 1
            mark = Mark(self.at[say.side], self.packet, self.packet, self.packet)
            events = self.driver.dissector.feed(Chunk(say.side, self.at[say.side], say.data, [mark]))
            for event in events:
                self.driver.told.append((self.driver.dissector.now, event))
                if isinstance(event, Upgrade) and Side.CLIENT in event.at:
                    self.held += self.driver.dissector.hand_back(Side.CLIENT, event.at[Side.CLIENT])
            self.at[say.side] += len(say.data)
        return [event for _, event in self.driver.told[told:] if isinstance(event, Upgrade)]


@pytest.mark.parametrize("layer", LAYERS)
def test_compression_begins_behind_the_ok_inside_tls(layer):
    fields = {"tls_v1": True, layer: True}
    plain = Plaintext()
    (tls,) = plain.say(client(MAGIC), client(identify(**fields)), server(negotiated(**fields)))
    assert (tls.to, tls.at) == ("tls", {Side.CLIENT: plain.at[0], Side.SERVER: plain.at[1]})
    (compression,) = plain.say(server(OK))
    assert (compression.to, compression.at) == (layer, {Side.CLIENT: plain.at[0], Side.SERVER: plain.at[1]})
    assert plain.say(server(OK), *TALK) == []
    assert plain.driver.problems == []
    assert statuses(plain.driver, "IDENTIFY") == [f"0-{len(negotiated(**fields)) + 10}"]


def test_inside_tls_a_client_waits_for_the_ok_too():
    fields = {"tls_v1": True, "snappy": True}
    plain = Plaintext()
    plain.say(client(MAGIC), client(identify(**fields)), server(negotiated(**fields)))
    plain.say(client(b"\xff\x06\x00\x00sNaPpY"))
    (compression,) = plain.say(server(OK))
    assert compression.to == "snappy"
    assert [event.data for event in plain.held if isinstance(event, Chunk)] == [b"\xff\x06\x00\x00sNaPpY"]


def test_without_compression_tls_is_followed_by_one_ok():
    plain = Plaintext()
    plain.say(client(MAGIC), client(identify(tls_v1=True)), server(negotiated(tls_v1=True)))
    assert plain.say(server(OK), *TALK) == []
    assert plain.driver.problems == []


def test_a_handshake_that_fails_is_told_in_clear_text():
    alert = b"\x15\x03\x01\x00\x02\x02\x28"
    refusal = error("E_IDENTIFY_FAILED IDENTIFY failed tls: first record does not look like a TLS handshake")
    dialogue = [*opening(tls_v1=True), client(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"), server(alert + refusal)]
    driver = Driver(Nsq).run(chunks(dialogue))
    assert names(driver) == ["MAGIC", "IDENTIFY", "RESPONSE", "ERROR"]
    (pending,) = [a for m in driver.messages for a in m.pending if a.context.name == "IDENTIFY"]
    assert (pending.status, pending.last_answer.error_name) == ("error", "E_IDENTIFY_FAILED")


# ---- one side only, and answers that are lost


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("side", Side)
def test_one_side_alone_is_followed_into_the_layer(layer, side):
    dialogue = [*opening(**{layer: True}), *inside(LAYERS[layer], [server(OK), *TALK])]
    driver = Driver(Nsq).run(chunks([say for say in dialogue if say.side is side]))
    whole = Driver(Nsq).run(chunks(dialogue))
    assert names(driver) == names(whole, side)


def test_a_client_alone_that_was_granted_nothing_is_followed_in_clear():
    dialogue = [say for say in [*opening(), *TALK] if say.side is Side.CLIENT]
    pending = [dialogue[0], client(identify(snappy=True, deflate=True, tls_v1=True)), *dialogue[2:]]
    driver = Driver(Nsq).run(chunks(pending))
    assert names(driver) == names(Driver(Nsq).run(chunks([*opening(), *TALK])), Side.CLIENT)


def test_a_client_alone_that_goes_on_in_tls_is_named_so():
    hello = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"
    driver = Driver(Nsq).run(chunks([client(MAGIC), client(identify(tls_v1=True)), client(hello)]))
    assert upgrades(driver) == [("tls", {Side.CLIENT: 4 + len(identify(tls_v1=True))})]


@pytest.mark.parametrize("hole", [(0, 1), (20, 30), (140, 147), (0, 200)])
def test_where_the_answer_is_lost_the_next_bytes_tell_the_layer(hole):
    dialogue = [*opening(snappy=True), *inside(snappy, [server(OK), *TALK])]
    stop = min(hole[1], len(negotiated(snappy=True)))
    driver = Driver(Nsq).run(chunks(dialogue, holes=([], [(hole[0], stop)])))
    whole = Driver(Nsq).run(chunks(dialogue))
    assert names(driver, Side.CLIENT) == names(whole, Side.CLIENT)


def test_where_the_answer_cannot_be_read_both_sides_are_followed():
    dialogue = [*opening(snappy=True), *inside(snappy, [server(OK), *TALK])]
    driver = Driver(Nsq).run(chunks(dialogue, holes=([], [(20, 30)])))
    assert names(driver) == names(Driver(Nsq).run(chunks(dialogue)))


def test_where_identify_is_lost_the_answer_tells_for_both_sides():
    dialogue = [*opening(snappy=True), *inside(snappy, [server(OK), *TALK])]
    pending = len(streams(opening(snappy=True))[0])
    driver = Driver(Nsq).run(chunks(dialogue, holes=([(4, pending)], [])))
    whole = Driver(Nsq).run(chunks(dialogue))
    assert names(driver, Side.SERVER) == names(whole, Side.SERVER)
    assert names(driver, Side.CLIENT) == [name for name in names(whole, Side.CLIENT) if name != "IDENTIFY"]


def test_an_answer_that_was_seen_before_its_question_tells_the_client_later():
    fields = {"snappy": True}
    plain = Plaintext()
    plain.say(client(MAGIC))
    (early,) = plain.say(server(negotiated(**fields)))
    assert early.at == {Side.SERVER: plain.at[1]}
    (late,) = plain.say(client(identify(**fields)))
    assert (late.to, late.at) == ("snappy", {Side.CLIENT: plain.at[0]})


def test_a_deflate_stream_with_a_hole_keeps_what_came_before():
    dialogue = [*opening(deflate=True), *inside(deflate, [server(OK), *TALK])]
    at = len(streams(dialogue[:9])[0])
    driver = Driver(Nsq).run(chunks(dialogue, holes=([(at, at + 5)], [])))
    whole = Driver(Nsq).run(chunks(dialogue))
    assert names(driver, Side.SERVER) == names(whole, Side.SERVER)
    seen = names(driver, Side.CLIENT)
    assert seen == names(whole, Side.CLIENT)[: len(seen)]
    assert len(seen) >= 4


def test_the_answer_to_auth_switches_nothing_on():
    told = response({"identity": "bob", "identity_url": "", "permission_count": 1, "snappy": True})
    driver = Driver(Nsq).run(chunks([*opening(), client(nsqcraft.auth(b"s")), server(told), *TALK]))
    assert upgrades(driver) == []
    assert driver.dissector.identity.user == "bob"
