"""RocketMQ remoting on the wire, written from the protocol's description, apart from the dissector: frames, messages
and conversations; and the replication stream between brokers.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping

from mqsniff.testing.conversations import Say, client, server

JAVA, VERSION = "JAVA", 513
MAGIC_V1, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
BORN = 1_795_255_473_376
UNIQUE = "7F0000016B5D4E0E2F2A69388673"
RESPONSE, ONEWAY = 1, 2

# ---- frames


def frame(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    """length | serialize type and header length | header | body"""
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def json_frame(
    code: int, opaque: int, ext: Mapping[str, object] | None = None, body: bytes = b"", *, flag: int = 0, **more: object
) -> bytes:
    """As Java's fastjson writes it: sorted keys, text values, no field for null."""
    fields: dict[str, object] = {"code": code, "flag": flag, "language": JAVA, "opaque": opaque, "version": VERSION}
    fields["serializeTypeCurrentRPC"] = "JSON"
    if ext is not None:
        fields["extFields"] = {key: str(value) for key, value in ext.items()}
    fields |= more
    header = json.dumps(dict(sorted(fields.items())), separators=(",", ":"), ensure_ascii=False)
    return frame(header.encode(), body)


def binary_header(
    code: int,
    opaque: int,
    ext: Mapping[str, object] | None = None,
    *,
    flag: int = 0,
    remark: str = "",
    language: int = 0,
) -> bytes:
    """The serialisation ROCKETMQ; a code above 32767 is cut to 16 bits, as Java does."""
    code = (code + 0x8000 & 0xFFFF) - 0x8000
    entries = b"".join(
        struct.pack(">h", len(key.encode())) + key.encode() + struct.pack(">i", len(text.encode())) + text.encode()
        for key, text in ((key, str(value)) for key, value in (ext or {}).items())
    )
    head = struct.pack(">hBhiii", code, language, VERSION, opaque, flag, len(remark.encode())) + remark.encode()
    return head + struct.pack(">i", len(entries)) + entries


def binary_frame(
    code: int,
    opaque: int,
    ext: Mapping[str, object] | None = None,
    body: bytes = b"",
    *,
    flag: int = 0,
    remark: str = "",
    language: int = 0,
) -> bytes:
    return frame(binary_header(code, opaque, ext, flag=flag, remark=remark, language=language), body, kind=1)


def answer(
    opaque: int, ext: Mapping[str, object] | None = None, body: bytes = b"", *, code: int = 0, **more: object
) -> bytes:
    return json_frame(code, opaque, ext, body, flag=RESPONSE, **more)


# ---- messages


def properties(**named: str) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in named.items())


def batch_message(body: bytes, text: str = "", *, flag: int = 0) -> bytes:
    raw = text.encode()
    size = 4 * 5 + len(body) + 2 + len(raw)
    return struct.pack(">iiiii", size, 0, 0, flag, len(body)) + body + struct.pack(">H", len(raw)) + raw


def host(address: str, port: int) -> bytes:
    parts = address.split(".")
    raw = bytes(map(int, parts)) if len(parts) == 4 else bytes.fromhex(address)
    return raw + struct.pack(">i", port)


def stored(
    body: bytes,
    text: str = "",
    *,
    topic: str = "orders",
    queue: int = 0,
    offset: int = 0,
    physical: int = 4096,
    sys_flag: int = 0,
    reconsumed: int = 0,
    crc: int | None = None,
    born: str = "10.1.2.3",
    store: str = "10.1.2.4",
) -> bytes:
    """A message as a broker stores it; hosts of 32 hex digits are IPv6."""
    raw, name = text.encode(), topic.encode()
    sys_flag |= (0x10 if len(born) == 32 else 0) | (0x20 if len(store) == 32 else 0)
    crc = zlib.crc32(body) & 0x7FFFFFFF if crc is None else crc
    magic, topic_size = (MAGIC_V1, ">B") if len(name) < 128 else (MAGIC_V2, ">H")
    rest = b"".join(
        (
            struct.pack(">Iiiiqqiq", magic, crc, queue, 0, offset, physical, sys_flag, BORN),
            host(born, 50_123),
            struct.pack(">q", BORN + 23),
            host(store, 10_911),
            struct.pack(">iqi", reconsumed, 0, len(body)),
            body,
            struct.pack(topic_size, len(name)) + name,
            struct.pack(">H", len(raw)) + raw,
        )
    )
    return struct.pack(">i", 4 + len(rest)) + rest


