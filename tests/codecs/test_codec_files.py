import bz2
import gzip
import lzma
import os
import random
import subprocess
import sys
import threading
import tracemalloc
import zlib
from functools import partial
from itertools import takewhile
from pathlib import Path

import lz4.frame
import pytest
import zstandard

from mqsniff.codecs.files import CODECS, PIECE, RawFile, codec_of, open_bytes
from mqsniff.limits import Limits

LIMITS = Limits()
PLAIN = random.Random(5).randbytes(70_000) + bytes(150_000) + b"tail"
COMPRESS = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor(write_content_size=False).compress,
    "lz4": lz4.frame.compress,
    "xz": partial(lzma.compress, preset=0),
    "bzip2": partial(bz2.compress, compresslevel=1),
}
SKIPPABLE = b"\x50\x2a\x4d\x18\x05\x00\x00\x00hello"

every_codec = pytest.mark.parametrize("codec", COMPRESS)


def read_all(source, size=30_000):
    """All plain bytes, through a window of ``size``."""
    plain = bytearray()
    window = memoryview(bytearray(size))
    while taken := source.readinto(window):
        plain += window[:taken]
    return bytes(plain)


@pytest.fixture
def opened(tmp_path):
    """Opens bytes as a file."""
    files = []

    def open_file(data, limits=LIMITS):
        path = tmp_path / f"{len(files)}"
        path.write_bytes(data)
        files.append(RawFile(str(path)))
        return open_bytes(files[-1], limits)

    yield open_file
    for raw in files:
        raw.close()


