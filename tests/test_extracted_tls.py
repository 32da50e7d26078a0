"""An extract of TLS decodes to the same rows: still encrypted with the same keys, decrypted without any."""

from __future__ import annotations

import json
import re
import ssl
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import dpkt
import pytest
from click.testing import CliRunner
from nsqcraft import opening, publishing
from tlscraft import contexts, talk

from mqsniff.answers.captures import captures_under, key_logs_beside
from mqsniff.answers.madepackets import TcpHead, ip_packet
from mqsniff.cli import main
from mqsniff.sources.files import FileSource
from mqsniff.testing.conversations import Say, client, lost, segments, server, write_pcap

PCAPS = Path(__file__).parents[1] / "pcaps"
DSB = "nsq/nsq-1.3.0-go-tls12-deflate-dsb.pcapng"
KEYED = [str(path.relative_to(PCAPS)) for path in captures_under([PCAPS]) if key_logs_beside(path)]
SPEAKING = [name for name in (*KEYED, DSB) if "unknown-ca" not in name]
"""Captures in which a message can be decrypted."""
MOVED = frozenset(
    (
        *("capture", "packet", "first_packet", "last_packet", "last_capture"),
        *("request_capture", "request_packet", "response_capture", "response_packet"),
        *("queue_ns", "work_ns"),
    )
)
"""Columns that name packets, or tell of messages before."""
UNKNOWN_WORDS = "nsq/nsq-1.3.0-tls-required.pcap"
"""Has a line of text before TLS that is no command: what it says is overwritten, and is then another line."""
CUT = MOVED | {"stream_offset", "request_stream_offset", "response_stream_offset"}
"""Where plain bytes between messages are missing, unknown number: offsets after them count less."""
OF_TLS = frozenset(
    (
        *("tls_version", "tls_cipher", "tls_alpn", "tls_server_name", "tls_resumed", "tls_keys"),
        *("tls_certificate_subject", "tls_certificate_issuer"),
        *("tls_client_certificate_subject", "tls_client_certificate_issuer"),
        *("client_plain_bytes", "server_plain_bytes"),
    )
)
"""Columns of ``connections`` that are null where there is no TLS."""
OF_PACKETS = frozenset(
    (
        *("client_packets", "server_packets", "client_bytes", "server_bytes", "gap_bytes", "undecoded_bytes"),
        *("retransmitted_segments", "out_of_order_segments", "duplicate_packets", "last_ts", "last_ts_ns"),
        *("duration_ns", "client_zero_windows", "server_zero_windows"),
        *("client_longest_stall_ns", "server_longest_stall_ns"),
    )
)
"""Columns of ``connections`` that count segments, or tell of those without data: they were made anew."""


def run(*arguments: object) -> Any:
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done


def keys_of(name: str) -> list[str]:
    path = (PCAPS / name).with_suffix(".keys")
    return ["--tls-keys", str(path)] if path.exists() else []


HASH = re.compile(r'"hmac_sha256":"[0-9a-f]{64}",?')
"""Hashes of undecoded bytes, which an extract overwrites: they are other ones."""


def rows(path: Path, *arguments: str, tables: tuple[str, ...], without: frozenset[str]) -> Counter[str]:
    chosen = [argument for table in tables for argument in ("--table", table)]
    found: Counter[str] = Counter()
    for line in run("decode", path, "-o", "ndjson", *chosen, *arguments).stdout.splitlines():
        row = json.loads(HASH.sub("", line).replace(",}", "}"))
        found[json.dumps({k: v for k, v in row.items() if k not in without}, sort_keys=True)] += 1
    return found


DATA = ("messages", "exchanges", "records")


def extracted(tmp_path: Path, name: str, *arguments: str) -> tuple[Path, str]:
    out = tmp_path / "out.pcapng"
    done = run("extract", PCAPS / name, "-w", out, *keys_of(name), *arguments)
    assert done.exit_code == 0, done.output
    assert "decode differently" not in done.stderr
    return out, done.stderr


@pytest.mark.parametrize("name", SPEAKING)
@pytest.mark.parametrize("filters", [(), ("--topic", "*"), ("--errors",), ("-n", "3")], ids=" ".join)
def test_what_was_decrypted_goes_out_encrypted_and_decodes_alike(tmp_path, name, filters):
    keys = keys_of(name)
    if name == DSB:
        filters = (*filters, "--with-keys")
    if name == UNKNOWN_WORDS:
        filters = (*filters, "--raw")
    out, talk = extracted(tmp_path, name, *filters)
    filters = tuple(each for each in filters if each not in ("--with-keys", "--raw"))
    chosen = rows(PCAPS / name, *keys, *filters, tables=DATA, without=CUT)
    assert chosen - rows(out, *keys, tables=DATA, without=CUT) == Counter()
    if chosen and name.startswith(("kafka", "pulsar")):
        assert "still encrypted: the same key log opens" in talk
        assert not chosen <= rows(out, tables=DATA, without=CUT)
    if not filters:
        assert packets_of(out) == packets_of(PCAPS / name)