# ---- requests that several tests want


def send_fields(topic: str = "orders", queue: int = 2, **more: object) -> dict[str, object]:
    """Ext fields of SEND_MESSAGE_V2; the property text is ``i``."""
    fields: dict[str, object] = {
        "a": "shop_p",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue,
        "f": 0,
        "g": BORN,
        "h": 0,
    }
    fields |= {"i": properties(KEYS="k1", UNIQ_KEY=UNIQUE + "0001", TAGS="A"), "j": 0, "k": "false", "m": "false"}
    return fields | {"n": "broker-a"} | more


def pull_fields(offset: int = 0, **more: object) -> dict[str, object]:
    fields: dict[str, object] = {"consumerGroup": "shop_c", "topic": "orders", "queueId": 0, "queueOffset": offset}
    fields |= {"maxMsgNums": 32, "sysFlag": 2, "commitOffset": 0, "suspendTimeoutMillis": 15000, "subVersion": BORN}
    return fields | {"subscription": "*", "expressionType": "TAG"} | more


def pull_result(next_offset: int, **more: object) -> dict[str, object]:
    return {"suggestWhichBrokerId": 0, "nextBeginOffset": next_offset, "minOffset": 0, "maxOffset": next_offset} | more


def pop_fields(**more: object) -> dict[str, object]:
    fields: dict[str, object] = {"consumerGroup": "crew", "topic": "jobs", "queueId": -1, "maxMsgNums": 32}
    fields |= {"invisibleTime": 20000, "pollTime": 15000, "bornTime": BORN, "initMode": 0, "order": "false"}
    return fields | more


POP_TIME = BORN + 100


def pop_result(starts: str, offsets: str) -> dict[str, object]:
    fields: dict[str, object] = {"popTime": POP_TIME, "invisibleTime": 20000, "reviveQid": 3, "restNum": 0}
    return fields | {"startOffsetInfo": starts, "msgOffsetInfo": offsets}


def handle(queue: int, offset: int, *, start: int = 0, retry: int = 0) -> str:
    return f"{start} {POP_TIME} 20000 3 {retry} broker-a {queue} {offset}"


def ack_fields(queue: int, offset: int, **more: object) -> dict[str, object]:
    fields: dict[str, object] = {"consumerGroup": "crew", "topic": "jobs", "queueId": queue}
    return fields | {"extraInfo": handle(queue, offset), "offset": offset} | more


HEARTBEAT = json.dumps(
    {
        "clientID": "10.1.2.3@77",
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": "shop_c",
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [{"topic": "orders", "subString": "*", "tagsSet": [], "codeSet": []}],
                "unitMode": False,
            }
        ],
        "heartbeatFingerprint": 0,
        "producerDataSet": [{"groupName": "CLIENT_INNER_PRODUCER"}],
        "withoutSub": False,
    }
).encode()

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.1.2.4:10911",1:"10.1.2.5:10911"},"brokerName":"broker-a","cluster":"c"}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
    b'"writeQueueNums":4}]}'
)
RUNNING_INFO = (
    b'{"jstack":"a\\tb","mqTable":{{"brokerName":"broker-a","queueId":1,"topic":"orders"}:{"commitOffset":7,"locked":false}},'
    b'"properties":{"PROP_THREADPOOL_CORE_SIZE":"20","consumerSecret":"hush"},"statusTable":{},"subscriptionSet":[]}'
)


def registration(*topics: str) -> bytes:
    """A REGISTER_BROKER body in parts with lengths, compressed."""

    def part(raw: bytes) -> bytes:
        return struct.pack(">i", len(raw)) + raw

    parts = [part(b'{"counter":3,"stateVersion":0,"timestamp":1795255473376}'), struct.pack(">i", len(topics))]
    parts += [part(f"{topic} 4 4 6 SINGLE_TAG ".encode()) for topic in topics]
    return zlib.compress(b"".join((*parts, part(b"[]"), struct.pack(">i", 0))))


def registration_fields(body: bytes) -> dict[str, object]:
    fields: dict[str, object] = {"brokerName": "broker-a", "brokerAddr": "10.1.2.4:10911", "clusterName": "c"}
    fields |= {"haServerAddr": "10.1.2.4:10912", "brokerId": 0, "compressed": "false", "enableActingMaster": "false"}
    return fields | {"bodyCrc32": zlib.crc32(body) & 0x7FFFFFFF}


