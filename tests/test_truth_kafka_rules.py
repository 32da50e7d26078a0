"""Rules of records, as the truth of captures writes them."""

from __future__ import annotations

from itertools import islice

import pytest
from truth_kafka_rules import UNTOLD, Ruled, endless, headers_by, made_by, records_of, records_of_step, round_rule

RULES = [
    ("in-%d", [b"in-0", b"in-1", b"in-2", b"in-3"]),
    ("1700000000000+i", [1700000000000 + i for i in range(4)]),
    ("i%3", [0, 1, 2, 0]),
    ("b'k%d' % i if i%2 else None", [None, b"k1", None, b"k3"]),
    ("k%2==0: 'sk%d' else null", [b"sk0", None, b"sk2", None]),
    ("i==1: None; i==2: b''; else (b'v%d;' % i) * 2", [b"v0;v0;", None, b"", b"v3;v3;"]),
    ("('v%d-' % i) repeated and cut to 5 bytes; i==3: null", [b"v0-v0", b"v1-v1", b"v2-v2", None]),
]


@pytest.mark.parametrize(("rule", "made"), RULES)
def test_a_rule_makes_what_it_says(rule: str, made: list[object]) -> None:
    assert [made_by(rule)(number) for number in range(len(made))] == made


@pytest.mark.parametrize("rule", ["", "i - 1", "print(i)", "__import__('os')", "i==1: x.y; else 1"])
def test_a_rule_that_cannot_be_read_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="no rule"):
        made_by(rule)(1)


def test_headers_stand_at_chosen_numbers_only() -> None:
    made = headers_by("0.11+, k%2==0: h='v%d', n=null, many=[a,b], w=str(i)")
    assert made(2) == (("h", b"v2"), ("n", None), ("many", b"a"), ("many", b"b"), ("w", b"2"))
    assert made(1) == ()


def test_a_key_may_hang_on_its_value() -> None:
    told = {
        "produced": 4,
        "value_rule": "i==3: None; else b'v'",
        "key_rule": "None if i%4==3 (b'x' if value None) else b'k'",
    }
    assert [one.key for one in records_of(told, {}) or ()] == [b"k", b"k", b"k", b"x"]


def test_a_rule_for_some_numbers_counts_only_those() -> None:
    made = records_of({"produced": 3, "value_rule": "h-%d for i%4==0"}, {})
    assert made == [Ruled(UNTOLD, b"h-%d" % number) for number in (0, 4, 8)]


def test_random_letters_are_those_of_java() -> None:
    told = {"value_rule": "java.util.Random(7), one generator", "key_rule": "big%d", "value_bytes": 8}
    first, second = islice(endless(told), 2)
    assert (first.key, second.key) == (b"big0", b"big1")
    assert first.value is not None
    assert first.value != second.value
    assert set(first.value) <= set(b"ABCDEFGHIJKLMNOP")


def test_a_step_numbers_key_value_and_header() -> None:
    first, _ = records_of_step("key=a-k<i> value=a-v<i> header h=a-h<i>", 2)
    assert first == Ruled(b"a-k0", b"a-v0", headers=(("h", b"a-h0"),))
    assert records_of_step("value=line<i>", 1) == [Ruled(UNTOLD, b"line0")]


def test_values_of_transactions_have_a_round_and_a_number() -> None:
    assert round_rule("txn{round}-{i}").fullmatch(b"txn1-10")
    assert round_rule("b'tx%d-%d' % (round, i)").fullmatch(b"tx0-2")
    assert not round_rule("txn{round}-{i}").fullmatch(b"left-open")
