"""Text lines, exactly as they are printed."""

from __future__ import annotations

import io
import re

import pytest
from handmade import MILLISECOND, START, answer_to, batch, captures, connection, frame, noticed, pub

from mqsniff.model import (
    ClosedItem,
    Exchange,
    ExchangeItem,
    Message,
    MessageItem,
    OpenedItem,
    Pending,
    RecordItem,
    Secret,
    Side,
    TopicItem,
    packet_id,
)
from mqsniff.sinks.text import TextSink
from mqsniff.sinks.textoptions import TextOptions
from mqsniff.tables.hashkey import HashKey
from mqsniff.tables.schemas import TABLES
from mqsniff.tables.values import Redaction

LINK = "127.0.0.1:57938 {} 127.0.0.1:4150"


def lines(*items, **options):
    stream = io.BytesIO()
    sink = TextSink(stream, captures(), TextOptions(**options))
    for item in items:
        sink.write(item)
    sink.close()
    return stream.getvalue().decode().splitlines()


def line(item, **options):
    """The one line of an item, without time and connection."""
    _, made = lines(item, **options)
    return re.split("4150 +", made, maxsplit=1)[1]


def test_a_conversation_reads_like_this():
    info, question = connection(), pub(frame=frame(packet=7))
    answer, _ = answer_to(question, notes=(("data", "OK"),))
    delivery = Message(frame(Side.SERVER, 10, 76, at=MILLISECOND), "nsq", "MESSAGE", "push", {}, group="ch")
    delivery.topics, delivery.correlation, delivery.notes = ("retry",), "18a2f48040acf000", (("attempts", 2),)
    info.client_bytes, info.client_packets, info.server_bytes, info.server_packets = 54, 9, 86, 6
    info.close_reason, info.closed_by, info.identity.client_software = "fin", "client", "go-nsq/1.1.0"
    items = [
        OpenedItem(info, START),
        MessageItem(info, question),
        MessageItem(info, answer, 78_000),
        MessageItem(info, delivery),
    ]
    assert lines(*items, noticed(message=question), ClosedItem(info)) == [
        "2026-11-21",
        "09:38:50.702681Z  127.0.0.1:57938 - 127.0.0.1:4150  tcp  open",
        "09:38:50.702681Z  127.0.0.1:57938 > 127.0.0.1:4150  nsq  PUB        retry  50 B",
        "09:38:50.702760Z  127.0.0.1:57938 < 127.0.0.1:4150  nsq  RESPONSE   in 0.078 ms  to PUB  data=OK  10 B",
        (
            "09:38:50.703681Z  127.0.0.1:57938 < 127.0.0.1:4150  nsq  MESSAGE    retry  group=ch  attempts=2  76 B"
            "  id=18a2f48040acf000"
        ),
        (
            "09:38:50.703681Z  127.0.0.1:57938 > 127.0.0.1:4150  nsq  ! out_of_range  at 09:38:50.702681Z  info in PUB:"
            " RDY count 9999 is over 2500 (count)  packet 12"
        ),
        (
            "09:38:52.202681Z  127.0.0.1:57938 - 127.0.0.1:4150  nsq  close      fin by client  after 1.500 s"
            "  client 54 B in 9 packets  server 86 B in 6 packets  client=go-nsq/1.1.0"
        ),
    ]


def test_lines_that_are_not_messages_never_go_back_in_time():
    early, late = connection(last_ts_ns=START + 2), connection("c2", first_ts_ns=START + 3 * MILLISECOND)
    late.last_ts_ns = START + 86_400_000 * MILLISECOND
    answer = Message(frame(Side.SERVER, at=2500 * MILLISECOND), "nsq", "RESPONSE", "response", {})
    items = [
        MessageItem(early, answer),
        OpenedItem(late, START + 3 * MILLISECOND),
        noticed(),
        ClosedItem(late),
        ClosedItem(early),
    ]
    made = [text.replace("127.0.0.1:57938 - 127.0.0.1:4150  ", "") for text in lines(*items)]
    assert made[2] == "09:38:53.202681Z  tcp  open       since 09:38:50.705681Z"
    assert made[3].startswith("09:38:53.202681Z")
    assert "  at 09:38:50.702681Z  " in made[3]
    assert made[4] == "2026-11-22"
    assert made[5].startswith("09:38:50.702681Z  nsq  close      after 86399.997 s")
    assert made[6].startswith("09:38:50.702681Z  nsq  close      after 0.000 s  at 2026-11-21 09:38:50.702681Z")


