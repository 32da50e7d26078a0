"""Rules by which a client of a capture made its records, as its truth tells them, in; the records that they make out.

1. A rule is an expression over the number of the record, which it calls i, j or k: ``'k%d' % i``, clauses
   (``i==4: None; i==5: b''; else …``), a lone format (``in-%d``), or one of these for some numbers only (``where …``).
2. Nothing is evaluated but arithmetic, comparisons and texts. A rule that cannot be read raises ValueError, so that
   none is left out in silence.
3. What a truth does not tell of a record (its partition, its time) is UNTOLD, and not compared.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from typing import Any, Final, NamedTuple

Made = Callable[[int], Any]
Headers = tuple[tuple[str, bytes | None], ...]

UNTOLD: Final = "untold"
NULL_RULES: Final = (None, "none", "client clock")
"""Rules that tell nothing that could be compared."""

_QUOTED: Final = re.compile(r"b?'[^']*'")
_NUMBER: Final = re.compile(r"\b[ijk]\b")
_CLAUSE: Final = re.compile(r"(?P<when>[^:]+): (?P<then>.+?)(?: else (?P<other>.+))?")
_CUT: Final = re.compile(r"(?P<text>\(.+\)) repeated and cut to (?P<size>\d+) bytes")
_CHOSEN: Final = re.compile(r"(?P<rule>.+?) (?:where|for) (?P<when>[ijk] ?% ?\d+ ?== ?\d+)")
_SINCE: Final = re.compile(r"^0\.1[01]\+[,:] | ?\(0\.1[01]\+\)")
"""From which release on a client's messages had room for it."""
_HEADER: Final = re.compile(r"(\w+)=(\[[^]]*\]|[^,]*)(?:, |$)")
_STEP: Final = re.compile(r"(?:key=(\S+) )?value=(\S+)(?: header (\w+)=(\S+))?")
_WORDS: Final[Mapping[str, Any]] = {"null": None, "empty": b""}
_OPERATORS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
}

# The words of record-forms captures -> (key, value, headers, time in milliseconds, UNTOLD for the client's clock).
_FORMS: Final[Mapping[str, tuple[Any, ...]]] = {
    "key/value <codec>1 headers h=1,h=2,nullh=null,empty=''": (
        *(b"key", b"value %s1", (("h", b"1"), ("h", b"2"), ("nullh", None), ("empty", b"")), UNTOLD),
    ),
    "null/'no key'": (None, b"no key", (), UNTOLD),
    "tombstone/null": (b"tombstone", None, (), UNTOLD),
    "''/''": (b"", b"", (), UNTOLD),
    "null/null": (None, None, (), UNTOLD),
    "ümläut/日本 1 header é=à": ("ümläut".encode(), "日本 1".encode(), (("é", "à".encode()),), UNTOLD),
    "ts0/timestamp zero at timestamp 0": (b"ts0", b"timestamp zero", (), 0),
    "ts40/z*700 at timestamp 2^40": (b"ts40", b"z" * 700, (), 1 << 40),
}


class Ruled(NamedTuple):
    """A record as its rules make it."""

    key: bytes | str | None
    value: bytes | None
    partition: int | str = UNTOLD
    timestamp_ms: int | str = UNTOLD
    headers: Headers | str = UNTOLD


# ---- records


def records_of(told: Mapping[str, Any], topics: Mapping[str, Any]) -> list[Ruled] | None:
    """The records that a truth tells of a topic; None where it has no rule for them, or does not say how many."""
    if "parts" in told:
        return [one for part in told["parts"] for one in records_of(part, topics) or ()]
    if "same_as" in told:
        same = records_of(topics[told["same_as"]], topics) or []
        return [one._replace(timestamp_ms=UNTOLD) for one in same]
    if "codecs" in told:
        return [_form(word, codec) for codec in told["codecs"] for word in told["records"]]
    number = told.get("produced")
    if told.get("value_rule") is None or not isinstance(number, int):
        return None
    return list(islice(endless(told), number))


def endless(told: Mapping[str, Any]) -> Iterator[Ruled]:
    """The records of rules, one after the other, without end."""
    if "java.util.Random" in told["value_rule"]:
        yield from _random_records(told)
        return
    rule, chosen = chosen_of(told["value_rule"])
    value = made_by(rule)
    key = _key_rule(told.get("key_rule"), value)
    place = told.get("partition_rule", told.get("partition"))
    partition = _untold if place is None else made_by(str(place))
    timestamp, headers = told.get("timestamp_rule"), told.get("headers_rule")
    time = _untold if timestamp in NULL_RULES else made_by(_SINCE.sub("", timestamp))
    carried = _untold if headers is None else headers_by(headers)
    if isinstance(told.get("headers"), str):
        carried = headers_by(f"1: {told['headers']}")
    for number in filter(chosen, count()):
        yield Ruled(key(number), value(number), partition(number), time(number), carried(number))


def records_of_step(rule: str, number: int) -> list[Ruled]:
    """The records of one step of a run: ``key=P-k<i> value=P-v<i> header h=P-h<i>``."""
    found = _STEP.fullmatch(rule)
    if found is None:
        raise ValueError(f"no rule: {rule}")
    key, value, name, header = found.groups()
    return [
        Ruled(
            UNTOLD if key is None else _numbered(key, at),
            _numbered(value, at),
            headers=((name, _numbered(header, at)),) if name else UNTOLD,
        )
        for at in range(number)
    ]


