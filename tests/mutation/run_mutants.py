"""Mutants of modules, each run against the tests of its room: ``make mutants MODULE=mqsniff/framing SAMPLE=40 SEED=1``.

1. Mutants live in a copy of the repository in a temporary folder; the checkout is never written to.
2. The tests of a room are those of the folder that mirrors it, without those that need Spark (``--spark``: with them).
   Quick tests run first, those of the module before others, up to the first failure. ``--quick SECONDS`` leaves out
   tests that took longer in a run before. ``--wide`` runs survivors against tests of the whole program too.
3. A mutant is killed by a failing test, by an error of the collection, and by taking three times the CPU time.
4. Mutants of ``equivalent.toml`` are not run: they change nothing that a user sees, for the reason given there.
5. Survivors are printed with their differences; ``--again FILE`` runs those that an earlier run printed into FILE.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mutants import Mutant, mutants_of, sample
from quickfirst import QuickFirst

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
COPIED = ("mqsniff", "dissectors", "tests")
NEEDS_SPARK = ("test_spark_*", "test_batch_tls*", "test_batch_secrets*", "test_daemon*")
ALSO = {"tests/batch": ("tests/cli/test_batch_command.py",), "tests/tables": ("tests/test_tables_page.py",)}
"""Tests of a room that lie elsewhere."""
WIDE = ("tests/test_samples.py", "tests/test_pipeline.py", "tests/test_conversations.py", "tests/test_laws.py")
SPARE_CPU_SECONDS = 10
WALL_SECONDS_MAX = 1800
TIMES = ROOT / "build" / "mutants" / "seconds.json"
"""Times of longer tests, kept from run to run."""
MEMORY_MAX = 8 << 30
CHILD_FAILED = 70
"""Exit code of a child that could not run pytest at all."""


class TestRun(NamedTuple):
    """How a run of tests ended."""

    __test__ = False

    passed: bool
    why: str
    """The first test that failed, or how else it ended."""
    cpu_seconds: float


def reasons() -> dict[tuple[str, str, str, str], str]:
    """The equivalent mutants by their keys, with their reasons."""
    entries = tomllib.loads(EQUIVALENT.read_text())["mutant"]
    return {(entry["module"], entry["function"], entry["line"], entry["becomes"]): entry["reason"] for entry in entries}


def modules_of(names: list[str]) -> list[str]:
    """The modules of files and folders, as paths from the root."""
    found = []
    for name in names:
        path = (ROOT / name).resolve()
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(path.relative_to(ROOT)) for path in found]


def room_tests(module: str, *, spark: bool = False) -> list[str]:
    """The test files of a module's room, those of the module first; ``spark``: those that need Spark too."""
    parts = Path(module).with_suffix("").parts[1:]
    room, name = parts[0], parts[-1]
    if module.startswith("dissectors/"):
        protocol = room.removeprefix("mqsniff_")
        folder, pattern = "tests/dissectors", f"**/test_{protocol}_*.py"
    elif "/" in module.removeprefix("mqsniff/"):
        folder, pattern = f"tests/{room}", "test_*.py"
    else:
        folder, pattern = "tests", f"test_{name}.py"
    named = {*(ROOT / folder).glob(pattern), *(ROOT / "tests").rglob(f"test_{name}.py")}
    files = [path for path in sorted(named) if spark or not any(map(path.match, NEEDS_SPARK))]
    files += [ROOT / path for path in ALSO.get(folder, ())]
    files.sort(key=lambda path: name not in path.stem)
    return [str(path.relative_to(ROOT)) for path in files]


def near_tests(module: str, *, spark: bool = False) -> list[str]:
    """Those of the room's test files that import a module or bear its name; all of them where none does."""
    files = room_tests(module, spark=spark)
    parts = Path(module).with_suffix("").parts
    package, name = ".".join(parts[1:-1] if parts[0] == "dissectors" else parts[:-1]), parts[-1]
    imported = re.compile(rf"\b{package}\.{name}\b|from {package} import .*\b{name}\b")
    near = [path for path in files if name in Path(path).stem or imported.search((ROOT / path).read_text())]
    return near or files


