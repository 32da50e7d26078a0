"""``--redact payload``: keys, values and values of headers stand in no output, wherever the wire has them."""

from __future__ import annotations

import hmac
import json
import warnings

import kafkacraft
import pulsarcraft
import pyarrow.parquet as pq
import pytest
import remotingcraft
from click.testing import CliRunner
from remotingcraft import answer, binary_frame, json_frame, pull_fields, pull_result, send_fields, stored

from mqsniff.cli import main
from mqsniff.tables.schemas import TABLES
from mqsniff.testing.conversations import Say, client, segments, server, write_pcap

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of kafka-python itself
    from kafka.record.default_records import DefaultRecordBatchBuilder

KEY, VALUE, HEADER = "key-of-mine", "value-of-mine", "header-of-mine"
NAME = "colour"
HASH_KEY = b"a key of a test, long enough"


def hashed(text: str) -> str:
    return hmac.digest(HASH_KEY, text.encode(), "sha256").hex()


HASHED = {"redacted": len(HEADER), "hmac_sha256": hashed(HEADER)}
PROPERTIES = remotingcraft.properties(KEYS=KEY, colour=HEADER)


def kafka() -> list[Say]:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 16)
    builder.append(0, timestamp=1, key=KEY.encode(), value=VALUE.encode(), headers=[(NAME, HEADER.encode())])
    partition = {"index": 0, "records": bytes(builder.build())}
    body = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    return [client(kafkacraft.request(0, 3, 1, body)), server(kafkacraft.produced(1, 7))]


def pulsar() -> list[Say]:
    opening = client(pulsarcraft.connect()), server(pulsarcraft.connected())
    pair = {"key": NAME, "value": HEADER}
    sent = pulsarcraft.send(VALUE.encode(), partition_key=KEY, ordering_key=KEY.encode(), properties=[pair])
    return [*opening, client(sent)]


def rocketmq() -> list[Say]:
    message = stored(VALUE.encode(), PROPERTIES)
    batch = remotingcraft.batch_message(VALUE.encode(), PROPERTIES)
    return [
        client(json_frame(310, 1, send_fields(i=PROPERTIES), VALUE.encode())),
        server(answer(1, {"msgId": "0A", "queueId": 0, "queueOffset": 1})),
        client(binary_frame(310, 2, send_fields(i=PROPERTIES), VALUE.encode())),
        client(json_frame(320, 3, send_fields(m="true"), batch)),
        client(json_frame(11, 4, pull_fields())),
        server(answer(4, pull_result(1), message)),
        client(json_frame(310, 5, send_fields(i=f"no properties but {HEADER}"), VALUE.encode())),
    ]


def odd_rocketmq() -> list[Say]:
    """Properties that are no UTF-8, in both places that have them as bytes."""
    odd = send_fields(i=PROPERTIES.replace(NAME, "c0lour"))
    frame = binary_frame(310, 1, odd, VALUE.encode()).replace(b"c0lour", b"c\xfflour")
    message = stored(VALUE.encode(), PROPERTIES.replace(NAME, "c0lour")).replace(b"c0lour", b"c\xfflour")
    return [client(frame), client(json_frame(11, 4, pull_fields())), server(answer(4, pull_result(1), message))]


CASES = {
    "kafka": (kafka, 9092),
    "pulsar": (pulsar, 6650),
    "rocketmq": (rocketmq, 10_911),
    "odd": (odd_rocketmq, 10_911),
}


@pytest.fixture(params=CASES)
def capture(request, tmp_path):
    says, port = CASES[request.param]
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(says()), ports=(50_000, port))
    return path


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "hash.key"
    path.touch(mode=0o600)
    path.write_bytes(HASH_KEY + b"\n")
    return path


def run(*options: object) -> str:
    done = CliRunner().invoke(main, ["decode", *map(str, options)])
    assert done.exit_code == 0
    return done.stdout


def told(text: str) -> list[str]:
    return [secret for secret in (KEY, VALUE, HEADER) if secret in text]


EVERY = [option for table in TABLES for option in ("--table", table)]


def test_no_output_shows_payload_where_it_is_redacted(capture, tmp_path):
    clear, hidden = (run(*options, "-o", "ndjson", *EVERY, capture) for options in ((), ("--redact", "payload")))
    assert told(clear) == [KEY, VALUE, HEADER] or "base64" in clear
    assert told(hidden) == []
    assert "base64" not in hidden
    assert told(run("--redact", "payload", "-o", "text", "-v", "--records", *EVERY, capture)) == []
    for table in TABLES:
        assert told(run("--redact", "payload", "-o", "csv", "--table", table, capture)) == []
    run("--redact", "payload", "-o", "parquet", "--out", tmp_path / "out", capture)
    assert told("".join(str(pq.read_table(path).to_pylist()) for path in (tmp_path / "out").rglob("*.parquet"))) == []


