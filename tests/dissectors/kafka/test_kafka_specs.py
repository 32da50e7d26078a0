"""Every layout of Kafka: that it is there, compiles, and reads what an encoder wrote from the same layout."""

from __future__ import annotations

import random

import pytest
from struct_encoder import encode, some_body, with_records

from mqsniff.spec.compile import FALLBACK_ERRORS
from mqsniff.spec.interpret import DecodeWindow, interpret
from mqsniff.spec.layout import Layout
from mqsniff_kafka import specs

KINDS: tuple[specs.DefinitionKind, ...] = ("request", "response")


def api_layouts() -> list[Layout]:
    return [
        layout
        for key, api in specs.apis().items()
        for kind in KINDS
        for version in range(api.versions.first, api.versions.last + 1)
        for layout in specs.layouts(key, kind, version)
    ]


def record_layouts() -> list[Layout]:
    index = specs._index()
    lines = [
        (line, kind) for kinds in index["records"].values() for kind, keys in kinds.items() for line in keys.values()
    ]
    found = [layout for line, kind in lines for some in specs._by_version(line, kind).values() for layout in some]
    return found + [layout for name in index["data"] for some in specs._data(name).values() for layout in some]


def every_layout() -> list[Layout]:
    return api_layouts() + record_layouts()


# ---- what there is


def test_there_are_736_layouts_618_of_trunk_and_118_legacy() -> None:
    counts = {"trunk": 0, "legacy": 0}
    for key, api in specs.apis().items():
        for kind in KINDS:
            for version in range(api.versions.first, api.versions.last + 1):
                assert specs.layouts(key, kind, version)[0].note == ""
                counts["legacy" if api.legacy.holds(version) else "trunk"] += 1
    assert counts == {"trunk": 618, "legacy": 118}


def test_there_are_two_requests_and_three_responses_whose_version_once_meant_other_bytes() -> None:
    found = {kind: [] for kind in KINDS}
    for key in specs.apis():
        for kind in KINDS:
            found[kind] += [f"{one.spec.name} {one.variant}" for one in specs.definitions(key, kind) if one.variant]
    assert found == {
        "request": ["EndQuorumEpochRequest 2.7", "ConsumerGroupHeartbeatRequest 3.5-3.6"],
        "response": [
            "ConsumerGroupHeartbeatResponse 3.5-3.6",
            "ConsumerGroupDescribeResponse 3.7",
            "ReadShareGroupStateSummaryResponse 3.9-4.0",
        ],
    }


def test_requests_and_responses_of_an_api_have_the_same_versions() -> None:
    for key, api in specs.apis().items():
        for kind in KINDS:
            (today,) = (one for one in specs.definitions(key, kind) if not one.variant)
            assert (today.spec.versions, today.legacy) == (api.versions, api.legacy)


def test_the_index_says_of_flexible_versions_what_the_definitions_say() -> None:
    for key, api in specs.apis().items():
        for kind, flexible in zip(KINDS, (api.flexible_requests, api.flexible_responses), strict=True):
            for version in range(api.versions.first, api.versions.last + 1):
                assert specs.layouts(key, kind, version)[0].struct.flexible == flexible.holds(version)


def test_what_is_unknown_has_no_layout() -> None:
    assert specs.layouts(9999, "request", 0) == ()
    assert specs.layouts(3, "request", 200) == ()
    assert specs.data("NoSuchThing", 0) == ()
    assert specs.record("consumer_offsets", "key", 99, 0) == ()
    assert specs.enum("no_such_enum") == {}


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("RequestHeader", [0, 1, 2]),
        ("ResponseHeader", [0, 1]),
        ("ConsumerProtocolSubscription", [0, 1, 2, 3]),
        ("ConsumerProtocolAssignment", [0, 1, 2, 3]),
        ("DefaultPrincipalData", [0]),
        ("LeaderChangeMessage", [0, 1]),
        ("SubscriptionInfoData", list(range(1, 12))),
    ],
)
def test_structures_without_a_key_are_found_by_name(name: str, versions: list[int]) -> None:
    assert [version for version in range(20) if specs.data(name, version)] == versions


@pytest.mark.parametrize(
    ("page", "kind", "types"),
    [
        ("consumer_offsets", "key", [*range(18), *range(19, 24)]),
        ("transaction_state", "value", [0]),
        ("share_group_state", "key", [0, 1]),
        ("cluster_metadata", "metadata", [*range(13), *range(14, 30)]),
        ("remote_log_metadata", "metadata", [0, 1, 2, 3]),
    ],
)
def test_records_of_internal_topics_are_found_by_page_and_type(page: str, kind: str, types: list[int]) -> None:
    assert [key for key in range(40) if specs.record(page, kind, key, 0)] == types  # type: ignore[arg-type]


def test_a_record_whose_version_once_meant_other_bytes_has_a_layout_for_each_meaning() -> None:
    assert [layout.note for layout in specs.record("cluster_metadata", "metadata", 10, 0)] == ["", "2.8", "3.0-3.5"]


