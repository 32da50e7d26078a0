"""Headers, bodies and messages as RocketMQ's own Java classes write them: an oracle that is not ours."""

from __future__ import annotations

import pytest
from javavectors import lines

from mqsniff.codecs.inflation import InflationBudget
from mqsniff.limits import Limits
from mqsniff.model import Secret, Undecoded
from mqsniff_rocketmq import heads
from mqsniff_rocketmq.bodies import Mentions, read_body
from mqsniff_rocketmq.extfields import note_missing, read_ext
from mqsniff_rocketmq.headers import read_header
from mqsniff_rocketmq.notes import ProblemNotes
from mqsniff_rocketmq.records import delivered, of_batch
from mqsniff_rocketmq.stored import COMPRESSED, host_text, properties_value, read_batch, read_stored
from mqsniff_rocketmq.tables import BOOL, INT32, INT64, TEXT, tables

HEADERS = [(release, line) for release in ("5.5.0", "4.9.7") for line in lines(f"headers-{release}.jsonl")]
BODIES = list(lines("bodies-5.5.0.jsonl"))
MESSAGES = list(lines("messages-5.5.0.jsonl"))

NOT_SENT = {
    "BrokerSyncInfo",
    "ConsumeByWho",
    "RequestHeaderRegistry",
    "RoleChangeNotifyEntry",
    "RollbackStats",
    "TopicConfigSerializeWrapper",
    "TopicQueueMappingContext",
    "TopicQueueMappingOne",
    "TopicQueueMappingSerializeWrapper",
    "TopicRemappingDetailWrapper",
}
"""Classes among the bodies that no request and no response carries."""
SINCE_4 = {"GetAllTopicConfigResponseHeader"}
"""Classes that had no fields in 4.9.7 and have required ones now."""


def typed(kind: int, text: str) -> object:
    """What the text of a header field means, as Java's classes declare it."""
    match kind:
        case k if k in (INT32, INT64):
            return int(text)
        case k if k == BOOL:
            return text == "true"
    return text


@pytest.mark.parametrize(
    ("release", "line"),
    HEADERS,
    ids=[f"{line['class']}-{line['serialization']}-{release}" for release, line in HEADERS],
)
def test_every_header_class_is_read_from_both_serialisations(release, line):
    assert heads.probe(line["frame"]) == heads.frame_size(line["frame"]) == len(line["frame"])
    notes = ProblemNotes(Limits())
    found, stop = read_header(line["frame"], notes)
    assert (found.opaque, found.fields["remark"]) == (4711, "a remark ü")
    assert line["frame"][stop:] in (b"a body", b"b")
    assert (found.ext or {}) == line["fields"]
    header = tables().headers[line["class"]]
    ext = read_ext(found.ext or {}, header, notes)
    assert "unknown_fields" not in ext
    if line["class"] not in SINCE_4 or release != "4.9.7":
        note_missing(ext, header, notes)
    assert notes.problems == []
    for wire, text in line["fields"].items():
        field = header.fields[wire]
        if field.kind in (INT32, INT64, BOOL, TEXT):
            assert ext[field.name] == typed(field.kind, text)
        else:
            assert isinstance(ext[field.name], dict | list | Secret)


def test_nearly_every_header_class_of_ours_is_among_them():
    ours = {name for name, header in tables().headers.items() if header.own}
    theirs = {line["class"] for _, line in HEADERS}
    assert theirs <= set(tables().headers)
    assert ours - theirs == {
        "BrokerCloseChannelRequest",
        "CheckNotActiveBrokerRequest",
        "Common",
        "GetBrokerLiveInfoRequest",
        "GetSyncStateDataRequest",
        "RaftBrokerHeartBeatEventRequest",
        "RpcRequestHeader",
        "TopicQueueRequestHeader",
        "TopicRequestHeader",
        "UserDefineCommandHeader",
    }


def test_each_request_code_has_the_header_class_that_java_says():
    said = {(line["code"], line["class"]) for _, line in HEADERS if line.get("code") is not None}
    ours = {
        (code, part.header_name)
        for code, request in tables().requests.items()
        for part in (request.request, request.response)
    }
    assert len(said) > 90
    assert said <= ours