@pytest.mark.parametrize("name", ["kafka", "pulsar", "rocketmq"])
def test_values_of_headers_stay_as_sizes_and_hashes_in_all_outputs(name, tmp_path, key_file):
    says, port = CASES[name]
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(says()), ports=(50_000, port))
    lines = run("--redact", "payload", "--hash-key", key_file, "-o", "ndjson", "--table", "records", path).splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows
    assert {row["value_hmac_sha256"] for row in rows} == {hashed(VALUE)}
    assert {"key": NAME, "value": HASHED} in rows[0]["headers"]
    assert rows[0]["key_hmac_sha256"] == hashed(KEY)
    run("--redact", "payload", "--hash-key", key_file, "-o", "parquet", "--out", tmp_path / "out", path)
    stored_rows = pq.read_table(next((tmp_path / "out").rglob("records*/*.parquet"))).to_pylist()
    [value] = [one["value"] for one in stored_rows[0]["headers"] if one["key"] == NAME]
    assert json.loads(value) == HASHED
    text = run("--redact", "payload", "--hash-key", key_file, "-o", "text", "--records", path)
    assert f'{NAME}={{"redacted":{len(HEADER)},"hmac_sha256":"{HASHED["hmac_sha256"]}"}}' in text


@pytest.mark.parametrize("name", ["pulsar", "rocketmq"])
def test_properties_in_bodies_keep_their_names(name, tmp_path, key_file):
    says, port = CASES[name]
    path = tmp_path / "x.pcap"
    write_pcap(path, segments(says()), ports=(50_000, port))
    text = run("--redact", "payload", "--hash-key", key_file, "-o", "ndjson", "--table", "messages", path)
    assert NAME in text
    assert HASHED["hmac_sha256"] in text


def hashes(*options: object) -> set[str]:
    rows = [
        json.loads(line)
        for line in run("--redact", "payload", "-o", "ndjson", "--table", "records", *options).splitlines()
    ]
    return {row["value_hmac_sha256"] for row in rows}


def test_equal_values_have_equal_hashes_in_one_run_and_others_in_the_next(tmp_path, key_file):
    path, other = tmp_path / "x.pcap", tmp_path / "other.key"
    write_pcap(path, segments(rocketmq()), ports=(50_000, 10_911))
    other.write_bytes(b"another key of a test")
    first, second = hashes(path), hashes(path)
    assert len(first) == len(second) == 1
    assert first != second
    assert hashes("--hash-key", key_file, path) == hashes("--hash-key", key_file, path) == {hashed(VALUE)}
    assert hashes("--hash-key", other, path).isdisjoint((*first, *second, hashed(VALUE)))


def checksums_in(value: object) -> set[int]:
    """Checksums over payload in rows: hashes without a key."""
    match value:
        case dict():
            own = {value[name] for name in ("crc", "body_crc", "checksum") if value.get(name)}
            return own.union(*map(checksums_in, value.values()))
        case list():
            return set().union(*map(checksums_in, value))
    return set()


@pytest.mark.parametrize("name", ["kafka", "pulsar", "rocketmq"])
def test_checksums_over_payload_stand_in_no_output(name, tmp_path):
    says, port = CASES[name]
    path, shared = tmp_path / "x.pcap", tmp_path / "shared.pcapng"
    write_pcap(path, segments(says()), ports=(50_000, port))
    clear = run("-o", "ndjson", "--records", *EVERY, path)
    checksums = set().union(*(checksums_in(json.loads(line)) for line in clear.splitlines())) - {0}
    assert checksums
    hide = ("--redact", "payload")
    outputs = [run(*hide, "-o", form, "--records", *EVERY, path) for form in ("ndjson", "text")]
    outputs += [
        run(*hide, "-o", "text", "-v", path),
        *(run(*hide, "-o", "csv", "--table", one, path) for one in TABLES),
    ]
    run(*hide, "-o", "parquet", "--out", tmp_path / "out", path)
    outputs += [str(pq.read_table(part).to_pylist()) for part in (tmp_path / "out").rglob("*.parquet")]
    for packet in range(1, 12):
        outputs.append(CliRunner().invoke(main, ["explain", *hide, "--wide", str(path), str(packet)]).stdout)
    assert [number for number in checksums if any(str(number) in output for output in outputs)] == []
    assert CliRunner().invoke(main, ["extract", *hide, str(path), "-w", str(shared)]).exit_code == 0
    written = {number.to_bytes(4, "big", signed=number < 0) for number in checksums}
    assert [data for data in written if data not in path.read_bytes()] == []
    assert [data for data in written if data in shared.read_bytes() or data.hex(" ") in "".join(outputs)] == []
