"""Publication: whatever step a run dies at, readers see the old state or the new one, and the next run repairs."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dyingstore import DyingFiles, Killed
from pyarrow import fs

from mqsniff.answers.folders import FolderError, table_files
from mqsniff.batch.commit import CHECKPOINT, Archive, Changed, CommitError, compare, new_run
from mqsniff.batch.manifest import Manifest, ManifestInput, Published, run_digest
from mqsniff.batch.store import Store

OLD, NEW, NEWEST = "20260101T000000-00000001", "20260102T000000-00000002", "20260103T000000-00000003"
INPUT = ManifestInput("/captures/a.pcap", 10, "1")


def archive_at(root: Path, left: int = 1 << 30, *, renames: bool = True) -> Archive:
    handler = DyingFiles(left, renames=renames)
    return Archive(Store(fs.PyFileSystem(handler), str(root), renames=renames))


def handler_of(archive: Archive) -> DyingFiles:
    handler = archive.store.filesystem.handler
    assert isinstance(handler, DyingFiles)
    return handler


def stage(archive: Archive, run: str, text: bytes, replaces: tuple[str, ...] = ()) -> Manifest:
    """What tasks leave: three files that they report, and one of an attempt that died."""
    root = Path(archive.store.root) / archive.staging(run)
    parts = []
    for table, name in (
        ("messages", f"{run}-0-a.parquet"),
        ("messages", f"{run}-1-b.parquet"),
        ("topics", f"{run}-t.parquet"),
    ):
        (root / table).mkdir(parents=True, exist_ok=True)
        (root / table / name).write_bytes(text + name.encode())
        parts.append(Published(table, f"{table}/{name}", 1, len(text) + len(name)))
    (root / "messages" / f"{run}-1-dead.parquet.tmp").write_bytes(b"half")
    return Manifest(run, f"digest of {run}", "0", "1", (INPUT,), tuple(parts), replaces)


def seen(archive: Archive) -> list[bytes]:
    """What a reader of the manifests reads."""
    return [(Path(archive.store.root) / part.path).read_bytes() for part in archive.committed()]


def seen_by_sql(root: Path) -> int:
    """How many files ``mqsniff sql`` reads; all are there."""
    try:
        files = [file for some in table_files(root).values() for file in some]
    except FolderError:
        return 0
    assert all(file.is_file() for file in files)
    return len(files)


def of_tables(root: Path) -> set[str]:
    return {
        path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and "_mqsniff" not in path.parts
    }


def test_a_published_run_is_its_files_and_nothing_else(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    manifest = stage(archive, NEW, b"new")
    archive.publish(manifest)
    assert archive.runs() == [manifest]
    assert of_tables(tmp_path) == {part.path for part in manifest.parts}
    assert [path.name for path in (tmp_path / "_mqsniff").rglob("*") if path.is_file()] == [f"{NEW}.json"]


@pytest.mark.parametrize("rolls_back", [False, True], ids=["killed", "raised"])
@pytest.mark.parametrize("renames", [True, False], ids=["renames", "object store"])
@pytest.mark.parametrize("replaces", [(OLD,), ()], ids=["overwrite", "append"])
def test_a_run_that_dies_at_any_step_shows_the_old_state_or_the_new_one(
    tmp_path: Path, replaces: tuple[str, ...], renames: bool, rolls_back: bool
) -> None:
    outcomes = set()
    for left in range(100):
        root = tmp_path / str(left)
        first = archive_at(root, renames=renames)
        old_manifest = stage(first, OLD, b"old")
        first.publish(old_manifest)
        old = seen(first)
        manifest = stage(first, NEW, b"new", replaces)
        new = ([] if replaces else old) + [b"new" + Path(part.path).name.encode() for part in manifest.parts]
        dying = archive_at(root, left, renames=renames)
        try:
            dying.publish(manifest)
        except Killed:
            state = seen(archive_at(root, renames=renames))
            assert state in (old, new)
            decided = state == new or (root / "_mqsniff" / "staging" / NEW / "manifest.json").exists()
            repaired = archive_at(root, renames=renames)
            if rolls_back:
                repaired.roll_back(NEW)
            recovery = repaired.recover()
            assert seen(repaired) == (new if decided else old)
            kept = set() if renames or not (replaces and decided) else {part.path for part in old_manifest.parts}
            assert of_tables(root) == {part.path for part in repaired.committed()} | kept
            assert not list((root / "_mqsniff").glob("staging/*"))
            outcomes.add((state == new, decided, NEW in recovery.completed, NEW in recovery.rolled_back))
        else:
            assert seen(archive_at(root, renames=renames)) == new
            break
    else:
        pytest.fail("publishing never came to an end")
    if renames:  # else putting the manifest is the last step
        assert any(new for new, *_ in outcomes)
    assert any(not decided for _, decided, *_ in outcomes)


def test_a_first_run_that_dies_at_any_step_shows_sql_nothing_or_all(tmp_path: Path) -> None:
    outcomes = set()
    for left in range(100):
        root = tmp_path / str(left)
        archive = archive_at(root, left)
        manifest = stage(archive, NEW, b"new")
        try:
            archive.publish(manifest)
        except Killed:
            outcomes.add(seen_by_sql(root))
            assert seen_by_sql(root) == len(seen(archive_at(root)))
        else:
            break
    assert outcomes == {0, len(manifest.parts)}
    assert seen_by_sql(root) == len(manifest.parts)


def test_a_repair_that_dies_at_any_step_is_repaired_by_the_next_one(tmp_path: Path) -> None:
    for left in range(100):
        root = tmp_path / str(left)
        first = archive_at(root)
        first.publish(stage(first, OLD, b"old"))
        manifest = stage(first, NEW, b"new", (OLD,))
        decided_at = _changes_until_decided(tmp_path / f"count-{left}")
        with pytest.raises(Killed):
            archive_at(root, decided_at + 1).publish(manifest)
        try:
            archive_at(root, left).recover()
        except Killed:
            archive_at(root).recover()
        else:
            break
        assert seen(archive_at(root)) == [b"new" + Path(part.path).name.encode() for part in manifest.parts]
        assert of_tables(root) == {part.path for part in manifest.parts}
    else:
        pytest.fail("the repair never came to an end")


def _changes_until_decided(root: Path) -> int:
    """How many changes there are up to the moment in which a run is decided."""
    archive = archive_at(root)
    archive.publish(stage(archive, OLD, b"old"))
    for left in range(100):
        dying = archive_at(root, left)
        manifest = stage(dying, NEW, b"new", (OLD,))
        with pytest.raises(Killed):
            dying.publish(manifest)
        if (root / "_mqsniff" / "staging" / NEW / "manifest.json").exists():
            return left
    raise AssertionError


def test_a_run_that_failed_leaves_nothing(tmp_path: Path) -> None:
    for renames in (True, False):
        archive = archive_at(tmp_path / str(renames), renames=renames)
        archive.publish(stage(archive, OLD, b"old"))
        before = of_tables(tmp_path / str(renames))
        stage(archive, NEW, b"new")
        archive.roll_back(NEW)
        assert of_tables(tmp_path / str(renames)) == before
        assert [run.run for run in archive.runs()] == [OLD]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(lambda path: path.unlink(), "is gone"), (lambda path: path.write_bytes(b"x"), "has 1 bytes")],
    ids=["gone", "changed"],
)
def test_a_file_that_is_not_what_the_task_reported_stops_the_publication(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    archive = archive_at(tmp_path)
    manifest = stage(archive, NEW, b"new")
    spoil(tmp_path / archive.staging(NEW) / manifest.parts[1].path)
    with pytest.raises(CommitError, match=said):
        archive.publish(manifest)
    assert archive.runs() == []
    assert of_tables(tmp_path) == set()


def age(root: Path, run: str, days: float) -> None:
    """Let a run have been committed some days ago."""
    moment = time.time() - days * 24 * 3600
    os.utime(root / "_mqsniff" / "runs" / f"{run}.json", (moment, moment))


@pytest.mark.parametrize("renames", [True, False], ids=["renames", "object store"])
def test_files_of_a_replaced_run_stay_for_a_day_where_only_those_who_know_them_find_them(
    tmp_path: Path, renames: bool
) -> None:
    archive = archive_at(tmp_path, renames=renames)
    old = stage(archive, OLD, b"old")
    archive.publish(old)
    new = stage(archive, NEW, b"new", (OLD,))
    archive.publish(new)
    place = tmp_path / "_mqsniff" / "replaced" / OLD if renames else tmp_path
    assert archive_at(tmp_path, renames=renames).recover().deleted == []
    assert all((place / part.path).exists() for part in old.parts)
    if renames:
        assert of_tables(tmp_path) == {part.path for part in new.parts}
    age(tmp_path, NEW, 1.01)
    recovery = archive_at(tmp_path, renames=renames).recover()
    assert recovery.deleted == [OLD]
    assert OLD in recovery.lines()[0]
    assert of_tables(tmp_path) == {part.path for part in new.parts}
    assert [run.run for run in archive_at(tmp_path, renames=renames).runs()] == [NEW]
    assert not place.exists() or not renames


@pytest.mark.parametrize("aged", [(NEW,), (NEWEST,), (NEW, NEWEST)], ids=["second", "third", "both"])
def test_a_run_that_was_replaced_twice_never_counts_again(tmp_path: Path, aged: tuple[str, ...]) -> None:
    archive = archive_at(tmp_path)
    for run, replaces in ((OLD, ()), (NEW, (OLD,)), (NEWEST, (NEW,))):
        archive.publish(stage(archive, run, b"x", replaces))
    for run in aged:
        age(tmp_path, run, 2)
    for left in range(100):
        root = tmp_path.parent / f"{tmp_path.name}-{left}"
        shutil.copytree(tmp_path, root)
        try:
            archive_at(root, left).recover()
        except Killed:
            assert [run.run for run in archive_at(root).runs()] == [NEWEST]
            archive_at(root).recover()
        else:
            break
        assert [run.run for run in archive_at(root).runs()] == [NEWEST]
    else:
        pytest.fail("the repair never came to an end")


@pytest.mark.parametrize("renames", [True, False], ids=["renames", "object store"])
def test_a_run_lists_the_folder_once(tmp_path: Path, renames: bool) -> None:
    archive = archive_at(tmp_path, renames=renames)
    archive.publish(stage(archive, OLD, b"old"))
    archive = archive_at(tmp_path, renames=renames)
    archive.recover()
    archive.runs()
    archive.foreign()
    archive.ledger()
    archive.publish(stage(archive, NEW, b"new", (OLD,)))
    assert handler_of(archive).listed.count(str(tmp_path)) == 1


def _many(root: Path, count: int) -> list[str]:
    archive = archive_at(root)
    runs = [f"20260101T000000-{number:08x}" for number in range(count)]
    for run in runs:
        archive.store.replace(f"_mqsniff/runs/{run}.json", Manifest(run, "", "0", "1", (INPUT,), ()).encoded())
    return runs


def test_a_thousand_manifests_are_not_read_one_by_one(tmp_path: Path) -> None:
    runs = _many(tmp_path, 1000)
    first = archive_at(tmp_path)
    first.recover()
    assert handler_of(first).reads == 1001  # once each, and the checkpoint that is not there
    archive_at(tmp_path).publish(stage(archive_at(tmp_path), NEW, b"new"))
    second = archive_at(tmp_path)
    second.recover()
    assert [run.run for run in second.runs()] == [*runs, NEW]
    assert second.ledger() == first.ledger()
    assert handler_of(second).reads == 2
    assert handler_of(second).changes == 0


@pytest.mark.parametrize("spoil", [b"", b"x", None], ids=["empty", "no gzip", "other content"])
def test_a_damaged_checkpoint_changes_nothing(tmp_path: Path, spoil: bytes | None) -> None:
    runs = _many(tmp_path, 20)
    archive_at(tmp_path).recover()
    checkpoint = tmp_path / CHECKPOINT
    good = checkpoint.read_bytes()
    checkpoint.write_bytes(
        gzip.compress(gzip.decompress(good).replace(b'"run":', b'"walk":')) if spoil is None else spoil
    )
    assert [run.run for run in archive_at(tmp_path).runs()] == runs
    archive_at(tmp_path).recover()
    assert checkpoint.read_bytes() == good


def test_a_manifest_that_is_not_the_copied_one_is_read_itself(tmp_path: Path) -> None:
    runs = _many(tmp_path, 20)
    archive_at(tmp_path).recover()
    (tmp_path / "_mqsniff" / "runs" / f"{runs[0]}.json").write_bytes(b"{")
    (tmp_path / "_mqsniff" / "runs" / f"{runs[1]}.json").unlink()
    with pytest.raises(CommitError, match=f"{runs[0]}.json: no manifest"):
        archive_at(tmp_path).runs()
    (tmp_path / "_mqsniff" / "runs" / f"{runs[0]}.json").unlink()
    assert [run.run for run in archive_at(tmp_path).runs()] == runs[2:]


def test_files_of_others_stay_where_they_are(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    archive.publish(stage(archive, OLD, b"old"))
    foreign = tmp_path / "messages" / "notes.parquet"
    foreign.write_bytes(b"mine")
    orphan = tmp_path / "messages" / f"{NEW}-9-x.parquet"
    orphan.write_bytes(b"left behind")
    assert archive.recover().orphans == [f"messages/{NEW}-9-x.parquet"]
    assert foreign.exists()
    assert not orphan.exists()


def test_a_manifest_that_is_none_is_named_and_not_passed_over(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    archive.publish(stage(archive, OLD, b"old"))
    (tmp_path / "_mqsniff" / "runs" / f"{NEW}.json").write_bytes(b"{")
    with pytest.raises(CommitError, match=f"{NEW}.json: no manifest"):
        archive.runs()


def test_a_second_run_is_kept_out_until_the_first_is_over_or_dead(tmp_path: Path) -> None:
    archive = Archive(Store.at(str(tmp_path)))
    script = (
        "import sys, time\n"
        "from mqsniff.batch.commit import Archive\nfrom mqsniff.batch.store import Store\n"
        "with Archive(Store.at(sys.argv[1])).locked():\n    print('in', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"in\n"
        with pytest.raises(CommitError, match="another run"), archive.locked():
            pass
        other.kill()
    with archive.locked():
        pass


def test_the_ledger_tells_what_is_done_from_what_has_changed(tmp_path: Path) -> None:
    archive = archive_at(tmp_path)
    archive.publish(stage(archive, OLD, b"old"))
    wanted = [("/captures/a.pcap", 10, "1"), ("/captures/b.pcap", 10, "1")]
    assert compare(archive.ledger(), wanted) == Changed(["/captures/a.pcap"], [])
    assert compare(archive.ledger(), [("/captures/a.pcap", 11, "1")]) == Changed([], ["/captures/a.pcap"])
    assert compare(archive.ledger(), [("/captures/a.pcap", 10, "2")]) == Changed([], ["/captures/a.pcap"])


def test_the_digest_names_inputs_in_any_order_and_the_options() -> None:
    one, two = INPUT, INPUT._replace(uri="/captures/b.pcap")
    digest = run_digest([one, two], {"records": True, "domain": ""})
    assert digest == run_digest([two, one], {"domain": "", "records": True})
    assert digest != run_digest([two, one._replace(mark="2")], {"domain": "", "records": True})
    assert digest != run_digest([two, one], {"domain": "", "records": False})


def test_runs_of_one_second_have_different_names_that_sort_by_time() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = {new_run(moment) for _ in range(100)}
    assert len(names) == 100
    assert all(name.startswith("20260102T030405-") for name in names)


@pytest.mark.parametrize("clock", ["20260102T030405", "20251231T000000", "20260102T030409"])
def test_a_run_sorts_behind_the_run_before_it_whatever_the_clock_says(clock: str) -> None:
    now = datetime.strptime(clock, "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    before = "20260102T030405-ffffffff"
    assert new_run(now, after=before).startswith(max(clock, "20260102T030406"))
