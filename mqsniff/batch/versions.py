"""What a process runs, in words: Python, mqsniff, and a digest of its protocol data, to compare tasks with the driver.

The digest covers what the packages that decode hold beside their code: data is built, and may be older than its code.
"""

from __future__ import annotations

import platform
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mqsniff import __version__
from mqsniff.decode.registry import GROUP

_CODE: Final = frozenset((".py", ".pyc", ".pyi", ".so"))


@cache
def versions() -> dict[str, str]:
    """Name -> version, of what has to be the same everywhere."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"Python": python, "mqsniff": __version__, "protocol data": _digest()}


def difference(theirs: dict[str, str]) -> str | None:
    """What is not the same there as here, in words; None where all is."""
    ours = versions()
    differing = [f"{name} {theirs.get(name)}, not {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
    return ", ".join(differing) or None


def _digest() -> str:
    """A digest of the data files of all packages that hold dissectors."""
    digest = blake2b(digest_size=6)
    for name in sorted({point.module.partition(".")[0] for point in entry_points(group=GROUP)}):
        spec = find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file() and path.suffix not in _CODE:
                    digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
