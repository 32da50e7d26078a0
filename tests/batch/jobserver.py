"""Jobs as lines of JSON in, their stages and outcomes as lines of JSON out: many jobs in one Spark session.

1. A job is ``{"inputs": […], "out": …}``. Its outcome has the exit code and the lines of ``mqsniff batch``, and how
   many attempts of tasks failed, as Spark counted.
2. Each stage is told before it begins, and begins when a line is read: meanwhile the other side may change files.
3. The session ends with the input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mqsniff.batch.commit import CommitError
from mqsniff.batch.inputs import InputError
from mqsniff.batch.job import JobOptions
from mqsniff.batch.session import SessionError, open_session
from mqsniff.batch.spark import run
from mqsniff.batch.store import StoreError, redacted


def tell(**said: Any) -> None:
    """Write a line."""
    print(json.dumps(said), flush=True)  # noqa: T201


def on_stage(stage: str) -> None:
    """Tell a stage, and wait for the answer."""
    tell(stage=stage)
    sys.stdin.readline()


def failed_attempts(session: Any) -> int:
    """Attempts of tasks that failed so far, also those of executors that were lost."""
    context = session.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    return sum(executors.apply(number).failedTasks() for number in range(executors.size()))


def main() -> None:
    """Serve jobs until the input ends."""
    master, split_size, tasks = sys.argv[1:]
    options = JobOptions(split_size=int(split_size), partitions=int(tasks))
    session = open_session(master)
    tell(ready=True)
    while line := sys.stdin.readline():
        job = json.loads(line)
        before = failed_attempts(session)
        try:
            report = run(session, job["inputs"], job["out"], options, on_stage)
        except (CommitError, InputError, SessionError, StoreError) as error:
            tell(code=2, status="failed", said=[redacted(str(error))])
            continue
        said = [*report.recovered, *(f"{uri}: {why}" for uri, why in report.unreadable)]
        code = 2 if report.unreadable else 0
        tell(code=code, status=report.status, said=said, failed=failed_attempts(session) - before)
    session.stop()


if __name__ == "__main__":
    main()
