"""Capture domains by names."""

import pytest

from mqsniff.sources.domains import domain_finder


@pytest.mark.parametrize(
    ("pattern", "name", "domain"),
    [
        ("", "a/b/x.pcap", ""),
        ("folder", "a/b/x.pcap", "a/b"),
        ("folder", "x.pcap", ""),
        (r"^tap\d+", "tap1-0001.pcap", "tap1"),
        (r"^(tap\d+)-(dc\d+)", "tap1-dc2-0001.pcap", "tap1/dc2"),
        (r"^(tap\d+)-(dc\d+)?", "tap1-0001.pcap", "tap1/"),
        (r"^tap\d+", "other.pcap", ""),
    ],
)
def test_a_file_belongs_to_the_domain_that_its_name_tells(pattern, name, domain):
    assert domain_finder(pattern)(name) == domain


def test_a_pattern_that_is_none_is_an_error():
    with pytest.raises(ValueError, match="is not a regular expression"):
        domain_finder("(")
