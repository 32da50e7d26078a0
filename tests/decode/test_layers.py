"""Layers: bytes and losses below in, plain bytes and losses above out, each with the packet that brought it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from toymq import chunk, flip, gap, make_xor

from mqsniff.codecs.inflation import PLAIN_SPENT
from mqsniff.codecs.transforms import LayerLoss, LayerStop, TransformOutput
from mqsniff.decode.layers import Layers, pieces
from mqsniff.decode.observer import LayersView
from mqsniff.dissector import WorkCount
from mqsniff.limits import KIB, Limits
from mqsniff.model import Chunk, ConnectionInfo, Gap, Mark, Problem, Side, Upgrade
from mqsniff.tls.output import SeenRecord

AT = 10
"""Where the layers of these tests begin."""


class Spelling:
    """A toy transform that does what its bytes spell: small letters pass, others are losses or the end."""

    def __init__(self) -> None:
        self._at = 0
        self.gaps: list[int] = []

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        for byte in data:
            yield self._spelt(byte)
            self._at += 1

    def _spelt(self, byte: int) -> TransformOutput:
        match bytes([byte]):
            case b"?":  # one byte of the layer, nobody knows how many plain ones
                return LayerLoss(self._at, 1, None, "codec", "unknown")
            case b"3":
                return LayerLoss(self._at, 1, 3, "codec", "three are missing")
            case b"0":
                return LayerLoss(self._at, 1, 0, "codec", "told before")
            case b"!":
                return LayerStop(self._at, "codec", "the end")
            case b"~":
                return LayerStop(self._at, "trailing_bytes", "the rest")
        return bytes([byte]).upper()

    def gap(self, length: int) -> Iterator[TransformOutput]:
        self.gaps.append(length)
        self._at += length
        yield LayerLoss(self._at, 0, length, "gap", "lost below")

    def close(self) -> Iterator[TransformOutput]:
        yield b"held"


class Refusing(Spelling):
    """Reads nothing."""

    def _spelt(self, byte: int) -> TransformOutput:
        return super()._spelt(ord("?"))


def spelling(made: list[Spelling] | None = None) -> Upgrade:
    """A layer of the client from ``AT`` on; ``made`` gets its transforms."""

    def make(_limits: Limits) -> tuple[Spelling, Spelling]:
        both = Spelling(), Spelling()
        if made is not None:
            made.extend(both)
        return both

    return Upgrade({Side.CLIENT: AT}, make)


def layers(*upgrades: Upgrade, limits: Limits | None = None, work: WorkCount | None = None) -> Layers:
    stack = Layers(limits or Limits(), work=work)
    for upgrade in upgrades:
        stack.push(upgrade)
    return stack


def through(stack: Layers, *events: Chunk | Gap) -> list[Chunk | Gap]:
    return [above for event in events for above in stack.through(event)]


def letters(events: Iterable[Chunk | Gap]) -> list[tuple[int, bytes | int | None, int]]:
    """(plain offset, bytes or length of a loss (None: unknown), packet) of each event."""
    return [
        (event.offset, event.data, event.marks[0].packet)
        if isinstance(event, Chunk)
        else (event.offset, event.length if event.known else None, event.mark.packet)
        for event in events
    ]


def mark(offset: int, packet: int) -> Mark:
    return Mark(offset, 1000 + packet, packet, packet)


# ---- pieces


def test_a_chunk_has_the_bytes_of_each_packet_by_themselves():
    first, second, empty, last = mark(8, 1), mark(12, 2), mark(14, 3), mark(14, 4)
    whole = Chunk(Side.CLIENT, 10, b"aabbcc", [first, second, empty, last])
    assert list(pieces(whole)) == [(first, b"aa"), (second, b"bb"), (last, b"cc")]


# ---- where a layer begins


def test_bytes_before_a_layer_bypass_it():
    stack = layers(Upgrade({Side.CLIENT: AT}, make_xor))
    before, other = chunk(b"before", 4), chunk(b"server", 0, Side.SERVER)
    assert through(stack, before, other) == [before, other]


def test_a_chunk_that_a_layer_begins_in_is_divided_at_its_first_byte():
    stack = layers(Upgrade({Side.CLIENT: AT}, make_xor))
    marks = [mark(7, 1), mark(9, 2), mark(12, 3)]
    assert through(stack, Chunk(Side.CLIENT, 7, b"abc" + flip(b"defg"), marks)) == [
        Chunk(Side.CLIENT, 7, b"abc", marks[:2]),
        *(Chunk(Side.CLIENT, 10 + at, b"defg"[at : at + 1], [mark(10 + at, 2 if at < 2 else 3)]) for at in range(4)),
    ]


@pytest.mark.parametrize(
    ("length", "above"),
    [(3, [(7, 3)]), (2, [(7, 2)]), (5, [(7, 3), (10, 2)])],
)
def test_a_loss_that_a_layer_begins_in_is_divided_at_its_first_byte(length, above):
    stack = layers(Upgrade({Side.CLIENT: AT}, make_xor))
    lost = gap(7, length, packet=5)
    assert through(stack, lost) == [
        replace(lost, offset=at, length=size, mark=lost.mark._replace(offset=at)) for at, size in above
    ]


def test_the_top_counts_the_layers_of_a_side():
    stack = layers(spelling(), spelling(), Upgrade({Side.SERVER: 0}, make_xor))
    assert [stack.top(side) for side in Side] == [2, 1]


def test_an_event_enters_above_the_layers_that_it_has_passed():
    stack = layers(spelling(), spelling())
    event = chunk(b"ab", 12)
    assert list(stack.through(event, 2)) == [event]
    assert letters(stack.through(chunk(b"ab", 12), 1)) == [(10, b"A", 0), (11, b"B", 0)]


# ---- transforms


def test_plain_offsets_count_what_came_out_and_what_is_known_to_be_missing():
    stack = layers(spelling())
    said = Chunk(Side.CLIENT, AT, b"ab?c3d0e", [mark(AT, 1), mark(AT + 3, 2)])
    assert letters(through(stack, said)) == [
        (10, b"A", 1),
        (11, b"B", 1),
        (12, None, 1),
        (12, b"C", 2),
        (13, 3, 2),
        (16, b"D", 2),
        (17, b"E", 2),
    ]
    assert stack.undecoded == 3


def test_each_loss_of_a_layer_is_a_problem_of_its_side_and_packet():
    stack = layers(spelling())
    through(stack, Chunk(Side.CLIENT, AT, b"a?", [mark(AT, 1), mark(AT + 1, 2)]), gap(AT + 2, 4, packet=3))
    assert list(stack.notices()) == [
        (Problem("codec", "error", "unknown", "", Side.CLIENT, size=1), mark(AT + 1, 2)),
        (Problem("gap", "error", "lost below", "", Side.CLIENT, size=0), mark(AT + 2, 3)),
    ]
    assert list(stack.notices()) == []


@pytest.mark.parametrize(("length", "known", "told"), [(4, True, 4), (0, True, 0), (0, False, 1), (7, False, 7)])
def test_a_loss_of_unknown_length_is_at_least_a_byte_for_the_layer_above(length, known, told):
    made: list[Spelling] = []
    stack = layers(spelling(made))
    through(stack, Gap(Side.CLIENT, AT, length, mark(AT, 1), known))
    assert made[Side.CLIENT].gaps == [told]


@pytest.mark.parametrize(
    ("word", "kind", "severity", "why"),
    [("!", "codec", "error", "the end"), ("~", "trailing_bytes", "warning", "the rest")],
)
def test_after_the_end_of_a_layer_all_bytes_are_undecoded_and_told_once(word, kind, severity, why):
    stack = layers(spelling())
    said = chunk(b"ab" + word.encode() + b"cd", AT, packet=4), chunk(b"more", AT + 5), gap(AT + 9, 3)
    assert letters(through(stack, *said)) == [(10, b"A", 4), (11, b"B", 4), (12, b"C", 4), (13, b"D", 4)]
    assert stack.unread_at(Side.CLIENT) == AT + 2
    assert letters(stack.close(Side.CLIENT)) == []
    stack.end()
    stack.end()
    detail = f"{why}: 7 bytes not decoded, from byte 2 of the layer on"
    problem = Problem(kind, severity, detail, "", Side.CLIENT, AT + 4, 7)
    assert list(stack.notices()) == [(problem, mark(AT, 4))]
    assert stack.undecoded == 7


def test_what_a_layer_held_back_comes_at_the_end_with_its_last_packet():
    stack = layers(spelling(), spelling())
    through(stack, chunk(b"ab", AT, packet=6))
    assert letters(stack.close(Side.CLIENT)) == [
        *((12 + at, b"HELD"[at : at + 1], 6) for at in range(4)),
        (16, b"held", 6),
    ]
    assert letters(stack.close(Side.SERVER)) == []


def test_bytes_that_gave_nothing_stand_from_the_first_layer_that_lost_some():
    stack = layers(spelling())
    assert stack.unread_at(Side.CLIENT) is None
    assert layers().unread_at(Side.CLIENT) is None
    through(stack, gap(AT, 4))
    assert stack.unread_at(Side.CLIENT) is None, "no captured byte gave nothing"
    through(stack, chunk(b"ab?!", AT + 4))
    assert stack.unread_at(Side.CLIENT) == AT


def test_bytes_that_an_upper_layer_lost_stand_from_the_beginning_of_the_lowest():
    stack = layers(spelling(), Upgrade({Side.CLIENT: AT}, lambda _: (Refusing(), Refusing())))
    through(stack, chunk(b"ab", AT))
    assert stack.unread_at(Side.CLIENT) == AT
    assert stack.undecoded == 2


# ---- the budget

FEW = Limits(inflate_ratio=1, inflate_start=64 * KIB, inflate_free=64 * KIB)


class Growing:
    """A toy transform: each byte becomes so many that six packets may not give what they could."""

    SIZE = 16 * KIB

    def feed(self, data: bytes) -> Iterator[TransformOutput]:
        for byte in data:
            yield bytes([byte]) * self.SIZE

    def gap(self, length: int) -> Iterator[TransformOutput]:
        yield LayerLoss(length, 0, None, "gap", "lost")

    def close(self) -> Iterator[TransformOutput]:
        return iter(())


def growing(_limits: Limits) -> tuple[Growing, Growing]:
    return Growing(), Growing()


def test_a_layer_ends_before_the_packet_that_would_spend_more_than_its_budget():
    work = WorkCount()
    stack = layers(Upgrade({Side.CLIENT: 0}, growing), limits=FEW, work=work)
    above = [event for at in range(6) for event in stack.through(chunk(b"abcdef"[at : at + 1], at, packet=at))]
    assert [(event.offset, len(event.data)) for event in above] == [
        (at * Growing.SIZE, Growing.SIZE) for at in range(4)
    ]
    assert work.plain_bytes == 4 * Growing.SIZE
    stack.end()
    detail = f"{PLAIN_SPENT}: 2 bytes not decoded, from byte 4 of the layer on"
    problem = Problem("limit", "error", detail, "", Side.CLIENT, 4 * Growing.SIZE, 2)
    assert list(stack.notices()) == [(problem, mark(4, 4))]


# ---- TLS without keys

ALERT = bytes.fromhex("15030300020228")
HELLO = bytes.fromhex("160303000401020304")


def test_tls_in_the_middle_of_a_connection_is_told_for_each_side_by_where_it_begins():
    stack = layers(Upgrade({Side.CLIENT: AT, Side.SERVER: 4}, "tls"))
    assert through(stack, chunk(HELLO, AT, packet=1), chunk(HELLO * 2, 4, Side.SERVER, packet=2)) == []
    assert [stack.unread_at(side) for side in Side] == [AT, 4]
    assert (stack.opens_tls, stack.is_transparent(Side.CLIENT)) == (False, False)
    stack.end()
    assert list(stack.notices()) == [
        (Problem("tls", "warning", f"TLS: {size} bytes not decrypted", "", side, at, size), mark(at, packet))
        for side, at, size, packet in ((Side.CLIENT, AT, 9, 1), (Side.SERVER, 4, 18, 2))
    ]
    assert stack.undecoded == 27
    assert stack.tls is not None


class Noting:
    """An observer that keeps the places of records of TLS, and of plain bytes."""

    def __init__(self) -> None:
        self.shown: list[tuple[object, ...]] = []

    def see_record(self, info: object, record: SeenRecord) -> None:
        self.shown.append((info, record.side, record.start, record.stop, record.plain))

    def see_opened(self, info: object, *places: object) -> None:
        self.shown.append((info, *places))


@pytest.mark.parametrize("watched", [True, False])
def test_an_observer_sees_records_at_their_places_above_the_bytes_before_tls(*, watched: bool):
    noting, info = Noting(), ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 2, 0, 1)
    stack = Layers(Limits(), view=LayersView(noting, info) if watched else None)
    stack.push(Upgrade({Side.CLIENT: AT, Side.SERVER: 4}, "tls"))
    through(stack, chunk(HELLO * 2, 4, Side.SERVER, packet=2))
    records = [(info, Side.SERVER, 4 + at, 13 + at, (4, 4)) for at in (0, 9)]
    assert noting.shown == (records if watched else [])


def test_an_observer_sees_which_bytes_a_transform_made_of_which():
    noting, info = Noting(), ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 2, 0, 1)
    stack = Layers(Limits(), view=LayersView(noting, info))
    stack.push(spelling())
    through(stack, Chunk(Side.CLIENT, AT, b"a?bc", [mark(AT, 1), mark(AT + 2, 2)]), gap(AT + 4, 2), chunk(b"d", AT + 6))
    assert noting.shown == [
        (info, Side.CLIENT, (10, 12), (10, 11)),
        (info, Side.CLIENT, (12, 14), (11, 12)),
        (info, Side.CLIENT, (12, 14), (12, 13)),
        (info, Side.CLIENT, (16, 17), (15, 16)),
    ]


def test_bytes_that_have_given_nothing_yet_belong_to_what_comes_next_up_to_a_flush():
    class Holding(Spelling):
        """Gives nothing but for capital letters."""

        def feed(self, data: bytes) -> Iterator[TransformOutput]:
            yield from (bytes([byte]) for byte in data if bytes([byte]).isupper())

    noting, info = Noting(), ConnectionInfo("id", "", "10.0.0.1", 1, "10.0.0.2", 2, 0, 1)
    stack = Layers(Limits(), view=LayersView(noting, info))
    stack.push(Upgrade({Side.CLIENT: 0}, lambda _: (Holding(), Holding())))
    flush = b"\0\0\xff\xff"
    for at, data in ((0, b"ab"), (2, b"cD"), (4, b"e" + flush), (9, b"F")):
        through(stack, chunk(data, at))
    assert [each[2:] for each in noting.shown] == [((0, 4), (0, 1)), ((9, 10), (1, 2))]


def test_clear_text_in_place_of_tls_comes_out_as_one_chunk_with_its_packets():
    stack = layers(Upgrade({Side.CLIENT: AT, Side.SERVER: 0}, "tls"))
    said = Chunk(Side.CLIENT, AT, b"clear text", [mark(AT, 1), mark(AT + 5, 2)])
    (above,) = through(stack, said)
    assert (above.offset, above.data) == (AT, b"clear text")
    assert stack.is_transparent(Side.CLIENT)
    assert through(stack, gap(AT + 10, 3, packet=3)) == [Gap(Side.CLIENT, AT + 10, 3, mark(AT + 10, 3))]
    stack.end()
    assert (list(stack.notices()), stack.undecoded) == ([], 0)


def test_a_connection_without_tls_knows_nothing_of_it():
    stack = layers(spelling())
    assert (stack.tls, stack.opens_tls, stack.is_transparent(Side.CLIENT)) == (None, False, False)


def test_a_layer_that_nobody_knows_is_no_layer():
    with pytest.raises(KeyError):
        layers(Upgrade({Side.CLIENT: 0}, "no such layer"))
