"""Flows by capture domain: each domain tells what it tells alone."""

from pathlib import Path

import pytest

from mqsniff.dissector import Settings
from mqsniff.limits import Limits
from mqsniff.model import ClosedItem
from mqsniff.pipeline import Pipeline
from mqsniff.sources.files import FileSource
from mqsniff.streams.domains import DomainFlows
from mqsniff.streams.flows import FlowTable
from mqsniff.streams.packets import PacketDecoder

SAMPLES = sorted((Path(__file__).parents[2] / "pcaps" / "nsq").glob("nsq-1.3.0-*.pcap"))[:4]


def told(flows, batches):
    """(connection, event) in the order of release, without the places in the merged input."""
    found = []
    for batch in batches:
        found += [each for events in flows.feed(batch) for each in events]
    found += [each for events in flows.end() for each in events]
    return [(connection.id, connection.first_packet, type(event)) for _, connection, event in found]


def segments(paths):
    decoder = PacketDecoder(Limits())
    return [decoder.decode(batch) for batch in FileSource(map(str, paths)).batches()]


def test_each_domain_tells_what_it_tells_alone():
    together = told(DomainFlows(Limits(), lambda capture: f"tap{capture % 2}"), segments(SAMPLES))
    decoded = segments(SAMPLES)
    for domain in (0, 1):
        own = [batch for batch in decoded if int(batch.packet[0] >> 40) % 2 == domain]
        alone = told(FlowTable(Limits(), f"tap{domain}"), own)
        assert sorted(map(str, alone)) == sorted(map(str, (row for row in together if (row[1] >> 40) % 2 == domain)))
        assert alone


@pytest.mark.parametrize(("domain", "copies"), [("", 1), ("folder", 2), (r"(a|b)/\d", 2), ("pcap", 1)])
def test_the_same_capture_in_two_domains_is_two_captures(tmp_path, monkeypatch, domain, copies):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.pcap").write_bytes(SAMPLES[0].read_bytes())
    monkeypatch.chdir(tmp_path)

    def connections(paths, domain):
        items = Pipeline(FileSource(paths), Settings(), domain=domain).items()
        return [item.connection for item in items if isinstance(item, ClosedItem)]

    alone = connections(["a/1.pcap"], "")
    found = connections(["a/1.pcap", "b/1.pcap"], domain)
    assert len(found) == copies * len(alone)
    assert len({connection.connection_id for connection in found}) == len(found)
    assert len(
        {connection.connection_id for connection in found} & {connection.connection_id for connection in alone}
    ) == (len(alone) if not domain else 0)


def test_a_domain_that_is_no_pattern_is_told_before_anything_is_read():
    with pytest.raises(ValueError, match="not a regular expression"):
        Pipeline(FileSource([]), Settings(), domain="(")