def test_a_handshake_that_took_long_is_told_with_its_beginning():
    made = lines(OpenedItem(connection(), START + 3000 * MILLISECOND))
    assert made[1].endswith("tcp  open       since 09:38:50.702681Z")


def test_what_the_network_did_is_told_at_the_close_and_line_by_line_where_asked_for():
    info = connection(server_zero_windows=2, client_longest_stall_ns=1_204_500_000, retransmitted_segments=3)
    info.server_longest_stall_ns = 60_000
    items = (noticed("retransmission", "info", connection=info), ClosedItem(info))
    (_, made) = lines(*items)
    assert "  3 retransmitted  2 zero windows of the server  client held up for 1204.500 ms  after" in made
    assert "server held up" not in made
    assert len(lines(*items, network=True)) == 3


def test_a_settlement_tells_how_long_after_the_delivery_it_came():
    delivery = Message(frame(Side.SERVER), "nsq", "MESSAGE", "push", {})
    fin = Message(frame(at=500_000), "nsq", "FIN", "oneway", {}, correlation="18a2")
    pending = Pending("18a2", "settlement", delivery.frame, message=delivery, answer=fin)
    fin.answered = (pending,)
    assert line(MessageItem(connection(), fin, 499_000)) == "nsq  FIN        after 0.499 ms  50 B  id=18a2"


def test_an_answer_names_its_question_though_more_answers_are_to_come():
    question = Message(frame(), "nsq", "IDENTIFY", "request", {})
    answer, _ = answer_to(question)
    answer.resolved = ()
    assert line(MessageItem(connection(), answer, 78_000)) == "nsq  RESPONSE   in 0.078 ms  to IDENTIFY  10 B"


def test_a_narrow_terminal_gets_short_names_and_the_ends_once():
    info = connection(number=3)
    assert lines(OpenedItem(info, START), MessageItem(info, pub()), ClosedItem(info), width=80)[1:] == [
        "09:38:50.702681Z  c3 - 4150  open       127.0.0.1:57938 - 127.0.0.1:4150",
        "09:38:50.702681Z  c3 > 4150  PUB        retry  50 B",
        "09:38:52.202681Z  c3 - 4150  close      after 1.500 s  nsq  client 0 B in 0 pac…",
    ]


def test_wide_lines_have_the_short_name_too():
    (_, made) = lines(MessageItem(connection(number=12), pub()))
    assert made == "09:38:50.702681Z  c12 127.0.0.1:57938 > 127.0.0.1:4150  nsq  PUB        retry  50 B"


def failure(at, name="E_FIN_FAILED", **fields):
    request = Message(frame(at=at), "nsq", "FIN", "request", {}, topics=("retry",), correlation=str(at))
    answer, _ = answer_to(request, **fields)
    answer.error_name, answer.error_count, answer.name = name, 1, "ERROR"
    answer.frame.first_ts_ns = START + at + 50_000
    return MessageItem(connection(), request), MessageItem(connection(), answer, 50_000)


def failures(count):
    return [item for n in range(count) for item in failure(n * 3 * MILLISECOND)]


def test_equal_errors_in_a_row_are_one_line_more():
    made = lines(*failures(5), MessageItem(connection(), pub()))
    assert [text.split("nsq  ")[1] for text in made[1:]] == [
        "FIN        retry  50 B  id=0",
        "ERROR      E_FIN_FAILED  in 0.050 ms  to FIN  10 B",
        "ERROR      E_FIN_FAILED  x5 in 12 ms",
        "PUB        retry  50 B",
    ]


def test_a_request_that_was_held_back_is_told_when_it_fares_otherwise():
    other = failure(9 * MILLISECOND, "E_INVALID")
    made = lines(*failures(2), *other)
    assert [text.split("nsq  ")[1] for text in made[3:]] == [
        "ERROR      E_FIN_FAILED  x2 in 3.000 ms",
        "FIN        retry  50 B  id=9000000",
        "ERROR      E_INVALID  in 0.050 ms  to FIN  10 B",
    ]
    assert lines(*failures(2), other[0])[-1].endswith("id=9000000")


