"""What proto/ says is what dissectors/data holds, and staleness is seen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import build
import kafka_build

if TYPE_CHECKING:
    import pytest

HOME = Path(__file__).parents[2] / "proto" / "kafka"


def test_the_committed_data_is_what_the_sources_give() -> None:
    assert build.stale() == []


BUILDERS = {"one.txt": lambda: b"one", "two.txt": lambda: b"two"}


def test_a_changed_or_missing_file_is_stale(tmp_path: Path) -> None:
    build.write(tmp_path, BUILDERS)
    assert build.stale(tmp_path, BUILDERS) == []
    (tmp_path / "one.txt").write_bytes(b"other")
    assert build.stale(tmp_path, BUILDERS) == ["one.txt"]
    (tmp_path / "two.txt").unlink()
    assert build.stale(tmp_path, BUILDERS) == ["one.txt", "two.txt"]


def test_check_says_what_to_run_and_fails_until_it_was_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["--check"], tmp_path) == 1
    assert (
        "stale: dissectors/mqsniff_kafka/data/kafka.jsonl (run: python proto/build.py)"
        in capsys.readouterr().err.splitlines()
    )
    assert build.main([], tmp_path) == 0
    assert build.main(["--check"], tmp_path) == 0
    assert capsys.readouterr().err == ""


def test_a_changed_page_changes_one_line(tmp_path: Path) -> None:
    home = tmp_path / "kafka"
    shutil.copytree(HOME, home)
    page = home / "apis" / "heartbeat.kafka"
    page.write_text(page.read_text().replace("generation_id", "generation_number"))
    before, after = kafka_build.build(HOME).splitlines(), kafka_build.build(home).splitlines()
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert len(changed) == 1
    assert b"generation_number" in changed[0][1]


def test_each_line_is_json_and_the_index_points_at_them() -> None:
    lines = [json.loads(line) for line in kafka_build.build(HOME).splitlines()]
    index = lines[0]
    for key, api in index["apis"].items():
        blocks = lines[api["line"]]
        assert {block["kind"] for block in blocks} == {"request", "response"}, key
        assert blocks[0]["name"] == f"{api['name']}Request"
    for name, line in index["data"].items():
        assert {block["name"] for block in lines[line]} == {name}
    assert lines[index["errors"]]["0"] == {"name": "NONE", "retriable": False}
