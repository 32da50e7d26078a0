"""JSON as RocketMQ's peers write it, and as nobody should."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqsniff.limits import Limits
from mqsniff.spec.wire import Malformed
from mqsniff_rocketmq.fastjson import DEPTH_MAX, read_json, read_tolerant, tokens
from mqsniff_rocketmq.notes import ProblemNotes

quick = settings(max_examples=50, deadline=None)


def read(data: bytes, **limits: int):
    notes = ProblemNotes(Limits(**limits))
    return read_json(data, notes, "body"), [problem.kind for problem in notes.problems]


WRITTEN = {
    "integers as keys": (b'{0:"a",-1:"b"}', {"0": "a", "-1": "b"}),
    "objects as keys": (
        b'{"t":{{"q":0,"b":"x"}:{"o":1},{"q":1}:2}}',
        {"t": [{"key": {"q": 0, "b": "x"}, "value": {"o": 1}}, {"key": {"q": 1}, "value": 2}]},
    ),
    "arrays as keys": (b"{[1]:2}", [{"key": [1], "value": 2}]),
    "a reference": (b'{"a":[{"b":1}],"c":{"$ref":"$.a[0]"}}', {"a": [{"b": 1}], "c": {"$ref": "$.a[0]"}}),
    "control characters": (b'{"a":"x\x01y\x02"}', {"a": "x\x01y\x02"}),
    "escapes": (rb'{a:"\u0001\n\"\\\/\uD83D\uDE00\x"}', {"a": '\x01\n"\\/\U0001f600x'}),
    "single quotes": (b"{'a':'it is \"so\"'}", {"a": 'it is "so"'}),
    "words": (b"{a:true,b:false,c:null,d:maybe}", {"a": True, "b": False, "c": None, "d": "maybe"}),
    "numbers": (b"{a:1,b:-2.5,c:1e3,d:9223372036854775807}", {"a": 1, "b": -2.5, "c": 1000.0, "d": (1 << 63) - 1}),
    "a comma too many": (b'{"a":[1,2,],}', {"a": [1, 2]}),
    "a trailing zero byte": (b"{a:1}\x00", {"a": 1}),
}


@pytest.mark.parametrize(("data", "value"), WRITTEN.values(), ids=WRITTEN)
def test_what_peers_write_is_read(data, value):
    assert read(data) == (value, [])


def test_infinities_and_nan_are_numbers():
    value, _ = read(b"{a:NaN,b:Infinity,c:-Infinity}")
    assert math.isnan(value["a"])
    assert (value["b"], value["c"]) == (math.inf, -math.inf)


def test_text_that_is_no_unicode_stays_bytes():
    assert read(b'{"a":"\xff\xfe"}')[0] == {"a": b"\xff\xfe"}
    assert read(rb'{"a":"\ud800"}')[0] == {"a": "\ud800".encode(errors="surrogatepass")}


def test_of_a_key_that_stands_twice_the_last_counts_and_it_is_noted():
    assert read(b'{"a":1,"b":{"c":1,"c":2},"a":3}') == ({"a": 3, "b": {"c": 2}}, ["format"])


def test_a_text_that_only_looks_like_a_key_is_no_second_one():
    assert read(rb'{"a":"\"b\":1","c":"x\":y"}') == ({"a": '"b":1', "c": 'x":y'}, [])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a"',
        b'{"a":',
        b'{"a":1',
        b"[1",
        b'"a',
        b"}",
        b"{]",
        b'{"a" 1}',
        b'{"a",1}',
        b'{"a"::1}',
        b'{"a":1]',
    ],
)
def test_what_is_no_json_is_malformed(data):
    with pytest.raises(Malformed):
        read(data)


@pytest.mark.parametrize("data", [b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, b'{"a":' * DEPTH_MAX + b"1" + b"}" * DEPTH_MAX])
def test_depth_is_bounded(data):
    assert read(data)[0]
    opening, closing = (b"[", b"]") if data[:1] == b"[" else (b'{"b":', b"}")
    for deeper in (1, 400, 100_000):
        with pytest.raises(Malformed, match="deep"):
            read(opening * deeper + data + closing * deeper)


def test_values_are_bounded_before_they_are_made():
    many = b"[" + b",".join([b"[]"] * 5000) + b"]"
    assert len(read(many)[0]) == 5000
    for data in (many, many[:-1] + b",x]"):
        with pytest.raises(Malformed, match="elements_max"):
            read(data, elements_max=4000)


def test_the_time_for_long_strings_of_backslashes_grows_no_faster_than_they_do():
    value, _ = read(b'{a:"' + rb"\\" * 500_000 + b'"}')
    assert value == {"a": "\\" * 500_000}


def test_of_a_text_that_was_cut_all_before_the_cut_is_given():
    whole = b'{"a":[1,{"b":true}],"c":{"d":"text","e":12}}'
    seen = []
    for size in range(len(whole) + 1):
        value = read_tolerant(whole[:size], ProblemNotes(Limits()), "", cut=True)
        seen.append(json.dumps(value))
    assert seen[0] == "null"
    assert seen[-1] == json.dumps(json.loads(whole))
    assert all(len(one) <= len(other) for one, other in pairwise(seen[1:]))
    assert json.dumps({"a": [1, {"b": True}], "c": {"d": "text"}}) in seen
    assert json.dumps({"a": [1, {"b": True}], "c": {"d": "text", "e": 1}}) not in seen


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, width=32)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@quick
@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_standard_json_is_read_as_the_standard_library_reads_it(value, ascii_only, indent):
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(errors="surrogatepass")
    assert (
        read_tolerant(data, ProblemNotes(Limits()), "")
        == read_json(data, ProblemNotes(Limits()), "")
        == json.loads(data)
    )


@quick
@given(st.binary(max_size=80))
def test_tokens_never_overlap_and_nothing_but_malformed_is_raised(data):
    at = 0
    for token in tokens(data):
        assert at <= token.start < token.stop <= len(data)
        at = token.stop
    for cut in (False, True):
        try:
            read_tolerant(data, ProblemNotes(Limits()), "", cut=cut)
        except Malformed:
            continue