class Bench:
    """A copy of the repository in which mutants are run."""

    def __init__(self, root: Path, seconds_max: float, *, spark: bool = False) -> None:
        self._root = root
        self._seconds_max = seconds_max
        self._spark = spark
        self._log = root / "log"
        for path in ROOT.iterdir():
            if path.name in COPIED:
                shutil.copytree(path, root / path.name)  # with the bytecode, which is known by the time of its source
            elif path.is_file():
                shutil.copy(path, root / path.name)
            elif path.name not in (".git", ".hypothesis", ".pytest_cache"):
                (root / path.name).symlink_to(path)
        (root / "tmp").mkdir()

    def run(self, tests: list[str], cpu_seconds: float, *, unharmed: bool = False) -> TestRun:
        """Run tests in a process of its own, up to the first failure."""
        shutil.rmtree(self._root / ".hypothesis", ignore_errors=True)
        process = os.fork()
        if process == 0:
            self._be_child(tests, int(cpu_seconds) + SPARE_CPU_SECONDS, unharmed=unharmed)
        status, usage = _wait(process)
        used = usage.ru_utime + usage.ru_stime
        if os.WIFSIGNALED(status):
            return TestRun(passed=False, why=signal.Signals(os.WTERMSIG(status)).name, cpu_seconds=used)
        code = os.WEXITSTATUS(status)
        if code == CHILD_FAILED:
            self.show_log()
            sys.exit("the tests could not be run")
        return TestRun(code == 0, self._failure(code), used)

    def _be_child(self, tests: list[str], cpu_seconds: int, *, unharmed: bool) -> None:
        """Become the process that runs tests; never returns."""
        code = CHILD_FAILED
        try:
            os.setsid()
            os.chdir(self._root)
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(log, number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
            if not self._spark:  # a JVM reserves more than it takes
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
            os.environ |= {"TMPDIR": str(self._root / "tmp"), "PYTHONPATH": f"{self._root}:{self._root / 'dissectors'}"}
            sys.path[0] = str(self._root)
            sys.dont_write_bytecode = not unharmed
            if not unharmed:
                os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            code = _run_pytest(tests, QuickFirst(TIMES, self._seconds_max, learns=unharmed, spark=self._spark))
            sys.stdout.flush()
        except BaseException:  # noqa: BLE001  # a fork must not go on as its parent
            traceback.print_exc()
        finally:
            os._exit(code)

    def _failure(self, code: int) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return failed[0].split(" - ")[0] if failed else f"exit code {code}"

    def show_log(self) -> None:
        """Print what the last run of tests printed."""
        print(self._log.read_text(errors="replace")[-5000:], file=sys.stderr)

    def write(self, module: str, source: str) -> None:
        """Put a source in a module's place, and no bytecode of another one beside it."""
        path = self._root / module
        path.write_text(source)
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()


def _run_pytest(tests: list[str], plugin: QuickFirst) -> int:
    import pytest

    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of libraries that were imported before the fork
    usual = ("-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--tb=short")
    return pytest.main([*usual, *quiet, *tests], [plugin])


def _wait(process: int) -> tuple[int, resource.struct_rusage]:
    """Status and usage of a child that ends, or is ended after ``WALL_SECONDS_MAX``; with all that it started."""
    end = time.monotonic() + WALL_SECONDS_MAX
    while True:
        found, status, usage = os.wait4(process, os.WNOHANG)
        if found:
            break
        if time.monotonic() > end:
            os.killpg(process, signal.SIGKILL)
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return status, usage


def _import_libraries() -> None:
    """Import once, before the forks, what takes long and is not ours."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import cramjam  # noqa: F401
    import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    import google.protobuf.descriptor_pool  # noqa: F401
    import hypothesis.strategies  # noqa: F401
    import numpy as np  # noqa: F401
    import orjson  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401


def outcomes(
    bench: Bench, mutants: list[Mutant], tests_of: Callable[[str], list[str]], *, wide: bool, cpu_seconds: float
) -> Iterator[tuple[Mutant, str, str]]:
    """(mutant, "killed", "elsewhere" or "survived", the test that failed) for each; ``tests_of`` gives those to run."""
    allowed: dict[frozenset[str], float] = {}
    for module, group in groupby(mutants, key=lambda mutant: mutant.module):
        rings = [tests_of(module), *([[test] for test in WIDE] if wide else [])]
        source = (ROOT / module).read_text()
        for mutant in group:
            what, why = "survived", ""
            for number, ring in enumerate(rings):
                if (key := frozenset(ring)) not in allowed and not cpu_seconds:
                    bench.write(module, source)
                    allowed[key] = 3 * _unharmed(bench, ring)
                bench.write(module, mutant.source)
                run = bench.run(ring, allowed.get(key, cpu_seconds))
                if not run.passed:
                    what, why = "elsewhere" if number else "killed", run.why
                    break
            yield mutant, what, why
        bench.write(module, source)


def _unharmed(bench: Bench, tests: list[str]) -> float:
    """CPU seconds of tests without a mutant; they must pass."""
    run = bench.run(tests, WALL_SECONDS_MAX, unharmed=True)
    if not run.passed:
        bench.show_log()
        sys.exit(f"without a mutant: {run.why}")
    return run.cpu_seconds


def survivors_in(text: str, mutants: list[Mutant]) -> list[Mutant]:
    """The mutants that an earlier run printed as survivors, on whatever line they are now."""
    named = set(re.split(r"(?m)^(?=\S+:\d+ |\d+ of )", re.sub(r"(?m)^(\S+):\d+ ", r"\1:0 ", text)))
    return [mutant for mutant in mutants if f"{difference(mutant._replace(line=0))}\n" in named]


def difference(mutant: Mutant) -> str:
    """Module, line, kind and the lines that differ, as they are printed."""
    lines = [*(f"- {line}" for line in mutant.removed), *(f"+ {line}" for line in mutant.added)]
    return "\n".join((f"{mutant.module}:{mutant.line} {mutant.kind}", *lines))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("modules", nargs="+", metavar="MODULE", help="files or folders")
    add("--sample", type=int, default=40, help="so many mutants of all modules together")
    add("--seed", type=int, default=1, help="another number takes other mutants")
    add("--tests", nargs="+", default=[], help="run these test files instead of those of the room")
    add("--near", action="store_true", help="run only test files that import the module")
    add("--quick", type=float, default=WALL_SECONDS_MAX, metavar="SECONDS", help="run no tests that took longer")
    add("--cpu", type=float, default=0, metavar="SECONDS", help="limit of a mutant: tests do not run without one first")
    add("--spark", action="store_true", help="run tests that need Spark too")
    add("--wide", action="store_true", help="run survivors against laws, goldens and conversations too")
    add("--again", type=Path, metavar="FILE", help="run the survivors that FILE names, and no others")
    return parser.parse_args()


def main() -> None:
    """Run a sample of the mutants of the modules named, and print which ones survived."""
    options = _asked()
    known = reasons()
    found = [mutant for name in modules_of(options.modules) for mutant in mutants_of(name, (ROOT / name).read_text())]
    if options.again is None:
        chosen = sample(found, options.sample, options.seed)
    else:
        chosen = survivors_in(options.again.read_text(), found)
    equal = [mutant for mutant in chosen if mutant.key in known]
    counts = Counter(equivalent=len(equal))
    _import_libraries()
    usual = near_tests if options.near else room_tests
    with TemporaryDirectory(prefix="mutants-") as folder:
        rest = [mutant for mutant in chosen if mutant.key not in known]
        bench = Bench(Path(folder), options.quick, spark=options.spark)
        for mutant, what, why in outcomes(
            bench,
            rest,
            lambda module: options.tests or usual(module, spark=options.spark),
            wide=options.wide,
            cpu_seconds=options.cpu,
        ):
            counts[what] += 1
            print(f"{what:9} {mutant.module}:{mutant.line} {mutant.kind} {why}", file=sys.stderr, flush=True)
            if what == "survived":
                print(difference(mutant), flush=True)
    changing = len(chosen) - counts["equivalent"]
    noticed = counts["killed"] + counts["elsewhere"]
    print(
        f"{len(chosen)} of {len(found)} mutants: {counts['killed']} killed, {counts['elsewhere']} killed elsewhere, "
        f"{counts['equivalent']} equivalent, {counts['survived']} survived; "
        f"{noticed / max(changing, 1):.0%} of those that change behaviour were noticed"
    )


if __name__ == "__main__":
    main()
