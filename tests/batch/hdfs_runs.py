"""Nothing in; a batch job whose captures and tables are on HDFS (Hadoop's mini cluster), and what differs, out.

A chore, no part of the tests: ``make hdfs-runs``. It needs a JDK and Maven, fetches Hadoop (190 jars, 150 MB) once, and
starts a name node and a data node on loopback.

1. Two executors of their own processes read and write, without libhdfs: by WebHDFS, with the session's Hadoop settings.
2. The run is repeated (nothing to do), a capture is added (``--append``), all is replaced (``--overwrite``).
3. Rows are those of ``decode``; Spark reads the tables with its own client for HDFS. Else the exit code is 1.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from batchrows import PCAPS, committed, decoded, differing
from pyarrow.fs import LocalFileSystem, copy_files

from lab.downloads import WITH_US, jars
from mqsniff.batch.filesystems import open_filesystem
from mqsniff.batch.session import open_session
from mqsniff.batch.spark import read, run

HADOOP = "3.4.1"
JACKSON = "2.15.4"
NAMES = ("nsq-1.3.0-auth.pcap", "nsqlookupd-1.3.0-raw.pcap")
CLUSTER = """
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class Cluster {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.set("hdfs.minidfs.basedir", args[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        cluster.waitActive();
        int web = cluster.getNameNode().getHttpAddress().getPort();
        System.out.println("READY " + cluster.getNameNodePort() + " " + web);
        System.in.read();
        cluster.shutdown();
    }
}
"""


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, str]]:
    """The ports of a name node: of its own protocol, and of WebHDFS."""
    fetched = jars(
        f"hadoop-minicluster-{HADOOP}",
        [
            ("org.apache.hadoop", "hadoop-minicluster", HADOOP),
            ("org.mockito", "mockito-core", "4.11.0"),
            ("junit", "junit", "4.13.2"),
        ],
        [("com.fasterxml.jackson", "jackson-bom", JACKSON)],
    )
    (folder / "Cluster.java").write_text(CLUSTER)
    command = [*WITH_US, "java", "-Xmx512m", "-cp", f"{fetched}/*", "Cluster.java", str(folder / "data")]
    said = folder / "log"  # a file: Hadoop logs to stdout, and would wait for a reader of a pipe
    with said.open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT)
    try:
        while process.poll() is None:
            ready = [line for line in said.read_text().splitlines(keepends=True) if line.startswith("READY ")]
            if ready and ready[0].endswith("\n"):
                _, own, web = ready[0].split()
                yield own, web
                return
            time.sleep(0.2)
        raise SystemExit("the cluster did not start: " + said.read_text()[-2000:])
    finally:
        process.terminate()
        process.wait(60)


def check(folder: Path, own: str, web: str) -> list[str]:
    """What differs, one line each."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--conf spark.ui.enabled=false --conf spark.hadoop.dfs.namenode.http-address=0.0.0.0:{web} pyspark-shell"
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    taps, out = f"hdfs://localhost:{own}/taps", f"hdfs://localhost:{own}/tables"
    hdfs, root, _ = open_filesystem(f"{taps}?web=localhost:{web}")
    spark = open_session("local-cluster[2,1,1024]")

    def put(name: str) -> None:
        hdfs.create_dir(f"{root}/site a")
        with hdfs.open_output_stream(f"{root}/site a/{name}") as stream:
            stream.write((PCAPS / "nsq" / name).read_bytes())

    def difference(step: str, names: tuple[str, ...]) -> list[str]:
        copy = folder / step
        copy_files("/tables", str(copy), source_filesystem=hdfs, destination_filesystem=LocalFileSystem())
        alone = decoded(PCAPS / "nsq", names, folder / f"{step} decode")
        found = differing(alone, committed(copy))
        seen = read(spark, out)["messages"].count()
        click.echo(f"{step}: {len(alone['messages'])} messages, {seen} seen by Spark, {len(found)} tables differ")
        wrong = [f"{step}: {table}: {rows}" for table, rows in found.items()]
        return wrong + ([f"{step}: Spark sees {seen}"] if seen != len(alone["messages"]) else [])

    try:
        put(NAMES[0])
        run(spark, [taps], out, partitions=2)
        wrong = difference("first", NAMES[:1])
        if (status := run(spark, [taps], out).status) != "nothing to do":
            wrong.append(f"again: {status}")
        put(NAMES[1])
        run(spark, [taps], out, append=True, partitions=2)
        wrong += difference("append", NAMES)
        run(spark, [taps], out, overwrite=True, partitions=2)
        return wrong + difference("overwrite", NAMES)
    finally:
        spark.stop()


@click.command()
def main() -> None:
    """Run a batch job whose captures and tables are on HDFS."""
    with TemporaryDirectory(prefix="mqsniff-hdfs-") as place, cluster(Path(place)) as (own, web):
        wrong = check(Path(place), own, web)
    for line in wrong:
        click.echo(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
