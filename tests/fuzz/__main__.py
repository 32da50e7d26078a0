"""Runs fuzzers: ``python -m tests.fuzz TARGET --seconds N``. README.md says what else there is."""

from __future__ import annotations

import argparse
import calendar
import importlib.util
import random
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run what was asked for; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", help="a target, 'all' (one after the other), or 'lies'")
    parser.add_argument("--seconds", type=int, default=60, help="how long, for each target (60)")
    parser.add_argument("--until", metavar="HH:MM", help="go round all targets until this time of day (UTC)")
    parser.add_argument("--list", action="store_true", help="targets")
    parser.add_argument("--table", action="store_true", help="sums of the runs so far, as Markdown")
    parser.add_argument(
        "--try", dest="files", nargs="+", metavar="FILE", help="try these inputs, and say what is wrong"
    )
    parser.add_argument(
        "--each", dest="step_of", type=int, default=1, metavar="N", help="of lies: one of N messages (1)"
    )
    parser.add_argument("--as", dest="step", choices=("guided", "replay"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.step == "guided":  # both before anything of the project is imported
        _guided(asked.target, asked.seconds)
    if asked.step == "replay":
        return _replay(asked.target)
    if asked.table:
        from . import figures

        print("\n".join(figures.table()))
        return 0
    if asked.target == "lies":
        from . import lies_all

        return lies_all.main(asked.step_of)
    from .targets import targets

    if asked.list or asked.target is None:
        print("\n".join(f"{target.name:16} {target.about}" for target in targets().values()))
        return 0
    if asked.target not in (*targets(), "all"):
        parser.error(f"no target is called {asked.target!r}; --list shows them")
    if asked.files:
        return _try(asked.target, asked.files)
    names = list(targets()) if asked.target == "all" else [asked.target]
    end = moment_of(asked.until, time.time()) if asked.until else None
    found = 0
    while True:
        for name in names:
            if end is not None and time.time() >= end:
                return found
            found |= _fuzz(name, asked.seconds)
        if end is None:
            return found


def moment_of(time_of_day: str, now_s: float) -> int:
    """The next moment at which it is HH:MM (UTC), as seconds since 1970; also if that is on the next day."""
    hour, _, minute = time_of_day.partition(":")
    today = calendar.timegm((*time.gmtime(now_s)[:3], int(hour), int(minute), 0))
    return today if today > now_s else today + 86_400


def _guided(name: str, seconds: int) -> None:
    from . import guided

    def target_of(wanted: str) -> Any:
        from . import targets

        return targets.target_of(wanted)

    guided.run(target_of, name, seconds, random.SystemRandom().randrange(1, 1 << 31))


def _fuzz(name: str, seconds: int) -> int:
    """Fuzz one target, then try its whole corpus again without instruments; says and notes the figures."""
    from . import figures
    from .store import FOLDER, corpus_of
    from .targets import target_of

    target = target_of(name)
    corpus = corpus_of(target)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed (pip install atheris): inputs are changed by chance", file=sys.stderr)
        run = _blind(name, seconds)
    else:
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        log = FOLDER / name / "log"
        with log.open("w") as file:
            subprocess.run(_command(name, "guided", seconds), cwd=ROOT, stderr=file, stdout=file, check=False)
        run = figures.of_guided(log.read_text(errors="replace"))
        if not run:
            print(f"{name}: the fuzzer did not end as it should; see {log}", file=sys.stderr)
    replayed = subprocess.run(_command(name, "replay", 0), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    covered = replayed.stdout.strip().rpartition("\n")[2]
    found = sorted(path.read_text().partition("\n")[0] for path in (FOLDER / name / "found").glob("*.txt"))
    run |= {"target": name, "corpus": sum(1 for _ in corpus.iterdir()), "found": found, "lines": covered}
    figures.note(run)
    print(f"{time.strftime('%H:%M', time.gmtime())} {run}", flush=True)
    return int(bool(found))


def _command(name: str, step: str, seconds: int) -> list[str]:
    return [sys.executable, "-m", "tests.fuzz", name, "--as", step, "--seconds", str(seconds)]


def _blind(name: str, seconds: int) -> dict[str, Any]:
    from . import blind
    from .store import FoundInputs, corpus_of, inputs_in
    from .targets import target_of

    target, count = target_of(name), 0
    found = FoundInputs(target)
    seed = random.SystemRandom().randrange(1 << 31)
    for data, finding in blind.findings(target, inputs_in(corpus_of(target)), number=seed, seconds=seconds):
        count += 1
        if finding is not None:
            found.add(finding, data)
    return {"executions": count, "seconds": seconds}


def _replay(name: str) -> int:
    """Try the corpus; the last line says how many lines of the target's files it covers."""
    import coverage

    measured = coverage.Coverage(
        data_file=None, config_file=False, include=[str(ROOT / "mqsniff/*"), str(ROOT / "dissectors/*")]
    )
    measured.start()
    from .judging import judge
    from .store import FoundInputs, corpus_of, inputs_in
    from .targets import target_of

    target = target_of(name)
    found = FoundInputs(target)
    for data in inputs_in(corpus_of(target)):
        finding = judge(target, data, slowness=3)
        if finding is not None:
            found.add(finding, data)
    measured.stop()
    lines = covered = 0
    for file in measured.get_data().measured_files():
        if any(fnmatch(file, str(ROOT / room)) for room in target.rooms):
            _, statements, _, missing, _ = measured.analysis2(file)
            lines, covered = lines + len(statements), covered + len(statements) - len(missing)
    print(f"{100 * covered / max(lines, 1):.0f} % of {lines:,}")
    return 0


def _try(name: str, files: list[str]) -> int:
    from .judging import judge
    from .targets import target_of

    found = 0
    for file in files:
        finding = judge(target_of(name), Path(file).read_bytes())
        print(f"{file}: {'nothing is wrong' if finding is None else finding.signature}")
        if finding is not None:
            print(finding.text)
            found = 1
    return found


if __name__ == "__main__":
    sys.exit(main())