def round_rule(rule: str) -> re.Pattern[bytes]:
    """What values of transactions look like: ``txn{round}-{i}``, ``b'tx%d-%d' % (round, i)``."""
    text = rule.partition("'")[2].partition("'")[0] if "'" in rule else rule
    pattern = re.escape(text)
    for word in ("{round}", "{i}", "%d"):
        pattern = pattern.replace(re.escape(word), r"\d+")
    return re.compile(pattern.encode())


def _numbered(text: str, number: int) -> bytes:
    return text.replace("<i>", str(number)).encode()


def _untold(_: int) -> str:
    return UNTOLD


def _constant(value: Any) -> Made:
    return lambda _: value


def _key_rule(rule: str | None, value: Made) -> Made:
    if rule is None:
        return _untold
    if "(b'x' if value None)" in rule:
        made = made_by(rule.replace(" (b'x' if value None)", ""))
        return lambda number: b"x" if value(number) is None and made(number) is None else made(number)
    return made_by(rule)


def _form(word: str, codec: str) -> Ruled:
    key, value, headers, time = _FORMS[word]
    return Ruled(key, value % codec.encode() if value and b"%s" in value else value, UNTOLD, time, headers)


def _random_records(told: Mapping[str, Any]) -> Iterator[Ruled]:
    """Values of letters that java.util.Random(7) gives: a linear congruential generator of 48 bits."""
    key = made_by(told["key_rule"])
    state = 7 ^ 0x5DEECE66D
    for number in count():
        value = bytearray()
        for _ in range(told["value_bytes"]):
            state = state * 0x5DEECE66D + 0xB & (1 << 48) - 1
            value.append(ord("A") + (state >> 44))
        yield Ruled(key(number), bytes(value))


# ---- rules


def chosen_of(rule: str) -> tuple[str, Made]:
    """(the rule without its choice of numbers, whether a number is chosen)."""
    found = _CHOSEN.fullmatch(rule)
    return (found["rule"], _expression(found["when"], [])) if found else (rule, lambda _: True)


def made_by(rule: str) -> Made:
    """What a rule makes of a number: bytes, an integer, or None for null."""
    if "%d" in rule and "'" not in rule:
        return _filled(rule.encode())
    rule, holes = _without_quotes(rule)
    parts = [part.strip() for part in rule.split(";")]
    made: Made = _constant(None)
    clauses = []
    for part in parts:
        clause = _CLAUSE.fullmatch(part)
        if clause is None:
            made = _part(part.removeprefix("else "), holes)
        else:
            clauses.append(clause)
    for clause in reversed(clauses):
        other = _part(clause["other"], holes) if clause["other"] else made
        made = _either(_part(clause["when"], holes), _part(clause["then"], holes), other)
    return made


def headers_by(rule: str) -> Made:
    """What a rule says of headers: ``i%5==0: hk='hv%d', nil=null``; those of other numbers have none."""
    if rule == "none":
        return _constant(())
    when, _, fields = _SINCE.sub("", rule).partition(": ")
    chosen = _expression(re.sub(r"odd ([ijk])", r"\1 % 2", when), [])
    made = [(name, one) for name, text in _HEADER.findall(fields) for one in _header_values(text)]
    return lambda number: tuple((name, one(number)) for name, one in made) if chosen(number) else ()


def _header_values(text: str) -> list[Made]:
    if text.startswith("["):
        return [_constant(word.strip().encode()) for word in text[1:-1].split(",")]
    if text.startswith("str("):
        return [lambda number: b"%d" % number]
    if text in ("null", "None"):
        return [_constant(None)]
    return [made_by(text) if "'" in text or "%d" in text else _constant(text.encode())]


def _without_quotes(rule: str) -> tuple[str, list[bytes]]:
    """The rule with its quoted texts numbered, and these texts: they may hold what clauses are divided by."""
    holes: list[bytes] = []

    def number(found: re.Match[str]) -> str:
        holes.append(ast.literal_eval("b" + found[0].lstrip("b")))
        return f"text{len(holes) - 1}"

    return _QUOTED.sub(number, rule), holes


def _filled(text: bytes) -> Made:
    return lambda number: text % number


def _either(when: Made, then: Made, other: Made) -> Made:
    return lambda number: then(number) if when(number) else other(number)


def _part(text: str, holes: list[bytes]) -> Made:
    """An expression, perhaps one that is cut."""
    cut = _CUT.fullmatch(text)
    if cut is None:
        return _expression(text, holes)
    made, size = _expression(cut["text"], holes), int(cut["size"])
    return lambda number: (made(number) * size)[:size]


def _expression(text: str, holes: list[bytes]) -> Made:
    try:
        tree = ast.parse(_NUMBER.sub("i", text.strip()), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"no rule: {text}") from error
    alone = isinstance(tree, ast.Name) and tree.id.startswith("text")

    def make(number: int) -> Any:
        value = _value(tree, number, holes)
        return value % number if alone and b"%d" in value else value

    return make


def _value(node: ast.expr, number: int, holes: list[bytes]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id="i"):
            return number
        case ast.Name(id=word) if word in _WORDS:
            return _WORDS[word]
        case ast.Name(id=word) if word.startswith("text"):
            return holes[int(word.removeprefix("text"))]
        case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]) if (
            type(sign) in _OPERATORS
        ):
            return _OPERATORS[type(sign)](_value(left, number, holes), _value(right, number, holes))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, number, holes) else other, number, holes)
    raise ValueError(f"no rule: {ast.unparse(node)}")
