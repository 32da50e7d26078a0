"""Redacted and undecoded bytes in, their HMAC-SHA256 out: equal bytes have equal hashes, and no guess can be checked.

1. The key is random for each run, unless the user gives a file. It is in no output, log, plan or manifest, and is never
   pickled: tasks of the batch job read it from a private file (``batch.taskkeys``).
2. The hash is what ``openssl dgst -sha256 -hmac "$(cat FILE)"`` prints (RFC 2104).
3. Goldens are compared with each other: their key is ``PUBLISHED``, which hides nothing from who wants to guess.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, NoReturn, Self

KEY_MIN: Final = 16
"""Bytes: a shorter key can be found by trying all."""
KEY_MAX: Final = 4096
"""Bytes: a longer file is something else, such as a capture."""
_RANDOM: Final = 32
_BLOCK: Final = 64
"""Bytes of a block of SHA-256 (RFC 2104: B)."""
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class HashKeyError(Exception):
    """A file that is no key; the text is the rest of a sentence that names the file."""


class HashKey:
    """The key of a run."""

    __slots__ = ("_inner", "_key", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._key = key
        self._inner = sha256(padded.translate(_INNER))
        self._outer = sha256(padded.translate(_OUTER))

    @classmethod
    def random(cls) -> Self:
        """A key for one run."""
        return cls(token_hex(_RANDOM).encode())

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> Self:
        """The key in a file, without the end of its line; OSError, or HashKeyError if it cannot be a key."""
        with Path(path).open("rb") as stream:
            key = stream.read(KEY_MAX + 2).removesuffix(b"\n").removesuffix(b"\r")
        if len(key) > KEY_MAX:
            raise HashKeyError(f"holds more than {KEY_MAX:,} bytes, which is no key")
        if len(key) < KEY_MIN:
            raise HashKeyError(f"holds {len(key)} bytes; a key has {KEY_MIN} or more: openssl rand -hex 32 makes one")
        return cls(key)

    def hash(self, data: bytes) -> str:
        """HMAC-SHA256 of bytes, in hex. Hot where payload is redacted: hmac.digest takes four times as long."""
        inner = self._inner.copy()
        inner.update(data)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.hexdigest()

    def about(self) -> str:
        """What tells keys apart, and tells nothing of them: part of the digest of a batch run."""
        return self.hash(b"mqsniff: which key")[:16]

    def copy_to(self, path: Path) -> None:
        """Write the key into a file of ours that is there already."""
        path.write_bytes(self._key + b"\n")

    def __repr__(self) -> str:
        return "HashKey(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a hash key does not travel")


PUBLISHED: Final = HashKey(b"mqsniff: goldens are compared, so this key is no secret")
"""The key of goldens, unless the user gives another."""


def others_can_read(path: str | os.PathLike[str]) -> bool:
    """Whether other users of this machine can read a file; a pipe has no such permissions."""
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))