# ---- conversations

_REGISTRATION = registration("orders", "jobs")

CONVERSATIONS: dict[str, list[Say]] = {
    "producer": [
        client(json_frame(105, 0, {"topic": "orders", "acceptStandardJsonOnly": "false"})),
        server(answer(0, None, ROUTE)),
        client(json_frame(34, 1, None, HEARTBEAT), json_frame(310, 2, send_fields(), b"hello")),
        server(answer(2, {"msgId": "0A01020400002A9F0000000000001000", "queueId": 2, "queueOffset": 7})),
        server(answer(1, {"IS_SUPPORT_HEART_BEAT_V2": "true"})),
        client(json_frame(310, 3, send_fields(), b"forgotten", flag=ONEWAY)),
        client(
            json_frame(
                320, 4, send_fields(m="true", i=""), batch_message(b"one", "KEYS\x01a\x02") + batch_message(b"two")
            )
        ),
        client(json_frame(10, 5, {"topic": "orders"}, b"without its fields")),
        server(answer(5, None, code=1, remark="the custom field <producerGroup> is null")),
        server(
            answer(
                4,
                {
                    "msgId": "0A01020400002A9F0000000000001100,0A01020400002A9F0000000000001200",
                    "queueId": 1,
                    "queueOffset": 8,
                },
            )
        ),
        client(json_frame(35, 6, {"clientID": "10.1.2.3@77", "producerGroup": "shop_p"})),
        server(answer(6)),
    ],
    "consumer": [
        client(json_frame(34, 0, None, HEARTBEAT)),
        server(json_frame(40, 900, {"consumerGroup": "shop_c"}, flag=ONEWAY), answer(0)),
        client(json_frame(11, 1, pull_fields(5)), json_frame(11, 2, pull_fields(6, queueId=1))),
        server(answer(1, pull_result(7), stored(b"five", properties(KEYS="k"), offset=5) + stored(b"six", offset=6))),
        client(
            json_frame(
                15, 3, {"consumerGroup": "shop_c", "topic": "orders", "queueId": 0, "commitOffset": 7}, flag=ONEWAY
            )
        ),
        server(json_frame(307, 1, {"consumerGroup": "shop_c", "clientId": "10.1.2.3@77", "jstackEnable": "true"})),
        client(answer(1, None, RUNNING_INFO)),
        server(answer(2, pull_result(6), code=19, remark="NO_MESSAGE_IN_QUEUE")),
        client(json_frame(14, 4, {"consumerGroup": "shop_c", "topic": "orders", "queueId": 3})),
        server(answer(4, None, code=22, remark="Not found")),
    ],
    "binary headers": [
        client(binary_frame(310, 1, send_fields(), zlib.compress(b"hello " * 900))),
        server(
            binary_frame(
                0, 1, {"msgId": "0A01020400002A9F0000000000001000", "queueId": 2, "queueOffset": 7}, flag=RESPONSE
            )
        ),
        client(binary_frame(11, 2, pull_fields(5))),
        server(answer(2, pull_result(6), stored(b"five", properties(TAGS="B"), offset=5))),
        client(binary_frame(200050, 3, pop_fields())),
        server(binary_frame(3, 3, None, flag=RESPONSE, remark=" request type 3442 not supported")),
    ],
    "pop": [
        client(json_frame(200050, 1, pop_fields())),
        server(
            answer(
                1,
                pop_result("0 1 4;1 0 0", "0 1 4,5;1 0 0"),
                b"".join(
                    (
                        *(stored(b"job", topic="jobs", queue=1, offset=n) for n in (4, 5)),
                        stored(b"again", properties(POP_CK=handle(0, 0, retry=1)), topic="jobs", reconsumed=1),
                    )
                ),
            )
        ),
        client(json_frame(200051, 2, ack_fields(1, 4))),
        server(answer(2)),
        client(
            json_frame(
                200151,
                3,
                None,
                json.dumps(
                    {
                        "brokerName": "broker-a",
                        "acks": [
                            {
                                "b": "Ag==",
                                "c": "crew",
                                "it": 20000,
                                "pt": POP_TIME,
                                "q": 1,
                                "r": "0",
                                "rq": 3,
                                "so": 4,
                                "t": "jobs",
                            }
                        ],
                    }
                ).encode(),
            )
        ),
        server(answer(3)),
        client(json_frame(200053, 4, ack_fields(0, 0, invisibleTime=5000, extraInfo=handle(0, 0, retry=1)))),
        server(answer(4, {"popTime": POP_TIME + 9, "invisibleTime": 5000, "reviveQid": 3})),
        client(json_frame(200050, 5, pop_fields())),
        server(answer(5, pop_result("", ""), code=210)),
    ],
    "transaction": [
        client(
            json_frame(310, 1, send_fields(f=4, i=properties(TRAN_MSG="true", UNIQ_KEY=UNIQUE + "0002")), b"half"),
            json_frame(
                310, 2, send_fields(f=4, i=properties(TRAN_MSG="true", UNIQ_KEY=UNIQUE + "0003")), b"other half"
            ),
        ),
        server(answer(1, {"msgId": "0A01020400002A9F0000000000001000", "queueId": 2, "queueOffset": 0})),
        server(answer(2, {"msgId": "0A01020400002A9F0000000000001300", "queueId": 2, "queueOffset": 1})),
        client(
            json_frame(
                37,
                3,
                {
                    "producerGroup": "shop_p",
                    "tranStateTableOffset": 0,
                    "commitLogOffset": 4096,
                    "commitOrRollback": 8,
                    "fromTransactionCheck": "false",
                    "msgId": UNIQUE + "0002",
                },
                flag=ONEWAY,
            )
        ),
        server(
            json_frame(
                39,
                70,
                {"tranStateTableOffset": 1, "commitLogOffset": 4864, "msgId": UNIQUE + "0003"},
                stored(b"other half", properties(UNIQ_KEY=UNIQUE + "0003"), sys_flag=4),
                flag=ONEWAY,
            )
        ),
        client(
            json_frame(
                37,
                4,
                {
                    "producerGroup": "shop_p",
                    "tranStateTableOffset": 1,
                    "commitLogOffset": 4864,
                    "commitOrRollback": 12,
                    "fromTransactionCheck": "true",
                    "msgId": UNIQUE + "0003",
                },
                flag=ONEWAY,
            )
        ),
    ],
    "name server": [
        client(json_frame(103, 1, registration_fields(_REGISTRATION), _REGISTRATION)),
        server(answer(1, {"haServerAddr": "10.1.2.4:10912"})),
        client(json_frame(106, 2)),
        server(
            answer(
                2, None, b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.1.2.4:10911"}}},"clusterAddrTable":{}}'
            )
        ),
        client(
            json_frame(
                904, 3, {"clusterName": "c", "brokerAddr": "10.1.2.4:10911", "brokerName": "broker-a"}, flag=ONEWAY
            )
        ),
        client(json_frame(318, 4, None, b"aclSecret=hush\nlistenPort=9876\n")),
        server(answer(4)),
    ],
    "controllers": [
        client(json_frame(51001, 1, None, b'{"code":200,"group":"g","ledgerEndIndex":-1,"term":0}')),
        server(answer(1, None, b'{"code":200,"group":"g","term":1,"voteResult":"ACCEPT"}', code=200)),
        client(json_frame(51002, 2, None, b'{"code":200,"group":"g","term":1}')),
        server(answer(2, None, b'{"code":406,"term":1}', code=406)),
    ],
    "odd": [
        client(json_frame(7777, 1, {"x": "y"}, b"\x00\x01\x02")),
        server(answer(1, {"z": "1"}, code=4321)),
        client(
            frame(
                b'{"code":105,"extFields":{"topic":"orders","topic":"other"},"flag":64,"language":"GO","opaque":2,'
                b'"version":317,"remark":""}\n'
            )
        ),
        server(answer(99, None, b"{}"), answer(2, None, code=17, remark="No topic route info")),
        client(json_frame(34, 3, None, b'{"clientID":')),
        client(json_frame(310, 4, send_fields(e="two", m="maybe"), b"x")),
    ],
}
"""Name -> conversation."""


def ha_report(offset: int) -> bytes:
    return struct.pack(">q", offset)


def ha_piece(offset: int, data: bytes = b"") -> bytes:
    return struct.pack(">qi", offset, len(data)) + data


_LOG = stored(b"one", physical=0) + stored(b"two", offset=1, physical=0)

HA_CONVERSATIONS: dict[str, list[Say]] = {
    "a slave catches up": [
        client(ha_report(0)),
        server(ha_piece(0, _LOG)),
        client(ha_report(0), ha_report(len(_LOG))),
        server(ha_piece(len(_LOG)), ha_piece(len(_LOG))),
    ],
}
