"""What decides on the items of a run counts what it let through, in every combination."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner

from mqsniff.cli import main

PCAPS = Path(__file__).parents[2] / "pcaps"
KAFKA = PCAPS / "kafka" / "kafka-3.9.1-java-4.4.0-cross-xa.pcapng"
NSQ = PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap"
FILTERS = (["--name", "Fetch"], ["--errors"], ["--topic", "xa.zstd"], ["--protocol", "nsq"], ["--client", "127.*"])


def decode(*arguments):
    done = CliRunner().invoke(main, ["decode", *map(str, arguments)])
    assert done.exit_code == 0, done.stderr
    return done


def matched(done):
    """(matched, of how many, messages of the totals) as stderr says."""
    found = re.search(r"^([\d,]+) of ([\d,]+) messages matched", done.stderr, re.MULTILINE)
    total = re.search(r"(\d+) messages?[ ,]", done.stderr)
    return (*(int(number.replace(",", "")) for number in found.groups()), int(total[1]))


def names_of(done):
    return [row["name"] for row in map(json.loads, done.stdout.splitlines()) if row["table"] == "messages"]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("filters", FILTERS, ids=" ".join)
@pytest.mark.parametrize("capture", [KAFKA, NSQ], ids=lambda path: path.parent.name)
def test_what_matched_is_what_went_out(capture, filters, count):
    everything = names_of(decode("-o", "ndjson", *filters, capture))
    done = decode("-o", "ndjson", "-n", count, *filters, capture)
    assert names_of(done) == everything[:count]
    shown, of, total = matched(done)
    assert (shown, of) == (len(everything[:count]), total)


def test_the_run_ends_with_the_message_and_what_belongs_to_it():
    """Nothing is decoded up to the next message that the filters choose."""
    whole = [json.loads(line) for line in decode("-o", "ndjson", KAFKA).stdout.splitlines()]
    messages = [row["name"] for row in whole if row["table"] == "messages"]
    _, of, _ = matched(decode("-o", "ndjson", "-n", 1, "--name", "Metadata", KAFKA))
    assert of == messages.index("Metadata") + 1


@pytest.mark.parametrize(
    ("output", "where"), list(itertools.product(["text", "ndjson", "csv", "parquet"], [None, "size > 40", "size < 0"]))
)
def test_every_output_says_the_same(output, where, tmp_path):
    arguments = ["-o", output, "-n", 3, "--name", "Fetch", *(["--where", where] if where else [])]
    out = ["--out", tmp_path / "tables"] if output == "parquet" else []
    done = decode("--table", "messages", *arguments, *out, KAFKA)
    assert matched(done)[0] == 3
    met = re.search(r"^([\d,]+) of ([\d,]+) rows met --where", done.stderr, re.MULTILINE)
    assert (met is None) is (where is None)
    shown = 3 if met is None else int(met[1])
    if output == "parquet":
        assert ds.dataset(tmp_path / "tables" / "messages").count_rows() == shown
    elif output == "csv":
        assert len(done.stdout.splitlines()) == shown + 1
    elif output == "ndjson":
        assert len(names_of(done)) == shown


def test_without_filters_the_totals_count_what_was_asked_for():
    done = decode("-o", "ndjson", "-n", 3, KAFKA)
    assert len(names_of(done)) == 3
    assert ", 3 messages (kafka 3)" in done.stderr
