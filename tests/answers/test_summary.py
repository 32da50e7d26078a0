"""What is said at the end of a run."""

from __future__ import annotations

import pytest
from handmade import MILLISECOND, START, connection, frame, noticed, pub

from mqsniff.answers.summary import Summary
from mqsniff.model import ClosedItem, Exchange, ExchangeItem, MessageItem, Pending, Side
from mqsniff.pipeline import Totals


def summary(*items):
    made = Summary()
    for item in items:
        made.take(item)
    return made


def closed(protocol="nsq", **fields):
    return ClosedItem(connection(protocol=protocol, **({"client_bytes": 10} | fields)))


def unanswered(status="unanswered", link="answer", wait_limit_ns=None, **ended):
    pending = Pending("pub", link, frame(), message=pub(), wait_limit_ns=wait_limit_ns)
    ended = {"ended_ns": START + 30_000 * MILLISECOND, "ended_by": Side.CLIENT} | ended
    return ExchangeItem(connection(), Exchange(pending, None, status, **ended))


MESSAGE = MessageItem(connection(), pub())


def test_totals_are_one_line():
    made = summary(MESSAGE, MESSAGE, noticed(severity="error"), noticed(), noticed(), closed())
    assert made.totals(Totals(packets=137, other_packets=2, connections=1), 0, 0.049) == (
        "137 packets (2 not TCP), 1 connection, 2 messages (nsq 2), problems: info 2, error 1, 0.05 s"
    )
    assert (
        summary().totals(Totals(packets=1), 3, 61)
        == "1 packet (3 more dropped by the capture), 0 connections, 0 messages, no problems, 61.00 s"
    )


def test_what_ended_badly_stands_in_the_totals():
    failed = MessageItem(connection(), pub(error_code=5, error_count=1))
    resets = [closed(close_reason="rst", closed_by=side) for side in ("server", "client", "server")]
    line = summary(failed, unanswered(), unanswered(), *resets).totals(Totals(packets=2, connections=1), 0, 0.01)
    told = "1 answer with an error, 2 unanswered, 3 resets (server 2, client 1), 2 time-outs, no problems"
    assert f"1 message (nsq 1), {told}, 0.01 s" in line


def test_what_the_network_did_is_counted_apart():
    odd = [noticed("retransmission"), noticed("retransmission"), noticed("stall")]
    line = summary(MESSAGE, *odd).totals(Totals(packets=2, connections=1), 0, 0.01)
    assert line.endswith("no problems (network: 2 retransmissions, 1 stall), 0.01 s")
    assert "problems: info 1 (network: 2" in summary(*odd, noticed()).totals(Totals(), 0, 0)
    assert list(summary(*odd).found(["info"])) == ["info (3)"]


TLS, UNKNOWN = closed("tls", tls_keys="missing"), closed("unknown", server_port=19092)
UNANSWERED = closed("unknown", outcome="no answer", client_bytes=0)
REFUSED = closed("unknown", outcome="refused", client_bytes=0)
SILENT = closed("unknown", client_bytes=0)


@pytest.mark.parametrize(
    ("items", "explanation"),
    [
        ([], "0 messages: no connection carried any"),
        ([TLS], "0 messages: 1 TLS connection (encrypted; its keys are needed: --tls-keys FILE)"),
        (
            [closed("tls", tls_keys="wrong")],
            "0 messages: 1 TLS connection (encrypted, and the keys of --tls-keys do not open it)",
        ),
        ([closed("tls", tls_keys="used")], "0 messages: 1 TLS connection (nothing but a handshake)"),
        ([UNKNOWN], "0 messages: 1 unknown on port 19092 (try --decode-as 19092=PROTO)"),
        ([closed("unknown", server_port=22)], "0 messages: 1 unknown on port 22 (ssh?)"),
        (
            [closed("unknown", server_port=22)] * 2 + [UNKNOWN],
            "0 messages: 3 unknown on ports 19092, 22 (ssh?) (try --decode-as 19092=PROTO)",
        ),
        ([MESSAGE, closed(server_port=19092), UNKNOWN], "not decoded: 1 unknown on port 19092"),
        ([closed("amqp-0-9-1"), closed("unknown", server_port=22)],
         "0 messages: 1 unknown on port 22 (ssh?), 1 AMQP 0-9-1 connection (another protocol)"),
        ([UNANSWERED] * 5, "0 messages: 5 handshakes without an answer"),
        ([REFUSED, SILENT, SILENT], "0 messages: 1 refused connection, 2 connections without content"),
        ([closed("http"), closed("http")], "0 messages: 2 HTTP connections (another protocol)"),
        ([MESSAGE, closed()], None),
        ([MESSAGE, closed(undecoded_bytes=7)], "not decoded: 7 B of 1 connection (the problems say why)"),
        ([MESSAGE, closed(gap_bytes=9)], "not decoded: 9 B that the capture lost"),
        ([MESSAGE, SILENT, UNANSWERED, REFUSED], None),
        ([MESSAGE, TLS, TLS], "not decoded: 2 TLS connections (encrypted; its keys are needed: --tls-keys FILE)"),
        (
            [MESSAGE, closed(tls_version="TLS 1.3", tls_keys="missing")],
            "not decoded: 1 connection after the change to TLS (encrypted; its keys are needed: --tls-keys FILE)",
        ),
        ([MESSAGE, closed(tls_version="TLS 1.3", tls_keys="used")], None),
    ],
)  # fmt: skip
def test_an_empty_or_poor_result_explains_itself(items, explanation):
    assert summary(*items).explanation(Totals(packets=9)) == explanation


