"""A layout takes the fast way where it can and the slow one where it must, and hostile bytes buy nothing."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from lengths import uvarint
from struct_encoder import encode
from toy_layouts import TOYS, toy

from mqsniff.limits import MIB, Limits
from mqsniff.spec.interpret import DecodeStop
from mqsniff.spec.layout import Layout
from mqsniff.spec.wire import CUT


def test_clean_bytes_take_the_fast_way() -> None:
    layout = toy("arrays_of_sized", 0)
    wire = encode(layout.struct, {"texts": ["a"], "blobs": [b"b"]})
    assert layout.decode(wire) == layout.decode(b"\xee" + wire + b"\xee", 1, 1 + len(wire))._replace(stop=len(wire))
    assert layout.decode(wire).body == layout.fast(wire, 0, len(wire), len(wire))[0]


def test_trailing_bytes_are_the_callers() -> None:
    layout = toy("arrays_of_sized", 0)
    wire = encode(layout.struct, {"texts": [], "blobs": []})
    assert layout.decode(wire + b"\x00\x00").stop == len(wire)


def test_odd_bytes_are_noted_and_damage_is_named() -> None:
    layout = toy("arrays_of_sized", 0)
    odd = layout.decode(bytes.fromhex("00000001 ffff 00000000"))
    assert [problem.path for problem in odd.problems] == ["texts[0]"]
    assert layout.decode(b"\x00").broken == DecodeStop("texts", 0, CUT)


def test_a_frame_with_a_hole_is_read_up_to_it() -> None:
    layout = toy("arrays_of_sized", 0)
    whole = encode(layout.struct, {"texts": ["a"] * 9, "blobs": [b"b"]})
    decoded = layout.decode(whole[:10], claimed=len(whole))
    assert (decoded.body, decoded.broken) == ({"texts": ["a", "a"]}, DecodeStop("texts[2]", 10, CUT))


def test_the_decoder_is_compiled_when_it_is_needed_and_kept() -> None:
    layout = toy("scalars", 0)
    assert layout._fast is None
    assert layout.fast is layout.fast
    assert layout.source.startswith("def decode(")


def test_a_version_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="scalars has no version 2"):
        assert toy("scalars", 2).struct


def test_layouts_name_themselves() -> None:
    assert repr(toy("scalars", 1)) == "<Layout scalars v1>"


@pytest.mark.parametrize("layout", TOYS, ids=repr)
@pytest.mark.parametrize("head", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x01", b""])
def test_lying_lengths_buy_no_memory(layout: Layout, head: bytes) -> None:
    data = head + b"\xff" * 64
    layout.decode(data)
    tracemalloc.start()
    layout.decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MIB


def test_a_bomb_of_empty_elements_ends_at_the_limit() -> None:
    layout = toy("nested", 1)
    count = 4 * MIB
    data = uvarint(count + 1) + b"\x01\x01\x00" * 1000 + bytes(count)
    limits = Limits(elements_max=10_000)
    started = time.process_time()
    decoded = layout.decode(data, limits=limits)
    assert decoded.broken == DecodeStop("topics", 0, "too many elements")
    assert time.process_time() - started < 1
