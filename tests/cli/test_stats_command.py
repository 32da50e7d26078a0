"""``mqsniff stats`` from the arguments to the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from terminal import on_terminal
from tinycapture import INVALID, NSQ, PUB, conversation, pcap

from mqsniff.answers.stats import SECTIONS
from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
KAFKA = PCAPS / "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
OLD = PCAPS / "kafka/kafka-0.10.2.2-mixed-magic-mix.c.pcap"
ROCKETMQ = PCAPS / "rocketmq/rocketmq-5.5.0-a-pop-fifo.pcapng"
PULSAR = PCAPS / "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap"
TLS = PCAPS / "nsq/nsq-1.3.0-midstream-tls.pcap"


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", PUB), ("s", INVALID)])))
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["stats", *map(str, arguments)])


def sections(*arguments):
    done = run("--json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_page_names_what_is_there_and_what_is_wrong(sample):
    done = run(sample)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "sample.pcap"
    assert re.search(r"^errors +1 PUB E_INVALID$", done.stdout, re.MULTILINE)
    assert re.search(r"^trust +unknown: dropped packets", done.stdout, re.MULTILINE)
    assert "PROTOCOL" in done.stdout
    assert "COMMAND" in done.stdout


def test_json_has_a_list_of_rows_for_each_section(sample):
    found = sections(sample)
    assert tuple(found) == SECTIONS
    assert all(isinstance(rows, list) for rows in found.values())
    wanted = {"protocol", "name", "count", "bytes", "errors", "unanswered", "p50_ns", "p95_ns", "p99_ns", "max_ns"}
    assert all(wanted <= row.keys() for row in found["commands"])
    pubs = next(row for row in found["commands"] if row["name"] == "PUB")
    assert (pubs["errors"], pubs["errors_by_name"]) == (1, {"E_INVALID": 1})


def test_filters_choose_what_is_counted():
    everything, chosen = sections(KAFKA), sections("--name", "Fetch", KAFKA)
    assert {row["name"] for row in chosen["commands"]} == {"Fetch"}
    assert chosen["commands"][0]["count"] == next(
        row["count"] for row in everything["commands"] if row["name"] == "Fetch"
    )
    asked = sections("--where", "name = 'Fetch' and status = 'ok'", KAFKA)
    assert sum(row["timed"] + row["waited"] for row in asked["commands"]) == 3


def test_lag_members_and_rebalances_of_a_kafka_group():
    (group,) = sections(KAFKA)["groups"]
    assert (group["group"], group["generation"], group["lag"], group["commit_lag"]) == ("xa-g", 1, 0, 0)
    assert [row["end"] for row in group["partitions"]] == [14, 8, 8]
    assert [one["topic"] for member in group["members"] for one in member["assigned"]] == ["xa.zstd"]
    assert group["timeline"][0]["duration_ns"] > 300_000_000


def test_clients_with_versions_that_kafka_4_dropped():
    clients = sections(OLD)["clients"]
    refused = {row["client_id"]: {one["name"] for one in row["dropped"]} for row in clients if row["dropped"]}
    assert "Produce" in refused["mm-0.8.2"]
    assert all(one["dropped_by"] == "Kafka 4.0" for row in clients for one in row["dropped"])
    assert not any(row["dropped"] for row in sections(KAFKA)["clients"])


def test_redelivered_and_unacknowledged_messages():
    pulsar = next(row for row in sections(PULSAR)["groups"] if row["redelivered"])
    assert pulsar["by_topic"][0]["settled_by"].keys() == {"ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES"}
    assert any(row["unacknowledged"] == 4 for row in sections(ROCKETMQ)["groups"])


def test_servers_that_clients_were_told_to_connect_to():
    servers = [row for row in sections(PULSAR)["hosts"] if row["role"] == "server"]
    assert [row["told_by_lookup"] for row in servers if row["port"] == 6650] == [4]


@pytest.mark.parametrize("by", ["broker", "client", "topic", "connection"])
def test_commands_by_something_add_up(by):
    divided, whole = sections("--by", by, KAFKA)["commands"], sections(KAFKA)["commands"]
    assert all(by in row for row in divided)
    counts = [{}, {}]
    for found, rows in zip(counts, (divided, whole), strict=True):
        for row in rows:
            found[row["name"]] = found.get(row["name"], 0) + row["count"]
    assert counts[0] == counts[1]
    assert sections("--by", by, KAFKA)["protocols"] == sections(KAFKA)["protocols"]
    assert run("--by", by, KAFKA).stdout.count(by.upper())


def test_against_another_capture():
    found = sections(KAFKA, "--against", OLD)["changes"]
    assert {"what", "change", "name", "now", "before", "factor"} == found[0].keys()
    assert ("error", "new") in {(row["what"], row["change"]) for row in found}
    page = run(KAFKA, "--against", OLD).stdout
    assert "CHANGED" in page
    assert "nothing changed" in run(KAFKA, "--against", KAFKA).stdout


def test_numbers_that_no_int64_holds_are_numbers_of_json(sample, monkeypatch):
    monkeypatch.setattr("mqsniff.answers.stats.TrafficStats.rows", lambda *_: {"span": [{"packets": 1 << 80}]})
    assert json.loads(run("--json", sample).stdout) == {"span": [{"packets": 1 << 80}]}


def test_an_interrupt_shows_what_was_counted(sample, monkeypatch):
    from mqsniff.answers.stats import TrafficStats

    taken = []

    def take(_stats, item):
        if len(taken) == 5:
            raise KeyboardInterrupt
        taken.append(item)

    monkeypatch.setattr(TrafficStats, "take", take)
    for arguments in ((sample,), (sample, "--against", sample)):
        taken.clear()
        done = run(*arguments)
        assert (done.exit_code, done.stdout.splitlines()[0]) == (130, "sample.pcap")


def test_top_and_all_choose_how_much_is_shown():
    assert run("--top", "1", KAFKA).stdout.count("(--all)") > run(KAFKA).stdout.count("(--all)")
    everything = run("--all", KAFKA).stdout
    assert "(--all)" not in everything
    for head in ("MEMBER OF xa-g", "PARTITION READ BY xa-g", "REBALANCE OF xa-g", "CAPTURE", "SERVER"):
        assert head in everything


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize("sample_path", [KAFKA, OLD, ROCKETMQ, PULSAR, TLS], ids=lambda path: path.name)
def test_no_line_is_wider_than_the_terminal(sample_path, columns):
    done = on_terminal("stats", "--all", str(sample_path), columns=columns)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.shown)
    assert max(map(len, plain.splitlines())) <= columns


def test_errors_are_red_on_a_terminal_only(sample):
    assert "\x1b[1;31m" in run("--color", "always", sample).stdout
    assert "\x1b" not in run(sample).stdout


def test_what_traffic_wrote_cannot_act_on_a_terminal(tmp_path):
    path = tmp_path / "odd.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", b"\x1b[31mX\n"), ("s", INVALID)])))
    assert "\x1b" not in run("--all", path).stdout


def test_poor_captures_explain_themselves():
    done = run(TLS)
    assert "0 messages: 1 TLS connection (encrypted; its keys are needed: --tls-keys FILE)" in done.stderr
    assert re.search(r"^tls .*100 %", done.stdout, re.MULTILINE)
    empty = run(PCAPS / "broken/head-only.pcap")
    assert empty.exit_code == 0
    assert "no packets" in empty.stdout
    cut = run(PCAPS / "broken/record-cut.pcap")
    assert re.search(r"^trust +bad: 1 damaged place", cut.stdout, re.MULTILINE)


def test_what_cannot_be_read_is_told(tmp_path):
    other = tmp_path / "text"
    other.write_text("no capture\n")
    done = run(other)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "not a capture" in done.stderr
    both = run(other, KAFKA)
    assert both.exit_code == 2
    assert "COMMAND" in both.stdout
    assert run(KAFKA, "--against", other).exit_code == 2
    assert "did you mean broker" in run("--by", "brokers", KAFKA).stderr