def test_all_reasons_stand_in_one_line():
    assert summary(TLS, TLS, TLS, UNKNOWN, *[UNANSWERED] * 5).explanation(Totals(packets=9)) == (
        "0 messages: 3 TLS connections (encrypted; its keys are needed: --tls-keys FILE), "
        "1 unknown on port 19092 (try --decode-as 19092=PROTO), "
        "5 handshakes without an answer"
    )


def test_an_input_without_tcp_says_so():
    assert summary().explanation(Totals()) == "0 messages: no packets"
    assert summary().explanation(Totals(packets=5, other_packets=5)) == "0 messages: 5 packets, none of them TCP"


def test_the_ports_of_unknown_connections_are_named_by_how_many_they_are():
    made = summary(*(closed("unknown", server_port=port) for port in (2, 1, 1, 3, 4, 5)))
    assert (
        made.explanation(Totals(packets=9))
        == "0 messages: 6 unknown on ports 1, 2, 3 and 2 more (try --decode-as 1=PROTO)"
    )


@pytest.mark.parametrize(
    ("condition", "item", "found"),
    [
        ("error", noticed(severity="error"), ["error (1)"]),
        ("error", noticed(severity="warning"), []),
        ("warning", noticed(severity="error"), ["warning (1)"]),
        ("warning", noticed(severity="info"), []),
        ("info", noticed(severity="info"), ["info (1)"]),
        ("out_of_range", noticed("out_of_range"), ["out_of_range (1)"]),
        ("malformed", noticed("out_of_range"), []),
        ("gap", closed(gap_bytes=12), ["gap (12)"]),
        ("gap", noticed("gap"), ["gap (1)"]),
        ("gap", closed(), []),
        ("undecoded", closed(undecoded_bytes=9), ["undecoded (9)"]),
        ("undecoded", closed(), []),
        ("empty", closed(), ["empty (1)"]),
        ("empty", MESSAGE, []),
        ("answer-error", MessageItem(connection(), pub(error_code=5, error_count=1)), ["answer-error (1)"]),
        ("answer-error", MessageItem(connection(), pub(error_code=0, error_count=0)), []),
        ("unanswered", unanswered(), ["unanswered (1)"]),
        ("unanswered", unanswered("pending"), []),
        ("unanswered", unanswered(link="settlement"), []),
        ("timeout", unanswered(), ["timeout (1)"]),
        ("timeout", unanswered(ended_by=Side.SERVER), []),
        ("timeout", unanswered(wait_limit_ns=30_000 * MILLISECOND), []),
        ("timeout", unanswered(wait_limit_ns=20_000 * MILLISECOND), ["timeout (1)"]),
        ("timeout", unanswered(ended_ns=START + 2000), []),
        ("timeout", closed(outcome="no answer"), ["timeout (1)"]),
        ("timeout", closed(close_reason="keepalive missed"), ["timeout (1)"]),
        ("timeout", MessageItem(connection(), pub(error_name="REQUEST_TIMED_OUT", error_count=1)), ["timeout (1)"]),
        ("timeout", MessageItem(connection(), pub(error_name="FLUSH_DISK_TIMEOUT", error_count=1)), ["timeout (1)"]),
        ("reset", closed(close_reason="rst", closed_by="server"), ["reset (1)"]),
        ("reset", closed(close_reason="rst", outcome="refused"), []),
        ("reset", closed(close_reason="fin"), []),
    ],
)
def test_a_condition_is_found_or_not(condition, item, found):
    assert list(summary(item).found([condition])) == found


def test_ports_are_counted_in_bounded_memory():
    made = summary(*(closed("unknown", server_port=port) for port in range(1, 5000)))
    assert made.explanation(Totals(packets=9)) == (
        "0 messages: 4999 unknown on ports 1, 2, 3 and 997 more (try --decode-as 1=PROTO)"
    )
