"""The job on Spark: the rows of one process, what a session is given, and what of it can be read again."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batchrows import PCAPS, committed, decoded, differing, rotated
from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType
from simulated import simulated

from mqsniff.batch.carried import CarriedIn
from mqsniff.batch.commit import CommitError
from mqsniff.batch.datasource import CaptureDataSource, register
from mqsniff.batch.finalize import Rewrite, Rewriter
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions
from mqsniff.batch.origins import PieceShift
from mqsniff.batch.session import without_pandas_warning
from mqsniff.batch.spark import frames, read, run
from mqsniff.batch.sparksteps import SparkSteps
from mqsniff.batch.tasktables import TaskOutput
from mqsniff.filters.itemfilter import Filters
from mqsniff.sinks.parts import WrittenPart
from mqsniff.tables.schemas import TABLES

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some captures of every protocol."""
    found = tmp_path_factory.mktemp("captures")
    for protocol in ("kafka", "nsq", "pulsar", "rocketmq"):
        for path in sorted((PCAPS / protocol).glob("*.pcap*"))[:9:2]:
            if path.suffix in (".pcap", ".pcapng"):
                shutil.copy(path, found)
    return found


def test_a_cluster_gives_the_rows_of_one_process(spark: Any, folder: Path, tmp_path: Path) -> None:
    names = [path.name for path in folder.iterdir()]
    expected = decoded(folder, names, tmp_path / "decode")
    stages: list[str] = []
    before = dict(spark.conf.getAll)
    report = run(spark, [str(folder)], str(tmp_path / "out"), on_stage=stages.append, partitions=7, split_size=20_000)
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert dict(spark.conf.getAll) == before
    assert report.splits > 1
    assert report.partitions == 7
    assert 0 < report.worker_memory < 600 * 1_000_000
    assert [stage.split()[0] for stage in stages] == [
        "listing",
        "checking",
        "scanning",
        "decoding",
        "finishing",
        "publishing",
    ]
    tables = read(spark, str(tmp_path / "out"))
    assert {name: frame.count() for name, frame in tables.items()} == dict(report.tables)
    again = run(spark, [str(folder)], str(tmp_path / "out"), partitions=2, split_size=20_000)
    assert again.status == "nothing to do"


