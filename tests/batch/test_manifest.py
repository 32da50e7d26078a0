"""Manifests and their checkpoint: what was written is read, and anything else is an error or nothing."""

from __future__ import annotations

import gzip

import orjson
import pytest

from mqsniff.batch.manifest import (
    Manifest,
    ManifestError,
    ManifestInput,
    Published,
    decoded_checkpoint,
    encoded_checkpoint,
    run_digest,
)

MANIFEST = Manifest(
    run="20260101T000000-00000001",
    digest="d",
    version="1",
    schema_version="2",
    inputs=(ManifestInput("/a", 5, "m"), ManifestInput("/b", 6, "n", "unreadable")),
    parts=(
        Published("messages", "messages/1.parquet", 7, 8),
        Published("records", "records/1.parquet", 9, 10, (("kafka", "id", "name"), ("kafka", "other", None))),
    ),
    replaces=("r0",),
    options={"a": [1, "x"]},
    report={"packets": 3},
    drops=("messages/0.parquet",),
    carried=(Published("", "_mqsniff/carried/1-state.json", 1, 2),),
)


@pytest.mark.parametrize("indented", [True, False])
def test_a_manifest_is_read_as_it_was_written(*, indented: bool) -> None:
    data = MANIFEST.encoded(indented=indented)
    assert Manifest.decoded(data) == MANIFEST
    assert (b"\n" in data) is indented


def test_a_manifest_is_json_that_others_can_read() -> None:
    plain = orjson.loads(MANIFEST.encoded())
    assert plain == {
        "run": "20260101T000000-00000001",
        "digest": "d",
        "version": "1",
        "schema_version": "2",
        "inputs": [
            {"uri": "/a", "size": 5, "mark": "m", "status": "ok"},
            {"uri": "/b", "size": 6, "mark": "n", "status": "unreadable"},
        ],
        "parts": [
            {"table": "messages", "path": "messages/1.parquet", "rows": 7, "size": 8},
            {
                "table": "records",
                "path": "records/1.parquet",
                "rows": 9,
                "size": 10,
                "topic_ids": [["kafka", "id", "name"], ["kafka", "other", None]],
            },
        ],
        "replaces": ["r0"],
        "options": {"a": [1, "x"]},
        "report": {"packets": 3},
        "drops": ["messages/0.parquet"],
        "carried": [{"table": "", "path": "_mqsniff/carried/1-state.json", "rows": 1, "size": 2}],
        "format": 1,
    }


def test_a_manifest_of_before_runs_carried_is_read() -> None:
    plain = orjson.loads(MANIFEST.encoded())
    del plain["drops"], plain["carried"]
    old = Manifest.decoded(orjson.dumps(plain))
    assert (old.drops, old.carried, old.parts) == ((), (), MANIFEST.parts)


@pytest.mark.parametrize("missing", ["format", "inputs", "parts", "replaces", "run"])
def test_a_manifest_without_a_part_is_none(missing: str) -> None:
    plain = orjson.loads(MANIFEST.encoded())
    del plain[missing]
    with pytest.raises(ManifestError, match="no manifest"):
        Manifest.decoded(orjson.dumps(plain))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"null"])
def test_what_is_no_manifest_is_an_error(data: bytes) -> None:
    with pytest.raises(ManifestError, match="no manifest"):
        Manifest.decoded(data)


def test_a_manifest_of_a_later_format_is_an_error_of_its_own() -> None:
    plain = orjson.loads(MANIFEST.encoded()) | {"format": 2}
    with pytest.raises(ManifestError, match="a manifest of a later mqsniff"):
        Manifest.decoded(orjson.dumps(plain))


def test_names_of_any_bytes_are_escaped() -> None:
    odd = Manifest("r", "d", "1", "2", (ManifestInput("/caf\udce9", 1, "m"),), ())
    assert Manifest.decoded(odd.encoded()).inputs[0].uri == "/caf\\udce9"


# ---- digests

ONE, TWO = ManifestInput("/a", 5, "m"), ManifestInput("/b", 6, "n")


def test_the_digest_of_a_run_does_not_depend_on_the_order_of_inputs_and_options() -> None:
    digest = run_digest([ONE, TWO], {"a": 1, "b": 2})
    assert run_digest([TWO, ONE], {"b": 2, "a": 1}) == digest
    assert run_digest([ONE._replace(status="damaged"), TWO], {"a": 1, "b": 2}) == digest
    assert len(digest) == 32


@pytest.mark.parametrize("changed", [{"uri": "/c"}, {"size": 7}, {"mark": "x"}])
def test_the_digest_of_a_run_changes_with_its_inputs_and_options(changed: dict[str, str]) -> None:
    digest = run_digest([ONE, TWO], {"a": 1})
    assert run_digest([ONE._replace(**changed), TWO], {"a": 1}) != digest
    assert run_digest([ONE], {"a": 1}) != digest
    assert run_digest([ONE, TWO], {"a": 2}) != digest


# ---- the checkpoint

COPIES = {"runs/1.json": (5, b'{"a": 1}'), "runs/2.json": (6, b'{"b":\t2}')}


@pytest.mark.parametrize("copies", [{}, COPIES])
def test_a_checkpoint_is_read_as_it_was_written(copies: dict[str, tuple[int, bytes]]) -> None:
    assert decoded_checkpoint(encoded_checkpoint(copies)) == copies


@pytest.mark.parametrize(
    "data",
    [None, b"", b"no gzip", encoded_checkpoint(COPIES)[:-9], gzip.compress(b"no json\tx"), gzip.compress(b"[1]")],
)
def test_what_is_no_checkpoint_decides_nothing(data: bytes | None) -> None:
    assert decoded_checkpoint(data) == {}
