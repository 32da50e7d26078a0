"""Goldens: what counts as a difference, and how it is told."""

from __future__ import annotations

import json

import pytest
from tinycapture import INVALID, NSQ, PUB, conversation, pcap

from mqsniff.answers.check.differences import ABSENT, Change, Difference, IgnoredFields, compare, counted, describe
from mqsniff.answers.check.goldens import (
    Decoding,
    GoldenError,
    check_capture,
    golden_of,
    read_golden,
    stale_goldens,
)
from mqsniff.tables.schemas import SCHEMA_VERSION


def message(offset=0, connection_id="c1", client="10.0.0.1:5", **fields):
    place = {"connection_id": connection_id, "side": "client", "stream_offset": offset, "client": client, "server": "s"}
    return {"table": "messages", **place, "first_packet": 7, "protocol": "nsq", "name": "PUB"} | fields


def problem(kind="gap", **fields):
    return {"table": "problems", "connection_id": "c1", "client": "10.0.0.1:5", "server": "s", "kind": kind} | fields


ROW = "messages: nsq PUB (10.0.0.1:5 - s, client at 0, packet 7)"


def test_equal_rows_do_not_differ():
    rows = [message(), message(9), problem(), problem()]
    assert compare(rows, [dict(row) for row in rows]) == []


def test_a_changed_field_is_named_by_its_path():
    before = message(body={"metadata": [{"name": "a"}, {"name": "b", "gone": 1}], "n": 1}, size=5)
    after = message(body={"metadata": [{"name": "a"}, {"name": "c", "come": None}], "n": 1.0}, size=5)
    changes = (
        Change("body.metadata[1].name", "b", "c"),
        Change("body.metadata[1].gone", 1, ABSENT),
        Change("body.metadata[1].come", ABSENT, None),
        Change("body.n", 1, 1.0),
    )
    assert compare([before], [after]) == [Difference("changed", ROW, changes, "messages PUB")]


def test_lists_of_other_lengths_differ_as_a_whole():
    before, after = message(topics=["a"]), message(topics=["a", "b"])
    assert compare([before], [after]) == [
        Difference("changed", ROW, (Change("topics", ["a"], ["a", "b"]),), "messages PUB")
    ]


def test_a_row_more_or_less_does_not_shift_the_others():
    rows = [message(offset) for offset in range(0, 50, 10)]
    assert [d.kind for d in compare(rows, rows[1:])] == ["missing"]
    assert [d.kind for d in compare(rows[1:], rows)] == ["new"]
    assert [d.kind for d in compare(rows[:2], [*rows[:2], problem()])] == ["new"]
    assert [d.row for d in compare([problem()], [problem(), problem()])] == [describe(problem())]


def test_a_new_hash_of_a_connection_is_one_changed_field():
    (difference,) = compare([message()], [message(connection_id="c2")])
    assert difference.changes == (Change("connection_id", "c1", "c2"),)


def test_connections_between_the_same_ends_are_told_apart_by_their_order():
    rows = [message(connection_id="c1"), message(connection_id="c2", size=1)]
    assert compare(rows, [dict(row) for row in rows]) == []
    (difference,) = compare(rows, [rows[0], rows[1] | {"size": 2}])
    assert difference.changes == (Change("size", 1, 2),)


def test_another_order_of_the_same_rows_differs():
    one, other = message(0), message(10)
    (difference,) = compare([one, other], [other, one])
    assert (difference.kind, difference.row) == ("moved", f"{describe(other)}, which came after {describe(one)}")


def test_a_golden_that_is_none_is_named_with_its_line(tmp_path):
    for content in (b'{"table":"topics"}\nno json\n', b'{"table":"topics"}\n[]\n', b'\n{"table":"x"}'):
        with pytest.raises(GoldenError, match=r"g\.golden\.ndjson:[12]: "):
            read_golden(tmp_path / "g.golden.ndjson", content)


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.pcap"
    path.write_bytes(pcap(conversation(NSQ)))
    return path


def test_a_golden_is_missed_then_written_then_met(sample):
    assert check_capture(sample).status == "no golden"
    assert not golden_of(sample).exists()
    assert check_capture(sample, update=True).status == "updated"
    assert check_capture(sample).status == "same"
    assert check_capture(sample, update=True).status == "same"


def test_a_golden_holds_rows_of_all_tables_under_the_bare_name(sample):
    check_capture(sample, update=True)
    rows = [json.loads(line) for line in golden_of(sample).read_bytes().splitlines()]
    assert {row["table"] for row in rows} >= {"messages", "exchanges", "records", "connections"}
    assert {row["capture"] for row in rows if "capture" in row} == {"sample.pcap"}


def test_a_capture_is_the_same_wherever_it_lies(sample, tmp_path):
    check_capture(sample, update=True)
    (tmp_path / "elsewhere").mkdir()
    for path in (sample, golden_of(sample)):
        (tmp_path / "elsewhere" / path.name).write_bytes(path.read_bytes())
    assert check_capture(tmp_path / "elsewhere" / "sample.pcap").status == "same"


