"""Expectations about captures: what holds, what does not, and the rows that break it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqsniff.answers.check.asking import asking, outcomes_of
from mqsniff.answers.check.expectations import ExpectationError, evaluate, read_expectations
from mqsniff.answers.check.goldens import PLAIN, Decoding, GoldenError
from mqsniff.lockedsql.database import QueryError

PCAPS = Path(__file__).parents[2] / "pcaps"
AUTH = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"


def written(tmp_path, text):
    file = tmp_path / "expect.toml"
    file.write_text(text)
    return file


def outcome(tmp_path, capture, text):
    (expectation,) = read_expectations(written(tmp_path, f"[[expect]]\n{text}"))
    with asking(capture, PLAIN) as ask:
        return evaluate(expectation, ask)


@pytest.fixture(scope="module")
def ask():
    with asking(AUTH, PLAIN) as ask:
        yield ask


def count(ask, query):
    return ask(f"select count(*) as n from {query}")[0]["n"]


def test_errors_are_the_exchanges_that_failed(tmp_path, ask):
    errors = count(ask, "exchanges where status in ('error', 'partial')")
    assert errors > 1
    failed = outcome(tmp_path, AUTH, "errors = 0")
    assert (failed.passed, failed.name, len(failed.rows)) == (False, "no errors", min(errors, 5))
    assert failed.says == f"{errors} found, 0 allowed"
    assert all(row["error_name"] for row in failed.rows)
    assert outcome(tmp_path, AUTH, f"errors = {errors}").passed
    publishing = count(ask, "exchanges where status in ('error', 'partial') and name = 'PUB'")
    assert outcome(tmp_path, AUTH, f'errors = {publishing}\ncommand = "pub"').passed
    assert not outcome(tmp_path, AUTH, f'errors = {publishing - 1}\ncommand = "PUB"').passed


def test_a_percentile_is_of_the_work_of_the_broker(tmp_path, ask):
    query = "select max(work_ns) as most from exchanges where name = 'PUB' and work_ns is not null and held is not true"
    most = ask(query)[0]["most"]
    assert outcome(tmp_path, AUTH, f'max = "{most}ns"\ncommand = "PUB"').passed
    slow = outcome(tmp_path, AUTH, f'max = "{most - 1}ns"\ncommand = "PUB"')
    assert not slow.passed
    assert [round(row["work_ms"] * 1e6) for row in slow.rows] == [most]


def test_nothing_to_measure_fails_unless_it_is_optional(tmp_path):
    text = 'p99 = "50ms"\ncommand = "Produce"'
    assert not outcome(tmp_path, AUTH, text).passed
    assert outcome(tmp_path, AUTH, text).says == "nothing to measure: no such exchange"
    assert outcome(tmp_path, AUTH, f"{text}\noptional = true").passed


def test_old_versions_are_named_with_their_client(tmp_path):
    capture = PCAPS / "kafka" / "kafka-4.4-proxy-v2-proxied.pcap"
    with asking(capture, PLAIN) as ask:
        least = ask("select min(version) as v from messages where kind = 'request' and name = 'ApiVersions'")[0]["v"]
    assert outcome(tmp_path, capture, f'version_min = {least}\ncommand = "ApiVersions"').passed
    old = outcome(tmp_path, capture, f'version_min = {least + 1}\ncommand = "ApiVersions"')
    assert not old.passed
    assert {row["version"] for row in old.rows} == {least}


def test_passwords_in_plain_text_are_found_but_not_shown(tmp_path):
    failed = outcome(tmp_path, AUTH, "plaintext_passwords = 0")
    assert not failed.passed
    assert {row["mechanism"] for row in failed.rows} == {"AUTH"}


def test_a_topic_is_seen_or_others_are_named(tmp_path, ask):
    topic = ask("select unnest(topics) as topic from messages limit 1")[0]["topic"]
    assert outcome(tmp_path, AUTH, f'topic = "{topic}"\nseen = 1').passed
    missing = outcome(tmp_path, AUTH, 'topic = "no \'such"\nseen = 1')
    assert not missing.passed
    assert topic in {row["seen_instead"] for row in missing.rows}


def test_topics_of_pulsar_go_by_their_last_part(tmp_path):
    capture = PCAPS / "pulsar" / "pulsar-4.2.4-py-nack-dlq-a.pcap"
    with asking(capture, PLAIN) as ask:
        topic = ask("select unnest(topics) as topic from messages where len(topics) > 0 limit 1")[0]["topic"]
    assert topic.startswith("persistent://")
    assert outcome(tmp_path, capture, f'topic = "{topic.rpartition("/")[2]}"\nseen = 1').passed


def test_problems_are_counted_by_kind(tmp_path):
    capture = PCAPS / "nsq" / "nsq-1.3.0-var-loss-client.pcap"
    failed = outcome(tmp_path, capture, 'problems = 0\nkinds = ["gap"]')
    assert not failed.passed
    assert {row["kind"] for row in failed.rows} == {"gap"}
    assert outcome(tmp_path, capture, 'problems = 0\nkinds = ["checksum"]').passed
    assert not outcome(tmp_path, capture, "problems = 0").passed


def test_a_query_finds_what_must_not_be_or_what_must(tmp_path):
    assert outcome(tmp_path, AUTH, "sql = \"from messages where name = 'nothing'\"").passed
    failed = outcome(tmp_path, AUTH, "sql = \"select name from messages where name = 'PUB'\"")
    assert (failed.passed, failed.rows[0]) == (False, {"name": "PUB"})
    assert outcome(tmp_path, AUTH, 'sql = "from messages where name = \'PUB\'"\nrows = "some"').passed


def test_a_query_reads_nothing_but_the_tables(tmp_path):
    with pytest.raises(QueryError):
        outcome(tmp_path, AUTH, "sql = \"from read_text('/etc/passwd')\"")


def test_a_file_that_is_not_a_capture_is_told(tmp_path):
    (tmp_path / "x.pcap").write_text("no capture")
    with pytest.raises(GoldenError):
        outcomes_of(tmp_path / "x.pcap", [], Decoding())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "expect.toml: "),
        ("", "it holds [[expect]] tables"),
        ("[[expect]]\nerrors = 0\n[other]\n", "it holds [[expect]] tables and nothing else"),
        ("[[expect]]\n", "expectation 1: one of errors, "),
        ("[[expect]]\nerrors = 0\nunanswered = 0", "and one only"),
        ("[[expect]]\nerror = 0", "no key 'error'"),
        ("[[expect]]\nerrors = -1", "errors is a whole number"),
        ("[[expect]]\nerrors = true", "errors is a whole number"),
        ("[[expect]]\np99 = 50", "p99 is a duration"),
        ('[[expect]]\np99 = "50"', "p99 is a duration"),
        ("[[expect]]\nerrors = 0\ncommand = 3", "command is text"),
        ("[[expect]]\nseen = 1", "seen needs a topic or a command"),
        ('[[expect]]\nerrors = 0\nkinds = ["gap"]', "kinds is a list of kinds"),
        ('[[expect]]\nerrors = 0\nrows = "some"', "belongs to sql"),
        ('[[expect]]\nsql = " "', "sql is a query"),
        ("[[expect]]\nerrors = 0\n[[expect]]\nerrors = 'x'", "expectation 2: "),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path, text, says):
    with pytest.raises(ExpectationError) as refused:
        read_expectations(written(tmp_path, text))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value).removeprefix(str(tmp_path))
