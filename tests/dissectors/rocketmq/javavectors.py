"""The vectors that RocketMQ's own Java classes made (vectors/README.md), line by line."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "vectors"


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a file; ``frame``, ``bytes``, ``body`` and ``plain`` as bytes."""
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        yield {
            key: base64.b64decode(value) if key in ("frame", "bytes", "body", "plain") else value
            for key, value in found.items()
        }
