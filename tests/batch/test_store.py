"""What a store shows of URIs, and that it names the file systems that it cannot use."""

from __future__ import annotations

import os
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


def test_nothing_is_written_or_deleted_through_a_link(tmp_path: Path) -> None:
    away, root = tmp_path / "away", tmp_path / "out"
    (away / "deep").mkdir(parents=True)
    (away / "deep" / "mine").write_text("mine")
    (root / "own").mkdir(parents=True)
    (root / "messages").symlink_to(away)
    (root / "own" / "link").symlink_to(away / "deep" / "mine")
    for uri in (str(root), root.as_uri()):
        store = Store.at(uri)
        for change in (
            lambda store=store: store.delete("messages/deep/mine"),
            lambda store=store: store.delete_tree("messages"),
            lambda store=store: store.delete_tree("messages/deep"),
            lambda store=store: store.replace("messages/new", b"x"),
            lambda store=store: store.move("own/link", "messages/new"),
            lambda store=store: store.folders("messages"),
        ):
            with pytest.raises(StoreError, match=r"out/messages is a link, and nothing is written or deleted"):
                change()
        assert [stored.path for stored in store.files()] == ["own/link"]
    for path in ("../away/deep/mine", "own/../../away/deep/mine", str(away / "deep" / "mine")):
        with pytest.raises(StoreError, match="points outside of this folder"):
            store.delete(path)
    store.delete("own/link")
    store.delete_tree("own")
    assert [path.name for path in root.iterdir()] == ["messages"]
    assert (away / "deep" / "mine").read_text() == "mine"


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path / os.fsdecode(b"caf\xe9")))
    assert not list(store.files())
    store.replace("a/b", b"x")
    store.move("a/b", "c/d")
    assert (store.read("c/d"), store.exists("a/b"), store.folders("")) == (b"x", False, ["a", "c"])
    (tmp_path / os.fsdecode(b"caf\xe9") / "c" / os.fsdecode(b"\xff.parquet")).touch()
    assert [stored.path for stored in store.files()] == ["c/d", os.fsdecode(b"c/\xff.parquet")]
    store.delete("c/d")
    store.delete_tree("c")
    assert not list(store.files())
    assert store.where == str(tmp_path / os.fsdecode(b"caf\xe9"))


def test_paths_and_file_uris_are_the_same_folder(tmp_path: Path) -> None:
    Store.at(str(tmp_path)).replace("a/b", b"x")
    store = Store.at(tmp_path.as_uri())
    assert store.renames
    assert store.read("a/b") == b"x"
    assert [(stored.path, stored.size) for stored in store.files()] == [("a/b", 1)]
    assert store.read("a/c") is None
