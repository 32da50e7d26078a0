"""Specifications and the layouts of their versions."""

from __future__ import annotations

import pytest

from mqsniff.spec.schema import NEVER, NEWEST, FieldSpec, MessageSpec, Versions, resolve


@pytest.mark.parametrize(
    ("text", "versions"),
    [("3", Versions(3, 3)), ("0-12", Versions(0, 12)), ("7+", Versions(7, NEWEST)), ("none", NEVER)],
)
def test_versions_are_read_and_printed(text: str, versions: Versions) -> None:
    assert Versions.parse(text) == versions
    assert str(versions) == text


@pytest.mark.parametrize("text", ["", "+", "a", "1-", "-1", "1-2-3"])
def test_what_is_no_range_of_versions_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        Versions.parse(text)


def test_both_ends_of_a_range_are_inside() -> None:
    assert [version for version in range(6) if Versions(2, 4).holds(version)] == [2, 3, 4]
    assert not any(NEVER.holds(version) for version in range(6))


def test_what_plain_data_leaves_out_means_the_usual() -> None:
    field = FieldSpec.from_plain({"name": "count", "type": "int32"})
    assert field == FieldSpec(
        name="count",
        type="int32",
        array=False,
        versions=Versions(0, NEWEST),
        nullable=NEVER,
        tag=None,
        tagged=NEVER,
        flexible=True,
        mark="",
        secret=False,
        fields=(),
    )


SPEC = MessageSpec.from_plain(
    {
        "name": "Example",
        "versions": "0-4",
        "flexible": "3+",
        "fields": [
            {"name": "old", "type": "string", "versions": "0-1", "nullable": "1+"},
            {"name": "client", "type": "string", "flexible": False},
            {"name": "late", "type": "int8", "versions": "4+", "tag": 7, "tagged": "4+"},
            {"name": "early", "type": "int64", "versions": "2+", "tag": 1, "tagged": "2+"},
            {
                "name": "parts",
                "type": "struct",
                "array": True,
                "nullable": "2+",
                "fields": [{"name": "number", "type": "int32", "mark": "part"}],
            },
        ],
    }
)


@pytest.mark.parametrize(
    ("version", "in_line", "tagged", "flexible"),
    [
        (0, ["old", "client", "parts"], [], False),
        (1, ["old", "client", "parts"], [], False),
        (2, ["client", "early", "parts"], [], False),  # no tagged block to stand in
        (3, ["client", "parts"], ["early"], True),
        (4, ["client", "parts"], ["early", "late"], True),
    ],
)
def test_a_version_has_its_own_fields(version: int, in_line: list[str], tagged: list[str], flexible: bool) -> None:
    layout = resolve(SPEC, version)
    assert [item.name for item in layout.items] == in_line
    assert [item.name for item in layout.tagged] == tagged
    assert layout.flexible is flexible


def test_null_belongs_to_versions() -> None:
    assert [resolve(SPEC, version).items[0].nullable for version in (0, 1)] == [False, True]
    assert [resolve(SPEC, version).items[-1].nullable for version in (1, 2)] == [False, True]


def test_flexibility_reaches_into_structs_but_not_into_fields_that_keep_the_old_encoding() -> None:
    client, parts = resolve(SPEC, 3).items
    assert not client.compact
    assert parts.compact
    assert parts.struct is not None
    assert parts.struct.flexible
    assert parts.struct.items[0].mark == "part"


def test_a_version_outside_of_the_definition_is_refused() -> None:
    with pytest.raises(ValueError, match="Example has no version 5"):
        resolve(SPEC, 5)
