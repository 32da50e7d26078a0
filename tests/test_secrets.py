"""No output of any command shows a secret of a sample, in any form, and with ``--show-secrets`` the search finds it.

A new command gets a line in ``LINES``: everything that it prints, and writes below ``{out}``, is searched.
"""

from __future__ import annotations

import json
import random
import shlex
import struct
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from inprocess import InProcess
from secretforms import PCAPS, SampleSecrets, found_in, samples, secrets_of

from mqsniff.batch.driver import run_job
from mqsniff.batch.job import JobOptions
from mqsniff.cli import COMMANDS, main
from mqsniff.sources.files import FileSource
from mqsniff.tables.schemas import TABLES
from mqsniff.tls.keylog import KeyLog

EVERY = " ".join(f"--table {table}" for table in TABLES)
REDACTED = "--redact payload"


class Line(NamedTuple):
    """A command line; ``{file}``, ``{out}``, ``{packet}`` and ``{shown}`` are filled in."""

    line: str
    shows: bool = False
    """Whether with ``--show-secrets`` it shows all secrets that are on the wire."""
    damaged: bool = False
    """Whether it is searched for damaged captures too."""


LINES = (
    Line("decode {file} {keys} {shown} -o text --color never"),
    Line(
        f"decode {{file}} {{keys}} {{shown}} -o text -v --records --color always --packets {EVERY}",
        shows=True,
        damaged=True,
    ),
    Line(f"decode {{file}} {{keys}} {{shown}} -o ndjson --records {EVERY}", shows=True, damaged=True),
    Line("decode {file} {keys} {shown} -o csv --table {table}"),
    Line("decode {file} {keys} {shown} -o parquet --out {out}", shows=True),
    Line(f"decode {{file}} {{keys}} {{shown}} -o ndjson --records {EVERY} {REDACTED}", shows=True),
    Line(
        "sql {file} {keys} {shown} -o csv 'select * from messages left join problems using (connection_id)'", shows=True
    ),
    Line("sql {file} {keys} {shown} -o table 'from records'"),
    Line("stats {file} {keys} {shown} --all"),
    Line("stats {file} {keys} {shown} --json"),
    Line("report {file} {keys} {shown} --out {out}/page.html"),
    Line("trace {file} {keys} {shown} --topic * -n 50"),
    Line("trace {file} {keys} {shown} --connection c1 --json"),
    Line("explain {file} {packet} {keys} {shown} --wide --color always", shows=True),
    Line("explain {file} {packet} {keys} {shown} --json", shows=True),
    Line("extract {file} {keys} {shown} -w {out}/all.pcapng", shows=True, damaged=True),
    Line("extract {file} {keys} {shown} --decrypted -w {out}/all.pcapng", shows=True, damaged=True),
    Line("extract {file} {shown} --save {out}"),
    Line("check {file}"),
    Line("check {copy} {keys}"),
    Line("batch {file} {out} {keys} {shown} --master in-process", shows=True),
)
"""Every output of every command."""

ELSEWHERE = {
    "live": "its outputs are those of decode, in the same functions; it reads an interface, not a file",
    "protocols": "reads no capture",
}
"""Commands without a line -> why."""

RAW = Line("extract {file} --raw -w {out}/all.pcapng")
"""Shows everything that is on the wire."""
OPENED = Line("extract {file} {keys} --raw --decrypted -w {out}/all.pcapng")
"""Shows everything that is inside TLS too."""

HEADERS = 54
"""Bytes of Ethernet, IPv4 and TCP, which other tests damage."""

SAMPLES = [name for name in samples() if secrets_of(name).named | secrets_of(name).marked | secrets_of(name).keys]
BATCHED = ("nsq/nsq-1.3.0-auth.pcap", "kafka/kafka-4.4.0-java-4.4.0-delegation-tokens-toka.pcapng")
"""Batch writes the rows of ``decode``, so two captures are enough."""


def test_every_command_is_searched_or_has_a_reason():
    searched = {line.line.partition(" ")[0] for line in LINES}
    assert searched | ELSEWHERE.keys() == set(COMMANDS)
    assert searched.isdisjoint(ELSEWHERE)


def test_secrets_are_told_of_samples_that_exist():
    assert set(tomllib.loads((PCAPS / "secrets.toml").read_text())) <= set(SAMPLES)
    protocols = {Path(name).parent.name for name in SAMPLES if secrets_of(name).marked}
    assert protocols >= {"kafka", "nsq", "pulsar", "rocketmq"}  # "broken" holds damaged captures of them
    assert sum(bool(secrets_of(name).keys) for name in SAMPLES) >= 6