def packets_of(path: Path) -> list[tuple[int, bytes]]:
    found = []
    for batch in FileSource([str(path)]).batches():
        view = memoryview(batch.buffer)
        for row in range(len(batch)):
            start, size = int(batch.start[row]), int(batch.caplen[row])
            found.append((int(batch.ts_ns[row]), bytes(view[start : start + size])))
    return found


@pytest.mark.parametrize("name", SPEAKING)
@pytest.mark.parametrize("filters", [(), ("--topic", "*"), ("--errors",)], ids=" ".join)
def test_what_was_decrypted_goes_out_as_plain_tcp_and_decodes_alike(tmp_path, name, filters):
    keys = keys_of(name)
    out, _ = extracted(tmp_path, name, "--decrypted", "--show-secrets", "--show-raw", *filters)
    chosen = rows(PCAPS / name, *keys, *filters, tables=DATA, without=MOVED)
    assert chosen - rows(out, tables=DATA, without=MOVED) == Counter()
    if not filters:
        there = rows(PCAPS / name, *keys, tables=("connections",), without=MOVED | OF_TLS | OF_PACKETS)
        assert rows(out, tables=("connections",), without=MOVED | OF_TLS | OF_PACKETS) == there


# ---- what goes out, byte by byte


def sealed(path: Path, words: list[Say], version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> list[str]:
    """A capture of a conversation in TLS, and the option that names its keys."""
    tape = talk(*contexts(version), [(say.side, say.data) for say in words])
    write_pcap(path, segments([Say(side, data) for side, data in tape.sent]), ports=(40_000, 9_999))
    keys = path.with_suffix(".keys")
    keys.write_text(tape.keys)
    return ["--tls-keys", str(keys)]


SECRET = b"hush-hush-1"


@pytest.fixture
def login(tmp_path):
    """A capture of a login inside TLS, and its keys."""
    path = tmp_path / "login.pcap"
    says = [client(b"  V2"), client(b"AUTH\n\0\0\0\x0b" + SECRET), server(b"\0\0\0\6\0\0\0\0OK"), client(b"NOP\n" * 9)]
    return path, sealed(path, says)


def test_a_secret_inside_tls_is_overwritten_where_it_is_decrypted(login, tmp_path):
    path, keys = login
    out = tmp_path / "out.pcapng"
    done = run("extract", path, *keys, "-w", out, "--decrypted")
    assert "1 secret overwritten" in done.stderr
    assert "1 TLS connection decrypted, as plain TCP in packets that were made" in done.stderr
    raw = out.read_bytes()
    assert SECRET not in raw
    assert b"*" * len(SECRET) in raw
    assert b"[secrets overwritten: 11 bytes]" in raw
    assert b"decrypted by mqsniff from packet" in raw
    assert b"TLS was decrypted; its packets were made" in raw
    run("extract", path, *keys, "-w", out, "--decrypted", "--raw", "--overwrite")
    assert SECRET in out.read_bytes()


def test_keys_go_along_only_if_asked_and_only_those_of_what_was_chosen(tmp_path):
    path = PCAPS / "kafka/kafka-4.4-tls12-kafka-python-ciphers.pcap"
    keys = path.with_suffix(".keys")
    randoms = {
        line.split()[1].removeprefix("Session-ID:").lower()
        for line in keys.read_text().splitlines()
        if line[:1].isalpha()
    }
    assert len(randoms) > 1
    out = tmp_path / "out.pcapng"
    for options, count in (((), 0), (("--with-keys",), 1)):
        arguments = ("--port", "48956", "--tls-keys", keys, "-w", out, "--overwrite", *options)
        done = run("extract", path, *arguments)
        raw = out.read_bytes()
        assert sum(f"{random} ".encode() in raw for random in randoms) == count
        assert ("OUT is a secret" in done.stderr) == bool(count)
        assert bool(rows(out, tables=("messages",), without=MOVED)) == bool(count)


def test_the_secrets_blocks_of_a_capture_stay_behind(tmp_path):
    out, talk_of_it = extracted(tmp_path, DSB)
    assert b"CLIENT_RANDOM" in (PCAPS / DSB).read_bytes()
    assert b"CLIENT_RANDOM" not in out.read_bytes()
    assert "2 TLS connections still encrypted" in talk_of_it


@pytest.mark.parametrize("name", ["kafka/kafka-4.4-mtls-java.pcap", DSB])
def test_made_packets_have_right_lengths_checksums_and_numbers(tmp_path, name):
    out, _ = extracted(tmp_path, name, "--decrypted", "--raw")
    following: dict[tuple[bytes, int, int], int] = {}
    with out.open("rb") as file:
        made = [data for _, data in dpkt.pcapng.Reader(file)]
    assert len(made) > 20
    for data in made:
        assert dpkt.in_cksum(data[:20]) == 0
        packet = dpkt.ip.IP(data)
        assert packet.len == len(data)
        tcp = packet.data
        segment = data[20:]
        assert dpkt.in_cksum(packet.src + packet.dst + struct.pack(">HH", 6, len(segment)) + segment) == 0
        way = (packet.src, tcp.sport, tcp.dport)
        assert tcp.seq == following.get(way, tcp.seq)
        following[way] = tcp.seq + len(tcp.data) + bool(tcp.flags & 3)
        back = (packet.dst, tcp.dport, tcp.sport)
        if tcp.flags & 16 and back in following:
            assert tcp.ack == following[back]


@pytest.mark.parametrize("address", [("10.0.0.1", "10.0.0.2"), ("fd00::2", "fd00::1")])
def test_a_loss_inside_tls_leaves_a_gap_in_plain_tcp(tmp_path, address):
    says = [*opening(), *publishing(), *publishing(), *publishing()]
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), [(say.side, say.data) for say in says])
    packets = segments([Say(side, data) for side, data in tape.sent], mss=200)
    path, keys = tmp_path / "a.pcap", tmp_path / "a.keys"
    keys.write_text(tape.keys)
    write_pcap(path, lost(packets, len(packets) // 2), addresses=address)
    out = tmp_path / "out.pcapng"
    options = ("--tls-keys", str(keys))
    run("extract", path, *options, "-w", out, "--decrypted", "--raw")
    chosen = rows(path, *options, tables=("messages",), without=CUT)
    assert len(chosen) > 10
    assert chosen - rows(out, tables=("messages",), without=CUT) == Counter()


def test_a_packet_that_no_ip_header_can_measure_has_length_0():
    head = TcpHead((b"\x0a\0\0\1", 1), (b"\x0a\0\0\2", 2), 3, 4, 24)
    assert dpkt.ip.IP(ip_packet(head, b"x" * 65_000)).len == 65_040
    assert ip_packet(head, b"x" * 66_000)[2:4] == b"\0\0"


@pytest.mark.parametrize("options", [("--decrypted",), ("--with-keys",)])
def test_without_a_key_nothing_is_decrypted_and_that_is_said(tmp_path, options):
    path = PCAPS / "kafka/kafka-4.4-mtls-java.pcap"
    done = run("extract", path, "-w", tmp_path / "out.pcapng", *options)
    assert done.exit_code == 0
    assert f"{options[0]}: no " in done.stderr


def test_options_that_exclude_each_other_are_refused(tmp_path):
    path = PCAPS / "kafka/kafka-4.4-mtls-java.pcap"
    out = tmp_path / "out.pcapng"
    assert "choose one" in run("extract", path, "-w", out, "--decrypted", "--with-keys").stderr
    assert "needs -w" in run("extract", path, "--save", tmp_path, "--decrypted").stderr


@pytest.mark.parametrize("options", [(), ("--decrypted",)])
def test_a_proxy_head_in_front_of_tls_stays_plain(tmp_path, options):
    head = b"PROXY TCP4 192.0.2.1 192.0.2.2 50000 4150\r\n"
    says = [*opening(), *publishing()]
    tape = talk(*contexts(ssl.TLSVersion.TLSv1_3), [(say.side, say.data) for say in says])
    sent = [Say(side, data) for side, data in tape.sent]
    path, out = tmp_path / "a.pcap", tmp_path / "out.pcapng"
    write_pcap(path, segments([Say(sent[0].side, head + sent[0].data), *sent[1:]]))
    keys = tmp_path / "a.keys"
    keys.write_text(tape.keys)
    done = run("extract", path, "--tls-keys", keys, "-w", out, "--show-secrets", *options)
    assert "decode differently" not in done.stderr
    assert head in out.read_bytes()
    chosen = rows(path, "--tls-keys", str(keys), tables=("messages",), without=CUT)
    again = () if options else ("--tls-keys", str(keys))
    assert len(chosen) > 5
    assert rows(out, *again, tables=("messages",), without=CUT) == chosen


def test_tls_in_a_tunnel_stays_encrypted_and_that_is_said(login, tmp_path):
    path, keys = login
    with path.open("rb") as file:
        packets = list(dpkt.pcap.UniversalReader(file))
    tunnelled = tmp_path / "vxlan.pcap"
    with tunnelled.open("wb") as file:
        writer = dpkt.pcap.Writer(file)
        for ts, data in packets:
            udp = dpkt.udp.UDP(sport=50_000, dport=4789, data=b"\x08\0\0\0\0\0\x07\0" + data)
            udp.ulen = len(bytes(udp))
            ip = dpkt.ip.IP(src=b"\x0a\x01\0\1", dst=b"\x0a\x01\0\2", p=17, data=udp)
            ip.len = len(bytes(ip))
            writer.writepkt(bytes(dpkt.ethernet.Ethernet(data=ip, type=0x0800)), ts)
    out = tmp_path / "out.pcapng"
    done = run("extract", tunnelled, *keys, "-w", out, "--decrypted")
    assert "1 TLS connection in a tunnel, so still encrypted" in done.stderr
    assert SECRET not in out.read_bytes()
    assert rows(out, *keys, tables=("messages",), without=CUT)