def test_another_answer_is_told_by_row_and_field(sample):
    check_capture(sample, update=True)
    sample.write_bytes(pcap(conversation([*NSQ[:2], ("s", INVALID)])))
    checked = check_capture(sample)
    assert checked.status == "different"
    changed = {change.path: (change.golden, change.now) for d in checked.differences for change in d.changes}
    assert changed["error_name"] == (ABSENT, "E_INVALID")
    assert changed["status"] == ("ok", "error")


def test_rows_that_are_equal_but_written_otherwise_are_the_same(sample):
    check_capture(sample, update=True)
    rows = [json.loads(line) for line in golden_of(sample).read_bytes().splitlines()]
    golden_of(sample).write_text("".join(json.dumps(row, indent=None) + "\n" for row in rows))
    assert check_capture(sample).status == "same"


def test_a_capture_that_is_damaged_has_a_golden_too(tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap(conversation([*NSQ, ("c", PUB)]))[:-90])
    assert check_capture(path, update=True).status == "updated"
    rows = [json.loads(line) for line in golden_of(path).read_bytes().splitlines()]
    assert "problems" in {row["table"] for row in rows}


def test_a_file_that_is_no_capture_has_no_golden(tmp_path):
    path = tmp_path / "notes.pcap"
    path.write_text("dear diary\n")
    with pytest.raises(GoldenError, match=r"notes\.pcap: "):
        check_capture(path, update=True)


def test_a_golden_without_its_capture_is_stale(sample, tmp_path):
    check_capture(sample, update=True)
    assert stale_goldens([sample], [tmp_path]) == []
    assert stale_goldens([], [tmp_path]) == [golden_of(sample)]


def rewritten(sample, **schema):
    """Write the golden of a sample with another line for its schema, and without the columns that came later."""
    check_capture(sample, update=True)
    lines = golden_of(sample).read_bytes().splitlines()[1:]
    rows = [json.loads(line) for line in lines]
    for row in rows:
        for name in schema.get("without", ()):
            row.pop(name, None)
    head = [{"table": "schema", "version": schema["version"]}] if schema["version"] else []
    golden_of(sample).write_text("".join(json.dumps(row) + "\n" for row in (*head, *rows)))


def test_a_golden_begins_with_the_version_of_the_schema(sample):
    check_capture(sample, update=True)
    first = json.loads(golden_of(sample).read_bytes().splitlines()[0])
    assert first == {"table": "schema", "version": SCHEMA_VERSION}


def test_a_golden_of_an_earlier_minor_version_is_compared_without_newer_columns(sample):
    major = SCHEMA_VERSION.partition(".")[0]
    rewritten(sample, version=f"{major}.-1", without=("community_id", "kind"))
    checked = check_capture(sample)
    assert checked.status == "same"
    assert "columns that are newer are not compared" in checked.remark


def test_a_golden_of_another_major_version_has_to_be_written_anew(sample):
    rewritten(sample, version="99.0")
    checked = check_capture(sample)
    assert (checked.status, checked.differences) == ("different", [])
    assert "review and --update" in checked.remark
    assert check_capture(sample, update=True).status == "updated"


def test_a_golden_without_a_line_for_its_schema_is_of_the_first_one(sample):
    rewritten(sample, version="")
    assert read_golden(golden_of(sample), golden_of(sample).read_bytes()).version == "1.0"


@pytest.mark.parametrize(
    ("pattern", "is_same"),
    [
        ("body.metadata", True),
        ("body.metadata.name", True),
        ("messages.body.metadata", True),
        ("exchanges.body.metadata", False),
        ("body.meta", False),
        ("body.*", True),
        ("*", True),
        ("metadata", False),
    ],
)
def test_ignored_fields_are_named_by_their_path_without_positions(pattern, is_same):
    before, after = (message(body={"metadata": [{"name": "a"}, {"name": name}]}) for name in "bc")
    assert (compare([before], [after], IgnoredFields([pattern])) == []) == is_same


def test_a_golden_that_differs_in_ignored_fields_only_is_not_rewritten(sample):
    rewritten(sample, version=SCHEMA_VERSION, without=("size",))
    before = golden_of(sample).read_bytes()
    decoding = Decoding(ignored=IgnoredFields(["size"]))
    assert check_capture(sample, decoding).status == "same"
    assert check_capture(sample, decoding, update=True).status == "same"
    assert golden_of(sample).read_bytes() == before
    assert check_capture(sample).status == "different"


def test_differences_are_counted_by_message_and_field():
    rows = [message(offset, body={"n": [offset]}) for offset in range(3)]
    now = [message(offset, body={"n": [offset + 1]}) for offset in range(2)]
    assert counted(compare(rows, now)) == {"messages PUB: body.n": 2, "messages PUB: missing": 1}