@pytest.fixture
def pipe(tmp_path):
    """A source that reads a pipe, and the descriptor of its other end."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    raw = RawFile(str(path))
    os.close(reader)
    yield raw, writer
    raw.close()


def test_every_codec_of_the_table_is_tested():
    assert {codec.name for codec in CODECS} == set(COMPRESS)


def test_a_file_that_is_not_compressed_is_read_as_it_is(opened):
    source = opened(PLAIN)
    assert read_all(source) == PLAIN
    assert (source.compression, source.failure) == ("", "")


@every_codec
def test_streams_behind_each_other_are_one(opened, codec):
    parts = PLAIN[:1000], b"", PLAIN[1000:200_000], PLAIN[200_000:]
    source = opened(b"".join(map(COMPRESS[codec], parts)))
    assert read_all(source) == PLAIN
    assert (source.compression, source.failure) == (codec, "")


@every_codec
@pytest.mark.parametrize("size", [1, 7, PIECE, 1 << 20])
def test_any_window_reads_the_same(opened, codec, size):
    plain = PLAIN[65_000:75_000]
    assert read_all(opened(COMPRESS[codec](plain)), size) == plain


@every_codec
def test_zeros_between_and_behind_streams_are_padding(opened, codec):
    compress = COMPRESS[codec]
    source = opened(compress(b"one") + bytes(8) + compress(b"two") + bytes(100_000))
    assert read_all(source) == b"onetwo"
    assert source.failure == ""


@every_codec
def test_a_cut_file_gives_the_bytes_before_the_cut_and_says_so(opened, codec):
    plain = random.Random(1).randbytes(300)
    whole = COMPRESS[codec](plain)
    for size in range(6, len(whole)):
        source = opened(whole[:size])
        got = read_all(source)
        assert plain.startswith(got)
        assert source.failure == f"the {codec} data is cut"


@every_codec
def test_a_cut_costs_nothing_that_the_codec_had_finished(opened, codec):
    plain = random.Random(1).randbytes(1_000_000)
    got = read_all(opened(COMPRESS[codec](plain)[:800_000]))
    assert plain.startswith(got)
    assert len(got) > 600_000


@every_codec
def test_damage_ends_the_bytes_with_a_reason_and_never_raises(opened, codec):
    plain = random.Random(2).randbytes(400)
    whole = COMPRESS[codec](plain)
    silent = 0
    for at in range(6, len(whole)):
        source = opened(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        got = read_all(source)
        silent += not source.failure and got != plain
    # lz4 and zstd have no checksum of their content unless the writer asked for one
    assert silent == 0 or codec in ("lz4", "zstd")


@every_codec
def test_damage_costs_no_more_than_a_piece_of_good_bytes(opened, codec):
    plain = random.Random(3).randbytes(1_000_000)
    whole = bytearray(COMPRESS[codec](plain))
    whole[900_000] ^= 0xFF
    got = read_all(opened(bytes(whole)))
    good = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(plain, got, strict=False)))
    block = {"bzip2": 100_000, "lz4": 64 << 10, "xz": 0, "gzip": 0, "zstd": 128 << 10}[codec]
    assert good >= 880_000 - block - PIECE


@every_codec
def test_bytes_behind_the_end_are_named_and_cost_nothing(opened, codec):
    source = opened(COMPRESS[codec](PLAIN) + b"this is no compressed data, whatever the codec")
    assert read_all(source) == PLAIN
    assert source.failure.startswith(f"bytes after the end of the {codec} data")


@every_codec
def test_a_bomb_costs_no_memory(opened, codec):
    size = 64 << 20
    source = opened(COMPRESS[codec](bytes(size)))
    window = memoryview(bytearray(PIECE))
    tracemalloc.start()
    total = 0
    while taken := source.readinto(window):
        total += taken
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == size
    assert peak < 20 << 20


@pytest.mark.parametrize("codec", ["xz", "zstd"])
def test_a_stream_that_asks_for_too_much_memory_is_refused_in_words(opened, codec):
    source = opened(COMPRESS[codec](PLAIN), Limits(codec_memory=1024))
    assert read_all(source) == b""
    assert source.failure == f"the {codec} data needs more memory than codec_memory allows"


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_skippable_frames_are_passed_over(opened, codec):
    compress = COMPRESS[codec]
    source = opened(compress(b"one") + SKIPPABLE + compress(b"two") + SKIPPABLE)
    assert read_all(source) == b"onetwo"
    assert source.failure == ""


def test_a_leading_skippable_frame_is_of_zstd(opened):
    source = opened(SKIPPABLE + COMPRESS["zstd"](PLAIN))
    assert read_all(source) == PLAIN
    assert source.compression == "zstd"


def test_a_short_head_is_no_codec():
    assert codec_of(b"") is None
    assert codec_of(b"\x1f") is None


def test_an_empty_file_has_no_bytes_and_no_failure(opened):
    source = opened(b"")
    assert read_all(source) == b""
    assert source.failure == ""


@every_codec
def test_a_pipe_gives_what_has_arrived(pipe, codec):
    raw, writer = pipe
    stream = COMPRESS[codec](b"first") + COMPRESS[codec](b"second")
    first = len(COMPRESS[codec](b"first"))
    os.write(writer, stream[:first])
    source = open_bytes(raw, LIMITS)
    window = memoryview(bytearray(1000))
    assert bytes(window[: source.readinto(window)]) == b"first"
    assert source.readinto(window, 0.0) is None
    os.write(writer, stream[first:])
    assert bytes(window[: source.readinto(window, 1.0)]) == b"second"
    os.close(writer)
    assert source.readinto(window) == 0
    assert source.failure == ""


def test_a_pipe_gives_what_a_flushed_gzip_has_sent(pipe):
    raw, writer = pipe
    deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
    os.write(writer, deflate.compress(b"now") + deflate.flush(zlib.Z_SYNC_FLUSH))
    source = open_bytes(raw, LIMITS)
    window = memoryview(bytearray(1000))
    assert bytes(window[: source.readinto(window)]) == b"now"
    assert source.readinto(window, 0.0) is None
    os.close(writer)
    assert source.readinto(window) == 0
    assert source.failure == "the gzip data is cut"


def test_a_pipe_that_is_not_compressed_gives_what_has_arrived(pipe):
    raw, writer = pipe
    os.write(writer, b"0123456789")
    source = open_bytes(raw, LIMITS)
    window = memoryview(bytearray(8))
    assert [bytes(window[: source.readinto(window)]) for _ in range(2)] == [b"012345", b"6789"]
    assert source.readinto(window, 0.0) is None
    assert raw.size is None
    os.close(writer)
    assert source.readinto(window, 0.0) == 0


def test_a_head_that_comes_in_parts_is_waited_for(pipe):
    raw, writer = pipe
    stream = gzip.compress(b"slow")
    os.write(writer, stream[:2])
    threading.Timer(0.05, lambda: os.write(writer, stream[2:])).start()
    source = open_bytes(raw, LIMITS)
    assert source.compression == "gzip"
    window = memoryview(bytearray(10))
    assert bytes(window[: source.readinto(window)]) == b"slow"
    os.close(writer)


def test_a_pipe_that_was_opened_not_to_block_is_waited_for_all_the_same(pipe):
    raw, writer = pipe
    os.set_blocking(raw._file.fileno(), False)
    threading.Timer(0.05, lambda: os.write(writer, b"late")).start()
    window = memoryview(bytearray(10))
    assert raw.readinto(window) == 4
    os.close(writer)


def test_a_file_that_cannot_be_opened_raises(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(OSError, match=r"No such file|Is a directory"):
            RawFile(str(path))


class BrokenDisk:
    """A file that fails when more than its head is read."""

    def readinto(self, _view):
        raise OSError(5, "Input/output error")

    def close(self):
        """Nothing to give back."""


@pytest.mark.parametrize(("data", "head"), [(PLAIN, 6), (gzip.compress(PLAIN), 0)], ids=["plain", "gzip"])
def test_a_read_error_ends_the_bytes_with_a_reason(tmp_path, monkeypatch, data, head):
    path = tmp_path / "file"
    path.write_bytes(data)
    raw = RawFile(str(path))
    source = open_bytes(raw, LIMITS)
    raw.close()
    monkeypatch.setattr(raw, "_file", BrokenDisk())
    window = memoryview(bytearray(10))
    assert read_all(source) == PLAIN[:head]
    assert source.readinto(window) == 0
    assert source.failure == "reading failed: Input/output error"


def test_progress_counts_the_bytes_of_the_file_itself(tmp_path):
    path = Path(tmp_path, "packets.gz")
    path.write_bytes(gzip.compress(PLAIN))
    raw = RawFile(str(path))
    read_all(open_bytes(raw, LIMITS))
    assert raw.taken == raw.size == path.stat().st_size
    raw.close()


def test_codecs_load_no_numpy_and_no_codec_before_it_is_needed():
    code = (
        "import sys, mqsniff.codecs.files, mqsniff.codecs.transforms, mqsniff.codecs.deflate;"
        "print(sorted({'numpy', 'zstandard', 'lz4', 'cramjam', 'crc32c', 'lzma'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