@pytest.mark.parametrize("line", BODIES, ids=[f"{at}-{line['class']}" for at, line in enumerate(BODIES)])
def test_every_json_body_that_java_writes_is_known_to_the_last_key(line):
    if line["class"] in NOT_SENT:
        assert line["class"] not in tables().bodies
        return
    kind = "register-broker" if line["class"] == "RegisterBrokerBody" else line["class"]
    notes = ProblemNotes(Limits())
    value = read_body(kind, line["body"], notes, Mentions())
    assert notes.problems == []
    assert unknown(value) == []


def unknown(value: object) -> list[str]:
    """Names of keys that no class has."""
    match value:
        case Undecoded():
            return ["undecoded"]
        case dict():
            found = list(value.get("unknown_fields", ()))
            return found + [name for inner in value.values() for name in unknown(inner)]
        case list():
            return [name for inner in value for name in unknown(inner)]
    return []


def test_a_compressed_registration_says_what_the_plain_one_says():
    plain, packed = (line["body"] for line in BODIES if line.get("compressed") is not None)
    first, second = (read_body("register-broker", body, ProblemNotes(Limits()), Mentions()) for body in (plain, packed))
    wrapper, other = (body["topic_config_serialize_wrapper"] for body in (first, second))
    assert packed[:1] == b"\x78"
    assert first["filter_server_list"] == second["filter_server_list"]
    for name in ("data_version", "topic_queue_mapping_info_map"):
        assert list(wrapper[name].values())[:1] == list(other[name].values())[:1]
    (config,), (short,) = wrapper["topic_config_table"].values(), other["topic_config_table"].values()
    assert {name: config[name] for name in short if name != "attributes"} == {
        name: value for name, value in short.items() if name != "attributes"
    }
    assert len(short) == 6


@pytest.mark.parametrize("line", [line for line in MESSAGES if line["what"] != "batch"], ids=lambda line: line["what"])
def test_a_stored_message_is_read_as_java_reads_it(line):
    notes = ProblemNotes(Limits())
    (message,), stop = read_stored(line["bytes"], notes, "")
    assert (stop, notes.problems) == (len(line["bytes"]), [])
    assert message.sys_flag & ~COMPRESSED == line["sys_flag"]  # Java clears the bit when it decompresses
    names = ("topic", "queue_id", "queue_offset", "flag", "born_timestamp", "store_timestamp")
    assert {name: getattr(message, name) for name in names} == {name: line[name] for name in names}
    assert (message.reconsume_times, message.message_id) == (line["reconsume_times"], line["message_id"])
    assert message.checksum_ok is True
    assert host_text(message.born_host, message.born_port) == "10.1.2.3:50123"
    assert host_text(message.store_host, message.store_port) == "10.1.2.4:10911"
    properties = properties_value(line["bytes"][message.properties : message.properties_stop])
    assert properties == line["properties"]
    batch = delivered([message], [properties], line["bytes"], InflationBudget(Limits()), notes)
    assert value_of(batch, 0) == line["plain"] == line["body"]
    assert key_of(batch, 0) == b"key one"
    assert batch.columns["codec"][0] == line["what"].removeprefix("compressed ").lower().replace("plain", "none")
    assert notes.problems == []


def value_of(batch, index: int) -> bytes:
    return batch.data[batch.values[0][index] : batch.values[1][index]]


def key_of(batch, index: int) -> bytes:
    return batch.data[batch.keys[0][index] : batch.keys[1][index]]


def test_a_batch_is_read_as_java_wrote_it():
    (line,) = (line for line in MESSAGES if line["what"] == "batch")
    notes = ProblemNotes(Limits())
    messages, stop = read_batch(line["bytes"], notes, "")
    assert (stop, notes.problems) == (len(line["bytes"]), [])
    assert [message.flag for message in messages] == [0, 1, 2]
    batch = of_batch({"topic": "t"}, messages, line["bytes"])
    assert [value_of(batch, index) for index in range(3)] == [b"body-0", b"body-1", b"body-2"]
    assert [key_of(batch, index) for index in range(3)] == [b"key0", b"key1", b"key2"]
    assert batch.columns["unique_key"] == [f"7F0000016B5D4E0E2F2A69388673000{index}" for index in range(3)]
    assert dict(batch.headers[1])["TAGS"] == b"TagA"