def test_only_what_is_asked_for_is_parsed() -> None:
    for cached in (specs._definitions, specs._by_version):
        cached.cache_clear()
    layout = specs.layouts(3, "response", 12)[0]
    assert layout is specs.layouts(3, "response", 12)[0]
    assert specs._definitions.cache_info().currsize == 1
    assert layout._struct is None
    assert layout._fast is None


def test_unknown_keys_and_versions_leave_nothing_behind() -> None:
    specs.layouts(3, "request", 0)
    before = specs._by_version.cache_info().currsize
    for number in range(1000, 3000):
        assert specs.layouts(number, "request", 0) == specs.layouts(3, "request", number) == ()
        assert specs.record("consumer_offsets", "key", number, number) == specs.data("RequestHeader", number) == ()
    assert specs._by_version.cache_info().currsize <= before + 1


def test_the_newest_version_of_a_structure_is_told() -> None:
    assert specs.newest_data_version("ConsumerProtocolSubscription") == 3


def test_tables_are_whole() -> None:
    assert specs.errors()[35] == "UNSUPPORTED_VERSION"
    assert len(specs.errors()) == 138
    assert 3 in specs.retriable_errors()
    assert specs.enum("isolation_level") == {0: "read_uncommitted", 1: "read_committed"}
    assert specs.enum_bits("authorized_operations") == "acl_operation"
    assert specs.releases()["0.10.0"][18] == (0, 0, False)
    assert specs.releases()["4.5"][22] == (0, 6, True)
    assert specs.release() == "4.5"


def test_every_mark_names_a_table_or_something_that_the_notation_knows() -> None:
    known = set(specs._enums()) | {"error", "topic_name", "topic_id", "group_id", "broker_id", "producer_id"}
    known |= {"transactional_id", "api_key", "config_name", "config_value", "member_metadata", "member_assignment"}
    known |= {"user_data", "principal", "envelope_request", "envelope_response", "otlp_metrics", "ip_address"}
    known |= {"commit_metadata"}

    def marks(struct) -> set[str]:
        items = (*struct.items, *struct.tagged)
        return {item.mark for item in items}.union(*(marks(item.struct) for item in items if item.struct))

    assert set().union(*(marks(layout.struct) for layout in every_layout())) - {""} <= known


def test_credentials_are_secret() -> None:
    secret = set()

    def walk(name: str, struct) -> None:
        for item in (*struct.items, *struct.tagged):
            if item.secret:
                secret.add(f"{name}.{item.name}")
            if item.struct:
                walk(name, item.struct)

    for layout in every_layout():
        walk(layout.name, layout.struct)
    assert secret == {
        "AlterUserScramCredentialsRequest.salt",
        "AlterUserScramCredentialsRequest.salted_password",
        "CreateDelegationTokenResponse.hmac",
        "DescribeDelegationTokenResponse.hmac",
        "ExpireDelegationTokenRequest.hmac",
        "RenewDelegationTokenRequest.hmac",
        "SaslAuthenticateRequest.auth_bytes",
        "SaslAuthenticateResponse.auth_bytes",
        "UserScramCredentialRecord.salt",
        "UserScramCredentialRecord.salted_password",
        "UserScramCredentialRecord.server_key",
        "UserScramCredentialRecord.stored_key",
    }


# ---- that it reads


@pytest.mark.parametrize("richness", [0, 1, 3])
def test_every_layout_reads_what_was_written_by_it_fast_and_slow(richness: int) -> None:
    chance = random.Random(richness)
    for layout in every_layout():
        body = some_body(layout.struct, chance, richness=richness)
        data = encode(layout.struct, body)
        fast, stop = layout.fast(data, 0, len(data), len(data))
        slow = interpret(layout.struct, data, DecodeWindow(0, len(data), len(data)))
        assert with_records(fast, data) == body, layout
        assert stop == slow.stop == len(data), layout
        assert (slow.body, slow.problems, slow.broken) == (fast, (), None), layout


def test_every_layout_cut_at_every_byte_stumbles_and_keeps_what_it_had() -> None:
    chance = random.Random(7)
    for layout in every_layout():
        data = encode(layout.struct, some_body(layout.struct, chance, richness=1))[:300]
        for end in range(len(data)):
            cut = data[:end]
            try:
                body, stop = layout.fast(cut, 0, end, end)
            except FALLBACK_ERRORS:
                decoded = layout.decode(cut)
                assert decoded.broken or decoded.problems, (layout, end)
            else:
                assert (layout.decode(cut).body, stop <= end) == (body, True)
            spans = layout.spans(cut)
            assert [span.start for span in spans] == [0, *(span.stop for span in spans)][: len(spans)]


def test_a_body_inside_a_frame_is_read_between_its_ends() -> None:
    chance = random.Random(3)
    layout = specs.layouts(3, "response", 9)[0]
    body = some_body(layout.struct, chance, richness=2)
    data = encode(layout.struct, body)
    inside = b"\x00\x00\x00\x07\x00" + data + b"\xff" * 40
    decoded = layout.decode(inside, 5, 5 + len(data))
    assert (decoded.body, decoded.stop, decoded.broken) == (body, 5 + len(data), None)
    shorter = layout.decode(inside, 5, 4 + len(data))
    assert shorter.broken is not None
