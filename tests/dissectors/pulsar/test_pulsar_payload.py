"""The parts after a command: what is told of each, wherever the frame is cut or damaged."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c
from pulsarcraft import CHECKSUM, ENTRY, encoded, payload

from mqsniff.limits import Limits
from mqsniff.model import Frame, PayloadBytes, PayloadChecksum, PayloadText, Problem, Side, Undecoded
from mqsniff_pulsar.payload import Payload, read_payload, with_payload

COMMAND = b"\0\0\0\x63\0\0\0\x07command"
"""What stands before the parts."""
AT = len(COMMAND)
TOLD = encoded("MessageMetadata", producer_name="p-0", sequence_id=0, publish_time=1)
BROKER = encoded("BrokerEntryMetadata", index=7)
PARTS = payload(b"value", entry=BROKER)
CRC = crc32c(struct.pack(">I", len(TOLD)) + TOLD + b"value")
ENTRY_SIZE, HEAD_SIZE = 6 + len(BROKER), 6


def read(parts: bytes, *, kept: int | None = None) -> tuple[Payload, Undecoded | None]:
    whole = COMMAND + parts
    data = whole if kept is None else whole[: AT + kept]
    return read_payload(Frame(Side.CLIENT, 0, len(whole), data, 0, 0, 1, 1, 0), AT, Limits())


def body_of(found: Payload) -> dict[str, Any]:
    body: dict[str, Any] = {}
    found.put_into(body)
    return body


def test_every_part_is_told_with_its_size() -> None:
    found, undecoded = read(PARTS)
    assert (found.problems, undecoded) == ([], None)
    assert body_of(found) == {
        "broker_entry_metadata": {"index": 7},
        "metadata": {"producer_name": "p-0", "sequence_id": 0, "publish_time": 1},
        "payload": {
            "size": 5,
            "checksum_ok": True,
            "command_size": AT - 8,
            "broker_entry_metadata_size": len(BROKER),
            "metadata_size": len(TOLD),
            "checksum": CRC,
        },
    }
    assert type(found.sizes["checksum"]) is PayloadChecksum
    assert (found.start, found.size) == (AT + len(PARTS) - 5, 5)


def test_a_frame_may_have_neither_checksum_nor_metadata_of_the_broker() -> None:
    found, undecoded = read(payload(b"", checksum=False))
    assert (found.problems, undecoded, found.checksum_ok, found.entry) == ([], None, None, None)
    assert body_of(found)["payload"] == {"size": 0, "command_size": AT - 8, "metadata_size": len(TOLD)}


@pytest.mark.parametrize("at", [-1, -6, -len(PARTS) + ENTRY_SIZE + 2])
def test_a_wrong_checksum_is_told(at: int) -> None:
    damaged = bytearray(PARTS)
    damaged[at] ^= 1
    found, _ = read(bytes(damaged))
    assert found.checksum_ok is False
    assert Problem("checksum", "error", "the CRC-32C does not match", "payload") in found.problems
    assert body_of(found)["payload"]["checksum_ok"] is False


@pytest.mark.parametrize("kept", range(len(PARTS)))
def test_of_a_frame_that_is_cut_the_captured_parts_are_told(kept: int) -> None:
    found, undecoded = read(PARTS, kept=kept)
    shown = body_of(found)
    size_at = ENTRY_SIZE + HEAD_SIZE
    assert undecoded is None
    assert found.checksum_ok is None
    assert ("checksum" in found.sizes) == (kept >= size_at)
    assert ("broker_entry_metadata_size" in found.sizes) == (kept >= 6)
    assert ("metadata_size" in found.sizes) == (kept >= size_at + 4)
    assert (found.metadata == {"producer_name": "p-0", "sequence_id": 0, "publish_time": 1}) == (
        kept >= size_at + 4 + len(TOLD)
    )
    assert (shown["payload"].get("size") == 5) == (kept >= size_at + 4)
    assert all(problem.severity in ("error", "info", "warning") for problem in found.problems)


def test_a_part_that_is_longer_than_its_frame_leaves_all_of_it_undecoded() -> None:
    for lie in (ENTRY + struct.pack(">I", 99) + PARTS[6:], struct.pack(">I", 99) + TOLD):
        found, undecoded = read(lie)
        assert found.problems == [Problem("malformed", "error", "length past the end", "metadata")]
        assert (undecoded, body_of(found)) == (Undecoded(lie), {"payload": {"command_size": AT - 8}})


def test_a_whole_frame_without_metadata_lacks_them() -> None:
    for parts in (b"", b"\0\0\0", CHECKSUM + bytes(4)):
        found, undecoded = read(parts)
        missing = Problem("missing_field", "error", "no metadata after the command", "metadata")
        assert [problem for problem in found.problems if problem.kind == "missing_field"] == [missing]
        assert undecoded == Undecoded(parts)


def test_problems_of_metadata_have_the_path_of_their_part() -> None:
    odd = encoded("MessageMetadata", producer_name="p-0", publish_time=1)
    parts = struct.pack(">I", len(odd)) + odd
    found, _ = read(parts)
    assert {problem.path.split(".")[0] for problem in found.problems} == {"metadata"}
    entry = b"\xff\xff\xff"
    found, _ = read(ENTRY + struct.pack(">I", len(entry)) + entry + payload(b"v", checksum=False))
    assert [problem.path.split(".")[0] for problem in found.problems] == ["broker_entry_metadata"]


def test_keys_and_values_of_properties_are_payload_and_nothing_else_is() -> None:
    marked = with_payload(
        {
            "partition_key": "key",
            "ordering_key": b"order",
            "producer_name": "p",
            "properties": [{"key": "a", "value": "1"}, {"key": "b", "value": b"2"}, {"key": "c"}, b"odd"],
        }
    )
    assert [type(marked[name]) for name in ("partition_key", "ordering_key", "producer_name")] == [
        *(PayloadText, PayloadBytes, str),
    ]
    first, second, third, odd = marked["properties"]
    assert [type(first["value"]), type(second["value"]), type(first["key"])] == [PayloadText, PayloadBytes, str]
    assert (third, odd) == ({"key": "c"}, b"odd")
    assert with_payload({"partition_key": None}) == {"partition_key": None}
    assert with_payload({}) == {}
