"""Sections of statistics on made-up items: what no sample shows, and what must not grow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import connection, noticed, pub

from mqsniff.answers.stats import SECTIONS, RunFacts, TrafficStats, changes
from mqsniff.answers.stats.clients import split_software
from mqsniff.answers.stats.groups import GroupStats
from mqsniff.answers.stats.rebalances import GroupLife, NewsPlace
from mqsniff.dissector import Dissector, DroppedVersions
from mqsniff.limits import Limits
from mqsniff.model import (
    CaptureInfo,
    ClosedItem,
    EndpointNews,
    Exchange,
    ExchangeItem,
    Identity,
    MemberNews,
    MessageItem,
    Pending,
    RecordBatch,
    RecordItem,
)

SECOND = 1_000_000_000


class Told(Dissector):
    """A dissector that tells what tests want it to tell."""

    names = ("nsq",)
    telling = frozenset(("PUB",))
    offset_meanings = {("PUB", "request"): "commit", ("FETCH", "request"): "position"}
    told: tuple[object, ...] = ()

    @classmethod
    def detect(cls, client, server):
        raise NotImplementedError

    start = feed = gap = close = detect

    @classmethod
    def topic_role(cls, topic):
        return "retry" if topic.startswith("retry") else None

    @classmethod
    def news(cls, request, answer):
        return iter(cls.told)

    @classmethod
    def dropped_versions(cls):
        return {"PUB": DroppedVersions(3, "NSQ 9")}


def telling(*told):
    return type("ToldMore", (Told,), {"told": told, "__abstractmethods__": frozenset()})


def exchange(status="ok", link="answer", *, work_ns=5, latency_ns=5, held=None, message=None, **extra):
    message = message or pub()
    pending = Pending(1, link, message.frame, message=message, held=held, status=status, extra=extra)
    return Exchange(pending, None, status, latency_ns, work_ns=work_ns)


def stats_of(*items, dissectors=(Told,), limits=None, by=None):
    made = TrafficStats(dissectors, limits, by)
    for item in items:
        made.take(item)
    return made


def rows(*items, run=None, **options):
    return stats_of(*items, **options).rows(run or RunFacts())


def test_a_run_without_items_has_every_section():
    found = rows()
    assert tuple(found) == SECTIONS
    assert found["span"][0]["messages"] == 0
    assert found["commands"] == found["topics"] == found["groups"] == []


def test_rows_may_be_asked_for_before_the_end_and_again():
    made = stats_of(MessageItem(connection(), pub()))
    assert made.rows(RunFacts())["commands"][0]["count"] == 1
    made.take(MessageItem(connection(), pub()))
    assert made.rows(RunFacts())["commands"][0]["count"] == 2
    made.take(ClosedItem(connection()))
    assert made.rows(RunFacts())["commands"][0]["count"] == 2


def test_what_was_held_is_in_no_percentile():
    held, served = exchange(held=True, latency_ns=500, work_ns=None), exchange(work_ns=7)
    row = rows(ExchangeItem(connection(), held), ExchangeItem(connection(), served))["commands"][0]
    assert (row["timed"], row["p50_ns"], row["max_ns"]) == (1, 7, 7)
    assert (row["waited"], row["waited_p50_ns"]) == (1, 500)


@pytest.mark.parametrize("status", ["lost", "unanswered", "pending", "unseen"])
def test_an_exchange_that_did_not_end_has_no_time(status):
    row = rows(ExchangeItem(connection(), exchange(status)))["commands"][0]
    assert (row["timed"], row["waited"], row["max_ns"]) == (0, 0, None)
    assert row[status] == 1


@pytest.mark.parametrize(
    ("by", "places"),
    [
        ("broker", {"10.0.0.2:4150"}),
        ("client", {"10.0.0.1"}),
        ("topic", {"orders"}),
    ],
)
def test_commands_may_be_counted_by_something(by, places):
    info = connection(client_ip="10.0.0.1", server_ip="10.0.0.2", server_port=4150, identity=Identity())
    message = replace(pub(), topics=("orders",))
    found = rows(MessageItem(info, message), ExchangeItem(info, exchange(message=message)), by=by)["commands"]
    assert {row[by] for row in found} == places
    assert [(row["count"], row["timed"]) for row in found] == [(1, 1)]


def test_equal_counts_are_in_the_order_of_their_names_whoever_came_first():
    hosts = ["10.0.0.9", "10.0.0.10", "10.0.0.1"]
    items = [MessageItem(connection(connection_id=host, client_ip=host, identity=Identity()), pub()) for host in hosts]
    assert [row["client"] for row in rows(*items, by="client")["commands"]] == sorted(hosts)


def test_by_connection_tells_its_ends():
    found = rows(MessageItem(connection(), pub()), by="connection")["commands"]
    assert found[0]["connection"] == connection().connection_id
    assert found[0]["client"] == connection().client


def test_lists_are_bounded():
    limits = Limits().with_value("stats_rows_max", 3)
    items = [
        each
        for number in range(10)
        for info in [connection(connection_id=str(number), server_port=number, protocol="nsq")]
        for each in (
            MessageItem(info, replace(pub(), name=f"N{number}", group=f"g{number}")),
            RecordItem(info, pub(), RecordBatch(b"", 2, {"direction": "produce", "topic": str(number)})),
            ClosedItem(info),
        )
    ]
    found = rows(*items, limits=limits)
    assert [len(found[name]) for name in ("commands", "topics", "hosts", "network", "clients")] == [4, 4, 4, 4, 1]
    assert sum(row["count"] for row in found["commands"]) == 10
    assert sum(row["produced"] for row in found["topics"]) == 20
    assert found["topics"][-1]["topic"] == "(others)" or "(others)" in {row["topic"] for row in found["topics"]}


# ---- topics


def produced(sequence, count=1, **constant):
    told = {
        "direction": "produce",
        "topic": "orders",
        "partition": 0,
        "producer_id": 7,
        "producer_epoch": 0,
        **constant,
    }
    return RecordBatch(b"abc", count, told, {"sequence": [sequence + n for n in range(count)]}, values=([0], [3]))


def test_a_batch_that_its_producer_sent_before_is_resent():
    batches = [produced(0), produced(1), produced(1), produced(2), produced(2, producer_epoch=1)]
    row = rows(*(RecordItem(connection(), pub(), batch) for batch in batches))["topics"][0]
    assert (row["produced"], row["resent"]) == (4, 1)
    assert (row["produced_bytes"], row["resent_bytes"]) == (12, 3)


def test_the_role_of_a_topic_is_told():
    batch = produced(0, topic="retry-orders")
    assert rows(RecordItem(connection(), pub(), batch))["topics"][0]["role"] == "retry"


def test_rates_are_over_the_whole_capture():
    capture = CaptureInfo(0, "x", first_ts_ns=0, last_ts_ns=4 * SECOND)
    found = rows(RecordItem(connection(), pub(), produced(0)), run=RunFacts(captures=[capture]))
    assert (found["topics"][0]["produced_per_s"], found["topics"][0]["produced_bytes_per_s"]) == (0.25, 0.75)


# ---- clients and servers


@pytest.mark.parametrize(
    ("software", "library", "version"),
    [
        ("apache-kafka-java 4.4.0", "apache-kafka-java", "4.4.0"),
        ("go-nsq/1.1.0", "go-nsq", "1.1.0"),
        ("Pulsar-CPP-v4.2.0", "Pulsar-CPP", "4.2.0"),
        ("RocketMQ JAVA 5.5.0", "RocketMQ JAVA", "5.5.0"),
        ("something", "something", None),
        (None, None, None),
    ],
)
def test_libraries_have_versions(software, library, version):
    assert split_software(software) == (library, version)


def test_versions_that_newer_servers_refuse_are_named():
    old, new = (replace(pub(), kind="request", version=version) for version in (2, 3))
    info = connection(protocol="nsq")
    items = [MessageItem(info, old), MessageItem(info, new), ClosedItem(info)]
    client = rows(*items)["clients"][0]
    assert client["dropped"] == [{"name": "PUB", "versions": [2], "count": 1, "dropped_by": "NSQ 9"}]


def test_servers_that_clients_were_told_of_stand_beside_those_that_they_dialled():
    news = telling(EndpointNews("redirect", "10.9.9.9", 4150))
    found = rows(ExchangeItem(connection(), exchange()), ClosedItem(connection()), dissectors=(news,))["hosts"]
    told = next(row for row in found if row["host"] == "10.9.9.9")
    assert (told["told_by_redirect"], told["connections"]) == (1, 0)


def test_a_dissector_that_raises_is_a_problem_of_the_run():
    class Broken(Told):
        @classmethod
        def news(cls, request, answer):
            raise KeyError("x")

    found = rows(ExchangeItem(connection(), exchange()), dissectors=(Broken,))
    assert any(row.get("kind") == "internal" for row in found["health"])


# ---- groups


def place(asked, told, client_id="c"):
    return NewsPlace(asked, told, f"10.0.0.1:{asked}", client_id)


def test_a_rebalance_tells_who_was_waited_for():
    life = GroupLife()
    life.take(MemberNews("g", "joined", "early", 3, leader=True), place(10, 110))
    life.take(MemberNews("g", "joined", "late", 3), place(100, 111))
    life.take(MemberNews("g", "assigned", "late", 3, (("t", (0, 1)),)), place(120, 130))
    (row,) = [one.row() for one in life.timeline]
    assert (row["generation"], row["duration_ns"], row["waited_for"]) == (3, 120, "late")
    assert [(one["member"], one["waited_ns"]) for one in row["members"]] == [("early", 100), ("late", 11)]
    assert [one["assigned"] for one in life.rows({}) if one["member"] == "late"] == [
        [{"topic": "t", "partitions": [0, 1]}]
    ]


def test_assignments_by_id_are_shown_by_name():
    life = GroupLife()
    life.take(MemberNews("g", "assigned", "m", 3, (("ID", (0,)), ("T", (1,)))), place(1, 2))
    (member,) = life.rows({"ID": "orders"})
    assert [one["topic"] for one in member["assigned"]] == ["orders", "T"]


def test_notices_within_a_second_are_one_rebalance():
    life = GroupLife()
    for at in (0, SECOND // 2, 3 * SECOND):
        life.take(MemberNews("g", "told"), place(at, at, f"client{at}"))
    assert [len(one.members) for one in life.timeline] == [2, 1]


def test_a_timeline_is_bounded():
    life = GroupLife()
    for generation in range(1_000):
        life.take(MemberNews("g", "joined", "m", generation), place(generation, generation + 1))
    assert (life.count, len(life.timeline), life.generation) == (1_000, 100, 999)


def test_lag_is_the_end_less_the_position_and_the_commit():
    info = connection(identity=Identity(client_id="c"))
    commit = replace(pub(), kind="request", group="g", partitions=({"topic": "t", "partition": 0, "offset": 5},))
    fetch = replace(
        commit,
        name="FETCH",
        group=None,
        partitions=({"topic": "t", "partition": 0, "offset": 7, "high_watermark": 10},),
    )
    done, refused = (ExchangeItem(info, exchange(status, message=commit)) for status in ("ok", "error"))
    found = rows(MessageItem(info, commit), done, MessageItem(info, fetch))["groups"]
    assert [(row["group"], row["lag"], row["commit_lag"]) for row in found] == [("g", 3, 5)]
    found = rows(MessageItem(info, commit), refused, MessageItem(info, fetch))["groups"]
    assert [(row["lag"], row["commit_lag"]) for row in found] == [(3, None)]


def test_an_open_connection_is_all_that_is_kept_of_messages():
    made = stats_of()
    for number in range(100):
        info = connection(connection_id=str(number))
        made.take(MessageItem(info, pub()))
        made.take(ExchangeItem(info, exchange()))
        made.take(ClosedItem(info))
    assert not made._open
    found = made.rows(RunFacts())
    assert [len(found[name]) for name in ("commands", "hosts", "clients", "network")] == [1, 2, 1, 1]


def test_a_client_of_two_groups_gives_its_position_to_the_one_that_reads_there():
    groups = GroupStats(100, [Told])
    info = connection(identity=Identity(client_id="c"))
    for name in ("g", "h"):
        groups.heard(info, replace(pub(), kind="request", group=name, partitions=()))
    row = {"topic": "t", "partition": 0, "offset": 7}
    groups.heard(info, replace(pub(), name="FETCH", kind="request", partitions=(row,)))
    assert groups.rows() == []
    groups.told("nsq", MemberNews("h", "assigned", "m", 1, (("t", (0,)),)), place(1, 2))
    assert [(one["group"], one["partitions"][0]["position"]) for one in groups.rows()] == [("h", 7)]


def test_deliveries_that_nobody_settled_are_counted():
    message = replace(pub(), name="MESSAGE", group="ch", topics=("t",))
    settled = exchange(link="settlement", message=message, settled_by="FIN", attempts=2)
    left = exchange("pending", "settlement", message=message, latency_ns=None, work_ns=None, timed_out=True)
    row = rows(ExchangeItem(connection(), settled), ExchangeItem(connection(), left))["groups"][0]
    assert (row["deliveries"], row["redelivered"], row["unacknowledged"], row["timed_out"]) == (2, 1, 1, 1)
    assert row["by_topic"][0]["settled_by"] == {"FIN": 1}


# ---- health


def trust(check, *items, **facts):
    found = rows(*items, run=RunFacts(**facts))["health"]
    return next((row["value"], row["trust"]) for row in found if row["check"] == check)


def test_drops_that_nobody_told_are_unknown():
    silent, told = CaptureInfo(0, "a"), CaptureInfo(1, "b", drops_told=True)
    assert trust("dropped_packets", captures=[silent]) == (None, "unknown")
    assert trust("dropped_packets", captures=[silent, told]) == (None, "unknown")
    assert trust("dropped_packets", captures=[told]) == (0, "good")
    assert trust("dropped_packets", captures=[CaptureInfo(0, "c", dropped=7, drops_told=True)]) == (7, "bad")


@pytest.mark.parametrize(
    ("check", "fields", "expected"),
    [
        ("gap_bytes", {"gap_bytes": 9}, (9, "bad")),
        ("one_sided_connections", {"sides_seen": "client"}, (1, "bad")),
        ("mid_stream_connections", {"outcome": "mid-stream"}, (1, "doubtful")),
        ("doubled_packets", {"client_packets": 100, "duplicate_packets": 1}, (1, "doubtful")),
        ("two_taps", {"client_packets": 100, "duplicate_packets": 50}, (1, "doubtful")),
        ("undecoded_bytes", {"client_bytes": 1_000_000, "undecoded_bytes": 1}, (1, "doubtful")),
        ("undecoded_bytes", {"client_bytes": 100, "undecoded_bytes": 50}, (50, "bad")),
        ("encrypted_bytes", {"client_bytes": 100, "undecoded_bytes": 50}, (0, "good")),
        ("encrypted_bytes", {"client_bytes": 100, "undecoded_bytes": 50, "tls_version": "TLS 1.3"}, (50, "bad")),
    ],
)
def test_what_speaks_against_a_capture_is_told(check, fields, expected):
    assert trust(check, ClosedItem(connection(**({"outcome": "established"} | fields)))) == expected


def test_cut_packets_and_clocks_speak_against_a_capture():
    assert trust("cut_packets", cut_packets=3, packets=10) == (3, "bad")
    assert trust("backward_packets", backward_packets=1, packets=10) == (1, "doubtful")
    assert trust("clock_jumps", noticed("clock")) == (1, "bad")
    assert trust("damaged_captures", noticed("input", severity="error")) == (1, "bad")


# ---- comparing


def test_changes_are_what_came_what_went_and_what_moved():
    def run(name, error, work_ns, client):
        info = connection(protocol="nsq", identity=Identity(client_id=client))
        message = replace(pub(), name="PUB", kind="request")
        timed = [ExchangeItem(info, exchange(message=message, work_ns=work_ns)) for _ in range(9)]
        failed = exchange("error", message=replace(message, name=name))
        failed.answer = replace(message, error_name=error, error_count=1)
        return rows(MessageItem(info, message), *timed, ExchangeItem(info, failed), ClosedItem(info))

    found = changes(run("PUB", "E_NEW", 9_000_000, "b"), run("PUB", "E_OLD", 1_000_000, "a"))
    told = {(row["what"], row["change"], row["name"]) for row in found}
    assert ("error", "new", "nsq PUB E_NEW") in told
    assert ("error", "gone", "nsq PUB E_OLD") in told
    assert ("latency p50", "slower", "nsq PUB") in told
    assert ("client", "new", "nsq b") in told
    same = run("PUB", "E", 1, "a")
    assert changes(same, same) == []