def test_under_bodies_nothing_is_folded():
    assert len([text for text in lines(*failures(5), body=True) if "E_FIN_FAILED" in text]) == 5


def test_a_live_view_tells_what_was_held_back_after_a_second(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("mqsniff.sinks.folding.time.monotonic", lambda: now[0])
    sink = TextSink(stream := io.BytesIO(), captures(), TextOptions(live=True))
    for item in failures(5)[:-1]:
        sink.write(item)
    sink.tick()
    assert b"x4" not in stream.getvalue()
    now[0] += 2
    sink.tick()
    assert b"x4 in 9.000 ms" in stream.getvalue()
    assert stream.getvalue().endswith(b"id=12000000\n")


def missing(status="unanswered", **fields):
    pending = Pending("pub", "answer", frame(), message=pub(frame=frame(packet=113), correlation="5"))
    pending.link = fields.pop("link", "answer")
    ended = {"ended_ns": START + 30_000 * MILLISECOND, "ended_by": Side.CLIENT} | fields
    return ExchangeItem(connection(), Exchange(pending, None, status, **ended))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (missing(), "NO ANSWER  after 29999.999 ms  retry  the client closed the connection"),
        (missing(was_reset=True), "NO ANSWER  after 29999.999 ms  retry  the client reset the connection"),
        (missing(ended_by=None), "NO ANSWER  after 29999.999 ms  retry  the other side went on"),
        (missing("pending"), "NO ANSWER YET  after 29999.999 ms  retry  the capture ended"),
        (missing("lost"), "ANSWER LOST  after 29999.999 ms  retry  by the capture"),
        (missing(link="settlement"), "NOT SETTLED  after 29999.999 ms  retry  the client closed the connection"),
    ],
)
def test_a_request_without_an_answer_has_a_line(item, expected):
    assert line(item) == f"nsq  PUB        {expected}  sent at 09:38:50.702681Z (#113)  id=5"


def test_requests_that_wait_for_no_answer_have_none():
    assert lines(missing("oneway"), missing("unseen"), missing("pending", link="settlement")) == []


def test_packets_stand_in_a_column_of_their_own():
    made = lines(OpenedItem(connection(), START), MessageItem(connection(), pub()), packets=True)
    assert made[1].startswith("09:38:50.702681Z  #1  127.0.0.1")
    assert made[2].startswith("09:38:50.702681Z  #7  127.0.0.1")


@pytest.mark.parametrize("width", [72, 80, 100])
def test_errors_and_latencies_are_whole_on_narrow_terminals(width):
    answer, _ = answer_to(pub(), topics=("a-topic-with-a-long-name",))
    answer.name, answer.version = "DescribeTransactions", 0
    answer.error_name, answer.error_count = "TRANSACTIONAL_ID_NOT_FOUND"[: width - 50], 1
    (_, made) = lines(MessageItem(connection(number=7), answer, 1_865_000), width=width)
    assert f"  {answer.error_name}  in 1.865 ms" in made
    assert len(made) <= width


def test_wide_wraps():
    answer, _ = answer_to(pub(), topics=("a-topic-with-a-long-name",), notes=(("remark", "x" * 30),))
    (_, *made) = lines(MessageItem(connection(number=7), answer, 1_865_000), width=70, wide=True)
    assert made == [
        "09:38:50.702760Z  c7 < 4150  RESPONSE   in 1.865 ms",
        "        a-topic-with-a-long-name  to PUB",
        "        remark=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  10 B",
    ]


def test_codes_have_names_under_their_message():
    message = pub(body={"error_code": 10, "topics": [{"error_code": 3, "n": 4}], "codes": [10]})

    def code_name(_, field, code):
        return f"NAME_{code}" if field == "error_code" else None

    assert lines(MessageItem(connection(), message), body=True, code_name=code_name)[3:] == [
        "    error_code: 10 NAME_10",
        "    topics:",
        "      - error_code: 3 NAME_3",
        "        n: 4",
        "    codes: [10]",
    ]


