"""The size of a frame that needs no other proof."""

from __future__ import annotations


class ProvenSize(int):
    """A size from ``probe`` whose head alone proves the frame, even if the bytes after it were lost."""
