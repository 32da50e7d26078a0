"""Where inputs are kept: corpus and findings of long runs, and the findings that every test run tries again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from .judging import Finding, Target

HOME = Path(__file__).parent
ROOT = HOME.parents[1]
KEPT = HOME / "findings"
"""What was found and corrected: ``findings/TARGET/NAME``, tried again by every test run."""
FOLDER = Path(os.environ.get("MQSNIFF_FUZZ", ROOT / "build" / "fuzz"))
"""``TARGET/corpus`` and ``TARGET/found`` of long runs, and ``figures.jsonl``; MQSNIFF_FUZZ names another place."""


def corpus_of(target: Target) -> Path:
    """The folder of inputs that lead to different places; made of the seeds where it is new."""
    folder = FOLDER / target.name / "corpus"
    if not folder.is_dir():
        folder.mkdir(parents=True)
        for seed in target.seeds():
            if len(seed) <= target.size_max:
                keep(folder, seed)
    return folder


def inputs_in(folder: Path) -> list[bytes]:
    """All inputs of a folder, in the order of their names."""
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def kept(name: str) -> dict[str, bytes]:
    """What was found of a target before, by file name."""
    folder = KEPT / name
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.is_dir() else {}


def keep(folder: Path, data: bytes) -> Path:
    """Write an input under a name that its bytes give."""
    path = folder / sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


class FoundInputs:
    """What a run has found, one input for each signature: the smallest."""

    def __init__(self, target: Target) -> None:
        self._folder = FOLDER / target.name / "found"
        self._sizes: dict[str, int] = {}

    @property
    def signatures(self) -> Iterable[str]:
        """What differs."""
        return self._sizes

    def add(self, finding: Finding, data: bytes) -> None:
        """Keep an input if it is the first, or smaller than those that fail alike."""
        if len(data) >= self._sizes.get(finding.signature, len(data) + 1):
            return
        self._sizes[finding.signature] = len(data)
        self._folder.mkdir(parents=True, exist_ok=True)
        name = sha256(finding.signature.encode()).hexdigest()[:12]
        (self._folder / name).write_bytes(data)
        (self._folder / f"{name}.txt").write_text(f"{finding.signature}\n\n{finding.text}")
