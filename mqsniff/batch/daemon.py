"""``-m mqsniff.batch.daemon``: what Spark forks Python workers from, in sessions of our own on this machine.

What workers import is what they cost, in each of them: half a second of CPU time and a fifth of the memory.

1. PySpark is imported from where it is installed, not from the archive beside it: Python keeps nothing of what it
   compiles of an archive, and lists the archive anew for every worker.
2. There is no pandas. pyarrow imports it, where it is installed, at the first array that it makes out of Python
   objects, to see whether they are pandas'; ours never are.
3. Everything else is PySpark's own daemon. Nothing is imported before the fork that may start a thread.
"""

from __future__ import annotations

import importlib.machinery
import sys
from typing import Final

ARCHIVE: Final = "pyspark.zip"


def installed_first(path: list[str]) -> list[str]:
    """Where to import from without PySpark's archive; the same where it is not installed otherwise."""
    others = [entry for entry in path if not entry.endswith(ARCHIVE)]
    return others if importlib.machinery.PathFinder.find_spec("pyspark", others) is not None else path


class NoPandas:
    """What Python asks first where a module comes from."""

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> None:
        """ModuleNotFoundError for pandas; others are found by others."""
        if name == "pandas":
            raise ModuleNotFoundError("no pandas here: mqsniff needs none", name=name)


def main() -> None:
    """Serve Spark until it closes the door."""
    sys.path[:] = installed_first(sys.path)
    sys.meta_path.insert(0, NoPandas)
    from pyspark.daemon import manager  # noqa: PLC0415  # from the path as it is now

    manager()


if __name__ == "__main__":
    main()
