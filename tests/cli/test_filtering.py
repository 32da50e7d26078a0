"""What can be written after a filter, and what it means."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from click.testing import CliRunner

from mqsniff.cli import main
from mqsniff.cli.filtering import read_connection, read_key, read_name, read_network, read_offsets, read_time
from mqsniff.filters.recordfilter import OFFSET_MAX

SECOND_NS = 1_000_000_000
MOMENT_S = 1_795_253_930


@pytest.mark.parametrize(
    ("text", "ts_ns"),
    [
        ("2026-11-21T09:38:50Z", MOMENT_S * SECOND_NS),
        ("2026-11-21 10:38:50.000000001+01:00", MOMENT_S * SECOND_NS + 1),
        ("2026-11-21T09:38:50", MOMENT_S * SECOND_NS),
        ("2026-11-21", (MOMENT_S - 9 * 3600 - 38 * 60 - 50) * SECOND_NS),
        (f"{MOMENT_S}.7012345678901", MOMENT_S * SECOND_NS + 701_234_567),
        ("1969-12-31T23:59:59.5Z", -SECOND_NS // 2),
        ("-0.5", -SECOND_NS // 2),
        ("0", 0),
        ("0001-01-01", -62_135_596_800 * SECOND_NS),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_800 * SECOND_NS - 1),
    ],
)
def test_a_time_is_exact(text, ts_ns):
    assert read_time(text) == ts_ns


@pytest.mark.parametrize(
    "text", ["", "now", "09:38", "nan", "inf", "1e30", "1e999999999", "1795253930701", "2026-13-01"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="is not a time, such as"):
        read_time(text)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("fe80::1%eth0/64", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::/0", "::/0"),
    ],
)
def test_an_address_is_read_as_packets_carry_it(text, network):
    assert read_network(text) == ip_network(network)


@pytest.mark.parametrize("text", ["", "broker", "10.0.0.7:9092", "10.0.0.0/33", "[]", "::g"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="is not an address, such as"):
        read_network(text)


@pytest.mark.parametrize(
    ("text", "offsets"), [("0", (0, 0)), ("17-17", (17, 17)), ("17-20", (17, 20)), ("17-", (17, OFFSET_MAX))]
)
def test_offsets_are_one_a_range_or_all_from_one(text, offsets):
    assert read_offsets(text) == offsets


@pytest.mark.parametrize("text", ["", "-", "-5", "x", "1.5", "5-x", "20-17", "9" * 5000, "\u0661"])
def test_what_is_no_range_of_offsets_is_refused(text):
    with pytest.raises(ValueError, match=r"is not an offset, such as|ends before it begins"):
        read_offsets(text)


@pytest.mark.parametrize(
    ("text", "key"), [("user-17", b"user-17"), ("", b""), ("0x", b""), ("0x00ff", b"\x00\xff"), ("\u00e9", b"\xc3\xa9")]
)
def test_a_key_is_text_or_bytes(text, key):
    assert read_key(text) == key


def test_a_key_that_is_no_hex_is_refused():
    with pytest.raises(ValueError, match="hex digits"):
        read_key("0x0g")


@pytest.mark.parametrize(("text", "begins"), [("7852ba", "7852ba"), ("7852BA", "7852ba"), ("0" * 32, "0" * 32)])
def test_a_connection_is_hex_digits(text, begins):
    assert read_connection(text) == begins


@pytest.mark.parametrize("text", ["zzz", "", "0" * 33, "7852*"])
def test_what_is_no_connection_is_refused(text):
    with pytest.raises(ValueError, match=r"no connection_id|empty"):
        read_connection(text)


@pytest.mark.parametrize(("first", "last"), [("2027-01-01", "2026-01-01"), ("5", "5")])
def test_a_time_that_ends_before_it_begins_is_refused(first, last):
    done = CliRunner().invoke(main, ["decode", "--from", first, "--to", last, "x.pcap"])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "--to is not after --from" in done.stderr


def test_a_variable_that_a_script_forgot_to_set_chooses_nothing_silently():
    assert read_name("orders") == "orders"
    with pytest.raises(ValueError, match="empty"):
        read_name("")