def test_a_cluster_chooses_topics_by_names_that_other_tasks_were_taught(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    filters = Filters(topics=("*",), names=("Fetch",))
    expected = decoded(folder, [path.name for path in folder.iterdir()], tmp_path / "decode", filters=filters)
    stages: list[str] = []
    run(spark, [str(folder)], str(tmp_path / "out"), on_stage=stages.append, partitions=7, filters=filters)
    assert expected["messages"]
    assert differing(expected, committed(tmp_path / "out")) == {}
    assert [stage.split()[0] for stage in stages[2:5]] == ["scanning", "learning", "decoding"]


def test_a_stream_reads_each_file_once_also_when_it_is_started_again(spark: Any, tmp_path: Path) -> None:
    register(spark)
    (tmp_path / "landing").mkdir()
    (tmp_path / "pieces").mkdir()
    rotated(PCAPS / "nsq" / "nsq-1.3.0-go-req-touch.pcap", tmp_path / "pieces", 2)
    stream = spark.readStream.format("mqsniff").option("table", "messages").option("scope", "file")
    rows = stream.option("log", str(tmp_path / "log")).option("settle", "0s").load(str(tmp_path / "landing"))
    for number, piece in enumerate(sorted((tmp_path / "pieces").iterdir()), 1):
        shutil.copy(piece, tmp_path / "landing")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        assert query.awaitTermination(60)
        found = spark.read.parquet(str(tmp_path / "out"))
        assert found.select("capture").distinct().count() == number
    whole = spark.read.format("mqsniff").option("table", "messages").option("scope", "file")
    assert found.count() == whole.load(str(tmp_path / "landing")).count() > 0


def test_windows_on_a_cluster_give_the_rows_of_one_process(spark: Any, tmp_path: Path) -> None:
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    sample = PCAPS / "kafka" / "lab-kafka-4.4.0-groups.pcap"
    original = rotated(sample, pieces, 3)
    expected = decoded(sample.parent, [sample.name], tmp_path / "decode")
    report = run(spark, [str(pieces)], str(tmp_path / "out"), window_ns=1)
    assert report.windows == 3
    assert report.carried > 0
    assert differing(expected, committed(tmp_path / "out", original)) == {}


def test_what_a_task_gets_does_not_grow_with_the_number_of_files(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    frames_of = type(spark.range(1))
    through = frames_of.mapInArrow

    def weighed(frame: Any, task: Any, *rest: Any) -> Any:
        sizes.append(len(cloudpickle.dumps(task)))
        return through(frame, task, *rest)

    monkeypatch.setattr(frames_of, "mapInArrow", weighed)
    monkeypatch.setattr(SparkSteps, "_values", lambda *_: [])
    output = TaskOutput("/tables", "staging", "run", JobOptions())
    for count in (100, 10_000):
        steps, work = SparkSteps(lambda: spark), simulated(count)
        part = WrittenPart("messages", "/tables/messages/x.parquet", 1, 1)
        try:
            steps.scan(work, work.splits)
            steps.reduce([PieceShift(number, 0, 1, counts=True) for number in range(count)], output, 4, CarriedIn())
            steps.rewrite([Rewrite("messages", (part,))] * count, Rewriter(output, ()))
        finally:
            steps.clean_up()
    assert sizes[:3] == sizes[3:]
    assert max(sizes) < 20_000


def test_frames_are_the_tables_of_captures_without_a_folder_to_name(spark: Any, tmp_path: Path) -> None:
    capture = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"
    tables = frames(spark, [str(capture)], staging=str(tmp_path))
    assert set(tables) == {*TABLES, "files"}
    joined = tables["exchanges"].join(
        tables["files"].withColumnRenamed("capture", "request_capture"), "request_capture"
    )
    assert joined.count() == tables["exchanges"].where("request_capture is not null").count() > 0
    with pytest.raises(CommitError, match="no run is committed there"):
        read(spark, str(tmp_path / "elsewhere"))


@contextlib.contextmanager
def spark_conf(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


def test_the_data_source_gives_packets_and_with_a_scope_the_tables_of_each_file(spark: Any, folder: Path) -> None:
    register(spark)
    captures = spark.read.format("mqsniff")
    packets = captures.load(str(folder)).groupBy("capture").count().collect()
    assert {row["capture"] for row in packets} == {path.name for path in folder.iterdir()}
    messages = captures.option("table", "messages").option("scope", "file").load(str(folder))
    assert messages.columns[:3] == ["connection_id", "side", "stream_offset"]
    capture = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"
    alone = captures.option("table", "messages").option("scope", "file").load(str(capture))
    assert alone.where("name = 'AUTH'").count() > 0
    chosen = captures.option("columns", "ts_ns,capture,size").load([str(capture), str(folder)])
    assert chosen.columns == ["ts_ns", "capture", "size"]
    assert chosen.where(f"capture like '%{capture.name}'").count() == captures.load(str(capture)).count()
    chosen = captures.option("columns", "ts_ns").option("pushFilters", "true").load(str(capture))
    with spark_conf(spark, "spark.sql.python.filterPushdown.enabled", "true"):
        times = sorted(row["ts_ns"] for row in chosen.collect())
        late = chosen.where(f"ts_ns >= {times[len(times) // 2]}")
        assert late.count() == sum(each >= times[len(times) // 2] for each in times)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "messages"}, "frames"),
        ({"table": "nosuch"}, "no table 'nosuch'"),
    ],
)
def test_the_data_source_says_what_it_cannot_do(spark: Any, folder: Path, options: dict[str, str], said: str) -> None:
    register(spark)
    with pytest.raises(Exception, match=said):
        spark.read.format("mqsniff").options(**options).load(str(folder))


@pytest.mark.parametrize("options", [{}, {"table": "problems", "scope": "file"}], ids=["packets", "problems"])
def test_a_path_that_is_not_there_or_holds_no_capture_is_an_error(
    spark: Any, tmp_path: Path, options: dict[str, str]
) -> None:
    register(spark)
    (tmp_path / "empty").mkdir()
    (tmp_path / "words").mkdir()
    for name in ("a.pcap", "b.pcap"):
        (tmp_path / "words" / name).write_text("no capture at all")
    captures = spark.read.format("mqsniff").options(**options)
    for path, said in (
        ("gone.pcap", "gone.pcap: no such file or directory"),
        ("gone*.pcap", "gone[*].pcap: no captures there"),
        ("empty", "empty: no captures there"),
        ("words", r"a.pcap: not a capture \(text\).*, and 1 more cannot be read"),
        ("words/a.pcap", r"a.pcap: not a capture \(text\)"),
    ):
        for given in (tmp_path / path, f"file://{tmp_path / path}"):
            with pytest.raises(AnalysisException, match=said):
                captures.load(str(given))
    with pytest.raises(AnalysisException, match=r"gone\.pcap: no such file or directory"):
        captures.schema("capture string").load(str(tmp_path / "gone.pcap")).count()


def test_files_that_go_or_change_before_they_are_read_fail_the_read(spark: Any, tmp_path: Path) -> None:
    register(spark)
    capture = PCAPS / "nsq" / "nsq-1.3.0-auth.pcap"
    for name in ("a.pcap", "b.pcap"):
        shutil.copy(capture, tmp_path / name)
    reader = CaptureDataSource({"path": str(tmp_path)}).reader(StructType())
    one, other = reader.partitions()
    shutil.copy(capture, tmp_path / "a.pcap")
    (tmp_path / "b.pcap").unlink()
    with pytest.raises(InputError, match=r"a\.pcap: changed since it was listed"):
        next(iter(reader.read(one)))
    with pytest.raises(InputError, match=r"b\.pcap: no such file or directory"):
        next(iter(reader.read(other)))
    (tmp_path / "words.pcap").write_text("no capture at all")
    shutil.copy(capture, tmp_path / os.fsdecode(b"caf\xe9.pcap"))
    read = spark.read.format("mqsniff").load(str(tmp_path)).select("capture").distinct().collect()
    assert {row["capture"] for row in read} == {"a.pcap", "caf\\udce9.pcap"}


def test_a_session_without_the_same_mqsniff_is_refused_in_one_line(
    spark: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqsniff.batch import tasks
    from mqsniff.batch.session import SessionError

    monkeypatch.setattr(tasks, "versions", lambda: {"Python": "2.7", "mqsniff": "0", "protocol data": "x"})
    with (
        without_pandas_warning(),
        pytest.raises(SessionError, match=r"workers have Python 3\.\d+, not 2\.7, mqsniff .*--package$"),
    ):
        run(spark, [str(folder)], str(tmp_path / "out"))
