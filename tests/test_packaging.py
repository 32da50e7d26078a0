"""What is installed and what is given to others: the files of the sdist and of its wheel, and one version."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path, PurePosixPath

import pytest

import mqsniff

ROOT = Path(__file__).parents[1]
PACKAGES = {"mqsniff", "mqsniff_kafka", "mqsniff_nsq", "mqsniff_pulsar", "mqsniff_rocketmq"}
DATA = {
    "mqsniff/answers/data/queries.sql",
    *(
        f"mqsniff/answers/report/data/{name}"
        for name in (
            *("page.html", "report.css", "uplot.LICENSE", "uplot.css", "uplot.js"),
            *("base.js", "charts.js", "graph.js", "latency.js", "main.js", "tables.js", "timelines.js"),
        )
    ),
    "mqsniff_kafka/data/kafka.jsonl",
    "mqsniff_kafka/data/otlp.binpb",
    "mqsniff_pulsar/data/pulsar.binpb",
    "mqsniff_rocketmq/data/rocketmq.json",
}
NOT_IN_THE_SDIST = {".gitignore", *(f".github/workflows/{name}.yml" for name in ("audit", "fuzz", "release"))}
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def tracked() -> set[str]:
    """The files of the checkout, where there is one."""
    if shutil.which("git") is None:
        return set()
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()}


def build(what: str, source: Path, folder: Path) -> Path:
    """The file that a step of the build backend makes of a folder of sources."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, f"build_{what}", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, set[str]]:
    """The files of an sdist of what is tracked, and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("built")
    names = tracked()
    if not names:
        pytest.skip("no checkout: which files are tracked is not known")
    for name in names:
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / "source" / name)
    with tarfile.open(build("sdist", folder / "source", folder)) as archive:
        archive.extractall(folder / "unpacked", filter="data")
        sdist = {str(PurePosixPath(*PurePosixPath(each.name).parts[1:])) for each in archive if each.isfile()}
    (unpacked,) = (folder / "unpacked").iterdir()
    with zipfile.ZipFile(build("wheel", unpacked, folder)) as wheel:
        (about,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        version = message_from_bytes(wheel.read(about))["Version"]
        return {"wheel": set(wheel.namelist()), "sdist": sdist, "version": {version}}


def test_the_wheel_holds_the_packages_and_nothing_else(built):
    tops = {name.partition("/")[0] for name in built["wheel"] if ".dist-info/" not in name and ".data/" not in name}
    assert tops == PACKAGES | {"pyspark_mqsniff.py"}


def test_the_wheel_holds_code_types_and_the_data_that_is_read(built):
    others = {name for name in built["wheel"] if ".dist-info/" not in name and not name.endswith((".py", "/py.typed"))}
    man_page = f"mqsniff-{mqsniff.__version__}.data/data/share/man/man1/mqsniff.1"
    assert others == DATA | {man_page}
    assert {f"{package}/py.typed" for package in PACKAGES} <= built["wheel"]


def test_the_wheel_holds_every_module(built):
    modules = {
        name for name in tracked() if name.endswith(".py") and name.startswith(("mqsniff/", "dissectors/mqsniff_"))
    }
    assert {name.removeprefix("dissectors/") for name in modules} <= built["wheel"]


def test_the_sdist_holds_all_that_its_tests_need(built):
    assert tracked() - built["sdist"] == NOT_IN_THE_SDIST


def test_there_is_one_version(built):
    assert built["version"] == {mqsniff.__version__}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
