"""A connection that talks: layers, upgrades and exchanges around a toy dissector."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toymq import ToyMq, chunk, flip, gap, make_xor

from mqsniff.decode.layers import Layers
from mqsniff.decode.observer import LayersView
from mqsniff.decode.session import ProtocolSession, SessionEnd
from mqsniff.dissector import NO_FRAME, USUAL, WAIT_PEER, WITH_RECORDS, LayerChange, Settings
from mqsniff.limits import Limits
from mqsniff.model import (
    Chunk,
    ConnectionInfo,
    Exchange,
    ExchangeItem,
    Frame,
    Gap,
    Mark,
    Message,
    MessageItem,
    Problem,
    ProblemItem,
    RecordBatch,
    RecordItem,
    Side,
    Skipped,
    Span,
    TlsStart,
    Undecoded,
    Upgrade,
)
from mqsniff.spec.wire import Malformed


def talk(dissector: type[ToyMq] = ToyMq) -> tuple[ProtocolSession, ConnectionInfo]:
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(dissector(Settings()), Settings(), info)
    talking.begin(in_step=True)
    return talking, info


def told(items) -> list:
    out = []
    for item in items:
        match item:
            case MessageItem():
                out.append((item.message.name, item.message.frame.offset, item.message.body["data"]))
            case ExchangeItem():
                out.append(("exchange", item.exchange.status))
            case ProblemItem():
                out.append((item.problem.kind, item.problem.size))
    return out


def run(*events: Chunk | Gap, dissector: type[ToyMq] = ToyMq) -> tuple[list, ConnectionInfo]:
    talking, info = talk(dissector)
    out = [row for event in events for row in told(talking.take(event))]
    for side in Side:
        out += told(talking.close(side))
    return out + told(talking.end(SessionEnd(0), seen=(True, True))), info


def test_questions_and_answers_become_exchanges():
    out, _ = run(chunk(b"F\x01q"), chunk(b"F\x01a", side=Side.SERVER, packet=1))
    assert out == [("F", 0, b"q"), ("F", 0, b"a"), ("exchange", "ok")]


def test_an_upgrade_takes_back_what_was_fed_already():
    out, _ = run(chunk(b"U\x00" + flip(b"F\x01xF\x00")))
    assert out[:3] == [("U", 0, b""), ("F", 2, b"x"), ("F", 5, b"")]


def test_layers_stack_within_one_packet():
    out, _ = run(chunk(b"U\x00" + flip(b"U\x00" + flip(b"F\x01y"))))
    assert out[:3] == [("U", 0, b""), ("U", 2, b""), ("F", 4, b"y")]


@given(cuts=st.sets(st.integers(1, 20)))
def test_any_cut_of_an_upgraded_stream_gives_the_same(cuts):
    data = b"F\x01aU\x00" + flip(b"F\x02bcU\x00" + flip(b"F\x03def"))
    events, at = [], 0
    for stop in sorted({*(cut for cut in cuts if cut < len(data)), len(data)}):
        events.append(Chunk(Side.CLIENT, at, data[at:stop], [Mark(n, n, n, n) for n in range(at, stop)]))
        at = stop
    out, _ = run(*events)
    assert [row for row in out if row[0] in "FU"] == [
        ("F", 0, b"a"),
        ("U", 3, b""),
        ("F", 5, b"bc"),
        ("U", 9, b""),
        ("F", 11, b"def"),
    ]


@pytest.mark.parametrize("collect", [list, tuple, iter])
def test_what_kind_of_iterable_a_dissector_returns_means_nothing(collect):
    class Collecting(ToyMq):
        def feed(self, chunk):
            return collect([*super().feed(chunk)])

        def gap(self, gap):
            return collect([*super().gap(gap)])

        def close(self, side):
            return collect([*super().close(side)])

        def decode(self, frame):
            return collect([*super().decode(frame)])

    events = [chunk(b"F\x01q"), chunk(b"F\x01aF\x00", side=Side.SERVER, packet=1), gap(3, 2, packet=2), chunk(b"F", 5)]
    assert run(*events, dissector=Collecting) == run(*events)


class Hoarding(ToyMq):
    """Gives back what waited in pieces, as a side does that had to wait after gaps."""

    def hand_back(self, side, offset):
        return [
            Chunk(side, back.offset + at, back.data[at : at + 3], back.marks[:1])
            for back in super().hand_back(side, offset)
            for at in range(0, len(back.data), 3)
        ]


def test_what_an_upgrade_takes_back_in_pieces_stays_in_order():
    out, _ = run(chunk(b"U\x00" + flip(b"F\x05abcdeU\x00" + flip(b"F\x04fghi"))), dissector=Hoarding)
    assert out[:4] == [("U", 0, b""), ("F", 2, b"abcde"), ("U", 9, b""), ("F", 11, b"fghi")]


class Patient(ToyMq):
    """Waits for the peer where no frame starts, and then takes the rest for another layer."""

    def frame_size(self, side, head):
        if self.probe(side, head) is not NO_FRAME:
            return self.probe(side, head)
        return WAIT_PEER if self.may_wait(side) else LayerChange(make_xor, 1)


def test_a_side_that_waited_to_the_end_ends_in_its_new_layer():
    out, info = run(chunk(b"F\x01a" + flip(b"F\x00F\x05b")), dissector=Patient)
    assert [row for row in out if row[0] in ("F", "truncated")] == [
        ("F", 0, b"a"),
        ("F", 3, b""),
        ("F", 5, b"b"),
        ("truncated", 4),
    ]
    assert (info.client_plain_bytes, info.undecoded_bytes) == (8, 0)


def test_plain_bytes_keep_the_packet_they_came_with():
    talking, _ = talk()
    data = b"U\x00" + flip(b"F\x00F\x00")
    marks = [Mark(0, 10, 1, 1), Mark(4, 20, 2, 2)]
    frames = [i.message.frame for i in talking.take(Chunk(Side.CLIENT, 0, data, marks)) if isinstance(i, MessageItem)]
    assert [(f.first_packet, f.first_ts_ns) for f in frames] == [(1, 10), (1, 10), (2, 20)]


def test_a_loss_below_a_layer_is_a_gap_above_it():
    out, info = run(chunk(b"U\x00" + flip(b"F\x05ab")), gap(6, 2), chunk(flip(b"eF\x00"), 8))
    assert out[:4] == [("U", 0, b""), ("gap", 0), ("F", 2, b"ab"), ("truncated", 3)]
    assert out[4] == ("F", 9, b"")
    assert info.undecoded_bytes == 1  # the byte after the hole


def test_a_dark_layer_says_how_much_stayed_dark():
    out, info = run(chunk(b"U\x00" + flip(b"F\x00") + b"\xffxyz"), chunk(b"more", 8))
    assert ("F", 2, b"") in out
    assert ("codec", 8) in out
    assert info.undecoded_bytes == 8


def test_tls_is_dark_until_clear_text_follows_an_alert():
    record, alert = bytes.fromhex("160303000401020304"), bytes.fromhex("15030300020228")
    out, info = run(chunk(b"T\x00" + record + alert + b"F\x01z"))
    assert out[:2] == [("T", 0, b""), ("F", 2, b"z")]
    assert ("tls", len(record + alert)) in out
    assert info.undecoded_bytes == len(record + alert)


def test_skipped_bytes_are_undecoded():
    out, info = run(chunk(b"F\x00???F\x00F\x00"))
    assert out[:2] == [("F", 0, b""), ("undecoded", 3)]
    assert info.undecoded_bytes == 3


class Forgetful(ToyMq):
    """Claims nothing that was fed."""

    def feed(self, chunk):
        return iter(())


class Failing(ToyMq):
    """Raises at its third feed, before it has said anything."""

    fed = 0

    def feed(self, chunk):
        self.fed += 1
        if self.fed == 3:
            raise RuntimeError
        return super().feed(chunk)


def test_bytes_that_a_dissector_does_not_account_for_are_undecoded():
    out, info = run(chunk(b"F\x01a"), chunk(b"F\x00", side=Side.SERVER), dissector=Forgetful)
    assert out == [("undecoded", 3), ("undecoded", 2)]
    assert info.undecoded_bytes == 5


def test_a_dissector_that_raises_leaves_the_rest_of_its_connection_undecoded():
    out, info = run(*(chunk(b"F\x01a", at, packet=at) for at in (0, 3, 6, 9)), dissector=Failing)
    assert [row for row in out if row[0] != "exchange"] == [
        ("F", 0, b"a"),
        ("F", 3, b"a"),
        ("internal", None),
        ("undecoded", 6),
    ]
    assert info.undecoded_bytes == 6


def test_a_gap_that_a_layer_begins_in_is_a_loss_of_both():
    layers = Layers(Limits())
    layers.push(Upgrade({Side.CLIENT: 4}, make_xor))
    assert [(event.offset, event.length) for event in layers.through(gap(2, 5))] == [(2, 2), (4, 3)]


def test_an_answer_to_nothing_is_unmatched():
    out, _ = run(chunk(b"F\x00", side=Side.SERVER))
    assert out == [("F", 0, b""), ("unmatched", None), ("exchange", "unasked")]


@pytest.mark.parametrize(
    ("open_at_end", "seen", "status"), [(True, True, "pending"), (False, True, "unanswered"), (True, False, "unseen")]
)
def test_what_was_never_answered_says_why(open_at_end, seen, status):
    talking, _ = talk()
    list(talking.take(chunk(b"F\x00")))
    assert told(talking.end(SessionEnd(0, open_at_end), seen=(True, seen))) == [("exchange", status)]


def test_a_message_forgets_what_it_ended_once_its_items_were_taken():
    talking, _ = talk()
    (question,) = (item.message for item in talking.take(chunk(b"F\x01q")) if isinstance(item, MessageItem))
    assert question.pending
    (answer,) = (
        item.message
        for item in talking.take(chunk(b"F\x01a", side=Side.SERVER, packet=1))
        if isinstance(item, MessageItem)
    )
    assert question.pending == ()
    assert [pending.message for pending in answer.resolved] == [question]
    list(talking.take(chunk(b"F\x01q", 3, packet=2)))
    assert answer.resolved == ()


def test_without_exchanges_an_answer_to_nothing_is_unmatched_all_the_same():
    talking = ProtocolSession(
        ToyMq(Settings()),
        Settings(wanted=USUAL - {"exchanges"}),
        ConnectionInfo("id", "", "10.0.0.1", 1, "", 7777, 0, 1),
    )
    talking.begin(in_step=True)
    sides = (Side.CLIENT, Side.SERVER, Side.SERVER, Side.CLIENT)
    out = [row for at, side in enumerate(sides) for row in told(talking.take(chunk(b"F\x00", at // 2 * 2, side, at)))]
    assert out == [("F", 0, b""), ("F", 0, b""), ("F", 2, b""), ("unmatched", None), ("F", 2, b"")]
    assert told(talking.end(SessionEnd(0), seen=(True, True))) == [("exchange", "unanswered")]


@pytest.mark.parametrize(("where", "status"), [((0, 5, Side.SERVER), "lost"), ((2, 5, Side.CLIENT), "unanswered")])
def test_a_question_whose_answer_the_capture_lost_is_lost(where, status):
    out, _ = run(chunk(b"F\0"), gap(*where))
    assert [row for row in out if row[0] == "exchange"] == [("exchange", status)]


def test_a_gap_before_a_question_lost_no_answer_to_it():
    out, _ = run(gap(0, 5, Side.SERVER), chunk(b"F\0"))
    assert [row for row in out if row[0] == "exchange"] == [("exchange", "unanswered")]


@pytest.mark.parametrize(("asked", "replied", "latency"), [(1, 4, 3), (1, 1, 0), (4, 1, None)])
def test_an_answer_tells_its_latency(asked, replied, latency):
    talking, _ = talk()
    events = chunk(b"F\x01q", packet=asked), chunk(b"F\x01a", side=Side.SERVER, packet=replied)
    items = [item for event in events for item in talking.take(event) if isinstance(item, MessageItem)]
    assert [item.latency_ns for item in items] == [None, latency]


def test_the_latency_is_of_the_request_that_has_its_first_answer():
    class Twice(ToyMq):
        """Every question gets two answers."""

        def expect_reply(self, key, *more, **options):
            return super().expect_reply(key, *more, **options | {"expects": 2})

    talking, _ = talk(Twice)
    events = [chunk(b"F\0"), chunk(b"F\0", side=Side.SERVER, packet=5), chunk(b"F\0", 2, Side.SERVER, packet=9)]
    items = [item for event in events for item in talking.take(event) if isinstance(item, MessageItem)]
    assert [item.latency_ns for item in items] == [None, 5, None]


class Damaged(ToyMq):
    """Cannot decode its "B" frames."""

    def decode(self, frame):
        if frame.data[:1] == b"B":
            raise Malformed("no such thing")
        return super().decode(frame)


def test_lost_bytes_of_a_frame_that_cannot_be_decoded_are_not_undecoded():
    events = chunk(b"F\0B\x05a"), gap(5, 2, packet=1), chunk(b"deF\0", 7, packet=2)
    out, info = run(*events, dissector=Damaged)
    assert [row for row in out if row[0] != "exchange"] == [
        ("F", 0, b""),
        ("malformed", 7),
        ("undecoded", 5),
        ("F", 9, b""),
    ]
    assert info.undecoded_bytes == 5


class Upgrading(Patient):
    """Waits for the server, whose "U" switches a layer on for both sides: from byte 2 of either."""

    def decode(self, frame):
        for event in super().decode(frame):
            yield Upgrade(dict.fromkeys(Side, 2), make_xor) if isinstance(event, Upgrade) else event


def test_a_side_that_is_open_goes_on_in_the_layer_after_its_peer_closed():
    talking, _ = talk(Upgrading)
    out = told(talking.take(chunk(b"F\0" + flip(b"F\x02a"))))
    out += told(talking.take(chunk(b"U\0", side=Side.SERVER, packet=1)))
    out += told(talking.close(Side.SERVER))
    out += told(talking.take(chunk(flip(b"bF\0"), 5, packet=2)))
    assert [row for row in out if row[0] != "exchange"] == [
        ("F", 0, b""),
        ("U", 0, b""),
        ("F", 2, b"ab"),
        ("F", 6, b""),
    ]


class Publishing(ToyMq):
    """Its requests have records."""

    def decode(self, frame):
        for event in super().decode(frame):
            if isinstance(event, Message) and frame.side is Side.CLIENT:
                event.records = (RecordBatch(b"ab", 2),)
            yield event


@pytest.mark.parametrize("wanted", [WITH_RECORDS, WITH_RECORDS - {"exchanges"}])
def test_records_go_out_with_the_answer_whether_or_not_exchanges_are_wanted(wanted):
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "", 7777, 0, 1)
    talking = ProtocolSession(Publishing(Settings()), Settings(wanted=wanted), info)
    talking.begin(in_step=True)
    asked = [*talking.take(chunk(b"F\0"))]
    answered = [*talking.take(chunk(b"F\0", side=Side.SERVER, packet=1))]
    assert [type(item) for item in asked] == [MessageItem]
    assert [item.batch.constant["ack"] for item in answered if isinstance(item, RecordItem)] == ["acked"]
    assert any(isinstance(item, ExchangeItem) for item in answered) is ("exchanges" in wanted)


@pytest.mark.parametrize(("own", "kinds"), [("checksum", ["checksum", "unmatched"]), ("unmatched", ["unmatched"])])
def test_an_answer_to_nothing_is_unmatched_once(own, kinds):
    class Noting(ToyMq):
        def decode(self, frame):
            for event in super().decode(frame):
                event.problems.append(Problem(own, "warning", "said by the dissector"))
                yield event

    out, _ = run(chunk(b"F\0", side=Side.SERVER), dissector=Noting)
    assert [kind for kind, size in out[1:-1] if size is None] == kinds


@pytest.mark.parametrize("wanted", [USUAL, USUAL - {"exchanges"}])
def test_an_answer_to_nothing_says_so_in_whole(wanted):
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(ToyMq(Settings()), Settings(wanted=wanted), info)
    talking.begin(in_step=True)
    message, odd, *_ = talking.take(chunk(b"F\0", side=Side.SERVER, packet=3))
    unmatched = Problem("unmatched", "warning", "an answer without its request in the capture")
    assert odd == ProblemItem(info, unmatched, 1003, 3, message.message)


class Watching:
    """An observer that notes what came out of layers."""

    def __init__(self):
        self.opened = []

    def see_opened(self, info, side, below, above):
        self.opened.append((info.connection_id, side, below, above))


def test_an_observer_is_shown_which_bytes_gave_which():
    watching, info = Watching(), ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    layers = Layers(Limits(), view=LayersView(watching, info))
    layers.push(Upgrade({Side.CLIENT: 2}, "deflate"))
    deflate = zlib.compressobj(wbits=-15)
    data = deflate.compress(b"first") + deflate.flush(zlib.Z_SYNC_FLUSH)
    data2 = deflate.compress(b"second") + deflate.flush(zlib.Z_SYNC_FLUSH)
    for at, part in ((2, data[:1]), (3, data[1:]), (2 + len(data), data2)):
        list(layers.through(chunk(part, at), 0))
    first = min(below[0] for _, _, below, _ in watching.opened)
    assert (first, watching.opened[0][0], watching.opened[0][3][0]) == (2, "id", 2)
    assert watching.opened[-1] == ("id", Side.CLIENT, (2 + len(data), 2 + len(data) + len(data2)), (7, 13))


def test_a_chunk_that_a_layer_begins_in_is_divided():
    class Ahead(ToyMq):
        """Its client says where the layer of the server begins."""

        def decode(self, frame):
            yield from super().decode(frame)
            if frame.side is Side.CLIENT:
                yield Upgrade({Side.SERVER: 5}, make_xor)

    data = b"F\x01aF\x00" + flip(b"F\x01b")
    marks = [Mark(0, 10, 1, 1), Mark(3, 20, 2, 2), Mark(5, 30, 3, 3), Mark(6, 40, 4, 4)]
    talking, _ = talk(Ahead)
    assert told(talking.take(chunk(b"F\x00"))) == [("F", 0, b"")]
    items = [item for item in talking.take(Chunk(Side.SERVER, 0, data, marks)) if isinstance(item, MessageItem)]
    assert told(items) == [("F", 0, b"a"), ("F", 3, b""), ("F", 5, b"b")]
    assert [item.message.frame.last_packet for item in items] == [1, 2, 4]


# ---- whole items


class Speaking(ToyMq):
    """Its messages have a problem each, and those of its client records."""

    def decode(self, frame):
        for event in super().decode(frame):
            event.problems.append(Problem("format", "info", f"of the {frame.side.text}"))
            if frame.side is Side.CLIENT:
                event.records = (RecordBatch(b"ab", 2),)
            yield event


@pytest.mark.parametrize("collect", [list, iter])
def test_a_message_comes_before_its_problems_its_exchanges_and_its_records(collect):
    class Collecting(Speaking):
        def feed(self, chunk):
            return collect([*super().feed(chunk)])

    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(Collecting(Settings()), Settings(wanted=WITH_RECORDS), info)
    talking.begin(in_step=True)
    (asked, odd) = talking.take(chunk(b"F\x01q", packet=1))
    request = asked.message
    assert asked == MessageItem(info, request)
    assert odd == ProblemItem(info, request.problems[0], 1001, 1, request)
    assert (odd.problem.detail, talking.now) == ("of the client", 1)
    answered, odd, exchanged, recorded = talking.take(chunk(b"F\x01a", side=Side.SERVER, packet=4))
    reply = answered.message
    assert answered == MessageItem(info, reply, 3)
    assert odd == ProblemItem(info, reply.problems[0], 1004, 4, reply)
    assert isinstance(exchanged, ExchangeItem)
    asking = exchanged.exchange.pending
    assert exchanged == ExchangeItem(info, Exchange(asking, reply, "ok", 3, 3, 0, 3))
    assert recorded == RecordItem(info, request, RecordBatch(b"ab", 2, {"ack": "acked"}))
    assert talking.now == 4


def test_without_exchanges_a_message_comes_with_its_problems_and_no_latency():
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(Odd(Settings()), Settings(wanted=USUAL - {"exchanges"}), info)
    talking.begin(in_step=True)
    for side, packet in ((Side.CLIENT, 1), (Side.SERVER, 4)):
        message, odd = talking.take(chunk(b"F\x01q", side=side, packet=packet))
        assert message == MessageItem(info, message.message)
        assert odd == ProblemItem(info, message.message.problems[0], 1000 + packet, packet, message.message)


class Odd(ToyMq):
    """Its messages have a problem each, and come one at a time."""

    def feed(self, chunk):
        events = [*super().feed(chunk)]
        for event in events:
            event.problems.append(Problem("format", "info", "odd"))
        return events


@pytest.mark.parametrize("wanted", [USUAL, USUAL - {"exchanges"}])
def test_a_request_that_its_peer_passed_over_is_told_whether_or_not_exchanges_are_wanted(wanted):
    class Skipping(ToyMq):
        """Its server answers the last request; those before get no answer any more."""

        def decode(self, frame):
            if frame.side is Side.CLIENT:
                self.expect_reply(frame.data[2:])
            else:
                self.reply_to(frame.data[2:])
            yield Message(frame, "toymq", "F", "response" if frame.side else "request", {"data": frame.data[2:]})

    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(Skipping(Settings()), Settings(wanted=wanted), info)
    talking.begin(in_step=True)
    list(talking.take(chunk(b"F\x01aF\x01b")))
    answered = [*talking.take(chunk(b"F\x01b", side=Side.SERVER, packet=3))]
    left = [*talking.end(SessionEnd(2000, by=Side.SERVER, was_reset=True), seen=(True, True))]
    exchanges = [item.exchange for item in (*answered, *left) if isinstance(item, ExchangeItem)]
    unanswered = [exchange for exchange in exchanges if exchange.status == "unanswered"]
    assert [exchange.pending.key for exchange in unanswered] == [b"a"]
    assert len(exchanges) == (2 if "exchanges" in wanted else 1)


def test_a_request_that_is_open_at_the_end_tells_when_and_by_whom_its_connection_ended():
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(Speaking(Settings()), Settings(wanted=WITH_RECORDS), info)
    talking.begin(in_step=True)
    message, _ = talking.take(chunk(b"F\x01q"))
    exchanged, recorded = talking.end(SessionEnd(5000, by=Side.SERVER, was_reset=True), seen=(True, True))
    assert isinstance(exchanged, ExchangeItem)
    asked = exchanged.exchange.pending
    assert exchanged.exchange == Exchange(
        asked, None, "unanswered", ended_ns=5000, ended_by=Side.SERVER, was_reset=True
    )
    assert recorded == RecordItem(info, message.message, RecordBatch(b"ab", 2, {"ack": "unseen"}))


def test_bytes_that_belong_to_no_frame_are_a_problem_at_their_place():
    talking, info = talk()
    list(talking.take(chunk(b"F\0")))
    items = [*talking.take(chunk(b"???F\0F\0", 2, packet=5))]
    (odd,) = [item for item in items if isinstance(item, ProblemItem)]
    detail = odd.problem.detail
    assert odd == ProblemItem(info, Problem("undecoded", "error", detail, "", Side.CLIENT, 2, 3), 1005, 5)
    assert info.undecoded_bytes == 3


def test_what_a_dissector_did_not_account_for_is_a_problem_of_each_side_without_a_place():
    talking, info = talk(Forgetful)
    list(talking.take(chunk(b"F\x01a")))
    list(talking.take(chunk(b"F\0", side=Side.SERVER)))
    assert list(talking.end(SessionEnd(0), seen=(True, True))) == [
        ProblemItem(
            info,
            Problem("undecoded", "error", f"{size} bytes that Forgetful did not account for", "", side, size=size),
            None,
            None,
        )
        for side, size in ((Side.CLIENT, 3), (Side.SERVER, 2))
    ]
    assert info.undecoded_bytes == 5


@pytest.mark.parametrize("error", [ValueError, SystemExit])
@pytest.mark.parametrize("call", ["feed", "gap", "close"])
def test_a_dissector_that_raises_is_told_without_a_place_and_never_called_again(error, call):
    class Raising(ToyMq):
        calls = 0

    def fail(*_):
        Raising.calls += 1
        raise error

    setattr(Raising, call, fail)
    talking, info = talk(Raising)
    events = {"feed": chunk(b"F\0"), "gap": gap(0, 5)}
    tell = (lambda: talking.close(Side.CLIENT)) if call == "close" else (lambda: talking.take(events[call]))
    detail = f"{error.__name__} in Raising: the connection is not decoded any further"
    assert list(tell()) == [ProblemItem(info, Problem("internal", "error", detail), None, None)]
    assert list(tell()) == []
    assert Raising.calls == 1


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_dissector_that_raises_between_two_events_keeps_those_before(error):
    class Ceasing(ToyMq):
        def feed(self, chunk):
            yield Skipped(chunk.side, 0, 1, "noise")
            raise error

    talking, info = talk(Ceasing)
    items = list(talking.take(chunk(b"F\0")))
    detail = f"{error.__name__} in Ceasing: the connection is not decoded any further"
    assert [type(item) for item in items] == [ProblemItem, ProblemItem]
    assert items[1] == ProblemItem(info, Problem("internal", "error", detail), None, None)
    assert list(talking.take(chunk(b"F\0", 2))) == []


def test_what_is_no_event_ends_the_decoding():
    class Strange(ToyMq):
        def feed(self, chunk):
            yield "no event"

    talking, info = talk(Strange)
    detail = "TypeError in Strange: the connection is not decoded any further"
    assert list(talking.take(chunk(b"F\0"))) == [ProblemItem(info, Problem("internal", "error", detail), None, None)]


def test_a_problem_of_the_dissector_itself_has_the_place_that_it_tells():
    class Noting(ToyMq):
        def feed(self, chunk):
            yield Problem("limit", "info", "noted", ts_ns=7, packet=8)

    talking, info = talk(Noting)
    noted = Problem("limit", "info", "noted", ts_ns=7, packet=8)
    assert list(talking.take(chunk(b"F\0"))) == [ProblemItem(info, noted, 7, 8)]


def test_a_layer_that_nobody_knows_is_told_and_changes_nothing():
    class Reaching(ToyMq):
        def decode(self, frame):
            yield from super().decode(frame)
            yield Upgrade({frame.side: 2}, "no layer")

    talking, info = talk(Reaching)
    _, odd = talking.take(chunk(b"F\0"))
    assert odd == ProblemItem(info, Problem("internal", "error", "no layer is called no layer"), None, None)
    assert (info.layer_starts, info.decompressed, info.tls_start) == ({}, False, None)


def test_layers_are_noted_in_the_connection_by_where_they_begin():
    talking, info = talk(Upgrading)
    list(talking.take(chunk(b"F\0" + flip(b"F\x02a"))))
    list(talking.take(chunk(b"U\0", side=Side.SERVER, packet=1)))
    assert (info.layer_starts, info.decompressed, info.tls_start) == ({Side.CLIENT: 2, Side.SERVER: 2}, True, None)
    list(talking.end(SessionEnd(0), seen=(True, True)))
    assert (info.client_plain_bytes, info.server_plain_bytes, info.unread_at) == (5, 2, {})


def test_a_side_without_a_layer_has_no_plain_bytes():
    _, info = run(chunk(b"U\x00" + flip(b"F\0")), chunk(b"F\0", side=Side.SERVER))
    assert (info.client_plain_bytes, info.server_plain_bytes, info.layer_starts) == (4, None, {Side.CLIENT: 2})


def test_tls_is_noted_by_where_it_begins_and_unread_from_there():
    record = bytes.fromhex("160303000401020304")
    _, info = run(chunk(b"T\x00" + record))
    assert info.tls_start == TlsStart({Side.CLIENT: 2}, upgraded=True)
    assert (info.layer_starts, info.unread_at, info.decompressed) == ({Side.CLIENT: 2}, {Side.CLIENT: 2}, False)
    assert info.undecoded_bytes == len(record)


def test_tls_that_did_not_come_leaves_no_layer():
    _, info = run(chunk(b"T\x00F\x01a"))
    assert info.layer_starts == {}


def test_state_is_that_of_the_session_its_dissector_and_records_that_wait():
    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    dissector = Speaking(Settings())
    talking = ProtocolSession(dissector, Settings(wanted=WITH_RECORDS), info)
    talking.begin(in_step=True)
    assert talking.state_size == 6144 + dissector.state_size
    list(talking.take(chunk(b"F\x01q")))
    assert talking.state_size == 6144 + dissector.state_size + 2


@pytest.mark.parametrize(
    ("spans", "told"),
    [
        ([(0, 3)], [("a", 0, 3)]),
        ([(0, 1), (2, 3)], [("a", 0, 1), ("undecoded", 1, 2), ("a", 2, 3)]),
        ([(0, 2), (1, 2)], [("a", 0, 2), ("a", 1, 2), ("undecoded", 2, 3)]),
        ([(0, 2), (0, 1), (2, 3)], [("a", 0, 2), ("a", 0, 1), ("a", 2, 3)]),
        ([], [("undecoded", 0, 3)]),
    ],
)
def test_spans_are_filled_up_to_cover_each_byte(spans, told):
    class Telling(ToyMq):
        def spans(self, frame):
            return [Span("a", start, stop, None) for start, stop in spans]

    info = ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 7777, 0, 1)
    talking = ProtocolSession(Telling(Settings()), Settings(), info, lambda *_: True)
    talking.begin(in_step=True)
    (item,) = talking.take(chunk(b"F\x01q"))
    assert [(span.path, span.start, span.stop) for span in item.spans] == told
    assert all(span.value == Undecoded(b"F\x01q"[span.start : span.stop]) for span in item.spans if span.path != "a")


def test_a_reset_explains_what_is_cut_as_its_side_closes_and_nothing_that_comes_later():
    class Cutting(ToyMq):
        def feed(self, chunk):
            frame = Frame(Side.SERVER, 0, 2, b"F\0", 1, 1, 1, 1, 1)
            problems = [Problem("truncated", "error", "cut", "", Side.SERVER, 0, 2)]
            return iter([Message(frame, "toymq", "F", "request", {"data": b""}, problems=problems)])

        def close(self, side):
            return self.feed(None)

    talking, _ = talk(Cutting)
    said = [*talking.close(Side.CLIENT, Side.CLIENT), *talking.take(chunk(b"F\0", side=Side.SERVER))]
    assert [item.problem.detail for item in said if isinstance(item, ProblemItem)] == [
        "cut: the client reset the connection",
        "cut",
    ]
