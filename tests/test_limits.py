"""Limits: what can be chosen for each of them, and that runs stand both ends."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from mqsniff.cli import main
from mqsniff.decode.registry import load_dissectors
from mqsniff.limits import Limits
from mqsniff.tables.schemas import TABLES

PCAPS = Path(__file__).parents[1] / "pcaps"
SAMPLES = (
    "broken/cut.pcap.gz",
    "kafka/kafka-3.9.1-java-4.4.0-cross-xa.pcapng",
    "nsq/nsq-1.3.0-var-loss-client.pcap",
    "pulsar/pulsar-4.2.4-py-nack-dlq-a.pcap",
    "rocketmq/rocketmq-5.5.0-cli5.5.0-a-push-consumer.pcapng",
)


@pytest.mark.parametrize(("name", "limit"), Limits.about().items())
def test_a_limit_has_a_range_around_its_default_and_says_what_to_do(name, limit):
    assert 1 <= limit.least <= limit.default <= limit.most < 1 << 62
    assert limit.default == getattr(Limits(), name)
    assert limit.why
    assert limit.advice
    assert name.endswith("_ns") is (limit.unit == "ns")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("frame_max", 10, "10 is too small; its least value is 65536 bytes"),
        ("frame_max", 0, "0 is too small"),
        ("idle_ns", 1, "its least value is 1000000000 ns"),
        ("tunnel_depth", 1 << 40, "its greatest value is 64"),
    ],
)
def test_a_value_out_of_range_is_refused(name, value, told):
    with pytest.raises(ValueError, match=told):
        Limits().with_value(name, value)


@pytest.mark.parametrize("name", Limits.about())
def test_both_ends_of_a_range_can_be_chosen(name):
    limit = Limits.about()[name]
    for value in (limit.least, limit.most):
        assert getattr(Limits().with_value(name, value), name) == value


def test_the_head_of_every_frame_fits_the_least_values():
    heads = [getattr(entry.dissector, "head_max", 0) for entry in load_dissectors()]
    about = Limits.about()
    assert max(heads) > 0
    assert max(heads) < min(about["frame_max"].least, about["search_max"].least, about["wait_max"].least)


@pytest.mark.parametrize("end", ["least", "most"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_run_with_all_limits_at_one_end_does_not_fall(sample, end, tmp_path):
    chosen = [part for name, limit in Limits.about().items() for part in ("--limit", f"{name}={getattr(limit, end)}")]
    tables = [part for table in TABLES for part in ("--table", table)]
    done = CliRunner().invoke(main, ["decode", *tables, *chosen, str(PCAPS / sample)])
    assert done.exit_code == 0, done.output
    rows = [orjson.loads(line) for line in done.stdout_bytes.splitlines()]
    assert any(row["table"] == "messages" for row in rows) or sample.startswith("broken")
    assert [row["detail"] for row in rows if row["table"] == "problems" and row["kind"] == "internal"] == []
    out = ["-o", "parquet", "--out", str(tmp_path / "tables")]
    assert CliRunner().invoke(main, ["decode", *out, *chosen, str(PCAPS / sample)]).exit_code == 0


def test_ordinary_traffic_gives_the_same_messages_at_the_least_values_of_memory():
    """The least values are no trap: small captures decode as without them."""
    names = (
        "window",
        "windows_total",
        "packet_max",
        "frame_max",
        "search_max",
        "wait_max",
        "reorder_max",
        "layer_piece",
    )
    chosen = [part for name in names for part in ("--limit", f"{name}={Limits.about()[name].least}")]
    for sample in SAMPLES:
        plain, least = (
            CliRunner().invoke(main, ["decode", *some, str(PCAPS / sample)]).stdout_bytes for some in ([], chosen)
        )
        assert plain == least
