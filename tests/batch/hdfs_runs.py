"""Nothing in; a batch job whose captures and tables are on HDFS (Hadoop's mini cluster), and what differs, out.

A chore, no part of the tests: ``make hdfs-runs``. It needs a JDK and Maven, fetches Hadoop (190 jars, 150 MB) once, and
starts a name node and a data node on loopback.

1. Two executors of their own processes read and write, without libhdfs: by WebHDFS, with the session's Hadoop settings.
2. The run is repeated (nothing to do), a capture is added (``--append``), all is replaced (``--overwrite``).
3. Rows are those of ``decode``; Spark reads the tables with its own client for HDFS. Else the exit code is 1.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from batchrows import PCAPS, committed, decoded, differing
from clusters import MiniCluster, hadoop
from pyarrow.fs import LocalFileSystem, copy_files

from mqsniff.batch.filesystems import open_filesystem
from mqsniff.batch.session import open_session
from mqsniff.batch.spark import read, run

NAMES = ("nsq-1.3.0-auth.pcap", "nsqlookupd-1.3.0-raw.pcap")


def check(folder: Path, cluster: MiniCluster) -> list[str]:
    """What differs, one line each."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--conf spark.ui.enabled=false "
        f"--conf spark.hadoop.dfs.namenode.http-address=0.0.0.0:{cluster.web} pyspark-shell"
    )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    taps, out = f"hdfs://localhost:{cluster.port}/taps", f"hdfs://localhost:{cluster.port}/tables"
    hdfs, root, _ = open_filesystem(f"{taps}?web=localhost:{cluster.web}")
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
    with TemporaryDirectory(prefix="mqsniff-hdfs-") as place, hadoop(Path(place)) as cluster:
        wrong = check(Path(place), cluster)
    for line in wrong:
        click.echo(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
