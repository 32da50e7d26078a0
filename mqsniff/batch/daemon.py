"""``-m mqsniff.batch.daemon``: PySpark's worker daemon with fewer imports, for our own sessions on this machine.

Imports cost each worker half a second of CPU time and a fifth of its memory.

1. PySpark is imported from its installed folder, not from the zip archive beside it: Python does not cache modules that
   it compiles from an archive, and lists the archive for every worker.
2. pandas is hidden. pyarrow imports it, if installed, with the first array that it makes of Python objects, to check
   whether they are pandas objects; ours never are.
3. The rest is PySpark's own daemon. Nothing that may start a thread is imported before the fork.
"""

from __future__ import annotations

import importlib.machinery
import sys
from typing import Final

ARCHIVE: Final = "pyspark.zip"


def installed_first(path: list[str]) -> list[str]:
    """The import path without PySpark's archive, if PySpark is installed elsewhere on it; else unchanged."""
    others = [entry for entry in path if not entry.endswith(ARCHIVE)]
    return others if importlib.machinery.PathFinder.find_spec("pyspark", others) is not None else path


class NoPandas:
    """An import finder that hides pandas."""

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> None:
        """ModuleNotFoundError for pandas; None leaves other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("no pandas here: mqsniff needs none", name=name)


def main() -> None:
    """Run PySpark's worker daemon."""
    sys.path[:] = installed_first(sys.path)
    sys.meta_path.insert(0, NoPandas)
    from pyspark.daemon import manager  # noqa: PLC0415  # from the path as it is now

    manager()


if __name__ == "__main__":
    main()