@pytest.mark.parametrize("name", SAMPLES)
def test_no_output_shows_a_secret(name, tmp_path):
    secrets = secrets_of(name)
    every = secrets.named | secrets.marked | secrets.keys
    leaks = {line.line: found for line in lines_of(name) if (found := found_in(output(line, name, tmp_path), every))}
    assert leaks == {}


@pytest.mark.parametrize("name", [name for name in SAMPLES if secrets_of(name).marked])
def test_the_search_finds_secrets_where_they_are_shown(name, tmp_path):
    secrets = secrets_of(name)
    sent = secrets.named - {secret.encode() for secret in secrets.absent}
    raw = OPENED if secrets.keys else RAW
    assert found_in(output(raw, name, tmp_path), secrets.named | secrets.marked) == sent | secrets.marked
    for line in lines_of(name):
        stays_encrypted = secrets.keys and line.line.startswith("extract") and "--decrypted" not in line.line
        if line.shows and not stays_encrypted:
            shown = output(line, name, tmp_path, "--show-secrets --show-raw")
            wanted = sent | secrets.marked
            if "{packet}" in line.line:
                wanted = frozenset().union(*secrets.packets.values())
            assert wanted - found_in(shown, wanted) == set(), line.line
            assert found_in(shown, secrets.keys) == set(), line.line


DAMAGES = (
    *((name, damage, 0) for name in SAMPLES if secrets_of(name).marked for damage in ("flips", "losses", "cuts")),
    ("kafka/kafka-4.4-sasl-raw-v0-java.pcap", "losses", 1),  # a token was among the first bytes of an unknown stream
    ("kafka/kafka-4.4-sasl-raw-v0-java.pcap", "losses", 4),
    ("nsq/nsq-1.3.0-auth.pcap", "flips", 7),  # the query of a request without its question mark
    ("nsq/nsq-1.3.0-auth.pcap", "flips and losses", 3),  # the body of an AUTH was the word of a command
    ("nsq/nsq-1.3.0-auth.pcap", "flips and losses", 8),
    ("pulsar/pulsar-4.2.4-auth-token-refresh-a.pcap", "flips and losses", 8),  # a token in the name of the method
    ("kafka/kafka-4.4.0-java-4.4.0-delegation-tokens-toka.pcapng", "flips and losses", 11),  # in the name of an owner
    ("rocketmq/rocketmq-4.9.7-var-acl.pcapng", "flips", 3),  # a signature under another name
    ("rocketmq/rocketmq-4.9.7-var-acl.pcapng", "flips", 4),
)
"""(sample, damage, seed); those that showed a secret once come last."""


