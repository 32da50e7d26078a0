import random

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.codecs.snappy import Snappy
from mqsniff.codecs.snappy_chunks import CHUNK_MAX
from mqsniff.codecs.transforms import TRANSFORMS, Dark, Lost
from mqsniff.limits import Limits

LIMITS = Limits()
IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
OK_OF_NSQD = bytes.fromhex("ff060000734e61507059 010e000026982bcf00000006000000004f4b")


def crc32c_by_bits(data):
    """CRC-32C by the book (reflected polynomial 0x82f63b78), slow and independent."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def checksum(plain):
    crc = crc32c_by_bits(plain)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def chunk(kind, body):
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def plain_chunk(plain):
    return chunk(1, checksum(plain) + plain)


def block_chunk(plain):
    return chunk(0, checksum(plain) + bytes(cramjam.snappy.compress_raw(plain)))


def small_literals(plain):
    """The worst that an encoder may do: literals of 60 bytes, so that the block is larger than its plain bytes."""
    elements = [bytes([59 << 2]) + plain[at : at + 60] for at in range(0, len(plain) - 60, 60)]
    rest = plain[60 * len(elements) :]
    return chunk(0, checksum(plain) + b"\x80\x80\x04" + b"".join(elements) + bytes([len(rest) - 1 << 2]) + rest)


def words(seed, size):
    return random.Random(seed).randbytes(size)


def run(parts, limits=LIMITS):
    """Feed parts (an int is a gap) and close; plain pieces joined, the other items kept at their places."""
    transform = Snappy(limits)
    items = []
    for part in parts:
        items += transform.gap(part) if isinstance(part, int) else transform.feed(part)
    items += transform.close()
    joined = []
    for item in items:
        if isinstance(item, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += item
        else:
            joined.append(item)
    return joined


def byte_by_byte(parts):
    return [x for part in parts for x in ([part] if isinstance(part, int) else [bytes([b]) for b in part])]


def plain_of(items):
    return b"".join(item for item in items if isinstance(item, bytes))


def test_the_first_answer_of_a_real_nsqd():
    assert run([OK_OF_NSQD]) == [b"\x00\x00\x00\x06\x00\x00\x00\x00OK"]


def test_the_framing_of_another_encoder():
    plain = words(1, 100_000) + bytes(200_000) + b"the quick brown fox" * 5000
    assert run([bytes(cramjam.snappy.compress(plain))]) == [plain]


@pytest.mark.parametrize(
    ("middle", "plain"),
    [
        (chunk(0xFE, bytes(300)), b""),
        (chunk(0x80, b"anything"), b""),
        (chunk(0xFD, b""), b""),
        (IDENTIFIER, b""),
        (plain_chunk(b""), b""),
        (plain_chunk(bytes(65536)), bytes(65536)),
        (block_chunk(bytes(65536)), bytes(65536)),
        (block_chunk(words(3, 65536)), words(3, 65536)),
        (small_literals(words(4, 65536)), words(4, 65536)),
    ],
    ids=[
        "padding",
        "skippable",
        "empty skippable",
        "identifier",
        "empty",
        "largest",
        "largest block",
        "random",
        "small literals",
    ],
)
def test_chunks_of_every_kind_in_one_piece_and_byte_by_byte(middle, plain):
    stream = IDENTIFIER + plain_chunk(b"before") + middle + block_chunk(b"behind")
    assert run([stream]) == run(byte_by_byte([stream])) == [b"before" + plain + b"behind"]


def test_plain_bytes_come_as_soon_as_their_chunk_is_whole():
    transform = Snappy(LIMITS)
    stream = IDENTIFIER + plain_chunk(b"now")
    assert list(transform.feed(stream[:-1])) == []
    assert list(transform.feed(stream[-1:])) == [b"now"]


def test_pieces_are_no_larger_than_the_limit():
    limits = Limits(layer_piece=1000)
    pieces = list(Snappy(limits).feed(IDENTIFIER + block_chunk(bytes(65536))))
    assert {len(piece) for piece in pieces} == {1000, 536}


def test_a_hole_in_a_chunk_loses_this_chunk_and_tells_its_plain_size():
    first, lost, last = plain_chunk(b"first"), plain_chunk(bytes(500)), plain_chunk(b"last")
    parts = [IDENTIFIER + first + lost[:100], 200, lost[300:] + last]
    start = len(IDENTIFIER + first)
    expected = [
        b"first",
        Lost(start, 100, 500, "undecoded", "bytes inside a chunk were lost"),
        Lost(start + 300, 208, 0, "undecoded", "bytes inside a chunk were lost"),
        b"last",
    ]
    assert run(parts) == run(byte_by_byte(parts)) == expected


@pytest.mark.parametrize(
    ("seen", "plain"),
    [(8, None), (9, None), (10, 5000), (11, 5000)],
    ids=["checksum", "half the length", "the length", "more"],
)
def test_a_hole_in_a_compressed_chunk_tells_its_plain_size_if_the_block_has_told_it(seen, plain):
    lost = block_chunk(words(2, 5000))
    items = run([IDENTIFIER + lost[:seen], len(lost) - seen, plain_chunk(b"last")])
    assert items == [Lost(10, seen, plain, "undecoded", "bytes inside a chunk were lost"), b"last"]


def test_a_hole_in_padding_loses_nothing():
    padding = chunk(0xFE, bytes(100))
    assert run([IDENTIFIER + plain_chunk(b"a") + padding[:50], 20, padding[70:] + plain_chunk(b"b")]) == [b"ab"]


def test_two_holes_in_one_chunk_are_one_loss():
    lost = plain_chunk(bytes(100))
    items = run([IDENTIFIER + lost[:20], 10, lost[30:50], 30, lost[80:] + plain_chunk(b"on")])
    why = "bytes inside a chunk were lost"
    assert items == [Lost(10, 20, 100, "undecoded", why), Lost(40, 48, 0, "undecoded", why), b"on"]


def test_a_hole_up_to_the_end_of_a_chunk_keeps_the_step():
    lost = plain_chunk(bytes(100))
    why = "bytes inside a chunk were lost"
    items = run([IDENTIFIER + lost[:20], 10, lost[30:50], len(lost) - 50, plain_chunk(b"on")])
    assert items == [Lost(10, 20, 100, "undecoded", why), Lost(40, 20, 0, "undecoded", why), b"on"]


def test_a_hole_over_a_head_is_followed_by_the_next_chunk_that_is_whole():
    chunks = [plain_chunk(words(n, 50)) for n in range(4)]
    parts = [IDENTIFIER + chunks[0] + chunks[1][:20], 60, chunks[2][22:] + chunks[3]]
    items = run(parts)
    why = "bytes were lost, a chunk's head among them"
    assert items == [
        words(0, 50),
        Lost(10 + 58, 20, None, "undecoded", why),
        Lost(10 + 58 + 20 + 60, 36, 0, "undecoded", why),
        words(3, 50),
    ]
    assert run(byte_by_byte(parts)) == items


def test_a_second_hole_over_the_end_of_a_chunk_loses_the_step():
    lost, last = plain_chunk(bytes(100)), plain_chunk(b"last")
    items = run([IDENTIFIER + lost[:20], 10, lost[30:50], 70, last])
    assert items == [
        Lost(10, 20, 100, "undecoded", "bytes inside a chunk were lost"),
        Lost(40, 20, 0, "undecoded", "bytes inside a chunk were lost"),
        Lost(60, 0, None, "undecoded", "bytes were lost, a chunk's head among them"),
        b"last",
    ]


def test_a_hole_while_searching_forgets_what_waited_for_its_bytes():
    waiting = b"\x01\x50\x00\x00" + bytes(30)
    chunks = plain_chunk(b"one") + plain_chunk(words(1, 100))
    items = run([IDENTIFIER, 5, waiting, 40, chunks])
    assert plain_of(items) == b"one" + words(1, 100)
    assert sum(item.size for item in items if isinstance(item, Lost)) == len(waiting)


def test_a_stream_identifier_is_found_by_searching_too():
    items = run([IDENTIFIER, 5, b"rest of a chunk" + IDENTIFIER + chunk(0xFE, bytes(9)), 4, plain_chunk(b"on")])
    assert [item[1:3] for item in items if isinstance(item, Lost)] == [(0, None), (15, 0), (0, None)]
    assert items[-1] == b"on"


def test_a_stream_joined_in_the_middle_starts_with_its_first_whole_chunk():
    stream = plain_chunk(words(1, 300))[150:] + block_chunk(words(2, 300)) + plain_chunk(b"on")
    items = run([stream])
    assert items == [Lost(0, 158, None, "undecoded", NO_IDENTIFIER), words(2, 300) + b"on"]
    assert run(byte_by_byte([stream])) == items


NO_IDENTIFIER = "the stream does not begin with the Snappy identifier"


def test_a_stream_joined_exactly_at_a_chunk_loses_nothing():
    assert run([plain_chunk(b"one") + plain_chunk(b"two")]) == [b"onetwo"]


def test_a_stream_that_never_was_snappy_is_accounted_for():
    stream = b"\x00\x00\x00\x06\x00\x00\x00\x00OK" * 100
    assert run([stream]) == [Lost(0, len(stream), None, "undecoded", NO_IDENTIFIER)]


def test_clear_text_behind_the_last_chunk_loses_no_message():
    stream = IDENTIFIER + plain_chunk(b"RDY 0\n")
    why = "not the header of a Snappy chunk"
    assert run([stream, b"CLS\n"]) == [
        b"RDY 0\n",
        Lost(len(stream), 0, None, "codec", why),
        Lost(len(stream), 4, 0, "codec", why),
    ]


@pytest.mark.parametrize(
    ("bad", "kind", "plain"),
    [
        (chunk(1, b"\x00\x00\x00\x00" + b"hello"), "checksum", 5),
        (chunk(0, checksum(b"hello") + b"\x05\xff\xff"), "codec", 5),
        (chunk(0, b"\x00\x00\x00\x00" + bytes(cramjam.snappy.compress_raw(bytes(65537)))), "codec", None),
        (chunk(0, b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff\x0f\x00"), "codec", None),
        (chunk(0xFF, b"sNaPpX"), "codec", 0),
    ],
    ids=["checksum", "block", "one byte too many", "4 GiB claimed", "identifier"],
)
def test_a_damaged_chunk_is_lost_alone(bad, kind, plain):
    parts = [IDENTIFIER + plain_chunk(b"a") + bad + plain_chunk(b"b")]
    items = run(parts)
    assert [type(item) for item in items] == [bytes, Lost, bytes]
    assert plain_of(items) == b"ab"
    assert items[1][:4] == (10 + 9, len(bad), plain, kind)
    assert run(byte_by_byte(parts)) == items


@pytest.mark.parametrize("head", [b"\x02\x04\x00\x00", b"\x7f\x00\x00\x00", b"\x01\x05\x00\x01", b"\x00\x00\x00\x03"])
def test_a_head_that_cannot_be_is_searched_past(head):
    items = run([IDENTIFIER + plain_chunk(b"a") + head + b"????" + plain_chunk(b"b")])
    assert plain_of(items) == b"ab"
    assert sum(item.size for item in items if isinstance(item, Lost)) == 8


def test_the_cut_last_chunk_is_accounted_for():
    items = run([IDENTIFIER + plain_chunk(b"whole") + plain_chunk(bytes(100))[:50]])
    assert items == [b"whole", Lost(10 + 13, 50, 100, "truncated", "the last chunk is cut")]


@st.composite
def broken_streams(draw):
    """A stream of chunks with different contents, and a hole: (chunk bytes, plain) list, hole start, hole length."""
    chunks = [(IDENTIFIER, b"")]
    for n in range(draw(st.integers(1, 8))):
        plain = words(n, draw(st.integers(1, 400)))
        make = draw(st.sampled_from([plain_chunk, block_chunk]))
        chunks.append((make(plain), plain))
        if draw(st.booleans()):
            chunks.append((chunk(0xFE, bytes(draw(st.integers(0, 30)))), b""))
    size = sum(len(data) for data, _ in chunks)
    start = draw(st.integers(0, size - 1))
    return chunks, start, draw(st.integers(1, size - start))


@settings(max_examples=50, deadline=None)
@given(broken_streams(), st.integers(1, 50))
def test_a_hole_loses_no_chunk_outside_it_and_every_byte_is_accounted_for(broken, step):
    chunks, start, length = broken
    stream = b"".join(data for data, _ in chunks)
    items = run([stream[:start], length, stream[start + length :]])
    survivors, useless, at = [], 0, 0
    for data, plain in chunks:
        overlap = max(0, min(at + len(data), start + length) - max(at, start))
        if not overlap:
            survivors.append(plain)
        at += len(data)
    assert plain_of(items) == b"".join(survivors)
    delivered = sum(len(data) for (data, plain) in chunks if plain and plain in survivors)
    useless = sum(item.size for item in items if isinstance(item, Lost))
    paddings = sum(len(data) for data, plain in chunks if not plain)
    assert len(stream) - length - paddings <= delivered + useless <= len(stream) - length
    behind = stream[start + length :]
    cut = [behind[i : i + step] for i in range(0, len(behind), step)]
    assert run([stream[:start], length, *cut]) == items


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5), st.booleans())
def test_any_bytes_in_any_cuts_mean_the_same_and_never_raise(data, cuts, identified):
    stream = (IDENTIFIER if identified else b"") + data
    cuts = sorted(min(cut, len(stream)) for cut in cuts)
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert run(parts) == run([stream])


def test_a_search_keeps_no_more_than_two_chunks():
    transform = Snappy(LIMITS)
    list(transform.feed(IDENTIFIER))
    list(transform.gap(1))
    for n in range(40):
        list(transform.feed(words(n, 50_000)))
        assert len(transform._input) <= 2 * CHUNK_MAX + 50_000
    assert list(transform.feed(plain_chunk(b"at last")))[-1] == b"at last"


def test_a_stream_made_of_candidates_ends_the_search_instead_of_the_day():
    crafted = b"\x01\x00\xff\x00" * 100_000
    items = run([IDENTIFIER, 1, *[crafted[i : i + 1460] for i in range(0, len(crafted), 1460)], plain_chunk(b"late")])
    lost, dark = items[-2:]
    assert isinstance(dark, Dark)
    assert dark.kind == "limit"
    assert (lost.offset, lost.size) == (11, dark.offset - 11)
    assert run([IDENTIFIER, 1, crafted]) == items


def test_a_long_search_among_some_candidates_goes_on():
    sparse = (b"\x01\x10\x27\x00" + b"\x55" * 96) * 20_000
    items = run(
        [IDENTIFIER, 1, *[sparse[at : at + 50_000] for at in range(0, len(sparse), 50_000)], plain_chunk(b"late")]
    )
    assert items[-1] == b"late"


def test_after_the_close_and_after_darkness_nothing_comes():
    transform = Snappy(LIMITS)
    list(transform.close())
    assert [*transform.feed(OK_OF_NSQD), *transform.gap(5), *transform.close()] == []


def test_the_table_of_transforms_makes_two_directions_of_their_own():
    client, server = TRANSFORMS["snappy"](LIMITS)
    assert b"".join([*client.feed(OK_OF_NSQD), *server.feed(OK_OF_NSQD)]) == b"\x00\x00\x00\x06\x00\x00\x00\x00OK" * 2
