"""Text from the traffic in, text that is safe for a terminal out.

1. Characters that could move the cursor, or change colours or the direction of writing, are escaped: control, format
   and private characters, lone surrogates and odd spaces.
2. Quoted text is a JSON string, so that a reader can tell "null" from null and see where a value ends.
"""

from __future__ import annotations

from typing import Final

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def safe(text: str) -> str:
    """Text with everything escaped that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def quoted(text: str) -> str:
    """Text in double quotes; backslashes and quotes are escaped too."""
    return '"' + safe(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