@pytest.mark.parametrize(("name", "damage", "seed"), DAMAGES)
def test_damage_shows_no_secret(name, damage, seed, tmp_path):
    secrets = secrets_of(name)
    every = secrets.named | secrets.marked
    path = tmp_path / "damaged.pcap"
    dice = random.Random(f"{name}{damage}{seed}")  # the same damage each time
    write_packets(path, list(damaged(packets_of(PCAPS / name), damage, every, dice)))
    parts = frozenset(secret[: max(8, len(secret) * 3 // 4)] for secret in every)  # a cut may go through a secret
    for line in LINES:
        if line.damaged:
            assert found_in(output(line, path, tmp_path), parts) == set(), line.line


# ---- outputs


def lines_of(name: str) -> Iterator[Line]:
    """The lines that mean something for a sample."""
    secrets = secrets_of(name)
    for line in LINES:
        if "{packet}" in line.line and not secrets.packets:
            continue
        if line.line.startswith("batch") and name not in BATCHED:
            continue
        yield line


def output(line: Line, name: str | Path, tmp_path: Path, shown: str = "") -> bytes:
    """All that a line prints and writes, for each table or packet that it asks for."""
    secrets = secrets_of(name) if isinstance(name, str) else None
    capture = PCAPS / name
    keys = capture.with_suffix(".keys")
    fields: dict[str, Any] = {"file": capture, "shown": shown, "keys": f"--tls-keys {keys}" if keys.exists() else ""}
    if "{copy}" in line.line:
        fields["copy"] = copied(capture, tmp_path)
    found = []
    for more in _variants(line.line, secrets):
        fields["out"] = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        fields["out"].mkdir()
        found.append(_run(line.line.format(**fields, **more)))
        found += map(_content, sorted(path for path in fields["out"].rglob("*") if path.is_file()))
    return b"\n".join(found)


def _variants(line: str, secrets: SampleSecrets | None) -> Iterator[dict[str, Any]]:
    if "{table}" in line:
        yield from ({"table": table} for table in TABLES)
    elif "{packet}" in line and secrets is not None:
        yield from ({"packet": packet} for packet in secrets.packets)
    else:
        yield {}


def _run(line: str) -> bytes:
    command, *arguments = shlex.split(line)
    if command == "batch":
        return in_process(arguments)
    done = CliRunner().invoke(main, [command, *arguments])
    assert done.exit_code in (0, 1), (line, done.output)
    return done.stdout_bytes + done.stderr_bytes


def in_process(arguments: list[str]) -> bytes:
    """Run a batch job without Spark; its logs and plans are searched in tests/batch."""
    capture, out = arguments[:2]
    keys = tuple(KeyLog(arguments[at + 1]) for at, each in enumerate(arguments) if each == "--tls-keys")
    options = JobOptions(
        show_secrets="--show-secrets" in arguments, show_raw="--show-raw" in arguments, partitions=2, tls_keys=keys
    )
    report = run_job(InProcess(), [capture], out, options)
    return (json.dumps(report.plain()) + repr(options)).encode()


def _content(path: Path) -> bytes:
    """The bytes of a file; also what is compressed in it, and what packets divide."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        return data + b"\n".join(_values(pq.ParquetFile(path).read().to_pylist()))
    if path.suffix == ".pcapng":
        return data + _run(f"decode {shlex.quote(str(path))} --show-secrets --show-raw -o ndjson --records {EVERY}")
    return data


def _values(value: Any) -> Iterator[bytes]:
    match value:
        case bytes():
            yield value
        case dict():
            yield from _values(list(value.values()))
        case list():
            for inner in value:
                yield from _values(inner)
        case _:
            yield str(value).encode()


def copied(capture: Path, tmp_path: Path) -> Path:
    """A copy of a capture, beside a golden in which every message has another body."""
    copy = tmp_path / capture.name
    copy.write_bytes(capture.read_bytes())
    golden = [json.loads(line) for line in capture.with_name(f"{capture.name}.golden.ndjson").read_text().splitlines()]
    changed = [json.dumps(row | ({"body": {}} if "body" in row else {})) for row in golden]
    copy.with_name(f"{capture.name}.golden.ndjson").write_text("\n".join(changed))
    return copy


# ---- damage


class Packet(NamedTuple):
    """A packet as it was captured."""

    ts_ns: int
    linktype: int
    size: int
    data: bytes


def packets_of(capture: Path) -> list[Packet]:
    found = []
    for batch in FileSource([str(capture)]).batches():
        columns = (batch.ts_ns, batch.linktype, batch.wirelen, batch.start, batch.caplen)
        for ts_ns, linktype, size, start, captured in zip(*(column.tolist() for column in columns), strict=True):
            found.append(Packet(ts_ns, linktype, size, bytes(memoryview(batch.buffer)[start : start + captured])))
    return found


def write_packets(path: Path, packets: list[Packet]) -> None:
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, packets[0].linktype))
        for ts_ns, _, size, data in packets:
            out.write(struct.pack("<IIII", ts_ns // 10**9, ts_ns % 10**9, len(data), size) + data)


def damaged(packets: list[Packet], damage: str, secrets: frozenset[bytes], dice: random.Random) -> Iterator[Packet]:
    """Packets of which some are lost, cut, or have another byte somewhere, but not inside a secret."""
    for packet in packets:
        data = packet.data
        if "losses" in damage and dice.random() < 0.1:
            continue
        if "cuts" in damage and dice.random() < 0.3:
            data = data[: dice.randrange(len(data) // 2, len(data) + 1)]
        if "flips" in damage and dice.random() < 0.5:
            data = _flipped(data, secrets, dice)
        yield packet._replace(data=data)


def _flipped(data: bytes, secrets: frozenset[bytes], dice: random.Random) -> bytes:
    changed = bytearray(data)
    changed[dice.randrange(HEADERS, max(len(data), HEADERS + 1)) % len(data)] = dice.randrange(256)
    same = all(data.count(secret) == changed.count(secret) for secret in secrets)
    return bytes(changed) if same else data