def test_sides_that_turn_out_the_other_way_round_are_shown_so():
    info = connection()
    sink = TextSink(stream := io.BytesIO(), captures(), TextOptions())
    sink.write(OpenedItem(info, START))
    info.client_ip, info.client_port, info.server_ip, info.server_port = "10.0.0.2", 4150, "10.0.0.1", 999
    sink.write(MessageItem(info, pub()))
    assert "10.0.0.2:4150 > 10.0.0.1:999" in stream.getvalue().decode().splitlines()[-1]


def test_columns_stay_aligned_when_one_grows():
    long = connection("c2", client_ip="2001:db8::1234")
    made = lines(OpenedItem(connection(), START), OpenedItem(long, START), MessageItem(connection(), pub()))
    assert made[2:] == [
        "09:38:50.702681Z  [2001:db8::1234]:57938 - 127.0.0.1:4150  tcp  open",
        "09:38:50.702681Z  127.0.0.1:57938 > 127.0.0.1:4150         nsq  PUB        retry  50 B",
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"version": 12}, "nsq  PUB v12    retry  50 B"),
        ({"topics": ("a", "b", "c", "d", "e")}, "nsq  PUB        a,b,c,+2  50 B"),
        ({"topics": (), "topic_ids": ("AAAA",)}, "nsq  PUB        AAAA  50 B"),
        ({"error_code": 35, "error_name": "UNSUPPORTED_VERSION", "error_count": 1},
         "nsq  PUB        UNSUPPORTED_VERSION  retry  50 B"),
        ({"error_code": 35, "error_count": 3}, "nsq  PUB        error 35 (3 errors)  retry  50 B"),
        ({"error_code": 0, "error_name": "NONE", "error_count": 0}, "nsq  PUB        retry  50 B"),
        ({"notes": (("secret", Secret(b"hush")), ("n", 3), ("ok", True), ("text", "two words"))},
         'nsq  PUB        retry  secret=<redacted, 4 bytes>  n=3  ok=true  text="two words"  50 B'),
    ],
)  # fmt: skip
def test_what_matters_stands_in_the_line(fields, expected):
    assert line(MessageItem(connection(), pub(**fields))) == expected


HOSTILE = "x\x1b[2J\x1b[31m\r\n\u202e"


@pytest.mark.parametrize(
    "item",
    [
        MessageItem(connection(), pub(topics=(HOSTILE,))),
        MessageItem(connection(), pub(group=HOSTILE, correlation=HOSTILE)),
        MessageItem(connection(), pub(error_code=1, error_count=1, error_name=HOSTILE)),
        MessageItem(connection(), pub(notes=((HOSTILE, HOSTILE),))),
        MessageItem(connection(), pub(body={HOSTILE: [HOSTILE, {HOSTILE: HOSTILE.encode()}]})),
        MessageItem(connection(), Message(frame(), "nsq", HOSTILE, "request")),
        MessageItem(connection(), pub(records=(batch((HOSTILE.encode(), HOSTILE.encode()), message_id=HOSTILE),))),
        ClosedItem(connection(tls_server_name=HOSTILE, close_reason=HOSTILE)),
        noticed(detail=HOSTILE, path=HOSTILE),
        TopicItem("kafka", HOSTILE, HOSTILE, START),
        RecordItem(connection(), pub(), batch((None, HOSTILE.encode()), topic=HOSTILE)),
    ],
)
@pytest.mark.parametrize("width", [None, 80, 200])
def test_hostile_text_reaches_no_terminal(item, width):
    made = lines(item, body=True, records=True, width=width, tables=tuple(TABLES))
    assert any("\\x1b[2J" in text for text in made) or width == 80
    for text in made:
        assert text.isprintable()


def test_verbose_shows_place_and_body():
    assert lines(MessageItem(connection(), pub()), body=True)[2:] == [
        "    packets 7 to 8, stream offset 4",
        '    topic: "retry"',
        "    body:",
        "      size: 40",
    ]


KEY = HashKey(b"a key of a test, long enough")
ABC = f'{{"redacted":3,"hmac_sha256":"{KEY.hash(b"abc")}"}}'


