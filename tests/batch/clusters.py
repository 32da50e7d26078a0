"""Folders in; clusters on loopback, whose processes end with the program that started them, out.

1. Spark's own master and workers, from PySpark's jars.
2. Hadoop's mini cluster from Maven Central: HDFS, and YARN if node managers are asked for. It needs a JDK and Maven,
   and fetches 190 jars (150 MB) once.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from lab.downloads import WITH_US, jars

HADOOP = "3.4.1"
JACKSON = "2.15.4"
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 600
LOOPBACK = "127.0.0.1"
_OPENS = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "net")]
"""Packages that Hadoop's YARN reads by reflection."""
_MINI_CLUSTER = """
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

public class Cluster {
    public static void main(String[] args) throws Exception {
        int nodes = Integer.parseInt(args[1]);
        Configuration conf = new YarnConfiguration();
        conf.set("hdfs.minidfs.basedir", args[0] + "/hdfs");
        MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        hdfs.waitActive();
        if (nodes > 0) {
            conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
            conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
            MiniYARNCluster yarn = new MiniYARNCluster("yarn", nodes, 1, 1);
            yarn.init(conf);
            yarn.start();
            yarn.waitForNodeManagersToConnect(60000);
            conf = yarn.getConfig();
        }
        Configuration told = new Configuration(false);  // the rest names classes that clients do not have
        for (Map.Entry<String, String> each : conf) {
            if (each.getKey().matches("fs.defaultFS|dfs.namenode.http-address|yarn.resourcemanager.*address.*")) {
                told.set(each.getKey(), conf.get(each.getKey()));
            }
        }
        for (String name : new String[] {"core", "hdfs", "yarn"}) {  // each is read after defaults of its own
            try (OutputStream file = new FileOutputStream(args[0] + "/conf/" + name + "-site.xml")) {
                told.writeXml(file);
            }
        }
        System.out.println("READY " + hdfs.getNameNodePort() + " " + hdfs.getNameNode().getHttpAddress().getPort());
        System.in.read();
    }
}
"""


class MiniCluster(NamedTuple):
    """Hadoop's mini cluster."""

    port: int
    """Of the name node."""
    web: int
    """Of the name node's WebHDFS."""
    conf: Path
    """The folder with its ``core-site.xml`` and others: ``HADOOP_CONF_DIR``."""


@contextmanager
def running(
    command: Sequence[str], log: Path, ready: str, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], re.Match[str]]]:
    """A process and what it said when it was ready (a pattern in its log); it is terminated at the end of the block."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            [*WITH_US, *command],
            cwd=log.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    try:
        until = time.monotonic() + PATIENCE_S
        while (found := re.search(ready, log.read_text(errors="replace"))) is None:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{log.name} did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)
        yield process, found
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The URL of a master, and its workers, each with one core; their Python has no mqsniff."""
    launcher = str(SPARK_HOME / "bin" / "spark-class")
    environment = plain_environment(folder)
    deploy = "org.apache.spark.deploy"
    page = ("--host", LOOPBACK, "--webui-port", "0")
    with ExitStack() as ends:
        master = [launcher, f"{deploy}.master.Master", *page, "--port", "0"]
        ready = r"Starting Spark master at (spark://\S+)"
        _, found = ends.enter_context(running(master, folder / "master.log", ready, environment))
        url, started = found[1], []
        for number in range(workers):
            command = [launcher, f"{deploy}.worker.Worker", *page, "--cores", "1", "--memory", "1g"]
            command += ["--work-dir", str(folder / f"worker-{number}"), url]
            log = folder / f"worker-{number}.log"
            process, _ = ends.enter_context(running(command, log, "Successfully registered with master", environment))
            started.append(process)
        yield url, started


@contextmanager
def hadoop(folder: Path, nodes: int = 0) -> Iterator[MiniCluster]:
    """HDFS with one data node, and YARN with so many node managers."""
    fetched = jars(
        f"hadoop-minicluster-{HADOOP}",
        [
            ("org.apache.hadoop", "hadoop-minicluster", HADOOP),
            ("org.mockito", "mockito-core", "4.11.0"),
            ("junit", "junit", "4.13.2"),
        ],
        [("com.fasterxml.jackson", "jackson-bom", JACKSON)],
    )
    (folder / "Cluster.java").write_text(_MINI_CLUSTER)
    (folder / "conf").mkdir()
    command = ["java", "-Xmx768m", *_OPENS, "-cp", f"{fetched}/*", "Cluster.java", str(folder), str(nodes)]
    with running(command, folder / "hadoop.log", r"READY (\d+) (\d+)\n", plain_environment(folder)) as (_, found):
        yield MiniCluster(int(found[1]), int(found[2]), folder / "conf")


def plain_environment(folder: Path) -> dict[str, str]:
    """An environment in which Python finds nothing of ours; temporary files of Spark go to a folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    return environment | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
