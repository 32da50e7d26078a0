"""Community IDs against the values that the specification's own baseline gives."""

from __future__ import annotations

import pytest

from mqsniff.tables.community import community_id


@pytest.mark.parametrize(
    ("client", "server", "expected"),
    [
        (("128.232.110.120", 34855), ("66.35.250.204", 80), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        (("66.35.250.204", 80), ("128.232.110.120", 34855), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        (
            ("2001:470:e5bf:dead:4957:2174:e82c:4887", 63943),
            ("2607:f8b0:400c:c03::1a", 25),
            "1:/qFaeAR+gFe1KYjMzVDsMv+wgU4=",
        ),
        (("no address", 1), ("127.0.0.1", 2), None),
        (("::1", 1), ("127.0.0.1", 2), None),
    ],
)
def test_published_vectors_hold(client, server, expected):
    assert community_id(*client, *server) == expected


def test_equal_addresses_are_ordered_by_port():
    assert community_id("::1", 4150, "::1", 50000) == community_id("::1", 50000, "::1", 4150)
    assert community_id("::1", 4150, "::1", 50000) != community_id("::1", 4150, "::1", 50001)
