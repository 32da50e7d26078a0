"""``mqsniff decode --domain``: which captures are one."""

import json

import pytest
from click.testing import CliRunner
from tinycapture import NSQ, conversation, pcap

from mqsniff.cli import main


@pytest.fixture
def taps(tmp_path):
    """The same connection, as two taps saw it."""
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.pcap").write_bytes(pcap(conversation(NSQ)))
    return [str(tmp_path / folder / "x.pcap") for folder in "ab"]


def rows(*arguments):
    done = CliRunner().invoke(main, ["decode", "-o", "ndjson", "--table", "connections", *arguments])
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_captures_of_different_domains_have_connections_of_their_own(taps):
    (together,) = rows(*taps)
    apart = rows("--domain", "folder", *taps)
    assert together["duplicate_packets"] > 0
    assert [row["duplicate_packets"] for row in apart] == [0, 0]
    assert len({row["connection_id"] for row in (together, *apart)}) == 3
    assert rows("--domain", r"[ab]/x", *taps) != apart
    assert len(rows("--domain", r"\.pcap$", *taps)) == 1


def test_a_pattern_that_is_none_is_a_usage_error(taps):
    done = CliRunner().invoke(main, ["decode", "--domain", "(", *taps])
    assert done.exit_code == 2
    assert "is not a regular expression" in done.stderr
