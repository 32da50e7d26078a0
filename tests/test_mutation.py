"""Mutants of a module: every kind is made, nothing that cannot matter is, and the list of equivalent ones is no older
than the code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "mutation"))

from mutants import mutants_of, sample
from run_mutants import ROOT, difference, modules_of, near_tests, reasons, room_tests, survivors_in

SOURCE = '''"""A module."""

from typing import Final

LIMIT: Final = 3
NAME = "word"


def check(size: int | None, limit: int = LIMIT) -> bool:
    """Say whether it fits."""
    if size is None or not limit:
        return False
    total = 0
    for part in (size, 1):
        total += part << 2
    log(limit, "words for people")
    return total + 1 <= max(limit, 7)
'''
MUTANTS = mutants_of("toy.py", SOURCE)
LINES = SOURCE.splitlines()


@pytest.mark.parametrize(
    ("kind", "line", "becomes"),
    [
        ("constant", "LIMIT: Final = 3", "LIMIT: Final = 4"),
        ("constant", 'NAME = "word"', 'NAME = "wordX"'),
        ("constant", "return False", "return True"),
        ("comparison", "if size is None or not limit:", "if size is not None or not limit:"),
        ("boolean", "if size is None or not limit:", "if size is None and not limit:"),
        ("boolean", "if size is None or not limit:", "if size is None or limit:"),
        ("negated condition", "if size is None or not limit:", "if (not (size is None or not limit)):"),
        ("arithmetic", "total += part << 2", "total -= part << 2"),
        ("arithmetic", "total += part << 2", "total += part >> 2"),
        ("deleted statement", "total += part << 2", "pass"),
        ("deleted statement", 'log(limit, "words for people")', "pass"),
        ("swapped arguments", 'log(limit, "words for people")', 'log("words for people", limit)'),
        ("arithmetic", "return total + 1 <= max(limit, 7)", "return total - 1 <= max(limit, 7)"),
        ("comparison", "return total + 1 <= max(limit, 7)", "return total + 1 < max(limit, 7)"),
        ("deleted statement", "return total + 1 <= max(limit, 7)", "return None"),
    ],
)
def test_each_kind_of_fault_is_made(kind, line, becomes):
    (found,) = [each for each in MUTANTS if (each.kind, each.removed, each.added) == (kind, (line,), (becomes,))]
    assert LINES[found.line - 1].strip() == line
    assert [a.strip() for a, b in zip(found.source.splitlines(), LINES, strict=True) if a != b] == [becomes]


def test_what_cannot_change_results_is_left_alone():
    assert {LINES[mutant.line - 1].strip() for mutant in MUTANTS}.isdisjoint(
        {'"""A module."""', '"""Say whether it fits."""', "from typing import Final"}
    )
    assert not any("&" in mutant.source or "peopleX" in mutant.source or "max(7" in mutant.source for mutant in MUTANTS)
    assert len({mutant.source for mutant in MUTANTS}) == len(MUTANTS)
    assert mutants_of("toy.py", "assert 1 < 2\nzip(a, strict=True)\n")[0].added == ("pass",)
    assert mutants_of("toy.py", "def f(a):\n    return None\n") == []
    assert mutants_of("toy.py", "def f(a):\n    if a:\n        return None\n    return 1\n")
    assert any("strict=True" in mutant.source for mutant in mutants_of("toy.py", "zip(a, strict=False)\n"))


def test_a_sample_depends_on_its_seed_and_little_on_other_code():
    before = sample(MUTANTS, 10, 1)
    assert before == sample(MUTANTS, 10, 1) != sample(MUTANTS, 10, 2)
    longer = mutants_of("toy.py", SOURCE + "\n\nMORE: Final = 9\n")
    kept = {mutant.key for mutant in before} & {mutant.key for mutant in sample(longer, 10, 1)}
    assert len(kept) >= 9
    assert [mutant.line for mutant in before] == sorted(mutant.line for mutant in before)


def test_a_sample_holds_no_mutant_that_is_no_python():
    mutants = mutants_of("toy.py", "def f(x):\n    match x:\n        case -1:\n            return 0\n")
    for mutant in sample(mutants, 100, 1):
        compile(mutant.source, "toy.py", "exec")


def test_survivors_of_an_earlier_run_are_found_again_wherever_their_lines_are_now():
    chosen = [MUTANTS[2], MUTANTS[5]]
    text = "".join(f"{difference(mutant)}\n" for mutant in chosen) + "40 of 99 mutants: 38 killed\n"
    moved = mutants_of("toy.py", SOURCE.replace('NAME = "word"', '\n\nNAME = "word"'))
    assert [mutant.key for mutant in survivors_in(text, moved)] == [mutant.key for mutant in chosen]


def test_every_equivalent_mutant_can_still_be_made():
    known = reasons()
    made = {
        mutant.key for module in {key[0] for key in known} for mutant in mutants_of(module, (ROOT / module).read_text())
    }
    assert set(known) - made == set(), "the code has changed: delete the entry, or describe the mutant as it is now"
    assert all(len(reason) > 10 for reason in known.values())


@pytest.mark.parametrize(
    ("module", "first"),
    [
        ("mqsniff/framing/machine.py", "tests/framing/test_machine.py"),
        ("mqsniff/decode/openstate.py", "tests/test_openstate.py"),
        ("mqsniff/topics.py", "tests/test_topics.py"),
        ("dissectors/mqsniff_nsq/joining.py", "tests/dissectors/test_nsq_joining.py"),
        ("dissectors/mqsniff_kafka/records/walk.py", "tests/dissectors/kafka/test_kafka_records_walk.py"),
    ],
)
def test_the_tests_of_a_module_come_before_those_of_its_room(module, first):
    found = room_tests(module)
    assert found[0] == first
    assert len(found) == len(set(found))
    assert all((ROOT / path).is_file() for path in found)


def test_near_tests_are_the_files_that_import_the_module_and_all_where_none_does():
    room = room_tests("mqsniff/batch/edge.py")
    assert near_tests("mqsniff/batch/reportrows.py") == ["tests/batch/test_splitrows.py"]
    assert near_tests("mqsniff/batch/edge.py") == room
    assert "tests/dissectors/kafka/test_kafka_records_opened.py" in near_tests(
        "dissectors/mqsniff_kafka/records/walk.py"
    )


def test_a_folder_means_all_its_modules():
    assert modules_of(["mqsniff/framing/machine.py"]) == ["mqsniff/framing/machine.py"]
    assert "dissectors/mqsniff_kafka/records/walk.py" in modules_of(["dissectors/mqsniff_kafka"])
