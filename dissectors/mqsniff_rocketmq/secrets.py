"""Names and texts of which RocketMQ's bodies are full, and which of them hold what must not be shown."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"pass(?:word|wd|phrase)|secret|token|credential|jaas|signature|private_?key", re.IGNORECASE)
_TEXT: Final = re.compile(
    r"\b(?:[\w.-]*(?:password|passwd|secret|token)[\w.-]*)[\"']?\s*[:=]|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Whether a property, key or field of this name holds a secret. AccessKey does not."""
    return _NAME.search(name) is not None


def holds_secret(text: str) -> bool:
    """Whether a text holds a secret of its own: JSON or pairs that name one, credentials in a URI."""
    return _TEXT.search(text) is not None
