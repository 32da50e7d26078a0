"""Reassembly beside tshark's, on a fixed set of mangled connections; without tshark, beside its stored answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from differential import CLASSES, STORED_SEEDS, Reading, differences, first_captured, ours, stored, tsharks
from mangledtcp import MANGLINGS, capture, script_of

PLAIN = set(MANGLINGS) - {
    "data after fin",
    "rst in the middle",
    "begins in the middle",
    "one side",
    "beyond the window",
    "overlap same bytes",
    "overlap other bytes",
}
"""Manglings after which every captured byte belongs to the stream: none comes after its end, far away or too late."""


@pytest.fixture(scope="module")
def mangled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mangled") / "mangled.pcap"
    path.write_bytes(capture(STORED_SEEDS))
    return path


@pytest.fixture(scope="module")
def readings(mangled: Path) -> dict[int, Reading]:
    return ours(mangled)


def test_differences_from_the_stored_answers_of_tshark_are_those_of_the_docs(readings: dict[int, Reading]):
    answers = stored()
    assert list(answers) == list(STORED_SEEDS)
    for seed, (its, classes) in answers.items():
        found = differences(readings[seed], its, script_of(seed)[0])
        assert found == classes, f"seed {seed}, {script_of(seed)[0]}: {readings[seed]}, tshark {its}"
        assert found <= set(CLASSES)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="there is no tshark: only its stored answers were compared")
def test_differences_from_tshark_are_those_of_the_docs(mangled: Path, readings: dict[int, Reading]):
    for seed, its in tsharks(mangled).items():
        names = script_of(seed)[0]
        assert differences(readings[seed], its, names) <= set(CLASSES), f"seed {seed}, {names}: {readings[seed]}, {its}"


def test_every_mangling_and_every_class_is_in_the_set():
    assert {name for seed in STORED_SEEDS for name in script_of(seed)[0]} == set(MANGLINGS)
    assert {each for _, classes in stored().values() for each in classes} == set(CLASSES)


def test_of_each_offset_the_byte_that_was_captured_first_is_kept(readings: dict[int, Reading]):
    compared = 0
    for seed in STORED_SEEDS:
        names, script = script_of(seed)
        if not set(names) <= PLAIN:
            continue
        for life, texts in enumerate(readings[seed].connections):
            for side, text in enumerate(texts):
                _same_bytes(text, first_captured(script, life, side), f"seed {seed}, {names}, {life}, {side}")
                compared += 1
    assert compared > 150


def _same_bytes(text: str, bytes_at: dict[int, str], where: str) -> None:
    offset, place = 0, 0
    while place < len(text):
        if text[place] == "[":
            stop = text.index("]", place)
            length, place = int(text[place + 1 : stop]), stop + 1
            assert not any(each in bytes_at for each in range(offset, offset + length)), where
            offset += length
        else:
            assert text[place] == bytes_at[offset], where
            offset, place = offset + 1, place + 1
    assert max(bytes_at, default=-1) < offset, where


def test_every_class_is_explained_in_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "reassembly.md").read_text()
    table = page.partition("| difference |")[2].splitlines()[2:]
    assert [line.split("|")[1].strip() for line in table if line.startswith("| ")] == list(CLASSES)