def test_records_stand_under_their_message():
    made = batch((b"k", b"v" * 300), (None, b"\xff"), partition=1)
    made.columns = {"offset": [5, 6]}
    made.headers = [[("trace", b"abc")], []]
    shown, hidden = Redaction(max_bytes=8), Redaction(payload=False, hash_key=KEY)
    assert lines(MessageItem(connection(), pub(records=(made,))), records=True, shown=shown)[2:] == [
        '    - partition=1  offset=5  key="k"  value="vvvvvvvv"…  300 B  trace="abc"',
        "    - partition=1  offset=6  value=<base64 /w==>  1 B",
    ]
    assert lines(MessageItem(connection(), pub(records=(made,))), records=True, shown=hidden)[2:] == [
        f"    - partition=1  offset=5  key=<redacted>  value=<redacted>  300 B  trace={ABC}",
        "    - partition=1  offset=6  value=<redacted>  1 B",
    ]


def test_a_value_that_is_null_is_told_from_an_empty_one():
    made = batch((b"k", None), (b"k", b""))
    assert lines(MessageItem(connection(), pub(records=(made,))), records=True)[2:] == [
        '    - key="k"  value=null',
        '    - key="k"  value=""  0 B',
    ]


def test_a_problem_of_an_input_needs_no_connection():
    assert lines(noticed("input", "error", connection=None, ts_ns=None, packet=None, detail="cut", path="")) == [
        "input  ! input    error: cut"
    ]
    whole_capture = noticed(
        "input", "error", connection=None, ts_ns=None, packet=packet_id(1, 0), detail="cut", path=""
    )
    assert lines(whole_capture) == ["input  ! input    error: cut  b.pcap"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"outcome": "refused", "protocol": "unknown"}, "tcp  REFUSED    after 1.500 s"),
        ({"open_at_end": True}, "nsq  end of capture  after 1.500 s"),
        ({"open_at_end": True, "forgotten": True}, "nsq  forgotten  after 1.500 s"),
        ({"outcome": "no answer", "close_reason": "rst"}, "tcp  NO ANSWER  after 1.500 s"),
        ({"close_reason": "rst", "closed_by": "server"}, "nsq  RESET      rst by server  after 1.500 s"),
        ({"close_reason": "keepalive missed"}, "nsq  TIME-OUT   keepalive missed  after 1.500 s"),
        ({"last_ts_ns": START - 1}, "nsq  close      after 0.000 s"),
    ],
)
def test_a_close_tells_what_the_connection_was(fields, expected):
    assert line(ClosedItem(connection(**fields))).startswith(expected + "  client 0 B in 0 packets")


def test_a_close_tells_what_was_wrong_with_it():
    info = connection(
        gap_bytes=7, undecoded_bytes=8, retransmitted_segments=1, sides_seen="client", tls_version="TLS 1.3"
    )
    assert line(ClosedItem(info)) == (
        "nsq  close      only the client seen  7 B lost  8 B undecoded  1 retransmitted  after 1.500 s"
        '  client 0 B in 0 packets  server 0 B in 0 packets  tls="TLS 1.3"'
    )


def test_tables_without_a_form_of_their_own_are_for_people_too():
    answer, pending = answer_to(pub(version=3, correlation="5"), topics=("retry",), topic_ids=("AAAA",))
    answer.error_name, answer.error_code, answer.error_count = "E_BAD", 5, 1
    item = ExchangeItem(connection(), Exchange(pending, answer, "error", 78_000, 90_000, 0, 78_000))
    assert line(item, tables=["exchanges"]) == (
        "nsq  exchanges:  PUB v3  error  E_BAD  latency=0.078 ms  retry  link=answer  correlation=5"
        "  sent=09:38:50.702681Z  request_capture=a.pcap  request_packet=#7  request_size=50  response_packet=#9"
        "  response_size=10  total=0.090 ms  response_name=RESPONSE"
    ).replace("  link=answer", "")


def test_only_chosen_tables_are_shown():
    items = [OpenedItem(connection(), START), MessageItem(connection(), pub()), noticed(), ClosedItem(connection())]
    assert [text.split()[5] for text in lines(*items, tables=["problems"])[1:]] == ["!"]
    assert [text.split()[5] for text in lines(*items, tables=["connections"])[1:]] == ["open", "close"]


def test_an_encoding_without_the_character_gets_an_escape():
    made = lines(MessageItem(connection(), pub(topics=("größe",))), encoding="ascii")
    assert "gr\\xf6\\xdfe" in made[1]
