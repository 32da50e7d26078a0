"""What a store shows of URIs, and that it names the file systems that it cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqsniff.batch.store import Store, StoreError, redacted, shown_uri


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("/data/a.pcap", "/data/a.pcap"),
        ("s3://bucket/a b.pcap", "s3://bucket/a b.pcap"),
        ("s3://KEY:SECRET@bucket/a.pcap", "s3://bucket/a.pcap"),
        ("s3://bucket/a?access_key=K&secret_key=S&scheme=http", "s3://bucket/a?scheme=http"),
        ("s3://bucket/a?endpoint_override=localhost:9000", "s3://bucket/a?endpoint_override=localhost:9000"),
        ("https://blob/a?sig=abc#frag", "https://blob/a"),
        ("sc://host:15002/;token=abc;user_id=me", "sc://host:15002/"),
        ("hdfs://user@namenode:8020/a", "hdfs://namenode:8020/a"),
        ("s3://[broken/a", "s3://…"),
    ],
)
def test_a_shown_uri_holds_no_credentials(uri: str, shown: str) -> None:
    assert shown_uri(uri) == shown
    assert shown_uri(shown) == shown


def test_texts_of_others_are_shown_without_the_credentials_in_their_uris() -> None:
    said = "cannot open 's3://KEY:SECRET@bucket/a.pcap': denied, see https://x:y@host/?token=1"
    assert redacted(said) == "cannot open 's3://bucket/a.pcap': denied, see https://host/"


def test_a_file_system_that_nobody_knows_is_named_without_its_credentials() -> None:
    with pytest.raises(StoreError, match=r"^nosuch://host/x: ") as caught:
        Store.at("nosuch://me:secret@host/x")
    assert "secret" not in str(caught.value)


def test_paths_and_file_uris_are_the_same_folder(tmp_path: Path) -> None:
    Store.at(str(tmp_path)).replace("a/b", b"x")
    store = Store.at(tmp_path.as_uri())
    assert store.renames
    assert store.read("a/b") == b"x"
    assert [tuple(stored) for stored in store.files()] == [("a/b", 1)]
    assert store.read("a/c") is None
