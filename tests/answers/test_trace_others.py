"""Traces of groups, transactions and connections."""

from __future__ import annotations

import json
from pathlib import Path

import kafkacraft
import pytest
from click.testing import CliRunner
from kafkacraft import JOIN_GROUP, SYNC_GROUP, request, response

from mqsniff.cli import main
from mqsniff.testing.conversations import client, segments, server, write_pcap

PCAPS = Path(__file__).parents[2] / "pcaps"
NACK_DLQ = PCAPS / "pulsar" / "pulsar-4.2.4-py-nack-dlq-a.pcap"
GO_TXN = PCAPS / "pulsar" / "pulsar-4.2.4-go-txn-a.pcap"
HALF = PCAPS / "rocketmq" / "rocketmq-5.5.0-cli5.5.0-e-serrocket-bserrocket-transaction.pcapng"
RAW_LIFECYCLE = PCAPS / "nsq" / "nsq-1.3.0-raw-lifecycle.pcap"
RAW_ERRORS = PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap"
MIDSTREAM = PCAPS / "nsq" / "nsq-1.3.0-midstream-plain.pcap"
TXN_ID = "shop-1"


def traced(*arguments):
    done = CliRunner().invoke(main, ["trace", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["traces"]


def written(path, *dialogue):
    write_pcap(path, segments(dialogue), ports=(40_000, 9092))
    return path


def told(trace):
    return [step["what"] for step in trace["steps"]]


# ---- groups


def join(correlation, member):
    body = {"group_id": "g", "protocol_type": "consumer", "session_timeout_ms": 9000, "rebalance_timeout_ms": 60_000}
    protocols = [{"name": "range", "metadata": kafkacraft.subscription("orders")}]
    return request(JOIN_GROUP, 9, correlation, body | {"member_id": member, "protocols": protocols})


def joined(correlation, member, leader):
    body = {"generation_id": 3, "protocol_type": "consumer", "protocol_name": "range", "leader": leader}
    return response(JOIN_GROUP, 9, correlation, body | {"member_id": member})


def test_a_rebalance_tells_who_waited_for_whom(tmp_path):
    names = [client(request(3, 12, 1, {"topics": [{"name": "orders"}]}))]
    names += [server(response(3, 12, 1, {"brokers": kafkacraft.BROKERS, "topics": kafkacraft.NAMED}))]
    dialogue = [
        *names,
        client(join(2, "early")),
        client(join(3, "late")),
        server(joined(2, "early", "early")),
        server(joined(3, "late", "early")),
    ]
    (trace,) = traced(written(tmp_path / "rebalance.pcap", *dialogue), "--group", "g")
    assert told(trace) == ["asks to join", "asks to join", "joined as leader", "joined"]
    assert [step.get("generation") for step in trace["steps"]] == [None, None, 3, 3]
    (wait,) = trace["waits"]
    assert (wait["what"], wait["to_step"]) == ("waited for late, the last to ask", 2)
    assert wait["wait_ns"] > 0


def test_nobody_waits_for_a_member_that_asks_later(tmp_path):
    dialogue = [client(join(2, "first")), server(joined(2, "first", "first"))]
    dialogue += [client(join(3, "second")), server(joined(3, "second", "first"))]
    (trace,) = traced(written(tmp_path / "later.pcap", *dialogue), "--group", "g")
    assert told(trace) == ["asks to join", "joined as leader", "asks to join", "joined"]
    assert trace["waits"] == []


def test_what_is_asked_for_again_in_one_command_is_one_step():
    (trace,) = traced(NACK_DLQ, "--group", "billing")
    again = [step for step in trace["steps"] if step["kind"] == "nacked"]
    assert [step["details"]["named"] for step in again] == ["92:0:-1, 92:1:-1, 92:2:-1"] * 2
    assert trace["about"] | {"delivered": 9, "acknowledged": 3} == trace["about"]


def test_a_member_of_a_group_joins_gets_its_assignment_and_leaves(tmp_path):
    (trace,) = traced(written(tmp_path / "member.pcap", *kafkacraft.consumer()), "--group", "g")
    assert told(trace) == [
        "asks to join",
        "could not join",
        "asks to join",
        "joined",
        "asks for its assignment",
        "got its assignment",
        "leaves",
    ]
    assert trace["steps"][1]["error"] == "MEMBER_ID_REQUIRED"


def test_a_refused_heartbeat_is_a_step_and_others_are_none(tmp_path):
    member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    dialogue = [
        *kafkacraft.consumer()[:10],
        client(request(12, 4, 6, member)),
        server(response(12, 4, 6)),
        client(request(12, 4, 7, member)),
        server(response(12, 4, 7, {"error_code": 27})),
        client(request(SYNC_GROUP, 5, 8, member | {"protocol_type": "consumer", "protocol_name": "range"})),
        server(response(SYNC_GROUP, 5, 8, {"error_code": 27})),
    ]
    (trace,) = traced(written(tmp_path / "heartbeats.pcap", *dialogue), "--group", "g")
    refused = [step for step in trace["steps"] if step["what"] == "heartbeat refused"]
    assert [step["error"] for step in refused] == ["REBALANCE_IN_PROGRESS"]
    assert trace["steps"][-1]["what"] == "got no assignment"


def test_a_commit_that_says_the_same_again_is_counted(tmp_path):
    def commit(correlation, offset):
        partition = {"partition_index": 0, "committed_offset": offset}
        topics = [{"name": "orders", "partitions": [partition]}]
        return request(8, 7, correlation, {"group_id": "g", "generation_id": 1, "member_id": "m", "topics": topics})

    def committed(correlation):
        topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
        return response(8, 7, correlation, {"topics": topics})

    pairs = [(1, 5), (2, 5), (3, 6)]
    dialogue = [say for number, offset in pairs for say in (client(commit(number, offset)), server(committed(number)))]
    (trace,) = traced(written(tmp_path / "commits.pcap", *dialogue), "--group", "g")
    assert [step["details"]["offsets"] for step in trace["steps"]] == ["orders/0: 5", "orders/0: 6"]
    assert trace["about"]["commits_repeated"] == 1


# ---- transactions


def in_transaction(correlation, value, offset):
    partition = {"index": 0, "records": kafkacraft.record_batch(value, producer=7, attributes=0x10)}
    topics = [{"name": "orders", "partition_data": [partition]}]
    body = {"transactional_id": TXN_ID, "acks": -1, "timeout_ms": 1000, "topic_data": topics}
    return [client(request(0, 3, correlation, body)), server(kafkacraft.produced(correlation, offset))]


def end(correlation, *, committed, error=0):
    body = {"transactional_id": TXN_ID, "producer_id": 7, "producer_epoch": 0, "committed": committed}
    return [client(request(26, 1, correlation, body)), server(response(26, 1, correlation, {"error_code": error}))]


def read(correlation, records):
    return [
        client(kafkacraft.fetch(correlation, topics=kafkacraft.ASKED)),
        server(kafkacraft.fetched(correlation, records)),
    ]


def test_each_transaction_of_an_id_is_a_trace_with_its_deliveries_and_its_marker(tmp_path):
    log = kafkacraft.record_batch(b"kept", base=5, producer=7, attributes=0x10) + kafkacraft.control_batch(1, 6, 7)
    dialogue = [
        *in_transaction(1, b"kept", 5),
        *end(2, committed=True),
        *in_transaction(3, b"dropped", 7),
        *end(4, committed=False),
        *read(5, log),
    ]
    kept, dropped = traced(written(tmp_path / "txn.pcap", *dialogue), "--transaction", TXN_ID)
    assert told(kept) == ["produces in it", "commit asked for", "committed", "delivered", "commit marker read"]
    assert told(dropped) == ["produces in it", "abort asked for", "aborted"]
    assert [wait["what"] for wait in kept["waits"]] == ["it was open", "from its end to the delivery"]
    assert [trace["about"]["number"] for trace in (kept, dropped)] == [1, 2]


def test_followers_that_read_before_the_answer_to_the_producer_are_told(tmp_path):
    log = kafkacraft.record_batch(b"early", base=5, producer=7, attributes=0x10)
    produce, answer = in_transaction(1, b"early", 5)
    leader, follower = tmp_path / "leader.pcap", tmp_path / "follower.pcap"
    write_pcap(leader, segments([produce, answer]), ports=(40_000, 9092))
    fetches = [client(kafkacraft.fetch(5, topics=kafkacraft.ASKED, replica_id=2)), server(kafkacraft.fetched(5, log))]
    write_pcap(follower, segments(fetches), ports=(40_001, 9092))
    (trace,) = traced(leader, follower, "--transaction", TXN_ID)
    assert sorted(told(trace)) == ["fetched by a follower", "produces in it"]


def test_a_transaction_whose_end_was_refused_goes_on(tmp_path):
    dialogue = [*in_transaction(1, b"one", 5), *end(2, committed=True, error=51), *end(3, committed=False)]
    (trace,) = traced(written(tmp_path / "refused.pcap", *dialogue), "--transaction", "shop-*")
    assert told(trace) == ["produces in it", "commit asked for", "commit refused", "abort asked for", "aborted"]
    assert trace["steps"][2]["error"] == "CONCURRENT_TRANSACTIONS"


def init(correlation, *, error=0):
    body = {"transactional_id": TXN_ID, "transaction_timeout_ms": 1000}
    answer = {"error_code": error, "producer_id": 7, "producer_epoch": 2}
    return [client(request(22, 1, correlation, body)), server(response(22, 1, correlation, answer))]


def writes_marker(correlation, *, commit):
    topics = [{"name": "orders", "partition_indexes": [0]}]
    marker = {"producer_id": 7, "producer_epoch": 1, "transaction_result": commit, "topics": topics}
    done = {"markers": [{"producer_id": 7, "topics": []}]}
    return [client(request(27, 0, correlation, {"markers": [marker]})), server(response(27, 0, correlation, done))]


BEGUN = ["asks for a producer id", "got no producer id", "asks for a producer id", "got a producer id"]


def test_a_producer_that_is_fenced_leaves_its_transaction_to_none_who_comes_after(tmp_path):
    dialogue = [
        *in_transaction(1, b"lost", 5),
        *init(2, error=51),
        *writes_marker(3, commit=False),
        *init(4),
        *in_transaction(5, b"kept", 7),
        *end(6, committed=True),
    ]
    path = written(tmp_path / "fenced.pcap", *dialogue)
    fenced, kept = traced(path, "--transaction", TXN_ID)
    assert told(fenced) == ["produces in it", "abort marker to be written"]
    assert told(kept) == [*BEGUN, "produces in it", "commit asked for", "committed"]
    assert (fenced["not_seen"], kept["not_seen"]) == ([], [])
    produced, committed = kept["steps"][4]["ts_ns"], kept["steps"][6]["ts_ns"]
    assert [(wait["what"], wait["wait_ns"]) for wait in kept["waits"]] == [("it was open", committed - produced)]
    lost, stays = traced(path, "--topic", "orders")
    assert told(lost) == ["produced", "stored"]
    assert told(stays) == ["produced", "stored", "transaction committed"]


def test_a_producer_id_that_was_refused_ends_no_transaction(tmp_path):
    dialogue = [*in_transaction(1, b"kept", 5), *init(2, error=51), *end(3, committed=True)]
    path = written(tmp_path / "refused.pcap", *dialogue)
    (trace,) = traced(path, "--transaction", TXN_ID)
    assert sorted(told(trace)) == sorted(["produces in it", *BEGUN[:2], "commit asked for", "committed"])
    (record,) = traced(path, "--topic", "orders")
    assert told(record)[-1] == "transaction committed"


def test_a_transaction_that_the_broker_gave_up_ends_with_its_marker(tmp_path):
    dialogue = [*in_transaction(1, b"slow", 5), *writes_marker(2, commit=False), *init(3, error=51)]
    (trace,) = traced(written(tmp_path / "slow.pcap", *dialogue), "--transaction", TXN_ID)
    assert told(trace) == ["produces in it", "abort marker to be written", *BEGUN[:2]]
    assert [wait["what"] for wait in trace["waits"]] == ["it was open"]
    assert trace["not_seen"] == []


def test_a_record_of_a_transaction_shows_how_that_ended(tmp_path):
    dialogue = [*in_transaction(1, b"one", 5), *end(2, committed=False)]
    (trace,) = traced(written(tmp_path / "aborted.pcap", *dialogue), "--topic", "orders")
    assert told(trace) == ["produced", "stored", "transaction aborted"]
    assert trace["waits"][-1]["what"] == "until its transaction ended"


def test_a_reader_that_is_told_of_an_abort_gets_a_record_of_an_aborted_transaction(tmp_path):
    log = kafkacraft.record_batch(b"one", base=5, producer=7, attributes=0x10) + kafkacraft.control_batch(0, 6, 7)
    aborted = [{"producer_id": 7, "first_offset": 5}]
    fetches = [
        client(kafkacraft.fetch(3, topics=kafkacraft.ASKED, isolation_level=1)),
        server(kafkacraft.fetched(3, log, aborted_transactions=aborted)),
    ]
    dialogue = [*in_transaction(1, b"one", 5), *end(2, committed=False), *fetches]
    (trace,) = traced(written(tmp_path / "committed.pcap", *dialogue), "--topic", "orders")
    assert told(trace)[-1] == "delivered, of an aborted transaction"


def test_transactions_of_pulsar_are_committed_and_aborted_as_their_client_says():
    said = [step["do"].partition(":")[0] for step in json.loads(GO_TXN.with_suffix(".json").read_text())["steps"]]
    words = [told(trace) for trace in traced(GO_TXN, "--transaction", "*")]
    assert all(each[0] == "begun" for each in words)
    ends = [next(word for word in each if word in ("committed", "aborted")) for each in words]
    assert ends == [{"commit": "committed", "abort": "aborted"}[each] for each in said if each != "ack in txn"]
    assert [each.count("produces in it") for each in words] == [2, 2, 2, 0]
    assert words[3].count("acknowledges in it") == said.count("ack in txn")


def test_half_messages_of_rocketmq_are_committed_rolled_back_or_asked_for():
    traces = traced(HALF, "--transaction", "*", "-n", "10")
    words = [told(trace) for trace in traces]
    assert len(traces) == 6
    assert all(each[0] == "half message sent" for each in words)
    assert sum("broker asks for its state" in each for each in words) == 2
    assert {each[1] for each in words} <= {"committed", "rolled back", "state not known yet"}


# ---- connections


def test_a_connection_goes_from_its_handshake_to_its_close():
    (trace,) = traced(RAW_LIFECYCLE, "--connection", "127.0.0.1:57938")
    assert told(trace)[:3] == ["handshake begins", "open", "MAGIC"]
    assert told(trace)[-1] == "closed by the client"
    assert trace["about"]["client_rtt_ns"] > 0
    published = [step for step in trace["steps"] if step["what"] == "PUB"]
    assert all(step["details"]["answered_after_ns"] > 0 for step in published)


def test_a_connection_joined_in_the_middle_says_so():
    done = CliRunner().invoke(main, ["decode", str(MIDSTREAM), "-o", "ndjson", "--table", "connections"])
    joined = next(row for row in map(json.loads, done.stdout.splitlines()) if row["outcome"] == "mid-stream")
    (trace,) = traced(MIDSTREAM, "--connection", joined["connection_id"][:12])
    assert told(trace)[0] == "first seen here: its beginning is not in the capture"
    assert trace["not_seen"][0].startswith("the beginning of ")


def test_of_a_long_connection_the_first_and_last_steps_are_kept():
    (trace,) = traced(RAW_LIFECYCLE, "--connection", "127.0.0.1:57938", "--limit", "trace_steps_max=4")
    assert told(trace) == ["handshake begins", "open", "MAGIC", "PUB", "MPUB", "DPUB", "closed by the client"]
    assert trace["steps_left_out"] == 5


def test_why_a_connection_was_closed_is_told():
    lookupd, errors = PCAPS / "nsq" / "nsqlookupd-1.3.0-restart.pcap", PCAPS / "nsq" / "nsq-1.3.0-raw-errors.pcap"
    (reset,) = traced(lookupd, "--connection", "0813f0bbdb38")
    assert reset["steps"][-1]["error"] == "reset"
    (error,) = traced(errors, "--connection", "1a67cb70b78a")
    assert error["steps"][-1]["details"] == {"reason": "protocol error"}
    assert any(step.get("error", "").startswith("E_") for step in error["steps"])


def beat(correlation, member, epoch, owned=None):
    body = {"group_id": "g", "member_id": member, "member_epoch": epoch, "rebalance_timeout_ms": 1000}
    parts = None if owned is None else [{"topic_id": kafkacraft.TOPIC_ID, "partitions": owned}]
    return client(request(68, 0, correlation, body | {"topic_partitions": parts}))


def beaten(correlation, member, epoch, assigned=None):
    topics = [{"topic_id": kafkacraft.TOPIC_ID, "partitions": assigned}] if assigned else []
    parts = None if assigned is None else {"topic_partitions": topics}
    body = {"member_id": member, "member_epoch": epoch, "heartbeat_interval_ms": 5000, "assignment": parts}
    return server(response(68, 0, correlation, body))


def test_a_member_of_the_new_protocol_waits_for_partitions_that_another_gives_up(tmp_path):
    dialogue = [
        client(request(3, 12, 1, {"topics": [{"name": "orders"}]})),
        server(response(3, 12, 1, {"brokers": kafkacraft.BROKERS, "topics": kafkacraft.NAMED})),
        beat(2, "new", 0, []),
        beaten(2, "new", 3, []),
        beat(3, "new", 3),
        beaten(3, "new", 3),
        beat(4, "new", 3),
        beaten(4, "new", 4, [0]),
        beat(5, "new", -1),
        beaten(5, "new", -1),
    ]
    (trace,) = traced(written(tmp_path / "kip848.pcap", *dialogue), "--group", "g")
    assert told(trace) == ["asks to join", "got its assignment", "got its assignment", "leaves"]
    assert [step["details"].get("assignment") for step in trace["steps"][1:3]] == ["nothing", "orders/0"]
    (wait,) = trace["waits"]
    assert (wait["what"], wait["from_step"], wait["to_step"]) == ("from asking to join to partitions", 0, 2)


@pytest.mark.parametrize(
    ("capture", "what"),
    [
        (GO_TXN, ("--transaction", "*")),
        (NACK_DLQ, ("--group", "*")),
        (RAW_ERRORS, ("--connection", *"0123456789abcdef")),
    ],
)
def test_more_than_are_followed_are_more_than_so_many(capture, what):
    option, *values = what
    asked = [part for value in values for part in (option, value)]
    done = CliRunner().invoke(main, ["trace", str(capture), *asked, "--limit", "trace_records_max=1", "--json"])
    found = json.loads(done.stdout)
    assert (found["found"], found["found_more"]) == (1, True)
    assert done.stderr.startswith("more than 1 ")


def test_what_a_producer_sends_is_not_delivered_to_its_group():
    (trace,) = traced(HALF, "--group", "postman_txp")
    assert "delivered" not in trace["about"]
    (consumer,) = traced(HALF, "--group", "postman_txc")
    assert consumer["about"]["delivered"] > 0
