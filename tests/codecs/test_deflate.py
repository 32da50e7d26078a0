import random
import zlib
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.codecs.deflate import Deflate
from mqsniff.codecs.transforms import TRANSFORMS, Dark
from mqsniff.limits import Limits

LIMITS = Limits()
FLUSH = b"\x00\x00\xff\xff"


def compressed(messages, level=6):
    """Each message flushed, as a peer of an endless stream sends them."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
    return [deflate.compress(message) + deflate.flush(zlib.Z_SYNC_FLUSH) for message in messages]


def run(transform, parts):
    """Feed parts (an int is a gap) and close; plain text, and everything else."""
    items = []
    for part in parts:
        items += transform.gap(part) if isinstance(part, int) else transform.feed(part)
    items += transform.close()
    return b"".join(item for item in items if isinstance(item, bytes)), [x for x in items if not isinstance(x, bytes)]


def bit_by_bit(stream):
    """What zlib itself makes of a stream when asked for one byte at a time, and the byte that it refuses."""
    inflate = zlib.decompressobj(-15)
    plain = b""
    for index in range(len(stream)):
        data = stream[index : index + 1]
        while True:
            try:
                made = inflate.decompress(data, 1)
            except zlib.error:
                return plain, index
            plain += made
            data = inflate.unconsumed_tail
            if not made:
                break
    return plain, None


def words(seed, size):
    return random.Random(seed).randbytes(size)


MESSAGES = [
    b"IDENTIFY\n",
    b"PUB topic\n\x00\x00\x00\x05hello",
    b"NOP\n" * 50,
    words(1, 3000),
    b"x" * 70_000,
    b"FIN 0123\n",
]


def test_messages_come_out_of_the_packets_that_hold_them():
    transform = Deflate(LIMITS)
    for message, packet in zip(MESSAGES, compressed(MESSAGES), strict=True):
        assert b"".join(transform.feed(packet)) == message


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(0, 9), st.data())
def test_any_cuts_mean_the_same(messages, level, data):
    stream = b"".join(compressed(messages, level))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert run(Deflate(LIMITS), parts) == (b"".join(messages), [])


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_damage_delivers_everything_before_it_and_is_dated_the_same_for_any_cuts(data):
    stream = bytearray(b"".join(compressed(MESSAGES[:4], data.draw(st.sampled_from([0, 1, 6])))))
    for _ in range(data.draw(st.integers(1, 3))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    stream = bytes(stream)
    plain, refused = bit_by_bit(stream)
    limits = Limits(layer_piece=data.draw(st.sampled_from([100, 1 << 16])))
    at_once = run(Deflate(limits), [stream])
    assert at_once == run(Deflate(limits), [stream[i : i + 1] for i in range(len(stream))])
    assert at_once[0] == plain
    if refused is not None:
        (dark,) = at_once[1]
        assert isinstance(dark, Dark)
        assert dark.offset <= refused


def test_a_bomb_is_fed_by_the_piece():
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = b"".join(deflate.compress(bytes(1 << 20)) for _ in range(64)) + deflate.flush(zlib.Z_SYNC_FLUSH)
    sizes = [len(piece) for piece in Deflate(LIMITS).feed(bomb)]
    assert sum(sizes) == 64 << 20
    assert max(sizes) == LIMITS.layer_piece


def test_a_piece_is_made_only_when_it_is_asked_for():
    bomb = compressed([bytes(1 << 20)])[0]
    transform = Deflate(LIMITS)
    items = transform.feed(bomb)
    assert len(next(items)) == LIMITS.layer_piece
    assert sum(map(len, items)) == (1 << 20) - LIMITS.layer_piece


def test_pieces_respect_a_small_limit_also_before_damage():
    stream = b"".join(compressed([bytes(5000)])) + b"\x07"
    transform = Deflate(Limits(layer_piece=7))
    items = list(transform.feed(stream))
    plain = [item for item in items if isinstance(item, bytes)]
    assert b"".join(plain) == bytes(5000)
    assert max(map(len, plain)) <= 7
    assert isinstance(items[-1], Dark)


def test_what_was_delivered_before_the_damage_was_met_is_not_delivered_again():
    letters = bytes(random.Random(0).choices(b"abcdefgh", k=5500))
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    stream = deflate.compress(letters[:500] + bytes(300_000) + letters[500:]) + deflate.flush(zlib.Z_SYNC_FLUSH)
    stream = stream[:-900] + b"\xff" * 50 + stream[-850:]
    plain, refused = bit_by_bit(stream)
    assert refused is not None
    assert len(plain) > 300_000
    assert run(Deflate(LIMITS), [stream])[0] == plain


def test_a_byte_that_holds_both_the_last_letter_and_the_damage_gives_the_letter():
    stream = bytes.fromhex("04c101010000008090adfa3f2254441211880a816c")
    plain, refused = bit_by_bit(stream)
    assert refused == len(stream) - 1
    assert bit_by_bit(stream[:-1])[0] + b"b" == plain
    assert run(Deflate(LIMITS), [stream])[0] == plain
    assert run(Deflate(LIMITS), [stream[i : i + 1] for i in range(len(stream))])[0] == plain


def test_a_gap_is_dark_from_its_offset_on_for_good():
    first, second, third = compressed([b"one", b"two", b"three"])
    plain, others = run(Deflate(LIMITS), [first, 10, second, 5, third])
    assert plain == b"one"
    assert [(dark.offset, dark.kind) for dark in others] == [(len(first), "undecoded")]


def test_clear_text_behind_a_flush_is_dated_back_to_the_flush():
    stream = b"".join(compressed([b"SUB a b\n", b"RDY 1\n"]))
    whole = stream + b"CLS\n"
    for first, second in combinations(range(len(stream) - 6, len(whole) + 1), 2):
        plain, others = run(Deflate(LIMITS), [whole[:first], whole[first:second], whole[second:]])
        assert plain == b"SUB a b\nRDY 1\n"
        assert [(dark.offset, dark.kind) for dark in others] == [(len(stream), "codec")]


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 4])
def test_a_clear_tail_makes_no_rubbish_although_it_looks_like_deflate(cut):
    stream = b"".join(compressed([words(7, 9000), b"RDY 0\n"]))
    rubbish, _ = run(Deflate(LIMITS), [stream, b"CLS\n"])
    assert len(rubbish) == 9006 + 10, "without the setting ten bytes of old text come out again"
    transform = Deflate(LIMITS, clear_tail=b"CLS\n")
    plain, others = run(transform, [stream + b"CLS\n"[:cut], b"CLS\n"[cut:]])
    assert plain == words(7, 9000) + b"RDY 0\n"
    assert [(dark.offset, dark.kind) for dark in others] == [(len(stream), "trailing_bytes")]


def test_what_only_begins_like_the_clear_tail_is_read():
    packets = compressed([words(7, 9000), b"RDY 0\n", b"NOP\n"])
    stream = b"".join(packets)
    for tail in {stream[i + 4 : i + 6] for i in range(len(stream)) if stream[i : i + 4] == FLUSH} - {b""}:
        parts = [stream[i : i + 1] for i in range(len(stream))]
        assert run(Deflate(LIMITS, clear_tail=tail + b"?"), parts) == (words(7, 9000) + b"RDY 0\nNOP\n", [])


def test_a_stream_cut_inside_what_may_be_the_clear_tail_loses_nothing():
    stream = b"".join(compressed([b"SUB a b\n"]))
    assert run(Deflate(LIMITS, clear_tail=b"CLS\n"), [stream, b"CL"]) == (b"SUB a b\n", [])


def test_bytes_behind_the_end_of_the_stream_are_named():
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    stream = deflate.compress(b"the end") + deflate.flush()
    for parts in ([stream + b"more"], [stream, b"more"], [stream + b"m", b"ore"]):
        plain, others = run(Deflate(LIMITS), parts)
        assert plain == b"the end"
        assert others == [Dark(len(stream), "trailing_bytes", "bytes after the end of the compressed stream")]
    assert run(Deflate(LIMITS), [stream]) == (b"the end", [])


def test_a_stream_that_never_was_deflate_is_dark_from_its_start():
    _plain, others = run(Deflate(LIMITS), [b"\x00\x00\x00\x06\x00\x00\x00\x00OK"])
    assert [dark.offset for dark in others] == [0]


def test_the_table_of_transforms_makes_two_directions_of_their_own():
    client, server = TRANSFORMS["deflate"](LIMITS)
    packet = compressed([b"hello"])[0]
    assert [*client.feed(packet), *server.feed(packet)] == [b"hello", b"hello"]
