"""Framing once for all protocols: ``FramedDissector`` is what authors write on."""

from mqsniff.framing.framed import FramedDissector

__all__ = ["FramedDissector"]
